//! Tensors that are changed while, and after, their graph is built (R16 §4.8, §9).

use hipplan_serialize::{
    AttributeError, AttributeValue, DataType, GraphBuf, GraphBuilder, PointwiseMode, TensorAttributes, TensorHandle, ops,
};
use std::sync::{Arc, Mutex};
use tracing::field::{Field, Visit};
use tracing::span;

/// Keeps the text of every warning.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl Visit for Warnings {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.lock().expect("no panic").last_mut().expect("an event").push_str(&format!("{}={value:?} ", field.name()));
    }
}

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.level() <= &tracing::Level::WARN
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        self.0.lock().expect("no panic").push(String::new());
        event.record(&mut self.clone());
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// What is logged meanwhile.
fn warnings(f: impl FnOnce()) -> Vec<String> {
    let sink = Warnings::default();
    tracing::subscriber::with_default(sink.clone(), f);
    let logged = sink.0.lock().expect("no panic");
    logged.clone()
}

/// `y = x * alpha`, with a hand on alpha.
fn described() -> (GraphBuilder, TensorHandle) {
    let mut g = GraphBuilder::new();
    let x = g.tensor(TensorAttributes::packed(DataType::Float, &[4]));
    let mut alpha = TensorAttributes::scalar(2.0_f32);
    alpha.set_name("alpha");
    let alpha = g.tensor_handle(alpha);
    let y = g.tensor(TensorAttributes::packed(DataType::Float, &[4]));
    g.node("scale", DataType::Float, ops::Pointwise::binary(PointwiseMode::Mul, x, alpha.uid(), y));
    (g, alpha)
}

/// Every setter once.
fn set_everything(t: &TensorHandle) {
    t.set_name("other").set_data_type(DataType::Half).set_dims(&[7]).set_strides(&[9]).set_virtual(true).set_alignment(64);
    t.set_ragged_offset(None).set_ragged_multiplier(3).set_value(9.0_f32).set_compile_time_constant(None);
    t.set_as_runtime_parameter().set_is_pass_by_value(true);
    t.set_attribute(1308, AttributeValue::Flag(false)).expect("settable");
}

fn state(graph: &GraphBuf, t: &TensorHandle) -> (Vec<u8>, String, bool) {
    let view = graph.view();
    let is_runtime = view.tensor(view.find(t.uid()).expect("there")).is_runtime;
    (graph.buffer().to_vec(), view.canonical().expect("known").key.to_string(), is_runtime)
}

#[test]
fn what_is_set_before_build_is_built() {
    let logged = warnings(|| {
        let (g, alpha) = described();
        let clone = alpha.clone();
        clone.set_as_runtime_parameter();
        assert!(!alpha.is_built());
        let graph = g.build().expect("valid");
        assert!(alpha.is_built() && clone.is_built(), "clones are one tensor");
        assert!(state(&graph, &alpha).2, "the clone's setter reached the graph");
        assert_eq!(alpha.attributes().name(), "alpha");
        assert_eq!(alpha.get_attribute(1308), Ok(AttributeValue::Flag(true)));
    });
    assert_eq!(logged, Vec::<String>::new(), "nothing to warn of");
}

#[test]
fn a_handle_builds_what_a_plain_tensor_builds() {
    let (g, alpha) = described();
    let mut plain = GraphBuilder::new();
    let x = plain.tensor(TensorAttributes::packed(DataType::Float, &[4]));
    let a = plain.tensor(alpha.attributes());
    let y = plain.tensor(TensorAttributes::packed(DataType::Float, &[4]));
    plain.node("scale", DataType::Float, ops::Pointwise::binary(PointwiseMode::Mul, x, a, y));
    assert_eq!(g.build().expect("valid").buffer(), plain.build().expect("valid").buffer());
}

#[test]
fn after_build_setters_warn_once_and_change_only_the_handle() {
    let (g, alpha) = described();
    let graph = g.build().expect("valid");
    let before = state(&graph, &alpha);
    let logged = warnings(|| {
        set_everything(&alpha);
        set_everything(&alpha.clone());
    });
    assert_eq!(logged.len(), 1, "{logged:?}");
    assert!(logged[0].contains(&format!("uid={}", alpha.uid().0)) && logged[0].contains("after its graph was built"), "{logged:?}");
    assert_eq!(state(&graph, &alpha), before);
    assert_eq!(alpha.attributes().name(), "other", "the detached object changes");
    assert_eq!(alpha.attributes().get_compile_time_constant(), None);
}

#[test]
fn each_tensor_warns_for_itself_and_each_setter_is_enough() {
    let setters: [fn(&TensorHandle); 4] = [
        |t| _ = t.set_value(1.0_f32),
        |t| _ = t.set_as_runtime_parameter(),
        |t| _ = t.set_is_pass_by_value(true),
        |t| _ = t.set_attribute(1306, AttributeValue::Scalar(None)),
    ];
    for set in setters {
        let (first, second) = (described(), described());
        let (_graph, _other) = (first.0.build().expect("valid"), second.0.build().expect("valid"));
        let logged = warnings(|| {
            set(&first.1);
            set(&first.1);
            set(&second.1);
        });
        assert_eq!(logged.len(), 2, "{logged:?}");
    }
}

#[test]
fn an_invalid_state_is_found_at_build_and_a_wrong_attribute_at_once() {
    let (g, alpha) = described();
    assert!(matches!(alpha.set_attribute(1307, AttributeValue::Flag(false)), Err(AttributeError::ReadOnly { .. })));
    alpha.set_dims(&[3]).set_strides(&[1]);
    assert!(g.build().expect_err("a scalar of three elements").to_string().contains("alpha"));
}

#[test]
fn handles_cross_threads() {
    let (g, alpha) = described();
    let other = alpha.clone();
    std::thread::spawn(move || _ = other.set_value(5.0_f32)).join().expect("no panic");
    let graph = std::thread::spawn(move || g.build()).join().expect("no panic").expect("valid");
    let view = graph.view();
    assert_eq!(view.tensor(view.find(alpha.uid()).expect("there")).value.map(|v| v.to_f64()), Some(5.0));
}
