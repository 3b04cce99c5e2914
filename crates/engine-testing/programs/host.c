/* A host of hipDNN engine plugins in C: loads one by path and takes it through its life, printing a line for each step.
 *
 *   host PLUGIN --graph FILE [--save FILE] [--block N] ITEM...    make a context from a graph, execute, save it, restore it, execute again
 *   host PLUGIN --load FILE ITEM...                               restore a context from a file, with no graph, and execute
 *
 * An ITEM is one tensor: `in UID FILE`, `scalar UID FILE` (at the end of a page, before one that faults), `out UID BYTES FILE`, which is
 * written, or `null UID`.
 * It ends with 0, with 1 after `error FUNCTION STATUS TEXT` for a call that failed, and with 2 where the program itself could not go on. */
#include "flat.h"
#include "hipdnn_engine_plugin.h"
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAX_ITEMS = 64, MAX_ENGINES = 64 };

static void *library;

static void stop(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
static void stop(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(2);
}

static void *required(const char *name) {
    void *f = dlsym(library, name);
    if (!f)
        stop("%s is missing", name);
    return f;
}

/* A function of the plugin, with the type that the header gives its name. */
#define PLUGIN(name) ((__typeof__(&(name)))required(#name))

static void check(const char *function, hipdnnPluginStatus_t status) {
    if (status == HIPDNN_PLUGIN_STATUS_SUCCESS)
        return;
    const char *text = NULL;
    PLUGIN(hipdnnPluginGetLastErrorString)(&text);
    printf("error %s %d %s\n", function, (int)status, text ? text : "(no text)");
    exit(1);
}

#define CALL(name, ...) check(#name, PLUGIN(name)(__VA_ARGS__))

static hipdnnPluginConstData_t read_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END))
        stop("%s cannot be read", path);
    long size = ftell(file);
    rewind(file);
    char *bytes = malloc((size_t)size + 1);
    if (!bytes || fread(bytes, 1, (size_t)size, file) != (size_t)size)
        stop("%s cannot be read", path);
    fclose(file);
    return (hipdnnPluginConstData_t){bytes, (size_t)size};
}

static void write_file(const char *path, const void *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, size, file) != size || fclose(file))
        stop("%s cannot be written", path);
}

/* The bytes at the end of a page, with a page behind that faults. */
static void *guarded(hipdnnPluginConstData_t data) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED || data.size > page || mprotect(pages + page, page, PROT_NONE))
        stop("no memory for a scalar");
    memcpy(pages + page - data.size, data.ptr, data.size);
    free((void *)data.ptr);
    return pages + page - data.size;
}

struct output {
    void *at;
    size_t size;
    const char *path;
};

static hipdnnPluginDeviceBuffer_t buffers[MAX_ITEMS];
static struct output outputs[MAX_ITEMS];
static uint32_t buffer_count;
static size_t output_count;

static void add_items(int count, char **words) {
    for (int i = 0; i < count;) {
        if (buffer_count == MAX_ITEMS || i + 1 >= count)
            stop("an item without a uid, or too many items");
        hipdnnPluginDeviceBuffer_t *b = &buffers[buffer_count++];
        const char *kind = words[i];
        b->uid = strtoll(words[i + 1], NULL, 10);
        if (!strcmp(kind, "null")) {
            i += 2;
        } else if (!strcmp(kind, "in") && i + 2 < count) {
            b->ptr = (void *)read_file(words[i + 2]).ptr;
            i += 3;
        } else if (!strcmp(kind, "scalar") && i + 2 < count) {
            b->ptr = guarded(read_file(words[i + 2]));
            i += 3;
        } else if (!strcmp(kind, "out") && i + 3 < count) {
            struct output *o = &outputs[output_count++];
            o->size = strtoul(words[i + 2], NULL, 10);
            o->path = words[i + 3];
            b->ptr = o->at = malloc(o->size);
            i += 4;
        } else {
            stop("%s is no item", kind);
        }
    }
}

static void *workspace_for(size_t bytes) {
    void *workspace = bytes ? aligned_alloc(256, (bytes + 255) / 256 * 256) : NULL;
    if (bytes && !workspace)
        stop("no memory for a workspace of %zu bytes", bytes);
    return workspace;
}

/* Executes with poisoned outputs. */
static void execute(hipdnnEnginePluginHandle_t handle, hipdnnEnginePluginExecutionContext_t context) {
    size_t bytes = 0;
    CALL(hipdnnEnginePluginGetWorkspaceSizeFromExecutionContext, handle, context, &bytes);
    printf("workspace %zu\n", bytes);
    void *workspace = workspace_for(bytes);
    for (size_t i = 0; i < output_count; i++)
        memset(outputs[i].at, 0xff, outputs[i].size);
    CALL(hipdnnEnginePluginExecuteOpGraph, handle, context, workspace, buffers, buffer_count);
    free(workspace);
    puts("executed");
}

/* An EngineConfig with an engine, and a setting of "test.block" if it is not 0. Offsets count from where they stand. */
static hipdnnPluginConstData_t config_of(int64_t engine, int64_t block) {
    static struct {
        uint32_t root, pad;
        uint16_t vtable[4];
        int32_t back;
        uint32_t knobs;
        int64_t engine_id;
        uint32_t knob_count, knob;
        uint16_t setting_vtable[6];
        uint32_t pad2;
        int32_t setting_back;
        uint32_t knob_id, value;
        uint8_t value_type, pad3[3];
        uint32_t name_length;
        char name[12];
        uint16_t value_vtable[4];
        int32_t value_back;
        uint32_t pad4;
        int64_t number;
    } c;
#define AT(field) offsetof(__typeof__(c), field)
    c.root = (uint32_t)AT(back);
    c.vtable[0] = 8;
    c.vtable[1] = 16;
    c.vtable[2] = 8;
    c.vtable[3] = block ? 4 : 0;
    c.back = (int32_t)(AT(back) - AT(vtable));
    c.knobs = (uint32_t)(AT(knob_count) - AT(knobs));
    c.engine_id = engine;
    c.knob_count = 1;
    c.knob = (uint32_t)(AT(setting_back) - AT(knob));
    c.setting_vtable[0] = 10;
    c.setting_vtable[1] = 16;
    c.setting_vtable[2] = 4;
    c.setting_vtable[3] = 12;
    c.setting_vtable[4] = 8;
    c.setting_back = (int32_t)(AT(setting_back) - AT(setting_vtable));
    c.knob_id = (uint32_t)(AT(name_length) - AT(knob_id));
    c.value = (uint32_t)(AT(value_back) - AT(value));
    c.value_type = 1;
    c.name_length = 10;
    memcpy(c.name, "test.block", 11);
    c.value_vtable[0] = 6;
    c.value_vtable[1] = 16;
    c.value_vtable[2] = 8;
    c.value_back = (int32_t)(AT(value_back) - AT(value_vtable));
    c.number = block;
    return (hipdnnPluginConstData_t){&c, sizeof c};
}

static int64_t first_applicable(hipdnnEnginePluginHandle_t handle, const hipdnnPluginConstData_t *graph) {
    int64_t ids[MAX_ENGINES];
    uint32_t count = 0;
    CALL(hipdnnEnginePluginGetApplicableEngineIds, handle, graph, ids, MAX_ENGINES, &count);
    printf("applicable %u\n", count);
    if (count == 0)
        exit(0);
    return ids[0];
}

static int64_t print_engines(void) {
    int64_t ids[MAX_ENGINES];
    uint32_t count = 0, again = 0;
    CALL(hipdnnEnginePluginGetAllEngineIds, NULL, 0, &count);
    if (count == 0 || count > MAX_ENGINES)
        stop("%u engines", count);
    CALL(hipdnnEnginePluginGetAllEngineIds, ids, count, &again);
    for (uint32_t i = 0; i < count && again == count; i++) {
        __typeof__(&hipdnnEnginePluginGetEngineName) name_of = dlsym(library, "hipdnnEnginePluginGetEngineName");
        const char *name = NULL;
        if (name_of && name_of(ids[i], &name))
            name = NULL;
        printf("engine %lld %s\n", (long long)ids[i], name ? name : "(no name)");
    }
    return ids[0];
}

static void print_identity(void) {
    __typeof__(&hipdnnPluginGetApiVersion) api_version = dlsym(library, "hipdnnPluginGetApiVersion");
    const char *text = NULL;
    CALL(hipdnnPluginGetName, &text);
    printf("name %s\n", text);
    CALL(hipdnnPluginGetVersion, &text);
    printf("version %s\n", text);
    hipdnnPluginType_t type = HIPDNN_PLUGIN_TYPE_UNSPECIFIED;
    CALL(hipdnnPluginGetType, &type);
    printf("type %d\n", (int)type);
    text = "(none)";
    if (api_version)
        check("hipdnnPluginGetApiVersion", api_version(&text));
    printf("api %s\n", text);
}

/* Serialises by the first family of hooks that is there, copies the bytes and gives them back. Empty if there are no hooks. */
static hipdnnPluginConstData_t serialize(hipdnnEnginePluginHandle_t handle, int64_t engine, hipdnnEnginePluginExecutionContext_t context,
                                         const hipdnnPluginConstData_t *config) {
    hipdnnPluginConstData_t out = {0};
    SerializeWithEngineId *with_id = dlsym(library, "hipdnnEnginePluginSerializeExecutionContextWithEngineId");
    SerializePlain *plain = dlsym(library, "hipdnnEnginePluginSerializeExecutionContext");
    SerializeExt *ext = dlsym(library, "hipdnnEnginePluginSerializeExecutionContext_ext");
    DestroySerialized *destroy = dlsym(library, with_id || plain ? "hipdnnEnginePluginDestroySerializedExecutionContext"
                                                                 : "hipdnnEnginePluginDestroySerializedExecutionContext_ext");
    if (!destroy || !(with_id || plain || ext))
        return out;
    check("serialize", with_id ? with_id(handle, engine, context, &out) : plain ? plain(handle, context, &out) : ext(handle, context, config, &out));
    hipdnnPluginConstData_t copy = {malloc(out.size + 1), out.size};
    memcpy((void *)copy.ptr, out.ptr, out.size);
    check("destroy serialized", destroy(handle, &out));
    if (out.ptr || out.size)
        stop("destroying serialised bytes left a pointer");
    printf("serialized %zu\n", copy.size);
    return copy;
}

static hipdnnEnginePluginExecutionContext_t restore(hipdnnEnginePluginHandle_t handle, const hipdnnPluginConstData_t *bytes) {
    CreateFromSerialized *create = dlsym(library, "hipdnnEnginePluginCreateExecutionContextFromSerialized");
    hipdnnEnginePluginExecutionContext_t context = NULL;
    if (!create)
        create = required("hipdnnEnginePluginCreateExecutionContextFromSerialized_ext");
    check("create from serialized", create(handle, bytes, &context));
    puts("restored");
    return context;
}

static hipdnnEnginePluginExecutionContext_t create(hipdnnEnginePluginHandle_t handle, int64_t engine, int64_t block,
                                                   const hipdnnPluginConstData_t *graph) {
    hipdnnPluginConstData_t details = {0}, config = config_of(engine, block);
    CALL(hipdnnEnginePluginGetEngineDetails, handle, engine, graph, &details);
    struct flat f = {.data = details.ptr, .size = details.size};
    struct table root = flat_root(&f);
    int64_t told = flat_i64(&f, root, 0);
    size_t knobs = flat_vector(&f, root, 1, 4).count;
    if (f.bad)
        stop("details that cannot be read");
    printf("details %lld %zu\n", (long long)told, knobs);
    CALL(hipdnnEnginePluginDestroyEngineDetails, handle, &details);
    size_t bound = 0;
    CALL(hipdnnEnginePluginGetWorkspaceSize, handle, &config, graph, &bound);
    printf("bound %zu\n", bound);
    hipdnnEnginePluginExecutionContext_t context = NULL;
    CALL(hipdnnEnginePluginCreateExecutionContext, handle, &config, graph, &context);
    if (!context)
        stop("no context");
    puts("context");
    return context;
}

static void destroy_context(hipdnnEnginePluginHandle_t handle, hipdnnEnginePluginExecutionContext_t context) {
    CALL(hipdnnEnginePluginDestroyExecutionContext, handle, context);
    puts("destroyed");
}

static void write_outputs(void) {
    for (size_t i = 0; i < output_count; i++)
        write_file(outputs[i].path, outputs[i].at, outputs[i].size);
}

/* Executes a restored context, and compares with what the one before wrote. */
static void execute_again(hipdnnEnginePluginHandle_t handle, hipdnnEnginePluginExecutionContext_t context) {
    void *before[MAX_ITEMS];
    for (size_t i = 0; i < output_count; i++)
        before[i] = memcpy(malloc(outputs[i].size), outputs[i].at, outputs[i].size);
    execute(handle, context);
    for (size_t i = 0; i < output_count; i++) {
        puts(memcmp(before[i], outputs[i].at, outputs[i].size) ? "different" : "same");
        free(before[i]);
    }
}

int main(int argc, char **argv) {
    const char *graph_path = NULL, *save = NULL, *load = NULL;
    int64_t block = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    int at = 2;
    for (; at + 1 < argc && !strncmp(argv[at], "--", 2); at += 2) {
        if (!strcmp(argv[at], "--graph"))
            graph_path = argv[at + 1];
        else if (!strcmp(argv[at], "--save"))
            save = argv[at + 1];
        else if (!strcmp(argv[at], "--load"))
            load = argv[at + 1];
        else if (!strcmp(argv[at], "--block"))
            block = strtoll(argv[at + 1], NULL, 10);
        else
            stop("%s is no option", argv[at]);
    }
    if (argc < 2 || !graph_path == !load)
        stop("usage: host PLUGIN (--graph FILE [--save FILE] [--block N] | --load FILE) ITEM...");
    add_items(argc - at, argv + at);
    library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!library)
        stop("%s", dlerror());
    print_identity();
    int64_t engine = print_engines();
    hipdnnEnginePluginHandle_t handle = NULL;
    CALL(hipdnnEnginePluginCreate, &handle);
    if (!handle)
        stop("no handle");
    CALL(hipdnnEnginePluginSetStream, handle, NULL);
    hipdnnPluginConstData_t payload = {0};
    hipdnnEnginePluginExecutionContext_t context;
    if (load) {
        payload = read_file(load);
        context = restore(handle, &payload);
        execute(handle, context);
        write_outputs();
    } else {
        hipdnnPluginConstData_t graph = read_file(graph_path);
        engine = first_applicable(handle, &graph);
        context = create(handle, engine, block, &graph);
        free((void *)graph.ptr);
        execute(handle, context);
        write_outputs();
        hipdnnPluginConstData_t config = config_of(engine, block);
        payload = serialize(handle, engine, context, &config);
        if (payload.ptr) {
            destroy_context(handle, context);
            context = restore(handle, &payload);
            execute_again(handle, context);
        }
        if (payload.ptr && save)
            write_file(save, payload.ptr, payload.size);
    }
    free((void *)payload.ptr);
    destroy_context(handle, context);
    CALL(hipdnnEnginePluginDestroy, handle);
    puts("done");
    return 0;
}
