/* The serialize hooks, in every form, and the payload.
 *
 * A payload is: magic, version, kind, engine id, the two settings, the uids of runtime scalars, the defaults, the graph. What it says of
 * runtime scalars is what a restored context knows of them: the flags and the values in its graph are not looked at (RFC 0016, 4.6). */
#include "context.h"
#include "record.h"
#include <stdlib.h>
#include <string.h>

static const char MAGIC[8] = "HPTPLUG";
enum { KIND = 1 };

struct head {
    char magic[8];
    uint32_t version, kind;
    int64_t engine_id, block, order;
    uint32_t runtime_count, default_count;
    uint64_t graph_size;
};

struct default_value {
    int64_t uid;
    uint8_t value[8];
};

/* Functions of families that a variant does not have stay unused. */
#define HOOK __attribute__((unused)) static

HOOK hipdnnPluginStatus_t serialize(hipdnnEnginePluginExecutionContext_t context, hipdnnPluginConstData_t *out) {
    if (!context || !out)
        return fail(HIPDNN_PLUGIN_STATUS_BAD_PARAM, "serialize: null argument");
    const struct graph *g = &context->graph;
    struct head head = {.version = PAYLOAD_VERSION, .kind = KIND, .engine_id = context->settings.engine_id};
    memcpy(head.magic, MAGIC, sizeof MAGIC);
    head.block = context->settings.block;
    head.order = context->settings.order;
    head.graph_size = context->size;
    char *bytes = malloc(sizeof head + g->tensor_count * (sizeof(int64_t) + sizeof(struct default_value)) + context->size), *to = bytes;
    if (!bytes)
        return fail(HIPDNN_PLUGIN_STATUS_ALLOC_FAILED, "serialize: no memory");
    to += sizeof head;
    for (size_t i = 0; i < g->tensor_count && !FORGETS_RUNTIME_SET; i++)
        if (g->tensors[i].is_runtime) {
            memcpy(to, &g->tensors[i].uid, sizeof(int64_t));
            to += sizeof(int64_t);
            head.runtime_count++;
        }
    for (size_t i = 0; i < g->tensor_count && !FORGETS_DEFAULTS; i++)
        if (g->tensors[i].is_runtime && g->tensors[i].has_value) {
            struct default_value value = {.uid = g->tensors[i].uid};
            memcpy(value.value, g->tensors[i].value, sizeof value.value);
            memcpy(to, &value, sizeof value);
            to += sizeof value;
            head.default_count++;
        }
    memcpy(to, context->bytes, context->size);
    to += context->size;
    memcpy(bytes, &head, sizeof head);
    hipdnnPluginStatus_t status = SERIALIZED == SERIALIZED_NULL    ? HIPDNN_PLUGIN_STATUS_SUCCESS
                                  : SERIALIZED == SERIALIZED_EMPTY ? hand_out(bytes, 0, out)
                                                                   : hand_out(bytes, (size_t)(to - bytes), out);
    free(bytes);
    return status ? status : record_leave(ENTRY_SERIALIZE);
}

/* The tensor of a restored graph whose uid stands at `at`; null if there is none. */
HOOK struct tensor *named(const struct graph *g, const char *at) {
    int64_t uid;
    memcpy(&uid, at, sizeof uid);
    int ix = graph_find(g, uid);
    return ix == NO_TENSOR ? NULL : &g->tensors[ix];
}

HOOK hipdnnPluginStatus_t restore(const hipdnnPluginConstData_t *data, hipdnnEnginePluginExecutionContext_t *context) {
    struct head head;
    if (!data || !data->ptr || !context)
        return fail(HIPDNN_PLUGIN_STATUS_BAD_PARAM, "restore: null argument");
    record_open()->payload_bytes += data->size;
    record_close();
    if (data->size < sizeof head)
        return fail(HIPDNN_PLUGIN_STATUS_INVALID_VALUE, "payload: %zu bytes are too few", data->size);
    memcpy(&head, data->ptr, sizeof head);
    if (memcmp(head.magic, MAGIC, sizeof MAGIC) || head.kind != KIND)
        return fail(HIPDNN_PLUGIN_STATUS_INVALID_VALUE, "payload: not one of this plugin's");
    if (head.version != PAYLOAD_VERSION && !ANY_PAYLOAD_VERSION)
        return fail(HIPDNN_PLUGIN_STATUS_INVALID_VALUE, "payload: version %u, this build reads version %u", head.version, PAYLOAD_VERSION);
    size_t room = data->size - sizeof head;
    size_t lists = head.runtime_count * sizeof(int64_t) + head.default_count * sizeof(struct default_value);
    if (lists > room || head.graph_size != room - lists)
        return fail(HIPDNN_PLUGIN_STATUS_INVALID_VALUE, "payload: its parts do not add up to its %zu bytes", data->size);
    struct settings settings = {head.engine_id, head.block, head.order};
    const char *at = (const char *)data->ptr + sizeof head;
    hipdnnEnginePluginExecutionContext_t made;
    hipdnnPluginStatus_t status = context_new(&settings, at + lists, head.graph_size, &made);
    if (status)
        return status;
    for (size_t i = 0; i < made->graph.tensor_count; i++) {
        made->graph.tensors[i].has_value &= !made->graph.tensors[i].is_runtime;
        made->graph.tensors[i].is_runtime = false;
    }
    for (uint32_t i = 0; i < head.runtime_count; i++, at += sizeof(int64_t)) {
        struct tensor *t = named(&made->graph, at);
        if (t)
            t->is_runtime = true;
    }
    for (uint32_t i = 0; i < head.default_count; i++, at += sizeof(struct default_value)) {
        struct tensor *t = named(&made->graph, at);
        if (!t)
            continue;
        t->has_value = true;
        memcpy(t->value, at + sizeof(int64_t), sizeof t->value);
    }
    *context = made;
    return record_leave(ENTRY_CREATE_FROM_SERIALIZED);
}

HOOK hipdnnPluginStatus_t destroy_bytes(hipdnnPluginConstData_t *bytes) {
    if (!bytes)
        return fail(HIPDNN_PLUGIN_STATUS_BAD_PARAM, "destroy serialized: null argument");
    take_back(bytes);
    return record_leave(ENTRY_DESTROY_SERIALIZED);
}

HOOK hipdnnPluginStatus_t check_config(const hipdnnPluginConstData_t *config, int64_t *engine) {
    struct settings settings;
    const char *why = config ? settings_read(config->ptr, config->size, &settings) : "no configuration";
    if (why || engine_of(settings.engine_id) < 0)
        return fail(HIPDNN_PLUGIN_STATUS_BAD_PARAM, "serialised context: %s", why ? why : "the configuration is of another engine");
    *engine = settings.engine_id;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

#if HOOKS & HOOKS_WITH_ENGINE_ID
HIPDNN_PLUGIN_EXPORT SerializeWithEngineId hipdnnEnginePluginSerializeExecutionContextWithEngineId;
hipdnnPluginStatus_t hipdnnEnginePluginSerializeExecutionContextWithEngineId(hipdnnEnginePluginHandle_t handle, int64_t engine_id,
                                                                             hipdnnEnginePluginExecutionContext_t context,
                                                                             hipdnnPluginConstData_t *out) {
    ENTER(ENTRY_SERIALIZE);
    if (!handle || !context || engine_id != context->settings.engine_id)
        return fail(HIPDNN_PLUGIN_STATUS_BAD_PARAM, "serialize: no handle, or not the context's engine");
    return serialize(context, out);
}
#endif

#if HOOKS & (HOOKS_PLAIN | HOOKS_PLAIN_WITH_CONFIG)
HIPDNN_PLUGIN_EXPORT SerializePlain hipdnnEnginePluginSerializeExecutionContext;
hipdnnPluginStatus_t hipdnnEnginePluginSerializeExecutionContext(hipdnnEnginePluginHandle_t handle,
                                                                 hipdnnEnginePluginExecutionContext_t context,
                                                                 hipdnnPluginConstData_t *out) {
    ENTER(ENTRY_SERIALIZE);
    if (!handle)
        return fail(HIPDNN_PLUGIN_STATUS_BAD_PARAM, "serialize: no handle");
    return serialize(context, out);
}
#endif

#if HOOKS & (HOOKS_WITH_ENGINE_ID | HOOKS_PLAIN | HOOKS_PLAIN_WITH_CONFIG)
HIPDNN_PLUGIN_EXPORT DestroySerialized hipdnnEnginePluginDestroySerializedExecutionContext;
hipdnnPluginStatus_t hipdnnEnginePluginDestroySerializedExecutionContext(hipdnnEnginePluginHandle_t handle, hipdnnPluginConstData_t *bytes) {
    ENTER(ENTRY_DESTROY_SERIALIZED);
    return handle ? destroy_bytes(bytes) : fail(HIPDNN_PLUGIN_STATUS_BAD_PARAM, "destroy serialized: no handle");
}
#endif

#if HOOKS & HOOKS_PLAIN_WITH_CONFIG
HIPDNN_PLUGIN_EXPORT CreateFromConfigAndSerialized hipdnnEnginePluginCreateExecutionContextFromSerialized;
hipdnnPluginStatus_t hipdnnEnginePluginCreateExecutionContextFromSerialized(hipdnnEnginePluginHandle_t handle,
                                                                            const hipdnnPluginConstData_t *config,
                                                                            const hipdnnPluginConstData_t *bytes,
                                                                            hipdnnEnginePluginExecutionContext_t *context) {
    ENTER(ENTRY_CREATE_FROM_SERIALIZED);
    int64_t engine = 0;
    hipdnnPluginStatus_t status = check_config(config, &engine);
    if (status || !handle)
        return status ? status : fail(HIPDNN_PLUGIN_STATUS_BAD_PARAM, "restore: no handle");
    return restore(bytes, context);
}
#elif HOOKS & (HOOKS_WITH_ENGINE_ID | HOOKS_PLAIN)
HIPDNN_PLUGIN_EXPORT CreateFromSerialized hipdnnEnginePluginCreateExecutionContextFromSerialized;
hipdnnPluginStatus_t hipdnnEnginePluginCreateExecutionContextFromSerialized(hipdnnEnginePluginHandle_t handle,
                                                                            const hipdnnPluginConstData_t *bytes,
                                                                            hipdnnEnginePluginExecutionContext_t *context) {
    ENTER(ENTRY_CREATE_FROM_SERIALIZED);
    return handle ? restore(bytes, context) : fail(HIPDNN_PLUGIN_STATUS_BAD_PARAM, "restore: no handle");
}
#endif

#if HOOKS & HOOKS_EXT
HIPDNN_PLUGIN_EXPORT SerializeExt hipdnnEnginePluginSerializeExecutionContext_ext;
hipdnnPluginStatus_t hipdnnEnginePluginSerializeExecutionContext_ext(hipdnnEnginePluginHandle_t handle,
                                                                     hipdnnEnginePluginExecutionContext_t context,
                                                                     const hipdnnPluginConstData_t *engine_config,
                                                                     hipdnnPluginConstData_t *out) {
    ENTER(ENTRY_SERIALIZE);
    int64_t engine = 0;
    hipdnnPluginStatus_t status = check_config(engine_config, &engine);
    if (status)
        return status;
    if (!handle || !context || engine != context->settings.engine_id)
        return fail(HIPDNN_PLUGIN_STATUS_BAD_PARAM, "serialize: no handle, or not the context's engine");
    return serialize(context, out);
}

HIPDNN_PLUGIN_EXPORT DestroySerialized hipdnnEnginePluginDestroySerializedExecutionContext_ext;
hipdnnPluginStatus_t hipdnnEnginePluginDestroySerializedExecutionContext_ext(hipdnnEnginePluginHandle_t handle,
                                                                             hipdnnPluginConstData_t *bytes) {
    ENTER(ENTRY_DESTROY_SERIALIZED);
    return handle ? destroy_bytes(bytes) : fail(HIPDNN_PLUGIN_STATUS_BAD_PARAM, "destroy serialized: no handle");
}

HIPDNN_PLUGIN_EXPORT CreateFromSerialized hipdnnEnginePluginCreateExecutionContextFromSerialized_ext;
hipdnnPluginStatus_t hipdnnEnginePluginCreateExecutionContextFromSerialized_ext(hipdnnEnginePluginHandle_t handle,
                                                                                const hipdnnPluginConstData_t *bytes,
                                                                                hipdnnEnginePluginExecutionContext_t *context) {
    ENTER(ENTRY_CREATE_FROM_SERIALIZED);
    return handle ? restore(bytes, context) : fail(HIPDNN_PLUGIN_STATUS_BAD_PARAM, "restore: no handle");
}
#endif
