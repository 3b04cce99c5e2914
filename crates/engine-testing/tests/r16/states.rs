//! The two bits of a state, wherever they are read: after a round trip, by getters, by attributes, in legacy graphs, after the build.

use crate::graphs::{ALPHA, State, X, Y, device, scalar, scale, scale_in};
use crate::support::{Given, Via, build, compile, factor, float, only};
use hipplan::canon::decode;
use hipplan::{
    ApiVersion, AttributeValue, DataType, GraphBuf, GraphBuilder, Limits, Plan, PointwiseMode, ScalarType, TensorAttributes, TensorValue,
    Uid, import, json, ops,
};
use std::sync::{Arc, Mutex};

/// y = f(ordinary, supplied, defaulted, constant): one tensor of each state, and one that never opted in.
fn one_of_each() -> GraphBuf {
    let mut g = GraphBuilder::new();
    let ordinary = g.tensor(device(1, "ordinary", &[1]));
    let supplied = g.tensor(scalar(2, "supplied", State::Supplied, 0.0_f32));
    let defaulted = g.tensor(scalar(3, "defaulted", State::Defaulted, 2.5_f32));
    let constant = g.tensor(scalar(4, "constant", State::Constant, -7.0_f64));
    let (inputs, outputs) = ([ordinary, supplied, defaulted, constant], [g.tensor(device(5, "y", &[1]))]);
    g.node("", DataType::Float, ops::CustomOp { custom_op_id: "t.t", inputs: &inputs, outputs: &outputs, data: &[] });
    g.build().expect("a graph")
}

/// What each getter says of a tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Getters {
    is_runtime: bool,
    value: Option<TensorValue>,
    is_by_value: bool,
    has_compile_time_constant: bool,
    /// Attributes 1306, 1307 and 1308 of hipDNN's backend.
    attributes: [AttributeValue; 3],
}

/// By uid, of a graph.
fn getters(graph: &GraphBuf, uids: [i64; 4]) -> [Getters; 4] {
    let view = graph.view();
    uids.map(|uid| {
        let tensor = view.tensor(view.find(Uid(uid)).expect("there"));
        Getters {
            is_runtime: tensor.is_runtime,
            value: tensor.value,
            is_by_value: tensor.is_by_value(),
            has_compile_time_constant: tensor.has_compile_time_constant(),
            attributes: [1306, 1307, 1308].map(|id| tensor.get_attribute(id).expect("an attribute of tensors")),
        }
    })
}

/// The table of states (R16 §4.2), for [`one_of_each`].
fn expected_getters() -> [Getters; 4] {
    let (default, constant) = (TensorValue::Float32(2.5), TensorValue::Float64(-7.0));
    let rows =
        [(false, None, false, false), (true, None, true, false), (true, Some(default), true, false), (false, Some(constant), true, true)];
    rows.map(|(is_runtime, value, is_by_value, has_compile_time_constant)| Getters {
        is_runtime,
        value,
        is_by_value,
        has_compile_time_constant,
        attributes: [AttributeValue::Scalar(value), AttributeValue::Flag(value.is_some()), AttributeValue::Flag(is_runtime)],
    })
}

#[test]
fn r16_state_round_trip_keeps_both_bits_through_every_form() {
    let expected = expected_getters();
    let graph = one_of_each();
    assert_eq!(getters(&graph, [1, 2, 3, 4]), expected);
    // hipDNN's bytes, our artifact, JSON, and the canonical form, where uids are ordinals in order of use.
    let limits = &Limits::DEFAULT;
    let bytes = GraphBuf::new(graph.buffer(), limits).expect("read back");
    let artifact = GraphBuf::new(&graph.view().to_artifact(), limits).expect("read back");
    let text = json::export(&graph.view(), limits).expect("exported").pretty();
    let imported = import::import(text.as_bytes(), limits).expect("imported").graph;
    for (form, name) in [(bytes, "bytes"), (artifact, "artifact"), (imported, "JSON")] {
        assert_eq!(getters(&form, [1, 2, 3, 4]), expected, "{name}");
    }
    let canonical = graph.view().canonical().expect("a key");
    let ordinal = |uid| canonical.uids.iter().position(|u| *u == Uid(uid)).expect("used") as i64;
    let decoded = decode(&canonical.encoding, limits).expect("decoded");
    assert_eq!(getters(&decoded, [1, 2, 3, 4].map(ordinal)), expected, "canonical");
    // And so through a plan's file, where the graph is the canonical one.
    let plan = compile(&scale_in(State::Defaulted, 2.5), &Via::Cpu.providers()).expect("compiled");
    let plan = Plan::open(&plan.bytes).expect("a plan");
    let graph = decode(plan.view().canonical().expect("there"), limits).expect("decoded");
    let view = graph.view();
    let alpha: Vec<_> = view.tensors().iter().filter(|t| t.is_by_value()).map(|t| (t.is_runtime, t.value)).collect();
    assert_eq!(alpha, [(true, Some(TensorValue::Float32(2.5)))]);
}

#[test]
fn r16_state_round_trip_keeps_states_apart_in_the_key() {
    let keys = State::ALL.map(|state| scale_in(state, 0.5).view().canonical().expect("a key").key);
    assert!(keys[0] != keys[1] && keys[0] != keys[2] && keys[1] != keys[2], "{keys:?}");
    // A default and a constant are part of the graph; a supplied value is not there to be.
    for (state, same) in [(State::Supplied, true), (State::Defaulted, false), (State::Constant, false)] {
        let [a, b] = [0.5, 0.25].map(|v| scale_in(state, v).view().canonical().expect("a key").key);
        assert_eq!(a == b, same, "{state:?}");
    }
}

/// `y = x * alpha` as a writer from before the feature had it: the slot of the flag is not in the vtable.
fn legacy() -> GraphBuf {
    let graph = scale_in(State::Constant, 0.5);
    let root = flatbuffers::root::<hipplan_serialize::wire::generated::Graph<'_>>(graph.buffer()).expect("well-formed");
    let flag = hipplan_serialize::wire::generated::TensorAttributes::VT_IS_RUNTIME_PASS_BY_VALUE;
    let written = root.tensors().expect("tensors").iter().any(|t| t._tab.vtable().get(flag) != 0);
    assert!(!written, "no tensor says anything of the flag");
    graph
}

#[test]
fn r16_legacy_value_without_a_flag_is_a_constant_and_runs_on_the_baseline() {
    let graph = legacy();
    let view = graph.view();
    let alpha = view.tensor(view.find(Uid(ALPHA)).expect("there"));
    assert!(alpha.has_compile_time_constant() && !alpha.is_runtime);
    assert_eq!(alpha.value, Some(TensorValue::Float32(0.5)));
    assert_eq!((view.api_floor(), view.min_reader_version()), (ApiVersion::BASELINE, 0));
    // A plugin from before version numbers, which knows nothing of the flag.
    let old = build("legacy", &["hipdnnPluginGetApiVersion=omitted", "KNOWS_NO_RUNTIME=1", "FETCHES_LINES=1"]);
    let providers = only(&[&old]);
    let plan = compile(&graph, &providers).unwrap_or_else(|e| panic!("{e}"));
    let mut bound = crate::support::bind(&plan, &graph, &providers).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(factor(&mut bound, &[]).ok(), Some(0.5));
    assert_eq!(factor(&mut Via::Cpu.bound(&graph), &[]).ok(), Some(0.5));
}

#[test]
fn r16_getters_follow_the_state_table() {
    let v = Some(TensorValue::Float32(1.5));
    let constant = TensorAttributes::scalar(1.5_f32);
    let mut by_value = TensorAttributes::packed(DataType::Double, &[3]);
    by_value.set_value(1.5_f32);
    let mut by_variant = TensorAttributes::packed(DataType::Double, &[3]);
    by_variant.set_compile_time_constant(v);
    let tagged = TensorAttributes::scalar_of(1.5_f32, ScalarType::CompileTimeConst);
    for t in [&constant, &by_value, &by_variant, &tagged] {
        assert!(t.get_is_pass_by_value() && t.get_has_compile_time_constant() && !t.get_is_runtime_pass_by_value());
        assert_eq!((t.get_pass_by_value(), t.get_compile_time_constant(), t.get_value_variant()), (None, v, v));
        assert_eq!((t.get_compile_time_constant_as::<f32>(), t.get_compile_time_constant_as::<f64>()), (Some(1.5), None));
    }
    let tagged = TensorAttributes::scalar_of(1.5_f32, ScalarType::RuntimeParam);
    let mut flagged = constant.clone();
    flagged.set_is_pass_by_value(true);
    for t in [&tagged, &flagged] {
        assert!(t.get_is_pass_by_value() && !t.get_has_compile_time_constant() && t.get_is_runtime_pass_by_value());
        assert_eq!((t.get_pass_by_value(), t.get_compile_time_constant(), t.get_value_variant()), (v, None, v));
        assert_eq!((t.get_pass_by_value_as::<f32>(), t.get_pass_by_value_as::<f64>()), (Some(1.5), None));
    }
    let mut cleared = tagged;
    cleared.set_as_runtime_parameter();
    let mut flagged = TensorAttributes::packed(DataType::Float, &[1]);
    flagged.set_is_pass_by_value(true);
    for t in [&cleared, &flagged] {
        assert!(t.get_is_pass_by_value() && !t.get_has_compile_time_constant() && t.get_is_runtime_pass_by_value());
        assert_eq!((t.get_pass_by_value(), t.get_compile_time_constant(), t.get_value_variant()), (None, None, None));
    }
    let ordinary = TensorAttributes::packed(DataType::Float, &[1]);
    assert!(!ordinary.get_is_pass_by_value() && !ordinary.get_is_runtime_pass_by_value());
}

#[test]
fn r16_attributes_1307_is_the_value_and_1308_the_flag_after_a_round_trip() {
    const VALUE: i32 = 1306;
    const IS_BY_VALUE: i32 = 1307;
    const IS_RUNTIME: i32 = 1308;
    // Of each tensor: 1306, 1307, 1308, and the umbrella, which is none of them.
    let value = |v| AttributeValue::Scalar(v);
    let expected = [
        (1, value(None), false, false, false),
        (2, value(None), false, true, true),
        (3, value(Some(TensorValue::Float32(2.5))), true, true, true),
        (4, value(Some(TensorValue::Float64(-7.0))), true, false, true),
    ];
    let graph = GraphBuf::new(&one_of_each().view().to_artifact(), &Limits::DEFAULT).expect("read back");
    let view = graph.view();
    for (uid, stored, has_value, is_runtime, umbrella) in expected {
        let tensor = view.tensor(view.find(Uid(uid)).expect("there"));
        assert_eq!(tensor.get_attribute(VALUE), Ok(stored), "uid {uid}");
        assert_eq!(tensor.get_attribute(IS_BY_VALUE), Ok(AttributeValue::Flag(has_value)), "uid {uid}");
        assert_eq!(tensor.get_attribute(IS_RUNTIME), Ok(AttributeValue::Flag(is_runtime)), "uid {uid}");
        assert_eq!(tensor.is_by_value(), umbrella, "uid {uid}");
    }
    // 1307 is derived: it cannot be written, 1308 can.
    let mut tensor = TensorAttributes::scalar(1.0_f32);
    assert!(tensor.set_attribute(IS_BY_VALUE, AttributeValue::Flag(false)).is_err());
    tensor.set_attribute(IS_RUNTIME, AttributeValue::Flag(true)).expect("settable");
    assert_eq!(tensor.get_pass_by_value(), Some(TensorValue::Float32(1.0)));
}

/// Counts warnings.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl tracing::field::Visit for Warnings {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        self.0.lock().expect("no panic").last_mut().expect("an event").push_str(&format!("{}={value:?} ", field.name()));
    }
}

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        self.0.lock().expect("no panic").push(String::new());
        event.record(&mut self.clone());
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

/// What is logged at level warn meanwhile.
fn warnings(f: impl FnOnce()) -> Vec<String> {
    let sink = Warnings::default();
    tracing::subscriber::with_default(sink.clone(), f);
    let logged = sink.0.lock().expect("no panic");
    logged.clone()
}

#[test]
fn r16_post_build_setters_warn_and_change_no_plan() {
    let mut g = GraphBuilder::new();
    let x = g.tensor(device(X, "x", &[4]));
    let alpha = g.tensor_handle(scalar(ALPHA, "alpha", State::Constant, 0.5_f32));
    let y = g.tensor(device(Y, "y", &[4]));
    g.node("scale", DataType::Float, ops::Pointwise::binary(PointwiseMode::Mul, x, alpha.uid(), y));
    let mut graph = None;
    assert_eq!(
        warnings(|| {
            graph = g.build().ok();
        }),
        Vec::<String>::new(),
        "building warns of nothing"
    );
    let graph = graph.expect("a graph");
    for via in Via::BOTH {
        let providers = via.providers();
        let before = compile(&graph, &providers).expect("compiled");
        let mut bound = via.bound(&graph);
        let logged = warnings(|| _ = alpha.set_value(9.0_f32).set_as_runtime_parameter());
        // A handle warns once.
        assert_eq!(logged.len(), usize::from(via == Via::Cpu), "{logged:?}");
        assert!(logged.iter().all(|l| l.contains("alpha")), "{logged:?}");
        assert!(alpha.attributes().get_is_runtime_pass_by_value(), "the handle itself did change");
        assert_eq!(*compile(&graph, &providers).expect("compiled").bytes, *before.bytes, "{via:?}");
        let scalar = float(7.0);
        assert_eq!(factor(&mut bound, &[Given::Raw(ALPHA, &scalar)]).ok(), Some(0.5), "{via:?}");
    }
    // The same, made anew, is as the frontend's scale.
    let same = scale(scalar(ALPHA, "alpha", State::Constant, 0.5_f32));
    assert_eq!(same.view().canonical().expect("a key").key, graph.view().canonical().expect("a key").key);
}
