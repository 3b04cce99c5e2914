//! The end of the process: a plugin's own statics go then, and nothing is given back to it.

use std::sync::atomic::{AtomicBool, Ordering};

static EXITING: AtomicBool = AtomicBool::new(false);

/// The process has begun to exit. The destructors of the main thread's own values come before.
pub(super) fn has_begun() -> bool {
    EXITING.load(Ordering::Relaxed)
}

/// To be called when a library has been loaded: handlers and destructors of statics run in reverse order, so this handler comes before those of
/// the library, after which its functions find nothing any more.
pub(super) fn after_load() {
    #[cfg(unix)]
    {
        extern "C" fn at_exit() {
            EXITING.store(true, Ordering::Relaxed);
        }
        // SAFETY: the handler stores to an atomic. If it cannot be registered, for want of memory, contexts in statics are given back late,
        // as they would be without it.
        unsafe { libc::atexit(at_exit) };
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_process_that_runs_is_not_exiting() {
        super::after_load();
        assert!(!super::has_begun());
    }
}
