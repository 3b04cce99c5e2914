//! Matmul against loops.

use super::super::{CpuError, Executable, StepOp};
use super::harness::{Case, Mem, Rng, assert_exact};
use hipplan_serialize::DataType;
use proptest::prelude::*;

const FLOATS: [DataType; 4] = [DataType::Float, DataType::Half, DataType::BFloat16, DataType::Double];

/// Batch extents of both operands and of the result.
fn batches(rng: &mut Rng) -> (Vec<usize>, Vec<usize>, Vec<usize>) {
    let rank = rng.below(4);
    let (mut a, mut b, mut out) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rank {
        let size = 1 + rng.below(3);
        let choice = rng.below(4);
        a.push(if choice == 1 { 1 } else { size });
        b.push(if choice == 2 { 1 } else { size });
        out.push(size);
    }
    // A shorter operand is right-aligned.
    if rank > 0 && rng.below(3) == 0 {
        b.remove(0);
    }
    (a, b, out)
}

fn check(mnk: [usize; 3], dtypes: [DataType; 3], rng: &mut Rng) {
    let [m, n, k] = mnk;
    let (a, b, out) = batches(rng);
    let shape = |batch: &[usize], last: [usize; 2]| batch.iter().copied().chain(last).collect::<Vec<usize>>();
    let mut case = Case::default();
    let ia = case.add(Mem::any(dtypes[0], &shape(&a, [m, k]), rng).fill(rng));
    let ib = case.add(Mem::any(dtypes[1], &shape(&b, [k, n]), rng).fill(rng));
    let ic = case.add(Mem::any(dtypes[2], &shape(&out, [m, n]), rng));
    case.step(StepOp::Matmul { a: ia, b: ib, compute: DataType::Float.to_wire() }, ic);
    let results = case.run();
    let (ma, mb) = (&case.mems[0], &case.mems[1]);
    let pick = |mem: &Mem, index: &[usize], last: [usize; 2]| {
        let own = mem.dims.len() - 2;
        let batch = &index[index.len() - 2 - own..index.len() - 2];
        let at: Vec<usize> = batch.iter().zip(&mem.dims).map(|(&i, &d)| if d == 1 { 0 } else { i }).chain(last).collect();
        mem.get(&at)
    };
    assert_exact(&results[2], |index| {
        let (i, j) = (index[index.len() - 2], index[index.len() - 1]);
        (0..k).map(|d| pick(ma, index, [i, d]) * pick(mb, index, [d, j])).sum()
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn small_products_are_exact(m in 1usize..40, n in 1usize..20, k in 1usize..24, seed in any::<u64>()) {
        let mut rng = Rng(seed);
        check([m, n, k], [DataType::Float; 3], &mut rng);
        let dtypes = [rng.pick(&FLOATS), rng.pick(&FLOATS), rng.pick(&FLOATS)];
        check([m, n, k], dtypes, &mut rng);
        check([m, n, k], [DataType::Int8, DataType::UInt8, DataType::Int32], &mut rng);
        check([m, n, k], [DataType::Int8, DataType::Int8, DataType::Int8], &mut rng);
    }
}

#[test]
fn products_across_blocks_are_exact() {
    let mut rng = Rng(2);
    for mnk in [[70, 130, 300], [1, 300, 520], [300, 1, 520], [2, 2, 700], [33, 600, 5], [1, 1, 1]] {
        for _ in 0..3 {
            check(mnk, [DataType::Float; 3], &mut rng);
        }
        check(mnk, [DataType::Double; 3], &mut rng);
    }
}

#[test]
fn broadcast_inputs_may_have_zero_strides() {
    let mut rng = Rng(4);
    let mut case = Case::default();
    let a = case.add(Mem::packed(DataType::Float, &[3, 1, 6]).fill(&mut rng).expanded(&[3, 5, 6]));
    let b = case.add(Mem::packed(DataType::Float, &[1, 6, 4]).fill(&mut rng).expanded(&[3, 6, 4]));
    let c = case.add(Mem::packed(DataType::Float, &[3, 5, 4]));
    case.step(StepOp::Matmul { a, b, compute: 1 }, c);
    let results = case.run();
    assert_exact(&results[2], |i| (0..6).map(|d| case.mems[0].get(&[i[0], i[1], d]) * case.mems[1].get(&[i[0], d, i[2]])).sum());
}

#[test]
fn dtypes_and_shapes_that_do_not_fit_are_refused() {
    let prepare = |a: Mem, b: Mem, c: Mem| {
        let mut case = Case::default();
        let (a, b, c) = (case.add(a), case.add(b), case.add(c));
        case.step(StepOp::Matmul { a, b, compute: 1 }, c);
        Executable::prepare(&case.program()).unwrap_err()
    };
    let float = |dims: &[usize]| Mem::packed(DataType::Float, dims);
    let typed = |dtype, dims: &[usize]| Mem::packed(dtype, dims);
    assert!(matches!(prepare(float(&[2, 3]), float(&[4, 5]), float(&[2, 5])), CpuError::Shape { ordinal: 1, axis: 0, .. }));
    assert!(matches!(prepare(float(&[2, 3]), float(&[3, 5]), float(&[2, 6])), CpuError::Shape { ordinal: 2, axis: 1, .. }));
    assert!(matches!(prepare(float(&[3]), float(&[3, 5]), float(&[3, 5])), CpuError::Rank { ordinal: 0, .. }));
    let mixed = prepare(typed(DataType::Int8, &[2, 3]), float(&[3, 5]), float(&[2, 5]));
    assert!(matches!(mixed, CpuError::UnsupportedDtype { ordinal: 1, found: DataType::Float, .. }));
    let wide = prepare(typed(DataType::Int64, &[2, 3]), float(&[3, 5]), float(&[2, 5]));
    assert!(wide.to_string().contains("tensor 0 has dtype int64"));
    let batch = prepare(float(&[2, 2, 3]), float(&[3, 3, 5]), float(&[3, 2, 5]));
    assert!(matches!(batch, CpuError::Shape { ordinal: 0, axis: 0, .. }));
}
