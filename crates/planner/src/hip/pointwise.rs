//! Pointwise operations as calls of the functions of `kernels/pointwise.h`.

use hipplan_serialize::PointwiseMode as Mode;
use hipplan_serialize::ops::Pointwise;

/// The C++ expression that computes `op` on `operands`, themselves expressions of type `element`: `float` or `double`.
///
/// Parameters that the node does not have take the defaults of `docs/operations.md`. Nothing for a mode that is unset, for other
/// numbers of operands than the mode has, and for [`Mode::GenIndex`], which reads no operand: it is `hp_gen_index<element>(index)`.
pub(super) fn expression(op: &Pointwise, operands: &[String], element: &str) -> Option<String> {
    if matches!(op.mode, Mode::Unset | Mode::GenIndex) || operands.len() != op.mode.arity() {
        return None;
    }
    let mut arguments = operands.to_vec();
    arguments.extend(parameters(op).iter().map(|&value| literal(value, element)));
    Some(format!("hp_{}({})", op.mode.name(), arguments.join(", ")))
}

/// What a function takes after its operands.
fn parameters(op: &Pointwise) -> Vec<f64> {
    let or = |given: Option<f32>, default: f64| given.map_or(default, f64::from);
    match op.mode {
        Mode::ReluFwd | Mode::ReluBwd => {
            vec![or(op.relu_lower_clip, 0.0), or(op.relu_upper_clip, f64::INFINITY), or(op.relu_lower_clip_slope, 0.0)]
        }
        Mode::EluFwd | Mode::EluBwd => vec![or(op.elu_alpha, 1.0)],
        Mode::SoftplusFwd | Mode::SoftplusBwd => vec![or(op.softplus_beta, 1.0)],
        Mode::SwishFwd | Mode::SwishBwd => vec![or(op.swish_beta, 1.0)],
        _ => Vec::new(),
    }
}

/// `value` as a C++ expression of type `element`, bit for bit (but for what a NaN carries): a `float` is rounded to nearest, anything
/// else is `double`. Needs `math.h` for infinities and NaN.
pub(super) fn literal(value: f64, element: &str) -> String {
    let (value, suffix) = if element == "float" { (f64::from(value as f32), "f") } else { (value, "") };
    let sign = if value.is_sign_negative() { "-" } else { "" };
    let text = if value.is_nan() {
        return format!("hp_nan(0.0{suffix})");
    } else if value.is_infinite() {
        format!("{sign}hp_infinity(0.0{suffix})")
    } else {
        format!("{sign}{}{suffix}", hexadecimal(value.abs()))
    };
    // The minus of a number must not meet another.
    if sign.is_empty() { text } else { format!("({text})") }
}

/// A finite number from 0 up, as C++17 writes it exactly.
fn hexadecimal(value: f64) -> String {
    let (field, fraction) = (value.to_bits() >> 52, value.to_bits() & ((1 << 52) - 1));
    if value == 0.0 {
        return "0x0p+0".to_owned();
    }
    let digits = format!("{fraction:013x}");
    let digits = digits.trim_end_matches('0');
    let point = if digits.is_empty() { "" } else { "." };
    // Subnormal numbers have the least exponent and no leading one.
    let (lead, exponent) = if field == 0 { (0, -1022) } else { (1, i64::from(field as u16) - 1023) };
    format!("0x{lead}{point}{digits}p{exponent:+}")
}

#[cfg(test)]
mod tests;
