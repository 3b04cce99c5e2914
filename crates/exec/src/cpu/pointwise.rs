//! The pointwise functions, over rows. Their contract is the table in `docs/operations.md`.

use super::element::Real;
use super::program::Pointwise;
use hipplan_serialize::PointwiseMode as Mode;

/// Resolved parameters of a pointwise operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Params {
    lower: f32,
    upper: f32,
    slope: f32,
    swish_beta: f32,
    elu_alpha: f32,
    softplus_beta: f32,
}

impl Params {
    /// The parameters given, and the defaults of those that are not.
    pub(crate) fn of(op: &Pointwise) -> Self {
        Self {
            lower: op.relu_lower_clip.unwrap_or(0.0),
            upper: op.relu_upper_clip.unwrap_or(f32::INFINITY),
            slope: op.relu_lower_clip_slope.unwrap_or(0.0),
            swish_beta: op.swish_beta.unwrap_or(1.0),
            elu_alpha: op.elu_alpha.unwrap_or(1.0),
            softplus_beta: op.softplus_beta.unwrap_or(1.0),
        }
    }
}

fn sigmoid<T: Real>(x: T) -> T {
    T::ONE / (T::ONE + (-x).exp())
}

fn truth<T: Real>(value: bool) -> T {
    if value { T::ONE } else { T::ZERO }
}

/// Inner argument of the tanh form of GELU, and its derivative.
fn gelu_tanh<T: Real>(x: T) -> (T, T) {
    let scale = T::of(0.797_884_560_802_865_4);
    let cubic = T::of(0.044715);
    let square = x * x;
    let t = (scale * (x + cubic * x * square)).tanh();
    (t, (T::ONE - t * t) * scale * (T::ONE + T::of(3.0) * cubic * square))
}

#[inline(always)]
fn unary<T: Real>(out: &mut [T], a: &[T], f: impl Fn(T) -> T) {
    for (o, &x) in out.iter_mut().zip(a) {
        *o = f(x);
    }
}

#[inline(always)]
fn binary<T: Real>(out: &mut [T], a: &[T], b: &[T], f: impl Fn(T, T) -> T) {
    for ((o, &x), &y) in out.iter_mut().zip(a).zip(b) {
        *o = f(x, y);
    }
}

/// Computes `out[i] = mode(a[i], b[i], c[i])`; rows that the mode does not take may be of any length. A mode of
/// [`Mode::GenIndex`] takes the index itself as `a`.
pub(crate) fn eval<T: Real>(mode: Mode, p: &Params, out: &mut [T], a: &[T], b: &[T], c: &[T]) {
    let of = |value: f32| T::of(f64::from(value));
    let half = T::of(0.5);
    match mode {
        Mode::Unset | Mode::Identity | Mode::GenIndex => unary(out, a, |x| x),
        Mode::Abs => unary(out, a, |x| x.abs()),
        Mode::Ceil => unary(out, a, |x| x.ceil()),
        Mode::Erf => unary(out, a, |x| x.erf()),
        Mode::Exp => unary(out, a, |x| x.exp()),
        Mode::Floor => unary(out, a, |x| x.floor()),
        Mode::Log => unary(out, a, |x| x.ln()),
        Mode::LogicalNot => unary(out, a, |x| truth(x == T::ZERO)),
        Mode::Neg => unary(out, a, |x| -x),
        Mode::Reciprocal => unary(out, a, |x| T::ONE / x),
        Mode::Rsqrt => unary(out, a, |x| T::ONE / x.sqrt()),
        Mode::Sin => unary(out, a, |x| x.sin()),
        Mode::Sqrt => unary(out, a, |x| x.sqrt()),
        Mode::Tan => unary(out, a, |x| x.tan()),
        Mode::TanhFwd => unary(out, a, |x| x.tanh()),
        Mode::SigmoidFwd => unary(out, a, |x| sigmoid(x)),
        Mode::ReluFwd => {
            let (lower, upper, slope) = (of(p.lower), of(p.upper), of(p.slope));
            if slope == T::ZERO && lower == T::ZERO && upper == T::INFINITY {
                // The usual case in a form that vectorises; NaN passes, as in the general form.
                unary(out, a, |x| if x <= T::ZERO { T::ZERO } else { x });
            } else {
                unary(out, a, |x| {
                    if x <= lower {
                        // Not through the product, which would make a NaN of an infinity.
                        if slope == T::ZERO { lower } else { slope * (x - lower) + lower }
                    } else if x >= upper {
                        upper
                    } else {
                        x
                    }
                });
            }
        }
        Mode::EluFwd => {
            let alpha = of(p.elu_alpha);
            unary(out, a, |x| if x > T::ZERO { x } else { alpha * x.exp_m1() });
        }
        Mode::GeluFwd => {
            let root = T::of(std::f64::consts::FRAC_1_SQRT_2);
            unary(out, a, |x| half * x * (T::ONE + (x * root).erf()));
        }
        Mode::GeluApproxTanhFwd => unary(out, a, |x| half * x * (T::ONE + gelu_tanh(x).0)),
        Mode::SoftplusFwd => {
            let beta = of(p.softplus_beta);
            unary(out, a, |x| {
                let z = beta * x;
                let top = if z > T::ZERO { z } else { T::ZERO };
                (top + (-z.abs()).exp().ln_1p()) / beta
            });
        }
        Mode::SwishFwd => {
            let beta = of(p.swish_beta);
            unary(out, a, |x| x * sigmoid(beta * x));
        }
        Mode::Add => binary(out, a, b, |x, y| x + y),
        Mode::AddSquare => binary(out, a, b, |x, y| x + y * y),
        Mode::Sub => binary(out, a, b, |x, y| x - y),
        Mode::Mul => binary(out, a, b, |x, y| x * y),
        Mode::Div => binary(out, a, b, |x, y| x / y),
        // `x != x` lets a NaN of either side through.
        Mode::Max => binary(out, a, b, |x, y| if x > y || is_nan(x) { x } else { y }),
        Mode::Min => binary(out, a, b, |x, y| if x < y || is_nan(x) { x } else { y }),
        Mode::CmpEq => binary(out, a, b, |x, y| truth(x == y)),
        Mode::CmpNeq => binary(out, a, b, |x, y| truth(x != y)),
        Mode::CmpGt => binary(out, a, b, |x, y| truth(x > y)),
        Mode::CmpGe => binary(out, a, b, |x, y| truth(x >= y)),
        Mode::CmpLt => binary(out, a, b, |x, y| truth(x < y)),
        Mode::CmpLe => binary(out, a, b, |x, y| truth(x <= y)),
        Mode::LogicalAnd => binary(out, a, b, |x, y| truth(x != T::ZERO && y != T::ZERO)),
        Mode::LogicalOr => binary(out, a, b, |x, y| truth(x != T::ZERO || y != T::ZERO)),
        Mode::ReluBwd => {
            let (lower, upper, slope) = (of(p.lower), of(p.upper), of(p.slope));
            binary(out, a, b, |dy, x| {
                dy * if x <= lower {
                    slope
                } else if x > upper {
                    T::ZERO
                } else {
                    T::ONE
                }
            });
        }
        Mode::SigmoidBwd => binary(out, a, b, |dy, x| {
            let s = sigmoid(x);
            dy * (s * (T::ONE - s))
        }),
        Mode::TanhBwd => binary(out, a, b, |dy, x| {
            let t = x.tanh();
            dy * (T::ONE - t * t)
        }),
        Mode::EluBwd => {
            let alpha = of(p.elu_alpha);
            binary(out, a, b, |dy, x| dy * if x > T::ZERO { T::ONE } else { alpha * x.exp() });
        }
        Mode::GeluBwd => {
            let root = T::of(std::f64::consts::FRAC_1_SQRT_2);
            let density = T::of(0.398_942_280_401_432_7);
            binary(out, a, b, |dy, x| dy * (half * (T::ONE + (x * root).erf()) + x * density * (-(half * x * x)).exp()));
        }
        Mode::GeluApproxTanhBwd => binary(out, a, b, |dy, x| {
            let (t, derivative) = gelu_tanh(x);
            dy * (half * (T::ONE + t) + half * x * derivative)
        }),
        Mode::SoftplusBwd => {
            let beta = of(p.softplus_beta);
            binary(out, a, b, |dy, x| dy * sigmoid(beta * x));
        }
        Mode::SwishBwd => {
            let beta = of(p.swish_beta);
            binary(out, a, b, |dy, x| {
                let s = sigmoid(beta * x);
                dy * (s + beta * x * s * (T::ONE - s))
            });
        }
        Mode::BinarySelect => {
            for (((o, &x), &y), &mask) in out.iter_mut().zip(a).zip(b).zip(c) {
                *o = if mask != T::ZERO { x } else { y };
            }
        }
    }
}

#[expect(clippy::eq_op, reason = "a number that differs from itself is a NaN, in either type")]
fn is_nan<T: Real>(x: T) -> bool {
    x != x
}
