//! A line for each call.

use crate::log;
use crate::routing::{EntryPoint, Route};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static ON: AtomicBool = AtomicBool::new(false);

/// If every call gets a line.
pub fn is_on() -> bool {
    ON.load(Relaxed)
}

/// Every call gets a line from now on.
pub fn turn_on() {
    ON.store(true, Relaxed);
}

/// How a call of an entry point of the forwarding set was routed: called once for each call. Does nothing unless tracing is on.
pub fn decision(entry: EntryPoint, route: Route, reason: &str) {
    if is_on() {
        line(entry.name(), route, reason);
    }
}

fn line(name: &str, route: Route, reason: &str) {
    log::raw(format_args!("[hipplan] call {name} mode=enabled route={} reason={reason}", route.text()));
}
