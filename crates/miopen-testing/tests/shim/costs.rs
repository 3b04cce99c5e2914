//! Costs that can be counted: instructions and allocations. Times are benchmarks'.

use crate::setup::{FOLDER, empty_store, preloaded, program};
use hipplan_miopen_testing::callgrind::{Instructions, count};
use hipplan_miopen_testing::split::Split;
use hipplan_miopen_testing::{Program, Sysroot};
use std::process::Command;

fn has_valgrind() -> bool {
    let found = Command::new("valgrind").arg("--version").output().is_ok_and(|o| o.status.success());
    assert!(found || std::env::var_os("HIPPLAN_CI").is_none(), "valgrind is needed and not installed");
    if !found {
        eprintln!("skipped: valgrind is not installed");
    }
    found
}

/// What each of `more` calls costs, by library: the difference of two runs.
fn per_call(run: &dyn Fn(u32) -> Instructions) -> std::collections::BTreeMap<String, f64> {
    let (few, many) = (run(100), run(1100));
    many.libraries().map(|(name, n)| (name.to_owned(), (n as f64 - few.of(name) as f64) / 1000.0)).filter(|(_, n)| *n >= 0.5).collect()
}

#[test]
fn the_hop_is_two_instructions() {
    let Some(sysroot) = Sysroot::for_test() else { return };
    if !has_valgrind() {
        return;
    }
    let split = Split::for_test(sysroot);
    let version = |calls: u32| sysroot.command(program(sysroot, "loop")).args(["version", &calls.to_string()]);
    let stock = per_call(&|calls| count(&version(calls)).expect("counted"));
    let hop = per_call(&|calls| count(&split.disabled(version(calls))).expect("counted"));
    assert_eq!(hop["libMIOpen.so.1"], 2.0, "{hop:?}");
    assert_eq!(hop["libMIOpen_private.so.1"], stock["libMIOpen.so.1.0"], "{hop:?} {stock:?}");
    assert!(!hop.keys().any(|name| name.contains("hipplan")), "{hop:?}");
}

/// A forwarded call, warm: what is ours before the launch, MIOpen's getters apart, and no allocation.
#[test]
fn a_forwarded_call_is_short() {
    let Some(sysroot) = Sysroot::for_test() else { return };
    if !has_valgrind() {
        return;
    }
    let split = Split::for_test(sysroot);
    let filled = empty_store(&FOLDER.path().join("costs"));
    filled.lines("./bin/MIOpenDriver conv -n 1 -c 4 -H 8 -W 8 -k 4 -y 3 -x 3 -p 1 -q 1 -F 1\n").expect("compiled");
    let run = |calls: u32| -> Program<'_> {
        let program = sysroot.command(program(sysroot, "loop")).args(["conv", &calls.to_string()]);
        // Launches do nothing: results are checked elsewhere.
        split.enabled(program, &filled).env("HIPPLAN_HOST_HIP_LAUNCH", "skip").env("UNCHECKED", "1")
    };
    let costs = per_call(&|calls| count(&run(calls)).expect("counted"));
    let ours: f64 = costs.iter().filter(|(name, _)| name.contains("hipplan")).map(|(_, n)| n).sum();
    assert!(ours > 100.0 && ours <= 2000.0, "{ours} instructions: {costs:#?}");
    println!("{costs:#?}");

    let allocations = |calls: u32| -> u64 {
        let output = run(calls).preload(preloaded("allocations")).run().expect("run");
        let line = output.stderr.lines().find_map(|line| line.strip_prefix("allocations ")).map(str::to_owned);
        line.unwrap_or_else(|| panic!("{}\n{}", output.stdout, output.stderr)).parse().expect("a number")
    };
    assert_eq!(allocations(1100), allocations(100), "a thousand more calls allocate nothing");
}
