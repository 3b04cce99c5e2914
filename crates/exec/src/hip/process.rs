//! What happens to the process: HIP survives neither `fork` nor the start of `exit`.

use std::sync::atomic::{AtomicBool, Ordering};

/// Set while a HIP runtime is loaded, and once one has been.
static LOADED: AtomicBool = AtomicBool::new(false);
/// Set in a child of a process that had loaded HIP.
static FORKED: AtomicBool = AtomicBool::new(false);
/// Set when the process has begun to exit.
static EXITING: AtomicBool = AtomicBool::new(false);

/// HIP was loaded before this process was forked off: nothing of it may be called.
#[inline]
pub(super) fn is_forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// Handles may be given back: HIP is alive.
pub(crate) fn may_release() -> bool {
    !is_forked() && !EXITING.load(Ordering::Relaxed)
}

/// To be called before a HIP runtime is loaded: from then on, children know. Gives whether one had been loaded already.
pub(super) fn before_load() -> bool {
    #[cfg(unix)]
    {
        extern "C" fn in_child() {
            if LOADED.load(Ordering::Relaxed) {
                FORKED.store(true, Ordering::Relaxed);
            }
        }
        static ONCE: std::sync::Once = std::sync::Once::new();
        ONCE.call_once(|| {
            // SAFETY: the handler reads and stores atomics, which may be done in a forked child. If it cannot be registered, for want of
            // memory, children are not told apart, which is no worse than before.
            unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        });
    }
    LOADED.swap(true, Ordering::Relaxed)
}

/// To be called when nothing was there to be loaded, and nothing had been before.
pub(super) fn nothing_loaded() {
    LOADED.store(false, Ordering::Relaxed);
}

/// To be called when a HIP runtime has been loaded: from the start of exit on, nothing is given back to it. Handlers run in reverse order
/// of registration, so this one comes before those of the runtime, after which it is no longer there.
pub(super) fn after_load() {
    #[cfg(unix)]
    {
        extern "C" fn at_exit() {
            EXITING.store(true, Ordering::Relaxed);
        }
        // SAFETY: the handler stores to an atomic. If it cannot be registered, for want of memory, handles in statics are given back
        // late, which most runtimes bear.
        unsafe { libc::atexit(at_exit) };
    }
}
