//! The cpu provider against the reference harness: every operation it has, over types, layouts and fused chains.

mod common;

use hipplan::reference::{CheckReport, check};
use hipplan::{ConvMode, DataType, GraphBuf, GraphBuilder, Op, PointwiseMode, TensorAttributes, Uid, ops};
use proptest::prelude::*;

/// How a tensor lies in memory.
#[derive(Clone, Copy, Debug)]
enum Layout {
    Packed,
    /// Channels last.
    ChannelsLast,
    /// Packed, with room between rows.
    Gapped,
}

fn tensor(dtype: DataType, dims: &[i64], layout: Layout) -> TensorAttributes {
    let mut tensor = TensorAttributes::packed(dtype, dims);
    let order: Vec<usize> = match layout {
        Layout::ChannelsLast if dims.len() > 2 => [0].into_iter().chain(2..dims.len()).chain([1]).collect(),
        _ => (0..dims.len()).collect(),
    };
    let mut strides = vec![0; dims.len()];
    let mut next = if matches!(layout, Layout::Gapped) { 2 } else { 1 };
    for &axis in order.iter().rev() {
        strides[axis] = next;
        next = next * dims[axis] + i64::from(matches!(layout, Layout::Gapped));
    }
    tensor.set_strides(&strides);
    tensor
}

#[derive(Clone, Debug)]
struct Conv {
    spatial: Vec<SpatialDim>,
    batch: i64,
    groups: i64,
    channels_per_group: i64,
    filters_per_group: i64,
    flip: bool,
    types: (DataType, DataType),
    layouts: (Layout, Layout, Layout),
    chain: bool,
}

#[derive(Clone, Copy, Debug)]
struct SpatialDim {
    out: i64,
    filter: i64,
    pre: i64,
    post: i64,
    stride: i64,
    dilation: i64,
    /// Trailing elements that the filter never reaches.
    slack: i64,
}

impl SpatialDim {
    fn input(self) -> i64 {
        (self.out - 1) * self.stride + (self.filter - 1) * self.dilation + 1 - self.pre - self.post + self.slack.min(self.stride - 1)
    }
}

fn layout() -> impl Strategy<Value = Layout> {
    prop_oneof![Just(Layout::Packed), Just(Layout::ChannelsLast), Just(Layout::Gapped)]
}

fn types() -> impl Strategy<Value = (DataType, DataType)> {
    use DataType::{BFloat16, Double, Float, Half};
    prop_oneof![
        4 => Just((Float, Float)),
        2 => Just((Half, Half)),
        2 => Just((BFloat16, BFloat16)),
        1 => Just((BFloat16, Float)),
        1 => Just((Double, Double)),
    ]
}

fn conv() -> impl Strategy<Value = Conv> {
    let spatial = (1..7_i64, 1..4_i64, 0..3_i64, 0..3_i64, 1..4_i64, 1..3_i64, 0..3_i64)
        .prop_map(|(out, filter, pre, post, stride, dilation, slack)| SpatialDim { out, filter, pre, post, stride, dilation, slack })
        .prop_filter("an image", |d| d.input() >= 1);
    let channels = prop_oneof![3 => (1..4_i64, 1..9_i64, 1..9_i64), 1 => (1..12_i64, Just(1), 1..3_i64)];
    (prop::collection::vec(spatial, 1..=3), 1..4_i64, channels, any::<bool>(), types(), (layout(), layout(), layout()), any::<bool>())
        .prop_map(|(spatial, batch, (groups, channels_per_group, filters_per_group), flip, types, layouts, chain)| Conv {
            spatial,
            batch,
            groups,
            channels_per_group,
            filters_per_group,
            flip,
            types,
            layouts,
            chain,
        })
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Direction {
    Forward,
    Data,
    Weights,
}

fn conv_graph(c: &Conv, direction: Direction) -> GraphBuf {
    let list = |f: fn(SpatialDim) -> i64| c.spatial.iter().map(|&d| f(d)).collect::<Vec<_>>();
    let dims = |n, k, rest: Vec<i64>| [vec![n, k], rest].concat();
    let x = dims(c.batch, c.groups * c.channels_per_group, list(SpatialDim::input));
    let w = dims(c.groups * c.filters_per_group, c.channels_per_group, list(|d| d.filter));
    let y = dims(c.batch, c.groups * c.filters_per_group, list(|d| d.out));
    let (pre, post, stride, dilation) = (list(|d| d.pre), list(|d| d.post), list(|d| d.stride), list(|d| d.dilation));
    let conv_mode = if c.flip { ConvMode::Convolution } else { ConvMode::CrossCorrelation };

    let mut builder = GraphBuilder::new();
    let mut add = |dims: &[i64], layout, written: bool| {
        let dtype = if written { c.types.1 } else { c.types.0 };
        let mut t = tensor(dtype, dims, layout);
        t.set_virtual(written && c.chain);
        builder.tensor(t)
    };
    let (lx, lw, ly) = c.layouts;
    let x_uid = add(&x, lx, direction == Direction::Data);
    let w_uid = add(&w, lw, direction == Direction::Weights);
    let y_uid = add(&y, ly, direction == Direction::Forward);
    let (pre_padding, post_padding, stride, dilation) = (&pre[..], &post[..], &stride[..], &dilation[..]);
    let (op, result, result_dims): (Op<'_>, Uid, &[i64]) = match direction {
        Direction::Forward => {
            (ops::ConvolutionFwd { x: x_uid, w: w_uid, y: y_uid, pre_padding, post_padding, stride, dilation, conv_mode }.into(), y_uid, &y)
        }
        Direction::Data => (
            ops::ConvolutionBwd { dy: y_uid, w: w_uid, dx: x_uid, pre_padding, post_padding, stride, dilation, conv_mode }.into(),
            x_uid,
            &x,
        ),
        Direction::Weights => (
            ops::ConvolutionWrw { x: x_uid, dy: y_uid, dw: w_uid, pre_padding, post_padding, stride, dilation, conv_mode }.into(),
            w_uid,
            &w,
        ),
    };
    let compute = if c.types.0 == DataType::Double { DataType::Double } else { DataType::Float };
    builder.node("conv", compute, op);
    if c.chain {
        // Bias per channel, then an activation.
        let mut bias_dims = vec![1; result_dims.len()];
        bias_dims[1] = result_dims[1];
        let bias = builder.tensor(tensor(c.types.1, &bias_dims, Layout::Packed));
        let mut sum = tensor(DataType::Float, result_dims, Layout::Packed);
        sum.set_virtual(true);
        let sum = builder.tensor(sum);
        let out = builder.tensor(tensor(c.types.1, result_dims, ly));
        builder.node("bias", compute, ops::Pointwise::binary(PointwiseMode::Add, result, bias, sum));
        builder.node("activation", compute, ops::Pointwise::unary(PointwiseMode::ReluFwd, sum, out));
    }
    builder.build().expect("a valid graph")
}

fn passes(report: &CheckReport) -> Result<(), TestCaseError> {
    prop_assert!(report.passed(), "{report}");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn convolutions_are_right(c in conv(), direction in prop_oneof![Just(Direction::Forward), Just(Direction::Data), Just(Direction::Weights)], seed: u64) {
        let (_folder, runtime) = common::runtime();
        passes(&common::check_graph(&runtime, &conv_graph(&c, direction), seed))?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn matmuls_are_right(
        m in 1..40_i64, k in 1..50_i64, n in 1..40_i64, batch in prop::collection::vec((1..4_i64, 0..3_u8), 0..3),
        types in types(), transpose in any::<(bool, bool)>(), seed: u64,
    ) {
        // Which of the operands a batch dimension broadcasts.
        let side = |which: u8, rows: i64, columns: i64| -> Vec<i64> {
            batch.iter().map(|&(d, b)| if b == which { 1 } else { d }).chain([rows, columns]).collect()
        };
        let mut builder = GraphBuilder::new();
        let mut operand = |dims: &[i64], dtype, transposed: bool| {
            let mut t = TensorAttributes::packed(dtype, dims);
            if transposed {
                let mut strides = t.strides().to_vec();
                let (rows, columns) = (dims[dims.len() - 2], dims.len() - 2);
                strides[columns] = 1;
                strides[columns + 1] = rows;
                t.set_strides(&strides);
            }
            builder.tensor(t)
        };
        let a = operand(&side(1, m, k), types.0, transpose.0);
        let b = operand(&side(2, k, n), types.0, transpose.1);
        let c = operand(&side(0, m, n).into_iter().enumerate().map(|(i, d)| if i < batch.len() { batch[i].0 } else { d }).collect::<Vec<_>>(), types.1, false);
        let compute = if types.0 == DataType::Double { DataType::Double } else { DataType::Float };
        builder.node("mm", compute, ops::Matmul { a, b, c });
        let (_folder, runtime) = common::runtime();
        passes(&common::check_graph(&runtime, &builder.build().expect("valid"), seed))?;
    }

    #[test]
    fn batchnorms_are_right(n in 1..4_i64, c in 1..7_i64, spatial in prop::collection::vec(1..6_i64, 0..3), types in types(), l in layout(), with_variance: bool, seed: u64) {
        let dims = [vec![n, c], spatial].concat();
        let mut per_channel = vec![1; dims.len()];
        per_channel[1] = c;
        let mut builder = GraphBuilder::new();
        let x = builder.tensor(tensor(types.0, &dims, l));
        let stat = if types.0 == DataType::Double { DataType::Double } else { DataType::Float };
        let [mean, spread, scale, bias] = std::array::from_fn(|_| builder.tensor(tensor(stat, &per_channel, Layout::Packed)));
        let y = builder.tensor(tensor(types.1, &dims, l));
        if with_variance {
            let epsilon = builder.tensor(TensorAttributes::scalar(1e-3_f32));
            let op = ops::BatchnormInferenceVariance { x, mean, variance: spread, scale, bias, y, epsilon };
            builder.node("bn", stat, op);
        } else {
            builder.node("bn", stat, ops::BatchnormInference { x, mean, inv_variance: spread, scale, bias, y });
        }
        let (_folder, runtime) = common::runtime();
        passes(&common::check_graph(&runtime, &builder.build().expect("valid"), seed))?;
    }
}

/// Padding before a filter that is as wide: its first taps meet padding only.
#[test]
fn taps_that_no_output_reaches() {
    let (_folder, runtime) = common::runtime();
    for (pre, filter) in [(2, 3), (7, 8), (3, 5)] {
        let dim = SpatialDim { out: 1, filter, pre, post: 0, stride: 1, dilation: 1, slack: 0 };
        for spatial in [vec![dim], vec![dim; 2]] {
            let c = Conv {
                spatial,
                batch: 1,
                groups: 1,
                channels_per_group: 1,
                filters_per_group: 1,
                flip: false,
                types: (DataType::Float, DataType::Float),
                layouts: (Layout::Packed, Layout::Packed, Layout::Packed),
                chain: false,
            };
            for direction in [Direction::Forward, Direction::Data, Direction::Weights] {
                let report = common::check_graph(&runtime, &conv_graph(&c, direction), 1);
                assert!(report.passed(), "{report}");
            }
        }
    }
}

#[test]
fn every_pointwise_function_is_right() {
    let (_folder, runtime) = common::runtime();
    for &mode in PointwiseMode::ALL.iter().filter(|&&m| m != PointwiseMode::Unset) {
        for (dtype, compute) in [
            (DataType::Float, DataType::Float),
            (DataType::Half, DataType::Float),
            (DataType::BFloat16, DataType::Float),
            (DataType::Double, DataType::Double),
        ] {
            let mut builder = GraphBuilder::new();
            let in_0 = builder.tensor(tensor(dtype, &[2, 3, 5], Layout::Gapped));
            let second = (mode.arity() >= 2).then(|| builder.tensor(tensor(dtype, &[3, 1], Layout::Packed)));
            let third = (mode.arity() >= 3).then(|| builder.tensor(tensor(dtype, &[2, 1, 5], Layout::Packed)));
            let out_0 = builder.tensor(tensor(dtype, &[2, 3, 5], Layout::ChannelsLast));
            let axis = (mode == PointwiseMode::GenIndex).then_some(1);
            builder.node("f", compute, ops::Pointwise { in_1: second, in_2: third, axis, ..ops::Pointwise::unary(mode, in_0, out_0) });
            let report = common::check_graph(&runtime, &builder.build().expect("valid"), 7);
            assert!(report.passed(), "{mode} {dtype}: {report}");
        }
    }
}

#[test]
fn pointwise_parameters_are_honoured() {
    let (_folder, runtime) = common::runtime();
    let check = |mode: PointwiseMode, set: fn(&mut ops::Pointwise)| {
        let mut builder = GraphBuilder::new();
        let in_0 = builder.tensor(tensor(DataType::Float, &[64], Layout::Packed));
        let second = (mode.arity() == 2).then(|| builder.tensor(tensor(DataType::Float, &[64], Layout::Packed)));
        let out_0 = builder.tensor(tensor(DataType::Float, &[64], Layout::Packed));
        let mut op = ops::Pointwise { in_1: second, ..ops::Pointwise::unary(mode, in_0, out_0) };
        set(&mut op);
        builder.node("f", DataType::Float, op);
        let report = common::check_graph(&runtime, &builder.build().expect("valid"), 3);
        assert!(report.passed(), "{mode}: {report}");
    };
    for mode in [PointwiseMode::ReluFwd, PointwiseMode::ReluBwd] {
        check(mode, |op| op.relu_lower_clip = Some(-1.0));
        check(mode, |op| op.relu_upper_clip = Some(0.75));
        check(mode, |op| op.relu_lower_clip_slope = Some(0.1));
        check(mode, |op| (op.relu_lower_clip, op.relu_upper_clip, op.relu_lower_clip_slope) = (Some(0.25), Some(2.0), Some(0.5)));
    }
    for mode in [PointwiseMode::SwishFwd, PointwiseMode::SwishBwd] {
        check(mode, |op| op.swish_beta = Some(1.75));
    }
    for mode in [PointwiseMode::EluFwd, PointwiseMode::EluBwd] {
        check(mode, |op| op.elu_alpha = Some(0.3));
    }
    for mode in [PointwiseMode::SoftplusFwd, PointwiseMode::SoftplusBwd] {
        check(mode, |op| op.softplus_beta = Some(2.5));
    }
}

#[test]
fn int8_convolution_is_exact() {
    let (_folder, runtime) = common::runtime();
    let mut builder = GraphBuilder::new();
    let x = builder.tensor(tensor(DataType::Int8, &[2, 70, 9, 9], Layout::ChannelsLast));
    let w = builder.tensor(tensor(DataType::Int8, &[5, 70, 3, 3], Layout::Packed));
    let y = builder.tensor(tensor(DataType::Int32, &[2, 5, 9, 9], Layout::Packed));
    let ones = &[1, 1][..];
    let op = ops::ConvolutionFwd {
        x,
        w,
        y,
        pre_padding: ones,
        post_padding: ones,
        stride: ones,
        dilation: ones,
        conv_mode: ConvMode::CrossCorrelation,
    };
    builder.node("conv", DataType::Int32, op);
    let report = common::check_graph(&runtime, &builder.build().expect("valid"), 11);
    assert!(report.passed(), "{report}");
}

/// The harness is no use unless it notices a provider that is wrong: here one that loses a single filter tap.
#[test]
fn one_lost_filter_tap_fails_the_check() {
    let (_folder, runtime) = common::runtime();
    for dtype in [DataType::Float, DataType::Half, DataType::BFloat16] {
        let mut builder = GraphBuilder::new();
        let x = builder.tensor(tensor(dtype, &[1, 32, 8, 8], Layout::Packed));
        let w = builder.tensor(tensor(dtype, &[16, 32, 3, 3], Layout::Packed));
        let y = builder.tensor(tensor(dtype, &[1, 16, 8, 8], Layout::Packed));
        let ones = &[1, 1][..];
        let op = ops::ConvolutionFwd {
            x,
            w,
            y,
            pre_padding: ones,
            post_padding: ones,
            stride: ones,
            dilation: ones,
            conv_mode: ConvMode::CrossCorrelation,
        };
        builder.node("conv", DataType::Float, op);
        let graph = builder.build().expect("valid");
        let view = graph.view();
        let mut plan = common::restored(&runtime, &view);
        for (broken, expected) in [(false, true), (true, false)] {
            let report = check(&view, 5, &mut |inputs, outputs| {
                let mut inputs = inputs.clone();
                if broken {
                    let filter = inputs.tensors_mut().iter_mut().find(|t| t.uid == w).expect("the filter");
                    filter.tensor.set(&[7, 19, 1, 2], 0.0);
                }
                common::execute(&mut plan, &inputs, outputs)
            });
            let report = report.expect("executed");
            assert_eq!(report.passed(), expected, "{dtype}, broken: {broken}: {report}");
        }
    }
}
