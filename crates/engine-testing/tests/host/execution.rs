//! Executions through a plugin: the pack is forwarded whole (R16 §4.9).

use crate::graphs::{ALPHA, State, X, Y, scale_in};
use crate::support::{build, load, prepared};
use hipplan::plugin::Plugin;
use hipplan::{BoundPlan, ExecError, GraphBuf, InvalidValue, Stream, VariantPack, Workspace};
use hipplan_engine_testing::{Counters, HostScalar};
use std::path::PathBuf;

const IN: [f32; 4] = [1.0, -2.0, 3.0, 0.5];

/// A plugin of its own for a test, which reads counters.
fn plugin(name: &str, switches: &[&str]) -> (PathBuf, Plugin) {
    let path = build(&format!("execution-{name}"), switches);
    let plugin = load(&path);
    (path, plugin)
}

fn execute(plan: &mut BoundPlan, pack: &VariantPack<'_>) -> Result<(), ExecError> {
    let mut workspace = Workspace::new(plan.workspace_size()).expect("a workspace");
    plan.execute(pack, &mut workspace, Stream::Default)
}

/// Position of a uid among the canonical ordinals of a graph.
fn ordinal(graph: &GraphBuf, uid: i64) -> i64 {
    let uids = graph.view().canonical().expect("a key").uids;
    uids.iter().position(|u| u.0 == uid).expect("a tensor of the graph") as i64
}

fn times(alpha: f32) -> [f32; 4] {
    IN.map(|x| x * alpha)
}

#[test]
fn a_typed_pack_is_executed() {
    let (path, plugin) = plugin("typed", &[]);
    let graph = scale_in(State::Supplied, 0.0);
    let mut plan = prepared(&plugin, &graph);
    let mut y = [0.0_f32; 4];
    execute(&mut plan, VariantPack::new().input(X, &IN).scalar(ALPHA, 3.0_f32).output(Y, &mut y)).expect("executed");
    assert_eq!(y, times(3.0));
    let buffers = Counters::read(&path).expect("counters").last_buffers();
    let uids: Vec<i64> = buffers.iter().map(|&(uid, _)| uid).collect();
    assert_eq!(uids, [X, ALPHA, Y].map(|uid| ordinal(&graph, uid)));
    assert_eq!(buffers[0].1, IN.as_ptr().addr() as u64);
}

#[test]
fn the_callers_own_pointers_are_forwarded_in_the_packs_order() {
    let (path, plugin) = plugin("raw", &[]);
    let graph = scale_in(State::Supplied, 0.0);
    let mut plan = prepared(&plugin, &graph);
    // Whoever takes it for a device buffer faults.
    let alpha = HostScalar::new(-2.0_f32).expect("a page");
    let mut y = [0.0_f32; 4];
    let mut pack = VariantPack::new();
    // SAFETY: the pointers are to memory of the tensors' sizes, and to an element of the scalar's type.
    unsafe {
        pack.raw(Y, y.as_mut_ptr().cast()).raw(ALPHA, alpha.pointer()).raw(999, std::ptr::null_mut()).raw(X, IN.as_ptr().cast_mut().cast())
    };
    execute(&mut plan, &pack).expect("executed");
    assert_eq!(y, times(-2.0));
    let expected = [(Y, y.as_ptr().addr()), (ALPHA, alpha.pointer().addr()), (X, IN.as_ptr().addr())];
    assert_eq!(Counters::read(&path).expect("counters").last_buffers(), expected.map(|(uid, at)| (ordinal(&graph, uid), at as u64)));
}

#[test]
fn entries_of_constants_are_forwarded_and_change_nothing() {
    let (path, plugin) = plugin("constant", &[]);
    let graph = scale_in(State::Constant, 4.0);
    let mut plan = prepared(&plugin, &graph);
    let mut y = [0.0_f32; 4];
    execute(&mut plan, VariantPack::new().input(X, &IN).output(Y, &mut y)).expect("executed without the constant");
    assert_eq!(y, times(4.0));
    assert_eq!(Counters::read(&path).expect("counters").last_buffers().len(), 2);
    let other = [9.0_f32];
    let mut pack = VariantPack::new();
    pack.input(X, &IN).scalar(ALPHA, 9.0_f32).input(ALPHA, &other).output(Y, &mut y);
    // SAFETY: the entry is of a constant.
    unsafe { pack.raw(ALPHA, std::ptr::null_mut()) };
    execute(&mut plan, &pack).expect("executed with entries of the constant");
    assert_eq!(y, times(4.0));
    let buffers = Counters::read(&path).expect("counters").last_buffers();
    assert_eq!(buffers.iter().filter(|&&(uid, _)| uid == ordinal(&graph, ALPHA)).count(), 3);
    assert!(buffers.contains(&(ordinal(&graph, ALPHA), other.as_ptr().addr() as u64)));
    assert!(buffers.contains(&(ordinal(&graph, ALPHA), 0)));
}

#[test]
fn an_entry_of_a_default_reaches_the_plugin_which_decides() {
    for (name, switches, expected) in [("honours", &[][..], 7.0), ("ignores", &["IGNORES_OVERRIDES=1"], 5.0)] {
        let (_, plugin) = plugin(name, switches);
        let graph = scale_in(State::Defaulted, 5.0);
        let mut plan = prepared(&plugin, &graph);
        let mut y = [0.0_f32; 4];
        execute(&mut plan, VariantPack::new().input(X, &IN).output(Y, &mut y)).expect("executed with the default");
        assert_eq!(y, times(5.0));
        // A raw entry, a typed value, and a typed override are one thing to the plugin (R16 §4.6).
        let alpha = HostScalar::new(7.0_f32).expect("a page");
        let mut pack = VariantPack::new();
        // SAFETY: the pointer is to an element of the scalar's type.
        unsafe { pack.input(X, &IN).output(Y, &mut y).raw(ALPHA, alpha.pointer()) };
        execute(&mut plan, &pack).expect("executed");
        assert_eq!(y, times(expected), "{name}");
        execute(&mut plan, VariantPack::new().input(X, &IN).output(Y, &mut y).scalar(ALPHA, 7.0_f32)).expect("executed");
        assert_eq!(y, times(expected), "{name}");
        execute(&mut plan, VariantPack::new().input(X, &IN).output(Y, &mut y).override_scalar(ALPHA, 7.0_f32)).expect("executed");
        assert_eq!(y, times(expected), "{name}");
    }
}

#[test]
fn a_default_is_not_given_what_the_plugin_would_misread() {
    let (path, plugin) = plugin("misread", &[]);
    let graph = scale_in(State::Defaulted, 5.0);
    let mut plan = prepared(&plugin, &graph);
    let mut y = [0.0_f32; 4];
    let bytes = [0_u8; 1];
    let error = execute(&mut plan, VariantPack::new().input(X, &IN).input(ALPHA, &bytes).output(Y, &mut y)).expect_err("a buffer");
    assert!(matches!(error, ExecError::InvalidValue { uid: ALPHA, reason: InvalidValue::TensorForScalar, .. }), "{error}");
    let error = execute(&mut plan, VariantPack::new().input(X, &IN).scalar(ALPHA, 1.0_f64).output(Y, &mut y)).expect_err("a double");
    assert!(matches!(error, ExecError::InvalidValue { uid: ALPHA, reason: InvalidValue::ScalarType { .. }, .. }), "{error}");
    let mut null = VariantPack::new();
    // SAFETY: null is refused.
    unsafe { null.input(X, &IN).raw(ALPHA, std::ptr::null_mut()) };
    let error = execute(&mut plan, null.output(Y, &mut y)).expect_err("null");
    assert!(matches!(error, ExecError::InvalidValue { uid: ALPHA, reason: InvalidValue::Null, .. }), "{error}");
    let alpha = HostScalar::new(7.0_f32).expect("a page");
    for is_typed in [false, true] {
        let mut twice = VariantPack::new();
        // SAFETY: the pointers are to an element of the scalar's type.
        unsafe { twice.input(X, &IN).raw(ALPHA, alpha.pointer()).output(Y, &mut y) };
        if is_typed {
            twice.scalar(ALPHA, 7.0_f32);
        } else {
            // SAFETY: as above.
            unsafe { twice.raw(ALPHA, alpha.pointer()) };
        }
        let error = execute(&mut plan, &twice).expect_err("twice");
        assert!(matches!(error, ExecError::InvalidValue { uid: ALPHA, reason: InvalidValue::Twice { uid: ALPHA }, .. }), "{error}");
    }
    assert_eq!(Counters::read(&path).expect("counters").last_buffers(), []);
    // Nothing of the refused packs is left.
    execute(&mut plan, VariantPack::new().input(X, &IN).output(Y, &mut y)).expect("executed");
    assert_eq!(Counters::read(&path).expect("counters").last_buffers().len(), 2);
}

#[test]
fn what_is_missing_is_the_plugins_to_notice() {
    let (_, plugin) = plugin("missing", &[]);
    let graph = scale_in(State::Supplied, 0.0);
    let mut plan = prepared(&plugin, &graph);
    let mut y = [0.0_f32; 4];
    let error = execute(&mut plan, VariantPack::new().input(X, &IN).output(Y, &mut y)).expect_err("no alpha");
    assert!(error.is_invalid_value());
    let ExecError::Plugin(of_plugin) = &error else { panic!("{error}") };
    assert_eq!(of_plugin.status(), Some(2));
    let expected = format!(
        "plugin hipplan test plugin: hipdnnEnginePluginExecuteOpGraph failed with INVALID_VALUE (status 2): no buffer for the tensor with uid {}",
        ordinal(&graph, ALPHA)
    );
    assert_eq!(error.to_string(), expected);
    // A device tensor too; and then all is well again.
    assert!(execute(&mut plan, VariantPack::new().scalar(ALPHA, 1.0_f32).output(Y, &mut y)).is_err());
    execute(&mut plan, VariantPack::new().input(X, &IN).scalar(ALPHA, 1.0_f32).output(Y, &mut y)).expect("executed");
    assert_eq!(y, IN);
}

#[test]
fn null_pointers_and_buffers_that_are_too_small_do_not_reach_the_plugin() {
    let (path, plugin) = plugin("null", &[]);
    let graph = scale_in(State::Supplied, 0.0);
    let mut plan = prepared(&plugin, &graph);
    let mut y = [0.0_f32; 4];
    for uid in [X, ALPHA] {
        let mut pack = VariantPack::new();
        // SAFETY: null is refused.
        unsafe { pack.raw(uid, std::ptr::null_mut()) };
        let error = execute(&mut plan, &pack).expect_err("null");
        assert!(matches!(error, ExecError::InvalidValue { reason: InvalidValue::Null, .. }), "{error}");
    }
    let error = execute(&mut plan, VariantPack::new().input(X, &IN[..3]).scalar(ALPHA, 1.0_f32).output(Y, &mut y)).expect_err("short");
    assert!(matches!(error, ExecError::InvalidValue { reason: InvalidValue::BufferSize { .. }, .. }), "{error}");
    assert_eq!(Counters::read(&path).expect("counters").last_buffers(), []);
}

#[test]
fn a_status_of_an_execution_is_told_by_number() {
    let (_, plugin) = plugin("unknown-status", &["FAILS_IN=ENTRY_EXECUTE", "FAILS_WITH=99", "FAILS_LATE=1"]);
    let mut plan = prepared(&plugin, &scale_in(State::Constant, 1.0));
    let mut y = [0.0_f32; 4];
    let error = execute(&mut plan, VariantPack::new().input(X, &IN).output(Y, &mut y)).expect_err("it fails");
    assert!(!error.is_invalid_value() && error.to_string().contains("the unknown status 99"), "{error}");
}

#[test]
fn a_workspace_is_given_where_one_is_needed() {
    let (path, plugin) = plugin("workspace", &["WORKSPACE_BYTES=100"]);
    let mut plan = prepared(&plugin, &scale_in(State::Constant, 1.0));
    assert_eq!(plan.workspace_size(), 100);
    let mut y = [0.0_f32; 4];
    let mut pack = VariantPack::new();
    pack.input(X, &IN).output(Y, &mut y);
    assert!(matches!(plan.execute(&pack, &mut [], Stream::Default), Err(ExecError::WorkspaceSize { found: 0, expected: 100 })));
    let mut workspace = Workspace::new(100).expect("a workspace");
    let at = workspace.as_mut_slice().as_ptr().addr() as u64;
    plan.execute(&pack, &mut workspace, Stream::Default).expect("executed");
    assert_eq!(Counters::read(&path).expect("counters").last_workspace, at);
    let (path, plugin) = self::plugin("no-workspace", &[]);
    let mut plan = prepared(&plugin, &scale_in(State::Constant, 1.0));
    plan.execute(&pack, &mut workspace, Stream::Default).expect("executed");
    assert_eq!(Counters::read(&path).expect("counters").last_workspace, 0);
}
