// A stand-in for libhipplan.so.0: a version, a current device for each thread, and contexts that are only told apart.
#include <stdint.h>
#include <stddef.h>
#include <string.h>

static __thread int32_t device;
static char contexts[64];

#ifndef WITHOUT_VERSION
uint32_t hipplan_version(void) { return VERSION; }
#endif

void fake_set_device(int32_t to) { device = to; }
int32_t hipplan_hip_current_device(int32_t *ordinal) {
    *ordinal = device;
    return 0;
}

struct options {
    size_t struct_size;
    const char *const *stores;
    size_t store_count;
    const char *device;
    uint32_t flags;
    uint32_t reserved;
};

int32_t hipplan_open(const struct options *options, void **context) {
    if (options->struct_size != sizeof *options || options->flags != 2 || options->reserved != 0) return 1;
    if (strcmp(options->device, "hip:13") == 0) return 4;
    if (options->store_count == 2 && (strcmp(options->stores[0], "/a") || strcmp(options->stores[1], "/b"))) return 1;
    *context = &contexts[(unsigned char)options->device[4] % 64];
    return 0;
}

const char *hipplan_last_error(void) { return "fake: no"; }

// What everything else returns: nothing works, or what is asked for.
#ifndef RESULT
#define RESULT 10
#endif
#define NOTHING(name) int32_t name(void) { return RESULT; }
NOTHING(hipplan_find)
NOTHING(hipplan_bind_by_graph)
NOTHING(hipplan_compile)
NOTHING(hipplan_plan_workspace_size)
NOTHING(hipplan_execute)
#ifndef WITHOUT_PLAN_KEY
NOTHING(hipplan_plan_key)
#endif
