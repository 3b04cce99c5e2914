//! How far a long piece of upkeep has come.

/// How far a long piece of upkeep has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct UpkeepStep {
    /// What is being done, in two or three words.
    pub what: &'static str,
    /// Things done of it.
    pub done: u64,
    /// Things to do, where that is known.
    pub total: Option<u64>,
}

/// Is told how far upkeep has come, every few hundred things.
pub(super) type Progress<'p> = dyn FnMut(UpkeepStep) + 'p;

/// Things between two calls.
const EVERY: u64 = 256;

/// Counts, and tells of it now and then.
pub(super) struct Counter<'c, 'p> {
    progress: &'c mut Progress<'p>,
    step: UpkeepStep,
}

impl<'c, 'p> Counter<'c, 'p> {
    pub(super) fn new(progress: &'c mut Progress<'p>, what: &'static str, total: Option<u64>) -> Self {
        let step = UpkeepStep { what, done: 0, total };
        progress(step);
        Self { progress, step }
    }

    pub(super) fn one(&mut self) {
        self.step.done = self.step.done.saturating_add(1);
        if self.step.done.is_multiple_of(EVERY) {
            (self.progress)(self.step);
        }
    }
}
