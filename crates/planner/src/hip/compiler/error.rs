//! Why a kernel was not compiled.

use super::check::Violation;
use hipplan_serialize::code_object::CodeObjectError;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What was compiled, for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Identity of the compiler.
    pub compiler: String,
    /// Name of the kernel.
    pub kernel: String,
    /// The target.
    pub target: String,
}

impl std::fmt::Display for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} compiling {} for {}", self.compiler, self.kernel, self.target)
    }
}

/// A kernel that was not compiled, or a compiler that cannot be used.
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
    /// A compiler of another crate made no code.
    #[error("{compiler} made no code of kernel {kernel}: {log}")]
    Failed {
        /// Identity of the compiler.
        compiler: String,
        /// Name of the kernel.
        kernel: String,
        /// What it said.
        log: String,
    },
    /// No compiler was found.
    #[error("no {wanted} was found ({}); {advice}", .tried.join("; "))]
    Missing {
        /// What was looked for.
        wanted: &'static str,
        /// What was tried, and why it will not do.
        tried: Vec<String>,
        /// What to do.
        advice: &'static str,
    },
    /// The compiler that was named cannot be used.
    #[error("{} cannot be used: {reason}", .path.display())]
    Unusable {
        /// What was named.
        path: PathBuf,
        /// Why not, and what to do.
        reason: String,
    },
    /// A program did not start.
    #[error("{} did not start: {source}", .program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A private folder for the compiler could not be made, written or read.
    #[error("{what} in the folder for temporary files: {source}; is it full, or not writable? TMPDIR names another")]
    Files {
        /// What was done.
        what: &'static str,
        /// What the system says.
        source: std::io::Error,
    },
    /// The compiler says that it succeeded, and wrote no file.
    #[error("{job} succeeded, but left {found} where its code should be: it is no compiler that works")]
    NoOutput {
        /// What was compiled.
        job: Box<Job>,
        /// What is there instead.
        found: &'static str,
    },
    /// The compiler refuses the text.
    #[error("{job} ended with {code}: {message}")]
    Refused {
        /// What was compiled.
        job: Box<Job>,
        /// Its exit code, or the compiler's own error code.
        code: i32,
        /// The first lines of what it said.
        message: String,
    },
    /// The compiler crashed.
    #[error("{job} crashed ({how}): {message}")]
    Crashed {
        /// What was compiled.
        job: Box<Job>,
        /// The signal that ended it, or how it says that it crashed.
        how: String,
        /// The first lines of what it said.
        message: String,
    },
    /// The compiler did not come to an end.
    #[error("{job} was stopped after {} s: it hangs, or the limit is too low for this machine", .limit.as_secs_f64())]
    TimedOut {
        /// What was compiled.
        job: Box<Job>,
        /// The limit.
        limit: Duration,
    },
    /// The compiler wrote without end, or nearly so.
    #[error("{job} wrote more than {limit} bytes")]
    TooMuchOutput {
        /// What was compiled.
        job: Box<Job>,
        /// The limit.
        limit: u64,
    },
    /// What the compiler made is no code object.
    #[error("{job} made what is not a code object: {source}")]
    NotACodeObject {
        /// What was compiled.
        job: Box<Job>,
        /// What is wrong with it.
        source: CodeObjectError,
    },
    /// What the compiler made is not what the source promises.
    #[error("{job} broke a promise of the source: {source}")]
    Promise {
        /// What was compiled.
        job: Box<Job>,
        /// Which.
        source: Violation,
    },
    /// The failure of another thread that compiled the same kernel, for which this one waited.
    #[error(transparent)]
    Shared(Arc<KernelCompileError>),
}
