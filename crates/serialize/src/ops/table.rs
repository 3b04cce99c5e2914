//! The operations and their fields, in slot order: the order of operands in the canonical numbering.

use super::field::{Field, WireValueError};
use super::value::ToValue;
use super::{FieldRole, FieldSpec, FieldValue, OperandUse, Uid};
use crate::canon::{DecodeError, Decoder, Encoder};
use crate::json::{ExportError, JsonError, JsonNode, NodeWriter};
use crate::wire::generated as wire;
use crate::wire::has_unknown_fields;
use crate::{
    AttentionImplementation, ConvMode, DataType, DiagonalAlignment, MoeGroupedMatmulMode, NormFwdPhase, PaddingMode, PointwiseMode,
    ReductionMode, ResampleMode,
};
use flatbuffers::{FlatBufferBuilder, UnionWIPOffset, WIPOffset};

/// Why an operation cannot be read from a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadOpError {
    /// A union tag that this version does not know; 0 is a node without an operation.
    UnknownTag(u8),
    /// There is a tag and no table.
    Missing(OpKind),
    /// A field holds something that cannot be read.
    Field { kind: OpKind, field: &'static str, error: WireValueError },
}

macro_rules! role {
    (input) => {
        FieldRole::Input
    };
    (output) => {
        FieldRole::Output
    };
    (attr) => {
        FieldRole::Attribute
    };
}

macro_rules! is_required {
    (required) => {
        true
    };
    (optional) => {
        false
    };
}

macro_rules! ops {
    ($(
        $(#[$meta:meta])*
        $name:ident $(<$lt:lifetime>)? = $tag:literal, $text:literal, $table:ident / $args:ident, $accessor:ident {
            $( $(#[$fmeta:meta])* $role:ident $presence:ident $field:ident: $ty:ty = $wire:ident, )+
        }
    )+) => {
        $(
            $(#[$meta])*
            #[derive(Clone, Debug, PartialEq)]
            pub struct $name $(<$lt>)? {
                $( $(#[$fmeta])* pub $field: $ty, )+
            }

            impl<'a> From<$name $(<$lt>)?> for Op<'a> {
                fn from(op: $name $(<$lt>)?) -> Self {
                    Self::$name(op)
                }
            }
        )+

        /// Which operation, without its fields. Numbers are the union tags of `NodeAttributes`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum OpKind {
            $( #[doc = $text] $name = $tag, )+
        }

        impl OpKind {
            /// Every operation, in tag order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The operation with this union tag.
            pub const fn from_tag(tag: u8) -> Option<Self> {
                match tag { $($tag => Some(Self::$name),)+ _ => None }
            }

            /// The union tag.
            pub const fn tag(self) -> u8 {
                self as u8
            }

            /// hipDNN's op code name, such as `convolution_fwd`.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }

            /// The union member's name, which is the `type` of a JSON node.
            pub const fn wire_name(self) -> &'static str {
                match self { $(Self::$name => stringify!($table),)+ }
            }

            /// The operation whose JSON nodes have this `type`.
            pub fn from_wire_name(text: &str) -> Option<Self> {
                match text { $(stringify!($table) => Some(Self::$name),)+ _ => None }
            }

            /// Its fields in slot order.
            pub const fn fields(self) -> &'static [FieldSpec] {
                match self { $(
                    Self::$name => &[ $( FieldSpec {
                        name: stringify!($field),
                        wire_name: stringify!($wire),
                        role: role!($role),
                        required: is_required!($presence),
                    }, )+ ],
                )+ }
            }
        }

        /// One operation with its operands and attributes. Read from the buffer when asked for, never stored in bulk.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Op<'a> {
            $( #[doc = $text] $name($name $(<$lt>)?), )+
        }

        impl<'a> Op<'a> {
            /// Which operation this is.
            pub const fn kind(&self) -> OpKind {
                match self { $(Self::$name(_) => OpKind::$name,)+ }
            }

            /// Calls `f` with every operand, in slot order.
            pub fn operands(&self, mut f: impl FnMut(OperandUse)) {
                match self { $(
                    Self::$name(op) => {
                        let $name { $($field,)+ } = op;
                        let mut slot = 0;
                        $(
                            if !matches!(role!($role), FieldRole::Attribute) {
                                let mut each = |uid| f(OperandUse { uid, slot, role: role!($role) });
                                Field::uids($field, &mut each);
                            }
                            slot = slot.saturating_add(1);
                        )+
                        let _ = slot;
                    }
                )+ }
            }

            /// Calls `f` with every field and its value, in slot order.
            pub fn values(&self, mut f: impl FnMut(&'static FieldSpec, FieldValue<'a>)) {
                match self { $(
                    Self::$name(op) => {
                        let $name { $($field,)+ } = op;
                        let mut specs = OpKind::$name.fields().iter();
                        $( if let Some(spec) = specs.next() { f(spec, ToValue::to_value($field)); } )+
                    }
                )+ }
            }

            /// Reads a node's operation. The second value tells whether its table holds fields that this version does not know.
            pub(crate) fn read(node: &wire::Node<'a>) -> Result<(Self, bool), ReadOpError> {
                let tag = node.attributes_type().0;
                let kind = OpKind::from_tag(tag).ok_or(ReadOpError::UnknownTag(tag))?;
                match kind { $(
                    OpKind::$name => {
                        let table = node.$accessor().ok_or(ReadOpError::Missing(kind))?;
                        let unknown = has_unknown_fields(&table._tab, kind.fields().len() as u16);
                        let op = $name { $(
                            $field: Field::from_wire(table.$wire())
                                .map_err(|error| ReadOpError::Field { kind, field: stringify!($wire), error })?,
                        )+ };
                        Ok((Self::from(op), unknown))
                    }
                )+ }
            }

            /// Writes the operation's table.
            pub(crate) fn write<'f>(&self, fbb: &mut FlatBufferBuilder<'f>) -> (wire::NodeAttributes, WIPOffset<UnionWIPOffset>) {
                match self { $(
                    Self::$name(op) => {
                        let $name { $($field,)+ } = op;
                        let args = wire::$args { $( $wire: Field::to_wire($field, fbb), )+ };
                        (wire::NodeAttributes($tag), wire::$table::create(fbb, &args).as_union_value())
                    }
                )+ }
            }

            /// Appends the operation's fields to a canonical encoding.
            pub(crate) fn encode(&self, out: &mut Encoder<'_>) {
                match self { $(
                    Self::$name(op) => {
                        let $name { $($field,)+ } = op;
                        $( Field::encode($field, out); )+
                    }
                )+ }
            }

            /// Reads the operation's fields from a canonical encoding.
            pub(crate) fn decode(kind: OpKind, from: &mut Decoder<'a>) -> Result<Self, DecodeError> {
                match kind { $(
                    OpKind::$name => Ok(Self::from($name { $( $field: Field::decode(from)?, )+ })),
                )+ }
            }

            /// Reads the operation's fields from a JSON node.
            pub(crate) fn from_json(kind: OpKind, node: &mut JsonNode<'_, 'a>) -> Result<Self, JsonError> {
                match kind { $(
                    OpKind::$name => Ok(Self::from($name { $(
                        $field: Field::from_json(&node.field(stringify!($wire), is_required!($presence))?)?,
                    )+ })),
                )+ }
            }

            /// Writes the operation's fields into a JSON node.
            pub(crate) fn to_json(&self, node: &mut NodeWriter<'_, '_>) -> Result<(), ExportError> {
                match self { $(
                    Self::$name(op) => {
                        let $name { $($field,)+ } = op;
                        $( node.put(stringify!($wire), role!($role), is_required!($presence), $field)?; )+
                        Ok(())
                    }
                )+ }
            }
        }
    };
}

ops! {
    /// Batch normalisation with given mean and inverse standard deviation: `y = (x - mean) * inv_variance * scale + bias`.
    #[expect(missing_docs, reason = "the fields are the letters of the formula")]
    BatchnormInference = 1, "batchnorm_inference", BatchnormInferenceAttributes / BatchnormInferenceAttributesArgs,
    attributes_as_batchnorm_inference_attributes {
        input required x: Uid = x_tensor_uid,
        input required mean: Uid = mean_tensor_uid,
        input required inv_variance: Uid = inv_variance_tensor_uid,
        input required scale: Uid = scale_tensor_uid,
        input required bias: Uid = bias_tensor_uid,
        output required y: Uid = y_tensor_uid,
    }

    /// An elementwise function of one to three broadcast inputs.
    Pointwise = 2, "pointwise", PointwiseAttributes / PointwiseAttributesArgs, attributes_as_pointwise_attributes {
        /// The function.
        attr required mode: PointwiseMode = operation,
        /// Relu: values below this are clipped; 0 when absent.
        attr optional relu_lower_clip: Option<f32> = relu_lower_clip,
        /// Relu: values above this are clipped; unbounded when absent.
        attr optional relu_upper_clip: Option<f32> = relu_upper_clip,
        /// Relu: slope below the lower clip; 0 when absent.
        attr optional relu_lower_clip_slope: Option<f32> = relu_lower_clip_slope,
        /// `gen_index`: the dimension whose index is generated. Not a uid, whatever its wire name says.
        attr optional axis: Option<i64> = axis_tensor_uid,
        /// First input.
        input required in_0: Uid = in_0_tensor_uid,
        /// Second input, of binary functions.
        input optional in_1: Option<Uid> = in_1_tensor_uid,
        /// Third input, of `binary_select`.
        input optional in_2: Option<Uid> = in_2_tensor_uid,
        /// Result.
        output required out_0: Uid = out_0_tensor_uid,
        /// Swish: factor inside the sigmoid; 1 when absent.
        attr optional swish_beta: Option<f32> = swish_beta,
        /// Elu: scale of the negative part; 1 when absent.
        attr optional elu_alpha: Option<f32> = elu_alpha,
        /// Softplus: sharpness; 1 when absent.
        attr optional softplus_beta: Option<f32> = softplus_beta,
    }

    /// Gradient of training batch normalisation.
    #[expect(missing_docs, reason = "the fields are named as in hipDNN")]
    BatchnormBackward<'a> = 3, "batchnorm_bwd", BatchnormBackwardAttributes / BatchnormBackwardAttributesArgs,
    attributes_as_batchnorm_backward_attributes {
        input required dy: Uid = dy_tensor_uid,
        input required x: Uid = x_tensor_uid,
        input optional mean: Option<Uid> = mean_tensor_uid,
        input optional inv_variance: Option<Uid> = inv_variance_tensor_uid,
        input required scale: Uid = scale_tensor_uid,
        input optional peer_stats: &'a [Uid] = peer_stats_tensor_uid,
        output required dx: Uid = dx_tensor_uid,
        output required dscale: Uid = dscale_tensor_uid,
        output required dbias: Uid = dbias_tensor_uid,
    }

    /// Training batch normalisation.
    #[expect(missing_docs, reason = "the fields are named as in hipDNN")]
    Batchnorm<'a> = 4, "batchnorm", BatchnormAttributes / BatchnormAttributesArgs, attributes_as_batchnorm_attributes {
        input required x: Uid = x_tensor_uid,
        input required scale: Uid = scale_tensor_uid,
        input required bias: Uid = bias_tensor_uid,
        input required epsilon: Uid = epsilon_tensor_uid,
        input optional peer_stats: &'a [Uid] = peer_stats_tensor_uid,
        input optional prev_running_mean: Option<Uid> = prev_running_mean_tensor_uid,
        input optional prev_running_variance: Option<Uid> = prev_running_variance_tensor_uid,
        input optional momentum: Option<Uid> = momentum_tensor_uid,
        output required y: Uid = y_tensor_uid,
        output optional mean: Option<Uid> = mean_tensor_uid,
        output optional inv_variance: Option<Uid> = inv_variance_tensor_uid,
        output optional next_running_mean: Option<Uid> = next_running_mean_tensor_uid,
        output optional next_running_variance: Option<Uid> = next_running_variance_tensor_uid,
    }

    /// Convolution. `x` is `[N, C, spatial...]`, `w` is `[K, C / groups, spatial...]`, `y` is `[N, K, spatial...]`.
    ConvolutionFwd<'a> = 5, "convolution_fwd", ConvolutionFwdAttributes / ConvolutionFwdAttributesArgs,
    attributes_as_convolution_fwd_attributes {
        /// Input image.
        input required x: Uid = x_tensor_uid,
        /// Filter.
        input required w: Uid = w_tensor_uid,
        /// Output image.
        output required y: Uid = y_tensor_uid,
        /// Padding before the first element, per spatial dimension.
        attr required pre_padding: &'a [i64] = pre_padding,
        /// Padding behind the last element, per spatial dimension.
        attr required post_padding: &'a [i64] = post_padding,
        /// Step of the filter, per spatial dimension.
        attr required stride: &'a [i64] = stride,
        /// Distance between filter taps, per spatial dimension.
        attr required dilation: &'a [i64] = dilation,
        /// Whether the filter is flipped.
        attr required conv_mode: ConvMode = conv_mode,
    }

    /// Gradient of a convolution with respect to its input (dgrad).
    ConvolutionBwd<'a> = 6, "convolution_bwd_data", ConvolutionBwdAttributes / ConvolutionBwdAttributesArgs,
    attributes_as_convolution_bwd_attributes {
        /// Gradient of the output image.
        input required dy: Uid = dy_tensor_uid,
        /// Filter.
        input required w: Uid = w_tensor_uid,
        /// Gradient of the input image.
        output required dx: Uid = dx_tensor_uid,
        /// Padding before the first element, per spatial dimension.
        attr required pre_padding: &'a [i64] = pre_padding,
        /// Padding behind the last element, per spatial dimension.
        attr required post_padding: &'a [i64] = post_padding,
        /// Step of the filter, per spatial dimension.
        attr required stride: &'a [i64] = stride,
        /// Distance between filter taps, per spatial dimension.
        attr required dilation: &'a [i64] = dilation,
        /// Whether the filter is flipped.
        attr required conv_mode: ConvMode = conv_mode,
    }

    /// Gradient of a convolution with respect to its filter (wgrad).
    ConvolutionWrw<'a> = 7, "convolution_bwd_filter", ConvolutionWrwAttributes / ConvolutionWrwAttributesArgs,
    attributes_as_convolution_wrw_attributes {
        /// Input image.
        input required x: Uid = x_tensor_uid,
        /// Gradient of the output image.
        input required dy: Uid = dy_tensor_uid,
        /// Gradient of the filter.
        output required dw: Uid = dw_tensor_uid,
        /// Padding before the first element, per spatial dimension.
        attr required pre_padding: &'a [i64] = pre_padding,
        /// Padding behind the last element, per spatial dimension.
        attr required post_padding: &'a [i64] = post_padding,
        /// Step of the filter, per spatial dimension.
        attr required stride: &'a [i64] = stride,
        /// Distance between filter taps, per spatial dimension.
        attr required dilation: &'a [i64] = dilation,
        /// Whether the filter is flipped.
        attr required conv_mode: ConvMode = conv_mode,
    }

    /// Batch normalisation with given mean and variance: `y = (x - mean) / sqrt(variance + epsilon) * scale + bias`.
    #[expect(missing_docs, reason = "the fields are the letters of the formula")]
    BatchnormInferenceVariance = 8, "batchnorm_inference_variance_ext",
    BatchnormInferenceAttributesVarianceExt / BatchnormInferenceAttributesVarianceExtArgs,
    attributes_as_batchnorm_inference_attributes_variance_ext {
        input required x: Uid = x_tensor_uid,
        input required mean: Uid = mean_tensor_uid,
        input required variance: Uid = variance_tensor_uid,
        input required scale: Uid = scale_tensor_uid,
        input required bias: Uid = bias_tensor_uid,
        output required y: Uid = y_tensor_uid,
        input required epsilon: Uid = epsilon_tensor_uid,
    }

    /// Batched matrix product `c = a * b`; transposition is in the strides, batch dimensions broadcast.
    Matmul = 9, "matmul", MatmulAttributes / MatmulAttributesArgs, attributes_as_matmul_attributes {
        /// `[..., M, K]`.
        input required a: Uid = a_tensor_uid,
        /// `[..., K, N]`.
        input required b: Uid = b_tensor_uid,
        /// `[..., M, N]`.
        output required c: Uid = c_tensor_uid,
    }

    /// Root-mean-square normalisation.
    #[expect(missing_docs, reason = "the fields are named as in hipDNN")]
    RmsNorm = 10, "rms_norm", RMSNormAttributes / RMSNormAttributesArgs, attributes_as_rmsnorm_attributes {
        input required x: Uid = x_tensor_uid,
        input required scale: Uid = scale_tensor_uid,
        input required epsilon: Uid = epsilon_tensor_uid,
        output required y: Uid = y_tensor_uid,
        input optional bias: Option<Uid> = bias_tensor_uid,
        output optional inv_rms: Option<Uid> = inv_rms_tensor_uid,
        attr optional forward_phase: NormFwdPhase = forward_phase,
    }

    /// Layer normalisation over the last `normalized_dim_count` dimensions.
    #[expect(missing_docs, reason = "the fields are named as in hipDNN")]
    Layernorm = 11, "layernorm", LayernormAttributes / LayernormAttributesArgs, attributes_as_layernorm_attributes {
        input required x: Uid = x_tensor_uid,
        input required scale: Uid = scale_tensor_uid,
        input required bias: Uid = bias_tensor_uid,
        input required epsilon: Uid = epsilon_tensor_uid,
        output required y: Uid = y_tensor_uid,
        attr required normalized_dim_count: i64 = normalized_dim_count,
        output optional mean: Option<Uid> = mean_tensor_uid,
        output optional inv_variance: Option<Uid> = inv_variance_tensor_uid,
        attr optional forward_phase: NormFwdPhase = forward_phase,
    }

    /// Scaled dot-product attention.
    #[expect(missing_docs, reason = "the fields are named as in hipDNN")]
    Sdpa = 12, "sdpa_fwd", SdpaAttributes / SdpaAttributesArgs, attributes_as_sdpa_attributes {
        input required q: Uid = q_tensor_uid,
        input required k: Uid = k_tensor_uid,
        input required v: Uid = v_tensor_uid,
        output required o: Uid = o_tensor_uid,
        input optional attn_mask: Option<Uid> = attn_mask_tensor_uid,
        input optional scale: Option<Uid> = scale_tensor_uid,
        input optional seq_len_q: Option<Uid> = seq_len_q_tensor_uid,
        input optional seq_len_kv: Option<Uid> = seq_len_kv_tensor_uid,
        input optional seed: Option<Uid> = seed_tensor_uid,
        input optional offset: Option<Uid> = offset_tensor_uid,
        input optional dropout_mask: Option<Uid> = dropout_mask_tensor_uid,
        input optional dropout_scale: Option<Uid> = dropout_scale_tensor_uid,
        input optional page_table_k: Option<Uid> = page_table_k_tensor_uid,
        input optional page_table_v: Option<Uid> = page_table_v_tensor_uid,
        input optional block_mask: Option<Uid> = block_mask_tensor_uid,
        input optional sink_token: Option<Uid> = sink_token_tensor_uid,
        input optional descale_q: Option<Uid> = descale_q_tensor_uid,
        input optional descale_k: Option<Uid> = descale_k_tensor_uid,
        input optional descale_v: Option<Uid> = descale_v_tensor_uid,
        input optional descale_s: Option<Uid> = descale_s_tensor_uid,
        input optional scale_s: Option<Uid> = scale_s_tensor_uid,
        input optional scale_o: Option<Uid> = scale_o_tensor_uid,
        output optional stats: Option<Uid> = stats_tensor_uid,
        output optional max: Option<Uid> = max_tensor_uid,
        output optional sum_exp: Option<Uid> = sum_exp_tensor_uid,
        output optional rng_dump: Option<Uid> = rng_dump_tensor_uid,
        output optional amax_s: Option<Uid> = amax_s_tensor_uid,
        output optional amax_o: Option<Uid> = amax_o_tensor_uid,
        attr optional generate_stats: Option<bool> = generate_stats,
        attr optional alibi_mask: bool = alibi_mask,
        attr optional padding_mask: bool = padding_mask,
        attr optional causal_mask: bool = causal_mask,
        attr optional causal_mask_bottom_right: bool = causal_mask_bottom_right,
        attr optional dropout_probability: Option<f32> = dropout_probability,
        attr optional attn_scale_value: Option<f32> = attn_scale_value,
        attr optional left_bound: Option<i64> = left_bound,
        attr optional right_bound: Option<i64> = right_bound,
        attr optional max_seq_len_kv: Option<i32> = max_seq_len_kv,
        attr optional diagonal_alignment: DiagonalAlignment = diagonal_alignment,
        attr optional mma_core_mode: DataType = mma_core_mode,
        attr optional implementation: AttentionImplementation = implementation,
    }

    /// Multiplies blocks by their scales.
    #[expect(missing_docs, reason = "the fields are named as in hipDNN")]
    BlockScaleDequantize<'a> = 13, "block_scale_dequantize", BlockScaleDequantizeAttributes / BlockScaleDequantizeAttributesArgs,
    attributes_as_block_scale_dequantize_attributes {
        input required x: Uid = x_tensor_uid,
        input required scale: Uid = scale_tensor_uid,
        output required y: Uid = y_tensor_uid,
        attr optional block_size: &'a [i32] = block_size,
        attr optional is_negative_scale: bool = is_negative_scale,
    }

    /// Divides blocks by scales that it computes.
    #[expect(missing_docs, reason = "the fields are named as in hipDNN")]
    BlockScaleQuantize = 14, "block_scale_quantize", BlockScaleQuantizeAttributes / BlockScaleQuantizeAttributesArgs,
    attributes_as_block_scale_quantize_attributes {
        input required x: Uid = x_tensor_uid,
        output required y: Uid = y_tensor_uid,
        output required scale: Uid = scale_tensor_uid,
        attr optional block_size: i32 = block_size,
        attr optional axis: Option<i64> = axis,
        attr optional transpose: bool = transpose,
    }

    /// Gradient of scaled dot-product attention.
    #[expect(missing_docs, reason = "the fields are named as in hipDNN")]
    SdpaBackward = 15, "sdpa_bwd", SdpaBackwardAttributes / SdpaBackwardAttributesArgs, attributes_as_sdpa_backward_attributes {
        input required q: Uid = q_tensor_uid,
        input required k: Uid = k_tensor_uid,
        input required v: Uid = v_tensor_uid,
        input required o: Uid = o_tensor_uid,
        input required d_o: Uid = do_tensor_uid,
        input required stats: Uid = stats_tensor_uid,
        output required dq: Uid = dq_tensor_uid,
        output required dk: Uid = dk_tensor_uid,
        output required dv: Uid = dv_tensor_uid,
        input optional scale: Option<Uid> = scale_tensor_uid,
        input optional attn_mask: Option<Uid> = attn_mask_tensor_uid,
        input optional seq_len_q: Option<Uid> = seq_len_q_tensor_uid,
        input optional seq_len_kv: Option<Uid> = seq_len_kv_tensor_uid,
        input optional seed: Option<Uid> = seed_tensor_uid,
        input optional offset: Option<Uid> = offset_tensor_uid,
        input optional dropout_mask: Option<Uid> = dropout_mask_tensor_uid,
        input optional dropout_scale: Option<Uid> = dropout_scale_tensor_uid,
        input optional dropout_scale_inv: Option<Uid> = dropout_scale_inv_tensor_uid,
        output optional dbias: Option<Uid> = dbias_tensor_uid,
        attr optional alibi_mask: bool = alibi_mask,
        attr optional padding_mask: bool = padding_mask,
        attr optional causal_mask: bool = causal_mask,
        attr optional causal_mask_bottom_right: bool = causal_mask_bottom_right,
        attr optional dropout_probability: Option<f32> = dropout_probability,
        attr optional attn_scale_value: Option<f32> = attn_scale_value,
        attr optional left_bound: Option<i64> = left_bound,
        attr optional right_bound: Option<i64> = right_bound,
        attr optional diagonal_alignment: DiagonalAlignment = diagonal_alignment,
    }

    /// An operation that only a plugin knows.
    CustomOp<'a> = 16, "custom_op", CustomOpAttributes / CustomOpAttributesArgs, attributes_as_custom_op_attributes {
        /// `plugin.operation`.
        attr required custom_op_id: &'a str = custom_op_id,
        /// Tensors read.
        input required inputs: &'a [Uid] = input_tensor_uids,
        /// Tensors written.
        output required outputs: &'a [Uid] = output_tensor_uids,
        /// The plugin's own bytes.
        attr required data: &'a [u8] = data,
    }

    /// Gradient of root-mean-square normalisation.
    #[expect(missing_docs, reason = "the fields are named as in hipDNN")]
    RmsNormBackward = 17, "rms_norm_bwd", RMSNormBackwardAttributes / RMSNormBackwardAttributesArgs,
    attributes_as_rmsnorm_backward_attributes {
        input required dy: Uid = dy_tensor_uid,
        input required x: Uid = x_tensor_uid,
        input required scale: Uid = scale_tensor_uid,
        input required inv_rms: Uid = inv_rms_tensor_uid,
        output required dx: Uid = dx_tensor_uid,
        output required dscale: Uid = dscale_tensor_uid,
        output optional dbias: Option<Uid> = dbias_tensor_uid,
    }

    /// Reduction over the dimensions that the output has with size 1.
    #[expect(missing_docs, reason = "the fields are named as in hipDNN")]
    Reduction = 18, "reduction", ReductionAttributes / ReductionAttributesArgs, attributes_as_reduction_attributes {
        attr required mode: ReductionMode = mode,
        input required input: Uid = in_tensor_uid,
        output required output: Uid = out_tensor_uid,
        attr optional is_deterministic: bool = is_deterministic,
    }

    /// Pooling.
    #[expect(missing_docs, reason = "the fields are named as in hipDNN")]
    ResampleFwd<'a> = 19, "resample_fwd", ResampleFwdAttributes / ResampleFwdAttributesArgs, attributes_as_resample_fwd_attributes {
        input required x: Uid = x_tensor_uid,
        output required y: Uid = y_tensor_uid,
        output optional index: Option<Uid> = index_tensor_uid,
        attr required pre_padding: &'a [i64] = pre_padding,
        attr required post_padding: &'a [i64] = post_padding,
        attr required stride: &'a [i64] = stride,
        attr required window: &'a [i64] = window,
        attr required resample_mode: ResampleMode = resample_mode,
        attr required padding_mode: PaddingMode = padding_mode,
        attr optional generate_index: Option<bool> = generate_index,
    }

    /// Gradient of layer normalisation.
    #[expect(missing_docs, reason = "the fields are named as in hipDNN")]
    LayernormBackward = 20, "layernorm_bwd", LayernormBackwardAttributes / LayernormBackwardAttributesArgs,
    attributes_as_layernorm_backward_attributes {
        input required dy: Uid = dy_tensor_uid,
        input required x: Uid = x_tensor_uid,
        input required scale: Uid = scale_tensor_uid,
        input optional mean: Option<Uid> = mean_tensor_uid,
        input optional inv_variance: Option<Uid> = inv_variance_tensor_uid,
        input optional epsilon: Option<Uid> = epsilon_tensor_uid,
        output required dx: Uid = dx_tensor_uid,
        output required dscale: Uid = dscale_tensor_uid,
        output required dbias: Uid = dbias_tensor_uid,
        attr required normalized_dim_count: i64 = normalized_dim_count,
    }

    /// Gradient of pooling.
    #[expect(missing_docs, reason = "the fields are named as in hipDNN")]
    ResampleBwd<'a> = 21, "resample_bwd", ResampleBwdAttributes / ResampleBwdAttributesArgs, attributes_as_resample_bwd_attributes {
        input required dy: Uid = dy_tensor_uid,
        output required dx: Uid = dx_tensor_uid,
        input optional index: Option<Uid> = index_tensor_uid,
        attr required pre_padding: &'a [i64] = pre_padding,
        attr required post_padding: &'a [i64] = post_padding,
        attr required stride: &'a [i64] = stride,
        attr required window: &'a [i64] = window,
        attr required resample_mode: ResampleMode = resample_mode,
        attr required padding_mode: PaddingMode = padding_mode,
    }

    /// Matrix products of a mixture of experts, one per expert.
    #[expect(missing_docs, reason = "the fields are named as in hipDNN")]
    MoeGroupedMatmul = 22, "moe_grouped_matmul", MoeGroupedMatmulAttributes / MoeGroupedMatmulAttributesArgs,
    attributes_as_moe_grouped_matmul_attributes {
        input required token: Uid = token_tensor_uid,
        input required weight: Uid = weight_tensor_uid,
        input required first_token_offset: Uid = first_token_offset_tensor_uid,
        input optional token_index: Option<Uid> = token_index_tensor_uid,
        input optional token_ks: Option<Uid> = token_ks_tensor_uid,
        output required output: Uid = output_tensor_uid,
        attr required mode: MoeGroupedMatmulMode = mode,
        attr required top_k: i32 = top_k,
    }

    /// Gradient of the weights of a mixture of experts.
    #[expect(missing_docs, reason = "the fields are named as in hipDNN")]
    MoeGroupedMatmulBwd = 23, "moe_grouped_matmul_bwd", MoeGroupedMatmulBwdAttributes / MoeGroupedMatmulBwdAttributesArgs,
    attributes_as_moe_grouped_matmul_bwd_attributes {
        input required doutput: Uid = doutput_tensor_uid,
        input required token: Uid = token_tensor_uid,
        input required first_token_offset: Uid = first_token_offset_tensor_uid,
        output required dweight: Uid = dweight_tensor_uid,
    }
}
