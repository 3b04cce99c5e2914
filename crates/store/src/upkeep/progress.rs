//! How far upkeep has come.

/// Told of how far upkeep has come, from the thread that it runs on.
pub trait UpkeepProgress {
    /// `done` of `all` are done of what `phase` names, such as `listing`. `all` is 0 where it is not known.
    fn step(&self, phase: &'static str, done: u64, all: u64);
}

impl UpkeepProgress for () {
    fn step(&self, _: &'static str, _: u64, _: u64) {}
}
