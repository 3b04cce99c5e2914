//! MIOpen's own tests: the same verdict for every case on stock, on the split, and with forwarding (M13).

use crate::setup::empty_store;
use hipplan_miopen_testing::split::Split;
use hipplan_miopen_testing::{CaseVerdict, Device, GtestRun, Program, Sysroot};

#[test]
fn every_case_has_the_verdict_of_stock() {
    let Some(sysroot) = Sysroot::for_test() else { return };
    let split = Split::for_test(sysroot);
    let folder = tempfile::tempdir().expect("a folder");
    let store = empty_store(folder.path());
    for device in [Device::None, Device::Gfx942] {
        let tests = || sysroot.gtest("*CPU_*").device(device.clone());
        let run = |program: Program<'_>| program.cases().unwrap_or_else(|error| panic!("{device:?}: {error}"));
        let stock = run(tests());
        assert!(stock.count(CaseVerdict::Passed) > 1000, "{device:?}: only {} cases pass", stock.count(CaseVerdict::Passed));
        let agree = |name: &str, other: &GtestRun| {
            let differences = stock.differences(other);
            assert!(differences.is_empty(), "{device:?}, {name}: {} of {}: {:#?}", differences.len(), stock.cases.len(), differences);
        };
        agree("forwarding disabled", &run(split.disabled(tests())));
        agree("forwarding enabled", &run(split.enabled(tests(), &store)));
    }
}
