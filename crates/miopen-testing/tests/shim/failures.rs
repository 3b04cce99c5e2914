//! What goes wrong, in both modes: each as the RFC says (MW §6.1), and `miopenCreate` succeeds in all of them.

use crate::setup::{FOLDER, empty_store, program};
use hipplan_miopen_testing::filled::Filled;
use hipplan_miopen_testing::split::Split;
use hipplan_miopen_testing::{Output, Program, Sysroot};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The line that the program's convolution is.
const LINE: &str = "./bin/MIOpenDriver conv -n 1 -c 4 -H 8 -W 8 -k 4 -y 3 -x 3 -p 1 -q 1 -F 1\n";

/// Lines of `status`: word and rest.
fn statuses(output: &Output) -> BTreeMap<String, String> {
    let lines = output.stdout.lines().filter_map(|line| line.split_once(' '));
    lines.map(|(word, rest)| (word.to_owned(), rest.to_owned())).collect()
}

fn run(program: &Program<'_>) -> (BTreeMap<String, String>, String) {
    let output = program.run().expect("run");
    assert!(output.status.success(), "{:?}: {}\n{}", output.status, output.stdout, output.stderr);
    let found = statuses(&output);
    for word in ["create", "version", "destroy"] {
        assert_eq!(found[word], "0", "{word}: {}", output.stderr);
    }
    // Not forwarded, and wrong on purpose: the private library's own answer.
    assert_eq!(found["other"], "3");
    (found, output.stderr)
}

fn store(folder: &Path) -> Filled {
    let filled = empty_store(folder);
    assert_eq!(filled.lines(LINE).expect("compiled").compiled.len(), 1);
    filled
}

/// A library that stands in for libhipplan.so.0.
fn fake(name: &str, text: &str) -> PathBuf {
    let source = FOLDER.path().join(format!("{name}.c"));
    let library = FOLDER.path().join(format!("{name}.so"));
    fs::write(&source, text).expect("written");
    let output = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).output().expect("a C compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    library
}

#[test]
fn a_missing_or_strange_libhipplan_is_loud_where_it_is_asked_for() {
    let Some(sysroot) = Sysroot::for_test() else { return };
    let split = Split::for_test(sysroot);
    let folder = tempfile::tempdir().expect("a folder");
    let filled = store(folder.path());
    let status = || sysroot.command(program(sysroot, "status"));
    let wrong_major = fake("wrong-major", "unsigned hipplan_version(void) { return 7u << 16; }\n");
    let nothing = fake("nothing", "int nothing;\n");
    for (library, say) in [(Path::new("/nowhere/libhipplan.so.0"), "/nowhere/libhipplan.so.0"), (&wrong_major, "7"), (&nothing, "hipplan_")]
    {
        let (off, text) = run(&split.disabled(status()).env("HIPPLAN_LIBRARY", library));
        assert!(["workspace", "find", "run"].iter().all(|word| off[*word] == "0"), "{off:?}");
        assert!(!text.contains("hipplan"), "with forwarding off nobody asks for it: {text}");
        let (on, text) = run(&split.enabled(status(), &filled).env("HIPPLAN_LIBRARY", library));
        assert!(["workspace", "find", "run"].iter().all(|word| on[*word] == "5"), "{on:?}\n{text}");
        assert!(on["find-text"].starts_with("[hipDNN-forwarded] ") && on["find-text"].contains(say), "{}", on["find-text"]);
        assert_ne!(on["run-code"], "0");
        let loud = text.lines().filter(|line| line.contains("cannot be") || line.contains("forwarded calls fail")).count();
        assert!(loud >= 1 && text.contains(say), "{text}");
    }
}

#[test]
fn the_store_s_faults_are_misses_with_a_warning() {
    let Some(sysroot) = Sysroot::for_test() else { return };
    let split = Split::for_test(sysroot);
    let status = || sysroot.command(program(sysroot, "status"));
    let zero = ["workspace", "find", "run"];
    // A store that is a file.
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    fs::write(&file, "no store").expect("written");
    for enabled in [false, true] {
        let program = if enabled { split.forwarding(status()) } else { split.disabled(status()) };
        let (found, text) = run(&program.env("HIPPLAN_MIOPEN_STORE", &file));
        assert!(zero.iter().all(|word| found[*word] == "0"), "{found:?}\n{text}");
        assert_eq!(text.contains("file"), enabled, "{text}");
    }
    // A store whose plan is damaged, in every one of its files in turn.
    let intact = store(folder.path());
    let (found, _) = run(&split.enabled(status(), &intact));
    assert!(zero.iter().all(|word| found[*word] == "0"), "{found:?}");
    let mut damaged = 0;
    for path in plan_files(&intact.store()) {
        let bytes = fs::read(&path).expect("read");
        let mut other = bytes.clone();
        let middle = other.len() / 2;
        other[middle] ^= 0x40;
        fs::write(&path, &other).expect("written");
        let (found, text) = run(&split.enabled(status(), &intact));
        assert!(zero.iter().all(|word| found[*word] == "0"), "{}: {found:?}\n{text}", path.display());
        damaged += usize::from(text.contains("warning"));
        let (off, _) = run(&split.disabled(status()));
        assert!(zero.iter().all(|word| off[*word] == "0"), "{off:?}");
        fs::write(&path, &bytes).expect("written");
    }
    assert!(damaged > 0, "damage is told");
}

/// Files of a store that are plans or their code objects.
fn plan_files(store: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![store.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder").map(|e| e.expect("an entry").path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else if fs::metadata(&entry).expect("a file").len() > 256 {
                found.push(entry);
            }
        }
    }
    assert!(!found.is_empty());
    found
}

/// An engine that fails is never absorbed.
#[test]
fn a_failed_launch_is_the_caller_s_error() {
    let Some(sysroot) = Sysroot::for_test() else { return };
    let split = Split::for_test(sysroot);
    let folder = tempfile::tempdir().expect("a folder");
    let filled = store(folder.path());
    let status = || sysroot.command(program(sysroot, "status"));
    // Find executes once, so the second launch is the run's.
    let (found, text) = run(&split.enabled(status(), &filled).env("HIPPLAN_HOST_HIP_FAIL", "hipModuleLaunchKernel:2:1"));
    assert_eq!((found["workspace"].as_str(), found["find"].as_str(), found["run"].as_str()), ("0", "0", "5"), "{found:?}\n{text}");
    assert!(found["run-text"].starts_with("[hipDNN-forwarded] "), "{}", found["run-text"]);
    assert!(found["run-text"].contains("hipModuleLaunchKernel"), "{}", found["run-text"]);
    assert_eq!(found["find-code"], "0");
    assert_ne!(found["run-code"], "0");
    let (off, _) = run(&split.disabled(status()));
    assert_eq!(off["run"], "0");
}

/// The miss policies.
#[test]
fn a_miss_is_private_or_an_error() {
    let Some(sysroot) = Sysroot::for_test() else { return };
    let split = Split::for_test(sysroot);
    let folder = tempfile::tempdir().expect("a folder");
    let empty = empty_store(folder.path());
    let status = || split.enabled(sysroot.command(program(sysroot, "status")), &empty);
    let (private, _) = run(&status());
    assert!(["workspace", "find", "run"].iter().all(|word| private[*word] == "0"), "{private:?}");
    let (error, text) = run(&status().env("HIPPLAN_MIOPEN_MISS", "error"));
    assert!(["workspace", "find", "run"].iter().all(|word| error[*word] == "8"), "{error:?}\n{text}");
    assert!(error["find-text"].contains("no plan is stored for conv -n 1 -c 4"), "{}", error["find-text"]);
    // The way back without changing anything else.
    let (denied, _) = run(&status().env("HIPPLAN_MIOPEN_MISS", "error").env("MIOPEN_DISABLE_HIPDNN_FOR", "*"));
    assert!(["workspace", "find", "run"].iter().all(|word| denied[*word] == "0"), "{denied:?}");
}
