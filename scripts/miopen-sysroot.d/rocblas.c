/* Stands in for rocBLAS where a test loads MIOpen: a handle can be had, and no product is computed. MIOpen passes over its GEMM solutions. */
#include <stddef.h>

enum { SUCCESS = 0, NOT_IMPLEMENTED = 2, INVALID_POINTER = 4 };

struct handle {
    int atomics;
};
static struct handle handles[64];
static size_t made;

int rocblas_create_handle(struct handle **out) {
    if (!out)
        return INVALID_POINTER;
    struct handle *handle = &handles[__atomic_fetch_add(&made, 1, __ATOMIC_RELAXED) % (sizeof handles / sizeof *handles)];
    handle->atomics = 1;
    *out = handle;
    return SUCCESS;
}

int rocblas_destroy_handle(struct handle *handle) {
    (void)handle;
    return SUCCESS;
}

int rocblas_set_stream(struct handle *handle, void *stream) {
    (void)handle, (void)stream;
    return SUCCESS;
}

int rocblas_set_atomics_mode(struct handle *handle, int mode) {
    handle->atomics = mode;
    return SUCCESS;
}

int rocblas_get_atomics_mode(const struct handle *handle, int *mode) {
    *mode = handle->atomics;
    return SUCCESS;
}
