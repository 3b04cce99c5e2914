/* Execution contexts of the test plugin: what is kept of a graph and a configuration, and the bytes that bring it back. */
#ifndef CONTEXT_H
#define CONTEXT_H

#include "graph.h"
#include "hipdnn_engine_plugin.h"
#include "settings.h"

struct hipdnnEnginePluginExecutionContext {
    struct settings settings;
    struct graph graph;
    /* The bytes that the graph was read from. */
    void *bytes;
    size_t size;
};

struct hipdnnEnginePluginHandle {
    hipStream_t stream;
};

/* Makes a context from bytes of a graph. */
hipdnnPluginStatus_t context_new(const struct settings *settings, const void *bytes, size_t size,
                                 hipdnnEnginePluginExecutionContext_t *context);
void context_free(hipdnnEnginePluginExecutionContext_t context);

size_t context_workspace(const struct settings *settings);
int64_t engine_id_at(size_t position);
/* Position of an engine, or -1. */
int engine_of(int64_t id);
/* Wide enough for everything that the plugin allocates for the host. */
hipdnnPluginStatus_t hand_out(const void *bytes, size_t size, hipdnnPluginConstData_t *out);
void take_back(hipdnnPluginConstData_t *bytes);

#endif
