//! How far upkeep, or other work on all of a store, has come.

/// Told of how far upkeep, a check or work on a bundle has come, from the thread that it runs on.
pub trait UpkeepProgress {
    /// `done` of `all` are done of what `phase` names, such as `listing`. `all` is 0 where it is not known.
    fn step(&self, phase: &'static str, done: u64, all: u64);
}

impl UpkeepProgress for () {
    fn step(&self, _: &'static str, _: u64, _: u64) {}
}

/// Things between two calls.
const EVERY: u64 = 256;

/// Counts, and tells of it now and then.
pub(crate) struct Counter<'p> {
    progress: &'p dyn UpkeepProgress,
    phase: &'static str,
    done: u64,
    all: u64,
}

impl<'p> Counter<'p> {
    pub(crate) fn new(progress: &'p dyn UpkeepProgress, phase: &'static str, all: u64) -> Self {
        progress.step(phase, 0, all);
        Self { progress, phase, done: 0, all }
    }

    pub(crate) fn one(&mut self) {
        self.done = self.done.saturating_add(1);
        if self.done.is_multiple_of(EVERY) {
            self.progress.step(self.phase, self.done, self.all);
        }
    }
}
