/* The calls that PyTorch makes for convolutions, in its order, with what it keeps and what it makes anew.
 *
 *   frameworks find|immediate THREADS ROUNDS
 *
 * With FALL_BACK in the environment, rounds after the first use the GEMM algorithm, as PyTorch does when it is out of memory.
 * Prints `ok CONVOLUTIONS` when every result is right. */
#include "conv.h"

#include <pthread.h>

static const struct Problem PROBLEMS[] = {
    /* n  c   h   w   k  y  x  pad stride dilation groups nhwc */
    {2, 4, 9, 8, 6, 3, 3, 1, 1, 1, 1, false},
    {1, 3, 11, 11, 8, 3, 3, 0, 2, 1, 1, false},
    {2, 4, 10, 10, 4, 3, 3, 2, 1, 2, 1, false},
    {2, 8, 7, 7, 8, 3, 3, 1, 1, 1, 4, false},
    {2, 6, 7, 7, 6, 3, 3, 1, 1, 1, 6, false},
    {3, 8, 6, 6, 16, 1, 1, 0, 1, 1, 1, false},
    {2, 4, 9, 8, 6, 3, 3, 1, 1, 1, 1, true},
};
enum { PROBLEM_COUNT = sizeof PROBLEMS / sizeof *PROBLEMS };

/* What PyTorch keeps for the life of the process. */
struct Kept {
    bool known;
    int algorithm;
    size_t memory;
};
typedef struct Kept KeptTable[PROBLEM_COUNT][3];
static KeptTable kept_by_process;
static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;

static bool immediate;
static int rounds;
static hipStream_t shared_stream;

static size_t workspace_size(miopenHandle_t h, const struct Case* c, const struct Descriptors* d) {
    size_t bytes = 0;
    if (c->direction == FWD)
        CHECK(miopenConvolutionForwardGetWorkSpaceSize(h, d->w, d->x, d->conv, d->y, &bytes));
    else if (c->direction == BWD)
        CHECK(miopenConvolutionBackwardDataGetWorkSpaceSize(h, d->y, d->w, d->conv, d->x, &bytes));
    else
        CHECK(miopenConvolutionBackwardWeightsGetWorkSpaceSize(h, d->y, d->x, d->conv, d->w, &bytes));
    return bytes;
}

static void run(miopenHandle_t h, const struct Case* c, const struct Descriptors* d, int algorithm, size_t bytes) {
    float one = 1, zero = 0;
    void* workspace = NULL;
    if (bytes)
        CHECK(hipMalloc(&workspace, bytes));
    if (c->direction == FWD)
        CHECK(miopenConvolutionForward(h, &one, d->x, c->x, d->w, c->w, d->conv, (miopenConvFwdAlgorithm_t)algorithm, &zero, d->y, c->y, workspace, bytes));
    else if (c->direction == BWD)
        CHECK(miopenConvolutionBackwardData(h, &one, d->y, c->y, d->w, c->w, d->conv, (miopenConvBwdDataAlgorithm_t)algorithm, &zero, d->x, c->x, workspace, bytes));
    else
        CHECK(miopenConvolutionBackwardWeights(h, &one, d->y, c->y, d->x, c->x, d->conv, (miopenConvBwdWeightsAlgorithm_t)algorithm, &zero, d->w, c->w, workspace, bytes));
    CHECK(hipStreamSynchronize(shared_stream));
    if (bytes)
        CHECK(hipFree(workspace));
}

static void find(miopenHandle_t h, const struct Case* c, const struct Descriptors* d, struct Kept* out) {
    size_t bytes = workspace_size(h, c, d);
    void* workspace = NULL;
    if (bytes)
        CHECK(hipMalloc(&workspace, bytes));
    miopenConvAlgoPerf_t perf;
    memset(&perf, 0xee, sizeof perf);
    int returned = 0;
    if (c->direction == FWD)
        CHECK(miopenFindConvolutionForwardAlgorithm(h, d->x, c->x, d->w, c->w, d->conv, d->y, c->y, 1, &returned, &perf, workspace, bytes, false));
    else if (c->direction == BWD)
        CHECK(miopenFindConvolutionBackwardDataAlgorithm(h, d->y, c->y, d->w, c->w, d->conv, d->x, c->x, 1, &returned, &perf, workspace, bytes, false));
    else
        CHECK(miopenFindConvolutionBackwardWeightsAlgorithm(h, d->y, c->y, d->x, c->x, d->conv, d->w, c->w, 1, &returned, &perf, workspace, bytes, false));
    EXPECT(returned == 1, "%d results", returned);
    EXPECT(perf.time >= 0 && perf.time < 1e6, "%g ms", perf.time);
    EXPECT((int)perf.fwd_algo >= 0 && (int)perf.fwd_algo <= 5, "algorithm %d", (int)perf.fwd_algo);
    if (workspace)
        CHECK(hipFree(workspace));
    *out = (struct Kept){true, (int)perf.fwd_algo, perf.memory};
}

static void by_find(miopenHandle_t h, struct Case* c, struct Kept* known, bool fall_back) {
    struct Descriptors d = describe(&c->p);
    if (fall_back) {
        /* Out of memory: the GEMM algorithm with the bytes of GetWorkSpaceSize. */
        run(h, c, &d, 0, workspace_size(h, c, &d));
    } else {
        pthread_mutex_lock(&kept_lock);
        struct Kept found = *known;
        pthread_mutex_unlock(&kept_lock);
        if (!found.known) {
            find(h, c, &d, &found);
            pthread_mutex_lock(&kept_lock);
            *known = found;
            pthread_mutex_unlock(&kept_lock);
        }
        reset(c);
        run(h, c, &d, found.algorithm, found.memory);
    }
    destroy(&d);
}

static void by_immediate(miopenHandle_t h, struct Case* c) {
    struct Descriptors d = describe(&c->p);
    size_t count = 0, returned = 0, bytes = 0;
    miopenConvSolution_t s[10];
    memset(s, 0xee, sizeof s);
#define COUNT_AND_GET(Name, ...)                                                                                       \
    CHECK(miopenConvolution##Name##GetSolutionCount(h, __VA_ARGS__, &count));                                          \
    EXPECT(count >= 1 && count <= 10, "%zu solutions", count);                                                         \
    CHECK(miopenConvolution##Name##GetSolution(h, __VA_ARGS__, count, &returned, s));                                  \
    EXPECT(returned >= 1 && returned <= count, "%zu of %zu solutions", returned, count)
    if (c->direction == FWD) {
        COUNT_AND_GET(Forward, d.w, d.x, d.conv, d.y);
    } else if (c->direction == BWD) {
        COUNT_AND_GET(BackwardData, d.y, d.w, d.conv, d.x);
    } else {
        COUNT_AND_GET(BackwardWeights, d.y, d.x, d.conv, d.w);
    }
    /* Without kernels for GEMM, stock MIOpen lists it first all the same. */
    size_t use = 0;
    while (use + 1 < returned && s[use].algorithm == miopenConvolutionAlgoGEMM)
        use++;
    bytes = s[use].workspace_size;
    void* workspace = NULL;
    if (bytes)
        CHECK(hipMalloc(&workspace, bytes));
    if (c->direction == FWD)
        CHECK(miopenConvolutionForwardImmediate(h, d.w, c->w, d.x, c->x, d.conv, d.y, c->y, workspace, bytes, s[use].solution_id));
    else if (c->direction == BWD)
        CHECK(miopenConvolutionBackwardDataImmediate(h, d.y, c->y, d.w, c->w, d.conv, d.x, c->x, workspace, bytes, s[use].solution_id));
    else
        CHECK(miopenConvolutionBackwardWeightsImmediate(h, d.y, c->y, d.x, c->x, d.conv, d.w, c->w, workspace, bytes, s[use].solution_id));
    CHECK(hipStreamSynchronize(shared_stream));
    if (workspace)
        CHECK(hipFree(workspace));
    destroy(&d);
}

static void* worker(void* argument) {
    unsigned seed = (unsigned)(size_t)argument;
    miopenHandle_t h;
    CHECK(miopenCreateWithStream(&h, shared_stream));
    /* PyTorch's key holds the handle. With SHARE_KEPT, handles run what was found with another one. */
    KeptTable kept_by_handle;
    memset(kept_by_handle, 0, sizeof kept_by_handle);
    KeptTable* kept = getenv("SHARE_KEPT") ? &kept_by_process : &kept_by_handle;
    for (int round = 0; round < rounds; round++)
        for (int p = 0; p < PROBLEM_COUNT; p++)
            for (int direction = FWD; direction <= WRW; direction++) {
                /* A handle of a pool gets the current stream at every use. */
                CHECK(miopenSetStream(h, shared_stream));
                struct Case c = make_case(&PROBLEMS[p], (enum Direction)direction, seed * 31 + (unsigned)round);
                if (immediate)
                    by_immediate(h, &c);
                else
                    by_find(h, &c, &(*kept)[p][direction], round > 0 && getenv("FALL_BACK") != NULL);
                compare("result", c.out, c.sums, NULL, 1, 0, c.count);
                free_case(&c);
            }
    /* The handle is not destroyed, on purpose: PyTorch does not. */
    return NULL;
}

int main(int argc, char** argv) {
    if (argc != 4)
        return 64;
    immediate = !strcmp(argv[1], "immediate");
    int threads = atoi(argv[2]);
    rounds = atoi(argv[3]);
    CHECK(hipStreamCreate(&shared_stream));
    pthread_t ids[64];
    /* One thread runs first, so that what it keeps is there for handles that have never seen a Find. */
    worker((void*)1);
    for (int t = 0; t < threads && t < 64; t++)
        CHECK(pthread_create(&ids[t], NULL, worker, (void*)(size_t)(t + 2)));
    for (int t = 0; t < threads && t < 64; t++)
        CHECK(pthread_join(ids[t], NULL));
    printf("ok %d\n", (threads + 1) * rounds * PROBLEM_COUNT * 3);
    return 0;
}
