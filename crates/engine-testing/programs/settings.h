/* The knobs of the test plugin's engines: telling of them in EngineDetails, reading them from EngineConfig. */
#ifndef SETTINGS_H
#define SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct settings {
    int64_t engine_id;
    /* "test.block", 1 to 8: the workspace is that many times as large. */
    int64_t block;
    /* "test.order": 0 for "rows", 1 for "columns". */
    int64_t order;
};

/* Reads an EngineConfig. Returns null, or what is wrong with it. */
const char *settings_read(const void *bytes, size_t size, struct settings *settings);

/* Writes an EngineDetails into at most `room` bytes; returns its size, 0 if it does not fit. */
size_t details_write(int64_t engine_id, const char *name, bool with_knobs, uint8_t *to, size_t room);

#endif
