//! The table: the rules of each operation, in the order in which they are checked.
//!
//! Behind each line stands why it is certain: a section of the description of hipDNN's wire format (§), `hipDNN` for what its
//! own frontend, backend or plugins refuse, `formula` for what the arithmetic of the operation cannot do without.

use super::named::{self, Spatial};
use super::{Check, Check::*, List, Rule, Slot, slot};
use crate::error::{Breach, RuleError};
use crate::ops::{Op, OpKind};
use crate::{ConvMode, ReductionMode, ResampleMode};

/// A rank without an upper end.
const ANY: usize = usize::MAX;

const fn rule(error: fn(Breach) -> RuleError, check: Check) -> Rule {
    Rule { error, check, only_if: None }
}

const fn rule_if(only_if: named::Condition, error: fn(Breach) -> RuleError, check: Check) -> Rule {
    Rule { error, check, only_if: Some(only_if) }
}

const fn pair(a: Slot, b: Slot) -> Check {
    Together([a, b, b, b])
}

/// `NAME: Operation(operand, role = operand...) { Error => check, Error if condition => check, ... }`
macro_rules! rules {
    (@row $error:ident, $check:expr) => { rule(RuleError::$error, $check) };
    (@row $error:ident, $check:expr, $only_if:expr) => { rule_if($only_if, RuleError::$error, $check) };
    (@field $slot:ident) => { stringify!($slot) };
    (@field $slot:ident $field:ident) => { stringify!($field) };
    ($name:ident: $kind:ident($($slot:ident $(= $field:ident)?),*) { $($error:ident $(if $only_if:expr)? => $check:expr,)+ }) => {
        const $name: &[Rule] = &{
            $( let $slot = slot(OpKind::$kind, rules!(@field $slot $($field)?)); )*
            [ $( rules!(@row $error, $check $(, $only_if)?), )+ ]
        };
    };
}

/// The rules of an operation, in groups.
pub(super) const fn rules(kind: OpKind) -> &'static [&'static [Rule]] {
    match kind {
        OpKind::ConvolutionFwd => &[CONVOLUTION_FWD],
        OpKind::ConvolutionBwd => &[CONVOLUTION_BWD],
        OpKind::ConvolutionWrw => &[CONVOLUTION_WRW],
        OpKind::Pointwise => &[POINTWISE],
        OpKind::Matmul => &[MATMUL],
        OpKind::BatchnormInference => &[BATCHNORM_INFERENCE],
        OpKind::BatchnormInferenceVariance => &[BATCHNORM_INFERENCE_VARIANCE],
        OpKind::Batchnorm => &[BATCHNORM],
        OpKind::BatchnormBackward => &[BATCHNORM_BACKWARD],
        OpKind::Layernorm => &[LAYERNORM],
        OpKind::LayernormBackward => &[LAYERNORM_BACKWARD],
        OpKind::RmsNorm => &[RMS_NORM],
        OpKind::RmsNormBackward => &[RMS_NORM_BACKWARD],
        OpKind::Reduction => &[REDUCTION],
        OpKind::ResampleFwd => &[RESAMPLE_FWD, RESAMPLE_FWD_INDEX],
        OpKind::ResampleBwd => &[RESAMPLE_BWD, RESAMPLE_BWD_INDEX],
        OpKind::Sdpa => &[ATTENTION_FWD, SDPA],
        OpKind::SdpaBackward => &[ATTENTION_BWD, SDPA_BACKWARD],
        OpKind::BlockScaleDequantize => &[BLOCK_SCALE_DEQUANTIZE],
        OpKind::BlockScaleQuantize => &[BLOCK_SCALE_QUANTIZE],
        OpKind::MoeGroupedMatmul => &[MOE_GROUPED_MATMUL],
        OpKind::MoeGroupedMatmulBwd => &[MOE_GROUPED_MATMUL_BWD],
        OpKind::CustomOp => &[CUSTOM_OP],
    }
}

const PRE_PADDING: List = List("pre_padding", |op| Spatial::of(op).pre_padding);
const POST_PADDING: List = List("post_padding", |op| Spatial::of(op).post_padding);
const STRIDE: List = List("stride", |op| Spatial::of(op).stride);
const DILATION: List = List("dilation", |op| Spatial::of(op).dilation);
const WINDOW: List = List("window", |op| Spatial::of(op).window);

/// The three convolutions obey one rule between the image side `x`, the filter `w` and the other side `y`.
macro_rules! convolution_rules {
    ($name:ident: $kind:ident($x:ident, $w:ident, $y:ident)) => {
        rules! { $name: $kind(x = $x, w = $w, y = $y) {
            ConvRank => Rank(x, 3, 5),                      // §6.1-6.3: 1 to 3 spatial dims
            ConvRanksDiffer => SameRank(w, x),              // hipDNN
            ConvRanksDiffer => SameRank(y, x),              // hipDNN
            ConvListLength => Spatial(PRE_PADDING, x),      // §6.1-6.3
            ConvListLength => Spatial(POST_PADDING, x),
            ConvListLength => Spatial(STRIDE, x),
            ConvListLength => Spatial(DILATION, x),
            ConvPadding => Least(PRE_PADDING, 0),           // hipDNN
            ConvPadding => Least(POST_PADDING, 0),
            ConvStride => Least(STRIDE, 1),                 // hipDNN
            ConvDilation => Least(DILATION, 1),             // hipDNN
            ConvModeUnset => Stated("conv_mode", conv_mode_is_stated), // formula
            ConvBatch => Dim(y, 0, x, 0),                   // hipDNN
            ConvFilters => Dim(y, 1, w, 0),                 // hipDNN
            ConvChannels => Multiple(x, 1, w, 1),           // §6.3: groups = C(x) / C(w)
            ConvGroups => Named(named::conv_groups, [x, w, y, y]), // hipDNN
            ConvWindow => Named(named::window_fits, [x, y, w, w]), // hipDNN
            ConvOutputDim => Named(named::conv_output, [x, y, w, w]), // hipDNN
        } }
    };
}

convolution_rules! { CONVOLUTION_FWD: ConvolutionFwd(x, w, y) }
convolution_rules! { CONVOLUTION_BWD: ConvolutionBwd(dx, w, dy) }
convolution_rules! { CONVOLUTION_WRW: ConvolutionWrw(x, dw, dy) }

fn conv_mode_is_stated(op: &Op<'_>) -> bool {
    match op {
        Op::ConvolutionFwd(op) => op.conv_mode != ConvMode::Unset,
        Op::ConvolutionBwd(op) => op.conv_mode != ConvMode::Unset,
        Op::ConvolutionWrw(op) => op.conv_mode != ConvMode::Unset,
        _ => true,
    }
}

rules! { POINTWISE: Pointwise(in_0, in_1, in_2, out_0) {
    PointwiseModeUnset => Stated("operation", named::pointwise_is_stated),      // hipDNN
    PointwiseOperandMissing => Named(named::operand_missing, [in_0, in_1, in_2, out_0]), // §6.4, hipDNN
    PointwiseOperandExtra => Named(named::operand_extra, [in_0, in_1, in_2, out_0]), // hipDNN
    GenIndexAxisMissing if named::generates_index => Named(named::axis_missing, [out_0; 4]), // §6.4
    GenIndexAxis if named::generates_index => Named(named::axis_in_range, [out_0; 4]), // formula
    PointwiseBroadcast => Broadcast(in_0, out_0),                               // hipDNN
    PointwiseBroadcast => Broadcast(in_1, out_0),
    PointwiseBroadcast => Broadcast(in_2, out_0),
} }

rules! { MATMUL: Matmul(a, b, c) {
    MatmulRank => Rank(a, 2, ANY),                                  // hipDNN
    MatmulRank => Rank(b, 2, ANY),
    MatmulRank => Rank(c, 2, ANY),                                  // formula
    MatmulInner => Dim(b, -2, a, -1),                               // hipDNN
    MatmulRows => Dim(c, -2, a, -2),                                // formula
    MatmulColumns => Dim(c, -1, b, -1),                             // formula
    MatmulBatch => Named(named::matmul_batch, [a, b, c, c]),        // §6.8; hipDNN takes multiples too
    MatmulOutputBatch => Named(named::matmul_output_batch, [a, b, c, c]), // formula
} }

rules! { BATCHNORM_INFERENCE: BatchnormInference(x, mean, inv_variance, scale, bias, y) {
    NormRank => Rank(x, 2, ANY),                                    // hipDNN
    NormShape => SameDims(y, x),                                    // hipDNN
    NormChannelShape => Named(named::per_channel, [mean, x, x, x]), // hipDNN
    NormChannelShape => Named(named::per_channel, [inv_variance, x, x, x]),
    NormChannelShape => Named(named::per_channel, [scale, x, x, x]),
    NormChannelShape => Named(named::per_channel, [bias, x, x, x]),
} }

rules! { BATCHNORM_INFERENCE_VARIANCE: BatchnormInferenceVariance(x, mean, variance, scale, bias, y, epsilon) {
    OperandNotScalar => Scalar(epsilon),                            // hipDNN
    NormRank => Rank(x, 2, ANY),                                    // hipDNN
    NormShape => SameDims(y, x),                                    // hipDNN
    NormChannelShape => Named(named::per_channel, [mean, x, x, x]), // hipDNN
    NormChannelShape => Named(named::per_channel, [variance, x, x, x]),
    NormChannelShape => Named(named::per_channel, [scale, x, x, x]),
    NormChannelShape => Named(named::per_channel, [bias, x, x, x]),
} }

rules! { BATCHNORM: Batchnorm(
    x, scale, bias, epsilon, momentum, y, mean, inv_variance,
    prev_mean = prev_running_mean, prev_variance = prev_running_variance,
    next_mean = next_running_mean, next_variance = next_running_variance
) {
    OperandNotScalar => Scalar(epsilon),                            // hipDNN
    OperandNotScalar => Scalar(momentum),                           // §4.2
    NormRunningStatistics => Together([prev_mean, prev_variance, next_mean, next_variance]), // hipDNN
    NormMomentum => Needs(prev_mean, momentum),                     // formula
    NormRank => Rank(x, 2, ANY),                                    // hipDNN
    NormShape => SameDims(y, x),                                    // hipDNN
    NormChannelShape => Named(named::per_channel, [scale, x, x, x]), // hipDNN
    NormChannelShape => Named(named::per_channel, [bias, x, x, x]),
    NormChannelShape => Named(named::per_channel, [mean, x, x, x]),
    NormChannelShape => Named(named::per_channel, [inv_variance, x, x, x]),
    NormChannelShape => Named(named::per_channel, [prev_mean, x, x, x]),
    NormChannelShape => Named(named::per_channel, [prev_variance, x, x, x]),
    NormChannelShape => Named(named::per_channel, [next_mean, x, x, x]),
    NormChannelShape => Named(named::per_channel, [next_variance, x, x, x]),
} }

rules! { BATCHNORM_BACKWARD: BatchnormBackward(dy, x, mean, inv_variance, scale, dx, dscale, dbias) {
    NormStatisticsPair => pair(mean, inv_variance),                 // hipDNN
    NormRank => Rank(x, 2, ANY),                                    // hipDNN
    NormShape => SameDims(dy, x),                                   // hipDNN
    NormShape => SameDims(dx, x),                                   // hipDNN
    NormChannelShape => Named(named::per_channel, [scale, x, x, x]), // hipDNN
    NormChannelShape => Named(named::per_channel, [mean, x, x, x]),
    NormChannelShape => Named(named::per_channel, [inv_variance, x, x, x]),
    NormChannelShape => Named(named::per_channel, [dscale, x, x, x]),
    NormChannelShape => Named(named::per_channel, [dbias, x, x, x]),
} }

rules! { LAYERNORM: Layernorm(x, scale, bias, epsilon, y, mean, inv_variance) {
    OperandNotScalar => Scalar(epsilon),                            // hipDNN
    NormShape => SameDims(y, x),                                    // hipDNN
    NormAxes => Named(named::axis_count, [x; 4]),                   // hipDNN; 0 is "as the scale says"
    NormScaleShape => Named(named::layer_scale, [scale, x, x, x]),  // hipDNN
    NormBiasShape => SameDims(bias, scale),                         // hipDNN
    NormStatisticsShape => Named(named::layer_statistics, [mean, x, x, x]), // formula
    NormStatisticsShape => Named(named::layer_statistics, [inv_variance, x, x, x]),
} }

rules! { LAYERNORM_BACKWARD: LayernormBackward(dy, x, scale, mean, inv_variance, epsilon, dx, dscale, dbias) {
    OperandNotScalar => Scalar(epsilon),                            // §4.2
    NormStatisticsPair => pair(mean, inv_variance),                 // hipDNN
    NormShape => SameDims(dy, x),                                   // hipDNN
    NormShape => SameDims(dx, x),                                   // hipDNN
    NormAxes => Named(named::axis_count, [x; 4]),                   // hipDNN
    NormScaleShape => Named(named::layer_scale, [scale, x, x, x]),  // hipDNN
    NormGradientShape => SameDims(dscale, scale),                   // hipDNN
    NormGradientShape => SameDims(dbias, scale),                    // hipDNN
    NormStatisticsShape => Named(named::layer_statistics, [mean, x, x, x]), // hipDNN
    NormStatisticsShape => SameDims(inv_variance, mean),            // hipDNN
} }

// hipDNN has read the scale as one value per channel, as any dims behind the batch, and as the last dims. All broadcast.
rules! { RMS_NORM: RmsNorm(x, scale, epsilon, y, bias, inv_rms) {
    OperandNotScalar => Scalar(epsilon),                            // hipDNN
    NormRank => Rank(x, 2, ANY),                                    // hipDNN
    NormShape => SameDims(y, x),                                    // hipDNN
    NormScaleShape => Named(named::broadcast_or_per_channel, [scale, x, x, x]), // hipDNN
    NormBiasShape => Named(named::broadcast_or_per_channel, [bias, x, x, x]), // hipDNN
    NormStatisticsShape => Named(named::broadcast_or_per_channel, [inv_rms, x, x, x]), // hipDNN
} }

rules! { RMS_NORM_BACKWARD: RmsNormBackward(dy, x, scale, inv_rms, dx, dscale, dbias) {
    NormRank => Rank(x, 2, ANY),                                    // hipDNN
    NormShape => SameDims(dy, x),                                   // hipDNN
    NormShape => SameDims(dx, x),                                   // hipDNN
    NormScaleShape => Named(named::broadcast_or_per_channel, [scale, x, x, x]), // hipDNN
    NormGradientShape => SameDims(dscale, scale),                   // hipDNN
    NormGradientShape => SameDims(dbias, scale),                    // hipDNN
    NormStatisticsShape => Named(named::broadcast_or_per_channel, [inv_rms, x, x, x]), // hipDNN
} }

rules! { REDUCTION: Reduction(input, output) {
    ReductionModeUnset => Stated("mode", |op| !matches!(op, Op::Reduction(op) if op.mode == ReductionMode::NotSet)), // hipDNN
    ReductionRank => SameRank(output, input),                       // hipDNN
    ReductionDim => Named(named::reduced, [output, input, input, input]), // hipDNN
} }

/// Pooling and its gradient obey one rule between the large side `x` and the small side `y`.
macro_rules! pool_rules {
    ($name:ident: $kind:ident($x:ident, $y:ident)) => {
        rules! { $name: $kind(x = $x, y = $y) {
            PoolRank => Rank(x, 3, ANY),                    // hipDNN
            PoolRanksDiffer => SameRank(y, x),              // formula
            PoolListLength => Spatial(PRE_PADDING, x),      // hipDNN
            PoolListLength => Spatial(POST_PADDING, x),
            PoolListLength => Spatial(STRIDE, x),
            PoolListLength => Spatial(WINDOW, x),
            PoolPadding => Least(PRE_PADDING, 0),           // formula
            PoolPadding => Least(POST_PADDING, 0),
            PoolStride => Least(STRIDE, 1),                 // formula
            PoolWindow => Least(WINDOW, 1),                 // formula
            PoolModeUnset => Stated("resample_mode", resample_mode_is_stated), // formula
            PoolBatch => Dim(y, 0, x, 0),                   // hipDNN
            PoolChannels => Dim(y, 1, x, 1),                // hipDNN
            PoolRoom => Named(named::window_fits, [x, y, y, y]), // formula
            PoolOutputDim => Named(named::pool_output, [x, y, y, y]), // hipDNN; rounded up is as common
        } }
    };
}

pool_rules! { RESAMPLE_FWD: ResampleFwd(x, y) }
pool_rules! { RESAMPLE_BWD: ResampleBwd(dx, dy) }

fn resample_mode_is_stated(op: &Op<'_>) -> bool {
    match op {
        Op::ResampleFwd(op) => op.resample_mode != ResampleMode::NotSet,
        Op::ResampleBwd(op) => op.resample_mode != ResampleMode::NotSet,
        _ => true,
    }
}

rules! { RESAMPLE_FWD_INDEX: ResampleFwd(y, index) {
    PoolIndexMissing if named::index_is_wanted => Present(index),   // hipDNN
    PoolIndexShape => SameDims(index, y),                           // hipDNN
    PoolIndexType => Integer(index),                                // hipDNN
} }

rules! { RESAMPLE_BWD_INDEX: ResampleBwd(dy, index) {
    PoolIndexMissing if named::index_is_wanted => Present(index),   // formula: there is no x to look for the largest in
    PoolIndexShape => SameDims(index, dy),                          // formula
    PoolIndexType => Integer(index),                                // hipDNN
} }

/// What attention and its gradient have in common.
macro_rules! attention_rules {
    ($name:ident: $kind:ident) => {
        rules! { $name: $kind(q, k, v, o, mask = attn_mask, scale, seq_len_q, seq_len_kv, seed, offset) {
            OperandNotScalar => Scalar(scale),                              // hipDNN
            AttentionRank => Rank(q, 4, 4),                                 // hipDNN
            AttentionRank => Rank(k, 4, 4),
            AttentionRank => Rank(v, 4, 4),
            AttentionRank => Rank(o, 4, 4),
            AttentionBatch if named::is_contiguous => Dim(k, 0, q, 0),      // hipDNN
            AttentionBatch if named::is_contiguous => Dim(v, 0, q, 0),
            AttentionHeadSize => Dim(k, 3, q, 3),                           // hipDNN
            AttentionKeyLength if named::is_contiguous => Dim(v, 2, k, 2),  // hipDNN
            AttentionHeadRatio => Multiple(q, 1, k, 1),                     // hipDNN
            AttentionHeadRatio => Multiple(q, 1, v, 1),                     // hipDNN
            AttentionOutputShape => Dim(o, 0, q, 0),                        // hipDNN
            AttentionOutputShape => Dim(o, 1, q, 1),
            AttentionOutputShape => Dim(o, 2, q, 2),
            AttentionOutputShape => Dim(o, 3, v, 3),
            AttentionMaskShape => Named(named::attention_mask, [mask, q, k, k]), // hipDNN
            AttentionScaleTwice => Named(named::scale_twice, [scale; 4]),   // hipDNN
            AttentionLengthMissing if named::pads => Present(seq_len_q),    // hipDNN
            AttentionLengthMissing if named::pads => Present(seq_len_kv),
            AttentionLengthCount => Count(seq_len_q, q, 1),                 // hipDNN
            AttentionLengthCount => Count(seq_len_kv, q, 1),
            AttentionLengthType => Integer(seq_len_q),                      // hipDNN
            AttentionLengthType => Integer(seq_len_kv),
            AttentionSeedPair => pair(seed, offset),                        // formula
            AttentionSeedType => Integer(seed),                             // formula
            AttentionSeedType => Integer(offset),
            AttentionDropoutProbability => Named(named::probability, [q; 4]), // formula
            AttentionBound => AtLeast("left_bound", |op| named::bounds(op)[0], -1), // hipDNN
            AttentionBound => AtLeast("right_bound", |op| named::bounds(op)[1], -1),
            AttentionCausalTwice => Named(named::causal_twice, [q; 4]),     // hipDNN
        } }
    };
}

attention_rules! { ATTENTION_FWD: Sdpa }
attention_rules! { ATTENTION_BWD: SdpaBackward }

rules! { SDPA: Sdpa(
    q, k, dropout_mask, dropout_scale, page_k = page_table_k, page_v = page_table_v, seq_len_kv, stats, max, sum_exp
) {
    AttentionDropoutPair => pair(dropout_mask, dropout_scale),              // formula
    AttentionDropoutMaskShape => Named(named::attention_mask, [dropout_mask, q, k, k]), // hipDNN
    AttentionPageTablePair => pair(page_k, page_v),                         // formula
    AttentionPageTableLength => Needs(page_k, seq_len_kv),                  // formula
    AttentionPageTableBatch => Dim(page_k, 0, q, 0),                        // formula
    AttentionPageTableBatch => Dim(page_v, 0, q, 0),
    AttentionPageTableType => Integer(page_k),                              // formula
    AttentionPageTableType => Integer(page_v),
    AttentionStatisticsMissing if named::generates_statistics => Present(stats), // hipDNN
    AttentionStatisticsShape if named::is_dense => Count(stats, q, 3),      // hipDNN
    AttentionStatisticsShape if named::is_dense => Count(max, q, 3),
    AttentionStatisticsShape if named::is_dense => Count(sum_exp, q, 3),
    AttentionMaxLength => AtLeast("max_seq_len_kv", |op| match op {
        Op::Sdpa(op) => op.max_seq_len_kv.map(i64::from),
        _ => None,
    }, 0),                                                                  // formula
} }

rules! { SDPA_BACKWARD: SdpaBackward(q, k, v, o, d_o, stats, dq, dk, dv, dropout_mask, dbias) {
    AttentionDropoutMaskShape => Named(named::attention_mask, [dropout_mask, q, k, k]), // hipDNN
    AttentionStatisticsShape if named::is_dense => Count(stats, q, 3),      // hipDNN
    AttentionGradientShape => SameDims(d_o, o),                             // hipDNN
    AttentionGradientShape => SameDims(dq, q),                              // hipDNN
    AttentionGradientShape => SameDims(dk, k),                              // hipDNN
    AttentionGradientShape => SameDims(dv, v),                              // hipDNN
    AttentionGradientShape => Named(named::attention_mask, [dbias, q, k, k]), // formula
} }

rules! { BLOCK_SCALE_DEQUANTIZE: BlockScaleDequantize(x, scale, y) {
    BlockSizeMissing => Named(named::block_size_missing, [x; 4]),           // hipDNN
    BlockSizeCount => Named(named::block_size_count, [x; 4]),               // hipDNN
    BlockSize => Named(named::block_size_least, [x; 4]),                    // hipDNN
    BlockShape => SameDims(y, x),                                           // hipDNN
    BlockScaleRank => SameRank(scale, x),                                   // formula: a scale is found by the element's index
    BlockScaleDim => Named(named::dequantize_scale, [scale, x, x, x]),      // formula
} }

rules! { BLOCK_SCALE_QUANTIZE: BlockScaleQuantize(x, y, scale) {
    BlockSize => AtLeast("block_size", |op| match op {
        Op::BlockScaleQuantize(op) => Some(op.block_size.into()),
        _ => None,
    }, 1),                                                                  // hipDNN
    BlockAxis => Named(named::block_axis, [x; 4]),                          // hipDNN
    BlockShape => SameDims(y, x),                                           // hipDNN
    BlockScaleRank => SameRank(scale, x),                                   // hipDNN
    BlockScaleDim => Named(named::quantize_scale, [scale, x, x, x]),        // hipDNN
} }

rules! { MOE_GROUPED_MATMUL: MoeGroupedMatmul(token, weight, offset = first_token_offset, index = token_index, ks = token_ks, output) {
    MoeRank => Rank(token, 3, 3),                                           // hipDNN
    MoeRank => Rank(weight, 3, 3),
    MoeRank => Rank(offset, 3, 3),
    MoeRank => Rank(output, 3, 3),
    MoeRank if named::routes => Rank(index, 3, 3),
    MoeRank if named::scatters => Rank(ks, 3, 3),
    MoeUnitDim => DimIs(token, 0, 1),                                       // hipDNN
    MoeUnitDim => DimIs(offset, 1, 1),
    MoeUnitDim => DimIs(offset, 2, 1),
    MoeUnitDim => DimIs(output, 0, 1),
    MoeUnitDim if named::routes => DimIs(index, 0, 1),
    MoeUnitDim if named::routes => DimIs(index, 2, 1),
    MoeUnitDim if named::scatters => DimIs(ks, 0, 1),
    MoeUnitDim if named::scatters => DimIs(ks, 2, 1),
    MoeDepth => Dim(weight, 1, token, 2),                                   // hipDNN
    MoeExperts => Multiple(offset, 0, weight, 0),                           // hipDNN
    MoeOffsetType => Integer(offset),                                       // hipDNN
    MoeRoutingMissing if named::routes => Present(index),                   // hipDNN
    MoeRoutingMissing if named::scatters => Present(ks),                    // hipDNN
    MoeRoutingType if named::routes => Integer(index),                      // hipDNN
    MoeRoutingType if named::scatters => Integer(ks),                       // hipDNN
    MoeRoutingCount if named::scatters => Dim(ks, 1, index, 1),             // hipDNN
    MoeTopK if named::scatters => Named(named::top_k, [weight; 4]),         // hipDNN
    MoeTokens if named::gathers => Dim(output, 1, index, 1),                // hipDNN
    MoeTokens if |node| !named::gathers(node) => Dim(output, 1, token, 1),  // hipDNN
    MoeColumns => Dim(output, 2, weight, 2),                                // hipDNN
} }

rules! { MOE_GROUPED_MATMUL_BWD: MoeGroupedMatmulBwd(doutput, token, offset = first_token_offset, dweight) {
    MoeRank => Rank(doutput, 3, 3),                                         // hipDNN
    MoeRank => Rank(token, 3, 3),
    MoeRank => Rank(offset, 3, 3),
    MoeRank => Rank(dweight, 3, 3),
    MoeUnitDim => DimIs(doutput, 0, 1),                                     // hipDNN
    MoeUnitDim => DimIs(token, 0, 1),
    MoeUnitDim => DimIs(offset, 1, 1),
    MoeUnitDim => DimIs(offset, 2, 1),
    MoeDepth => Dim(dweight, 1, token, 2),                                  // hipDNN
    MoeColumns => Dim(dweight, 2, doutput, 2),                              // hipDNN
    MoeTokens => Dim(doutput, 1, token, 1),                                 // hipDNN
    MoeExperts => Multiple(offset, 0, dweight, 0),                          // hipDNN
    MoeOffsetType => Integer(offset),                                       // hipDNN
} }

rules! { CUSTOM_OP: CustomOp() {
    CustomOpId => Stated("custom_op_id", |op| !matches!(op, Op::CustomOp(op) if op.custom_op_id.is_empty())), // hipDNN
} }
