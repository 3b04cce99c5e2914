//! `miopenStatus_t`, a plain number: a library may return values that this list does not have.

/// `miopenStatus_t`.
pub type Status = i32;

/// The call did what was asked.
pub const SUCCESS: Status = 0;
/// Data that was not initialised.
pub const NOT_INITIALIZED: Status = 1;
/// A value outside what is defined.
pub const INVALID_VALUE: Status = 2;
/// An argument that does not fit.
pub const BAD_PARM: Status = 3;
/// No memory.
pub const ALLOC_FAILED: Status = 4;
/// Something failed inside.
pub const INTERNAL_ERROR: Status = 5;
/// Not implemented for these arguments.
pub const NOT_IMPLEMENTED: Status = 6;
/// Anything else, such as a run without a find.
pub const UNKNOWN_ERROR: Status = 7;
/// The operation is not supported.
pub const UNSUPPORTED_OP: Status = 8;
/// Find only compiled, as it was told to; not an error.
pub const GPU_OPERATIONS_SKIPPED: Status = 9;
/// A solution saved by another version.
pub const VERSION_MISMATCH: Status = 10;

/// The enumerator's name, as `miopenGetErrorString` answers it.
pub const fn name(status: Status) -> &'static str {
    match status {
        SUCCESS => "miopenStatusSuccess",
        NOT_INITIALIZED => "miopenStatusNotInitialized",
        INVALID_VALUE => "miopenStatusInvalidValue",
        BAD_PARM => "miopenStatusBadParm",
        ALLOC_FAILED => "miopenStatusAllocFailed",
        INTERNAL_ERROR => "miopenStatusInternalError",
        NOT_IMPLEMENTED => "miopenStatusNotImplemented",
        UNKNOWN_ERROR => "miopenStatusUnknownError",
        UNSUPPORTED_OP => "miopenStatusUnsupportedOp",
        GPU_OPERATIONS_SKIPPED => "miopenStatusGpuOperationsSkipped",
        VERSION_MISMATCH => "miopenStatusVersionMismatch",
        _ => "Unknown error status",
    }
}
