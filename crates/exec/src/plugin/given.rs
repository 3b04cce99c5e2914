//! Bytes that a plugin makes and frees: engine details and serialised contexts.

use super::call::{Library, RawHandle};
use super::error::PluginError;
use hipplan_engine_abi::functions::{DestroyEngineDetails, DestroySerializedExecutionContext};
use hipplan_engine_abi::types::ConstData;
use std::ffi::CStr;

/// Most bytes that are taken from a plugin in one piece: more is a mistake, not a plan.
const MAX_BYTES: usize = 1 << 31;

impl Library {
    /// Copies bytes that the plugin owns and has it free them, whether they could be copied or not.
    ///
    /// # Safety
    /// The handle is of this plugin. `data` are bytes that it made, and `destroy` its function that frees them.
    pub(super) unsafe fn take(
        &self,
        handle: RawHandle,
        mut data: ConstData,
        function: &'static CStr,
        (destroy_name, destroy): (&'static CStr, DestroyBytes),
    ) -> Result<Vec<u8>, PluginError> {
        if data.ptr.is_null() {
            // There is nothing to free.
            return Err(self.misbehaved(function, format!("it gives a null pointer to {} bytes and reports success", data.size)));
        }
        // SAFETY: the plugin says that so many bytes are there, until it frees them.
        let copy = self.usable(function, data.size).map(|copy| unsafe { copied(copy, data) });
        // SAFETY: as the caller promised; they are freed once.
        let status = unsafe { destroy(handle.0, &raw mut data) };
        self.note(destroy_name, status);
        copy
    }

    /// Memory for bytes that the plugin gives, if their number is one.
    fn usable(&self, function: &'static CStr, size: usize) -> Result<Vec<u8>, PluginError> {
        if size == 0 {
            return Err(self.misbehaved(function, "it gives no bytes and reports success"));
        }
        if size > MAX_BYTES {
            return Err(self.misbehaved(function, format!("it gives {size} bytes, the most is {MAX_BYTES}")));
        }
        let mut copy = Vec::new();
        match copy.try_reserve_exact(size) {
            Ok(()) => Ok(copy),
            Err(_) => Err(PluginError::OutOfMemory { plugin: self.name.clone(), what: "what it gives", bytes: size as u64 }),
        }
    }
}

/// `copy` with the bytes.
///
/// # Safety
/// So many bytes are at the pointer, which is not null.
unsafe fn copied(mut copy: Vec<u8>, data: ConstData) -> Vec<u8> {
    // SAFETY: as the caller promised; the size is at most `MAX_BYTES`.
    copy.extend_from_slice(unsafe { std::slice::from_raw_parts(data.ptr.cast::<u8>(), data.size) });
    copy
}

/// Both functions that free bytes have one type.
type DestroyBytes = DestroySerializedExecutionContext;
const _: fn(DestroyEngineDetails) -> DestroyBytes = |destroy| destroy;
