// The naive convolution kernels of AMD's MIOpen, simulated: the kernels that a stock MIOpen can run in tests. A function is found by its
// name, `naive_conv_ab_{packed,nonpacked}_{fwd,bwd,wrw}_{nchw,nhwc,ncdhw,ndhwc}_{type}_{accumulator}_{type}`, in a module that the stand-in
// compiler made (preload/compiler.cpp).
//
// Arguments: addresses of x and w, alpha, beta, address of y; then the strides of x, w and y, 64 bits each, from the innermost dimension of
// the layout out, groups being a dimension of their own (x: C G W H N for nhwc, W H C G N for nchw; w: K G outermost, then as the layout);
// then 32-bit extents: x, n, K and C of a group, y, strides, dilations, padding, filter, groups. `packed` takes the strides from the
// extents.
#include "host.h"

#include <cstdio>
#include <cstring>
#include <vector>

namespace host {

namespace {

enum Direction { FORWARD, BACKWARD_DATA, BACKWARD_WEIGHTS };

struct Half {
    uint16_t bits;
};
struct Bf16 {
    uint16_t bits;
};

float bits_to_float(uint32_t bits) {
    float out;
    memcpy(&out, &bits, 4);
    return out;
}

uint32_t float_to_bits(float value) {
    uint32_t out;
    memcpy(&out, &value, 4);
    return out;
}

double load(float v) { return v; }
int32_t load(int8_t v) { return v; }
int32_t load(int32_t v) { return v; }
double load(Bf16 v) { return bits_to_float(uint32_t(v.bits) << 16); }
double load(Half v) {
    uint32_t sign = uint32_t(v.bits & 0x8000) << 16, exponent = v.bits >> 10 & 31, fraction = v.bits & 0x3ff;
    if (exponent == 31)
        return bits_to_float(sign | 0x7f800000 | fraction << 13);
    double magnitude = exponent ? (1024 + fraction) * (1.0 / (1 << 25)) * double(1u << exponent) : fraction * (1.0 / (1 << 24));
    return sign ? -magnitude : magnitude;
}

void store(float* to, double v) { *to = static_cast<float>(v); }
void store(float* to, int32_t v) { *to = static_cast<float>(v); }
void store(int32_t* to, int32_t v) { *to = v; }
void store(int8_t* to, int32_t v) { *to = static_cast<int8_t>(v & 0xff); }
// To the nearest, ties to even.
void store(Bf16* to, double v) {
    uint32_t bits = float_to_bits(static_cast<float>(v));
    if ((~bits & 0x7f800000) == 0)
        to->bits = static_cast<uint16_t>(bits >> 16 | ((bits & 0xffff) ? 1 : 0));
    else
        to->bits = static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
void store(Half* to, double v) {
    float value = static_cast<float>(v);
    uint32_t bits = float_to_bits(value), magnitude = bits & 0x7fffffff;
    uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
    if (magnitude > 0x7f800000)
        to->bits = sign | 0x7e00;
    else if (magnitude >= 0x477ff000)  // rounds to 65520 or more
        to->bits = sign | 0x7c00;
    else if (magnitude >= 0x38800000)
        to->bits = static_cast<uint16_t>(sign | (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13);
    else {
        // A subnormal: a multiple of 2^-24, which the addition of 0.5 rounds to.
        float shifted = bits_to_float(magnitude) + 0.5f;
        to->bits = static_cast<uint16_t>(sign | (float_to_bits(shifted) - 0x3f000000));
    }
}

struct Tensor {
    void* data;
    int64_t g, a, b, d, h, w;  // strides; a and b are n and c of x, k and c of w, n and k of y
};

struct Problem {
    Tensor x, w, y;
    double alpha, beta;
    int64_t groups, n, k, c;
    int64_t in[3], out[3], filter[3], stride[3], dilation[3], pad[3];
};

using Run = void (*)(const Problem&);

template <class T>
T& element(const Tensor& t, int64_t g, int64_t a, int64_t b, int64_t d, int64_t h, int64_t w) {
    return static_cast<T*>(t.data)[g * t.g + a * t.a + b * t.b + d * t.d + h * t.h + w * t.w];
}

template <class Acc, class Dst>
void finish(const Problem& p, Dst& to, Acc sum) {
    if (p.alpha != 1 || p.beta != 0)
        sum = static_cast<Acc>(p.alpha) * sum + static_cast<Acc>(load(to)) * static_cast<Acc>(p.beta);
    store(&to, sum);
}

// f(z, y, x) for all places of an extent.
template <class F>
void each(const int64_t extent[3], F f) {
    for (int64_t z = 0; z < extent[0]; ++z)
        for (int64_t y = 0; y < extent[1]; ++y)
            for (int64_t x = 0; x < extent[2]; ++x) {
                int64_t at[3] = {z, y, x};
                f(at);
            }
}

// The place in x that a place in y and one in the filter meet at.
bool meet(const Problem& p, const int64_t out[3], const int64_t filter[3], int64_t in[3]) {
    for (int i = 0; i < 3; ++i) {
        in[i] = p.stride[i] * out[i] - p.pad[i] + p.dilation[i] * filter[i];
        if (in[i] < 0 || in[i] >= p.in[i])
            return false;
    }
    return true;
}

template <class Src, class Acc, class Dst>
void forward(const Problem& p) {
    for (int64_t g = 0; g < p.groups; ++g)
        for (int64_t n = 0; n < p.n; ++n)
            for (int64_t k = 0; k < p.k; ++k)
                each(p.out, [&](const int64_t o[3]) {
                    Acc sum = 0;
                    for (int64_t c = 0; c < p.c; ++c)
                        each(p.filter, [&](const int64_t f[3]) {
                            int64_t i[3];
                            if (meet(p, o, f, i))
                                sum += Acc(load(element<Src>(p.x, g, n, c, i[0], i[1], i[2]))) *
                                       Acc(load(element<Src>(p.w, g, k, c, f[0], f[1], f[2])));
                        });
                    finish(p, element<Dst>(p.y, g, n, k, o[0], o[1], o[2]), sum);
                });
}

template <class Src, class Acc, class Dst>
void backward_data(const Problem& p) {
    for (int64_t g = 0; g < p.groups; ++g)
        for (int64_t n = 0; n < p.n; ++n)
            for (int64_t c = 0; c < p.c; ++c)
                each(p.in, [&](const int64_t i[3]) {
                    Acc sum = 0;
                    for (int64_t k = 0; k < p.k; ++k)
                        each(p.filter, [&](const int64_t f[3]) {
                            int64_t o[3];
                            for (int at = 0; at < 3; ++at) {
                                o[at] = i[at] + p.pad[at] - p.dilation[at] * f[at];
                                if (o[at] < 0 || o[at] % p.stride[at])
                                    return;
                                o[at] /= p.stride[at];
                                if (o[at] >= p.out[at])
                                    return;
                            }
                            sum += Acc(load(element<Src>(p.y, g, n, k, o[0], o[1], o[2]))) *
                                   Acc(load(element<Src>(p.w, g, k, c, f[0], f[1], f[2])));
                        });
                    finish(p, element<Dst>(p.x, g, n, c, i[0], i[1], i[2]), sum);
                });
}

template <class Src, class Acc, class Dst>
void backward_weights(const Problem& p) {
    for (int64_t g = 0; g < p.groups; ++g)
        for (int64_t k = 0; k < p.k; ++k)
            for (int64_t c = 0; c < p.c; ++c)
                each(p.filter, [&](const int64_t f[3]) {
                    Acc sum = 0;
                    for (int64_t n = 0; n < p.n; ++n)
                        each(p.out, [&](const int64_t o[3]) {
                            int64_t i[3];
                            if (meet(p, o, f, i))
                                sum += Acc(load(element<Src>(p.x, g, n, c, i[0], i[1], i[2]))) *
                                       Acc(load(element<Src>(p.y, g, n, k, o[0], o[1], o[2])));
                        });
                    finish(p, element<Dst>(p.w, g, k, c, f[0], f[1], f[2]), sum);
                });
}

// Types that there are kernels for: of inputs, accumulator, output. MIOpen has 8-bit integers forward only, and 8-bit results in 2-D only.
struct Types {
    const char* name;
    unsigned input, output;  // bytes
    Run run[3];
    bool volume;
};
constexpr Types TYPES[] = {
    {"float_double_float", 4, 4,
     {forward<float, double, float>, backward_data<float, double, float>, backward_weights<float, double, float>}, true},
    {"half_double_half", 2, 2,
     {forward<Half, double, Half>, backward_data<Half, double, Half>, backward_weights<Half, double, Half>}, true},
    {"ushort_double_ushort", 2, 2,
     {forward<Bf16, double, Bf16>, backward_data<Bf16, double, Bf16>, backward_weights<Bf16, double, Bf16>}, true},
    {"int8_t_int32_t_int8_t", 1, 1, {forward<int8_t, int32_t, int8_t>, nullptr, nullptr}, false},
    {"int8_t_int32_t_int32_t", 1, 4, {forward<int8_t, int32_t, int32_t>, nullptr, nullptr}, true},
    {"int8_t_int32_t_float", 1, 4, {forward<int8_t, int32_t, float>, nullptr, nullptr}, true},
};
constexpr const char* DIRECTIONS[] = {"fwd", "bwd", "wrw"};
struct Layout {
    const char* name;
    bool volume, channels_last;
};
constexpr Layout LAYOUTS[] = {{"nchw", false, false}, {"nhwc", false, true}, {"ncdhw", true, false}, {"ndhwc", true, true}};

}  // namespace

class NaiveKernel {
public:
    std::string name;
    bool packed;
    int direction;
    Layout layout;
    Types types;
};

namespace {

std::vector<NaiveKernel> make_kernels() {
    std::vector<NaiveKernel> kernels;
    for (bool packed : {false, true})
        for (int direction = 0; direction < 3; ++direction)
            for (const Layout& layout : LAYOUTS)
                for (const Types& types : TYPES)
                    if (types.run[direction] && (types.volume || !layout.volume))
                        kernels.push_back({std::string("naive_conv_ab_") + (packed ? "packed_" : "nonpacked_") + DIRECTIONS[direction] + "_" +
                                               layout.name + "_" + types.name,
                                           packed, direction, layout, types});
    return kernels;
}

class Reader {
public:
    explicit Reader(const char* at) : at_(at) {}
    template <class T>
    T next() {
        T out;
        memcpy(&out, at_, sizeof out);
        at_ += sizeof out;
        return out;
    }

private:
    const char* at_;
};

// Fields of a tensor from the innermost out.
void order(const Layout& layout, bool weights, Tensor* t, int64_t* fields[6]) {
    int64_t** f = fields;
    auto space = [&] {
        *f++ = &t->w;
        *f++ = &t->h;
        if (layout.volume)
            *f++ = &t->d;
    };
    if (weights) {
        if (layout.channels_last)
            *f++ = &t->b;
        space();
        if (!layout.channels_last)
            *f++ = &t->b;
        *f++ = &t->a;
        *f++ = &t->g;
        return;
    }
    if (layout.channels_last) {
        *f++ = &t->b;
        *f++ = &t->g;
        space();
    } else {
        space();
        *f++ = &t->b;
        *f++ = &t->g;
    }
    *f++ = &t->a;
}

Problem read(const NaiveKernel& kernel, const char* kernarg) {
    Problem p = {};
    Reader reader(kernarg);
    p.x.data = reader.next<void*>();
    p.w.data = reader.next<void*>();
    p.alpha = reader.next<double>();
    p.beta = reader.next<double>();
    p.y.data = reader.next<void*>();
    int rank = kernel.layout.volume ? 6 : 5;
    int64_t* fields[6];
    for (Tensor* t : {&p.x, &p.w, &p.y}) {
        order(kernel.layout, t == &p.w, t, fields);
        for (int i = 0; i < rank; ++i)
            *fields[i] = reader.next<int64_t>();
    }
    int first = kernel.layout.volume ? 0 : 1;
    auto space = [&](int64_t* to, int64_t missing) {
        to[0] = missing;
        for (int i = first; i < 3; ++i)
            to[i] = reader.next<int32_t>();
    };
    space(p.in, 1);
    p.n = reader.next<int32_t>();
    p.k = reader.next<int32_t>();
    p.c = reader.next<int32_t>();
    space(p.out, 1);
    space(p.stride, 1);
    space(p.dilation, 1);
    space(p.pad, 0);
    space(p.filter, 1);
    p.groups = reader.next<int32_t>();
    if (kernel.packed)
        for (Tensor* t : {&p.x, &p.w, &p.y}) {
            const int64_t* extent = t == &p.x ? p.in : t == &p.w ? p.filter : p.out;
            order(kernel.layout, t == &p.w, t, fields);
            int64_t stride = 1;
            for (int i = 0; i < rank; ++i) {
                *fields[i] = stride;
                stride *= fields[i] == &t->w   ? extent[2]
                          : fields[i] == &t->h ? extent[1]
                          : fields[i] == &t->d ? extent[0]
                          : fields[i] == &t->g ? p.groups
                          : fields[i] == &t->b ? (t == &p.y ? p.k : p.c)
                                               : (t == &p.w ? p.k : p.n);
            }
        }
    return p;
}

int refuse(const NaiveKernel& kernel, int code, const char* why) {
    fprintf(stderr, "host HIP: %s: %s\n", kernel.name.c_str(), why);
    return code;
}

}  // namespace

const NaiveKernel* find_naive(const char* name) {
    static const std::vector<NaiveKernel> kernels = make_kernels();
    for (const NaiveKernel& kernel : kernels)
        if (kernel.name == name)
            return &kernel;
    return nullptr;
}

unsigned naive_kernarg(const NaiveKernel* kernel) { return kernel->layout.volume ? 5 * 8 + 3 * 6 * 8 + 22 * 4 : 5 * 8 + 3 * 5 * 8 + 16 * 4; }

int check_naive(const NaiveKernel* kernel, const unsigned grid[3], const char* kernarg) {
    Problem p = read(*kernel, kernarg);
    for (const int64_t* extents : {p.in, p.out, p.filter, p.stride, p.dilation})
        for (int i = 0; i < 3; ++i)
            if (extents[i] < 1)
                return refuse(*kernel, INVALID_VALUE, "an extent is not positive");
    if (p.groups < 1 || p.n < 1 || p.k < 1 || p.c < 1)
        return refuse(*kernel, INVALID_VALUE, "an extent is not positive");
    // One block computes a plane of the result, or with channels last, a row of all its channels.
    int outer = kernel->layout.volume ? 0 : 1;
    int64_t blocks = kernel->direction == BACKWARD_WEIGHTS ? p.groups * p.k
                     : kernel->layout.channels_last        ? p.groups * p.n * (kernel->direction == FORWARD ? p.out : p.in)[outer]
                                                           : p.groups * p.n * (kernel->direction == FORWARD ? p.k : p.c);
    if (grid[0] != blocks || grid[1] != 1 || grid[2] != 1)
        return refuse(*kernel, INVALID_VALUE, "the grid is not of a block for each part of the result");
    for (const Tensor* t : {&p.x, &p.w, &p.y}) {
        bool is_output = t == (kernel->direction == FORWARD ? &p.y : kernel->direction == BACKWARD_DATA ? &p.x : &p.w);
        const int64_t* extent = t == &p.x ? p.in : t == &p.w ? p.filter : p.out;
        int64_t counts[6] = {p.groups, t == &p.w ? p.k : p.n, t == &p.y ? p.k : p.c, extent[0], extent[1], extent[2]};
        int64_t strides[6] = {t->g, t->a, t->b, t->d, t->h, t->w};
        unsigned __int128 last = 0;
        for (int i = 0; i < 6; ++i) {
            if (strides[i] < 0 && counts[i] > 1)
                return refuse(*kernel, INVALID_VALUE, "a stride is negative");
            if (counts[i] > 1)
                last += static_cast<unsigned __int128>(counts[i] - 1) * static_cast<uint64_t>(strides[i]);
        }
        last = (last + 1) * (is_output ? kernel->types.output : kernel->types.input);
        Range range;
        if (!find_range(t->data, &range) || last > range.size - (static_cast<char*>(t->data) - range.begin))
            return refuse(*kernel, ILLEGAL_ADDRESS, "a tensor does not lie in memory of the device");
    }
    return SUCCESS;
}

void run_naive(const NaiveKernel* kernel, const char* kernarg) { kernel->types.run[kernel->direction](read(*kernel, kernarg)); }

}  // namespace host
