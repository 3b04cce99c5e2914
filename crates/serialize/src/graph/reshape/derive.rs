//! Dims of virtual tensors from those of what their nodes read, where an execution gives other dims than the graph states.
//!
//! What a rule of the graph leaves open, such as the image of a strided convolution that has a gradient of some size, is not guessed:
//! the declared dims stand while nothing that the node reads has changed, or only the batch where it is certain what a batch does.

use super::{ReshapeError, Shape};
use crate::MoeGroupedMatmulMode;
use crate::graph::view::{NodeIx, OperandRef, VerifiedGraph};
use crate::ops::{FieldRole, Op, Uid};

/// Gives every virtual tensor its dims; `shapes` are the graph's tensors, in order, and hold those of the others.
pub(super) fn derive(graph: &VerifiedGraph<'_>, shapes: &mut [Shape<'_>]) -> Result<(), ReshapeError> {
    for node in graph.nodes() {
        let has_changed = Node { graph, node, shapes }.inputs().any(|input| input.has_changed());
        if !has_changed {
            continue;
        }
        for output in graph.operands(node).iter().filter(|o| o.role == FieldRole::Output) {
            let declared = graph.tensor(output.tensor);
            if !declared.is_virtual {
                continue;
            }
            let place = || (graph.tensor_label(output.tensor), graph.node_label(node));
            let dims = Node { graph, node, shapes }.output(graph.slot_name(node, output), declared.dims);
            let Some(dims) = dims.filter(|dims| dims.len() == declared.dims.len()) else {
                let (tensor, node) = place();
                return Err(ReshapeError::Underived { tensor, node });
            };
            if let Some((axis, (&found, &declared))) = dims.iter().zip(declared.dims).enumerate().find(|&(_, (now, most))| now > most) {
                let (tensor, node) = place();
                return Err(ReshapeError::DerivedAboveDeclared { tensor, node, axis, found, declared });
            }
            if let Some(shape) = shapes.get_mut(output.tensor.index()) {
                shape.dims = dims;
            }
        }
        Node { graph, node, shapes }.check_repeated()?;
    }
    Ok(())
}

/// Dims of a tensor as the graph states them and as they are in this execution. Of one length.
#[derive(Clone, Copy)]
struct Dims<'s> {
    was: &'s [i64],
    now: &'s [i64],
}

impl Dims<'_> {
    fn has_changed(&self) -> bool {
        self.was != self.now
    }

    /// Whether a dim behind the first differs.
    fn has_changed_behind_batch(&self) -> bool {
        self.was.get(1..) != self.now.get(1..)
    }

    /// Sizes, before and now, at this distance from the last dim; 1 where there is none.
    fn at_distance(&self, distance: usize) -> (i64, i64) {
        let at = |dims: &[i64]| dims.iter().rev().nth(distance).copied().unwrap_or(1);
        (at(self.was), at(self.now))
    }
}

/// A node, with the dims that are known when it is its turn.
struct Node<'n, 'a> {
    graph: &'n VerifiedGraph<'a>,
    node: NodeIx,
    shapes: &'n [Shape<'n>],
}

impl<'n> Node<'n, '_> {
    fn dims(&self, operand: &OperandRef) -> Option<Dims<'n>> {
        let now = &self.shapes.get(operand.tensor.index())?.dims;
        Some(Dims { was: self.graph.tensor(operand.tensor).dims, now })
    }

    fn inputs(&self) -> impl Iterator<Item = Dims<'n>> {
        self.graph.operands(self.node).iter().filter(|o| o.role == FieldRole::Input).filter_map(|o| self.dims(o))
    }

    fn of(&self, uid: Uid) -> Option<Dims<'n>> {
        let ix = self.graph.find(uid)?;
        Some(Dims { was: self.graph.tensor(ix).dims, now: &self.shapes.get(ix.index())?.dims })
    }

    /// The dims of an output that the graph states as `out`; nothing where they are not certain.
    fn output(&self, slot: &str, out: &[i64]) -> Option<Vec<i64>> {
        match (self.graph.op(self.node), slot) {
            (Op::ConvolutionFwd(op), _) => {
                let slide = Slide { pre: op.pre_padding, post: op.post_padding, stride: op.stride, dilation: op.dilation };
                slide.convolved(self.of(op.x)?.now, self.of(op.w)?.now)
            }
            (Op::ConvolutionBwd(op), _) => self.batched(out, self.of(op.dy)?),
            // The batch is summed over.
            (Op::ConvolutionWrw(op), _) => self.only_batch_changes(self.of(op.x)?).then(|| out.to_vec()),
            (Op::Pointwise(_), _) => self.broadcast(out),
            (Op::Matmul(op), _) => Some(product(out.len(), self.of(op.a)?, self.of(op.b)?)),
            (Op::BatchnormInference(op), _) => Some(self.of(op.x)?.now.to_vec()),
            (Op::BatchnormInferenceVariance(op), _) => Some(self.of(op.x)?.now.to_vec()),
            (Op::Batchnorm(op), "y") => Some(self.of(op.x)?.now.to_vec()),
            (Op::Batchnorm(op), _) => per_channel(out, self.of(op.x)?),
            (Op::BatchnormBackward(op), "dx") => Some(self.of(op.x)?.now.to_vec()),
            (Op::BatchnormBackward(op), _) => per_channel(out, self.of(op.x)?),
            (Op::Layernorm(op), "y") => Some(self.of(op.x)?.now.to_vec()),
            (Op::Layernorm(op), _) => kept_or_one(out, self.of(op.x)?),
            (Op::LayernormBackward(op), "dx") => Some(self.of(op.x)?.now.to_vec()),
            (Op::LayernormBackward(op), _) => Some(self.of(op.scale)?.now.to_vec()),
            (Op::RmsNorm(op), "y") => Some(self.of(op.x)?.now.to_vec()),
            // Of fewer dims, it might be aligned with the last ones or be one value per channel.
            (Op::RmsNorm(op), _) => self.of(op.x).filter(|x| x.was.len() == out.len()).and_then(|x| kept_or_one(out, x)),
            (Op::RmsNormBackward(op), "dx") => Some(self.of(op.x)?.now.to_vec()),
            (Op::RmsNormBackward(op), _) => Some(self.of(op.scale)?.now.to_vec()),
            (Op::Reduction(op), _) => kept_or_one(out, self.of(op.input)?),
            (Op::ResampleFwd(op), _) => pooled(out, self.of(op.x)?),
            (Op::ResampleBwd(op), _) => pooled(out, self.of(op.dy)?),
            (Op::Sdpa(op), "o") => {
                let (q, v) = (self.of(op.q)?.now, self.of(op.v)?.now);
                Some([q.get(..3)?, v.get(3..)?].concat())
            }
            (Op::Sdpa(op), "stats" | "max" | "sum_exp") => self.batched(out, self.of(op.q)?),
            (Op::SdpaBackward(op), "dq") => Some(self.of(op.q)?.now.to_vec()),
            (Op::SdpaBackward(op), "dk") => Some(self.of(op.k)?.now.to_vec()),
            (Op::SdpaBackward(op), "dv") => Some(self.of(op.v)?.now.to_vec()),
            (Op::BlockScaleDequantize(op), _) => Some(self.of(op.x)?.now.to_vec()),
            (Op::BlockScaleQuantize(op), "y") => Some(self.of(op.x)?.now.to_vec()),
            // The batch has a scale per element unless the blocks lie along it.
            (Op::BlockScaleQuantize(op), _) => match op.axis {
                Some(0) => None,
                None if out.len() < 2 => None,
                _ => self.batched(out, self.of(op.x)?),
            },
            (Op::MoeGroupedMatmul(op), _) => {
                let rows = if op.mode == MoeGroupedMatmulMode::Gather { self.of(op.token_index?)? } else { self.of(op.token)? };
                Some(vec![1, *rows.now.get(1)?, *self.of(op.weight)?.now.get(2)?])
            }
            (Op::Sdpa(_) | Op::SdpaBackward(_) | Op::MoeGroupedMatmulBwd(_) | Op::CustomOp(_), _) => None,
        }
    }

    /// Whether all that differs among the inputs is their batch, and that as in `data`.
    fn only_batch_changes(&self, data: Dims<'_>) -> bool {
        let is_batch = |input: Dims<'_>| {
            !input.has_changed_behind_batch() && input.was.first() == data.was.first() && input.now.first() == data.now.first()
        };
        self.inputs().filter(Dims::has_changed).all(is_batch)
    }

    /// The declared dims behind the batch of `data`, if nothing but the batch differs.
    fn batched(&self, out: &[i64], data: Dims<'_>) -> Option<Vec<i64>> {
        let mut dims = out.to_vec();
        let batch = dims.first_mut().filter(|batch| Some(&**batch) == data.was.first())?;
        *batch = *data.now.first()?;
        self.only_batch_changes(data).then_some(dims)
    }

    /// Refuses an input that would be repeated along an axis where the graph states it as large as the result: a shape has been forgotten then,
    /// and the rules of a broadcast would not notice.
    fn check_repeated(&self) -> Result<(), ReshapeError> {
        // Behind the batch of a product stand its rows and columns, which nothing repeats.
        let (out, behind) = match self.graph.op(self.node) {
            Op::Pointwise(op) => (op.out_0, 0),
            Op::Matmul(op) => (op.c, 2),
            _ => return Ok(()),
        };
        let Some(result) = self.of(out) else { return Ok(()) };
        for input in self.graph.operands(self.node).iter().filter(|o| o.role == FieldRole::Input) {
            let Some(dims) = self.dims(input) else { continue };
            for distance in behind..dims.was.len() {
                let ((declared, now), of_result) = (dims.at_distance(distance), result.at_distance(distance));
                if declared == of_result.0 && declared > 1 && now == 1 && of_result.1 > 1 {
                    return Err(self.repeated(input, dims.was.len().saturating_sub(distance).saturating_sub(1), distance));
                }
            }
        }
        Ok(())
    }

    #[cold]
    fn repeated(&self, input: &OperandRef, axis: usize, distance: usize) -> ReshapeError {
        // The inputs come first: the dims of a virtual result are theirs.
        let operands = self.graph.operands(self.node);
        let is_input = |o: &&OperandRef| o.role == FieldRole::Input;
        let in_order = operands.iter().filter(is_input).chain(operands.iter().filter(|o| !is_input(o)));
        let larger = in_order.filter_map(|o| Some((o, self.dims(o)?.at_distance(distance)))).find(|(_, (_, now))| *now > 1);
        let (other, (declared, found)) = larger.unwrap_or((input, (1, 1)));
        ReshapeError::Repeated {
            tensor: self.graph.tensor_label(input.tensor),
            node: self.graph.node_label(self.node),
            axis,
            other: Box::new(self.graph.tensor_label(other.tensor)),
            found,
            declared,
        }
    }

    /// Each dim is the largest of the inputs'. One that they do not determine may not change.
    fn broadcast(&self, out: &[i64]) -> Option<Vec<i64>> {
        let each = out.iter().enumerate().map(|(axis, &declared)| {
            let distance = out.len().checked_sub(axis)?.checked_sub(1)?;
            let (mut was, mut now, mut has_changed) = (1, 1, false);
            for input in self.inputs() {
                let (before, after) = input.at_distance(distance);
                (was, now, has_changed) = (was.max(before), now.max(after), has_changed | (before != after));
            }
            match has_changed {
                false => Some(declared),
                true => (declared == was).then_some(now),
            }
        });
        each.collect()
    }
}

/// The lists of a convolution, one entry per spatial dimension.
struct Slide<'a> {
    pre: &'a [i64],
    post: &'a [i64],
    stride: &'a [i64],
    dilation: &'a [i64],
}

impl Slide<'_> {
    /// The dims of `x` convolved with `w`. What does not fit gets the dim 1, and the rules of the graph say what is wrong.
    fn convolved(&self, x: &[i64], w: &[i64]) -> Option<Vec<i64>> {
        let mut dims = vec![*x.first()?, *w.first()?];
        let lists = self.pre.iter().zip(self.post).zip(self.stride).zip(self.dilation);
        for ((&x, &w), (((&pre, &post), &stride), &dilation)) in x.get(2..)?.iter().zip(w.get(2..)?).zip(lists) {
            // From 64 bits, so that 128 hold the product and the sums: `wrapping` never wraps.
            let [x, w, pre, post, stride, dilation] = [x, w, pre, post, stride, dilation].map(i128::from);
            let extent = w.wrapping_sub(1).wrapping_mul(dilation).wrapping_add(1);
            let room = x.wrapping_add(pre).wrapping_add(post).wrapping_sub(extent);
            let positions = room.checked_div(stride)?.wrapping_add(1).max(1);
            dims.push(i64::try_from(positions).unwrap_or(i64::MAX));
        }
        Some(dims)
    }
}

/// Dims of a matrix product of this rank.
fn product(rank: usize, a: Dims<'_>, b: Dims<'_>) -> Vec<i64> {
    let at = |distance| {
        let (a, b) = (a.at_distance(distance).1, b.at_distance(distance).1);
        match distance {
            0 => b,
            1 => a,
            _ => a.max(b),
        }
    };
    (0..rank).rev().map(at).collect()
}

/// One value per channel of `x`: `[C]` or `[1, C, 1...]`.
fn per_channel(out: &[i64], x: Dims<'_>) -> Option<Vec<i64>> {
    let mut dims = out.to_vec();
    *dims.get_mut(usize::from(out.len() > 1))? = *x.now.get(1)?;
    Some(dims)
}

/// Each dim that is that of `x` stays so, and what has been reduced to 1 stays 1.
fn kept_or_one(out: &[i64], x: Dims<'_>) -> Option<Vec<i64>> {
    let each = out.iter().zip(x.was).zip(x.now).map(|((&out, &was), &now)| match out {
        _ if out == was => Some(now),
        1 => Some(1),
        _ => None,
    });
    each.collect()
}

/// Batch and channels of `data`; the window slides as before only over an image of the same size, because it may round up or down.
fn pooled(out: &[i64], data: Dims<'_>) -> Option<Vec<i64>> {
    let is_same_size = data.was.get(2..) == data.now.get(2..);
    is_same_size.then(|| Some([data.now.get(..2)?, out.get(2..)?].concat()))?
}
