//! The operations of a graph.
//!
//! [`Op`] is one operation with its operands and attributes, typed. The table in `table.rs` is the only place that lists the
//! fields of the operations: reading and writing FlatBuffers, the canonical encoding and JSON all follow from it.

mod field;
mod table;
mod value;

pub(crate) use field::{Field, WireValueError, slice};
pub(crate) use table::ReadOpError;
pub use table::*;
pub use value::FieldValue;

use bytemuck::{Pod, Zeroable};

/// A tensor's uid, as a graph's author chose it. Any number is a uid, 0 too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Pod, Zeroable)]
#[repr(transparent)]
pub struct Uid(pub i64);

impl std::fmt::Display for Uid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// What a field of an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldRole {
    /// A tensor that the operation reads.
    Input,
    /// A tensor that the operation writes.
    Output,
    /// Not a tensor.
    Attribute,
}

/// One field of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldSpec {
    /// Short name, such as `x`.
    pub name: &'static str,
    /// Name in hipDNN's schema and JSON, such as `x_tensor_uid`.
    pub wire_name: &'static str,
    /// What it is.
    pub role: FieldRole,
    /// hipDNN's JSON must have it.
    pub required: bool,
}

/// One use of a tensor by an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperandUse {
    /// The tensor.
    pub uid: Uid,
    /// Slot in the operation's table, an index into [`OpKind::fields`].
    pub slot: u8,
    /// Input or output.
    pub role: FieldRole,
}

impl Pointwise {
    /// A function of one input with no parameter.
    pub fn unary(mode: crate::PointwiseMode, in_0: Uid, out_0: Uid) -> Self {
        Self {
            mode,
            relu_lower_clip: None,
            relu_upper_clip: None,
            relu_lower_clip_slope: None,
            axis: None,
            in_0,
            in_1: None,
            in_2: None,
            out_0,
            swish_beta: None,
            elu_alpha: None,
            softplus_beta: None,
        }
    }

    /// A function of two inputs with no parameter.
    pub fn binary(mode: crate::PointwiseMode, in_0: Uid, in_1: Uid, out_0: Uid) -> Self {
        Self { in_1: Some(in_1), ..Self::unary(mode, in_0, out_0) }
    }
}
