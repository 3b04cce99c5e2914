//! Handles: each thread has its own, by plugin, device and stream, made at their first use.
//!
//! A handle that a thread has no use for goes to a list of the process, from which others take it; it is not destroyed, because contexts that were
//! made with it may point into it. So there are as many handles as were in use at once, and a few more. No plugin is called when a thread ends.

use super::call::{Library, PluginId, RawHandle};
use super::error::PluginError;
use super::exit;
use super::float_state::FloatState;
use crate::hip::{self, CurrentDevice, HipError};
use crate::lock::lock;
use crate::memory_space::SpaceKey;
use crate::{Device, Stream};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::c_void;
use std::sync::Mutex;

/// Most handles that a thread keeps; streams come and go.
const MAX_HANDLES: usize = 64;
/// Idle handles of a plugin and a device above which an old one is put on a new stream in place of making another.
const MAX_IDLE: usize = 16;

/// A stream as a plugin takes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct PluginStream {
    key: StreamKey,
    raw: *mut c_void,
}

/// Which stream it is. The address alone does not tell: a new stream may get that of one that is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StreamKey {
    /// [`DEFAULT`](Self::DEFAULT), or the number of a [`HipStream`](hip::HipStream), or [`RAW`](Self::RAW).
    number: u64,
    address: usize,
}

impl StreamKey {
    const DEFAULT: Self = Self { number: 0, address: 0 };
    /// Of streams that somebody else made: whether it is still that stream, nobody knows.
    const RAW: u64 = u64::MAX;
    /// Of no stream: what the handle is on is not known.
    const UNKNOWN: Self = Self { number: u64::MAX - 1, address: 0 };
}

impl PluginStream {
    /// The device's own.
    pub(super) const DEFAULT: Self = Self { key: StreamKey::DEFAULT, raw: std::ptr::null_mut() };

    #[inline]
    pub(super) fn of(stream: Stream<'_>) -> Self {
        let (number, raw) = match stream {
            Stream::Default => return Self::DEFAULT,
            Stream::Hip(stream) => (stream.number(), stream.as_ptr()),
            Stream::RawHip(stream) => (StreamKey::RAW, stream.as_ptr()),
        };
        Self { key: StreamKey { number, address: raw.addr() }, raw }
    }
}

/// What a handle is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Purpose {
    plugin: PluginId,
    space: SpaceKey,
    stream: StreamKey,
}

/// The handles of the process that no thread has, and the values of all.
struct Registry {
    /// No two handles of a plugin have one value, or a call with one would move the executions of the other.
    values: BTreeSet<(PluginId, usize)>,
    /// The oldest first.
    idle: Vec<(Purpose, RawHandle)>,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry { values: BTreeSet::new(), idle: Vec::new() });

impl Registry {
    /// An idle handle that is on the stream already.
    fn take(&mut self, purpose: Purpose) -> Option<RawHandle> {
        let at = self.idle.iter().position(|(idle, _)| *idle == purpose)?;
        Some(self.idle.remove(at).1)
    }

    /// The oldest idle handle of a plugin and a device, if there are many.
    fn take_old(&mut self, purpose: Purpose) -> Option<RawHandle> {
        let is_like = |(idle, _): &&(Purpose, RawHandle)| idle.plugin == purpose.plugin && idle.space == purpose.space;
        if self.idle.iter().filter(is_like).count() < MAX_IDLE {
            return None;
        }
        let at = self.idle.iter().position(|idle| is_like(&idle))?;
        Some(self.idle.remove(at).1)
    }
}

/// A handle of this thread.
struct Pooled {
    purpose: Purpose,
    handle: RawHandle,
    /// A call is using it. What the plugin logs meanwhile may lead to another call.
    is_busy: bool,
    /// When it was used last, of the pool's uses.
    used: u64,
}

#[derive(Default)]
struct Pool {
    handles: Vec<Pooled>,
    uses: u64,
}

impl Pool {
    /// A handle for the purpose, busy from now on.
    fn take(&mut self, purpose: Purpose) -> Option<RawHandle> {
        self.uses = self.uses.wrapping_add(1);
        let pooled = self.handles.iter_mut().find(|p| !p.is_busy && p.purpose == purpose)?;
        (pooled.is_busy, pooled.used) = (true, self.uses);
        Some(pooled.handle)
    }

    /// Keeps a busy handle, and gives the one that made room for it.
    fn keep(&mut self, purpose: Purpose, handle: RawHandle) -> Option<Pooled> {
        let oldest = self.handles.iter().enumerate().filter(|(_, p)| !p.is_busy).min_by_key(|(_, p)| p.used).map(|(at, _)| at);
        let evicted = oldest.filter(|_| self.handles.len() >= MAX_HANDLES).map(|at| self.handles.swap_remove(at));
        self.handles.push(Pooled { purpose, handle, is_busy: true, used: self.uses });
        evicted
    }

    /// Notes that a handle is not busy any more. Not, if the pool does not have it.
    fn release(&mut self, plugin: PluginId, handle: RawHandle) -> bool {
        let found = self.handles.iter_mut().find(|p| p.handle == handle && p.purpose.plugin == plugin);
        found.map(|pooled| pooled.is_busy = false).is_some()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // A busy one is given back by its call.
        lock(&REGISTRY).idle.extend(self.handles.drain(..).filter(|p| !p.is_busy).map(|p| (p.purpose, p.handle)));
    }
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
    !exit::has_begun()
        && match device {
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

/// A handle for one call; nothing else uses it meanwhile.
struct Lease {
    purpose: Purpose,
    handle: RawHandle,
}

impl Drop for Lease {
    fn drop(&mut self) {
        let (plugin, handle) = (self.purpose.plugin, self.handle);
        // The pool is gone when the thread ends, and then the call is one of a destructor of the thread's own values.
        let is_kept = POOL.try_with(|pool| pool.borrow_mut().release(plugin, handle)).unwrap_or(false);
        if !is_kept {
            lock(&REGISTRY).idle.push((self.purpose, handle));
        }
    }
}

/// Calls the plugin with the thread's handle for a device and a stream, and with the device current.
///
/// # Errors
/// No handle can be made, or what `call` reports.
pub(super) fn with_handle<T>(
    library: &Library,
    device: &Device,
    stream: PluginStream,
    call: impl FnOnce(RawHandle) -> Result<T, PluginError>,
) -> Result<T, PluginError> {
    let _current = enter(device)?;
    let _state = FloatState::keep();
    let purpose = Purpose { plugin: library.id(), space: space_key(device), stream: stream.key };
    let lease = match POOL.try_with(|pool| pool.borrow_mut().take(purpose)) {
        Ok(Some(handle)) => Lease { purpose, handle },
        _ => acquire(library, device, purpose, stream)?,
    };
    if stream.key.number == StreamKey::RAW {
        // SAFETY: the lease has the handle for itself; who made the stream's value promised that it is one, of this device.
        unsafe { library.set_stream(lease.handle, stream.raw) }?;
    }
    call(lease.handle)
}

/// A handle that the thread did not have, kept in its pool unless the thread ends.
#[cold]
fn acquire(library: &Library, device: &Device, purpose: Purpose, stream: PluginStream) -> Result<Lease, PluginError> {
    // Two steps: a plugin is not called under the lock.
    let (ready, old) = {
        let mut registry = lock(&REGISTRY);
        let ready = registry.take(purpose);
        let old = if ready.is_none() { registry.take_old(purpose) } else { None };
        (ready, old)
    };
    let handle = match (ready, old) {
        (Some(handle), _) => handle,
        (None, Some(handle)) => move_to(library, device, purpose, stream, handle)?,
        (None, None) => create(library, purpose, stream)?,
    };
    let evicted = POOL.try_with(|pool| pool.borrow_mut().keep(purpose, handle));
    if let Ok(Some(evicted)) = evicted {
        lock(&REGISTRY).idle.push((evicted.purpose, evicted.handle));
    }
    Ok(Lease { purpose, handle })
}

/// Puts an idle handle on another stream.
fn move_to(
    library: &Library,
    device: &Device,
    purpose: Purpose,
    stream: PluginStream,
    handle: RawHandle,
) -> Result<RawHandle, PluginError> {
    // What the handle has of its own may be in use on the stream before.
    synchronize(device);
    // SAFETY: the handle is of this plugin and idle. An execution is put on a stream that its caller keeps so long, as `Stream` has it.
    match unsafe { library.set_stream(handle, stream.raw) } {
        Ok(()) => Ok(handle),
        Err(error) => {
            lock(&REGISTRY).idle.push((Purpose { stream: StreamKey::UNKNOWN, ..purpose }, handle));
            Err(error)
        }
    }
}

fn create(library: &Library, purpose: Purpose, stream: PluginStream) -> Result<RawHandle, PluginError> {
    let handle = library.create_handle()?;
    let value = (purpose.plugin, handle.address());
    if !lock(&REGISTRY).values.insert(value) {
        return Err(library.handle_twice());
    }
    // SAFETY: the handle is of this plugin, and nothing else has it. Of the stream, as in `move_to`.
    unsafe { library.set_stream(handle, stream.raw) }.inspect_err(|_| {
        // The plugin may use the address again as soon as it is free.
        lock(&REGISTRY).values.remove(&value);
        // SAFETY: the handle was made above; nothing has been made with it.
        unsafe { library.destroy_handle(handle) };
    })?;
    Ok(handle)
}

fn space_key(device: &Device) -> SpaceKey {
    match device {
        Device::Cpu => SpaceKey::of(crate::MemorySpace::Host),
        Device::Hip(device) => device.space_key(),
    }
}
