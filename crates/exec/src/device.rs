//! Where plans execute.

use crate::ExecError;
use crate::host_memory::{ALIGN, HostMemory};
use hipplan_serialize::Target;

/// A device that plans are bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Device {
    /// This process: buffers are its memory, and an execution has finished when `execute` returns.
    Cpu,
}

impl Device {
    /// Targets whose plans the device runs, best first.
    pub fn targets(&self) -> Vec<Target> {
        match self {
            Self::Cpu => vec![Target::Cpu],
        }
    }
}

/// The queue that an execution is put on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stream {
    /// The device's own. On the CPU device, the calling thread.
    #[default]
    Default,
}

/// Alignment in bytes that a workspace must have.
pub const WORKSPACE_ALIGN: usize = ALIGN;

/// Memory for the tensors between nodes, reused from call to call.
#[derive(Debug, Default)]
pub struct Workspace(HostMemory);

impl Workspace {
    /// A workspace of so many bytes, zeroed. How much a plan asks for is in its file, which may ask for anything.
    ///
    /// # Errors
    /// [`ExecError::OutOfMemory`] when there are not so many.
    pub fn new(bytes: u64) -> Result<Self, ExecError> {
        HostMemory::zeroed(bytes).map(Self).ok_or(ExecError::OutOfMemory { what: "the workspace", bytes })
    }

    /// The memory; it starts at a multiple of [`WORKSPACE_ALIGN`].
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.0
    }
}
