//! Pointwise functions, batch normalisation and chains against formulas in `f64`.

use super::super::{CpuError, Executable, Operand, Place, Pointwise, StepOp};
use super::harness::{Case, Mem, Rng, assert_exact, indices, rounded};
use hipplan_serialize::{DataType, PointwiseMode as Mode};
use proptest::prelude::*;

const ALL: [DataType; 8] = [
    DataType::Float,
    DataType::Half,
    DataType::BFloat16,
    DataType::Double,
    DataType::Int32,
    DataType::Int8,
    DataType::UInt8,
    DataType::Boolean,
];

/// The table of `docs/operations.md`, written once more. Nothing for a mode that is not a function of its operands.
fn formula(mode: Mode, op: &Pointwise, a: f64, b: f64, c: f64) -> f64 {
    let s = |z: f64| 1.0 / (1.0 + (-z).exp());
    let of = |v: Option<f32>, default: f64| v.map_or(default, f64::from);
    let truth = f64::from;
    let (lower, upper) = (of(op.relu_lower_clip, 0.0), of(op.relu_upper_clip, f64::INFINITY));
    let (slope, alpha) = (of(op.relu_lower_clip_slope, 0.0), of(op.elu_alpha, 1.0));
    let (swish, softplus) = (of(op.swish_beta, 1.0), of(op.softplus_beta, 1.0));
    let q = (2.0 / std::f64::consts::PI).sqrt();
    // The backward functions take the gradient first; below, `a` is always the input of the forward function.
    let (a, b) = if mode.name().ends_with("_bwd") { (b, a) } else { (a, b) };
    let t = (q * (a + 0.044715 * a.powi(3))).tanh();
    let normal = 0.5 * (1.0 + libm::erf(a / 2f64.sqrt()));
    match mode {
        Mode::Abs => a.abs(),
        Mode::Add => a + b,
        Mode::AddSquare => a + b * b,
        Mode::BinarySelect => {
            if c != 0.0 {
                a
            } else {
                b
            }
        }
        Mode::Ceil => a.ceil(),
        Mode::CmpEq => truth(a == b),
        Mode::CmpGe => truth(a >= b),
        Mode::CmpGt => truth(a > b),
        Mode::CmpLe => truth(a <= b),
        Mode::CmpLt => truth(a < b),
        Mode::CmpNeq => truth(a != b),
        Mode::Div => a / b,
        Mode::EluBwd => b * if a > 0.0 { 1.0 } else { alpha * a.exp() },
        Mode::EluFwd => {
            if a > 0.0 {
                a
            } else {
                alpha * (a.exp() - 1.0)
            }
        }
        Mode::Erf => libm::erf(a),
        Mode::Exp => a.exp(),
        Mode::Floor => a.floor(),
        Mode::GeluApproxTanhBwd => b * (0.5 * (1.0 + t) + 0.5 * a * (1.0 - t * t) * q * (1.0 + 3.0 * 0.044715 * a * a)),
        Mode::GeluApproxTanhFwd => 0.5 * a * (1.0 + t),
        Mode::GeluBwd => b * (normal + a * (-a * a / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt()),
        Mode::GeluFwd => a * normal,
        Mode::Identity | Mode::GenIndex | Mode::Unset => a,
        Mode::Log => a.ln(),
        Mode::LogicalAnd => truth(a != 0.0 && b != 0.0),
        Mode::LogicalNot => truth(a == 0.0),
        Mode::LogicalOr => truth(a != 0.0 || b != 0.0),
        Mode::Max => {
            if a.is_nan() || b.is_nan() {
                f64::NAN
            } else {
                a.max(b)
            }
        }
        Mode::Min => {
            if a.is_nan() || b.is_nan() {
                f64::NAN
            } else {
                a.min(b)
            }
        }
        Mode::Mul => a * b,
        Mode::Neg => -a,
        Mode::Reciprocal => 1.0 / a,
        Mode::ReluBwd => {
            b * if a <= lower {
                slope
            } else if a > upper {
                0.0
            } else {
                1.0
            }
        }
        Mode::ReluFwd => {
            if a <= lower {
                if slope == 0.0 { lower } else { slope * (a - lower) + lower }
            } else if a >= upper {
                upper
            } else {
                a
            }
        }
        Mode::Rsqrt => 1.0 / a.sqrt(),
        Mode::SigmoidBwd => b * s(a) * (1.0 - s(a)),
        Mode::SigmoidFwd => s(a),
        Mode::Sin => a.sin(),
        Mode::SoftplusBwd => b * s(softplus * a),
        Mode::SoftplusFwd => (1.0 + (softplus * a).exp()).ln() / softplus,
        Mode::Sqrt => a.sqrt(),
        Mode::Sub => a - b,
        Mode::SwishBwd => b * (s(swish * a) + swish * a * s(swish * a) * (1.0 - s(swish * a))),
        Mode::SwishFwd => a * s(swish * a),
        Mode::Tan => a.tan(),
        Mode::TanhBwd => b * (1.0 - a.tanh() * a.tanh()),
        Mode::TanhFwd => a.tanh(),
    }
}

/// Number of operands, by trying: the wrong number is refused.
fn operands(mode: Mode) -> usize {
    mode.arity()
}

fn modes() -> impl Iterator<Item = Mode> {
    Mode::ALL.iter().copied().filter(|&m| !matches!(m, Mode::Unset | Mode::GenIndex))
}

/// Relative distance, or 0 where both are the same infinity or NaN.
fn distance(found: f64, want: f64) -> f64 {
    if found == want || (found.is_nan() && want.is_nan()) { 0.0 } else { (found - want).abs() / want.abs().max(1.0) }
}

fn op_of(mode: Mode, ordinals: &[u32], out: u32, params: bool) -> Pointwise {
    let at = |i: usize| ordinals.get(i).map(|&o| Operand::Tensor(o));
    let mut op = Pointwise::unary(mode, DataType::Float, Operand::Tensor(ordinals[0]), out);
    op.in1 = at(1);
    op.in2 = at(2);
    if params {
        op.relu_lower_clip = Some(-0.75);
        op.relu_upper_clip = Some(1.5);
        op.relu_lower_clip_slope = Some(0.25);
        op.swish_beta = Some(1.25);
        op.elu_alpha = Some(0.5);
        op.softplus_beta = Some(2.0);
    }
    op
}

#[test]
fn every_mode_computes_its_formula() {
    let mut rng = Rng(11);
    for mode in modes() {
        for (dtype, tolerance) in [(DataType::Float, 4e-6), (DataType::Double, 1e-13)] {
            for params in [false, true] {
                let mut case = Case::default();
                let dims = [3, 50];
                let ordinals: Vec<u32> = (0..operands(mode))
                    .map(|_| {
                        let shift = rng.below(1000);
                        case.add(Mem::packed(dtype, &dims).with(|i| {
                            // Zeros, halves and odd fractions from -4 to 4.
                            ((i[0] * 50 + i[1] * 7 + shift) % 65) as f64 / 8.0 - 4.0 + f64::from(i[0] as u32) / 16.0
                        }))
                    })
                    .collect();
                let out = case.add(Mem::packed(dtype, &dims));
                let op = op_of(mode, &ordinals, out, params);
                case.step(StepOp::Pointwise(op.clone()), out);
                let results = case.run();
                for index in indices(&dims) {
                    let at = |i: usize| ordinals.get(i).map_or(0.0, |&o| case.mems[o as usize].get(&index));
                    let want = formula(mode, &op, at(0), at(1), at(2));
                    let found = results[out as usize].get(&index);
                    assert!(distance(found, want) <= tolerance, "{mode} of {}: found {found}, expected {want}", at(0));
                }
            }
        }
    }
}

#[test]
fn nans_and_infinities_do_what_the_table_says() {
    let values = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, 1.0];
    for mode in [Mode::Max, Mode::Min, Mode::CmpEq, Mode::CmpNeq, Mode::CmpLt, Mode::LogicalAnd, Mode::ReluFwd, Mode::Abs] {
        let mut case = Case::default();
        let a = case.add(Mem::packed(DataType::Float, &[5, 5]).with(|i| values[i[0]]));
        let b = case.add(Mem::packed(DataType::Float, &[5, 5]).with(|i| values[i[1]]));
        let out = case.add(Mem::packed(DataType::Float, &[5, 5]));
        let op = op_of(mode, &[a, b][..operands(mode)], out, false);
        case.step(StepOp::Pointwise(op.clone()), out);
        let results = case.run();
        for index in indices(&[5, 5]) {
            let want = formula(mode, &op, values[index[0]], values[index[1]], 0.0);
            assert_eq!(distance(results[2].get(&index), want), 0.0, "{mode} {index:?}");
        }
    }
}

/// An operand's extents for an output: some 1, some leading ones left out.
fn operand_dims(out: &[usize], rng: &mut Rng) -> Vec<usize> {
    let mut dims: Vec<usize> = out.iter().map(|&d| if rng.below(3) == 0 { 1 } else { d }).collect();
    if rng.below(3) == 0 {
        dims = dims.split_off(rng.below(dims.len()));
    }
    dims
}

fn read(mem: &Mem, index: &[usize]) -> f64 {
    let skip = index.len() - mem.dims.len();
    let at: Vec<usize> = index[skip..].iter().zip(&mem.dims).map(|(&i, &d)| if d == 1 { 0 } else { i }).collect();
    mem.get(&at)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn broadcasting_layouts_and_dtypes(dims in proptest::collection::vec(1usize..6, 1..=5), seed in any::<u64>()) {
        let mut rng = Rng(seed);
        let exact = [Mode::Add, Mode::Sub, Mode::Mul, Mode::AddSquare, Mode::Max, Mode::CmpLt, Mode::BinarySelect, Mode::Neg, Mode::Identity, Mode::ReluBwd, Mode::LogicalNot];
        let mode = rng.pick(&exact);
        let mut case = Case::default();
        let ordinals: Vec<u32> = (0..operands(mode)).map(|_| {
            let own = operand_dims(&dims, &mut rng);
            let dtype = rng.pick(&ALL);
            case.add(Mem::any(dtype, &own, &mut rng).fill(&mut rng))
        }).collect();
        let dtype = rng.pick(&ALL);
        let out = case.add(Mem::any(dtype, &dims, &mut rng));
        let op = op_of(mode, &ordinals, out, false);
        case.step(StepOp::Pointwise(op.clone()), out);
        let results = case.run();
        let at = |i: usize, index: &[usize]| ordinals.get(i).map_or(0.0, |&o| read(&case.mems[o as usize], index));
        assert_exact(&results[out as usize], |index| formula(mode, &op, at(0, index), at(1, index), at(2, index)));
    }

    #[test]
    fn batchnorm_is_its_formula(
        dims in proptest::collection::vec(1usize..6, 2..=5),
        variance in any::<bool>(),
        flat in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let mut rng = Rng(seed);
        let floats = &ALL[..4];
        let mut case = Case::default();
        let dtype = rng.pick(floats);
        let x = case.add(Mem::any(dtype, &dims, &mut rng).fill(&mut rng));
        let mut own = vec![1; dims.len()];
        own[1] = dims[1];
        let own = if flat { vec![dims[1]] } else { own };
        let mut parameter = |case: &mut Case, positive: bool| {
            let dtype = rng.pick(floats);
            let mem = Mem::any(dtype, &own, &mut rng).fill(&mut rng);
            let clone = mem.clone();
            case.add(mem.with(|i| if positive { clone.get(i).abs() + 0.5 } else { clone.get(i) }))
        };
        let mean = parameter(&mut case, false);
        let spread = parameter(&mut case, true);
        let scale = parameter(&mut case, false);
        let bias = parameter(&mut case, false);
        let epsilon = case.add(Mem { place: Place::Scalar, ..Mem::packed(DataType::Double, &[1]).with(|_| 0.125) });
        let out_dtype = rng.pick(floats);
        let y = case.add(Mem::any(out_dtype, &dims, &mut rng));
        let op = if variance {
            StepOp::BatchnormInferenceVariance { x, mean, variance: spread, scale, bias, epsilon }
        } else {
            StepOp::BatchnormInference { x, mean, inv_variance: spread, scale, bias }
        };
        case.step(op, y);
        let results = case.run();
        let of = |ordinal: u32, index: &[usize]| {
            let channel = if flat { vec![index[1]] } else { (0..dims.len()).map(|a| if a == 1 { index[1] } else { 0 }).collect() };
            case.mems[ordinal as usize].get(&channel)
        };
        for index in indices(&dims) {
            let spread = of(spread, &index);
            let inverse = if variance { 1.0 / (spread + 0.125).sqrt() } else { spread };
            let want = (case.mems[0].get(&index) - of(mean, &index)) * inverse * of(scale, &index) + of(bias, &index);
            let found = results[y as usize].get(&index);
            let ulp = match out_dtype {
                DataType::Half => 1e-3,
                DataType::BFloat16 => 8e-3,
                _ => 1e-5,
            };
            prop_assert!((found - want).abs() <= ulp * want.abs().max(1.0), "{found} {want}");
        }
    }
}

#[test]
fn gen_index_yields_coordinates_and_div_of_integers_rounds() {
    for axis in 0..3 {
        let mut case = Case::default();
        let shape = case.add(Mem::packed(DataType::Float, &[1]).with(|_| 0.0));
        let out = case.add(Mem::any(DataType::Int32, &[3, 4, 300], &mut Rng(axis)));
        let mut op = Pointwise::unary(Mode::GenIndex, DataType::Float, Operand::Tensor(shape), out);
        op.axis = Some(axis as i64);
        case.step(StepOp::Pointwise(op), out);
        assert_exact(&case.run()[1], |index| index[axis as usize] as f64);
    }
    let mut case = Case::default();
    let a = case.add(Mem::packed(DataType::Int32, &[4]).with(|i| [7.0, -7.0, 2147483647.0, 5.0][i[0]]));
    let b = case.add(Mem::packed(DataType::Int32, &[4]).with(|i| [2.0, 2.0, 1.0, 0.0][i[0]]));
    let out = case.add(Mem::packed(DataType::Int32, &[4]));
    case.step(StepOp::Pointwise(op_of(Mode::Div, &[a, b], out, false)), out);
    assert_exact(&case.run()[2], |i| [4.0, -4.0, 2147483647.0, 2147483647.0][i[0]]);
}

#[test]
fn a_chain_rounds_between_its_links() {
    // 1 + 2^-9 is not a bfloat16: the virtual tensor between the links loses it.
    let mut case = Case::default();
    let a = case.add(Mem::packed(DataType::Float, &[300]).with(|_| 1.0));
    let b = case.add(Mem::packed(DataType::Float, &[1]).with(|_| 1.0 / 512.0));
    let middle = case.add(Mem::fused(DataType::BFloat16, &[300]));
    let out = case.add(Mem::packed(DataType::Float, &[300]));
    let first = op_of(Mode::Add, &[a, b], middle, false);
    let second = Pointwise { in0: Operand::Carried, ..op_of(Mode::Sub, &[a, a], out, false) };
    case.chained(StepOp::Pointwise(first), middle, vec![second], out);
    assert_exact(&case.run()[out as usize], |_| rounded(DataType::BFloat16, 1.0 + 1.0 / 512.0) - 1.0);
    // A wide link in a chain of a narrow product keeps what f32 cannot hold.
    let mut case = Case::default();
    let a = case.add(Mem::packed(DataType::Float, &[5, 2]).with(|_| 1.0));
    let b = case.add(Mem::packed(DataType::Float, &[2, 3]).with(|_| 1.0));
    let big = case.add(Mem::packed(DataType::Double, &[1]).with(|_| 1e15));
    let middle = case.add(Mem::fused(DataType::Float, &[5, 3]));
    let out = case.add(Mem::packed(DataType::Double, &[5, 3]));
    let link = Pointwise { in0: Operand::Carried, ..op_of(Mode::Add, &[big, big], out, false) };
    case.chained(StepOp::Matmul { a, b, compute: 1 }, middle, vec![link], out);
    assert_exact(&case.run()[out as usize], |_| 1e15 + 2.0);
}

#[test]
fn a_step_may_write_over_its_operand() {
    let mut case = Case::default();
    let a = case.add(Mem::packed(DataType::Float, &[20_000]).with(|i| i[0] as f64));
    let (b, out) = (case.add_workspace(Mem::packed(DataType::Float, &[20_000])), case.add(Mem::packed(DataType::Float, &[20_000])));
    case.step(StepOp::Pointwise(op_of(Mode::Neg, &[a], b, false)), b);
    case.step(StepOp::Pointwise(op_of(Mode::Add, &[b, a], b, false)), b);
    case.step(StepOp::Pointwise(op_of(Mode::Sub, &[a, b], out, false)), out);
    assert_exact(&case.run()[out as usize], |i| i[0] as f64);
}

#[test]
fn wrong_chains_and_operands_are_refused() {
    let float = |dims: &[usize]| Mem::packed(DataType::Float, dims);
    let mut case = Case::default();
    let a = case.add(float(&[4]));
    let out = case.add(float(&[4]));
    let fused = case.add(Mem::fused(DataType::Float, &[4]));
    let wrong = case.add(float(&[3]));
    let int64 = case.add(Mem { dtype: DataType::Int64, ..Mem::packed(DataType::Double, &[4]) });
    let refusal = |op: Pointwise, chain: Vec<Pointwise>, carried: u32, out: u32| {
        let mut case = case.clone();
        case.chained(StepOp::Pointwise(op), carried, chain, out);
        Executable::prepare(&case.program()).unwrap_err()
    };
    let neg = |input, out| op_of(Mode::Neg, &[input], out, false);
    let carried = |out| Pointwise { in0: Operand::Carried, ..neg(a, out) };
    assert!(matches!(refusal(carried(out), vec![], out, out), CpuError::Chain { .. }));
    assert!(matches!(refusal(neg(a, out), vec![], fused, out), CpuError::Chain { .. }));
    assert!(matches!(refusal(neg(a, fused), vec![neg(a, out)], fused, out), CpuError::Chain { position: 0, .. }));
    assert!(matches!(refusal(neg(a, a), vec![carried(out)], a, out), CpuError::Place { .. }));
    assert!(matches!(refusal(neg(fused, out), vec![], out, out), CpuError::Place { ordinal: 2, .. }));
    assert!(matches!(refusal(neg(wrong, out), vec![], out, out), CpuError::Shape { ordinal: 3, .. }));
    assert!(matches!(refusal(neg(int64, out), vec![], out, out), CpuError::UnsupportedDtype { ordinal: 4, found: DataType::Int64, .. }));
    assert!(matches!(refusal(op_of(Mode::Add, &[a], out, false), vec![], out, out), CpuError::Operands { expected: 2, .. }));
    assert!(matches!(refusal(op_of(Mode::GenIndex, &[a], out, false), vec![], out, out), CpuError::Attribute { .. }));
    assert!(matches!(refusal(neg(99, out), vec![], out, out), CpuError::Ordinal { ordinal: 99, tensors: 5, .. }));
    assert!(matches!(refusal(Pointwise { mode: 77, ..neg(a, out) }, vec![], out, out), CpuError::Attribute { found: 77, .. }));
    assert!(matches!(refusal(Pointwise { compute: 77, ..neg(a, out) }, vec![], out, out), CpuError::UnsupportedCompute { .. }));
}
