//! Whether a step may run: it must not write what it reads, because several threads do both at once.

use super::CpuError;
use super::layout::{Tensor, Tensors};
use super::program::{CpuProgram, Operand, Place, Pointwise, Step, StepOp};

/// Refuses a program in which a step writes memory that it reads, as far as the program decides it: the same tensor, or workspace
/// ranges that overlap. What the caller's buffers share is the caller's promise.
///
/// An elementwise step may write over an operand that is the same view: each element is read before it is written, by one thread.
pub(crate) fn check(tensors: &Tensors, program: &CpuProgram) -> Result<(), CpuError> {
    for (index, step) in program.steps.iter().enumerate() {
        let out = tensors.get(index, step.out)?;
        let elementwise = !matches!(step.op, StepOp::ConvFwd(_) | StepOp::ConvDgrad(_) | StepOp::ConvWgrad(_) | StepOp::Matmul { .. });
        for ordinal in reads(step) {
            let read = tensors.get(index, ordinal)?;
            if overlap(out, read) && !(elementwise && same_view(out, read)) {
                return Err(CpuError::Overlap { step: index, written: step.out, read: ordinal });
            }
        }
    }
    Ok(())
}

/// Ordinals of the tensors in memory that a step reads; fused values are not in memory.
fn reads(step: &Step) -> Vec<u32> {
    let mut ordinals = match &step.op {
        StepOp::ConvFwd(conv) | StepOp::ConvDgrad(conv) | StepOp::ConvWgrad(conv) => vec![conv.a, conv.b],
        StepOp::Matmul { a, b, .. } => vec![*a, *b],
        StepOp::BatchnormInference { x, mean, inv_variance, scale, bias } => vec![*x, *mean, *inv_variance, *scale, *bias],
        StepOp::BatchnormInferenceVariance { x, mean, variance, scale, bias, epsilon } => {
            vec![*x, *mean, *variance, *scale, *bias, *epsilon]
        }
        StepOp::Pointwise(op) => operands(op),
    };
    ordinals.extend(step.chain.iter().flat_map(operands));
    ordinals
}

fn operands(op: &Pointwise) -> Vec<u32> {
    let tensor = |operand: &Operand| match operand {
        Operand::Tensor(ordinal) => Some(*ordinal),
        Operand::Carried => None,
    };
    [Some(&op.in0), op.in1.as_ref(), op.in2.as_ref()].into_iter().flatten().filter_map(tensor).collect()
}

fn overlap(a: &Tensor, b: &Tensor) -> bool {
    match (a.place, b.place) {
        (Place::Workspace { offset: a_start }, Place::Workspace { offset: b_start }) => {
            a_start < b_start.saturating_add(b.bytes) && b_start < a_start.saturating_add(a.bytes)
        }
        _ => a.ordinal == b.ordinal,
    }
}

fn same_view(a: &Tensor, b: &Tensor) -> bool {
    a.ordinal == b.ordinal || (a.place == b.place && a.same_layout(b))
}
