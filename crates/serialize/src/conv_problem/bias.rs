//! Biases apart from a convolution: MIOpen's `ConvolutionForwardBias` and `ConvolutionBackwardBias`.

use super::{ConvProblemError, MAX_SPATIAL, ProblemTensor, uid};
use crate::ops::{Pointwise, Reduction};
use crate::{DataType, GraphBuf, GraphBuilder, Limits, PointwiseMode, ReductionMode, TensorAttributes};

/// A bias as MIOpen has it: packed `(1, channels, 1..)`, of the type of the tensor that it belongs to.
pub(super) fn attributes(tensor: &ProblemTensor, rank: usize) -> TensorAttributes {
    let [_, channels, ..] = tensor.dims;
    let dims: Vec<i64> = (0..rank).map(|axis| if axis == 1 { channels } else { 1 }).collect();
    let mut bias = TensorAttributes::packed(tensor.dtype, &dims);
    bias.set_name("bias").set_uid(uid::BIAS);
    bias
}

/// Rank of a tensor with so many spatial dimensions, and the type that float arithmetic on it is done in.
fn check(tensor: &ProblemTensor, spatial: u8) -> Result<(usize, DataType), ConvProblemError> {
    let count = usize::from(spatial);
    if !(1..=MAX_SPATIAL).contains(&count) {
        return Err(ConvProblemError::Spatial { found: spatial });
    }
    let compute = match tensor.dtype {
        DataType::Double => DataType::Double,
        DataType::Float | DataType::Half | DataType::BFloat16 => DataType::Float,
        dtype => return Err(ConvProblemError::Type { tensor: "y", dtype }),
    };
    Ok((count.saturating_add(2), compute))
}

/// `y = added + bias`: uids [`Y`](uid::Y), [`ADDED`](uid::ADDED) with the strides of `y`, and [`BIAS`](uid::BIAS). Result and first operand
/// may be the same memory.
///
/// # Errors
/// A type that is not a float, or numbers that are no tensor.
pub fn forward_graph(y: &ProblemTensor, spatial: u8, limits: &Limits) -> Result<GraphBuf, ConvProblemError> {
    let (rank, compute) = check(y, spatial)?;
    let mut builder = GraphBuilder::new();
    builder.set_types(compute, compute, y.dtype);
    let out = builder.tensor(y.attributes("y", uid::Y, rank));
    let added = builder.tensor(y.attributes("added", uid::ADDED, rank));
    let bias = builder.tensor(attributes(y, rank));
    builder.node("bias", DataType::Unset, Pointwise::binary(PointwiseMode::Add, added, bias, out));
    Ok(builder.build_with(limits)?)
}

/// `bias = sum of y over batch and space`: uids [`Y`](uid::Y) for the gradient that is read, [`BIAS`](uid::BIAS) for the one that is written.
///
/// # Errors
/// As [`forward_graph`].
pub fn backward_graph(dy: &ProblemTensor, spatial: u8, limits: &Limits) -> Result<GraphBuf, ConvProblemError> {
    let (rank, compute) = check(dy, spatial)?;
    let mut builder = GraphBuilder::new();
    builder.set_types(compute, compute, dy.dtype);
    let input = builder.tensor(dy.attributes("dy", uid::Y, rank));
    let output = builder.tensor(attributes(dy, rank));
    builder.node("bias", DataType::Unset, Reduction { mode: ReductionMode::Add, input, output, is_deterministic: false });
    Ok(builder.build_with(limits)?)
}
