//! The compiling half of the `hip` provider: kernels for AMD GPUs, compiled on any machine.

pub mod compiler;
