//! What compiles plans, and what executes them.

use super::{Report, is_set};
use crate::output;
use hipplan::Device;
use hipplan::compiler::clang::CLANG_VARIABLE;
use hipplan::compiler::{Clang, Hiprtc, KernelCompiler};
use hipplan::hip::{HIP_LIBRARY_VARIABLE, HipError, HipRuntime};
use hipplan::plugin::PluginSearch;

const DEVICE_VARIABLE: &str = "HIPPLAN_DEVICE";

pub(super) fn check(report: &mut Report) {
    compilers(report);
    hip(report);
    device(report);
    plugins(report);
}

/// Compilers of kernels: one is enough.
fn compilers(report: &mut Report) {
    let described = |compiler: &dyn KernelCompiler, at: &std::path::Path| format!("{} ({})", compiler.identity(), at.display());
    let clang = Clang::find();
    let hiprtc = Hiprtc::find();
    match (&clang, &hiprtc) {
        (Ok(clang), _) => report.good(
            "compiler",
            format!("{}, for {}", described(clang, clang.program()), output::count(clang.processors().count(), "processor")),
        ),
        (Err(error), Ok(_)) if is_set(CLANG_VARIABLE) => {
            report.problem("compiler", error.to_string(), format!("put {CLANG_VARIABLE} right, or leave it out"));
        }
        (Err(_), Ok(_)) => {}
        (Err(error), Err(_)) => report.unless_said(
            CLANG_VARIABLE,
            "compiler",
            error.to_string(),
            "needed to compile plans for AMD GPUs, on this or another machine; executing them needs none",
        ),
    }
    if let Ok(hiprtc) = &hiprtc {
        report.good("compiler", described(hiprtc, hiprtc.library()));
    }
}

/// The runtime and its devices.
fn hip(report: &mut Report) {
    let runtime = match HipRuntime::find() {
        Ok(runtime) => runtime,
        Err(error) => {
            let advice = match error {
                HipError::Library { .. } => "needed to execute plans on AMD GPUs; compiling for them needs none",
                _ => "needed to execute plans on AMD GPUs; check the driver, /dev/kfd and who may open it",
            };
            return report.unless_said(HIP_LIBRARY_VARIABLE, "hip", error.to_string(), advice);
        }
    };
    // HIP writes 6.4.43484 as 60443484.
    let version = runtime.version().map(|v| format!(" {}.{}", v / 10_000_000, v / 100_000 % 100)).unwrap_or_default();
    let devices = usize::try_from(runtime.device_count()).unwrap_or(usize::MAX);
    report.good("hip", format!("HIP{version} ({}), {}", runtime.library(), output::count(devices, "device")));
    for ordinal in 0..runtime.device_count() {
        match runtime.device(ordinal) {
            Ok(device) => {
                let targets = device.targets().iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                report.good("device", format!("hip:{ordinal} is {}; takes plans for {targets}", device.arch()));
            }
            Err(error) => report.problem("device", error.to_string(), "choose another device with --device or HIPPLAN_DEVICE"),
        }
    }
}

/// What commands execute on unless an option says otherwise.
fn device(report: &mut Report) {
    let Some(text) = std::env::var_os(DEVICE_VARIABLE).filter(|value| !value.is_empty()) else {
        return report.good("device", "cpu, unless --device says otherwise");
    };
    match Device::parse(&text.to_string_lossy()) {
        Ok(device) => report.good("device", format!("{device}, as {DEVICE_VARIABLE} says, unless --device does otherwise")),
        Err(error) => {
            report.problem("device", format!("{DEVICE_VARIABLE}: {error}"), format!("put {DEVICE_VARIABLE} right, or leave it out"))
        }
    }
}

fn plugins(report: &mut Report) {
    let mut search = PluginSearch::new();
    if let Err(error) = search.add_environment() {
        return report.problem("plugins", error.to_string(), "put HIPPLAN_PLUGINS right: docs/providers.md");
    }
    let plugins = search.load();
    for failure in plugins.failures() {
        report.problem("plugins", failure.to_string(), "put HIPPLAN_PLUGINS right: docs/providers.md");
    }
    for plugin in plugins.iter() {
        report.good("plugins", format!("{} {} ({})", plugin.name(), plugin.version(), plugin.path().display()));
    }
    if plugins.is_empty() && plugins.failures().is_empty() {
        report.good("plugins", "none, beside the built-in providers cpu and hip");
    }
}
