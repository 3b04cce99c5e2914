#include "flat.h"
#include <string.h>

static bool inside(struct flat *f, size_t at, size_t bytes) {
    if (f->bad || at > f->size || bytes > f->size - at) {
        f->bad = true;
        return false;
    }
    return true;
}

uint32_t flat_u32_at(const struct flat *f, size_t at) {
    uint32_t v;
    memcpy(&v, f->data + at, sizeof v);
    return v;
}

int64_t flat_i64_at(const struct flat *f, size_t at) {
    int64_t v;
    memcpy(&v, f->data + at, sizeof v);
    return v;
}

/* The place that the offset at `at` points to. */
static size_t follow(struct flat *f, size_t at) {
    if (!inside(f, at, 4))
        return 0;
    size_t target = at + flat_u32_at(f, at);
    return inside(f, target, 1) ? target : 0;
}

struct table flat_table_at(struct flat *f, size_t at) {
    struct table none = {0}, t = {.at = follow(f, at)};
    if (f->bad || !inside(f, t.at, 4))
        return none;
    int64_t vtable = (int64_t)t.at - (int32_t)flat_u32_at(f, t.at);
    if (vtable < 0 || !inside(f, (size_t)vtable, 4)) {
        f->bad = true;
        return none;
    }
    t.vtable = (size_t)vtable;
    t.vtable_size = (size_t)f->data[t.vtable] | (size_t)f->data[t.vtable + 1] << 8;
    return inside(f, t.vtable, t.vtable_size) ? t : none;
}

struct table flat_root(struct flat *f) {
    return flat_table_at(f, 0);
}

size_t flat_field(struct flat *f, struct table t, unsigned slot, size_t bytes) {
    size_t entry = 4 + 2 * (size_t)slot;
    if (f->bad || t.at == 0 || entry + 2 > t.vtable_size)
        return 0;
    size_t offset = (size_t)f->data[t.vtable + entry] | (size_t)f->data[t.vtable + entry + 1] << 8;
    return offset != 0 && inside(f, t.at + offset, bytes) ? t.at + offset : 0;
}

uint8_t flat_u8(struct flat *f, struct table t, unsigned slot) {
    size_t at = flat_field(f, t, slot, 1);
    return at ? f->data[at] : 0;
}

int64_t flat_i64(struct flat *f, struct table t, unsigned slot) {
    size_t at = flat_field(f, t, slot, 8);
    return at ? flat_i64_at(f, at) : 0;
}

float flat_f32(struct flat *f, struct table t, unsigned slot, float absent) {
    size_t at = flat_field(f, t, slot, 4);
    float v = absent;
    if (at)
        memcpy(&v, f->data + at, sizeof v);
    return v;
}

size_t flat_target(struct flat *f, struct table t, unsigned slot, size_t bytes) {
    size_t at = flat_field(f, t, slot, 4);
    size_t target = at ? follow(f, at) : 0;
    return target && inside(f, target, bytes) ? target : 0;
}

struct table flat_table(struct flat *f, struct table t, unsigned slot) {
    struct table none = {0};
    size_t at = flat_field(f, t, slot, 4);
    return at ? flat_table_at(f, at) : none;
}

struct vector flat_vector(struct flat *f, struct table t, unsigned slot, size_t element_bytes) {
    struct vector v = {0};
    size_t at = flat_target(f, t, slot, 4);
    if (!at)
        return v;
    size_t count = flat_u32_at(f, at);
    if (!inside(f, at + 4, count * element_bytes))
        return v;
    return (struct vector){at + 4, count, true};
}
