//! Graphs in hipDNN's wire form, checked and then read in place.
//!
//! [`VerifiedGraph`] is a proof: whoever holds one may index it without checking anything again. It is made in two stages:
//! structure (the FlatBuffers verifier under [`Limits`](crate::Limits)), then meaning. [`GraphBuf`] owns the bytes.

mod dataflow;
mod guard;
mod reshape;
mod rules;
mod unknown;
mod verify;
mod view;

pub use guard::Stamp;
pub use reshape::{ReshapeError, ShapeOverride};
pub use unknown::UnknownFields;
pub use view::{GraphBuf, NodeIx, OperandRef, TensorIx, TensorView, VerifiedGraph};
