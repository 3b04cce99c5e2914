//! The fields of an operation as values of one type, for whoever shows or compares them.

use super::Uid;
use std::fmt;

/// The value of one field of an operation.
#[derive(Clone, Copy, Debug)]
pub enum FieldValue<'a> {
    /// An optional field that is not there.
    Absent,
    /// An operand.
    Tensor(Uid),
    /// A list of operands.
    Tensors(&'a [Uid]),
    /// A number.
    Int(i64),
    /// A number.
    Float(f32),
    /// A truth value.
    Bool(bool),
    /// A list of numbers.
    Ints(&'a [i64]),
    /// A list of narrower numbers.
    Ints32(&'a [i32]),
    /// Text.
    Text(&'a str),
    /// Bytes of a plugin.
    Bytes(&'a [u8]),
    /// hipDNN's spelling of an enum's variant.
    Enum(&'static str),
}

/// Equal means equal in the canonical encoding: floats by their bits.
impl PartialEq for FieldValue<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (*self, *other) {
            (Self::Absent, Self::Absent) => true,
            (Self::Tensor(a), Self::Tensor(b)) => a == b,
            (Self::Tensors(a), Self::Tensors(b)) => a == b,
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::Float(a), Self::Float(b)) => a.to_bits() == b.to_bits(),
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Ints(a), Self::Ints(b)) => a == b,
            (Self::Ints32(a), Self::Ints32(b)) => a == b,
            (Self::Text(a), Self::Text(b)) => a == b,
            (Self::Bytes(a), Self::Bytes(b)) => a == b,
            (Self::Enum(a), Self::Enum(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for FieldValue<'_> {}

/// Bytes that are written out; of more, the hash is.
const SHOWN_BYTES: usize = 16;

impl fmt::Display for FieldValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn list<T: fmt::Display>(f: &mut fmt::Formatter<'_>, items: &[T]) -> fmt::Result {
            f.write_str("[")?;
            for (i, item) in items.iter().enumerate() {
                write!(f, "{}{item}", if i == 0 { "" } else { ", " })?;
            }
            f.write_str("]")
        }
        match *self {
            Self::Absent => f.write_str("absent"),
            Self::Tensor(uid) => write!(f, "uid {uid}"),
            Self::Tensors(uids) => list(f, uids),
            Self::Int(v) => v.fmt(f),
            // What is no number has bits that matter.
            Self::Float(v) if v.is_nan() => write!(f, "NaN (bits {:#010x})", v.to_bits()),
            Self::Float(v) => v.fmt(f),
            Self::Bool(v) => v.fmt(f),
            Self::Ints(v) => list(f, v),
            Self::Ints32(v) => list(f, v),
            Self::Text(v) => write!(f, "{v:?}"),
            Self::Bytes(v) if v.len() <= SHOWN_BYTES => {
                f.write_str("bytes")?;
                v.iter().try_for_each(|byte| write!(f, " {byte:02x}"))
            }
            Self::Bytes(v) => write!(f, "{} bytes, BLAKE3 {}", v.len(), blake3::hash(v).to_hex()),
            Self::Enum(v) => f.write_str(v),
        }
    }
}

/// A field that can be shown.
pub(crate) trait ToValue<'a> {
    fn to_value(&self) -> FieldValue<'a>;
}

impl<'a, T: ToValue<'a>> ToValue<'a> for Option<T> {
    fn to_value(&self) -> FieldValue<'a> {
        self.as_ref().map_or(FieldValue::Absent, T::to_value)
    }
}

macro_rules! to_value {
    ($($ty:ty: |$v:ident| $value:expr;)+) => { $(
        impl<'a> ToValue<'a> for $ty {
            fn to_value(&self) -> FieldValue<'a> {
                let $v = *self;
                $value
            }
        }
    )+ };
}

to_value! {
    Uid: |v| FieldValue::Tensor(v);
    &'a [Uid]: |v| FieldValue::Tensors(v);
    i64: |v| FieldValue::Int(v);
    i32: |v| FieldValue::Int(v.into());
    f32: |v| FieldValue::Float(v);
    bool: |v| FieldValue::Bool(v);
    &'a [i64]: |v| FieldValue::Ints(v);
    &'a [i32]: |v| FieldValue::Ints32(v);
    &'a str: |v| FieldValue::Text(v);
    &'a [u8]: |v| FieldValue::Bytes(v);
    crate::ConvMode: |v| FieldValue::Enum(v.name());
    crate::PointwiseMode: |v| FieldValue::Enum(v.name());
    crate::NormFwdPhase: |v| FieldValue::Enum(v.name());
    crate::ReductionMode: |v| FieldValue::Enum(v.name());
    crate::ResampleMode: |v| FieldValue::Enum(v.name());
    crate::PaddingMode: |v| FieldValue::Enum(v.name());
    crate::DiagonalAlignment: |v| FieldValue::Enum(v.name());
    crate::AttentionImplementation: |v| FieldValue::Enum(v.name());
    crate::MoeGroupedMatmulMode: |v| FieldValue::Enum(v.name());
    crate::DataType: |v| FieldValue::Enum(v.name());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_count_by_their_bits_and_say_so() {
        let same = |a, b| FieldValue::Float(a) == FieldValue::Float(b);
        assert!(same(f32::NAN, f32::NAN) && !same(f32::NAN, f32::from_bits(0x7fc0_0001)) && !same(0.0, -0.0));
        assert_ne!(FieldValue::Float(0.0).to_string(), FieldValue::Float(-0.0).to_string());
        assert_eq!(FieldValue::Float(f32::from_bits(0x7fc0_0001)).to_string(), "NaN (bits 0x7fc00001)");
    }

    #[test]
    fn lists_and_bytes_read_well() {
        assert_eq!(FieldValue::Ints(&[1, -2]).to_string(), "[1, -2]");
        assert_eq!(FieldValue::Bytes(&[0, 255]).to_string(), "bytes 00 ff");
        assert!(FieldValue::Bytes(&[7; 40]).to_string().starts_with("40 bytes, BLAKE3 "));
        assert_eq!(FieldValue::Text("a\"b\n").to_string(), r#""a\"b\n""#);
    }
}
