//! Programs from a hostile payload: refused with a reason, never a panic; and whatever is accepted stays in bounds.

use super::super::{Conv, CpuError, CpuProgram, Executable, Operand, Place, Pointwise, Step, StepOp, TensorSlot};
use super::harness::Rng;
use hipplan_serialize::{DataType, PointwiseMode};
use proptest::prelude::*;

fn slot(dims: &[i64], strides: &[i64]) -> TensorSlot {
    TensorSlot { dtype: 1, dims: dims.to_vec(), strides: strides.to_vec(), place: Place::External }
}

fn relu(input: u32, out: u32) -> Step {
    let op = Pointwise::unary(PointwiseMode::ReluFwd, DataType::Float, Operand::Tensor(input), out);
    Step { op: StepOp::Pointwise(op), chain: Vec::new(), out, carried: out }
}

fn refusal(tensors: Vec<TensorSlot>, workspace_size: u64) -> CpuError {
    Executable::prepare(&CpuProgram { tensors, steps: vec![relu(0, 1)], workspace_size }).unwrap_err()
}

#[test]
fn tensors_that_cannot_be_are_refused() {
    let good = || slot(&[4], &[1]);
    let with = |s: TensorSlot| refusal(vec![s, good()], 0);
    assert!(matches!(with(slot(&[], &[])), CpuError::Rank { found: 0, .. }));
    assert!(matches!(with(slot(&[1; 9], &[1; 9])), CpuError::Rank { found: 9, .. }));
    assert!(matches!(with(slot(&[4, 4], &[1])), CpuError::Rank { found: 1, .. }));
    assert!(matches!(with(slot(&[0], &[1])), CpuError::Dim { found: 0, .. }));
    assert!(matches!(with(slot(&[-4], &[1])), CpuError::Dim { found: -4, .. }));
    assert!(matches!(with(slot(&[4], &[-1])), CpuError::Stride { found: -1, .. }));
    assert!(matches!(with(slot(&[i64::MAX, i64::MAX], &[0, 0])), CpuError::TooLarge { .. }));
    assert!(matches!(with(slot(&[4], &[i64::MAX])), CpuError::TooLarge { .. }));
    assert!(matches!(with(TensorSlot { dtype: 99, ..good() }), CpuError::UnknownDtype { found: 99, .. }));
    assert!(matches!(with(TensorSlot { dtype: 0, ..good() }), CpuError::UnknownDtype { found: 0, .. }));
    assert!(matches!(with(TensorSlot { place: Place::Scalar, ..good() }), CpuError::TooLarge { .. }));
    let out = |s: TensorSlot, size| refusal(vec![good(), s], size);
    assert!(matches!(out(slot(&[4], &[0]), 0), CpuError::OverlappingOutput { axis: 0, .. }));
    assert!(matches!(out(TensorSlot { place: Place::Fused, ..good() }, 0), CpuError::Place { .. }));
    let place = |offset| TensorSlot { place: Place::Workspace { offset }, ..good() };
    assert!(matches!(out(place(0), 15), CpuError::WorkspaceRange { end: 16, size: 15, .. }));
    assert!(matches!(out(place(u64::MAX - 63), 64), CpuError::WorkspaceRange { .. }));
    assert!(matches!(out(place(32), 640), CpuError::WorkspaceAlignment { offset: 32, .. }));
    assert!(matches!(out(place(0), u64::MAX), CpuError::Count { .. }));
    // A stride along an extent of 1 is never walked.
    let tensors = vec![slot(&[1, 4], &[i64::MAX, 1]), slot(&[1, 4], &[0, 1])];
    assert!(Executable::prepare(&CpuProgram { tensors, steps: vec![relu(0, 1)], workspace_size: 0 }).is_ok());
}

#[test]
fn convolutions_that_cannot_be_are_refused() {
    let run = |x: &[i64], w: &[i64], y: &[i64], change: &dyn Fn(&mut Conv)| {
        let packed = |dims: &[i64]| {
            let mut strides = vec![1; dims.len()];
            for axis in (0..dims.len().saturating_sub(1)).rev() {
                strides[axis] = strides[axis + 1] * dims[axis + 1];
            }
            slot(dims, &strides)
        };
        let spatial = x.len() - 2;
        let mut conv = Conv {
            a: 0,
            b: 1,
            pre_padding: vec![0; spatial],
            post_padding: vec![0; spatial],
            stride: vec![1; spatial],
            dilation: vec![1; spatial],
            flip: false,
            compute: 1,
        };
        change(&mut conv);
        let tensors = vec![packed(x), packed(w), packed(y)];
        let step = Step { op: StepOp::ConvFwd(conv), chain: Vec::new(), out: 2, carried: 2 };
        Executable::prepare(&CpuProgram { tensors, steps: vec![step], workspace_size: 0 })
    };
    let refused = |x: &[i64], w: &[i64], y: &[i64], change: &dyn Fn(&mut Conv)| run(x, w, y, change).unwrap_err();
    let (x, w, y) = ([1, 4, 6, 6], [6, 2, 3, 3], [1, 6, 4, 4]);
    assert!(run(&x, &w, &y, &|_| {}).is_ok());
    assert!(matches!(refused(&x, &w, &[1, 6, 4, 5], &|_| {}), CpuError::Shape { ordinal: 2, axis: 3, expected: 4, .. }));
    assert!(matches!(refused(&x, &[6, 3, 3, 3], &y, &|_| {}), CpuError::Shape { ordinal: 0, axis: 1, .. }));
    assert!(matches!(refused(&x, &[6, 8, 3, 3], &y, &|_| {}), CpuError::Shape { ordinal: 0, axis: 1, .. }));
    assert!(matches!(refused(&x, &[5, 2, 3, 3], &y, &|_| {}), CpuError::Shape { ordinal: 1, axis: 0, .. }));
    assert!(matches!(refused(&x, &[6, 2, 7, 3], &y, &|_| {}), CpuError::Shape { axis: 2, expected: 0, .. }));
    assert!(matches!(refused(&x, &w, &y, &|c| c.stride = vec![1]), CpuError::Attribute { what: "stride", .. }));
    assert!(matches!(refused(&x, &w, &y, &|c| c.stride = vec![0, 1]), CpuError::Attribute { what: "stride", found: 0, .. }));
    assert!(matches!(refused(&x, &w, &y, &|c| c.pre_padding = vec![-1, 0]), CpuError::Attribute { .. }));
    assert!(matches!(refused(&x, &w, &y, &|c| c.dilation = vec![i64::MAX, 1]), CpuError::Attribute { .. }));
    // Padding that would ask for endless scratch: cut into slabs along one dimension, but not along two.
    let huge = 1i64 << 22;
    assert!(run(&x, &w, &[1, 6, 4 + huge, 4], &|c| c.pre_padding = vec![huge, 0]).is_ok());
    let (wide_x, wide_w, grown) = ([1, 1024, 6, 6], [1, 1024, 3, 3], [1, 1, 4 + (1 << 19), 4 + (1 << 19)]);
    let padded = refused(&wide_x, &wide_w, &grown, &|c| c.pre_padding = vec![1 << 19; 2]);
    assert!(matches!(padded, CpuError::ScratchTooLarge { .. }), "{padded:?}");
    // Filters whose tables, one for each slab, would be endless.
    let (deep, many) = (1i64 << 15, 1i64 << 12);
    let (x, w, y) = ([1, deep, many, 1], [1, deep, 1, 1], [1, 1, many + 1, 1]);
    assert!(matches!(refused(&x, &w, &y, &|c| c.pre_padding = vec![1, 0]), CpuError::ScratchTooLarge { .. }));
    assert!(matches!(refused(&[1, 2], &[1, 2], &[1, 2], &|_| {}), CpuError::Rank { .. }));
}

/// A number that is usually small and sometimes absurd.
fn number(rng: &mut Rng) -> i64 {
    match rng.below(40) {
        0 => i64::MAX,
        1 => i64::MIN,
        2 => -1,
        3 => 1 << rng.below(63),
        4 => 0,
        _ => 1 + rng.below(4) as i64,
    }
}

fn numbers(rng: &mut Rng, length: usize) -> Vec<i64> {
    (0..length).map(|_| number(rng)).collect()
}

fn program(rng: &mut Rng) -> CpuProgram {
    let rank = 1 + rng.below(5);
    let tensors = (0..4 + rng.below(4))
        .map(|_| {
            let rank = if rng.below(10) == 0 { rng.below(10) } else { rank };
            let place = match rng.below(8) {
                0 => Place::Scalar,
                1 => Place::Fused,
                2 => Place::Workspace { offset: (number(rng) as u64).wrapping_mul(64) },
                _ => Place::External,
            };
            let dtype = if rng.below(5) == 0 { rng.below(22) as i8 } else { 1 };
            let dims = if rng.below(2) == 0 { vec![2; rank] } else { numbers(rng, rank) };
            let mut strides: Vec<i64> = (0..rank).map(|a| 1 << (2 * (rank - 1 - a))).collect();
            if rng.below(4) == 0 {
                strides = numbers(rng, rank);
            }
            TensorSlot { dtype, dims, strides, place }
        })
        .collect();
    let steps = (0..1 + rng.below(2))
        .map(|_| {
            let mut ordinal = || if rng.below(30) == 0 { u32::MAX } else { rng.below(6) as u32 };
            let (a, b, c, d, e, f) = (ordinal(), ordinal(), ordinal(), ordinal(), ordinal(), ordinal());
            let operand = |o: u32| if o == 5 { Operand::Carried } else { Operand::Tensor(o) };
            let spatial = rank.saturating_sub(2);
            let conv = Conv {
                a,
                b,
                pre_padding: numbers(rng, spatial),
                post_padding: numbers(rng, spatial),
                stride: numbers(rng, spatial),
                dilation: numbers(rng, spatial),
                flip: rng.below(2) == 0,
                compute: rng.below(20) as i8,
            };
            let mode = PointwiseMode::ALL[rng.below(48)];
            let link = Pointwise {
                mode: if rng.below(10) == 0 { 90 } else { mode.to_wire() },
                in1: (rng.below(2) == 0).then_some(operand(d)),
                in2: (rng.below(4) == 0).then_some(operand(e)),
                axis: (rng.below(2) == 0).then(|| number(rng)),
                ..Pointwise::unary(mode, DataType::Float, operand(b), f)
            };
            let op = match rng.below(7) {
                0 => StepOp::ConvFwd(conv),
                1 => StepOp::ConvDgrad(conv),
                2 => StepOp::ConvWgrad(conv),
                3 => StepOp::Matmul { a, b, compute: 1 },
                4 => StepOp::BatchnormInference { x: a, mean: b, inv_variance: c, scale: d, bias: e },
                5 => StepOp::BatchnormInferenceVariance { x: a, mean: b, variance: c, scale: d, bias: e, epsilon: f },
                _ => StepOp::Pointwise(link.clone()),
            };
            let chain = if rng.below(3) == 0 { vec![link] } else { Vec::new() };
            Step { op, carried: if chain.is_empty() { f } else { c }, chain, out: f }
        })
        .collect();
    CpuProgram { tensors, steps, workspace_size: number(rng) as u64 }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_program_panics_and_accepted_ones_stay_in_bounds(seed in any::<u64>()) {
        let program = program(&mut Rng(seed));
        if let Ok(mut executable) = Executable::prepare(&program) {
            let total: u64 = (0..executable.tensors()).map(|i| executable.span_bytes(i)).sum();
            let elements: i64 = program.tensors.iter().map(|t| t.dims.iter().fold(1i64, |n, &d| n.saturating_mul(d))).max().unwrap_or(0);
            if total + executable.workspace_size() > 1 << 20 || elements > 1 << 16 {
                return Ok(());
            }
            // Each tensor ends exactly where a guard begins.
            let mut memory: Vec<Vec<u64>> =
                (0..executable.tensors()).map(|i| vec![0; executable.span_bytes(i).div_ceil(8) as usize + 1]).collect();
            let guards: Vec<usize> = (0..executable.tensors()).map(|i| executable.span_bytes(i) as usize).collect();
            for (m, &guard) in memory.iter_mut().zip(&guards) {
                bytemuck::cast_slice_mut::<u64, u8>(m)[guard..].fill(0x77);
            }
            let bases: Vec<*mut u8> = memory.iter_mut().map(|m| m.as_mut_ptr().cast()).collect();
            let mut workspace = vec![0u8; executable.workspace_size() as usize + 128];
            let start = workspace.as_mut_ptr();
            let start = start.wrapping_add(start.align_offset(64));
            // SAFETY: each base covers its tensor's span and no two share memory; preparing refused steps that write what they read.
            unsafe { executable.run(&bases, start) };
            for (m, &guard) in memory.iter().zip(&guards) {
                prop_assert!(bytemuck::cast_slice::<u64, u8>(m)[guard..].iter().all(|&b| b == 0x77));
            }
        }
    }
}

#[test]
fn a_program_survives_its_archive() {
    let program = program(&mut Rng(8));
    let bytes = rkyv::to_bytes::<rkyv::rancor::Error>(&program).unwrap();
    let archived = rkyv::access::<super::super::program::ArchivedCpuProgram, rkyv::rancor::Error>(&bytes).unwrap();
    let back: CpuProgram = rkyv::deserialize::<CpuProgram, rkyv::rancor::Error>(archived).unwrap();
    assert_eq!(back, program);
}

#[test]
fn a_step_that_writes_what_it_reads_is_refused() {
    let tensor = |place| TensorSlot { dtype: DataType::Float.to_wire(), dims: vec![4, 4], strides: vec![4, 1], place };
    let product = |a, b, out| Step { op: StepOp::Matmul { a, b, compute: 1 }, chain: vec![], out, carried: out };
    let program = |tensors: Vec<TensorSlot>, step| CpuProgram { tensors, steps: vec![step], workspace_size: 256 };
    let external = || tensor(Place::External);
    let at = |offset| tensor(Place::Workspace { offset });
    let fine = program(vec![external(), at(0), at(64)], product(0, 1, 2));
    assert!(Executable::prepare(&fine).is_ok());
    for (name, bad) in [
        ("the same tensor", program(vec![external(), external()], product(0, 1, 1))),
        ("the same range", program(vec![external(), at(0), at(0)], product(0, 1, 2))),
        ("a part of a range", program(vec![external(), at(0), tensor(Place::Workspace { offset: 0 })], product(1, 0, 2))),
    ] {
        assert!(matches!(Executable::prepare(&bad), Err(CpuError::Overlap { .. })), "{name}");
    }
    // An elementwise step may work in place, on the very same view only.
    let unary = |in0, out| Step {
        op: StepOp::Pointwise(Pointwise::unary(PointwiseMode::Neg, DataType::Float, Operand::Tensor(in0), out)),
        chain: vec![],
        out,
        carried: out,
    };
    assert!(Executable::prepare(&program(vec![at(0), at(0)], unary(0, 1))).is_ok());
    let mut turned = at(0);
    turned.strides = vec![1, 4];
    assert!(matches!(Executable::prepare(&program(vec![at(0), turned], unary(0, 1))), Err(CpuError::Overlap { .. })));
}
