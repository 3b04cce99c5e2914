//! Memory for the tensors between nodes.

use crate::hip::DeviceMemory;
use crate::host_memory::{ALIGN, HostMemory};
use crate::{ExecError, MemorySpace};
use std::marker::PhantomData;

/// Alignment in bytes that a workspace in host memory must have.
pub const WORKSPACE_ALIGN: usize = ALIGN;
/// Alignment in bytes that a workspace on a HIP device must have: programs place tensors at multiples of it.
pub const HIP_WORKSPACE_ALIGN: usize = 256;

/// Host memory for the tensors between nodes, reused from call to call: an execution on the CPU device has finished with it when it returns.
///
/// On a HIP device, [`DeviceMemory`] takes its place. That is in use until the stream has come so far: executions on one stream may share it,
/// two streams at once may not.
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

/// The workspace of one execution: borrowed memory of some device. On a HIP device the execution uses it until its stream has come so far,
/// which may be after the borrow.
#[derive(Debug)]
pub struct WorkspaceRef<'w> {
    ptr: *mut u8,
    bytes: u64,
    space: MemorySpace,
    memory: PhantomData<&'w mut [u8]>,
}

impl WorkspaceRef<'_> {
    /// A workspace as C callers give it: `bytes` bytes at `ptr`, which may be null where there are none.
    ///
    /// # Safety
    /// As long as the value is used, and until the executions that it is given to have finished, these are bytes of memory of that
    /// space which nothing else accesses.
    pub unsafe fn from_raw(ptr: *mut u8, bytes: u64, space: MemorySpace) -> Self {
        Self { ptr, bytes, space, memory: PhantomData }
    }

    /// Address of the first byte.
    pub fn as_ptr(&self) -> *mut u8 {
        self.ptr
    }

    /// Its bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whose memory it is.
    pub fn space(&self) -> MemorySpace {
        self.space
    }

    /// Alignment in bytes that a workspace in this kind of memory must have.
    pub fn align(space: MemorySpace) -> usize {
        match space {
            MemorySpace::Host => WORKSPACE_ALIGN,
            MemorySpace::Hip { .. } => HIP_WORKSPACE_ALIGN,
        }
    }

    pub(crate) fn check(&self, bytes: u64, space: MemorySpace) -> Result<(), ExecError> {
        // Too small comes first: `&mut []` is no workspace rather than one in host memory.
        if self.bytes < bytes {
            return Err(ExecError::WorkspaceSize { found: self.bytes, expected: bytes });
        }
        if self.space != space {
            return Err(ExecError::WorkspaceMemory { found: self.space, expected: space });
        }
        let align = Self::align(space);
        if !(self.ptr as usize).is_multiple_of(align) {
            return Err(ExecError::WorkspaceAlignment { expected: align as u64 });
        }
        Ok(())
    }
}

impl<'w> From<&'w mut [u8]> for WorkspaceRef<'w> {
    fn from(memory: &'w mut [u8]) -> Self {
        Self { ptr: memory.as_mut_ptr(), bytes: memory.len() as u64, space: MemorySpace::Host, memory: PhantomData }
    }
}

/// So that `&mut []` is a workspace.
impl<'w, const N: usize> From<&'w mut [u8; N]> for WorkspaceRef<'w> {
    fn from(memory: &'w mut [u8; N]) -> Self {
        memory.as_mut_slice().into()
    }
}

impl<'w> From<&'w mut Workspace> for WorkspaceRef<'w> {
    fn from(workspace: &'w mut Workspace) -> Self {
        workspace.as_mut_slice().into()
    }
}

impl<'w> From<&'w mut DeviceMemory> for WorkspaceRef<'w> {
    fn from(memory: &'w mut DeviceMemory) -> Self {
        Self { ptr: memory.as_ptr(), bytes: memory.bytes(), space: memory.device().memory_space(), memory: PhantomData }
    }
}
