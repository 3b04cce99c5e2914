/* A forward convolution captured into a graph, which is launched with other inputs. Whatever may not be called during a capture fails. */
#include "conv.h"

int main(void) {
    struct Problem p = {2, 4, 9, 8, 6, 3, 3, 1, 1, 1, 1, false};
    hipStream_t stream;
    CHECK(hipStreamCreate(&stream));
    miopenHandle_t h;
    CHECK(miopenCreateWithStream(&h, stream));
    struct Case c = make_case(&p, FWD, 23);
    struct Descriptors d = describe(&p);
    size_t bytes = 0;
    CHECK(miopenConvolutionForwardGetWorkSpaceSize(h, d.w, d.x, d.conv, d.y, &bytes));
    void* workspace = bytes ? on_device(NULL, bytes / sizeof(float) + 1) : NULL;
    miopenConvAlgoPerf_t perf;
    int n = 0;
    CHECK(miopenFindConvolutionForwardAlgorithm(h, d.x, c.x, d.w, c.w, d.conv, d.y, c.y, 1, &n, &perf, workspace, bytes, false));
    CHECK(hipStreamSynchronize(stream));
    float one = 1, zero = 0;
    reset(&c);
    hipGraph_t graph;
    hipGraphExec_t ready;
    CHECK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    CHECK(miopenConvolutionForward(h, &one, d.x, c.x, d.w, c.w, d.conv, perf.fwd_algo, &zero, d.y, c.y, workspace, perf.memory));
    CHECK(hipStreamEndCapture(stream, &graph));
    CHECK(hipGraphInstantiate(&ready, graph, NULL, NULL, 0));
    for (unsigned round = 0; round < 3; round++) {
        struct Case other = make_case(&p, FWD, 31 + round);
        struct Dims xd = x_dims(&p), wd = w_dims(&p);
        CHECK(hipMemcpy(c.x, other.x, xd.count * sizeof(float), hipMemcpyDeviceToDevice));
        CHECK(hipMemcpy(c.w, other.w, wd.count * sizeof(float), hipMemcpyDeviceToDevice));
        reset(&c);
        CHECK(hipGraphLaunch(ready, stream));
        CHECK(hipStreamSynchronize(stream));
        compare("replayed", c.out, other.sums, NULL, 1, 0, c.count);
        free_case(&other);
    }
    CHECK(hipGraphExecDestroy(ready));
    CHECK(hipGraphDestroy(graph));
    printf("ok 3\n");
    return 0;
}
