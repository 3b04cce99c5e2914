//! Which serialize hooks a plugin has, in every form, and what they give.

use crate::graphs::{ALPHA, State, X, Y, scale_in};
use crate::support::{ENGINE, NAME, build, config, context, load, plan_of, restore, search, stored, with_hooks};
use hipplan::hipdnn::engine::KnobValue;
use hipplan::plugin::{Plugin, PluginError, PluginProgram, StatedHooks};
use hipplan::{Device, Stream, VariantPack};
use hipplan_engine_testing::{Counters, Entry};
use std::path::Path;

const WITH_ENGINE_ID: &str = "HOOKS=HOOKS_WITH_ENGINE_ID";
const EXT: &str = "HOOKS=HOOKS_EXT";
const PLAIN: &str = "HOOKS=HOOKS_PLAIN";
const WITH_CONFIG: &str = "HOOKS=HOOKS_PLAIN_WITH_CONFIG";

fn loaded(path: &Path, hooks: StatedHooks) -> Plugin {
    let plugins = search(&[with_hooks(path, hooks)]);
    plugins.iter().next().expect("a plugin").clone()
}

/// Compiles, stores, restores in a context of its own, and executes.
fn there_and_back(name: &str, switches: &[&str], hooks: StatedHooks) {
    let path = build(name, switches);
    let plugin = loaded(&path, hooks);
    assert_eq!(plugin.persistence(), Ok(()), "{name}");
    let graph = scale_in(State::Supplied, 0.0);
    let file = stored(&plugin, &graph);
    let mut plan = restore(&file, &search(&[with_hooks(&path, hooks)]), &graph).unwrap_or_else(|e| panic!("{name}: {e}"));
    let mut y = [0.0_f32; 4];
    let mut pack = VariantPack::new();
    pack.input(X, &[1.0_f32, 2.0, 3.0, 4.0]).scalar(ALPHA, -1.0_f32).output(Y, &mut y);
    plan.execute(&pack, &mut [], Stream::Default).expect("executed");
    assert_eq!(y, [-1.0, -2.0, -3.0, -4.0]);
    let counters = Counters::read(&path).expect("counters");
    assert_eq!((counters.calls(Entry::Serialize), counters.calls(Entry::CreateFromSerialized)), (1, 1), "{name}");
    assert_eq!(counters.live_buffers, 0, "{name}");
}

#[test]
fn every_form_of_the_hooks_stores_and_restores() {
    there_and_back("hooks-id", &[WITH_ENGINE_ID], StatedHooks::Unstated);
    there_and_back("hooks-ext", &[EXT], StatedHooks::Unstated);
    there_and_back("hooks-plain", &[PLAIN], StatedHooks::Plain);
    there_and_back("hooks-config", &[WITH_CONFIG], StatedHooks::WithConfig);
}

#[test]
fn a_name_that_says_its_arguments_comes_first() {
    let both = "HOOKS=(HOOKS_WITH_ENGINE_ID|HOOKS_PLAIN|HOOKS_EXT)";
    there_and_back("hooks-both-unstated", &[both], StatedHooks::Unstated);
    there_and_back("hooks-both-plain", &[both], StatedHooks::Plain);
    // Without a word, the plain functions are passed over for those whose arguments are known.
    there_and_back("hooks-plain-ext-unstated", &["HOOKS=(HOOKS_PLAIN|HOOKS_EXT)"], StatedHooks::Unstated);
    there_and_back("hooks-plain-ext-plain", &["HOOKS=(HOOKS_PLAIN|HOOKS_EXT)"], StatedHooks::Plain);
    there_and_back("hooks-config-ext-unstated", &["HOOKS=(HOOKS_PLAIN_WITH_CONFIG|HOOKS_EXT)"], StatedHooks::Unstated);
    there_and_back("hooks-config-ext-config", &["HOOKS=(HOOKS_PLAIN_WITH_CONFIG|HOOKS_EXT)"], StatedHooks::WithConfig);
}

#[test]
fn a_plan_is_restored_with_the_form_that_stored_it_alone() {
    let path = build("hooks-form", &[WITH_CONFIG]);
    let graph = scale_in(State::Supplied, 0.0);
    let file = stored(&loaded(&path, StatedHooks::WithConfig), &graph);
    let other = search(&[with_hooks(&path, StatedHooks::Plain)]);
    let error = restore(&file, &other, &graph).map(|_| ()).expect_err("three arguments for four").to_string();
    let expected = "was stored with SerializeExecutionContext (hooks=config), and the plugin that is loaded stores with \
                    SerializeExecutionContext (hooks=plain); ";
    assert!(error.starts_with("the plan is of plugin hipplan test plugin 1.0.0 and ") && error.contains(expected), "{error}");
    assert_eq!(Counters::read(&path).expect("counters").payload_bytes, 0);
}

#[test]
fn plain_functions_are_not_called_before_somebody_says_which_they_are() {
    for (name, switch) in [("hooks-unsaid-plain", PLAIN), ("hooks-unsaid-config", WITH_CONFIG)] {
        let path = build(name, &[switch]);
        let plugin = load(&path);
        let why = plugin.persistence().expect_err("nobody said");
        assert!(why.contains("hooks=plain:PATH") && why.contains("hooks=config:PATH"), "{why}");
        let context = context(&plugin, &scale_in(State::Supplied, 0.0)).expect("a context all the same");
        let error = context.serialize().expect_err("not persistent");
        assert!(matches!(error, PluginError::NotPersistent { .. }));
        assert!(error.to_string().starts_with("plugin hipplan test plugin: provider cannot persist: "), "{error}");
        assert_eq!(Counters::read(&path).expect("counters").calls(Entry::Serialize), 0);
    }
}

#[test]
fn a_family_that_is_not_whole_is_none() {
    let without = load(&build("hooks-none", &["HOOKS=HOOKS_NONE"]));
    assert_eq!(without.persistence(), Err("it exports no functions that store contexts"));
    let p = "hipdnnEnginePlugin";
    for (name, switches, exported, missing) in [
        (
            "hooks-id-part",
            [WITH_ENGINE_ID, "hipdnnEnginePluginDestroySerializedExecutionContext=omitted"],
            format!("{p}SerializeExecutionContextWithEngineId, {p}CreateExecutionContextFromSerialized"),
            format!("{p}DestroySerializedExecutionContext"),
        ),
        (
            "hooks-ext-part",
            [EXT, "hipdnnEnginePluginCreateExecutionContextFromSerialized_ext=omitted"],
            format!("{p}SerializeExecutionContext_ext, {p}DestroySerializedExecutionContext_ext"),
            format!("{p}CreateExecutionContextFromSerialized_ext"),
        ),
        (
            "hooks-ext-no-serialize",
            [EXT, "hipdnnEnginePluginSerializeExecutionContext_ext=omitted"],
            format!("{p}DestroySerializedExecutionContext_ext, {p}CreateExecutionContextFromSerialized_ext"),
            format!("{p}SerializeExecutionContext_ext"),
        ),
    ] {
        let plugin = load(&build(name, &switches));
        let expected = format!("it exports {exported}, and not {missing}, of the functions that store contexts");
        assert_eq!(plugin.persistence(), Err(expected.as_str()));
    }
    // A word does not make functions.
    let plugin = loaded(&build("hooks-plain-part", &[PLAIN, "hipdnnEnginePluginSerializeExecutionContext=omitted"]), StatedHooks::Plain);
    assert!(plugin.persistence().is_err());
}

#[test]
fn bytes_that_cannot_be_are_errors_and_given_back() {
    let graph = scale_in(State::Supplied, 0.0);
    for (name, switches, expected) in [
        ("bytes-null", &["SERIALIZED=SERIALIZED_NULL"][..], "breaks the plugin ABI: it gives a null pointer to 0 bytes"),
        ("bytes-empty", &["SERIALIZED=SERIALIZED_EMPTY"], "breaks the plugin ABI: it gives no bytes"),
        ("bytes-fails", &["FAILS_IN=ENTRY_SERIALIZE"], "failed with INTERNAL_ERROR (status 3): entry 13 fails on purpose"),
    ] {
        let path = build(name, switches);
        let error = context(&load(&path), &graph).expect("a context").serialize().expect_err(name).to_string();
        assert!(error.contains("SerializeExecutionContextWithEngineId ") && error.contains(expected), "{error}");
        assert_eq!(Counters::read(&path).expect("counters").live_buffers, 0, "{name}");
    }
}

#[test]
fn a_create_function_that_wants_the_config_gets_it() {
    let path = build("hooks-config-knobs", &[WITH_CONFIG, "WORKSPACE_BYTES=10"]);
    let source = with_hooks(&path, StatedHooks::WithConfig);
    let plugins = search(&[source]);
    let plugin = plugins.iter().next().expect("a plugin");
    let graph = scale_in(State::Supplied, 0.0);
    let config = config(ENGINE, &[("test.block", KnobValue::Int(4))]);
    let canonical = crate::support::canonical(&graph);
    let context = plugin.create_context(&Device::Cpu, &config, &canonical.view()).expect("a context");
    assert_eq!(context.workspace_size(), 40);
    let program = context.program().expect("bytes");
    assert_eq!(program.config, config.encode());
    let file = |program: &PluginProgram| plan_of(&graph, Some(program), (NAME, "1.0.0", ENGINE), 40);
    let plan = restore(&file(&program), &plugins, &graph).expect("restored");
    assert_eq!(plan.workspace_size(), 40);
    // It is the config of the plan, not another.
    let other = PluginProgram { config: b"no config".to_vec(), ..program };
    let error = restore(&file(&other), &plugins, &graph).expect_err("no config").to_string();
    assert!(error.contains("CreateExecutionContextFromSerialized failed with BAD_PARAM"), "{error}");
}
