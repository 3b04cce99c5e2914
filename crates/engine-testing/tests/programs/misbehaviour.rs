//! The variants do what their switches say.

use crate::graphs::{ALPHA, State, X, Y, scale_in};
use crate::run::Run;
use hipplan_engine_testing::{CompileError, Counters, Entry, Plugins};
use libloading::Library;
use std::path::PathBuf;

fn plugin(switches: &[&str]) -> PathBuf {
    Plugins::build("misbehaviour", switches).unwrap_or_else(|e| panic!("{e}"))
}

fn run() -> Run {
    let mut run = Run::new();
    run.input(X, &[0; 16]).scalar(ALPHA, &1.0_f32.to_le_bytes()).output(Y, 16);
    run
}

fn lines(switches: &[&str]) -> Vec<String> {
    let run = run();
    run.lines(&plugin(switches), &["--graph", &run.graph(&scale_in(State::Supplied, 0.0))])
}

fn error(switches: &[&str]) -> String {
    let run = run();
    run.error(&plugin(switches), &["--graph", &run.graph(&scale_in(State::Supplied, 0.0))])
}

/// The program could not go on.
fn stopped(switches: &[&str]) -> String {
    let run = run();
    let output = run.start(&plugin(switches), &["--graph", &run.graph(&scale_in(State::Supplied, 0.0))]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn identities_are_as_told() {
    let lines = lines(&["PLUGIN_NAME=\"n\"", "PLUGIN_VERSION=\"v\"", "API_VERSION=\"9.9.9\"", "ENGINE_NAMES={\"MIOPEN_ENGINE\"}"]);
    // The id is one of the notes' check values.
    for line in ["name n", "version v", "type 1", "api 9.9.9", "engine 1563989756945604898 MIOPEN_ENGINE", "details 1563989756945604898 3"]
    {
        assert!(lines.iter().any(|l| l == line), "{line}: {lines:?}");
    }
    let lines = self::lines(&["hipdnnPluginGetApiVersion=omitted", "ENGINE_IDS={-5}", "ENGINE_NAME_STATUS=5", "KNOBS=0"]);
    for line in ["api (none)", "engine -5 (no name)", "details -5 0"] {
        assert!(lines.iter().any(|l| l == line), "{line}: {lines:?}");
    }
    assert!(self::lines(&["PLUGIN_TYPE=HIPDNN_PLUGIN_TYPE_HEURISTIC"]).contains(&"type 2".to_owned()));
}

#[test]
fn an_engine_that_folds_declines_runtime_scalars_only() {
    assert_eq!(lines(&["FOLDS=1"]).last().map(String::as_str), Some("applicable 0"));
    let run = run();
    let graph = run.graph(&scale_in(State::Defaulted, 0.0));
    assert_eq!(run.lines(&plugin(&["FOLDS=1"]), &["--graph", &graph]).last().map(String::as_str), Some("applicable 0"));
    let graph = run.graph(&scale_in(State::Constant, 0.0));
    assert!(run.lines(&plugin(&["FOLDS=1"]), &["--graph", &graph]).contains(&"done".to_owned()));
}

#[test]
fn failures_come_where_they_are_asked_for() {
    assert_eq!(error(&["FAILS_IN=ENTRY_CREATE"]), "error hipdnnEnginePluginCreate 3 entry 1 fails on purpose");
    assert!(error(&["FAILS_IN=ENTRY_EXECUTE", "FAILS_WITH=99", "FAILS_LATE=1"]).contains(" 99 entry 11 fails on purpose, after"));
    assert!(error(&["FAILS_IN=ENTRY_SERIALIZE", "ERROR_TEXT=ERROR_TEXT_NULL"]).ends_with("(no text)"));
    assert!(error(&["FAILS_IN=ENTRY_SERIALIZE", "ERROR_TEXT=ERROR_TEXT_LONG"]).len() > 1 << 19);
    assert!(error(&["FAILS_IN=ENTRY_SERIALIZE", "ERROR_TEXT=ERROR_TEXT_EMPTY"]).ends_with(" 3 "));
    assert_eq!(stopped(&["NULL_HANDLE=1"]), "no handle\n");
    assert_eq!(stopped(&["NULL_CONTEXT=1"]), "no context\n");
    for details in ["NULL", "EMPTY", "GARBAGE"] {
        assert_eq!(stopped(&[&format!("DETAILS=DETAILS_{details}")]), "details that cannot be read\n");
    }
    assert!(error(&["SERIALIZED=SERIALIZED_EMPTY"]).ends_with("0 bytes are too few"));
    assert!(stopped(&["hipdnnEnginePluginSetStream=omitted"]).ends_with("SetStream is missing\n"));
    assert!(stopped(&["FIRST_COUNT=0xffffffff"]).starts_with("4294967295 engines"));
    assert_eq!(lines(&["SECOND_COUNT=2"]).iter().filter(|l| l.starts_with("engine ")).count(), 0);
    assert!(lines(&["APPLICABLE_COUNT=7"]).contains(&"applicable 7".to_owned()));
}

#[test]
fn a_switch_that_does_not_exist_is_refused() {
    // Words of a comment, values, guards of headers, types and helpers are no switches either.
    let words = ["Identity", "RFC=1", "HOOKS_EXT", "DETAILS_NULL=1", "VARIANT_H", "hipdnnPluginStatus_t=omitted", "context_new=omitted"];
    for switch in ["FOLD=1", "", "=1", "hipdnnEnginePluginSetStreams=omitted", "FOLDS;"].into_iter().chain(words) {
        let error = Plugins::build("misbehaviour", &[switch]).expect_err("no such switch");
        assert!(matches!(error, CompileError::Switch { .. }), "{error}");
    }
    let error = Plugins::build("misbehaviour", &["FAILS_IN=NOWHERE"]).expect_err("no such entry");
    assert!(error.to_string().contains("NOWHERE"), "{error}");
}

#[test]
fn counters_are_those_of_the_file() {
    let (one, other) = (plugin(&[]), Plugins::build("misbehaviour-too", &[]).expect("a plugin"));
    assert_ne!(one, other);
    // SAFETY: this crate's own plugin, and a function of the type that the header tells.
    unsafe {
        let library = Library::new(&one).expect("loads");
        let ids = library.get::<unsafe extern "C" fn(*mut i64, u32, *mut u32) -> i32>(b"hipdnnEnginePluginGetAllEngineIds\0");
        let mut count = 0;
        assert_eq!(ids.expect("exported")(std::ptr::null_mut(), 0, &raw mut count), 0);
        assert_eq!(count, 1);
        // Counters stay while the library is loaded, and `read` keeps it so.
        assert_eq!(Counters::read(&one).expect("counters").calls(Entry::GetAllEngineIds), 1);
    }
    let counters = Counters::read(&other).expect("counters");
    assert_eq!(counters.calls(Entry::GetAllEngineIds), 0);
    assert!(counters.last_buffers().is_empty());
}
