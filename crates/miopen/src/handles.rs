//! What is known of each MIOpen handle: its device, if it times its calls, and the time of its last forwarded one.
//!
//! Looking up takes no lock and allocates nothing. Handles that nobody destroys (frameworks keep theirs for good) cost their entry and
//! nothing else; entries of destroyed ones are used again, so that there are never more than handles were alive at one time.

use crate::lock::ForkLock;
use crate::{hipplan, private, stream};
use hipplan_miopen_abi::types::Handle;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicUsize, Ordering};

/// Device of a handle of which none is known.
pub const UNKNOWN: i32 = -1;

const ENTRIES: usize = 256;

/// The state of one handle.
#[derive(Debug)]
struct State {
    /// The handle's address; 0 if the entry was never used. Changed only after that handle was destroyed, when nobody may ask for it, and
    /// never back to 0, so that readers need no lock.
    handle: AtomicUsize,
    /// It was not destroyed.
    alive: AtomicBool,
    /// One more than the ordinal, so that unused entries are all zeros and take no room in the file.
    device: AtomicI32,
    profiling: AtomicBool,
    /// The last timed call was forwarded.
    forwarded: AtomicBool,
    /// Milliseconds of it, as bits.
    time: AtomicU32,
    /// What the private library answered at that time, as bits: another answer means that it has run something since.
    native_time: AtomicU32,
}

/// A table with open addressing, and the one to look in when it is full.
#[derive(Debug)]
struct Chunk {
    states: [State; ENTRIES],
    next: AtomicPtr<Chunk>,
}

impl Chunk {
    const fn new() -> Self {
        Self { states: [const { State::new() }; ENTRIES], next: AtomicPtr::new(ptr::null_mut()) }
    }
}

impl State {
    const fn new() -> Self {
        Self {
            handle: AtomicUsize::new(0),
            alive: AtomicBool::new(false),
            device: AtomicI32::new(0),
            profiling: AtomicBool::new(false),
            forwarded: AtomicBool::new(false),
            time: AtomicU32::new(0),
            native_time: AtomicU32::new(0),
        }
    }

    fn device(&self) -> i32 {
        self.device.load(Ordering::Relaxed).saturating_sub(1)
    }

    fn set_device(&self, device: i32) {
        self.device.store(device.max(UNKNOWN).saturating_add(1), Ordering::Relaxed);
    }

    fn reset(&self, alive: bool, device: i32) {
        self.alive.store(alive, Ordering::Relaxed);
        self.profiling.store(false, Ordering::Relaxed);
        self.forwarded.store(false, Ordering::Relaxed);
        self.set_device(device);
    }
}

static FIRST: Chunk = Chunk::new();
/// Entries are added one at a time.
static WRITER: ForkLock<()> = ForkLock::new(());

pub(crate) fn writer() -> &'static ForkLock<()> {
    &WRITER
}

/// Positions of a chunk in the order in which they are tried.
fn probes(handle: usize) -> impl Iterator<Item = usize> {
    // Allocators align to 16; the multiplication spreads the rest.
    let start = (handle >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15_usize) >> 56;
    (0..ENTRIES).map(move |step| start.wrapping_add(step) % ENTRIES)
}

fn find(handle: usize) -> Option<&'static State> {
    if handle == 0 {
        return None;
    }
    let mut chunk = Some(&FIRST);
    while let Some(table) = chunk {
        for at in probes(handle) {
            let state = &table.states[at];
            match state.handle.load(Ordering::Acquire) {
                0 => return None,
                found if found == handle => return Some(state),
                _ => {}
            }
        }
        // SAFETY: chunks are leaked, so a pointer to one stays good.
        chunk = unsafe { table.next.load(Ordering::Acquire).as_ref() };
    }
    None
}

fn find_or_insert(handle: usize) -> Option<&'static State> {
    if handle == 0 {
        return None;
    }
    let _writer = WRITER.lock();
    if let Some(state) = find(handle) {
        state.alive.store(true, Ordering::Relaxed);
        return Some(state);
    }
    let mut table = &FIRST;
    loop {
        for at in probes(handle) {
            let state = &table.states[at];
            if !state.alive.load(Ordering::Relaxed) {
                state.reset(true, UNKNOWN);
                state.handle.store(handle, Ordering::Release);
                return Some(state);
            }
        }
        // SAFETY: as in `find`.
        table = match unsafe { table.next.load(Ordering::Acquire).as_ref() } {
            Some(next) => next,
            None => {
                let next: &'static Chunk = Box::leak(Box::new(Chunk::new()));
                table.next.store(ptr::from_ref(next).cast_mut(), Ordering::Release);
                next
            }
        };
    }
}

/// The calling thread's current device, or [`UNKNOWN`]. `libhipplan.so.0` is asked only where HIP cannot be: a program that never convolves
/// need not load it.
fn current_device() -> i32 {
    if let Some(ordinal) = stream::current_device() {
        return ordinal;
    }
    let mut ordinal = UNKNOWN;
    match hipplan::api() {
        // SAFETY: `ordinal` is written to.
        Ok(api) if unsafe { (api.hip_current_device)(&raw mut ordinal) } == hipplan::status::OK => ordinal,
        _ => UNKNOWN,
    }
}

/// The handle was made, on the calling thread's current device.
pub fn created(handle: Handle) {
    created_on(handle, current_device());
}

fn created_on(handle: Handle, device: i32) {
    if let Some(state) = find_or_insert(handle.addr()) {
        state.reset(true, device);
    }
}

/// The handle is about to be destroyed.
pub fn destroyed(handle: Handle) {
    let _writer = WRITER.lock();
    if let Some(state) = find(handle.addr()) {
        state.reset(false, UNKNOWN);
    }
}

/// The ordinal of the handle's device. A handle made before a wrapper attached, or while the device could not be told, is taken to be on
/// the calling thread's current device from now on. [`UNKNOWN`] if that cannot be told either.
pub fn device(handle: Handle) -> i32 {
    let known = find(handle.addr()).map_or(UNKNOWN, State::device);
    if known != UNKNOWN {
        return known;
    }
    let device = current_device();
    if device != UNKNOWN
        && let Some(state) = find_or_insert(handle.addr())
    {
        state.set_device(device);
    }
    device
}

/// `miopenEnableProfiling` succeeded.
pub fn enable_profiling(handle: Handle, enable: bool) {
    if let Some(state) = find_or_insert(handle.addr()) {
        state.profiling.store(enable, Ordering::Relaxed);
    }
}

/// If the handle's calls are to be timed.
pub fn is_profiling(handle: Handle) -> bool {
    find(handle.addr()).is_some_and(|state| state.profiling.load(Ordering::Relaxed))
}

fn native_time(handle: Handle) -> u32 {
    let mut time = 0.0_f32;
    if let Some(get) = private::get().miopenGetKernelTime {
        // SAFETY: the caller's handle, and `time` is written to.
        unsafe { get(handle, &raw mut time) };
    }
    time.to_bits()
}

/// A forwarded call on the handle took `ms` milliseconds on the device.
pub fn set_kernel_time(handle: Handle, ms: f32) {
    if let Some(state) = find_or_insert(handle.addr()) {
        state.native_time.store(native_time(handle), Ordering::Relaxed);
        state.time.store(ms.to_bits(), Ordering::Relaxed);
        state.forwarded.store(true, Ordering::Release);
    }
}

/// A convolution on the handle was MIOpen's own: its time is the one that counts.
pub fn native_call(handle: Handle) {
    if let Some(state) = find(handle.addr()) {
        state.forwarded.store(false, Ordering::Relaxed);
    }
}

/// Milliseconds of the last call, if it was forwarded and the private library has timed nothing since.
pub fn kernel_time(handle: Handle) -> Option<f32> {
    let state = find(handle.addr())?;
    if !state.forwarded.load(Ordering::Acquire) {
        return None;
    }
    let time = f32::from_bits(state.time.load(Ordering::Relaxed));
    (native_time(handle) == state.native_time.load(Ordering::Relaxed)).then_some(time)
}

#[cfg(test)]
mod tests {
    use super::{Chunk, ENTRIES, FIRST, Handle, Ordering, created_on, destroyed, device};
    use std::ptr::without_provenance_mut;

    fn chunks() -> usize {
        let mut chunk: Option<&Chunk> = Some(&FIRST);
        let mut count = 0;
        while let Some(table) = chunk {
            count += 1;
            // SAFETY: chunks are leaked.
            chunk = unsafe { table.next.load(Ordering::Acquire).as_ref() };
        }
        count
    }

    #[test]
    fn entries_of_destroyed_handles_are_used_again() {
        let handle = |at: usize| -> Handle { without_provenance_mut(0x1000 + 16 * at) };
        for round in 0..40 {
            for at in 0..100 {
                created_on(handle(1000 * round + at), 7);
            }
            for at in 0..100 {
                assert_eq!(device(handle(1000 * round + at)), 7);
                destroyed(handle(1000 * round + at));
            }
        }
        assert_eq!(chunks(), 1);
        for at in 0..2 * ENTRIES {
            created_on(handle(at), 3);
        }
        assert!((0..2 * ENTRIES).all(|at| device(handle(at)) == 3));
        assert_eq!(chunks(), 2);
    }
}
