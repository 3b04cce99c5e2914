//! AMD GPUs: what a plan of the `hip` provider holds.

mod program;

pub use program::{ArgumentPatch, HipProgram, HipTensor, KernelEntry, Launch, PatchSource, ScalarType, TensorPlace};
