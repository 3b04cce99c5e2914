/* The C API on the device cpu: STORE OTHER GRAPH GRAPH_KEY ORDINALS, where ORDINALS is x,alpha,beta,y. */
#include "check.h"

#include <pthread.h>

static const float x[N] = {1, 2, 3, 4};

/* A graph that no store here has a plan of. */
static const char other_graph[] =
    "{\"name\": \"\", \"compute_data_type\": \"float\", \"intermediate_data_type\": \"float\", \"io_data_type\": \"float\","
    " \"tensors\": ["
    "  {\"uid\": 1, \"name\": \"x\", \"data_type\": \"float\", \"dims\": [77], \"strides\": [1], \"virtual\": false},"
    "  {\"uid\": 2, \"name\": \"y\", \"data_type\": \"float\", \"dims\": [77], \"strides\": [1], \"virtual\": false}],"
    " \"nodes\": [{\"name\": \"n\", \"type\": \"PointwiseAttributes\", \"compute_data_type\": \"float\","
    "  \"inputs\": {\"operation\": \"neg\", \"in_0_tensor_uid\": 1}, \"outputs\": {\"out_0_tensor_uid\": 2}}]}";

static void read_key(const char* digits, hipplan_key_t* key) {
    size_t i;
    CHECK(strlen(digits) == 64);
    for (i = 0; i < 32; i++) {
        unsigned byte;
        CHECK(sscanf(digits + 2 * i, "%2x", &byte) == 1);
        key->bytes[i] = (uint8_t)byte;
    }
}

static int is_result(const float* y, float alpha, float beta) {
    int i;
    for (i = 0; i < N; i++)
        if (y[i] != x[i] * alpha + beta)
            return 0;
    return 1;
}

static void versions_and_names(void) {
    CHECK(hipplan_version() == (HIPPLAN_VERSION_MAJOR << 16 | HIPPLAN_VERSION_MINOR));
    CHECK(strcmp(hipplan_status_name(HIPPLAN_WORKSPACE), "HIPPLAN_WORKSPACE") == 0);
    CHECK(strcmp(hipplan_status_name(-1), "an unknown status") == 0);
    CHECK(strcmp(hipplan_last_error(), "") == 0);
}

static void opening(const char* store, const char* file) {
    /* One structure as this library has it, and room for a later version's fields. */
    struct {
        hipplan_open_options_t known;
        uint64_t later[4];
    } options;
    const char* stores[2];
    hipplan_t* library = (hipplan_t*)&options;
    stores[0] = store;
    stores[1] = NULL;
    memset(&options, 0, sizeof options);
    options.known.struct_size = sizeof options.known;
    options.known.stores = stores;
    options.known.store_count = 1;
    options.known.device = "cpu";

    FAILS(hipplan_open(&options.known, NULL), HIPPLAN_INVALID_ARGUMENT, "library is null");
    options.known.struct_size = sizeof options.known - 1;
    FAILS(hipplan_open(&options.known, &library), HIPPLAN_INVALID_ARGUMENT, "struct_size is 39");
    CHECK(!library);
    options.known.struct_size = 0;
    FAILS(hipplan_open(&options.known, &library), HIPPLAN_INVALID_ARGUMENT, "sizeof(hipplan_open_options_t)");
    options.known.struct_size = (size_t)-1;
    FAILS(hipplan_open(&options.known, &library), HIPPLAN_INVALID_ARGUMENT, "struct_size");
    options.known.struct_size = sizeof options;
    options.known.reserved = 1;
    FAILS(hipplan_open(&options.known, &library), HIPPLAN_INVALID_ARGUMENT, "reserved is 0x1");
    options.known.reserved = 0;
    GOOD(hipplan_open(&options.known, &library));
    hipplan_close(library);
    options.later[3] = 1;
    FAILS(hipplan_open(&options.known, &library), HIPPLAN_INVALID_ARGUMENT, "must be zero");
    options.known.struct_size = sizeof options.known;
    options.known.flags = 1u << 31;
    FAILS(hipplan_open(&options.known, &library), HIPPLAN_INVALID_ARGUMENT, "0x80000000");
    options.known.flags = 0;
    options.known.device = "gpu";
    FAILS(hipplan_open(&options.known, &library), HIPPLAN_INVALID_ARGUMENT, "names no device");
    options.known.device = "hip:0"; /* HIPPLAN_HIP_LIBRARY names nothing */
    FAILS(hipplan_open(&options.known, &library), HIPPLAN_DEVICE, "no HIP runtime can be loaded");
    options.known.device = NULL;
    FAILS(hipplan_open(&options.known, &library), HIPPLAN_DEVICE, "no HIP runtime can be loaded");
    options.known.device = "cpu";
    options.known.store_count = 2;
    FAILS(hipplan_open(&options.known, &library), HIPPLAN_INVALID_ARGUMENT, "stores: text 1 is null");
    stores[1] = "";
    FAILS(hipplan_open(&options.known, &library), HIPPLAN_INVALID_ARGUMENT, "store 1 is empty");
    stores[1] = file;
    FAILS(hipplan_open(&options.known, &library), HIPPLAN_STORE, file);
    options.known.stores = NULL;
    FAILS(hipplan_open(&options.known, &library), HIPPLAN_INVALID_ARGUMENT, "stores");
    CHECK(!library);
    hipplan_close(NULL);
    hipplan_release(NULL);
}

static void keys(const void* graph, size_t size, const hipplan_key_t* expected) {
    hipplan_key_t key;
    char* copy = (char*)malloc(size + 1);
    CHECK(copy);
    GOOD(hipplan_graph_key(graph, size, &key));
    CHECK(memcmp(&key, expected, sizeof key) == 0);
    memcpy(copy + 1, graph, size);
    memset(&key, 0, sizeof key);
    GOOD(hipplan_graph_key(copy + 1, size, &key));
    CHECK(memcmp(&key, expected, sizeof key) == 0);
    FAILS(hipplan_graph_key(copy + 1, size - 1, &key), HIPPLAN_INVALID_ARGUMENT, "graph");
    FAILS(hipplan_graph_key(copy, 0, &key), HIPPLAN_INVALID_ARGUMENT, "empty");
    FAILS(hipplan_graph_key(NULL, 0, &key), HIPPLAN_INVALID_ARGUMENT, "graph");
    FAILS(hipplan_graph_key(graph, (size_t)-1, &key), HIPPLAN_INVALID_ARGUMENT, "graph");
    FAILS(hipplan_graph_key(graph, size, NULL), HIPPLAN_INVALID_ARGUMENT, "key is null");
    free(copy);
}

static void by_value(hipplan_plan_t* plan) {
    float y[N], alpha = 2, beta = 1;
    hipplan_binding_t bindings[200];
    hipplan_execute_options_t options;
    float ms = -1;
    int i;
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    bindings[0].uid = Y, bindings[0].pointer = y;
    bindings[1].uid = X, bindings[1].pointer = (void*)x;
    bindings[2].uid = ALPHA, bindings[2].pointer = &alpha;
    bindings[3].uid = BETA, bindings[3].pointer = &beta;

    /* The default; an entry is ignored; an override is not, and is forgotten. */
    GOOD(hipplan_execute(plan, bindings, 3, NULL, 0, NULL, NULL));
    CHECK(is_result(y, 2, 0.25f));
    alpha = -3;
    GOOD(hipplan_execute(plan, bindings, 4, NULL, 0, NULL, &options));
    CHECK(is_result(y, -3, 0.25f));
    options.flags = HIPPLAN_EXECUTE_OVERRIDE;
    GOOD(hipplan_execute(plan, bindings, 4, NULL, 0, NULL, &options));
    CHECK(is_result(y, -3, 1));
    GOOD(hipplan_execute(plan, bindings, 3, NULL, 0, NULL, &options));
    CHECK(is_result(y, -3, 0.25f));
    bindings[3].pointer = NULL;
    FAILS(hipplan_execute(plan, bindings, 4, NULL, 0, NULL, &options), HIPPLAN_INVALID_ARGUMENT, "its pointer is null");
    options.flags = 0;
    GOOD(hipplan_execute(plan, bindings, 4, NULL, 0, NULL, &options));

    options.kernel_ms = &ms;
    GOOD(hipplan_execute(plan, bindings, 3, NULL, 0, NULL, &options));
    CHECK(ms > 0 && ms < 60000);
    options.kernel_ms = NULL;
    options.flags = 2;
    FAILS(hipplan_execute(plan, bindings, 3, NULL, 0, NULL, &options), HIPPLAN_INVALID_ARGUMENT, "flags are 0x2");
    options.struct_size = 8;
    FAILS(hipplan_execute(plan, bindings, 3, NULL, 0, NULL, &options), HIPPLAN_INVALID_ARGUMENT, "hipplan_execute_options_t");

    /* What is missing is named, and nothing is written. */
    y[0] = 77;
    FAILS(hipplan_execute(plan, bindings, 2, NULL, 0, NULL, NULL), HIPPLAN_INVALID_ARGUMENT, "uid 20");
    CHECK(strstr(hipplan_last_error(), "\"alpha\"") && y[0] == 77);
    FAILS(hipplan_execute(plan, bindings + 1, 2, NULL, 0, NULL, NULL), HIPPLAN_INVALID_ARGUMENT, "uid 30");
    FAILS(hipplan_execute(plan, NULL, 0, NULL, 0, NULL, NULL), HIPPLAN_INVALID_ARGUMENT, "not in the variant pack");
    FAILS(hipplan_execute(plan, NULL, 1, NULL, 0, NULL, NULL), HIPPLAN_INVALID_ARGUMENT, "1 bindings");
    FAILS(hipplan_execute(plan, bindings, (size_t)-1, NULL, 0, NULL, NULL), HIPPLAN_INVALID_ARGUMENT, "bindings");
    FAILS(hipplan_execute(NULL, bindings, 3, NULL, 0, NULL, NULL), HIPPLAN_INVALID_ARGUMENT, "plan is null");
    FAILS(hipplan_execute(plan, bindings, 3, NULL, 0, y, NULL), HIPPLAN_INVALID_ARGUMENT, "must be NULL");
    bindings[3] = bindings[2];
    FAILS(hipplan_execute(plan, bindings, 4, NULL, 0, NULL, NULL), HIPPLAN_INVALID_ARGUMENT, "uid 20 twice");
    bindings[1].pointer = (char*)x + 1;
    FAILS(hipplan_execute(plan, bindings, 3, NULL, 0, NULL, NULL), HIPPLAN_INVALID_ARGUMENT, "not a multiple of 4");
    bindings[1].pointer = NULL;
    FAILS(hipplan_execute(plan, bindings, 3, NULL, 0, NULL, NULL), HIPPLAN_INVALID_ARGUMENT, "its pointer is null");
    bindings[1].pointer = (void*)x;

    /* Tensors that the plan does not know, in any number, before and behind those that it does. */
    for (i = 3; i < 199; i++)
        bindings[i].uid = 1000 + i, bindings[i].pointer = NULL;
    bindings[199] = bindings[2];
    bindings[2] = bindings[3];
    GOOD(hipplan_execute(plan, bindings, 200, NULL, 0, NULL, NULL));
    CHECK(is_result(y, -3, 0.25f));
}

static void by_key(const hipplan_t* library, const hipplan_key_t* key, const char* ordinals) {
    long long x_at, alpha_at, beta_at, y_at;
    float y[N], alpha = 5;
    hipplan_binding_t bindings[3];
    hipplan_plan_t* plan = NULL;
    hipplan_key_t none, plan_key;
    CHECK(sscanf(ordinals, "%lld,%lld,%lld,%lld", &x_at, &alpha_at, &beta_at, &y_at) == 4);
    memset(&none, 0, sizeof none);
    GOOD(hipplan_find(library, key));
    FAILS(hipplan_find(library, &none), HIPPLAN_MISS, "not in the store");
    FAILS(hipplan_find(library, NULL), HIPPLAN_INVALID_ARGUMENT, "key is null");
    FAILS(hipplan_find(NULL, key), HIPPLAN_INVALID_ARGUMENT, "library is null");
    plan = (hipplan_plan_t*)&none;
    FAILS(hipplan_bind_by_key(library, &none, NULL, &plan), HIPPLAN_MISS, "no plan for graph 0000");
    CHECK(!plan);
    GOOD(hipplan_bind_by_key(library, key, NULL, &plan));
    GOOD(hipplan_plan_key(plan, &plan_key));
    CHECK(memcmp(&plan_key, &none, sizeof none) != 0 && memcmp(&plan_key, key, sizeof none) != 0);
    FAILS(hipplan_plan_key(plan, NULL), HIPPLAN_INVALID_ARGUMENT, "key is null");
    CHECK(hipplan_plan_workspace_size(plan) == 0 && hipplan_plan_workspace_size(NULL) == 0);
    bindings[0].uid = x_at, bindings[0].pointer = (void*)x;
    bindings[1].uid = alpha_at, bindings[1].pointer = &alpha;
    bindings[2].uid = y_at, bindings[2].pointer = y;
    GOOD(hipplan_execute(plan, bindings, 3, NULL, 0, NULL, NULL));
    CHECK(is_result(y, 5, 0.25f));
    hipplan_release(plan);
}

static hipplan_plan_t* shared;

static void* worker(void* argument) {
    float alpha = (float)*(int*)argument, y[N];
    hipplan_binding_t bindings[3];
    int i;
    bindings[0].uid = X, bindings[0].pointer = (void*)x;
    bindings[1].uid = ALPHA, bindings[1].pointer = &alpha;
    bindings[2].uid = Y, bindings[2].pointer = y;
    CHECK(strcmp(hipplan_last_error(), "") == 0);
    for (i = 0; i < 2000; i++) {
        memset(y, 0, sizeof y);
        GOOD(hipplan_execute(shared, bindings, 3, NULL, 0, NULL, NULL));
        CHECK(is_result(y, alpha, 0.25f));
    }
    FAILS(hipplan_execute(shared, bindings, 1, NULL, 0, NULL, NULL), HIPPLAN_INVALID_ARGUMENT, "uid 20");
    return NULL;
}

static void threads(hipplan_plan_t* plan, int count) {
    pthread_t all[12];
    int numbers[12], i;
    shared = plan;
    for (i = 0; i < count; i++) {
        numbers[i] = i;
        CHECK(pthread_create(&all[i], NULL, worker, &numbers[i]) == 0);
    }
    for (i = 0; i < count; i++)
        CHECK(pthread_join(all[i], NULL) == 0);
}

static int lines;
static char last_line[1024];

static void take_line(int32_t level, const char* text, void* user) {
    CHECK(user == &lines && level == HIPPLAN_LOG_WARNING);
    lines++;
    strncpy(last_line, text, sizeof last_line - 1);
}

static void layers(const char* store, const char* other, const char* file, const void* graph, size_t size, const hipplan_key_t* key) {
    const char* stores[2];
    hipplan_t* library;
    hipplan_open_options_t options;
    hipplan_counters_t counters;
    hipplan_plan_t* plan;

    /* The first is made, and has nothing; the second has the plan. */
    stores[0] = other, stores[1] = store;
    library = open_stores(stores, 2, "cpu", 0);
    GOOD(hipplan_find(library, key));
    GOOD(hipplan_compile(library, graph, size)); /* the second has it, so that the first need not */
    hipplan_close(library);
    library = open_stores(stores, 1, "cpu", 0);
    FAILS(hipplan_find(library, key), HIPPLAN_MISS, "not in the store");
    GOOD(hipplan_compile(library, graph, size));
    hipplan_close(library);
    library = open_stores(stores, 1, "cpu", HIPPLAN_OPEN_READ_ONLY);
    GOOD(hipplan_find(library, key)); /* compiled a moment ago */
    FAILS(hipplan_compile(library, graph, size), HIPPLAN_STORE, "HIPPLAN_OPEN_READ_ONLY");
    FAILS(hipplan_compile(library, "{}", 2), HIPPLAN_INVALID_ARGUMENT, "JSON");
    hipplan_close(library);

    /* Required, a plan is looked for and never compiled; a store that is not there is not made. */
    counters.struct_size = sizeof counters;
    library = open_stores(stores, 1, "cpu", HIPPLAN_OPEN_REQUIRE_PRECOMPILED);
    GOOD(hipplan_compile(library, graph, size));
    FAILS(hipplan_compile(library, other_graph, sizeof other_graph - 1), HIPPLAN_MISS, "missing: no plan for target cpu");
    FAILS(hipplan_compile(library, "{}", 2), HIPPLAN_INVALID_ARGUMENT, "JSON");
    GOOD(hipplan_counters(library, &counters));
    CHECK(counters.compiles == 0 && counters.hits == 1 && counters.misses == 1 && counters.failures == 1);
    hipplan_close(library);
    memset(&options, 0, sizeof options);
    stores[0] = "/nonexistent/hipplan";
    options.struct_size = sizeof options;
    options.stores = stores, options.store_count = 1, options.device = "cpu";
    options.flags = HIPPLAN_OPEN_REQUIRE_PRECOMPILED;
    FAILS(hipplan_open(&options, &library), HIPPLAN_STORE, "found nothing there");

    /* What is not there is made only where it may be written. */
    stores[0] = store, stores[1] = "/nonexistent/hipplan";
    memset(&options, 0, sizeof options);
    options.struct_size = sizeof options;
    options.stores = stores, options.store_count = 2, options.device = "cpu";
    FAILS(hipplan_open(&options, &library), HIPPLAN_STORE, "/nonexistent/hipplan");

    /* Degraded, an unusable store is a warning. */
    hipplan_set_log(take_line, &lines);
    library = open_stores(stores, 2, "cpu", HIPPLAN_OPEN_DEGRADE);
    CHECK(lines == 1 && strstr(last_line, "/nonexistent/hipplan"));
    GOOD(hipplan_find(library, key));
    hipplan_close(library);
    stores[0] = file;
    library = open_stores(stores, 1, "cpu", HIPPLAN_OPEN_DEGRADE);
    CHECK(lines == 2 && strstr(last_line, file));
    FAILS(hipplan_find(library, key), HIPPLAN_MISS, "no store could be opened");
    /* What cannot be stored is kept for this process. */
    GOOD(hipplan_compile(library, graph, size));
    GOOD(hipplan_bind_by_graph(library, graph, size, NULL, &plan));
    by_value(plan);
    hipplan_release(plan);
    counters.struct_size = sizeof counters;
    GOOD(hipplan_counters(library, &counters));
    CHECK(counters.compiles == 1 && counters.hits == 1 && counters.misses == 1);
    hipplan_close(library);
    hipplan_set_log(NULL, NULL);
    CHECK(lines == 2);
}

static void counting(const hipplan_t* library, uint64_t executions) {
    struct {
        hipplan_counters_t known;
        uint64_t later;
    } counters;
    memset(&counters, 0xff, sizeof counters);
    counters.known.struct_size = sizeof counters;
    GOOD(hipplan_counters(library, &counters.known));
    CHECK(counters.later == 0 && counters.known.struct_size == sizeof counters);
    CHECK(counters.known.lookups == 5 && counters.known.hits == 3 && counters.known.misses == 2);
    CHECK(counters.known.binds == 2 && counters.known.compiles == 0 && counters.known.module_loads == 0);
    CHECK(counters.known.executions == executions);
    CHECK(counters.known.failures > 10);
    counters.known.struct_size = 8;
    FAILS(hipplan_counters(library, &counters.known), HIPPLAN_INVALID_ARGUMENT, "hipplan_counters_t");
    FAILS(hipplan_counters(library, NULL), HIPPLAN_INVALID_ARGUMENT, "counters is null");
}

int main(int argc, char** argv) {
    size_t size;
    void* graph;
    hipplan_key_t key;
    hipplan_t* library;
    hipplan_plan_t* plan = NULL;
    CHECK(argc == 6);
    versions_and_names();
    graph = read_file(argv[3], &size);
    read_key(argv[4], &key);
    opening(argv[1], argv[3]);
    keys(graph, size, &key);

    library = open_stores((const char* const*)&argv[1], 1, "cpu", 0);
    by_key(library, &key, argv[5]);
    FAILS(hipplan_bind_by_graph(library, graph, size - 8, NULL, &plan), HIPPLAN_INVALID_ARGUMENT, "graph");
    CHECK(!plan);
    FAILS(hipplan_bind_by_graph(library, graph, size, NULL, NULL), HIPPLAN_INVALID_ARGUMENT, "plan is null");
    GOOD(hipplan_bind_by_graph(library, graph, size, NULL, &plan));
    by_value(plan);
    threads(plan, 2);
    threads(plan, 12);
    /* One by key, seven that succeed in by_value, and the threads'. */
    counting(library, 1 + 7 + 14 * 2000);
    hipplan_close(library);
    by_value(plan);
    hipplan_release(plan);
    layers(argv[1], argv[2], argv[3], graph, size, &key);
    free(graph);
    return 0;
}
