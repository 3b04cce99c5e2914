//! What every plugin has: who it is, what failed last, where it logs.

use crate::engine::{API_VERSION, PLUGIN_NAME, PLUGIN_VERSION};
use crate::pointers::give;
use crate::{entry, last_error, log};
use hipplan_engine_abi::status::{PluginType, Severity, Status, TYPE_ENGINE};
use hipplan_engine_abi::types::LoggingCallback;
use std::ffi::c_char;

/// Name of the plugin, `hipplan_engine`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnPluginGetName(name: *mut *const c_char) -> Status {
    // SAFETY: by the rules of the ABI.
    entry::call(|| unsafe { give(name, PLUGIN_NAME.as_ptr(), "name") })
}

/// Version of the plugin: that of hipplan.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnPluginGetVersion(version: *mut *const c_char) -> Status {
    // SAFETY: by the rules of the ABI.
    entry::call(|| unsafe { give(version, PLUGIN_VERSION.as_ptr(), "version") })
}

/// Version of the ABI that the plugin speaks. At least 1.2.0, so that it answers for reading host scalars from their slots (R16 §4.6).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnPluginGetApiVersion(version: *mut *const c_char) -> Status {
    // SAFETY: by the rules of the ABI.
    entry::call(|| unsafe { give(version, API_VERSION.as_ptr(), "version") })
}

/// Type of the plugin: ENGINE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnPluginGetType(kind: *mut PluginType) -> Status {
    // SAFETY: by the rules of the ABI.
    entry::call(|| unsafe { give(kind, TYPE_ENGINE, "type") })
}

/// Text of the calling thread's last failure, "" if it had none: UTF-8, at most 2048 bytes with its zero. Valid until the thread's next failure.
/// A call that succeeds leaves it as it is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnPluginGetLastErrorString(text: *mut *const c_char) {
    if !text.is_null() {
        // SAFETY: by the rules of the ABI.
        unsafe { text.write_unaligned(last_error::text()) };
    }
}

/// Where the plugin logs from now on; null: nowhere. The function is called from any thread, and must not unwind.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnPluginSetLoggingCallback(callback: LoggingCallback) -> Status {
    entry::call(|| {
        log::set_callback(callback);
        Ok(())
    })
}

/// The lowest severity that is logged; WARN unless it is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnPluginSetLogLevel(level: Severity) -> Status {
    entry::call(|| {
        log::set_level(level);
        Ok(())
    })
}
