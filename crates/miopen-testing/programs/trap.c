/* A library to be preloaded: the private library's Find, Run and Immediate functions end the process, so that nothing that is forwarded can
 * fall through to them. Stands between wrapper and shim library: the shim library gets a table with traps. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct Entry {
    const char* name;
    void** slot;
    void* implementation;
};

struct Table {
    uint32_t magic, version, count, entry_size;
    struct Entry* entries;
    void* slots;
    uint64_t slots_size;
    const char* private_soname;
};

static void trap(void) {
    static const char text[] = "trap: the private library was called\n";
    if (write(2, text, sizeof text - 1) < 0)
        _exit(98);
    _exit(99);
}

static int is_trapped(const char* name) {
    if (!strncmp(name, "miopenFindConvolution", 21))
        return 1;
    static const char* const exact[] = {"miopenConvolutionForward", "miopenConvolutionBackwardData", "miopenConvolutionBackwardWeights",
                                        "miopenConvolutionForwardImmediate", "miopenConvolutionBackwardDataImmediate",
                                        "miopenConvolutionBackwardWeightsImmediate"};
    for (size_t i = 0; i < sizeof exact / sizeof *exact; i++)
        if (!strcmp(name, exact[i]))
            return 1;
    return 0;
}

void miopen_forwarding_attach(const struct Table* table) {
    /* Kept for the life of the process, as the wrapper's own is. */
    struct Table* copy = malloc(sizeof *copy);
    *copy = *table;
    copy->entries = malloc(table->count * sizeof *copy->entries);
    memcpy(copy->entries, table->entries, table->count * sizeof *copy->entries);
    int trapped = 0;
    for (uint32_t i = 0; i < copy->count; i++)
        if (is_trapped(copy->entries[i].name)) {
            copy->entries[i].implementation = (void*)trap;
            trapped++;
        }
    fprintf(stderr, "trapped %d\n", trapped);
    void (*next)(const struct Table*) = (void (*)(const struct Table*))dlsym(RTLD_NEXT, "miopen_forwarding_attach");
    if (!next) {
        fprintf(stderr, "trap: no shim library behind: %s\n", dlerror());
        _exit(97);
    }
    next(copy);
}
