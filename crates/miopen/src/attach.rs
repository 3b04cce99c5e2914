//! What a wrapper calls when it is loaded.

use crate::routing::{self, Route};
use crate::{config, lock, log, private, report, trace};
use hipplan_miopen_abi::table::{MAGIC, VERSION, WrapperEntry, WrapperTable};
use std::ffi::CStr;
use std::panic::catch_unwind;

/// Most entries of a table that is believed.
const MAX_ENTRIES: u32 = 4096;

/// Takes a wrapper's table. With forwarding off it does nothing; otherwise it points the slots of what is forwarded or watched at the
/// functions of this library and makes the slots read-only. It never fails: what it cannot use, it leaves to MIOpen, with a warning.
///
/// # Safety
/// `table` is null or a table as its magic and version say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn miopen_forwarding_attach(table: *const WrapperTable) {
    // SAFETY: a name.
    let value = unsafe { libc::getenv(config::FORWARDING.as_ptr()) };
    if value.is_null() {
        return;
    }
    // SAFETY: the environment's strings are NUL-terminated.
    let value = unsafe { CStr::from_ptr(value) }.to_bytes();
    if value.is_empty() {
        return;
    }
    match config::switch(value) {
        Some(false) => {}
        Some(true) => {
            // SAFETY: the caller's promise.
            if catch_unwind(|| unsafe { attach(table) }).is_err() {
                log::error(format_args!("attaching to MIOpen failed; MIOpen itself answers all calls"));
            }
        }
        None => crate::once! {
            log::always(format_args!("warning: MIOPEN_HIPDNN_FORWARDING={}: expected enabled or disabled; taken as disabled", String::from_utf8_lossy(value)))
        },
    }
}

/// # Safety
/// As [`miopen_forwarding_attach`].
unsafe fn attach(table: *const WrapperTable) {
    // SAFETY: the caller's promise.
    let Some(table) = (unsafe { table.as_ref() }) else { return };
    if table.magic != MAGIC
        || table.version != VERSION
        || table.entry_size as usize != size_of::<WrapperEntry>()
        || table.count > MAX_ENTRIES
        || table.entries.is_null()
    {
        log::always(format_args!("warning: the MIOpen wrapper and libhipplan_miopen.so.0 are not of one split; nothing is forwarded"));
        return;
    }
    // SAFETY: the table says so, and it is one that this version knows.
    let entries = unsafe { std::slice::from_raw_parts(table.entries, table.count as usize) };
    let (config, warnings) = config::init();
    // SAFETY: the wrapper's own names and MIOpen's functions.
    unsafe { private::init(entries) };
    lock::hold_over_forks();
    report::at_exit();
    if config.trace {
        trace::turn_on();
    }
    for warning in &warnings {
        log::warning(format_args!("{warning}"));
    }
    let _ = Route::Private;
    routing::enable();
}
