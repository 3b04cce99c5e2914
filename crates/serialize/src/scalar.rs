//! Host scalars: the eight types that a by-value tensor may hold (R16 §4.3).

use crate::DataType;
use crate::wire::tensor_value::TensorValue;
use half::{bf16, f16};

/// The state of a scalar that carries a value, chosen when it is made (R16 §4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScalarType {
    /// A runtime scalar whose value is the default.
    RuntimeParam,
    /// A constant.
    CompileTimeConst,
}

/// A Rust type that a by-value tensor can hold.
pub trait Scalar: Copy + private::Sealed {
    /// The tensor's element type.
    const DATA_TYPE: DataType;

    /// As stored in a graph.
    fn to_value(self) -> TensorValue;

    /// From a stored value; none when that has another type.
    fn from_value(value: TensorValue) -> Option<Self>;
}

mod private {
    pub trait Sealed {}
}

macro_rules! scalars {
    ($($ty:ty, $dtype:ident, $variant:ident, |$v:ident| $to:expr, |$w:ident| $from:expr;)+) => {
        $(
            impl private::Sealed for $ty {}

            impl Scalar for $ty {
                const DATA_TYPE: DataType = DataType::$dtype;

                fn to_value(self) -> TensorValue {
                    let $v = self;
                    TensorValue::$variant($to)
                }

                fn from_value(value: TensorValue) -> Option<Self> {
                    match value {
                        TensorValue::$variant($w) => Some($from),
                        _ => None,
                    }
                }
            }
        )+

        impl TensorValue {
            /// The element type of a tensor that is made from this value.
            pub const fn data_type(self) -> DataType {
                match self { $(Self::$variant(_) => DataType::$dtype,)+ }
            }
        }
    };
}

scalars! {
    f32, Float, Float32, |v| v, |w| w;
    f16, Half, Float16, |v| v.to_f32(), |w| f16::from_f32(w);
    bf16, BFloat16, BFloat16, |v| v.to_f32(), |w| bf16::from_f32(w);
    u8, UInt8, Float8, |v| v, |w| w;
    i32, Int32, Int32, |v| v, |w| w;
    f64, Double, Float64, |v| v, |w| w;
    i64, Int64, Int64, |v| v, |w| w;
    bool, Boolean, Bool, |v| v, |w| w;
}

impl TensorValue {
    /// The number as an `f64`; for 8-bit floats, the number that their bits spell as an integer.
    pub fn to_f64(self) -> f64 {
        match self {
            Self::Float32(v) | Self::Float16(v) | Self::BFloat16(v) => v.into(),
            Self::Float8(v) => v.into(),
            Self::Int32(v) => v.into(),
            Self::Float64(v) => v,
            Self::Int64(v) => v as f64,
            Self::Bool(v) => u8::from(v).into(),
        }
    }

    /// The value as one element of `dtype` in memory, in the first bytes of the array; none for a type that has no such element.
    ///
    /// A value of the element's own type keeps its bits. Others are converted: integers saturate, floats round to nearest even.
    pub fn to_element(self, dtype: DataType) -> Option<[u8; 8]> {
        fn put<const N: usize>(bytes: [u8; N]) -> Option<[u8; 8]> {
            let mut out = [0; 8];
            *out.first_chunk_mut()? = bytes;
            Some(out)
        }
        match (dtype, self) {
            (DataType::Float, Self::Float32(v) | Self::Float16(v) | Self::BFloat16(v)) => put(v.to_le_bytes()),
            (DataType::Float, v) => put((v.to_f64() as f32).to_le_bytes()),
            (DataType::Half, v) => put(f16::from_f64(v.to_f64()).to_le_bytes()),
            (DataType::BFloat16, v) => put(bf16::from_f64(v.to_f64()).to_le_bytes()),
            (DataType::Double, v) => put(v.to_f64().to_le_bytes()),
            (DataType::Int32, Self::Int32(v)) => put(v.to_le_bytes()),
            (DataType::Int32, v) => put((v.to_f64().round_ties_even() as i32).to_le_bytes()),
            (DataType::Int64, Self::Int64(v)) => put(v.to_le_bytes()),
            (DataType::Int64, v) => put((v.to_f64().round_ties_even() as i64).to_le_bytes()),
            (DataType::Int8, v) => put((v.to_f64().round_ties_even() as i8).to_le_bytes()),
            (DataType::UInt8, v) => put([v.to_f64().round_ties_even() as u8]),
            (DataType::Boolean, v) => put([u8::from(v.to_f64() != 0.0)]),
            (
                DataType::Fp8E4M3 | DataType::Fp8E5M2 | DataType::Fp8E8M0 | DataType::Fp8E4M3Fnuz | DataType::Fp8E5M2Fnuz,
                Self::Float8(v),
            ) => put([v]),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_keep_bits_of_their_own_type_and_convert_others() {
        let nan = f32::from_bits(0x7fc0_1234);
        assert_eq!(TensorValue::Float32(nan).to_element(DataType::Float).map(|b| b[..4].to_vec()), Some(vec![0x34, 0x12, 0xc0, 0x7f]));
        assert_eq!(TensorValue::Int64(i64::MAX).to_element(DataType::Int64), Some(i64::MAX.to_le_bytes()));
        assert_eq!(TensorValue::Float64(2.5).to_element(DataType::Int32).map(|b| b[0]), Some(2));
        assert_eq!(TensorValue::Float64(-1e9).to_element(DataType::Int8).map(|b| b[0]), Some(0x80));
        assert_eq!(TensorValue::Float32(1.0).to_element(DataType::Half).map(|b| [b[0], b[1]]), Some([0, 0x3c]));
        assert_eq!(TensorValue::Float32(1.0).to_element(DataType::Fp4E2M1), None);
        assert_eq!(TensorValue::Float8(0x7e).to_element(DataType::Fp8E4M3).map(|b| b[0]), Some(0x7e));
    }
}
