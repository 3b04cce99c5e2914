// Stored element types: reading one as a computing type E (float, double or int), writing one, and what a value becomes by both.
//
// Numbers written to an integer are rounded to nearest even and saturated, NaN becomes 0. A boolean is 0 or 1.

#define HP_READ(name, stored, expression)                                                                                          \
    template <typename E> DEV E hp_load_##name(GLOBAL const stored* p, IDX i)                                                      \
    {                                                                                                                              \
        const stored v = p[i];                                                                                                     \
        return (E)(expression);                                                                                                    \
    }

HP_READ(f32, float, v)
HP_READ(f64, double, v)
HP_READ(f16, unsigned short, hp_from_half(v))
HP_READ(bf16, unsigned short, hp_from_bfloat(v))
HP_READ(i32, int, v)
HP_READ(i8, signed char, v)
HP_READ(u8, unsigned char, v)
HP_READ(bool, unsigned char, v != 0 ? 1 : 0)

template <typename E> DEV E hp_clamp(E v, E low, E high)
{
    const E r = hp_rint(v);
    return r != r ? (E)0 : r < low ? low : r > high ? high : r;
}

DEV int hp_to_i32(int v) { return v; }
DEV int hp_to_i32(double v) { return (int)hp_clamp(v, -2147483648.0, 2147483647.0); }
DEV int hp_to_i32(float v) { return hp_to_i32((double)v); }
DEV signed char hp_to_i8(int v) { return (signed char)(v < -128 ? -128 : v > 127 ? 127 : v); }
DEV signed char hp_to_i8(float v) { return (signed char)hp_clamp(v, -128.0f, 127.0f); }
DEV signed char hp_to_i8(double v) { return (signed char)hp_clamp(v, -128.0, 127.0); }
DEV unsigned char hp_to_u8(int v) { return (unsigned char)(v < 0 ? 0 : v > 255 ? 255 : v); }
DEV unsigned char hp_to_u8(float v) { return (unsigned char)hp_clamp(v, 0.0f, 255.0f); }
DEV unsigned char hp_to_u8(double v) { return (unsigned char)hp_clamp(v, 0.0, 255.0); }

// Half and bfloat16 of a double, rounded once: the float between is rounded to odd, so that no tie arises that was none.
DEV float hp_odd(double v)
{
    const float f = (float)v;
    const double back = (double)f;
    if (back == v || v != v || hp_abs(f) == hp_float(0x7f800000u)) return f;
    // Towards zero, and then odd.
    const unsigned bits = hp_bits(f);
    return hp_float((hp_abs(back) > hp_abs(v) ? bits - 1 : bits) | 1u);
}
DEV float hp_odd(float v) { return v; }
DEV float hp_odd(int v) { return hp_odd((double)v); }

#define HP_WRITE(name, stored, expression)                                                                                         \
    template <typename E> DEV void hp_store_##name(GLOBAL stored* p, IDX i, E v) { p[i] = expression; }

HP_WRITE(f32, float, (float)v)
HP_WRITE(f64, double, (double)v)
HP_WRITE(f16, unsigned short, hp_to_half(hp_odd(v)))
HP_WRITE(bf16, unsigned short, hp_to_bfloat(hp_odd(v)))
HP_WRITE(i32, int, hp_to_i32(v))
HP_WRITE(i8, signed char, hp_to_i8(v))
HP_WRITE(u8, unsigned char, hp_to_u8(v))
HP_WRITE(bool, unsigned char, v != 0 ? 1 : 0)

#define HP_ROUND(name, expression)                                                                                                 \
    template <typename E> DEV E hp_round_##name(E v) { return (E)(expression); }

HP_ROUND(f32, (float)v)
HP_ROUND(f64, v)
HP_ROUND(f16, hp_from_half(hp_to_half(hp_odd(v))))
HP_ROUND(bf16, hp_from_bfloat(hp_to_bfloat(hp_odd(v))))
HP_ROUND(i32, hp_to_i32(v))
HP_ROUND(i8, hp_to_i8(v))
HP_ROUND(u8, hp_to_u8(v))
HP_ROUND(bool, v != 0 ? 1 : 0)
