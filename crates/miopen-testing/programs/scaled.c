/* What frameworks seldom ask for: alpha and beta, bias calls, the fused call, and Find 2.0 objects, which are not forwarded.
 *
 *   scaled [forwarded]
 *
 * `forwarded` says that scaled and fused calls have plans: they must be right. Without it, they may be refused as stock refuses them, and
 * then leave the output alone. Prints `ok RIGHT REFUSED`. */
#include "conv.h"

static const struct Problem PROBLEMS[] = {
    {2, 4, 9, 8, 6, 3, 3, 1, 1, 1, 1, false},
    {2, 8, 7, 7, 8, 3, 3, 1, 1, 1, 4, false},
    {2, 4, 6, 6, 8, 1, 1, 0, 1, 1, 1, true},
};

static int right, refused;

/* The output must be as before. */
static void untouched(struct Case* c) {
    float* found = malloc(c->count * sizeof(float));
    CHECK(hipMemcpy(found, c->out, c->count * sizeof(float), hipMemcpyDeviceToHost));
    EXPECT(!memcmp(found, c->host_out, c->count * sizeof(float)), "a refused call has written");
    free(found);
}

static void settle(const char* what, int status, bool must, struct Case* c, double alpha, double beta) {
    CHECK(hipDeviceSynchronize());
    if (status == 0) {
        compare(what, c->out, c->sums, c->host_out, alpha, beta, c->count);
        right++;
        return;
    }
    EXPECT(!must, "%s: status %d (%s)", what, status, miopenGetErrorString((miopenStatus_t)status));
    untouched(c);
    refused++;
}

static void scaling(miopenHandle_t h, const struct Problem* p, enum Direction direction, bool must) {
    const float pairs[][2] = {{1, 0}, {0.5f, 0}, {-2, 0}, {0.5f, 0.5f}, {-2, 0.5f}, {1, 0.5f}};
    struct Case c = make_case(p, direction, 7);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        const float *alpha = &pairs[i][0], *beta = &pairs[i][1];
        struct Descriptors d = describe(p);
        size_t bytes = 0;
        void* workspace = NULL;
        miopenConvAlgoPerf_t perf;
        int n = 0, status;
        reset(&c);
        if (direction == FWD) {
            CHECK(miopenConvolutionForwardGetWorkSpaceSize(h, d.w, d.x, d.conv, d.y, &bytes));
            workspace = bytes ? on_device(NULL, bytes / sizeof(float) + 1) : NULL;
            CHECK(miopenFindConvolutionForwardAlgorithm(h, d.x, c.x, d.w, c.w, d.conv, d.y, c.y, 1, &n, &perf, workspace, bytes, false));
            reset(&c);
            status = miopenConvolutionForward(h, alpha, d.x, c.x, d.w, c.w, d.conv, perf.fwd_algo, beta, d.y, c.y, workspace, perf.memory);
        } else if (direction == BWD) {
            CHECK(miopenConvolutionBackwardDataGetWorkSpaceSize(h, d.y, d.w, d.conv, d.x, &bytes));
            workspace = bytes ? on_device(NULL, bytes / sizeof(float) + 1) : NULL;
            CHECK(miopenFindConvolutionBackwardDataAlgorithm(h, d.y, c.y, d.w, c.w, d.conv, d.x, c.x, 1, &n, &perf, workspace, bytes, false));
            reset(&c);
            status = miopenConvolutionBackwardData(h, alpha, d.y, c.y, d.w, c.w, d.conv, perf.bwd_data_algo, beta, d.x, c.x, workspace, perf.memory);
        } else {
            CHECK(miopenConvolutionBackwardWeightsGetWorkSpaceSize(h, d.y, d.x, d.conv, d.w, &bytes));
            workspace = bytes ? on_device(NULL, bytes / sizeof(float) + 1) : NULL;
            CHECK(miopenFindConvolutionBackwardWeightsAlgorithm(h, d.y, c.y, d.x, c.x, d.conv, d.w, c.w, 1, &n, &perf, workspace, bytes, false));
            reset(&c);
            status = miopenConvolutionBackwardWeights(h, alpha, d.y, c.y, d.x, c.x, d.conv, perf.bwd_weights_algo, beta, d.w, c.w, workspace, perf.memory);
        }
        bool plain = *alpha == 1 && *beta == 0;
        settle("alpha and beta", status, must || plain, &c, *alpha, *beta);
        if (workspace)
            CHECK(hipFree(workspace));
        destroy(&d);
    }
    free_case(&c);
}

/* y = y + b, over channels. */
static void bias(miopenHandle_t h, const struct Problem* p, bool must) {
    if (p->nhwc)
        return; /* Stock adds along the wrong dimension there. */
    struct Case c = make_case(p, FWD, 11);
    struct Dims yd = y_dims(p), bd = dims_of(1, p->k, 1, 1, false);
    float* b = malloc((size_t)p->k * sizeof(float));
    fill(b, (size_t)p->k, 5);
    float* b_device = on_device(b, (size_t)p->k);
    miopenTensorDescriptor_t ydesc = tensor_descriptor(&yd), bdesc = tensor_descriptor(&bd);
    float one = 1, zero = 0;
    for (int n = 0; n < yd.d[0]; n++)
        for (int k = 0; k < yd.d[1]; k++)
            for (int i = 0; i < yd.d[2]; i++)
                for (int j = 0; j < yd.d[3]; j++)
                    c.sums[at(&yd, n, k, i, j)] = (double)c.host_out[at(&yd, n, k, i, j)] + b[k];
    reset(&c);
    settle("forward bias", miopenConvolutionForwardBias(h, &one, bdesc, b_device, &zero, ydesc, c.y), must, &c, 1, 0);
    CHECK(miopenDestroyTensorDescriptor(bdesc));
    CHECK(miopenDestroyTensorDescriptor(ydesc));
    CHECK(hipFree(b_device));
    free(b);
    free_case(&c);
}

/* relu(alpha1 * conv(x, w) + alpha2 * z + bias). */
static void fused(miopenHandle_t h, const struct Problem* p, const float* alpha1, const float* alpha2, bool must) {
    struct Case c = make_case(p, FWD, 13);
    struct Dims yd = y_dims(p), bd = dims_of(1, p->k, 1, 1, p->nhwc);
    struct Descriptors d = describe(p);
    float *b = malloc((size_t)p->k * sizeof(float)), *z = malloc(c.count * sizeof(float));
    fill(b, (size_t)p->k, 5), fill(z, c.count, 17);
    float *b_device = on_device(b, (size_t)p->k), *z_device = on_device(z, c.count);
    miopenTensorDescriptor_t bdesc = tensor_descriptor(&bd);
    miopenActivationDescriptor_t relu;
    CHECK(miopenCreateActivationDescriptor(&relu));
    CHECK(miopenSetActivationDescriptor(relu, miopenActivationRELU, 0, 0, 0));
    for (int n = 0; n < yd.d[0]; n++)
        for (int k = 0; k < yd.d[1]; k++)
            for (int i = 0; i < yd.d[2]; i++)
                for (int j = 0; j < yd.d[3]; j++) {
                    size_t e = at(&yd, n, k, i, j);
                    double v = (alpha1 ? *alpha1 : 1) * c.sums[e] + (alpha2 ? *alpha2 : 1) * z[e] + b[k];
                    c.sums[e] = v > 0 ? v : 0;
                }
    reset(&c);
    int status = miopenConvolutionBiasActivationForward(h, alpha1, d.x, c.x, d.w, c.w, d.conv, miopenConvolutionFwdAlgoDirect, NULL, 0,
                                                        alpha2, d.y, z_device, bdesc, b_device, relu, d.y, c.y);
    settle("fused call", status, must, &c, 1, 0);
    CHECK(miopenDestroyActivationDescriptor(relu));
    CHECK(miopenDestroyTensorDescriptor(bdesc));
    CHECK(hipFree(b_device));
    CHECK(hipFree(z_device));
    free(b), free(z);
    destroy(&d);
    free_case(&c);
}

/* Find 2.0 keeps to itself: its objects are the private library's from beginning to end. */
static void find_two(miopenHandle_t h, const struct Problem* p) {
    struct Case c = make_case(p, FWD, 19);
    struct Descriptors d = describe(p);
    miopenProblem_t problem;
    CHECK(miopenCreateConvProblem(&problem, d.conv, miopenProblemDirectionForward));
    CHECK(miopenSetProblemTensorDescriptor(problem, miopenTensorConvolutionX, d.x));
    CHECK(miopenSetProblemTensorDescriptor(problem, miopenTensorConvolutionW, d.w));
    CHECK(miopenSetProblemTensorDescriptor(problem, miopenTensorConvolutionY, d.y));
    miopenSolution_t solutions[8];
    size_t count = 0;
    CHECK(miopenFindSolutions(h, problem, NULL, solutions, &count, 8));
    EXPECT(count >= 1, "%zu solutions", count);
    for (size_t i = 0; i < count; i++) {
        uint64_t solver = 0;
        size_t bytes = 0, size = 0;
        CHECK(miopenGetSolutionSolverId(solutions[i], &solver));
        CHECK(miopenGetSolutionWorkspaceSize(solutions[i], &bytes));
        EXPECT(solver >> 32 == 0, "solver id %#llx is not MIOpen's", (unsigned long long)solver);
        void* workspace = bytes ? on_device(NULL, bytes / sizeof(float) + 1) : NULL;
        struct miopenTensorArgument_t tensors[3] = {
            {miopenTensorConvolutionX, NULL, c.x}, {miopenTensorConvolutionW, NULL, c.w}, {miopenTensorConvolutionY, NULL, c.y}};
        reset(&c);
        CHECK(miopenRunSolution(h, solutions[i], 3, tensors, workspace, bytes));
        CHECK(hipDeviceSynchronize());
        compare("Find 2.0", c.out, c.sums, NULL, 1, 0, c.count);
        CHECK(miopenGetSolutionSize(solutions[i], &size));
        char* saved = malloc(size);
        CHECK(miopenSaveSolution(solutions[i], saved));
        miopenSolution_t loaded;
        CHECK(miopenLoadSolution(&loaded, saved, size));
        CHECK(miopenDestroySolution(loaded));
        free(saved);
        if (workspace)
            CHECK(hipFree(workspace));
        CHECK(miopenDestroySolution(solutions[i]));
    }
    CHECK(miopenDestroyProblem(problem));
    destroy(&d);
    free_case(&c);
    right++;
}

int main(int argc, char** argv) {
    bool must = argc > 1 && !strcmp(argv[1], "forwarded");
    miopenHandle_t h;
    CHECK(miopenCreate(&h));
    float half = 0.5f, one = 1;
    for (size_t p = 0; p < sizeof PROBLEMS / sizeof *PROBLEMS; p++) {
        for (int direction = FWD; direction <= WRW; direction++)
            scaling(h, &PROBLEMS[p], (enum Direction)direction, must);
        bias(h, &PROBLEMS[p], must);
        fused(h, &PROBLEMS[p], NULL, NULL, must);
        fused(h, &PROBLEMS[p], &one, &one, must);
        fused(h, &PROBLEMS[p], &half, &half, must);
        find_two(h, &PROBLEMS[p]);
    }
    CHECK(miopenDestroy(h));
    printf("ok %d %d\n", right, refused);
    return 0;
}
