//! What the plugin computes is what the reference computes.

use crate::graphs::{State, batchnorm, device, scaled_convolution, three_scalars};
use crate::run::Run;
use hipplan::reference::{CheckError, check};
use hipplan::{ConvMode, DataType, GraphBuf, GraphBuilder, PointwiseMode, TensorAttributes, Uid, ops};
use hipplan_engine_testing::Plugins;

/// Compiles, executes, serialises, restores and executes again; the reference judges the outputs.
fn right(graph: &GraphBuf) {
    let plugin = Plugins::build("operations", &[]).expect("a plugin");
    let report = check(&graph.view(), 7, &mut |inputs, outputs| {
        let mut run = Run::new();
        run.case(inputs, outputs);
        let lines = run.lines(&plugin, &["--graph", &run.graph(graph)]);
        if !lines.contains(&"same".to_owned()) {
            return Err(format!("{lines:?}"));
        }
        for output in outputs.tensors_mut() {
            let written = run.written(output.uid.0);
            output.tensor.bytes_mut().copy_from_slice(&written);
        }
        Ok(())
    });
    let report = report.unwrap_or_else(|e: CheckError<String>| panic!("{e}"));
    // Bytes between elements were 0xff before, and are not the harness's.
    let wrong = report.outputs.iter().any(|o| !o.report.passed() || o.unwritten > 0);
    assert!(!wrong, "{report}");
}

/// A mode over operands that broadcast, of several types.
fn pointwise(mode: PointwiseMode, dtype: DataType) -> GraphBuf {
    let mut g = GraphBuilder::new();
    let mut tensor = |uid, dims: &[i64]| {
        let mut t = TensorAttributes::packed(dtype, dims);
        t.set_uid(Uid(uid));
        g.tensor(t)
    };
    let (a, b, c, out) = (tensor(1, &[2, 3, 4]), tensor(2, &[3, 1]), tensor(3, &[2, 1, 4]), tensor(4, &[2, 3, 4]));
    let op = match mode.arity() {
        1 => ops::Pointwise::unary(mode, a, out),
        2 => ops::Pointwise::binary(mode, a, b, out),
        _ => ops::Pointwise { in_2: Some(c), ..ops::Pointwise::binary(mode, a, b, out) },
    };
    g.node("", DataType::Float, op);
    if mode.arity() < 3 {
        g.node("", DataType::Float, ops::Pointwise::binary(PointwiseMode::Add, b, c, Uid(5)));
        g.tensor(device(5, "", &[2, 3, 4]));
    }
    if mode.arity() == 1 {
        g.node("", DataType::Float, ops::Pointwise::binary(PointwiseMode::Mul, b, a, Uid(6)));
        g.tensor(device(6, "", &[2, 3, 4]));
    }
    g.build().expect("a graph")
}

/// Backward modes that the plugin leaves out, and the index generator.
const LEFT_OUT: [PointwiseMode; 6] = [
    PointwiseMode::EluBwd,
    PointwiseMode::GeluApproxTanhBwd,
    PointwiseMode::GeluBwd,
    PointwiseMode::GenIndex,
    PointwiseMode::SoftplusBwd,
    PointwiseMode::SwishBwd,
];

#[test]
fn pointwise_modes_are_right() {
    let types = [DataType::Float, DataType::Half, DataType::BFloat16, DataType::Double];
    let modes = PointwiseMode::ALL.iter().filter(|m| **m != PointwiseMode::Unset && !LEFT_OUT.contains(m));
    for (i, mode) in modes.enumerate() {
        right(&pointwise(*mode, types[i % types.len()]));
    }
}

#[test]
fn modes_that_are_left_out_are_declined() {
    let plugin = Plugins::build("operations", &[]).expect("a plugin");
    for mode in LEFT_OUT {
        let mut op = ops::Pointwise::unary(mode, Uid(1), Uid(3));
        (op.in_1, op.axis) = if mode == PointwiseMode::GenIndex { (None, Some(0)) } else { (Some(Uid(2)), None) };
        let mut g = GraphBuilder::new();
        for uid in 1..=3 {
            g.tensor(device(uid, "", &[4]));
        }
        g.node("", DataType::Float, op);
        if mode == PointwiseMode::GenIndex {
            g.node("", DataType::Float, ops::Pointwise::binary(PointwiseMode::Add, Uid(1), Uid(2), Uid(4)));
            g.tensor(device(4, "", &[4]));
        }
        let graph = g.build().expect("a graph");
        let run = Run::new();
        let lines = run.lines(&plugin, &["--graph", &run.graph(&graph)]);
        assert_eq!(lines.last().map(String::as_str), Some("applicable 0"), "{mode:?}");
    }
}

#[test]
fn convolutions_are_right() {
    // Dims of x and w, then pre and post padding, stride and dilation; the last two spatial dimensions differ.
    type Case = (&'static [i64], &'static [i64], &'static [i64], &'static [i64], &'static [i64], &'static [i64]);
    let cases: [Case; 4] = [
        (&[2, 4, 6, 7], &[6, 4, 3, 2], &[1, 0], &[2, 1], &[2, 1], &[1, 2]),
        (&[1, 4, 5, 5], &[4, 2, 3, 3], &[1, 1], &[1, 1], &[1, 1], &[1, 1]),
        (&[1, 3, 9], &[3, 1, 3], &[2], &[0], &[3], &[2]),
        (&[1, 2, 4, 3, 5], &[2, 2, 2, 3, 1], &[0, 1, 0], &[0, 1, 0], &[1, 1, 2], &[2, 1, 1]),
    ];
    for ((x_dims, w_dims, pre_padding, post_padding, stride, dilation), mode) in
        cases.iter().flat_map(|&case| [(case, ConvMode::CrossCorrelation), (case, ConvMode::Convolution)])
    {
        let mut y_dims = vec![x_dims[0], w_dims[0]];
        for i in 0..stride.len() {
            y_dims.push((x_dims[i + 2] + pre_padding[i] + post_padding[i] - dilation[i] * (w_dims[i + 2] - 1) - 1) / stride[i] + 1);
        }
        let mut g = GraphBuilder::new();
        let x = g.tensor(device(1, "x", x_dims));
        let w = g.tensor(device(2, "w", w_dims));
        let y = g.tensor(device(3, "y", &y_dims));
        g.node("", DataType::Float, ops::ConvolutionFwd { x, w, y, pre_padding, post_padding, stride, dilation, conv_mode: mode });
        right(&g.build().expect("a graph"));
    }
}

#[test]
fn matrix_products_and_normalisations_are_right() {
    let mut g = GraphBuilder::new();
    // A transposed in its strides, B broadcast over the batch.
    let mut a = device(1, "a", &[2, 3, 4]);
    a.set_strides(&[12, 1, 3]);
    let (a, b, c) = (g.tensor(a), g.tensor(device(2, "b", &[4, 5])), g.tensor(device(3, "c", &[2, 3, 5])));
    g.node("", DataType::Float, ops::Matmul { a, b, c });
    right(&g.build().expect("a graph"));

    let mut g = GraphBuilder::new();
    let x = g.tensor(device(1, "x", &[2, 3, 4]));
    let mut channel = |uid| g.tensor(device(uid, "", &[3]));
    let (mean, inv_variance, scale, bias) = (channel(2), channel(3), channel(4), channel(5));
    let y = g.tensor(device(6, "y", &[2, 3, 4]));
    g.node("", DataType::Float, ops::BatchnormInference { x, mean, inv_variance, scale, bias, y });
    right(&g.build().expect("a graph"));
}

#[test]
fn scalars_in_every_state_are_right() {
    for state in State::ALL {
        right(&batchnorm(state, 1e-2));
        for other in State::ALL {
            right(&scaled_convolution(state, other));
            right(&three_scalars(state, other, State::Supplied));
        }
    }
}
