//! Which of several HIP libraries is used: the one that the process has loaded, whatever the system's loader would find.

mod common;

use hipplan_exec::hip::HipRuntime;
use hipplan_hip_testing::build;
use std::path::Path;
use std::process::Command;

/// Set in the child, to the library that it loads first; empty for none.
const FIRST: &str = "HIPPLAN_TEST_FIRST";

/// What the child does: load a library, if one is named, and tell which one the executor takes.
#[test]
fn child() {
    let Some(first) = std::env::var_os(FIRST) else { return };
    if !first.is_empty() {
        // SAFETY: the stand-in's initialisers read the environment.
        std::mem::forget(unsafe { libloading::Library::new(Path::new(&first)) }.expect("loaded"));
    }
    let runtime = HipRuntime::find().expect("a runtime");
    println!("took {} of {:?}", runtime.library(), runtime.version());
    assert_eq!(runtime.current_device().expect("a device").ordinal(), 0);
}

fn taken(first: &Path, search: &Path, named: Option<&Path>) -> String {
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    child.args(["--exact", "child", "--nocapture"]).env(FIRST, first).env("LD_LIBRARY_PATH", search);
    child.env_remove("HIPPLAN_HIP_LIBRARY").env_remove("HIPPLAN_CHILD");
    if let Some(named) = named {
        child.env("HIPPLAN_HIP_LIBRARY", named);
    }
    let output = child.output().expect("started");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let line = said.lines().find_map(|line| line.split_once("took ")).expect("an answer").1;
    line.split(' ').next().expect("a name").to_owned()
}

#[test]
fn the_runtime_that_is_loaded_is_taken() {
    let newer = build::host_runtime(&common::build_dir(), false).expect("built");
    let older = build::host_runtime_rocm5(&common::build_dir()).expect("built");
    let search = newer.parent().expect("a folder");
    // By name, the newer one is found.
    assert_eq!(taken(Path::new(""), search, None), "libamdhip64.so.6");
    // The older one is loaded, by a path that no search finds.
    assert_eq!(taken(&older, search, None), "libamdhip64.so.5");
    assert_eq!(taken(&newer, older.parent().expect("a folder"), None), "libamdhip64.so.6");
    // A variable is an order.
    assert_eq!(taken(&older, search, Some(&newer)), newer.display().to_string());
}
