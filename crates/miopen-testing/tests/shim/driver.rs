//! MIOpenDriver with forwarding, verified against its CPU reference. The importer reads the same lines into plans: what the shim then asks for
//! has the keys that the importer made, or nothing would be forwarded.

use crate::setup::{Report, empty_store, preloaded};
use hipplan_miopen_testing::filled::Filled;
use hipplan_miopen_testing::split::Split;
use hipplan_miopen_testing::{DriverRun, NaiveKernels, Program, Sysroot};

/// Shapes; all three directions of each.
const LINES: [&str; 14] = [
    "conv -n 2 -c 4 -H 9 -W 8 -k 6 -y 3 -x 3 -p 1 -q 1",
    "conv -n 2 -c 4 -H 11 -W 13 -k 6 -y 3 -x 2 -p 2 -q 1 -u 2 -v 3",
    "conv -n 2 -c 4 -H 11 -W 13 -k 6 -y 3 -x 2 -p 2 -q 1 -l 2 -j 3",
    "conv -n 2 -c 8 -H 7 -W 7 -k 12 -y 3 -x 3 -p 1 -q 1 -g 4",
    "conv -n 2 -c 6 -H 7 -W 7 -k 6 -y 3 -x 3 -p 1 -q 1 -g 6",
    "conv -n 2 -c 8 -H 7 -W 7 -k 4 -y 1 -x 1",
    "conv -n 2 -c 8 -H 8 -W 7 -k 4 -y 1 -x 1 -u 2 -v 2",
    "conv -n 2 -c 8 -H 7 -W 7 -k 4 -y 3 -x 3 -u 2 -v 2 -m trans",
    "conv -n 2 -c 8 -H 5 -W 5 -k 4 -y 3 -x 3 -g 2 -m trans",
    "conv -n 2 -c 4 --in_d 5 -H 6 -W 7 -k 6 --fil_d 3 -y 2 -x 3 --pad_d 1 -p 1 -q 1 --conv_stride_d 2 --spatial_dim 3",
    "conv -n 2 -c 4 -H 9 -W 8 -k 6 -y 3 -x 3 -p 1 -q 1 --in_layout NHWC --fil_layout NHWC --out_layout NHWC",
    "convfp16 -n 2 -c 4 -H 9 -W 8 -k 6 -y 3 -x 3 -p 1 -q 1",
    "convbfp16 -n 2 -c 4 -H 9 -W 8 -k 6 -y 3 -x 3 -p 1 -q 1",
    "conv -n 1 -c 3 -H 12 -W 1 -k 5 -y 3 -x 1 -p 1 -q 0",
];

fn filled_with(folder: &tempfile::TempDir, lines: &[&str]) -> Filled {
    let filled = empty_store(folder.path());
    let lines: String = lines.iter().map(|line| format!("./bin/MIOpenDriver {line}\n")).collect();
    let fill = filled.lines(&lines).unwrap_or_else(|error| panic!("{error}"));
    assert!(fill.refused.is_empty(), "{:#?}", fill.refused);
    filled
}

/// With traps in the private library's Find, Run and Immediate, and without kernels of its own.
fn trapped<'a>(split: &Split, program: Program<'a>, filled: &Filled) -> Program<'a> {
    let program = split.enabled(program, filled).preload(preloaded("trap"));
    program.naive(NaiveKernels::Missing).env("HIPPLAN_MIOPEN_REPORT", "1").env("HIPPLAN_MIOPEN_MISS", "error")
}

fn assert_forwarded(line: &str, run: &DriverRun, directions: usize) {
    let text = &run.output.stderr;
    assert!(run.verified(directions), "{line}: {:#?}\n{}{text}", run.verdicts, run.output.stdout);
    assert!(text.contains("trapped 9"), "{line}: {text}");
    let report = Report::of(text);
    assert_eq!((report.all("misses"), report.all("failures"), report.all("declined")), (0, 0, 0), "{line}: {text}");
    assert!(report.all("hits") >= 2 * directions as u64, "{line}: {text}");
    assert_eq!(run.output.counts.compiler_runs(), 0, "{line}");
    let kernels: Vec<_> = run.output.counts.kernels().collect();
    assert!(!kernels.is_empty() && kernels.iter().all(|(name, _)| !name.starts_with("naive")), "{line}: {kernels:?}");
}

#[test]
fn forwarded_convolutions_verify_on_the_cpu() {
    let Some(sysroot) = Sysroot::for_test() else { return };
    let split = Split::for_test(sysroot);
    let folder = tempfile::tempdir().expect("a folder");
    let filled = filled_with(&folder, &LINES);
    for line in LINES {
        let run = trapped(split, sysroot.driver(&format!("{line} -V 1 -i 2 -t 1")), &filled).verdicts().expect("run");
        assert_forwarded(line, &run, 3);
        assert_eq!(run.kernel_times.len(), 3, "{line}: {}", run.output.stdout);
        assert!(run.kernel_times.iter().all(|&t| t > 0.0), "{line}: {:?}", run.kernel_times);
        // Immediate mode: the driver takes the first solution.
        for direction in [1, 2, 4] {
            let line = format!("{line} -V 1 -i 2 -t 1 -S 0 -F {direction}");
            let run = trapped(split, sysroot.driver(&line), &filled).verdicts().expect("run");
            assert_forwarded(&line, &run, 1);
            assert!(run.kernel_times.iter().all(|&t| t > 0.0) && !run.kernel_times.is_empty(), "{line}: {:?}", run.kernel_times);
        }
    }
}

/// The check above is one: kernels that do nothing, launches that fail and traps are all seen.
#[test]
fn with_forwarding_broken_the_driver_fails() {
    let Some(sysroot) = Sysroot::for_test() else { return };
    let split = Split::for_test(sysroot);
    let folder = tempfile::tempdir().expect("a folder");
    let [line, ..] = LINES;
    let filled = filled_with(&folder, &[line]);
    let line = format!("{line} -V 1 -i 1");
    let broken = |name: &str, value: &str| {
        let run = trapped(split, sysroot.driver(&line), &filled).env(name, value).verdicts().expect("run");
        assert!(!run.verdicts.iter().any(|v| v.verified), "{name}={value}: {:#?}\n{}", run.verdicts, run.output.stderr);
        run
    };
    let idle = broken("HIPPLAN_HOST_HIP_LAUNCH", "skip");
    assert_eq!(idle.verdicts.len(), 3, "wrong results, and no error: {}", idle.output.stderr);
    broken("HIPPLAN_HOST_HIP_FAIL", "hipModuleLaunchKernel:1+:719");
    // A problem without a plan meets the traps.
    let other = sysroot.driver("conv -n 3 -c 4 -H 9 -W 8 -k 6 -y 3 -x 3 -V 1 -i 1");
    let run = trapped(split, other, &filled).env("HIPPLAN_MIOPEN_MISS", "private").verdicts().expect("run");
    assert!(run.output.stderr.contains("trap: the private library was called"), "{}", run.output.stderr);
    assert_eq!(run.output.status.code(), Some(99));
}

/// With forwarding off, and where nothing is stored, the driver gets what it got from stock.
#[test]
fn without_plans_the_private_library_answers() {
    let Some(sysroot) = Sysroot::for_test() else { return };
    let split = Split::for_test(sysroot);
    let folder = tempfile::tempdir().expect("a folder");
    let empty = empty_store(folder.path());
    for line in [LINES[0], LINES[3], LINES[7]] {
        let driver = || sysroot.driver(&format!("{line} -V 1 -i 1 -t 1"));
        let stock = driver().verdicts().expect("run");
        let disabled = split.disabled(driver()).verdicts().expect("run");
        let enabled = split.enabled(driver(), &empty).verdicts().expect("run");
        for (name, run) in [("stock", &stock), ("disabled", &disabled), ("enabled", &enabled)] {
            assert!(run.verified(3), "{line}, {name}: {:#?}\n{}", run.verdicts, run.output.stderr);
            assert_eq!(run.solutions, stock.solutions, "{line}, {name}");
            assert_eq!(run.output.counts.compiler_runs(), stock.output.counts.compiler_runs(), "{line}, {name}");
            assert_eq!(run.output.counts.module_loads(), stock.output.counts.module_loads(), "{line}, {name}");
        }
    }
}

/// A recorded run, compiled offline, has nothing but hits the second time (M18).
#[test]
fn a_recorded_run_is_all_hits_once_compiled() {
    let Some(sysroot) = Sysroot::for_test() else { return };
    let split = Split::for_test(sysroot);
    let folder = tempfile::tempdir().expect("a folder");
    let filled = empty_store(folder.path());
    let recorded = folder.path().join("recorded");
    let line = format!("{} -V 1 -i 1", LINES[1]);
    let run = |driver: Program<'_>| driver.env("HIPPLAN_MIOPEN_REPORT", "1").verdicts().expect("run");
    let first = run(split.enabled(sysroot.driver(&line), &filled).env("HIPPLAN_MIOPEN_RECORD", &recorded));
    assert!(first.verified(3), "{:#?}", first.verdicts);
    assert_eq!(Report::of(&first.output.stderr).all("hits"), 0);
    let fill = filled.files(&[&recorded]).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((fill.compiled.len(), fill.refused.len()), (3, 0));
    let second = run(split.enabled(sysroot.driver(&line), &filled));
    assert!(second.verified(3), "{:#?}", second.verdicts);
    let report = Report::of(&second.output.stderr);
    assert_eq!((report.all("misses"), report.all("private"), report.all("declined")), (0, 0, 0), "{}", second.output.stderr);
    assert!(report.all("hits") > 0);
}

/// What lines do not say: biases, and what transposed convolutions add to their output. The recorder says it.
#[test]
fn biases_and_output_padding_are_recorded_and_verify() {
    let Some(sysroot) = Sysroot::for_test() else { return };
    let split = Split::for_test(sysroot);
    let folder = tempfile::tempdir().expect("a folder");
    let filled = empty_store(folder.path());
    let recorded = folder.path().join("recorded");
    // MIOpen's kernels of biases are not simulated: the driver fails, and what it asked for is on record.
    let lines = [
        ("conv -n 2 -c 4 -H 9 -W 8 -k 6 -y 3 -x 3 -p 1 -q 1 -b 1", 4),
        ("conv -n 2 -c 4 -H 5 -W 5 -k 4 -y 3 -x 3 -u 2 -v 2 -m trans -Y 1 -X 1", 3),
    ];
    for (line, _) in lines {
        let driver = split.enabled(sysroot.driver(&format!("{line} -V 0 -i 1")), &filled);
        driver.env("HIPPLAN_MIOPEN_RECORD", &recorded).run().expect("run");
    }
    let fill = filled.files(&[&recorded]).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((fill.compiled.len(), fill.refused.len()), (8, 0));
    for (line, verdicts) in lines {
        let run = trapped(split, sysroot.driver(&format!("{line} -V 1 -i 2")), &filled).verdicts().expect("run");
        assert_forwarded(line, &run, verdicts);
    }
}
