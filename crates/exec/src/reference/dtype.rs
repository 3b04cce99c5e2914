//! Element types as sets of numbers: reading, rounding and writing one element.

use half::{bf16, f16};
use hipplan_serialize::DataType;

/// A binary float of at most 16 bits, described by its numbers.
#[derive(Clone, Copy)]
struct Mini {
    /// Bits of the fraction.
    fraction: i32,
    /// Exponent of the smallest normal number.
    least: i32,
    /// Largest finite number.
    max: f64,
    /// Whether a finite number beyond the largest becomes infinite; otherwise it becomes the largest, as 8-bit floats are used.
    overflows: bool,
}

const HALF: Mini = Mini { fraction: 10, least: -14, max: 65504.0, overflows: true };
const BFLOAT16: Mini = Mini { fraction: 7, least: -126, max: 3.3895313892515355e38, overflows: true };
const E4M3: Mini = Mini { fraction: 3, least: -6, max: 448.0, overflows: false };
const E5M2: Mini = Mini { fraction: 2, least: -14, max: 57344.0, overflows: false };
const E4M3_FNUZ: Mini = Mini { fraction: 3, least: -7, max: 240.0, overflows: false };
const E5M2_FNUZ: Mini = Mini { fraction: 2, least: -15, max: 57344.0, overflows: false };

/// Two to the power `e`, for exponents of normal numbers.
fn pow2(e: i32) -> f64 {
    debug_assert!((-1022..=1023).contains(&e));
    f64::from_bits(((e + 1023) as u64) << 52)
}

/// The exponent of a positive finite number, or that of the smallest normal double if the number is smaller.
fn exponent(x: f64) -> i32 {
    ((x.to_bits() >> 52) as i32 & 0x7ff).max(1) - 1023
}

impl Mini {
    /// To nearest, ties to even. Exact steps only, so nothing is rounded twice.
    fn round(self, x: f64) -> f64 {
        if !x.is_finite() || x == 0.0 {
            return x;
        }
        let quantum = pow2(exponent(x.abs()).max(self.least) - self.fraction);
        let rounded = (x / quantum).round_ties_even() * quantum;
        match (rounded.abs() > self.max, self.overflows) {
            (false, _) => rounded,
            (true, true) => f64::INFINITY.copysign(x),
            (true, false) => self.max.copysign(x),
        }
    }

    /// The bits below the sign of a number that [`round`](Self::round) has returned, finite.
    fn magnitude_bits(self, x: f64) -> u8 {
        let x = x.abs();
        let quantum = pow2(exponent(x).max(self.least) - self.fraction);
        // A subnormal number has no hidden bit, so that adding the exponent field to it carries as it should.
        let significand = (x / quantum) as i32;
        let field = if x < pow2(self.least) { 0 } else { exponent(x) - self.least };
        ((field << self.fraction) + significand) as u8
    }

    /// The number with these bits below the sign, which must be finite.
    fn magnitude(self, bits: u8) -> f64 {
        let field = i32::from(bits) >> self.fraction;
        let fraction = i32::from(bits) & ((1 << self.fraction) - 1);
        let significand = if field == 0 { fraction } else { fraction + (1 << self.fraction) };
        f64::from(significand) * pow2(field.max(1) - 1 + self.least - self.fraction)
    }
}

/// An 8-bit float: its numbers, its NaN, its infinity below the sign, and whether it has a negative zero.
fn mini8(dtype: DataType) -> Option<(Mini, u8, Option<u8>, bool)> {
    match dtype {
        DataType::Fp8E4M3 => Some((E4M3, 0x7f, None, true)),
        DataType::Fp8E5M2 => Some((E5M2, 0x7e, Some(0x7c), true)),
        DataType::Fp8E4M3Fnuz => Some((E4M3_FNUZ, 0x80, None, false)),
        DataType::Fp8E5M2Fnuz => Some((E5M2_FNUZ, 0x80, None, false)),
        _ => None,
    }
}

fn decode_mini8(dtype: DataType, byte: u8) -> Option<f64> {
    let (mini, nan, infinity, has_negative_zero) = mini8(dtype)?;
    let magnitude = byte & 0x7f;
    let is_nan = if has_negative_zero { magnitude >= nan || infinity.is_some_and(|inf| magnitude > inf) } else { byte == nan };
    if is_nan {
        return Some(f64::NAN);
    }
    let x = if infinity == Some(magnitude) { f64::INFINITY } else { mini.magnitude(magnitude) };
    Some(if byte & 0x80 != 0 { -x } else { x })
}

fn encode_mini8(dtype: DataType, x: f64) -> Option<u8> {
    let (mini, nan, infinity, has_negative_zero) = mini8(dtype)?;
    let sign = if x.is_sign_negative() { 0x80 } else { 0 };
    if x.is_nan() {
        return Some(nan);
    }
    if x.is_infinite() {
        return Some(infinity.map_or(nan, |inf| inf | sign));
    }
    let bits = mini.magnitude_bits(mini.round(x));
    Some(if bits == 0 && !has_negative_zero { 0 } else { bits | sign })
}

/// Whether the harness has numbers of this type: all types of whole bytes.
pub(super) fn is_supported(dtype: DataType) -> bool {
    dtype.bits() >= 8
}

/// The type holds integers only.
pub(super) fn is_integral(dtype: DataType) -> bool {
    matches!(dtype, DataType::UInt8 | DataType::Int8 | DataType::Int32 | DataType::Int64 | DataType::Boolean)
}

/// Unit roundoff of a float type: half the distance from 1 to the next number. None for integers.
pub(super) fn unit_roundoff(dtype: DataType) -> Option<f64> {
    match dtype {
        DataType::Double => Some(pow2(-53)),
        DataType::Float => Some(pow2(-24)),
        DataType::Half => Some(pow2(-11)),
        DataType::BFloat16 => Some(pow2(-8)),
        DataType::Fp8E4M3 | DataType::Fp8E4M3Fnuz => Some(pow2(-4)),
        DataType::Fp8E5M2 | DataType::Fp8E5M2Fnuz => Some(pow2(-3)),
        DataType::Fp8E8M0 => Some(0.5),
        _ => None,
    }
}

/// The smallest positive normal number of a float type.
pub(super) fn least_normal(dtype: DataType) -> f64 {
    match dtype {
        DataType::Double => f64::MIN_POSITIVE,
        DataType::Half => pow2(HALF.least),
        DataType::Fp8E4M3 => pow2(E4M3.least),
        DataType::Fp8E5M2 => pow2(E5M2.least),
        DataType::Fp8E4M3Fnuz => pow2(E4M3_FNUZ.least),
        DataType::Fp8E5M2Fnuz => pow2(E5M2_FNUZ.least),
        _ => pow2(-126),
    }
}

/// The largest finite number of a float type.
pub(super) fn greatest(dtype: DataType) -> f64 {
    match dtype {
        DataType::Float => f64::from(f32::MAX),
        DataType::Half => HALF.max,
        DataType::BFloat16 => BFLOAT16.max,
        DataType::Fp8E4M3 => E4M3.max,
        DataType::Fp8E5M2 | DataType::Fp8E5M2Fnuz => E5M2.max,
        DataType::Fp8E4M3Fnuz => E4M3_FNUZ.max,
        DataType::Fp8E8M0 => pow2(127),
        _ => f64::MAX,
    }
}

/// What an element of `dtype` holds after `x` was stored in it: nearest, ties to even; integers saturate and take NaN as 0.
pub(super) fn round(dtype: DataType, x: f64) -> f64 {
    match dtype {
        DataType::Double => x,
        DataType::Float => f64::from(x as f32),
        DataType::Half => HALF.round(x),
        DataType::BFloat16 => BFLOAT16.round(x),
        _ => {
            let mut element = [0; 8];
            store(dtype, x, &mut element);
            load(dtype, &element)
        }
    }
}

/// Reads the element in the first bytes.
pub(super) fn load(dtype: DataType, bytes: &[u8]) -> f64 {
    fn first<const N: usize>(bytes: &[u8]) -> [u8; N] {
        let mut out = [0; N];
        out.copy_from_slice(&bytes[..N]);
        out
    }
    match dtype {
        DataType::Float => f32::from_le_bytes(first(bytes)).into(),
        DataType::Half => f16::from_le_bytes(first(bytes)).to_f64(),
        DataType::BFloat16 => bf16::from_le_bytes(first(bytes)).to_f64(),
        DataType::Double => f64::from_le_bytes(first(bytes)),
        DataType::Int32 => i32::from_le_bytes(first(bytes)).into(),
        DataType::Int64 => i64::from_le_bytes(first(bytes)) as f64,
        DataType::Int8 => i8::from_le_bytes(first(bytes)).into(),
        // The byte itself, so that a boolean other than 0 and 1 does not look like one.
        DataType::UInt8 | DataType::Boolean => bytes[0].into(),
        DataType::Fp8E8M0 if bytes[0] == 0xff => f64::NAN,
        DataType::Fp8E8M0 => pow2(i32::from(bytes[0]) - 127),
        other => decode_mini8(other, bytes[0]).unwrap_or(f64::NAN),
    }
}

/// Writes an element into the first bytes.
pub(super) fn store(dtype: DataType, x: f64, bytes: &mut [u8]) {
    let mut put = |from: &[u8]| bytes[..from.len()].copy_from_slice(from);
    match dtype {
        DataType::Float => put(&(x as f32).to_le_bytes()),
        // Rounded already, so that the conversion is exact, whatever the machine does to convert.
        DataType::Half => put(&f16::from_f64(HALF.round(x)).to_le_bytes()),
        DataType::BFloat16 => put(&bf16::from_f64(BFLOAT16.round(x)).to_le_bytes()),
        DataType::Double => put(&x.to_le_bytes()),
        DataType::Int32 => put(&(x.round_ties_even() as i32).to_le_bytes()),
        DataType::Int64 => put(&(x.round_ties_even() as i64).to_le_bytes()),
        DataType::Int8 => put(&(x.round_ties_even() as i8).to_le_bytes()),
        DataType::UInt8 => put(&[x.round_ties_even() as u8]),
        DataType::Boolean => put(&[u8::from(x != 0.0)]),
        DataType::Fp8E8M0 => put(&[encode_e8m0(x)]),
        other => put(&[encode_mini8(other, x).unwrap_or(0)]),
    }
}

/// The nearest power of two, of ties the larger: this type has neither zero nor sign.
fn encode_e8m0(x: f64) -> u8 {
    if x.is_nan() || x < 0.0 {
        return 0xff;
    }
    let e = exponent(x).clamp(-127, 127);
    let up = e < 127 && x >= 1.5 * pow2(e);
    (e + i32::from(up) + 127) as u8
}

/// A float's NaN with bits that no computation makes; for other types none.
pub(super) fn poison_nan(dtype: DataType) -> Option<u64> {
    match dtype {
        DataType::Float => Some(0xffc5_a5a5),
        DataType::Half => Some(0xffa5),
        DataType::BFloat16 => Some(0xffe5),
        DataType::Double => Some(0xfff8_a5a5_a5a5_a5a5),
        DataType::Fp8E8M0 | DataType::Fp8E4M3 | DataType::Fp8E5M2 => Some(0xff),
        DataType::Fp8E4M3Fnuz | DataType::Fp8E5M2Fnuz => Some(0x80),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_small_float_survives_decoding_and_encoding() {
        let types = [DataType::Fp8E4M3, DataType::Fp8E5M2, DataType::Fp8E4M3Fnuz, DataType::Fp8E5M2Fnuz, DataType::Fp8E8M0];
        for dtype in types {
            for byte in 0..=255_u8 {
                let x = load(dtype, &[byte]);
                let mut back = [0];
                store(dtype, x, &mut back);
                assert!(x.is_nan() && load(dtype, &back).is_nan() || back[0] == byte, "{dtype} {byte:#x} is {x}, then {:#x}", back[0]);
                assert!(x.is_infinite() || x.is_nan() || x.abs() <= greatest(dtype));
            }
        }
        for bits in 0..=u16::MAX {
            let (h, b) = (f16::from_bits(bits), bf16::from_bits(bits));
            assert!(h.is_nan() || HALF.round(h.to_f64()) == h.to_f64());
            assert!(b.is_nan() || BFLOAT16.round(b.to_f64()) == b.to_f64());
        }
    }

    #[test]
    fn values_of_the_published_tables() {
        // OCP OFP8 and the FNUZ formats: largest, smallest normal, smallest subnormal.
        for (dtype, byte, x) in [
            (DataType::Fp8E4M3, 0x7e, 448.0),
            (DataType::Fp8E4M3, 0x08, 0.015625),
            (DataType::Fp8E4M3, 0x01, 0.001953125),
            (DataType::Fp8E5M2, 0x7b, 57344.0),
            (DataType::Fp8E5M2, 0x3c, 1.0),
            (DataType::Fp8E5M2, 0x01, 1.52587890625e-5),
            (DataType::Fp8E5M2, 0x7c, f64::INFINITY),
            (DataType::Fp8E4M3Fnuz, 0x7f, 240.0),
            (DataType::Fp8E4M3Fnuz, 0x40, 1.0),
            (DataType::Fp8E5M2Fnuz, 0x7f, 57344.0),
            (DataType::Fp8E5M2Fnuz, 0x40, 1.0),
            (DataType::Fp8E8M0, 0x7f, 1.0),
            (DataType::Fp8E8M0, 0x82, 8.0),
        ] {
            assert_eq!(load(dtype, &[byte]), x, "{dtype} {byte:#x}");
        }
    }

    #[test]
    fn rounding_is_to_nearest_even_and_once() {
        assert_eq!(round(DataType::Half, 2049.0), 2048.0);
        assert_eq!(round(DataType::Half, 2051.0), 2052.0);
        // In two steps through binary32, this would become a tie and go down.
        assert_eq!(round(DataType::Half, 2049.0 + 1e-12), 2050.0);
        assert_eq!(round(DataType::Half, 65519.99), 65504.0);
        assert_eq!(round(DataType::Half, 65520.0), f64::INFINITY);
        assert_eq!(round(DataType::Half, 3e-8), pow2(-24));
        assert_eq!(round(DataType::BFloat16, 1.00390625), 1.0);
        assert_eq!(round(DataType::BFloat16, 1.01171875), 1.015625);
        assert_eq!(round(DataType::Fp8E4M3, 1e6), 448.0);
        assert_eq!(round(DataType::Int8, 300.0), 127.0);
        assert_eq!(round(DataType::UInt8, -1.0), 0.0);
        assert_eq!(round(DataType::Int32, 2.5), 2.0);
        assert_eq!(round(DataType::Fp8E8M0, 3.1), 4.0);
    }
}
