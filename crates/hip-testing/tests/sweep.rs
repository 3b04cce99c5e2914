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
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

/// Problems of each kind.
fn problems_of_a_kind(default: u64) -> u64 {
    env::var("HIPPLAN_SWEEP").ok().map_or(default, |n| n.parse().expect("HIPPLAN_SWEEP is a number"))
}

/// Runs the first problems of the kinds on all processors, and prints what is not right.
fn sweep(sweep: &Sweep<'_>, kinds: &[Kind], of_a_kind: u64) -> Vec<Row> {
    let next = AtomicU64::new(0);
    let work = || {
        let mut rows = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let (kind, index) = (kinds[at as usize % kinds.len()], at / kinds.len() as u64);
            if index >= of_a_kind {
                return rows;
            }
            let row = sweep.run(&problem(kind, index));
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
    for &kind in kinds {
        println!("{:12} {:?}", kind.name(), count(&rows, kind));
    }
    rows
}

/// The hip provider on the host runtime.
fn hip_sweep(sanitize: bool, of_a_kind: u64) -> Vec<Row> {
    let runtime = HipRuntime::open(build::host_runtime(&common::build_dir(), sanitize).expect("built")).expect("opened");
    let device = Device::Hip(runtime.device(0).expect("a device"));
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(folder.path(), Mode::ReadWrite).expect("a store");
    let mut providers = Providers::default();
    providers.add(Box::new(HipCompiler::new(vec![Box::new(HostCompiler::new(sanitize).expect("g++"))])));
    sweep(&Sweep { device: &device, providers: &providers, store: &store }, &Kind::ALL, of_a_kind)
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
    // It has no reductions.
    let kinds: Vec<_> = Kind::ALL.into_iter().filter(|kind| *kind != Kind::Reduction).collect();
    let rows = sweep(&Sweep { device: &Device::Cpu, providers: &Providers::default(), store: &store }, &kinds, problems_of_a_kind(30));
    assert!(rows.iter().all(Row::passed));
}

/// Plans are compiled here, and restored, executed and checked in another process that has no compiler: neither on `PATH` nor among its
/// providers.
#[test]
fn the_hip_provider_gets_all_right_on_the_host_runtime() {
    let of_a_kind = problems_of_a_kind(12);
    if let Some(folder) = env::var_os("HIPPLAN_STORE_OF_PARENT") {
        let runtime = HipRuntime::open(env::var_os("HIPPLAN_RUNTIME_OF_PARENT").expect("a library")).expect("opened");
        let device = Device::Hip(runtime.device(0).expect("a device"));
        let store = Store::open(folder, Mode::ReadOnly).expect("a store");
        let providers = Providers::none();
        let rows = sweep(&Sweep { device: &device, providers: &providers, store: &store }, &Kind::ALL, of_a_kind);
        std::process::exit(i32::from(!rows.iter().all(Row::passed)));
    }
    let library = build::host_runtime(&common::build_dir(), false).expect("built");
    let device = Device::Hip(HipRuntime::open(&library).expect("opened").device(0).expect("a device"));
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(folder.path(), Mode::ReadWrite).expect("a store");
    let mut providers = Providers::none();
    providers.add(Box::new(HipCompiler::new(vec![Box::new(HostCompiler::new(false).expect("g++"))])));
    let compiling = Sweep { device: &device, providers: &providers, store: &store };
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let (kind, index) = (Kind::ALL[at as usize % Kind::ALL.len()], at / Kind::ALL.len() as u64);
                    if index >= of_a_kind {
                        return;
                    }
                    let problem = problem(kind, index);
                    compiling.compile(&problem).unwrap_or_else(|e| panic!("{}: {e}", problem.name));
                }
            });
        }
    });
    let mut command = Command::new(env::current_exe().expect("this test"));
    command.args(["the_hip_provider_gets_all_right_on_the_host_runtime", "--exact", "--nocapture"]).env_clear();
    command.env("HIPPLAN_STORE_OF_PARENT", folder.path()).env("HIPPLAN_RUNTIME_OF_PARENT", &library);
    let output = command.env("HIPPLAN_SWEEP", of_a_kind.to_string()).output().expect("started");
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    println!("{text}");
    assert!(output.status.success(), "{text}");
}

/// The same in a process with sanitizers, with the threads of a block in the other order, blocks on several threads, and work that is put
/// off until somebody waits for it.
#[test]
fn sanitizers_find_nothing_in_the_kernels() {
    if env::var_os("HIPPLAN_CHILD").is_some() {
        let passed = hip_sweep(true, problems_of_a_kind(3)).iter().all(Row::passed);
        std::process::exit(i32::from(!passed));
    }
    let Some(asan) = build::asan_library() else {
        assert!(env::var_os("HIPPLAN_CI").is_none(), "the compiler has no AddressSanitizer");
        eprintln!("skipped: the compiler has no AddressSanitizer");
        return;
    };
    build::host_runtime(&common::build_dir(), true).expect("built");
    let mut command = Command::new(env::current_exe().expect("this test"));
    command.args(["sanitizers_find_nothing_in_the_kernels", "--exact", "--nocapture"]);
    command.env("HIPPLAN_CHILD", "1").env("LD_PRELOAD", asan).env("ASAN_OPTIONS", "detect_leaks=0");
    command.env("HIPPLAN_HOST_HIP_ORDER", "reverse").env("HIPPLAN_HOST_HIP_THREADS", "3").env("HIPPLAN_HOST_HIP_DEFERRED", "1");
    let output = command.output().expect("started");
    let text = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
}
