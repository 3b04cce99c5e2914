//! Why HIP, or a HIP device, cannot be used.

use super::code::HipCode;
use std::fmt;

/// A HIP call that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HipFailure {
    /// Name of the function.
    pub call: &'static str,
    /// What it returned.
    pub code: HipCode,
    /// Name of the code: HIP's own, also for codes that only the runtime knows.
    pub name: &'static str,
}

impl fmt::Display for HipFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed with {} (code {})", self.call, self.name, self.code.0)
    }
}

/// Why a library is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadFailure {
    /// It cannot be opened; the loader's message.
    Open(String),
    /// It lacks functions that are needed.
    Symbols(Vec<&'static str>),
}

/// A library that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadAttempt {
    /// Its name or path.
    pub path: String,
    /// Why it is not used.
    pub reason: LoadFailure,
}

impl fmt::Display for LoadAttempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reason {
            // The system's message starts with the path.
            LoadFailure::Open(reason) if reason.starts_with(&self.path) => f.write_str(reason),
            LoadFailure::Open(reason) => write!(f, "{}: {reason}", self.path),
            LoadFailure::Symbols(missing) => {
                write!(f, "{}: it is no HIP runtime of version 5.2 or later, it lacks {}", self.path, missing.join(", "))
            }
        }
    }
}

/// Why HIP, or a HIP device, cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the message of each variant says what its fields are")]
pub enum HipError {
    /// No library is a HIP runtime.
    #[error(
        "no HIP runtime can be loaded ({}); install ROCm's HIP runtime, or name its library in HIPPLAN_HIP_LIBRARY",
        .tried.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    )]
    Library { tried: Vec<LoadAttempt> },
    /// The runtime finds no device.
    #[error("the HIP runtime {library} finds no device: {failure}; {}", .failure.code.advice())]
    NoDevice { library: String, failure: HipFailure },
    /// There is no device of this number.
    #[error("there is no HIP device {ordinal}, the runtime {library} has {count}; they are numbered from 0")]
    Ordinal { ordinal: u32, library: String, count: u32 },
    /// The device's architecture names no target.
    #[error("HIP device {ordinal} reports the architecture {found:?}: {reason}; plans cannot be chosen for it")]
    Arch { ordinal: u32, found: String, reason: String },
    /// The device has not so much memory.
    #[error("HIP device {ordinal} cannot give {bytes} bytes{}: {failure}; {}", Free(*.memory), .failure.code.advice())]
    OutOfMemory { ordinal: u32, bytes: u64, memory: Option<(u64, u64)>, failure: HipFailure },
    /// A call failed.
    #[error("HIP device {ordinal}: {doing}: {failure}{}", Advice(.failure.code))]
    Call { ordinal: u32, doing: String, failure: HipFailure },
    /// The device failed, now or earlier, so that it does nothing any more in this process.
    #[error("HIP device {ordinal} is lost to this process since {failure}; start a new process, its memory and streams are gone")]
    DeviceLost { ordinal: u32, failure: HipFailure },
    /// The process was forked after HIP had been loaded.
    #[error("this process was made by fork after its parent had loaded HIP, which does not survive that; fork first, or start a program")]
    Forked,
    /// Bytes outside device memory.
    #[error("{bytes} bytes from byte {offset} are not within the {size} bytes of device memory")]
    Range { offset: u64, bytes: u64, size: u64 },
    /// Handles of different devices where one is needed.
    #[error("{what} is of HIP device {found}, expected device {expected}")]
    OtherDevice { what: &'static str, found: u32, expected: u32 },
    /// A code object that no AMD GPU can execute.
    #[error("code object {hash}: {reason}; compile the graph again for the target of the device")]
    CodeObject { hash: String, reason: String },
}

struct Free(Option<(u64, u64)>);

impl fmt::Display for Free {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some((free, total)) => write!(f, " ({free} of its {total} are free)"),
            None => Ok(()),
        }
    }
}

struct Advice(HipCode);

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.advice() {
            "" => Ok(()),
            advice => write!(f, "; {advice}"),
        }
    }
}
