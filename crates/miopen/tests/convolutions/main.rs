//! Convolutions of a real MIOpen answered from plans: a run is recorded, compiled offline for another target than this machine, and run
//! again by processes in which MIOpen itself has no kernel and no compiler, so that nothing can fall through to it unseen.

use hipplan_miopen_testing::filled::Filled;
use hipplan_miopen_testing::{DriverRun, Language, NaiveKernels, Output, Program, Sysroot};
use hipplan_shim::install::{Options, Place, split};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;
use tempfile::TempDir;

/// A split MIOpen with this build's libraries, a recording, and the store that is compiled from it.
struct Bed {
    sysroot: &'static Sysroot,
    folder: TempDir,
    filled: Filled,
}

fn home() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// `libhipplan_capi.a` of this build: cargo gives it no fixed name.
fn archive(deps: &Path) -> PathBuf {
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with("libhipplan_capi-") && name.ends_with(".a")
    };
    let all = std::fs::read_dir(deps).expect("the folder").map(|entry| entry.expect("an entry").path()).filter(is_ours);
    let newest = all.max_by_key(|path| path.metadata().and_then(|m| m.modified()).unwrap_or(SystemTime::UNIX_EPOCH));
    newest.unwrap_or_else(|| panic!("{}: no libhipplan_capi-*.a, which cargo builds for the tests", deps.display()))
}

impl Bed {
    fn new() -> Option<Self> {
        let sysroot = Sysroot::for_test()?;
        let folder = tempfile::tempdir().expect("a temporary folder");
        let tests = std::env::current_exe().expect("this executable");
        let deps = tests.parent().expect("its folder");
        let mut script = Command::new(home().join("../../scripts/build-libraries"));
        script.arg("--archive").arg(archive(deps)).arg("--prefix").arg(folder.path());
        let output = script.output().expect("bash");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let libraries = folder.path().join("lib");
        let shim_library = folder.path().join("libhipplan_miopen.so.0");
        std::fs::copy(deps.join("libhipplan_miopen.so"), &shim_library).expect("cargo builds it for the tests");
        let place = Place::Prefix(folder.path().join("split"));
        let options = Options { from: sysroot.miopen(), place, shim_library: Some(shim_library), library_folders: vec![libraries] };
        split(&options).expect("split");
        let filled = Filled::new(folder.path(), &Path::new(env!("CARGO_TARGET_TMPDIR")).join("twins")).expect("a store");
        Some(Self { sysroot, folder, filled })
    }

    fn libraries(&self) -> PathBuf {
        self.folder.path().join("split/lib")
    }

    fn recorded(&self) -> PathBuf {
        self.folder.path().join("recorded")
    }

    /// With forwarding on, and a store that has what was recorded so far, or nothing.
    fn forwarding<'a>(&self, program: Program<'a>) -> Program<'a> {
        program
            .libraries(self.libraries())
            .env("MIOPEN_HIPDNN_FORWARDING", "1")
            .env("HIPPLAN_MIOPEN_STORE", self.filled.store())
            .env("HIPPLAN_MIOPEN_REPORT", "1")
    }

    /// Runs it on MIOpen's own kernels and records its problems.
    fn record(&self, program: Program<'_>) -> Output {
        let output = self.forwarding(program).env("HIPPLAN_MIOPEN_RECORD", self.recorded()).run().expect("run");
        assert!(output.status.success(), "{}", output.stderr);
        output
    }

    /// Compiles what was recorded.
    fn fill(&self) -> usize {
        let recorded = self.recorded();
        let fill = self.filled.files(&[&recorded]).expect("compiled");
        assert!(fill.refused.is_empty(), "{:?}", fill.refused);
        fill.compiled.len()
    }

    /// On plans alone: MIOpen has neither a kernel nor a compiler.
    fn replay<'a>(&self, program: Program<'a>) -> Program<'a> {
        self.forwarding(program).twins(self.filled.twins()).naive(NaiveKernels::Missing).compiler_fails()
    }

    fn program(&self, name: &str) -> PathBuf {
        let programs = home().join("../miopen-testing/programs");
        let text = std::fs::read_to_string(programs.join(format!("{name}.c"))).expect("a program");
        let include = format!("-I{}", programs.display());
        self.sysroot.compile(self.folder.path(), name, Language::C, &text, &[&self.libraries()], &[&include]).expect("compiled")
    }
}

/// The counters of the report, over all families: hits, misses, calls of MIOpen, failures.
fn report(output: &Output) -> [u64; 4] {
    let count = |name: &str| -> u64 {
        let lines = output.stderr.lines().filter(|line| line.starts_with("[hipplan] report "));
        let numbers = lines.filter_map(|line| line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('=')));
        numbers.map(|number| number.parse::<u64>().expect("a number")).sum()
    };
    ["hits", "misses", "private", "failures"].map(count)
}

/// Shapes, and the number of directions.
const LINES: [(&str, usize); 15] = [
    ("conv -n 2 -c 4 -H 9 -W 8 -k 6 -y 3 -x 3 -p 1 -q 1", 3),
    ("conv -n 2 -c 4 -H 11 -W 13 -k 6 -y 3 -x 2 -p 2 -q 1 -u 2 -v 3 -l 2 -j 2", 3),
    ("conv -n 2 -c 8 -H 7 -W 7 -k 12 -y 3 -x 3 -p 1 -q 1 -g 4", 3),
    ("conv -n 2 -c 6 -H 7 -W 7 -k 6 -y 3 -x 3 -p 1 -q 1 -g 6", 3),
    ("conv -n 2 -c 8 -H 7 -W 7 -k 4 -y 1 -x 1", 3),
    ("conv -n 2 -c 8 -H 7 -W 7 -k 4 -y 3 -x 3 -u 2 -v 2 -m trans", 3),
    ("conv -n 2 -c 8 -H 5 -W 5 -k 4 -y 3 -x 3 -g 2 -m trans", 3),
    ("conv -n 2 -c 4 -H 5 -W 5 -k 4 -y 3 -x 3 -u 2 -v 2 -m trans -Y 1 -X 1", 3),
    ("conv -n 2 -c 4 --in_d 5 -H 6 -W 7 -k 6 --fil_d 3 -y 2 -x 3 --pad_d 1 -p 1 -q 1 --conv_stride_d 2 --spatial_dim 3", 3),
    ("conv -n 2 -c 4 -H 9 -W 8 -k 6 -y 3 -x 3 -p 1 --in_layout NHWC --fil_layout NHWC --out_layout NHWC", 3),
    (
        "conv -n 2 -c 4 --in_d 4 -H 6 -W 7 -k 6 --fil_d 3 -y 2 -x 3 -g 2 --spatial_dim 3 --in_layout NDHWC --fil_layout NDHWC \
         --out_layout NDHWC",
        3,
    ),
    ("convfp16 -n 2 -c 4 -H 9 -W 8 -k 6 -y 3 -x 3 -p 1 -q 1", 3),
    ("convbfp16 -n 2 -c 4 -H 9 -W 8 -k 6 -y 3 -x 3 -p 1 -q 1", 3),
    ("conv -n 2 -c 4 -H 9 -W 8 -k 6 -y 3 -x 3 -p 1 -q 1 -S 0", 3),
    // The problems of the first line once more, with biases: the second verdict of each direction that has one.
    ("conv -n 2 -c 4 -H 9 -W 8 -k 6 -y 3 -x 3 -p 1 -q 1 -b 1", 4),
];

#[test]
fn a_recorded_run_is_compiled_and_replayed_without_miopens_kernels() {
    let Some(bed) = Bed::new() else { return };
    for (line, _) in LINES {
        // MIOpen's kernels of biases are not simulated: the driver tells that it failed, and what it asked for is on record.
        let output = bed.forwarding(bed.sysroot.driver(&format!("{line} -i 1 -V 0"))).env("HIPPLAN_MIOPEN_RECORD", bed.recorded()).run();
        let [hits, misses, private, failures] = report(&output.expect("run"));
        assert!(hits == 0 && misses >= 1 && private >= 3 && failures == 0, "{line}: {hits} {misses} {private} {failures}");
    }
    // Lines 1, 14 and 15 have the same convolutions.
    assert_eq!(bed.fill(), 13 * 3 + 2);
    for (line, verdicts) in LINES {
        let run: DriverRun = bed.replay(bed.sysroot.driver(&format!("{line} -i 2 -t 1 -V 1"))).verdicts().expect("run");
        assert!(run.verified(verdicts), "{line}: {:#?}\n{}", run.verdicts, run.output.stderr);
        let [hits, misses, private, failures] = report(&run.output);
        assert!(hits >= 9 && misses == 0 && private == 0 && failures == 0, "{line}: {hits} {misses} {private} {failures}");
        assert!(run.kernel_times.len() >= 3 && run.kernel_times.iter().all(|&ms| ms > 0.0), "{line}: {:?}", run.kernel_times);
        assert_eq!(run.output.counts.compiler_runs(), 0, "{line}");
        assert!(run.output.counts.kernels().count() > 0, "{line}");
    }
}

#[test]
fn the_driver_fails_if_forwarding_is_broken() {
    let Some(bed) = Bed::new() else { return };
    let (line, _) = LINES[0];
    bed.record(bed.sysroot.driver(&format!("{line} -i 1 -V 0")));
    bed.fill();
    // The device has no kernels for the plans' code objects.
    let empty = tempfile::tempdir().expect("a folder");
    let run = bed.replay(bed.sysroot.driver(&format!("{line} -i 1 -V 1"))).twins(empty.path()).verdicts().expect("run");
    assert!(run.verdicts.iter().all(|verdict| !verdict.verified), "{:#?}", run.verdicts);
    let [hits, _, private, failures] = report(&run.output);
    assert!(hits == 0 && private == 0 && failures > 0, "{}", run.output.stderr);
}

/// All files below a folder, with what is in them.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.insert(path.clone(), std::fs::read(&path).expect("readable"));
        }
    }
    found
}

/// PyTorch's sequences: both modes, in threads, descriptors made anew, what it keeps, its way out of a lack of memory.
#[test]
fn frameworks_sequences_run_on_plans_and_leave_miopens_databases_alone() {
    let Some(bed) = Bed::new() else { return };
    let program = bed.program("frameworks");
    let command = |words: &str| bed.sysroot.command(&program).args(words.split(' '));
    let own = tempfile::tempdir().expect("a folder");
    bed.record(command("find 1 1").home(own.path()));
    let before = files(own.path());
    assert!(!before.is_empty(), "MIOpen keeps what it found");
    assert_eq!(bed.fill(), 21);
    for words in ["find 1 3", "find 4 3", "immediate 1 2", "immediate 4 3"] {
        let output = bed.replay(command(words).home(own.path())).run().expect("run");
        assert!(output.status.success() && output.stdout.contains("ok "), "{words}: {}{}", output.stdout, output.stderr);
        let [hits, misses, private, failures] = report(&output);
        assert!(hits > 0 && (misses, private, failures) == (0, 0, 0), "{words}: {}", output.stderr);
    }
    let output = bed.replay(command("find 2 3").home(own.path())).env("FALL_BACK", "1").run().expect("run");
    assert!(output.status.success(), "{}{}", output.stdout, output.stderr);
    assert_eq!(files(own.path()), before);
}

/// Other scalars, in place; biases; the fused call; and objects of Find 2.0, which are MIOpen's.
#[test]
fn scaled_bias_and_fused_calls_run_on_plans() {
    let Some(bed) = Bed::new() else { return };
    let program = bed.program("scaled");
    bed.record(bed.sysroot.command(&program));
    bed.fill();
    // Find 2.0 needs MIOpen's kernels.
    let replay = bed.replay(bed.sysroot.command(&program).args(["forwarded"])).naive(NaiveKernels::Run).env("HIPPLAN_HOST_COMPILER", "run");
    let output = replay.run().expect("run");
    assert!(output.status.success() && output.stdout.lines().any(|line| line.ends_with(" 0") && line.starts_with("ok ")), "{output:?}");
    let [hits, misses, private, failures] = report(&output);
    assert!(hits > 0 && (misses, private, failures) == (0, 0, 0), "{}", output.stderr);
}
