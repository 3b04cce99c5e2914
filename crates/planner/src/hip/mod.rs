//! The compiling half of the `hip` provider: kernels for AMD GPUs, compiled on any machine.

pub mod compiler;
#[allow(dead_code, reason = "called by the generator of kernels, which is not there yet")]
mod pointwise;
