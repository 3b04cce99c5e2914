//! The check against honest and dishonest chains, pointwise functions and normalisations.

use super::{W, X, Y, packed};
use hipplan_exec::reference::{HostTensor, Inputs, Outputs, check};
use hipplan_serialize::ops::{BatchnormInferenceVariance, ConvolutionFwd, Pointwise};
use hipplan_serialize::{ConvMode, DataType, GraphBuf, GraphBuilder, PointwiseMode, ScalarType, TensorAttributes, Uid};
use std::convert::Infallible;

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
pub(crate) fn pointwise_graph(mode: PointwiseMode, dtype: DataType, out: DataType) -> GraphBuf {
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
