//! A real MIOpen without a GPU: the sysroot, its stand-ins, and programs run inside it; for the project's tests only.
//!
//! [`Sysroot`] is a folder with Debian's MIOpen, its driver and its tests, made by `scripts/miopen-sysroot`, together with the host HIP
//! runtime and a stand-in for the compiler that MIOpen runs. [`Program`] runs something inside it. MIOpen's naive convolutions are simulated,
//! all its other kernels are missing, so that numbers are real and come from one family of solutions.

pub mod callgrind;
pub mod filled;
pub mod split;

mod driver;
mod gtest;
mod program;
mod sysroot;

pub use driver::{DriverRun, Verdict};
pub use gtest::{CaseVerdict, GtestRun};
pub use program::{Counts, Device, NaiveKernels, Output, Program, ProgramError};
pub use sysroot::{CompileError, Language, Sysroot, SysrootError};
