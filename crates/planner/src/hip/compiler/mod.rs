//! From the text of one kernel to a code object, with no GPU at hand.
//!
//! [`Clang`] runs a compiler of the machine, [`Hiprtc`] that of an installed ROCm. Whatever made a code object, [`check`](mod@check) holds it against what the source promises
//! before anybody gets it. [`CachedCompiler`] runs a compiler once for each kernel.

pub mod cache;
pub mod check;
mod child;
pub mod clang;
mod error;
pub mod hiprtc;

pub use cache::CachedCompiler;
pub use clang::Clang;
pub use error::{Job, KernelCompileError};
pub use hiprtc::Hiprtc;

use hipplan_serialize::code_object::CodeObject;
use hipplan_serialize::{AmdTarget, Target};

/// A complete kernel: C++17 text that includes nothing.
///
/// The text defines one `extern "C"` kernel that takes one struct by value, and has no hidden arguments. Its name ends in a hash of the
/// text, so equal names are equal kernels, whatever they were compiled for and by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelSource {
    /// Symbol of the kernel: lower-case letters, digits and underscores.
    pub name: String,
    /// The whole text.
    pub text: String,
    /// Bytes of its one argument, a struct of 8- and 4-byte fields passed by value: the explicit kernarg segment.
    pub kernarg_size: u32,
    /// Threads of a block.
    pub block: u32,
}

/// Compiles kernels for targets that it supports, the same bytes for the same text, target and revision.
pub trait KernelCompiler: Send + Sync {
    /// Name and version, such as `clang 19.1.7`.
    fn identity(&self) -> String;

    /// All that decides the bytes beside text and target: identity, flags. Part of the engine's revision.
    fn revision(&self) -> String;

    /// Whether it compiles for the target.
    ///
    /// # Errors
    /// Why not, and what to do.
    fn supports(&self, target: &Target) -> Result<(), String>;

    /// Compiles a kernel and checks the result against what the source promises.
    ///
    /// # Errors
    /// The compiler is missing, refuses the text, crashes or hangs; or what it made is not what the source promises.
    fn compile(&self, source: &KernelSource, target: &Target) -> Result<Vec<u8>, KernelCompileError>;
}

impl<C: KernelCompiler + ?Sized> KernelCompiler for Box<C> {
    fn identity(&self) -> String {
        (**self).identity()
    }

    fn revision(&self) -> String {
        (**self).revision()
    }

    fn supports(&self, target: &Target) -> Result<(), String> {
        (**self).supports(target)
    }

    fn compile(&self, source: &KernelSource, target: &Target) -> Result<Vec<u8>, KernelCompileError> {
        (**self).compile(source, target)
    }
}

/// Reads what a compiler made and holds it against its source.
fn accept(object: &[u8], source: &KernelSource, target: &AmdTarget, job: impl Fn() -> Box<Job>) -> Result<(), KernelCompileError> {
    let read = CodeObject::read(object).map_err(|source| KernelCompileError::NotACodeObject { job: job(), source })?;
    check::check(&read, source, target).map_err(|source| KernelCompileError::Promise { job: job(), source })
}
