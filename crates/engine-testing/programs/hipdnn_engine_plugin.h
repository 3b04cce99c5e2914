/* The C ABI of hipDNN engine plugins, as the project's notes on the ABI tell it.
 *
 * Typed from those notes alone and never from the Rust declarations: the C programs of this folder are the other side of the ABI, and a
 * mistake of one side must show as a failing test, not be made twice. Section numbers are those of the notes. */
#ifndef HIPDNN_ENGINE_PLUGIN_H
#define HIPDNN_ENGINE_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#define HIPDNN_PLUGIN_EXPORT __attribute__((visibility("default")))

/* Section 2: types. */

typedef enum {
    HIPDNN_PLUGIN_STATUS_SUCCESS = 0,
    HIPDNN_PLUGIN_STATUS_BAD_PARAM = 1,
    HIPDNN_PLUGIN_STATUS_INVALID_VALUE = 2,
    HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR = 3,
    HIPDNN_PLUGIN_STATUS_ALLOC_FAILED = 4,
    HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE = 5,
    HIPDNN_PLUGIN_STATUS_NOT_INITIALIZED = 6
} hipdnnPluginStatus_t;

typedef enum { HIPDNN_PLUGIN_TYPE_UNSPECIFIED = 0, HIPDNN_PLUGIN_TYPE_ENGINE = 1, HIPDNN_PLUGIN_TYPE_HEURISTIC = 2 } hipdnnPluginType_t;

typedef enum {
    HIPDNN_SEV_INFO = 0,
    HIPDNN_SEV_WARN = 1,
    HIPDNN_SEV_ERROR = 2,
    HIPDNN_SEV_FATAL = 3,
    HIPDNN_SEV_OFF = 4
} hipdnnSeverity_t;

typedef struct {
    const void *ptr;
    size_t size;
} hipdnnPluginConstData_t;

typedef struct {
    int64_t uid;
    void *ptr;
} hipdnnPluginDeviceBuffer_t;

typedef struct hipdnnEnginePluginHandle *hipdnnEnginePluginHandle_t;
typedef struct hipdnnEnginePluginExecutionContext *hipdnnEnginePluginExecutionContext_t;
typedef void (*hipdnnCallback_t)(hipdnnSeverity_t, const char *);
typedef struct ihipStream_t *hipStream_t;

_Static_assert(sizeof(hipdnnPluginStatus_t) == 4, "a C enum is an int");
_Static_assert(sizeof(hipdnnPluginConstData_t) == 16, "two words");
_Static_assert(sizeof(hipdnnPluginDeviceBuffer_t) == 16, "two words");

/* Section 3: every plugin. */

HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnPluginGetName(const char **name);
HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnPluginGetVersion(const char **version);
HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnPluginGetType(hipdnnPluginType_t *type);
HIPDNN_PLUGIN_EXPORT void hipdnnPluginGetLastErrorString(const char **error_str);
/* Optional. */
HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnPluginGetApiVersion(const char **version);
HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnPluginSetLoggingCallback(hipdnnCallback_t callback);
HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnPluginSetLogLevel(hipdnnSeverity_t level);

/* Section 4.1: every engine plugin. */

HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginGetAllEngineIds(int64_t *ids, uint32_t max, uint32_t *num);
HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginCreate(hipdnnEnginePluginHandle_t *handle);
HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginDestroy(hipdnnEnginePluginHandle_t handle);
HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginSetStream(hipdnnEnginePluginHandle_t handle, hipStream_t stream);
HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginGetApplicableEngineIds(hipdnnEnginePluginHandle_t handle,
                                                                                   const hipdnnPluginConstData_t *graph, int64_t *ids,
                                                                                   uint32_t max, uint32_t *num);
HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginGetEngineDetails(hipdnnEnginePluginHandle_t handle, int64_t engine_id,
                                                                             const hipdnnPluginConstData_t *graph,
                                                                             hipdnnPluginConstData_t *details);
HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginDestroyEngineDetails(hipdnnEnginePluginHandle_t handle,
                                                                                 hipdnnPluginConstData_t *details);
HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginGetWorkspaceSize(hipdnnEnginePluginHandle_t handle,
                                                                             const hipdnnPluginConstData_t *config,
                                                                             const hipdnnPluginConstData_t *graph, size_t *bytes);
HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginCreateExecutionContext(hipdnnEnginePluginHandle_t handle,
                                                                                   const hipdnnPluginConstData_t *config,
                                                                                   const hipdnnPluginConstData_t *graph,
                                                                                   hipdnnEnginePluginExecutionContext_t *context);
HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginDestroyExecutionContext(hipdnnEnginePluginHandle_t handle,
                                                                                    hipdnnEnginePluginExecutionContext_t context);
HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginGetWorkspaceSizeFromExecutionContext(
    hipdnnEnginePluginHandle_t handle, hipdnnEnginePluginExecutionContext_t context, size_t *bytes);
HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginExecuteOpGraph(hipdnnEnginePluginHandle_t handle,
                                                                           hipdnnEnginePluginExecutionContext_t context, void *workspace,
                                                                           const hipdnnPluginDeviceBuffer_t *buffers, uint32_t num_buffers);

/* Section 4.2, optional: shapes given at execution. */

HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginExecuteOpGraphWithOverrides(
    hipdnnEnginePluginHandle_t handle, hipdnnEnginePluginExecutionContext_t context, void *workspace,
    const hipdnnPluginDeviceBuffer_t *buffers, uint32_t num_buffers, uint32_t num_overrides, const int64_t *uids, const uint32_t *lengths,
    const int64_t *const *shapes, const int64_t *const *strides);

/* Section 4.3, optional: serialised contexts. Functions of one name have more than one form, so only their types stand here. */

/* hipdnnEnginePluginSerializeExecutionContextWithEngineId */
typedef hipdnnPluginStatus_t SerializeWithEngineId(hipdnnEnginePluginHandle_t handle, int64_t engine_id,
                                                   hipdnnEnginePluginExecutionContext_t context, hipdnnPluginConstData_t *out);
/* hipdnnEnginePluginSerializeExecutionContext */
typedef hipdnnPluginStatus_t SerializePlain(hipdnnEnginePluginHandle_t handle, hipdnnEnginePluginExecutionContext_t context,
                                            hipdnnPluginConstData_t *out);
/* hipdnnEnginePluginSerializeExecutionContext_ext */
typedef hipdnnPluginStatus_t SerializeExt(hipdnnEnginePluginHandle_t handle, hipdnnEnginePluginExecutionContext_t context,
                                          const hipdnnPluginConstData_t *engine_config, hipdnnPluginConstData_t *out);
/* hipdnnEnginePluginDestroySerializedExecutionContext, and with _ext */
typedef hipdnnPluginStatus_t DestroySerialized(hipdnnEnginePluginHandle_t handle, hipdnnPluginConstData_t *bytes);
/* hipdnnEnginePluginCreateExecutionContextFromSerialized, and with _ext */
typedef hipdnnPluginStatus_t CreateFromSerialized(hipdnnEnginePluginHandle_t handle, const hipdnnPluginConstData_t *bytes,
                                                  hipdnnEnginePluginExecutionContext_t *context);
/* hipdnnEnginePluginCreateExecutionContextFromSerialized of a plugin that wants the engine's configuration before the bytes */
typedef hipdnnPluginStatus_t CreateFromConfigAndSerialized(hipdnnEnginePluginHandle_t handle, const hipdnnPluginConstData_t *config,
                                                           const hipdnnPluginConstData_t *bytes,
                                                           hipdnnEnginePluginExecutionContext_t *context);

/* Section 4.4, optional: names of engines. */

HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginGetEngineName(int64_t engine_id, const char **name);

#endif
