// The pointwise functions, named as their modes. docs/operations.md says what each computes; the element is float or double.
//
// abs, ceil, erf, exp, floor, log, sin, sqrt, tan are the functions of the layers below. Backward functions take the gradient first.

template <typename E> DEV E hp_truth(bool value)
{
    return value ? (E)1 : (E)0;
}

// ---- Of one operand ----

template <typename E> DEV E hp_identity(E a)
{
    return a;
}

template <typename E> DEV E hp_neg(E a)
{
    return -a;
}

template <typename E> DEV E hp_reciprocal(E a)
{
    return (E)1 / a;
}

template <typename E> DEV E hp_rsqrt(E a)
{
    return (E)1 / hp_sqrt(a);
}

template <typename E> DEV E hp_logical_not(E a)
{
    return hp_truth<E>(a == (E)0);
}

template <typename E> DEV E hp_gen_index(int index)
{
    return (E)index;
}

template <typename E> DEV E hp_relu_fwd(E a, E lower, E upper, E slope)
{
    // A slope of 0 is no product, which would make a NaN of an infinity.
    const E below = slope == (E)0 ? lower : slope * (a - lower) + lower;
    return a <= lower ? below : a >= upper ? upper : a;
}

template <typename E> DEV E hp_sigmoid_fwd(E a)
{
    return hp_sigmoid(a);
}

template <typename E> DEV E hp_tanh_fwd(E a)
{
    return hp_tanh(a);
}

template <typename E> DEV E hp_elu_fwd(E a, E alpha)
{
    return a > (E)0 ? a : alpha * hp_expm1(a);
}

template <typename E> DEV E hp_gelu_fwd(E a)
{
    return (E)0.5 * a * ((E)1 + hp_erf(a * (E)0x1.6a09e667f3bcdp-1));
}

// The hyperbolic tangent that stands for the error function, and its derivative by b.
template <typename E> DEV E hp_gelu_tanh(E b, E& derivative)
{
    const E scale = (E)0x1.9884533d43651p-1, cubic = (E)0.044715, square = b * b;
    const E t = hp_tanh(scale * (b + cubic * b * square));
    derivative = ((E)1 - t * t) * scale * ((E)1 + (E)3 * cubic * square);
    return t;
}

template <typename E> DEV E hp_gelu_approx_tanh_fwd(E a)
{
    E derivative;
    return (E)0.5 * a * ((E)1 + hp_gelu_tanh(a, derivative));
}

template <typename E> DEV E hp_softplus_fwd(E a, E beta)
{
    const E z = beta * a, top = z > (E)0 ? z : (E)0;
    return (top + hp_log1p(hp_exp(-hp_abs(z)))) / beta;
}

template <typename E> DEV E hp_swish_fwd(E a, E beta)
{
    return a * hp_sigmoid(beta * a);
}

// ---- Of two ----

template <typename E> DEV E hp_add(E a, E b)
{
    return a + b;
}

template <typename E> DEV E hp_add_square(E a, E b)
{
    return a + b * b;
}

template <typename E> DEV E hp_sub(E a, E b)
{
    return a - b;
}

template <typename E> DEV E hp_mul(E a, E b)
{
    return a * b;
}

template <typename E> DEV E hp_div(E a, E b)
{
    return a / b;
}

// A NaN of either side comes through.
template <typename E> DEV E hp_max_op(E a, E b)
{
    return a > b || a != a ? a : b;
}

template <typename E> DEV E hp_min_op(E a, E b)
{
    return a < b || a != a ? a : b;
}

template <typename E> DEV E hp_cmp_eq(E a, E b)
{
    return hp_truth<E>(a == b);
}

template <typename E> DEV E hp_cmp_neq(E a, E b)
{
    return hp_truth<E>(a != b);
}

template <typename E> DEV E hp_cmp_gt(E a, E b)
{
    return hp_truth<E>(a > b);
}

template <typename E> DEV E hp_cmp_ge(E a, E b)
{
    return hp_truth<E>(a >= b);
}

template <typename E> DEV E hp_cmp_lt(E a, E b)
{
    return hp_truth<E>(a < b);
}

template <typename E> DEV E hp_cmp_le(E a, E b)
{
    return hp_truth<E>(a <= b);
}

template <typename E> DEV E hp_logical_and(E a, E b)
{
    return hp_truth<E>(a != (E)0 && b != (E)0);
}

template <typename E> DEV E hp_logical_or(E a, E b)
{
    return hp_truth<E>(a != (E)0 || b != (E)0);
}

template <typename E> DEV E hp_relu_bwd(E a, E b, E lower, E upper, E slope)
{
    return a * (b <= lower ? slope : b > upper ? (E)0 : (E)1);
}

template <typename E> DEV E hp_sigmoid_bwd(E a, E b)
{
    const E s = hp_sigmoid(b);
    return a * (s * ((E)1 - s));
}

template <typename E> DEV E hp_tanh_bwd(E a, E b)
{
    const E t = hp_tanh(b);
    return a * ((E)1 - t * t);
}

template <typename E> DEV E hp_elu_bwd(E a, E b, E alpha)
{
    return a * (b > (E)0 ? (E)1 : alpha * hp_exp(b));
}

template <typename E> DEV E hp_gelu_bwd(E a, E b)
{
    const E density = (E)0x1.9884533d43651p-2 * hp_exp(-((E)0.5 * b * b));
    return a * ((E)0.5 * ((E)1 + hp_erf(b * (E)0x1.6a09e667f3bcdp-1)) + b * density);
}

template <typename E> DEV E hp_gelu_approx_tanh_bwd(E a, E b)
{
    E derivative;
    const E t = hp_gelu_tanh(b, derivative);
    return a * ((E)0.5 * ((E)1 + t) + (E)0.5 * b * derivative);
}

template <typename E> DEV E hp_softplus_bwd(E a, E b, E beta)
{
    return a * hp_sigmoid(beta * b);
}

template <typename E> DEV E hp_swish_bwd(E a, E b, E beta)
{
    const E z = beta * b, s = hp_sigmoid(z);
    return a * (s + z * s * ((E)1 - s));
}

// ---- Of three ----

template <typename E> DEV E hp_binary_select(E a, E b, E mask)
{
    return mask != (E)0 ? a : b;
}
