/* Executions of the test plugin: where the memory of each tensor is, then naive loops. */
#include "context.h"
#include "interpreter.h"
#include "record.h"
#include "shapes.h"
#include <stdlib.h>
#include <string.h>

enum { LINE = 64 };

/* A scalar's value, or what was fetched of a device tensor of one element. */
union fetched {
    uint8_t bytes[LINE];
    double aligned;
};

static void record_execution(void *workspace, const hipdnnPluginDeviceBuffer_t *buffers, uint32_t count) {
    struct test_plugin_counters *c = record_open();
    c->last_workspace = (uint64_t)(uintptr_t)workspace;
    c->last_count = count;
    for (uint32_t i = 0; i < count && i < MAX_RECORDED; i++) {
        c->last_uids[i] = buffers[i].uid;
        c->last_pointers[i] = (uint64_t)(uintptr_t)buffers[i].ptr;
    }
    record_close();
}

/* What stands under a uid: the first entry. */
static const hipdnnPluginDeviceBuffer_t *find_device_buffer(const hipdnnPluginDeviceBuffer_t *buffers, uint32_t count, int64_t uid) {
    for (uint32_t i = 0; i < count; i++)
        if (buffers[i].uid == uid)
            return &buffers[i];
    return NULL;
}

static bool is_single(const struct tensor *t) {
    for (size_t i = 0; i < t->rank; i++)
        if (t->dims[i] != 1)
            return false;
    return true;
}

/* Where each tensor's memory is. Presence is looked at before any pointer is followed. */
static hipdnnPluginStatus_t place(const struct graph *g, const hipdnnPluginDeviceBuffer_t *buffers, uint32_t count, void **memory,
                                  union fetched *fetched) {
    for (size_t i = 0; i < g->tensor_count; i++) {
        const struct tensor *t = &g->tensors[i];
        if (t->has_value || t->is_virtual)
            continue;
        const hipdnnPluginDeviceBuffer_t *buffer = find_device_buffer(buffers, count, t->uid);
        if (!buffer)
            return fail(HIPDNN_PLUGIN_STATUS_INVALID_VALUE, "no buffer for the tensor with uid %lld", (long long)t->uid);
        if (!buffer->ptr)
            return fail(HIPDNN_PLUGIN_STATUS_INVALID_VALUE, "a null pointer for the tensor with uid %lld", (long long)t->uid);
    }
    for (size_t i = 0; i < g->tensor_count; i++) {
        struct tensor *t = &g->tensors[i];
        const hipdnnPluginDeviceBuffer_t *buffer = find_device_buffer(buffers, count, t->uid);
        if (t->is_virtual)
            continue;
        if (t->has_value && (!t->is_runtime || IGNORES_OVERRIDES || !buffer || !buffer->ptr)) {
            memory[i] = t->value;
        } else if (t->is_runtime) {
            /* A host pointer: one element, read during the call. */
            memcpy(fetched[i].bytes, buffer->ptr, element_size(t->type));
            memory[i] = fetched[i].bytes;
        } else {
            memory[i] = buffer->ptr;
            if (FETCHES_LINES && is_single(t)) {
                memcpy(fetched[i].bytes, buffer->ptr, LINE);
                memory[i] = fetched[i].bytes;
            }
        }
    }
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

static hipdnnPluginStatus_t execute(const struct settings *settings, const struct graph *g, void *workspace,
                                    const hipdnnPluginDeviceBuffer_t *buffers, uint32_t count) {
    size_t needed = context_workspace(settings);
    if (needed && !workspace)
        return fail(HIPDNN_PLUGIN_STATUS_BAD_PARAM, "execute: no workspace, %zu bytes are needed", needed);
    void **memory = calloc(g->tensor_count, sizeof *memory);
    union fetched *fetched = calloc(g->tensor_count, sizeof *fetched);
    hipdnnPluginStatus_t status = HIPDNN_PLUGIN_STATUS_SUCCESS;
    if (!memory || !fetched)
        status = fail(HIPDNN_PLUGIN_STATUS_ALLOC_FAILED, "execute: no memory");
    if (!status)
        status = place(g, buffers, count, memory, fetched);
    if (!status && needed)
        memset(workspace, 0xab, needed < (1 << 20) ? needed : 1 << 20);
    const char *why = status ? NULL : interpret(g, memory);
    if (why)
        status = fail(HIPDNN_PLUGIN_STATUS_INVALID_VALUE, "execute: %s", why);
    free(memory);
    free(fetched);
    return status;
}

hipdnnPluginStatus_t hipdnnEnginePluginExecuteOpGraph(hipdnnEnginePluginHandle_t handle, hipdnnEnginePluginExecutionContext_t context,
                                                      void *workspace, const hipdnnPluginDeviceBuffer_t *buffers, uint32_t num_buffers) {
    ENTER(ENTRY_EXECUTE);
    if (!handle || !context || (num_buffers && !buffers))
        return fail(HIPDNN_PLUGIN_STATUS_BAD_PARAM, "execute: null argument");
    record_execution(workspace, buffers, num_buffers);
    hipdnnPluginStatus_t status = execute(&context->settings, &context->graph, workspace, buffers, num_buffers);
    return status ? status : record_leave(ENTRY_EXECUTE);
}

static hipdnnPluginStatus_t override_shape(const struct graph *g, int64_t uid, uint32_t rank, const int64_t *dims, const int64_t *strides) {
    int ix = graph_find(g, uid);
    if (ix == NO_TENSOR || g->tensors[ix].is_virtual || rank != g->tensors[ix].rank || !dims || !strides)
        return fail(HIPDNN_PLUGIN_STATUS_INVALID_VALUE, "override of uid %lld: no such tensor, or not of its rank", (long long)uid);
    for (uint32_t i = 0; i < rank; i++) {
        if (dims[i] < 1 || dims[i] > g->tensors[ix].dims[i] || strides[i] < 1)
            return fail(HIPDNN_PLUGIN_STATUS_INVALID_VALUE, "override of uid %lld: an extent or a stride out of range", (long long)uid);
        g->tensors[ix].dims[i] = dims[i];
        g->tensors[ix].strides[i] = strides[i];
    }
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t hipdnnEnginePluginExecuteOpGraphWithOverrides(hipdnnEnginePluginHandle_t handle,
                                                                   hipdnnEnginePluginExecutionContext_t context, void *workspace,
                                                                   const hipdnnPluginDeviceBuffer_t *buffers, uint32_t num_buffers,
                                                                   uint32_t num_overrides, const int64_t *uids, const uint32_t *lengths,
                                                                   const int64_t *const *shapes, const int64_t *const *strides) {
    ENTER(ENTRY_EXECUTE_WITH_OVERRIDES);
    if (!handle || !context || (num_buffers && !buffers) || !num_overrides || !uids || !lengths || !shapes || !strides)
        return fail(HIPDNN_PLUGIN_STATUS_BAD_PARAM, "execute with overrides: null argument, or no override");
    record_execution(workspace, buffers, num_buffers);
    struct graph reshaped = context->graph;
    reshaped.tensors = malloc(reshaped.tensor_count * sizeof *reshaped.tensors);
    if (!reshaped.tensors)
        return fail(HIPDNN_PLUGIN_STATUS_ALLOC_FAILED, "execute with overrides: no memory");
    memcpy(reshaped.tensors, context->graph.tensors, reshaped.tensor_count * sizeof *reshaped.tensors);
    hipdnnPluginStatus_t status = HIPDNN_PLUGIN_STATUS_SUCCESS;
    for (uint32_t i = 0; i < num_overrides && !status; i++) {
        if (!find_device_buffer(buffers, num_buffers, uids[i]))
            status = fail(HIPDNN_PLUGIN_STATUS_INVALID_VALUE, "override of uid %lld, which has no buffer", (long long)uids[i]);
        else
            status = override_shape(&reshaped, uids[i], lengths[i], shapes[i], strides[i]);
    }
    const char *why = status ? NULL : derive_shapes(&reshaped);
    if (why)
        status = fail(HIPDNN_PLUGIN_STATUS_INVALID_VALUE, "execute with overrides: %s", why);
    if (!status)
        status = execute(&context->settings, &reshaped, workspace, buffers, num_buffers);
    free(reshaped.tensors);
    return status ? status : record_leave(ENTRY_EXECUTE_WITH_OVERRIDES);
}
