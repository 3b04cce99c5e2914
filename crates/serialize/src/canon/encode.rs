//! Graph to canonical encoding.

use super::{Canonical, MAGIC, NoKey, VERSION, flag};
use crate::graph::{TensorIx, TensorView, VerifiedGraph};
use crate::{GraphKey, Uid};

/// Appends fields. Operands are written as ordinals that were looked up before: one call each, in slot order.
pub(crate) struct Encoder<'o> {
    out: Vec<u8>,
    ordinals: std::slice::Iter<'o, u32>,
}

impl Encoder<'_> {
    pub(crate) fn i8(&mut self, v: i8) {
        self.out.extend_from_slice(&v.to_le_bytes());
    }

    pub(crate) fn i32(&mut self, v: i32) {
        self.out.extend_from_slice(&v.to_le_bytes());
    }

    pub(crate) fn i64(&mut self, v: i64) {
        self.out.extend_from_slice(&v.to_le_bytes());
    }

    pub(crate) fn f32(&mut self, v: f32) {
        self.u32(v.to_bits());
    }

    pub(crate) fn bool(&mut self, v: bool) {
        self.out.push(u8::from(v));
    }

    pub(crate) fn presence(&mut self, v: bool) {
        self.bool(v);
    }

    fn u32(&mut self, v: u32) {
        self.out.extend_from_slice(&v.to_le_bytes());
    }

    /// Counts are bounded by the size of the buffer that was verified, which is far below 2^32.
    fn count(&mut self, n: usize) {
        self.u32(n as u32);
    }

    pub(crate) fn bytes(&mut self, v: &[u8]) {
        self.count(v.len());
        self.out.extend_from_slice(v);
    }

    pub(crate) fn i64s(&mut self, v: &[i64]) {
        self.count(v.len());
        self.out.extend_from_slice(bytemuck::cast_slice(v));
    }

    pub(crate) fn i32s(&mut self, v: &[i32]) {
        self.count(v.len());
        self.out.extend_from_slice(bytemuck::cast_slice(v));
    }

    pub(crate) fn operand(&mut self, _: Uid) {
        let ordinal = self.ordinals.next().copied().unwrap_or(u32::MAX);
        debug_assert_ne!(ordinal, u32::MAX, "every operand was numbered");
        self.u32(ordinal);
    }

    pub(crate) fn operands(&mut self, uids: &[Uid]) {
        self.count(uids.len());
        for uid in uids {
            self.operand(*uid);
        }
    }

    /// Writes a record behind its length.
    fn record(&mut self, body: impl FnOnce(&mut Self)) {
        let at = self.out.len();
        self.u32(0);
        body(self);
        let len = (self.out.len() - at - 4) as u32;
        self.out[at..at + 4].copy_from_slice(&len.to_le_bytes());
    }

    fn tensor(&mut self, t: &TensorView<'_>, ragged: Option<u32>) {
        // Every field by name: whoever adds one decides here whether it is part of what a graph computes.
        let TensorView {
            uid: _,
            name: _,
            dtype,
            dims,
            strides,
            is_virtual,
            value,
            is_runtime,
            ragged_offset: _,
            alignment,
            ragged_multiplier,
            has_unknown_fields: _,
        } = t;
        self.i8(dtype.to_wire());
        let mut flags = 0;
        flags |= if *is_virtual { flag::VIRTUAL } else { 0 };
        flags |= if *is_runtime { flag::RUNTIME } else { 0 };
        flags |= if value.is_some() { flag::VALUE } else { 0 };
        flags |= if ragged.is_some() { flag::RAGGED } else { 0 };
        self.out.push(flags);
        self.out.push(value.map_or(0, |v| v.tag()));
        self.out.push(dims.len() as u8);
        self.i64(*alignment);
        self.i64(*ragged_multiplier);
        if let Some(value) = value {
            self.out.extend_from_slice(&value.bits().to_le_bytes());
        }
        if let Some(ordinal) = ragged {
            self.u32(ordinal);
        }
        self.out.extend_from_slice(bytemuck::cast_slice(dims));
        let outermost = stride_of_unit_dims(dims, strides);
        for (&dim, &stride) in dims.iter().zip(*strides) {
            self.i64(if dim == 1 { outermost } else { stride });
        }
    }
}

/// What replaces the stride of a dimension of size 1, which addresses nothing.
pub(crate) fn stride_of_unit_dims(dims: &[i64], strides: &[i64]) -> i64 {
    let spans = dims.iter().zip(strides).filter(|&(&dim, _)| dim > 1).map(|(&dim, &stride)| dim.saturating_mul(stride));
    spans.max().unwrap_or(1).max(1)
}

/// Which tensors have a place in the encoding: operands, and the offsets of ragged operands.
pub(crate) fn used_tensors(graph: &VerifiedGraph<'_>) -> Vec<bool> {
    let mut used = vec![false; graph.tensors().len()];
    for operand in graph.all_operands() {
        used[operand.tensor.index()] = true;
        if let Some(offsets) = graph.tensor(operand.tensor).ragged_offset {
            used[offsets.index()] = true;
        }
    }
    used
}

/// The canonical form of a graph.
pub(crate) fn encode(graph: &VerifiedGraph<'_>) -> Result<Canonical, NoKey> {
    if let Some(place) = graph.unknown_fields() {
        return Err(NoKey { place });
    }

    // Number tensors in the order in which operands name them.
    const NONE: u32 = u32::MAX;
    let mut ordinal_of = vec![NONE; graph.tensors().len()];
    let mut order: Vec<TensorIx> = Vec::with_capacity(graph.tensors().len());
    let mut ordinals: Vec<u32> = Vec::with_capacity(graph.all_operands().len());
    for operand in graph.all_operands() {
        let mut next = Some(operand.tensor);
        while let Some(ix) = next.filter(|ix| ordinal_of[ix.index()] == NONE) {
            ordinal_of[ix.index()] = order.len() as u32;
            order.push(ix);
            next = graph.tensor(ix).ragged_offset;
        }
        ordinals.push(ordinal_of[operand.tensor.index()]);
    }

    let mut out = Encoder { out: Vec::with_capacity(64 + order.len() * 96 + graph.node_count() * 96), ordinals: ordinals.iter() };
    out.out.extend_from_slice(&MAGIC);
    out.u32(VERSION);
    out.u32(u32::from(graph.is_override_shape_enabled()));
    out.count(order.len());
    for &ix in &order {
        let tensor = graph.tensor(ix);
        let ragged = tensor.ragged_offset.map(|ix| ordinal_of[ix.index()]);
        out.record(|out| out.tensor(tensor, ragged));
    }
    out.count(graph.node_count());
    for node in graph.nodes() {
        out.record(|out| {
            let op = graph.op(node);
            out.out.push(op.kind().tag());
            out.i8(graph.compute_type(node).to_wire());
            op.encode(out);
        });
    }
    let encoding = out.out;
    let key = GraphKey::of_encoding(&encoding);
    let uids = order.iter().map(|&ix| graph.tensor(ix).uid).collect();
    Ok(Canonical { encoding, key, uids, limits: *graph.limits() })
}
