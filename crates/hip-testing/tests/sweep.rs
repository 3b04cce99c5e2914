//! The hip provider on the host runtime: problems of every kind, compiled, restored and executed, against the reference.
//!
//! `HIPPLAN_SWEEP=N` makes it N problems of each kind, for a full sweep; the count here is what CI has time for.

mod common;

use hipplan_exec::Device;
use hipplan_exec::hip::HipRuntime;
use hipplan_hip_testing::problems::{Kind, MAX_MACS, Problem, problem};
use hipplan_hip_testing::sweep::{Row, Sweep, count};
use hipplan_hip_testing::{HostCompiler, build};
use hipplan_planner::Providers;
use hipplan_planner::hip::HipCompiler;
use hipplan_store::{Mode, Store};
use std::env;
use std::sync::atomic::{AtomicU64, Ordering};

/// Problems of each kind.
fn problems_of_a_kind(default: u64) -> u64 {
    env::var("HIPPLAN_SWEEP").ok().map_or(default, |n| n.parse().expect("HIPPLAN_SWEEP is a number"))
}

/// Runs the first problems of every kind on all processors, and prints what is not right.
fn sweep(sweep: &Sweep<'_>, of_a_kind: u64) -> Vec<Row> {
    let next = AtomicU64::new(0);
    let total = of_a_kind * Kind::ALL.len() as u64;
    let work = || {
        let mut rows = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= total {
                return rows;
            }
            let kind = Kind::ALL[(at % Kind::ALL.len() as u64) as usize];
            let row = sweep.run(&problem(kind, at / Kind::ALL.len() as u64));
            if !row.passed() {
                println!("{row}");
            }
            rows.push(row);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let rows: Vec<Row> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a worker")).collect()
    });
    for kind in Kind::ALL {
        println!("{:12} {:?}", kind.name(), count(&rows, kind));
    }
    rows
}

#[test]
fn problems_are_the_same_everywhere_and_small() {
    let mut keys = std::collections::BTreeSet::new();
    for kind in Kind::ALL {
        for index in 0..60 {
            let (first, again) = (problem(kind, index), problem(kind, index));
            assert_eq!(first.name, again.name);
            assert!((1..=MAX_MACS).contains(&first.macs), "{}: {}", first.name, first.macs);
            let key = |problem: &Problem| problem.graph.view().canonical().expect("a key").key.to_string();
            assert_eq!(key(&first), key(&again), "{}", first.name);
            keys.insert(key(&first));
        }
    }
    // Hardly any problem comes twice.
    assert!(keys.len() > 590, "{}", keys.len());
}

/// What the generator makes, a provider that is known to be right gets right: problems and checks fit together.
#[test]
fn the_cpu_provider_gets_all_right() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(folder.path(), Mode::ReadWrite).expect("a store");
    let rows = sweep(&Sweep { device: &Device::Cpu, providers: &Providers::default(), store: &store }, problems_of_a_kind(30));
    assert!(rows.iter().all(Row::passed));
}

#[test]
fn the_hip_provider_gets_all_right_on_the_host_runtime() {
    let runtime = HipRuntime::open(build::host_runtime(&common::build_dir(), false).expect("built")).expect("opened");
    let device = Device::Hip(runtime.device(0).expect("a device"));
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(folder.path(), Mode::ReadWrite).expect("a store");
    let mut providers = Providers::default();
    providers.add(Box::new(HipCompiler::new(vec![Box::new(HostCompiler::new(false).expect("g++"))])));
    let rows = sweep(&Sweep { device: &device, providers: &providers, store: &store }, problems_of_a_kind(12));
    assert!(rows.iter().all(Row::passed));
}
