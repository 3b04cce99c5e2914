//! A stock MIOpen in the sysroot: what it does with a device and without one. Other tests compare with this.

use hipplan_miopen_testing::{Device, Language, Output, Sysroot};

/// Prints what the basic calls return.
const BASICS: &str = r#"
#include <miopen/miopen.h>
#include <stdio.h>

#define SAY(call) printf("%s = %d\n", #call, (int)(call))

int main(void) {
    size_t major = 0, minor = 0, patch = 0;
    SAY(miopenGetVersion(&major, &minor, &patch));
    printf("version above 2: %d\n", major > 2);
    miopenTensorDescriptor_t tensor = 0;
    int good[4] = {2, 3, 9, 9}, bad[4] = {2, -3, 9, 9}, strides[4] = {243, 81, 9, 1};
    SAY(miopenCreateTensorDescriptor(&tensor));
    SAY(miopenSetTensorDescriptor(tensor, miopenFloat, 4, good, strides));
    SAY(miopenSetTensorDescriptor(tensor, miopenFloat, 4, bad, strides));
    miopenHandle_t handle = 0;
    SAY(miopenCreate(&handle));
    printf("handle: %d\n", handle != 0);
    SAY(miopenDestroyTensorDescriptor(tensor));
    if (handle)
        SAY(miopenDestroy(handle));
    return 0;
}
"#;

fn run(sysroot: &Sysroot, device: Device) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    let program = sysroot.compile(folder.path(), "basics", Language::C, BASICS, &[], &[]).expect("compiled");
    sysroot.command(program).device(device).run().expect("run")
}

fn says(output: &Output, line: &str) {
    assert!(output.stdout.lines().any(|l| l == line), "no line {line:?}:\n{}\n{}", output.stdout, output.stderr);
}

#[test]
fn descriptors_need_no_device_and_handles_do() {
    let Some(sysroot) = Sysroot::for_test() else { return };
    for (device, create) in [(Device::Gfx942, 0), (Device::None, 7)] {
        let output = run(sysroot, device);
        assert!(output.status.success(), "{output:?}");
        says(&output, "miopenGetVersion(&major, &minor, &patch) = 0");
        says(&output, "version above 2: 1");
        says(&output, "miopenSetTensorDescriptor(tensor, miopenFloat, 4, good, strides) = 0");
        says(&output, "miopenSetTensorDescriptor(tensor, miopenFloat, 4, bad, strides) = 3");
        says(&output, &format!("miopenCreate(&handle) = {create}"));
        says(&output, &format!("handle: {}", i32::from(create == 0)));
        says(&output, "miopenDestroyTensorDescriptor(tensor) = 0");
        assert_eq!(output.stderr.contains("No device"), create == 7);
        // The loader is content with the stand-ins' symbol versions.
        assert!(!output.stderr.contains("no version information"), "{}", output.stderr);
        assert_eq!((output.counts.module_loads(), output.counts.compiler_runs()), (0, 0));
    }
}

#[test]
fn the_driver_tells_its_version_without_a_device() {
    let Some(sysroot) = Sysroot::for_test() else { return };
    let output = sysroot.driver("--version").device(Device::None).run().expect("run");
    assert!(output.status.success() && output.stdout.contains("MIOpen (version: "), "{output:?}");
    let run = sysroot.driver("conv -n 1 -c 1 -H 3 -W 3 -k 1").device(Device::None).verdicts().expect("run");
    assert!(!run.output.status.success() && run.verdicts.is_empty(), "{run:?}");
}

/// The folder names its packages, and what it is made of is what it says.
#[test]
fn the_folder_tells_what_it_is_made_of() {
    let Some(sysroot) = Sysroot::for_test() else { return };
    let packages = sysroot.packages().expect("a list");
    for name in ["libmiopen1 ", "libmiopen1-tests ", "libmiopen-dev ", "libc6 "] {
        assert!(packages.lines().any(|line| line.starts_with(name)), "{name}: {packages}");
    }
    let link = std::fs::read_link(sysroot.miopen()).expect("a link, as in the package");
    assert!(link.to_string_lossy().starts_with("libMIOpen.so.1."), "{link:?}");
}
