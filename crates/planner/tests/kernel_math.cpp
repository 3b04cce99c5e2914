// Compares kernels/math.h, built for the host, with the C library's functions in long double.
//
// Usage: kernel_math POINTS. Prints a line for each function and type: name, type, the largest error in units in the last place,
// and the argument it is at.

extern "C" {
int hp_host_tx(void) { return 0; }
int hp_host_bx(void) { return 0; }
int hp_host_by(void) { return 0; }
int hp_host_bz(void) { return 0; }
void hp_host_sync(void) {}
}

#include "prelude.h"
#include "math.h"
#include "pointwise.h"

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <limits>

namespace {

long points;
uint64_t state;

uint64_t bits()
{
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

double uniform(double low, double high) { return low + (double)(bits() >> 11) * 0x1p-53 * (high - low); }

// Any bits of the type: every exponent is as frequent as any other.
float any(float) { return hp_float((unsigned)bits()); }
double any(double) { return hp_double((long long)bits()); }

template <typename E> double error(E found, long double expected)
{
    using Limits = std::numeric_limits<E>;
    if (std::isnan(expected)) return std::isnan(found) ? 0.0 : INFINITY;
    if ((long double)found == expected) return 0.0;
    // Half an ulp beyond the largest number, numbers round to infinity.
    const long double top = std::ldexp(1.0L, Limits::max_exponent);
    const long double e = std::isinf(expected) || std::fabs(expected) > top ? std::copysign(top, expected) : expected;
    const long double f = std::isinf(found) ? std::copysign(top, (long double)found) : (long double)found;
    if (std::isnan(found) || (std::isinf(expected) && !std::isinf(found))) return INFINITY;
    int exponent = Limits::min_exponent - 1;
    if (e != 0.0L && std::ilogb(e) > exponent) exponent = std::ilogb(e);
    return (double)(std::fabs(f - e) / std::ldexp(1.0L, exponent - Limits::digits + 1));
}

struct Worst {
    double error = 0.0, x = 0.0, y = 0.0;
};

template <typename E> void report(const char* name, const Worst& worst)
{
    std::printf("%s %s %.3f %a %a\n", name, sizeof(E) == 4 ? "float" : "double", worst.error, worst.x, worst.y);
}

template <typename E, typename F, typename R> void unary(const char* name, double low, double high, F f, R reference)
{
    using Limits = std::numeric_limits<E>;
    Worst worst;
    const auto at = [&](E x) {
        const double e = error<E>(f(x), reference((long double)x));
        if (!(e <= worst.error)) worst = {e, (double)x, 0.0};
    };
    for (const E sign : {(E)1, (E)-1}) {
        for (const E x : {(E)0, Limits::denorm_min(), Limits::min(), Limits::max(), Limits::infinity(), Limits::quiet_NaN()}) at(sign * x);
        // Around the limits of the methods and of the types.
        for (const double x : {0x1p-60, 0x1p-30, 0.25, 0.34657, 0.375, 0.55, 0.70710678118654752, 0.78539816339744831, 1.0, 1.4142135623730950,
                               1.5707963267948966, 2.0, 3.0, 3.1415926535897932, 4.0, 5.9, 6.0, 9.0, 17.3, 18.0, 37.0, 40.0, 87.3365448,
                               88.7228391, 103.2789, 103.9721, 708.3964185322641, 709.782712893384, 744.4400719213812, 745.1332191019411,
                               0x1p15, 0x1p23, 0x1p24, 1e6, 0x1p40, 0x1p52, 0x1p53, 1e22, 0x1p126, 0x1p1022}) {
            E near = sign * (E)x;
            for (int i = 0; i < 8; i++) near = std::nextafter(near, (E)0);
            for (int i = 0; i < 16; i++, near = std::nextafter(near, sign * Limits::infinity())) at(near);
        }
    }
    for (long i = 0; i < points; i++) {
        at((E)uniform(low, high));
        at((E)uniform(-1.0, 1.0));
        at((E)(uniform(-1.0, 1.0) * std::exp2(uniform(-30.0, 6.0))));
        at(any((E)0));
    }
    report<E>(name, worst);
}

// Angles: whole numbers of quarter turns as nearly as the type has them, and large ones.
template <typename E, typename F, typename R> void angles(const char* name, F f, R reference)
{
    Worst worst;
    for (long i = 0; i < points; i++) {
        const double n = std::floor(std::exp2(uniform(0.0, sizeof(E) == 4 ? 30.0 : 50.0)));
        for (const E x : {(E)(n * 1.5707963267948966), (E)uniform(-1e6, 1e6), (E)(std::exp2(uniform(10.0, 60.0)))}) {
            const double e = error<E>(f(x), reference((long double)x));
            if (!(e <= worst.error)) worst = {e, (double)x, 0.0};
        }
    }
    report<E>(name, worst);
}

template <typename E> void powers()
{
    Worst worst;
    const auto at = [&](E x, E y) {
        const double e = error<E>(hp_pow(x, y), std::pow((long double)x, (long double)y));
        if (!(e <= worst.error)) worst = {e, (double)x, (double)y};
    };
    const double inf = INFINITY;
    const double special[] = {0.0, 1.0, 0.5, 0.999, 1.001, 2.0, 3.0, 4.0, 2.5, 1e10, 9007199254740993.0, 1e300, 1e-300, 5e-324, inf, NAN};
    for (double x : special) {
        for (double y : special) {
            at((E)x, (E)y), at((E)-x, (E)y), at((E)x, (E)-y), at((E)-x, (E)-y);
        }
    }
    for (long i = 0; i < points; i++) {
        const E x = std::fabs(any((E)0)), near = (E)(1.0 + uniform(-1.0, 1.0) * std::exp2(uniform(-20.0, -1.0)));
        const double range = sizeof(E) == 4 ? 104.0 : 746.0;
        for (const E base : {x, near}) {
            const double log = std::log((double)base);
            at(base, (E)(log == 0.0 ? 1.0 : uniform(-range, range) / log));
        }
        at((E)uniform(0.0, 10.0), (E)uniform(-20.0, 20.0));
        at((E)uniform(-10.0, 0.0), (E)std::floor(uniform(-20.0, 20.0)));
        at(any((E)0), any((E)0));
    }
    report<E>("pow", worst);
}

template <typename E> void all()
{
    unary<E>("exp", -100.0, 90.0, [](E x) { return hp_exp(x); }, [](long double x) { return std::exp(x); });
    unary<E>("exp_wide", -760.0, 720.0, [](E x) { return hp_exp(x); }, [](long double x) { return std::exp(x); });
    unary<E>("expm1", -45.0, 45.0, [](E x) { return hp_expm1(x); }, [](long double x) { return std::expm1(x); });
    unary<E>("log", 0.0, 4.0, [](E x) { return hp_log(x); }, [](long double x) { return std::log(x); });
    unary<E>("log1p", -1.0, 4.0, [](E x) { return hp_log1p(x); }, [](long double x) { return std::log1p(x); });
    unary<E>("sin", -100.0, 100.0, [](E x) { return hp_sin(x); }, [](long double x) { return std::sin(x); });
    unary<E>("cos", -100.0, 100.0, [](E x) { return hp_cos(x); }, [](long double x) { return std::cos(x); });
    unary<E>("tan", -100.0, 100.0, [](E x) { return hp_tan(x); }, [](long double x) { return std::tan(x); });
    angles<E>("sin_angles", [](E x) { return hp_sin(x); }, [](long double x) { return std::sin(x); });
    angles<E>("cos_angles", [](E x) { return hp_cos(x); }, [](long double x) { return std::cos(x); });
    angles<E>("tan_angles", [](E x) { return hp_tan(x); }, [](long double x) { return std::tan(x); });
    unary<E>("tanh", -10.0, 10.0, [](E x) { return hp_tanh(x); }, [](long double x) { return std::tanh(x); });
    unary<E>("erf", -7.0, 7.0, [](E x) { return hp_erf(x); }, [](long double x) { return std::erf(x); });
    unary<E>("sigmoid", -110.0, 40.0, [](E x) { return hp_sigmoid(x); },
             [](long double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); });
    unary<E>("sqrt", 0.0, 100.0, [](E x) { return hp_sqrt(x); }, [](long double x) { return std::sqrt(x); });
    unary<E>("rsqrt", 0.0, 100.0, [](E x) { return hp_rsqrt(x); }, [](long double x) { return 1 / std::sqrt(x); });
    unary<E>("ceil", -9.0, 9.0, [](E x) { return hp_ceil(x); }, [](long double x) { return std::ceil(x); });
    unary<E>("floor", -9.0, 9.0, [](E x) { return hp_floor(x); }, [](long double x) { return std::floor(x); });
    unary<E>("trunc", -9.0, 9.0, [](E x) { return hp_trunc(x); }, [](long double x) { return std::trunc(x); });
    powers<E>();
}

}  // namespace

int main(int argc, char** argv)
{
    points = argc > 1 ? std::atol(argv[1]) : 100000;
    all<float>();
    all<double>();
}
