//! From bytes to a [`VerifiedGraph`]: guard, structure, tensors, nodes, then the rules between them.

use super::guard::{self, GuardedRoot};
use super::view::{OperandRef, TensorIx, TensorView, VerifiedGraph, find};
use super::{dataflow, rules};
use crate::error::{NodeLabel, TensorLabel};
use crate::ops::{self, Op, OpKind, ReadOpError, Uid, WireValueError};
use crate::wire::generated as wire;
use crate::wire::{has_unknown_fields, tensor_value};
use crate::{DataType, GraphError, Limits};
use flatbuffers::VerifierOptions;

/// Slots of each table that this version knows.
pub(super) const GRAPH_SLOTS: u16 = 10;
pub(super) const NODE_SLOTS: u16 = 4;
pub(super) const TENSOR_SLOTS: u16 = 12;

/// Holds the size of a graph against the limits, before anything of it is read or copied.
pub(super) fn check_size(bytes: usize, limits: &Limits) -> Result<(), GraphError> {
    check_limit("the graph's size in bytes", bytes as u64, "max_bytes", limits.bytes())
}

pub(super) fn verify<'a>(buffer: &'a [u8], limits: &Limits) -> Result<VerifiedGraph<'a>, GraphError> {
    check_size(buffer.len(), limits)?;
    if !(buffer.as_ptr() as usize).is_multiple_of(8) {
        return Err(GraphError::Misaligned);
    }
    guard::check(guard::stamp(buffer)?)?;

    let root = structure(buffer, limits)?;
    let mut unknown = has_unknown_fields(&root._tab, GRAPH_SLOTS).then(|| "the graph table".to_owned());
    let types = default_types(&root)?;

    let wire_tensors = root.tensors().unwrap_or_default();
    check_limit("the number of tensors", wire_tensors.len() as u64, "max_tensors", limits.max_tensors as u64)?;
    let mut tensors = Vec::with_capacity(wire_tensors.len());
    let mut ragged = Vec::new();
    for (tensor, index) in wire_tensors.iter().zip(0..) {
        let view = read_tensor(buffer, &tensor, index, types, limits)?;
        if let Some(uid) = tensor.ragged_offset_tensor_uid() {
            ragged.push((TensorIx(index), Uid(uid)));
        }
        if view.has_unknown_fields && unknown.is_none() {
            unknown = Some(label(index, &view).to_string());
        }
        tensors.push(view);
    }
    let by_uid = index_uids(&tensors)?;
    resolve_ragged(&mut tensors, &by_uid, &ragged)?;

    let wire_nodes = root.nodes().unwrap_or_default();
    check_limit("the number of nodes", wire_nodes.len() as u64, "max_nodes", limits.max_nodes as u64)?;
    let n = wire_nodes.len();
    let mut graph = VerifiedGraph {
        root,
        buffer,
        tensors,
        by_uid,
        kinds: Vec::with_capacity(n),
        operands: Vec::with_capacity(n.saturating_mul(3)),
        operand_ends: Vec::with_capacity(n),
        unknown_fields: None,
        limits: *limits,
    };
    for (node, index) in wire_nodes.iter().zip(0..) {
        let (kind, op_unknown) = read_node(&mut graph, &node, index, types, limits)?;
        if (op_unknown || has_unknown_fields(&node._tab, NODE_SLOTS)) && unknown.is_none() {
            unknown = Some(NodeLabel { index, name: node.name().unwrap_or_default().into(), op: kind.name() }.to_string());
        }
    }
    graph.unknown_fields = unknown;
    dataflow::check(&graph)?;
    rules::check(&graph)?;
    Ok(graph)
}

fn check_limit(what: &str, found: u64, limit_name: &'static str, limit: u64) -> Result<(), GraphError> {
    if found > limit { Err(GraphError::Limit { what: what.to_owned(), found, limit_name, limit }) } else { Ok(()) }
}

fn structure<'a>(buffer: &'a [u8], limits: &Limits) -> Result<wire::Graph<'a>, GraphError> {
    // Parts may be shared: by honest writers the vtables, by others everything. What is made of a graph grows with its apparent size.
    let most = usize::try_from(limits.bytes()).unwrap_or(usize::MAX).saturating_mul(4);
    let options = VerifierOptions {
        max_depth: limits.max_depth,
        max_tables: limits.max_tables,
        max_apparent_size: buffer.len().saturating_mul(16).max(64 << 10).min(most),
        ..VerifierOptions::default()
    };
    let over = |what: &str, limit_name, limit: usize| {
        let found = (limit as u64).saturating_add(1);
        Err(GraphError::Limit { what: what.to_owned(), found, limit_name, limit: limit as u64 })
    };
    use flatbuffers::InvalidFlatbuffer as E;
    match flatbuffers::root_with_opts::<GuardedRoot<'a>>(&options, buffer) {
        Ok(root) => Ok(root.0),
        Err(E::TooManyTables) => over("the number of tables", "max_tables", limits.max_tables),
        Err(E::DepthLimitReached) => over("the nesting of tables", "max_depth", limits.max_depth),
        Err(E::ApparentSizeTooLarge) => {
            let what = "the size with shared parts counted as often as used";
            over(what, "16 times the buffer, 4 times max_bytes", options.max_apparent_size)
        }
        Err(error) => Err(GraphError::Structure(error.to_string().trim().replace('\n', "; "))),
    }
}

/// Graph-level types: compute, intermediate, io.
fn default_types(root: &wire::Graph<'_>) -> Result<[DataType; 3], GraphError> {
    let place = || "the graph table".to_owned();
    Ok([
        data_type(place, "compute_data_type", root.compute_data_type())?,
        data_type(place, "intermediate_data_type", root.intermediate_data_type())?,
        data_type(place, "io_data_type", root.io_data_type())?,
    ])
}

fn data_type(place: impl FnOnce() -> String, field: &'static str, wire: wire::DataType) -> Result<DataType, GraphError> {
    DataType::from_wire(wire.0).ok_or_else(|| GraphError::UnknownEnum { place: place(), field, number: wire.0, kind: "DataType" })
}

fn label(index: u32, t: &TensorView<'_>) -> TensorLabel {
    TensorLabel { index, uid: t.uid.0, name: t.name.into() }
}

fn label_at(tensors: &[TensorView<'_>], ix: TensorIx) -> TensorLabel {
    let (uid, name) = tensors.get(ix.index()).map_or((0, ""), |t| (t.uid.0, t.name));
    TensorLabel { index: ix.0, uid, name: name.into() }
}

/// Reads one tensor and checks all that can be said of it alone.
fn read_tensor<'a>(
    buffer: &[u8],
    wire: &wire::TensorAttributes<'a>,
    index: u32,
    [_, intermediate, io]: [DataType; 3],
    limits: &Limits,
) -> Result<TensorView<'a>, GraphError> {
    let list = |v| ops::slice::<i64, i64>(v).map_err(|_| GraphError::Misaligned);
    let name = wire.name().unwrap_or_default();
    let tensor = || TensorLabel { index, uid: wire.uid(), name: name.into() };
    let (dims, strides) = (list(wire.dims())?, list(wire.strides())?);
    let is_virtual = wire.virtual_();
    let is_runtime = wire.is_runtime_pass_by_value();

    let stated = data_type(|| tensor().to_string(), "data_type", wire.data_type())?;
    let (default, default_name) = if is_virtual { (intermediate, "intermediate_data_type") } else { (io, "io_data_type") };
    let dtype = if stated == DataType::Unset { default } else { stated };
    if dtype == DataType::Unset {
        return Err(GraphError::TensorTypeUnset { tensor: tensor(), default: default_name });
    }

    check_shape(&tensor, dims, strides, limits)?;
    let value = tensor_value::read(buffer, wire).map_err(|error| GraphError::Value { tensor: tensor(), error })?;
    if is_virtual && is_runtime {
        return Err(GraphError::VirtualRuntime { tensor: tensor() });
    }
    if is_virtual && value.is_some() {
        return Err(GraphError::VirtualValue { tensor: tensor() });
    }
    let alignment = wire.alignment();
    if alignment < 0 {
        return Err(GraphError::Alignment { tensor: tensor(), found: alignment });
    }
    let view = TensorView {
        uid: Uid(wire.uid()),
        name,
        dtype,
        dims,
        strides,
        is_virtual,
        value,
        is_runtime,
        ragged_offset: None,
        alignment,
        ragged_multiplier: wire.ragged_offset_multiplier(),
        has_unknown_fields: has_unknown_fields(&wire._tab, TENSOR_SLOTS),
    };
    if view.is_by_value() && view.elements() != 1 {
        return Err(GraphError::ScalarElements { tensor: tensor(), elements: view.elements() });
    }
    Ok(view)
}

fn check_shape(tensor: &impl Fn() -> TensorLabel, dims: &[i64], strides: &[i64], limits: &Limits) -> Result<(), GraphError> {
    if dims.is_empty() {
        return Err(GraphError::NoDims { tensor: tensor() });
    }
    if dims.len() != strides.len() {
        return Err(GraphError::StrideCount { tensor: tensor(), dims: dims.len(), strides: strides.len() });
    }
    if dims.len() > limits.rank() {
        let what = format!("the rank of {}", tensor());
        return Err(GraphError::Limit { what, found: dims.len() as u64, limit_name: "max_rank", limit: limits.rank() as u64 });
    }
    let mut elements: u64 = 1;
    let mut span: u64 = 1;
    for (axis, (&dim, &stride)) in dims.iter().zip(strides).enumerate() {
        if dim < 1 {
            return Err(GraphError::Dim { tensor: tensor(), axis, found: dim });
        }
        if stride < 0 {
            return Err(GraphError::Stride { tensor: tensor(), axis, found: stride });
        }
        // Both are non-negative, so the conversions are exact.
        elements = elements.saturating_mul(dim as u64);
        span = span.saturating_add((dim as u64).saturating_sub(1).saturating_mul(stride as u64));
    }
    for (what, found) in [("number of elements", elements), ("span in elements", span)] {
        if found > limits.max_elements {
            let what = format!("the {what} of {}", tensor());
            return Err(GraphError::Limit { what, found, limit_name: "max_elements", limit: limits.max_elements });
        }
    }
    Ok(())
}

fn index_uids(tensors: &[TensorView<'_>]) -> Result<Vec<(Uid, TensorIx)>, GraphError> {
    let mut by_uid: Vec<_> = tensors.iter().zip(0..).map(|(t, i)| (t.uid, TensorIx(i))).collect();
    by_uid.sort_unstable();
    for (&(uid, first), &(next, second)) in by_uid.iter().zip(by_uid.iter().skip(1)) {
        if uid == next {
            return Err(GraphError::DuplicateUid { first: label_at(tensors, first), second: label_at(tensors, second) });
        }
    }
    Ok(by_uid)
}

/// Finds the offsets of ragged tensors, and checks that they are offsets.
fn resolve_ragged(tensors: &mut [TensorView<'_>], by_uid: &[(Uid, TensorIx)], ragged: &[(TensorIx, Uid)]) -> Result<(), GraphError> {
    for &(ix, uid) in ragged {
        let tensor = || label_at(tensors, ix);
        let missing = || GraphError::RaggedMissing { tensor: tensor(), uid: uid.0 };
        let at = find(by_uid, uid).ok_or_else(missing)?;
        let (Some(view), Some(found)) = (tensors.get(ix.index()), tensors.get(at.index())) else { return Err(missing()) };
        let offsets = || label(at.0, found);
        if found.is_virtual {
            return Err(GraphError::RaggedVirtual { tensor: tensor(), offsets: offsets() });
        }
        // The list ascends by position.
        if ragged.binary_search_by_key(&at, |&(ix, _)| ix).is_ok() {
            return Err(GraphError::RaggedNested { tensor: tensor(), offsets: offsets() });
        }
        if !matches!(found.dtype, DataType::Int32 | DataType::Int64) {
            return Err(GraphError::RaggedType { tensor: tensor(), offsets: offsets(), found: found.dtype });
        }
        let expected = view.dims.first().map_or(1, |batch| batch.unsigned_abs().saturating_add(1));
        if found.elements() != expected {
            return Err(GraphError::RaggedCount { tensor: tensor(), offsets: offsets(), found: found.elements(), expected });
        }
        if view.ragged_multiplier < 1 {
            return Err(GraphError::RaggedMultiplier { tensor: tensor(), found: view.ragged_multiplier });
        }
        if let Some(view) = tensors.get_mut(ix.index()) {
            view.ragged_offset = Some(at);
        }
    }
    Ok(())
}

/// Reads one node and resolves its operands; tells its operation, and whether that holds unknown fields.
fn read_node(
    graph: &mut VerifiedGraph<'_>,
    node: &wire::Node<'_>,
    index: u32,
    [compute, _, _]: [DataType; 3],
    limits: &Limits,
) -> Result<(OpKind, bool), GraphError> {
    let name = || node.name().unwrap_or_default().to_owned();
    let (op, unknown) = Op::read(node).map_err(|error| match error {
        ReadOpError::UnknownTag(0) | ReadOpError::Missing(_) => GraphError::NoOperation { index, name: name() },
        ReadOpError::UnknownTag(tag) => GraphError::UnknownOperation { index, name: name(), tag },
        ReadOpError::Field { error: WireValueError::Misaligned, .. } => GraphError::Misaligned,
        ReadOpError::Field { kind, field, error: WireValueError::UnknownEnum { number, kind: enum_name } } => {
            let place = NodeLabel { index, name: name().into(), op: kind.name() }.to_string();
            GraphError::UnknownEnum { place, field, number, kind: enum_name }
        }
    })?;
    let kind = op.kind();
    let node_label = || NodeLabel { index, name: name().into(), op: kind.name() };
    let stated = data_type(|| node_label().to_string(), "compute_data_type", node.compute_data_type())?;
    if stated == DataType::Unset && compute == DataType::Unset {
        return Err(GraphError::ComputeTypeUnset { node: node_label() });
    }
    let mut dangling = None;
    let mut found = graph.operands.len();
    let (by_uid, operands) = (&graph.by_uid, &mut graph.operands);
    op.operands(|used| {
        found = found.saturating_add(1);
        if found > limits.max_operands {
            return;
        }
        match find(by_uid, used.uid) {
            Some(tensor) => operands.push(OperandRef { tensor, slot: used.slot, role: used.role }),
            None => dangling = dangling.or(Some(used)),
        }
    });
    check_limit("the number of operands", found as u64, "max_operands", limits.max_operands as u64)?;
    if let Some(used) = dangling {
        let slot = kind.fields().get(usize::from(used.slot)).map_or("", |f| f.name);
        return Err(GraphError::DanglingUid { node: node_label(), slot, uid: used.uid.0 });
    }
    graph.kinds.push(kind);
    // Operands are a part of the buffer, whose size is limited far below 2^32.
    graph.operand_ends.push(graph.operands.len() as u32);
    Ok((kind, unknown))
}
