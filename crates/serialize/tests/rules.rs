//! The rules of the operations (G6): each is the first error of a graph that differs from a valid one in a single point, and what
//! real writers do is accepted.

mod common;

use common::{corpus_folder, import};
use hipplan_fuzzing::{FieldValue, Generator, Style, Tensor};
use hipplan_serialize::error::RuleError;
use hipplan_serialize::json::JsonError;
use hipplan_serialize::{DataType, GraphError, Limits, OpKind, canon};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// A graph of the corpus: a real one, or one written by hand for operations of which there is none.
fn graph(name: &str) -> Value {
    let folders = ["graphs", "graphs-handmade"].map(|folder| corpus_folder().join(folder).join(format!("{name}.json")));
    let file = folders.iter().find(|f| f.exists()).unwrap_or_else(|| panic!("{name} is not in the corpus"));
    serde_json::from_slice(&std::fs::read(file).expect("readable")).expect("JSON")
}

/// A valid graph to change: one of its nodes is looked at.
struct Edit {
    graph: Value,
    node: usize,
}

impl Edit {
    fn node(&mut self) -> &mut Value {
        &mut self.graph["nodes"][self.node]
    }

    /// The place of a field of the node, in whatever group it stands; at the node itself where it stands nowhere yet.
    fn field(&mut self, key: &str) -> &mut Value {
        let node = self.node();
        let groups = ["inputs", "outputs", "parameters", "attributes"];
        match groups.into_iter().find(|group| node[group].get(key).is_some()) {
            Some(group) => &mut node[group][key],
            None => &mut node[key],
        }
    }

    fn uid(&mut self, operand: &str) -> Value {
        let uid = self.field(&format!("{operand}_tensor_uid")).clone();
        assert!(uid.is_i64(), "no operand {operand}");
        uid
    }

    fn tensor(&mut self, operand: &str) -> &mut Value {
        let uid = self.uid(operand);
        let tensors = self.graph["tensors"].as_array_mut().expect("tensors");
        tensors.iter_mut().find(|t| t["uid"] == uid).expect("there")
    }

    /// Gives an operand other dims, packed.
    fn dims(&mut self, operand: &str, dims: &[i64]) {
        let packed = Tensor::packed(DataType::Float, dims);
        let tensor = self.tensor(operand);
        (tensor["dims"], tensor["strides"]) = (json!(dims), json!(packed.strides));
    }

    /// Gives an operand one other dim.
    fn dim(&mut self, operand: &str, axis: usize, size: i64) {
        let mut dims: Vec<i64> = serde_json::from_value(self.tensor(operand)["dims"].clone()).expect("dims");
        dims[axis] = size;
        self.dims(operand, &dims);
    }

    fn dtype(&mut self, operand: &str, dtype: &str) {
        self.tensor(operand)["data_type"] = json!(dtype);
    }

    fn set(&mut self, attribute: &str, value: Value) {
        *self.field(attribute) = value;
    }

    fn drop(&mut self, operand: &str) {
        self.uid(operand);
        *self.field(&format!("{operand}_tensor_uid")) = Value::Null;
    }

    /// Adds an operand with a new tensor.
    fn add(&mut self, operand: &str, dtype: &str, dims: &[i64]) {
        let strides = Tensor::packed(DataType::Float, dims).strides;
        let tensors = self.graph["tensors"].as_array_mut().expect("tensors");
        tensors.push(
            json!({"uid": 900 + tensors.len(), "name": "added", "data_type": dtype, "dims": dims, "strides": strides, "virtual": false}),
        );
        let uid = tensors.last().expect("just added")["uid"].clone();
        *self.field(&format!("{operand}_tensor_uid")) = uid;
    }

    /// Takes the value of a scalar away: an ordinary tensor is left.
    fn ordinary(&mut self, operand: &str) {
        let tensor = self.tensor(operand).as_object_mut().expect("a tensor");
        tensor.retain(|key, _| !matches!(key.as_str(), "value" | "value_type" | "is_runtime_pass_by_value"));
    }
}

type Change = Box<dyn Fn(&mut Edit)>;

/// Base, node, what is changed.
fn edited(base: &str, node: usize, change: &Change) -> Value {
    let mut edit = Edit { graph: graph(base), node };
    change(&mut edit);
    edit.graph
}

/// Rule, base graph and node, the field at fault, the change.
struct Mutant(&'static str, &'static str, usize, &'static str, Change);

macro_rules! mutants {
    ($($base:literal [$node:literal] { $($rule:ident $field:ident: |$e:ident| $change:expr;)+ })+) => {
        vec![$($( Mutant(
            stringify!($rule), $base, $node, stringify!($field),
            Box::new(|$e: &mut Edit| { $change; }),
        ), )+)+]
    };
}

#[rustfmt::skip]
fn mutants() -> Vec<Mutant> {
    mutants! {
        "conv_fwd_bf16_nhwc_3x3_dilated" [0] {
            ConvRank x: |e| e.dims("x", &[1, 16]);
            ConvRank x: |e| e.dims("x", &[1, 16, 1, 1, 1, 1]);
            ConvRanksDiffer w: |e| e.dims("w", &[1, 16, 3]);
            ConvRanksDiffer y: |e| e.dims("y", &[1, 1, 16, 16, 1]);
            ConvListLength pre_padding: |e| e.set("pre_padding", json!([2]));
            ConvListLength post_padding: |e| e.set("post_padding", json!([]));
            ConvListLength stride: |e| e.set("stride", json!([1, 1, 1]));
            ConvListLength dilation: |e| e.set("dilation", json!([2]));
            ConvPadding pre_padding: |e| e.set("pre_padding", json!([2, -2]));
            ConvPadding post_padding: |e| e.set("post_padding", json!([i64::MIN, 2]));
            ConvStride stride: |e| e.set("stride", json!([1, 0]));
            ConvDilation dilation: |e| e.set("dilation", json!([0, 2]));
            ConvModeUnset conv_mode: |e| e.set("conv_mode", json!("UNSET"));
            ConvBatch y: |e| e.dim("y", 0, 2);
            ConvFilters y: |e| e.dim("y", 1, 2);
            ConvChannels x: |e| e.dim("w", 1, 15);
            ConvChannels x: |e| e.dim("w", 1, 32);
            ConvWindow x: |e| e.set("dilation", json!([2, i64::MAX]));
            ConvWindow x: |e| e.dim("w", 2, 12);
            ConvOutputDim y: |e| e.dim("y", 3, 15);
            ConvOutputDim y: |e| e.set("stride", json!([i64::MAX, 1]));
            ConvOutputDim y: |e| e.set("pre_padding", json!([i64::MAX, 2]));
        }
        "conv_bwd_bf16_nhwc_3x3_stride2" [0] {
            ConvBatch dy: |e| e.dim("dx", 0, 2);
            ConvFilters dy: |e| e.dim("w", 0, 2);
            ConvOutputDim dy: |e| e.dim("dx", 2, 18);
            ConvListLength stride: |e| e.set("stride", json!([2]));
            ConvModeUnset conv_mode: |e| e.set("conv_mode", json!("UNSET"));
        }
        "conv_wrw_bf16_nchw_3x3" [0] {
            ConvChannels x: |e| e.dim("dw", 1, 3);
            ConvOutputDim dy: |e| e.dim("dw", 3, 5);
            ConvModeUnset conv_mode: |e| e.set("conv_mode", json!("UNSET"));
        }
        "conv_grouped_nhwc_bias_relu" [0] {
            // 32 groups of 2 channels do not share 129 filters.
            ConvGroups w: |e| { e.dim("w", 0, 129); e.dim("y", 1, 129) };
        }
        "sample_add" [0] {
            PointwiseModeUnset operation: |e| e.set("operation", json!("unset"));
            PointwiseOperandMissing in_1: |e| e.drop("in_1");
            PointwiseOperandMissing in_2: |e| e.set("operation", json!("binary_select"));
            PointwiseOperandExtra in_1: |e| e.set("operation", json!("abs"));
            PointwiseOperandExtra in_2: |e| e.add("in_2", "float", &[128, 256, 14, 14]);
            PointwiseBroadcast in_0: |e| e.dim("in_0", 1, 128);
            PointwiseBroadcast in_1: |e| e.dims("in_1", &[256]);
            PointwiseBroadcast in_1: |e| e.dims("in_1", &[1, 1, 1, 1, 1]);
            PointwiseBroadcast in_0: |e| e.dim("out_0", 0, 1);
        }
        "pointwise_gen_index_select" [0] {
            GenIndexAxisMissing axis: |e| e.set("axis_tensor_uid", Value::Null);
            GenIndexAxis axis: |e| e.set("axis_tensor_uid", json!(3));
            GenIndexAxis axis: |e| e.set("axis_tensor_uid", json!(-1));
        }
        "pointwise_gen_index_select" [2] {
            PointwiseBroadcast in_0: |e| e.dim("out_0", 2, 65);
        }
        "sample_matmul" [0] {
            MatmulRank a: |e| e.dims("a", &[512]);
            MatmulRank b: |e| e.dims("b", &[512]);
            MatmulRank c: |e| e.dims("c", &[1024]);
            MatmulInner b: |e| e.dim("b", 0, 511);
            MatmulRows c: |e| e.dim("c", 0, 255);
            MatmulColumns c: |e| e.dim("c", 1, 1023);
            MatmulOutputBatch c: |e| e.dims("c", &[2, 256, 1024]);
        }
        "matmul_bf16_3d_broadcast_b_transposed_a" [0] {
            MatmulBatch b: |e| e.dim("b", 0, 2);
            MatmulOutputBatch c: |e| e.dim("c", 0, 1);
        }
        "sample_batchnorm" [0] {
            NormRank x: |e| e.dims("x", &[64]);
            NormShape y: |e| e.dim("y", 3, 27);
            NormChannelShape mean: |e| e.dims("mean", &[1, 63, 1, 1]);
            NormChannelShape inv_variance: |e| e.dims("inv_variance", &[64, 1, 1, 1]);
            NormChannelShape scale: |e| e.dims("scale", &[1, 64, 28, 28]);
            NormChannelShape bias: |e| e.dims("bias", &[1]);
        }
        "bn_inference_variance_bf16_ncl" [0] {
            OperandNotScalar epsilon: |e| e.ordinary("epsilon");
            NormRank x: |e| e.dims("x", &[8]);
            NormShape y: |e| e.dim("y", 1, 31);
            NormChannelShape variance: |e| e.dims("variance", &[2, 32, 1]);
        }
        "bn_training_bf16_ncl" [0] {
            OperandNotScalar epsilon: |e| e.ordinary("epsilon");
            OperandNotScalar momentum: |e| e.ordinary("momentum");
            NormRunningStatistics prev_running_mean: |e| e.drop("prev_running_mean");
            NormRunningStatistics next_running_variance: |e| e.drop("next_running_variance");
            NormMomentum momentum: |e| e.drop("momentum");
            NormShape y: |e| e.dim("y", 0, 3);
            NormChannelShape next_running_mean: |e| e.dims("next_running_mean", &[9]);
            NormChannelShape prev_running_variance: |e| e.dim("prev_running_variance", 1, 9);
            NormChannelShape inv_variance: |e| e.dim("inv_variance", 2, 56);
        }
        "bn_backward_nhwc" [0] {
            NormStatisticsPair mean: |e| e.drop("mean");
            NormStatisticsPair inv_variance: |e| e.drop("inv_variance");
            NormRank x: |e| e.dims("x", &[16]);
            NormShape dy: |e| e.dim("dy", 2, 15);
            NormShape dx: |e| e.dim("dx", 1, 32);
            NormChannelShape dscale: |e| e.dim("dscale", 1, 32);
            NormChannelShape dbias: |e| e.dim("dbias", 0, 16);
        }
        "layernorm_bf16_nchw_ndc1" [0] {
            OperandNotScalar epsilon: |e| e.ordinary("epsilon");
            NormShape y: |e| e.dim("y", 3, 3);
            NormAxes normalized_dim_count: |e| e.set("normalized_dim_count", json!(5));
            NormAxes normalized_dim_count: |e| e.set("normalized_dim_count", json!(-1));
            NormScaleShape scale: |e| e.set("normalized_dim_count", json!(2));
            NormScaleShape scale: |e| e.dim("scale", 3, 3);
            NormScaleShape scale: |e| e.dims("scale", &[1, 2]);
            NormBiasShape bias: |e| e.dims("bias", &[2]);
            NormStatisticsShape mean: |e| e.dim("mean", 3, 2);
            NormStatisticsShape inv_variance: |e| e.dims("inv_variance", &[2, 2]);
        }
        "layernorm_backward" [0] {
            OperandNotScalar epsilon: |e| e.ordinary("epsilon");
            NormStatisticsPair inv_variance: |e| e.drop("inv_variance");
            NormShape dx: |e| e.dim("dx", 0, 4);
            NormAxes normalized_dim_count: |e| e.set("normalized_dim_count", json!(6));
            NormScaleShape scale: |e| e.dim("scale", 1, 128);
            NormGradientShape dscale: |e| e.dims("dscale", &[12, 64]);
            NormGradientShape dbias: |e| e.dim("dbias", 3, 32);
            NormStatisticsShape mean: |e| e.dim("mean", 1, 127);
            NormStatisticsShape inv_variance: |e| e.dims("inv_variance", &[8, 128]);
        }
        "rmsnorm_bf16_nchw" [0] {
            OperandNotScalar epsilon: |e| e.ordinary("epsilon");
            NormRank x: |e| e.dims("x", &[8]);
            NormShape y: |e| e.dim("y", 0, 1);
            NormScaleShape scale: |e| e.dim("scale", 3, 7);
            NormBiasShape bias: |e| e.dim("bias", 2, 4);
            NormStatisticsShape inv_rms: |e| e.dim("inv_rms", 0, 3);
        }
        "rmsnorm_backward" [0] {
            NormShape dy: |e| e.dim("dy", 1, 511);
            NormScaleShape scale: |e| e.dim("scale", 2, 2048);
            NormGradientShape dscale: |e| e.dims("dscale", &[4096]);
            NormStatisticsShape inv_rms: |e| e.dim("inv_rms", 1, 256);
        }
        "sample_reduction" [0] {
            ReductionModeUnset mode: |e| e.set("mode", json!("NOT_SET"));
            ReductionRank output: |e| *e.tensor("out") = json!({"uid": 2, "name": "output_y", "data_type": "float", "dims": [2, 3], "strides": [3, 1], "virtual": false});
            ReductionDim output: |e| e.dim("out", 2, 2);
            ReductionDim output: |e| e.dim("out", 0, 4);
        }
        "sample_resample_fwd" [0] {
            PoolRank x: |e| e.dims("x", &[1, 2]);
            PoolRanksDiffer y: |e| e.dims("y", &[1, 2, 3]);
            PoolListLength window: |e| e.set("window", json!([2]));
            PoolListLength pre_padding: |e| e.set("pre_padding", json!([]));
            PoolPadding post_padding: |e| e.set("post_padding", json!([0, -1]));
            PoolStride stride: |e| e.set("stride", json!([0, 2]));
            PoolWindow window: |e| e.set("window", json!([2, 0]));
            PoolModeUnset resample_mode: |e| e.set("resample_mode", json!("not_set"));
            PoolBatch y: |e| e.dim("y", 0, 2);
            PoolChannels y: |e| e.dim("y", 1, 1);
            PoolRoom x: |e| e.set("window", json!([7, 2]));
            PoolOutputDim y: |e| e.dim("y", 2, 4);
            PoolOutputDim y: |e| e.set("stride", json!([1, 2]));
        }
        "maxpool_index" [0] {
            PoolIndexMissing index: |e| e.drop("index");
            PoolIndexShape index: |e| e.dim("index", 1, 32);
            PoolIndexType index: |e| e.dtype("index", "float");
        }
        "maxpool_backward" [0] {
            PoolIndexMissing index: |e| e.drop("index");
            PoolIndexShape index: |e| e.dim("index", 0, 1);
            PoolIndexType index: |e| e.dtype("index", "half");
            PoolOutputDim dy: |e| e.dim("dx", 2, 111 + 4);
            PoolChannels dy: |e| e.dim("dx", 1, 32);
        }
        "sdpa_fwd_fp16_hd128_nomask_stats" [0] {
            AttentionRank q: |e| e.dims("q", &[4, 256, 128]);
            AttentionRank o: |e| e.dims("o", &[2, 4, 256, 128, 1]);
            AttentionBatch k: |e| e.dim("k", 0, 1);
            AttentionBatch v: |e| e.dim("v", 0, 3);
            AttentionHeadSize k: |e| e.dim("k", 3, 64);
            AttentionKeyLength v: |e| e.dim("v", 2, 255);
            AttentionHeadRatio q: |e| e.dim("k", 1, 3);
            AttentionHeadRatio q: |e| e.dim("v", 1, 8);
            AttentionOutputShape o: |e| e.dim("o", 0, 1);
            AttentionOutputShape o: |e| e.dim("o", 3, 64);
            AttentionStatisticsMissing stats: |e| e.drop("stats");
            AttentionStatisticsShape stats: |e| e.dim("stats", 2, 255);
            AttentionStatisticsShape max: |e| e.add("max", "float", &[2, 4, 1, 1]);
        }
        "sdpa_gqa_padded_dropout" [0] {
            OperandNotScalar scale: |e| e.ordinary("scale");
            AttentionMaskShape attn_mask: |e| e.dim("attn_mask", 3, 128);
            AttentionMaskShape attn_mask: |e| e.dim("attn_mask", 1, 8);
            AttentionMaskShape attn_mask: |e| e.dims("attn_mask", &[1, 1, 1, 1, 160]);
            AttentionScaleTwice scale: |e| e.set("attn_scale_value", json!(0.125));
            AttentionLengthMissing seq_len_kv: |e| e.drop("seq_len_kv");
            AttentionLengthCount seq_len_q: |e| e.dim("seq_len_q", 0, 5);
            AttentionLengthType seq_len_kv: |e| e.dtype("seq_len_kv", "float");
            AttentionSeedPair seed: |e| e.drop("seed");
            AttentionSeedPair offset: |e| e.drop("offset");
            AttentionSeedType seed: |e| e.dtype("seed", "float");
            AttentionDropoutProbability dropout_probability: |e| e.set("dropout_probability", json!(1.5));
            AttentionDropoutProbability dropout_probability: |e| e.set("dropout_probability", json!(-0.1));
            AttentionBound left_bound: |e| e.set("left_bound", json!(-2));
            AttentionBound right_bound: |e| e.set("right_bound", json!(i64::MIN));
            AttentionCausalTwice causal_mask_bottom_right: |e| { e.set("causal_mask", json!(true)); e.set("causal_mask_bottom_right", json!(true)) };
        }
        "sdpa_mqa_paged_decode" [0] {
            AttentionPageTablePair page_table_v: |e| e.drop("page_table_v");
            AttentionPageTableLength seq_len_kv: |e| { e.set("padding_mask", json!(false)); e.drop("seq_len_kv") };
            AttentionPageTableBatch page_table_k: |e| e.dim("page_table_k", 0, 15);
            AttentionPageTableType page_table_v: |e| e.dtype("page_table_v", "half");
            AttentionMaxLength max_seq_len_kv: |e| e.set("max_seq_len_kv", json!(-1));
            AttentionHeadRatio q: |e| e.dim("v", 1, 3);
        }
        "sdpa_dropout_mask" [0] {
            AttentionDropoutPair dropout_scale: |e| e.drop("dropout_scale");
            AttentionDropoutPair dropout_mask: |e| e.drop("dropout_mask");
            AttentionDropoutMaskShape dropout_mask: |e| e.dim("dropout_mask", 3, 31);
        }
        "sdpa_backward_gqa" [0] {
            AttentionBatch k: |e| e.dim("k", 0, 1);
            AttentionHeadRatio q: |e| e.dim("v", 1, 3);
            AttentionOutputShape o: |e| e.dim("o", 2, 63);
            AttentionMaskShape attn_mask: |e| e.dim("attn_mask", 2, 65);
            AttentionLengthMissing seq_len_q: |e| e.drop("seq_len_q");
            AttentionLengthCount seq_len_kv: |e| e.dim("seq_len_kv", 0, 3);
            AttentionDropoutMaskShape dropout_mask: |e| e.dim("dropout_mask", 1, 2);
            AttentionStatisticsShape stats: |e| e.dim("stats", 3, 2);
            AttentionGradientShape d_o: |e| e.dim("do", 1, 2);
            AttentionGradientShape dq: |e| e.dim("dq", 0, 1);
            AttentionGradientShape dk: |e| e.dim("dk", 1, 8);
            AttentionGradientShape dv: |e| e.dim("dv", 3, 32);
            AttentionGradientShape dbias: |e| e.dim("dbias", 1, 2);
            AttentionScaleTwice scale: |e| { e.add("scale", "float", &[1]); e.tensor("scale")["is_runtime_pass_by_value"] = json!(true) };
        }
        "mx_matmul_fp8_to_bf16" [0] {
            BlockSizeMissing block_size: |e| e.set("block_size", json!([]));
            BlockSizeCount block_size: |e| e.set("block_size", json!([1, 1, 32]));
            BlockSize block_size: |e| e.set("block_size", json!([0]));
            BlockSize block_size: |e| e.set("block_size", json!([32, -1]));
            BlockShape y: |e| e.dim("y", 0, 31);
            BlockScaleRank scale: |e| e.dims("scale", &[32, 4, 1]);
            BlockScaleDim scale: |e| e.dim("scale", 1, 3);
            BlockScaleDim scale: |e| e.dim("scale", 0, 1);
            BlockScaleDim scale: |e| e.set("block_size", json!([31]));
        }
        "mx_matmul_fp8_to_bf16" [1] {
            BlockScaleDim scale: |e| e.dim("scale", 0, 3);
        }
        "mx_quantize_relu" [1] {
            BlockSize block_size: |e| e.set("block_size", json!(0));
            BlockAxis axis: |e| e.set("axis", json!(2));
            BlockAxis axis: |e| e.set("axis", json!(-1));
            BlockShape y: |e| e.dim("y", 1, 255);
            BlockScaleRank scale: |e| e.dims("scale", &[512]);
            BlockScaleDim scale: |e| e.dim("scale", 1, 7);
            BlockScaleDim scale: |e| e.set("axis", json!(0));
        }
        "moe_gather" [0] {
            MoeRank token: |e| e.dims("token", &[96, 64]);
            MoeRank token_index: |e| e.dims("token_index", &[192]);
            MoeUnitDim token: |e| e.dims("token", &[2, 48, 64]);
            MoeUnitDim first_token_offset: |e| e.dims("first_token_offset", &[1, 8, 1]);
            MoeUnitDim token_index: |e| e.dims("token_index", &[192, 1, 1]);
            MoeDepth weight: |e| e.dim("weight", 1, 63);
            MoeExperts first_token_offset: |e| e.dim("first_token_offset", 0, 9);
            MoeOffsetType first_token_offset: |e| e.dtype("first_token_offset", "float");
            MoeRoutingMissing token_index: |e| e.drop("token_index");
            MoeRoutingType token_index: |e| e.dtype("token_index", "bfloat16");
            MoeTokens output: |e| e.dim("output", 1, 96);
            MoeColumns output: |e| e.dim("output", 2, 64);
        }
        "moe_scatter" [0] {
            MoeRoutingMissing token_ks: |e| e.drop("token_ks");
            MoeRoutingType token_ks: |e| e.dtype("token_ks", "float");
            MoeRoutingCount token_ks: |e| e.dim("token_ks", 1, 191);
            MoeTopK top_k: |e| e.set("top_k", json!(0));
            MoeTopK top_k: |e| e.set("top_k", json!(9));
            MoeTokens output: |e| e.dim("output", 1, 96);
        }
        "moe_backward" [0] {
            MoeRank dweight: |e| e.dims("dweight", &[64, 128]);
            MoeUnitDim doutput: |e| e.dims("doutput", &[2, 96, 128]);
            MoeDepth dweight: |e| e.dim("dweight", 1, 65);
            MoeColumns dweight: |e| e.dim("dweight", 2, 64);
            MoeTokens doutput: |e| e.dim("doutput", 1, 191);
            MoeExperts first_token_offset: |e| e.dim("first_token_offset", 0, 7);
            MoeOffsetType first_token_offset: |e| e.dtype("first_token_offset", "half");
        }
        "custom_rope_matmul" [0] {
            CustomOpId custom_op_id: |e| e.set("custom_op_id", json!(""));
        }
    }
}

fn broken(graph: &Value, place: &str) -> Box<RuleError> {
    match import(graph) {
        Err(JsonError::Graph(GraphError::Rule(error))) => error,
        Err(other) => panic!("{place}: {other}"),
        Ok(_) => panic!("{place}: accepted"),
    }
}

#[test]
fn each_rule_is_the_first_error_of_a_mutant_of_a_valid_graph() {
    let (mut seen, mut wrong) = (BTreeSet::new(), Vec::new());
    for Mutant(rule, base, node, field, change) in mutants() {
        let place = format!("{rule} of {field} in {base}");
        assert!(import(&graph(base)).is_ok(), "{base}");
        let error = broken(&edited(base, node, &change), &place);
        let breach = error.breach();
        if (error.name(), breach.field, breach.node.index as usize) != (rule, field, node) {
            wrong.push(format!("{place}: {} of {}: {error}", error.name(), breach.field));
            continue;
        }
        let text = GraphError::from((*error).clone()).to_string();
        assert!(text.starts_with(&format!("graph: node {node} ")) && text.contains(field), "{text}");
        if let Some(tensor) = &breach.tensor {
            assert!(text.contains(&tensor.to_string()) && !tensor.name.is_empty(), "{text}");
        }
        assert!(text.contains(", expected "), "{text}");
        seen.insert(rule);
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let missing: Vec<_> = RuleError::NAMES.iter().filter(|name| !seen.contains(**name)).collect();
    assert!(missing.is_empty(), "rules that no mutant breaks: {missing:?}");
    assert!(seen.iter().all(|name| RuleError::NAMES.contains(name)));
}

#[test]
fn every_scalar_operand_must_be_a_scalar() {
    let cases = [
        (OpKind::BatchnormInferenceVariance, "epsilon"),
        (OpKind::Batchnorm, "epsilon"),
        (OpKind::Batchnorm, "momentum"),
        (OpKind::Layernorm, "epsilon"),
        (OpKind::RmsNorm, "epsilon"),
        (OpKind::LayernormBackward, "epsilon"),
        (OpKind::Sdpa, "scale"),
        (OpKind::SdpaBackward, "scale"),
    ];
    for (kind, name) in cases {
        let mut model = Generator::full(kind);
        model.tensors.push(Tensor::packed(DataType::Float, &[1]));
        model.nodes[0].set(name, FieldValue::Tensor(model.tensors.len() - 1));
        let error = broken(&model.json(&Style { seed: 3 }), kind.name());
        assert!(matches!(&*error, RuleError::OperandNotScalar(breach) if breach.field == name && breach.tensor.is_some()), "{error}");
    }
}

/// What hipDNN's frontends and other writers make, and what hipDNN accepts, is accepted.
#[test]
#[rustfmt::skip]
fn what_real_writers_make_is_accepted() {
    let accepted = mutants! {
        "conv_fwd_bf16_nhwc_3x3_dilated" [0] {
            Flipped conv_mode: |e| e.set("conv_mode", json!("CONVOLUTION"));
            OneSided padding: |e| { e.set("pre_padding", json!([4, 0])); e.set("post_padding", json!([0, 4])) };
        }
        "conv_bwd_bf16_nhwc_3x3_stride2" [0] {
            // The last row of dx is read by no window: what frameworks call output padding.
            Slack dx: |e| e.dim("dx", 2, 15);
        }
        "sample_batchnorm" [0] {
            Vector mean: |e| e.dims("mean", &[64]);
            LowRank scale: |e| e.dims("scale", &[1, 64]);
            Flat x: |e| { e.dims("x", &[32, 64]); e.dims("y", &[32, 64]) };
        }
        "bn_training_bf16_ncl" [0] {
            NoRunning statistics: |e| ["prev_running_mean", "prev_running_variance", "next_running_mean", "next_running_variance", "momentum"].iter().for_each(|n| e.drop(n));
            OneStatistic mean: |e| e.drop("mean");
        }
        "sample_add" [0] {
            BiasVector in_1: |e| e.dims("in_1", &[14]);
            Channels in_1: |e| e.dims("in_1", &[256, 1, 1]);
            // hipDNN lets the result be larger than all inputs.
            Expand both: |e| { e.dims("in_0", &[1, 256, 1, 1]); e.dims("in_1", &[1]) };
            OtherTypes types: |e| { e.dtype("in_0", "int32"); e.dtype("out_0", "boolean") };
        }
        "sample_matmul" [0] {
            BroadcastRank b: |e| { e.dims("b", &[3, 512, 1024]); e.dims("c", &[3, 256, 1024]) };
        }
        "layernorm_bf16_nchw_ndc1" [0] {
            NotStated normalized_dim_count: |e| e.set("normalized_dim_count", json!(0));
            NotPadded scale: |e| { e.dims("scale", &[2]); e.dims("bias", &[2]) };
            Statistics mean: |e| e.dims("mean", &[2, 2, 3]);
            // What hipDNN infers for a scale that is not padded with ones.
            Inferred mean: |e| e.dims("mean", &[2, 1, 1, 1]);
            NoPhase forward_phase: |e| e.set("forward_phase", json!(0));
            All normalized_dim_count: |e| {
                e.set("normalized_dim_count", json!(4));
                ["scale", "bias"].iter().for_each(|n| e.dims(n, &[2, 2, 3, 2]));
                ["mean", "inv_variance"].iter().for_each(|n| e.dims(n, &[1, 1, 1, 1]));
            };
        }
        "rmsnorm_bf16_nchw" [0] {
            PerChannel scale: |e| { e.dims("scale", &[1, 16, 1, 1]); e.dims("inv_rms", &[2, 1, 8, 8]) };
            PerChannelStatistics inv_rms: |e| { e.dims("scale", &[1, 16, 1, 1]); e.dims("inv_rms", &[1, 16, 1, 1]) };
            Vector scale: |e| e.dims("scale", &[8]);
            LastTwo scale: |e| { e.dims("scale", &[1, 1, 8, 8]); e.dims("inv_rms", &[2, 16, 1, 1]) };
        }
        "sample_reduction" [0] {
            Identity out: |e| e.dims("out", &[2, 3, 4]);
            All out: |e| e.dims("out", &[1, 1, 1]);
        }
        "sample_resample_fwd" [0] {
            // The last window hangs over the edge (ceil mode).
            Ceil y: |e| { e.set("stride", json!([3, 3])); };
            NoPaddingMode padding_mode: |e| e.set("padding_mode", json!("padding_not_set"));
        }
        "maxpool_index" [0] {
            Int8 index: |e| e.dtype("index", "int8");
            Int64 index: |e| e.dtype("index", "int64");
            NotAskedFor generate_index: |e| { e.set("generate_index", Value::Null); e.drop("index") };
        }
        "sdpa_fwd_fp16_hd128_nomask_stats" [0] {
            Mqa heads: |e| { e.dim("k", 1, 1); e.dim("v", 1, 1) };
            HeadsDiffer heads: |e| { e.dim("k", 1, 2); e.dim("v", 1, 4) };
            Rank3 stats: |e| e.dims("stats", &[2, 4, 256]);
            StatisticsUnasked generate_stats: |e| e.set("generate_stats", Value::Null);
            Boolean attn_mask: |e| e.add("attn_mask", "boolean", &[256, 256]);
            KeysOnly attn_mask: |e| e.add("attn_mask", "float", &[2, 1, 1, 256]);
            Unbounded bounds: |e| { e.set("left_bound", json!(-1)); e.set("right_bound", json!(0)) };
            LengthsWithoutMask lengths: |e| { e.add("seq_len_q", "int32", &[2]); };
            Descaled types: |e| { ["q", "k", "v"].iter().for_each(|n| e.dtype(n, "fp8_e4m3")); e.add("descale_q", "float", &[1, 1, 1, 1]) };
            Sinks sink_token: |e| e.add("sink_token", "float", &[1, 4, 1, 1]);
        }
        "sdpa_gqa_padded_dropout" [0] {
            Zero dropout_probability: |e| e.set("dropout_probability", json!(0.0));
            One dropout_probability: |e| e.set("dropout_probability", json!(1.0));
        }
        "mx_matmul_fp8_to_bf16" [0] {
            // Scales padded to a tile.
            Padded scale: |e| e.dims("scale", &[128, 4]);
            Ragged block_size: |e| e.set("block_size", json!([1, 33]));
        }
        "mx_quantize_relu" [1] {
            LastAxis axis: |e| e.set("axis", Value::Null);
        }
        "moe_gather" [0] {
            Batches first_token_offset: |e| e.dim("first_token_offset", 0, 16);
            Int64 first_token_offset: |e| e.dtype("first_token_offset", "int64");
            None mode: |e| { e.set("mode", json!("none")); e.drop("token_index"); e.dim("output", 1, 96) };
        }
        "custom_rope_matmul" [0] {
            NoDot custom_op_id: |e| e.set("custom_op_id", json!("rope"));
        }
    };
    for Mutant(what, base, node, field, change) in accepted {
        if let Err(error) = import(&edited(base, node, &change)) {
            panic!("{base}, {what} {field}: {error}");
        }
    }
}

#[test]
fn graphs_written_by_hand_round_trip() {
    let folder = corpus_folder().join("graphs-handmade");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("corpus/graphs-handmade") {
        let file = entry.expect("entry").path();
        let name = file.file_stem().expect("a name").to_string_lossy().into_owned();
        let imported = import(&graph(&name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(imported.warnings, [""; 0], "{name}");
        let canonical = imported.graph.view().canonical().expect("known fields only");
        let decoded = canon::decode(&canonical.encoding, &Limits::DEFAULT).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(decoded.view().canonical().expect("known fields only").encoding, canonical.encoding, "{name}");
        count += 1;
    }
    assert_eq!(count, 20, "graphs written by hand");
}
