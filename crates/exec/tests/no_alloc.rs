//! A run of a prepared program allocates nothing, on no thread.

#[path = "../../hipplan/tests/common/counting.rs"]
mod counting;

use counting::allocations;
use hipplan_exec::cpu::{Conv, CpuProgram, Executable, Operand, Place, Pointwise, Step, StepOp, TensorSlot, ThreadPool};
use hipplan_serialize::{DataType, PointwiseMode};
use std::sync::{Arc, Barrier};

fn slot(dtype: DataType, dims: &[i64], place: Place) -> TensorSlot {
    let mut strides = vec![1; dims.len()];
    for axis in (0..dims.len() - 1).rev() {
        strides[axis] = strides[axis + 1] * dims[axis + 1];
    }
    TensorSlot { dtype: dtype.to_wire(), dims: dims.to_vec(), strides, place }
}

fn conv(a: u32, b: u32, stride: i64, pad: i64) -> Conv {
    Conv {
        a,
        b,
        pre_padding: vec![pad; 2],
        post_padding: vec![pad; 2],
        stride: vec![stride; 2],
        dilation: vec![1; 2],
        flip: false,
        compute: DataType::Float.to_wire(),
    }
}

/// Every kind of step, some with a chain, in one program of one dtype.
fn program(dtype: DataType) -> CpuProgram {
    let x = [2, 6, 20, 20];
    let y = [2, 9, 10, 10];
    let external = |dims: &[i64]| slot(dtype, dims, Place::External);
    let tensors = vec![
        external(&x),                                    // 0 x
        external(&[9, 6, 3, 3]),                         // 1 w
        slot(dtype, &y, Place::Fused),                   // 2 conv's own output
        external(&[1, 9, 1, 1]),                         // 3 per channel
        slot(dtype, &y, Place::Fused),                   // 4 with bias
        slot(dtype, &y, Place::Workspace { offset: 0 }), // 5 activated
        external(&x),                                    // 6 dx
        external(&[9, 6, 3, 3]),                         // 7 dw
        external(&[2, 9, 10, 30]),                       // 8 right operand
        external(&[2, 9, 10, 30]),                       // 9 product
        external(&y),                                    // 10 normalised
        slot(DataType::Double, &[1], Place::Scalar),     // 11 epsilon
    ];
    let link = |mode, in0, in1, out| Pointwise { in1, ..Pointwise::unary(mode, DataType::Float, in0, out) };
    let step = |op, out| Step { op, chain: Vec::new(), out, carried: out };
    let steps = vec![
        Step {
            op: StepOp::ConvFwd(conv(0, 1, 2, 1)),
            chain: vec![
                link(PointwiseMode::Add, Operand::Carried, Some(Operand::Tensor(3)), 4),
                link(PointwiseMode::GeluFwd, Operand::Carried, None, 5),
            ],
            out: 5,
            carried: 2,
        },
        step(StepOp::ConvDgrad(conv(5, 1, 2, 1)), 6),
        step(StepOp::ConvWgrad(conv(0, 5, 2, 1)), 7),
        step(StepOp::Matmul { a: 5, b: 8, compute: 1 }, 9),
        step(StepOp::BatchnormInferenceVariance { x: 5, mean: 3, variance: 3, scale: 3, bias: 3, epsilon: 11 }, 10),
        step(StepOp::Pointwise(link(PointwiseMode::Mul, Operand::Tensor(10), Some(Operand::Tensor(5)), 10)), 10),
    ];
    CpuProgram { tensors, steps, workspace_size: 2 * 9 * 10 * 10 * 8 }
}

#[test]
fn a_run_allocates_nothing() {
    for threads in [1, 3] {
        let pool = Arc::new(ThreadPool::new(threads));
        for dtype in [DataType::Float, DataType::Half, DataType::BFloat16, DataType::Double] {
            let mut executable = Executable::prepare_on(&program(dtype), Arc::clone(&pool)).unwrap();
            let mut memory: Vec<Vec<u64>> =
                (0..executable.tensors()).map(|i| vec![0; executable.span_bytes(i).div_ceil(8) as usize]).collect();
            let bases: Vec<*mut u8> = memory.iter_mut().map(|m| m.as_mut_ptr().cast()).collect();
            let mut workspace = vec![0u8; executable.workspace_size() as usize + 64];
            let start = workspace.as_mut_ptr();
            let start = start.wrapping_add(start.align_offset(64));
            // All threads must have started, for their birth allocates: each has one of these, and waits in it for the others.
            let all = Barrier::new(pool.threads());
            pool.parallel_for(pool.threads(), &|_, _| _ = all.wait());
            let before = allocations();
            for _ in 0..20 {
                // SAFETY: each base covers its tensor's span, the workspace is aligned and large enough, and the last
                // step writes over its own operand element by element.
                unsafe { executable.run(&bases, start) };
            }
            assert_eq!(allocations(), before, "{dtype} on {threads} threads");
        }
    }
}
