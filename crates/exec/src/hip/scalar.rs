//! Host scalars as kernels take them: converted from the tensor's type to `float` or `double`.

use super::program::ScalarType;
use half::{bf16, f16};
use hipplan_serialize::{DataType, TensorValue};

impl ScalarType {
    /// Whether kernels take host scalars of a tensor of this type.
    pub fn takes(dtype: DataType) -> bool {
        Conversion::new(dtype, Self::F64).is_some()
    }

    /// The bytes that a kernel takes for a host scalar of a tensor of type `dtype`; none for a type that no kernel takes by value. A baked
    /// value of another type becomes an element of the tensor's type first, as where it is executed.
    pub fn bytes_of(self, value: TensorValue, dtype: DataType) -> Option<Vec<u8>> {
        let conversion = Conversion::new(dtype, self)?;
        let element = value.to_element(dtype)?;
        Some(match self {
            Self::F32 => conversion.to_f32(element).to_le_bytes().to_vec(),
            Self::F64 => conversion.to_f64(element).to_le_bytes().to_vec(),
        })
    }
}

/// How one scalar is converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Conversion {
    from: Source,
    pub(super) to: ScalarType,
}

/// Types of host scalars that are numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    F32,
    F64,
    F16,
    Bf16,
    I32,
    I64,
    U8,
    Bool,
}

impl Conversion {
    /// The conversion from an element type; none for types that no host scalar of a kernel has.
    pub(super) fn new(dtype: DataType, to: ScalarType) -> Option<Self> {
        let from = match dtype {
            DataType::Float => Source::F32,
            DataType::Double => Source::F64,
            DataType::Half => Source::F16,
            DataType::BFloat16 => Source::Bf16,
            DataType::Int32 => Source::I32,
            DataType::Int64 => Source::I64,
            DataType::UInt8 => Source::U8,
            DataType::Boolean => Source::Bool,
            _ => return None,
        };
        Some(Self { from, to })
    }

    /// As a `float`: one rounding, to nearest even.
    pub(super) fn to_f32(self, element: [u8; 8]) -> f32 {
        match self.from {
            Source::F32 => f32::from_bits(low(element)),
            // Not through a double, which would round twice.
            Source::I64 => i64::from_le_bytes(element) as f32,
            _ => self.to_f64(element) as f32,
        }
    }

    /// As a `double`.
    pub(super) fn to_f64(self, element: [u8; 8]) -> f64 {
        let [a, b, ..] = element;
        match self.from {
            Source::F32 => f32::from_bits(low(element)).into(),
            Source::F64 => f64::from_le_bytes(element),
            Source::F16 => f16::from_le_bytes([a, b]).to_f64(),
            Source::Bf16 => bf16::from_le_bytes([a, b]).to_f64(),
            Source::I32 => i32::from_le_bytes(low(element).to_le_bytes()).into(),
            Source::I64 => i64::from_le_bytes(element) as f64,
            Source::U8 => a.into(),
            Source::Bool => f64::from(u8::from(a != 0)),
        }
    }
}

/// The first four bytes.
fn low(element: [u8; 8]) -> u32 {
    let [a, b, c, d, ..] = element;
    u32::from_le_bytes([a, b, c, d])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_of_host_scalar_is_converted_with_one_rounding() {
        let cases = [
            (DataType::Float, TensorValue::Float32(0.1), f64::from(0.1_f32)),
            (DataType::Double, TensorValue::Float64(0.1), 0.1),
            (DataType::Half, TensorValue::Float16(-1.5), -1.5),
            (DataType::BFloat16, TensorValue::BFloat16(3.0), 3.0),
            (DataType::Int32, TensorValue::Int32(i32::MIN), f64::from(i32::MIN)),
            (DataType::Int64, TensorValue::Int64(-5), -5.0),
            (DataType::UInt8, TensorValue::Float8(200), 200.0),
            (DataType::Boolean, TensorValue::Bool(true), 1.0),
        ];
        for (dtype, value, expected) in cases {
            let element = value.to_element(dtype).expect("an element");
            let conversion = |to| Conversion::new(dtype, to).expect("a number");
            assert_eq!(conversion(ScalarType::F64).to_f64(element), expected, "{dtype}");
            assert_eq!(conversion(ScalarType::F32).to_f32(element), expected as f32, "{dtype}");
        }
        // Halfway between two floats but for the last bit, which a double drops.
        let big = (1_i64 << 60) + (1 << 36) + 1;
        let conversion = Conversion::new(DataType::Int64, ScalarType::F32).expect("a number");
        assert_eq!(conversion.to_f32(big.to_le_bytes()), ((1_i64 << 60) + (1 << 37)) as f32);
        assert_eq!(Conversion::new(DataType::Fp8E4M3, ScalarType::F32), None);
        assert_eq!(ScalarType::F32.bytes_of(TensorValue::Float64(0.5), DataType::Double), Some(0.5_f32.to_le_bytes().to_vec()));
        assert_eq!(ScalarType::F64.bytes_of(TensorValue::Int32(-2), DataType::Int32), Some((-2.0_f64).to_le_bytes().to_vec()));
        assert_eq!(ScalarType::F64.bytes_of(TensorValue::Int32(-2), DataType::Float), Some((-2.0_f64).to_le_bytes().to_vec()));
        assert_eq!(ScalarType::F64.bytes_of(TensorValue::Float8(0x7e), DataType::Fp8E4M3), None);
    }

    #[test]
    fn a_float_keeps_its_bits() {
        let nan = 0x7fc0_1234_u32;
        let element = [0x34, 0x12, 0xc0, 0x7f, 0, 0, 0, 0];
        let conversion = Conversion::new(DataType::Float, ScalarType::F32).expect("a number");
        assert_eq!(conversion.to_f32(element).to_bits(), nan);
    }
}
