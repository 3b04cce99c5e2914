/* Sizes, offsets and numbers of hipplan.h, one a line. */
#include <hipplan.h>
#include <stdio.h>

#define SIZE(type) printf("sizeof " #type " %lu\n", (unsigned long)sizeof(type))
#define FIELD(type, field) \
    printf("offset " #type " " #field " %lu %lu\n", (unsigned long)offsetof(type, field), (unsigned long)sizeof(((type*)0)->field))
#define NUMBER(name) printf("number " #name " %ld\n", (long)(name))

int main(void) {
    SIZE(hipplan_status_t);
    SIZE(hipplan_key_t);
    FIELD(hipplan_key_t, bytes);
    SIZE(hipplan_open_options_t);
    FIELD(hipplan_open_options_t, struct_size);
    FIELD(hipplan_open_options_t, stores);
    FIELD(hipplan_open_options_t, store_count);
    FIELD(hipplan_open_options_t, device);
    FIELD(hipplan_open_options_t, flags);
    FIELD(hipplan_open_options_t, reserved);
    SIZE(hipplan_bind_options_t);
    FIELD(hipplan_bind_options_t, struct_size);
    FIELD(hipplan_bind_options_t, max_workspace);
    SIZE(hipplan_binding_t);
    FIELD(hipplan_binding_t, uid);
    FIELD(hipplan_binding_t, pointer);
    SIZE(hipplan_execute_options_t);
    FIELD(hipplan_execute_options_t, struct_size);
    FIELD(hipplan_execute_options_t, flags);
    FIELD(hipplan_execute_options_t, kernel_ms);
    FIELD(hipplan_execute_options_t, override_count);
    FIELD(hipplan_execute_options_t, override_uids);
    FIELD(hipplan_execute_options_t, override_ranks);
    FIELD(hipplan_execute_options_t, override_dims);
    FIELD(hipplan_execute_options_t, override_strides);
    SIZE(hipplan_counters_t);
    FIELD(hipplan_counters_t, struct_size);
    FIELD(hipplan_counters_t, lookups);
    FIELD(hipplan_counters_t, hits);
    FIELD(hipplan_counters_t, misses);
    FIELD(hipplan_counters_t, compiles);
    FIELD(hipplan_counters_t, binds);
    FIELD(hipplan_counters_t, module_loads);
    FIELD(hipplan_counters_t, executions);
    FIELD(hipplan_counters_t, failures);
    NUMBER(HIPPLAN_VERSION_MAJOR);
    NUMBER(HIPPLAN_VERSION_MINOR);
    NUMBER(HIPPLAN_OK);
    NUMBER(HIPPLAN_INVALID_ARGUMENT);
    NUMBER(HIPPLAN_MISS);
    NUMBER(HIPPLAN_UNSUPPORTED);
    NUMBER(HIPPLAN_STORE);
    NUMBER(HIPPLAN_PLAN);
    NUMBER(HIPPLAN_DEVICE);
    NUMBER(HIPPLAN_OUT_OF_MEMORY);
    NUMBER(HIPPLAN_WORKSPACE);
    NUMBER(HIPPLAN_COMPILE);
    NUMBER(HIPPLAN_INTERNAL);
    NUMBER(HIPPLAN_WRONG_TARGET);
    NUMBER(HIPPLAN_STALE);
    NUMBER(HIPPLAN_UNREADABLE);
    NUMBER(HIPPLAN_OPEN_READ_ONLY);
    NUMBER(HIPPLAN_OPEN_DEGRADE);
    NUMBER(HIPPLAN_OPEN_REQUIRE_PRECOMPILED);
    NUMBER(HIPPLAN_EXECUTE_OVERRIDE);
    NUMBER(HIPPLAN_LOG_ERROR);
    NUMBER(HIPPLAN_LOG_WARNING);
    return 0;
}
