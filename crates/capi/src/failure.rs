//! Why a function failed: a status and a text.

use crate::types::*;
use hipplan_exec::ExecError;
use hipplan_exec::hip::{HipCode, HipError};
use hipplan_serialize::canon::NoKey;
use hipplan_serialize::import::ImportError;
use hipplan_store::StoreError;

/// A call that failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: hipplan_status_t,
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn new(status: hipplan_status_t, text: impl Into<String>) -> Self {
        Self { status, text: text.into() }
    }

    pub(crate) fn argument(text: impl Into<String>) -> Self {
        Self::new(HIPPLAN_INVALID_ARGUMENT, text)
    }
}

/// Whether a status says that there is no usable plan, which is no failure.
pub(crate) const fn is_miss(status: hipplan_status_t) -> bool {
    matches!(status, HIPPLAN_MISS | HIPPLAN_WRONG_TARGET | HIPPLAN_STALE | HIPPLAN_UNREADABLE)
}

/// Name of a status, for messages.
pub(crate) fn name(status: hipplan_status_t) -> &'static std::ffi::CStr {
    match status {
        HIPPLAN_OK => c"HIPPLAN_OK",
        HIPPLAN_INVALID_ARGUMENT => c"HIPPLAN_INVALID_ARGUMENT",
        HIPPLAN_MISS => c"HIPPLAN_MISS",
        HIPPLAN_UNSUPPORTED => c"HIPPLAN_UNSUPPORTED",
        HIPPLAN_STORE => c"HIPPLAN_STORE",
        HIPPLAN_PLAN => c"HIPPLAN_PLAN",
        HIPPLAN_DEVICE => c"HIPPLAN_DEVICE",
        HIPPLAN_OUT_OF_MEMORY => c"HIPPLAN_OUT_OF_MEMORY",
        HIPPLAN_WORKSPACE => c"HIPPLAN_WORKSPACE",
        HIPPLAN_COMPILE => c"HIPPLAN_COMPILE",
        HIPPLAN_INTERNAL => c"HIPPLAN_INTERNAL",
        HIPPLAN_WRONG_TARGET => c"HIPPLAN_WRONG_TARGET",
        HIPPLAN_STALE => c"HIPPLAN_STALE",
        HIPPLAN_UNREADABLE => c"HIPPLAN_UNREADABLE",
        _ => c"an unknown status",
    }
}

impl From<ExecError> for Failure {
    fn from(error: ExecError) -> Self {
        let status = match &error {
            ExecError::Hip(hip) => return hip.clone().into(),
            ExecError::NoKey(_) => HIPPLAN_UNSUPPORTED,
            ExecError::DeviceName { .. } | ExecError::InvalidValue { .. } | ExecError::StreamDevice { .. } | ExecError::Shape(_) => {
                HIPPLAN_INVALID_ARGUMENT
            }
            ExecError::WorkspaceMemory { .. } | ExecError::WorkspaceSize { .. } | ExecError::WorkspaceAlignment { .. } => HIPPLAN_WORKSPACE,
            ExecError::OutOfMemory { .. } => HIPPLAN_OUT_OF_MEMORY,
            // All others are what a plan can be refused for, and so will later ones be.
            _ => HIPPLAN_PLAN,
        };
        Self::new(status, error.to_string())
    }
}

impl From<HipError> for Failure {
    fn from(error: HipError) -> Self {
        let status = match &error {
            HipError::OutOfMemory { .. } => HIPPLAN_OUT_OF_MEMORY,
            HipError::Call { failure, .. } if failure.code == HipCode(2) => HIPPLAN_OUT_OF_MEMORY,
            HipError::CodeObject { .. } => HIPPLAN_PLAN,
            _ => HIPPLAN_DEVICE,
        };
        Self::new(status, error.to_string())
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let advice = error.advice();
        Self::new(HIPPLAN_STORE, if advice.is_empty() { error.to_string() } else { format!("{error}; {advice}") })
    }
}

impl From<NoKey> for Failure {
    fn from(error: NoKey) -> Self {
        Self::new(HIPPLAN_UNSUPPORTED, error.to_string())
    }
}

impl From<ImportError> for Failure {
    fn from(error: ImportError) -> Self {
        Self::argument(error.to_string())
    }
}
