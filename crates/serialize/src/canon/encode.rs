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
        let start = self.out.len();
        body(self);
        let len = self.out.len().saturating_sub(start) as u32;
        if let Some(place) = self.out.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
            *place = len.to_le_bytes();
        }
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
        for stride in canonical_strides(dims, strides) {
            self.i64(stride);
        }
    }
}

/// Strides as they are encoded: that of a dimension of size 1, which addresses nothing, is replaced by the outermost span.
pub(crate) fn canonical_strides<'t>(dims: &'t [i64], strides: &'t [i64]) -> impl Iterator<Item = i64> + 't {
    let spans = dims.iter().zip(strides).filter(|&(&dim, _)| dim > 1).map(|(&dim, &stride)| dim.saturating_mul(stride));
    let outermost = spans.max().unwrap_or(1).max(1);
    dims.iter().zip(strides).map(move |(&dim, &stride)| if dim == 1 { outermost } else { stride })
}

/// The tensors that have a place in the encoding: operands, and the offsets of ragged operands.
pub(crate) struct UsedTensors(Vec<bool>);

impl UsedTensors {
    pub(crate) fn of(graph: &VerifiedGraph<'_>) -> Self {
        let mut used = vec![false; graph.tensors().len()];
        for operand in graph.all_operands() {
            for ix in [Some(operand.tensor), graph.tensor(operand.tensor).ragged_offset].into_iter().flatten() {
                if let Some(used) = used.get_mut(ix.index()) {
                    *used = true;
                }
            }
        }
        Self(used)
    }

    pub(crate) fn contains(&self, ix: TensorIx) -> bool {
        self.0.get(ix.index()).copied().unwrap_or(false)
    }
}

/// The canonical form of a graph.
pub(crate) fn encode(graph: &VerifiedGraph<'_>) -> Result<Canonical, NoKey> {
    if let Some(place) = graph.unknown_fields() {
        return Err(NoKey { place });
    }

    // Number tensors in the order in which operands name them.
    const NONE: u32 = u32::MAX;
    let ordinal = |ordinal_of: &[u32], ix: TensorIx| ordinal_of.get(ix.index()).copied().unwrap_or(NONE);
    let mut ordinal_of = vec![NONE; graph.tensors().len()];
    let mut order: Vec<TensorIx> = Vec::with_capacity(graph.tensors().len());
    let mut ordinals: Vec<u32> = Vec::with_capacity(graph.all_operands().len());
    for operand in graph.all_operands() {
        let mut next = Some(operand.tensor);
        while let Some(ix) = next
            && let Some(ordinal) = ordinal_of.get_mut(ix.index()).filter(|ordinal| **ordinal == NONE)
        {
            *ordinal = order.len() as u32;
            order.push(ix);
            next = graph.tensor(ix).ragged_offset;
        }
        ordinals.push(ordinal(&ordinal_of, operand.tensor));
    }

    let room = order.len().saturating_add(graph.node_count()).saturating_mul(96).saturating_add(64);
    let mut out = Encoder { out: Vec::with_capacity(room), ordinals: ordinals.iter() };
    out.out.extend_from_slice(&MAGIC);
    out.u32(VERSION);
    out.u32(u32::from(graph.is_override_shape_enabled()));
    out.count(order.len());
    for &ix in &order {
        let tensor = graph.tensor(ix);
        let ragged = tensor.ragged_offset.map(|ix| ordinal(&ordinal_of, ix));
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
