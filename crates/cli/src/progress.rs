//! A bar on a terminal, silence elsewhere.

use crate::{Global, output};
use hipplan::{Outcome, Progress, UpkeepProgress};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar on standard error that counts to `len`.
pub(crate) struct Bar(ProgressBar);

impl Bar {
    pub(crate) fn new(global: &Global, what: &'static str, len: usize) -> Self {
        // indicatif draws nothing where standard error is not a terminal.
        let target = if global.quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(Some(len as u64), target);
        if let Ok(style) = ProgressStyle::with_template("{prefix:>10} [{bar:32}] {pos}/{len} {wide_msg}") {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_prefix(what);
        Self(bar)
    }

    pub(crate) fn advance(&self, message: &str) {
        self.0.set_message(output::name(message));
        self.0.inc(1);
    }
}

/// A line on standard error that tells how far upkeep of a store has come.
pub(crate) struct Steps(ProgressBar);

impl Steps {
    pub(crate) fn new(global: &Global) -> Self {
        let target = if global.quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(None, target);
        if let Ok(style) = ProgressStyle::with_template("{msg} {human_pos}") {
            bar.set_style(style);
        }
        Self(bar)
    }
}

impl UpkeepProgress for Steps {
    fn step(&self, phase: &'static str, done: u64, all: u64) {
        let of = if all == 0 { String::new() } else { format!(" of {all}") };
        self.0.set_message(format!("{phase}{of}"));
        self.0.set_position(done);
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

impl Progress for Bar {
    fn finished(&self, source: &str, _: &Outcome) {
        self.advance(source);
    }
}
