//! One of the copies of a bound plan, and an execution on it. Unsafe: what C binds is believed to be what the header says.

use crate::failure::Failure;
use crate::shapes::Shapes;
use crate::types::{HIPPLAN_EXECUTE_OVERRIDE, hipplan_binding_t};
use hipplan_exec::hip::HipEvent;
use hipplan_exec::{BoundPlan, Device, RawHipStream, Stream, VariantPack, WorkspaceRef};
use std::ffi::c_void;

/// Entries that a pack has room for beside one for each tensor of the plan: for tensors that it does not know.
const SPARE: usize = 16;

/// An execution, as C asks for it.
pub(crate) struct Call {
    pub(crate) bindings: *const hipplan_binding_t,
    pub(crate) count: usize,
    pub(crate) workspace: *mut c_void,
    pub(crate) workspace_size: usize,
    pub(crate) stream: *mut c_void,
    pub(crate) flags: u32,
    pub(crate) shapes: Shapes,
}

/// A bound plan with what its executions reuse.
#[derive(Debug)]
pub(crate) struct Lane {
    plan: BoundPlan,
    /// Empty but during an execution: pointers are not kept.
    pack: VariantPack<'static>,
    capacity: usize,
}

/// Before and after.
pub(crate) type Events = (HipEvent, HipEvent);

// SAFETY: a pack holds pointers during an execution only, and the executing thread has the lane for itself.
unsafe impl Send for Lane {}

impl Lane {
    pub(crate) fn new(plan: BoundPlan, tensors: usize) -> Self {
        let capacity = tensors.saturating_add(SPARE);
        Self { plan, pack: VariantPack::with_capacity(capacity), capacity }
    }

    pub(crate) fn plan(&self) -> &BoundPlan {
        &self.plan
    }

    /// Executes.
    ///
    /// # Safety
    /// `count` bindings can be read, and each points to what the header says of it; the shapes are of [`Shapes::put`]; the workspace has so many bytes of the device's memory,
    /// which nothing else uses until the execution has finished; the stream is null or one of the device.
    #[inline]
    pub(crate) unsafe fn execute(&mut self, device: &Device, call: &Call) -> Result<(), Failure> {
        // SAFETY: by the caller's promise.
        unsafe { self.fill(call) };
        // SAFETY: as above.
        if let Err(failure) = unsafe { call.shapes.put(&mut self.pack, call.count) } {
            self.pack.clear();
            return Err(failure);
        }
        let space = self.plan.memory_space();
        // SAFETY: by the caller's promise.
        let workspace = unsafe { WorkspaceRef::from_raw(call.workspace.cast(), call.workspace_size as u64, space) };
        let executed = match stream(device, call.stream) {
            Ok(stream) => self.plan.execute(&self.pack, workspace, stream).map_err(Failure::from),
            Err(failure) => Err(failure),
        };
        self.pack.clear();
        executed
    }

    /// Executes with an event before and one behind. Waits for nothing.
    ///
    /// # Safety
    /// As of [`execute`](Self::execute).
    pub(crate) unsafe fn execute_between(&mut self, device: &Device, call: &Call, (before, after): &Events) -> Result<(), Failure> {
        before.record(stream(device, call.stream)?)?;
        // SAFETY: by the caller's promise.
        unsafe { self.execute(device, call) }?;
        Ok(after.record(stream(device, call.stream)?)?)
    }

    /// Fills the pack, which allocates nothing unless the caller binds the same tensors again and again.
    ///
    /// # Safety
    /// As of [`execute`](Self::execute).
    #[inline]
    unsafe fn fill(&mut self, call: &Call) {
        let overrides = call.flags & HIPPLAN_EXECUTE_OVERRIDE != 0;
        let is_large = call.count > self.capacity;
        self.pack.clear();
        for i in 0..call.count {
            // SAFETY: `i` is below the count; nothing is said of the alignment.
            let hipplan_binding_t { uid, pointer } = unsafe { call.bindings.add(i).read_unaligned() };
            // Tensors that the plan does not know are inert, and would only take room.
            if is_large && self.plan.span_bytes(uid).is_none() {
                continue;
            }
            // SAFETY: the pointer is what the header says, by the caller's promise. The pack is emptied before the call returns; on an
            // asynchronous device the caller keeps the memory until the stream has come so far.
            unsafe {
                if overrides {
                    self.pack.raw_override(uid, pointer);
                } else {
                    self.pack.raw(uid, pointer);
                }
            }
        }
    }
}

/// The caller's stream. On the CPU there is none.
#[inline]
fn stream(device: &Device, raw: *mut c_void) -> Result<Stream<'static>, Failure> {
    match device {
        Device::Hip(_) if !raw.is_null() => {
            // SAFETY: `execute` was promised that it is a stream of the device, and it is used during the call only.
            Ok(Stream::RawHip(unsafe { RawHipStream::new(raw) }))
        }
        Device::Cpu if !raw.is_null() => Err(Failure::argument("a stream was given, and the device cpu has none: it must be NULL")),
        _ => Ok(Stream::Default),
    }
}
