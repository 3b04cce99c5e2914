#include "settings.h"
#include "flat.h"
#include <string.h>

enum { VALUE_INT = 1, VALUE_FLOAT = 2, VALUE_STRING = 3 };

static bool text_at(struct flat *f, size_t at, const char *text) {
    size_t length = strlen(text);
    return at && flat_u32_at(f, at) == length && f->size - at - 4 >= length && !memcmp(f->data + at + 4, text, length);
}

static const char *read_setting(struct flat *f, struct table setting, struct settings *s) {
    size_t name = flat_target(f, setting, 0, 4);
    unsigned kind = flat_u8(f, setting, 1);
    struct table value = flat_table(f, setting, 2);
    if (!name || !value.at)
        return "bad configuration: a setting without a name or a value";
    if (text_at(f, name, "test.block")) {
        s->block = flat_i64(f, value, 0);
        return kind == VALUE_INT && s->block >= 1 && s->block <= 8 ? NULL : "test.block is a number from 1 to 8";
    }
    if (text_at(f, name, "test.order")) {
        size_t order = flat_target(f, value, 0, 4);
        s->order = text_at(f, order, "columns");
        return kind == VALUE_STRING && (s->order || text_at(f, order, "rows")) ? NULL : "test.order is rows or columns";
    }
    if (text_at(f, name, "test.share"))
        return kind == VALUE_FLOAT ? NULL : "test.share is a number";
    return "bad configuration: a knob that this plugin does not have";
}

const char *settings_read(const void *bytes, size_t size, struct settings *s) {
    struct flat f = {.data = bytes, .size = bytes ? size : 0};
    struct table root = flat_root(&f);
    *s = (struct settings){.engine_id = flat_i64(&f, root, 0), .block = 1};
    struct vector knobs = flat_vector(&f, root, 1, 4);
    const char *why = NULL;
    for (size_t i = 0; i < knobs.count && !why; i++)
        why = read_setting(&f, flat_table_at(&f, knobs.at + 4 * i), s);
    return f.bad ? "bad configuration: it is too short, or an offset leads out of it" : why;
}

/* A FlatBuffer written from its front: a table first, then what its offsets point to. */
struct writer {
    uint8_t *bytes;
    size_t size, room;
    bool full;
};

static size_t reserve(struct writer *w, size_t align, size_t bytes) {
    size_t at = (w->size + align - 1) / align * align;
    if (w->full || at > w->room || bytes > w->room - at) {
        w->full = true;
        return 0;
    }
    memset(w->bytes + w->size, 0, at + bytes - w->size);
    w->size = at + bytes;
    return at;
}

static void put(struct writer *w, size_t at, const void *value, size_t bytes) {
    if (!w->full)
        memcpy(w->bytes + at, value, bytes);
}

static void put_u8(struct writer *w, size_t at, uint8_t v) {
    put(w, at, &v, sizeof v);
}

static void put_i64(struct writer *w, size_t at, int64_t v) {
    put(w, at, &v, sizeof v);
}

static void put_f64(struct writer *w, size_t at, double v) {
    put(w, at, &v, sizeof v);
}

static void point(struct writer *w, size_t from, size_t to) {
    uint32_t offset = (uint32_t)(to - from);
    put(w, from, &offset, sizeof offset);
}

/* Writes a vtable and an empty table, whose fields have these sizes (0: the field is absent), and says where each field is. */
static size_t put_table(struct writer *w, const uint8_t *sizes, unsigned count, size_t *fields) {
    uint16_t vtable[16] = {0};
    size_t end = 4;
    for (unsigned i = 0; i < count; i++) {
        if (!sizes[i])
            continue;
        end = (end + sizes[i] - 1) / sizes[i] * sizes[i];
        vtable[2 + i] = (uint16_t)end;
        end += sizes[i];
    }
    vtable[0] = (uint16_t)(4 + 2 * count);
    vtable[1] = (uint16_t)end;
    size_t at = reserve(w, 8, vtable[0]), table = reserve(w, 8, end);
    int32_t back = (int32_t)(table - at);
    put(w, at, vtable, vtable[0]);
    put(w, table, &back, sizeof back);
    for (unsigned i = 0; i < count; i++)
        fields[i] = table + vtable[2 + i];
    return table;
}

static size_t put_string(struct writer *w, const char *text) {
    uint32_t length = (uint32_t)strlen(text);
    size_t at = reserve(w, 4, 4 + length + 1);
    put(w, at, &length, sizeof length);
    put(w, at + 4, text, length);
    return at;
}

/* A vector of `count` elements of 4 bytes, which are zero. */
static size_t put_vector(struct writer *w, uint32_t count) {
    size_t at = reserve(w, 4, 4 + 4 * (size_t)count);
    put(w, at, &count, sizeof count);
    return at;
}

/* One knob with its default and its constraint; returns the table of the constraint's fields in `constraint`. */
static size_t put_knob(struct writer *w, const char *name, const char *about, uint8_t kind, size_t *value, size_t *constraint) {
    static const uint8_t KNOB[] = {4, 4, 1, 4, 1, 4};
    static const uint8_t VALUES[][1] = {{8}, {8}, {4}};
    static const uint8_t CONSTRAINTS[][4] = {{8, 8, 8}, {8, 8}, {4, 4}};
    size_t knob[6];
    size_t table = put_table(w, KNOB, 6, knob);
    put_u8(w, knob[2], kind);
    put_u8(w, knob[4], kind);
    point(w, knob[0], put_string(w, name));
    point(w, knob[1], put_string(w, about));
    point(w, knob[3], put_table(w, VALUES[kind - 1], 1, value));
    point(w, knob[5], put_table(w, CONSTRAINTS[kind - 1], 4, constraint));
    return table;
}

static void put_knobs(struct writer *w, size_t field) {
    size_t knobs = put_vector(w, 3), value[1], constraint[4];
    point(w, field, knobs);
    point(w, knobs + 4, put_knob(w, "test.block", "how often the workspace is taken", VALUE_INT, value, constraint));
    put_i64(w, value[0], 1);
    put_i64(w, constraint[0], 1);
    put_i64(w, constraint[1], 8);
    put_i64(w, constraint[2], 1);
    point(w, knobs + 8, put_knob(w, "test.order", "what is counted first", VALUE_STRING, value, constraint));
    point(w, value[0], put_string(w, "rows"));
    put_u8(w, constraint[0], 16);
    size_t valid = put_vector(w, 2);
    point(w, constraint[1], valid);
    point(w, valid + 4, put_string(w, "rows"));
    point(w, valid + 8, put_string(w, "columns"));
    point(w, knobs + 12, put_knob(w, "test.share", "a share of nothing", VALUE_FLOAT, value, constraint));
    put_f64(w, value[0], 0.5);
    put_f64(w, constraint[0], 0);
    put_f64(w, constraint[1], 1);
}

size_t details_write(int64_t engine_id, const char *name, bool with_knobs, uint8_t *to, size_t room) {
    struct writer w = {to, 0, room, false};
    const uint8_t sizes[] = {8, with_knobs ? 4 : 0, 4, name ? 4 : 0};
    size_t root = reserve(&w, 4, 4), fields[4];
    point(&w, root, put_table(&w, sizes, 4, fields));
    put_i64(&w, fields[0], engine_id);
    if (with_knobs)
        put_knobs(&w, fields[1]);
    size_t notes = put_vector(&w, 1);
    point(&w, fields[2], notes);
    put_u8(&w, notes + 4, 1);
    if (name)
        point(&w, fields[3], put_string(&w, name));
    return w.full ? 0 : w.size;
}
