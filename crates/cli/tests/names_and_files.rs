//! Names that anybody may have chosen, what `verify` takes, and what becomes of files that are written over.

mod common;

use common::{Scratch, scalar_graph};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

const BAD_NAME: &str = "a\u{1b}[31m\nb.json";
const ESCAPED: &str = "a\\u{1b}[31m\\u{a}b.json";

fn corpus(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus").join(name).display().to_string()
}

#[test]
fn names_reach_the_terminal_escaped() {
    let scratch = Scratch::new();
    scratch.write(BAD_NAME, "{}");
    scratch.write("good.json", scalar_graph(""));
    let envelope = std::fs::read(corpus("hipdnn-containers/plan_d.bin")).expect("readable");
    scratch.write("e\u{1b}\nnvelope", envelope);
    let mut runs: Vec<(&[&str], &str)> = vec![
        (&["verify", BAD_NAME], ESCAPED),
        (&["verify", "no\u{1b}\nne"], "no\\u{1b}\\u{a}ne"),
        (&["show", BAD_NAME], ESCAPED),
        (&["run", BAD_NAME, "--store", "s"], ESCAPED),
        (&["diff", BAD_NAME, "good.json"], ESCAPED),
        (&["diff", "good.json", "e\u{1b}\nnvelope"], "e\\u{1b}\\u{a}nvelope"),
        (&["explain", "e\u{1b}\nnvelope"], "e\\u{1b}\\u{a}nvelope"),
        (&["import", BAD_NAME], ESCAPED),
        (&["convert", BAD_NAME, "--to", "json"], ESCAPED),
        (&["ls", "--store", "s\u{1b}\nx"], "s\\u{1b}\\u{a}x"),
        (&["show", "good.json", "--svg", "-o", "p\u{1b}\n.svg"], "p\\u{1b}\\u{a}.svg"),
        (&["show", "good.json", "--svg", "-o", "no\u{1b}\n/p.svg"], "no\\u{1b}\\u{a}/p.svg"),
    ];
    assert_eq!(scratch.run(&["compile", "good.json", "--store", "t\u{1b}\nx"]).code, 0);
    scratch.write("other\n.json", scalar_graph(r#", "value_type": "Float32Value", "value": 2.0"#));
    let ran = scratch.run(&["run", "other\n.json", "--store", "t\u{1b}\nx"]);
    assert!(ran.code == 2 && ran.err.contains("other\\u{a}.json: no plan for") && ran.err.lines().count() == 1, "{ran:?}");
    runs.push((&["ls", "--store", "t\u{1b}\nx"], "t\\u{1b}\\u{a}x"));
    runs.push((&["verify", "--store", "t\u{1b}\nx"], "t\\u{1b}\\u{a}x"));
    for (args, escaped) in runs {
        let ran = scratch.run(args);
        let all = ran.out.clone() + &ran.err;
        assert!(all.contains(escaped) && !all.contains('\u{1b}'), "{args:?}: {ran:?}");
    }
    // JSON escapes by itself and gives the name back as it is.
    let (_, value) = scratch.json(&["verify", BAD_NAME]);
    assert_eq!(value["files"][0]["file"], BAD_NAME);
}

#[test]
fn verify_knows_every_form_and_what_is_not_there() {
    let scratch = Scratch::new();
    scratch.write("good.json", scalar_graph(""));
    scratch.write("bad.json", "{}");
    let (code, _) = scratch.json(&["verify", "bad.json", "good.json"]);
    assert_eq!(code, 1);
    for absent in ["nope", "."] {
        let (code, value) = scratch.json(&["verify", "good.json", absent, "bad.json"]);
        let rows = value["files"].as_array().expect("a list");
        assert!(code == 2 && rows.len() == 3 && rows[0]["error"].is_null() && rows[1]["error"].is_string(), "{value}");
    }
    for (name, form) in [
        ("plan_a", "hipDNN plan envelope"),
        ("plan_d", "hipDNN plan envelope"),
        ("container", "hipDNN graph-and-plan container (HDGP)"),
        ("container_graph", "hipDNN graph-and-plan container (HDGP)"),
        ("container_unaligned", "hipDNN graph-and-plan container (HDGP)"),
        ("graph", "hipDNN buffer"),
    ] {
        let (code, value) = scratch.json(&["verify", &corpus(&format!("hipdnn-containers/{name}.bin"))]);
        assert_eq!((code, &value["files"][0]["kind"]), (0, &form.into()), "{value}");
    }
    // A container whose plan is damaged, though its graph is good: the envelope's root leads outside.
    let mut container = std::fs::read(corpus("hipdnn-containers/container.bin")).expect("readable");
    let plan = std::fs::read(corpus("hipdnn-containers/plan_d.bin")).expect("readable");
    let at = container.windows(plan.len()).position(|w| w == plan).expect("the plan");
    container[at..at + 4].fill(0xff);
    scratch.write("bad.hdgp", container);
    let (code, value) = scratch.json(&["verify", "bad.hdgp"]);
    assert!(code == 1 && value["files"][0]["error"].is_string(), "{value}");
}

#[test]
fn a_plan_that_is_kept_is_not_warned_of() {
    let scratch = Scratch::new();
    let container = corpus("hipdnn-containers/container.bin");
    let ran = scratch.run(&["convert", &container, "-o", "again.hdgp"]);
    assert!(ran.code == 0 && !ran.err.contains("the container"), "{ran:?}");
    let ran = scratch.run(&["show", &container]);
    assert!(ran.code == 0 && ran.out.contains("plan envelope") && !ran.out.contains("left"), "{ran:?}");
    for to in ["json", "hipdnn", "artifact"] {
        let ran = scratch.run(&["convert", &container, "--to", to, "-o", "out"]);
        assert_eq!((ran.code, ran.err.matches("the container").count()), (0, 1), "{ran:?}");
    }
}

#[test]
fn the_file_with_an_envelope_is_named() {
    let scratch = Scratch::new();
    scratch.write("good.json", scalar_graph(""));
    let envelope = corpus("hipdnn-containers/plan_d.bin");
    for args in [&["diff", "good.json", &envelope][..], &["diff", &envelope, "good.json"], &["explain", &envelope]] {
        let ran = scratch.run(args);
        assert!(ran.code == 2 && ran.err.contains(&envelope), "{ran:?}");
    }
}

#[test]
fn files_that_are_written_over_keep_mode_and_links() {
    let scratch = Scratch::new();
    scratch.write("g.json", scalar_graph(""));
    let mode = |name: &str| std::fs::metadata(scratch.path(name)).expect("there").permissions().mode() & 0o777;
    let set = |name: &str, mode| std::fs::set_permissions(scratch.path(name), std::fs::Permissions::from_mode(mode)).expect("set");
    let write = |to: &str| scratch.run(&["convert", "g.json", "--to", "artifact", "-o", to]);
    for kept in [0o600, 0o666, 0o640] {
        scratch.write("out", "old");
        set("out", kept);
        assert_eq!(write("out").code, 0);
        assert_eq!(mode("out"), kept);
    }
    let written = std::fs::read(scratch.path("out")).expect("readable");
    assert!(written.len() > 64);

    scratch.write("fixed", "old");
    set("fixed", 0o444);
    let ran = write("fixed");
    assert!(ran.code == 2 && ran.err.contains("fixed: the file is read-only"), "{ran:?}");
    assert_eq!((std::fs::read(scratch.path("fixed")).expect("readable"), mode("fixed")), (b"old".to_vec(), 0o444));

    // Through a link to a link in a folder, to a file that is there and to one that is not.
    std::fs::create_dir(scratch.path("folder")).expect("made");
    scratch.write("folder/there", "old");
    set("folder/there", 0o600);
    for name in ["there", "new"] {
        symlink(name, scratch.path(&format!("folder/{name}-link"))).expect("linked");
        symlink(format!("folder/{name}-link"), scratch.path(&format!("to-{name}"))).expect("linked");
        assert_eq!(write(&format!("to-{name}")).code, 0);
        assert!(scratch.path(&format!("to-{name}")).is_symlink() && scratch.path(&format!("folder/{name}-link")).is_symlink());
        assert_eq!(std::fs::read(scratch.path(&format!("folder/{name}"))).expect("readable"), written);
    }
    assert_eq!(mode("folder/there"), 0o600);
    symlink("round", scratch.path("round")).expect("linked");
    let ran = write("round");
    assert!(ran.code == 2 && ran.err.contains("round"), "{ran:?}");
    // What is no file is written as it is.
    let ran = scratch.run(&["convert", "g.json", "--to", "json", "-q", "-o", "/dev/stdout"]);
    assert!(ran.code == 0 && ran.out.contains("PointwiseAttributes"), "{ran:?}");
}

#[test]
fn a_budget_is_a_number_from_zero_up() {
    let scratch = Scratch::new();
    for bad in ["nan", "inf", "-1", "-inf", "much", ""] {
        let ran = scratch.run(&["check", "g.json", &format!("--max-gmac={bad}")]);
        assert!(ran.code == 2 && ran.err.contains("--max-gmac") && ran.err.contains("from 0 up"), "{bad}: {ran:?}");
    }
    let ran = scratch.run(&["check", "g.json", "--max-gmac", "-1"]);
    assert!(ran.code == 2 && ran.err.contains("from 0 up"), "{ran:?}");
}

/// A folder is taken whole: what is named like a graph in it and cannot be read is told of, never passed over.
#[test]
fn what_cannot_be_read_in_a_folder_is_told_of() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("graphs")).expect("made");
    scratch.write("graphs/good.json", scalar_graph(""));
    scratch.write("elsewhere", scalar_graph(r#", "value_type": "Float32Value", "value": 2.0"#));
    symlink("../elsewhere", scratch.path("graphs/linked.json")).expect("linked");
    assert_eq!(scratch.run(&["compile", "graphs", "--store", "s"]).code, 0);
    symlink("../gone", scratch.path("graphs/dangling.json")).expect("linked");
    assert!(std::process::Command::new("mkfifo").arg(scratch.path("graphs/pipe.json")).status().expect("started").success());
    for args in [
        &["compile", "graphs", "--store", "s"][..],
        &["compile", "graphs", "--store", "s", "--require-precompiled"],
        &["coverage", "graphs", "--store", "s"],
    ] {
        let ran = scratch.run(args);
        let all = ran.out.clone() + &ran.err;
        assert!(ran.code != 0 && all.contains("dangling.json") && all.contains("pipe.json"), "{args:?}: {ran:?}");
    }
}
