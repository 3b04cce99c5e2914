/* Elements of the types that the programs compute with. */
#include "graph.h"
#include <math.h>
#include <string.h>

size_t element_size(int type) {
    switch (type) {
    case TYPE_FLOAT:
    case TYPE_INT32:
        return 4;
    case TYPE_HALF:
    case TYPE_BFLOAT16:
        return 2;
    case TYPE_DOUBLE:
    case TYPE_INT64:
        return 8;
    case TYPE_UINT8:
    case TYPE_INT8:
    case TYPE_BOOLEAN:
        return 1;
    default:
        return 0;
    }
}

static double from_half(uint16_t h) {
    int exponent = h >> 10 & 31, mantissa = h & 1023;
    double magnitude = exponent == 31  ? (mantissa ? (double)NAN : (double)INFINITY)
                       : exponent == 0 ? ldexp(mantissa, -24)
                                       : ldexp(1024 + mantissa, exponent - 25);
    return h & 0x8000 ? -magnitude : magnitude;
}

/* To the nearest, ties to even; the rounding of doubles does it, once the value is scaled to whole units in the last place. */
static uint16_t to_half(double v) {
    uint16_t sign = signbit(v) ? 0x8000 : 0;
    double magnitude = fabs(v);
    if (isnan(v))
        return sign | 0x7e00;
    if (magnitude >= 65520)
        return sign | 0x7c00;
    if (magnitude < ldexp(1, -14))
        return sign | (uint16_t)nearbyint(ldexp(magnitude, 24));
    int exponent;
    double fraction = frexp(magnitude, &exponent);
    unsigned units = (unsigned)nearbyint(ldexp(fraction, 11));
    /* 2048 units carry into the exponent by themselves. */
    return sign | (uint16_t)(((unsigned)(exponent + 14) << 10) + units - 1024);
}

static uint16_t to_bfloat16(double v) {
    float f = (float)v;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (isnan(v))
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#define LOAD(T)                                                                                                                            \
    do {                                                                                                                                   \
        T v;                                                                                                                               \
        memcpy(&v, at, sizeof v);                                                                                                          \
        return (double)v;                                                                                                                  \
    } while (0)

double element_load(int type, const void *at) {
    uint16_t half;
    uint32_t bits;
    float f;
    switch (type) {
    case TYPE_FLOAT:
        LOAD(float);
    case TYPE_DOUBLE:
        LOAD(double);
    case TYPE_INT32:
        LOAD(int32_t);
    case TYPE_INT64:
        LOAD(int64_t);
    case TYPE_UINT8:
        LOAD(uint8_t);
    case TYPE_INT8:
        LOAD(int8_t);
    case TYPE_BOOLEAN:
        return *(const uint8_t *)at != 0;
    case TYPE_HALF:
        memcpy(&half, at, sizeof half);
        return from_half(half);
    case TYPE_BFLOAT16:
        memcpy(&half, at, sizeof half);
        bits = (uint32_t)half << 16;
        memcpy(&f, &bits, sizeof f);
        return f;
    default:
        return NAN;
    }
}

static double saturated(double v, double low, double high) {
    return isnan(v) ? 0 : fmin(fmax(nearbyint(v), low), high);
}

#define STORE(T, X)                                                                                                                        \
    do {                                                                                                                                   \
        T v = (T)(X);                                                                                                                      \
        memcpy(at, &v, sizeof v);                                                                                                          \
        return;                                                                                                                            \
    } while (0)

void element_store(int type, double value, void *at) {
    switch (type) {
    case TYPE_FLOAT:
        STORE(float, value);
    case TYPE_DOUBLE:
        STORE(double, value);
    case TYPE_HALF:
        STORE(uint16_t, to_half(value));
    case TYPE_BFLOAT16:
        STORE(uint16_t, to_bfloat16(value));
    case TYPE_INT32:
        STORE(int32_t, saturated(value, INT32_MIN, INT32_MAX));
    case TYPE_INT64:
        /* The largest double below 2^63. */
        STORE(int64_t, saturated(value, -0x1p63, 0x1.fffffffffffffp62));
    case TYPE_UINT8:
        STORE(uint8_t, saturated(value, 0, UINT8_MAX));
    case TYPE_INT8:
        STORE(int8_t, saturated(value, INT8_MIN, INT8_MAX));
    case TYPE_BOOLEAN:
        STORE(uint8_t, value != 0);
    default:
        return;
    }
}
