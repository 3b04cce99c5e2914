//! The calls of frameworks, in their order: stock, split with forwarding off, and forwarded.

use crate::setup::{FOLDER, Report, empty_store, preloaded, program};
use hipplan_miopen_testing::filled::Filled;
use hipplan_miopen_testing::split::Split;
use hipplan_miopen_testing::{NaiveKernels, Program, Sysroot};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;

/// Plans of everything that the programs call, from a recording of them.
fn recorded(sysroot: &'static Sysroot, split: &Split) -> &'static Filled {
    static FILLED: OnceLock<Filled> = OnceLock::new();
    FILLED.get_or_init(|| {
        let filled = empty_store(&FOLDER.path().join("recorded-store"));
        let folder = FOLDER.path().join("recorded");
        for (name, arguments) in [("frameworks", &["find", "0", "1"][..]), ("scaled", &[])] {
            let run = split.enabled(sysroot.command(program(sysroot, name)), &filled).args(arguments);
            ok(&run.env("HIPPLAN_MIOPEN_RECORD", &folder));
        }
        let fill = filled.files(&[&folder]).unwrap_or_else(|error| panic!("{error}"));
        assert!(fill.refused.is_empty(), "{:#?}", fill.refused);
        assert!(fill.compiled.len() > 21, "{}", fill.compiled.len());
        filled
    })
}

/// Runs a program to its `ok` line, which is returned with its standard error.
fn ok(program: &Program<'_>) -> (String, String) {
    let output = program.run().expect("run");
    let last = output.stdout.lines().last().unwrap_or_default();
    assert!(output.status.success() && last.starts_with("ok "), "{:?}: {}\n{}", output.status, output.stdout, output.stderr);
    (last.to_owned(), output.stderr)
}

/// PyTorch's sequences: both modes, twice, in threads, descriptors made anew for every call.
#[test]
fn frameworks_get_right_results_in_every_mode() {
    let Some(sysroot) = Sysroot::for_test() else { return };
    let split = Split::for_test(sysroot);
    let filled = recorded(sysroot, split);
    for mode in ["find", "immediate"] {
        let run = || sysroot.command(program(sysroot, "frameworks")).args([mode, "3", "2"]);
        let stock = ok(&run()).0;
        assert_eq!(ok(&split.disabled(run())).0, stock, "{mode}");
        let forwarded = || split.enabled(run(), filled).preload(preloaded("trap")).env("HIPPLAN_MIOPEN_REPORT", "1");
        for (name, value) in [("", ""), ("SHARE_KEPT", "1"), ("FALL_BACK", "1")] {
            let program = forwarded().naive(NaiveKernels::Missing);
            let (result, stderr) = ok(&if name.is_empty() { program } else { program.env(name, value) });
            assert_eq!(result, stock, "{mode}");
            let report = Report::of(&stderr);
            assert_eq!((report.all("misses"), report.all("private"), report.all("failures")), (0, 0, 0), "{mode} {name}: {stderr}");
        }
    }
}

/// Alpha and beta, outputs that are inputs, bias calls, the fused call; Find 2.0 beside them.
#[test]
fn scaled_and_fused_calls_are_right_and_find_two_passes() {
    let Some(sysroot) = Sysroot::for_test() else { return };
    let split = Split::for_test(sysroot);
    let filled = recorded(sysroot, split);
    let run = || sysroot.command(program(sysroot, "scaled"));
    let stock = ok(&run()).0;
    assert_eq!(ok(&split.disabled(run())).0, stock);
    let (result, stderr) = ok(&split.enabled(run(), filled).args(["forwarded"]).env("HIPPLAN_MIOPEN_REPORT", "1"));
    let [_, right, refused] = result.split(' ').collect::<Vec<_>>()[..] else { panic!("{result}") };
    assert!(right.parse::<u32>().expect("a number") > 0 && refused == "0", "{result}");
    let report = Report::of(&stderr);
    assert_eq!((report.all("misses"), report.all("failures"), report.all("declined")), (0, 0, 0), "{stderr}");
}

/// A forward convolution captured into a graph: the run allocates, loads and waits for nothing.
#[test]
fn a_forwarded_run_is_captured() {
    let Some(sysroot) = Sysroot::for_test() else { return };
    let split = Split::for_test(sysroot);
    let filled = recorded(sysroot, split);
    assert_eq!(ok(&split.enabled(sysroot.command(program(sysroot, "capture")), filled).preload(preloaded("trap"))).0, "ok 3");
}

/// Files below a folder, with their bytes.
fn files(folder: &Path, found: &mut BTreeMap<std::path::PathBuf, Vec<u8>>) {
    for entry in std::fs::read_dir(folder).expect("a folder").map(|e| e.expect("an entry").path()) {
        if entry.is_dir() {
            files(&entry, found);
        } else {
            found.insert(entry.clone(), std::fs::read(&entry).expect("a file"));
        }
    }
}

/// MIOpen's databases are neither read nor written for forwarded calls (M11).
#[test]
fn databases_stay_as_they_are() {
    let Some(sysroot) = Sysroot::for_test() else { return };
    let split = Split::for_test(sysroot);
    let filled = recorded(sysroot, split);
    let home = tempfile::tempdir().expect("a folder");
    let snapshot = || {
        let mut found = BTreeMap::new();
        files(home.path(), &mut found);
        found
    };
    let run = || sysroot.command(program(sysroot, "frameworks")).args(["find", "0", "1"]).home(home.path());
    ok(&split.disabled(run()));
    let before = snapshot();
    let databases = before.keys().filter(|path| path.extension().is_some_and(|e| e == "txt" || e == "ukdb" || e == "udb")).count();
    assert!(databases > 0, "the private library wrote none: {:?}", before.keys());
    ok(&split.enabled(run(), filled).preload(preloaded("trap")));
    let after = snapshot();
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
    assert!(before == after, "some database has changed");
}
