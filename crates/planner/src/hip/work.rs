//! What one kernel is to compute: a loop nest over operands, how terms are summed, and what becomes of a sum.

use super::epilogue::Epilogue;
use super::nest::Nest;
use hipplan_serialize::ReductionMode;

/// A stored type that kernels read and write; the suffix of its functions in `elements.h`, and its C++ type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    F32,
    F64,
    F16,
    Bf16,
    I32,
    I8,
    U8,
    Bool,
}

impl Element {
    /// The type for a wire type, where kernels have it.
    pub(super) const fn of(dtype: hipplan_serialize::DataType) -> Option<Self> {
        use hipplan_serialize::DataType;
        Some(match dtype {
            DataType::Float => Self::F32,
            DataType::Double => Self::F64,
            DataType::Half => Self::F16,
            DataType::BFloat16 => Self::Bf16,
            DataType::Int32 => Self::I32,
            DataType::Int8 => Self::I8,
            DataType::UInt8 => Self::U8,
            DataType::Boolean => Self::Bool,
            _ => return None,
        })
    }

    /// Suffix of its functions in `elements.h`.
    pub(super) const fn suffix(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::I32 => "i32",
            Self::I8 => "i8",
            Self::U8 => "u8",
            Self::Bool => "bool",
        }
    }

    /// The C++ type of a stored element.
    pub(super) const fn stored(self) -> &'static str {
        match self {
            Self::F32 => "float",
            Self::F64 => "double",
            Self::F16 | Self::Bf16 => "unsigned short",
            Self::I32 => "int",
            Self::I8 => "signed char",
            Self::U8 | Self::Bool => "unsigned char",
        }
    }

    /// Whether `float` cannot hold every value.
    pub(super) const fn is_wide(self) -> bool {
        matches!(self, Self::F64 | Self::I32)
    }

    /// Whether it is an 8-bit integer.
    pub(super) const fn is_byte(self) -> bool {
        matches!(self, Self::I8 | Self::U8)
    }
}

/// The type that a kernel computes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    F32,
    F64,
    /// 32-bit sums of products of 8-bit integers; they wrap.
    I32,
}

impl Number {
    /// Its C++ type.
    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::F32 => "float",
            Self::F64 => "double",
            Self::I32 => "int",
        }
    }

    pub(super) const fn size(self) -> u64 {
        match self {
            Self::F64 => 8,
            Self::F32 | Self::I32 => 4,
        }
    }

    /// The stored type that holds every value of it.
    pub(super) const fn element(self) -> Element {
        match self {
            Self::F32 => Element::F32,
            Self::F64 => Element::F64,
            Self::I32 => Element::I32,
        }
    }
}

/// A tensor as a kernel addresses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Operand {
    /// Position among the program's tensors.
    pub(super) tensor: u32,
    pub(super) element: Element,
}

/// How the terms of the depth become one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sum {
    /// Products of two operands.
    Products { x: Operand, y: Operand },
    /// Elements of one operand; `count` of them.
    Elements { x: Operand, mode: ReductionMode, count: i64 },
    /// No depth: the epilogue alone.
    Nothing,
}

impl Sum {
    pub(super) const fn x(&self) -> Option<Operand> {
        match self {
            Self::Products { x, .. } | Self::Elements { x, .. } => Some(*x),
            Self::Nothing => None,
        }
    }

    pub(super) const fn y(&self) -> Option<Operand> {
        match self {
            Self::Products { y, .. } => Some(*y),
            Self::Elements { .. } | Self::Nothing => None,
        }
    }
}

/// Operands of the nest: x, y, the result, then those of the epilogue.
pub(super) const X: usize = 0;
/// The second operand.
pub(super) const Y: usize = 1;
/// The result.
pub(super) const OUT: usize = 2;

/// One kernel's work.
#[derive(Clone, Debug)]
pub(super) struct Work {
    pub(super) nest: Nest,
    pub(super) sum: Sum,
    /// The type of sums.
    pub(super) number: Number,
    pub(super) out: Operand,
    pub(super) epilogue: Epilogue,
}
