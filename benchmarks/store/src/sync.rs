//! Whether `fsync` waits for the disk. The benchmark's own definitions stand before those of the C library.

use libc::{SYS_fdatasync, SYS_fsync, c_int, c_long};
use std::sync::atomic::{AtomicBool, Ordering};

static WAITS: AtomicBool = AtomicBool::new(true);

/// From now on, in all of this process.
pub(crate) fn wait_for_the_disk(waits: bool) {
    WAITS.store(waits, Ordering::Relaxed);
}

fn sync(call: c_long, file: c_int) -> c_int {
    if !WAITS.load(Ordering::Relaxed) {
        return 0;
    }
    // SAFETY: the call takes a file's number and touches no memory of ours.
    unsafe { libc::syscall(call, file) as c_int }
}

/// In place of the C library's.
#[unsafe(no_mangle)]
pub extern "C" fn fsync(file: c_int) -> c_int {
    sync(SYS_fsync, file)
}

/// In place of the C library's.
#[unsafe(no_mangle)]
pub extern "C" fn fdatasync(file: c_int) -> c_int {
    sync(SYS_fdatasync, file)
}
