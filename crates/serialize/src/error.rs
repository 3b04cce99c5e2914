//! Why a graph is refused.

mod rule;

pub use rule::{Breach, Found, RuleError};

use crate::DataType;
use crate::artifact::ArtifactError;
use crate::wire::tensor_value::TensorValueError;
use std::fmt;

/// A tensor, as a person finds it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorLabel {
    /// Position in the graph's tensor list.
    pub index: u32,
    /// Its uid.
    pub uid: i64,
    /// Its name, which may be empty.
    pub name: Box<str>,
}

impl fmt::Display for TensorLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.name {
            "" => write!(f, "tensor {} (uid {})", self.index, self.uid),
            name => write!(f, "tensor {} {name:?} (uid {})", self.index, self.uid),
        }
    }
}

/// A node, as a person finds it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeLabel {
    /// Position in the graph's node list.
    pub index: u32,
    /// Its name, which may be empty.
    pub name: Box<str>,
    /// Its operation.
    pub op: &'static str,
}

impl fmt::Display for NodeLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.name {
            "" => write!(f, "node {} ({})", self.index, self.op),
            name => write!(f, "node {} {name:?} ({})", self.index, self.op),
        }
    }
}

/// A graph that cannot be used: one variant per cause.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the message of each variant says what its fields are")]
pub enum GraphError {
    /// The artifact around the buffer is refused.
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
    /// Something exceeds a limit.
    #[error("graph: {what} is {found}, over the limit {limit_name} = {limit}")]
    Limit { what: String, found: u64, limit_name: &'static str, limit: u64 },
    /// The buffer does not start at a multiple of 8.
    #[error("graph: the buffer starts at an address that is not a multiple of 8; read the file into `AlignedBytes`")]
    Misaligned,
    /// Not a FlatBuffers graph.
    #[error("graph: not a hipDNN graph buffer: {0}")]
    Structure(String),
    /// Made for a newer reader (R16 §4.10).
    #[error("graph: {field} is {found}, the newest this hipplan reads is {known}; the graph is too new")]
    TooNew { field: &'static str, found: String, known: String },
    /// An enum holds a number that nobody assigned.
    #[error("graph: {place}: {field} is {number}, which is no {kind} known to this hipplan")]
    UnknownEnum { place: String, field: &'static str, number: i8, kind: &'static str },
    /// Two tensors have one uid.
    #[error("graph: {second} has the uid of {first}; uids must be unique")]
    DuplicateUid { first: TensorLabel, second: TensorLabel },
    /// Dimensions and strides disagree in number.
    #[error("graph: {tensor}: {strides} strides for {dims} dims; there must be one each")]
    StrideCount { tensor: TensorLabel, dims: usize, strides: usize },
    /// No dimension at all.
    #[error("graph: {tensor}: dims are empty; a scalar has dims [1]")]
    NoDims { tensor: TensorLabel },
    /// A dimension below one.
    #[error("graph: {tensor}: dim {axis} is {found}, expected at least 1")]
    Dim { tensor: TensorLabel, axis: usize, found: i64 },
    /// A stride below zero.
    #[error("graph: {tensor}: stride {axis} is {found}, expected at least 0")]
    Stride { tensor: TensorLabel, axis: usize, found: i64 },
    /// The type is stated neither by the tensor nor by the graph.
    #[error("graph: {tensor}: the data type is unset and so is the graph's {default}; state one of them")]
    TensorTypeUnset { tensor: TensorLabel, default: &'static str },
    /// The compute type is stated neither by the node nor by the graph.
    #[error("graph: {node}: the compute data type is unset and so is the graph's; state one of them")]
    ComputeTypeUnset { node: NodeLabel },
    /// The value of a by-value tensor cannot be read.
    #[error("graph: {tensor}: {error}")]
    Value { tensor: TensorLabel, error: TensorValueError },
    /// R16 §4.8, rule 1.
    #[error("graph: {tensor} is virtual and a runtime pass-by-value scalar; a virtual tensor cannot come from the host")]
    VirtualRuntime { tensor: TensorLabel },
    /// R16 §4.8, rule 2.
    #[error("graph: {tensor} is virtual and carries a value; a virtual tensor is computed, not given")]
    VirtualValue { tensor: TensorLabel },
    /// A by-value tensor of more than one element.
    #[error("graph: {tensor} is passed by value and has {elements} elements, expected 1")]
    ScalarElements { tensor: TensorLabel, elements: u64 },
    /// A by-value tensor that a node writes.
    #[error("graph: {tensor} is passed by value and is an output ({slot}) of {node}; host scalars are only read")]
    ScalarWritten { tensor: TensorLabel, node: NodeLabel, slot: &'static str },
    /// A ragged tensor whose offsets are no tensor of the graph.
    #[error("graph: {tensor}: ragged offset tensor uid {uid} is no tensor of the graph")]
    RaggedMissing { tensor: TensorLabel, uid: i64 },
    /// A ragged tensor whose offsets are computed, not given.
    #[error("graph: {tensor}: its ragged offsets are {offsets}, which is virtual; offsets must be in memory")]
    RaggedVirtual { tensor: TensorLabel, offsets: TensorLabel },
    /// Ragged offsets that are ragged.
    #[error("graph: {tensor}: its ragged offsets are {offsets}, which is itself ragged")]
    RaggedNested { tensor: TensorLabel, offsets: TensorLabel },
    /// Ragged offsets that are no integers.
    #[error("graph: {tensor}: its ragged offsets are {offsets} of type {found}, expected int32 or int64")]
    RaggedType { tensor: TensorLabel, offsets: TensorLabel, found: DataType },
    /// Not one offset per batch and one for the end.
    #[error(
        "graph: {tensor}: its ragged offsets are {offsets} of {found} elements, expected {expected}: one per batch and one for the end"
    )]
    RaggedCount { tensor: TensorLabel, offsets: TensorLabel, found: u64, expected: u64 },
    /// Ragged offsets with a factor that makes them meaningless.
    #[error("graph: {tensor}: ragged offset multiplier is {found}, expected at least 1")]
    RaggedMultiplier { tensor: TensorLabel, found: i64 },
    /// An alignment below zero.
    #[error("graph: {tensor}: alignment is {found}, expected at least 0")]
    Alignment { tensor: TensorLabel, found: i64 },
    /// A union tag from a newer writer.
    #[error("graph: node {index} {name:?}: operation {tag} is unknown to this hipplan (known are 1..=23); the graph is too new")]
    UnknownOperation { index: u32, name: String, tag: u8 },
    /// A node without an operation.
    #[error("graph: node {index} {name:?} has no operation")]
    NoOperation { index: u32, name: String },
    /// An operand that names no tensor.
    #[error("graph: {node}: {slot} is uid {uid}, which no tensor has")]
    DanglingUid { node: NodeLabel, slot: &'static str, uid: i64 },
    /// Two nodes, or two slots of one, write one tensor.
    #[error("graph: {tensor} is written by {first} and again by {second}; a tensor has one producer")]
    WrittenTwice { tensor: TensorLabel, first: NodeLabel, second: NodeLabel },
    /// A virtual tensor that nothing writes.
    #[error("graph: {tensor} is virtual and read by {node}, but no node writes it")]
    VirtualUnwritten { tensor: TensorLabel, node: NodeLabel },
    /// A node reads what a later node writes.
    #[error("graph: {reader} reads {tensor}, which only the later {writer} writes; nodes must stand in topological order")]
    Order { reader: NodeLabel, writer: NodeLabel, tensor: TensorLabel },
    /// Nodes depend on each other.
    #[error("graph: {node} depends on its own result through {tensor}; the graph has a cycle")]
    Cycle { node: NodeLabel, tensor: TensorLabel },
    /// Nodes that share no tensor with the rest.
    #[error("graph: {node} shares no tensor with the nodes before it; a graph is connected")]
    Orphan { node: NodeLabel },
    /// No node at all.
    #[error("graph: there are no nodes")]
    Empty,
    /// A tensor written with stride 0 along a dimension.
    #[error("graph: {tensor} is written by {node}, and its stride {axis} is 0 for a dim of {dim}: elements would share memory")]
    OutputOverlaps { tensor: TensorLabel, node: NodeLabel, axis: usize, dim: i64 },
    /// A tensor written to fewer places than it has elements.
    #[error(
        "graph: {tensor} is written by {node}, and its strides put {elements} elements into {places} places: elements would share memory"
    )]
    OutputTooDense { tensor: TensorLabel, node: NodeLabel, elements: u64, places: u64 },
    /// A rule of the operation is broken.
    #[error("graph: {0}")]
    Rule(Box<RuleError>),
}

impl From<RuleError> for GraphError {
    fn from(error: RuleError) -> Self {
        Self::Rule(Box::new(error))
    }
}

impl GraphError {
    /// Made for a newer reader: not damaged.
    pub fn is_too_new(&self) -> bool {
        match self {
            Self::TooNew { .. } | Self::UnknownOperation { .. } => true,
            Self::Artifact(error) => error.is_too_new(),
            _ => false,
        }
    }

    /// Made by a writer that is no longer read.
    pub fn is_too_old(&self) -> bool {
        matches!(self, Self::Artifact(error) if error.is_too_old())
    }
}
