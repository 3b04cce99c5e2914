//! No system call on a store goes past the list of calls that can be failed.
//!
//! A traced child does everything that is done to a store. It says before each call of that list which one it is, by writing it to
//! `/dev/null`, so that both stand in the trace in their order: each system call below the store must be one that was just announced, of a
//! fitting kind and on that path.

use super::scenario::{self, ALL};
use super::traced::{self, calls};
use super::{child, scratch};
use hipplan_store::testing::{Op, Verdict, with_hook};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

const OPS: [&str; 16] = [
    "open",
    "stat",
    "statfs",
    "read",
    "map",
    "create",
    "write",
    "sync-file",
    "sync-folder",
    "rename",
    "rename-new",
    "unlink",
    "make-folder",
    "list",
    "lock",
    "touch",
];

/// System calls that carry out a call of the list.
fn carried_out_by(op: &str) -> &'static [&'static str] {
    match op {
        "open" => &["openat"],
        "stat" => &["statx", "newfstatat", "fstat", "faccessat2", "faccessat", "access", "readlink"],
        "statfs" => &["fstatfs"],
        "read" => &["pread64"],
        // The length of what is mapped is asked for first.
        "map" => &["mmap", "madvise", "statx", "fstat", "newfstatat"],
        "create" => &["openat"],
        "write" => &["pwrite64", "ftruncate"],
        "sync-file" => &["fsync"],
        "sync-folder" => &["openat", "fsync"],
        "rename" => &["rename", "renameat", "renameat2"],
        "rename-new" => &["renameat2", "linkat", "link"],
        "unlink" => &["unlink", "unlinkat"],
        "make-folder" => &["mkdir", "mkdirat"],
        "list" => &["openat", "getdents64", "statx", "fstat", "newfstatat"],
        "lock" => &["flock"],
        "touch" => &["utimensat"],
        _ => &[],
    }
}

/// What gives back what was taken, and can fail in no way that matters: nothing depends on it.
const GIVING_BACK: [&str; 3] = ["close", "munmap", "fcntl"];

/// A child: does everything, and announces each call.
pub(crate) fn announce(folder: &Path) {
    let mut null = OpenOptions::new().write(true).open("/dev/null").unwrap();
    let hook = move |op: Op<'_>| {
        let to = match op {
            Op::Rename { to, .. } | Op::RenameNew { to, .. } => to,
            ref op => op.path(),
        };
        let line = format!("OP|{}|{}|{}|", op.name(), op.path().display(), to.display());
        null.write_all(line.as_bytes()).unwrap();
        Verdict::Go
    };
    with_hook(hook, || {
        for (number, scenario) in ALL.iter().enumerate() {
            (scenario.run)(&folder.join(number.to_string()));
        }
    });
}

#[test]
fn every_system_call_on_a_store_is_one_that_can_be_failed() {
    if !traced::is_possible() {
        return;
    }
    let work = scratch::folder();
    let folder = work.path().join("stores");
    std::fs::create_dir(&folder).unwrap();
    for (number, scenario) in scenario::ALL.iter().enumerate() {
        let one = folder.join(number.to_string());
        std::fs::create_dir(&one).unwrap();
        (scenario.before)(&one);
    }
    let log = work.path().join("log");
    let strace = ["strace", "-f", "-qq", "-y", "-s", "4096", "-o", log.to_str().unwrap()];
    assert!(child::command_under(&strace, "announce", &folder).status().unwrap().success());

    let mut announced: Option<(String, String, String)> = None;
    let mut carried_out: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let (mut seen, mut unknown) = (0, Vec::new());
    for call in calls(&log) {
        if call.name == "write" && call.text.contains("\"OP|") {
            let parts: Vec<&str> = call.text.split("\"OP|").nth(1).unwrap().split('|').collect();
            announced = Some((parts[0].to_owned(), parts[1].to_owned(), parts[2].to_owned()));
            continue;
        }
        if !call.touches(&folder) || GIVING_BACK.contains(&call.name.as_str()) {
            continue;
        }
        seen += 1;
        let fits = announced.as_ref().filter(|(op, from, to)| {
            let is_on_path = call.text.contains(from.as_str()) || call.text.contains(to.as_str());
            // Links on the way to a path are resolved one folder after another.
            let is_on_the_way = call.name == "readlink" && call.text.split('"').nth(1).is_some_and(|path| from.starts_with(path));
            carried_out_by(op).contains(&call.name.as_str()) && (is_on_path || is_on_the_way)
        });
        match fits {
            Some((op, ..)) => _ = carried_out.entry(op.clone()).or_default().insert(call.name),
            None => unknown.push(format!("{announced:?}: {}", call.text)),
        }
    }
    assert!(unknown.is_empty(), "{} system calls that nothing announced:\n{}", unknown.len(), unknown[..unknown.len().min(40)].join("\n"));
    let ops: BTreeSet<&str> = carried_out.keys().map(String::as_str).collect();
    assert_eq!(ops, OPS.into_iter().collect(), "calls of the list that nothing has made");
    println!("{seen} system calls, all announced: {carried_out:?}");
}
