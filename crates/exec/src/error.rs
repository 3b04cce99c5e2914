//! Why a plan cannot be bound or executed.

use crate::MemorySpace;
use crate::ShapeError;
use crate::cpu::CpuError;
use crate::hip::{HipError, HipProgramError};
use crate::plugin::PluginError;
use hipplan_serialize::DataType;
use hipplan_serialize::canon::NoKey;
use hipplan_serialize::plan::{PayloadError, PlanError};

/// A plan that cannot be bound or executed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the message of each variant says what its fields are")]
pub enum ExecError {
    /// The plan file is refused.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The graph has no key.
    #[error(transparent)]
    NoKey(#[from] NoKey),
    /// The plan is for a target whose code does not run on the device.
    #[error("the plan is compiled for target {plan}, the device is {device}: {reason}")]
    Target { plan: String, device: String, reason: String },
    /// The plan executes another graph.
    #[error("the plan executes graph {plan}, not {graph}")]
    OtherGraph { plan: String, graph: String },
    /// The caller's uids end before the plan's tensors do.
    #[error("{found} uids are given, and the plan has a tensor of canonical ordinal {ordinal}; give one uid for each ordinal, from 0 on")]
    UidsMissing { found: usize, ordinal: u32 },
    /// The caller's uids do not tell two tensors apart.
    #[error("uid {uid} is given for the tensors of canonical ordinals {first} and {second}; each needs a uid of its own")]
    UidTwice { uid: i64, first: u32, second: u32 },
    /// Two graphs with one key and different encodings. Never seen.
    #[error("graph {0} and the plan have one key and different canonical encodings; please report this")]
    KeyCollision(String),
    /// The CPU program in the payload is refused.
    #[error("payload: cpu program: {0}")]
    Cpu(CpuError),
    /// The HIP program in the payload is refused.
    #[error("payload: hip program: {0}")]
    HipProgram(#[from] HipProgramError),
    /// HIP, or a HIP device, failed.
    #[error(transparent)]
    Hip(#[from] HipError),
    /// A plugin failed, or none that is loaded may have the plan.
    #[error(transparent)]
    Plugin(#[from] PluginError),
    /// A code object that the plan names cannot be had.
    #[error("code object {hash} of {size} bytes cannot be had: {reason}")]
    CodeObject { hash: String, size: u64, reason: String },
    /// A payload that executes on another kind of device.
    #[error("a payload of kind {kind} does not execute on the device {device}")]
    LoaderDevice { kind: &'static str, device: String },
    /// A text that names no device.
    #[error("{text:?} names no device; expected `cpu`, `hip` or `hip:N` with the number of an AMD GPU")]
    DeviceName { text: String },
    /// A pack entry is missing or cannot be used: hipDNN's INVALID_VALUE.
    #[error("invalid value: {tensor}: {reason}")]
    InvalidValue { uid: i64, tensor: String, reason: InvalidValue },
    /// Execute-time shapes are refused.
    #[error(transparent)]
    Shape(Box<ShapeError>),
    /// A loader asked for a binding that the plan does not have: a defect of its provider, or a damaged payload.
    #[error("the payload names binding {position}, the plan has {bindings}")]
    NoBinding { position: u32, bindings: usize },
    /// An executable that was compiled for another graph, device or workspace than the plan's.
    #[error(
        "the executable was compiled for {what} {found}, and the plan gives it {expected}; bind it to the plan that it was compiled with"
    )]
    MadeForAnother { what: &'static str, found: String, expected: String },
    /// An executable that only its loader can vouch for.
    #[error("the executable does not say which graph and device it was compiled for; bind the plan through the loader of its payload")]
    MadeForUnknown,
    /// The plan's bindings are not what its graph says.
    #[error("the plan's binding of {tensor} has {field} {found}, the graph says {expected}; compile the graph again")]
    BindingDisagrees { tensor: String, field: &'static str, found: String, expected: String },
    /// The workspace is another device's.
    #[error("the workspace is {found}, the plan is bound to a device that needs {expected}")]
    WorkspaceMemory { found: MemorySpace, expected: MemorySpace },
    /// The stream is another device's.
    #[error("the stream is for {found}, the plan is bound to a device that needs {expected}")]
    StreamDevice { found: String, expected: MemorySpace },
    /// The workspace is too small.
    #[error("the workspace has {found} bytes, the plan needs {expected}")]
    WorkspaceSize { found: u64, expected: u64 },
    /// Memory that the system does not give.
    #[error("{what} needs {bytes} bytes, which cannot be had")]
    OutOfMemory { what: &'static str, bytes: u64 },
    /// The workspace starts in the wrong place.
    #[error("the workspace starts at an address that is not a multiple of {expected}")]
    WorkspaceAlignment { expected: u64 },
}

/// What is wrong with one entry of a variant pack.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the message of each variant says what its fields are")]
pub enum InvalidValue {
    /// The uid is not in the pack.
    #[error("it is not in the variant pack; add an entry for uid {uid}")]
    Missing { uid: i64 },
    /// The uid is in the pack twice.
    #[error("the variant pack holds uid {uid} twice")]
    Twice { uid: i64 },
    /// A null pointer.
    #[error("its pointer is null")]
    Null,
    /// A device tensor was given a host scalar.
    #[error("it is a device tensor, and the pack gives a host scalar")]
    ScalarForTensor,
    /// A runtime scalar was given a device buffer.
    #[error("it is a host scalar, and the pack gives a device buffer")]
    TensorForScalar,
    /// A host scalar of another type.
    #[error("it is a host scalar of type {expected}, and the pack gives a {found}")]
    ScalarType { found: DataType, expected: DataType },
    /// The buffer is another device's memory.
    #[error("its buffer is {found}, and the plan is bound to a device that needs {expected}{}", advice(*.found))]
    Memory { found: MemorySpace, expected: MemorySpace },
    /// An output was given a buffer that may only be read.
    #[error("it is written, and the pack gives a read-only buffer")]
    ReadOnly,
    /// The buffer is too small.
    #[error("its buffer has {found} bytes, the tensor spans {expected}")]
    BufferSize { found: u64, expected: u64 },
    /// The buffer starts in the wrong place.
    #[error("its buffer starts at an address that is not a multiple of {expected}, the size of an element")]
    Alignment { expected: u64 },
}

/// What to do about memory of the wrong kind.
fn advice(found: MemorySpace) -> &'static str {
    match found {
        MemorySpace::Host => "; copy it to DeviceMemory, and give that with device_input or device_output",
        MemorySpace::Hip { .. } => "",
    }
}

impl ExecError {
    /// It is hipDNN's INVALID_VALUE: found by us, or reported by a plugin.
    pub fn is_invalid_value(&self) -> bool {
        match self {
            Self::InvalidValue { .. } => true,
            Self::Plugin(error) => error.is_invalid_value(),
            _ => false,
        }
    }
}

impl From<CpuError> for ExecError {
    fn from(error: CpuError) -> Self {
        Self::Cpu(error)
    }
}

impl From<ShapeError> for ExecError {
    fn from(error: ShapeError) -> Self {
        Self::Shape(Box::new(error))
    }
}

impl From<PayloadError> for ExecError {
    fn from(error: PayloadError) -> Self {
        Self::Plan(error.into())
    }
}
