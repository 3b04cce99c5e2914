//! Plugins when they are loaded.

use crate::graphs::{State, scale_in};
use crate::support::{ENGINE, NAME, build, canonical, context, load, refused, search};
use hipplan::plugin::{PluginMemory, PluginSource};
use hipplan::{ApiVersion, Device, engine_id, engine_id_text};
use hipplan_engine_testing::{Counters, Entry};

#[test]
fn a_plugin_says_what_it_is() {
    let plugin = load(&build("loading", &[]));
    assert_eq!((plugin.name(), plugin.version(), plugin.api_version()), (NAME, "1.0.0", ApiVersion::RUNTIME_PASS_BY_VALUE));
    assert_eq!(plugin.memory(), PluginMemory::Host);
    let [engine] = plugin.engines() else { panic!("{:?}", plugin.engines()) };
    assert_eq!((engine.id, engine.name.as_str()), (engine_id(ENGINE), ENGINE));
    assert_eq!(plugin.persistence(), Ok(()));
    assert!(plugin.executes_overrides());
    assert!(plugin.serves(&Device::Cpu));
}

#[test]
fn a_plugin_without_a_version_speaks_the_first() {
    let plugin = load(&build("loading", &["hipdnnPluginGetApiVersion=omitted"]));
    assert_eq!(plugin.api_version(), ApiVersion::BASELINE);
    // It exports the function, of a version that it does not speak.
    assert!(!plugin.executes_overrides());
}

#[test]
fn a_newer_minor_is_fine() {
    let plugin = load(&build("loading", &["API_VERSION=\"1.77.3\""]));
    assert_eq!(plugin.api_version(), ApiVersion::new(1, 77, 3));
    let plugin = load(&build("loading", &["API_VERSION=\"1.2.0\"", "hipdnnEnginePluginExecuteOpGraphWithOverrides=omitted"]));
    assert!(!plugin.executes_overrides());
}

#[test]
fn versions_that_nobody_means_are_reported() {
    for version in ["\"1.99999.0\"", "\"1.2\"", "\"01.2.0\"", "\"1.2.0-beta\"", "\"0.9.0\"", "\"2.0.0\""] {
        let reason = refused(&build("loading", &[&format!("API_VERSION={version}")]));
        assert!(reason.starts_with(&format!("its engine API version is {version}, ")), "{reason}");
    }
    assert_eq!(refused(&build("loading", &["API_VERSION=\"\""])), "hipdnnPluginGetApiVersion gives an empty text");
    assert_eq!(refused(&build("loading", &["API_VERSION=NULL"])), "hipdnnPluginGetApiVersion gives a null pointer");
}

#[test]
fn identities_that_cannot_be_written_down_are_reported() {
    assert_eq!(refused(&build("loading", &["PLUGIN_NAME=NULL"])), "hipdnnPluginGetName gives a null pointer");
    assert_eq!(refused(&build("loading", &["PLUGIN_NAME=\"\""])), "hipdnnPluginGetName gives an empty text");
    assert_eq!(refused(&build("loading", &["PLUGIN_VERSION=NULL"])), "hipdnnPluginGetVersion gives a null pointer");
    let reason = refused(&build("loading", &["PLUGIN_NAME=\"\\xff\""]));
    assert!(reason.ends_with("which is not UTF-8"), "{reason}");
    let reason = refused(&build("loading", &["PLUGIN_TYPE=HIPDNN_PLUGIN_TYPE_HEURISTIC"]));
    assert_eq!(reason, "it is a plugin of type 2, expected 1 (engine)");
}

#[test]
fn missing_functions_are_all_named() {
    let path = build("loading", &["hipdnnEnginePluginSetStream=omitted", "hipdnnPluginGetType=omitted_too"]);
    assert_eq!(refused(&path), "it is no engine plugin: it does not export hipdnnPluginGetType, hipdnnEnginePluginSetStream");
}

#[test]
fn engine_counts_and_ids_are_held_against_each_other() {
    let get = "hipdnnEnginePluginGetAllEngineIds";
    for (switches, expected) in [
        (&["FIRST_COUNT=0"][..], format!("{get} counts 0 engines, expected 1 to 4096")),
        (&["FIRST_COUNT=0xffffffff"], format!("{get} counts 4294967295 engines, expected 1 to 4096")),
        (&["SECOND_COUNT=2"], format!("{get} counts 1 engines and then gives 2")),
        (&["SECOND_COUNT=0"], format!("{get} counts 1 engines and then gives 0")),
        (&["ENGINE_NAMES={\"A\",\"A\"}"], format!("{get} gives engine {} twice", engine_id_text(engine_id("A")))),
    ] {
        assert_eq!(refused(&build("loading", switches)), expected);
    }
    let reason = refused(&build("loading", &["FAILS_IN=ENTRY_GET_ALL_ENGINE_IDS", "FAILS_WITH=77"]));
    assert_eq!(reason, format!("{get} failed with an unknown status (77): entry 0 fails on purpose"));
}

#[test]
fn engines_without_names_are_called_by_their_ids() {
    let unnamed = [
        &["ENGINE_IDS={-5}", "ENGINE_NAME_STATUS=HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE"][..],
        &["ENGINE_IDS={-5}", "ENGINE_NAMES={\"\"}"],
        &["ENGINE_IDS={-5}", "hipdnnEnginePluginGetEngineName=omitted"],
        // The form of an id is no name, not even of that id.
        &["ENGINE_IDS={-5}", "ENGINE_NAMES={\"0x00000000000000FF\"}"],
    ];
    for switches in unnamed {
        let plugin = load(&build("loading", switches));
        let [engine] = plugin.engines() else { panic!("{:?}", plugin.engines()) };
        assert_eq!((engine.id, engine.name.as_str()), (-5, "0xFFFFFFFFFFFFFFFB"), "{switches:?}");
    }
}

#[test]
fn an_engine_whose_name_is_not_its_own_is_left_out_and_told() {
    let ids = format!("ENGINE_IDS={{7,{}}}", engine_id("B"));
    let path = build("loading", &["ENGINE_NAMES={\"A\",\"B\"}", &ids]);
    let plugins = search(&[PluginSource::host(&path)]);
    let plugin = plugins.iter().next().expect("a plugin");
    assert_eq!(plugin.engines().iter().map(|e| e.name.as_str()).collect::<Vec<_>>(), ["B"]);
    let [failure] = plugins.failures() else { panic!("{:?}", plugins.failures()) };
    assert_eq!(failure.plugin.as_deref(), Some(NAME));
    let expected = format!("its name is \"A\", whose id is {}", engine_id_text(engine_id("A")));
    assert!(failure.reason.starts_with("engine 0x0000000000000007 is not used: ") && failure.reason.contains(&expected), "{failure}");
    // Nor is it there when the plugin offers it for a graph.
    let graph = canonical(&scale_in(State::Supplied, 0.0));
    assert_eq!(plugin.applicable_engines(&Device::Cpu, &graph.view()).expect("engines"), [engine_id("B")]);
    assert!(plugin.engine_details(&Device::Cpu, 7, &graph.view()).expect_err("not there").to_string().contains("offers no engine"));

    let plugins = search(&[PluginSource::host(build("loading", &["FAILS_IN=ENTRY_GET_ENGINE_NAME"]))]);
    let plugin = plugins.iter().next().expect("a plugin");
    assert!(plugin.engines().is_empty());
    // That it would have had an engine for the graph is told, and which.
    let error = plugin.applicable_engines(&Device::Cpu, &graph.view()).expect_err("none is used").to_string();
    let expected =
        format!("only such take the graph as are not used: {} (hipdnnEnginePluginGetEngineName", engine_id_text(engine_id(ENGINE)));
    assert!(error.contains(&expected), "{error}");
    let [failure] = plugins.failures() else { panic!("{:?}", plugins.failures()) };
    assert!(failure.reason.contains("hipdnnEnginePluginGetEngineName failed with INTERNAL_ERROR (3): entry 16 fails"), "{failure}");
}

#[test]
fn of_two_plugins_with_one_engine_the_first_has_it() {
    let first = build("claims-first", &["PLUGIN_NAME=\"first\""]);
    let second = build("claims-second", &["PLUGIN_NAME=\"second\"", "ENGINE_NAMES={\"OTHER\",\"HIPPLAN_TEST_ENGINE\"}"]);
    let plugins = search(&[PluginSource::host(&first), PluginSource::host(&second)]);
    let found: Vec<_> = plugins.iter().map(|p| (p.name(), p.engines().len())).collect();
    assert_eq!(found, [("first", 1), ("second", 1)]);
    assert_eq!(plugins.find_engine(engine_id(ENGINE)).map(|p| p.name()), Some("first"));
    assert_eq!(plugins.find_engine(engine_id("OTHER")).map(|p| p.name()), Some("second"));
    let [failure] = plugins.failures() else { panic!("{:?}", plugins.failures()) };
    assert_eq!(failure.plugin.as_deref(), Some("second"));
    let expected = format!("engine {} is not used: plugin first ({})", engine_id_text(engine_id(ENGINE)), first.display());
    assert!(failure.reason.starts_with(&expected), "{failure}");
    // The other order.
    let plugins = search(&[PluginSource::host(&second), PluginSource::host(&first)]);
    assert_eq!(plugins.find_engine(engine_id(ENGINE)).map(|p| p.name()), Some("second"));
}

#[test]
fn a_bad_plugin_does_not_keep_others_from_serving() {
    let bad = build("neighbour-bad", &["API_VERSION=\"1.2\""]);
    let good = build("neighbour-good", &[]);
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::copy(&bad, folder.path().join("1.so")).expect("copied");
    std::fs::copy(&good, folder.path().join("2.so")).expect("copied");
    std::fs::write(folder.path().join("3.so"), "no library").expect("written");
    let plugins = search(&[PluginSource::host(folder.path())]);
    assert_eq!(plugins.iter().map(|p| p.path().file_name().expect("a file")).collect::<Vec<_>>(), ["2.so"]);
    let failed: Vec<_> = plugins.failures().iter().map(|f| f.path.file_name().expect("a file")).collect();
    assert_eq!(failed, ["1.so", "3.so"]);
    let graph = canonical(&scale_in(State::Supplied, 0.0));
    let plugin = plugins.iter().next().expect("a plugin");
    assert_eq!(plugin.applicable_engines(&Device::Cpu, &graph.view()).expect("engines"), [engine_id(ENGINE)]);
}

#[test]
fn a_file_that_is_found_twice_is_loaded_once() {
    let path = build("found-twice", &[]);
    let folder = tempfile::tempdir().expect("a folder");
    let link = folder.path().join("link.so");
    std::os::unix::fs::symlink(&path, &link).expect("a link");
    let plugins = search(&[PluginSource::host(&path), PluginSource::host(&link), PluginSource::new(&link)]);
    assert_eq!(plugins.iter().count(), 1);
    let [failure] = plugins.failures() else { panic!("{:?}", plugins.failures()) };
    assert!(failure.reason.starts_with("it has been found already, as host:"), "{failure}");
    assert_eq!(Counters::read(&path).expect("counters").calls(Entry::GetAllEngineIds), 2);
}

#[test]
fn a_plugin_serves_devices_of_its_memory_only() {
    let path = build("loading", &[]);
    let plugins = search(&[PluginSource::new(&path)]);
    let plugin = plugins.iter().next().expect("a plugin");
    assert!(!plugin.serves(&Device::Cpu));
    let graph = canonical(&scale_in(State::Supplied, 0.0));
    let error = plugin.applicable_engines(&Device::Cpu, &graph.view()).expect_err("another memory").to_string();
    assert!(error.contains("does not serve the device cpu") && error.contains("host:PATH"), "{error}");
}

#[test]
fn a_plugin_that_cannot_log_or_refuses_is_used() {
    let without = ["hipdnnPluginSetLoggingCallback=omitted", "hipdnnPluginSetLogLevel=omitted_too"];
    assert!(context(&load(&build("logging-without", &without)), &scale_in(State::Constant, 1.0)).is_ok());
    let refuses = build("logging-refuses", &["FAILS_IN=ENTRY_SET_LOGGING_CALLBACK"]);
    assert!(context(&load(&refuses), &scale_in(State::Constant, 1.0)).is_ok());
}
