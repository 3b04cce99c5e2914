//! Where plans execute.

use hipplan_serialize::{AlignedBytes, Target};

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
pub const WORKSPACE_ALIGN: usize = 64;

/// Memory for the tensors between nodes, reused from call to call.
#[derive(Debug, Default)]
pub struct Workspace(AlignedBytes);

impl Workspace {
    /// A workspace of so many bytes.
    pub fn new(bytes: u64) -> Self {
        let mut memory = AlignedBytes::new();
        memory.resize(usize::try_from(bytes).unwrap_or(usize::MAX), 0);
        Self(memory)
    }

    /// The memory.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.0
    }
}
