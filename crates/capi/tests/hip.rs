//! The library as C programs use it, on a HIP device: a stand-in that executes on the host.

mod common;

use common::{program, scale_and_shift, succeed};
use hipplan_hip_testing::{HostCompiler, build};
use hipplan_planner::Providers;
use hipplan_planner::hip::HipCompiler;
use hipplan_serialize::{Limits, Target, canon};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where stand-ins are built, shared by all tests.
fn runtimes() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("runtimes")
}

/// A folder with the stand-in, the graph's file, and the program.
struct Setting {
    folder: tempfile::TempDir,
    runtime: PathBuf,
}

impl Setting {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("graph"), scale_and_shift().view().to_artifact()).expect("written");
        Self { folder, runtime: build::host_runtime(&runtimes(), false).expect("built") }
    }

    fn run(&self) -> Command {
        let mut command = Command::new(program("tests/c/hip.c", self.folder.path()));
        command.arg(&self.runtime).arg(self.store()).arg(self.folder.path().join("graph"));
        // What the loader would find by name is none: only the one that the program has loaded is there.
        command.env_remove("HIPPLAN_HIP_LIBRARY").env("HIPPLAN_HOST_HIP_DEVICES", "2").env("HIPPLAN_HOST_HIP_LEAKS", "fail");
        command
    }

    fn store(&self) -> PathBuf {
        self.folder.path().join("store")
    }
}

#[test]
fn a_c_program_executes_on_the_runtime_that_it_has_loaded() {
    let setting = Setting::new();
    let compiler = HostCompiler::new(false).expect("g++").with_cache(&runtimes().join("kernels"));
    let mut providers = Providers::none();
    providers.add(Box::new(HipCompiler::new(vec![Box::new(compiler)])));
    let target: Target = "host".parse().expect("a target");
    common::compile(&setting.store(), &scale_and_shift().view(), &target, &providers);
    succeed(&mut setting.run());
}

/// Compiling inside a C program starts clang, and never that program again.
#[test]
fn a_c_program_compiles_for_a_gpu() {
    const TARGET: &str = "gfx942:sramecc+:xnack-";
    if let Err(reason) = hipplan_planner::hip::compiler::Clang::find() {
        assert!(std::env::var_os("HIPPLAN_CI").is_none(), "clang is needed: {reason}");
        eprintln!("skipped: {reason}");
        return;
    }
    let setting = Setting::new();
    let twins = setting.folder.path().join("twins");
    let compiler = HostCompiler::new(false).expect("g++");
    let canonical = scale_and_shift().view().canonical().expect("a key");
    let decoded = canon::decode(&canonical.encoding, &Limits::DEFAULT).expect("a graph");
    let (_, sources) = hipplan_planner::hip::kernels(&decoded.view(), &TARGET.parse().expect("a target")).expect("kernels");
    for source in &sources {
        compiler.compile_twin(source, &twins).expect("compiled");
    }
    let mut run = setting.run();
    run.arg("compile").env("HIPPLAN_HOST_HIP_ARCH", TARGET).env("HIPPLAN_HOST_HIP_TWINS", &twins);
    succeed(&mut run);
}
