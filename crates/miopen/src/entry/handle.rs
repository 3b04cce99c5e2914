//! Handles, error text, profiling, solver ids.
#![expect(non_snake_case, reason = "the names are MIOpen's")]

use super::{guard, watch};
use crate::routing::EntryPoint;
use crate::{handles, last_error, private, solution_id};
use hipplan_miopen_abi::status::{self, Status};
use hipplan_miopen_abi::types::{AcceleratorQueue, Enum, Handle};
use std::ffi::{c_char, c_int};
use std::panic::catch_unwind;

/// Notes the device of the new handle.
///
/// # Safety
/// As MIOpen's.
pub unsafe extern "C" fn miopenCreate(handle: *mut Handle) -> Status {
    watch(EntryPoint::miopenCreate, || {
        let status = native!(miopenCreate(handle));
        // SAFETY: MIOpen has written the handle.
        created(status, || unsafe { *handle })
    })
}

/// Notes the device of the new handle.
///
/// # Safety
/// As MIOpen's.
pub unsafe extern "C" fn miopenCreateWithStream(handle: *mut Handle, stream: AcceleratorQueue) -> Status {
    watch(EntryPoint::miopenCreateWithStream, || {
        let status = native!(miopenCreateWithStream(handle, stream));
        // SAFETY: MIOpen has written the handle.
        created(status, || unsafe { *handle })
    })
}

fn created(status: Status, handle: impl FnOnce() -> Handle) -> Status {
    if status == status::SUCCESS {
        handles::created(handle());
    }
    status
}

/// Forgets the handle, before its address can come back.
///
/// # Safety
/// As MIOpen's.
pub unsafe extern "C" fn miopenDestroy(handle: Handle) -> Status {
    guard(EntryPoint::miopenDestroy, || {
        handles::destroyed(handle);
        native!(miopenDestroy(handle))
    })
}

/// Notes if calls are to be timed. `enable` is C's `bool`, of which any byte is taken.
///
/// # Safety
/// As MIOpen's.
pub unsafe extern "C" fn miopenEnableProfiling(handle: Handle, enable: u8) -> Status {
    watch(EntryPoint::miopenEnableProfiling, || {
        let status = native!(miopenEnableProfiling(handle, enable));
        if status == status::SUCCESS {
            handles::enable_profiling(handle, enable != 0);
        }
        status
    })
}

/// The time of the last forwarded call, if nothing of MIOpen's own was timed since.
///
/// # Safety
/// As MIOpen's.
pub unsafe extern "C" fn miopenGetKernelTime(handle: Handle, time: *mut f32) -> Status {
    watch(EntryPoint::miopenGetKernelTime, || match handles::kernel_time(handle) {
        Some(ms) if !time.is_null() => {
            // SAFETY: the caller's place for it.
            unsafe { *time = ms };
            status::SUCCESS
        }
        _ => native!(miopenGetKernelTime(handle, time)),
    })
}

/// MIOpen's text, and what failed if this thread's last forwarded call failed with that status.
///
/// # Safety
/// Any number may be asked.
pub unsafe extern "C" fn miopenGetErrorString(error: Status) -> *const c_char {
    let recorded = catch_unwind(|| last_error::message(error)).ok().flatten();
    recorded.unwrap_or_else(|| match private::get().miopenGetErrorString {
        // SAFETY: any number may be asked.
        Some(function) => unsafe { function(error) },
        None => c"Unknown error status".as_ptr(),
    })
}

/// The `hipplan_status_t` of this thread's last forwarded call, [`last_error::UNAVAILABLE`] without `libhipplan.so.0`, 0 if it succeeded or
/// there was none.
pub extern "C" fn miopenGetLastForwardedError() -> c_int {
    last_error::code()
}

/// Ours are known here, the others to MIOpen.
///
/// # Safety
/// As MIOpen's.
pub unsafe extern "C" fn miopenGetSolverIdConvAlgorithm(solver_id: u64, result: *mut Enum) -> Status {
    watch(EntryPoint::miopenGetSolverIdConvAlgorithm, || {
        if !solution_id::is_ours(solver_id) {
            return native!(miopenGetSolverIdConvAlgorithm(solver_id, result));
        }
        if result.is_null() {
            return status::BAD_PARM;
        }
        // SAFETY: the caller's place for it.
        unsafe { *result = solution_id::ALGORITHM };
        status::SUCCESS
    })
}
