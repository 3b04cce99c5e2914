#include "record.h"
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct test_plugin_counters counters;
static hipdnnCallback_t log_callback;
static hipdnnSeverity_t log_level = HIPDNN_SEV_OFF;
static _Thread_local char last_error[2048];

struct test_plugin_counters *record_open(void) {
    pthread_mutex_lock(&lock);
    return &counters;
}

void record_close(void) {
    pthread_mutex_unlock(&lock);
}

size_t test_plugin_counters(struct test_plugin_counters *to, size_t size) {
    if (to && size == sizeof *to) {
        *to = *record_open();
        record_close();
    }
    return sizeof *to;
}

hipdnnPluginStatus_t record_enter(enum entry entry) {
    record_open()->calls[entry]++;
    record_close();
    const char *text = FAILURE_TEXT;
    if (entry == (enum entry)FAILS_IN && text)
        return fail((hipdnnPluginStatus_t)(FAILS_WITH), "%s", text);
    if (entry == (enum entry)FAILS_IN && !FAILS_LATE)
        return fail((hipdnnPluginStatus_t)(FAILS_WITH), "entry %d fails on purpose", (int)entry);
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

hipdnnPluginStatus_t record_leave(enum entry entry) {
    if (entry == (enum entry)FAILS_IN && FAILS_LATE)
        return fail((hipdnnPluginStatus_t)(FAILS_WITH), "entry %d fails on purpose, after its work", (int)entry);
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

void log_line(hipdnnSeverity_t severity, const char *text) {
    hipdnnCallback_t callback;
    hipdnnSeverity_t level;
    record_open();
    callback = log_callback;
    level = log_level;
    record_close();
    if (callback && severity >= level && level != HIPDNN_SEV_OFF)
        callback(severity, text);
}

hipdnnPluginStatus_t fail(hipdnnPluginStatus_t status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_error, sizeof last_error, format, arguments);
    va_end(arguments);
    log_line(HIPDNN_SEV_ERROR, last_error);
    return status;
}

void hipdnnPluginGetLastErrorString(const char **error_str) {
    record_open()->calls[ENTRY_GET_LAST_ERROR]++;
    record_close();
    if (!error_str)
        return;
#if ERROR_TEXT == ERROR_TEXT_NULL
    *error_str = NULL;
#elif ERROR_TEXT == ERROR_TEXT_EMPTY
    *error_str = "";
#elif ERROR_TEXT == ERROR_TEXT_LONG
    static char text[1 << 20];
    record_open();
    memset(text, 'e', sizeof text - 1);
    record_close();
    *error_str = text;
#else
    *error_str = last_error;
#endif
}

hipdnnPluginStatus_t hipdnnPluginSetLoggingCallback(hipdnnCallback_t callback) {
    ENTER(ENTRY_SET_LOGGING_CALLBACK);
    record_open();
    log_callback = callback;
    record_close();
    return record_leave(ENTRY_SET_LOGGING_CALLBACK);
}

hipdnnPluginStatus_t hipdnnPluginSetLogLevel(hipdnnSeverity_t level) {
    ENTER(ENTRY_SET_LOG_LEVEL);
    record_open();
    log_level = level;
    record_close();
    return record_leave(ENTRY_SET_LOG_LEVEL);
}
