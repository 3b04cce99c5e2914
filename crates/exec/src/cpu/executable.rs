//! A prepared CPU program.

use super::chain::Builder;
use super::conv::Shape;
use super::gemm::{Context, Machine};
use super::kernel::Isa;
use super::layout::{Tensor, Tensors};
use super::matmul::{self, wide_product};
use super::pool::ThreadPool;
use super::program::{Conv, CpuProgram, Place, Step, StepOp};
use super::scratch::Scratch;
use super::steps::Prepared;
use super::{CpuError, alias, scratch};
use std::sync::Arc;

/// A CPU program, checked and prepared. Running it allocates nothing and cannot fail.
pub struct Executable {
    places: Vec<(Place, u64)>,
    /// Base pointers by ordinal, filled in by each run.
    bases: Vec<*mut u8>,
    steps: Vec<Prepared>,
    workspace_size: u64,
    shared: Scratch,
    private: Scratch,
    private_stride: usize,
    pool: Arc<ThreadPool>,
    isa: Isa,
}

// SAFETY: the base pointers are only meaningful during `run`, which has the executable exclusively; the rest is owned.
unsafe impl Send for Executable {}
// SAFETY: shared methods read plain numbers only.
unsafe impl Sync for Executable {}

impl std::fmt::Debug for Executable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Executable")
            .field("tensors", &self.places.len())
            .field("steps", &self.steps.len())
            .field("workspace_size", &self.workspace_size)
            .finish_non_exhaustive()
    }
}

impl Executable {
    /// Checks a program and prepares it for the process-wide thread pool, or for the calling thread alone if the program is so small
    /// that waking another thread would cost more. The program may come from anywhere.
    ///
    /// # Errors
    /// What is wrong with the program, or what of it the CPU kernels do not do.
    pub fn prepare(program: &CpuProgram) -> Result<Self, CpuError> {
        let pool = if work(program) < WORTH_A_THREAD { ThreadPool::caller_only() } else { ThreadPool::global() };
        Self::prepare_on(program, Arc::clone(pool))
    }

    /// Checks a program as [`prepare`](Self::prepare) does, but for no machine in particular: the answer is the same everywhere, so
    /// that what is made of it is too.
    ///
    /// # Errors
    /// As [`prepare`](Self::prepare).
    pub fn check(program: &CpuProgram) -> Result<(), CpuError> {
        Self::prepare_for(program, Arc::clone(ThreadPool::caller_only()), Isa::Portable).map(|_| ())
    }

    /// Prepares for a pool of one's own. The results are the same for any pool.
    ///
    /// # Errors
    /// As [`Executable::prepare`].
    pub fn prepare_on(program: &CpuProgram, pool: Arc<ThreadPool>) -> Result<Self, CpuError> {
        Self::prepare_for(program, pool, Isa::detect())
    }

    /// Prepares for an instruction set that this machine has.
    pub(crate) fn prepare_for(program: &CpuProgram, pool: Arc<ThreadPool>, isa: Isa) -> Result<Self, CpuError> {
        debug_assert!(Isa::all().contains(&isa));
        let tensors = Tensors::check(program)?;
        alias::check(&tensors, program)?;
        let machine = Machine { isa, threads: pool.threads() };
        let mut steps = Vec::with_capacity(program.steps.len());
        for (index, step) in program.steps.iter().enumerate() {
            steps.extend(prepare_step(&tensors, index, step, machine)?);
        }
        let shared = Scratch::new(steps.iter().map(Prepared::shared_bytes).max().unwrap_or(0))?;
        let stride = scratch::aligned(steps.iter().map(Prepared::private_bytes).max().unwrap_or(0));
        let private = Scratch::new(stride.saturating_mul(pool.threads() as u64))?;
        Ok(Self {
            places: tensors.list.iter().map(|t| (t.place, t.bytes)).collect(),
            bases: vec![std::ptr::null_mut(); tensors.list.len()],
            steps,
            workspace_size: program.workspace_size,
            shared,
            private,
            private_stride: stride as usize,
            pool,
            isa,
        })
    }

    /// Bytes from a tensor's base to the end of its last addressed element; 0 for an ordinal out of range.
    pub fn span_bytes(&self, ordinal: usize) -> u64 {
        self.places.get(ordinal).map_or(0, |&(_, bytes)| bytes)
    }

    /// Where a tensor lies.
    pub fn place(&self, ordinal: usize) -> Option<Place> {
        self.places.get(ordinal).map(|&(place, _)| place)
    }

    /// Number of tensors.
    pub fn tensors(&self) -> usize {
        self.places.len()
    }

    /// Bytes of workspace that a run needs.
    pub fn workspace_size(&self) -> u64 {
        self.workspace_size
    }

    /// Runs the program once, on the calling thread and the pool.
    ///
    /// # Safety
    /// * `bases` has a pointer for every ordinal; those of tensors placed [`Place::External`] or [`Place::Scalar`] that
    ///   a step uses point to at least [`span_bytes`](Self::span_bytes) bytes, aligned to the element's size, initialised
    ///   where a step reads them before writing them; the others are ignored and may be null.
    /// * `workspace` is aligned to 64 and has [`workspace_size`](Self::workspace_size) bytes, initialised or not.
    /// * A buffer that a step writes does not overlap another that the same step reads, except that a pointwise or batch
    ///   normalisation step may write over an operand of the same dtype, dims and strides.
    /// * Nobody else writes those bytes, or reads those of outputs and workspace, during the call.
    pub unsafe fn run(&mut self, bases: &[*mut u8], workspace: *mut u8) {
        for ((slot, &(place, _)), &base) in self.bases.iter_mut().zip(&self.places).zip(bases) {
            *slot = match place {
                Place::External | Place::Scalar => base,
                Place::Workspace { offset } => workspace.wrapping_add(offset as usize),
                Place::Fused => std::ptr::null_mut(),
            };
        }
        let context = Context {
            bases: &self.bases,
            shared: self.shared.start(),
            private: self.private.start(),
            private_stride: self.private_stride,
            pool: &self.pool,
            isa: self.isa,
        };
        for step in &self.steps {
            // SAFETY: the caller vouches for the external tensors and the workspace. Preparing checked that steps stay within
            // their spans, that none writes workspace or a tensor that it reads (`alias`), and sized both scratch regions for
            // every step and worker; `self` is borrowed exclusively.
            unsafe { step.run(&context) };
        }
        self.bases.fill(std::ptr::null_mut());
    }
}

/// Multiply-adds below which a program runs on the calling thread: some tens of microseconds, about what waking a thread costs.
const WORTH_A_THREAD: u64 = 1 << 20;

/// An estimate of a program's multiply-adds. The program has not been checked: whatever it holds gives some number.
fn work(program: &CpuProgram) -> u64 {
    let tensor = |ordinal: u32| program.tensors.get(ordinal as usize);
    let elements = |ordinal| tensor(ordinal).map_or(0, |t| t.dims.iter().fold(1_u64, |n, d| n.saturating_mul(d.unsigned_abs())));
    let first_dim = |ordinal| tensor(ordinal).and_then(|t| t.dims.first()).map_or(1, |d| d.unsigned_abs().max(1));
    let steps = program.steps.iter().map(|step| {
        let products = match &step.op {
            // Elements of the output side, times the taps and channels of one filter.
            StepOp::ConvFwd(conv) => elements(step.carried).saturating_mul(elements(conv.b) / first_dim(conv.b)),
            StepOp::ConvDgrad(conv) => elements(conv.a).saturating_mul(elements(conv.b) / first_dim(conv.b)),
            StepOp::ConvWgrad(conv) => elements(conv.b).saturating_mul(elements(step.carried) / first_dim(step.carried)),
            StepOp::Matmul { a, .. } => {
                let depth = tensor(*a).and_then(|t| t.dims.last()).map_or(1, |d| d.unsigned_abs());
                elements(step.carried).saturating_mul(depth)
            }
            StepOp::BatchnormInference { .. } | StepOp::BatchnormInferenceVariance { .. } | StepOp::Pointwise(_) => elements(step.out),
        };
        products.saturating_add(elements(step.out).saturating_mul(step.chain.len() as u64))
    });
    steps.fold(0, u64::saturating_add)
}

/// Checks and prepares one step, which may come in several parts.
fn prepare_step(tensors: &Tensors, index: usize, step: &Step, machine: Machine) -> Result<Vec<Prepared>, CpuError> {
    let one = match &step.op {
        StepOp::ConvFwd(conv) => return convolution(tensors, index, step, conv, "convolution forward", machine),
        StepOp::ConvDgrad(conv) => return convolution(tensors, index, step, conv, "convolution data gradient", machine),
        StepOp::ConvWgrad(conv) => return convolution(tensors, index, step, conv, "convolution weight gradient", machine),
        StepOp::Matmul { a, b, compute } => {
            let op = "matmul";
            let (a, b) = (tensors.input(index, op, *a)?, tensors.input(index, op, *b)?);
            let builder = Builder::new(tensors, index, step, op)?;
            matmul::check(builder.out, a, b)?;
            if product_is_wide(&builder, op, a, b, *compute)? {
                Prepared::Gemm64(matmul::prepare::<f64>(&builder, a, b, machine)?)
            } else {
                Prepared::Gemm32(matmul::prepare::<f32>(&builder, a, b, machine)?)
            }
        }
        StepOp::BatchnormInference { x, mean, inv_variance, scale, bias } => {
            let builder = Builder::new(tensors, index, step, "batchnorm inference")?;
            Prepared::Rows(builder.batchnorm([*x, *mean, *inv_variance, *scale, *bias], None)?)
        }
        StepOp::BatchnormInferenceVariance { x, mean, variance, scale, bias, epsilon } => {
            let builder = Builder::new(tensors, index, step, "batchnorm inference")?;
            Prepared::Rows(builder.batchnorm([*x, *mean, *variance, *scale, *bias], Some(*epsilon))?)
        }
        StepOp::Pointwise(op) => Prepared::Rows(Builder::new(tensors, index, step, "pointwise")?.pointwise_step(op)?),
    };
    Ok(vec![one])
}

/// Whether a product with its chain is computed in `f64`: the chain's operations that are not wide are computed in `f32`
/// all the same.
fn product_is_wide(builder: &Builder<'_>, op: &'static str, a: &Tensor, b: &Tensor, compute: i8) -> Result<bool, CpuError> {
    let own = builder.tensors.get(builder.index, builder.step.carried)?;
    wide_product(op, a, b, (builder.carried(op)?, own), compute)
}

fn convolution(
    tensors: &Tensors,
    index: usize,
    step: &Step,
    conv: &Conv,
    op: &'static str,
    machine: Machine,
) -> Result<Vec<Prepared>, CpuError> {
    let (a, b) = (tensors.input(index, op, conv.a)?, tensors.input(index, op, conv.b)?);
    let builder = Builder::new(tensors, index, step, op)?;
    let wide = product_is_wide(&builder, op, a, b, conv.compute)?;
    let gemm = match &step.op {
        StepOp::ConvDgrad(_) => {
            let shape = Shape::check(op, conv, builder.out, b, a)?;
            if wide { shape.data_gradient::<f64>(&builder, machine) } else { shape.data_gradient::<f32>(&builder, machine) }
        }
        StepOp::ConvWgrad(_) => {
            let shape = Shape::check(op, conv, a, builder.out, b)?;
            if wide { shape.weight_gradient::<f64>(&builder, machine) } else { shape.weight_gradient::<f32>(&builder, machine) }
        }
        _ => {
            let shape = Shape::check(op, conv, a, b, builder.out)?;
            let slab = |slab| match wide {
                true => shape.forward::<f64>(slab, &builder, machine).map(Prepared::Gemm64),
                false => shape.forward::<f32>(slab, &builder, machine).map(Prepared::Gemm32),
            };
            let slabs = if wide { shape.slabs::<f64>() } else { shape.slabs::<f32>() }?;
            return slabs.iter().map(slab).collect();
        }
    }?;
    Ok(vec![if wide { Prepared::Gemm64(gemm) } else { Prepared::Gemm32(gemm) }])
}
