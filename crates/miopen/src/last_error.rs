//! The last failure of a forwarded call, for each thread, and what MIOpen's status for it is.

use crate::log::Text;
use crate::{log, private};
use hipplan_miopen_abi::status;
use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_char};
use std::fmt::Arguments;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Code of a failure that is not one of `libhipplan.so.0`: it is missing or of another major version.
pub const UNAVAILABLE: i32 = -1;

/// One row for each `hipplan_status_t`: its value and MIOpen's status for it.
///
/// Nothing stored and nothing that could compile it: 8, the operation is not supported. An argument or a workspace that does not fit: 3.
/// Whatever broke: 5.
const STATUSES: [(i32, status::Status); 11] = [
    (0, status::SUCCESS),
    (1, status::BAD_PARM),        // invalid argument
    (2, status::UNSUPPORTED_OP),  // miss
    (3, status::UNSUPPORTED_OP),  // unsupported
    (4, status::INTERNAL_ERROR),  // store
    (5, status::INTERNAL_ERROR),  // plan
    (6, status::INTERNAL_ERROR),  // device
    (7, status::INTERNAL_ERROR),  // out of memory
    (8, status::BAD_PARM),        // workspace
    (9, status::INTERNAL_ERROR),  // compile
    (10, status::INTERNAL_ERROR), // internal
];

/// MIOpen's status for a `hipplan_status_t`.
pub fn translate(code: i32) -> status::Status {
    STATUSES.iter().find(|(known, _)| *known == code).map_or(status::INTERNAL_ERROR, |&(_, status)| status)
}

struct Record {
    status: status::Status,
    text: Text<512>,
    /// What `miopenGetErrorString` gave out last, with its NUL.
    message: Text<640>,
}

thread_local! {
    // Neither built lazily nor dropped, so that it costs no allocation and works in a thread that is ending.
    static LAST: RefCell<Record> =
        const { RefCell::new(Record { status: status::SUCCESS, text: Text::new(), message: Text::new() }) };
    /// 0: nothing is on record. Apart from the rest, since every call that succeeds sets it.
    static CODE: Cell<i32> = const { Cell::new(0) };
}

/// Records that a forwarded call of this thread failed, says so once for each kind of failure, and gives back `status`.
///
/// `code` is the `hipplan_status_t`, or [`UNAVAILABLE`]; 0 is recorded as 10, internal.
pub fn fail(status: status::Status, code: i32, text: Arguments<'_>) -> status::Status {
    let code = if code == 0 { 10 } else { code };
    LAST.with(|last| {
        // Taken already only if `text` itself failed in here, whose failure is then the one that counts.
        let Ok(mut last) = last.try_borrow_mut() else { return };
        CODE.set(code);
        last.status = status;
        last.text.set(text);
        if first_of_kind(status, code) {
            log::error(format_args!("forwarded call failed with {} ({status}): {}", status::name(status), last.text.as_str()));
        }
    });
    status
}

/// As [`fail`], with the status that belongs to the code.
pub fn fail_with(code: i32, text: Arguments<'_>) -> status::Status {
    fail(translate(code), code, text)
}

/// If no failure of this status and code was told yet.
fn first_of_kind(status: status::Status, code: i32) -> bool {
    static TOLD: [AtomicU64; 16] = [const { AtomicU64::new(0) }; 16];
    let (Ok(row), Ok(column)) = (usize::try_from(code.saturating_add(1)), u32::try_from(status)) else { return true };
    match (TOLD.get(row), 1_u64.checked_shl(column)) {
        (Some(told), Some(bit)) => told.fetch_or(bit, Relaxed) & bit == 0,
        _ => true,
    }
}

/// The last call succeeded, or MIOpen answers it. Destroying something clears nothing: programs clean up before they ask what has failed.
#[inline]
pub fn clear() {
    CODE.set(0);
}

/// The code of this thread's last call that could be forwarded or was watched: 0 if it succeeded or was MIOpen's, or if there was none.
pub fn code() -> i32 {
    CODE.get()
}

/// What `miopenGetErrorString` answers for a status of which this thread has a record: the private library's own text for it with what
/// failed. The storage is the thread's and lasts until it asks again.
pub fn message(status: status::Status) -> Option<*const c_char> {
    LAST.with(|last| {
        let mut last = last.try_borrow_mut().ok()?;
        if CODE.get() == 0 || last.status != status {
            return None;
        }
        let native = private::get().miopenGetErrorString.map_or(c"".as_ptr(), |get| {
            // SAFETY: any number may be asked.
            unsafe { get(status) }
        });
        let native = if native.is_null() {
            ""
        } else {
            // SAFETY: MIOpen answers static strings.
            unsafe { CStr::from_ptr(native) }.to_str().unwrap_or("")
        };
        let Record { text, message, .. } = &mut *last;
        message.set(format_args!("[hipDNN-forwarded] {native}: {}", text.as_str()));
        Some(message.as_c_str())
    })
}
