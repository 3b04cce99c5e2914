//! The ABI's enumerations, as plain numbers: the other side may have values that this list does not.

use std::ffi::c_int;

/// `hipdnnPluginStatus_t`.
pub type Status = c_int;

/// The call did what was asked.
pub const SUCCESS: Status = 0;
/// An argument that cannot be, such as a null pointer.
pub const BAD_PARAM: Status = 1;
/// A value that does not fit, such as a pack without a tensor that the graph needs.
pub const INVALID_VALUE: Status = 2;
/// Something failed inside.
pub const INTERNAL_ERROR: Status = 3;
/// No memory.
pub const ALLOC_FAILED: Status = 4;
/// The call is in order, and there is nothing to give for it.
pub const NOT_APPLICABLE: Status = 5;
/// Something is not initialised.
pub const NOT_INITIALIZED: Status = 6;

/// The enumerator's name without its prefix, where it has one.
pub const fn status_name(status: Status) -> Option<&'static str> {
    match status {
        SUCCESS => Some("SUCCESS"),
        BAD_PARAM => Some("BAD_PARAM"),
        INVALID_VALUE => Some("INVALID_VALUE"),
        INTERNAL_ERROR => Some("INTERNAL_ERROR"),
        ALLOC_FAILED => Some("ALLOC_FAILED"),
        NOT_APPLICABLE => Some("NOT_APPLICABLE"),
        NOT_INITIALIZED => Some("NOT_INITIALIZED"),
        _ => None,
    }
}

/// `hipdnnPluginType_t`.
pub type PluginType = c_int;

/// Nothing that a host can use.
pub const TYPE_UNSPECIFIED: PluginType = 0;
/// An engine plugin.
pub const TYPE_ENGINE: PluginType = 1;
/// A heuristic plugin. The oldest hosts do not know the number.
pub const TYPE_HEURISTIC: PluginType = 2;

/// `hipdnnSeverity_t`.
pub type Severity = c_int;

/// What goes on.
pub const SEVERITY_INFO: Severity = 0;
/// Something unexpected.
pub const SEVERITY_WARN: Severity = 1;
/// Something failed.
pub const SEVERITY_ERROR: Severity = 2;
/// Something failed, and nothing can go on.
pub const SEVERITY_FATAL: Severity = 3;
/// As a level: nothing is logged.
pub const SEVERITY_OFF: Severity = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_status_has_a_name_of_its_own() {
        let names: Vec<_> = (SUCCESS..=NOT_INITIALIZED).map(|status| status_name(status).expect("a known status")).collect();
        for (i, name) in names.iter().enumerate() {
            assert!(!names[..i].contains(name), "{name}");
        }
        assert_eq!((status_name(-1), status_name(7), status_name(c_int::MAX)), (None, None, None));
        assert_eq!(status_name(INVALID_VALUE), Some("INVALID_VALUE"));
    }
}
