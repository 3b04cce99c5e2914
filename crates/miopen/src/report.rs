//! The counters, told when the process ends.

use crate::config::{self, Report};
use crate::routing::Family;
use crate::{counters, log};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The process that attached: a child that forked off tells nothing.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Tells the counters at exit if that is wanted.
pub fn at_exit() {
    extern "C" fn tell() {
        // Neither HIP nor MIOpen may be called any more; this only reads numbers.
        let _ = std::panic::catch_unwind(|| {
            if PROCESS.load(Relaxed) == std::process::id() {
                write();
            }
        });
    }
    if config::get().report.is_some() {
        PROCESS.store(std::process::id(), Relaxed);
        // SAFETY: the function does not unwind, and this library stays loaded.
        unsafe { libc::atexit(tell) };
    }
}

/// The counters as lines of text.
pub fn text() -> String {
    let mut text = String::new();
    for &family in Family::ALL.iter().filter(|family| family.is_forwarded()) {
        let counts = counters::snapshot(family);
        let _ = write!(
            text,
            "[hipplan] report {}: hits={} misses={} private={} failures={}",
            family.word(),
            counts.hits,
            counts.misses,
            counts.private_calls,
            counts.failures
        );
        for (why, count) in &counts.declines {
            let _ = write!(text, " declined:{}={count}", why.text());
        }
        text.push('\n');
    }
    text
}

fn write() {
    let text = text();
    match &config::get().report {
        Some(Report::Stderr) => text.lines().for_each(|line| log::raw(format_args!("{line}"))),
        Some(Report::File(path)) => {
            if let Err(error) = std::fs::write(path, text) {
                log::warning(format_args!("{}={}: {error}", config::REPORT, path.display()));
            }
        }
        None => {}
    }
}
