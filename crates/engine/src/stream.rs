//! Waiting for the host's stream, through the HIP library that the process has loaded. Unsafe: a function of another library is called.

use crate::failure::Failure;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW, Symbol};
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

type Synchronize = unsafe extern "C" fn(*mut c_void) -> c_int;

/// SONAMEs of HIP's runtime.
const LIBRARIES: [&str; 4] = ["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"];

/// Waits until what stands on a stream has been done, so that the memory it writes can be read. For null, nothing is waited for: that is what
/// hosts set that have no streams, and one that puts work on HIP's null stream must wait for it by itself. Nothing either where the process has
/// loaded no HIP library, which then made no stream.
///
/// # Safety
/// The stream is null or one that HIP made and that is not destroyed.
pub(crate) unsafe fn wait(stream: *mut c_void) -> Result<(), Failure> {
    if stream.is_null() {
        return Ok(());
    }
    let Some(synchronize) = synchronize()? else { return Ok(()) };
    // SAFETY: the function is HIP's, and the stream is one, by the caller's promise.
    match unsafe { synchronize(stream) } {
        0 => Ok(()),
        code => Err(Failure::internal(format!("hipStreamSynchronize of the handle's stream answered {code}; nothing was executed"))),
    }
}

/// The function of the HIP library that the process has loaded. Of two, either may have made a stream, and takes the other's for an address of
/// its own: that is refused. It is looked for until it is found, and remembered.
fn synchronize() -> Result<Option<Synchronize>, Failure> {
    static FOUND: OnceLock<Synchronize> = OnceLock::new();
    if let Some(found) = FOUND.get() {
        return Ok(Some(*found));
    }
    let mut found: Vec<(&str, Library, Synchronize)> = Vec::new();
    for name in LIBRARIES {
        if let Some((library, synchronize)) = loaded(name)
            // One library may have several of the names.
            && found.iter().all(|(_, _, before)| !std::ptr::fn_addr_eq(*before, synchronize))
        {
            found.push((name, library, synchronize));
        }
    }
    if let [(first, ..), (second, ..), ..] = found.as_slice() {
        return Err(Failure::internal(format!(
            "the process has loaded {first} and {second}, and which of them made the handle's stream cannot be told; load one HIP runtime, or set \
             the null stream and wait for the stream before executing; nothing was executed"
        )));
    }
    Ok(found.pop().map(|(_, library, synchronize)| {
        // Whoever loaded it may close it.
        std::mem::forget(library);
        *FOUND.get_or_init(|| synchronize)
    }))
}

/// A library that the process has loaded under this name, and its function.
fn loaded(name: &str) -> Option<(Library, Synchronize)> {
    // SAFETY: nothing is loaded, so nothing is run.
    let library = unsafe { Library::open(Some(name), libc::RTLD_NOLOAD | RTLD_NOW | RTLD_LOCAL) }.ok()?;
    // SAFETY: HIP's headers declare the function so, in every version.
    let found: Symbol<Synchronize> = unsafe { library.get(b"hipStreamSynchronize\0") }.ok()?;
    let found = *found;
    Some((library, found))
}
