//! What is asked of HIP itself, which the process has loaded with MIOpen: this library does not link it.

use hipplan_miopen_abi::types::AcceleratorQueue;
use std::ffi::c_int;
use std::sync::OnceLock;

type IsCapturing = unsafe extern "C" fn(stream: AcceleratorQueue, status: *mut c_int) -> c_int;

/// Whether work given to the stream is recorded into a graph and not done, so that nothing may be loaded or allocated now. A HIP that
/// cannot be asked does not capture.
pub fn is_capturing(stream: AcceleratorQueue) -> bool {
    static FUNCTION: OnceLock<Option<IsCapturing>> = OnceLock::new();
    let function = FUNCTION.get_or_init(|| {
        // SAFETY: a name; null is none, and anything else is HIP's function.
        unsafe {
            let address = libc::dlsym(libc::RTLD_DEFAULT, c"hipStreamIsCapturing".as_ptr());
            std::mem::transmute::<*mut std::ffi::c_void, Option<IsCapturing>>(address)
        }
    });
    let Some(function) = function else { return false };
    let mut found = 0;
    // SAFETY: the caller's stream, and a place for the answer.
    let failed = unsafe { function(stream, &raw mut found) } != 0;
    // hipStreamCaptureStatusNone is 0. What cannot be told is not risked.
    failed || found != 0
}
