//! `hipplan convert`: every form into every other, and what a form cannot hold.

mod common;

use common::Scratch;
use std::path::{Path, PathBuf};

fn corpus(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus").join(name).display().to_string()
}

/// The key that `show` tells.
fn key(scratch: &Scratch, file: &str) -> String {
    let ran = scratch.run(&["show", file, "--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let value: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
    value["graph_key"].as_str().expect("a key").to_owned()
}

#[test]
fn every_form_becomes_every_other() {
    let scratch = Scratch::new();
    let path = |name: &str| scratch.path(name).display().to_string();
    let first = corpus("graphs/sample_conv_fwd.json");
    let expected = key(&scratch, &first);
    let forms = ["a.hpgraph", "b.bin", "c.json", "d.hdgp", "e.txt"];
    let mut from = first;
    for name in forms.iter().chain(forms.iter().rev()).chain(&["a.hpgraph", "c.json", "e.txt", "b.bin", "d.hdgp", "a.hpgraph"]) {
        let to = path(&format!("next-{name}"));
        let ran = scratch.run(&["convert", &from, "-o", &to]);
        assert_eq!(ran.code, 0, "{from} to {to}: {ran:?}");
        assert_eq!(key(&scratch, &to), expected, "{to}");
        let kept = path(&format!("kept-{name}"));
        std::fs::rename(&to, &kept).expect("renamed");
        from = kept;
    }
    // The untouched buffer is in artifact and container, byte for byte.
    let read = |name: &str| std::fs::read(path(name)).expect("readable");
    let (artifact, buffer) = (read("kept-a.hpgraph"), read("kept-b.bin"));
    assert!(!buffer.is_empty() && artifact.len() > 64);
}

#[test]
fn json_and_buffer_are_exact() {
    let scratch = Scratch::new();
    let path = |name: &str| scratch.path(name).display().to_string();
    let graphs = std::fs::read_dir(corpus("graphs")).expect("the corpus").map(|e| e.expect("an entry").path());
    let graphs: Vec<PathBuf> = graphs.filter(|p| p.extension().is_some_and(|e| e == "json")).collect();
    assert!(graphs.len() >= 25);
    for graph in graphs {
        let graph = graph.display().to_string();
        let run = |args: &[&str]| {
            let ran = scratch.run(args);
            assert_eq!(ran.code, 0, "{args:?}: {ran:?}");
        };
        run(&["convert", &graph, "-o", &path("1.bin")]);
        run(&["convert", &path("1.bin"), "-o", &path("2.json")]);
        run(&["convert", &path("2.json"), "-o", &path("3.bin")]);
        run(&["convert", &path("1.bin"), "-o", &path("4.hpgraph")]);
        run(&["convert", &path("4.hpgraph"), "--to", "hipdnn", "-o", &path("5.bin")]);
        let read = |name: &str| std::fs::read(path(name)).expect("readable");
        assert_eq!(read("1.bin"), read("3.bin"), "{graph}");
        assert_eq!(read("1.bin"), read("5.bin"), "{graph}");
        assert_eq!(read("1.bin"), read("4.hpgraph")[64..], "{graph}");
    }
}

#[test]
fn lines_and_standard_output() {
    let scratch = Scratch::new();
    let line = "conv -n 2 -c 4 -k 8 -H 5 -W 6 -y 3 -x 3 -p 1 -q 1 -g 2 -F 2";
    let ran = scratch.run(&["convert", "--line", line, "--to", "line"]);
    assert!(ran.code == 0 && ran.out.starts_with("MIOpenDriver conv -n 2 -c 4") && ran.out.trim_end().ends_with("-F 2"), "{ran:?}");
    let again = scratch.run(&["convert", "--line", ran.out.trim_end(), "--to", "line"]);
    assert_eq!(again.out, ran.out);
    let compact = scratch.run(&["convert", "--line", line, "--to", "json", "--compact"]);
    assert!(compact.code == 0 && compact.out.lines().count() == 1 && compact.out.contains("ConvolutionBwdAttributes"), "{compact:?}");
    for (args, expected) in [
        (&["convert", "--line", "conv -n 2", "--to", "line"][..], "3 different convolutions"),
        (&["convert", &corpus("graphs/sample_add.json"), "--to", "line"], "a command means a single convolution"),
        (&["convert", &corpus("graphs/sample_add.json")], "say what to write"),
        (&["convert", &corpus("graphs/sample_add.json"), "-o", "x.unknown"], "the ending tells no form"),
        (&["convert", &corpus("graphs/sample_add.json"), "--to", "hipdnn", "--compact"], "--compact is for JSON"),
        (&["convert", "no-such-file", "--to", "json"], "no-such-file"),
    ] {
        let ran = scratch.run(args);
        assert!(ran.code == 2 && ran.err.contains(expected), "{args:?}: {ran:?}");
    }
}

#[test]
fn plans_travel_in_containers() {
    let scratch = Scratch::new();
    let path = |name: &str| scratch.path(name).display().to_string();
    // A bare envelope is shown, in every layout, and has no key; it is never a graph.
    for (name, layout) in [("plan_a", "A"), ("plan_b", "B"), ("plan_c", "C"), ("plan_d", "D")] {
        let file = corpus(&format!("hipdnn-containers/{name}.bin"));
        let ran = scratch.run(&["show", &file]);
        assert!(ran.code == 0 && ran.out.contains(&format!("layout {layout}")) && ran.out.contains("no key"), "{ran:?}");
        let json = scratch.run(&["show", &file, "--json"]);
        let value: serde_json::Value = serde_json::from_str(&json.out).expect("JSON");
        assert!(value["graph_key"].is_null() && value["layout"] == layout, "{value}");
        for command in ["explain", "convert"] {
            let ran = scratch.run(&[command, &file]);
            assert!(ran.code == 2, "{ran:?}");
        }
        let ran = scratch.run(&["compile", &file, "--store", &path("store")]);
        assert!(ran.code != 0 && !ran.out.contains("compiled,"), "an envelope enters no store: {ran:?}");
    }
    // Out of one container and into another, with its graph.
    let container = corpus("hipdnn-containers/container.bin");
    let ran = scratch.run(&["convert", &container, "-o", &path("copy.hdgp")]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let shown = scratch.run(&["show", &path("copy.hdgp"), "--json"]);
    let value: serde_json::Value = serde_json::from_str(&shown.out).expect("JSON");
    assert!(value["plan"]["engine_id"].is_i64() && value["graph_key"].is_string(), "{value}");
    let ran = scratch.run(&["convert", &path("copy.hdgp"), "-o", &path("copy.json")]);
    assert!(ran.code == 0 && ran.err.contains("the plan in the container is left out"), "{ran:?}");
    // Back beside the graph.
    let plan = corpus("hipdnn-containers/plan_d.bin");
    let ran = scratch.run(&["convert", &corpus("hipdnn-containers/graph.bin"), "--plan", &plan, "-o", &path("joined.hdgp")]);
    assert_eq!(ran.code, 0, "{ran:?}");
    // A plan whose uids the graph does not have is refused.
    let text = std::fs::read_to_string(corpus("graphs/sample_relu.json")).expect("readable");
    let mut other: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let raise = |uid: &mut serde_json::Value| *uid = (uid.as_i64().expect("a uid") + 1000).into();
    other["tensors"].as_array_mut().expect("tensors").iter_mut().for_each(|t| raise(&mut t["uid"]));
    raise(&mut other["nodes"][0]["inputs"]["in_0_tensor_uid"]);
    raise(&mut other["nodes"][0]["outputs"]["out_0_tensor_uid"]);
    let other = scratch.write("other.json", other.to_string()).display().to_string();
    let ran = scratch.run(&["convert", &other, "--plan", &plan, "-o", &path("wrong.hdgp")]);
    assert!(ran.code == 2 && ran.err.contains("another graph"), "{ran:?}");
    let ran = scratch.run(&["convert", &container, "--plan", &plan, "-o", &path("twice.hdgp")]);
    assert!(ran.code == 2 && ran.err.contains("holds a plan already"), "{ran:?}");
    let ran = scratch.run(&["convert", &corpus("hipdnn-containers/graph.bin"), "--plan", &plan, "--to", "json"]);
    assert!(ran.code == 2 && ran.err.contains("--to hdgp"), "{ran:?}");
}
