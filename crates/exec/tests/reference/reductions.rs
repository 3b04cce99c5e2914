//! Reductions, and the check against honest and dishonest ones.

use super::evaluation::{build, values_of};
use super::{W, X, Y, packed};
use hipplan_exec::reference::ops::{self, Array};
use hipplan_exec::reference::{Inputs, Outputs, check};
use hipplan_serialize::ops::{Pointwise, Reduction};
use hipplan_serialize::{DataType, GraphBuf, GraphBuilder, PointwiseMode, ReductionMode};
use std::convert::Infallible;

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
