/* One call again and again, to be timed or counted.
 *
 *   loop version N                 miopenGetVersion: the hop of the wrapper alone
 *   loop conv N [n c h w k y pad]  miopenConvolutionForward, descriptors made once; after one Find
 *   loop once [n c h w k y pad]    what a fresh process does: create, Find, one forward call; prints milliseconds of each part
 *
 * Prints nanoseconds a call. Results are checked at the end, unless UNCHECKED is in the environment. */
#include "conv.h"

int main(int argc, char** argv) {
    double start = now();
    if (argc < 2)
        return 64;
    bool once = !strcmp(argv[1], "once");
    int at_shape = once ? 2 : 3;
    long calls = once ? 1 : argc > 2 ? atol(argv[2]) : 1;
    if (!strcmp(argv[1], "version")) {
        size_t major, minor, patch;
        double begin = now();
        for (long i = 0; i < calls; i++)
            miopenGetVersion(&major, &minor, &patch);
        printf("ns %.3f\n", (now() - begin) * 1e3 / (double)(calls ? calls : 1));
        return 0;
    }
    struct Problem p = {1, 4, 8, 8, 4, 3, 3, 1, 1, 1, 1, false};
    if (argc >= at_shape + 7) {
        int v[7];
        for (int i = 0; i < 7; i++)
            v[i] = atoi(argv[at_shape + i]);
        p = (struct Problem){v[0], v[1], v[2], v[3], v[4], v[5], v[5], v[6], 1, 1, 1, false};
    }
    hipStream_t stream;
    CHECK(hipStreamCreate(&stream));
    miopenHandle_t h;
    CHECK(miopenCreateWithStream(&h, stream));
    double created = now();
    struct Case c = make_case(&p, FWD, 3);
    struct Descriptors d = describe(&p);
    size_t bytes = 0;
    double described = now();
    CHECK(miopenConvolutionForwardGetWorkSpaceSize(h, d.w, d.x, d.conv, d.y, &bytes));
    void* workspace = bytes ? on_device(NULL, bytes / sizeof(float) + 1) : NULL;
    miopenConvAlgoPerf_t perf;
    int n = 0;
    CHECK(miopenFindConvolutionForwardAlgorithm(h, d.x, c.x, d.w, c.w, d.conv, d.y, c.y, 1, &n, &perf, workspace, bytes, false));
    double found = now();
    float one = 1, zero = 0;
    for (long i = 0; i < calls; i++)
        CHECK(miopenConvolutionForward(h, &one, d.x, c.x, d.w, c.w, d.conv, perf.fwd_algo, &zero, d.y, c.y, workspace, perf.memory));
    CHECK(hipStreamSynchronize(stream));
    double end = now();
    if (!getenv("UNCHECKED"))
        compare("result", c.out, c.sums, NULL, 1, 0, c.count);
    if (once)
        printf("create %.3f find %.3f run %.3f\n", (created - start) / 1e3, (found - described) / 1e3, (end - found) / 1e3);
    else
        printf("ns %.3f\n", (end - found) * 1e3 / (double)(calls ? calls : 1));
    return 0;
}
