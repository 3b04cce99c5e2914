//! The numerical check itself: definitions against numbers worked out by hand, tolerances against honest and dishonest executions.
#![expect(clippy::unwrap_used, reason = "a test may panic, also in its helper functions")]

use hipplan_exec::reference::ops::{self, Array, Convolution, Num, Parameters, Sum};
use hipplan_exec::reference::{CheckReport, Domain, HostTensor, Inputs, Outputs, Random, ReferenceError, Values, check, compare, evaluate};
use hipplan_serialize::ops::{
    BatchnormInference, BatchnormInferenceVariance, ConvolutionBwd, ConvolutionFwd, ConvolutionWrw, Matmul, Pointwise, Reduction,
    ResampleFwd,
};
use hipplan_serialize::{
    ConvMode, DataType, GraphBuf, GraphBuilder, Op, PaddingMode, PointwiseMode, ReductionMode, ResampleMode, ScalarType, TensorAttributes,
    TensorValue, Uid,
};
use std::convert::Infallible;

const X: Uid = Uid(10);
const W: Uid = Uid(20);
const Y: Uid = Uid(30);

fn packed(uid: Uid, dtype: DataType, dims: &[i64]) -> TensorAttributes {
    let mut t = TensorAttributes::packed(dtype, dims);
    t.set_uid(uid).set_name(format!("t{uid}"));
    t
}

// ---- Definitions against numbers worked out by hand ----

fn conv(pre: &[usize], stride: &[usize], dilation: &[usize], flip: bool) -> Convolution {
    Convolution { pre_padding: pre.to_vec(), stride: stride.to_vec(), dilation: dilation.to_vec(), flip }
}

fn plain(flip: bool) -> Convolution {
    conv(&[1], &[1], &[1], flip)
}

fn values(sums: &Array<Sum>) -> Vec<f64> {
    sums.data.iter().map(|s| s.value).collect()
}

fn line(values: &[f64]) -> Array<Num> {
    Array::exact(&[1, 1, values.len()], values)
}

#[test]
fn convolution_in_one_dimension() {
    let (x, w) = (line(&[1., 2., 3., 4.]), line(&[1., 10., 100.]));
    assert_eq!(values(&plain(false).forward(&x, &w, &[1, 1, 4])), [210., 321., 432., 43.]);
    assert_eq!(values(&plain(true).forward(&x, &w, &[1, 1, 4])), [12., 123., 234., 340.]);
    // Padding behind only.
    assert_eq!(values(&conv(&[0], &[1], &[1], false).forward(&x, &w, &[1, 1, 4])), [321., 432., 43., 4.]);
    let x = line(&[1., 2., 3., 4., 5.]);
    assert_eq!(values(&conv(&[0], &[1], &[2], false).forward(&x, &w, &[1, 1, 1])), [531.]);
    assert_eq!(values(&conv(&[0], &[2], &[1], false).forward(&x, &w, &[1, 1, 2])), [321., 543.]);
    // Padding, stride and dilation together: taps at -1, 1, 3 and 1, 3, 5.
    assert_eq!(values(&conv(&[1], &[2], &[2], false).forward(&x, &w, &[1, 1, 2])), [420., 42.]);
}

#[test]
fn convolution_in_groups() {
    let c = conv(&[0], &[1], &[1], false);
    let x = Array::exact(&[1, 4, 1], &[1., 10., 100., 1000.]);
    let w = Array::exact(&[2, 2, 1], &[1., 2., 3., 4.]);
    assert_eq!(values(&c.forward(&x, &w, &[1, 2, 1])), [21., 4300.]);
    // One channel per group, two filters each.
    let x = Array::exact(&[1, 2, 1], &[1., 10.]);
    let w = Array::exact(&[4, 1, 1], &[1., 2., 3., 4.]);
    assert_eq!(values(&c.forward(&x, &w, &[1, 4, 1])), [1., 2., 30., 40.]);
    let dy = Array::exact(&[1, 4, 1], &[1., 10., 100., 1000.]);
    assert_eq!(values(&c.backward_data(&dy, &w, &[1, 2, 1])), [21., 4300.]);
    assert_eq!(values(&c.backward_filter(&x, &dy, &[4, 1, 1])), [1., 10., 1000., 10000.]);
    // Two images.
    let x = Array::exact(&[2, 1, 1], &[2., 3.]);
    let dy = Array::exact(&[2, 1, 1], &[10., 100.]);
    assert_eq!(values(&c.backward_filter(&x, &dy, &[1, 1, 1])), [320.]);
}

#[test]
fn convolution_in_two_and_three_dimensions() {
    let x = Array::exact(&[1, 1, 2, 3], &[1., 2., 3., 4., 5., 6.]);
    let w = Array::exact(&[1, 1, 2, 2], &[1., 10., 100., 1000.]);
    let flat = |flip| conv(&[0, 0], &[1, 1], &[1, 1], flip);
    assert_eq!(values(&flat(false).forward(&x, &w, &[1, 1, 1, 2])), [5421., 6532.]);
    assert_eq!(values(&flat(true).forward(&x, &w, &[1, 1, 1, 2])), [1245., 2356.]);
    // One row of padding above: the filter's lower row meets the first row.
    let c = conv(&[1, 0], &[2, 1], &[1, 1], false);
    assert_eq!(values(&c.forward(&x, &w, &[1, 1, 1, 2])), [2100., 3200.]);
    let count: Vec<f64> = (1..=8).map(f64::from).collect();
    let (x, w) = (Array::exact(&[1, 1, 2, 2, 2], &count), Array::exact(&[1, 1, 2, 2, 2], &count));
    let cube = |flip| conv(&[0, 0, 0], &[1, 1, 1], &[1, 1, 1], flip);
    assert_eq!(values(&cube(false).forward(&x, &w, &[1, 1, 1, 1, 1])), [204.]);
    assert_eq!(values(&cube(true).forward(&x, &w, &[1, 1, 1, 1, 1])), [120.]);
}

#[test]
fn gradients_of_a_convolution() {
    let (dy, w) = (line(&[1., 2., 3., 4.]), line(&[1., 10., 100.]));
    assert_eq!(values(&plain(false).backward_data(&dy, &w, &[1, 1, 4])), [12., 123., 234., 340.]);
    assert_eq!(values(&plain(true).backward_data(&dy, &w, &[1, 1, 4])), [210., 321., 432., 43.]);
    let c = conv(&[0], &[2], &[1], false);
    assert_eq!(values(&c.backward_data(&line(&[1., 2.]), &w, &[1, 1, 5])), [1., 10., 102., 20., 200.]);
    let (x, dy) = (line(&[1., 2., 3., 4.]), line(&[1., 10., 100., 1000.]));
    assert_eq!(values(&plain(false).backward_filter(&x, &dy, &[1, 1, 3])), [3210., 4321., 432.]);
    assert_eq!(values(&plain(true).backward_filter(&x, &dy, &[1, 1, 3])), [432., 4321., 3210.]);
}

#[test]
fn gradients_are_adjoint() {
    let mut random = Random::new(1);
    for _ in 0..40 {
        let spatial = random.integer(1, 3) as usize;
        let mut list = |low, high, n| (0..n).map(|_| random.integer(low, high) as usize).collect::<Vec<_>>();
        let (pre, post, stride, dilation, filter) =
            (list(0, 2, spatial), list(0, 2, spatial), list(1, 3, spatial), list(1, 2, spatial), list(1, 3, spatial));
        let [batch, groups, channels, per_group] = [list(1, 2, 1)[0], list(1, 3, 1)[0], list(1, 2, 1)[0], list(1, 2, 1)[0]];
        let size: Vec<usize> = (0..spatial).map(|i| (filter[i] - 1) * dilation[i] + 1 + list(0, 3, 1)[0]).collect();
        let out = (0..spatial).map(|i| (size[i] + pre[i] + post[i] - (filter[i] - 1) * dilation[i] - 1) / stride[i] + 1);
        let dims = |a, b, rest: &[usize]| [&[a, b], rest].concat();
        let x_dims = dims(batch, groups * channels, &size);
        let w_dims = dims(groups * per_group, channels, &filter);
        let y_dims = dims(batch, groups * per_group, &out.collect::<Vec<_>>());
        let mut fill = |dims: &[usize]| {
            let values: Vec<f64> = (0..dims.iter().product::<usize>()).map(|_| random.uniform(-1., 1.)).collect();
            Array::exact(dims, &values)
        };
        let (x, w, dy) = (fill(&x_dims), fill(&w_dims), fill(&y_dims));
        let c = conv(&pre, &stride, &dilation, random.coin());
        let dot = |a: &Array<Sum>, b: &Array<Num>| a.data.iter().zip(&b.data).map(|(a, b)| a.value * b.value).sum::<f64>();
        let forward = dot(&c.forward(&x, &w, &y_dims), &dy);
        assert!((forward - dot(&c.backward_data(&dy, &w, &x_dims), &x)).abs() < 1e-12);
        assert!((forward - dot(&c.backward_filter(&x, &dy, &w_dims), &w)).abs() < 1e-12);
    }
}

#[test]
fn matrix_products() {
    let (a, b) = (Array::exact(&[2, 2], &[1., 2., 3., 4.]), Array::exact(&[2, 2], &[10., 20., 30., 40.]));
    assert_eq!(values(&ops::matmul(&a, &b, &[2, 2])), [70., 100., 150., 220.]);
    // [2, 1, 1, 2] times [3, 2, 1]: batches of 2 and 3.
    let a = Array::exact(&[2, 1, 1, 2], &[1., 2., 3., 4.]);
    let b = Array::exact(&[3, 2, 1], &[1., 1., 1., 0., 0., 1.]);
    assert_eq!(values(&ops::matmul(&a, &b, &[2, 3, 1, 1])), [3., 1., 2., 7., 3., 4.]);
    let sum = ops::matmul(&Array::exact(&[1, 2], &[1., -2.]), &Array::exact(&[2, 1], &[3., 4.]), &[1, 1]).data[0];
    assert_eq!(sum, Sum { value: -5., scale: 11., carried: 0. });
}

#[test]
fn batch_normalisation() {
    assert_eq!(ops::batchnorm_inference([3., 1., 0.5, 4., 10.]), 14.);
    assert_eq!(ops::batchnorm_inference_variance([3., 1., 3.75, 4., 10., 0.25]), 14.);
}

fn near(found: f64, expected: f64) -> bool {
    found == expected || (found - expected).abs() <= 4e-16 * expected.abs()
}

#[test]
fn error_function() {
    for (x, expected) in [
        (0.0, 0.0),
        (1e-3, 0.001128378790969236),
        (0.5, 0.5204998778130465),
        (1.0, 0.8427007929497149),
        (2.0, 0.9953222650189527),
        (3.0, 0.9999779095030014),
        (f64::INFINITY, 1.0),
    ] {
        assert!(near(ops::erf(x), expected), "erf({x}) = {}", ops::erf(x));
        assert!(near(ops::erf(-x), -expected));
    }
    assert!((ops::erfc(5.0) / 1.537_459_794_428_035e-12 - 1.0).abs() < 1e-14);
    for i in -8000..=8000 {
        let x = f64::from(i) / 1000.0;
        assert!((ops::erf(x) - libm::erf(x)).abs() < 1e-15, "erf({x})");
        assert!((ops::erfc(x) - libm::erfc(x)).abs() < 1e-15, "erfc({x})");
    }
    assert!(ops::erf(f64::NAN).is_nan() && ops::erfc(f64::NAN).is_nan());
}

#[test]
fn pointwise_functions_at_a_point() {
    use PointwiseMode as M;
    let p = Parameters::default();
    let table = [
        (M::Identity, [-2.5, 0., 0.], -2.5),
        (M::Abs, [-2.5, 0., 0.], 2.5),
        (M::Neg, [-2.5, 0., 0.], 2.5),
        (M::Ceil, [-2.5, 0., 0.], -2.),
        (M::Floor, [-2.5, 0., 0.], -3.),
        (M::Reciprocal, [4., 0., 0.], 0.25),
        (M::Sqrt, [9., 0., 0.], 3.),
        (M::Rsqrt, [4., 0., 0.], 0.5),
        (M::Add, [2., 3., 0.], 5.),
        (M::Sub, [2., 3., 0.], -1.),
        (M::Mul, [2., 3., 0.], 6.),
        (M::Div, [3., 4., 0.], 0.75),
        (M::AddSquare, [2., 3., 0.], 11.),
        (M::Max, [2., 3., 0.], 3.),
        (M::Min, [2., 3., 0.], 2.),
        (M::Exp, [0.5, 0., 0.], 1.6487212707001282),
        (M::Log, [3., 0., 0.], 1.0986122886681098),
        (M::Sin, [1., 0., 0.], 0.8414709848078965),
        (M::Tan, [1., 0., 0.], 1.5574077246549023),
        (M::Erf, [1., 0., 0.], 0.8427007929497149),
        (M::GenIndex, [7., 0., 0.], 7.),
        (M::CmpEq, [2., 2., 0.], 1.),
        (M::CmpEq, [2., 3., 0.], 0.),
        (M::CmpNeq, [2., 3., 0.], 1.),
        (M::CmpGt, [3., 2., 0.], 1.),
        (M::CmpGt, [2., 2., 0.], 0.),
        (M::CmpGe, [2., 2., 0.], 1.),
        (M::CmpGe, [1., 2., 0.], 0.),
        (M::CmpLt, [1., 2., 0.], 1.),
        (M::CmpLt, [2., 2., 0.], 0.),
        (M::CmpLe, [2., 2., 0.], 1.),
        (M::CmpLe, [3., 2., 0.], 0.),
        (M::LogicalAnd, [2., -1., 0.], 1.),
        (M::LogicalAnd, [2., 0., 0.], 0.),
        (M::LogicalOr, [0., 3., 0.], 1.),
        (M::LogicalOr, [0., 0., 0.], 0.),
        (M::LogicalNot, [0., 0., 0.], 1.),
        (M::LogicalNot, [5., 0., 0.], 0.),
        (M::BinarySelect, [2., 3., 1.], 2.),
        (M::BinarySelect, [2., 3., 0.], 3.),
        (M::ReluFwd, [-2., 0., 0.], 0.),
        (M::ReluFwd, [2., 0., 0.], 2.),
        (M::ReluBwd, [5., 2., 0.], 5.),
        (M::ReluBwd, [5., 0., 0.], 0.),
        (M::SigmoidFwd, [1., 0., 0.], 0.7310585786300049),
        (M::SigmoidFwd, [-1000., 0., 0.], 0.),
        (M::SigmoidBwd, [2., 0., 0.], 0.5),
        (M::TanhFwd, [0.5, 0., 0.], 0.46211715726000973),
        (M::TanhBwd, [2., 0., 0.], 2.),
        (M::EluFwd, [-1., 0., 0.], -0.6321205588285577),
        (M::EluFwd, [3., 0., 0.], 3.),
        (M::EluBwd, [3., -1., 0.], 1.103638323514327),
        (M::EluBwd, [3., 1., 0.], 3.),
        (M::SoftplusFwd, [1., 0., 0.], 1.3132616875182228),
        (M::SoftplusFwd, [1000., 0., 0.], 1000.),
        (M::SoftplusBwd, [2., 0., 0.], 1.),
        (M::SwishFwd, [2., 0., 0.], 1.7615941559557649),
        (M::SwishBwd, [2., 0., 0.], 1.),
        (M::GeluFwd, [1., 0., 0.], 0.8413447460685429),
        (M::GeluBwd, [2., 0., 0.], 1.),
        (M::GeluApproxTanhFwd, [1., 0., 0.], 0.8411919906082768),
        (M::GeluApproxTanhBwd, [2., 0., 0.], 1.),
    ];
    for (mode, at, expected) in table {
        let found = ops::pointwise(mode, &p, at);
        assert!(near(found, expected), "{mode} {at:?} = {found}, not {expected}");
    }
    for &mode in PointwiseMode::ALL.iter().filter(|&&m| m != M::Unset) {
        assert!(table.iter().any(|t| t.0 == mode), "{mode} stands in the table");
    }
    // Clips and slopes: hipDNN's leaky and clipped relu, the lower bound with the part below it, the upper with the part inside.
    let p = Parameters { lower: -1., upper: 6., slope: 0.5, ..p };
    for (x, y, dy) in [(-3., -2., 0.5), (-1., -1., 0.5), (0., 0., 1.), (6., 6., 1.), (7., 6., 0.)] {
        assert_eq!(ops::pointwise(M::ReluFwd, &p, [x, 0., 0.]), y);
        assert_eq!(ops::pointwise(M::ReluBwd, &p, [1., x, 0.]), dy);
    }
    assert_eq!(ops::pointwise(M::ReluFwd, &Parameters::default(), [f64::NEG_INFINITY, 0., 0.]), 0.0);
    assert!(ops::pointwise(M::ReluBwd, &Parameters::default(), [f64::NAN, -1., 0.]).is_nan());
    assert!(ops::pointwise(M::Max, &p, [f64::NAN, 1., 0.]).is_nan() && ops::pointwise(M::Min, &p, [1., f64::NAN, 0.]).is_nan());
}

#[test]
fn backward_functions_are_derivatives() {
    use PointwiseMode as M;
    let p = Parameters { lower: -0.5, upper: 2.0, slope: 0.1, swish_beta: 1.5, elu_alpha: 0.7, softplus_beta: 2.0 };
    let pairs = [
        (M::ReluFwd, M::ReluBwd),
        (M::SigmoidFwd, M::SigmoidBwd),
        (M::TanhFwd, M::TanhBwd),
        (M::EluFwd, M::EluBwd),
        (M::SoftplusFwd, M::SoftplusBwd),
        (M::SwishFwd, M::SwishBwd),
        (M::GeluFwd, M::GeluBwd),
        (M::GeluApproxTanhFwd, M::GeluApproxTanhBwd),
    ];
    for (forward, backward) in pairs {
        for i in -500..500 {
            // Not at the kinks.
            let (x, h) = (f64::from(i) / 100.0 + 0.003, 1e-4);
            let f = |x| ops::pointwise(forward, &p, [x, 0., 0.]);
            let numerical = (8.0 * (f(x + h) - f(x - h)) - (f(x + 2.0 * h) - f(x - 2.0 * h))) / (12.0 * h);
            let found = ops::pointwise(backward, &p, [3.0, x, 0.]);
            assert!((found - 3.0 * numerical).abs() < 1e-9, "{backward} at {x}: {found}, numerically {}", 3.0 * numerical);
        }
    }
}

// ---- Host tensors and inputs ----

#[test]
fn host_tensors_are_memory_images() {
    let mut t = HostTensor::new(DataType::Half, &[2, 3], &[8, 2]).unwrap();
    assert_eq!(t.bytes().len(), 2 * (8 + 4 + 1));
    t.set(&[1, 2], 1.5);
    assert_eq!(t.bytes()[24..], [0x00, 0x3e]);
    assert_eq!((t.get(&[1, 2]), t.get(&[0, 0])), (1.5, 0.0));
    assert_eq!(t.offsets().collect::<Vec<_>>(), [0, 2, 4, 8, 10, 12]);
    t.fill(&[1., 2., 3., 4., 5., 6.]).unwrap();
    assert_eq!(t.values(), [1., 2., 3., 4., 5., 6.]);
    assert_eq!(HostTensor::packed(DataType::Int4, &[2]).unwrap_err(), ReferenceError::Type { dtype: DataType::Int4 });
    assert!(matches!(HostTensor::packed(DataType::Float, &[1 << 20, 1 << 20]), Err(ReferenceError::TooLarge { .. })));
    assert!(matches!(HostTensor::new(DataType::Float, &[0], &[1]), Err(ReferenceError::Shape { .. })));
    for dtype in [DataType::Float, DataType::BFloat16, DataType::Double, DataType::Int8, DataType::UInt8, DataType::Int32, DataType::Int64]
    {
        assert_eq!(HostTensor::from_values(dtype, &[3], &[0., 1., 100.]).unwrap().values(), [0., 1., 100.], "{dtype}");
    }
}

#[test]
fn inputs_are_the_same_everywhere() {
    let mut random = Random::new(0);
    assert_eq!([random.bits(), random.bits()], [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4]);
    let graph = conv_graph(DataType::Float, ConvMode::CrossCorrelation);
    let graph = graph.view();
    let [a, b, c] = [7, 7, 8].map(|seed| Inputs::generate(&graph, seed).unwrap());
    assert_eq!(a.tensor(X).unwrap().bytes(), b.tensor(X).unwrap().bytes());
    assert_ne!(a.tensor(X).unwrap().bytes(), c.tensor(X).unwrap().bytes());
    assert!(a.tensor(X).unwrap().values().iter().all(|v| v.abs() <= 1.0));
}

#[test]
fn inputs_fit_what_reads_them() {
    for mode in [PointwiseMode::Log, PointwiseMode::Sqrt, PointwiseMode::Div, PointwiseMode::LogicalAnd] {
        for dtype in [DataType::Float, DataType::Half, DataType::Int8, DataType::Boolean] {
            let graph = pointwise_graph(mode, dtype, dtype);
            let graph = graph.view();
            let inputs = Inputs::generate(&graph, 3).unwrap();
            let last = inputs.tensors().last().unwrap();
            let values = last.tensor.values();
            let good = match Domain::of(&graph, last.ix) {
                Domain::Positive => values.iter().all(|&v| v > 0.0),
                Domain::Divisor => values.iter().all(|&v| v != 0.0),
                Domain::Truth => values.iter().all(|&v| v == 0.0 || v == 1.0),
                other => panic!("{mode}: {other:?}"),
            };
            assert!(good, "{mode} {dtype}: {values:?}");
        }
    }
}

// ---- The harness against honest and dishonest executions ----

const PRE: [i64; 2] = [1, 0];
const POST: [i64; 2] = [0, 2];
const STRIDE: [i64; 2] = [2, 1];
const DILATION: [i64; 2] = [1, 2];

/// Two groups, everything asymmetric, an output with a gap behind every pixel.
fn conv_graph(dtype: DataType, conv_mode: ConvMode) -> GraphBuf {
    let mut g = GraphBuilder::new();
    g.set_types(DataType::Float, DataType::Float, dtype);
    g.tensor(packed(X, dtype, &[2, 6, 9, 8]));
    g.tensor(packed(W, dtype, &[4, 3, 3, 3]));
    let mut y = packed(Y, dtype, &[2, 4, 4, 6]);
    y.set_strides(&[120, 1, 30, 5]);
    g.tensor(y);
    let op = ConvolutionFwd { x: X, w: W, y: Y, pre_padding: &PRE, post_padding: &POST, stride: &STRIDE, dilation: &DILATION, conv_mode };
    g.node("conv", DataType::Unset, op);
    g.build().unwrap()
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Bug {
    None,
    LostTap,
    WrongStride,
    Flipped,
    BFloat16Result,
    HalfSums,
    Unwritten,
    Gap,
    OtherGroup,
}

/// A convolution in binary32, as anyone would write it, for `conv_graph`.
fn execute_conv(bug: Bug, flip: bool, inputs: &Inputs, outputs: &mut Outputs) {
    let (x, w) = (inputs.tensor(X).unwrap(), inputs.tensor(W).unwrap());
    let y = outputs.tensor_mut(Y).unwrap();
    let flip = flip != (bug == Bug::Flipped);
    let stride = if bug == Bug::WrongStride { [1, 1] } else { STRIDE };
    for n in 0..2 {
        for k in 0..4 {
            let group = if bug == Bug::OtherGroup { 1 - k / 2 } else { k / 2 };
            for oh in 0..4 {
                for ow in 0..6 {
                    let mut sum = 0.0_f32;
                    for c in 0..3 {
                        for rh in 0..3 {
                            for rw in 0..3 {
                                let ih = oh * stride[0] + rh * DILATION[0] - PRE[0];
                                let iw = ow * stride[1] + rw * DILATION[1] - PRE[1];
                                let inside = (0..9).contains(&ih) && (0..8).contains(&iw);
                                if !inside || bug == Bug::LostTap && (c, rh, rw) == (1, 2, 0) {
                                    continue;
                                }
                                let (th, tw) = if flip { (2 - rh, 2 - rw) } else { (rh, rw) };
                                sum += x.get(&[n, group * 3 + c, ih, iw]) as f32 * w.get(&[k, c, th, tw]) as f32;
                                if bug == Bug::HalfSums {
                                    sum = half::f16::from_f32(sum).to_f32();
                                }
                            }
                        }
                    }
                    if bug == Bug::BFloat16Result {
                        sum = half::bf16::from_f32(sum).to_f32();
                    }
                    if bug == Bug::Unwritten && (n, k, oh, ow) == (1, 2, 3, 4) {
                        continue;
                    }
                    y.set(&[n, k, oh, ow], sum.into());
                }
            }
        }
    }
    if bug == Bug::Gap {
        // Behind the 4 channels of the second pixel.
        let size = y.dtype().bits() as usize / 8;
        y.bytes_mut()[9 * size] ^= 1;
    }
}

fn check_conv(dtype: DataType, mode: ConvMode, seed: u64, bug: Bug) -> CheckReport {
    let graph = conv_graph(dtype, mode);
    let flip = mode == ConvMode::Convolution;
    let mut execute = |inputs: &Inputs, outputs: &mut Outputs| -> Result<(), Infallible> {
        execute_conv(bug, flip, inputs, outputs);
        Ok(())
    };
    check(&graph.view(), seed, &mut execute).unwrap()
}

#[test]
fn honest_convolutions_pass() {
    for dtype in [DataType::Float, DataType::Half, DataType::BFloat16, DataType::Fp8E4M3, DataType::Fp8E5M2Fnuz, DataType::Int8] {
        for mode in [ConvMode::CrossCorrelation, ConvMode::Convolution] {
            for seed in 0..4 {
                let report = check_conv(dtype, mode, seed, Bug::None);
                assert!(report.passed(), "{dtype}: {report}");
                assert!(dtype == DataType::Int8 || report.worst_bound_ratio() > 0.0, "the comparison compares something");
                assert_eq!(report.outputs[0].report.unconstrained, 0);
            }
        }
    }
}

#[test]
fn dishonest_convolutions_fail() {
    let types = [DataType::Float, DataType::Half, DataType::BFloat16];
    let all = [Bug::LostTap, Bug::WrongStride, Bug::Flipped, Bug::OtherGroup, Bug::Unwritten, Bug::Gap];
    for seed in 0..4 {
        for bug in all {
            for dtype in types {
                let report = check_conv(dtype, ConvMode::Convolution, seed, bug);
                assert!(!report.passed(), "{bug:?} {dtype}: {report}");
            }
        }
        for (bug, dtype) in
            [(Bug::BFloat16Result, DataType::Float), (Bug::BFloat16Result, DataType::Half), (Bug::HalfSums, DataType::Float)]
        {
            assert!(!check_conv(dtype, ConvMode::Convolution, seed, bug).passed(), "{bug:?} {dtype}");
        }
    }
    let report = check_conv(DataType::Float, ConvMode::Convolution, 0, Bug::Unwritten);
    let y = &report.outputs[0];
    assert_eq!((y.report.failures, y.unwritten, y.first_unwritten.as_deref()), (1, 1, Some(&[1, 2, 3, 4][..])));
    let report = check_conv(DataType::Half, ConvMode::Convolution, 0, Bug::Gap);
    let y = &report.outputs[0];
    assert_eq!((y.report.failures, y.gap_bytes_written, y.first_gap_byte), (0, 1, Some(18)));
    assert!(report.to_string().starts_with("FAILED: \"t30\" (uid 30) half [2, 4, 4, 6]"), "{report}");
}

/// One tap of 576, which is where a tolerance that grows with the number of terms would let it pass.
#[test]
fn a_lost_tap_of_many_is_noticed() {
    for dtype in [DataType::Float, DataType::Half, DataType::BFloat16] {
        let mut g = GraphBuilder::new();
        g.set_types(DataType::Float, DataType::Float, dtype);
        g.tensor(packed(X, dtype, &[4, 576]));
        g.tensor(packed(W, dtype, &[576, 8]));
        g.tensor(packed(Y, dtype, &[4, 8]));
        g.node("", DataType::Unset, Matmul { a: X, b: W, c: Y });
        let graph = g.build().unwrap();
        for lost in [None, Some(300)] {
            let mut execute = |inputs: &Inputs, outputs: &mut Outputs| -> Result<(), Infallible> {
                let (a, b) = (inputs.tensor(X).unwrap(), inputs.tensor(W).unwrap());
                for (m, n) in (0..4).flat_map(|m| (0..8).map(move |n| (m, n))) {
                    let taps = (0..576).filter(|&k| Some(k) != lost);
                    let sum = taps.fold(0.0_f32, |sum, k| sum + a.get(&[m, k]) as f32 * b.get(&[k, n]) as f32);
                    outputs.tensor_mut(Y).unwrap().set(&[m, n], sum.into());
                }
                Ok(())
            };
            let report = check(&graph.view(), 11, &mut execute).unwrap();
            assert_eq!(report.passed(), lost.is_none(), "{report}");
        }
    }
}

#[test]
fn integers_are_exact() {
    let mut g = GraphBuilder::new();
    g.set_types(DataType::Int32, DataType::Int32, DataType::Int32);
    g.tensor(packed(X, DataType::Int8, &[1, 2, 5]));
    g.tensor(packed(W, DataType::Int8, &[3, 2, 3]));
    g.tensor(packed(Y, DataType::Int32, &[1, 3, 5]));
    let lists = [[1], [1]];
    let op = ConvolutionFwd {
        x: X,
        w: W,
        y: Y,
        pre_padding: &lists[0],
        post_padding: &lists[0],
        stride: &lists[1],
        dilation: &lists[1],
        conv_mode: ConvMode::CrossCorrelation,
    };
    g.node("", DataType::Unset, op);
    let graph = g.build().unwrap();
    let view = graph.view();
    for off_by in [0.0, 1.0] {
        let mut execute = |inputs: &Inputs, outputs: &mut Outputs| {
            let mut values = inputs.to_values(&view)?;
            evaluate(&view, &mut values)?;
            let y = outputs.tensor_mut(Y).unwrap();
            y.fill(values.exact(view.find(Y).unwrap()).unwrap())?;
            let last = y.get(&[0, 2, 4]);
            y.set(&[0, 2, 4], last + off_by);
            Ok::<(), ReferenceError>(())
        };
        assert_eq!(check(&view, 0, &mut execute).unwrap().passed(), off_by == 0.0);
    }
}

/// Convolution, bias and relu, the tensors between them virtual and of type `dtype`.
fn chain_graph(dtype: DataType) -> GraphBuf {
    let mut g = GraphBuilder::new();
    g.set_types(DataType::Float, dtype, dtype);
    g.tensor(packed(X, dtype, &[1, 8, 6, 6]));
    g.tensor(packed(W, dtype, &[4, 8, 3, 3]));
    let bias = g.tensor(packed(Uid(21), dtype, &[1, 4, 1, 1]));
    let mut between = [packed(Uid(22), dtype, &[1, 4, 4, 4]), packed(Uid(23), dtype, &[1, 4, 4, 4])];
    let [summed, biased] = [0, 1].map(|i| g.tensor(between[i].set_virtual(true).clone()));
    g.tensor(packed(Y, dtype, &[1, 4, 4, 4]));
    let (zero, one) = ([0, 0], [1, 1]);
    let conv = ConvolutionFwd {
        x: X,
        w: W,
        y: summed,
        pre_padding: &zero,
        post_padding: &zero,
        stride: &one,
        dilation: &one,
        conv_mode: ConvMode::CrossCorrelation,
    };
    g.node("", DataType::Unset, conv);
    g.node("", DataType::Unset, Pointwise { in_1: Some(bias), ..Pointwise::unary(PointwiseMode::Add, summed, biased) });
    g.node("", DataType::Unset, Pointwise::unary(PointwiseMode::ReluFwd, biased, Y));
    g.build().unwrap()
}

#[test]
fn chains_pass_fused_or_rounded_in_between_and_fail_without_bias() {
    for dtype in [DataType::Float, DataType::Half, DataType::BFloat16] {
        let graph = chain_graph(dtype);
        for seed in 0..4 {
            for (rounds, biased) in [(false, true), (true, true), (false, false)] {
                let round = |x: f32| if rounds { HostTensor::from_values(dtype, &[1], &[x.into()]).unwrap().get(&[0]) as f32 } else { x };
                let mut execute = |inputs: &Inputs, outputs: &mut Outputs| -> Result<(), Infallible> {
                    let [x, w, bias] = [X, W, Uid(21)].map(|uid| inputs.tensor(uid).unwrap());
                    for i in 0..64 {
                        let (k, oh, ow) = (i / 16, i / 4 % 4, i % 4);
                        let mut sum = 0.0_f32;
                        for j in 0..72 {
                            let (c, rh, rw) = (j / 9, j / 3 % 3, j % 3);
                            sum += x.get(&[0, c, oh + rh, ow + rw]) as f32 * w.get(&[k, c, rh, rw]) as f32;
                        }
                        let sum = if biased { round(round(sum) + bias.get(&[0, k, 0, 0]) as f32) } else { sum };
                        outputs.tensor_mut(Y).unwrap().set(&[0, k, oh, ow], sum.max(0.0).into());
                    }
                    Ok(())
                };
                let report = check(&graph.view(), seed, &mut execute).unwrap();
                assert_eq!(report.passed(), biased, "{dtype}, rounding {rounds}: {report}");
            }
        }
    }
}

/// `mode` over `[2, 3, 20]`, its second input one number per row and its third one number.
fn pointwise_graph(mode: PointwiseMode, dtype: DataType, out: DataType) -> GraphBuf {
    let mut g = GraphBuilder::new();
    g.set_types(DataType::Float, DataType::Float, dtype);
    let arity = mode.arity();
    g.tensor(packed(X, dtype, &[2, 3, 20]));
    let in_1 = (arity >= 2).then(|| g.tensor(packed(Uid(11), dtype, &[3, 20])));
    let in_2 = (arity >= 3).then(|| g.tensor(packed(Uid(12), dtype, &[2, 1, 20])));
    g.tensor(packed(Y, out, &[2, 3, 20]));
    let axis = (mode == PointwiseMode::GenIndex).then_some(2);
    let op = Pointwise {
        axis,
        in_1,
        in_2,
        relu_lower_clip: Some(-1.0),
        relu_upper_clip: Some(3.0),
        relu_lower_clip_slope: Some(0.1),
        swish_beta: Some(1.5),
        elu_alpha: Some(0.7),
        softplus_beta: Some(2.0),
        ..Pointwise::unary(mode, X, Y)
    };
    g.node("", DataType::Unset, op);
    g.build().unwrap()
}

/// The functions in binary32 as textbooks have them, cancellations and all.
fn textbook(mode: PointwiseMode, a: f32, b: f32, c: f32) -> f32 {
    use PointwiseMode as M;
    let truth = |t| if t { 1.0 } else { 0.0 };
    let sigmoid = |x: f32| 1.0 / (1.0 + (-x).exp());
    let tanh = |x: f32| ((2.0 * x).exp() - 1.0) / ((2.0 * x).exp() + 1.0);
    let cdf = |x: f32| 0.5 * (1.0 + libm::erff(x / 2.0_f32.sqrt()));
    let argument = |x: f32| 0.797_884_6 * (x + 0.044_715 * x * x * x);
    match mode {
        M::Unset => f32::NAN,
        M::Identity | M::GenIndex => a,
        M::Abs => a.abs(),
        M::Neg => -a,
        M::Ceil => a.ceil(),
        M::Floor => a.floor(),
        M::Reciprocal => 1.0 / a,
        M::Sqrt => a.sqrt(),
        M::Rsqrt => 1.0 / a.sqrt(),
        M::Add => a + b,
        M::Sub => a - b,
        M::Mul => a * b,
        M::Div => a * (1.0 / b),
        M::AddSquare => a + b * b,
        M::Max => a.max(b),
        M::Min => a.min(b),
        M::Exp => (a * std::f32::consts::LOG2_E).exp2(),
        M::Log => a.log2() * std::f32::consts::LN_2,
        M::Sin => a.sin(),
        M::Tan => a.sin() / a.cos(),
        M::Erf => libm::erff(a),
        M::CmpEq => truth(a == b),
        M::CmpNeq => truth(a != b),
        M::CmpGt => truth(a > b),
        M::CmpGe => truth(a >= b),
        M::CmpLt => truth(a < b),
        M::CmpLe => truth(a <= b),
        M::LogicalAnd => truth(a != 0.0 && b != 0.0),
        M::LogicalOr => truth(a != 0.0 || b != 0.0),
        M::LogicalNot => truth(a == 0.0),
        M::BinarySelect => [b, a][usize::from(c != 0.0)],
        M::ReluFwd if a <= -1.0 => -1.0 + 0.1 * (a + 1.0),
        M::ReluFwd => a.min(3.0),
        M::ReluBwd if b <= -1.0 => 0.1 * a,
        M::ReluBwd => [a, 0.0][usize::from(b > 3.0)],
        M::SigmoidFwd => sigmoid(a),
        M::SigmoidBwd => a * sigmoid(b) * (1.0 - sigmoid(b)),
        M::TanhFwd => tanh(a),
        M::TanhBwd => a * (1.0 - tanh(b) * tanh(b)),
        M::EluFwd if a > 0.0 => a,
        M::EluFwd => 0.7 * (a.exp() - 1.0),
        M::EluBwd if b > 0.0 => a,
        M::EluBwd => a * 0.7 * b.exp(),
        M::SoftplusFwd => (1.0 + (2.0 * a).exp()).ln() / 2.0,
        M::SoftplusBwd => a * sigmoid(2.0 * b),
        M::SwishFwd => a * sigmoid(1.5 * a),
        M::SwishBwd => a * (sigmoid(1.5 * b) + 1.5 * b * sigmoid(1.5 * b) * (1.0 - sigmoid(1.5 * b))),
        M::GeluFwd => a * cdf(a),
        M::GeluBwd => a * (cdf(b) + b * (-0.5 * b * b).exp() * 0.398_942_3),
        M::GeluApproxTanhFwd => 0.5 * a * (1.0 + tanh(argument(a))),
        M::GeluApproxTanhBwd => {
            let t = tanh(argument(b));
            a * (0.5 * (1.0 + t) + 0.5 * b * (1.0 - t * t) * 0.797_884_6 * (1.0 + 0.134_145 * b * b))
        }
    }
}

#[test]
fn textbook_pointwise_functions_pass_and_slightly_wrong_ones_fail() {
    let types = [DataType::Float, DataType::Half, DataType::BFloat16];
    for &mode in PointwiseMode::ALL.iter().filter(|&&m| m != PointwiseMode::Unset) {
        let mut worst = 0.0_f64;
        for dtype in types {
            for seed in 0..8 {
                for wrong in [false, true] {
                    let graph = pointwise_graph(mode, dtype, dtype);
                    let mut execute = |inputs: &Inputs, outputs: &mut Outputs| -> Result<(), Infallible> {
                        let y = outputs.tensor_mut(Y).unwrap();
                        for i in 0..120 {
                            let at = [i / 60, i / 20 % 3, i % 20];
                            let read = |uid, at: &[i64]| inputs.tensor(uid).map_or(0.0, |t| t.get(at) as f32);
                            let a = if mode == PointwiseMode::GenIndex { at[2] as f32 } else { read(X, &at) };
                            let (b, c) = (read(Uid(11), &at[1..]), read(Uid(12), &[at[0], 0, at[2]]));
                            let result = textbook(mode, a, b, c);
                            y.set(&at, f64::from(result) * if wrong { 1.02 } else { 1.0 });
                        }
                        Ok(())
                    };
                    let report = check(&graph.view(), seed, &mut execute).unwrap();
                    assert_eq!(report.passed(), !wrong, "{mode} {dtype}: {report}");
                    if dtype == DataType::Float && !wrong {
                        worst = worst.max(report.worst_bound_ratio());
                    }
                }
            }
        }
        println!("{mode}: a textbook implementation takes up {worst:.3} of the tolerance");
    }
}

#[test]
fn booleans_are_zero_or_one() {
    let graph = pointwise_graph(PointwiseMode::CmpGt, DataType::Float, DataType::Boolean);
    let view = graph.view();
    for (name, truth, good) in [("right", 1_u8, true), ("all bits", 0xff, false), ("wrong", 0, false)] {
        let mut execute = |inputs: &Inputs, outputs: &mut Outputs| -> Result<(), Infallible> {
            let (a, b) = (inputs.tensor(X).unwrap(), inputs.tensor(Uid(11)).unwrap());
            let y = outputs.tensor_mut(Y).unwrap().bytes_mut();
            for i in 0..120 {
                let at = [i / 60, i / 20 % 3, i % 20];
                y[i as usize] = if a.get(&at) > b.get(&at[1..]) { truth } else { 0 };
            }
            Ok(())
        };
        assert_eq!(check(&view, 0, &mut execute).unwrap().passed(), good, "{name}");
    }
}

#[test]
fn batch_normalisation_passes_in_any_order_of_operations() {
    let dims = [2, 5, 4, 3];
    for dtype in [DataType::Float, DataType::Half] {
        let mut g = GraphBuilder::new();
        g.set_types(DataType::Float, DataType::Float, dtype);
        g.tensor(packed(X, dtype, &dims));
        let [mean, variance, scale, bias] = [11, 12, 13, 14].map(|uid| g.tensor(packed(Uid(uid), DataType::Float, &[1, 5, 1, 1])));
        // A runtime scalar that the caller supplies.
        let mut epsilon = TensorAttributes::scalar_of(0.0_f32, ScalarType::RuntimeParam);
        let epsilon = g.tensor(epsilon.set_as_runtime_parameter().set_uid(Uid(15)).clone());
        g.tensor(packed(Y, dtype, &dims));
        g.node("", DataType::Unset, BatchnormInferenceVariance { x: X, mean, variance, scale, bias, y: Y, epsilon });
        let graph = g.build().unwrap();
        for (folded, wrong) in [(false, false), (true, false), (false, true)] {
            // An epsilon of 1e-3 is next to nothing in half.
            if wrong && dtype == DataType::Half {
                continue;
            }
            let mut execute = |inputs: &Inputs, outputs: &mut Outputs| -> Result<(), Infallible> {
                let epsilon = if wrong { 0.0 } else { inputs.scalar(epsilon).unwrap().to_f64() as f32 };
                for (i, j) in (0..2).flat_map(|n| (0..5).map(move |c| (n, c))) {
                    let [mean, variance, scale, bias] =
                        [11, 12, 13, 14].map(|uid| inputs.tensor(Uid(uid)).unwrap().get(&[0, j, 0, 0]) as f32);
                    let inv = 1.0 / (variance + epsilon).sqrt();
                    for k in 0..12 {
                        let at = [i, j, k / 3, k % 3];
                        let x = inputs.tensor(X).unwrap().get(&at) as f32;
                        let y = if folded { x * (inv * scale) + (bias - mean * inv * scale) } else { (x - mean) * inv * scale + bias };
                        outputs.tensor_mut(Y).unwrap().set(&at, y.into());
                    }
                }
                Ok(())
            };
            let report = check(&graph.view(), 5, &mut execute).unwrap();
            assert_eq!(report.passed(), !wrong, "{dtype} {folded} {wrong}: {report}");
        }
    }
}

// ---- Reductions ----

fn reductions() -> impl Iterator<Item = ReductionMode> {
    ReductionMode::ALL.iter().copied().filter(|&mode| mode != ReductionMode::NotSet)
}

#[test]
fn reductions_of_a_few_numbers() {
    use ReductionMode as M;
    let table = [
        (M::Add, -3.0),
        (M::Mul, 0.0),
        (M::MulNoZeros, 24.0),
        (M::Min, -6.0),
        (M::Max, 4.0),
        (M::Amax, 6.0),
        (M::Avg, -0.75),
        (M::Norm1, 11.0),
        (M::Norm2, 53.0_f64.sqrt()),
    ];
    for (mode, expected) in table {
        assert_eq!(ops::reduction(mode, [-6.0, -1.0, 4.0, 0.0].into_iter()), expected, "{mode}");
        assert!(ops::reduction(mode, [2.0, f64::NAN, 3.0].into_iter()).is_nan(), "{mode} of a NaN");
        assert_eq!(ops::reduction(mode, [5.0].into_iter()), 5.0, "{mode} of one number");
    }
    for mode in reductions() {
        assert!(table.iter().any(|t| t.0 == mode), "{mode} stands in the table");
    }
    assert_eq!(ops::reduction(M::MulNoZeros, [0.0, -0.0].into_iter()), 1.0);
    assert_eq!(ops::reduction(M::Max, [f64::NEG_INFINITY; 2].into_iter()), f64::NEG_INFINITY);
}

#[test]
fn reduced_axes_are_those_of_size_one() {
    let input = Array { dims: vec![2, 3, 2], data: (0..12).collect::<Vec<i32>>() };
    let reduced = |dims: &[usize]| {
        let mut all = Vec::new();
        ops::each_reduced(&input, dims, |terms| all.push(terms.to_vec()));
        all
    };
    assert_eq!(reduced(&[1, 3, 2]), [[0, 6], [1, 7], [2, 8], [3, 9], [4, 10], [5, 11]]);
    assert_eq!(reduced(&[2, 1, 2]), [[0, 2, 4], [1, 3, 5], [6, 8, 10], [7, 9, 11]]);
    assert_eq!(reduced(&[1, 3, 1]), [[0, 1, 6, 7], [2, 3, 8, 9], [4, 5, 10, 11]]);
    assert_eq!(reduced(&[1, 1, 1]), [(0..12).collect::<Vec<i32>>()]);
    assert_eq!(reduced(&[2, 3, 2]), (0..12).map(|i| vec![i]).collect::<Vec<_>>());
}

/// A reduction of `[4, 6, 5]` to one number per row.
fn reduction_graph(mode: ReductionMode, dtype: DataType) -> GraphBuf {
    let mut g = GraphBuilder::new();
    g.set_types(DataType::Float, DataType::Float, dtype);
    g.tensor(packed(X, dtype, &[4, 6, 5]));
    g.tensor(packed(Y, dtype, &[4, 1, 1]));
    g.node("", DataType::Unset, Reduction { mode, input: X, output: Y, is_deterministic: false });
    g.build().unwrap()
}

/// The reductions in binary32, from one end to the other.
fn textbook_reduction(mode: ReductionMode, terms: &[f32]) -> f32 {
    use ReductionMode as M;
    let all = terms.iter().copied();
    match mode {
        M::NotSet => f32::NAN,
        M::Add => all.sum(),
        M::Avg => all.sum::<f32>() * (1.0 / terms.len() as f32),
        M::Norm1 => all.map(f32::abs).sum(),
        M::Norm2 => all.map(|x| x * x).sum::<f32>().sqrt(),
        M::Mul => all.product(),
        M::MulNoZeros => all.filter(|&x| x != 0.0).product(),
        M::Min => all.fold(f32::INFINITY, f32::min),
        M::Max => all.fold(f32::NEG_INFINITY, f32::max),
        M::Amax => all.map(f32::abs).fold(0.0, f32::max),
    }
}

#[test]
fn textbook_reductions_pass_in_any_order_and_slightly_wrong_ones_fail() {
    for mode in reductions() {
        for dtype in [DataType::Float, DataType::Half, DataType::BFloat16] {
            let graph = reduction_graph(mode, dtype);
            for seed in 0..16 {
                for (backwards, factor) in [(false, 1.0), (true, 1.0), (false, 1.02)] {
                    let mut execute = |inputs: &Inputs, outputs: &mut Outputs| -> Result<(), Infallible> {
                        let x: Vec<f32> = inputs.tensor(X).unwrap().values().iter().map(|&x| x as f32).collect();
                        let y = x.chunks(30).map(|row| {
                            let mut row = row.to_vec();
                            if backwards {
                                row.reverse();
                            }
                            f64::from(textbook_reduction(mode, &row)) * factor
                        });
                        outputs.tensor_mut(Y).unwrap().fill(&y.collect::<Vec<_>>()).unwrap();
                        Ok(())
                    };
                    let report = check(&graph.view(), seed, &mut execute).unwrap();
                    assert_eq!(report.passed(), factor == 1.0, "{mode} {dtype} seed {seed}: {report}");
                }
            }
        }
    }
}

#[test]
fn reductions_of_integers_are_exact() {
    for mode in reductions() {
        let mut g = GraphBuilder::new();
        g.set_types(DataType::Float, DataType::Float, DataType::Int32);
        g.tensor(packed(X, DataType::Int32, &[4, 4]));
        g.tensor(packed(Y, DataType::Int32, &[4, 1]));
        g.node("", DataType::Unset, Reduction { mode, input: X, output: Y, is_deterministic: true });
        let graph = g.build().unwrap();
        for off_by in [0.0, 1.0] {
            let mut execute = |inputs: &Inputs, outputs: &mut Outputs| -> Result<(), Infallible> {
                let x = inputs.tensor(X).unwrap().values();
                let y = x.chunks(4).map(|row| ops::reduction(mode, row.iter().copied()).round_ties_even() + off_by);
                outputs.tensor_mut(Y).unwrap().fill(&y.collect::<Vec<_>>()).unwrap();
                Ok(())
            };
            assert_eq!(check(&graph.view(), 3, &mut execute).unwrap().passed(), off_by == 0.0, "{mode}");
        }
    }
}

/// Bound of a reduction in float of numbers that were rounded to half on the way to it.
fn bound_after_half(mode: ReductionMode, values: &[f64]) -> f64 {
    let mut g = GraphBuilder::new();
    g.set_types(DataType::Float, DataType::Half, DataType::Float);
    let dims = [values.len() as i64];
    g.tensor(packed(X, DataType::Float, &dims));
    g.tensor(packed(W, DataType::Half, &dims).set_virtual(true).clone());
    g.tensor(packed(Y, DataType::Float, &[1]));
    g.node("", DataType::Unset, Pointwise::unary(PointwiseMode::Identity, X, W));
    g.node("", DataType::Unset, Reduction { mode, input: W, output: Y, is_deterministic: false });
    let graph = g.build().unwrap();
    let v = values_of(&graph, &[(X, DataType::Float, &dims, values)]).unwrap();
    v.bound(graph.view().find(Y).unwrap()).unwrap()[0]
}

#[test]
fn reductions_carry_what_their_inputs_may_be_off() {
    use ReductionMode as M;
    // 2049 and -4098 are 2048 and -4096 in half: 1 and 2 off.
    let values = [2049.0, -4098.0, 3.0];
    for (mode, least) in [(M::Add, 3.0), (M::Avg, 1.0), (M::Norm1, 3.0), (M::Min, 2.0), (M::Max, 1.0), (M::Amax, 2.0), (M::Norm2, 1.5)] {
        let bound = bound_after_half(mode, &values);
        assert!(bound >= least && bound <= least * 2.0, "{mode}: {bound}");
    }
    for mode in [M::Mul, M::MulNoZeros] {
        let (bound, off) = (bound_after_half(mode, &values), (2049.0 * 4098.0 - 2048.0 * 4096.0) * 3.0);
        assert!(bound >= off && bound <= off * 1.5, "{mode}: {bound}");
    }
    // A largest number that stands alone is not touched by what others may be off.
    assert_eq!(bound_after_half(M::Max, &[2049.0, 4096.0]), 0.0);
    // What half has as 0 may be a factor or none.
    assert!(bound_after_half(M::MulNoZeros, &[1e-9, 3.0]) >= 3.0);
    assert_eq!(bound_after_half(M::MulNoZeros, &[0.0, 3.0]), 0.0);
}

#[test]
fn what_may_overflow_on_the_way_is_not_judged() {
    let bound = |mode, values: &[f64]| {
        let dims = [values.len() as i64];
        let graph = build(DataType::Float, &[(X, &dims), (Y, &[1])], Reduction { mode, input: X, output: Y, is_deterministic: false });
        let v = values_of(&graph, &[(X, DataType::Float, &dims, values)]).unwrap();
        v.bound(graph.view().find(Y).unwrap()).unwrap()[0]
    };
    use ReductionMode as M;
    assert_eq!(bound(M::Add, &[3e38, 3e38, -3e38]), f64::INFINITY);
    assert_eq!(bound(M::Add, &[f64::INFINITY, 3e38, -3e38]), f64::INFINITY);
    assert_eq!(bound(M::Add, &[f64::INFINITY, 3.0, -3.0]), 0.0);
    assert_eq!(bound(M::Norm2, &[f64::NEG_INFINITY, 3.0]), 0.0);
    assert_eq!(bound(M::Norm2, &[1e30, 1.0]), f64::INFINITY);
    assert_eq!(bound(M::Mul, &[1e30, 1e30, 1e-30]), f64::INFINITY);
    assert_eq!(bound(M::Mul, &[1e30]), 0.0);
    // Underflow costs what the largest factor makes of it.
    let lost = bound(M::Mul, &[1e-30, 1e-30, 1e30]);
    assert!(lost > 1e-8 && lost < 1e-6, "{lost}");
    assert!(bound(M::Mul, &[1e-10, 1e10]) < 1e-6);
}

// ---- Evaluation ----

fn values_of(graph: &GraphBuf, inputs: &[(Uid, DataType, &[i64], &[f64])]) -> Result<Values, ReferenceError> {
    let view = graph.view();
    let mut values = Values::new(&view);
    for &(uid, dtype, dims, list) in inputs {
        values.insert(view.find(uid).unwrap(), HostTensor::from_values(dtype, dims, list)?);
    }
    evaluate(&view, &mut values)?;
    Ok(values)
}

fn build<'a>(dtype: DataType, tensors: &[(Uid, &[i64])], op: impl Into<Op<'a>>) -> GraphBuf {
    let mut g = GraphBuilder::new();
    g.set_types(DataType::Float, dtype, dtype);
    for (uid, dims) in tensors {
        g.tensor(packed(*uid, dtype, dims));
    }
    g.node("the node", DataType::Unset, op);
    g.build().unwrap()
}

#[test]
fn operations_are_wired_to_their_slots() {
    let f = DataType::Float;
    let list: [i64; 1] = [1];
    let zero: [i64; 1] = [0];
    let dims: [i64; 3] = [1, 1, 4];
    let mode = ConvMode::CrossCorrelation;
    let graph = build(
        f,
        &[(X, &dims), (W, &[1, 1, 3]), (Y, &dims)],
        ConvolutionBwd { dy: X, w: W, dx: Y, pre_padding: &list, post_padding: &list, stride: &list, dilation: &list, conv_mode: mode },
    );
    let v = values_of(&graph, &[(X, f, &dims, &[1., 2., 3., 4.]), (W, f, &[1, 1, 3], &[1., 10., 100.])]).unwrap();
    assert_eq!(v.get(graph.view().find(Y).unwrap()).unwrap().values(), [12., 123., 234., 340.]);
    let graph = build(
        f,
        &[(X, &dims), (W, &dims), (Y, &[1, 1, 3])],
        ConvolutionWrw { x: X, dy: W, dw: Y, pre_padding: &list, post_padding: &list, stride: &list, dilation: &list, conv_mode: mode },
    );
    let v = values_of(&graph, &[(X, f, &dims, &[1., 2., 3., 4.]), (W, f, &dims, &[1., 10., 100., 1000.])]).unwrap();
    assert_eq!(v.get(graph.view().find(Y).unwrap()).unwrap().values(), [3210., 4321., 432.]);
    let graph = build(
        f,
        &[(X, &dims), (W, &[1, 1, 3]), (Y, &[1, 1, 2])],
        ConvolutionFwd {
            x: X,
            w: W,
            y: Y,
            pre_padding: &zero,
            post_padding: &zero,
            stride: &list,
            dilation: &list,
            conv_mode: ConvMode::Convolution,
        },
    );
    let v = values_of(&graph, &[(X, f, &dims, &[1., 2., 3., 4.]), (W, f, &[1, 1, 3], &[1., 10., 100.])]).unwrap();
    assert_eq!(v.get(graph.view().find(Y).unwrap()).unwrap().values(), [123., 234.]);
    let p: [Uid; 4] = [Uid(11), Uid(12), Uid(13), Uid(14)];
    let [mean, inv_variance, scale, bias] = p;
    let op = BatchnormInference { x: X, mean, inv_variance, scale, bias, y: Y };
    let graph = build(f, &[(X, &[1, 2, 1]), (p[0], &[2]), (p[1], &[1, 2, 1]), (p[2], &[2]), (p[3], &[2]), (Y, &[1, 2, 1])], op);
    let inputs: [(Uid, DataType, &[i64], &[f64]); 5] = [
        (X, f, &[1, 2, 1], &[3., 5.]),
        (mean, f, &[2], &[1., 1.]),
        (inv_variance, f, &[1, 2, 1], &[0.5, 2.]),
        (scale, f, &[2], &[4., 1.]),
        (bias, f, &[2], &[10., 0.]),
    ];
    let v = values_of(&graph, &inputs).unwrap();
    assert_eq!(v.get(graph.view().find(Y).unwrap()).unwrap().values(), [14., 8.]);
}

#[test]
fn by_value_tensors_have_their_value_or_their_override() {
    for (ty, overridden, expected) in [
        (ScalarType::CompileTimeConst, false, 6.0),
        (ScalarType::CompileTimeConst, true, 6.0),
        (ScalarType::RuntimeParam, false, 6.0),
        (ScalarType::RuntimeParam, true, 10.0),
    ] {
        let mut g = GraphBuilder::new();
        g.set_types(DataType::Float, DataType::Float, DataType::Float);
        g.tensor(packed(X, DataType::Float, &[1]));
        let scalar = g.scalar(3.0_f32, ty);
        g.tensor(packed(Y, DataType::Float, &[1]));
        g.node("", DataType::Unset, Pointwise { in_1: Some(scalar), ..Pointwise::unary(PointwiseMode::Mul, X, Y) });
        let graph = g.build().unwrap();
        let view = graph.view();
        let mut values = Values::new(&view);
        values.insert(view.find(X).unwrap(), HostTensor::from_values(DataType::Float, &[1], &[2.0]).unwrap());
        if overridden {
            values.insert_scalar(&view, view.find(scalar).unwrap(), TensorValue::Float32(5.0)).unwrap();
        }
        evaluate(&view, &mut values).unwrap();
        assert_eq!(values.get(view.find(Y).unwrap()).unwrap().values(), [expected]);
    }
}

#[test]
fn virtual_tensors_are_rounded_to_their_type() {
    let mut g = GraphBuilder::new();
    g.set_types(DataType::Float, DataType::Half, DataType::Float);
    g.tensor(packed(X, DataType::Float, &[1]));
    let mut between = packed(W, DataType::Half, &[1]);
    g.tensor(between.set_virtual(true).clone());
    g.tensor(packed(Y, DataType::Float, &[1]));
    g.node("", DataType::Unset, Pointwise::unary(PointwiseMode::Identity, X, W));
    g.node("", DataType::Unset, Pointwise::unary(PointwiseMode::Neg, W, Y));
    let graph = g.build().unwrap();
    let v = values_of(&graph, &[(X, DataType::Float, &[1], &[2049.0])]).unwrap();
    let y = graph.view().find(Y).unwrap();
    assert_eq!(v.get(y).unwrap().values(), [-2048.0]);
    // An implementation that does not round in between is right, too, and so is one that rounds up.
    assert_eq!(v.bound(y).unwrap(), [1.0]);
}

#[test]
fn what_cannot_be_evaluated_says_so() {
    let one: [i64; 1] = [1];
    let op = ResampleFwd {
        x: X,
        y: Y,
        index: None,
        pre_padding: &[0],
        post_padding: &[0],
        stride: &one,
        window: &one,
        resample_mode: ResampleMode::MaxPool,
        padding_mode: PaddingMode::NegInf,
        generate_index: None,
    };
    let graph = build(DataType::Float, &[(X, &[1, 1, 4]), (Y, &[1, 1, 4])], op);
    let error = values_of(&graph, &[(X, DataType::Float, &[1, 1, 4], &[1.; 4])]).unwrap_err();
    assert_eq!(error.to_string(), "node 0 \"the node\" (resample_fwd): the reference has no implementation of this operation");
    let graph = build(DataType::Float, &[(X, &[4]), (Y, &[4])], Pointwise::unary(PointwiseMode::Abs, X, Y));
    assert!(matches!(values_of(&graph, &[]), Err(ReferenceError::Missing { .. })));
    assert!(matches!(values_of(&graph, &[(X, DataType::Half, &[4], &[1.; 4])]), Err(ReferenceError::Mismatch { .. })));
    let graph = build(DataType::Fp4E2M1, &[(X, &[4]), (Y, &[4])], Pointwise::unary(PointwiseMode::Abs, X, Y));
    let error = Inputs::generate(&graph.view(), 0).unwrap_err();
    assert!(error.to_string().contains("\"t10\"") && error.to_string().contains("fp4_e2m1"), "{error}");
}

// ---- Comparison ----

#[test]
fn elements_are_judged_by_their_type() {
    let judge = |dtype, expected: f64, bound: f64, found: f64| {
        compare(&[expected], &[bound], &HostTensor::from_values(dtype, &[1], &[found]).unwrap()).passed()
    };
    let (f, h, inf, nan) = (DataType::Float, DataType::Half, f64::INFINITY, f64::NAN);
    assert!(judge(f, nan, 0.0, nan) && !judge(f, nan, 0.0, 1.0) && !judge(f, 1.0, 0.0, nan));
    assert!(judge(f, inf, 0.0, inf) && !judge(f, inf, 0.0, -inf) && !judge(f, inf, 0.0, f64::from(f32::MAX)));
    // What needs no rounding is exact; what does may be an ulp off.
    assert!(judge(f, 1.0, 0.0, 1.0) && !judge(f, 1.0, 0.0, 1.0 + 1.2e-7));
    assert!(judge(h, 1.0 + 1e-6, 0.0, 1.0) && judge(h, 1.0 - 1e-6, 1e-7, 0.99951171875) && !judge(h, 1.0 + 1e-6, 0.0, 1.002));
    // Beyond the largest half.
    assert!(
        judge(h, 70000.0, 0.0, inf) && !judge(h, 70000.0, 0.0, 65504.0) && !judge(h, 60000.0, 1.0, inf) && !judge(h, 70000.0, 0.0, -inf)
    );
    assert!(judge(h, 65519.0, 10.0, inf) && judge(h, 65521.0, 10.0, 65504.0));
    let (i, b) = (DataType::Int32, DataType::Boolean);
    assert!(judge(i, 7.0, 0.0, 7.0) && !judge(i, 7.0, 0.1, 8.0) && judge(i, 7.45, 0.1, 8.0) && !judge(i, 7.45, 0.01, 8.0));
    assert!(judge(b, 1.0, 0.0, 1.0) && !judge(b, 1.0, 0.0, 0.0) && judge(b, 1.0, 1.0, 0.0));
    let report = compare(&[1.0, 2.0, 3.0, 4.0], &[0.1; 4], &HostTensor::from_values(f, &[2, 2], &[1.0, 2.1, 3.5, 4.0]).unwrap());
    assert_eq!((report.elements, report.failures, report.index.as_slice(), report.found), (4, 1, &[1, 0][..], 3.5));
    assert!((report.worst_error - 0.5).abs() < 1e-6 && (report.worst_bound_ratio - 2.5).abs() < 1e-3);
    let report = compare(&[1.0], &[inf], &HostTensor::from_values(f, &[1], &[9.0]).unwrap());
    assert!(report.passed() && report.unconstrained == 1);
}
