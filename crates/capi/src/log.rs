//! Log lines: to the caller's function, or to standard error. Unsafe: the function is called.

use crate::types::{HIPPLAN_LOG_ERROR, HIPPLAN_LOG_WARNING, hipplan_log_t};
use std::ffi::{CString, c_void};
use std::fmt::{self, Write as _};
use std::io::Write as _;
use std::sync::{Once, PoisonError, RwLock};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, span};

/// Where lines go.
#[derive(Clone, Copy)]
struct Sink {
    function: hipplan_log_t,
    user: *mut c_void,
}

// SAFETY: the pointer is the caller's, who was told that the function is called from any thread, with it.
unsafe impl Send for Sink {}
// SAFETY: as above.
unsafe impl Sync for Sink {}

static SINK: RwLock<Sink> = RwLock::new(Sink { function: None, user: std::ptr::null_mut() });

/// Sends lines to a function from now on.
pub(crate) fn set(function: hipplan_log_t, user: *mut c_void) {
    *SINK.write().unwrap_or_else(PoisonError::into_inner) = Sink { function, user };
}

/// Has what the crates behind this one warn of come here. Where they are part of a program that listens already, it stays with that.
pub(crate) fn start() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let _ = tracing::subscriber::set_global_default(Lines);
    });
}

/// Turns events into lines; there are no spans.
struct Lines;

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn max_level_hint(&self) -> Option<tracing::level_filters::LevelFilter> {
        Some(tracing::level_filters::LevelFilter::WARN)
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        let level = if *event.metadata().level() == Level::ERROR { HIPPLAN_LOG_ERROR } else { HIPPLAN_LOG_WARNING };
        send(level, line.text());
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

fn send(level: i32, text: String) {
    // Copied, so that the function may set another.
    let sink = *SINK.read().unwrap_or_else(PoisonError::into_inner);
    let Some(function) = sink.function else {
        let word = if level == HIPPLAN_LOG_ERROR { "error" } else { "warning" };
        // A standard error that nobody reads is nobody's problem.
        let _ = writeln!(std::io::stderr(), "hipplan: {word}: {text}");
        return;
    };
    let text: Vec<u8> = text.into_bytes().into_iter().map(|b| if b == 0 || b == b'\n' { b' ' } else { b }).collect();
    if let Ok(text) = CString::new(text) {
        // SAFETY: whoever set the function promised that it may be called from any thread with this pointer, and that it does not unwind.
        unsafe { function(level, text.as_ptr(), sink.user) }
    }
}

/// `message: field = value, ...`
#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Line {
    fn text(self) -> String {
        if self.fields.is_empty() { self.message } else { format!("{} ({})", self.message, self.fields) }
    }
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string does not fail, but what is written may.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name if self.fields.is_empty() => write!(self.fields, "{name} = {value:?}"),
            name => write!(self.fields, ", {name} = {value:?}"),
        };
    }
}
