//! Plans that are brought back with no graph at hand: runtime sets, versions, defaults (R16 §4.6, §4.9, §5.5, §7.4).

use crate::graphs::{ALPHA, State, X, Y, scale_in};
use crate::support::{Given, Via, bind, build, compile, factor, factor_by_uids, float, is_invalid_value, only};
use hipplan::{Device, Ensured, ExecError, Plan, RestoreError, Runtime};
use hipplan_engine_testing::{Counters, Entry};
use std::path::Path;
use std::process::Command;

/// What a child is told: the plan's file, the plugin's path, the uids by ordinal.
const PLAN: &str = "HIPPLAN_R16_PLAN";
const PLUGIN: &str = "HIPPLAN_R16_PLUGIN";
const UIDS: &str = "HIPPLAN_R16_UIDS";

/// Not a test of its own: process B. It has a plan's file, and neither a graph nor a compiler.
#[test]
fn process_b() {
    let (Ok(file), Ok(uids)) = (std::env::var(PLAN), std::env::var(UIDS)) else { return };
    let plugin = std::env::var(PLUGIN).ok();
    let uids: Vec<i64> = uids.split(',').map(|uid| uid.parse().expect("a uid")).collect();
    let bytes = hipplan::aligned::aligned_copy(&std::fs::read(file).expect("the plan"));
    let providers = plugin.as_ref().map_or_else(hipplan::Providers::none, |path| only(&[Path::new(path)]));
    let plan = Plan::open(&bytes).expect("a plan");
    let mut bound = plan.bind_by_uids(&Device::Cpu, providers.loaders(), &uids).unwrap_or_else(|e| panic!("{e}"));
    for value in [-0.5, 4.0] {
        let scalar = float(value);
        assert_eq!(factor(&mut bound, &[Given::Raw(ALPHA, &scalar)]).ok(), Some(value));
    }
    let error = factor(&mut bound, &[]).expect_err("no default");
    assert!(is_invalid_value(&error), "{error}");
    if let Some(path) = plugin {
        let counters = Counters::read(Path::new(&path)).expect("counters");
        assert_eq!(counters.calls(Entry::GetApplicableEngineIds) + counters.calls(Entry::CreateExecutionContext), 0, "it saw no graph");
        assert_eq!(counters.calls(Entry::CreateFromSerialized), 1);
    }
    println!("process B has executed");
}

#[test]
fn r16_floor_supplied_plan_of_process_a_executes_in_process_b_without_a_graph() {
    let folder = tempfile::tempdir().expect("a folder");
    let graph = scale_in(State::Supplied, 0.0);
    let uids: Vec<String> = graph.view().canonical().expect("a key").uids.iter().map(|uid| uid.0.to_string()).collect();
    let plugin = build("plugin", &[]);
    for via in Via::BOTH {
        let file = folder.path().join(format!("{via:?}"));
        std::fs::write(&file, &*compile(&graph, &via.providers()).expect("compiled").bytes).expect("written");
        let mut child = Command::new(std::env::current_exe().expect("this program"));
        child.args(["restored::process_b", "--exact", "--nocapture"]).env(PLAN, &file).env(UIDS, uids.join(","));
        if via == Via::Plugin {
            child.env(PLUGIN, &plugin);
        }
        let output = child.output().expect("it ran");
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && text.contains("process B has executed"), "{via:?}: {text}");
    }
}

#[test]
fn r16_floor_older_plugin_of_the_same_engine_gets_no_byte_of_the_plan() {
    let new = build("restored-new", &["PLUGIN_VERSION=\"2.1.0\""]);
    let graph = scale_in(State::Supplied, 0.0);
    let plan = compile(&graph, &only(&[&new])).expect("compiled");
    // Older by its own version; by the API that it speaks; with the host scalar taken for a device buffer it would fault.
    for (i, (switches, said)) in [
        (&["PLUGIN_VERSION=\"2.0.9\"", "KNOWS_NO_RUNTIME=1", "FETCHES_LINES=1", "ANY_PAYLOAD_VERSION=1"][..], ["2.1.0", "2.0.9"]),
        (&["PLUGIN_VERSION=\"2.1.0\"", "API_VERSION=\"1.1.0\"", "KNOWS_NO_RUNTIME=1", "ANY_PAYLOAD_VERSION=1"], ["1.2.0", "1.1.0"]),
        (&["PLUGIN_VERSION=\"old\"", "ANY_PAYLOAD_VERSION=1"], ["2.1.0", "old"]),
        (&["PLUGIN_NAME=\"another\"", "PLUGIN_VERSION=\"2.1.0\"", "ANY_PAYLOAD_VERSION=1"], ["hipplan test plugin", "another"]),
    ]
    .into_iter()
    .enumerate()
    {
        let old = build(&format!("restored-old-{i}"), switches);
        let error = bind(&plan, &graph, &only(&[&old])).expect_err("refused");
        let text = error.to_string();
        assert!(said.iter().all(|word| text.contains(word)), "both are named: {text}");
        let counters = Counters::read(&old).expect("counters");
        assert_eq!((counters.calls(Entry::CreateFromSerialized), counters.payload_bytes), (0, 0), "{text}");
        assert_eq!(counters.calls(Entry::Execute), 0);
    }
    // A newer one of the same name may read it.
    let newer = build("restored-newer", &["PLUGIN_VERSION=\"2.10.0\"", "API_VERSION=\"1.4.0\""]);
    let mut bound = bind(&plan, &graph, &only(&[&newer])).unwrap_or_else(|e| panic!("{e}"));
    let three = float(3.0);
    assert_eq!(factor(&mut bound, &[Given::Raw(ALPHA, &three)]).ok(), Some(3.0));
}

#[test]
fn r16_floor_plugin_that_cannot_read_a_newer_payload_refuses_it_at_load() {
    // Of one version text, so that only the plugin itself can tell.
    let (new, old) = (build("payload-new", &["PAYLOAD_VERSION=2"]), build("payload-old", &[]));
    let graph = scale_in(State::Supplied, 0.0);
    let plan = compile(&graph, &only(&[&new])).expect("compiled");
    let error = bind(&plan, &graph, &only(&[&old])).expect_err("refused");
    assert!(error.to_string().contains("payload: version 2, this build reads version 1"), "{error}");
    let counters = Counters::read(&old).expect("counters");
    assert!(counters.payload_bytes > 0, "it was the one to refuse");
    assert_eq!(counters.calls(Entry::Execute) + counters.calls(Entry::ExecuteWithOverrides), 0, "no pointer reached it");
    assert_eq!(counters.live_contexts, 0);
}

#[test]
fn r16_floor_plan_of_a_missing_or_older_plugin_is_a_miss_of_the_store() {
    let folder = tempfile::tempdir().expect("a folder");
    let graph = scale_in(State::Supplied, 0.0);
    let with = |plugin: Option<&Path>| {
        let mut runtime = Runtime::open(folder.path().join("store")).expect("a store");
        *runtime.providers_mut() = plugin.map_or_else(hipplan::Providers::none, |plugin| only(&[plugin]));
        runtime
    };
    let (new, old) = (build("store-new", &["PLUGIN_VERSION=\"3.0.0\""]), build("store-old", &["PLUGIN_VERSION=\"2.0.0\""]));
    assert!(matches!(with(Some(&new)).compile(&graph.view()), Ok(Ensured::Compiled(_))));
    assert!(matches!(with(Some(&new)).compile(&graph.view()), Ok(Ensured::Present(_))));
    let three = float(3.0);
    let mut bound = with(Some(&new)).restore(&graph.view()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(factor(&mut bound, &[Given::Raw(ALPHA, &three)]).ok(), Some(3.0));
    let error = with(Some(&old)).restore(&graph.view()).expect_err("an older plugin");
    assert!(matches!(error, RestoreError::Missed { .. }), "{error}");
    assert!(error.to_string().contains("3.0.0") && error.to_string().contains("2.0.0"), "{error}");
    assert!(matches!(with(None).restore(&graph.view()), Err(RestoreError::Missed { .. })), "no plugin");
}

#[test]
fn r16_floor_runtime_set_of_the_payload_decides_who_is_a_host_scalar() {
    // By key, with no graph to say so: uids are ordinals.
    let graph = scale_in(State::Supplied, 0.0);
    let uids = graph.view().canonical().expect("a key").uids;
    let ordinal = |uid: i64| uids.iter().position(|u| u.0 == uid).expect("used") as i64;
    for via in Via::BOTH {
        let providers = via.providers();
        let plan = compile(&graph, &providers).expect("compiled");
        let open = Plan::open(&plan.bytes).expect("a plan");
        let payload = open.view().payload().expect("a payload");
        let tables = payload.read_tables().expect("tables");
        assert_eq!(tables.runtime_uids().collect::<Vec<_>>(), [ordinal(ALPHA)], "{via:?}");
        let mut bound = open.bind_by_key(&Device::Cpu, providers.loaders()).unwrap_or_else(|e| panic!("{e}"));
        let scalar = float(6.0);
        let given = [Given::Raw(ordinal(ALPHA), &scalar)];
        assert_eq!(factor_by_uids(&mut bound, [ordinal(X), ordinal(Y)], &given).ok(), Some(6.0), "{via:?}");
    }
}

#[test]
fn r16_provider_paths_default_lost_in_the_payload_degrades_to_invalid_value() {
    let graph = scale_in(State::Defaulted, 0.75);
    let forgets = only(&[&build("forgets", &["FORGETS_DEFAULTS=1"])]);
    let mut bound = bind(&compile(&graph, &forgets).expect("compiled"), &graph, &forgets).unwrap_or_else(|e| panic!("{e}"));
    let error = factor(&mut bound, &[]).expect_err("the plugin has forgotten it");
    assert!(is_invalid_value(&error), "{error}");
    assert!(matches!(error, ExecError::Plugin(_)), "the plugin's own error: {error}");
    // It is a user-supplied scalar now.
    let two = float(2.0);
    assert_eq!(factor(&mut bound, &[Given::Raw(ALPHA, &two)]).ok(), Some(2.0));
    // A plugin that keeps it, and our own provider, have it back.
    for via in Via::BOTH {
        assert_eq!(factor(&mut via.bound(&graph), &[]).ok(), Some(0.75), "{via:?}");
    }
}
