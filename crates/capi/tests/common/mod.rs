//! What the tests share: the library as it is installed, C programs, graphs and stores.
#![allow(dead_code, reason = "each test binary uses a part")]

use hipplan_planner::{
    CompileError, Compiled, Compiler, Offer, ProviderIdentity, Providers, Refusal, Request, Site, cpu::CpuCompiler, ensure_plan,
};
use hipplan_serialize::{
    DataType, GraphBuf, GraphBuilder, PointwiseMode, Policy, ScalarType, SelectionKey, Target, TensorAttributes, Uid, VerifiedGraph, ops,
};
use hipplan_store::{Mode, Store};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

pub(crate) const X: i64 = 10;
pub(crate) const ALPHA: i64 = 20;
pub(crate) const BETA: i64 = 25;
pub(crate) const Y: i64 = 30;

/// Set to have golden files written anew.
pub(crate) const WRITE: &str = "HIPPLAN_WRITE_GOLDEN";

pub(crate) fn home() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// `libhipplan_capi.a` of the build that this test is part of: cargo gives it no fixed name.
fn archive() -> PathBuf {
    let deps = std::env::current_exe().expect("this program").parent().expect("its folder").to_owned();
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with("libhipplan_capi-") && name.ends_with(".a")
    };
    let all = std::fs::read_dir(&deps).expect("the folder").map(|entry| entry.expect("an entry").path()).filter(is_ours);
    let newest = all.max_by_key(|path| path.metadata().and_then(|m| m.modified()).expect("a time"));
    newest.unwrap_or_else(|| panic!("{}: no libhipplan_capi-*.a, which cargo builds for the tests", deps.display()))
}

/// The prefix that `scripts/build-libraries` has installed the library in.
pub(crate) fn prefix() -> &'static Path {
    static PREFIX: OnceLock<(PathBuf, tempfile::TempDir)> = OnceLock::new();
    let (prefix, _) = PREFIX.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let prefix = folder.path().join("a prefix");
        let mut script = Command::new(home().join("../../scripts/build-libraries"));
        succeed(script.arg("--archive").arg(archive()).arg("--prefix").arg(&prefix));
        (prefix, folder)
    });
    prefix
}

/// Compiles a program of `tests/c` or `examples`, warnings being errors, and links it with the library.
pub(crate) fn program(source: &str, folder: &Path) -> PathBuf {
    let is_cpp = source.ends_with(".cpp");
    let out = folder.join(Path::new(source).file_stem().expect("a name"));
    let (compiler, standard) = if is_cpp { ("c++", "-std=c++17") } else { ("cc", "-std=c99") };
    let mut command = Command::new(compiler);
    command.args([standard, "-Wall", "-Wextra", "-pedantic", "-Werror", "-O1", "-g", "-o"]).arg(&out).arg(home().join(source));
    command.arg("-I").arg(prefix().join("include")).arg("-L").arg(prefix().join("lib"));
    command.arg(format!("-Wl,-rpath,{}", prefix().join("lib").display()));
    succeed(command.args(["-lhipplan", "-pthread", "-ldl", "-lm"]));
    out
}

pub(crate) fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let said = [&output.stdout[..], &output.stderr[..]].concat();
    assert!(output.status.success(), "{command:?}: {}\n{}", output.status, String::from_utf8_lossy(&said));
    output
}

/// `y = x * alpha + beta`: alpha is supplied when executing, beta has the default 0.25.
pub(crate) fn scale_and_shift() -> GraphBuf {
    let mut builder = GraphBuilder::new();
    let tensor = |uid, name: &str| {
        let mut tensor = TensorAttributes::packed(DataType::Float, &[4]);
        tensor.set_uid(Uid(uid)).set_name(name);
        tensor
    };
    let x = builder.tensor(tensor(X, "x"));
    let mut alpha = TensorAttributes::packed(DataType::Float, &[1]);
    alpha.set_as_runtime_parameter().set_uid(Uid(ALPHA)).set_name("alpha");
    let alpha = builder.tensor(alpha);
    let mut beta = TensorAttributes::scalar_of(0.25_f32, ScalarType::RuntimeParam);
    beta.set_uid(Uid(BETA)).set_name("beta");
    let beta = builder.tensor(beta);
    let mut scaled = tensor(40, "scaled");
    scaled.set_virtual(true);
    let scaled = builder.tensor(scaled);
    let y = builder.tensor(tensor(Y, "y"));
    builder.node("scale", DataType::Float, ops::Pointwise::binary(PointwiseMode::Mul, x, alpha, scaled));
    builder.node("shift", DataType::Float, ops::Pointwise::binary(PointwiseMode::Add, scaled, beta, y));
    builder.build().expect("a graph")
}

/// The ordinals of x, alpha, beta and y in a graph's canonical form.
pub(crate) fn ordinals(graph: &VerifiedGraph<'_>) -> String {
    let uids = graph.canonical().expect("a key").uids;
    let at = |uid| uids.iter().position(|u| u.0 == uid).expect("a tensor").to_string();
    [X, ALPHA, BETA, Y].map(at).join(",")
}

/// Puts a plan of the graph into the store.
pub(crate) fn compile(store: &Path, graph: &VerifiedGraph<'_>, target: &Target, providers: &Providers) {
    let store = Store::open(store, Mode::ReadWrite).expect("a store");
    let request = Request { site: &Site::of(target), policy: &Policy::DEFAULT };
    ensure_plan(&store, &graph.canonical().expect("a key"), &request, providers).expect("compiled");
}

/// Compiles as the CPU provider does, under a name of its own, and changes what comes out.
pub(crate) struct Altered {
    pub(crate) engine: &'static str,
    pub(crate) alter: fn(&mut Compiled),
}

impl Compiler for Altered {
    fn identity(&self) -> ProviderIdentity {
        CpuCompiler.identity()
    }

    fn offers(&self, graph: &VerifiedGraph<'_>, site: &Site) -> Result<Vec<Offer>, Refusal> {
        let mut offers = CpuCompiler.offers(graph, site)?;
        offers.iter_mut().for_each(|offer| offer.engine = self.engine.to_owned());
        Ok(offers)
    }

    fn compile(&self, graph: &VerifiedGraph<'_>, offer: &Offer, site: &Site) -> Result<Compiled, CompileError> {
        let mut compiled = CpuCompiler.compile(graph, offer, site)?;
        (self.alter)(&mut compiled);
        Ok(compiled)
    }
}

/// Joins the stores `single0`, `single1`.. of a folder into one: a selection of all their plans of the graph, in this order.
pub(crate) fn join(folder: &tempfile::TempDir, path: &Path, graph: &GraphBuf) {
    let all = Store::open(path, Mode::ReadWrite).expect("a store");
    let key = SelectionKey::new(&graph.view().canonical().expect("a key").key, "cpu", &Policy::DEFAULT);
    let mut plans = Vec::new();
    for i in 0.. {
        let Ok(single) = Store::open(folder.path().join(format!("single{i}")), Mode::ReadOnly) else { break };
        for plan in single.find_selection(&key).hit().expect("a selection").plans {
            let put = all.put_plan(single.get_plan(&plan).hit().expect("a plan").bytes()).expect("put");
            plans.push(put.id);
        }
    }
    assert!(all.put_selection(&key, &plans).expect("put").is_persisted());
}

/// The files below a folder.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}
