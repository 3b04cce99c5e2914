/* Convolution problems for test programs: a reference in double, buffers on the device, and checks. */
#ifndef CONV_H
#define CONV_H

#include "check.h"

#include <hip/hip_runtime_api.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>
/* miopen.h uses this type without `struct`, which is no C. */
typedef struct miopenTensorArgument_t miopenTensorArgument_t;
#include <miopen/miopen.h>

#define EXPECT(condition, ...)                                                                                          \
    do {                                                                                                                \
        if (!(condition)) {                                                                                             \
            fprintf(stderr, "%s:%d: expected %s: ", __FILE__, __LINE__, #condition);                                    \
            fprintf(stderr, __VA_ARGS__);                                                                               \
            fputc('\n', stderr);                                                                                        \
            exit(3);                                                                                                    \
        }                                                                                                               \
    } while (0)

/* Forward, data gradient, weight gradient. */
enum Direction { FWD, BWD, WRW };

/* NCHW or NHWC, float. */
struct Problem {
    int n, c, h, w, k, y, x, pad, stride, dilation, groups;
    bool nhwc;
};

struct Dims {
    int d[4], s[4];
    size_t count;
};

static inline int out_size(int in, int filter, int pad, int stride, int dilation) {
    return (in + 2 * pad - dilation * (filter - 1) - 1) / stride + 1;
}

static inline struct Dims dims_of(int n, int c, int h, int w, bool nhwc) {
    struct Dims t = {{n, c, h, w}, {c * h * w, h * w, w, 1}, (size_t)n * c * h * w};
    if (nhwc) {
        int s[4] = {c * h * w, 1, w * c, c};
        memcpy(t.s, s, sizeof s);
    }
    return t;
}

static inline struct Dims x_dims(const struct Problem* p) { return dims_of(p->n, p->c, p->h, p->w, p->nhwc); }
static inline struct Dims w_dims(const struct Problem* p) { return dims_of(p->k, p->c / p->groups, p->y, p->x, p->nhwc); }
static inline struct Dims y_dims(const struct Problem* p) {
    int oh = out_size(p->h, p->y, p->pad, p->stride, p->dilation), ow = out_size(p->w, p->x, p->pad, p->stride, p->dilation);
    return dims_of(p->n, p->k, oh, ow, p->nhwc);
}

static inline size_t at(const struct Dims* t, int a, int b, int c, int d) {
    return (size_t)a * t->s[0] + (size_t)b * t->s[1] + (size_t)c * t->s[2] + (size_t)d * t->s[3];
}

/* The sums of one direction, in double: `result` is y, dx or dw. */
static inline void reference(const struct Problem* p, enum Direction direction, const float* x, const float* w, const float* y, double* result) {
    struct Dims xd = x_dims(p), wd = w_dims(p), yd = y_dims(p);
    size_t count = direction == FWD ? yd.count : direction == BWD ? xd.count : wd.count;
    memset(result, 0, count * sizeof *result);
    int kg = p->k / p->groups, cg = p->c / p->groups;
    for (int n = 0; n < p->n; n++)
        for (int k = 0; k < p->k; k++)
            for (int oh = 0; oh < yd.d[2]; oh++)
                for (int ow = 0; ow < yd.d[3]; ow++)
                    for (int c = 0; c < cg; c++)
                        for (int fy = 0; fy < p->y; fy++)
                            for (int fx = 0; fx < p->x; fx++) {
                                int ih = oh * p->stride - p->pad + fy * p->dilation, iw = ow * p->stride - p->pad + fx * p->dilation;
                                if (ih < 0 || iw < 0 || ih >= p->h || iw >= p->w)
                                    continue;
                                size_t xi = at(&xd, n, k / kg * cg + c, ih, iw), wi = at(&wd, k, c, fy, fx), yi = at(&yd, n, k, oh, ow);
                                if (direction == FWD)
                                    result[yi] += (double)x[xi] * w[wi];
                                else if (direction == BWD)
                                    result[xi] += (double)y[yi] * w[wi];
                                else
                                    result[wi] += (double)x[xi] * y[yi];
                            }
}

/* Numbers between -1 and 1 that a seed decides. */
static inline void fill(float* data, size_t count, unsigned seed) {
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        data[i] = (float)((double)(seed >> 8) / (1 << 23) - 1.0);
    }
}

static inline float* on_device(const float* data, size_t count) {
    float* memory = NULL;
    CHECK(hipMalloc((void**)&memory, count * sizeof(float)));
    if (data)
        CHECK(hipMemcpy(memory, data, count * sizeof(float), hipMemcpyHostToDevice));
    return memory;
}

/* Compares what is on the device with alpha * sums + beta * before. */
static inline void compare(const char* what, const float* device, const double* sums, const float* before, double alpha, double beta, size_t count) {
    float* found = malloc(count * sizeof(float));
    CHECK(hipMemcpy(found, device, count * sizeof(float), hipMemcpyDeviceToHost));
    for (size_t i = 0; i < count; i++) {
        double expected = alpha * sums[i] + (before && beta != 0 ? beta * before[i] : 0);
        EXPECT(fabs(found[i] - expected) <= 1e-4 * (1 + fabs(expected)), "%s: element %zu is %g, expected %g", what, i, found[i], expected);
    }
    free(found);
}

/* The four descriptors of a call, as frameworks make them anew for every call. */
struct Descriptors {
    miopenTensorDescriptor_t x, w, y;
    miopenConvolutionDescriptor_t conv;
};

static inline miopenTensorDescriptor_t tensor_descriptor(const struct Dims* t) {
    miopenTensorDescriptor_t d;
    CHECK(miopenCreateTensorDescriptor(&d));
    CHECK(miopenSetTensorDescriptor(d, miopenFloat, 4, t->d, t->s));
    return d;
}

static inline struct Descriptors describe(const struct Problem* p) {
    struct Descriptors d;
    struct Dims x = x_dims(p), w = w_dims(p), y = y_dims(p);
    d.x = tensor_descriptor(&x);
    d.w = tensor_descriptor(&w);
    d.y = tensor_descriptor(&y);
    CHECK(miopenCreateConvolutionDescriptor(&d.conv));
    int pads[2] = {p->pad, p->pad}, strides[2] = {p->stride, p->stride}, dilations[2] = {p->dilation, p->dilation};
    bool depthwise = p->groups > 1 && p->groups == p->c;
    CHECK(miopenInitConvolutionNdDescriptor(d.conv, 2, pads, strides, dilations, depthwise ? miopenDepthwise : miopenConvolution));
    CHECK(miopenSetConvolutionGroupCount(d.conv, p->groups));
    CHECK(miopenSetConvolutionAttribute(d.conv, MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC, 0));
    return d;
}

static inline void destroy(struct Descriptors* d) {
    CHECK(miopenDestroyConvolutionDescriptor(d->conv));
    CHECK(miopenDestroyTensorDescriptor(d->y));
    CHECK(miopenDestroyTensorDescriptor(d->w));
    CHECK(miopenDestroyTensorDescriptor(d->x));
}

/* Host data, device buffers and expected sums of one problem and direction. */
struct Case {
    struct Problem p;
    enum Direction direction;
    float *host_out, *x, *w, *y;
    float* out;
    double* sums;
    size_t count;
};

static inline struct Case make_case(const struct Problem* p, enum Direction direction, unsigned seed) {
    struct Dims xd = x_dims(p), wd = w_dims(p), yd = y_dims(p);
    float *x = malloc(xd.count * sizeof(float)), *w = malloc(wd.count * sizeof(float)), *y = malloc(yd.count * sizeof(float));
    fill(x, xd.count, seed), fill(w, wd.count, seed + 1), fill(y, yd.count, seed + 2);
    struct Case c = {.p = *p, .direction = direction};
    c.count = direction == FWD ? yd.count : direction == BWD ? xd.count : wd.count;
    c.sums = malloc(c.count * sizeof(double));
    reference(p, direction, x, w, y, c.sums);
    c.x = on_device(x, xd.count), c.w = on_device(w, wd.count), c.y = on_device(y, yd.count);
    c.out = direction == FWD ? c.y : direction == BWD ? c.x : c.w;
    float* kept = direction == FWD ? y : direction == BWD ? x : w;
    c.host_out = malloc(c.count * sizeof(float));
    memcpy(c.host_out, kept, c.count * sizeof(float));
    free(x), free(w), free(y);
    return c;
}

/* Puts the output back to what it was before. */
static inline void reset(struct Case* c) { CHECK(hipMemcpy(c->out, c->host_out, c->count * sizeof(float), hipMemcpyHostToDevice)); }

static inline void free_case(struct Case* c) {
    CHECK(hipFree(c->x));
    CHECK(hipFree(c->w));
    CHECK(hipFree(c->y));
    free(c->host_out), free(c->sums);
}

#endif
