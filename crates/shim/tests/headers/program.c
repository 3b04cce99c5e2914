/* A program that is linked with MIOpen. */
#ifndef __cplusplus
typedef struct miopenTensorArgument_t miopenTensorArgument_t;
#endif
#include <miopen/miopen.h>
#include <stdio.h>

int main(void) {
    size_t major, minor, patch;
    miopenGetVersion(&major, &minor, &patch);
    printf("%d.%d.%d\n", (int)major, (int)minor, (int)patch);
    return 0;
}
