//! Pictures of graphs: what stands in them is told here once, for every form of picture.

pub(crate) mod dot;
mod layout;
mod scene;
pub(crate) mod svg;

use crate::output;
use hipplan::ops::FieldValue;
use hipplan::{FieldRole, NodeIx, Op, OpKind, TensorIx, TensorView, VerifiedGraph};

/// What is written above a picture.
#[derive(Clone, Debug, Default)]
pub(crate) struct Caption {
    pub(crate) title: String,
    pub(crate) lines: Vec<String>,
}

/// Operations that are drawn alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Family {
    Convolution,
    Matmul,
    Pointwise,
    Norm,
    Attention,
    Reduction,
    BlockScale,
    Experts,
    Custom,
}

impl Family {
    pub(crate) const fn of(kind: OpKind) -> Self {
        match kind {
            OpKind::ConvolutionFwd | OpKind::ConvolutionBwd | OpKind::ConvolutionWrw => Self::Convolution,
            OpKind::Matmul => Self::Matmul,
            OpKind::Pointwise => Self::Pointwise,
            OpKind::BatchnormInference
            | OpKind::BatchnormInferenceVariance
            | OpKind::Batchnorm
            | OpKind::BatchnormBackward
            | OpKind::RmsNorm
            | OpKind::RmsNormBackward
            | OpKind::Layernorm
            | OpKind::LayernormBackward => Self::Norm,
            OpKind::Sdpa | OpKind::SdpaBackward => Self::Attention,
            OpKind::Reduction | OpKind::ResampleFwd | OpKind::ResampleBwd => Self::Reduction,
            OpKind::BlockScaleDequantize | OpKind::BlockScaleQuantize => Self::BlockScale,
            OpKind::MoeGroupedMatmul | OpKind::MoeGroupedMatmulBwd => Self::Experts,
            OpKind::CustomOp => Self::Custom,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Convolution => "convolution",
            Self::Matmul => "matrix product",
            Self::Pointwise => "pointwise",
            Self::Norm => "normalisation",
            Self::Attention => "attention",
            Self::Reduction => "reduction, pooling",
            Self::BlockScale => "block scale",
            Self::Experts => "mixture of experts",
            Self::Custom => "custom",
        }
    }
}

/// How a tensor is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TensorKind {
    Device,
    Virtual,
    Scalar,
    RuntimeScalar,
}

impl TensorKind {
    pub(crate) fn of(t: &TensorView<'_>) -> Self {
        match (t.is_virtual, t.is_runtime, t.value.is_some()) {
            (true, ..) => Self::Virtual,
            (_, true, _) => Self::RuntimeScalar,
            (_, false, true) => Self::Scalar,
            _ => Self::Device,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Device => "tensor in memory",
            Self::Virtual => "virtual tensor",
            Self::Scalar => "constant",
            Self::RuntimeScalar => "runtime scalar",
        }
    }
}

/// The operation in words, with the function of a pointwise node.
pub(crate) fn operation(graph: &VerifiedGraph<'_>, node: NodeIx) -> String {
    match graph.op(node) {
        Op::Pointwise(op) => format!("pointwise {}", op.mode),
        Op::CustomOp(op) => format!("custom_op {}", output::name(op.custom_op_id)),
        op => op.kind().name().to_owned(),
    }
}

/// Attributes that say something: not absent, false or empty, and not what [`operation`] says already.
pub(crate) fn attributes(graph: &VerifiedGraph<'_>, node: NodeIx) -> Vec<String> {
    let kind = graph.kind(node);
    let mut all = Vec::new();
    graph.op(node).values(|spec, value| {
        let in_title = matches!((kind, spec.name), (OpKind::Pointwise, "mode") | (OpKind::CustomOp, "custom_op_id"));
        if spec.role != FieldRole::Attribute || in_title {
            return;
        }
        let text = match value {
            FieldValue::Absent | FieldValue::Bool(false) | FieldValue::Ints([]) | FieldValue::Ints32([]) => return,
            FieldValue::Bytes([]) | FieldValue::Text("") | FieldValue::Enum("unset") => return,
            FieldValue::Bool(true) => spec.name.to_owned(),
            FieldValue::Ints(v) => format!("{} {}", spec.name, joined(v, ",")),
            FieldValue::Ints32(v) => format!("{} {}", spec.name, joined(v, ",")),
            FieldValue::Bytes(v) => format!("{} {}", spec.name, output::bytes(v.len() as u64)),
            value => format!("{} {}", spec.name, output::name(&value.to_string())),
        };
        all.push(text);
    });
    all
}

fn joined<T: ToString>(v: &[T], by: &str) -> String {
    v.iter().map(ToString::to_string).collect::<Vec<_>>().join(by)
}

/// A tensor's name, or its uid where it has none.
pub(crate) fn tensor_name(t: &TensorView<'_>) -> String {
    if t.name.is_empty() { format!("uid {}", t.uid) } else { output::name(t.name) }
}

/// Everything else of a tensor, a line each: type and dims, then what is not as usual.
pub(crate) fn tensor_lines(graph: &VerifiedGraph<'_>, t: &TensorView<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    if t.is_by_value() {
        let number = t.value.map(|v| number(v.to_f64()));
        lines.push(match (t.is_runtime, number) {
            (false, number) => format!("{} = {}", t.dtype, number.unwrap_or_default()),
            (true, Some(number)) => format!("{}, runtime, default {number}", t.dtype),
            (true, None) => format!("{}, runtime", t.dtype),
        });
    } else {
        lines.push(format!("{} {}", t.dtype, joined(t.dims, "×")));
        if !is_packed(t) {
            lines.push(format!("strides {}", joined(t.strides, ",")));
        }
    }
    let mut more = Vec::new();
    if t.alignment != 16 {
        more.push(format!("alignment {}", t.alignment));
    }
    if let Some(offsets) = t.ragged_offset {
        more.push(format!("ragged by {}", tensor_name(graph.tensor(offsets))));
    }
    if t.ragged_multiplier != 1 {
        more.push(format!("multiplier {}", t.ragged_multiplier));
    }
    if !more.is_empty() {
        lines.push(more.join(", "));
    }
    lines
}

/// A number in six digits, marked where it has more.
fn number(v: f64) -> String {
    let rounded: f64 = format!("{v:.5e}").parse().unwrap_or(v);
    let mark = if rounded == v || v.is_nan() { "" } else { "≈" };
    let is_plain = v == 0.0 || !v.is_finite() || (1e-4..1e7).contains(&v.abs());
    if is_plain { format!("{mark}{rounded}") } else { format!("{mark}{rounded:e}") }
}

/// Row-major without gaps; strides of dims of size 1 do not count.
fn is_packed(t: &TensorView<'_>) -> bool {
    let mut expected = 1_i64;
    t.dims.iter().zip(t.strides).rev().all(|(&dim, &stride)| {
        let fits = dim == 1 || stride == expected;
        expected = expected.saturating_mul(dim);
        fits
    })
}

/// The tensors that a node reads or writes, each once, with the names of its slots. Offsets of ragged operands are read.
pub(crate) fn ends(graph: &VerifiedGraph<'_>, node: NodeIx, role: FieldRole) -> Vec<(TensorIx, String)> {
    let mut found: Vec<(TensorIx, String)> = Vec::new();
    let mut at = std::collections::HashMap::new();
    let mut add = |tensor: TensorIx, name: String| match at.entry(tensor) {
        std::collections::hash_map::Entry::Vacant(entry) => {
            entry.insert(found.len());
            found.push((tensor, name));
        }
        std::collections::hash_map::Entry::Occupied(entry) => {
            let names: &mut String = &mut found[*entry.get()].1;
            if !names.split(", ").any(|n| n == name) {
                names.push_str(", ");
                names.push_str(&name);
            }
        }
    };
    for operand in graph.operands(node).iter().filter(|o| o.role == role) {
        add(operand.tensor, graph.slot_name(node, operand).to_owned());
    }
    if role == FieldRole::Input {
        for operand in graph.operands(node) {
            if let Some(offsets) = graph.tensor(operand.tensor).ragged_offset {
                add(offsets, "offsets".to_owned());
            }
        }
    }
    found
}

/// Tensors that no node names.
pub(crate) fn unused(graph: &VerifiedGraph<'_>) -> usize {
    let mut used = vec![false; graph.tensors().len()];
    for operand in graph.all_operands() {
        used[operand.tensor.index()] = true;
        if let Some(offsets) = graph.tensor(operand.tensor).ragged_offset {
            used[offsets.index()] = true;
        }
    }
    used.iter().filter(|used| !**used).count()
}

#[cfg(test)]
mod tests {
    #[test]
    fn numbers_are_short_and_honest() {
        let cases = [(0.5, "0.5"), (0.0, "0"), (-0.0, "-0"), (1e-5, "1e-5"), (9.97212960147963e-5, "≈9.97213e-5"), (1e300, "1e300")];
        for (v, text) in cases {
            assert_eq!(super::number(v), text);
        }
        assert_eq!(super::number(f64::NAN), "NaN");
        assert_eq!(super::number(f64::INFINITY), "inf");
    }
}
