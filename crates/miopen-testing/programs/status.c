/* Statuses of one convolution's calls, a line each, whatever they are:
 *
 *   status            create, version, find, run, and what the errors say
 */
#include "conv.h"

#include <dlfcn.h>

int main(void) {
    miopenHandle_t h = NULL;
    size_t major = 0;
    int created = (int)miopenCreate(&h);
    printf("create %d\n", created);
    printf("version %d\n", (int)miopenGetVersion(&major, NULL, NULL));
    if (created)
        return 0;
    /* Exported by wrappers alone. */
    int (*last)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "miopenGetLastForwardedError");
    struct Problem p = {1, 4, 8, 8, 4, 3, 3, 1, 1, 1, 1, false};
    struct Case c = make_case(&p, FWD, 3);
    struct Descriptors d = describe(&p);
    size_t bytes = 0;
    int status = (int)miopenConvolutionForwardGetWorkSpaceSize(h, d.w, d.x, d.conv, d.y, &bytes);
    printf("workspace %d\n", status);
    void* workspace = status == 0 && bytes ? on_device(NULL, bytes / sizeof(float) + 1) : NULL;
    miopenConvAlgoPerf_t perf;
    memset(&perf, 0, sizeof perf);
    int n = 0;
    status = (int)miopenFindConvolutionForwardAlgorithm(h, d.x, c.x, d.w, c.w, d.conv, d.y, c.y, 1, &n, &perf, workspace, bytes, false);
    printf("find %d\n", status);
    if (last)
        printf("find-code %d\n", last());
    if (status)
        printf("find-text %s\n", miopenGetErrorString((miopenStatus_t)status));
    float one = 1, zero = 0;
    reset(&c);
    status = (int)miopenConvolutionForward(h, &one, d.x, c.x, d.w, c.w, d.conv, perf.fwd_algo, &zero, d.y, c.y, workspace, perf.memory);
    printf("run %d\n", status);
    if (last)
        printf("run-code %d\n", last());
    if (status)
        printf("run-text %s\n", miopenGetErrorString((miopenStatus_t)status));
    CHECK(hipDeviceSynchronize());
    if (status == 0)
        compare("result", c.out, c.sums, NULL, 1, 0, c.count);
    /* Something that is never forwarded. */
    float two = 2;
    printf("other %d\n", (int)miopenSetTensor(h, NULL, c.y, &two));
    printf("destroy %d\n", (int)miopenDestroy(h));
    return 0;
}
