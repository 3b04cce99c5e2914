//! The library through our own host: the two sides of the ABI prove each other. A graph is compiled with it into a plan file, which a fresh process
//! executes with neither graph nor compiler.

mod common;

use common::{corpus, two_readers};
use hipplan_engine::{ENGINE_ID, ENGINE_NAME, PLUGIN_NAME, PLUGIN_VERSION};
use hipplan_exec::plugin::{PluginLoader, PluginSearch, PluginSource, Plugins};
use hipplan_exec::reference::check;
use hipplan_exec::{BoundPlan, Device, Loaders, Plan, Stream, VariantPack, Workspace};
use hipplan_planner::{Providers, Request, Site, compile_graph};
use hipplan_serialize::{
    AlignedBytes, ApiVersion, DataType, GraphBuf, GraphBuilder, PointwiseMode, Policy, ScalarType, Target, TensorAttributes, Uid, aligned,
    ops,
};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Cargo builds it beside the tests.
fn library() -> PathBuf {
    let tests = std::env::current_exe().expect("this executable");
    tests.parent().expect("its folder").join("libhipplan_engine.so")
}

fn plugins() -> Plugins {
    let plugins = PluginSearch::new().add(PluginSource::host(library())).load();
    assert!(plugins.failures().is_empty(), "{:?}", plugins.failures());
    plugins
}

fn providers(plugins: &Plugins) -> Providers {
    let mut providers = Providers::none();
    providers.add_plugins(plugins);
    providers
}

fn compile(plugins: &Plugins, graph: &GraphBuf) -> AlignedBytes {
    let request = Request { site: &Site::of(&Target::Cpu), policy: &Policy::DEFAULT };
    compile_graph(&graph.view(), &request, &providers(plugins)).unwrap_or_else(|e| panic!("{e}")).bytes
}

fn loaders(plugins: &Plugins) -> Loaders {
    let mut loaders = Loaders::default();
    loaders.add(Box::new(PluginLoader::new(plugins)));
    loaders
}

fn execute(plan: &mut BoundPlan, pack: &VariantPack<'_>) -> Result<(), String> {
    let mut workspace = Workspace::new(plan.workspace_size()).expect("memory");
    plan.execute(pack, workspace.as_mut_slice(), Stream::Default).map_err(|e| e.to_string())
}

#[test]
fn our_host_finds_one_engine_with_its_name_and_hooks() {
    let plugins = plugins();
    let found: Vec<_> = plugins.iter().collect();
    let [plugin] = found[..] else { panic!("{found:?}") };
    assert_eq!((Ok(plugin.name()), Ok(plugin.version())), (PLUGIN_NAME.to_str(), PLUGIN_VERSION.to_str()));
    assert_eq!(plugin.api_version(), ApiVersion::NEWEST_KNOWN);
    assert_eq!(plugin.engines().len(), 1);
    assert_eq!((plugin.engines()[0].id, Ok(plugin.engines()[0].name.as_str())), (ENGINE_ID, ENGINE_NAME.to_str()));
    assert_eq!(plugin.persistence(), Ok(()));
    assert!(plugin.executes_overrides() && plugin.serves(&Device::Cpu));
    let graph = two_readers();
    let details = plugin.engine_details(&Device::Cpu, ENGINE_ID, &graph.view()).expect("details");
    assert!(details.engine_id == ENGINE_ID && details.knobs.is_empty());
    assert_eq!(plugin.applicable_engines(&Device::Cpu, &graph.view()).expect("engines"), [ENGINE_ID]);
}

#[test]
fn plans_through_our_host_are_right() {
    let plugins = plugins();
    let loaders = loaders(&plugins);
    let few = ["conv_bias_relu_bf16_nchw_1x1", "sample_conv_fwd", "sample_relu", "sample_matmul", "sample_batchnorm"];
    let picked = corpus().into_iter().filter(|(path, _)| few.iter().any(|few| path.file_stem().is_some_and(|s| s == *few)));
    let mut checked = 0;
    for (path, graph) in picked.chain([("two readers".into(), two_readers())]) {
        let name = path.display();
        let file = compile(&plugins, &graph);
        let plan = Plan::open(&file).expect("a plan");
        let mut bound = plan.bind_by_graph(&Device::Cpu, &loaders, &graph.view()).unwrap_or_else(|e| panic!("{name}: {e}"));
        let report = check(&graph.view(), 5, &mut |inputs, outputs| {
            let mut pack = VariantPack::new();
            for input in inputs.tensors() {
                pack.input(input.uid.0, input.tensor.bytes());
            }
            for scalar in inputs.scalars().iter().filter(|s| !s.is_default) {
                pack.scalar_value(scalar.uid.0, scalar.value);
            }
            for output in outputs.tensors_mut() {
                pack.output(output.uid.0, output.tensor.bytes_mut());
            }
            execute(&mut bound, &pack)
        });
        let report = report.unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(report.passed(), "{name}:\n{report}");
        checked += 1;
    }
    assert_eq!(checked, few.len() + 1);
}

const X: i64 = 10;
const ALPHA: i64 = -20;
const BETA: i64 = 30;
const Y: i64 = 40;

/// `y = x * alpha + beta`; alpha is user-supplied, beta has the default 0.5.
fn scaled() -> GraphBuf {
    let mut builder = GraphBuilder::new();
    let device = |uid| {
        let mut tensor = TensorAttributes::packed(DataType::Float, &[4]);
        tensor.set_uid(Uid(uid)).set_virtual(uid == 0);
        tensor
    };
    let mut alpha = TensorAttributes::packed(DataType::Float, &[1]);
    alpha.set_as_runtime_parameter().set_uid(Uid(ALPHA));
    let mut beta = TensorAttributes::scalar_of(0.5_f32, ScalarType::RuntimeParam);
    beta.set_uid(Uid(BETA));
    let (x, alpha, beta) = (builder.tensor(device(X)), builder.tensor(alpha), builder.tensor(beta));
    let (between, y) = (builder.tensor(device(0)), builder.tensor(device(Y)));
    builder.node("scale", DataType::Float, ops::Pointwise::binary(PointwiseMode::Mul, x, alpha, between));
    builder.node("shift", DataType::Float, ops::Pointwise::binary(PointwiseMode::Add, between, beta, y));
    builder.build().expect("a graph")
}

/// What an execution makes of 1, 2, 3, 4.
fn scale(plan: &mut BoundPlan, alpha: Option<f32>, beta: Option<f32>) -> Result<[f32; 4], String> {
    let (x, mut y) = ([1.0_f32, 2.0, 3.0, 4.0], [f32::NAN; 4]);
    let mut pack = VariantPack::new();
    pack.input(X, &x).output(Y, &mut y);
    if let Some(alpha) = alpha {
        pack.scalar(ALPHA, alpha);
    }
    if let Some(beta) = beta {
        pack.override_scalar(BETA, beta);
    }
    execute(plan, &pack)?;
    drop(pack);
    Ok(y)
}

/// Set in the fresh process: the folder that has the plan and the uids.
const FRESH: &str = "HIPPLAN_ENGINE_TEST_FRESH";

#[test]
fn a_stored_plan_executes_in_a_fresh_process_with_the_callers_scalar() {
    if let Some(folder) = std::env::var_os(FRESH) {
        return in_the_fresh_process(Path::new(&folder));
    }
    let graph = scaled();
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("plan"), compile(&plugins(), &graph)).expect("written");
    let uids: Vec<u8> = graph.view().canonical().expect("a key").uids.iter().flat_map(|uid| uid.0.to_le_bytes()).collect();
    std::fs::write(folder.path().join("uids"), uids).expect("written");
    let mut fresh = Command::new(std::env::current_exe().expect("this executable"));
    fresh.args(["--exact", "a_stored_plan_executes_in_a_fresh_process_with_the_callers_scalar"]).env(FRESH, folder.path());
    let ran = fresh.output().expect("it runs");
    assert!(ran.status.success(), "{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(folder.path().join("done").exists(), "the fresh process executed nothing");
}

fn in_the_fresh_process(folder: &Path) {
    let file = aligned::aligned_copy(&std::fs::read(folder.join("plan")).expect("the plan"));
    let uids = std::fs::read(folder.join("uids")).expect("the uids");
    let uids: Vec<i64> = uids.as_chunks().0.iter().map(|&uid| i64::from_le_bytes(uid)).collect();
    let loaders = loaders(&plugins());
    let mut plan = Plan::open(&file).expect("a plan").bind_by_uids(&Device::Cpu, &loaders, &uids).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(scale(&mut plan, Some(2.0), None), Ok([2.5, 4.5, 6.5, 8.5]));
    assert_eq!(scale(&mut plan, Some(-1.0), None), Ok([-0.5, -1.5, -2.5, -3.5]));
    assert_eq!(scale(&mut plan, Some(2.0), Some(0.0)), Ok([2.0, 4.0, 6.0, 8.0]), "an override of the default is forwarded, and wins");
    assert_eq!(scale(&mut plan, Some(2.0), None), Ok([2.5, 4.5, 6.5, 8.5]), "and is forgotten");
    let missing = scale(&mut plan, None, None).expect_err("alpha is missing");
    assert!(missing.contains("INVALID_VALUE"), "{missing}");
    std::fs::write(folder.join("done"), "").expect("written");
}
