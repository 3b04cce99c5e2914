//! The CPU device: programs of the `cpu` provider, checked, prepared and run.
//!
//! A [`CpuProgram`] is plain data and may come from a hostile payload: [`Executable::prepare`] checks all of it.
//! [`Executable::run`] then allocates nothing, takes no lock but to wake or await idle threads, and gives the same bits
//! for any number of threads. What each operation computes stands in `docs/operations.md`.

mod alias;
mod chain;
mod conv;
mod element;
mod error;
mod executable;
mod gemm;
mod kernel;
mod layout;
mod matmul;
mod pack;
mod pointwise;
pub mod pool;
pub mod program;
mod rows;
mod scratch;
mod stage;
mod steps;
#[cfg(test)]
mod tests;

pub use error::CpuError;
pub use executable::Executable;
pub use pool::ThreadPool;
pub use program::{Conv, CpuProgram, Operand, Place, Pointwise, Step, StepOp, TensorSlot};
