//! What takes long says so: whom it waits for, and how far it has come.

mod common;

use common::{Ran, Scratch, scalar_graph};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::Stdio;

/// A store `s` with a plan of a graph, and the file of another graph.
fn store() -> Scratch {
    let scratch = Scratch::new();
    for (name, value) in [("there", "1.0"), ("new", "2.0")] {
        scratch.write(&format!("{name}.json"), scalar_graph(&format!(r#", "value_type": "Float32Value", "value": {value}"#)));
    }
    let ran = scratch.run(&["compile", "there.json", "--store", "s", "--target", "cpu"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    scratch
}

/// Has a lock as another process would.
fn hold(path: &Path) -> File {
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path).expect("opened");
    file.try_lock().expect("a lock that nobody has");
    file.write_all(b"pid 4711\nhost elsewhere\nsince 1000\n").expect("written");
    file
}

/// Runs it while others hold locks, which they give back once it has said that it waits; gives what it said then, and how it ended.
fn run_waiting(scratch: &Scratch, args: &[&str], held: Vec<File>) -> (String, Ran) {
    let mut child = scratch.hipplan(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    let mut err = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut said = String::new();
    err.read_line(&mut said).expect("UTF-8");
    // A child that another test starts may have the files a moment longer than this process.
    held.iter().for_each(|lock| lock.unlock().expect("given back"));
    drop(held);
    let mut rest = String::new();
    err.read_to_string(&mut rest).expect("UTF-8");
    let mut ran = Ran::of(&child.wait_with_output().expect("ended"));
    ran.err = rest;
    (said, ran)
}

#[test]
fn a_wait_for_another_who_builds_is_told_with_who_and_what_and_how_long() {
    let scratch = store();
    let held = (0..64).map(|number| hold(&scratch.path(&format!("s/locks/{number:02x}")))).collect();
    let (said, ran) = run_waiting(&scratch, &["compile", "new.json", "--store", "s", "--target", "cpu"], held);
    for part in ["waits for its turn", "process 4711 on elsewhere for ", "a turn to build key ", "in the store "] {
        assert!(said.contains(part), "{part} in {said}");
    }
    // Two minutes, less those five seconds or more that it has waited in silence.
    let left = said.split("without it in ").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<u64>().ok());
    assert!(left.is_some_and(|left| (1..=115).contains(&left)), "{said}");
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
}

#[test]
fn a_wait_for_other_upkeep_is_told_with_who_and_how_long() {
    let scratch = store();
    for command in ["gc", "compact"] {
        let run = || {
            let held = vec![hold(&scratch.path("s/locks/upkeep"))];
            run_waiting(&scratch, &["store", command, "--store", "s"], held)
        };
        // On a machine that is very busy, the lock may be given back when the wait is over.
        let is_late =
            |(said, ran): &(String, Ran)| [said, &ran.err].iter().any(|s| s.contains("other upkeep of this store is still at work"));
        let (said, ran) = std::iter::repeat_with(run).take(5).find(|ran| !is_late(ran)).expect("one that had the lock in time");
        for part in ["waits for other upkeep to end", "process 4711 on elsewhere for ", "of the store ", " s more, this goes on beside it"]
        {
            assert!(said.contains(part), "{part} in {said}");
        }
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
        // Whoever had the lock takes what he wrote into it out again.
        let text = std::fs::read_to_string(scratch.path("s/locks/upkeep")).expect("read");
        assert_eq!(text.trim(), "");
    }
}

/// What the command writes to a terminal.
fn on_a_terminal(scratch: &Scratch, command: &str) -> Option<String> {
    let run = scratch.hipplan(&[]);
    let line = format!("{} {command}", run.get_program().to_str().expect("UTF-8"));
    let mut script = std::process::Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).current_dir(scratch.path("")).env("TERM", "xterm").stdin(Stdio::null());
    match script.output() {
        Ok(output) => {
            assert!(output.status.success(), "{output:?}");
            Some(String::from_utf8(output.stdout).expect("UTF-8"))
        }
        Err(e) => {
            assert!(std::env::var_os("HIPPLAN_CI").is_none_or(|v| v != "1"), "script: {e}; install bsdutils");
            println!("skipped: script: {e}");
            None
        }
    }
}

#[test]
fn checks_and_work_on_bundles_tell_a_terminal_how_far_they_have_come() {
    let scratch = store();
    for (command, phase) in [
        ("verify --store s", "checking "),
        ("store verify --store s", "checking "),
        ("bundle export -o a.hpbundle --store s", "reading plans of 1"),
        ("bundle merge -o b.hpbundle a.hpbundle a.hpbundle", "choosing entries"),
        ("bundle verify b.hpbundle", "checking "),
        ("bundle import b.hpbundle --store t", "checking entries"),
    ] {
        let Some(text) = on_a_terminal(&scratch, command) else { return };
        assert!(text.contains(phase), "{command}: {phase:?} in {text:?}");
        let Some(quiet) = on_a_terminal(&scratch, &format!("{command} --quiet")) else { return };
        assert!(!quiet.contains(phase), "{command}: {quiet:?}");
    }
}
