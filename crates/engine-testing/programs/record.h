/* What the test plugin was asked, for the tests; its last error and its log. */
#ifndef RECORD_H
#define RECORD_H

#include "variant.h"

/* The order is known to the Rust half (src/counters.rs). */
enum entry {
    ENTRY_NONE = -1,
    ENTRY_GET_ALL_ENGINE_IDS,
    ENTRY_CREATE,
    ENTRY_DESTROY,
    ENTRY_SET_STREAM,
    ENTRY_GET_APPLICABLE_ENGINE_IDS,
    ENTRY_GET_ENGINE_DETAILS,
    ENTRY_DESTROY_ENGINE_DETAILS,
    ENTRY_GET_WORKSPACE_SIZE,
    ENTRY_CREATE_EXECUTION_CONTEXT,
    ENTRY_DESTROY_EXECUTION_CONTEXT,
    ENTRY_GET_CONTEXT_WORKSPACE_SIZE,
    ENTRY_EXECUTE,
    ENTRY_EXECUTE_WITH_OVERRIDES,
    ENTRY_SERIALIZE,
    ENTRY_DESTROY_SERIALIZED,
    ENTRY_CREATE_FROM_SERIALIZED,
    ENTRY_GET_ENGINE_NAME,
    ENTRY_SET_LOGGING_CALLBACK,
    ENTRY_SET_LOG_LEVEL,
    ENTRY_GET_LAST_ERROR,
    ENTRY_COUNT
};

enum { MAX_RECORDED = 64 };

struct test_plugin_counters {
    uint64_t calls[ENTRY_COUNT];
    /* Bytes of payloads that were handed over, read or not. */
    uint64_t payload_bytes;
    /* Of the last stream that was set, and the last execution. */
    uint64_t last_stream, last_workspace;
    uint64_t last_count;
    int64_t last_uids[MAX_RECORDED];
    uint64_t last_pointers[MAX_RECORDED];
    /* Of the last context that was made or restored. */
    int64_t last_block, last_order;
    /* What is not destroyed. */
    int64_t live_handles, live_contexts, live_buffers;
};

/* Copies the counters if `size` is theirs; returns their size. */
HIPDNN_PLUGIN_EXPORT size_t test_plugin_counters(struct test_plugin_counters *to, size_t size);

/* The counters, until record_close. */
struct test_plugin_counters *record_open(void);
void record_close(void);

/* Counts a call. Not SUCCESS if this entry fails and does nothing. */
hipdnnPluginStatus_t record_enter(enum entry entry);
/* Not SUCCESS if this entry fails after it has done its work. */
hipdnnPluginStatus_t record_leave(enum entry entry);

/* Remembers the text for this thread, logs it, and returns the status. */
hipdnnPluginStatus_t fail(hipdnnPluginStatus_t status, const char *format, ...) __attribute__((format(printf, 2, 3)));
void log_line(hipdnnSeverity_t severity, const char *text);

#define ENTER(entry)                                                                                                                       \
    do {                                                                                                                                   \
        hipdnnPluginStatus_t entered = record_enter(entry);                                                                                \
        if (entered != HIPDNN_PLUGIN_STATUS_SUCCESS)                                                                                       \
            return entered;                                                                                                                \
    } while (0)

#endif
