//! Graph to CPU program.

use crate::Refusal;
use crate::fuse::{self, Group};
use crate::workspace::{self, Interval};
use hipplan_exec::cpu::{Conv, CpuProgram, Operand, Place, Pointwise, Step, StepOp, TensorSlot};
use hipplan_serialize::ops;
use hipplan_serialize::{ConvMode, NodeIx, Op, TensorView, Uid, VerifiedGraph};

/// Lowers a canonical graph, whose uids are ordinals.
///
/// # Errors
/// An operation or a kind of tensor that the provider does not have. What the kernels do not take is the loader's to say.
pub(super) fn lower(graph: &VerifiedGraph<'_>, groups: &[Group]) -> Result<CpuProgram, Refusal> {
    if let Some(ix) = graph.tensor_ixs().find(|&ix| graph.tensor(ix).ragged_offset.is_some()) {
        return Err(Refusal::Declined(format!("ragged tensors are not implemented ({} in canonical order)", graph.tensor_label(ix))));
    }
    let mut places: Vec<Option<Place>> = vec![None; graph.tensors().len()];
    let mut steps = Vec::with_capacity(groups.len());
    // When each tensor that lies in the workspace is made and last read, in steps.
    let mut lives: Vec<Option<(usize, usize)>> = vec![None; graph.tensors().len()];
    for (at, group) in groups.iter().enumerate() {
        steps.push(step(graph, group, &mut places)?);
        for &node in group {
            for operand in graph.operands(node).iter().filter(|o| graph.tensor(o.tensor).is_virtual) {
                let life = lives[operand.tensor.index()].get_or_insert((at, at));
                life.1 = at;
            }
        }
    }

    let mut intervals = Vec::new();
    for (ordinal, (tensor, life)) in graph.tensors().iter().zip(&lives).enumerate() {
        if let (Some((start, end)), None) = (*life, places[ordinal]) {
            intervals.push(Interval { tensor: ordinal, start, end, size: tensor.span_bytes() });
        }
    }
    let layout = workspace::assign(&intervals);
    for (interval, offset) in intervals.iter().zip(&layout.offsets) {
        places[interval.tensor] = Some(Place::Workspace { offset: *offset });
    }
    let tensors = graph.tensors().iter().zip(places).map(|(tensor, place)| slot(tensor, place)).collect();
    Ok(CpuProgram { tensors, steps, workspace_size: layout.size })
}

fn slot(tensor: &TensorView<'_>, place: Option<Place>) -> TensorSlot {
    let outside = if tensor.is_by_value() { Place::Scalar } else { Place::External };
    TensorSlot {
        dtype: tensor.dtype.to_wire(),
        dims: tensor.dims.to_vec(),
        strides: tensor.strides.to_vec(),
        place: place.unwrap_or(outside),
    }
}

/// A canonical uid is an ordinal.
fn ordinal(uid: Uid) -> u32 {
    u32::try_from(uid.0).unwrap_or(u32::MAX)
}

fn step(graph: &VerifiedGraph<'_>, group: &[NodeIx], places: &mut [Option<Place>]) -> Result<Step, Refusal> {
    let (&head, rest) = group.split_first().unwrap_or_else(|| unreachable!("a group starts with a node"));
    let unsupported = || Refusal::Operation { op: graph.kind(head).name(), node: graph.node_label(head).to_string() };
    let op = head_op(graph, head).ok_or_else(unsupported)?;
    let carried = fuse::output(graph, head).ok_or_else(unsupported)?;
    let mut last = carried;
    let mut chain = Vec::with_capacity(rest.len());
    for &node in rest {
        places[last.index()] = Some(Place::Fused);
        let before = last.index() as u32;
        if let Op::Pointwise(op) = graph.op(node) {
            chain.push(pointwise(graph, node, &op, Some(before)));
        }
        last = fuse::output(graph, node).ok_or_else(unsupported)?;
    }
    Ok(Step { op, chain, out: last.index() as u32, carried: carried.index() as u32 })
}

fn head_op(graph: &VerifiedGraph<'_>, node: NodeIx) -> Option<StepOp> {
    let compute = graph.compute_type(node).to_wire();
    let conv = |a: Uid, b: Uid, [pre, post, stride, dilation]: [&[i64]; 4], mode| Conv {
        a: ordinal(a),
        b: ordinal(b),
        pre_padding: pre.to_vec(),
        post_padding: post.to_vec(),
        stride: stride.to_vec(),
        dilation: dilation.to_vec(),
        flip: mode == ConvMode::Convolution,
        compute,
    };
    Some(match graph.op(node) {
        Op::ConvolutionFwd(op) => {
            StepOp::ConvFwd(conv(op.x, op.w, [op.pre_padding, op.post_padding, op.stride, op.dilation], op.conv_mode))
        }
        Op::ConvolutionBwd(op) => {
            StepOp::ConvDgrad(conv(op.dy, op.w, [op.pre_padding, op.post_padding, op.stride, op.dilation], op.conv_mode))
        }
        Op::ConvolutionWrw(op) => {
            StepOp::ConvWgrad(conv(op.x, op.dy, [op.pre_padding, op.post_padding, op.stride, op.dilation], op.conv_mode))
        }
        Op::Matmul(op) => StepOp::Matmul { a: ordinal(op.a), b: ordinal(op.b), compute },
        Op::BatchnormInference(op) => StepOp::BatchnormInference {
            x: ordinal(op.x),
            mean: ordinal(op.mean),
            inv_variance: ordinal(op.inv_variance),
            scale: ordinal(op.scale),
            bias: ordinal(op.bias),
        },
        Op::BatchnormInferenceVariance(op) => StepOp::BatchnormInferenceVariance {
            x: ordinal(op.x),
            mean: ordinal(op.mean),
            variance: ordinal(op.variance),
            scale: ordinal(op.scale),
            bias: ordinal(op.bias),
            epsilon: ordinal(op.epsilon),
        },
        Op::Pointwise(op) => StepOp::Pointwise(pointwise(graph, node, &op, None)),
        _ => return None,
    })
}

/// `carried` is the ordinal whose value the chain hands on.
fn pointwise(graph: &VerifiedGraph<'_>, node: NodeIx, op: &ops::Pointwise, carried: Option<u32>) -> Pointwise {
    let ops::Pointwise {
        mode,
        relu_lower_clip,
        relu_upper_clip,
        relu_lower_clip_slope,
        axis,
        in_0,
        in_1,
        in_2,
        out_0,
        swish_beta,
        elu_alpha,
        softplus_beta,
    } = op;
    let operand = |uid: &Uid| match ordinal(*uid) {
        it if Some(it) == carried => Operand::Carried,
        it => Operand::Tensor(it),
    };
    Pointwise {
        mode: mode.to_wire(),
        compute: graph.compute_type(node).to_wire(),
        in0: operand(in_0),
        in1: in_1.as_ref().map(operand),
        in2: in_2.as_ref().map(operand),
        out: ordinal(*out_0),
        relu_lower_clip: *relu_lower_clip,
        relu_upper_clip: *relu_upper_clip,
        relu_lower_clip_slope: *relu_lower_clip_slope,
        swish_beta: *swish_beta,
        elu_alpha: *elu_alpha,
        softplus_beta: *softplus_beta,
        axis: *axis,
    }
}
