//! Convolutions of a stock MIOpen on simulated kernels, checked by its driver against the CPU.

use hipplan_miopen_testing::{NaiveKernels, Sysroot};

/// Name, base argument and shape, number of directions.
const LINES: [(&str, &str, usize); 13] = [
    ("plain", "conv -n 2 -c 4 -H 9 -W 8 -k 6 -y 3 -x 3 -p 1 -q 1", 3),
    ("strided and dilated", "conv -n 2 -c 4 -H 11 -W 13 -k 6 -y 3 -x 2 -p 2 -q 1 -u 2 -v 3 -l 2 -j 2", 3),
    ("groups", "conv -n 2 -c 8 -H 7 -W 7 -k 12 -y 3 -x 3 -p 1 -q 1 -g 4", 3),
    ("depthwise", "conv -n 2 -c 6 -H 7 -W 7 -k 6 -y 3 -x 3 -p 1 -q 1 -g 6", 3),
    ("1x1", "conv -n 2 -c 8 -H 7 -W 7 -k 4 -y 1 -x 1", 3),
    ("transposed", "conv -n 2 -c 8 -H 7 -W 7 -k 4 -y 3 -x 3 -u 2 -v 2 -m trans", 3),
    ("transposed in groups", "conv -n 2 -c 8 -H 5 -W 5 -k 4 -y 3 -x 3 -g 2 -m trans", 3),
    ("3-D", "conv -n 2 -c 4 --in_d 5 -H 6 -W 7 -k 6 --fil_d 3 -y 2 -x 3 --pad_d 1 -p 1 -q 1 --conv_stride_d 2 --spatial_dim 3", 3),
    ("channels last", "conv -n 2 -c 4 -H 9 -W 8 -k 6 -y 3 -x 3 -p 1 --in_layout NHWC --fil_layout NHWC --out_layout NHWC", 3),
    (
        "3-D, channels last",
        "conv -n 2 -c 4 --in_d 4 -H 6 -W 7 -k 6 --fil_d 3 -y 2 -x 3 -g 2 --spatial_dim 3 \
         --in_layout NDHWC --fil_layout NDHWC --out_layout NDHWC",
        3,
    ),
    ("half", "convfp16 -n 2 -c 4 -H 9 -W 8 -k 6 -y 3 -x 3 -p 1 -q 1", 3),
    ("bfloat16", "convbfp16 -n 2 -c 4 -H 9 -W 8 -k 6 -y 3 -x 3 -p 1 -q 1", 3),
    ("immediate mode", "conv -n 2 -c 4 -H 9 -W 8 -k 6 -y 3 -x 3 -S 85 -F 1", 1),
];

#[test]
fn convolutions_verify_on_the_cpu() {
    let Some(sysroot) = Sysroot::for_test() else { return };
    for (name, line, directions) in LINES {
        let run = sysroot.driver(&format!("{line} -i 1 -t 1 -V 1")).verdicts().expect("run");
        assert!(run.verified(directions), "{name}: {:#?}\n{}", run.verdicts, run.output.stderr);
        assert_eq!(run.kernel_times.len(), directions, "{name}");
        assert!(run.kernel_times.iter().all(|&t| t > 0.0), "{name}: {:?}", run.kernel_times);
        // The driver does not name all solutions; the kernels are MIOpen's own.
        assert_eq!(run.solutions.len(), directions, "{name}: {:?}", run.solutions);
        // A fresh process compiles and loads a module for each direction, and nothing else.
        assert_eq!(run.output.counts.compiler_runs(), run.output.counts.module_loads(), "{name}");
        assert!(run.output.counts.kernels().all(|(kernel, _)| kernel.starts_with("naive_conv_")), "{name}");
        assert!(run.output.counts.kernels().count() >= directions, "{name}");
    }
}

/// The driver sees wrong results and missing kernels: it is a check.
#[test]
fn the_driver_fails_where_it_must() {
    let Some(sysroot) = Sysroot::for_test() else { return };
    let line = "conv -n 2 -c 4 -H 9 -W 8 -k 6 -y 3 -x 3 -p 1 -q 1 -i 1 -V 1";
    let idle = sysroot.driver(line).naive(NaiveKernels::Skip).verdicts().expect("run");
    let missing = sysroot.driver(line).naive(NaiveKernels::Missing).verdicts().expect("run");
    let no_compiler = sysroot.driver(line).compiler_fails().verdicts().expect("run");
    for (name, run) in [("idle", &idle), ("missing", &missing), ("no compiler", &no_compiler)] {
        assert!(run.verdicts.iter().all(|v| !v.verified) && !run.verdicts.is_empty(), "{name}: {:#?}", run.verdicts);
    }
    assert!(idle.output.counts.kernels().count() > 0);
    assert_eq!(missing.output.counts.kernels().count(), 0);
    assert_eq!(no_compiler.output.counts.module_loads(), 0);
}

/// MIOpen keeps what it compiled in the home folder. It asks for a kernel with different options before and after it knows the problem, so
/// that only a third process finds all of it.
#[test]
fn a_warm_home_compiles_nothing() {
    let Some(sysroot) = Sysroot::for_test() else { return };
    let home = tempfile::tempdir().expect("a folder");
    let run = || {
        let program = sysroot.driver("conv -n 1 -c 2 -H 5 -W 5 -k 2 -F 1 -i 1").home(home.path());
        let run = program.verdicts().expect("run");
        assert!(run.verified(1), "{run:#?}");
        (run.output.counts.compiler_runs(), run.output.counts.module_loads())
    };
    let (cold, _, warm) = (run(), run(), run());
    assert!(cold.0 > 0 && cold.1 > 0, "{cold:?}");
    assert!(warm.0 == 0 && warm.1 > 0, "{warm:?}");
}
