//! `hipplan shim` as people and scripts use it: output, exit codes, a running process, and commands that are killed.

mod common;
#[path = "../../shim/tests/common/mod.rs"]
mod libraries;

use common::Scratch;
use libraries::{FORWARDED, PRINTED, Workshop, run_with};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

fn text(path: &Path) -> String {
    path.to_str().expect("UTF-8").to_owned()
}

#[test]
fn a_person_splits_checks_and_undoes() {
    let Some(workshop) = Workshop::new() else { return };
    let scratch = Scratch::new();
    let library = workshop.usual(&workshop.path("vendor"));
    let consumer = workshop.consumer(&library, "consumer");
    let (from, libs, prefix) = (text(&workshop.path("vendor/libMIOpen.so")), text(&workshop.libs()), text(&scratch.path("prefix")));
    let split = ["shim", "split", "--from", &from, "--prefix", &prefix, "--lib-dir", &libs];

    let ran = scratch.run(&split);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("10 names, version MIOPEN_HIP_1") && ran.out.contains("LD_LIBRARY_PATH="), "{ran:?}");
    assert!(ran.err.contains("libhipplan.so.0 was not found"), "{ran:?}");
    assert_eq!(run_with(&consumer, &scratch.path("prefix/lib"), false), PRINTED);
    assert_eq!(run_with(&consumer, &scratch.path("prefix/lib"), true), FORWARDED);
    let ran = scratch.run(&[&split[..], &["--quiet"]].concat());
    assert!(ran.code == 0 && ran.out.starts_with("already split") && ran.err.is_empty(), "{ran:?}");

    let ran = scratch.run(&["shim", "check", &prefix]);
    assert!(ran.code == 0 && ran.out.contains("good     relocations") && !ran.out.contains("failed"), "{ran:?}");
    let (code, report) = scratch.json(&["shim", "check", &prefix]);
    assert_eq!((code, &report["good"]), (0, &true.into()), "{report:#}");
    let ids: Vec<_> = report["checks"].as_array().expect("a list").iter().map(|c| c["check"].as_str().expect("a name")).collect();
    for id in
        ["superset", "impl-export", "soname", "needed", "versions", "hash", "relocations", "sections", "manifest", "headers", "undefined"]
    {
        assert!(ids.contains(&id), "{id}");
    }
    let (code, status) = scratch.json(&["shim", "status", &prefix]);
    assert_eq!((code, &status["state"], &status["split"]["soname"]), (0, &"split".into(), &"libMIOpen.so.1".into()), "{status:#}");

    // Somebody touches the private library.
    let private = scratch.path("prefix/lib/libMIOpen_private.so.1");
    let mut bytes = std::fs::read(&private).expect("readable");
    bytes.push(0);
    std::fs::write(&private, bytes).expect("written");
    let ran = scratch.run(&["shim", "check", &prefix]);
    assert!(ran.code == 1 && ran.out.contains("failed   files"), "{ran:?}");
    assert_eq!(scratch.run(&["shim", "status", &prefix]).code, 1);
    assert_eq!(scratch.run(&split).code, 0, "repaired");
    assert_eq!(scratch.run(&["shim", "check", &prefix]).code, 0);

    let ran = scratch.run(&["shim", "unsplit", &prefix]);
    assert!(ran.code == 0 && ran.out.contains("removed") && !scratch.path("prefix").exists(), "{ran:?}");
}

#[test]
fn in_place_in_json() {
    let Some(workshop) = Workshop::new() else { return };
    let scratch = Scratch::new();
    let library = workshop.usual(&workshop.path("lib"));
    let original = std::fs::read(&library).expect("readable");
    let (from, shim, folder) = (text(&library), text(&workshop.path("libs/libhipplan_miopen.so.0")), text(&workshop.path("lib")));
    let (code, report) = scratch.json(&["shim", "split", "--from", &from, "--in-place", "--shim-lib", &shim]);
    assert_eq!(
        (code, &report["unchanged"], &report["split"]["backup"]),
        (0, &false.into(), &"hipplan-original-libMIOpen.so.1.0".into()),
        "{report:#}"
    );
    let (code, report) = scratch.json(&["shim", "unsplit", &folder]);
    assert_eq!((code, report["restored"].as_str()), (0, Some(from.as_str())), "{report:#}");
    assert!(std::fs::read(&library).expect("readable") == original);
}

#[test]
fn what_cannot_be_done_is_said() {
    let Some(workshop) = Workshop::new() else { return };
    let scratch = Scratch::new();
    scratch.write("libMIOpen.so.1", "no library");
    let libs = text(&workshop.libs());
    let says = |args: &[&str], what: &str| {
        let ran = scratch.run(args);
        assert!(ran.code == 2 && ran.err.contains(what), "{args:?}: {ran:?}");
    };
    says(&["shim", "split", "--from", "libMIOpen.so.1", "--in-place", "--lib-dir", &libs], "not an ELF file");
    says(&["shim", "split", "--from", "absent.so", "--in-place", "--lib-dir", &libs], "cannot be found");
    says(&["shim", "split", "--from", "libMIOpen.so.1"], "--prefix");
    says(&["shim", "split", "--from", "libMIOpen.so.1", "--in-place", "--prefix", "p"], "cannot be used with");
    says(&["shim", "check", "."], "no split here");
    says(&["shim", "unsplit", "absent"], "cannot be found");
    says(&["shim", "status"], "required");
    says(&["shim", "status", "--pid", "4294967295"], "process 4294967295");
    let library = text(&workshop.usual(&workshop.path("lib")));
    // From a folder where no library was built beside the program.
    let program = scratch.path("alone/hipplan");
    std::fs::create_dir(scratch.path("alone")).expect("a folder");
    // By another process: a child that another test starts would keep a file open that this one writes, and the program would be busy.
    let copied = Command::new("cp").arg(scratch.hipplan(&[]).get_program()).arg(&program).status();
    assert!(copied.expect("started").success());
    let mut alone = Command::new(&program);
    alone.args(["shim", "split", "--from", &library, "--in-place", "--lib-dir", "."]).current_dir(scratch.path("alone")).env_clear();
    let ran = common::Ran::of(&alone.output().expect("started"));
    assert!(ran.code == 2 && ran.err.contains("libhipplan_miopen.so.0 was not found"), "{ran:?}");
    for command in [&["shim"][..], &["shim", "split"], &["shim", "check"], &["shim", "status"], &["shim", "unsplit"]] {
        let ran = scratch.run(&[command, &["--help"]].concat());
        assert!(ran.code == 0 && ran.out.contains("Usage"), "{ran:?}");
    }
}

const WAITER: &str = "#include <stdio.h>\n#include <unistd.h>\nint miopenAdd(int, int);\n\
    int main(void) { printf(\"%d\\n\", miopenAdd(1, 2)); fflush(stdout); pause(); return 0; }\n";

/// Ends a process when it goes.
struct Running(std::process::Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(program: &Path, libraries: &Path, forwarding: Option<&str>) -> Running {
    let mut command = Command::new(program);
    command.env_clear().env("LD_LIBRARY_PATH", libraries).stdout(Stdio::piped());
    command.envs(forwarding.map(|f| ("MIOPEN_HIPDNN_FORWARDING", f)));
    let mut child = command.spawn().expect("started");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    assert!(!line.is_empty(), "it ended");
    Running(child)
}

#[test]
fn a_running_process_is_looked_at() {
    let Some(workshop) = Workshop::new() else { return };
    let scratch = Scratch::new();
    let vendor = workshop.path("vendor");
    let library = workshop.usual(&vendor);
    let (source, waiter) = (workshop.path("waiter.c"), workshop.path("waiter"));
    std::fs::write(&source, WAITER).expect("written");
    libraries::run(Command::new("cc").arg("-o").arg(&waiter).arg(&source).arg(&library));
    let look = |process: &Running| scratch.json(&["shim", "status", "--pid", &process.0.id().to_string()]);
    let roles = |report: &serde_json::Value| -> Vec<String> {
        let mut roles: Vec<String> =
            report["libraries"].as_array().expect("a list").iter().map(|c| c["role"].as_str().expect("a role").to_owned()).collect();
        roles.sort();
        roles
    };

    let stock = start(&waiter, &vendor, None);
    let (code, report) = look(&stock);
    assert_eq!((code, roles(&report), &report["forwarding"]), (0, vec!["stock MIOpen".to_owned()], &serde_json::Value::Null), "{report:#}");

    let (from, libs) = (text(&library), text(&workshop.libs()));
    assert_eq!(scratch.run(&["shim", "split", "--from", &from, "--prefix", "p", "--lib-dir", &libs]).code, 0);
    let lib = scratch.path("p/lib");
    let process = start(&waiter, &lib, Some("enabled"));
    let (code, report) = look(&process);
    assert_eq!((code, roles(&report)), (0, ["private library", "shim library", "wrapper"].map(str::to_owned).to_vec()), "{report:#}");
    assert_eq!(report["forwarding"], "enabled");
    assert!(
        report["libraries"].as_array().expect("a list").iter().all(|c| c["split"] == text(&lib.canonicalize().expect("a folder"))),
        "{report:#}"
    );
    let ran = scratch.run(&["shim", "status", "--pid", &process.0.id().to_string()]);
    assert!(ran.code == 0 && ran.out.contains("MIOPEN_HIPDNN_FORWARDING at its start: enabled"), "{ran:?}");

    // A library is replaced under it.
    let shim = lib.join("libhipplan_miopen.so.0");
    let other = lib.join("other");
    std::fs::copy(&shim, &other).expect("copied");
    std::fs::rename(&other, &shim).expect("renamed");
    let (code, report) = look(&process);
    assert!(code == 1 && report["findings"][0].as_str().is_some_and(|f| f.contains("was replaced since")), "{report:#}");
    // All of it goes.
    assert_eq!(scratch.run(&["shim", "unsplit", "p"]).code, 0);
    let (code, report) = look(&process);
    assert!(code == 1 && report["findings"].as_array().is_some_and(|f| f.len() >= 3), "{report:#}");
    let ran = scratch.run(&["shim", "status", "--pid", &std::process::id().to_string()]);
    assert!(ran.code == 0 && ran.out.contains("has loaded no MIOpen"), "{ran:?}");
}

/// What changes folders, by kind; each is counted apart.
const CALLS: [&str; 5] = ["rename,renameat,renameat2", "link,linkat,symlink,symlinkat", "unlink,unlinkat", "fsync", "mkdir,mkdirat"];

/// Whether programs can be traced here: not in every container.
fn can_trace() -> bool {
    let traced = Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).output();
    let why = match traced {
        Err(error) => error.to_string(),
        Ok(output) if output.status.success() => return true,
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
    };
    assert!(!libraries::is_ci(), "strace is needed and does not work: {why}");
    println!("skipped: strace does not work: {why}");
    false
}

/// Runs a command that is killed at its nth call of a kind; gives whether it was.
fn killed(scratch: &Scratch, args: &[&str], calls: &str, nth: usize) -> bool {
    let program = scratch.hipplan(args);
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o"]).arg(scratch.path("strace.log")).arg("-e").arg(format!("trace={calls}"));
    command.arg("-e").arg(format!("inject={calls}:signal=KILL:when={nth}"));
    let output = command.arg(program.get_program()).args(args).current_dir(scratch.path("")).env_clear().output().expect("strace");
    // It ends as what it traced ended.
    let was_killed = output.status.signal() == Some(9);
    let is_undone = args.contains(&"unsplit") && output.status.code() == Some(2);
    assert!(was_killed || is_undone || output.status.success(), "{args:?}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    was_killed
}

/// Wherever a command is killed, programs find the old state or the new one, and running it again ends as if nothing had happened.
#[test]
fn a_killed_command_is_run_again() {
    let Some(workshop) = Workshop::new() else { return };
    if !can_trace() {
        return;
    }
    std::fs::copy(libraries::run_library(&workshop), workshop.libs().join("libhipplan.so.0")).expect("copied");
    let libs = text(&workshop.libs());
    let vendor = workshop.path("vendor");
    let consumer = workshop.consumer(&workshop.usual(&vendor), "consumer");
    let original = std::fs::read(vendor.join("libMIOpen.so.1.0")).expect("readable");
    let mut kills = [0; 3];
    let mut moment = (0, 1);
    while let (Some(&calls), nth) = (CALLS.get(moment.0), moment.1) {
        let scratch = Scratch::new();
        let lib = scratch.path("lib");
        libraries::run(Command::new("cp").arg("-a").arg(&vendor).arg(&lib));
        let split = ["shim", "split", "--from", "lib/libMIOpen.so", "--in-place", "--lib-dir", &libs];
        let was_killed = killed(&scratch, &split, calls, nth);
        assert_eq!(run_with(&consumer, &lib, false), PRINTED, "split killed at {nth}");
        assert_eq!(scratch.run(&split).code, 0, "split again after {nth}");
        let ran = scratch.run(&["shim", "check", "lib"]);
        assert_eq!(ran.code, 0, "after {nth}: {ran:?}");
        assert_eq!(run_with(&consumer, &lib, true), FORWARDED);

        let was_killed_undoing = killed(&scratch, &["shim", "unsplit", "lib"], calls, nth);
        assert_eq!(run_with(&consumer, &lib, false), PRINTED, "unsplit killed at {nth}");
        let ran = scratch.run(&["shim", "unsplit", "lib"]);
        assert!(ran.code == 0 || ran.err.contains("no split here"), "unsplit again after {nth}: {ran:?}");
        assert!(std::fs::read(lib.join("libMIOpen.so.1.0")).expect("readable") == original);
        assert_eq!(std::fs::read_dir(&lib).expect("a folder").count(), 3, "after {nth}");

        // Into a prefix: until the wrapper is there, nothing is found in it.
        let into = ["shim", "split", "--from", "lib/libMIOpen.so", "--prefix", "p", "--lib-dir", &libs];
        let was_killed_in_prefix = killed(&scratch, &into, calls, nth);
        if scratch.path("p/lib/libMIOpen.so.1").exists() {
            assert_eq!(run_with(&consumer, &scratch.path("p/lib"), false), PRINTED, "prefix killed at {nth}");
        }
        assert_eq!(scratch.run(&into).code, 0, "prefix again after {nth}");
        assert_eq!(scratch.run(&["shim", "check", "p"]).code, 0);
        assert_eq!(scratch.run(&["shim", "unsplit", "p"]).code, 0);

        let all = [was_killed, was_killed_undoing, was_killed_in_prefix];
        kills.iter_mut().zip(all).for_each(|(sum, was)| *sum += usize::from(was));
        // None came so far: the next kind.
        moment = if all == [false; 3] { (moment.0 + 1, 1) } else { (moment.0, nth + 1) };
    }
    println!("killed {kills:?} times");
    assert!(kills.iter().all(|&n| n >= 8), "{kills:?}");
}

/// Development files of a split, and what object files ask for.
#[test]
fn a_provider_is_developed() {
    let Some(workshop) = Workshop::new() else { return };
    let scratch = Scratch::new();
    workshop.usual(&workshop.path("vendor"));
    let (from, libs, prefix) = (text(&workshop.path("vendor/libMIOpen.so")), text(&workshop.libs()), text(&scratch.path("prefix")));
    assert_eq!(scratch.run(&["shim", "split", "--from", &from, "--prefix", &prefix, "--lib-dir", &libs]).code, 0);
    let header = scratch.path("include/miopen/miopen.h");
    std::fs::create_dir_all(header.parent().expect("a folder")).expect("made");
    std::fs::write(&header, "int miopenAdd(int a, int b);\nint miopenElsewhere(void);\n").expect("written");

    let generate = ["shim", "headers", "--from", &text(&header), "--prefix", &prefix];
    let ran = scratch.run(&generate);
    assert!(ran.code == 0 && ran.out.contains("miopen_impl.h") && ran.out.contains("declared 2 functions"), "{ran:?}");
    assert!(ran.err.contains("not exported by the library") && ran.err.contains("miopenElsewhere"), "{ran:?}");
    let (code, report) = scratch.json(&generate);
    assert_eq!((code, &report["declared"], &report["declared_not_exported"][0]), (0, &2.into(), &"miopenElsewhere".into()), "{report:#}");
    let private = std::fs::read_to_string(scratch.path("prefix/lib/miopen_private/include/miopen/miopen_impl.h")).expect("made");
    assert!(private.contains("int miopenAdd_impl(int a, int b);"), "{private}");
    let ran = scratch.run(&["shim", "headers", "--from", &text(&header), "--prefix", &text(&scratch.path(""))]);
    assert!(ran.code == 2 && ran.err.contains("no split here"), "{ran:?}");

    let consumer = text(&workshop.path("consumer.o"));
    let ran = scratch.run(&["shim", "check-objects", &consumer]);
    assert!(ran.code == 1 && ran.out.contains("miopenAdd") && ran.out.contains("link MIOpen_private"), "{ran:?}");
    let (code, report) = scratch.json(&["shim", "check-objects", &consumer]);
    assert_eq!((code, &report["good"]), (1, &false.into()), "{report:#}");
    let ran = scratch.run(&["shim", "check-objects", &text(&workshop.path("library.o"))]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let ran = scratch.run(&["shim", "check-objects", &text(&header)]);
    assert!(ran.code == 2 && ran.err.contains("neither an ELF object file"), "{ran:?}");
}

/// Makes a library larger, by a hole in the file: its section headers move behind it, and a section that is not loaded reaches up to them.
fn grow(library: &Path, size: u64) {
    let file = std::fs::File::options().read(true).write(true).open(library).expect("opened");
    let bytes = std::fs::read(library).expect("readable");
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let half = |at: usize| u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two bytes"));
    let (at, count) = (word(40) as usize, usize::from(half(60)));
    let mut headers = bytes[at..at + 64 * count].to_vec();
    let field = |i: usize, n: usize| word(at + 64 * i + n);
    // Not loaded, and with bytes: type 1, flags without 2.
    let comment = (1..count).find(|&i| bytes[at + 64 * i + 4] == 1 && field(i, 8) & 2 == 0).expect("a section that is not loaded");
    let offset = (bytes.len() as u64).next_multiple_of(4096);
    headers[64 * comment + 24..64 * comment + 32].copy_from_slice(&offset.to_le_bytes());
    headers[64 * comment + 32..64 * comment + 40].copy_from_slice(&(size - offset).to_le_bytes());
    file.set_len(size).expect("a larger file");
    file.write_all_at(&headers, size).expect("written");
    file.write_all_at(&size.to_le_bytes(), 40).expect("written");
}

/// A library of 400 MB is split with 32 MiB in memory of the command's own; what is mapped from files does not count.
#[test]
fn large_libraries_need_little_memory() {
    let Some(workshop) = Workshop::new() else { return };
    if Command::new("prlimit").arg("--version").output().is_err() {
        assert!(!libraries::is_ci(), "prlimit (util-linux) is needed and not installed");
        println!("skipped: prlimit is not installed");
        return;
    }
    let scratch = Scratch::new();
    let library = workshop.usual(&workshop.path("large"));
    grow(&library, 400_000_000);
    let libs = text(&workshop.libs());
    let program = scratch.hipplan(&[]);
    let limited = |args: &[&str]| {
        let mut command = Command::new("prlimit");
        command.arg("--data=33554432").arg(program.get_program()).args(args).current_dir(scratch.path("")).env_clear();
        common::Ran::of(&command.output().expect("started"))
    };
    let ran = limited(&["shim", "split", "--from", &text(&library), "--prefix", "p", "--lib-dir", &libs]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let ran = limited(&["shim", "check", "p"]);
    assert_eq!(ran.code, 0, "{ran:?}");
}
