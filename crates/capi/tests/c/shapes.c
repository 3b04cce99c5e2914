/* Execute-time shapes on the device cpu: STORE GRAPH FIXED, both graphs y = -|x| of 3 x 4. */
#include "check.h"

static float x[12], y[12];
static hipplan_binding_t bindings[2];
static hipplan_execute_options_t options;

static hipplan_plan_t* bind(const hipplan_t* library, const char* path) {
    size_t size;
    void* graph = read_file(path, &size);
    hipplan_plan_t* plan = NULL;
    GOOD(hipplan_bind_by_graph(library, graph, size, NULL, &plan));
    free(graph);
    return plan;
}

static hipplan_status_t execute(hipplan_plan_t* plan) {
    int i;
    for (i = 0; i < 12; i++)
        y[i] = 77;
    return hipplan_execute(plan, bindings, 2, NULL, 0, NULL, &options);
}

int main(int argc, char** argv) {
    int64_t uids[3] = {X, Y, X};
    uint32_t ranks[3] = {2, 2, 2};
    int64_t small[2] = {2, 3}, x_strides[2] = {1, 2}, y_strides[2] = {4, 1}, large[2] = {4, 3};
    const int64_t* dims[3];
    const int64_t* strides[3];
    hipplan_t* library;
    hipplan_plan_t *plan, *fixed;
    int i, round;
    CHECK(argc == 4);
    library = open_stores((const char* const*)&argv[1], 1, "cpu", 0);
    plan = bind(library, argv[2]);
    fixed = bind(library, argv[3]);
    for (i = 0; i < 12; i++)
        x[i] = (float)(i + 1);
    bindings[0].uid = X, bindings[0].pointer = x;
    bindings[1].uid = Y, bindings[1].pointer = y;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    dims[0] = dims[1] = dims[2] = small;
    strides[0] = strides[2] = x_strides, strides[1] = y_strides;
    options.override_uids = uids, options.override_ranks = ranks;
    options.override_dims = dims, options.override_strides = strides;

    /* Two rows of three, read by columns and written into the first of four columns; then the whole again. */
    for (round = 0; round < 3; round++) {
        options.override_count = 2;
        GOOD(execute(plan));
        for (i = 0; i < 12; i++)
            CHECK(y[i] == (i / 4 < 2 && i % 4 < 3 ? -(float)(1 + i / 4 + 2 * (i % 4)) : 77));
        options.override_count = 0;
        GOOD(execute(plan));
        for (i = 0; i < 12; i++)
            CHECK(y[i] == -x[i]);
    }

    /* A caller from before there were shapes. */
    options.struct_size = offsetof(hipplan_execute_options_t, override_count);
    options.override_count = 2;
    GOOD(execute(plan));
    CHECK(y[11] == -12);
    options.struct_size = sizeof options;

    FAILS(execute(fixed), HIPPLAN_INVALID_ARGUMENT, "is_override_shape_enabled");
    CHECK(y[0] == 77);
    dims[0] = large;
    FAILS(execute(plan), HIPPLAN_INVALID_ARGUMENT, "dim 0 is 4, the graph states 3");
    CHECK(strstr(hipplan_last_error(), "uid 10") && y[0] == 77);
    dims[0] = small;
    uids[1] = 40;
    FAILS(execute(plan), HIPPLAN_INVALID_ARGUMENT, "virtual");
    uids[1] = 41;
    FAILS(execute(plan), HIPPLAN_INVALID_ARGUMENT, "uid 41");
    uids[1] = X;
    FAILS(execute(plan), HIPPLAN_INVALID_ARGUMENT, "twice");
    uids[1] = Y;
    ranks[1] = 0;
    FAILS(execute(plan), HIPPLAN_INVALID_ARGUMENT, "has 0 dims");
    ranks[1] = 1u << 31;
    FAILS(execute(plan), HIPPLAN_INVALID_ARGUMENT, "uid 30 has 2147483648 dims");
    ranks[1] = 2;
    options.override_count = 1;
    FAILS(execute(plan), HIPPLAN_INVALID_ARGUMENT, "with the new shapes");
    options.override_count = 3;
    FAILS(execute(plan), HIPPLAN_INVALID_ARGUMENT, "override_count is 3");
    options.override_count = 2;
    strides[1] = NULL;
    FAILS(execute(plan), HIPPLAN_INVALID_ARGUMENT, "uid 30");
    strides[1] = y_strides;
    options.override_ranks = NULL;
    FAILS(execute(plan), HIPPLAN_INVALID_ARGUMENT, "override_ranks is null");
    options.override_ranks = ranks;
    GOOD(execute(plan));
    CHECK(y[0] == -1 && y[1] == -3);

    hipplan_release(plan);
    hipplan_release(fixed);
    hipplan_close(library);
    return 0;
}
