//! The functions that stand in for MIOpen's. Nothing unwinds out of them.

/// Calls the private library's function of that name. A library without it has no slot for it, so that the status is for form's sake.
macro_rules! native {
    ($name:ident($($argument:expr),* $(,)?)) => {
        match crate::private::get().$name {
            // SAFETY: the caller's own arguments, passed on as they are, or what the caller's contract allows.
            Some(function) => unsafe { function($($argument),*) },
            None => hipplan_miopen_abi::status::NOT_IMPLEMENTED,
        }
    };
}

pub(crate) use native;

pub mod bias;
pub mod conv;
pub mod descriptor;
pub mod fused;
pub mod handle;

use crate::last_error;
use crate::routing::EntryPoint;
use hipplan_miopen_abi::status::{INTERNAL_ERROR, Status};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// As [`guard`] for a function that is only watched: whatever it answers is MIOpen's own, and what failed before is not its reason.
#[inline]
pub fn watch(entry: EntryPoint, body: impl FnOnce() -> Status) -> Status {
    last_error::clear();
    guard(entry, body)
}

/// Runs the body of an entry point; a panic in it becomes a recorded failure.
pub fn guard(entry: EntryPoint, body: impl FnOnce() -> Status) -> Status {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        last_error::fail(INTERNAL_ERROR, crate::hipplan::status::INTERNAL, format_args!("{}: a bug of the shim's (panic)", entry.name()))
    })
}
