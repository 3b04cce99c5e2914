//! The check against honest and dishonest convolutions and sums.

use super::{W, X, Y, packed};
use hipplan_exec::reference::{CheckReport, Inputs, Outputs, ReferenceError, check, evaluate};
use hipplan_serialize::ops::{ConvolutionFwd, Matmul};
use hipplan_serialize::{ConvMode, DataType, GraphBuf, GraphBuilder};
use std::convert::Infallible;

const PRE: [i64; 2] = [1, 0];
const POST: [i64; 2] = [0, 2];
const STRIDE: [i64; 2] = [2, 1];
const DILATION: [i64; 2] = [1, 2];

/// Two groups, everything asymmetric, an output with a gap behind every pixel.
pub(crate) fn conv_graph(dtype: DataType, conv_mode: ConvMode) -> GraphBuf {
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
