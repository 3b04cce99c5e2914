//! A plugin, a graph, a plan of it: what the tests have in common.

use hipplan::hipdnn::engine::{EngineConfig, KnobValue};
use hipplan::plan::{BakedScalar, BindingV1, PayloadWriter, PlanMetaV1, PlanWriter};
use hipplan::plugin::{
    PLUGIN_PAYLOAD_KIND, PLUGIN_PAYLOAD_VERSION, Plugin, PluginContext, PluginError, PluginLoader, PluginProgram, PluginSearch,
    PluginSource, Plugins as Loaded, StatedHooks,
};
use hipplan::{
    AlignedBytes, ApiVersion, BoundPlan, Device, ExecError, GraphBuf, Limits, Loaders, Plan, PlanIdentity, PlanView, Policy, Providers,
    Request, Site, Target, canon, compile_graph, engine_id,
};
use hipplan_engine_testing::Plugins;
use std::path::{Path, PathBuf};

/// Name of the test plugin, unless a switch gives another.
pub(crate) const NAME: &str = "hipplan test plugin";
/// Name of its engine.
pub(crate) const ENGINE: &str = "HIPPLAN_TEST_ENGINE";

pub(crate) fn build(name: &str, switches: &[&str]) -> PathBuf {
    Plugins::build(name, switches).unwrap_or_else(|e| panic!("{e}"))
}

pub(crate) fn search(sources: &[PluginSource]) -> Loaded {
    let mut search = PluginSearch::new();
    for source in sources {
        search.add(source.clone());
    }
    search.load()
}

/// One plugin that computes in host memory, which is used.
pub(crate) fn load(path: &Path) -> Plugin {
    let plugins = search(&[PluginSource::host(path)]);
    assert_eq!(plugins.failures(), []);
    plugins.iter().next().expect("a plugin").clone()
}

/// The one failure of a plugin that is not used.
pub(crate) fn refused(path: &Path) -> String {
    let plugins = search(&[PluginSource::host(path)]);
    assert!(plugins.is_empty(), "{plugins:?}");
    let [failure] = plugins.failures() else { panic!("{:?}", plugins.failures()) };
    assert_eq!(failure.path, path);
    failure.reason.clone()
}

/// A graph as a plugin sees it: the canonical one.
pub(crate) fn canonical(graph: &GraphBuf) -> GraphBuf {
    let canonical = graph.view().canonical().expect("a key");
    canon::decode(&canonical.encoding, &Limits::DEFAULT).expect("its own encoding")
}

pub(crate) fn config(engine: &str, knobs: &[(&str, KnobValue)]) -> EngineConfig {
    let knobs = knobs.iter().map(|(id, value)| ((*id).to_owned(), value.clone())).collect();
    EngineConfig { engine_id: engine_id(engine), knobs }
}

/// A context of the test engine, without knobs.
pub(crate) fn context(plugin: &Plugin, graph: &GraphBuf) -> Result<PluginContext, PluginError> {
    plugin.create_context(&Device::Cpu, &config(ENGINE, &[]), &canonical(graph).view())
}

/// The plan of a graph that a program is of, for the CPU.
pub(crate) fn plan_of(
    graph: &GraphBuf,
    program: Option<&PluginProgram>,
    identity: (&str, &str, &str),
    workspace_size: u64,
) -> AlignedBytes {
    plan_for(&Target::Cpu, graph, program, identity, workspace_size)
}

/// The plan of a graph that a program is of. Its bindings are those of the cpu provider's plan.
pub(crate) fn plan_for(
    target: &Target,
    graph: &GraphBuf,
    program: Option<&PluginProgram>,
    identity: (&str, &str, &str),
    workspace_size: u64,
) -> AlignedBytes {
    plan_stating(None, target, graph, program, identity, workspace_size)
}

/// [`plan_for`], with metadata that state another API floor than the graph's.
pub(crate) fn plan_stating(
    floor: Option<ApiVersion>,
    target: &Target,
    graph: &GraphBuf,
    program: Option<&PluginProgram>,
    identity: (&str, &str, &str),
    workspace_size: u64,
) -> AlignedBytes {
    let (provider, version, engine) = identity;
    let request = Request { site: &Site::Offline(Target::Cpu), policy: &Policy::default() };
    let of_cpu = compile_graph(&graph.view(), &request, &Providers::default()).expect("a plan of the cpu provider").bytes;
    let view = PlanView::open(&of_cpu).expect("a plan");
    let of_cpu = view.meta();
    let bindings = of_cpu.bindings.iter().map(|b| BindingV1 {
        ordinal: b.ordinal.to_native(),
        role: b.role,
        kind: b.kind,
        dtype: b.dtype,
        dims: b.dims.iter().map(|d| d.to_native()).collect(),
        strides: b.strides.iter().map(|s| s.to_native()).collect(),
        first_use: b.first_use.as_str().to_owned(),
    });
    let identity = PlanIdentity {
        graph: view.meta().graph_key(),
        target: target.to_string(),
        provider: provider.to_owned(),
        engine: engine.to_owned(),
        engine_revision: version.to_owned(),
        knobs: Vec::new(),
    };
    let ApiVersion { major, minor, patch } = floor.unwrap_or(of_cpu.api_floor());
    let api_floor = [major, minor, patch];
    let meta = PlanMetaV1 { bindings: bindings.collect(), workspace_size, api_floor, ..PlanMetaV1::of(&identity) };
    let canonical = canonical(graph);
    let tensors = canonical.view();
    let tensors = tensors.tensors();
    let body = program.map(|program| program.to_body().expect("a body")).unwrap_or_default();
    let payload = PayloadWriter {
        kind: PLUGIN_PAYLOAD_KIND,
        version: PLUGIN_PAYLOAD_VERSION,
        runtime_uids: tensors.iter().filter(|t| t.is_runtime).map(|t| t.uid.0).collect(),
        baked: tensors.iter().filter_map(|t| Some(BakedScalar { uid: t.uid.0, is_default: t.is_runtime, value: t.value? })).collect(),
        body: &body,
    };
    let payload = payload.finish().expect("a payload");
    let encoding = graph.view().canonical().expect("a key").encoding;
    PlanWriter { meta: &meta, canonical: &encoding, payload: &payload }.finish().expect("a plan")
}

/// A plan that the plugin has compiled and stored.
pub(crate) fn stored(plugin: &Plugin, graph: &GraphBuf) -> AlignedBytes {
    let context = context(plugin, graph).expect("a context");
    let program = context.program().expect("a plugin that persists");
    let engine = plugin.engine(context.engine()).expect("its engine").name.clone();
    plan_of(graph, Some(&program), (plugin.name(), plugin.version(), &engine), context.workspace_size())
}

/// A plan that was compiled in this process and is not stored.
pub(crate) fn prepared(plugin: &Plugin, graph: &GraphBuf) -> BoundPlan {
    let context = context(plugin, graph).expect("a context");
    let file = plan_of(graph, None, (plugin.name(), plugin.version(), ENGINE), context.workspace_size());
    let plan = Plan::open(&file).expect("a plan");
    let tensors = plan.view().meta().bindings.len();
    plan.bind_prepared(&Device::Cpu, &graph.view(), context.into_executable(tensors)).expect("bound")
}

pub(crate) fn loaders(plugins: &Loaded) -> Loaders {
    let mut loaders = Loaders::default();
    loaders.add(Box::new(PluginLoader::new(plugins)));
    loaders
}

/// A stored plan in a fresh context.
pub(crate) fn restore(file: &AlignedBytes, plugins: &Loaded, graph: &GraphBuf) -> Result<BoundPlan, ExecError> {
    let plan = Plan::open(file)?;
    let loaders = loaders(plugins);
    let accepted = loaders.accept(&plan.view());
    let bound = plan.bind_by_graph(&Device::Cpu, &loaders, &graph.view());
    // What cannot be loaded for another reason than its bytes is not accepted either, and the other way round.
    if let Err(error) = accepted {
        assert_eq!(bound.as_ref().expect_err("it was not accepted").to_string(), error.to_string());
    }
    bound
}

pub(crate) fn with_hooks(path: &Path, hooks: StatedHooks) -> PluginSource {
    PluginSource { hooks, ..PluginSource::host(path) }
}
