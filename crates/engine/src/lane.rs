//! One of the copies of a bound plan, and an execution on it. Unsafe: what the host binds is believed to be what the ABI says.

use crate::failure::Failure;
use crate::overrides::Overrides;
use hipplan_engine_abi::types::DeviceBuffer;
use hipplan_exec::{BoundPlan, MemorySpace, Stream, VariantPack, WORKSPACE_ALIGN, WorkspaceRef};
use std::ffi::c_void;

/// Entries that a pack has room for beside one for each tensor of the plan: for tensors that it does not know.
const SPARE: usize = 16;

/// An execution, as the host asks for it.
#[derive(Debug)]
pub(crate) struct Call<'c> {
    /// As many bytes as the context asks for, or null where it asks for none.
    pub(crate) workspace: *mut c_void,
    pub(crate) buffers: &'c [DeviceBuffer],
    pub(crate) overrides: Overrides,
}

/// A bound plan with what its executions reuse.
#[derive(Debug)]
pub(crate) struct Lane {
    plan: BoundPlan,
    /// Empty but during an execution: pointers are not kept (R16 §4.6).
    pack: VariantPack<'static>,
    capacity: usize,
}

// SAFETY: a pack holds pointers during an execution only, and the executing thread has the lane for itself.
unsafe impl Send for Lane {}

impl Lane {
    pub(crate) fn new(plan: BoundPlan, tensors: usize) -> Self {
        let capacity = tensors.saturating_add(SPARE);
        Self { plan, pack: VariantPack::with_capacity(capacity), capacity }
    }

    pub(crate) fn workspace_size(&self) -> u64 {
        self.plan.workspace_size()
    }

    /// Executes.
    ///
    /// # Safety
    /// Until this returns, each buffer's pointer is what the ABI says: that of a runtime scalar to a readable element of its type, that of any
    /// other tensor of the graph to memory of its whole span that the CPU can address and that nothing else uses where it is written. The
    /// workspace has as many bytes as the context asks for, which nothing else uses. Overrides are as of [`Overrides`].
    pub(crate) unsafe fn execute(&mut self, call: &Call<'_>) -> Result<(), Failure> {
        // SAFETY: by the caller's promise.
        let filled = unsafe { self.fill(call) };
        // SAFETY: as above.
        let executed = filled.and_then(|()| unsafe { self.run(call.workspace) });
        self.pack.clear();
        executed
    }

    /// # Safety
    /// As of [`execute`](Self::execute), and the pack is filled.
    unsafe fn run(&mut self, workspace: *mut c_void) -> Result<(), Failure> {
        let bytes = self.plan.workspace_size();
        let start = match bytes {
            0 => workspace,
            _ if workspace.is_null() => return Err(Failure::bad_param(format!("the workspace is null, and {bytes} bytes are needed"))),
            _ => workspace.wrapping_byte_add(workspace.addr().wrapping_neg() % WORKSPACE_ALIGN),
        };
        // SAFETY: the host was asked for so many bytes more as the start has been moved by at most; the rest by the caller's promise.
        let workspace = unsafe { WorkspaceRef::from_raw(start.cast(), bytes, MemorySpace::Host) };
        Ok(self.plan.execute(&self.pack, workspace, Stream::Default)?)
    }

    /// Fills the pack, which allocates nothing unless the caller binds the same tensors again and again.
    ///
    /// # Safety
    /// As of [`execute`](Self::execute).
    unsafe fn fill(&mut self, call: &Call<'_>) -> Result<(), Failure> {
        let is_large = call.buffers.len() > self.capacity;
        self.pack.clear();
        for &DeviceBuffer { uid, ptr } in call.buffers {
            // Tensors that the plan does not know are inert, and would only take room.
            if is_large && self.plan.span_bytes(uid).is_none() {
                continue;
            }
            // The provider contract of API 1.2.0: an entry of a scalar with a default overrides it (R16 §4.6). Constants stay inert.
            // SAFETY: the pointer is what the ABI says, by the caller's promise. The pack is emptied before the call returns.
            unsafe { self.pack.raw_override(uid, ptr) };
        }
        // SAFETY: by the caller's promise.
        unsafe { call.overrides.add_to(&mut self.pack) }
    }
}
