//! Random valid graphs over all operations.

use crate::model::{FieldValue, Model, Node, Tensor};
use crate::rng::Rng;
use hipplan_serialize::ops::FieldSpec;
use hipplan_serialize::{DataType, FieldRole, OpKind};
use serde_json::{Value, json};

/// Fields that hold a list of tensors.
fn is_list(spec: &FieldSpec) -> bool {
    matches!(spec.wire_name, "peer_stats_tensor_uid" | "input_tensor_uids" | "output_tensor_uids")
}

/// Operands that must be host scalars.
fn is_scalar(kind: OpKind, spec: &FieldSpec) -> bool {
    match spec.name {
        "epsilon" | "momentum" => true,
        "scale" => matches!(kind, OpKind::Sdpa | OpKind::SdpaBackward),
        _ => false,
    }
}

/// A value for an attribute. A field that is new in the table has to be added here.
fn attribute(kind: OpKind, spec: &FieldSpec, rng: &mut Rng) -> Value {
    let number = |rng: &mut Rng| json!([0.0, -0.0, 0.5, -1.25, 9.999_999_747_378_752e-6][rng.below(5)]);
    match spec.wire_name {
        "pre_padding" | "post_padding" | "stride" | "window" | "dilation" => json!([rng.below(3) + 1, rng.below(3) + 1]),
        "conv_mode" | "resample_mode" | "padding_mode" | "forward_phase" => json!(rng.below(2) + 1),
        "mode" if kind == OpKind::Reduction => json!(rng.below(9) + 1),
        "mode" | "implementation" => json!(rng.below(3)),
        "diagonal_alignment" => json!(rng.below(2)),
        "mma_core_mode" => json!(rng.below(19)),
        "is_deterministic"
        | "is_negative_scale"
        | "transpose"
        | "generate_index"
        | "generate_stats"
        | "alibi_mask"
        | "padding_mask"
        | "causal_mask"
        | "causal_mask_bottom_right" => json!(rng.one_in(2)),
        "relu_lower_clip"
        | "relu_upper_clip"
        | "relu_lower_clip_slope"
        | "swish_beta"
        | "elu_alpha"
        | "softplus_beta"
        | "dropout_probability"
        | "attn_scale_value" => number(rng),
        "normalized_dim_count" | "axis" | "axis_tensor_uid" | "left_bound" | "right_bound" | "max_seq_len_kv" | "top_k" => {
            json!(rng.below(4))
        }
        "block_size" if kind == OpKind::BlockScaleDequantize => json!([1, rng.below(32)]),
        "block_size" => json!(rng.below(32)),
        "custom_op_id" => json!(["plugin.op", "", "ä.b"][rng.below(3)]),
        "data" => json!((0..rng.below(5)).map(|_| rng.below(256)).collect::<Vec<_>>()),
        name => panic!("{name}, an attribute of {}, is not known to the generator of test graphs", kind.name()),
    }
}

/// Grows a graph node by node; every tensor of the graph's image shape may be used again.
#[derive(Debug)]
pub struct Generator {
    /// Where its decisions come from.
    pub rng: Rng,
    /// The graph so far.
    pub model: Model,
    /// Batch, channels, height, width of all images.
    image: [i64; 4],
    /// Tensors of the image shape that a node may read.
    readable: Vec<usize>,
}

const DTYPES: [DataType; 5] = [DataType::Float, DataType::Half, DataType::BFloat16, DataType::Double, DataType::Int8];

impl Generator {
    /// An empty graph; everything follows from the seed.
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let image = [rng.below(3) as i64 + 1, rng.below(3) as i64 + 1, rng.below(3) as i64 + 4, rng.below(3) as i64 + 4];
        let override_shapes = rng.one_in(4);
        Self { rng, model: Model { tensors: Vec::new(), nodes: Vec::new(), override_shapes }, image, readable: Vec::new() }
    }

    /// A random valid graph.
    pub fn random(seed: u64, nodes: usize) -> Model {
        let mut g = Self::new(seed);
        for _ in 0..nodes {
            let kind = g.rng.pick(OpKind::ALL);
            g.node(kind);
        }
        g.model
    }

    fn plain(&mut self, dims: &[i64], is_output: bool) -> usize {
        let rng = &mut self.rng;
        let mut t = Tensor::packed(rng.pick(&DTYPES), dims);
        match rng.below(4) {
            // Padded rows.
            0 => t.strides.iter_mut().rev().skip(1).for_each(|s| *s *= 3),
            // The last dimension outermost, as in NHWC for channels.
            1 if dims.len() > 1 => {
                let mut permuted = dims.to_vec();
                permuted.rotate_right(1);
                t.strides = Tensor::packed(t.dtype, &permuted).strides;
                t.strides.rotate_left(1);
            }
            2 if !is_output && dims.len() > 1 => t.strides[0] = 0,
            _ => {}
        }
        t.alignment = if rng.one_in(4) { 64 } else { 16 };
        t.multiplier = if rng.one_in(8) { 3 } else { 1 };
        let is_ragged = rng.one_in(8);
        t.is_virtual = is_output && rng.one_in(3);
        if is_ragged && !t.is_virtual {
            let offsets = self.model.push(Tensor::packed(DataType::Int32, &[dims[0] + 1]));
            t.ragged = Some(offsets);
        }
        self.model.push(t)
    }

    fn scalar(&mut self) -> usize {
        let rng = &mut self.rng;
        let mut t = Tensor::packed(DataType::Float, &[1]);
        t.is_runtime = rng.one_in(2);
        if !t.is_runtime || rng.one_in(2) {
            let values = [
                ("Float32Value", json!(0.001)),
                ("Float16Value", json!(0.5)),
                ("BFloat16Value", json!(2.0)),
                ("Float8Value", json!(56)),
                ("Int32Value", json!(-2)),
                ("Float64Value", json!(1e-5)),
                ("Int64Value", json!(i64::MIN)),
                ("BoolValue", json!(true)),
            ];
            t.value = Some(rng.pick(&values));
        }
        self.model.push(t)
    }

    /// An image to read: one that is there, or a new one.
    fn image(&mut self) -> usize {
        if !self.readable.is_empty() && !self.rng.one_in(3) {
            return self.rng.pick(&self.readable);
        }
        let image = self.image;
        let t = self.plain(&image, false);
        self.readable.push(t);
        t
    }

    /// Adds a node that hangs together with the nodes before it.
    pub fn node(&mut self, kind: OpKind) {
        let [n, c, h, w] = self.image;
        let image = self.image;
        let mut fields = Vec::new();
        let mut written = Vec::new();
        let mut shares = self.model.nodes.is_empty();
        let filter = if self.rng.one_in(2) { 1 } else { 3 };
        let mode = self.rng.below(47) as i8 + 1;
        let arity = hipplan_serialize::PointwiseMode::from_wire(mode).map_or(0, |m| m.arity());
        let is_conv = matches!(kind, OpKind::ConvolutionFwd | OpKind::ConvolutionBwd | OpKind::ConvolutionWrw);
        for spec in kind.fields() {
            let absent = !spec.required && self.rng.one_in(2);
            let is_input = spec.role == FieldRole::Input;
            let value = match (kind, spec.name) {
                (OpKind::Pointwise, "mode") => FieldValue::Attribute(json!(mode)),
                (OpKind::Pointwise, "axis") => FieldValue::Attribute(json!(self.rng.below(4))),
                (OpKind::Pointwise, "in_1") if arity < 2 => FieldValue::Absent,
                (OpKind::Pointwise, "in_2") if arity < 3 => FieldValue::Absent,
                (OpKind::Pointwise, "in_1" | "in_2") => match self.rng.below(3) {
                    0 => FieldValue::Tensor(self.plain(&[1, c, 1, 1], false)),
                    1 => FieldValue::Tensor(self.scalar()),
                    _ => FieldValue::Tensor(self.image()),
                },
                (_, "pre_padding" | "post_padding") if is_conv => FieldValue::Attribute(json!([filter / 2, filter / 2])),
                (_, "stride" | "dilation") if is_conv => FieldValue::Attribute(json!([1, 1])),
                (_, "w" | "dw") if is_conv => {
                    let in_channels = if self.rng.one_in(2) { 1 } else { c };
                    FieldValue::Tensor(self.plain(&[c, in_channels, filter, filter], !is_input))
                }
                (OpKind::Matmul, "b") => {
                    let batch = if self.rng.one_in(2) { n } else { 1 };
                    FieldValue::Tensor(self.plain(&[batch, c, w, w], false))
                }
                (
                    OpKind::BatchnormInference | OpKind::BatchnormInferenceVariance,
                    "mean" | "inv_variance" | "variance" | "scale" | "bias",
                ) => {
                    let dims: &[i64] = if self.rng.one_in(2) { &[c] } else { &[1, c, 1, 1] };
                    FieldValue::Tensor(self.plain(dims, false))
                }
                _ if spec.role == FieldRole::Attribute => {
                    if absent {
                        FieldValue::Absent
                    } else {
                        FieldValue::Attribute(attribute(kind, spec, &mut self.rng))
                    }
                }
                _ if absent => FieldValue::Absent,
                _ if is_scalar(kind, spec) => FieldValue::Tensor(self.scalar()),
                _ if is_list(spec) => {
                    let count = self.rng.below(3) + usize::from(spec.required);
                    FieldValue::Tensors((0..count).map(|_| if is_input { self.image() } else { self.plain(&image, true) }).collect())
                }
                _ if is_input => FieldValue::Tensor(self.image()),
                _ => FieldValue::Tensor(self.plain(&image, true)),
            };
            let value = match value {
                // The first input of the image shape is a tensor that the graph has already.
                FieldValue::Tensor(t) if is_input && !shares && self.model.tensors[t].dims == [n, c, h, w] => {
                    shares = true;
                    let used: Vec<usize> = self.model.nodes.iter().flat_map(Node::operands).filter(|t| self.readable.contains(t)).collect();
                    FieldValue::Tensor(self.rng.pick(&used))
                }
                FieldValue::Tensors(mut list) if is_input && !shares && !list.is_empty() => {
                    shares = true;
                    let used: Vec<usize> = self.model.nodes.iter().flat_map(Node::operands).filter(|t| self.readable.contains(t)).collect();
                    list[0] = self.rng.pick(&used);
                    FieldValue::Tensors(list)
                }
                value => value,
            };
            if spec.role == FieldRole::Output {
                match &value {
                    FieldValue::Tensor(t) => written.push(*t),
                    FieldValue::Tensors(list) => written.extend(list),
                    _ => {}
                }
            }
            fields.push(value);
        }
        let readable = written.into_iter().filter(|&t| self.model.tensors[t].dims == image);
        self.readable.extend(readable);
        let compute = self.rng.pick(&DTYPES);
        self.model.nodes.push(Node { kind, compute, fields });
    }

    /// A graph of one node with every optional field present.
    pub fn full(kind: OpKind) -> Model {
        let mut g = Self::new(7);
        g.node(kind);
        let mut node = g.model.nodes.remove(0);
        for (i, spec) in kind.fields().iter().enumerate() {
            if !matches!(node.fields[i], FieldValue::Absent) {
                continue;
            }
            let image = g.image;
            let one = |g: &mut Self| if is_scalar(kind, spec) { g.scalar() } else { g.plain(&image, spec.role == FieldRole::Output) };
            node.fields[i] = match spec.role {
                FieldRole::Attribute => FieldValue::Attribute(attribute(kind, spec, &mut g.rng)),
                _ if kind == OpKind::Pointwise => continue,
                _ if is_list(spec) => FieldValue::Tensors(vec![one(&mut g), one(&mut g)]),
                _ => FieldValue::Tensor(one(&mut g)),
            };
        }
        g.model.nodes.push(node);
        g.model
    }
}
