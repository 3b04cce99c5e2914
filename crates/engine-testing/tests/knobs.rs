//! Settings on a plugin's whole way: from the policy into the bytes of the engine's configuration, into the plugin, into what it stores, and
//! into a context that another loader makes of that.

use hipplan::hipdnn::engine::{EngineConfig, KnobValue};
use hipplan::plugin::{ArchivedPluginProgram, PluginSearch, PluginSource};
use hipplan::{
    CompileError, CompiledPlan, DataType, Device, GraphBuf, GraphBuilder, Knob, Limits, Plan, PointwiseMode, Policy, Providers, Request,
    Site, Stream, TensorAttributes, Uid, VariantPack, Workspace, compile_graph, engine_id, ops,
};
use hipplan_engine_testing::{Counters, Plugins};
use std::path::{Path, PathBuf};

const WORKSPACE: u64 = 96;

/// A plugin whose workspace is so many bytes for every block that is set. Its counters are its own.
fn plugin(name: &str) -> PathBuf {
    Plugins::build(name, &[&format!("WORKSPACE_BYTES={WORKSPACE}")]).unwrap_or_else(|e| panic!("{e}"))
}

/// Loaded anew: nothing but the file is what it was.
fn providers(path: &Path) -> Providers {
    let mut search = PluginSearch::new();
    search.add(PluginSource::host(path));
    let plugins = search.load();
    assert!(plugins.failures().is_empty(), "{:?}", plugins.failures());
    let mut providers = Providers::none();
    providers.add_plugins(&plugins);
    providers
}

fn graph() -> GraphBuf {
    let mut g = GraphBuilder::new();
    let [x, y] = [1, 2].map(|uid| {
        let mut tensor = TensorAttributes::packed(DataType::Float, &[4]);
        tensor.set_uid(Uid(uid));
        g.tensor(tensor)
    });
    g.node("", DataType::Float, ops::Pointwise::unary(PointwiseMode::Neg, x, y));
    g.build().expect("a graph")
}

fn compile(providers: &Providers, knobs: &[(&str, &str)]) -> Result<CompiledPlan, CompileError> {
    let knobs = knobs.iter().map(|(id, value)| Knob { id: (*id).to_owned(), value: (*value).to_owned() }).collect();
    let policy = Policy { knobs, ..Policy::DEFAULT };
    compile_graph(&graph().view(), &Request { site: &Site::present(&Device::Cpu), policy: &policy }, providers)
}

fn settings_seen(path: &Path) -> (i64, i64) {
    let counters = Counters::read(path).expect("counters");
    (counters.last_block, counters.last_order)
}

#[test]
fn settings_arrive_in_the_plugin_and_come_back_with_the_plan() {
    let path = plugin("knobs-way");
    let plan = compile(&providers(&path), &[("test.order", "columns"), ("test.block", "3")]).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(settings_seen(&path), (3, 1), "the context that was compiled");

    // In the plan: its identity, the workspace that the setting asks for, the bytes of the configuration.
    let open = Plan::open(&plan.bytes).expect("a plan");
    let knobs = open.view().meta().identity().knobs;
    let knobs: Vec<(&str, &str)> = knobs.iter().map(|knob| (knob.id.as_str(), knob.value.as_str())).collect();
    assert_eq!(knobs, [("test.block", "3"), ("test.order", "columns")], "sorted by id");
    let payload = open.view().payload().and_then(|head| Ok(head.read_tables()?)).expect("a payload");
    let program = rkyv::access::<ArchivedPluginProgram, rkyv::rancor::Error>(payload.body()).expect("a program");
    let config = EngineConfig::parse(&program.config, &Limits::DEFAULT).expect("a configuration");
    assert_eq!(config.engine_id, engine_id("HIPPLAN_TEST_ENGINE"));
    let mut set = config.knobs;
    set.sort_by(|a, b| a.0.cmp(&b.0));
    let expected = [("test.block", KnobValue::Int(3)), ("test.order", KnobValue::Text("columns".to_owned()))];
    assert_eq!(set, expected.map(|(id, value)| (id.to_owned(), value)));

    // Another context in between, so that what is counted afterwards is the restored one's.
    compile(&providers(&path), &[]).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(settings_seen(&path), (1, 0), "the plugin's own settings");
    let fresh = providers(&path);
    let mut bound = open.bind_by_graph(&Device::Cpu, fresh.loaders(), &graph().view()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(settings_seen(&path), (3, 1), "the restored context");
    assert_eq!(bound.workspace_size(), 3 * WORKSPACE);
    let mut y = [0.0_f32; 4];
    let mut pack = VariantPack::new();
    pack.input(1, &[1.0_f32, 2.0, -3.0, 4.0]).output(2, &mut y);
    let mut workspace = Workspace::new(bound.workspace_size()).expect("memory");
    bound.execute(&pack, workspace.as_mut_slice(), Stream::Default).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(y, [-1.0, -2.0, 3.0, -4.0]);
}

#[test]
fn settings_are_part_of_the_key_in_their_canonical_text() {
    let providers = providers(&plugin("knobs-key"));
    let key = |knobs: &[(&str, &str)]| {
        let plan = compile(&providers, knobs).unwrap_or_else(|e| panic!("{knobs:?}: {e}"));
        Plan::open(&plan.bytes).expect("a plan").view().meta().plan_key()
    };
    let keys = [
        key(&[]),
        key(&[("test.block", "2")]),
        key(&[("test.block", "3")]),
        key(&[("test.order", "columns")]),
        key(&[("test.share", "0.25")]),
    ];
    for (i, a) in keys.iter().enumerate() {
        assert!(keys[..i].iter().all(|b| a != b), "{keys:?}");
    }
    // Neither the order of settings nor the spelling of a number makes another plan.
    let both = [("test.block", "3"), ("test.order", "columns")];
    assert_eq!(key(&both), key(&[both[1], both[0]]));
    assert_eq!(key(&[("test.share", "0.25")]), key(&[("test.share", "2.5e-1")]));
}

#[test]
fn settings_that_the_engine_does_not_take_are_refused_before_a_context() {
    let path = plugin("knobs-refused");
    let providers = providers(&path);
    for (knobs, words) in [
        (&[("test.block", "9")][..], ["test.block", "9"]),
        (&[("test.block", "0")], ["test.block", "0"]),
        (&[("test.block", "many")], ["test.block", "many"]),
        (&[("test.block", "2.5")], ["test.block", "2.5"]),
        (&[("test.order", "diagonals")], ["test.order", "diagonals"]),
        (&[("test.share", "1.5")], ["test.share", "1.5"]),
        (&[("test.share", "NaN")], ["test.share", "NaN"]),
        (&[("test.size", "1")], ["test.size", "test.block"]),
        (&[("test.block", "2"), ("test.block", "3")], ["test.block", "twice"]),
    ] {
        let error = compile(&providers, knobs).expect_err("refused").to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{knobs:?}: {error}");
    }
    let counters = Counters::read(&path).expect("counters");
    assert_eq!(counters.calls(hipplan_engine_testing::Entry::CreateExecutionContext), 0, "the plugin was not asked for one");
    assert_eq!(settings_seen(&path), (0, 0));
}
