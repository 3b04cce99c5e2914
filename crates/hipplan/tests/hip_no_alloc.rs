//! After bind, executing on a HIP device allocates nothing.

#[path = "hip/support.rs"]
mod support;

use hipplan::hip::HipStream;
use hipplan::{Stream, VariantPack};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};
use support::{Buffers, Fake, SCALAR, Stored, X, Y, program_with_workspace, runtime_graph};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is handed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as the caller promised.
        unsafe { System.realloc(ptr, layout, new_size) }
    }
}

#[global_allocator]
static GLOBAL: Counting = Counting;

/// One test, so that no other thread of the test program allocates meanwhile. The fake runtime allocates in C, which is not counted.
#[test]
fn execute_allocates_nothing() {
    let fake = Fake::new(&["COUNT=2"]);
    let device = fake.device(1);
    let mut plan = Stored::new(&device, runtime_graph(), program_with_workspace()).bind().expect("bound");
    let mut buffers = Buffers::new(&device, &plan);
    let stream = HipStream::new(&device).expect("a stream");
    let mut pack = VariantPack::with_capacity(3);
    pack.device_input(X, &buffers.x).device_output(Y, &mut buffers.y).scalar(SCALAR, 1.0_f32);
    let before = ALLOCATIONS.load(Ordering::SeqCst);
    for stream in [Stream::Default, Stream::Hip(&stream)] {
        for _ in 0..3 {
            plan.execute(&pack, &mut buffers.workspace, stream).expect("executed");
        }
    }
    assert_eq!(ALLOCATIONS.load(Ordering::SeqCst) - before, 0);
}
