//! What a host makes first, and sets the stream of.

use crate::object::Kind;
use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, Ordering};

/// What `hipdnnEnginePluginHandle_t` is.
#[derive(Debug, Default)]
pub(crate) struct Handle {
    stream: AtomicPtr<c_void>,
}

impl Kind for Handle {
    const WORD: u64 = u64::from_le_bytes(*b"HPENhndl");
    const NAME: &'static str = "handle";
}

impl Handle {
    /// The stream that was set last, null if none was.
    pub(crate) fn stream(&self) -> *mut c_void {
        self.stream.load(Ordering::Acquire)
    }

    pub(crate) fn set_stream(&self, stream: *mut c_void) {
        self.stream.store(stream, Ordering::Release);
    }
}
