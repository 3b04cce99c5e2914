/* A hipDNN engine plugin for tests: naive execution in host memory. Its variants are made by the switches of variant.h. */
#include "context.h"
#include "record.h"
#include "shapes.h"
#include <stdlib.h>
#include <string.h>

static const char *const NAMES[] = ENGINE_NAMES;
enum { ENGINE_COUNT = sizeof NAMES / sizeof *NAMES };

/* FNV-1a of the name, 64 bits, as a signed number. */
int64_t engine_id_at(size_t position) {
#ifdef ENGINE_IDS
    static const int64_t IDS[ENGINE_COUNT] = ENGINE_IDS;
    return IDS[position];
#else
    uint64_t hash = 0xcbf29ce484222325;
    for (const char *c = NAMES[position]; *c; c++)
        hash = (hash ^ (uint8_t)*c) * 0x100000001b3;
    return (int64_t)hash;
#endif
}

int engine_of(int64_t id) {
    for (int i = 0; i < ENGINE_COUNT; i++)
        if (engine_id_at((size_t)i) == id)
            return i;
    return -1;
}

hipdnnPluginStatus_t hand_out(const void *bytes, size_t size, hipdnnPluginConstData_t *out) {
    void *copy = malloc(size + 1);
    if (!copy)
        return fail(HIPDNN_PLUGIN_STATUS_ALLOC_FAILED, "no memory for %zu bytes", size);
    memcpy(copy, bytes, size);
    out->ptr = copy;
    out->size = size;
    record_open()->live_buffers++;
    record_close();
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

void take_back(hipdnnPluginConstData_t *bytes) {
    if (bytes->ptr) {
        free((void *)bytes->ptr);
        record_open()->live_buffers--;
        record_close();
    }
    *bytes = (hipdnnPluginConstData_t){0};
}

/* Identity. */

hipdnnPluginStatus_t hipdnnPluginGetName(const char **name) {
    *name = PLUGIN_NAME;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnPluginGetVersion(const char **version) {
    *version = PLUGIN_VERSION;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnPluginGetType(hipdnnPluginType_t *type) {
    *type = (hipdnnPluginType_t)(PLUGIN_TYPE);
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnPluginGetApiVersion(const char **version) {
    *version = API_VERSION;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnEnginePluginGetEngineName(int64_t engine_id, const char **name) {
    ENTER(ENTRY_GET_ENGINE_NAME);
    int engine = engine_of(engine_id);
    if (engine < 0)
        return fail(HIPDNN_PLUGIN_STATUS_INVALID_VALUE, "engine %lld is not of this plugin", (long long)engine_id);
    const hipdnnPluginStatus_t status = (hipdnnPluginStatus_t)(ENGINE_NAME_STATUS);
    if (status != HIPDNN_PLUGIN_STATUS_SUCCESS)
        return fail(status, "no name, on purpose");
    *name = NAMES[engine];
    return record_leave(ENTRY_GET_ENGINE_NAME);
}

hipdnnPluginStatus_t hipdnnEnginePluginGetAllEngineIds(int64_t *ids, uint32_t max, uint32_t *num) {
    ENTER(ENTRY_GET_ALL_ENGINE_IDS);
    if (!num || (max && !ids))
        return fail(HIPDNN_PLUGIN_STATUS_BAD_PARAM, "engine ids: null argument");
    for (uint32_t i = 0; i < max && i < ENGINE_COUNT; i++)
        ids[i] = engine_id_at(i);
    *num = max ? (uint32_t)(SECOND_COUNT) : (uint32_t)(FIRST_COUNT);
    return record_leave(ENTRY_GET_ALL_ENGINE_IDS);
}

/* Handles. */

hipdnnPluginStatus_t hipdnnEnginePluginCreate(hipdnnEnginePluginHandle_t *handle) {
    ENTER(ENTRY_CREATE);
    if (!handle)
        return fail(HIPDNN_PLUGIN_STATUS_BAD_PARAM, "create: null argument");
    *handle = NULL;
    if (NULL_HANDLE)
        return HIPDNN_PLUGIN_STATUS_SUCCESS;
    static hipdnnEnginePluginHandle_t first;
    if (SAME_HANDLE && first) {
        *handle = first;
        return HIPDNN_PLUGIN_STATUS_SUCCESS;
    }
    *handle = calloc(1, sizeof **handle);
    if (!*handle)
        return fail(HIPDNN_PLUGIN_STATUS_ALLOC_FAILED, "create: no memory");
    if (SAME_HANDLE)
        first = *handle;
    record_open()->live_handles++;
    record_close();
    return record_leave(ENTRY_CREATE);
}

hipdnnPluginStatus_t hipdnnEnginePluginDestroy(hipdnnEnginePluginHandle_t handle) {
    ENTER(ENTRY_DESTROY);
    if (!handle)
        return fail(HIPDNN_PLUGIN_STATUS_BAD_PARAM, "destroy: null argument");
    free(handle);
    record_open()->live_handles--;
    record_close();
    return record_leave(ENTRY_DESTROY);
}

hipdnnPluginStatus_t hipdnnEnginePluginSetStream(hipdnnEnginePluginHandle_t handle, hipStream_t stream) {
    ENTER(ENTRY_SET_STREAM);
    if (!handle)
        return fail(HIPDNN_PLUGIN_STATUS_BAD_PARAM, "set stream: null argument");
    handle->stream = stream;
    record_open()->last_stream = (uint64_t)(uintptr_t)stream;
    record_close();
    return record_leave(ENTRY_SET_STREAM);
}

/* Questions about a graph. */

static const char *read_graph(const hipdnnPluginConstData_t *graph, struct graph *to) {
    const char *why = graph ? graph_read(graph->ptr, graph->size, to) : "no graph";
    for (size_t i = 0; i < to->tensor_count && KNOWS_NO_RUNTIME && !why; i++)
        to->tensors[i].is_runtime = false;
    return why;
}

static bool applicable(const hipdnnPluginConstData_t *bytes) {
    struct graph graph = {0};
    bool fits = !read_graph(bytes, &graph) && graph_is_supported(&graph);
    for (size_t i = 0; i < graph.tensor_count && FOLDS; i++)
        fits = fits && !graph.tensors[i].is_runtime;
    graph_free(&graph);
    return fits;
}

hipdnnPluginStatus_t hipdnnEnginePluginGetApplicableEngineIds(hipdnnEnginePluginHandle_t handle, const hipdnnPluginConstData_t *graph,
                                                              int64_t *ids, uint32_t max, uint32_t *num) {
    ENTER(ENTRY_GET_APPLICABLE_ENGINE_IDS);
    if (!handle || !graph || !num || (max && !ids))
        return fail(HIPDNN_PLUGIN_STATUS_BAD_PARAM, "applicable engines: null argument");
    *num = 0;
    if (!applicable(graph))
        return HIPDNN_PLUGIN_STATUS_SUCCESS;
#ifdef APPLICABLE_IDS
    static const int64_t IDS[] = APPLICABLE_IDS;
    const uint32_t count = sizeof IDS / sizeof *IDS;
#else
    const uint32_t count = ENGINE_COUNT;
#endif
    const int64_t stores = (APPLICABLE_STORES);
    for (uint32_t i = 0; i < max && i < count && (stores < 0 || i < stores); i++)
#ifdef APPLICABLE_IDS
        ids[i] = IDS[i];
#else
        ids[i] = engine_id_at(i);
#endif
    *num = (APPLICABLE_COUNT) < 0 ? count : (uint32_t)(APPLICABLE_COUNT);
    return record_leave(ENTRY_GET_APPLICABLE_ENGINE_IDS);
}

hipdnnPluginStatus_t hipdnnEnginePluginGetEngineDetails(hipdnnEnginePluginHandle_t handle, int64_t engine_id,
                                                        const hipdnnPluginConstData_t *graph, hipdnnPluginConstData_t *details) {
    ENTER(ENTRY_GET_ENGINE_DETAILS);
    int engine = engine_of(engine_id);
    if (!handle || !details || !applicable(graph) || engine < 0)
        return fail(HIPDNN_PLUGIN_STATUS_BAD_PARAM, "details: not of an applicable engine");
    uint8_t bytes[1024] = "these are no details";
    size_t size = 20;
    if (DETAILS == DETAILS_RIGHT || DETAILS == DETAILS_OF_ANOTHER_ENGINE)
        size = details_write(engine_id + (DETAILS == DETAILS_OF_ANOTHER_ENGINE), NAMES[engine], KNOBS, bytes, sizeof bytes);
    if (size == 0)
        return fail(HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR, "details: too large");
    if (DETAILS == DETAILS_NULL)
        return HIPDNN_PLUGIN_STATUS_SUCCESS;
    hipdnnPluginStatus_t status = hand_out(bytes, DETAILS == DETAILS_EMPTY ? 0 : size, details);
    return status ? status : record_leave(ENTRY_GET_ENGINE_DETAILS);
}

hipdnnPluginStatus_t hipdnnEnginePluginDestroyEngineDetails(hipdnnEnginePluginHandle_t handle, hipdnnPluginConstData_t *details) {
    ENTER(ENTRY_DESTROY_ENGINE_DETAILS);
    if (!handle || !details)
        return fail(HIPDNN_PLUGIN_STATUS_BAD_PARAM, "destroy details: null argument");
    take_back(details);
    return record_leave(ENTRY_DESTROY_ENGINE_DETAILS);
}

static hipdnnPluginStatus_t read_settings(const hipdnnPluginConstData_t *config, struct settings *settings) {
    const char *why = config ? settings_read(config->ptr, config->size, settings) : "no configuration";
    if (!why && engine_of(settings->engine_id) < 0)
        why = "an engine that is not of this plugin";
    return why ? fail(HIPDNN_PLUGIN_STATUS_INVALID_VALUE, "configuration: %s", why) : HIPDNN_PLUGIN_STATUS_SUCCESS;
}

size_t context_workspace(const struct settings *settings) {
    return (size_t)(WORKSPACE_BYTES) * (size_t)settings->block;
}

hipdnnPluginStatus_t hipdnnEnginePluginGetWorkspaceSize(hipdnnEnginePluginHandle_t handle, const hipdnnPluginConstData_t *config,
                                                        const hipdnnPluginConstData_t *graph, size_t *bytes) {
    ENTER(ENTRY_GET_WORKSPACE_SIZE);
    struct settings settings;
    if (!handle || !graph || !bytes)
        return fail(HIPDNN_PLUGIN_STATUS_BAD_PARAM, "workspace size: null argument");
    hipdnnPluginStatus_t status = read_settings(config, &settings);
    if (status)
        return status;
    /* A bound, above what a context needs. */
    *bytes = context_workspace(&settings) + 64;
    return record_leave(ENTRY_GET_WORKSPACE_SIZE);
}

/* Contexts. */

hipdnnPluginStatus_t context_new(const struct settings *settings, const void *bytes, size_t size,
                                 hipdnnEnginePluginExecutionContext_t *context) {
    hipdnnPluginConstData_t data = {bytes, size};
    struct graph graph = {0};
    const char *why = read_graph(&data, &graph);
    if (!why && !graph_is_supported(&graph))
        why = "the graph is not supported";
    hipdnnEnginePluginExecutionContext_t made = why ? NULL : calloc(1, sizeof *made);
    void *copy = made ? malloc(size) : NULL;
    if (!copy) {
        free(made);
        graph_free(&graph);
        return fail(why ? HIPDNN_PLUGIN_STATUS_INVALID_VALUE : HIPDNN_PLUGIN_STATUS_ALLOC_FAILED, "context: %s", why ? why : "no memory");
    }
    memcpy(copy, bytes, size);
    *made = (struct hipdnnEnginePluginExecutionContext){*settings, graph, copy, size};
    *context = made;
    struct test_plugin_counters *counters = record_open();
    counters->live_contexts++;
    counters->last_block = settings->block;
    counters->last_order = settings->order;
    record_close();
    log_line(HIPDNN_SEV_INFO, "a context was made");
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

void context_free(hipdnnEnginePluginExecutionContext_t context) {
    graph_free(&context->graph);
    free(context->bytes);
    free(context);
    record_open()->live_contexts--;
    record_close();
}

hipdnnPluginStatus_t hipdnnEnginePluginCreateExecutionContext(hipdnnEnginePluginHandle_t handle, const hipdnnPluginConstData_t *config,
                                                              const hipdnnPluginConstData_t *graph,
                                                              hipdnnEnginePluginExecutionContext_t *context) {
    ENTER(ENTRY_CREATE_EXECUTION_CONTEXT);
    struct settings settings;
    if (!handle || !graph || !context)
        return fail(HIPDNN_PLUGIN_STATUS_BAD_PARAM, "create context: null argument");
    hipdnnPluginStatus_t status = read_settings(config, &settings);
    if (!status && NULL_CONTEXT) {
        *context = NULL;
        return HIPDNN_PLUGIN_STATUS_SUCCESS;
    }
    if (!status)
        status = context_new(&settings, graph->ptr, graph->size, context);
    return status ? status : record_leave(ENTRY_CREATE_EXECUTION_CONTEXT);
}

hipdnnPluginStatus_t hipdnnEnginePluginDestroyExecutionContext(hipdnnEnginePluginHandle_t handle,
                                                               hipdnnEnginePluginExecutionContext_t context) {
    ENTER(ENTRY_DESTROY_EXECUTION_CONTEXT);
    if (!handle || !context)
        return fail(HIPDNN_PLUGIN_STATUS_BAD_PARAM, "destroy context: null argument");
    context_free(context);
    return record_leave(ENTRY_DESTROY_EXECUTION_CONTEXT);
}

hipdnnPluginStatus_t hipdnnEnginePluginGetWorkspaceSizeFromExecutionContext(hipdnnEnginePluginHandle_t handle,
                                                                            hipdnnEnginePluginExecutionContext_t context, size_t *bytes) {
    ENTER(ENTRY_GET_CONTEXT_WORKSPACE_SIZE);
    if (!handle || !context || !bytes)
        return fail(HIPDNN_PLUGIN_STATUS_BAD_PARAM, "workspace size: null argument");
    *bytes = context_workspace(&context->settings);
    return record_leave(ENTRY_GET_CONTEXT_WORKSPACE_SIZE);
}
