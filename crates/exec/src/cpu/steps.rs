//! Prepared steps and how they run.

use super::CpuError;
use super::gemm::{Context, GatherGemm, Part};
use super::pack::Pack;
use super::rows::RowProgram;
use super::scratch::{MAX_SCRATCH, bytes_of};
use super::stage::Stage;

/// Row positions of one task of a row program.
const ROW_TASK: usize = 8 * 1024;

/// How the images of a product come in chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Images {
    /// All at once.
    None,
    /// They are the outermost rows.
    Rows { count: usize, chunk: usize },
    /// They are the outermost depth; the left operand of a later chunk lies `left` elements an image further on.
    Depth { count: usize, chunk: usize, left: isize },
}

/// Stages and products.
#[derive(Debug)]
pub(crate) struct GemmStep {
    pub(crate) images: Images,
    /// Copies made once.
    pub(crate) once: Vec<Stage>,
    /// Copies made for each chunk of images.
    pub(crate) per_chunk: Vec<Stage>,
    pub(crate) gemms: Vec<GatherGemm>,
    /// Bytes of shared scratch.
    pub(crate) shared: u64,
}

impl GemmStep {
    /// Bytes of private scratch per worker.
    pub(crate) fn private_bytes<T: Pack>(&self) -> u64 {
        self.gemms.iter().map(GatherGemm::private_bytes::<T>).max().unwrap_or(0)
    }

    /// Runs the step.
    ///
    /// # Safety
    /// The context's bases cover the spans of the step's tensors, its scratch has the bytes asked for, and nobody else
    /// writes what the step reads or touches what it writes.
    pub(crate) unsafe fn run<T: Pack>(&self, context: &Context<'_>) {
        let (count, chunk) = match self.images {
            Images::None => (1, 1),
            Images::Rows { count, chunk } | Images::Depth { count, chunk, .. } => (count, chunk),
        };
        // SAFETY: the caller's promise is what stages and products ask for; `parallel_for` returns only when all its
        // tasks have, so a product sees its stages' results and no stage overwrites what a product still reads.
        unsafe {
            self.once.iter().for_each(|stage| stage.run::<T>(context, 0, 0));
            for first in (0..count).step_by(chunk) {
                let now = chunk.min(count - first);
                self.per_chunk.iter().for_each(|stage| stage.run::<T>(context, first, now));
                for gemm in &self.gemms {
                    let (rows, depth) = (gemm.rows(), gemm.depth());
                    let whole = Part { rows, shift: 0, depth, left: 0, resume: false, finish: true };
                    let part = match self.images {
                        Images::None => whole,
                        Images::Rows { .. } => {
                            let per_image = rows / count;
                            Part { rows: now * per_image, shift: first * per_image, ..whole }
                        }
                        Images::Depth { left, .. } => Part {
                            depth: depth / chunk * now,
                            left: first as isize * left,
                            resume: first > 0,
                            finish: first + now == count,
                            ..whole
                        },
                    };
                    gemm.run::<T>(context, &part);
                }
            }
        }
    }
}

/// A prepared step.
#[derive(Debug)]
pub(crate) enum Prepared {
    /// A product in `f32`.
    Gemm32(GemmStep),
    /// A product in `f64`.
    Gemm64(GemmStep),
    /// A row program.
    Rows(RowProgram),
}

impl Prepared {
    /// Bytes of shared scratch.
    pub(crate) fn shared_bytes(&self) -> u64 {
        match self {
            Self::Gemm32(step) | Self::Gemm64(step) => step.shared,
            Self::Rows(_) => 0,
        }
    }

    /// Bytes of private scratch per worker.
    pub(crate) fn private_bytes(&self) -> u64 {
        match self {
            Self::Gemm32(step) => step.private_bytes::<f32>(),
            Self::Gemm64(step) => step.private_bytes::<f64>(),
            Self::Rows(_) => 0,
        }
    }

    /// Runs the step.
    ///
    /// # Safety
    /// As [`GemmStep::run`].
    pub(crate) unsafe fn run(&self, context: &Context<'_>) {
        // SAFETY: the caller's promise is the same; tasks of a row program have row positions of their own.
        unsafe {
            match self {
                Self::Gemm32(step) => step.run::<f32>(context),
                Self::Gemm64(step) => step.run::<f64>(context),
                Self::Rows(program) => {
                    let rows = program.positions();
                    context.pool.parallel_for(rows.div_ceil(ROW_TASK), &|_, task| {
                        let m = task * ROW_TASK..rows.min((task + 1) * ROW_TASK);
                        program.run::<f32>(context.bases(), 0, m, 0..1, None);
                    });
                }
            }
        }
    }
}

/// Checks that an offset table of this length is affordable, before it is made.
pub(crate) fn table_length(entries: u128) -> Result<usize, CpuError> {
    let entries = u64::try_from(entries).unwrap_or(u64::MAX);
    let needed = bytes_of::<isize>(entries);
    // A table beside the scratch proper: an eighth of its limit.
    if needed > MAX_SCRATCH / 8 {
        return Err(CpuError::ScratchTooLarge { needed, limit: MAX_SCRATCH / 8 });
    }
    Ok(entries as usize)
}
