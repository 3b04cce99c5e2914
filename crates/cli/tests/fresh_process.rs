//! A process that executes a plan gets only the store and a key: traced, it opens nothing else.

mod common;

use common::{Ran, Scratch, corpus};
use std::process::Command;

/// What the system itself makes a process read: the loader, the C library, and what tells the number of processors.
const OF_THE_SYSTEM: [&str; 9] =
    ["/lib", "/usr/lib", "/etc/ld.so", "/proc/self/", "/proc/stat", "/proc/meminfo", "/sys/fs/cgroup", "/sys/devices/system/cpu", "/dev/"];

#[test]
fn a_run_by_key_opens_nothing_but_the_store() {
    if Command::new("strace").arg("-V").output().is_err() {
        assert!(std::env::var_os("HIPPLAN_CI").is_none(), "strace is needed and not installed");
        eprintln!("skipped: strace is not installed");
        return;
    }
    let scratch = Scratch::new();
    let store = scratch.path("store");
    let store = store.to_str().expect("UTF-8");
    let graph = corpus().join("conv_bias_relu_bf16_nchw_1x1.json");
    let (code, report) = scratch.json(&["compile", graph.to_str().expect("UTF-8"), "--store", store]);
    assert_eq!(code, 0, "{report:#}");
    let key = report["rows"][0]["graph_key"].as_str().expect("a key").to_owned();

    let empty = scratch.path("empty");
    std::fs::create_dir(&empty).expect("a folder");
    let log = scratch.path("trace");
    let traced = Command::new("strace")
        .args(["-f", "-qq", "-e", "trace=open,openat,openat2,execve,creat,connect,socket", "-o"])
        .arg(&log)
        .arg(env!("CARGO_BIN_EXE_hipplan"))
        .args(["run", &key, "--check", "--json", "--store", store])
        .current_dir(&empty)
        .env_clear()
        .output()
        .expect("strace");
    let ran = Ran::of(&traced);
    assert_eq!(ran.code, 0, "{ran:?}");
    let value: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(value["check"]["passed"], true, "{value:#}");

    let trace = std::fs::read_to_string(log).expect("a trace");
    let mut in_store = 0;
    // The end of a call that another thread's came into the middle of names no file: its beginning has.
    let calls = trace.lines().filter(|line| !line.contains(" resumed>"));
    for line in calls.filter(|l| l.contains("open") || l.contains("creat(") || l.contains("socket") || l.contains("connect")) {
        let path = line.split('"').nth(1).unwrap_or_else(|| panic!("not a file: {line}"));
        if path.starts_with(store) {
            in_store += 1;
            assert!(!line.contains("O_WRONLY") && !line.contains("O_RDWR") && !line.contains("O_CREAT"), "writes to the store: {line}");
        } else {
            assert!(OF_THE_SYSTEM.iter().any(|known| path.starts_with(known)), "opens something else: {line}");
        }
    }
    // Marker, once to find the place and once to open it; selection; packs, of which there are none; plan.
    assert_eq!(in_store, 5, "{trace}");
}
