//! Graph and plan formats of hipplan. Bytes only: no file, no device.
//!
//! * [`graph`]: hipDNN graph buffers, checked and read in place; [`builder`]: the writing side; [`json`]: hipDNN's JSON.
//! * [`conv_problem`]: a convolution in MIOpen's terms; [`driver`]: MIOpenDriver lines and logs full of them.
//! * [`attributes`]: hipDNN's numbered attributes of a tensor.
//! * [`artifact`]: the native file around a graph buffer.
//! * [`canon`]: the canonical encoding, whose hash is a [`GraphKey`].
//! * [`diff`], [`explain`]: what differs and what changes a key, and why a graph has none; for a person.
//! * [`plan`]: the plan file and the provider payload in it.
//! * [`hipdnn`]: hipDNN's own plan envelope and its container of graph and plan.
//! * [`code_object`]: what an AMD GPU runs, and the note in it that says how; [`target`]: what code is compiled for and runs on.
//! * [`form`]: what some bytes are; [`import`]: the graph in them, whatever their form.
//!
//! The formats are written down in `docs/format.md`.
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable,
        reason = "a crate of readers: no input may make it panic"
    )
)]
#[cfg(not(target_endian = "little"))]
compile_error!("hipplan's formats are little-endian and read in place: big-endian hosts are not supported");

pub mod aligned;
pub mod artifact;
pub mod attributes;
pub mod builder;
pub mod canon;
pub mod code_object;
pub mod conv_problem;
pub mod diff;
pub mod driver;
mod engine_id;
pub mod enums;
pub mod error;
pub mod explain;
pub mod floors;
pub mod form;
pub mod graph;
mod handle;
mod hex;
pub mod hipdnn;
pub mod import;
pub mod json;
pub mod key;
pub mod limits;
pub mod ops;
pub mod plan;
pub mod scalar;
pub mod target;
pub mod version;
/// The raw generated FlatBuffers layer and the one union that the generator refuses.
pub mod wire;

pub use aligned::AlignedBytes;
pub use attributes::{AttributeError, AttributeValue, TensorAttribute};
pub use builder::{GraphBuilder, TensorAttributes};
pub use canon::Canonical;
pub use conv_problem::{ConvDirection, ConvEpilogue, ConvProblem, ConvProblemError, ProblemMode, ProblemTensor};
pub use engine_id::{engine_id, engine_id_of_text, engine_id_text};
pub use enums::*;
pub use error::GraphError;
pub use floors::{Feature, Features};
pub use graph::{GraphBuf, NodeIx, OperandRef, ReshapeError, ShapeOverride, TensorIx, TensorView, VerifiedGraph};
pub use handle::TensorHandle;
pub use key::{ContentHash, Digest, GraphKey, Knob, PlanIdentity, PlanKey, PlanRef, Policy, RootHash, SelectionKey};
pub use limits::Limits;
pub use ops::{FieldRole, Op, OpKind, Uid};
pub use scalar::{Scalar, ScalarType};
pub use target::{AmdTarget, LoadRefusal, Target, TestTarget};
pub use version::ApiVersion;
pub use wire::tensor_value::TensorValue;
