//! A process is killed at every system call that it makes on a store.
//!
//! `strace` counts the calls of one thread, from the moment at which it attaches to it, and kills at the n-th. So nothing of the start of a
//! process is in the way, and the n-th call is the same one in every run.

use super::scenario::{self, Scenario, root};
use super::traced::{self, calls};
use super::values::{Promise, check};
use super::{child, scratch};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};

/// Calls that files and folders are reached by.
pub(crate) const TRACED: &str = "trace=%file,%desc";

/// Runs a scenario in a child with `strace` attached to the thread that does it. Gives what became of the child.
pub(crate) fn run(scenario: &Scenario, folder: &Path, options: &[&str]) -> ExitStatus {
    let role = format!("run when told: {}", scenario.name);
    let mut child = child::command(&role, folder).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut words = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let thread = words.find_map(|line| Some(line.split_once("thread ")?.1.to_owned())).unwrap();
    let mut strace = std::process::Command::new("strace");
    strace.args(options).args(["-p", &thread]).stderr(Stdio::piped());
    let mut strace = strace.spawn().unwrap();
    let mut said = BufReader::new(strace.stderr.take().unwrap()).lines().map(Result::unwrap);
    let first = said.next().unwrap_or_default();
    assert!(first.contains("attached"), "{first}");
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    let status = child.wait().unwrap();
    drop(said);
    strace.wait().unwrap();
    status
}

/// A child: says which thread it is, waits for a word, and does it.
pub(crate) fn run_when_told(name: &str, folder: &Path) {
    let thread = std::fs::read_link("/proc/thread-self").unwrap();
    println!("\nthread {}", thread.file_name().unwrap().to_str().unwrap());
    std::io::stdout().flush().unwrap();
    std::io::stdin().read_line(&mut String::new()).unwrap();
    (scenario::of(name).run)(folder);
}

/// Runs a scenario, and gives every call that it makes on its folder, with its number among those of its name.
pub(crate) fn sites(scenario: &Scenario, folder: &Path, log: &Path) -> Vec<(String, u32)> {
    assert!(run(scenario, folder, &["-y", "-e", TRACED, "-o", log.to_str().unwrap()]).success());
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    let mut sites = Vec::new();
    for call in calls(log) {
        let count = counts.entry(call.name.clone()).or_default();
        *count += 1;
        if call.touches(folder) {
            sites.push((call.name, *count));
        }
    }
    sites
}

fn kill_at_every_call(name: &str) {
    let scenario = scenario::of(name);
    let work = scratch::folder();
    let (template, folder, log) = (work.path().join("template"), work.path().join("tried"), work.path().join("log"));
    std::fs::create_dir(&template).unwrap();
    let kept: Vec<Promise> = (scenario.before)(&template);

    scratch::copy(&template, &folder);
    let sites = sites(scenario, &folder, &log);
    assert!(sites.len() > 20, "{name}: {sites:?}");
    for (call, number) in &sites {
        let inject = format!("inject={call}:signal=KILL:when={number}");
        let what = format!("{name}, killed at {call} {number}");
        // Where the machine was so busy that a listing was old enough to be relied on, there are fewer calls, and this one is not made: once more.
        let is_killed = (0..5).any(|_| {
            std::fs::remove_dir_all(&folder).unwrap();
            scratch::copy(&template, &folder);
            let status = run(scenario, &folder, &["-e", TRACED, "-e", &inject, "-o", "/dev/null"]);
            assert!(status.success() || status.signal() == Some(libc::SIGKILL), "{what}: {status:?}");
            !status.success()
        });
        assert!(is_killed, "{what}: it is not called");
        if name.contains("damage") {
            // What has not been met yet is found, and put right, by the next.
            drop((scenario.run)(&folder));
        }
        check(&root(&folder), &kept, &what);
        // The next one is not in the way of anything that was left.
        let promised = (scenario.run)(&folder);
        check(&root(&folder), &promised, &format_args!("again after {what}"));
        assert!((scenario.after)(&folder), "again after {what}");
    }
    println!("{name}: killed at each of {} calls: {}", sites.len(), names(&sites));
}

fn names(sites: &[(String, u32)]) -> String {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    sites.iter().for_each(|(name, _)| *counts.entry(name).or_default() += 1);
    counts.iter().map(|(name, count)| format!("{name}x{count}")).collect::<Vec<_>>().join(" ")
}

/// Those scenarios whose names begin so.
fn kill(beginning: &str) {
    if !traced::is_possible() {
        return;
    }
    let all = std::env::var_os("HIPPLAN_STORE_ROUNDS").is_some();
    let names = scenario::ALL.iter().map(|scenario| scenario.name).filter(|name| name.starts_with(beginning));
    // By default, one of those that resemble each other.
    names.take(if all { usize::MAX } else { 1 }).for_each(kill_at_every_call);
}

#[test]
fn at_every_call_of_a_publish() {
    kill("put");
}

#[test]
fn at_every_call_of_a_replacement() {
    kill("replace");
}

#[test]
fn at_every_call_of_a_gc() {
    kill("gc");
}

#[test]
fn at_every_call_of_a_compaction() {
    kill("compact");
}

#[test]
fn at_every_call_of_a_group() {
    kill("group");
}
