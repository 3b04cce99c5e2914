//! Stand-ins for a HIP runtime, and compilers for them. For the project's tests only.
//!
//! The executor under test is the shipped one: it opens a shared library with HIP's names, and this crate builds such libraries. The
//! *host* runtime's device memory is the host's memory and its kernels are C++ ([`HostCompiler`]); the *cuda* runtime runs the same kernel
//! texts on an NVIDIA GPU ([`NvrtcCompiler`]). No AMD device takes part in either.

pub mod build;
mod host_compiler;
mod nvrtc;
pub mod problems;
pub mod sweep;

pub use host_compiler::HostCompiler;
pub use nvrtc::{NvrtcCompiler, OpenNvrtcError};
