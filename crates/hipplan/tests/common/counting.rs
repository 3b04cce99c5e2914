//! An allocator that counts, for test programs that include it: it is theirs as a whole.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
/// The first thread of the process has asked, so it is one that is watched.
static FIRST_ASKS: AtomicBool = AtomicBool::new(false);

thread_local! {
    static IS_FIRST: Cell<Option<bool>> = const { Cell::new(None) };
}

/// Whether this is the first thread of the process.
fn is_first() -> bool {
    IS_FIRST.get().unwrap_or_else(|| {
        // SAFETY: two plain system calls without arguments.
        let is_first = unsafe { libc::gettid() == libc::getpid() };
        IS_FIRST.set(Some(is_first));
        is_first
    })
}

/// Counts, unless this is the thread of the harness of tests beside which a test runs: that one allocates when it likes.
fn count() {
    if !is_first() || FIRST_ASKS.load(Ordering::Relaxed) {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: every call is handed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count();
        // SAFETY: as the caller promised.
        unsafe { System.realloc(ptr, layout, new_size) }
    }
}

#[global_allocator]
static GLOBAL: Counting = Counting;

/// Allocations of this process so far: on all threads but its first, and on that one too from when it asks.
pub(crate) fn allocations() -> u64 {
    if is_first() {
        FIRST_ASKS.store(true, Ordering::Relaxed);
    }
    ALLOCATIONS.load(Ordering::SeqCst)
}
