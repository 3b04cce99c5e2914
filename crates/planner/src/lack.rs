//! Why a store has no plan for a request, in four words that scripts can rely on.

use hipplan_exec::{ExecError, RestoreMiss};
use hipplan_serialize::plan::{PayloadError, PlanError};
use hipplan_store::{Miss, StoreError};
use std::fmt;

/// Why a store has no plan for a request. The order is that of how much there is to look into: of several reasons, the greatest counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LackReason {
    /// There is none.
    Missing,
    /// There is none for the targets that were asked for, and there is one for another.
    WrongTarget,
    /// One is there, whole as far as it was read, and nothing here loads it: another hipplan or another plugin wrote it.
    Stale,
    /// One is there, or a record that names one, and it is damaged, lacks a code object, or the system refuses to read it; or there is no
    /// store.
    Unreadable,
}

impl LackReason {
    /// All, ascending.
    pub const ALL: [Self; 4] = [Self::Missing, Self::WrongTarget, Self::Stale, Self::Unreadable];

    /// A word for tables, JSON and scripts, which does not change between releases.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::WrongTarget => "wrong-target",
            Self::Stale => "stale",
            Self::Unreadable => "unreadable",
        }
    }

    /// That of a lookup's misses, as far as they tell: whether there are plans for other targets is not known from them.
    pub fn of_misses(misses: &[(String, RestoreMiss)]) -> Self {
        misses.iter().map(|(_, miss)| Self::of_miss(miss)).max().unwrap_or(Self::Missing)
    }

    pub(crate) fn of_miss(miss: &RestoreMiss) -> Self {
        match miss {
            RestoreMiss::Store(miss) => Self::of_store(miss),
            RestoreMiss::NotAccepted(error) => Self::of_refusal(error),
            // What is not known here is somebody's finding: it is not called missing.
            _ => Self::Unreadable,
        }
    }

    pub(crate) fn of_store(miss: &Miss) -> Self {
        match miss {
            Miss::Absent => Self::Missing,
            Miss::Fault(error) => Self::of_fault(error),
            _ => Self::Unreadable,
        }
    }

    fn of_fault(error: &StoreError) -> Self {
        if error.is_too_old() || error.is_too_new() { Self::Stale } else { Self::Unreadable }
    }

    /// What loaders refuse because of who wrote it is stale; what is refused because of its bytes is damaged.
    pub(crate) fn of_refusal(error: &ExecError) -> Self {
        match error {
            ExecError::Plan(error) if error.is_too_old() || error.is_too_new() => Self::Stale,
            ExecError::Plan(PlanError::Payload(PayloadError::UnknownKind { .. })) => Self::Stale,
            ExecError::Plan(_) | ExecError::Cpu(_) | ExecError::HipProgram(_) | ExecError::CodeObject { .. } => Self::Unreadable,
            _ => Self::Stale,
        }
    }
}

impl fmt::Display for LackReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// No plan for a request: which of the four cases, and what was found, for a person.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {detail}")]
pub struct Lack {
    /// Which case.
    pub reason: LackReason,
    /// What was found.
    pub detail: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::path::PathBuf;

    fn of(miss: impl Into<RestoreMiss>) -> LackReason {
        LackReason::of_misses(&[("cpu".to_owned(), Miss::Absent.into()), ("cpu".to_owned(), miss.into())])
    }

    #[test]
    fn misses_are_told_apart() {
        let path = || PathBuf::from("/s/x");
        assert_eq!(LackReason::of_misses(&[]), LackReason::Missing);
        assert_eq!(of(Miss::Absent), LackReason::Missing);
        assert_eq!(of(Miss::NoStore), LackReason::Unreadable);
        assert_eq!(of(Miss::Fault(StoreError::Size { path: path(), found: 1, expected: 2 })), LackReason::Unreadable);
        let io = StoreError::Io { path: path(), action: "read", cause: io::ErrorKind::PermissionDenied.into() };
        assert_eq!(of(Miss::Fault(io)), LackReason::Unreadable);
        assert_eq!(of(Miss::Fault(StoreError::TooNew { path: path(), found: 9, expected: 2 })), LackReason::Stale);
        let refused = |error: PayloadError| of(RestoreMiss::NotAccepted(error.into()));
        assert_eq!(refused(PayloadError::UnknownKind { found: "x".into(), expected: "cpu".into() }), LackReason::Stale);
        assert_eq!(refused(PayloadError::TooShort { found: 1 }), LackReason::Unreadable);
    }

    #[test]
    fn words_are_stable_and_ascend() {
        assert_eq!(LackReason::ALL.map(LackReason::word), ["missing", "wrong-target", "stale", "unreadable"]);
        assert!(LackReason::ALL.is_sorted());
    }
}
