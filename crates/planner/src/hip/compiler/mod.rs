//! From the text of one kernel to a code object, with no GPU at hand.

use hipplan_serialize::Target;

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

/// A kernel that was not compiled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KernelCompileError {
    /// The target is none of the compiler's.
    #[error("{compiler} does not compile for {target}: {reason}")]
    Target {
        /// Identity of the compiler.
        compiler: String,
        /// The target.
        target: String,
        /// Why not.
        reason: String,
    },
    /// The compiler refused the text, or did not run.
    #[error("{compiler} made no code of kernel {kernel}: {log}")]
    Failed {
        /// Identity of the compiler.
        compiler: String,
        /// Name of the kernel.
        kernel: String,
        /// What it said.
        log: String,
    },
}
