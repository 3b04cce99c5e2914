//! What is wrong with a CPU program.

use hipplan_serialize::DataType;

/// A CPU program that cannot be prepared, and why. `ordinal` is always an index into the program's tensors.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CpuError {
    /// A step writes memory that it reads.
    #[error("step {step} writes tensor {written} over tensor {read}, which it reads; they must not share memory")]
    Overlap {
        /// Index of the step.
        step: usize,
        /// The tensor written.
        written: u32,
        /// The tensor read.
        read: u32,
    },
    /// The program holds no tensor or no step where one is needed, or far too many.
    #[error("program has {found} {what}, expected {expected}")]
    Count {
        /// What is counted.
        what: &'static str,
        /// The count.
        found: u64,
        /// What is accepted.
        expected: &'static str,
    },
    /// A step names a tensor that the program lacks.
    #[error("step {step}: tensor ordinal {ordinal} is out of range, the program has {tensors} tensors")]
    Ordinal {
        /// Index of the step.
        step: usize,
        /// The ordinal named.
        ordinal: u32,
        /// Number of tensors.
        tensors: usize,
    },
    /// A dtype number that is not in the wire enum.
    #[error("tensor {ordinal}: dtype number {found} is unknown")]
    UnknownDtype {
        /// The tensor.
        ordinal: u32,
        /// The number.
        found: i8,
    },
    /// A dtype that the operation does not take.
    #[error("{op}: tensor {ordinal} has dtype {found}, expected {expected}")]
    UnsupportedDtype {
        /// The operation.
        op: &'static str,
        /// The tensor.
        ordinal: u32,
        /// Its dtype.
        found: DataType,
        /// What the operation takes.
        expected: &'static str,
    },
    /// A compute type that the operation does not take.
    #[error("{op}: compute type number {found}, expected {expected}")]
    UnsupportedCompute {
        /// The operation.
        op: &'static str,
        /// The wire number.
        found: i8,
        /// What the operation takes.
        expected: &'static str,
    },
    /// A rank that the operation does not take, or dims and strides of different lengths.
    #[error("tensor {ordinal}: rank {found}, expected {expected}")]
    Rank {
        /// The tensor.
        ordinal: u32,
        /// Its rank.
        found: usize,
        /// What is accepted.
        expected: &'static str,
    },
    /// A dimension below 1 or beyond what is addressable.
    #[error("tensor {ordinal}: dimension {axis} is {found}, expected {expected}")]
    Dim {
        /// The tensor.
        ordinal: u32,
        /// The axis.
        axis: usize,
        /// The extent.
        found: i64,
        /// What is accepted.
        expected: i64,
    },
    /// A stride that is negative.
    #[error("tensor {ordinal}: stride {axis} is {found}, expected at least 0")]
    Stride {
        /// The tensor.
        ordinal: u32,
        /// The axis.
        axis: usize,
        /// The stride.
        found: i64,
    },
    /// A tensor whose elements or bytes cannot be counted.
    #[error("tensor {ordinal}: {what} is beyond {limit}")]
    TooLarge {
        /// The tensor.
        ordinal: u32,
        /// What is too large.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// A written tensor of which two elements may share memory.
    #[error("tensor {ordinal} is written, but its strides let elements overlap at axis {axis}")]
    OverlappingOutput {
        /// The tensor.
        ordinal: u32,
        /// The axis whose stride is too small.
        axis: usize,
    },
    /// A workspace tensor that does not lie in the workspace.
    #[error("tensor {ordinal}: workspace bytes {offset}..{end} do not lie in a workspace of {size} bytes")]
    WorkspaceRange {
        /// The tensor.
        ordinal: u32,
        /// First byte.
        offset: u64,
        /// One past the last byte.
        end: u64,
        /// Size of the workspace.
        size: u64,
    },
    /// A workspace offset that is not a multiple of 64.
    #[error("tensor {ordinal}: workspace offset {offset} is not a multiple of 64")]
    WorkspaceAlignment {
        /// The tensor.
        ordinal: u32,
        /// The offset.
        offset: u64,
    },
    /// A tensor in the wrong kind of place for its use.
    #[error("{op}: tensor {ordinal} is {found}, expected {expected}")]
    Place {
        /// The operation.
        op: &'static str,
        /// The tensor.
        ordinal: u32,
        /// Its place.
        found: &'static str,
        /// What is accepted.
        expected: &'static str,
    },
    /// A tensor whose shape does not fit the operation.
    #[error("{op}: tensor {ordinal} has {found} at axis {axis}, expected {expected}")]
    Shape {
        /// The operation.
        op: &'static str,
        /// The tensor.
        ordinal: u32,
        /// The axis.
        axis: usize,
        /// What it has.
        found: i64,
        /// What the operation needs.
        expected: i64,
    },
    /// An attribute outside its range.
    #[error("{op}: {what} is {found}, expected {expected}")]
    Attribute {
        /// The operation.
        op: &'static str,
        /// The attribute.
        what: &'static str,
        /// Its value.
        found: i64,
        /// What is accepted.
        expected: &'static str,
    },
    /// An operand that the mode needs is missing, or one that it does not take is present.
    #[error("step {step}: pointwise mode {mode} takes {expected} operands, found {found}")]
    Operands {
        /// Index of the step.
        step: usize,
        /// The mode.
        mode: &'static str,
        /// Number of operands found.
        found: usize,
        /// Number of operands of the mode.
        expected: usize,
    },
    /// A fused chain that is not one.
    #[error("step {step}, chain position {position}: {reason}")]
    Chain {
        /// Index of the step.
        step: usize,
        /// Position in the chain.
        position: usize,
        /// What is wrong.
        reason: &'static str,
    },
    /// The scratch memory needed is beyond the limit.
    #[error("program needs {needed} bytes of scratch memory, the limit is {limit}")]
    ScratchTooLarge {
        /// Bytes needed.
        needed: u64,
        /// The limit.
        limit: u64,
    },
    /// The scratch memory could not be had.
    #[error("{needed} bytes of scratch memory could not be allocated")]
    OutOfMemory {
        /// Bytes needed.
        needed: u64,
    },
}
