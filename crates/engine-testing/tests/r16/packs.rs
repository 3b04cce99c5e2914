//! What an entry of a pack does, in every state (R16 §4.5, §4.6, §4.9).

use crate::graphs::{ALPHA, State, X, Y, scale_in};
use crate::support::{Given, Via, bind, build, compile, factor, float, is_invalid_value, only};
use hipplan::{
    BoundPlan, CompileError, Device, ExecError, GraphBuf, InvalidValue, Policy, Request, Site, Stream, TensorValue, VariantPack,
    compile_in_process,
};
use hipplan_engine_testing::{Counters, Entry};
use std::path::Path;

fn bound_to(plugin: &Path, graph: &GraphBuf) -> BoundPlan {
    let providers = only(&[plugin]);
    let plan = compile(graph, &providers).unwrap_or_else(|e| panic!("{e}"));
    bind(&plan, graph, &providers).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn r16_override_inert_for_constants_and_defaults_on_the_cpu() {
    for state in [State::Constant, State::Defaulted] {
        let mut plan = Via::Cpu.bound(&scale_in(state, 0.25));
        let nine = float(9.0);
        for given in [vec![], vec![Given::Raw(ALPHA, &nine)], vec![Given::Typed(ALPHA, TensorValue::Float32(9.0))]] {
            assert_eq!(factor(&mut plan, &given).ok(), Some(0.25), "{state:?}");
        }
        // An explicit override is another thing than an entry: it wins over a default, and a constant stays what it is.
        let expected = if state == State::Constant { 0.25 } else { 9.0 };
        assert_eq!(factor(&mut plan, &[Given::Override(ALPHA, &nine)]).ok(), Some(expected), "{state:?}");
        assert_eq!(factor(&mut plan, &[Given::TypedOverride(ALPHA, TensorValue::Float32(9.0))]).ok(), Some(expected), "{state:?}");
        assert_eq!(factor(&mut plan, &[]).ok(), Some(0.25), "and is forgotten after the call");
    }
}

#[test]
fn r16_override_inert_where_a_plugin_ignores_it_and_the_default_reaches_it_unchanged() {
    // As hipDNN's own providers do today; the pack is forwarded to it whole.
    let plugin = build("override-inert", &["IGNORES_OVERRIDES=1"]);
    for state in [State::Constant, State::Defaulted] {
        let graph = scale_in(state, 0.25);
        let mut plan = bound_to(&plugin, &graph);
        let nine = float(9.0);
        assert_eq!(factor(&mut plan, &[]).ok(), Some(0.25), "{state:?}");
        assert_eq!(Counters::read(&plugin).expect("counters").last_buffers().len(), 2);
        assert_eq!(factor(&mut plan, &[Given::Raw(ALPHA, &nine)]).ok(), Some(0.25), "{state:?}");
        let buffers = Counters::read(&plugin).expect("counters").last_buffers();
        assert_eq!(buffers.len(), 3, "{state:?}: {buffers:?}");
        assert_eq!(buffers[2].1, nine.pointer() as u64, "the caller's own pointer, in the caller's order");
    }
}

#[test]
fn r16_delivery_value_reaches_the_slot_and_equals_the_callers() {
    for via in Via::BOTH {
        let mut plan = via.bound(&scale_in(State::Supplied, 0.0));
        let mut scalar = float(0.0);
        for value in [2.0, -3.5, 0.125, f32::MAX.sqrt()] {
            scalar.set(value);
            assert_eq!(factor(&mut plan, &[Given::Raw(ALPHA, &scalar)]).ok(), Some(value), "{via:?}");
            assert_eq!(factor(&mut plan, &[Given::Typed(ALPHA, TensorValue::Float32(value))]).ok(), Some(value), "{via:?}");
        }
    }
}

#[test]
fn r16_delivery_hands_a_plugin_the_callers_pointer_under_the_canonical_uid() {
    let plugin = build("delivery", &[]);
    let graph = scale_in(State::Supplied, 0.0);
    let mut plan = bound_to(&plugin, &graph);
    let scalar = float(2.0);
    assert_eq!(factor(&mut plan, &[Given::Raw(ALPHA, &scalar), Given::Raw(77, &scalar)]).ok(), Some(2.0));
    let uids = graph.view().canonical().expect("a key").uids;
    let ordinal = uids.iter().position(|uid| uid.0 == ALPHA).expect("used") as i64;
    let buffers = Counters::read(&plugin).expect("counters").last_buffers();
    // x, y and alpha; 77 is no tensor of the graph and has no ordinal.
    assert_eq!(buffers.len(), 3, "{buffers:?}");
    assert_eq!(buffers[2], (ordinal, scalar.pointer() as u64));
    // Read during the call, and not kept: with the page gone, the next execution is none the worse. The other is mapped while the first is
    // still there, so that it has another address, and a pointer that was kept would fault.
    let other = float(-1.0);
    assert_ne!(other.pointer(), scalar.pointer());
    drop(scalar);
    assert_eq!(factor(&mut plan, &[Given::Raw(ALPHA, &other)]).ok(), Some(-1.0));
}

#[test]
fn r16_delivery_on_the_fresh_path_of_a_plugin_that_cannot_persist() {
    // No payload is in between: the context is the one that was made of the graph.
    let providers = only(&[&build("fresh", &["HOOKS=HOOKS_NONE"])]);
    let site = Site::present(&Device::Cpu);
    let request = Request { site: &site, policy: &Policy::DEFAULT };
    for (state, expected) in [(State::Supplied, 3.0), (State::Defaulted, 3.0), (State::Constant, 0.25)] {
        let graph = scale_in(state, 0.25);
        let error = compile(&graph, &providers).expect_err("there is nothing to store");
        assert!(matches!(error, CompileError::CannotPersist { .. }) && error.to_string().contains("provider cannot persist"), "{error}");
        let mut plan = compile_in_process(&graph.view(), &request, &providers).unwrap_or_else(|e| panic!("{e}")).bound;
        let three = float(3.0);
        assert_eq!(factor(&mut plan, &[Given::Raw(ALPHA, &three)]).ok(), Some(expected), "{state:?}");
        match state {
            State::Supplied => assert!(is_invalid_value(&factor(&mut plan, &[]).expect_err("missing"))),
            _ => assert_eq!(factor(&mut plan, &[]).ok(), Some(0.25), "{state:?}"),
        }
    }
}

#[test]
fn r16_missing_value_is_invalid_value_and_names_the_tensor() {
    let mut plan = Via::Cpu.bound(&scale_in(State::Supplied, 0.0));
    let error = factor(&mut plan, &[]).expect_err("missing");
    assert!(matches!(error, ExecError::InvalidValue { uid: ALPHA, reason: InvalidValue::Missing { uid: ALPHA }, .. }), "{error}");
    assert!(error.to_string().contains("uid 20") && error.to_string().contains("\"alpha\""), "{error}");
    // The same as for any other tensor.
    let x = [0.0_f32; 4];
    let alpha = float(1.0);
    let given = [Given::Raw(ALPHA, &alpha)];
    let mut pack = VariantPack::new();
    pack.input(X, &x);
    crate::support::put(&mut pack, &given);
    let error = plan.execute(&pack, &mut [], Stream::Default).expect_err("no output");
    assert!(matches!(error, ExecError::InvalidValue { uid: Y, reason: InvalidValue::Missing { uid: Y }, .. }), "{error}");
}

#[test]
fn r16_missing_value_is_noticed_by_the_plugin_and_its_error_is_passed_on() {
    let plugin = build("missing", &[]);
    let graph = scale_in(State::Supplied, 0.0);
    let mut plan = bound_to(&plugin, &graph);
    let error = factor(&mut plan, &[]).expect_err("missing");
    assert!(is_invalid_value(&error), "{error}");
    let uids = graph.view().canonical().expect("a key").uids;
    let ordinal = uids.iter().position(|uid| uid.0 == ALPHA).expect("used");
    assert!(error.to_string().contains(&format!("no buffer for the tensor with uid {ordinal}")), "{error}");
    assert_eq!(Counters::read(&plugin).expect("counters").calls(Entry::Execute), 1, "the plugin was asked: it is the one that notices");
    // A defaulted one may be missing.
    assert_eq!(factor(&mut bound_to(&plugin, &scale_in(State::Defaulted, 4.0)), &[]).ok(), Some(4.0));
}

#[test]
fn r16_provider_paths_default_and_supplied_run_end_to_end() {
    for via in Via::BOTH {
        let mut defaulted = via.bound(&scale_in(State::Defaulted, 0.75));
        let mut supplied = via.bound(&scale_in(State::Supplied, 0.75));
        assert_eq!(factor(&mut defaulted, &[]).ok(), Some(0.75), "{via:?}: the value in the graph");
        let five = float(5.0);
        assert_eq!(factor(&mut supplied, &[Given::Raw(ALPHA, &five)]).ok(), Some(5.0), "{via:?}: the value in host memory");
        // The two expect different things of the pack.
        assert!(is_invalid_value(&factor(&mut supplied, &[]).expect_err("no default")), "{via:?}");
    }
}

#[test]
fn r16_provider_paths_entry_wins_over_the_default_where_the_contract_is_kept() {
    // The 1.2.0 contract (R16 §4.6): an entry, if present, overrides. The plugin sees it, because the pack is forwarded unfiltered.
    let mut plan = Via::Plugin.bound(&scale_in(State::Defaulted, 0.75));
    let five = float(5.0);
    for _ in 0..2 {
        assert_eq!(factor(&mut plan, &[Given::Raw(ALPHA, &five)]).ok(), Some(5.0));
        assert_eq!(factor(&mut plan, &[Given::Override(ALPHA, &five)]).ok(), Some(5.0));
        assert_eq!(factor(&mut plan, &[Given::Typed(ALPHA, TensorValue::Float32(6.0))]).ok(), Some(6.0));
        assert_eq!(factor(&mut plan, &[]).ok(), Some(0.75));
    }
    // A constant is never overridden.
    let mut plan = Via::Plugin.bound(&scale_in(State::Constant, 0.75));
    assert_eq!(factor(&mut plan, &[Given::Override(ALPHA, &five)]).ok(), Some(0.75));
}
