//! What a plugin logs arrives as events. Alone in its program: whether a line is wanted is remembered for the process by the first thread that
//! has one, and threads of other tests want none.

#[path = "r16/graphs.rs"]
#[allow(dead_code, reason = "a part of it is used here")]
mod graphs;
#[path = "host/support.rs"]
#[allow(dead_code, reason = "a part of it is used here")]
mod support;

use graphs::{State, scale_in};
use hipplan_engine_testing::{Counters, Entry};
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use support::{build, context, load};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, span};

#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<(Level, String, String)>>>);

struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

impl Subscriber for Seen {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut message = Message(String::new());
        event.record(&mut message);
        let metadata = event.metadata();
        self.0.lock().expect("no panic").push((*metadata.level(), metadata.target().to_owned(), message.0));
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[test]
fn a_plugins_lines_are_events_of_their_severity() {
    let seen = Seen::default();
    let path = build("logging", &["FAILS_IN=ENTRY_GET_CONTEXT_WORKSPACE_SIZE"]);
    // Whoever listens may come later than the plugin.
    let plugin = load(&path);
    tracing::subscriber::with_default(seen.clone(), || {
        assert!(context(&plugin, &scale_in(State::Constant, 1.0)).is_err());
    });
    let seen = seen.0.lock().expect("no panic").clone();
    let line = |level, text: &str| (level, "hipplan::plugin".to_owned(), text.to_owned());
    assert!(seen.contains(&line(Level::INFO, "a context was made")), "{seen:?}");
    assert!(seen.contains(&line(Level::ERROR, "entry 10 fails on purpose")), "{seen:?}");
    let counters = Counters::read(&path).expect("counters");
    assert_eq!((counters.calls(Entry::SetLoggingCallback), counters.calls(Entry::SetLogLevel)), (1, 1));
}
