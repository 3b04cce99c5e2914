//! Real calls of the C library fail, in a child that is preloaded with `preload.c`; and files change under those who have them open.
//!
//! What goes past the C library (`getdents64`, `fstatfs`, `faccessat2`, `renameat2`) fails in `errors.rs`.

use super::scenario::{self, Scenario, root};
use super::values::{Values, check};
use super::{child, scratch};
use hipplan_store::{Mode, Store};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The calls that must have been seen.
const CALLS: [&str; 12] = ["open", "fstat", "stat", "pread", "pwrite", "fsync", "rename", "unlink", "mkdir", "flock", "futimens", "mmap"];
const ERRNOS: [i32; 4] = [libc::EIO, libc::ENOSPC, libc::ESTALE, libc::EMFILE];

/// The library to preload, compiled once; `None` where there is no compiler, which CI must have.
pub(crate) fn library() -> Option<&'static Path> {
    static LIBRARY: OnceLock<Option<PathBuf>> = OnceLock::new();
    let build = || {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults/preload.c");
        let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("faults-preload-{}.so", std::process::id()));
        let built = Command::new("cc").args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"]).arg(&library).arg(source).status();
        match built {
            Ok(status) => assert!(status.success()),
            Err(error) => {
                assert!(std::env::var_os("HIPPLAN_CI").is_none(), "cc: {error}");
                println!("NOT RUN: cc: {error}");
                return None;
            }
        }
        Some(library)
    };
    LIBRARY.get_or_init(build).as_deref()
}

/// Has the n-th call from now on fail; none with 0.
fn arm(at: u64, errno: i32) {
    let answer = fs::read_link(format!("/hipplan-shim/arm/{at}/{errno}"));
    assert!(answer.is_err());
}

/// How many calls were made since it was armed, and of which names.
fn calls() -> (u64, Vec<String>) {
    let text = fs::read_link("/hipplan-shim/calls").unwrap();
    let text = text.to_str().unwrap();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    (text[..digits].parse().unwrap(), text[digits..].split_whitespace().map(str::to_owned).collect())
}

/// A child, preloaded: every call of every scenario fails in turn.
pub(crate) fn fail_each(folder: &Path) {
    let mut seen = BTreeSet::new();
    let mut runs = 0;
    for scenario in scenario::ALL {
        runs += fail_each_of(scenario, folder, &mut seen);
    }
    let missing: Vec<_> = CALLS.iter().filter(|call| !seen.contains(**call)).collect();
    assert!(missing.is_empty(), "never made: {missing:?}, of {seen:?}");
    println!("{runs} runs with a call of the C library failing: {seen:?}");
}

fn fail_each_of(scenario: &Scenario, folder: &Path, seen: &mut BTreeSet<String>) -> u64 {
    let (template, tried) = (folder.join("template"), folder.join("tried"));
    fs::create_dir(&template).unwrap();
    let kept = (scenario.before)(&template);
    scratch::copy(&template, &tried);
    arm(0, 0);
    (scenario.run)(&tried);
    let (count, names) = calls();
    assert!(count > 10, "{}: {names:?}", scenario.name);
    seen.extend(names);
    fs::remove_dir_all(&tried).unwrap();
    let is_damaged = scenario.name.contains("damage");
    let mut runs = 0;
    for at in 1..=count {
        for errno in ERRNOS.into_iter().chain([0]) {
            // Every error at every call is what `matrix.rs` does; here they take turns, and so do calls where there are many.
            let is_all = scratch::number("HIPPLAN_STORE_ROUNDS", 0) > 0;
            let is_its_turn = ERRNOS[at as usize % ERRNOS.len()] == errno || errno == 0;
            if !is_all && (!is_its_turn || at > 100 && !at.is_multiple_of(5)) {
                continue;
            }
            let what = format!("{}: call {at} of {count}, errno {errno}", scenario.name);
            scratch::copy(&template, &tried);
            arm(at, errno);
            let promised = (scenario.run)(&tried);
            arm(0, 0);
            let all: Vec<_> = kept.iter().chain(&promised).cloned().collect();
            if is_damaged {
                (scenario.run)(&tried);
            }
            check(&root(&tried), &all, &what);
            let again = (scenario.run)(&tried);
            check(&root(&tried), &again, &what);
            assert!((scenario.after)(&tried), "{what}");
            fs::remove_dir_all(&tried).unwrap();
            runs += 1;
        }
    }
    fs::remove_dir_all(&template).unwrap();
    runs
}

#[test]
fn calls_of_the_c_library_fail() {
    let Some(library) = library() else { return };
    let work = scratch::folder();
    let mut command = child::command("fail each", work.path());
    command.env("LD_PRELOAD", library).env("HIPPLAN_SHIM_ROOT", work.path().join("tried"));
    assert!(command.status().unwrap().success());
}

/// A child: what it has open is truncated, replaced and removed. A signal would end it.
pub(crate) fn with_changing_files(folder: &Path) {
    let (small, large) = (Values::of(1), Values::large(3));
    for change in ["truncated", "emptied", "replaced", "removed"] {
        let folder = folder.join(change);
        fs::create_dir(&folder).unwrap();
        let store_root = root(&folder);
        let store = Store::open(&store_root, Mode::ReadWrite).unwrap();
        assert_eq!(large.put(&store).len() + small.put(&store).len(), 6);
        let pack = scenario::pack(&store_root);
        let packed = Store::open(&store_root, Mode::ReadWrite).unwrap();
        let blob = packed.get_blob(&large.digest).hit().unwrap();
        let bundle = Store::open_layer(&pack).unwrap();
        let other = folder.join("other");
        fs::write(&other, "something else").unwrap();
        let resize = |path: &Path, size: u64| fs::OpenOptions::new().write(true).open(path).unwrap().set_len(size).unwrap();
        let is_in_place = match change {
            "truncated" => {
                let half = fs::metadata(&pack).unwrap().len() / 2;
                resize(&pack, half);
                true
            }
            "emptied" => {
                resize(&pack, 0);
                true
            }
            "replaced" => {
                fs::rename(&other, &pack).unwrap();
                false
            }
            _ => {
                fs::remove_file(&pack).unwrap();
                false
            }
        };
        for (reader, is_bundle) in [(&packed, false), (&bundle, true)] {
            // Half of it may be there still: what is found is right all the same.
            let _ = small.get(reader);
            let found = large.get(reader);
            assert!(!found || !is_in_place, "{change}");
            // A folder forgets a pack that is removed from it; a bundle is kept open.
            assert!(found || is_in_place || !is_bundle, "{change}: who has a pack open keeps it");
        }
        if !is_in_place {
            assert_eq!(*blob, large.blob[..], "{change}: the bytes that were given out stay");
        }
        // It is a miss like any other: what is missing is put again.
        assert_eq!(large.put(&packed).len() + small.put(&packed).len(), 6, "{change}");
        let fresh = Store::open(&store_root, Mode::ReadOnly).unwrap();
        assert!(large.get(&fresh) && small.get(&fresh), "{change}");
        // A loose file that is cut is a miss, and put again.
        for file in super::common::tree(&store_root.join("objects")).into_iter().filter_map(|(name, bytes)| bytes.map(|_| name)) {
            resize(&store_root.join("objects").join(file), 5);
        }
        let writer = Store::open(&store_root, Mode::ReadWrite).unwrap();
        assert!(writer.get_blob(&small.digest).hit().is_none());
        assert_eq!(small.put(&writer).len(), 3);
        assert!(small.get(&writer));
    }
}

#[test]
fn files_change_under_those_who_have_them_open() {
    let work = scratch::folder();
    let status = child::command("with changing files", work.path()).status().unwrap();
    assert!(status.success(), "{status:?}");
}
