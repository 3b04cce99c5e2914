/* What a first forwarded call consists of, through the C API alone:
 *
 *   parts LIBHIPPLAN STORE GRAPH-KEY
 *
 * Prints microseconds: dlopen, open (store and device), bind (plan read and checked, module loaded), execute (first launch), again. */
#include <dlfcn.h>
#include <hip/hip_runtime_api.h>
#include <stdint.h>
#include <string.h>

#include "../../capi/include/hipplan.h"
#include "check.h"

#define FUNCTION(name) __typeof__(&name) name##_ = (__typeof__(&name))dlsym(library, #name)

int main(int argc, char** argv) {
    if (argc != 4 || strlen(argv[3]) != 64)
        return 64;
    void* memory[3];
    /* The runtime is there already in a program that uses MIOpen. */
    for (int i = 0; i < 3; i++)
        CHECK(hipMalloc(&memory[i], 1 << 20));
    double start = now();
    void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 3;
    }
    FUNCTION(hipplan_open);
    FUNCTION(hipplan_bind_by_key);
    FUNCTION(hipplan_execute);
    double loaded = now();
    const char* stores[] = {argv[2]};
    hipplan_open_options_t options;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.stores = stores;
    options.store_count = 1;
    options.flags = HIPPLAN_OPEN_READ_ONLY;
    hipplan_t* context;
    CHECK(hipplan_open_(&options, &context));
    double opened = now();
    hipplan_key_t key;
    for (int i = 0; i < 32; i++) {
        char digits[3] = {argv[3][2 * i], argv[3][2 * i + 1], 0};
        key.bytes[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
    hipplan_plan_t* plan;
    CHECK(hipplan_bind_by_key_(context, &key, NULL, &plan));
    double bound = now();
    hipplan_binding_t bindings[3] = {{0, memory[0]}, {1, memory[1]}, {2, memory[2]}};
    CHECK(hipplan_execute_(plan, bindings, 3, NULL, 0, NULL, NULL));
    double executed = now();
    CHECK(hipplan_execute_(plan, bindings, 3, NULL, 0, NULL, NULL));
    double again = now();
    printf("dlopen %.1f open %.1f bind %.1f execute %.1f again %.1f\n", loaded - start, opened - loaded, bound - opened, executed - bound,
           again - executed);
    return 0;
}
