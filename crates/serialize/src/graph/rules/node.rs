//! A node whose rules are being checked.

use super::Slot;
use crate::graph::view::{NodeIx, TensorIx, TensorView, VerifiedGraph};
use crate::ops::{Op, OpKind};
use std::cell::OnceCell;

/// More than the operands of any operation; what stands behind them are attributes.
const OPERAND_SLOTS: usize = 32;

/// No tensor in this slot.
const NONE: u32 = u32::MAX;

/// A node, with its operands by slot.
pub(super) struct Node<'g, 'a> {
    pub(super) graph: &'g VerifiedGraph<'a>,
    pub(super) ix: NodeIx,
    pub(super) kind: OpKind,
    /// Tensor of each slot; of a list the last. Rules do not speak of lists.
    tensors: [u32; OPERAND_SLOTS],
    /// The attributes are read only if a rule asks for them.
    op: OnceCell<Option<Op<'a>>>,
}

impl<'g, 'a> Node<'g, 'a> {
    pub(super) fn new(graph: &'g VerifiedGraph<'a>, ix: NodeIx) -> Self {
        let mut tensors = [NONE; OPERAND_SLOTS];
        for operand in graph.operands(ix) {
            if let Some(t) = tensors.get_mut(usize::from(operand.slot)) {
                *t = operand.tensor.0;
            }
        }
        Self { graph, ix, kind: graph.kind(ix), tensors, op: OnceCell::new() }
    }

    /// The node's operation.
    pub(super) fn op(&self) -> Option<&Op<'a>> {
        self.op.get_or_init(|| self.graph.read_op(self.ix)).as_ref()
    }

    pub(super) fn ix(&self, slot: Slot) -> Option<TensorIx> {
        self.tensors.get(usize::from(slot)).copied().filter(|&t| t != NONE).map(TensorIx)
    }

    pub(super) fn has(&self, slot: Slot) -> bool {
        self.ix(slot).is_some()
    }

    pub(super) fn tensor(&self, slot: Slot) -> Option<&'g TensorView<'a>> {
        self.ix(slot).and_then(|ix| self.graph.tensors().get(ix.index()))
    }

    pub(super) fn dims(&self, slot: Slot) -> Option<&'a [i64]> {
        self.tensor(slot).map(|t| t.dims)
    }

    /// The dims of two operands, if both are there.
    pub(super) fn pair(&self, a: Slot, b: Slot) -> Option<(&'a [i64], &'a [i64])> {
        Some((self.dims(a)?, self.dims(b)?))
    }

    /// A field's name.
    pub(super) fn name(&self, slot: Slot) -> &'static str {
        self.kind.fields().get(usize::from(slot)).map_or("", |f| f.name)
    }
}
