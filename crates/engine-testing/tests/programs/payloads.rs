//! What goes into a payload, and what a plugin makes of one.

use crate::graphs::{ALPHA, State, X, Y, scale_in};
use crate::run::Run;
use hipplan_engine_testing::Plugins;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Output;

fn plugin(switches: &[&str]) -> PathBuf {
    Plugins::build("payloads", switches).unwrap_or_else(|e| panic!("{e}"))
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().expect("four bytes"))).collect()
}

/// Runs `y = x * alpha` with x = 1, 2, 3, 4, and alpha if it is given.
fn run_with(alpha: Option<f32>) -> Run {
    let mut run = Run::new();
    run.input(X, bytemuck_cast(&[1.0, 2.0, 3.0, 4.0])).output(Y, 16);
    if let Some(alpha) = alpha {
        run.scalar(ALPHA, &alpha.to_le_bytes());
    }
    run
}

fn bytemuck_cast(values: &[f32; 4]) -> &'static [u8] {
    Box::leak(values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>().into_boxed_slice())
}

/// Saves the payload of a plan into the run's folder.
fn saved(run: &Run, plugin: &Path, state: State) -> String {
    let path = run.folder().join("payload").display().to_string();
    run.lines(plugin, &["--graph", &run.graph(&scale_in(state, 0.25)), "--save", &path]);
    path
}

#[test]
fn every_family_of_hooks_brings_a_context_back() {
    for hooks in ["HOOKS_WITH_ENGINE_ID", "HOOKS_EXT", "HOOKS_PLAIN"] {
        let run = run_with(Some(3.0));
        let lines = run.lines(&plugin(&[&format!("HOOKS={hooks}")]), &["--graph", &run.graph(&scale_in(State::Supplied, 0.0))]);
        assert!(lines.iter().any(|l| l.starts_with("serialized ")) && lines.contains(&"same".to_owned()), "{hooks}: {lines:?}");
        assert_eq!(floats(&run.written(Y)), [3.0, 6.0, 9.0, 12.0]);
    }
    let run = run_with(Some(3.0));
    let lines = run.lines(&plugin(&["HOOKS=HOOKS_NONE"]), &["--graph", &run.graph(&scale_in(State::Supplied, 0.0))]);
    assert!(!lines.iter().any(|l| l.starts_with("serialized ")), "{lines:?}");
    // Called as the others are, the form with a configuration finds none.
    let error = run.error(&plugin(&["HOOKS=HOOKS_PLAIN_WITH_CONFIG"]), &["--graph", &run.graph(&scale_in(State::Supplied, 0.0))]);
    assert!(error.starts_with("error create from serialized 1 serialised context: "), "{error}");
}

#[test]
fn another_process_supplies_another_value() {
    let plugin = plugin(&[]);
    let first = run_with(Some(3.0));
    let payload = saved(&first, &plugin, State::Supplied);
    let second = run_with(Some(-0.5));
    second.lines(&plugin, &["--load", &payload]);
    assert_eq!(floats(&second.written(Y)), [-0.5, -1.0, -1.5, -2.0]);
    // Without a value, the plugin says which one is missing: INVALID_VALUE is 2.
    let error = run_with(None).error(&plugin, &["--load", &payload]);
    assert_eq!(error, format!("error hipdnnEnginePluginExecuteOpGraph 2 no buffer for the tensor with uid {ALPHA}"));
}

#[test]
fn defaults_are_kept_and_overridden_unless_a_variant_does_not() {
    let (right, inert) = (plugin(&[]), plugin(&["IGNORES_OVERRIDES=1"]));
    for (plugin, overridden) in [(&right, 8.0), (&inert, 0.25)] {
        for (alpha, expected) in [(None, 0.25), (Some(8.0), overridden)] {
            let run = run_with(alpha);
            let payload = saved(&run, plugin, State::Defaulted);
            assert_eq!(floats(&run.written(Y))[0], expected);
            let restored = run_with(alpha);
            restored.lines(plugin, &["--load", &payload]);
            assert_eq!(floats(&restored.written(Y))[0], expected);
        }
    }
    let forgets = plugin(&["FORGETS_DEFAULTS=1"]);
    let run = run_with(None);
    let path = run.folder().join("payload").display().to_string();
    let error = run.error(&forgets, &["--graph", &run.graph(&scale_in(State::Defaulted, 0.25)), "--save", &path]);
    assert_eq!(floats(&run.written(Y))[0], 0.25, "before it was restored");
    assert_eq!(error, format!("error hipdnnEnginePluginExecuteOpGraph 2 no buffer for the tensor with uid {ALPHA}"));
}

#[test]
fn other_versions_of_a_payload_are_refused() {
    let (old, new) = (plugin(&[]), plugin(&["PAYLOAD_VERSION=2"]));
    let run = run_with(Some(3.0));
    let payload = saved(&run, &new, State::Supplied);
    let error = run.error(&old, &["--load", &payload]);
    assert_eq!(error, "error create from serialized 2 payload: version 2, this build reads version 1");
    let careless = plugin(&["ANY_PAYLOAD_VERSION=1"]);
    assert!(run.lines(&careless, &["--load", &payload]).contains(&"done".to_owned()));
    // Whatever is cut off, it is refused and nothing is read behind the end.
    let bytes = std::fs::read(&payload).expect("a payload");
    for length in (0..bytes.len()).step_by(7) {
        let cut = run.file("cut", &bytes[..length]);
        assert!(run.error(&new, &["--load", &cut]).starts_with("error create from serialized "));
    }
}

#[test]
fn a_host_scalar_that_is_read_as_a_device_buffer_faults() {
    // A sanitizer catches the signal and tells of it.
    let faulted = |output: &Output| output.status.signal() == Some(11) || String::from_utf8_lossy(&output.stderr).contains("SEGV");
    // It knows nothing of the flag, as a plugin of 1.1.0 would not.
    let legacy = plugin(&["KNOWS_NO_RUNTIME=1", "FETCHES_LINES=1"]);
    let run = run_with(Some(3.0));
    let output = run.start(&legacy, &["--graph", &run.graph(&scale_in(State::Supplied, 0.0))]);
    assert!(faulted(&output), "{output:?}");
    // It knows the flag, and loses it in the payload.
    let forgets = plugin(&["FORGETS_RUNTIME_SET=1", "FETCHES_LINES=1"]);
    let output = run.start(&forgets, &["--graph", &run.graph(&scale_in(State::Supplied, 0.0))]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("restored"), "{output:?}");
    assert!(faulted(&output), "{output:?}");
    // A constant is read from the graph, and the entry is not looked at.
    let lines = run.lines(&legacy, &["--graph", &run.graph(&scale_in(State::Constant, 0.5))]);
    assert!(lines.contains(&"same".to_owned()), "{lines:?}");
    assert_eq!(floats(&run.written(Y))[0], 0.5);
}

#[test]
fn knobs_reach_the_context_and_come_back() {
    let plugin = plugin(&["WORKSPACE_BYTES=100"]);
    let run = run_with(Some(3.0));
    let lines = run.lines(&plugin, &["--block", "3", "--graph", &run.graph(&scale_in(State::Supplied, 0.0))]);
    let found: Vec<_> = lines.iter().filter(|l| l.starts_with("workspace ") || l.starts_with("bound ")).collect();
    assert_eq!(found, ["bound 364", "workspace 300", "workspace 300"], "{lines:?}");
    let error = run.error(&plugin, &["--block", "9", "--graph", &run.graph(&scale_in(State::Supplied, 0.0))]);
    assert!(error.contains("test.block is a number from 1 to 8"), "{error}");
}
