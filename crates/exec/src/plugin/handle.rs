//! Handles: each thread has its own, by plugin, device and stream, made at their first use.

use super::call::{Library, RawHandle};
use super::error::PluginError;
use crate::hip::{self, CurrentDevice, HipError};
use crate::memory_space::SpaceKey;
use crate::{Device, Stream};
use std::cell::RefCell;
use std::ffi::c_void;
use std::sync::Arc;

/// Most handles that a thread keeps; streams come and go.
const MAX_HANDLES: usize = 64;

/// A handle, and what it was made for.
struct Pooled {
    library: Arc<Library>,
    device: Device,
    space: SpaceKey,
    stream: *mut c_void,
    handle: RawHandle,
    /// A call is using it. What the plugin logs meanwhile may lead to another call.
    is_busy: bool,
    /// When it was used last, of the pool's uses.
    used: u64,
}

impl Drop for Pooled {
    fn drop(&mut self) {
        let Ok(_current) = enter(&self.device) else { return };
        if !may_release(&self.device) {
            return;
        }
        // Its owner does not know when a handle goes, and an execution may be under way.
        synchronize(&self.device);
        // SAFETY: the handle is of this plugin. It is out of the pool, and a busy one is not taken out. The stream may be gone by now, so the
        // plugin forgets it first.
        unsafe {
            let _ = self.library.set_stream(self.handle, std::ptr::null_mut());
            self.library.destroy_handle(self.handle);
        }
    }
}

#[derive(Default)]
struct Pool {
    handles: Vec<Pooled>,
    uses: u64,
}

thread_local! {
    static POOL: RefCell<Pool> = RefCell::default();
}

/// Calls with the device current, where it is one of HIP's. HIP may not be called in a forked child, nor anything that uses it.
#[inline]
pub(super) fn enter(device: &Device) -> Result<Option<CurrentDevice>, HipError> {
    match device {
        Device::Cpu => Ok(None),
        Device::Hip(device) => device.make_current().map(Some),
    }
}

/// What a plugin holds for the device may be given back.
pub(super) fn may_release(device: &Device) -> bool {
    match device {
        Device::Cpu => true,
        Device::Hip(_) => hip::may_release(),
    }
}

/// Waits for what is under way on the device.
pub(super) fn synchronize(device: &Device) {
    if let Device::Hip(device) = device
        && let Err(error) = device.synchronize()
    {
        tracing::debug!(target: "hipplan::plugin", %error, "a device is not waited for");
    }
}

/// The stream as a plugin takes it.
pub(super) fn raw_stream(stream: Stream<'_>) -> *mut c_void {
    match stream {
        Stream::Default => std::ptr::null_mut(),
        Stream::Hip(stream) => stream.as_ptr(),
        Stream::RawHip(stream) => stream.as_ptr(),
    }
}

/// Keeps a handle from a second use at once.
struct Busy {
    handle: RawHandle,
    library: *const Library,
}

impl Drop for Busy {
    fn drop(&mut self) {
        // The pool is gone only when the thread ends, and the handle with it.
        let _ = POOL.try_with(|pool| {
            if let Ok(mut pool) = pool.try_borrow_mut()
                && let Some(pooled) =
                    pool.handles.iter_mut().find(|p| p.handle == self.handle && std::ptr::eq(Arc::as_ptr(&p.library), self.library))
            {
                pooled.is_busy = false;
            }
        });
    }
}

/// Calls the plugin with the thread's handle for a device and a stream, and with the device current.
///
/// # Errors
/// No handle can be made, or what `call` reports.
pub(super) fn with_handle<T>(
    library: &Arc<Library>,
    device: &Device,
    stream: *mut c_void,
    call: impl FnOnce(RawHandle) -> Result<T, PluginError>,
) -> Result<T, PluginError> {
    let _current = enter(device)?;
    let space = space_key(device);
    let found = POOL.try_with(|pool| {
        let mut pool = pool.borrow_mut();
        pool.uses = pool.uses.wrapping_add(1);
        let uses = pool.uses;
        let is_it = |p: &&mut Pooled| !p.is_busy && p.stream == stream && p.space == space && Arc::ptr_eq(&p.library, library);
        let pooled = pool.handles.iter_mut().find(is_it)?;
        (pooled.is_busy, pooled.used) = (true, uses);
        Some(pooled.handle)
    });
    let handle = match found {
        Ok(Some(handle)) => handle,
        // Also at the end of the thread, when there is no pool any more: `new_handle` says so.
        _ => new_handle(library, device, space, stream)?,
    };
    let _busy = Busy { handle, library: Arc::as_ptr(library) };
    call(handle)
}

/// A new handle in the pool, already busy.
#[cold]
fn new_handle(library: &Arc<Library>, device: &Device, space: SpaceKey, stream: *mut c_void) -> Result<RawHandle, PluginError> {
    let handle = library.create_handle()?;
    let mut pooled = Pooled { library: library.clone(), device: device.clone(), space, stream, handle, is_busy: true, used: 0 };
    // SAFETY: the handle is of this plugin. An execution is put on a stream that its caller keeps so long, as `Stream` has it.
    unsafe { library.set_stream(handle, stream) }?;
    let thread_ends = || PluginError::ThreadEnds { plugin: library.name.clone() };
    let evicted = POOL
        .try_with(|pool| {
            let mut pool = pool.borrow_mut();
            let oldest = pool.handles.iter().enumerate().filter(|(_, p)| !p.is_busy).min_by_key(|(_, p)| p.used).map(|(at, _)| at);
            let evicted = oldest.filter(|_| pool.handles.len() >= MAX_HANDLES).map(|at| pool.handles.swap_remove(at));
            pooled.used = pool.uses;
            pool.handles.push(pooled);
            evicted
        })
        .map_err(|_| thread_ends())?;
    // Outside the borrow: the plugin may log.
    drop(evicted);
    Ok(handle)
}

fn space_key(device: &Device) -> SpaceKey {
    match device {
        Device::Cpu => SpaceKey::of(crate::MemorySpace::Host),
        Device::Hip(device) => device.space_key(),
    }
}
