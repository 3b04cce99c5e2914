//! Definitions against numbers worked out by hand.

use hipplan_exec::reference::Random;
use hipplan_exec::reference::ops::{self, Array, Convolution, Num, Parameters, Sum};
use hipplan_serialize::PointwiseMode;

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
