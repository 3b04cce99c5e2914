//! The CPU provider's program: what a plan's payload holds, as plain arrays addressed by ordinals.

#![expect(missing_docs, reason = "the derives make helper items without documentation")]

use rkyv::{Archive, Deserialize, Serialize};

/// A whole program: tensors, the steps over them in order, and the workspace that they need.
#[derive(Archive, Serialize, Deserialize, Debug, PartialEq, Clone)]
pub struct CpuProgram {
    /// Tensors, addressed by ordinal.
    pub tensors: Vec<TensorSlot>,
    /// Steps, run in this order.
    pub steps: Vec<Step>,
    /// Bytes of workspace; a workspace is aligned to 64.
    pub workspace_size: u64,
}

/// One tensor of a program.
#[derive(Archive, Serialize, Deserialize, Debug, PartialEq, Clone)]
pub struct TensorSlot {
    /// Wire number of its [`DataType`](hipplan_serialize::DataType).
    pub dtype: i8,
    /// Extents.
    pub dims: Vec<i64>,
    /// Strides in elements; any that are not negative, zero for a broadcast input.
    pub strides: Vec<i64>,
    /// Where its elements lie.
    pub place: Place,
}

/// Where the elements of a tensor lie.
#[derive(Archive, Serialize, Deserialize, Debug, PartialEq, Clone, Copy)]
pub enum Place {
    /// In a buffer whose base pointer is given per execute.
    External,
    /// In host memory: one element of the tensor's dtype, its pointer given per execute.
    Scalar,
    /// In the workspace.
    Workspace {
        /// Byte offset, a multiple of 64.
        offset: u64,
    },
    /// Nowhere: the tensor lives only inside a step's chain.
    Fused,
}

/// One operation and the pointwise chain fused behind it.
#[derive(Archive, Serialize, Deserialize, Debug, PartialEq, Clone)]
pub struct Step {
    /// The operation.
    pub op: StepOp,
    /// The fused epilogue: each takes the carried value as some operand.
    pub chain: Vec<Pointwise>,
    /// Ordinal of the tensor finally written.
    pub out: u32,
    /// Ordinal of the operation's own output. With a chain, the value is rounded to its dtype first; without one it equals `out`.
    pub carried: u32,
}

/// An operation. Numbers are tensor ordinals.
#[derive(Archive, Serialize, Deserialize, Debug, PartialEq, Clone)]
pub enum StepOp {
    /// `y = conv(x, w)`: `a` is x, `b` is w.
    ConvFwd(Conv),
    /// `dx`: `a` is dy, `b` is w.
    ConvDgrad(Conv),
    /// `dw`: `a` is x, `b` is dy.
    ConvWgrad(Conv),
    /// `c[.., m, n] = sum over k of a[.., m, k] * b[.., k, n]`.
    Matmul {
        /// Left operand.
        a: u32,
        /// Right operand.
        b: u32,
        /// Wire number of the compute type.
        compute: i8,
    },
    /// `y = (x - mean) * inv_variance * scale + bias`.
    BatchnormInference {
        /// Input.
        x: u32,
        /// Mean per channel.
        mean: u32,
        /// Inverse standard deviation per channel.
        inv_variance: u32,
        /// Scale per channel.
        scale: u32,
        /// Bias per channel.
        bias: u32,
    },
    /// `y = (x - mean) / sqrt(variance + epsilon) * scale + bias`.
    BatchnormInferenceVariance {
        /// Input.
        x: u32,
        /// Mean per channel.
        mean: u32,
        /// Variance per channel.
        variance: u32,
        /// Scale per channel.
        scale: u32,
        /// Bias per channel.
        bias: u32,
        /// One element.
        epsilon: u32,
    },
    /// A pointwise operation.
    Pointwise(Pointwise),
}

/// A convolution's operands and attributes; the lists have one entry per spatial dimension.
#[derive(Archive, Serialize, Deserialize, Debug, PartialEq, Clone)]
pub struct Conv {
    /// First operand, see [`StepOp`].
    pub a: u32,
    /// Second operand, see [`StepOp`].
    pub b: u32,
    /// Zeros before the first element.
    pub pre_padding: Vec<i64>,
    /// Zeros behind the last element.
    pub post_padding: Vec<i64>,
    /// Step of the filter.
    pub stride: Vec<i64>,
    /// Distance between filter taps.
    pub dilation: Vec<i64>,
    /// True: the filter is flipped in every spatial dimension.
    pub flip: bool,
    /// Wire number of the compute type.
    pub compute: i8,
}

/// A pointwise operation. Formulas and defaults: `docs/operations.md`.
#[derive(Archive, Serialize, Deserialize, Debug, PartialEq, Clone)]
pub struct Pointwise {
    /// Wire number of the [`PointwiseMode`](hipplan_serialize::PointwiseMode).
    pub mode: i8,
    /// Wire number of the compute type.
    pub compute: i8,
    /// First operand.
    pub in0: Operand,
    /// Second operand.
    pub in1: Option<Operand>,
    /// Third operand.
    pub in2: Option<Operand>,
    /// Ordinal of the result.
    pub out: u32,
    /// Lower clip of ReLU.
    pub relu_lower_clip: Option<f32>,
    /// Upper clip of ReLU.
    pub relu_upper_clip: Option<f32>,
    /// Slope of ReLU below the lower clip.
    pub relu_lower_clip_slope: Option<f32>,
    /// Beta of swish.
    pub swish_beta: Option<f32>,
    /// Alpha of ELU.
    pub elu_alpha: Option<f32>,
    /// Beta of softplus.
    pub softplus_beta: Option<f32>,
    /// Axis of gen_index.
    pub axis: Option<i64>,
}

/// An operand of a pointwise operation.
#[derive(Archive, Serialize, Deserialize, Debug, PartialEq, Clone, Copy)]
pub enum Operand {
    /// A tensor.
    Tensor(u32),
    /// The value that the step carries.
    Carried,
}

impl Pointwise {
    /// An operation with neither parameters nor second and third operands.
    pub fn unary(mode: hipplan_serialize::PointwiseMode, compute: hipplan_serialize::DataType, in0: Operand, out: u32) -> Self {
        Self {
            mode: mode.to_wire(),
            compute: compute.to_wire(),
            in0,
            in1: None,
            in2: None,
            out,
            relu_lower_clip: None,
            relu_upper_clip: None,
            relu_lower_clip_slope: None,
            swish_beta: None,
            elu_alpha: None,
            softplus_beta: None,
            axis: None,
        }
    }
}
