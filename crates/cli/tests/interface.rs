//! What a person meets: exit codes, JSON, keys, NumPy files, scalars, help.

mod common;

use common::{Ran, Scratch, corpus, scalar_graph};
use std::io::Write;
use std::process::Stdio;

#[test]
fn exit_codes_are_as_documented() {
    let scratch = Scratch::new();
    scratch.write("good.json", scalar_graph(r#", "value_type": "Float32Value", "value": 2.0"#));
    assert_eq!(scratch.run(&["compile", "good.json", "--store", "s"]).code, 0);
    // 1: an input is invalid.
    scratch.write("bad.json", "{}");
    assert_eq!(scratch.run(&["compile", "bad.json", "--store", "s"]).code, 1);
    // 2: not done.
    assert_eq!(scratch.run(&["compile"]).code, 2);
    assert_eq!(scratch.run(&["compile", "absent.json", "--store", "s"]).code, 2);
    assert_eq!(scratch.run(&["compile", "good.json", "--store", "s", "--target", "sm-90"]).code, 2);
    assert_eq!(scratch.run(&["run", "good.json", "--store", "no-such-store"]).code, 2);
    assert!(!scratch.path("no-such-store").exists(), "looking makes nothing");
    // 3: no engine.
    let sdpa = corpus().join("sample_sdpa.json");
    let ran = scratch.run(&["compile", sdpa.to_str().expect("UTF-8"), "--store", "s"]);
    assert!(ran.code == 3 && ran.out.contains("sdpa_fwd"), "{ran:?}");
    let ran = scratch.run(&["compile", "good.json", "--store", "s", "--target", "gfx942"]);
    assert!(ran.code == 3 && ran.out.contains("no applicable engines for target gfx942"), "{ran:?}");
    let ran = scratch.run(&["compile", "good.json", "--store", "s", "--engine", "NO_SUCH"]);
    assert_eq!(ran.code, 3, "{ran:?}");
}

/// What a command does, and how it ends, does not depend on whether anybody listens.
#[test]
fn a_reader_that_goes_away_changes_nothing() {
    let scratch = Scratch::new();
    for (name, value) in [("a", "2.0"), ("b", "3.0"), ("c", "4.0")] {
        scratch.write(&format!("{name}.json"), scalar_graph(&format!(r#", "value_type": "Float32Value", "value": {value}"#)));
    }
    scratch.write("bad.json", "{}");
    let unheard = |args: &[&str]| {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let ran = Ran::of(&scratch.hipplan(args).stdout(writer).output().expect("started"));
        assert_eq!(ran.err, "", "{args:?}");
        ran.code
    };
    assert_eq!(unheard(&["compile", "a.json", "b.json", "--store", "s"]), 0);
    for name in ["a", "b"] {
        let file = format!("{name}.json");
        let ran = scratch.run(&["bundle", "export", "-o", &format!("{name}.hpbundle"), &file, "--store", "s"]);
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    assert_eq!(unheard(&["bundle", "import", "a.hpbundle", "b.hpbundle", "--store", "t"]), 0);
    let (_, listed) = scratch.json(&["ls", "--store", "t"]);
    assert_eq!(listed["plans"].as_array().map(Vec::len), Some(2), "{listed:#}");
    for (code, args) in [
        (1, &["compile", "bad.json", "--store", "s"][..]),
        (4, &["compile", "c.json", "--require-precompiled", "--store", "s", "--json"]),
        (4, &["why", "c.json", "--store", "s"]),
        (1, &["diff", "a.json", "b.json"]),
        (0, &["show", "a.json", "--dot"]),
    ] {
        assert_eq!(unheard(args), code, "{args:?}");
    }
}

/// What is named in a bundle's place, or a bundle in another's, is recognised.
#[test]
fn a_bundle_in_another_place_is_recognised() {
    let scratch = Scratch::new();
    scratch.write("a.json", scalar_graph(r#", "value_type": "Float32Value", "value": 2.0"#));
    assert_eq!(scratch.run(&["compile", "a.json", "--store", "s"]).code, 0);
    assert_eq!(scratch.run(&["bundle", "export", "-o", "all.hpbundle", "--store", "s"]).code, 0);
    for (args, code, part) in [
        (&["verify", "all.hpbundle"][..], 1, "hipplan bundle verify"),
        (&["explain", "all.hpbundle"], 1, "this is a bundle of plans, not a graph"),
        (&["ls", "--store", "all.hpbundle"], 2, "is a file, expected the folder of a store; a bundle is read where it lies with --layer"),
        (&["store", "gc", "--store", "all.hpbundle"], 2, "is a file, expected the folder of a store"),
    ] {
        let ran = scratch.run(args);
        assert!(ran.code == code && (ran.out.contains(part) || ran.err.contains(part)), "{args:?}: {ran:?}");
    }
}

/// The command is a worker for hiprtc, which compiles in a process of its own.
#[test]
fn the_command_is_a_worker() {
    let scratch = Scratch::new();
    let ran = scratch.run(&["hipplan-hiprtc-worker"]);
    assert!(ran.code == 2 && ran.err.contains("expected describe or compile, a library, a file"), "{ran:?}");
    let ran = scratch.run(&["hipplan-hiprtc-worker", "describe", "/nowhere/libhiprtc.so", "out"]);
    assert!(ran.code == 4 && ran.err.contains("/nowhere/libhiprtc.so"), "{ran:?}");
}

#[test]
fn help_has_examples_and_every_command_has_help() {
    let scratch = Scratch::new();
    let ran = scratch.run(&["--help"]);
    assert!(ran.code == 0 && ran.out.contains("Examples:") && ran.out.contains("Exit codes:"), "{ran:?}");
    for command in
        ["quickstart", "import", "compile", "run", "check", "show", "inspect", "diff", "explain", "verify", "ls", "why", "coverage"]
    {
        assert!(ran.out.contains(command), "{command}");
        let help = scratch.run(&[command, "--help"]);
        assert!(help.code == 0 && help.out.contains("--json") && help.out.contains("--store"), "{help:?}");
    }
    assert_eq!(scratch.run(&["--version"]).code, 0);
    let ran = scratch.run(&["completions", "bash"]);
    assert!(ran.code == 0 && ran.out.contains("quickstart"), "{ran:?}");
}

#[test]
fn graphs_come_from_standard_input_and_in_every_form() {
    let scratch = Scratch::new();
    let text = scalar_graph(r#", "value_type": "Float32Value", "value": 2.0"#);
    let mut child =
        scratch.hipplan(&["compile", "-", "--store", "s", "--json"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("started");
    child.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("written");
    let output = child.wait_with_output().expect("ended");
    assert_eq!(output.status.code(), Some(0));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let key = report["rows"][0]["graph_key"].as_str().expect("a key").to_owned();

    // The same graph as an artifact and as a bare hipDNN buffer has the same key, and is there already.
    scratch.write("g.json", &text);
    assert_eq!(scratch.run(&["import", "g.json", "-o", "g.hpgraph"]).code, 0);
    let artifact = std::fs::read(scratch.path("g.hpgraph")).expect("written");
    scratch.write("g.bin", &artifact[64..]);
    for file in ["g.json", "g.hpgraph", "g.bin"] {
        let (code, report) = scratch.json(&["compile", file, "--store", "s"]);
        assert_eq!((code, report["rows"][0]["graph_key"].as_str()), (0, Some(key.as_str())), "{file}");
        assert_eq!(report["rows"][0]["outcome"], "present", "{file}");
    }
    // Found by graph key, by plan key, and by the first digits of either.
    let (_, plan) = scratch.json(&["inspect", &key, "--store", "s"]);
    let plan_key = plan["plan_key"].as_str().expect("a key").to_owned();
    for name in [key.as_str(), &key[..9], &plan_key, &plan_key[..9]] {
        let (code, value) = scratch.json(&["run", name, "--check", "--store", "s"]);
        assert_eq!((code, &value["check"]["passed"]), (0, &true.into()), "{name}");
    }
    let ran = scratch.run(&["run", "0000000000", "--store", "s"]);
    assert!(ran.code == 2 && ran.err.contains("starts with 0000000000"), "{ran:?}");
}

/// The four floats of an npy file that NumPy or we wrote.
fn floats(path: &std::path::Path) -> Vec<f32> {
    let bytes = std::fs::read(path).expect("readable");
    let data = &bytes[bytes.len() - 16..];
    data.chunks_exact(4).map(|c| f32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect()
}

fn npy(values: [f32; 4]) -> Vec<u8> {
    let header = format!("{:<117}\n", "{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend_from_slice(&(header.len() as u16).to_le_bytes());
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend(values.iter().flat_map(|v| v.to_le_bytes()));
    bytes
}

#[test]
fn scalars_and_numpy_files_go_in_and_out() {
    let scratch = Scratch::new();
    scratch.write("x.npy", npy([1.0, 2.0, 3.0, -4.0]));
    let cases = [
        ("constant", r#", "value_type": "Float32Value", "value": 2.0"#),
        ("default", r#", "value_type": "Float32Value", "value": 2.0, "is_runtime_pass_by_value": true"#),
        ("runtime", r#", "is_runtime_pass_by_value": true"#),
    ];
    for (name, state) in cases {
        let file = format!("{name}.json");
        scratch.write(&file, scalar_graph(state));
        assert_eq!(scratch.run(&["compile", &file, "--store", "s"]).code, 0);
    }
    let run = |name: &str, more: &[&str]| {
        let file = format!("{name}.json");
        let args = [&["run", file.as_str(), "--store", "s", "--input", "x=x.npy", "--check", "-o", "out"], more].concat();
        let ran = scratch.run(&args);
        (ran.code == 0).then(|| floats(&scratch.path("out/7_y.npy"))).ok_or(ran.err)
    };
    assert_eq!(run("constant", &[]), Ok(vec![2.0, 4.0, 6.0, -8.0]));
    assert_eq!(run("default", &[]), Ok(vec![2.0, 4.0, 6.0, -8.0]), "the default is kept");
    assert_eq!(run("default", &["--override", "alpha=0.5"]), Ok(vec![0.5, 1.0, 1.5, -2.0]), "the override wins");
    assert_eq!(run("runtime", &["--scalar", "alpha=3"]), Ok(vec![3.0, 6.0, 9.0, -12.0]));
    assert_eq!(run("runtime", &["--scalar", "6=-1"]), Ok(vec![-1.0, -2.0, -3.0, 4.0]), "by uid");
    for (name, more, why) in [
        ("constant", ["--scalar", "alpha=3"], "not a runtime scalar"),
        ("default", ["--scalar", "alpha=3"], "only --override"),
        ("runtime", ["--scalar", "alpha=three"], "not a number"),
        ("runtime", ["--scalar", "alpha=1e999"], "beyond the range"),
        ("runtime", ["--scalar", "beta=3"], "no tensor is called"),
        ("runtime", ["--scalar", "alpha"], "expected TENSOR=VALUE"),
    ] {
        assert!(run(name, &more).is_err_and(|e| e.contains(why)), "{name} {more:?}");
    }
    // One plan for both values of the runtime scalar, one each for the constant and the default.
    let (_, listed) = scratch.json(&["ls", "--store", "s"]);
    assert_eq!(listed["plans"].as_array().map(Vec::len), Some(3));
    // A file of the wrong shape says so.
    scratch.write("short.npy", &npy([0.0; 4])[..140]);
    let ran = scratch.run(&["run", "constant.json", "--store", "s", "--input", "x=short.npy"]);
    assert!(ran.code == 2 && ran.err.contains("short.npy"), "{ran:?}");
}

#[test]
fn imports_never_share_an_output_or_replace_an_input() {
    let scratch = Scratch::new();
    let text = scalar_graph(r#", "value_type": "Float32Value", "value": 2.0"#);
    for folder in ["a", "b"] {
        std::fs::create_dir(scratch.path(folder)).expect("a folder");
        scratch.write(&format!("{folder}/g.json"), &text);
    }
    let ran = scratch.run(&["import", "a/g.json", "b/g.json", "-o", "out"]);
    assert!(ran.code == 2 && ran.err.contains("a/g.json") && ran.err.contains("b/g.json"), "{ran:?}");
    assert_eq!(std::fs::read_dir(scratch.path("out")).expect("a folder").count(), 0, "nothing was written");
    let ran = scratch.run(&["import", "a/g.json", "-o", "a/g.json"]);
    assert!(ran.code == 2 && ran.err.contains("over itself"), "{ran:?}");
    assert_eq!(std::fs::read_to_string(scratch.path("a/g.json")).expect("readable"), text);
}

#[test]
fn what_is_too_large_or_endless_is_refused_before_it_is_read() {
    let scratch = Scratch::new();
    let huge = scalar_graph(r#", "value_type": "Float32Value", "value": 2.0"#).replace("\"dims\": [4]", "\"dims\": [274877906944]");
    scratch.write("huge.json", huge);
    assert_eq!(scratch.run(&["compile", "huge.json", "--store", "s"]).code, 0);
    let ran = scratch.run(&["run", "huge.json", "--store", "s", "--check"]);
    assert!(ran.code == 2 && ran.err.contains("of memory are available"), "{ran:?}");
    for command in ["inspect", "verify", "import"] {
        // What is handed over open is read whatever it is, up to the limit.
        let endless = std::fs::File::open("/dev/zero").expect("/dev/zero");
        let ran = Ran::of(&scratch.hipplan(&[command, "/dev/stdin"]).stdin(endless).output().expect("started"));
        assert!(ran.code != 0 && (ran.err + &ran.out).contains("limit"), "{command}");
    }
    let ran = scratch.run(&["run", "no-such-thing", "--store", "s"]);
    assert!(ran.code == 2 && ran.err.contains("neither a file nor a key"), "{ran:?}");
}

#[test]
fn inspect_shows_graphs_plans_and_keys() {
    let scratch = Scratch::new();
    let graph = corpus().join("conv_bias_relu_bf16_nchw_1x1.json");
    let graph = graph.to_str().expect("UTF-8");
    let ran = scratch.run(&["inspect", graph]);
    assert!(ran.code == 0 && ran.out.contains("convolution_fwd") && ran.out.contains("pointwise relu_fwd"), "{ran:?}");
    assert_eq!(scratch.run(&["compile", graph, "--store", "s"]).code, 0);
    let (_, listed) = scratch.json(&["ls", "--store", "s"]);
    let key = listed["plans"][0]["plan_key"].as_str().expect("a key").to_owned();
    let ran = scratch.run(&["inspect", &key[..12], "--store", "s"]);
    assert!(ran.code == 0 && ran.out.contains(&key) && ran.out.contains("HIPPLAN_CPU") && ran.out.contains("first use"), "{ran:?}");
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let scratch = Scratch::new();
    let corpus = corpus();
    let mut child = scratch
        .hipplan(&["import", corpus.to_str().expect("UTF-8")])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("ended");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn a_store_that_cannot_be_made_is_one_clear_error() {
    let scratch = Scratch::new();
    scratch.write("g.json", scalar_graph(r#", "value_type": "Float32Value", "value": 2.0"#));
    scratch.write("in-the-way", "a file");
    let ran = scratch.run(&["compile", "g.json", "--store", "in-the-way"]);
    assert!(ran.code == 2 && ran.err.contains("in-the-way") && ran.err.lines().count() == 1, "{ran:?}");
}
