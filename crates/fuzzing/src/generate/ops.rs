//! One function per family of operations: shapes that fit together, and what else the operation wants.

use super::Generator;
use crate::model::{FieldValue, Node};
use hipplan_serialize::{DataType, OpKind, PointwiseMode};
use serde_json::{Value, json};

/// The operands and attributes of a node.
struct Fields<'n>(&'n mut Node);

impl Fields<'_> {
    fn tensor(&mut self, name: &str, t: usize) {
        self.0.set(name, FieldValue::Tensor(t));
    }

    fn attr(&mut self, name: &str, value: impl Into<Value>) {
        self.0.set(name, FieldValue::Attribute(value.into()));
    }
}

/// Fills the fields of a new node.
pub(super) fn fill(g: &mut Generator, node: &mut Node) {
    let kind = node.kind;
    let f = &mut Fields(node);
    match kind {
        OpKind::ConvolutionFwd | OpKind::ConvolutionBwd | OpKind::ConvolutionWrw => convolution(g, f, kind),
        OpKind::ResampleFwd | OpKind::ResampleBwd => pooling(g, f, kind),
        OpKind::Pointwise => pointwise(g, f),
        OpKind::Matmul => matmul(g, f),
        OpKind::BatchnormInference | OpKind::BatchnormInferenceVariance | OpKind::Batchnorm | OpKind::BatchnormBackward => {
            batchnorm(g, f, kind);
        }
        OpKind::Layernorm | OpKind::LayernormBackward => layernorm(g, f, kind),
        OpKind::RmsNorm | OpKind::RmsNormBackward => rms_norm(g, f, kind),
        OpKind::Reduction => reduction(g, f),
        OpKind::Sdpa | OpKind::SdpaBackward => attention(g, f, kind),
        OpKind::BlockScaleDequantize => dequantize(g, f),
        OpKind::BlockScaleQuantize => quantize(g, f),
        OpKind::MoeGroupedMatmul => grouped_matmul(g, f),
        OpKind::MoeGroupedMatmulBwd => grouped_matmul_bwd(g, f),
        OpKind::CustomOp => custom_op(g, f),
    }
}

/// One spatial dimension of a sliding window over `large` elements, with `small` positions.
#[derive(Clone, Copy)]
struct Slide {
    large: i64,
    small: i64,
    filter: i64,
    stride: i64,
    dilation: i64,
    pre: i64,
    post: i64,
}

impl Slide {
    fn random(g: &mut Generator, dilates: bool) -> Self {
        let (filter, stride) = (g.within(1..=3), g.within(1..=3));
        let dilation = if dilates { g.within(1..=2) } else { 1 };
        Self { large: 1, small: 1, filter, stride, dilation, pre: g.within(0..=2), post: g.within(0..=2) }
    }

    fn extent(&self) -> i64 {
        (self.filter - 1) * self.dilation + 1
    }

    /// Over a large side of this size; the window may hang over its edge where `rounds_up`.
    fn of_large(mut self, large: i64, rounds_up: bool) -> Self {
        self.pre += (self.extent() - large - self.pre - self.post).max(0);
        let room = large + self.pre + self.post - self.extent();
        (self.large, self.small) = (large, (room + if rounds_up { self.stride - 1 } else { 0 }) / self.stride + 1);
        self
    }

    /// With this many positions, and `slack` elements less than a stride behind the last.
    fn of_small(mut self, small: i64, slack: i64) -> Self {
        let padded = (small - 1) * self.stride + self.extent() + slack % self.stride;
        self.pre = self.pre.min(padded - 1);
        self.post = self.post.min(padded - 1 - self.pre);
        (self.large, self.small) = (padded - self.pre - self.post, small);
        self
    }
}

fn list(slides: &[Slide], of: impl Fn(&Slide) -> i64) -> Value {
    slides.iter().map(of).collect()
}

fn sizes(front: [i64; 2], slides: &[Slide], of: impl Fn(&Slide) -> i64) -> Vec<i64> {
    front.into_iter().chain(slides.iter().map(of)).collect()
}

fn convolution(g: &mut Generator, f: &mut Fields<'_>, kind: OpKind) {
    let shape = g.shape(3..=5);
    let random: Vec<Slide> = shape[2..].iter().map(|_| Slide::random(g, true)).collect();
    let per_group = g.within(1..=3);
    // The shape is that of the operand that ties the node to the graph.
    let (slides, channels, filters, groups): (Vec<Slide>, i64, i64, i64);
    if kind == OpKind::ConvolutionBwd {
        slides = random.iter().zip(&shape[2..]).map(|(s, &small)| s.of_small(small, g.within(0..=2))).collect();
        (filters, groups) = (shape[1], g.divisor(shape[1]));
        channels = groups * per_group;
    } else {
        slides = random.iter().zip(&shape[2..]).map(|(s, &large)| s.of_large(large, false)).collect();
        (channels, groups) = (shape[1], g.divisor(shape[1]));
        filters = groups * per_group;
    }
    let x = sizes([shape[0], channels], &slides, |s| s.large);
    let w = sizes([filters, channels / groups], &slides, |s| s.filter);
    let y = sizes([shape[0], filters], &slides, |s| s.small);
    match kind {
        OpKind::ConvolutionFwd => {
            f.tensor("x", g.source(&x));
            f.tensor("w", g.input(&w));
            f.tensor("y", g.output(&y));
        }
        OpKind::ConvolutionBwd => {
            f.tensor("dy", g.source(&y));
            f.tensor("w", g.input(&w));
            f.tensor("dx", g.output(&x));
        }
        _ => {
            f.tensor("x", g.source(&x));
            f.tensor("dy", g.input(&y));
            f.tensor("dw", g.output(&w));
        }
    }
    f.attr("pre_padding", list(&slides, |s| s.pre));
    f.attr("post_padding", list(&slides, |s| s.post));
    f.attr("stride", list(&slides, |s| s.stride));
    f.attr("dilation", list(&slides, |s| s.dilation));
    f.attr("conv_mode", g.within(1..=2));
}

fn pooling(g: &mut Generator, f: &mut Fields<'_>, kind: OpKind) {
    let is_forward = kind == OpKind::ResampleFwd;
    let (shape, slides): (Vec<i64>, Vec<Slide>);
    if g.is_full {
        // One position with a stride above the room.
        let one = Slide { large: 4, small: 1, filter: 3, stride: 5, dilation: 1, pre: 0, post: 0 };
        (shape, slides) = (vec![2, 3, one.large, one.large], vec![one; 2]);
    } else {
        shape = g.shape(3..=5);
        let random: Vec<Slide> = shape[2..].iter().map(|_| Slide::random(g, false)).collect();
        let pairs = random.iter().zip(&shape[2..]);
        slides = if is_forward {
            pairs.map(|(s, &large)| s.of_large(large, g.rng.one_in(3))).collect()
        } else {
            pairs.map(|(s, &small)| s.of_small(small, g.within(0..=2))).collect()
        };
    }
    let large = sizes([shape[0], shape[1]], &slides, |s| s.large);
    let small = sizes([shape[0], shape[1]], &slides, |s| s.small);
    let mode = if g.is_full { 1 } else { g.within(1..=3) };
    let is_max = mode == 1;
    if is_forward {
        f.tensor("x", g.source(&large));
        f.tensor("y", g.output(&small));
        let generates = g.is_full || g.rng.one_in(2);
        if is_max && generates || g.rng.one_in(4) {
            f.tensor("index", g.integers(&small, true));
        }
        if generates || g.rng.one_in(2) {
            f.attr("generate_index", generates);
        }
    } else {
        f.tensor("dy", g.source(&small));
        f.tensor("dx", g.output(&large));
        if is_max || g.rng.one_in(4) {
            f.tensor("index", g.integers(&small, false));
        }
    }
    f.attr("pre_padding", list(&slides, |s| s.pre));
    f.attr("post_padding", list(&slides, |s| s.post));
    f.attr("stride", list(&slides, |s| s.stride));
    f.attr("window", list(&slides, |s| s.filter));
    f.attr("resample_mode", mode);
    f.attr("padding_mode", g.within(0..=2));
}

fn pointwise(g: &mut Generator, f: &mut Fields<'_>) {
    let mode = if g.is_full { PointwiseMode::BinarySelect } else { g.rng.pick(&PointwiseMode::ALL[1..]) };
    let out = g.shape(1..=5);
    // Inputs that broadcast: fewer dims, ones among them, a host scalar.
    let tie = g.rng.below(mode.arity());
    for (i, name) in ["in_0", "in_1", "in_2"].into_iter().take(mode.arity()).enumerate() {
        let mut dims = out.clone();
        match g.rng.below(6) {
            0 if i != tie => dims.iter_mut().skip(2).for_each(|d| *d = 1),
            1 if i != tie => dims = dims.split_off(g.rng.below(dims.len())),
            2 if i != tie => {
                let at = g.rng.below(dims.len());
                dims[at] = 1;
            }
            3 if i != tie => {
                let scalar = g.scalar();
                g.model.tensors[scalar].reshape(&[1]);
                f.tensor(name, scalar);
                continue;
            }
            _ => {}
        }
        f.tensor(name, if i == tie { g.source(&dims) } else { g.input(&dims) });
    }
    f.tensor("out_0", g.output(&out));
    f.attr("mode", mode.to_wire());
    if mode == PointwiseMode::GenIndex || g.is_full || g.rng.one_in(8) {
        f.attr("axis", g.rng.below(out.len()));
    }
    for name in ["relu_lower_clip", "relu_upper_clip", "relu_lower_clip_slope", "swish_beta", "elu_alpha", "softplus_beta"] {
        if g.maybe() {
            f.attr(name, g.number());
        }
    }
}

fn matmul(g: &mut Generator, f: &mut Fields<'_>) {
    let a = g.shape(2..=5);
    let (batch, matrix) = a.split_at(a.len() - 2);
    let n = g.within(1..=4);
    let mut b: Vec<i64> = batch.to_vec();
    for dim in &mut b {
        *dim = match g.rng.below(4) {
            0 => 1,
            // Repeated in groups.
            1 => *dim * g.within(1..=3),
            2 => g.divisor(*dim),
            _ => *dim,
        };
    }
    let mut c: Vec<i64> = batch.iter().zip(&b).map(|(&a, &b)| a.max(b)).collect();
    if g.rng.one_in(5) {
        // Fewer batch dims than a.
        c = batch.to_vec();
        b.clear();
    }
    b.extend([matrix[1], n]);
    c.extend([matrix[0], n]);
    f.tensor("a", g.source(&a));
    f.tensor("b", g.input(&b));
    f.tensor("c", g.output(&c));
}

fn batchnorm(g: &mut Generator, f: &mut Fields<'_>, kind: OpKind) {
    let x = g.shape(2..=5);
    let per_channel = |g: &mut Generator| match g.rng.below(4) {
        0 => vec![x[1]],
        1 => vec![1, x[1]],
        _ => x.iter().enumerate().map(|(axis, &d)| if axis == 1 { d } else { 1 }).collect(),
    };
    let parameter = |g: &mut Generator, f: &mut Fields<'_>, name: &str, is_output: bool| {
        let dims = per_channel(g);
        f.tensor(name, if is_output { g.output(&dims) } else { g.input(&dims) });
    };
    f.tensor("x", g.source(&x));
    parameter(g, f, "scale", false);
    match kind {
        OpKind::BatchnormInference => ["mean", "inv_variance", "bias"].into_iter().for_each(|n| parameter(g, f, n, false)),
        OpKind::BatchnormInferenceVariance => {
            ["mean", "variance", "bias"].into_iter().for_each(|n| parameter(g, f, n, false));
            f.tensor("epsilon", g.scalar());
        }
        OpKind::Batchnorm => {
            parameter(g, f, "bias", false);
            f.tensor("epsilon", g.scalar());
            let keeps_running = g.maybe();
            if keeps_running {
                ["prev_running_mean", "prev_running_variance"].into_iter().for_each(|n| parameter(g, f, n, false));
                ["next_running_mean", "next_running_variance"].into_iter().for_each(|n| parameter(g, f, n, true));
            }
            if keeps_running || g.maybe() {
                f.tensor("momentum", g.scalar());
            }
            for name in ["mean", "inv_variance"] {
                if g.maybe() {
                    parameter(g, f, name, true);
                }
            }
        }
        _ => {
            f.tensor("dy", g.input(&x));
            if g.maybe() {
                ["mean", "inv_variance"].into_iter().for_each(|n| parameter(g, f, n, false));
            }
            ["dscale", "dbias"].into_iter().for_each(|n| parameter(g, f, n, true));
        }
    }
    if matches!(kind, OpKind::Batchnorm | OpKind::BatchnormBackward) && g.maybe() {
        let peers = (0..g.rng.below(3) + 1).map(|_| g.plain(&x, false)).collect();
        f.0.set("peer_stats", FieldValue::Tensors(peers));
    }
    f.tensor(if kind == OpKind::BatchnormBackward { "dx" } else { "y" }, g.output(&x));
}

fn layernorm(g: &mut Generator, f: &mut Fields<'_>, kind: OpKind) {
    let x = g.shape(1..=5);
    let count = if g.is_full { 1 } else { g.rng.below(x.len()) + 1 };
    let (kept, inner) = x.split_at(x.len() - count);
    let ones = |n: usize| std::iter::repeat_n(1, n);
    let scale: Vec<i64> = if g.rng.one_in(2) { inner.to_vec() } else { ones(kept.len()).chain(inner.iter().copied()).collect() };
    let mut statistic: Vec<i64> = kept.to_vec();
    if kept.is_empty() || g.is_full || g.rng.one_in(2) {
        statistic.extend(ones(count));
    }
    f.tensor("x", g.source(&x));
    f.tensor("scale", g.input(&scale));
    let is_forward = kind == OpKind::Layernorm;
    let gives = |g: &mut Generator, f: &mut Fields<'_>| {
        for name in ["mean", "inv_variance"] {
            f.tensor(name, if is_forward { g.output(&statistic) } else { g.input(&statistic) });
        }
    };
    if is_forward {
        f.tensor("bias", g.input(&scale));
        f.tensor("epsilon", g.scalar());
        f.tensor("y", g.output(&x));
        f.attr("forward_phase", g.within(1..=2));
    } else {
        f.tensor("dy", g.input(&x));
        if g.maybe() {
            f.tensor("epsilon", g.scalar());
        }
        f.tensor("dx", g.output(&x));
        f.tensor("dscale", g.output(&scale));
        f.tensor("dbias", g.output(&scale));
    }
    if g.maybe() {
        gives(g, f);
    }
    // hipDNN reads 0 as the number of dims that the scale has.
    f.attr("normalized_dim_count", if !g.is_full && g.rng.one_in(6) { 0 } else { count });
}

fn rms_norm(g: &mut Generator, f: &mut Fields<'_>, kind: OpKind) {
    let x = g.shape(2..=5);
    let rank = x.len();
    let count = g.rng.below(rank - 1) + 1;
    let (scale, statistic): (Vec<i64>, Vec<i64>) = match g.rng.below(3) {
        // Per channel, with statistics per channel as hipDNN has had it.
        0 => {
            let per_channel: Vec<i64> = (0..rank).map(|axis| if axis == 1 { x[1] } else { 1 }).collect();
            (per_channel, (0..rank).map(|axis| if axis < 2 { x[axis] } else { 1 }).collect())
        }
        // The last dims, with ones in front of them or not.
        way => {
            let ones = if way == 1 { rank - count } else { 0 };
            let scale = std::iter::repeat_n(1, ones).chain(x[rank - count..].iter().copied()).collect();
            (scale, x.iter().enumerate().map(|(axis, &d)| if axis < rank - count { d } else { 1 }).collect())
        }
    };
    f.tensor("x", g.source(&x));
    f.tensor("scale", g.input(&scale));
    if kind == OpKind::RmsNorm {
        f.tensor("epsilon", g.scalar());
        f.tensor("y", g.output(&x));
        if g.maybe() {
            f.tensor("bias", g.input(&scale));
        }
        if g.maybe() {
            f.tensor("inv_rms", g.output(&statistic));
        }
        if g.maybe() {
            f.attr("forward_phase", g.within(1..=2));
        }
    } else {
        f.tensor("dy", g.input(&x));
        f.tensor("inv_rms", g.input(&statistic));
        f.tensor("dx", g.output(&x));
        f.tensor("dscale", g.output(&scale));
        if g.maybe() {
            f.tensor("dbias", g.output(&scale));
        }
    }
}

fn reduction(g: &mut Generator, f: &mut Fields<'_>) {
    let x = g.shape(1..=5);
    let y: Vec<i64> = x.iter().map(|&d| if g.rng.one_in(2) { 1 } else { d }).collect();
    f.tensor("input", g.source(&x));
    f.tensor("output", g.output(&y));
    f.attr("mode", g.within(1..=9));
    if g.maybe() {
        f.attr("is_deterministic", g.rng.one_in(2));
    }
}

fn attention(g: &mut Generator, f: &mut Fields<'_>, kind: OpKind) {
    let is_forward = kind == OpKind::Sdpa;
    let q = g.shape(4..=4);
    let [batch, heads, queries, size] = [q[0], q[1], q[2], q[3]];
    let (key_heads, value_heads) = (g.divisor(heads), g.divisor(heads));
    let value_heads = if g.rng.one_in(4) { value_heads } else { key_heads };
    let (keys, value_size) = (g.within(1..=5), if g.rng.one_in(4) { g.within(1..=5) } else { size });
    let is_paged = is_forward && (g.is_full || g.rng.one_in(4));
    // A paged cache is [pages, heads, keys per page, size].
    let pages = g.within(1..=6);
    let (k, v, o) = (
        [if is_paged { pages } else { batch }, key_heads, keys, size],
        [if is_paged { pages } else { batch }, value_heads, keys, value_size],
        [batch, heads, queries, value_size],
    );
    let scores = [batch, heads, queries, keys];
    f.tensor("q", g.source(&q));
    f.tensor("k", g.input(&k));
    f.tensor("v", g.input(&v));
    f.tensor("o", if is_forward { g.output(&o) } else { g.input(&o) });
    let pads = g.maybe();
    f.attr("padding_mask", pads);
    for name in ["seq_len_q", "seq_len_kv"] {
        if pads || is_paged || g.rng.one_in(4) {
            let dims: &[i64] = if g.rng.one_in(2) { &[batch] } else { &[batch, 1, 1, 1] };
            f.tensor(name, g.integers(dims, false));
        }
    }
    if g.maybe() {
        let mut mask = scores.to_vec();
        for dim in &mut mask {
            if g.rng.one_in(3) {
                *dim = 1;
            }
        }
        let missing = g.rng.below(3);
        f.tensor("attn_mask", g.input(&mask[missing..]));
    }
    let scale_is_operand = g.maybe();
    if scale_is_operand {
        f.tensor("scale", g.scalar());
    } else if g.rng.one_in(2) {
        f.attr("attn_scale_value", g.number());
    }
    if g.maybe() {
        f.tensor("seed", g.integers(&[1], false));
        f.tensor("offset", g.integers(&[1], false));
    }
    if g.maybe() {
        f.tensor("dropout_mask", g.input(&[1, heads, queries, keys]));
        f.tensor("dropout_scale", g.plain(&[1], false));
    }
    if g.maybe() {
        f.attr("dropout_probability", g.rng.pick(&[json!(0.0), json!(0.5), json!(0.125), json!(1.0)]));
    }
    for (name, from) in [("left_bound", -1), ("right_bound", -1)] {
        if g.maybe() {
            f.attr(name, g.within(from..=4));
        }
    }
    // Three ways to say causal, or none.
    let causal = if g.is_full { 3 } else { g.rng.below(4) };
    f.attr("causal_mask", causal == 0);
    f.attr("causal_mask_bottom_right", causal == 1);
    f.attr("diagonal_alignment", g.within(0..=1));
    f.attr("alibi_mask", g.rng.one_in(2));
    let statistic = [batch, heads, queries, 1];
    if is_forward {
        if is_paged {
            for name in ["page_table_k", "page_table_v"] {
                f.tensor(name, g.integers(&[batch, 1, 2, 1], false));
            }
        }
        for name in ["block_mask", "sink_token", "descale_q", "descale_k", "descale_v", "descale_s", "scale_s", "scale_o"] {
            if g.maybe() {
                f.tensor(name, g.plain(&[1, if name == "sink_token" { heads } else { 1 }, 1, 1], false));
            }
        }
        let generates = g.maybe();
        if generates || g.rng.one_in(2) {
            f.attr("generate_stats", generates);
        }
        if generates {
            f.tensor("stats", g.output(&statistic));
        }
        for name in ["max", "sum_exp"] {
            if g.maybe() {
                f.tensor(name, g.output(&statistic));
            }
        }
        if g.maybe() {
            f.tensor("rng_dump", g.output(&scores));
        }
        for name in ["amax_s", "amax_o"] {
            if g.maybe() {
                f.tensor(name, g.output(&[1, 1, 1, 1]));
            }
        }
        if g.maybe() {
            f.attr("max_seq_len_kv", g.within(1..=9));
        }
        if g.maybe() {
            f.attr("mma_core_mode", g.within(0..=18));
        }
        if g.maybe() {
            f.attr("implementation", g.within(0..=2));
        }
    } else {
        f.tensor("d_o", g.input(&o));
        let rank = 3 + g.rng.below(2);
        f.tensor("stats", g.input(&statistic[..rank]));
        f.tensor("dq", g.output(&q));
        f.tensor("dk", g.output(&k));
        f.tensor("dv", g.output(&v));
        if g.maybe() {
            f.tensor("dropout_scale_inv", g.plain(&[1], false));
        }
        if g.maybe() {
            f.tensor("dbias", g.output(&[1, heads, queries, keys]));
        }
    }
}

/// A tensor to scale: small floats, where the graph has nothing yet.
fn quantized(g: &mut Generator, dims: &[i64]) -> usize {
    if !g.model.nodes.is_empty() {
        return g.source(dims);
    }
    let dtype = g.rng.pick(&[DataType::Fp8E4M3, DataType::Fp8E5M2, DataType::Fp4E2M1, DataType::Fp6E2M3, DataType::Int4]);
    g.typed(dtype, dims, false)
}

fn dequantize(g: &mut Generator, f: &mut Fields<'_>) {
    // In the full graph each dim of 2 lies in one block, however large it is.
    let x = if g.is_full { vec![2, 3, 2, 2] } else { g.shape(1..=5) };
    let blocked = if g.is_full { 2 } else { g.rng.below(x.len()) + 1 };
    let sizes: Vec<i64> = (0..blocked).map(|_| if g.is_full { 2 } else { g.within(1..=32) }).collect();
    let plain = x.len() - blocked;
    let block = |axis: usize| if axis < plain { 1 } else { sizes[axis - plain] };
    let scale: Vec<i64> = x.iter().enumerate().map(|(axis, &d)| (d - 1) / block(axis) + 1).collect();
    f.tensor("x", quantized(g, &x));
    f.tensor("scale", g.typed(DataType::Fp8E8M0, &scale, false));
    f.tensor("y", g.output(&x));
    f.attr("block_size", sizes.iter().copied().collect::<Value>());
    if g.maybe() {
        f.attr("is_negative_scale", g.rng.one_in(2));
    }
}

fn quantize(g: &mut Generator, f: &mut Fields<'_>) {
    let x = if g.is_full { vec![2, 3, 4, 2] } else { g.shape(1..=5) };
    let axis = if g.is_full || g.rng.one_in(2) { x.len() - 1 } else { g.rng.below(x.len()) };
    let size = if g.is_full { 2 } else { g.within(1..=32) };
    let mut scale = x.clone();
    scale[axis] = (x[axis] - 1) / size + 1;
    f.tensor("x", g.source(&x));
    let dtype = g.rng.pick(&[DataType::Fp8E4M3, DataType::Fp8E5M2, DataType::Fp4E2M1]);
    f.tensor("y", g.typed(dtype, &x, true));
    f.tensor("scale", g.typed(DataType::Fp8E8M0, &scale, true));
    f.attr("block_size", size);
    if axis + 1 != x.len() || g.maybe() {
        f.attr("axis", axis);
    }
    if g.maybe() {
        f.attr("transpose", g.rng.one_in(2));
    }
}

fn grouped_matmul(g: &mut Generator, f: &mut Fields<'_>) {
    let (tokens, depth) = tokens(g);
    let (experts, columns) = (if g.is_full { 3 } else { g.within(1..=4) }, g.within(1..=4));
    let mode = if g.is_full { 2 } else { g.within(0..=2) };
    let routed = if mode == 1 { g.within(1..=6) } else { tokens };
    f.tensor("token", g.source(&[1, tokens, depth]));
    f.tensor("weight", g.input(&[experts, depth, columns]));
    let batches = g.within(1..=2);
    f.tensor("first_token_offset", g.integers(&[experts * batches, 1, 1], false));
    if mode > 0 || g.rng.one_in(4) {
        f.tensor("token_index", g.integers(&[1, routed, 1], false));
    }
    if mode == 2 || g.rng.one_in(4) {
        f.tensor("token_ks", g.integers(&[1, routed, 1], false));
    }
    f.tensor("output", g.output(&[1, routed, columns]));
    f.attr("mode", mode);
    let top_k = if g.is_full { 1 } else { g.within(1..=experts) };
    f.attr("top_k", if mode == 2 { top_k } else { g.within(0..=top_k) });
}

/// Number and size of tokens: those of a tensor in use, or new ones.
fn tokens(g: &mut Generator) -> (i64, i64) {
    match g.shape(3..=3)[..] {
        [1, tokens, size] => (tokens, size),
        _ => (g.within(1..=6), g.within(1..=4)),
    }
}

fn grouped_matmul_bwd(g: &mut Generator, f: &mut Fields<'_>) {
    let (tokens, depth) = tokens(g);
    let (experts, columns) = (g.within(1..=4), g.within(1..=4));
    f.tensor("token", g.source(&[1, tokens, depth]));
    f.tensor("doutput", g.input(&[1, tokens, columns]));
    f.tensor("first_token_offset", g.integers(&[experts, 1, 1], false));
    f.tensor("dweight", g.output(&[experts, depth, columns]));
}

fn custom_op(g: &mut Generator, f: &mut Fields<'_>) {
    let x = g.shape(1..=5);
    let mut inputs = vec![g.source(&x)];
    for _ in 0..g.rng.below(3) {
        let dims = g.shape(1..=5);
        inputs.push(if g.rng.one_in(4) { g.scalar() } else { g.input(&dims) });
    }
    let mut outputs = Vec::new();
    for _ in 0..g.rng.below(3) + 1 {
        let dims = g.shape(1..=5);
        outputs.push(g.output(&dims));
    }
    f.0.set("inputs", FieldValue::Tensors(inputs));
    f.0.set("outputs", FieldValue::Tensors(outputs));
    f.attr("custom_op_id", g.rng.pick(&["plugin.op", "a.b.c", "ä.b"]));
    f.attr("data", (0..g.rng.below(5)).map(|_| g.rng.below(256)).collect::<Value>());
}
