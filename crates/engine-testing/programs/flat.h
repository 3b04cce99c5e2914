/* Reading FlatBuffers: every access is checked against the size of the buffer, and a failure is remembered. */
#ifndef FLAT_H
#define FLAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct flat {
    const uint8_t *data;
    size_t size;
    /* Something lay outside the buffer. What was read since is 0. */
    bool bad;
};

/* A table: where it and its vtable begin. `at` is 0 for a table that is absent or bad. */
struct table {
    size_t at, vtable, vtable_size;
};

/* A vector: where its first element is, and how many it has. `present` is false for one that is absent or bad. */
struct vector {
    size_t at, count;
    bool present;
};

struct table flat_root(struct flat *f);
/* The table that the offset at `at` points to. */
struct table flat_table_at(struct flat *f, size_t at);
/* Where the field in this slot is, 0 if it is absent. */
size_t flat_field(struct flat *f, struct table t, unsigned slot, size_t bytes);

uint8_t flat_u8(struct flat *f, struct table t, unsigned slot);
int64_t flat_i64(struct flat *f, struct table t, unsigned slot);
float flat_f32(struct flat *f, struct table t, unsigned slot, float absent);
struct table flat_table(struct flat *f, struct table t, unsigned slot);
struct vector flat_vector(struct flat *f, struct table t, unsigned slot, size_t element_bytes);
/* Where the value that an offset in this slot points to begins, 0 if absent; `bytes` of it are in the buffer. */
size_t flat_target(struct flat *f, struct table t, unsigned slot, size_t bytes);

/* Bytes at a place that was checked before. */
int64_t flat_i64_at(const struct flat *f, size_t at);
uint32_t flat_u32_at(const struct flat *f, size_t at);

#endif
