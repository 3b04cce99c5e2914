/* The C API on a HIP device: RUNTIME STORE GRAPH [compile], RUNTIME being a HIP library that hipplan must find loaded. */
#include "check.h"

#include <dlfcn.h>
#include <pthread.h>

static int (*hipSetDevice)(int);
static int (*hipGetDevice)(int*);
static int (*hipMalloc)(void**, size_t);
static int (*hipFree)(void*);
static int (*hipMemcpy)(void*, const void*, size_t, int);
static int (*hipStreamCreateWithFlags)(void**, unsigned);
static int (*hipStreamSynchronize)(void*);
static int (*hipStreamDestroy)(void*);
static int (*configure)(const char*, const char*);
static uint64_t (*calls)(const char*);

static void* hip;

static void* find(const char* name) {
    void* symbol = dlsym(hip, name);
    if (!symbol)
        fprintf(stderr, "%s\n", name);
    CHECK(symbol);
    return symbol;
}

#define FIND(function, name) *(void**)&function = find(name)

static const float x[N] = {1, 2, 3, 4};

/* Memory of the current device. */
struct tensors {
    void *x, *y;
};

static struct tensors make_tensors(void) {
    struct tensors t;
    CHECK(hipMalloc(&t.x, sizeof x) == 0 && hipMalloc(&t.y, sizeof x) == 0);
    CHECK(hipMemcpy(t.x, x, sizeof x, 1) == 0);
    return t;
}

static int is_result(const struct tensors* t, float alpha, float beta) {
    float y[N];
    int i;
    CHECK(hipMemcpy(y, t->y, sizeof y, 2) == 0);
    for (i = 0; i < N; i++)
        if (y[i] != x[i] * alpha + beta)
            return 0;
    return 1;
}

static int current(void) {
    int device = -1;
    CHECK(hipGetDevice(&device) == 0);
    return device;
}

static void execute(hipplan_plan_t* plan) {
    struct tensors t = make_tensors();
    float alpha = 2, beta = 1, ms = -1;
    hipplan_binding_t bindings[4];
    hipplan_execute_options_t options;
    void *stream, *workspace = NULL;
    size_t size = (size_t)hipplan_plan_workspace_size(plan);
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    bindings[0].uid = X, bindings[0].pointer = t.x;
    bindings[1].uid = Y, bindings[1].pointer = t.y;
    bindings[2].uid = ALPHA, bindings[2].pointer = &alpha;
    bindings[3].uid = BETA, bindings[3].pointer = &beta;
    CHECK(hipStreamCreateWithFlags(&stream, 0) == 0);
    if (size)
        CHECK(hipMalloc(&workspace, size) == 0);

    GOOD(hipplan_execute(plan, bindings, 3, workspace, size, NULL, NULL));
    CHECK(hipStreamSynchronize(NULL) == 0 && is_result(&t, 2, 0.25f));
    /* The scalar is read during the call, though the kernel runs later. */
    CHECK(configure("DEFERRED", "1") == 0);
    alpha = 4;
    GOOD(hipplan_execute(plan, bindings, 4, workspace, size, stream, NULL));
    alpha = 99, beta = 99;
    CHECK(hipStreamSynchronize(stream) == 0 && is_result(&t, 4, 0.25f));
    beta = 1, alpha = -1;
    options.flags = HIPPLAN_EXECUTE_OVERRIDE;
    GOOD(hipplan_execute(plan, bindings, 4, workspace, size, stream, &options));
    alpha = 99, beta = 99;
    CHECK(hipStreamSynchronize(stream) == 0 && is_result(&t, -1, 1));
    /* Timed, it waits. */
    options.flags = 0, options.kernel_ms = &ms, alpha = 3;
    GOOD(hipplan_execute(plan, bindings, 3, workspace, size, stream, &options));
    CHECK(ms > 0 && ms < 60000 && is_result(&t, 3, 0.25f));
    CHECK(configure("DEFERRED", "0") == 0);

    FAILS(hipplan_execute(plan, bindings, 2, workspace, size, stream, NULL), HIPPLAN_INVALID_ARGUMENT, "uid 20");
    CHECK(configure("FAIL", "hipModuleLaunchKernel:1:1") == 0);
    FAILS(hipplan_execute(plan, bindings, 3, workspace, size, stream, NULL), HIPPLAN_DEVICE, "hipModuleLaunchKernel failed");
    CHECK(configure("FAIL", "hipEventRecord:1:400") == 0);
    ms = -1;
    FAILS(hipplan_execute(plan, bindings, 3, workspace, size, stream, &options), HIPPLAN_DEVICE, "hipEventRecord failed");
    CHECK(ms == -1);
    GOOD(hipplan_execute(plan, bindings, 3, workspace, size, stream, &options));
    CHECK(ms > 0);

    CHECK(hipStreamSynchronize(stream) == 0 && hipStreamDestroy(stream) == 0);
    CHECK(hipFree(t.x) == 0 && hipFree(t.y) == 0);
    if (workspace)
        CHECK(hipFree(workspace) == 0);
}

static hipplan_plan_t* shared;

static void* worker(void* argument) {
    float alpha = (float)*(int*)argument;
    hipplan_binding_t bindings[3];
    struct tensors t;
    void* stream;
    int i;
    CHECK(hipSetDevice(1) == 0);
    t = make_tensors();
    CHECK(hipStreamCreateWithFlags(&stream, 0) == 0);
    bindings[0].uid = X, bindings[0].pointer = t.x;
    bindings[1].uid = ALPHA, bindings[1].pointer = &alpha;
    bindings[2].uid = Y, bindings[2].pointer = t.y;
    for (i = 0; i < 300; i++) {
        GOOD(hipplan_execute(shared, bindings, 3, NULL, 0, stream, NULL));
        CHECK(hipStreamSynchronize(stream) == 0 && is_result(&t, alpha, 0.25f));
    }
    CHECK(hipStreamDestroy(stream) == 0 && hipFree(t.x) == 0 && hipFree(t.y) == 0);
    return NULL;
}

int main(int argc, char** argv) {
    size_t size;
    void* graph;
    int32_t device = -1;
    hipplan_t *library, *other;
    hipplan_plan_t *plan, *second;
    hipplan_counters_t counters;
    uint64_t loads;
    pthread_t all[6];
    int numbers[6], i;
    CHECK(argc >= 4);
    hip = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    CHECK(hip);
    FIND(hipSetDevice, "hipSetDevice");
    FIND(hipGetDevice, "hipGetDevice");
    FIND(hipMalloc, "hipMalloc");
    FIND(hipFree, "hipFree");
    FIND(hipMemcpy, "hipMemcpy");
    FIND(hipStreamCreateWithFlags, "hipStreamCreateWithFlags");
    FIND(hipStreamSynchronize, "hipStreamSynchronize");
    FIND(hipStreamDestroy, "hipStreamDestroy");
    FIND(configure, "hipplan_host_configure");
    FIND(calls, "hipplan_host_calls");
    graph = read_file(argv[3], &size);

    /* The calling thread's device, of the runtime that is loaded. */
    GOOD(hipplan_hip_current_device(&device));
    CHECK(device == 0);
    CHECK(hipSetDevice(1) == 0);
    GOOD(hipplan_hip_current_device(&device));
    CHECK(device == 1);
    FAILS(hipplan_hip_current_device(NULL), HIPPLAN_INVALID_ARGUMENT, "ordinal is null");
    library = open_stores((const char* const*)&argv[2], 1, NULL, 0);
    if (argc > 4) {
        FAILS(hipplan_bind_by_graph(library, graph, size, NULL, &plan), HIPPLAN_MISS, "gfx942");
        GOOD(hipplan_compile(library, graph, size));
        GOOD(hipplan_compile(library, graph, size));
    }
    loads = calls("hipModuleLoadData");
    GOOD(hipplan_bind_by_graph(library, graph, size, NULL, &plan));
    GOOD(hipplan_bind_by_graph(library, graph, size, NULL, &second));
    loads = calls("hipModuleLoadData") - loads;
    execute(plan);
    execute(second);
    CHECK(current() == 1);
    /* The device of the plan is not that of the thread: it is left as it was. */
    {
        struct tensors t = make_tensors();
        hipplan_binding_t bindings[3];
        float alpha = 8;
        bindings[0].uid = X, bindings[0].pointer = t.x;
        bindings[1].uid = ALPHA, bindings[1].pointer = &alpha;
        bindings[2].uid = Y, bindings[2].pointer = t.y;
        CHECK(hipSetDevice(0) == 0);
        GOOD(hipplan_execute(plan, bindings, 3, NULL, 0, NULL, NULL));
        CHECK(current() == 0 && hipSetDevice(1) == 0);
        CHECK(is_result(&t, 8, 0.25f));
        CHECK(hipFree(t.x) == 0 && hipFree(t.y) == 0);
    }
    shared = plan;
    for (i = 0; i < 6; i++) {
        numbers[i] = i;
        CHECK(pthread_create(&all[i], NULL, worker, &numbers[i]) == 0);
    }
    for (i = 0; i < 6; i++)
        CHECK(pthread_join(all[i], NULL) == 0);

    memset(&counters, 0, sizeof counters);
    counters.struct_size = sizeof counters;
    GOOD(hipplan_counters(library, &counters));
    CHECK(counters.binds == 2 && counters.module_loads == 1 && loads == 1);
    CHECK(counters.executions == 2 * 5 + 1 + 6 * 300 && counters.failures == 2 * 3);
    CHECK(counters.compiles == (argc > 4));
    other = open_stores((const char* const*)&argv[2], 1, "hip:0", HIPPLAN_OPEN_READ_ONLY);
    hipplan_close(other);
    hipplan_close(library);
    hipplan_release(second);
    hipplan_release(plan);

    /* What no device is, and what has failed for good. */
    {
        hipplan_open_options_t options;
        memset(&options, 0, sizeof options);
        options.struct_size = sizeof options;
        options.device = "hip:2";
        FAILS(hipplan_open(&options, &library), HIPPLAN_DEVICE, "there is no HIP device 2");
    }
    free(graph);
    return 0;
}
