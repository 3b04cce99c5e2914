//! Every distinct convolution of ResNet-50, forward, f32 NCHW, against the `gemm` crate on the product of equal size.
//!
//! Like with like is one thread: `HIPPLAN_CPU_THREADS=1 cargo run --release -p hipplan-exec --example resnet50_conv [batch]`.
//! The rival gets its left operand, its right operand and its result as plain matrices: it does not have to unfold images.

use gemm_common::Parallelism;
use hipplan_exec::cpu::{Conv, CpuProgram, Executable, Place, Step, StepOp, TensorSlot, ThreadPool};
use std::time::Instant;

/// Channels in and out, input size, taps, padding, stride.
const LAYERS: [(i64, i64, i64, i64, i64, i64); 23] = [
    (3, 64, 224, 7, 3, 2),
    (64, 64, 56, 1, 0, 1),
    (64, 64, 56, 3, 1, 1),
    (64, 256, 56, 1, 0, 1),
    (256, 64, 56, 1, 0, 1),
    (256, 128, 56, 1, 0, 1),
    (128, 128, 56, 3, 1, 2),
    (128, 512, 28, 1, 0, 1),
    (256, 512, 56, 1, 0, 2),
    (512, 128, 28, 1, 0, 1),
    (128, 128, 28, 3, 1, 1),
    (512, 256, 28, 1, 0, 1),
    (256, 256, 28, 3, 1, 2),
    (256, 1024, 14, 1, 0, 1),
    (512, 1024, 28, 1, 0, 2),
    (1024, 256, 14, 1, 0, 1),
    (256, 256, 14, 3, 1, 1),
    (1024, 512, 14, 1, 0, 1),
    (512, 512, 14, 3, 1, 2),
    (512, 2048, 7, 1, 0, 1),
    (1024, 2048, 14, 1, 0, 2),
    (2048, 512, 7, 1, 0, 1),
    (512, 512, 7, 3, 1, 1),
];

fn slot(dims: &[i64]) -> TensorSlot {
    let mut strides = vec![1; dims.len()];
    for axis in (0..dims.len() - 1).rev() {
        strides[axis] = strides[axis + 1] * dims[axis + 1];
    }
    TensorSlot { dtype: 1, dims: dims.to_vec(), strides, place: Place::External }
}

fn numbers(count: i64) -> Vec<f32> {
    (0..count).map(|i| (i % 17) as f32 * 0.125 - 1.0).collect()
}

/// Best of several runs of both, alternating, in seconds.
fn race(mut ours: impl FnMut(), mut theirs: impl FnMut(), flops: f64) -> (f64, f64) {
    let rounds = ((3e10 / flops) as usize).clamp(5, 60);
    let mut best = (f64::INFINITY, f64::INFINITY);
    for _ in 0..rounds {
        let start = Instant::now();
        ours();
        best.0 = best.0.min(start.elapsed().as_secs_f64());
        let start = Instant::now();
        theirs();
        best.1 = best.1.min(start.elapsed().as_secs_f64());
    }
    best
}

/// Runs a program of one step over three tensors, and the rival on the product `m x k` times `k x n`.
fn compare(name: &str, program: &CpuProgram, mnk: [usize; 3]) -> f64 {
    let [m, n, k] = mnk;
    let mut executable = Executable::prepare(program).expect("the program is valid");
    let mut memory: Vec<Vec<f32>> = (0..3).map(|i| numbers(executable.span_bytes(i) as i64 / 4)).collect();
    let bases: Vec<*mut u8> = memory.iter_mut().map(|m| m.as_mut_ptr().cast()).collect();
    let (a, b) = (numbers((m * k) as i64), numbers((k * n) as i64));
    let mut c = vec![0f32; m * n];
    let rival = gemm_f32::gemm::f32::get_gemm_fn();
    let flops = 2.0 * (m * n * k) as f64;
    let (ours, theirs) = race(
        // SAFETY: each base covers its tensor's span, and nobody else uses the memory.
        || unsafe { executable.run(&bases, std::ptr::null_mut()) },
        // SAFETY: the three matrices have the extents and strides given.
        || unsafe {
            let (dst, lhs, rhs) = (c.as_mut_ptr(), a.as_ptr(), b.as_ptr());
            let (n_stride, k_stride) = (n as isize, k as isize);
            // The result's rows are neighbours for the crate's own code: it computes the transposed product.
            let (none, zero, one) = (Parallelism::None, 0.0, 1.0);
            rival(n, m, k, dst, n_stride, 1, false, rhs, n_stride, 1, lhs, k_stride, 1, zero, one, false, false, false, none);
        },
        flops,
    );
    let share = theirs / ours;
    println!("{name:<34} {:>9.3} ms {:>8.1} GFLOP/s {:>8.1} GFLOP/s {share:>6.2}", ours * 1e3, flops / ours / 1e9, flops / theirs / 1e9);
    share
}

fn main() {
    let batch: i64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1);
    println!("threads {}, batch {batch}; the gemm crate runs on one thread", ThreadPool::global().threads());
    println!("{:<34} {:>12} {:>16} {:>16} {:>6}", "layer", "ours", "ours", "gemm", "share");
    for size in [512, 1024, 2048] {
        let program = CpuProgram {
            tensors: (0..3).map(|_| slot(&[size, size])).collect(),
            steps: vec![Step { op: StepOp::Matmul { a: 0, b: 1, compute: 1 }, chain: Vec::new(), out: 2, carried: 2 }],
            workspace_size: 0,
        };
        compare(&format!("matmul {size}"), &program, [size as usize; 3]);
    }
    let mut worst = (f64::INFINITY, String::new());
    for (c, k, size, taps, pad, stride) in LAYERS {
        let out = (size + 2 * pad - taps) / stride + 1;
        let conv = Conv {
            a: 0,
            b: 1,
            pre_padding: vec![pad; 2],
            post_padding: vec![pad; 2],
            stride: vec![stride; 2],
            dilation: vec![1; 2],
            flip: false,
            compute: 1,
        };
        let program = CpuProgram {
            tensors: vec![slot(&[batch, c, size, size]), slot(&[k, c, taps, taps]), slot(&[batch, k, out, out])],
            steps: vec![Step { op: StepOp::ConvFwd(conv), chain: Vec::new(), out: 2, carried: 2 }],
            workspace_size: 0,
        };
        let name = format!("{c}->{k} {taps}x{taps}/{stride} at {size}");
        let mnk = [k, batch * out * out, c * taps * taps].map(|v| v as usize);
        let share = compare(&name, &program, mnk);
        if share < worst.0 {
            worst = (share, name);
        }
    }
    println!("worst layer: {} at {:.2} of the gemm crate", worst.1, worst.0);
}
