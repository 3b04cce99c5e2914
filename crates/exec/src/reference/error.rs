//! Why the harness cannot check something.

use hipplan_serialize::DataType;
use hipplan_serialize::error::{NodeLabel, TensorLabel};

/// Why the reference cannot evaluate a graph.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the message of each variant says what its fields are")]
pub enum ReferenceError {
    /// An operation that has no reference.
    #[error("{node}: the reference has no implementation of this operation")]
    Operation { node: NodeLabel },
    /// A batch of a matmul that is repeated in groups: hipDNN takes multiples, not only 1.
    #[error("{node}: the reference has no matmul whose batch dims are multiples of each other; only equal ones and 1")]
    GroupedBatch { node: NodeLabel },
    /// Elements that are not whole bytes.
    #[error("the reference has no tensors of type {dtype}: only types of 8 bits and more")]
    Type { dtype: DataType },
    /// [`Type`](Self::Type), of a tensor of a graph.
    #[error("{tensor}: the reference has no tensors of type {dtype}: only types of 8 bits and more")]
    TensorType { tensor: TensorLabel, dtype: DataType },
    /// Per-batch offsets.
    #[error("{tensor}: the reference has no ragged tensors")]
    Ragged { tensor: TensorLabel },
    /// No shape.
    #[error("dims {dims:?} with strides {strides:?} are no tensor")]
    Shape { dims: Vec<i64>, strides: Vec<i64> },
    /// More memory than a check is worth.
    #[error("a tensor of {bytes} bytes is over the reference's limit of {limit}")]
    TooLarge { bytes: u64, limit: u64 },
    /// A list of values that does not fit its tensor.
    #[error("{found} values for {expected} elements")]
    Count { found: usize, expected: usize },
    /// No value for an input.
    #[error("{tensor}: an input without a value")]
    Missing { tensor: TensorLabel },
    /// A value that is not of its tensor's type or shape.
    #[error("{tensor}: is {expected}, its value is {found}")]
    Mismatch { tensor: TensorLabel, found: String, expected: String },
    /// A host scalar that cannot be an element of its tensor.
    #[error("{tensor}: its value cannot be an element of type {dtype}")]
    Scalar { tensor: TensorLabel, dtype: DataType },
}

/// Why a check could not be made. A check that was made and failed is no error: see [`CheckReport`](super::CheckReport).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckError<E> {
    /// The reference cannot evaluate the graph.
    #[error("reference: {0}")]
    Reference(#[from] ReferenceError),
    /// The caller's device failed.
    #[error("execution: {0}")]
    Execute(#[source] E),
}
