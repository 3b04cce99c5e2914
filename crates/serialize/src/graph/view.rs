//! The checked view and the owner of its bytes.

use super::{guard, verify};
use crate::artifact::{self, Artifact};
use crate::canon::{self, Canonical, NoKey};
use crate::error::{NodeLabel, TensorLabel};
use crate::floors::Features;
use crate::ops::{FieldRole, Op, OpKind, Uid};
use crate::wire::generated as wire;
use crate::wire::tensor_value::TensorValue;
use crate::{AlignedBytes, ApiVersion, DataType, GraphError, Limits};

/// Position of a tensor in its graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TensorIx(pub(super) u32);

impl TensorIx {
    /// As an index into [`VerifiedGraph::tensors`].
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Position of a node in its graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIx(pub(super) u32);

impl NodeIx {
    /// As a number.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A tensor of a verified graph. Lists are slices of the graph's buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorView<'a> {
    /// Its uid.
    pub uid: Uid,
    /// Its name, which may be empty.
    pub name: &'a str,
    /// Element type, resolved: never [`DataType::Unset`].
    pub dtype: DataType,
    /// Dimensions, each at least 1.
    pub dims: &'a [i64],
    /// Strides in elements, one per dimension, each at least 0.
    pub strides: &'a [i64],
    /// Exists only between nodes.
    pub is_virtual: bool,
    /// The value baked into the graph: a constant, or with `is_runtime` a default.
    pub value: Option<TensorValue>,
    /// A host scalar given at execute (R16 §4.2).
    pub is_runtime: bool,
    /// The tensor that holds per-batch offsets of this one.
    pub ragged_offset: Option<TensorIx>,
    /// Alignment of the device buffer in bytes.
    pub alignment: i64,
    /// Factor from stored ragged offsets to elements.
    pub ragged_multiplier: i64,
    pub(crate) has_unknown_fields: bool,
}

impl TensorView<'_> {
    /// In any of the three by-value states: the umbrella query of R16 §4.1.
    pub fn is_by_value(&self) -> bool {
        self.is_runtime || self.value.is_some()
    }

    /// Carries a value and is not runtime (R16 §4.1).
    pub fn has_compile_time_constant(&self) -> bool {
        !self.is_runtime && self.value.is_some()
    }

    /// Number of elements.
    pub fn elements(&self) -> u64 {
        // The verifier has bounded the span of the elements, but strides of 0 let the product exceed it.
        self.dims.iter().fold(1, |n: u64, &d| n.saturating_mul(d.unsigned_abs()))
    }

    /// Elements from the first to the last in memory, both included.
    pub fn span(&self) -> u64 {
        self.dims
            .iter()
            .zip(self.strides)
            .fold(1, |n: u64, (&d, &s)| n.saturating_add(d.saturating_sub(1).unsigned_abs().saturating_mul(s.unsigned_abs())))
    }

    /// Bytes from the first element to the last in memory.
    pub fn span_bytes(&self) -> u64 {
        self.span().saturating_mul(u64::from(self.dtype.bits())).div_ceil(8)
    }
}

/// A use of a tensor by a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperandRef {
    /// The tensor.
    pub tensor: TensorIx,
    /// Slot in the operation's table: an index into [`OpKind::fields`].
    pub slot: u8,
    /// Input or output.
    pub role: FieldRole,
}

/// A graph whose structure and meaning have been checked.
///
/// Tensors, nodes and operands are dense arrays addressed by [`TensorIx`] and [`NodeIx`]; uids have been resolved.
#[derive(Debug)]
pub struct VerifiedGraph<'a> {
    pub(super) root: wire::Graph<'a>,
    pub(super) buffer: &'a [u8],
    pub(super) tensors: Vec<TensorView<'a>>,
    /// Uids in ascending order, each with its tensor.
    pub(super) by_uid: Vec<(Uid, TensorIx)>,
    pub(super) kinds: Vec<OpKind>,
    /// Operands of all nodes, node by node, in slot order.
    pub(super) operands: Vec<OperandRef>,
    /// Where each node's operands end.
    pub(super) operand_ends: Vec<u32>,
    pub(super) unknown_fields: Option<String>,
    pub(super) limits: Limits,
}

/// The tensor with this uid, in a list that ascends by uid.
pub(super) fn find(by_uid: &[(Uid, TensorIx)], uid: Uid) -> Option<TensorIx> {
    // Most writers number without gaps: then the distance from the lowest uid is the position.
    let (lowest, _) = by_uid.first()?;
    let guess = usize::try_from(uid.0.wrapping_sub(lowest.0)).ok().and_then(|i| by_uid.get(i));
    if let Some(&(_, ix)) = guess.filter(|(found, _)| *found == uid) {
        return Some(ix);
    }
    by_uid.binary_search_by_key(&uid, |&(uid, _)| uid).ok().and_then(|at| by_uid.get(at)).map(|&(_, ix)| ix)
}

impl<'a> VerifiedGraph<'a> {
    /// Checks a bare hipDNN graph buffer. `buffer` must start at a multiple of 8, as [`AlignedBytes`] do.
    ///
    /// # Errors
    /// The first thing that is wrong; structure before meaning.
    pub fn verify(buffer: &'a [u8], limits: &Limits) -> Result<Self, GraphError> {
        verify::verify(buffer, limits)
    }

    /// Checks a graph in either binary form: native artifact or bare hipDNN buffer.
    pub fn verify_any(bytes: &'a [u8], limits: &Limits) -> Result<Self, GraphError> {
        if !artifact::is_artifact(bytes) {
            return Self::verify(bytes, limits);
        }
        // Before the digest, which reads all of it.
        verify::check_size(bytes.len().saturating_sub(artifact::HEADER_LEN), limits)?;
        let Artifact { min_reader_version, buffer } = Artifact::parse(bytes)?;
        let graph = Self::verify(buffer, limits)?;
        let expected = graph.min_reader_version();
        if min_reader_version != expected {
            return Err(artifact::ArtifactError::Stamp { found: min_reader_version, expected }.into());
        }
        Ok(graph)
    }

    /// The limits under which it was checked.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The hipDNN buffer, untouched.
    pub fn buffer(&self) -> &'a [u8] {
        self.buffer
    }

    /// The graph's name, which may be empty.
    pub fn name(&self) -> &'a str {
        self.root.name().unwrap_or_default()
    }

    /// Opted in to execute-time shapes.
    pub fn is_override_shape_enabled(&self) -> bool {
        self.root.is_override_shape_enabled()
    }

    /// The engine that the author prefers.
    pub fn preferred_engine_id(&self) -> Option<i64> {
        self.root.preferred_engine_id()
    }

    /// The graph's random identity, in network byte order.
    pub fn id(&self) -> Option<[u8; 16]> {
        let id = self.root.id()?;
        let mut bytes = [0; 16];
        for (byte, i) in bytes.iter_mut().zip(0..) {
            *byte = id.bytes().get(i);
        }
        Some(bytes)
    }

    /// Graph-level types as stated: compute, intermediate, io. Tensors and nodes have theirs resolved already.
    pub fn default_types(&self) -> [DataType; 3] {
        [self.root.compute_data_type(), self.root.intermediate_data_type(), self.root.io_data_type()]
            .map(|t| DataType::from_wire(t.0).unwrap_or(DataType::Unset))
    }

    /// All tensors, in the order of the buffer.
    pub fn tensors(&self) -> &[TensorView<'a>] {
        &self.tensors
    }

    /// One tensor.
    #[expect(clippy::indexing_slicing, reason = "a position is made for one graph, and the graph's tensors never change")]
    pub fn tensor(&self, ix: TensorIx) -> &TensorView<'a> {
        &self.tensors[ix.index()]
    }

    /// All tensor positions.
    pub fn tensor_ixs(&self) -> impl ExactSizeIterator<Item = TensorIx> + use<> {
        (0..self.tensors.len() as u32).map(TensorIx)
    }

    /// The tensor with this uid.
    pub fn find(&self, uid: Uid) -> Option<TensorIx> {
        find(&self.by_uid, uid)
    }

    /// Number of nodes.
    pub fn node_count(&self) -> usize {
        self.kinds.len()
    }

    /// All nodes, in the order of the buffer, which is topological.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = NodeIx> + use<> {
        (0..self.kinds.len() as u32).map(NodeIx)
    }

    /// A node's name, which may be empty.
    pub fn node_name(&self, node: NodeIx) -> &'a str {
        self.wire_node(node).and_then(|node| node.name()).unwrap_or_default()
    }

    /// Which operation a node is.
    #[expect(clippy::indexing_slicing, reason = "a position is made for one graph, and the graph's nodes never change")]
    pub fn kind(&self, node: NodeIx) -> OpKind {
        self.kinds[node.index()]
    }

    /// The type that a node computes in, resolved: never [`DataType::Unset`].
    pub fn compute_type(&self, node: NodeIx) -> DataType {
        let stated = self.wire_node(node).and_then(|node| DataType::from_wire(node.compute_data_type().0));
        match stated {
            Some(DataType::Unset) | None => {
                let [compute, _, _] = self.default_types();
                compute
            }
            Some(t) => t,
        }
    }

    /// A node's operation, read from the buffer.
    #[expect(clippy::unreachable, reason = "the same bytes were read when the graph was verified, and they are borrowed since")]
    pub fn op(&self, node: NodeIx) -> Op<'a> {
        self.read_op(node).unwrap_or_else(|| unreachable!("a node position comes from this graph"))
    }

    /// A node's operation, while it is not known yet that the graph is valid.
    pub(super) fn read_op(&self, node: NodeIx) -> Option<Op<'a>> {
        let wire = self.wire_node(node)?;
        Op::read(&wire).ok().map(|(op, _)| op)
    }

    /// A node's operands, in slot order.
    pub fn operands(&self, node: NodeIx) -> &[OperandRef] {
        let end = |i: Option<usize>| i.and_then(|i| self.operand_ends.get(i)).map_or(0, |&end| end as usize);
        let node = node.index();
        self.operands.get(end(node.checked_sub(1))..end(Some(node))).unwrap_or_default()
    }

    /// The operands of all nodes, node by node.
    pub fn all_operands(&self) -> &[OperandRef] {
        &self.operands
    }

    /// Name of an operand's slot, such as `x`.
    pub fn slot_name(&self, node: NodeIx, operand: &OperandRef) -> &'static str {
        self.kind(node).fields().get(usize::from(operand.slot)).map_or("", |f| f.name)
    }

    /// The features that decide which engines may be asked (G9).
    pub fn features(&self) -> Features {
        Features::of_graph(self)
    }

    /// The engine API version that the graph requires.
    pub fn api_floor(&self) -> ApiVersion {
        self.features().floor()
    }

    /// What a native artifact is stamped with: 1 when some tensor is runtime pass-by-value, else 0.
    pub fn min_reader_version(&self) -> u32 {
        u32::from(self.features().runtime_pass_by_value)
    }

    /// The canonical encoding and its key.
    ///
    /// # Errors
    /// [`NoKey`] when the buffer holds fields that this version does not know.
    pub fn canonical(&self) -> Result<Canonical, NoKey> {
        canon::encode(self)
    }

    /// The graph as a native artifact file.
    pub fn to_artifact(&self) -> AlignedBytes {
        Artifact { min_reader_version: self.min_reader_version(), buffer: self.buffer }.to_bytes()
    }

    /// A tensor as messages name it.
    pub fn tensor_label(&self, ix: TensorIx) -> TensorLabel {
        let t = self.tensor(ix);
        TensorLabel { index: ix.0, uid: t.uid.0, name: t.name.into() }
    }

    /// A node as messages name it.
    pub fn node_label(&self, node: NodeIx) -> NodeLabel {
        NodeLabel { index: node.0, name: self.node_name(node).into(), op: self.kind(node).name() }
    }

    /// The first table that holds fields which this version does not know.
    pub(crate) fn unknown_fields(&self) -> Option<String> {
        self.unknown_fields.clone()
    }

    /// The root table: what the buffer states, nothing resolved. Slot 8 must not be read from it: see [`stamp`](Self::stamp).
    pub(crate) fn root(&self) -> wire::Graph<'a> {
        self.root
    }

    /// What the buffer itself says, in slot 8 of its root table, of the reader that it needs.
    pub fn stamp(&self) -> guard::Stamp {
        // The same bytes were read when the graph was verified.
        guard::stamp(self.buffer).unwrap_or(guard::Stamp::Absent)
    }

    fn wire_node(&self, node: NodeIx) -> Option<wire::Node<'a>> {
        self.root.nodes().filter(|nodes| node.index() < nodes.len()).map(|nodes| nodes.get(node.index()))
    }
}

/// A graph that owns its buffer. The buffer has been verified once; [`view`](Self::view) verifies again to hand out a proof.
#[derive(Clone, Debug)]
pub struct GraphBuf {
    bytes: AlignedBytes,
    limits: Limits,
}

impl GraphBuf {
    /// Checks `bytes`, in either binary form, and keeps the hipDNN buffer.
    pub fn new(bytes: &[u8], limits: &Limits) -> Result<Self, GraphError> {
        let header = if artifact::is_artifact(bytes) { artifact::HEADER_LEN } else { 0 };
        verify::check_size(bytes.len().saturating_sub(header), limits)?;
        let copy = crate::aligned::aligned_copy(bytes);
        let buffer = VerifiedGraph::verify_any(&copy, limits)?.buffer();
        let bytes = if buffer.len() == copy.len() { copy } else { crate::aligned::aligned_copy(buffer) };
        Ok(Self { bytes, limits: *limits })
    }

    /// The hipDNN buffer.
    pub fn buffer(&self) -> &[u8] {
        &self.bytes
    }

    /// The checked view.
    #[expect(clippy::unreachable, reason = "the same bytes were verified under the same limits when this was made")]
    pub fn view(&self) -> VerifiedGraph<'_> {
        match VerifiedGraph::verify(&self.bytes, &self.limits) {
            Ok(graph) => graph,
            Err(_) => unreachable!("the same bytes were verified under the same limits when this was made"),
        }
    }
}
