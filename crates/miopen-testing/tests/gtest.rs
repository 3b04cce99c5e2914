//! MIOpen's own tests that need no GPU, on a stock MIOpen with and without the simulated device.

use hipplan_miopen_testing::{CaseVerdict, Device, Sysroot};

#[test]
fn tests_that_need_no_gpu_mostly_pass() {
    let Some(sysroot) = Sysroot::for_test() else { return };
    let [with, without] = [Device::Gfx942, Device::None].map(|device| sysroot.gtest("*CPU_*").device(device).cases().expect("a report"));
    for run in [&with, &without] {
        assert!(run.cases.len() > 1000, "{}", run.cases.len());
        // What fails lacks databases, kernels or a device.
        assert!(run.count(CaseVerdict::Passed) * 100 > run.cases.len() * 95, "{:?}", run.count(CaseVerdict::Passed));
    }
    assert!(with.cases.keys().eq(without.cases.keys()));
    assert!(with.count(CaseVerdict::Passed) > without.count(CaseVerdict::Passed));
    assert!(!with.differences(&without).is_empty());
    assert!(with.differences(&with).is_empty());
}

/// MIOpen's tests of its naive solutions run the simulated kernels, types that the driver cannot check among them.
#[test]
fn naive_solutions_pass_their_tests() {
    let Some(sysroot) = Sysroot::for_test() else { return };
    let run = sysroot.gtest("Smoke/GPU_UnitTestConvSolverDirectNaive*").cases().expect("a report");
    assert!(run.cases.len() >= 9, "{:?}", run.cases);
    assert_eq!(run.count(CaseVerdict::Passed), run.cases.len(), "{:?}\n{}", run.cases, run.output.stderr);
    for kind in ["FP32", "FP16", "BFP16", "I8"] {
        assert!(run.cases.keys().any(|name| name.contains(kind)), "{kind}: {:?}", run.cases);
    }
}
