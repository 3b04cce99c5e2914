//! Objects and structs as they cross the C boundary.

use crate::status::Severity;
use std::ffi::{c_char, c_void};
use std::mem::{align_of, offset_of, size_of};

/// What a [`Handle`] points to; never looked into.
#[repr(C)]
#[derive(Debug)]
pub struct HandleObject {
    _opaque: [u8; 0],
}

/// What an [`ExecutionContext`] points to; never looked into.
#[repr(C)]
#[derive(Debug)]
pub struct ExecutionContextObject {
    _opaque: [u8; 0],
}

/// `hipdnnEnginePluginHandle_t`. One call at a time may use it.
pub type Handle = *mut HandleObject;
/// `hipdnnEnginePluginExecutionContext_t`: a compiled graph.
pub type ExecutionContext = *mut ExecutionContextObject;
/// `hipStream_t`; null is the default stream.
pub type Stream = *mut c_void;
/// `hipdnnCallback_t`: takes a severity and a text that ends in a zero, from any thread.
pub type LoggingCallback = Option<unsafe extern "C" fn(severity: Severity, text: *const c_char)>;

/// `hipdnnPluginConstData_t`: bytes. Which side owns them, each function says.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConstData {
    /// The first byte.
    pub ptr: *const c_void,
    /// Number of bytes.
    pub size: usize,
}

impl ConstData {
    /// No bytes: what an output is before the call.
    pub const EMPTY: Self = Self { ptr: std::ptr::null(), size: 0 };

    /// These bytes, as long as they are there.
    pub const fn of(bytes: &[u8]) -> Self {
        Self { ptr: bytes.as_ptr().cast(), size: bytes.len() }
    }
}

/// `hipdnnPluginDeviceBuffer_t`: a tensor of an execution.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceBuffer {
    /// The tensor's uid in the graph.
    pub uid: i64,
    /// Device memory; for a runtime scalar, one element of its type in host memory (R16 §4.6).
    pub ptr: *mut c_void,
}

#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<ConstData>() == 16 && align_of::<ConstData>() == 8 && offset_of!(ConstData, size) == 8);
    assert!(size_of::<DeviceBuffer>() == 16 && align_of::<DeviceBuffer>() == 8 && offset_of!(DeviceBuffer, ptr) == 8);
    assert!(size_of::<Handle>() == 8 && size_of::<ExecutionContext>() == 8 && size_of::<Stream>() == 8);
    assert!(size_of::<LoggingCallback>() == 8 && size_of::<Severity>() == 4 && size_of::<crate::status::Status>() == 4);
};
