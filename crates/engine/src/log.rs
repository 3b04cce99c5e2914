//! Log lines, to the host's function. Unsafe: the function is called.
//!
//! Logged are each failure, with the text that the host may also ask for, and each context that is made. Without a function nothing is
//! logged.

use hipplan_engine_abi::status::{SEVERITY_ERROR, SEVERITY_INFO, SEVERITY_WARN, Severity};
use hipplan_engine_abi::types::LoggingCallback;
use std::ffi::CString;
use std::sync::{PoisonError, RwLock};

/// Where lines go, and from which severity on.
#[derive(Clone, Copy)]
struct Sink {
    callback: LoggingCallback,
    level: Severity,
}

static SINK: RwLock<Sink> = RwLock::new(Sink { callback: None, level: SEVERITY_WARN });

/// Sends lines to a function from now on; none stops it.
pub(crate) fn set_callback(callback: LoggingCallback) {
    SINK.write().unwrap_or_else(PoisonError::into_inner).callback = callback;
}

/// Sends lines of this severity and above. A number that is none of the ABI's is taken as it compares.
pub(crate) fn set_level(level: Severity) {
    SINK.write().unwrap_or_else(PoisonError::into_inner).level = level;
}

pub(crate) fn info(text: impl FnOnce() -> String) {
    send(SEVERITY_INFO, text);
}

pub(crate) fn error(text: &str) {
    send(SEVERITY_ERROR, || text.to_owned());
}

fn send(severity: Severity, text: impl FnOnce() -> String) {
    // Copied, so that the function may set another.
    let sink = *SINK.read().unwrap_or_else(PoisonError::into_inner);
    let Some(callback) = sink.callback.filter(|_| severity >= sink.level) else { return };
    let text: Vec<u8> = text().into_bytes().into_iter().map(|b| if b == 0 { b' ' } else { b }).collect();
    if let Ok(text) = CString::new(text) {
        // SAFETY: whoever set the function promised that it may be called from any thread with a severity and a text, and that it does
        // not unwind. The text lives until the call has returned.
        unsafe { callback(severity, text.as_ptr()) }
    }
}
