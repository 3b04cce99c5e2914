//! Warnings, once per cause. The text of the error holds the path.

use crate::StoreError;
use crate::memo::Memo;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Causes that are remembered; further faults are counted as misses all the same, but not logged.
const MOST_CAUSES: usize = 1024;

/// What a store has warned of.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    // Ordered, here and elsewhere in what is opened with a store: a table of hashes would ask the system for random numbers first.
    warned: Memo<BTreeSet<PathBuf>>,
    not_persisting: AtomicBool,
}

impl Faults {
    /// An entry that cannot be used: one warning for its path. Where the system refuses, other paths are likely to fare the
    /// same: one warning for that kind of refusal.
    pub(crate) fn entry(&self, error: &StoreError) {
        let path = error.path().unwrap_or(Path::new(""));
        let cause = if matches!(error, StoreError::Io { .. }) { Path::new(error.code()) } else { path };
        {
            // In a forked child, what its parent has warned of may never be known: better once too few than with each lookup.
            let Some(mut warned) = self.warned.get() else { return };
            if warned.len() >= MOST_CAUSES || !warned.insert(cause.to_owned()) {
                return;
            }
        }
        tracing::warn!(
            code = error.code(),
            cause = %error,
            advice = error.advice(),
            "an entry of the plan store cannot be used and counts as missing"
        );
    }

    /// Results are not being kept: one warning for the store.
    pub(crate) fn not_persisted(&self, error: &StoreError) {
        if self.not_persisting.swap(true, Ordering::Relaxed) {
            return;
        }
        tracing::warn!(
            code = error.code(),
            cause = %error,
            advice = error.advice(),
            "the plan store does not keep results; work goes on without it"
        );
    }
}

/// What no trusted key has signed, and is used all the same.
pub(crate) fn untrusted(error: &StoreError) {
    tracing::warn!(code = error.code(), cause = %error, advice = error.advice(), "what no trusted key has signed is used");
}

/// Files of a folder that cannot be signed, where signatures matter: they are used all the same, or count as missing.
pub(crate) fn unsigned_files(root: &Path, are_used: bool) {
    let what = if are_used { "are used" } else { "count as missing" };
    tracing::warn!(
        code = "unsigned",
        layer = %root.display(),
        advice = "have the plans exported into a bundle and that signed, or name the folder with off= before it",
        "plans of a layer stand in files of their own, which cannot be signed, and {what}"
    );
}

/// A pack of a folder that no trusted key has signed, where one must.
pub(crate) fn not_trusted(error: &StoreError) {
    tracing::warn!(code = error.code(), cause = %error, advice = error.advice(), "a pack of the plan store is not trusted and counts as missing");
}

/// A secret key that others than its owner have access to.
pub(crate) fn secret_for_others(path: &Path, mode: u32) {
    tracing::warn!(
        code = "key",
        path = %path.display(),
        found = format_args!("{mode:04o}"),
        expected = "0600",
        advice = "let its owner alone have access: chmod 600",
        "a secret key is not secret: others may have read it, and who has it can sign"
    );
}

/// A layer behind the first that cannot be used.
pub(crate) fn left_out(error: &StoreError) {
    tracing::warn!(code = error.code(), cause = %error, advice = error.advice(), "a layer of the plan store cannot be used and counts as empty");
}
