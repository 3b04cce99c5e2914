//! What is said when something is wrong: which file it is, once, and what to do about it.

mod common;

use common::{Ran, Scratch, corpus};
use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

/// A store `s`, a bundle of it, plain and wrapped, and a key.
fn bundles() -> Scratch {
    let scratch = Scratch::new();
    let graph = corpus().join("sample_add.json");
    for args in [
        &["compile", graph.to_str().expect("UTF-8"), "--store", "s"][..],
        &["bundle", "export", "-o", "b.hpbundle", "--store", "s"],
        &["bundle", "export", "-o", "b.hpbundle.zst", "--store", "s", "--compress"],
        &["bundle", "keygen", "key"],
    ] {
        let ran = scratch.run(args);
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    assert!(Command::new("mkfifo").arg(scratch.path("pipe")).status().expect("mkfifo").success());
    scratch
}

/// Runs what may not wait for a pipe.
fn run(scratch: &Scratch, args: &[&str]) -> Ran {
    let mut command = Command::new("timeout");
    command.args(["600", env!("CARGO_BIN_EXE_hipplan")]).args(args).current_dir(scratch.path("")).env_clear();
    let path = std::env::var_os("PATH").unwrap_or_default();
    Ran::of(&command.env("PATH", path).env("HOME", scratch.path("home")).stdin(Stdio::null()).output().expect("started"))
}

#[test]
fn an_error_names_the_file_that_is_wrong_and_says_what_to_do() {
    let scratch = bundles();
    let cases: [(&[&str], &[&str]); 13] = [
        (&["ls", "--store", "s", "--layer", "b.hpbundle.zst"], &["b.hpbundle.zst: ", "wrapped in zstd", "bundle import", "zstd -d"]),
        (&["bundle", "sign", "b.hpbundle.zst", "--key", "key"], &["b.hpbundle.zst: ", "wrapped in zstd", "zstd -d"]),
        (&["ls", "--store", "s", "--layer", "none"], &["none: ", "expected a bundle or the folder of a store", "check the path"]),
        (&["ls", "--store", "s", "--layer", "pipe"], &["pipe: ", "name the file of a bundle"]),
        (&["ls", "--store", "none"], &["none: no store found there", "check the path"]),
        (&["bundle", "sign", "b.hpbundle", "--key", "pipe"], &["key: pipe: ", "expected a regular file", "keygen"]),
        (&["bundle", "sign", "b.hpbundle", "--key", "."], &["found a folder", "keygen"]),
        (&["bundle", "sign", "pipe", "--key", "key"], &["pipe: ", "name the file of a bundle"]),
        (&["bundle", "merge", "-o", "out", "b.hpbundle", "none.hpbundle"], &["cannot open none.hpbundle", "check the path"]),
        (&["bundle", "merge", "-o", "out", "b.hpbundle", "pipe"], &["pipe: ", "name the file of a bundle"]),
        (&["bundle", "merge", "-o", "s", "b.hpbundle"], &["/s: found a folder", "name another file to write"]),
        (&["bundle", "merge", "-o", "no/folder", "b.hpbundle", "--compress"], &["no/folder: No such file"]),
        (&["bundle", "inspect", "b.hpbundle.zst", "--unpack-limit", "100"], &["b.hpbundle.zst: ", "`--unpack-limit` is 100", "trusted"]),
    ];
    for (args, parts) in cases {
        let ran = run(&scratch, args);
        assert_eq!(ran.code, 2, "{args:?} {ran:?}");
        assert_eq!(ran.err.lines().count(), 1, "{args:?} {ran:?}");
        for part in parts {
            assert!(ran.err.contains(part), "{args:?} {part}: {ran:?}");
        }
        for wrong in ["open it for writing", "move it out of the store", "max_unwrapped_bytes", "bundle out", " at path "] {
            assert!(!ran.err.contains(wrong), "{args:?} {wrong}: {ran:?}");
        }
    }
    assert!(!scratch.path("out").exists());
}

#[test]
fn output_that_does_not_fit_is_one_clear_error() {
    let scratch = bundles();
    let graph = corpus().join("sample_add.json");
    let graph = graph.to_str().expect("UTF-8");
    for args in [&["ls", "--store", "s"][..], &["ls", "--store", "s", "--json"], &["show", graph, "--svg"], &["completions", "bash"]] {
        let full = File::options().write(true).open("/dev/full").expect("/dev/full");
        let output = scratch.hipplan(args).stdout(full).stderr(Stdio::piped()).spawn().expect("started").wait_with_output();
        let ran = Ran::of(&output.expect("ended"));
        assert_eq!((ran.code, ran.err.lines().count()), (2, 1), "{args:?} {ran:?}");
        assert!(ran.err.contains("standard output: ") && ran.err.contains("free space"), "{args:?} {ran:?}");
    }
}

#[test]
fn a_secret_key_that_others_can_read_is_warned_of() {
    let scratch = bundles();
    for (mode, is_warned) in [(0o600, false), (0o400, false), (0o640, true), (0o604, true), (0o644, true)] {
        std::fs::set_permissions(scratch.path("key"), Permissions::from_mode(mode)).expect("set");
        let ran = scratch.run(&["bundle", "sign", "b.hpbundle", "b.hpbundle", "--key", "key"]);
        assert_eq!(ran.code, 0, "{mode:o} {ran:?}");
        let warnings = ran.err.lines().filter(|line| line.contains("chmod 600") && line.contains(&format!("{mode:04o}"))).count();
        assert_eq!(warnings, usize::from(is_warned), "{mode:o} {ran:?}");
    }
}

#[test]
fn what_is_no_file_is_refused_and_not_waited_for() {
    let scratch = bundles();
    let graph = corpus().join("sample_add.json");
    let graph = graph.to_str().expect("UTF-8");
    let socket = std::os::unix::net::UnixListener::bind(scratch.path("socket")).expect("a socket");
    let names = [("pipe", "found a pipe"), ("socket", "found a socket"), ("/dev/zero", "found a device"), ("s/plans", "found a folder")];
    for (name, what) in names {
        let commands: [&[&str]; 15] = [
            &["import", name],
            &["compile", name, "--store", "s"],
            &["run", name, "--store", "s"],
            &["run", graph, "--store", "s", "--input", &format!("input_x={name}")],
            &["check", name, "--store", "s"],
            &["show", name],
            &["convert", name, "--to", "json"],
            &["convert", graph, "--to", "hdgp", "--plan", name],
            &["diff", graph, name],
            &["engines", name],
            &["explain", name],
            &["verify", name],
            &["why", name, "--store", "s"],
            &["coverage", name, "--store", "s"],
            &["bundle", "export", "-o", "out", "--store", "s", name],
        ];
        for args in commands {
            // A folder of inputs is taken apart, where several inputs are.
            let takes_folders = ["import", "compile", "check", "coverage", "bundle"].contains(&args[0]);
            if what == "found a folder" && takes_folders {
                continue;
            }
            let ran = run(&scratch, args);
            let said = format!("{}{}", ran.out, ran.err);
            assert!(ran.code == 1 || ran.code == 2, "{args:?} {ran:?}");
            assert!(said.contains(what), "{args:?} {ran:?}");
        }
        let ran = run(&scratch, &["shim", "split", "--from", name, "--prefix", "split"]);
        assert!(ran.code == 2 && ran.err.contains(what), "{ran:?}");
        let ran = run(&scratch, &["shim", "headers", "--from", name, "--prefix", "split"]);
        assert!(ran.code == 2 && ran.err.contains(what), "{ran:?}");
    }
    drop(socket);
    // What is handed over open is read whatever it is.
    let text = std::fs::read(graph).expect("a graph");
    for name in ["-", "/dev/stdin", "/proc/self/fd/0"] {
        let mut import = scratch.hipplan(&["import", name]);
        let mut child = import.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
        std::io::Write::write_all(&mut child.stdin.take().expect("a pipe"), &text).expect("written");
        let ran = Ran::of(&child.wait_with_output().expect("ended"));
        assert_eq!(ran.code, 0, "{name} {ran:?}");
    }
}

#[test]
fn quiet_prints_what_was_asked_for_and_errors() {
    let scratch = bundles();
    let graph = corpus().join("sample_conv_fwd.json");
    let graph = graph.to_str().expect("UTF-8");
    // A graph whose reader has something to remark.
    let text = std::fs::read_to_string(graph).expect("text").replacen('{', "{\"a_field_that_nobody_knows\": 1,", 1);
    scratch.write("remarked.json", text);
    std::fs::set_permissions(scratch.path("key"), Permissions::from_mode(0o644)).expect("set");
    let cases: [(&[&str], &str, &str); 5] = [
        (&["compile", graph, "--store", "s"], "store: ", "1 graph: "),
        (&["compile", "remarked.json", "--store", "s"], "warning:", "1 graph: "),
        (&["import", "remarked.json"], "warning:", "remarked.json"),
        (&["run", graph, "--store", "s"], "store: 1 hit", "executed in"),
        (&["bundle", "sign", "b.hpbundle", "--key", "key"], "WARN", "signed by"),
    ];
    for (args, remark, asked) in cases {
        let loud = scratch.run(args);
        assert!(loud.code == 0 && format!("{}{}", loud.out, loud.err).contains(remark), "{args:?} {loud:?}");
        let quiet = scratch.run(&[args, &["--quiet"]].concat());
        assert!(quiet.code == 0 && !format!("{}{}", quiet.out, quiet.err).contains(remark), "{args:?} {quiet:?}");
        assert!(quiet.err.is_empty(), "{args:?} {quiet:?}");
        assert!(quiet.out.contains(asked) || asked == "signed by" && quiet.out.contains("was signed before by"), "{args:?} {quiet:?}");
    }
    let ran = scratch.run(&["ls", "--store", "none", "--quiet"]);
    assert!(ran.code == 2 && ran.err.contains("no store found there"), "{ran:?}");
}
