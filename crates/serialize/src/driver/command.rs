//! The other way: a graph that is one convolution as the command that means it.

use super::layout::Layout;
use crate::conv_problem::MAX_RANK;
use crate::graph::TensorView;
use crate::ops::{Op, Uid};
use crate::{DataType, Limits, VerifiedGraph};
use std::fmt::Write;

/// Why no MIOpenDriver command means a graph.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the message of each variant says what its fields are")]
pub enum NoCommand {
    /// More than one node, or another operation.
    #[error("driver command: the graph is {found}; a command means a single convolution")]
    NotAConvolution { found: String },
    /// One or three spatial dimensions too few or too many.
    #[error("driver command: {spatial} spatial dimensions; the driver has 2 and 3")]
    Spatial { spatial: usize },
    /// Padding that differs before and behind.
    #[error("driver command: padding {pre:?} before and {post:?} behind; the driver pads both sides alike")]
    Padding { pre: Vec<i64>, post: Vec<i64> },
    /// A type that no base argument names.
    #[error("driver command: {tensor} is {dtype}; the driver convolves float, half, bfloat16 and int8, with one type for all tensors")]
    Type { tensor: &'static str, dtype: DataType },
    /// Strides that no layout has.
    #[error("driver command: strides {strides:?} of {tensor} with dims {dims:?} are no named layout")]
    Strides { tensor: &'static str, dims: Vec<i64>, strides: Vec<i64> },
    /// The command that comes nearest means another graph.
    #[error("driver command: {command:?} comes nearest and has another key: {what} cannot be said in a command")]
    Other { command: String, what: &'static str },
}

/// Names of spatial flags, outermost dimension first: size, filter, padding, stride, dilation.
const FLAGS_2D: [[&str; 5]; 2] = [["-H", "-y", "-p", "-u", "-l"], ["-W", "-x", "-q", "-v", "-j"]];
const FLAGS_3D: [[&str; 5]; 3] =
    [["--in_d", "--fil_d", "--pad_d", "--conv_stride_d", "--dilation_d"], ["-H", "-y", "-p", "-u", "-l"], ["-W", "-x", "-q", "-v", "-j"]];

/// The command whose graph has the key of this one.
///
/// # Errors
/// What of the graph a command cannot say.
pub fn command(graph: &VerifiedGraph<'_>, limits: &Limits) -> Result<String, NoCommand> {
    let mut nodes = graph.nodes();
    let (Some(node), None) = (nodes.next(), nodes.next()) else {
        return Err(NoCommand::NotAConvolution { found: format!("{} nodes", graph.node_count()) });
    };
    let (names, uids, lists, bit): ([&'static str; 3], [Uid; 3], [&[i64]; 4], u8) = match graph.op(node) {
        Op::ConvolutionFwd(op) => (["x", "w", "y"], [op.x, op.w, op.y], [op.pre_padding, op.post_padding, op.stride, op.dilation], 1),
        Op::ConvolutionBwd(op) => (["dx", "w", "dy"], [op.dx, op.w, op.dy], [op.pre_padding, op.post_padding, op.stride, op.dilation], 2),
        Op::ConvolutionWrw(op) => (["x", "dw", "dy"], [op.x, op.dw, op.dy], [op.pre_padding, op.post_padding, op.stride, op.dilation], 4),
        op => return Err(NoCommand::NotAConvolution { found: op.kind().name().to_owned() }),
    };
    let lacks = |_| NoCommand::NotAConvolution { found: "not resolved".to_owned() };
    let [x, w, y] = uids.map(|uid| graph.find(uid).map(|ix| graph.tensor(ix)).ok_or(()));
    let (x, w, y) = (x.map_err(lacks)?, w.map_err(lacks)?, y.map_err(lacks)?);
    let [pre, post, strides, dilations] = lists;
    if pre != post {
        return Err(NoCommand::Padding { pre: pre.to_vec(), post: post.to_vec() });
    }
    let word = match x.dtype {
        DataType::Float => "conv",
        DataType::Half => "convfp16",
        DataType::BFloat16 => "convbfp16",
        DataType::Int8 => "convint8",
        dtype => return Err(NoCommand::Type { tensor: names[0], dtype }),
    };
    for (tensor, name) in [w, y].into_iter().zip([names[1], names[2]]) {
        if tensor.dtype != x.dtype {
            return Err(NoCommand::Type { tensor: name, dtype: tensor.dtype });
        }
    }
    let flags: &[[&str; 5]] = match x.dims.len() {
        4 => &FLAGS_2D,
        5 => &FLAGS_3D,
        rank => return Err(NoCommand::Spatial { spatial: rank.saturating_sub(2) }),
    };
    let layouts = [(x, names[0]), (w, names[1]), (y, names[2])].map(|(tensor, name)| layout(tensor, name));
    let ([n, c, ..], [k, per_group, ..]) = (x.dims, w.dims) else { return Err(NoCommand::Spatial { spatial: 0 }) };
    let groups = c.checked_div(*per_group).unwrap_or(1);

    let mut text = format!("MIOpenDriver {word} -n {n} -c {c} -k {k}");
    let spatial = x.dims.iter().zip(w.dims).skip(2).zip(pre.iter().zip(strides).zip(dilations));
    for (names, ((size, filter), ((pad, stride), dilation))) in flags.iter().zip(spatial) {
        for (name, value) in names.iter().zip([size, filter, pad, stride, dilation]) {
            // Writing to a string does not fail.
            _ = write!(text, " {name} {value}");
        }
    }
    if x.dims.len() == 5 {
        text.push_str(" --spatial_dim 3");
    }
    for (flag, layout) in ["--in_layout", "--fil_layout", "--out_layout"].into_iter().zip(layouts) {
        let layout = layout?;
        if !layout.starts_with("NC") {
            _ = write!(text, " {flag} {layout}");
        }
    }
    _ = write!(text, " -m conv -g {groups} -F {bit}");

    // Whatever else the graph says, the command does not: read it back and compare.
    let back = super::read_log(text.as_bytes(), limits);
    let again = back.problems.first().and_then(|it| it.problem.to_graph(limits).ok());
    let key = |graph: &VerifiedGraph<'_>| graph.canonical().map(|c| c.key).ok();
    if again.is_some_and(|again| key(&again.view()).is_some() && key(&again.view()) == key(graph)) {
        return Ok(text);
    }
    let is_plain = |t: &TensorView<'_>| t.alignment == 16 && t.ragged_offset.is_none() && t.ragged_multiplier == 1;
    let what = if graph.is_override_shape_enabled() {
        "override of shapes"
    } else if ![x, w, y].into_iter().all(is_plain) {
        "alignment and ragged offsets"
    } else if [x, w, y].iter().any(|t| t.is_by_value() || t.is_virtual) {
        "a virtual or by-value tensor"
    } else {
        "the compute type or the mode of the convolution"
    };
    Err(NoCommand::Other { command: text, what })
}

/// The layout that gives a tensor its strides. Where a dimension of size 1 leaves a choice, the default is chosen.
fn layout(tensor: &TensorView<'_>, name: &'static str) -> Result<&'static str, NoCommand> {
    let names: &[&'static str] = if tensor.dims.len() == 5 { &["NCDHW", "NDHWC"] } else { &["NCHW", "NHWC", "CHWN"] };
    let fits = |layout: &str| {
        let strides = Layout::parse("in_layout", layout.as_bytes(), tensor.dims.len()).and_then(|l| l.strides("x", tensor.dims));
        let strides: [i64; MAX_RANK] = strides.ok()?;
        let mut pairs = tensor.dims.iter().zip(tensor.strides.iter().zip(strides));
        pairs.all(|(&dim, (&found, expected))| dim == 1 || found == expected).then_some(())
    };
    names.iter().copied().find(|layout| fits(layout).is_some()).ok_or_else(|| NoCommand::Strides {
        tensor: name,
        dims: tensor.dims.to_vec(),
        strides: tensor.strides.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GraphBuilder, TensorAttributes, json};

    const LINES: [&str; 5] = [
        "conv -n 2 -c 4 -k 8 -H 5 -W 6 -y 3 -x 3 -p 1 -q 1 -g 2 -F 1",
        "convfp16 -n 2 -c 4 -k 8 -H 5 -W 6 -F 2 --in_layout NHWC --fil_layout NHWC --out_layout NHWC",
        "convbfp16 -n 1 -c 4 -k 1 -H 1 -W 60 -y 1 -x 5 -v 2 -j 3 -F 4",
        "convint8 -n 1 -c 4 -k 8 --in_d 3 -H 4 -W 5 --fil_d 2 -y 2 -x 2 --spatial_dim 3 --out_layout NDHWC -F 1",
        "conv -m trans -n 2 -c 4 -k 6 -H 5 -W 6 -u 2 -v 2 -F 1",
    ];

    #[test]
    fn a_command_means_its_graph() {
        for line in LINES {
            let log = crate::driver::read_log(format!("MIOpenDriver {line}").as_bytes(), &Limits::DEFAULT);
            let [problem] = &log.problems[..] else { panic!("{line}: {log:?}") };
            let graph = problem.problem.to_graph(&Limits::DEFAULT).expect("a graph");
            let text = command(&graph.view(), &Limits::DEFAULT).unwrap_or_else(|e| panic!("{line}: {e}"));
            let again = crate::driver::read_log(text.as_bytes(), &Limits::DEFAULT);
            let key = |graph: &crate::GraphBuf| graph.view().canonical().expect("known fields only").key;
            assert_eq!(key(&again.problems[0].problem.to_graph(&Limits::DEFAULT).expect("a graph")), key(&graph), "{line}\n{text}");
        }
    }

    #[test]
    fn what_a_command_cannot_say_is_refused() {
        let graph = |edit: fn(&mut serde_json::Value)| {
            let text = include_str!("../../../../corpus/graphs/sample_conv_fwd.json");
            let mut value = serde_json::from_str(text).expect("JSON");
            edit(&mut value);
            json::import(value.to_string().as_bytes(), &Limits::DEFAULT).unwrap_or_else(|e| panic!("{e}")).graph
        };
        let refusal = |graph: crate::GraphBuf| command(&graph.view(), &Limits::DEFAULT).expect_err("no command");
        assert!(command(&graph(|_| ()).view(), &Limits::DEFAULT).is_ok());
        let refused = refusal(graph(|v| v["tensors"][0]["alignment"] = 64.into()));
        assert!(matches!(refused, NoCommand::Other { what: "alignment and ragged offsets", .. }), "{refused}");
        let refused = refusal(graph(|v| v["is_override_shape_enabled"] = true.into()));
        assert!(matches!(refused, NoCommand::Other { what: "override of shapes", .. }), "{refused}");
        let refused = refusal(graph(|v| v["nodes"][0]["parameters"]["conv_mode"] = "CONVOLUTION".into()));
        assert!(matches!(refused, NoCommand::Other { .. }), "{refused}");
        let refused = refusal(graph(|v| v["tensors"][0]["strides"][0] = 1_000_000.into()));
        assert!(matches!(refused, NoCommand::Strides { .. }), "{refused}");
        let mut relu = GraphBuilder::new();
        let [x, y] = [0, 1].map(|_| relu.tensor(TensorAttributes::packed(DataType::Float, &[2])));
        relu.node("", DataType::Float, crate::ops::Pointwise::unary(crate::PointwiseMode::ReluFwd, x, y));
        assert!(matches!(refusal(relu.build().expect("valid")), NoCommand::NotAConvolution { .. }));
    }
}
