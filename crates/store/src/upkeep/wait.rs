//! A bounded wait for other upkeep, which says so when it takes long.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Time between two looks.
const NAP: Duration = Duration::from_millis(20);
/// A shorter wait is nothing to tell of.
const LONG: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(super) struct Wait<'w> {
    root: &'w Path,
    longest: Duration,
    start: Instant,
    is_told: bool,
}

impl<'w> Wait<'w> {
    pub(super) fn new(root: &'w Path, longest: Duration) -> Self {
        Self { root, longest, start: Instant::now(), is_told: false }
    }

    pub(super) fn is_over(&self) -> bool {
        self.start.elapsed() >= self.longest
    }

    /// Waits a moment for `who`, and says once whom it has waited for if it has done so for long. `then` is what follows when the wait
    /// ends in vain.
    pub(super) fn nap(&mut self, who: impl FnOnce() -> String, then: &str) {
        thread::sleep(NAP);
        let waited = self.start.elapsed();
        if self.is_told || waited < LONG {
            return;
        }
        self.is_told = true;
        let left_s = self.longest.saturating_sub(waited).as_secs();
        tracing::warn!(
            code = "waits",
            cause = %format_args!("waited {} s for other upkeep of the store {}, by {}", waited.as_secs(), self.root.display(), who()),
            advice = %format_args!("nothing needs doing: this goes on when that is done; after {left_s} s more, {then}"),
            "waits for other upkeep to end"
        );
    }

    /// Says that the wait has ended in vain, if it was one to tell of.
    pub(super) fn warn_late(&self, who: impl FnOnce() -> String) {
        if !self.is_told {
            return;
        }
        let waited_s = self.start.elapsed().as_secs();
        tracing::warn!(
            code = "waited-in-vain",
            cause = %format_args!("waited {waited_s} s for other upkeep of the store {}, by {}", self.root.display(), who()),
            advice = "see whether it is stopped or slow; what does not remove things as well goes on beside it, and some work is done twice",
            "other upkeep of this store is still at work"
        );
    }
}
