// The macro layer: one kernel text for AMD's compilers, for NVRTC and for a C++ host.
//
// Rules of every kernel text, which keep it portable and its argument segment plain:
//  * C++17, no headers. Types: int, unsigned, long long, float, double, and unsigned short for the bits of half and bfloat16.
//  * One kernel, one argument: a struct by value of 8- and 4-byte fields, ordered by size.
//  * Blocks are one-dimensional and their size is a constant. No blockDim, no gridDim: they would be hidden arguments.
//  * Every thread reaches every SYNC(); shared memory is written before it is read.
//  * Nothing wave-wide: waves have 64 threads on gfx9 and 32 elsewhere.
//  * FMA where a fused multiply-add is meant; compilers are told not to contract.

#if defined(HP_HOST)

// One call runs one thread of a block; the runner that stands before this text switches between them.
#define DEV static inline
#define GLOBAL
#define SHARED static thread_local
#define SYNC() hp_host_sync()
#define TX hp_host_tx()
#define BX hp_host_bx()
#define BY hp_host_by()
#define BZ hp_host_bz()
#define UNROLL
#define UNROLL_SOME
// One step between, so that a name which is a macro is expanded before it is pasted.
#define KERNEL(name, block, args) HP_KERNEL(name, block, args)
#define HP_KERNEL(name, block, args)                                                                                               \
    static void name##_body(const args& a);                                                                                        \
    extern "C" const unsigned name##_block;                                                                                        \
    extern "C" const unsigned name##_kernarg;                                                                                      \
    const unsigned name##_block = block;                                                                                           \
    const unsigned name##_kernarg = sizeof(args);                                                                                  \
    extern "C" void name(const void* kernarg) { name##_body(*static_cast<const args*>(kernarg)); }                                 \
    static void name##_body(const args& a)

#elif defined(__CUDACC_RTC__)

#define DEV static __device__ __forceinline__
#define GLOBAL
#define SHARED __shared__
#define SYNC() __syncthreads()
#define TX ((int)threadIdx.x)
#define BX ((int)blockIdx.x)
#define BY ((int)blockIdx.y)
#define BZ ((int)blockIdx.z)
#define UNROLL _Pragma("unroll")
#define UNROLL_SOME _Pragma("unroll")
#define KERNEL(name, block, args) extern "C" __global__ void __launch_bounds__(block) name(const args a)

#else

#define DEV static inline __attribute__((device)) __attribute__((always_inline))
#define GLOBAL __attribute__((address_space(1)))
#define SHARED __attribute__((shared))
#if __clang_major__ >= 19
// "local": only shared memory is exchanged, so RDNA need not drop its caches of global memory.
#define FENCE(order) __builtin_amdgcn_fence(order, "workgroup", "local")
#else
#define FENCE(order) __builtin_amdgcn_fence(order, "workgroup")
#endif
#define SYNC() (FENCE(__ATOMIC_RELEASE), __builtin_amdgcn_s_barrier(), FENCE(__ATOMIC_ACQUIRE))
#define TX ((int)__builtin_amdgcn_workitem_id_x())
#define BX ((int)__builtin_amdgcn_workgroup_id_x())
#define BY ((int)__builtin_amdgcn_workgroup_id_y())
#define BZ ((int)__builtin_amdgcn_workgroup_id_z())
#define UNROLL _Pragma("unroll")
// Unrolled in full, the loads of a whole tile are hoisted and registers run out.
#define UNROLL_SOME _Pragma("unroll 4")
#define KERNEL(name, block, args)                                                                                                  \
    extern "C" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(block, block))) void name(const args a)

#endif

#if defined(__CUDACC_RTC__)

DEV float hp_fma(float x, float y, float z) { return fmaf(x, y, z); }
DEV double hp_fma(double x, double y, double z) { return fma(x, y, z); }
DEV float hp_exp2(float x) { return exp2f(x); }
DEV float hp_sqrt(float x) { return sqrtf(x); }
DEV double hp_sqrt(double x) { return sqrt(x); }
DEV float hp_floor(float x) { return floorf(x); }
DEV double hp_floor(double x) { return floor(x); }
DEV float hp_rint(float x) { return rintf(x); }
DEV double hp_rint(double x) { return rint(x); }
DEV float hp_abs(float x) { return fabsf(x); }
DEV double hp_abs(double x) { return fabs(x); }
DEV unsigned hp_bits(float x) { return __float_as_uint(x); }
DEV float hp_float(unsigned u) { return __uint_as_float(u); }
DEV long long hp_bits(double x) { return __double_as_longlong(x); }
DEV double hp_double(long long u) { return __longlong_as_double(u); }
DEV float hp_from_half(unsigned short h) { float x; asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h)); return x; }
DEV unsigned short hp_to_half(float x) { unsigned short h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x)); return h; }

#else

DEV float hp_fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
DEV double hp_fma(double x, double y, double z) { return __builtin_fma(x, y, z); }
DEV float hp_exp2(float x) { return __builtin_exp2f(x); }
DEV float hp_sqrt(float x) { return __builtin_sqrtf(x); }
DEV double hp_sqrt(double x) { return __builtin_sqrt(x); }
DEV float hp_floor(float x) { return __builtin_floorf(x); }
DEV double hp_floor(double x) { return __builtin_floor(x); }
DEV float hp_rint(float x) { return __builtin_rintf(x); }
DEV double hp_rint(double x) { return __builtin_rint(x); }
DEV float hp_abs(float x) { return __builtin_fabsf(x); }
DEV double hp_abs(double x) { return __builtin_fabs(x); }
DEV unsigned hp_bits(float x) { unsigned u; __builtin_memcpy(&u, &x, 4); return u; }
DEV float hp_float(unsigned u) { float x; __builtin_memcpy(&x, &u, 4); return x; }
DEV long long hp_bits(double x) { long long u; __builtin_memcpy(&u, &x, 8); return u; }
DEV double hp_double(long long u) { double x; __builtin_memcpy(&x, &u, 8); return x; }

#if defined(HP_HOST)

DEV float hp_from_half(unsigned short h)
{
    const unsigned sign = (h & 0x8000u) << 16, rest = h & 0x7fffu;
    if (rest >= 0x7c00u) return hp_float(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
    if (rest >= 0x400u) return hp_float(sign | ((rest << 13) + 0x38000000u));
    const float subnormal = (float)rest * 0x1p-24f;
    return hp_float(sign | hp_bits(subnormal));
}

DEV unsigned short hp_to_half(float x)
{
    const unsigned bits = hp_bits(x), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
    if (rest > 0x7f800000u) return (unsigned short)(sign | 0x7e00u);
    if (rest >= 0x477ff000u) return (unsigned short)(sign | 0x7c00u);
    if (rest < 0x38800000u) return (unsigned short)(sign | (unsigned)__builtin_rintf(hp_float(rest) * 0x1p24f));
    return (unsigned short)(sign | ((rest + 0xfffu + (rest >> 13 & 1u)) - 0x38000000u) >> 13);
}

#else

DEV float hp_from_half(unsigned short h) { _Float16 x; __builtin_memcpy(&x, &h, 2); return (float)x; }
DEV unsigned short hp_to_half(float x) { const _Float16 y = (_Float16)x; unsigned short h; __builtin_memcpy(&h, &y, 2); return h; }

#endif

#endif

DEV float hp_from_bfloat(unsigned short b) { return hp_float((unsigned)b << 16); }

DEV unsigned short hp_to_bfloat(float x)
{
    const unsigned bits = hp_bits(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (unsigned short)(bits >> 16 | 0x40u);
    return (unsigned short)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

// Division by a number that the host knows: n / den for n below 2^31.
struct Div {
    unsigned mul, shift, den;
};

DEV int hp_div(int n, const Div& d)
{
    const unsigned high = (unsigned)((unsigned long long)(unsigned)n * d.mul >> 32);
    return (int)((high + (unsigned)n) >> d.shift);
}

// Takes the next digit off the position `rest`.
DEV int hp_digit(int& rest, const Div& d)
{
    const int next = hp_div(rest, d), digit = rest - next * (int)d.den;
    rest = next;
    return digit;
}
