//! Waiting for the host's stream, through the HIP library that the process has loaded. Unsafe: a function of another library is called.

use crate::failure::Failure;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW, Symbol};
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

type Synchronize = unsafe extern "C" fn(*mut c_void) -> c_int;

/// SONAMEs of HIP's runtime, newest first.
const LIBRARIES: [&str; 4] = ["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"];

/// Waits until what stands on a stream has been done, so that the memory it writes can be read. For null, nothing is waited for: that is what
/// hosts set that have no streams. Nothing either where the process has loaded no HIP library, which then made no stream.
///
/// # Safety
/// The stream is null or one that HIP made and that is not destroyed.
pub(crate) unsafe fn wait(stream: *mut c_void) -> Result<(), Failure> {
    if stream.is_null() {
        return Ok(());
    }
    let Some(synchronize) = synchronize() else { return Ok(()) };
    // SAFETY: the function is HIP's, and the stream is one, by the caller's promise.
    match unsafe { synchronize(stream) } {
        0 => Ok(()),
        code => Err(Failure::internal(format!("hipStreamSynchronize of the handle's stream answered {code}; nothing was executed"))),
    }
}

fn synchronize() -> Option<Synchronize> {
    static FOUND: OnceLock<Synchronize> = OnceLock::new();
    if let Some(found) = FOUND.get() {
        return Some(*found);
    }
    LIBRARIES.iter().find_map(|name| loaded(name)).map(|found| *FOUND.get_or_init(|| found))
}

/// The function of a library that the process has loaded under this name.
fn loaded(name: &str) -> Option<Synchronize> {
    // SAFETY: nothing is loaded, so nothing is run.
    let library = unsafe { Library::open(Some(name), libc::RTLD_NOLOAD | RTLD_NOW | RTLD_LOCAL) }.ok()?;
    // SAFETY: HIP's headers declare the function so, in every version.
    let found: Symbol<Synchronize> = unsafe { library.get(b"hipStreamSynchronize\0") }.ok()?;
    let found = *found;
    // Whoever loaded it may close it.
    std::mem::forget(library);
    Some(found)
}
