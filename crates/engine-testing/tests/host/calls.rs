//! Calls of a plugin that goes wrong: errors that name plugin, function and status, and nothing kept of what went wrong.

use crate::graphs::{State, scale_in};
use crate::support::{ENGINE, build, canonical, config, context, load};
use hipplan::hipdnn::engine::{EngineConfig, KnobConstraint, KnobValue};
use hipplan::plugin::PluginError;
use hipplan::{Device, engine_id, engine_id_text};
use hipplan_engine_testing::{Counters, Entry};

/// What a plugin of these switches says to a graph.
fn applicable(switches: &[&str]) -> Result<Vec<i64>, PluginError> {
    let graph = canonical(&scale_in(State::Supplied, 0.0));
    load(&build("calls", switches)).applicable_engines(&Device::Cpu, &graph.view())
}

fn starts(error: &PluginError, text: &str) {
    assert!(error.to_string().starts_with(text), "{error}");
}

#[test]
fn engines_that_take_a_graph() {
    assert_eq!(applicable(&[]).expect("engines"), [engine_id(ENGINE)]);
    assert_eq!(applicable(&["ENGINE_NAMES={\"B\",\"A\"}"]).expect("engines"), [engine_id("B"), engine_id("A")]);
    assert_eq!(applicable(&["FOLDS=1"]).expect("no engine"), [0_i64; 0]);
    let nothing = applicable(&["FAILS_IN=ENTRY_GET_APPLICABLE_ENGINE_IDS", "FAILS_WITH=HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE"]);
    assert_eq!(nothing.expect("no engine"), [0_i64; 0]);
}

#[test]
fn ids_that_cannot_be_are_errors() {
    let function = "plugin hipplan test plugin: hipdnnEnginePluginGetApplicableEngineIds breaks the plugin ABI: ";
    let own = engine_id(ENGINE);
    let twice = format!("APPLICABLE_IDS={{{own}LL,{own}LL}}");
    for (switches, what) in [
        (&["APPLICABLE_COUNT=7"][..], "it counts 7 engines, the plugin has 1".to_owned()),
        (&["APPLICABLE_COUNT=0x7fffffff"], "it counts 2147483647 engines, the plugin has 1".to_owned()),
        (&["APPLICABLE_IDS={9}"], "it gives engine 0x0000000000000009, which is none of the plugin's".to_owned()),
        (&["ENGINE_NAMES={\"HIPPLAN_TEST_ENGINE\",\"B\"}", &twice], format!("it gives engine {} twice", engine_id_text(own))),
        (&["APPLICABLE_COUNT=1", "APPLICABLE_STORES=0"], "it counts 1 ids and stores 0".to_owned()),
        (&[&twice], "it counts 2 engines, the plugin has 1".to_owned()),
    ] {
        starts(&applicable(switches).expect_err(&what), &format!("{function}{what}"));
    }
}

#[test]
fn a_status_is_told_with_the_plugins_words() {
    let fails = |switches: &[&str]| {
        let switches = [&["FAILS_IN=ENTRY_GET_APPLICABLE_ENGINE_IDS"], switches].concat();
        applicable(&switches).expect_err("it fails")
    };
    let error = fails(&[]);
    assert_eq!(error.status(), Some(3));
    assert_eq!(
        error.to_string(),
        "plugin hipplan test plugin: hipdnnEnginePluginGetApplicableEngineIds failed with INTERNAL_ERROR (status 3): entry 4 fails on purpose"
    );
    let error = fails(&["FAILS_WITH=-9", "FAILS_LATE=1"]);
    assert_eq!(error.status(), Some(-9));
    assert!(error.to_string().contains("failed with the unknown status -9: entry 4 fails on purpose, after its work"), "{error}");
    for text in ["EMPTY", "NULL"] {
        let error = fails(&[&format!("ERROR_TEXT=ERROR_TEXT_{text}")]);
        assert!(error.to_string().ends_with("(status 3): it does not say why"), "{error}");
    }
    let error = fails(&["FAILURE_TEXT=\"\\x1b[2Jgone\\nplugin other: all is well\\n\""]).to_string();
    assert!(error.ends_with("(status 3): \\u{1b}[2Jgone\\nplugin other: all is well"), "{error}");
    // A text of a mebibyte.
    let error = fails(&["ERROR_TEXT=ERROR_TEXT_LONG"]).to_string();
    assert!(error.ends_with(&format!("(status 3): {}", "e".repeat(4096))), "{} bytes", error.len());
}

#[test]
fn handles_are_there_or_an_error() {
    starts(
        &applicable(&["NULL_HANDLE=1"]).expect_err("null"),
        "plugin hipplan test plugin: hipdnnEnginePluginCreate breaks the plugin ABI: it gives a null handle",
    );
    starts(
        &applicable(&["FAILS_IN=ENTRY_CREATE"]).expect_err("fails"),
        "plugin hipplan test plugin: hipdnnEnginePluginCreate failed with INTERNAL_ERROR",
    );
    let path = build("calls-stream", &["FAILS_IN=ENTRY_SET_STREAM"]);
    let graph = canonical(&scale_in(State::Supplied, 0.0));
    let error = load(&path).applicable_engines(&Device::Cpu, &graph.view()).expect_err("fails");
    starts(&error, "plugin hipplan test plugin: hipdnnEnginePluginSetStream failed with INTERNAL_ERROR");
    // A handle that cannot be used is given back.
    assert_eq!(Counters::read(&path).expect("counters").live_handles, 0);
    // One value for all handles: a second thread would take over the first one's.
    let path = build("calls-same-handle", &["SAME_HANDLE=1"]);
    let plugin = load(&path);
    assert!(plugin.applicable_engines(&Device::Cpu, &graph.view()).is_ok());
    let second = || plugin.applicable_engines(&Device::Cpu, &graph.view()).expect_err("the same");
    let error = std::thread::scope(|scope| scope.spawn(second).join().expect("no panic"));
    starts(
        &error,
        "plugin hipplan test plugin: hipdnnEnginePluginCreate breaks the plugin ABI: it gives a handle that it has given before",
    );
    assert_eq!(Counters::read(&path).expect("counters").calls(Entry::Destroy), 0);
}

#[test]
fn details_are_read_and_given_back() {
    let path = build("calls-details", &[]);
    let graph = canonical(&scale_in(State::Supplied, 0.0));
    let details = load(&path).engine_details(&Device::Cpu, engine_id(ENGINE), &graph.view()).expect("details");
    assert_eq!((details.engine_id, details.name.as_deref()), (engine_id(ENGINE), Some(ENGINE)));
    let block = details.knobs.iter().find(|knob| knob.id == "test.block").expect("a knob");
    assert_eq!(block.default, KnobValue::Int(1));
    assert!(matches!(block.constraint, Some(KnobConstraint::Int { min: 1, max: 8, .. })), "{block:?}");
    assert_eq!(block.parse_value("2"), Ok(KnobValue::Int(2)));
    assert!(block.parse_value("9").is_err());
    let order = details.knobs.iter().find(|knob| knob.id == "test.order").expect("a knob");
    assert_eq!(order.parse_value("columns"), Ok(KnobValue::Text("columns".into())));
    assert!(order.parse_value("diagonals").is_err());
    assert_eq!(Counters::read(&path).expect("counters").live_buffers, 0);
}

#[test]
fn details_that_cannot_be_used_are_errors_and_given_back() {
    let graph = canonical(&scale_in(State::Supplied, 0.0));
    let function = "plugin hipplan test plugin: hipdnnEnginePluginGetEngineDetails";
    for (details, expected) in [
        ("NULL", format!("{function} breaks the plugin ABI: it gives a null pointer to 0 bytes")),
        ("EMPTY", format!("{function} breaks the plugin ABI: it gives no bytes")),
        ("GARBAGE", "plugin hipplan test plugin: engine details: damaged: ".to_owned()),
        ("OF_ANOTHER_ENGINE", format!("{function} breaks the plugin ABI: asked of engine ")),
    ] {
        let path = build(&format!("calls-{details}"), &[&format!("DETAILS=DETAILS_{details}")]);
        let error = load(&path).engine_details(&Device::Cpu, engine_id(ENGINE), &graph.view()).expect_err(details);
        starts(&error, &expected);
        assert_eq!(Counters::read(&path).expect("counters").live_buffers, 0, "{details}");
    }
    // What a plugin says of giving back changes nothing.
    let path = build("calls-giving-back", &["FAILS_IN=ENTRY_DESTROY_ENGINE_DETAILS", "FAILS_LATE=1"]);
    assert!(load(&path).engine_details(&Device::Cpu, engine_id(ENGINE), &graph.view()).is_ok());
}

#[test]
fn contexts_are_there_or_an_error() {
    let graph = scale_in(State::Supplied, 0.0);
    let fails = |switches: &[&str]| context(&load(&build("calls-context", switches)), &graph).expect_err("it fails");
    let function = "plugin hipplan test plugin: hipdnnEnginePluginCreateExecutionContext";
    starts(&fails(&["NULL_CONTEXT=1"]), &format!("{function} breaks the plugin ABI: it gives a null context"));
    starts(&fails(&["FAILS_IN=ENTRY_CREATE_EXECUTION_CONTEXT"]), &format!("{function} failed with INTERNAL_ERROR"));
    starts(&fails(&["FAILS_IN=ENTRY_CREATE_EXECUTION_CONTEXT", "FAILS_LATE=1"]), &format!("{function} failed with INTERNAL_ERROR"));
    // Knobs are the plugin's to refuse.
    let plugin = load(&build("calls-context", &[]));
    let config = config(ENGINE, &[("test.block", KnobValue::Int(99))]);
    let error = plugin.create_context(&Device::Cpu, &config, &canonical(&graph).view()).expect_err("out of range");
    assert!(error.is_invalid_value() && error.to_string().ends_with("test.block is a number from 1 to 8"), "{error}");
    let config = EngineConfig { engine_id: 3, ..config };
    let error = plugin.create_context(&Device::Cpu, &config, &canonical(&graph).view()).expect_err("no such engine");
    assert_eq!(error.to_string(), "plugin hipplan test plugin offers no engine 0x0000000000000003");
    // Its uids are not its ordinals: a bound plan would hand over one tensor's buffer as another's.
    let error = plugin.create_context(&Device::Cpu, &crate::support::config(ENGINE, &[]), &graph.view()).expect_err("not canonical");
    assert!(matches!(error, PluginError::NotCanonical { ordinal: 0, .. }), "{error}");
}

#[test]
fn a_context_whose_workspace_is_not_told_is_given_back_with_the_handle_at_hand() {
    let path = build("calls-workspace", &["FAILS_IN=ENTRY_GET_CONTEXT_WORKSPACE_SIZE"]);
    assert!(context(&load(&path), &scale_in(State::Supplied, 0.0)).is_err());
    let counters = Counters::read(&path).expect("counters");
    assert_eq!((counters.calls(Entry::Create), counters.calls(Entry::DestroyExecutionContext), counters.live_contexts), (1, 1, 0));
}

#[test]
fn a_plugin_is_not_asked_of_graphs_that_it_would_misread() {
    let path = build("calls-floor", &["API_VERSION=\"1.1.0\""]);
    let (plugin, graph) = (load(&path), canonical(&scale_in(State::Supplied, 0.0)));
    let errors = [
        plugin.applicable_engines(&Device::Cpu, &graph.view()).map(|_| ()).expect_err("below the floor"),
        plugin.engine_details(&Device::Cpu, engine_id(ENGINE), &graph.view()).map(|_| ()).expect_err("below the floor"),
        plugin.create_context(&Device::Cpu, &config(ENGINE, &[]), &graph.view()).map(|_| ()).expect_err("below the floor"),
    ];
    for error in errors {
        let expected = "the graph needs engine API 1.2.0, and plugin hipplan test plugin 1.0.0 speaks 1.1.0; load a newer plugin";
        assert_eq!(error.to_string(), expected);
    }
    assert_eq!(Counters::read(&path).expect("counters").calls(Entry::Create), 0);
}

#[test]
fn a_workspace_is_of_a_size_that_somebody_means() {
    let graph = scale_in(State::Supplied, 0.0);
    let plugin = load(&build("calls-workspace", &["WORKSPACE_BYTES=96"]));
    assert_eq!(context(&plugin, &graph).expect("a context").workspace_size(), 96);
    let path = build("calls-workspace-absurd", &["WORKSPACE_BYTES=(1ULL<<49)"]);
    let error = context(&load(&path), &graph).expect_err("absurd");
    assert!(
        error.to_string().contains("FromExecutionContext breaks the plugin ABI: it asks for a workspace of 562949953421312 bytes"),
        "{error}"
    );
    assert_eq!(Counters::read(&path).expect("counters").live_contexts, 0);
    let path = build("calls-workspace-fails", &["FAILS_IN=ENTRY_GET_CONTEXT_WORKSPACE_SIZE"]);
    assert!(context(&load(&path), &graph).is_err());
    assert_eq!(Counters::read(&path).expect("counters").live_contexts, 0);
}
