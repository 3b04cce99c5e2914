//! The style in which hipDNN's reader wants each operation: the one table of it.

use crate::ops::OpKind;

/// The object of a node that holds keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    /// No object: the node itself.
    Node,
    Inputs,
    Outputs,
    Parameters,
    Attributes,
}

impl Group {
    /// The object's key; nothing for the node itself.
    pub(super) const fn key(self) -> Option<&'static str> {
        match self {
            Self::Node => None,
            Self::Inputs => Some("inputs"),
            Self::Outputs => Some("outputs"),
            Self::Parameters => Some("parameters"),
            Self::Attributes => Some("attributes"),
        }
    }
}

/// How the keys of an operation are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeStyle {
    /// Operands stand in `inputs` and `outputs`, not in the node itself.
    pub(super) grouped: bool,
    /// Where the attributes stand.
    pub(super) attributes: Group,
    /// The reader wants every key: what is absent is null. Otherwise what states nothing is left out.
    pub(super) all_keys: bool,
    /// Enums are written as their wire numbers.
    pub(super) numbers: bool,
}

/// The style of an operation. Every operation of hipDNN's JSON has its own place here; the reader of this crate takes all styles.
pub(super) const fn of(kind: OpKind) -> NodeStyle {
    use Group::{Attributes, Inputs, Node, Parameters};
    use OpKind as K;
    let (grouped, attributes, all_keys) = match kind {
        K::ConvolutionFwd | K::ConvolutionBwd | K::ConvolutionWrw => (true, Parameters, true),
        K::Pointwise => (true, Inputs, true),
        K::Matmul | K::BatchnormInference | K::BatchnormInferenceVariance => (true, Node, true),
        K::Batchnorm | K::BatchnormBackward | K::Layernorm | K::LayernormBackward => (true, Node, true),
        K::RmsNorm | K::RmsNormBackward => (true, Node, false),
        K::Reduction | K::ResampleFwd | K::ResampleBwd | K::CustomOp => (false, Node, false),
        K::Sdpa => (true, Attributes, true),
        K::SdpaBackward => (true, Parameters, true),
        K::BlockScaleDequantize | K::BlockScaleQuantize => (true, Node, false),
        K::MoeGroupedMatmul | K::MoeGroupedMatmulBwd => (true, Node, false),
    };
    NodeStyle { grouped, attributes, all_keys, numbers: matches!(kind, K::Layernorm) }
}
