/* Stands in for libhipplan_miopen.so.0: checks the table, and replaces miopenAdd if MIOPEN_HIPDNN_FORWARDING asks for it. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct entry { const char *name; const void **slot; const void *implementation; };
struct table {
    uint32_t magic, version, count, entry_size;
    const struct entry *entries;
    void *slots;
    uint64_t slots_size;
    const char *private_soname;
};

static int (*original)(int, int);
static int replacement(int a, int b) { return 1000 + original(a, b); }

static void die(const char *what)
{
    fprintf(stderr, "shim: %s\n", what);
    abort();
}

void miopen_forwarding_attach(const struct table *t)
{
    if (memcmp(&t->magic, "HPWT", 4) || t->version != 1 || t->entry_size != sizeof(struct entry) || !t->count) die("header");
    if ((uintptr_t)t->slots % 4096 || t->slots_size % 65536 || !strstr(t->private_soname, "_private.so")) die("slots");
    for (uint32_t i = 0; i < t->count; ++i) {
        const struct entry *e = &t->entries[i];
        if (i && strcmp(e[-1].name, e->name) >= 0) die("order");
        if ((char *)e->slot < (char *)t->slots || (char *)e->slot >= (char *)t->slots + t->slots_size) die("slot");
        if (*e->slot != e->implementation || !e->implementation) die("implementation");
        if (!strcmp(e->name, "miopenGetLastForwardedError") && ((int (*)(void))e->implementation)() != 0) die("last error");
    }
    const char *on = getenv("MIOPEN_HIPDNN_FORWARDING");
    if (on && !strcmp(on, "enabled"))
        for (uint32_t i = 0; i < t->count; ++i)
            if (!strcmp(t->entries[i].name, "miopenAdd")) {
                original = (int (*)(int, int))t->entries[i].implementation;
                *t->entries[i].slot = (const void *)replacement;
            }
    if (mprotect(t->slots, t->slots_size, PROT_READ)) die("mprotect");
}
