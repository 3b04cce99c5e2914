//! Bad input: one clear error that names file, field, found and expected; the rest of a batch goes on; nothing is half-written.

mod common;

use common::{Scratch, corpus, tree};

#[test]
fn a_bad_graph_costs_only_itself() {
    let scratch = Scratch::new();
    let good = std::fs::read_to_string(corpus().join("sample_conv_fwd.json")).expect("the corpus");
    scratch.write("good.json", &good);
    let cases = [
        ("truncated.json", good[..good.len() / 2].to_owned(), "JSON"),
        ("spelling.json", good.replacen("\"float\"", "\"floaty\"", 1), "\"floaty\""),
        ("dangling.json", good.replace("\"x_tensor_uid\": 1", "\"x_tensor_uid\": 99"), "uid 99"),
        ("shape.json", good.replace("[16, 16, 3, 3]", "[16, 16, 3, 4]"), "expected"),
        ("missing.json", good.replace("\"y_tensor_uid\": 0", "\"other\": 0"), "y_tensor_uid"),
        ("empty.json", String::new(), "empty"),
        ("text.json", "just some text".to_owned(), "JSON"),
        ("binary.json", "\u{1}\u{2}\u{3}".to_owned(), "not a hipDNN graph buffer"),
    ];
    for (name, text, _) in &cases {
        assert_ne!(*text, good, "{name} differs from the good graph");
        scratch.write(name, text);
    }
    let mut args = vec!["compile", "--store", "store", "good.json"];
    args.extend(cases.iter().map(|c| c.0));
    let (code, report) = scratch.json(&args);
    assert_eq!(code, 1, "{report:#}");
    assert_eq!(report["summary"]["compiled"], 1, "{report:#}");
    assert_eq!(report["summary"]["invalid"], cases.len(), "{report:#}");
    for (row, (name, _, names)) in report["rows"].as_array().expect("rows").iter().skip(1).zip(&cases) {
        let detail = row["detail"].as_str().expect("a reason");
        assert_eq!(row["source"], *name);
        assert!(detail.contains(names), "{name}: {detail}");
    }
    // What was compiled is sound, and nothing else was left behind.
    let (code, verified) = scratch.json(&["verify", "--store", "store"]);
    assert_eq!((code, &verified["plans"], &verified["unfinished_writes"]), (0, &1.into(), &serde_json::json!([])), "{verified:#}");
}

#[test]
fn damaged_artifacts_plans_and_entries_are_named() {
    let scratch = Scratch::new();
    let graph = corpus().join("sample_add.json");
    let graph = graph.to_str().expect("UTF-8");
    assert_eq!(scratch.run(&["import", graph, "-o", "add.hpgraph"]).code, 0);
    let mut artifact = std::fs::read(scratch.path("add.hpgraph")).expect("written");
    *artifact.last_mut().expect("bytes") ^= 1;
    scratch.write("bad.hpgraph", &artifact);
    let ran = scratch.run(&["compile", "bad.hpgraph", "--store", "store"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.out.contains("bad.hpgraph") && ran.out.contains("digest is"), "{ran:?}");
    // Too new is another error than damaged.
    let mut newer = std::fs::read(scratch.path("add.hpgraph")).expect("written");
    newer[8] = 9;
    scratch.write("newer.hpgraph", &newer);
    let ran = scratch.run(&["verify", "newer.hpgraph"]);
    assert!(ran.code == 1 && ran.out.contains("too new"), "{ran:?}");

    assert_eq!(scratch.run(&["compile", "add.hpgraph", "--store", "store"]).code, 0);
    let plan = tree(&scratch.path("store")).into_keys().find(|k| k.extension().is_some_and(|e| e == "plan")).expect("a plan");
    let plan = scratch.path("store").join(plan);
    let good = std::fs::read(&plan).expect("readable");
    let mut bad = good.clone();
    bad[200] ^= 0x10;
    std::fs::write(&plan, &bad).expect("written");
    let ran = scratch.run(&["run", "add.hpgraph", "--store", "store"]);
    assert!(ran.code == 2 && ran.err.contains(".plan") && ran.err.contains("hash"), "{ran:?}");
    assert_eq!(scratch.run(&["verify", "--store", "store"]).code, 1);
    // Compiling again mends it.
    assert_eq!(scratch.run(&["compile", "add.hpgraph", "--store", "store"]).code, 0);
    assert_eq!(std::fs::read(&plan).expect("readable"), good);
    assert_eq!(scratch.run(&["verify", "--store", "store"]).code, 0);
}

#[test]
fn limits_name_themselves() {
    let scratch = Scratch::new();
    let deep = format!("{{\"tensors\": {}{}}}", "[".repeat(500), "]".repeat(500));
    scratch.write("deep.json", deep);
    let ran = scratch.run(&["import", "deep.json"]);
    assert!(ran.code == 1 && ran.out.contains("recursion limit"), "{ran:?}");
    let good = std::fs::read_to_string(corpus().join("sample_add.json")).expect("the corpus");
    let huge = good.replace("[128, 256, 14, 14]", "[128, 256, 14, 140000000000]");
    assert_ne!(huge, good);
    scratch.write("huge.json", huge);
    let ran = scratch.run(&["import", "huge.json"]);
    assert!(ran.code == 1 && ran.out.contains("max_elements"), "{ran:?}");
    scratch.write("long.json", vec![b' '; 17 << 20].as_slice());
    scratch.write("long2.json", [b"{".as_slice(), &vec![b' '; 17 << 20]].concat());
    let ran = scratch.run(&["import", "long2.json"]);
    assert!(ran.code == 1 && ran.out.contains("max_json_bytes"), "{ran:?}");
}
