/* What every test program needs: calls that must succeed, and a clock. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CHECK(call)                                                                                                     \
    do {                                                                                                                \
        int check_ = (int)(call);                                                                                       \
        if (check_ != 0) {                                                                                              \
            fprintf(stderr, "%s:%d: %s gives %d\n", __FILE__, __LINE__, #call, check_);                                 \
            exit(2);                                                                                                    \
        }                                                                                                               \
    } while (0)

/* Microseconds since some moment. */
static inline double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

#endif
