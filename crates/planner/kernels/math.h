// Elementary functions from + - * /, square roots and fused multiply-adds, as device compilers without libraries have them.
//
// float and double, right to 3 ulp (most to 1; see tests/kernel_math.rs) from the smallest subnormal to infinity, NaN in, NaN out.
// The method is the same everywhere: the argument is reduced to a small interval, with what the reduction rounds away kept as
// a second term, and there a polynomial gives what is left beyond the first terms of the series. coefficients.py derives them.
// Nothing is indexed, so nothing lies in memory. float functions use float alone; pow, and angles beyond 2^15, use double.

// c0 + z (c1 + z (c2 + ...)).
template <typename E> DEV E hp_poly(E, E c)
{
    return c;
}

template <typename E, typename... Rest> DEV E hp_poly(E z, E c, Rest... rest)
{
    return hp_fma(z, hp_poly(z, rest...), c);
}

DEV float hp_infinity(float) { return hp_float(0x7f800000u); }
DEV double hp_infinity(double) { return hp_double(0x7ff0000000000000ll); }
DEV float hp_nan(float) { return hp_float(0x7fc00000u); }
DEV double hp_nan(double) { return hp_double(0x7ff8000000000000ll); }

// A power of two: n from -126 to 127, from -1022 to 1023.
DEV float hp_power_of_two(float, int n) { return hp_float((unsigned)(n + 127) << 23); }
DEV double hp_power_of_two(double, int n) { return hp_double((long long)((unsigned long long)(unsigned)(n + 1023) << 52)); }

template <typename E> DEV E hp_ceil(E x)
{
    return -hp_floor(-x);
}

template <typename E> DEV E hp_trunc(E x)
{
    return x < (E)0 ? hp_ceil(x) : hp_floor(x);
}

// ---- exp ----

// (exp(z) - 1 - z) / z^2 for |z| up to ln(2) / 2.
DEV double hp_exp_rest(double z)
{
    return hp_poly(z, 0x1p-1, 0x1.555555555555cp-3, 0x1.5555555555558p-5, 0x1.111111110e939p-7, 0x1.6c16c16c14f95p-10,
                   0x1.a01a01b4be162p-13, 0x1.a01a01adbcf39p-16, 0x1.71ddecf49f9a2p-19, 0x1.27e4cb5435e9p-22,
                   0x1.af717e34249b3p-26, 0x1.1f8d4d394c852p-29);
}

DEV float hp_exp_rest(float z)
{
    return hp_poly(z, 0x1p-1f, 0x1.555556p-3f, 0x1.5554ep-5f, 0x1.110ffp-7f, 0x1.6d56f2p-10f, 0x1.a26eap-13f);
}

// exp(x + low), low being small.
DEV double hp_exp_sum(double x, double low)
{
    double c = x < -760.0 ? -760.0 : x;
    c = c > 720.0 ? 720.0 : c;
    double n = hp_rint(c * 0x1.71547652b82fep+0);
    n = n == n ? n : 0.0;
    const double high = hp_fma(-n, 0x1.62e42ffp-1, c);
    const double middle = hp_fma(n, 0x1.718432a1b0e26p-35, high);
    const double below = hp_fma(n, 0x1.718432a1b0e26p-35, high - middle) + low;
    const double r = middle + below, lost = (middle - r) + below;
    const double p = 1.0 + (r + hp_fma(r * r, hp_exp_rest(r), lost));
    // In two steps: the power itself may be no number of the type where the result is one.
    const int whole = (int)n, half = whole >> 1;
    return p * hp_power_of_two(0.0, half) * hp_power_of_two(0.0, whole - half);
}

DEV double hp_exp(double x)
{
    return hp_exp_sum(x, 0.0);
}

// Through the machine's power of two, whose error is what the result has.
DEV float hp_exp(float x)
{
    const float t = x * 0x1.715476p+0f;
    const float lost = hp_fma(x, 0x1.715476p+0f, -t) + x * 0x1.4ae0cp-26f;
    const float e = hp_exp2(t);
    // Zero and infinity are right already, and have no correction.
    return hp_bits(e) - 1u < 0x7f7fffffu ? hp_fma(e, lost * 0x1.62e43p-1f, e) : e;
}

// exp(x) - 1 where it differs from exp(x) and from -1.
DEV float hp_expm1_limit(float) { return 18.0f; }
DEV double hp_expm1_limit(double) { return 40.0; }
DEV float hp_ln2_high(float) { return 0x1.62e4p-1f; }
DEV double hp_ln2_high(double) { return 0x1.62e42ffp-1; }
DEV float hp_ln2_low(float) { return 0x1.7f7d1cp-20f; }
DEV double hp_ln2_low(double) { return -0x1.718432a1b0e26p-35; }

template <typename E> DEV E hp_expm1(E x)
{
    if (!(hp_abs(x) < hp_expm1_limit(x))) return x < (E)0 ? (E)-1 : hp_exp(x);
    const E n = hp_rint(x * (E)0x1.71547652b82fep+0);
    const E high = hp_fma(-n, hp_ln2_high(x), x);
    const E r = hp_fma(-n, hp_ln2_low(x), high);
    const E lost = hp_fma(-n, hp_ln2_low(x), high - r);
    const E p = r + hp_fma(r * r, hp_exp_rest(r), lost);
    const E power = hp_power_of_two(x, (int)n);
    return x == (E)0 ? x : hp_fma(power, p, power - (E)1);
}

// ---- log ----

// (log((1 + s) / (1 - s)) / s - 2) / s^2, z = s^2, for (1 + s) / (1 - s) from sqrt(1/2) to sqrt(2).
DEV double hp_log_rest(double z)
{
    return hp_poly(z, 0x1.5555555555555p-1, 0x1.9999999999d0ap-2, 0x1.249249243a379p-2, 0x1.c71c724a7f1cep-3,
                   0x1.745ce211aba22p-3, 0x1.3b2018472f6cp-3, 0x1.0f68500fb9dbbp-3, 0x1.0f049e66f8028p-3);
}

DEV float hp_log_rest(float z)
{
    return hp_poly(z, 0x1.55557ap-1f, 0x1.995edap-2f, 0x1.31dfeap-2f);
}

// x = 2^k (1 + f) with 1 + f from sqrt(1/2) to sqrt(2), for normal positive x.
DEV float hp_split(float x, float& f)
{
    const unsigned bits = hp_bits(x);
    const int k = (int)(bits - 0x3f3504f3u) >> 23;
    f = hp_float(bits - ((unsigned)k << 23)) - 1.0f;
    return (float)k;
}

DEV double hp_split(double x, double& f)
{
    const long long bits = hp_bits(x);
    const int k = (int)((bits - 0x3fe6a09e667f3bcdll) >> 52);
    f = hp_double((long long)((unsigned long long)bits - ((unsigned long long)(unsigned)k << 52))) - 1.0;
    return (double)k;
}

// The same of subnormal numbers too.
DEV float hp_split_any(float x, float& f)
{
    const bool small = x < 0x1p-126f;
    return hp_split(small ? x * 0x1p+24f : x, f) - (small ? 24.0f : 0.0f);
}

DEV double hp_split_any(double x, double& f)
{
    const bool small = x < 0x1p-1022;
    return hp_split(small ? x * 0x1p+54 : x, f) - (small ? 54.0 : 0.0);
}

// k ln(2) + log(1 + f) + low. As s = f / (2 + f), 2 s is f - s f: so f, which is exact, carries the result.
template <typename E> DEV E hp_log_sum(E k, E f, E low)
{
    const E s = f / ((E)2 + f), z = s * s;
    const E rest = s * (f - z * hp_log_rest(z)) - hp_fma(k, hp_ln2_low(k), low);
    return hp_fma(k, hp_ln2_high(k), f - rest);
}

template <typename E> DEV E hp_log(E x)
{
    if (!(x > (E)0 && x < hp_infinity(x))) return x == (E)0 ? -hp_infinity(x) : x < (E)0 ? hp_nan(x) : x;
    E f;
    const E k = hp_split_any(x, f);
    return hp_log_sum(k, f, (E)0);
}

template <typename E> DEV E hp_log1p(E x)
{
    if (!(x > (E)-1 && x < hp_infinity(x))) return x == (E)-1 ? -hp_infinity(x) : x < (E)-1 ? hp_nan(x) : x;
    const E u = (E)1 + x;
    const E lost = x < (E)1 ? x - (u - (E)1) : (E)1 - (u - x);
    E f;
    const E k = hp_split(u, f);
    const bool near = x > (E)-0.25 && x < (E)0.375;
    return x == (E)0 ? x : near ? hp_log_sum((E)0, x, (E)0) : hp_log_sum(k, f, lost / u);
}

// ---- pow ----

// (log((1 + s) / (1 - s)) / s - 2 - 2/3 s^2) / s^4, z = s^2.
DEV double hp_pow_rest(double z)
{
    return hp_poly(z, 0x1.9999999999995p-2, 0x1.249249249314fp-2, 0x1.c71c71c56473bp-3, 0x1.745d183dd16d9p-3,
                   0x1.3b13600773d8cp-3, 0x1.11211164a20c1p-3, 0x1.de265659310b6p-4, 0x1.eb74606c0604cp-4);
}

// a + b, and what that rounds away.
DEV double hp_two_sum(double a, double b, double& lost)
{
    const double sum = a + b, part = sum - a;
    lost = (a - (sum - part)) + (b - part);
    return sum;
}

DEV double hp_pow(double x, double y)
{
    const double infinity = hp_infinity(x), a = hp_abs(x);
    if (x == 1.0 || y == 0.0) return 1.0;
    if (x != x || y != y) return hp_nan(x);
    const bool is_integer = hp_floor(y) == y;
    const bool is_odd = is_integer && hp_abs(y) < 0x1p53 && hp_floor(0.5 * y) * 2.0 != y;
    const bool is_negative = hp_bits(x) < 0 && is_odd;
    if (hp_abs(y) == infinity) return a == 1.0 ? 1.0 : (a > 1.0) == (y > 0.0) ? infinity : 0.0;
    if (a == 0.0 || a == infinity) {
        const double end = (a == 0.0) == (y < 0.0) ? infinity : 0.0;
        return is_negative ? -end : end;
    }
    if (x < 0.0 && !is_integer) return hp_nan(x);
    double f;
    const double k = hp_split_any(a, f);
    // The logarithm as a sum of two: 2 s + 2/3 s^3 + .., each with what it rounds away.
    const double d = 2.0 + f, d_low = f - (d - 2.0);
    const double s = f / d, s_low = hp_fma(-s, d_low, hp_fma(-s, d, f)) / d;
    const double z = s * s, z_low = hp_fma(2.0 * s, s_low, hp_fma(s, s, -z));
    const double w = s * z, w_low = hp_fma(s, z_low, hp_fma(s_low, z, hp_fma(s, z, -w)));
    const double t = w * 0x1.5555555555555p-1;
    const double t_low = hp_fma(w_low, 0x1.5555555555555p-1, hp_fma(w, 0x1.5555555555555p-55, hp_fma(w, 0x1.5555555555555p-1, -t)));
    double lost_s, lost_t;
    const double head = hp_two_sum(hp_two_sum(k * hp_ln2_high(k), 2.0 * s, lost_s), t, lost_t);
    const double tail = lost_s + (lost_t + hp_fma(k, hp_ln2_low(k), hp_fma(w * z, hp_pow_rest(z), hp_fma(2.0, s_low, t_low))));
    const double log = head + tail, log_low = (head - log) + tail;
    const double p = y * log;
    const double size = hp_abs(p) < 1000.0 ? hp_exp_sum(p, hp_fma(y, log, -p) + y * log_low) : p > 0.0 ? infinity : 0.0;
    return is_negative ? -size : size;
}

DEV float hp_pow(float x, float y)
{
    return (float)hp_pow((double)x, (double)y);
}

// ---- sin, cos, tan ----

// (sin(r) - r) / r^3 and (cos(r) - 1 + r^2 / 2) / r^4, z = r^2, for |r| up to pi / 4.
DEV double hp_sin_rest(double z)
{
    return hp_poly(z, -0x1.5555555555555p-3, 0x1.111111111108ap-7, -0x1.a01a01a006a6cp-13, 0x1.71de3a3fe2d79p-19,
                   -0x1.ae643d1030affp-26, 0x1.61149253bdec9p-33, -0x1.a5597251478b3p-41);
}

DEV float hp_sin_rest(float z)
{
    return hp_poly(z, -0x1.555556p-3f, 0x1.111166p-7f, -0x1.a04a46p-13f, 0x1.784d2cp-19f);
}

DEV double hp_cos_rest(double z)
{
    return hp_poly(z, 0x1.5555555555555p-5, -0x1.6c16c16c16b47p-10, 0x1.a01a01a001972p-16, -0x1.27e4fb6063515p-22,
                   0x1.1eed7736051bfp-29, -0x1.937d7c2a17f71p-37, 0x1.a1e84f4fa4dc3p-45);
}

DEV float hp_cos_rest(float z)
{
    return hp_poly(z, 0x1.55554ap-5f, -0x1.6c0c26p-10f, 0x1.99e6cp-16f);
}

// An angle less a multiple of pi / 2: r + low, and the multiple modulo 4.
template <typename E> struct HpAngle {
    E r, low;
    int quadrant;
};

// Adds quarter turns modulo 4 to a sum that has what it rounds away beside it.
DEV void hp_turn(double& sum, double& rest, double turn)
{
    double lost;
    sum = hp_two_sum(sum, hp_fma(-4.0, hp_rint(0.25 * turn), turn), lost);
    rest += lost;
}

DEV void hp_turns(double& sum, double& rest, double x, double c)
{
    const double high = x * c;
    hp_turn(sum, rest, high);
    hp_turn(sum, rest, hp_fma(x, c, -high));
}

DEV HpAngle<double> hp_angle_of_turns(double sum, double rest)
{
    const double n = hp_rint(sum), f = sum - n;
    const double r = f * 0x1.921fb54442d18p+0;
    const double low = hp_fma(rest, 0x1.921fb54442d18p+0, hp_fma(f, 0x1.1a62633145c07p-54, hp_fma(f, 0x1.921fb54442d18p+0, -r)));
    const double top = r + low;
    return {top, (r - top) + low, (int)n & 3};
}

// A multiple of pi / 2, in parts of one number each, is taken off an angle: the first part leaves no error up to n = 2^52 (2^23).
template <typename E> DEV HpAngle<E> hp_angle_of_parts(E x, E per_angle, E first, E second, E third)
{
    const E n = hp_rint(x * per_angle);
    const E head = hp_fma(-n, first, x);
    const E product = n * second, product_low = hp_fma(n, second, -product);
    const E r = head - product, part = r - head;
    const E low = hp_fma(-n, third, ((head - (r - part)) - (product + part)) - product_low);
    const E top = r + low;
    return {top, (r - top) + low, (int)(n - (E)4 * hp_floor((E)0.25 * n))};
}

// Up to 2^40 r is right to a last place; above, to 2^-100, which is the same unless the angle is that near to a multiple of pi / 2.
DEV HpAngle<double> hp_angle(double x)
{
    if (hp_abs(x) < 0x1p+40) {
        return hp_angle_of_parts(x, 0x1.45f306dc9c883p-1, 0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54, -0x1.f1976b7ed8fbcp-110);
    }
    // 2 / pi in parts whose products with x are exact in two numbers; whole turns drop out of each.
    double sum = 0.0, rest = 0.0;
    hp_turns(sum, rest, x, 0x1.45f306dc9c883p-1);
    hp_turns(sum, rest, x, -0x1.6b01ec5417056p-55);
    hp_turns(sum, rest, x, -0x1.6447e493ad4cep-109);
    hp_turns(sum, rest, x, 0x1.e21c820ff28b2p-163);
    hp_turns(sum, rest, x, -0x1.508510ea79237p-218);
    hp_turns(sum, rest, x, 0x1.b8e909374b802p-274);
    hp_turns(sum, rest, x, -0x1.b6d115f62e6dep-328);
    hp_turns(sum, rest, x, -0x1.80f10a71a76b3p-383);
    hp_turns(sum, rest, x, 0x1.cfba208d7d4bbp-438);
    const double y = x * 0x1p-512;
    hp_turns(sum, rest, y, -0x1.2edec598e3f65p+18);
    hp_turns(sum, rest, y, -0x1.741037d8cdc54p-37);
    hp_turns(sum, rest, y, 0x1.cc1a99cfa4e42p-91);
    hp_turns(sum, rest, y, 0x1.7e2ef7e4a0ec8p-146);
    hp_turns(sum, rest, y, -0x1.da00087e99fc0p-206);
    hp_turns(sum, rest, y, -0x1.0d0ee74a5f593p-260);
    hp_turns(sum, rest, y, 0x1.f6d367ecf27cbp-316);
    hp_turns(sum, rest, y, 0x1.36e9e8c7ecd3dp-373);
    hp_turns(sum, rest, y, -0x1.00ae9456c229cp-427);
    hp_turns(sum, rest, y, -0x1.41a0e84c2f8c6p-484);
    hp_turns(sum, rest, y, -0x1.0eb5ada2b2809p-541);
    hp_turns(sum, rest, y, -0x1.0277039517bd5p-595);
    return hp_angle_of_turns(hp_fma(-4.0, hp_rint(0.25 * sum), sum), rest);
}

DEV HpAngle<float> hp_angle(float a)
{
    if (hp_abs(a) < 0x1p+15f) {
        return hp_angle_of_parts(a, 0x1.45f306p-1f, 0x1.921fb6p+0f, -0x1.777a5cp-25f, -0x1.ee59dap-50f);
    }
    // 2 / pi in parts of 28 bits: their products with a float are exact.
    const double x = (double)a;
    double sum = 0.0, rest = 0.0;
    hp_turn(sum, rest, x * 0x1.45f306ep-1);
    hp_turn(sum, rest, x * -0x1.b1bbeaep-32);
    hp_turn(sum, rest, x * 0x1.3f84ebp-61);
    hp_turn(sum, rest, x * -0x1.7056592p-91);
    hp_turn(sum, rest, x * 0x1.c0db62ap-120);
    hp_turn(sum, rest, x * -0x1.4cd8778p-149);
    hp_turn(sum, rest, x * -0x1.bef806cp-178);
    const HpAngle<double> angle = hp_angle_of_turns(hp_fma(-4.0, hp_rint(0.25 * sum), sum), rest);
    const float r = (float)angle.r;
    return {r, (float)(angle.r - (double)r), angle.quadrant};
}

template <typename E> DEV E hp_sin_of(const HpAngle<E>& angle)
{
    const E r = angle.r, z = r * r;
    return r + hp_fma(r * z, hp_sin_rest(z), hp_fma((E)-0.5 * z, angle.low, angle.low));
}

template <typename E> DEV E hp_cos_of(const HpAngle<E>& angle)
{
    const E r = angle.r, z = r * r, half = (E)0.5 * z, head = (E)1 - half;
    return head + hp_fma(z * z, hp_cos_rest(z), hp_fma(-r, angle.low, ((E)1 - head) - half));
}

template <typename E> DEV E hp_sin(E x)
{
    if (!(hp_abs(x) < hp_infinity(x))) return hp_nan(x);
    const HpAngle<E> angle = hp_angle(x);
    const E value = (angle.quadrant & 1) != 0 ? hp_cos_of(angle) : hp_sin_of(angle);
    return x == (E)0 ? x : (angle.quadrant & 2) != 0 ? -value : value;
}

template <typename E> DEV E hp_cos(E x)
{
    if (!(hp_abs(x) < hp_infinity(x))) return hp_nan(x);
    const HpAngle<E> angle = hp_angle(x);
    const E value = (angle.quadrant & 1) != 0 ? hp_sin_of(angle) : hp_cos_of(angle);
    return ((angle.quadrant + 1) & 2) != 0 ? -value : value;
}

template <typename E> DEV E hp_tan(E x)
{
    if (!(hp_abs(x) < hp_infinity(x))) return hp_nan(x);
    const HpAngle<E> angle = hp_angle(x);
    const E sine = hp_sin_of(angle), cosine = hp_cos_of(angle);
    const bool turned = (angle.quadrant & 1) != 0;
    return x == (E)0 ? x : (turned ? -cosine : sine) / (turned ? sine : cosine);
}

// ---- tanh, sigmoid, erf ----

// (tanh(x) - x) / x^3, z = x^2, for |x| up to 0.55.
DEV double hp_tanh_rest(double z)
{
    return hp_poly(z, -0x1.5555555555555p-2, 0x1.111111111108ep-3, -0x1.ba1ba1ba125cp-5, 0x1.664f48800b7d8p-6,
                   -0x1.226e34e584db9p-7, 0x1.d6d3b5b37d20dp-9, -0x1.7da1555b492eap-10, 0x1.353ca1b0c0ea5p-11,
                   -0x1.f37f7d883e3a2p-13, 0x1.89d18b225b522p-14, -0x1.13c945a42649ep-15, 0x1.f0a875ecbdbf1p-18);
}

DEV float hp_tanh_rest(float z)
{
    return hp_poly(z, -0x1.55554ap-2f, 0x1.110dp-3f, -0x1.b9235cp-5f, 0x1.5918e6p-6f, -0x1.9a7bccp-8f);
}

template <typename E> DEV E hp_tanh(E x)
{
    const E a = hp_abs(x), z = x * x;
    if (a < (E)0.55) return hp_fma(x * z, hp_tanh_rest(z), x);
    const E value = (E)1 - (E)2 / (hp_exp((E)2 * a) + (E)1);
    return x < (E)0 ? -value : value;
}

// 1 / (1 + exp(-x)), with no overflow on the way.
template <typename E> DEV E hp_sigmoid(E x)
{
    const E e = hp_exp(-hp_abs(x));
    return (x < (E)0 ? e : (E)1) / ((E)1 + e);
}

// erf(x) / x - 1, z = x^2, for |x| up to 1.
DEV double hp_erf_rest(double z)
{
    return hp_poly(z, 0x1.06eba8214db69p-3, -0x1.812746b0379fdp-2, 0x1.ce2f21a04362dp-4, -0x1.b82ce312abefep-6,
                   0x1.565bcd1298e84p-8, -0x1.c02db49afb8cbp-11, 0x1.f9a335368c5f6p-14, -0x1.f4d3335ad34d6p-17,
                   0x1.b9ee92f3c52p-20, -0x1.5f9810fc0cc3fp-23, 0x1.fc77ba102e001p-27, -0x1.4675d488fef9fp-30,
                   0x1.296e609a1cbd9p-34);
}

DEV float hp_erf_rest(float z)
{
    return hp_poly(z, 0x1.06eba8p-3f, -0x1.81274p-2f, 0x1.ce2d5p-4f, -0x1.b7fe8ep-6f, 0x1.542deep-8f, -0x1.a5099ep-11f,
                   0x1.4c2f4cp-14f);
}

// log(1 - erf(2 + z)), for 2 + z from 1 to where erf is 1.
DEV double hp_log_erfc(double z)
{
    return hp_poly(z, -0x1.575b329b1f516p+2, -0x1.1ac3258a8dc2ep+2, -0x1.d8f5dece9234bp-1, -0x1.0dc3b5fb0b818p-6,
                   0x1.d406b373a856cp-9, -0x1.7ffcfb4c97c9fp-11, 0x1.1bc3a5efe57ccp-13, -0x1.5b656cfd7590bp-16,
                   0x1.060474c4f6846p-19, 0x1.b5479f0c62824p-23, -0x1.73ea34da46944p-23, 0x1.f0b6de506d796p-25,
                   -0x1.dff719e294cd6p-27, 0x1.59e1ec446fe56p-29, -0x1.1fd5ab2239a63p-32, -0x1.2be4560bdac2cp-35,
                   0x1.175f7d4dfb0c1p-35, -0x1.8b0a6e1ddd479p-37, 0x1.355220d136fedp-39, -0x1.9d4a4a2e580f2p-43);
}

DEV float hp_log_erfc(float z)
{
    return hp_poly(z, -0x1.575b32p+2f, -0x1.1ac322p+2f, -0x1.d8f5d2p-1f, -0x1.0dd6d8p-6f, 0x1.d321b6p-9f, -0x1.7ecb3ep-11f,
                   0x1.2d1f74p-13f, -0x1.3b37c8p-16f);
}

DEV float hp_erf_limit(float) { return 4.0f; }
DEV double hp_erf_limit(double) { return 6.0; }

template <typename E> DEV E hp_erf(E x)
{
    const E a = hp_abs(x);
    if (a < (E)1) return hp_fma(x, hp_erf_rest(x * x), x);
    const E value = a < hp_erf_limit(x) ? (E)1 - hp_exp(hp_log_erfc(a - (E)2)) : (E)1;
    return x < (E)0 ? -value : x > (E)0 ? value : x;
}
