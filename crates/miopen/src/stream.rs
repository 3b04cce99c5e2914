//! What is asked of HIP itself, which the process has loaded with MIOpen: this library does not link it.

use hipplan_miopen_abi::types::AcceleratorQueue;
use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

type IsCapturing = unsafe extern "C" fn(stream: AcceleratorQueue, status: *mut c_int) -> c_int;
type GetDevice = unsafe extern "C" fn(ordinal: *mut c_int) -> c_int;

/// The loader's handle of the wrapper.
static WRAPPER: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// The wrapper, as the loader knows it: what MIOpen depends on is found from it, also in a program that has loaded MIOpen for itself alone,
/// as interpreters do.
pub fn set_wrapper(handle: *mut c_void) {
    WRAPPER.store(handle, Ordering::Release);
}

/// A function of the process's HIP.
fn function(name: &CStr) -> *mut c_void {
    // SAFETY: a name.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    let wrapper = WRAPPER.load(Ordering::Acquire);
    if !found.is_null() || wrapper.is_null() {
        return found;
    }
    // SAFETY: a library that is never closed, and a name.
    unsafe { libc::dlsym(wrapper, name.as_ptr()) }
}

/// Whether work given to the stream is recorded into a graph and not done, so that nothing may be loaded or allocated now. A HIP that
/// cannot be asked does not capture.
pub fn is_capturing(stream: AcceleratorQueue) -> bool {
    static FUNCTION: OnceLock<Option<IsCapturing>> = OnceLock::new();
    // SAFETY: null is none, and anything else is HIP's function.
    let function =
        FUNCTION.get_or_init(|| unsafe { std::mem::transmute::<*mut c_void, Option<IsCapturing>>(function(c"hipStreamIsCapturing")) });
    let Some(function) = function else { return false };
    let mut found = 0;
    // SAFETY: the caller's stream, and a place for the answer.
    let failed = unsafe { function(stream, &raw mut found) } != 0;
    // hipStreamCaptureStatusNone is 0. What cannot be told is not risked.
    failed || found != 0
}

/// The calling thread's current device, if HIP can be asked and knows.
pub fn current_device() -> Option<i32> {
    static FUNCTION: OnceLock<Option<GetDevice>> = OnceLock::new();
    // SAFETY: null is none, and anything else is HIP's function.
    let function = (*FUNCTION.get_or_init(|| unsafe { std::mem::transmute::<*mut c_void, Option<GetDevice>>(function(c"hipGetDevice")) }))?;
    let mut ordinal = -1;
    // SAFETY: a place for the answer.
    (unsafe { function(&raw mut ordinal) } == 0 && ordinal >= 0).then_some(ordinal)
}
