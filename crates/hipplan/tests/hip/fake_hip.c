// A HIP runtime without a GPU, for tests of how the executor treats runtimes and faults: any call can be made to fail, devices report
// any architecture in either layout, functions can be left out. Memory is the host's. Launches take the packed kernarg, copy it, and run
// when somebody waits for them, so that what the caller changes after a launch would be seen if it were not copied.
//
// Built with -DARCH="..." -DCOUNT=n -DLAYOUT=5|6 -DINIT=code, and -DNO_... for what is left out.
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#ifndef ARCH
#define ARCH "gfx942:sramecc+:xnack-"
#endif
#ifndef COUNT
#define COUNT 1
#endif
#ifndef LAYOUT
#define LAYOUT 6
#endif
#ifndef INIT
#define INIT 0
#endif

// Which call of the calling thread fails next, with which code, after how many that do not.
static __thread const char *fail_call;
static __thread int fail_code, fail_after;
static __thread int current;
static __thread int switches;

void fake_fail(const char *call, int code, int after) {
    fail_call = call;
    fail_code = code;
    fail_after = after;
}

static int failing(const char *call) {
    if (fail_call == NULL || strcmp(call, fail_call) != 0 || fail_after-- > 0) return 0;
    fail_call = NULL;
    return fail_code;
}
#define CHECK()                                  \
    do {                                         \
        int code = failing(__func__);            \
        if (code != 0) return code;              \
    } while (0)

// What is alive, and what was counted.
enum { MEMORY, MODULES, STREAMS, EVENTS, LOADS, LAUNCHES, LAST_DEVICE, INITS, KINDS };
static long counts[KINDS];
#define ADD(what, n) __atomic_add_fetch(&counts[what], n, __ATOMIC_SEQ_CST)
long fake_count(int what) { return __atomic_load_n(&counts[what], __ATOMIC_SEQ_CST); }
int fake_switches(void) { return switches; }
int fake_current(void) { return current; }
void fake_set_current(int device) { current = device; }

int hipInit(unsigned flags) {
    (void)flags;
    ADD(INITS, 1);
    return INIT;
}
int hipGetDeviceCount(int *count) {
    *count = COUNT;
    return COUNT == 0 ? 100 : 0;
}
int hipSetDevice(int device) {
    CHECK();
    if (device < 0 || device >= COUNT) return 101;
    switches++;
    current = device;
    return 0;
}
#ifndef NO_GET_DEVICE
int hipGetDevice(int *device) {
    CHECK();
    *device = current;
    return 0;
}
#endif
int hipRuntimeGetVersion(int *version) {
    *version = LAYOUT == 5 ? 50223000 : 60443484;
    return 0;
}
int hipMemGetInfo(size_t *free_bytes, size_t *total) {
    *free_bytes = 1000;
    *total = 4000;
    return 0;
}
// The code 4242 is known to this runtime only.
const char *hipGetErrorName(int code) { return code == 4242 ? "hipErrorOfTomorrow" : "hipErrorUnknown"; }

static int properties(char *to, size_t size, size_t at, int device) {
    if (device < 0 || device >= COUNT) return 101;
    memset(to, 0x41, size);
    // The name is what HIP writes; the rest is there to be told from it.
    memset(to + at, 0, 256);
    strncpy(to + at, ARCH, 255);
    return 0;
}
#ifndef NO_PROPERTIES
int hipGetDeviceProperties(void *to, int device) {
    CHECK();
    return properties(to, 792, 396, device);
}
#if LAYOUT == 6
int hipGetDevicePropertiesR0600(void *to, int device) {
    CHECK();
    return properties(to, 1472, 1160, device);
}
#endif
#endif

// Launches that have not run yet.
struct launch {
    struct launch *next;
    const char *kernel;
    unsigned grid, block;
    size_t bytes;
    char kernarg[256];
};
static struct launch *first, **last = &first;
static pthread_mutex_t queue = PTHREAD_MUTEX_INITIALIZER;

struct scale {
    float *y;
    const float *x;
    float a;
    unsigned n;
};
struct scale64 {
    float *y;
    const float *x;
    double a;
};

static void run(struct launch *l) {
    if (strcmp(l->kernel, "scale") == 0) {
        struct scale a;
        memcpy(&a, l->kernarg, sizeof a);
        for (unsigned i = 0; i < a.n; i++) a.y[i] = a.x[i] * a.a;
    } else if (strcmp(l->kernel, "scale64") == 0) {
        struct scale64 a;
        memcpy(&a, l->kernarg, sizeof a);
        for (unsigned i = 0; i < l->grid * l->block; i++) a.y[i] = (float)(a.x[i] * a.a);
    }
}
static void drain(void) {
    pthread_mutex_lock(&queue);
    while (first != NULL) {
        struct launch *l = first;
        first = l->next;
        run(l);
        free(l);
    }
    last = &first;
    pthread_mutex_unlock(&queue);
}

int hipModuleLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                          void *stream, void **parameters, void **extra) {
    ADD(LAUNCHES, 1);
#ifdef LAUNCH_NOTHING
    return 0;
#else
    CHECK();
    (void)stream;
    if (gy != 1 || gz != 1 || by != 1 || bz != 1 || shared != 0 || parameters != NULL) return 1;
    if ((size_t)extra[0] != 1 || (size_t)extra[2] != 2 || (size_t)extra[4] != 3) return 1;
    size_t bytes = *(size_t *)extra[3];
    if (bytes > 256) return 1;
    __atomic_store_n(&counts[LAST_DEVICE], (long)current, __ATOMIC_SEQ_CST);
    struct launch *l = malloc(sizeof *l);
    *l = (struct launch){NULL, function, gx, bx, bytes, {0}};
    memcpy(l->kernarg, extra[1], bytes);
    pthread_mutex_lock(&queue);
    *last = l;
    last = &l->next;
    pthread_mutex_unlock(&queue);
    return 0;
#endif
}

#ifndef NO_MALLOC
int hipMalloc(void **memory, size_t bytes) {
    CHECK();
    if (bytes > (size_t)1 << 40) return 2;
    *memory = aligned_alloc(256, (bytes + 255) / 256 * 256);
    ADD(MEMORY, 1);
    return 0;
}
#endif
#ifndef NO_FREE
int hipFree(void *memory) {
    CHECK();
    drain();
    free(memory);
    ADD(MEMORY, -1);
    return 0;
}
#endif
int hipMemcpy(void *to, const void *from, size_t bytes, int kind) {
    CHECK();
    if (kind != 1 && kind != 2) return 21;
    drain();
    memcpy(to, from, bytes);
    return 0;
}
int hipMemsetAsync(void *memory, int value, size_t bytes, void *stream) {
    CHECK();
    (void)stream;
    drain();
    memset(memory, value, bytes);
    return 0;
}
int hipDeviceSynchronize(void) {
    CHECK();
    drain();
    return 0;
}
int hipStreamCreateWithFlags(void **stream, unsigned flags) {
    CHECK();
    if (flags != 0) return 1;
    *stream = malloc(1);
    ADD(STREAMS, 1);
    return 0;
}
int hipStreamDestroy(void *stream) {
    free(stream);
    ADD(STREAMS, -1);
    return 0;
}
int hipStreamSynchronize(void *stream) {
    CHECK();
    (void)stream;
    drain();
    return 0;
}
int hipStreamWaitEvent(void *stream, void *event, unsigned flags) {
    CHECK();
    return stream != NULL && event != NULL && flags == 0 ? 0 : 1;
}
int hipEventCreateWithFlags(void **event, unsigned flags) {
    CHECK();
    if (flags != 0) return 1;
    *event = calloc(1, sizeof(float));
    ADD(EVENTS, 1);
    return 0;
}
int hipEventDestroy(void *event) {
    free(event);
    ADD(EVENTS, -1);
    return 0;
}
// The time of an event is the number of launches so far.
int hipEventRecord(void *event, void *stream) {
    CHECK();
    (void)stream;
    *(float *)event = 1 + fake_count(LAUNCHES);
    return 0;
}
int hipEventSynchronize(void *event) {
    CHECK();
    (void)event;
    drain();
    return 0;
}
int hipEventElapsedTime(float *ms, void *start, void *stop) {
    CHECK();
    if (*(float *)start == 0 || *(float *)stop == 0) return 400;
    *ms = *(float *)stop - *(float *)start;
    return 0;
}

// A module is a copy of its image's address: an image that is freed too early is noticed when a function is looked for.
int hipModuleLoadData(void **module, const void *image) {
    ADD(LOADS, 1);
    CHECK();
    if (memcmp(image, "\x7f" "ELF", 4) != 0) return 200;
    const void **m = malloc(sizeof *m);
    *m = image;
    *module = m;
    ADD(MODULES, 1);
    return 0;
}
int hipModuleUnload(void *module) {
    free(module);
    ADD(MODULES, -1);
    return 0;
}
int hipModuleGetFunction(void **function, void *module, const char *name) {
    static const char *const kernels[] = {"scale", "scale64", "nothing"};
    CHECK();
    if (memcmp(*(void **)module, "\x7f" "ELF", 4) != 0) return 400;
    for (int i = 0; i < 3; i++) {
        if (strcmp(name, kernels[i]) == 0) {
            *function = (void *)kernels[i];
            return 0;
        }
    }
    return 500;
}
