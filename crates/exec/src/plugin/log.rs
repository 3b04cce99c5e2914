//! What plugins log, as events of `tracing` with the target `hipplan::plugin`.

use super::symbols::Symbols;
use super::text;
use hipplan_engine_abi::status::{SEVERITY_ERROR, SEVERITY_FATAL, SEVERITY_INFO, SEVERITY_OFF, SEVERITY_WARN, SUCCESS, Severity, Status};
use hipplan_engine_abi::symbols as names;
use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

const TARGET: &str = "hipplan::plugin";

/// Where plugins log. The ABI does not say which plugin calls.
///
/// # Safety
/// `text` is null, or points to a text that ends in a zero, as the plugin ABI has it.
unsafe extern "C" fn callback(severity: Severity, text: *const c_char) {
    // SAFETY: as the caller promised; no more than the limit is read.
    let text = unsafe { text::lossy(text) };
    // A subscriber that panics must not unwind into the plugin.
    let logged = catch_unwind(AssertUnwindSafe(|| match severity {
        SEVERITY_INFO => tracing::info!(target: TARGET, "{text}"),
        SEVERITY_WARN => tracing::warn!(target: TARGET, "{text}"),
        SEVERITY_ERROR | SEVERITY_FATAL => tracing::error!(target: TARGET, "{text}"),
        SEVERITY_OFF => {}
        other => tracing::warn!(target: TARGET, severity = other, "{text}"),
    }));
    if let Err(payload) = logged {
        // What it panicked with may panic in turn when it is dropped.
        std::mem::forget(payload);
    }
}

/// Takes what the plugin logs from now on, where it can say anything. A plugin that refuses goes on without.
///
/// It is asked for all that it has: who wants to see what is for the subscriber to say, which may come later.
pub(super) fn connect(path: &Path, symbols: &Symbols) {
    let refused = |status: Status, function: &CStr| {
        if status != SUCCESS {
            tracing::debug!(target: TARGET, path = %path.display(), status, "{} failed", function.to_string_lossy());
        }
    };
    if let Some(set) = symbols.set_log_level {
        // SAFETY: the call takes any severity.
        refused(unsafe { set(SEVERITY_INFO) }, names::SET_LOG_LEVEL);
    }
    if let Some(set) = symbols.set_logging_callback {
        // SAFETY: the callback is a function of this library, which is there as long as the plugin.
        refused(unsafe { set(Some(callback)) }, names::SET_LOGGING_CALLBACK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};
    use tracing::span;

    /// Notes the level of every event, and panics at one of them.
    #[derive(Clone, Default)]
    struct Seen(Arc<Mutex<Vec<tracing::Level>>>);

    impl tracing::Subscriber for Seen {
        fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
            span::Id::from_u64(1)
        }
        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
        fn event(&self, event: &tracing::Event<'_>) {
            crate::lock::lock(&self.0).push(*event.metadata().level());
            assert!(*event.metadata().level() != tracing::Level::ERROR, "a subscriber that panics");
        }
        fn enter(&self, _: &span::Id) {}
        fn exit(&self, _: &span::Id) {}
    }

    #[test]
    fn what_is_logged_is_an_event_and_no_panic_leaves_the_callback() {
        let seen = Seen::default();
        tracing::subscriber::with_default(seen.clone(), || {
            // SAFETY: the texts end in a zero, or are null.
            unsafe {
                for severity in [SEVERITY_INFO, SEVERITY_WARN, SEVERITY_FATAL, SEVERITY_OFF, 99] {
                    callback(severity, c"said\n".as_ptr());
                }
                callback(SEVERITY_INFO, std::ptr::null());
            }
        });
        use tracing::Level;
        assert_eq!(*crate::lock::lock(&seen.0), [Level::INFO, Level::WARN, Level::ERROR, Level::WARN, Level::INFO]);
    }
}
