//! Who is given a stored plan's bytes (R16 §7.4).

use crate::graphs::{ALPHA, State, X, Y, scale_in};
use crate::support::{ENGINE, NAME, build, context, load, loaders, plan_of, plan_stating, refused, restore, search, stored};
use hipplan::plugin::{PluginError, PluginProgram, PluginSource, Plugins};
use hipplan::{AlignedBytes, ApiVersion, Device, ExecError, Plan, Stream, Target, VariantPack, engine_id};
use hipplan_engine_testing::Counters;
use std::path::{Path, PathBuf};

/// A plan of version 1.2.0 of the test plugin.
fn plan() -> AlignedBytes {
    stored(&load(&build("restoring", &["PLUGIN_VERSION=\"1.2.0\""])), &scale_in(State::Supplied, 0.0))
}

/// What becomes of it where another build of the plugin is loaded.
fn with(path: &Path) -> Result<hipplan::BoundPlan, ExecError> {
    restore(&plan(), &search(&[PluginSource::host(path)]), &scale_in(State::Supplied, 0.0))
}

/// The error, and that the plugin was not given a byte.
fn unread(path: PathBuf) -> ExecError {
    let error = with(&path).map(|_| ()).expect_err("another plugin");
    assert_eq!(Counters::read(&path).expect("counters").payload_bytes, 0, "{error}");
    error
}

#[test]
fn the_same_and_newer_plugins_restore() {
    for (name, version) in [("restoring", "1.2.0"), ("restoring-longer", "1.2.0.1"), ("restoring-newer", "1.10")] {
        let mut plan = with(&build(name, &[&format!("PLUGIN_VERSION=\"{version}\"")])).unwrap_or_else(|e| panic!("{version}: {e}"));
        let mut y = [0.0_f32; 4];
        let mut pack = VariantPack::new();
        pack.input(X, &[1.0_f32; 4]).scalar(ALPHA, 3.0_f32).output(Y, &mut y);
        plan.execute(&pack, &mut [], Stream::Default).expect("executed");
        assert_eq!(y, [3.0; 4]);
    }
}

#[test]
fn an_older_plugin_is_not_given_a_byte() {
    let error = unread(build("restoring-older", &["PLUGIN_VERSION=\"1.1.9\""]));
    assert_eq!(
        error.to_string(),
        "the plan is of plugin hipplan test plugin 1.2.0, and its version 1.1.9 is loaded, which is older; load 1.2.0 or a newer one, or compile the graph again"
    );
    let error = unread(build("restoring-texts", &["PLUGIN_VERSION=\"1.3-beta\""]));
    assert!(error.to_string().contains("its version 1.3-beta is loaded, which differs, and that it is newer cannot be told"), "{error}");
}

#[test]
fn another_plugin_with_the_engines_id_is_not_given_a_byte() {
    let error = unread(build("restoring-other", &["PLUGIN_NAME=\"impostor\"", "PLUGIN_VERSION=\"9.9.9\""]));
    let text = error.to_string();
    assert!(
        text.starts_with(
            "the plan is of plugin hipplan test plugin 1.2.0, and engine HIPPLAN_TEST_ENGINE is here of plugin impostor 9.9.9"
        ),
        "{text}"
    );
}

#[test]
fn a_plugin_below_the_graphs_floor_is_not_given_a_byte() {
    let error = unread(build("restoring-api", &["PLUGIN_VERSION=\"1.2.0\"", "API_VERSION=\"1.1.0\""]));
    assert_eq!(
        error.to_string(),
        "the plan needs engine API 1.2.0, and plugin hipplan test plugin 1.2.0 (the plan is of 1.2.0) speaks 1.1.0; load a newer plugin"
    );
}

#[test]
fn a_plugin_that_cannot_persist_is_not_given_a_byte() {
    let error = unread(build("restoring-hooks", &["PLUGIN_VERSION=\"1.2.0\"", "HOOKS=HOOKS_PLAIN"]));
    assert!(matches!(error, ExecError::Plugin(PluginError::NotPersistent { .. })), "{error}");
}

#[test]
fn a_plan_without_its_plugin_says_what_is_there() {
    let graph = scale_in(State::Supplied, 0.0);
    let none = restore(&plan(), &Plugins::default(), &graph).expect_err("no plugin").to_string();
    let start = "the plan is of plugin hipplan test plugin 1.2.0, engine HIPPLAN_TEST_ENGINE, and no loaded plugin has that engine";
    assert_eq!(none, format!("{start} (there is none); load it"));
    let other = build("restoring-unrelated", &["PLUGIN_NAME=\"unrelated\"", "ENGINE_NAMES={\"U\"}"]);
    assert_eq!(with(&other).expect_err("unrelated").to_string(), format!("{start} (there are unrelated 1.0.0); load it"));
    let broken = build("restoring-broken", &["API_VERSION=\"1.2\""]);
    let why = refused(&broken);
    let error = with(&broken).expect_err("not used").to_string();
    assert_eq!(error, format!("{start} (hipplan test plugin is here and is not used: {why}); load it"));
    // One that has not said its name may be it.
    let folder = tempfile::tempdir().expect("a folder");
    let text = folder.path().join("text.so");
    std::fs::write(&text, "no library").expect("written");
    let error = with(&text).map(|_| ()).expect_err("not used").to_string();
    assert!(error.starts_with(&format!("{start} (there is none; not used: {}: ", text.display())), "{error}");
    // What is wrong with another engine of the plugin is no reason.
    let partly = build("restoring-partly", &["ENGINE_NAMES={\"U\",\"V\"}", &format!("ENGINE_IDS={{7,{}}}", engine_id("V"))]);
    assert_eq!(
        with(&partly).map(|_| ()).expect_err("not there").to_string(),
        format!("{start} (there are hipplan test plugin 1.0.0); load it")
    );
    // The loaders that are built in know of plugins, and have none.
    let file = plan();
    let error = Plan::open(&file).expect("a plan").bind_by_key(&Device::Cpu, &hipplan::Loaders::default()).map(|_| ()).expect_err("none");
    assert!(matches!(error, ExecError::Plugin(PluginError::NotLoaded { .. })), "{error}");
}

#[test]
fn what_the_metadata_states_does_not_lower_the_floor() {
    // A plan whose payload has a runtime scalar, and whose metadata does not tell.
    let graph = scale_in(State::Supplied, 0.0);
    let program = context(&load(&build("restoring-floor", &[])), &graph).expect("a context").program().expect("bytes");
    let file = plan_stating(Some(ApiVersion::BASELINE), &Target::Cpu, &graph, Some(&program), (NAME, "1.0.0", ENGINE), 0);
    let path = build("restoring-floor-old", &["API_VERSION=\"1.1.0\""]);
    let error = restore(&file, &search(&[PluginSource::host(&path)]), &graph).map(|_| ()).expect_err("too old").to_string();
    assert!(error.starts_with("the plan needs engine API 1.2.0, "), "{error}");
    assert_eq!(Counters::read(&path).expect("counters").payload_bytes, 0);
}

#[test]
fn a_plugin_of_another_memory_is_missed_and_not_tried() {
    let path = build("restoring", &["PLUGIN_VERSION=\"1.2.0\""]);
    let file = plan();
    let view = Plan::open(&file).expect("a plan").view();
    let error = loaders(&search(&[PluginSource::new(&path)])).accept(&view).expect_err("another memory").to_string();
    let expected = "the plan of plugin hipplan test plugin 1.2.0 is for target cpu, and the plugin that is loaded computes in the memory of HIP devices";
    assert!(error.starts_with(expected), "{error}");
}

#[test]
fn what_the_plugin_says_of_its_bytes_is_the_answer() {
    let path = build("restoring-payload", &["PLUGIN_VERSION=\"1.2.0\"", "PAYLOAD_VERSION=2"]);
    let error = with(&path).map(|_| ()).expect_err("another payload version");
    assert!(error.is_invalid_value());
    assert!(error.to_string().ends_with("payload: version 1, this build reads version 2"), "{error}");
    assert_ne!(Counters::read(&path).expect("counters").payload_bytes, 0);
}

#[test]
fn payload_and_metadata_say_one_thing() {
    let graph = scale_in(State::Supplied, 0.0);
    let path = build("restoring-agree", &[]);
    let plugin = load(&path);
    let program = context(&plugin, &graph).expect("a context").program().expect("bytes");
    let plugins = search(&[PluginSource::host(&path)]);
    let file = |program: &PluginProgram, workspace| plan_of(&graph, Some(program), (NAME, "1.0.0", ENGINE), workspace);
    assert!(restore(&file(&program, 0), &plugins, &graph).is_ok());
    // A plan may reserve more than is needed.
    assert!(restore(&file(&program, 64), &plugins, &graph).is_ok());
    type Change = fn(&mut PluginProgram);
    let changes: [(Change, &str); 4] = [
        (|p| p.plugin = "other".to_owned(), "plugin is other, the metadata says hipplan test plugin"),
        (|p| p.plugin_version = "2".to_owned(), "plugin version is 2, the metadata says 1.0.0"),
        (|p| p.engine_id = 5, "engine id is 0x0000000000000005, the metadata says "),
        (|p| p.bytes.clear(), "the plugin's bytes are empty"),
    ];
    let before = Counters::read(&path).expect("counters").payload_bytes;
    for (change, expected) in changes {
        let mut other = program.clone();
        change(&mut other);
        let error = restore(&file(&other, 0), &plugins, &graph).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}");
    }
    assert_eq!(Counters::read(&path).expect("counters").payload_bytes, before);
}

#[test]
fn a_restored_context_does_not_need_more_workspace_than_the_plan_says() {
    let graph = scale_in(State::Supplied, 0.0);
    let file = stored(&load(&build("restoring-small", &["WORKSPACE_BYTES=32"])), &graph);
    let path = build("restoring-large", &["WORKSPACE_BYTES=33"]);
    let error = restore_unaccepted(&file, &path).to_string();
    assert_eq!(
        error,
        "plugin hipplan test plugin: the restored plan needs 33 bytes of workspace, its metadata says 32; compile the graph again"
    );
    assert_eq!(Counters::read(&path).expect("counters").live_contexts, 0);
}

fn restore_unaccepted(file: &AlignedBytes, path: &Path) -> ExecError {
    let plan = Plan::open(file).expect("a plan");
    plan.bind_by_key(&Device::Cpu, &loaders(&search(&[PluginSource::host(path)]))).map(|_| ()).expect_err("too large")
}

#[test]
fn a_plan_is_bound_by_key_and_by_the_callers_uids() {
    let graph = scale_in(State::Supplied, 0.0);
    let path = build("restoring", &["PLUGIN_VERSION=\"1.2.0\""]);
    let (file, loaders) = (plan(), loaders(&search(&[PluginSource::host(&path)])));
    let plan = Plan::open(&file).expect("a plan");
    let uids: Vec<i64> = graph.view().canonical().expect("a key").uids.iter().map(|uid| uid.0).collect();
    let mut y = [0.0_f32; 4];
    let mut by_uids = plan.bind_by_uids(&Device::Cpu, &loaders, &uids).expect("bound");
    let mut pack = VariantPack::new();
    by_uids.execute(pack.input(X, &[1.0_f32; 4]).scalar(ALPHA, 3.0_f32).output(Y, &mut y), &mut [], Stream::Default).expect("executed");
    assert_eq!(y, [3.0; 4]);
    let at = |uid: i64| uids.iter().position(|&u| u == uid).expect("a tensor") as i64;
    let mut by_key = plan.bind_by_key(&Device::Cpu, &loaders).expect("bound");
    let mut pack = VariantPack::new();
    pack.input(at(X), &[1.0_f32; 4]).scalar(at(ALPHA), 5.0_f32).output(at(Y), &mut y);
    by_key.execute(&pack, &mut [], Stream::Default).expect("executed");
    assert_eq!(y, [5.0; 4]);

    let error = plan.bind_by_uids(&Device::Cpu, &loaders, &uids[..2]).map(|_| ()).expect_err("too few");
    assert!(matches!(error, ExecError::UidsMissing { found: 2, ordinal: 2 }), "{error}");
    let error = plan.bind_by_uids(&Device::Cpu, &loaders, &[4, 5, 4]).map(|_| ()).expect_err("twice");
    assert!(matches!(error, ExecError::UidTwice { uid: 4, first: 0, second: 2 }), "{error}");
}
