//! Execute-time shapes (C10): the same graph with smaller dims, and other strides, for some of its tensors.
//!
//! The semantics are those of hipDNN's RFC 0008: the dims that a graph states are the largest that an execution may have. What is given
//! for tensors in memory decides the dims of the virtual tensors between them ([`derive`]); those keep their strides, so that they lie
//! where the plan has put them. The result is a graph like any other, and the rules of G6 decide whether all fits together.

mod derive;

use super::view::{GraphBuf, TensorIx, VerifiedGraph};
use crate::builder::{GraphBuilder, TensorAttributes};
use crate::canon::NoKey;
use crate::error::{NodeLabel, TensorLabel};
use crate::ops::Uid;
use crate::{GraphError, Limits};

/// The shape of one tensor in one execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShapeOverride<'o> {
    /// The tensor's uid.
    pub uid: Uid,
    /// Its dims: as many as the graph states, each from 1 to what the graph states.
    pub dims: &'o [i64],
    /// Its strides in elements, one per dim, each at least 1.
    pub strides: &'o [i64],
}

/// Why a graph cannot have the shapes that were given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the message of each variant says what its fields are")]
pub enum ReshapeError {
    /// The graph has not opted in.
    #[error(
        "override shapes: the graph has fixed shapes; build it with is_override_shape_enabled (GraphBuilder::set_override_shape_enabled)"
    )]
    NotEnabled,
    /// A uid that no tensor of the graph has.
    #[error("override shapes: uid {uid} is no tensor of the graph")]
    UnknownUid { uid: i64 },
    /// Two shapes for one tensor.
    #[error("override shapes: {tensor} is overridden twice")]
    Twice { tensor: TensorLabel },
    /// A virtual tensor, whose dims follow from what its node reads.
    #[error("override shapes: {tensor} is virtual; override the tensors that it is computed from")]
    Virtual { tensor: TensorLabel },
    /// A host scalar.
    #[error("override shapes: {tensor} is passed by value; a host scalar has one element and no shape to override")]
    ByValue { tensor: TensorLabel },
    /// Another number of dims than the graph states.
    #[error("override shapes: {tensor} has {found} dims, the graph states {declared}; the rank is fixed")]
    Rank { tensor: TensorLabel, found: usize, declared: usize },
    /// Dims and strides differ in number.
    #[error("override shapes: {tensor} has {found} strides for {dims} dims; there must be one each")]
    StrideCount { tensor: TensorLabel, found: usize, dims: usize },
    /// A dim below 1.
    #[error("override shapes: {tensor}: dim {axis} is {found}, expected at least 1")]
    Dim { tensor: TensorLabel, axis: usize, found: i64 },
    /// A dim above the one that the graph states.
    #[error("override shapes: {tensor}: dim {axis} is {found}, the graph states {declared}, which is the largest that it may be")]
    AboveDeclared { tensor: TensorLabel, axis: usize, found: i64, declared: i64 },
    /// A stride below 1.
    #[error("override shapes: {tensor}: stride {axis} is {found}, expected at least 1")]
    Stride { tensor: TensorLabel, axis: usize, found: i64 },
    /// The dims of a virtual tensor that do not follow from what its node reads.
    #[error(
        "override shapes: {tensor} is virtual, and its dims do not follow from the new shapes that {node} reads; \
         make it an ordinary tensor and override it"
    )]
    Underived { tensor: TensorLabel, node: NodeLabel },
    /// A virtual tensor that would outgrow its place.
    #[error(
        "override shapes: {tensor} is virtual, and its dim {axis} becomes {found} by the new shapes that {node} reads; \
         the graph states {declared}, which is the largest that it may be"
    )]
    DerivedAboveDeclared { tensor: TensorLabel, node: NodeLabel, axis: usize, found: i64, declared: i64 },
    /// A tensor that would be repeated to the size of another, which the graph states as large.
    #[error(
        "override shapes: dim {axis} of {tensor} becomes 1, and {other} keeps {found} there, so that {node} would repeat the one for the \
         other; the graph states {declared} for both: override both, or state 1"
    )]
    Repeated { tensor: TensorLabel, node: NodeLabel, axis: usize, other: Box<TensorLabel>, found: i64, declared: i64 },
    /// A graph with fields that this version does not know, which a copy would lack.
    #[error("override shapes: {0}")]
    UnknownFields(NoKey),
    /// Each shape may be, and together they break a rule of the graph.
    #[error("override shapes: with the new shapes: {0}")]
    Graph(GraphError),
}

impl VerifiedGraph<'_> {
    /// The graph with these shapes: dims and strides of the tensors named, and the dims of virtual tensors that follow from them. Uids,
    /// names, order and all else stay. Without an override it is the same graph again, whether it has opted in or not.
    ///
    /// # Errors
    /// The first override that breaks a rule of its own; a virtual tensor whose dims are not certain, or a broadcast that the graph does not
    /// state; then what the new graph breaks.
    pub fn reshape(&self, overrides: &[ShapeOverride<'_>]) -> Result<GraphBuf, ReshapeError> {
        if !overrides.is_empty() && !self.is_override_shape_enabled() {
            return Err(ReshapeError::NotEnabled);
        }
        if let Some(place) = self.unknown_fields() {
            return Err(ReshapeError::UnknownFields(NoKey { place }));
        }
        let mut shapes: Vec<Shape<'_>> = self.tensors().iter().map(|t| Shape { dims: t.dims.to_vec(), strides: t.strides }).collect();
        let mut is_overridden = vec![false; shapes.len()];
        for given in overrides {
            let ix = self.find(given.uid).ok_or(ReshapeError::UnknownUid { uid: given.uid.0 })?;
            check(self, ix, given)?;
            if is_overridden.get_mut(ix.index()).is_none_or(|done| std::mem::replace(done, true)) {
                return Err(ReshapeError::Twice { tensor: self.tensor_label(ix) });
            }
            if let Some(shape) = shapes.get_mut(ix.index()) {
                *shape = Shape { dims: given.dims.to_vec(), strides: given.strides };
            }
        }
        derive::derive(self, &mut shapes)?;
        rebuild(self, &shapes, self.limits()).map_err(ReshapeError::Graph)
    }
}

/// A tensor's shape while it is being found.
struct Shape<'s> {
    dims: Vec<i64>,
    strides: &'s [i64],
}

/// What an override must keep to, whatever the others say.
fn check(graph: &VerifiedGraph<'_>, ix: TensorIx, given: &ShapeOverride<'_>) -> Result<(), ReshapeError> {
    let declared = graph.tensor(ix);
    let tensor = || graph.tensor_label(ix);
    if declared.is_virtual {
        return Err(ReshapeError::Virtual { tensor: tensor() });
    }
    if declared.is_by_value() {
        return Err(ReshapeError::ByValue { tensor: tensor() });
    }
    let (dims, strides) = (given.dims, given.strides);
    if dims.len() != declared.dims.len() {
        return Err(ReshapeError::Rank { tensor: tensor(), found: dims.len(), declared: declared.dims.len() });
    }
    if strides.len() != dims.len() {
        return Err(ReshapeError::StrideCount { tensor: tensor(), found: strides.len(), dims: dims.len() });
    }
    for (axis, (&found, &declared)) in dims.iter().zip(declared.dims).enumerate() {
        if found < 1 {
            return Err(ReshapeError::Dim { tensor: tensor(), axis, found });
        }
        if found > declared {
            return Err(ReshapeError::AboveDeclared { tensor: tensor(), axis, found, declared });
        }
    }
    match strides.iter().enumerate().find(|&(_, &stride)| stride < 1) {
        Some((axis, &found)) => Err(ReshapeError::Stride { tensor: tensor(), axis, found }),
        None => Ok(()),
    }
}

/// Writes the graph again with other shapes, and checks it.
fn rebuild(graph: &VerifiedGraph<'_>, shapes: &[Shape<'_>], limits: &Limits) -> Result<GraphBuf, GraphError> {
    let mut builder = GraphBuilder::new();
    let [compute, intermediate, io] = graph.default_types();
    builder.set_name(graph.name()).set_types(compute, intermediate, io).set_id(graph.id());
    builder.set_preferred_engine_id(graph.preferred_engine_id()).set_override_shape_enabled(graph.is_override_shape_enabled());
    for (tensor, shape) in graph.tensors().iter().zip(shapes) {
        let mut attributes = TensorAttributes::new();
        attributes.set_uid(tensor.uid).set_name(tensor.name).set_data_type(tensor.dtype).set_virtual(tensor.is_virtual);
        attributes.set_raw_value(tensor.value).set_is_pass_by_value(tensor.is_runtime);
        attributes.set_ragged_offset(tensor.ragged_offset.map(|ix| graph.tensor(ix).uid)).set_ragged_multiplier(tensor.ragged_multiplier);
        attributes.set_alignment(tensor.alignment).set_dims(&shape.dims).set_strides(shape.strides);
        builder.tensor(attributes);
    }
    for node in graph.nodes() {
        builder.node(graph.node_name(node), graph.compute_type(node), graph.op(node));
    }
    builder.build_with(limits)
}
