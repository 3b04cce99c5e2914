//! Bundles from outside: made on one machine, carried away, and used where there is nothing else.

mod common;

use common::{Ran, Scratch, corpus, scalar_graph, tree};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A store with two graphs of the corpus in it.
fn filled(scratch: &Scratch) -> [String; 2] {
    let graphs = ["conv_bias_relu_bf16_nchw_1x1.json", "sample_matmul.json"].map(|name| corpus().join(name));
    let graphs = graphs.map(|path| path.to_str().expect("UTF-8").to_owned());
    let (code, report) = scratch.json(&["compile", &graphs[0], &graphs[1], "--store", "origin"]);
    assert_eq!(code, 0, "{report:#}");
    graphs
}

/// Runs the command with nothing in its environment but what is given, in a folder of its own.
fn bare(scratch: &Scratch, args: &[&str], variables: &[(&str, &Path)]) -> Ran {
    let empty = scratch.path("elsewhere");
    std::fs::create_dir_all(&empty).expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_hipplan"));
    command.args(args).current_dir(empty).env_clear().envs(variables.iter().copied());
    Ran::of(&command.output().expect("started"))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn a_bundle_that_was_moved_runs_from_an_empty_store_in_an_empty_environment() {
    let scratch = Scratch::new();
    let [graph, other] = filled(&scratch);
    let (code, report) = scratch.json(&["bundle", "export", "-o", "all.hpbundle", "--store", "origin", "--note", "corpus"]);
    assert_eq!((code, &report["entries"]["plans"]), (0, &Value::from(2)), "{report:#}");
    let key = report["plans"][0]["graph_key"].as_str().expect("a key").to_owned();
    std::fs::create_dir(scratch.path("moved ü")).expect("a folder");
    let bundle = scratch.path("moved ü/b.hpbundle");
    std::fs::rename(scratch.path("all.hpbundle"), &bundle).expect("moved");
    std::fs::remove_dir_all(scratch.path("origin")).expect("removed");

    let before = tree(&scratch.path("moved ü"));
    for args in [["run", &graph], ["run", &other], ["run", &key]] {
        let ran = bare(&scratch, &[&args[..], &["--check", "--layer", text(&bundle), "--store", "none"]].concat(), &[]);
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    // By the environment; and explained, listed, found again by compile.
    let layers: [(&str, &Path); 1] = [("HIPPLAN_LAYERS", &bundle)];
    assert_eq!(bare(&scratch, &["run", &graph, "--store", "none"], &layers).code, 0);
    assert_eq!(bare(&scratch, &["why", &graph, "--store", "none"], &layers).code, 0);
    let ran = bare(&scratch, &["ls", "--store", "none", "--json"], &layers);
    let listed: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(listed["plans"].as_array().map(Vec::len), Some(2), "{ran:?}");
    assert!(!scratch.path("elsewhere/none").exists());
    let ran = bare(&scratch, &["compile", &graph, "--store", "new", "--json"], &layers);
    let report: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(report["summary"]["present"], 1, "{report:#}");
    assert_eq!(tree(&scratch.path("moved ü")), before);

    // Without it there is nothing; a layer that is not there is an error.
    assert_eq!(bare(&scratch, &["run", &graph, "--store", "none"], &[]).code, 2);
    let ran = bare(&scratch, &["run", &graph, "--store", "none", "--layer", "absent.hpbundle"], &[]);
    assert!(ran.code == 2 && ran.err.contains("absent.hpbundle"), "{ran:?}");
}

#[test]
fn exports_are_of_what_was_named_and_reproducible() {
    let scratch = Scratch::new();
    let [graph, other] = filled(&scratch);
    let export = |args: &[&str]| scratch.json(&[&["bundle", "export", "--store", "origin", "-o"], args].concat());
    let (code, one) = export(&["1.hpbundle", &graph]);
    assert_eq!((code, &one["entries"]["plans"]), (0, &Value::from(1)), "{one:#}");
    let key = one["plans"][0]["graph_key"].as_str().expect("a key");
    let (code, same) = export(&["2.hpbundle", &key[..12]]);
    assert_eq!((code, &same["root"]), (0, &one["root"]));
    assert_eq!(std::fs::read(scratch.path("1.hpbundle")).expect("read"), std::fs::read(scratch.path("2.hpbundle")).expect("read"));
    // Where there is no plan of what was asked for, nothing is written, and a file that is there stays.
    scratch.write("3.hpbundle", "as it was");
    let (code, none) = export(&["3.hpbundle", "--target", "gfx942,gfx90a"]);
    assert_eq!((code, &none["bundle"], &none["root"], &none["store_targets"]["cpu"]), (1, &Value::Null, &Value::Null, &Value::from(2)));
    let told = none["nothing"].as_str().expect("text");
    assert!(told.starts_with("no plan for gfx942 or gfx90a is in the store ") && told.ends_with("; it has 2 plans for cpu"), "{told}");
    for file in ["3.hpbundle", "5.hpbundle.zst"] {
        let ran = scratch.run(&["bundle", "export", "--store", "origin", "-o", file, "ffffffffffff", "--compress"]);
        assert!(ran.code == 1 && ran.out.contains("nothing written: no plan of what the input has named is in the store "), "{ran:?}");
    }
    assert_eq!(std::fs::read_to_string(scratch.path("3.hpbundle")).expect("read"), "as it was");
    let left = std::fs::read_dir(scratch.path("")).expect("a folder").map(|entry| entry.expect("an entry").file_name());
    assert!(left.into_iter().all(|name| !name.to_string_lossy().starts_with('.') && name != "5.hpbundle.zst"), "nothing is left behind");
    std::fs::create_dir(scratch.path("empty")).expect("a folder");
    hipplan::Store::open(scratch.path("empty"), hipplan::Mode::ReadWrite).expect("a store");
    let ran = scratch.run(&["bundle", "export", "--store", "empty", "-o", "3.hpbundle"]);
    assert!(ran.code == 1 && ran.out.contains("has none that something leads to"), "{ran:?}");

    // What has no plan is told.
    let lacking = scratch.write("lacking.json", scalar_graph(r#", "value_type": "Float32Value", "value": 2.0"#));
    scratch.write("bad.json", "{}");
    let (code, some) = export(&["4.hpbundle", text(&lacking), "bad.json", &other, "ffffffffffff"]);
    assert_eq!((code, &some["entries"]["plans"]), (1, &Value::from(1)), "{some:#}");
    assert_eq!(some["without_plan"].as_array().map(Vec::len), Some(2), "{some:#}");
    assert_eq!(some["invalid"].as_array().map(Vec::len), Some(1), "{some:#}");

    // Two halves make the whole, whatever their order; it is taken in, and exported again.
    let (_, all) = export(&["all.hpbundle"]);
    for inputs in [["1.hpbundle", "4.hpbundle"], ["4.hpbundle", "1.hpbundle"]] {
        let (code, merged) = scratch.json(&["bundle", "merge", "-o", "m.hpbundle.zst", inputs[0], inputs[1], "--compress"]);
        assert_eq!((code, &merged["root"]), (0, &all["root"]), "{merged:#}");
    }
    let (code, taken) = scratch.json(&["bundle", "import", "m.hpbundle.zst", "--store", "copy"]);
    assert_eq!((code, &taken["bundles"][0]["new"]["plans"]), (0, &Value::from(2)), "{taken:#}");
    let (code, again) = scratch.json(&["bundle", "export", "-o", "again.hpbundle", "--store", "copy"]);
    assert_eq!((code, &again["root"]), (0, &all["root"]));
    assert_eq!(scratch.run(&["run", &graph, "--store", "copy", "--check"]).code, 0);
    let ran = scratch.run(&["bundle", "import", "m.hpbundle.zst", "--store", "third", "--unpack-limit", "1kB"]);
    assert!(ran.code == 2 && ran.err.contains("--unpack-limit") && ran.err.contains("1000"), "{ran:?}");
    let ran = scratch.run(&["bundle", "inspect", "m.hpbundle.zst", "--unpack-limit", "much"]);
    assert!(ran.code == 2 && ran.err.contains("expected a whole number of bytes"), "{ran:?}");
    assert_eq!(scratch.run(&["bundle", "inspect", "m.hpbundle.zst", "--unpack-limit", "1GiB"]).code, 0);
    // It is unwrapped among temporary files, wherever those are.
    let run = |command: &str, tmp: &str| {
        Ran::of(&scratch.hipplan(&["bundle", command, "m.hpbundle.zst"]).env("TMPDIR", scratch.path(tmp)).output().expect("started"))
    };
    for command in ["inspect", "verify"] {
        assert_eq!(run(command, "empty").code, 0);
        let ran = run(command, "no-such-folder");
        assert!(ran.code == 2 && ran.err.contains("no-such-folder"), "{ran:?}");
    }
    let ran = scratch.run(&["ls", "--layer", "m.hpbundle.zst", "--store", "copy"]);
    assert_eq!(ran.code, 2, "never served: {ran:?}");
}

#[test]
fn an_output_that_was_named_by_mistake_is_not_overwritten() {
    let scratch = Scratch::new();
    let [graph, _] = filled(&scratch);
    let text = std::fs::read_to_string(graph).expect("a graph");
    scratch.write("graph.json", &text);
    scratch.write("folder/graph.json", &text);
    let marker = std::fs::read(scratch.path("origin/hipplan-store")).expect("read");
    let export = |args: &[&str]| scratch.run(&[&["bundle", "export", "--store", "origin", "-o"], args].concat());
    // Its own input, by whatever name.
    for (output, input) in [("graph.json", "graph.json"), ("graph.json", "./graph.json"), ("folder/graph.json", "folder")] {
        let ran = export(&[output, input]);
        assert!(ran.code == 2 && ran.err.contains("is the same file as the input"), "{ran:?}");
        assert!(ran.err.contains(&format!("the output {output}")) && ran.err.contains(&format!("the input {input}")), "{ran:?}");
    }
    // Something else that is no bundle.
    for args in [&["graph.json"][..], &["origin/hipplan-store"], &["graph.json", "--compress"]] {
        let ran = export(args);
        assert!(ran.code == 2 && ran.err.contains("a file that is no bundle") && ran.err.contains("only a bundle is replaced"), "{ran:?}");
    }
    assert_eq!(std::fs::read_to_string(scratch.path("graph.json")).expect("read"), text);
    assert_eq!(std::fs::read_to_string(scratch.path("folder/graph.json")).expect("read"), text);
    assert_eq!(std::fs::read(scratch.path("origin/hipplan-store")).expect("read"), marker);
    for file in ["b.hpbundle", "b.hpbundle.zst"] {
        for compress in [None, Some("--compress")] {
            let args: Vec<&str> = [file].into_iter().chain(compress).collect();
            let ran = export(&args);
            assert_eq!(ran.code, 0, "{ran:?}");
        }
    }
}

#[test]
fn one_bad_file_does_not_hide_what_is_said_of_the_others() {
    let scratch = Scratch::new();
    filled(&scratch);
    assert_eq!(scratch.run(&["bundle", "export", "-o", "good.hpbundle", "--store", "origin"]).code, 0);
    let mut bytes = std::fs::read(scratch.path("good.hpbundle")).expect("read");
    let at = bytes.len() - 100;
    bytes[at] ^= 1;
    scratch.write("entry.hpbundle", &bytes);
    bytes[100] ^= 1;
    scratch.write("header.hpbundle", &bytes);
    scratch.write("random.hpbundle", [0x5a_u8; 4096]);
    scratch.write("empty.hpbundle", "");
    let bad = ["missing.hpbundle", "header.hpbundle", "random.hpbundle", "empty.hpbundle"];

    // Each is told of, and the rest is checked.
    let args = [&["bundle", "verify"][..], &bad[..2], &["entry.hpbundle"], &bad[2..], &["good.hpbundle"]].concat();
    let ran = scratch.run(&args);
    assert_eq!((ran.code, ran.err.lines().count()), (2, 4), "{ran:?}");
    assert!(bad.iter().all(|name| ran.err.contains(name)), "{ran:?}");
    assert!(ran.out.contains("not good") && ran.out.contains("all good"), "{ran:?}");
    // What is no bundle at all has nothing good in it.
    for name in bad {
        let ran = scratch.run(&["bundle", "verify", name]);
        let is_found = ran.err.contains("what is good in it is found");
        assert_eq!((ran.code, is_found), (2, name == "header.hpbundle"), "{ran:?}");
        assert!(ran.err.contains("; name a bundle") == matches!(name, "random.hpbundle" | "empty.hpbundle"), "{ran:?}");
    }
    let (code, report) = scratch.json(&args);
    let rows = report["bundles"].as_array().expect("rows");
    let errors: Vec<bool> = rows.iter().map(|row| row["error"].is_string()).collect();
    assert_eq!((code, &errors[..]), (2, &[true, true, false, true, true, false][..]), "{report:#}");
    assert_eq!(scratch.run(&["bundle", "verify", "entry.hpbundle", "good.hpbundle"]).code, 1);

    // What was done before is told.
    let (code, taken) = scratch.json(&["bundle", "import", "good.hpbundle", "random.hpbundle", "--store", "copy"]);
    assert_eq!((code, taken["bundles"].as_array().map(Vec::len)), (2, Some(1)), "{taken:#}");
    assert_eq!(taken["bundles"][0]["new"]["plans"], 2, "{taken:#}");
    assert_eq!(scratch.run(&["bundle", "keygen", "key"]).code, 0);
    let (code, signed) = scratch.json(&["bundle", "sign", "good.hpbundle", "random.hpbundle", "--key", "key"]);
    assert_eq!((code, signed["bundles"].as_array().map(Vec::len)), (2, Some(1)), "{signed:#}");
}

#[test]
fn what_is_not_signed_as_it_must_be_is_not_read() {
    let scratch = Scratch::new();
    let [graph, _] = filled(&scratch);
    assert_eq!(scratch.run(&["bundle", "export", "-o", "b.hpbundle", "--store", "origin"]).code, 0);
    let bundle = scratch.path("b.hpbundle");
    let ran = scratch.run(&["bundle", "keygen", "key"]);
    assert!(ran.code == 0 && ran.out.starts_with("hipplan-public:"), "{ran:?}");
    assert_eq!(std::fs::read_to_string(scratch.path("key.pub")).expect("read"), ran.out);
    assert_eq!(scratch.run(&["bundle", "keygen", "key"]).code, 2, "not overwritten");
    assert_eq!(scratch.run(&["bundle", "keygen", "other"]).code, 0);

    let keys: PathBuf = scratch.path("key.pub");
    let run = |policy: &str, keys: &Path| {
        let variables = [("HIPPLAN_SIGNATURES", Path::new(policy)), ("HIPPLAN_TRUSTED_KEYS", keys)];
        bare(&scratch, &["run", &graph, "--store", "none", "--layer", text(&bundle)], &variables)
    };
    let ran = run("require", &keys);
    assert!(ran.code == 2 && ran.err.contains("no signature") && ran.err.contains("hipplan bundle sign"), "{ran:?}");
    let ran = run("warn", &keys);
    assert!(ran.code == 0 && ran.err.contains("unsigned"), "{ran:?}");
    let ran = scratch.run(&["bundle", "verify", "b.hpbundle", "--trusted", "key.pub"]);
    assert!(ran.code == 1 && ran.out.contains("there is none"), "{ran:?}");
    assert_eq!(scratch.run(&["bundle", "sign", "b.hpbundle", "--key", "key.pub"]).code, 2, "not a secret key");
    assert_eq!(scratch.run(&["bundle", "sign", "b.hpbundle", "--key", "other"]).code, 0);
    let ran = run("require", &keys);
    assert!(ran.code == 2 && ran.err.contains("not trusted"), "{ran:?}");
    assert_eq!(scratch.run(&["bundle", "sign", "b.hpbundle", "--key", "key"]).code, 0);
    let ran = run("require", &keys);
    assert!(ran.code == 0 && ran.err.is_empty(), "{ran:?}");
    assert_eq!(scratch.run(&["bundle", "verify", "b.hpbundle", "--trusted", "key.pub"]).code, 0);
    let (code, facts) = scratch.json(&["bundle", "inspect", "b.hpbundle"]);
    assert_eq!((code, facts["signatures"].as_array().map(Vec::len)), (0, Some(2)), "{facts:#}");
    // A policy that is not understood is not one that was not set.
    for (policy, keys) in [("Require", &*keys), ("require", Path::new("/no/such/keys")), ("require", &bundle)] {
        let ran = run(policy, keys);
        assert!(ran.code == 2 && ran.err.contains("HIPPLAN_"), "{ran:?}");
    }

    // A byte of an entry is changed: that entry is bad, the signature is not.
    let mut bytes = std::fs::read(&bundle).expect("read");
    let at = bytes.len() - 256 - 100;
    bytes[at] ^= 1;
    std::fs::write(&bundle, bytes).expect("written");
    let (code, report) = scratch.json(&["bundle", "verify", "b.hpbundle", "--trusted", "key.pub"]);
    let row = &report["bundles"][0];
    assert_eq!((code, &row["signature_problem"], row["problems"].as_array().map(Vec::len)), (1, &Value::Null, Some(1)), "{report:#}");
}

#[test]
fn a_signed_bundle_stands_beside_an_unsigned_layer() {
    let scratch = Scratch::new();
    let [graph, other] = filled(&scratch);
    for (name, graph) in [("site", &graph), ("mine", &other)] {
        assert_eq!(scratch.run(&["bundle", "export", "-o", &format!("{name}.hpbundle"), "--store", "origin", graph]).code, 0);
    }
    assert_eq!(scratch.run(&["compile", &other, "--store", "folder"]).code, 0);
    assert_eq!(scratch.run(&["bundle", "keygen", "key"]).code, 0);
    assert_eq!(scratch.run(&["bundle", "sign", "site.hpbundle", "--key", "key"]).code, 0);
    let run = |graph: &str, layers: &[&str], variables: &[(&str, &str)]| {
        let layers = layers.iter().flat_map(|layer| ["--layer", layer]);
        let args: Vec<&str> = ["run", graph, "--store", "none"].into_iter().chain(layers).collect();
        Ran::of(&scratch.hipplan(&args).envs(variables.iter().copied()).output().expect("started"))
    };
    let (keys, required) = (("HIPPLAN_TRUSTED_KEYS", "key.pub"), ("HIPPLAN_SIGNATURES", "require"));
    for mine in ["mine.hpbundle", "folder"] {
        let off = format!("off={mine}");
        for graph in [&graph, &other] {
            // A policy for the one, and none for all; a policy for all, and none for the other.
            for (layers, variables) in [
                (["require=site.hpbundle", mine], &[keys][..]),
                (["site.hpbundle", &off], &[keys, required]),
                (["warn=site.hpbundle", mine], &[keys]),
            ] {
                let ran = run(graph, &layers, variables);
                assert!(ran.code == 0 && ran.err.is_empty(), "{layers:?} {ran:?}");
                let list = layers.join(":");
                let ran = run(graph, &[], &[variables, &[("HIPPLAN_LAYERS", &list)]].concat());
                assert!(ran.code == 0 && ran.err.is_empty(), "{list} {ran:?}");
            }
        }
    }
    // Without that the one is in the way of the other.
    let ran = run(&graph, &["site.hpbundle", "mine.hpbundle"], &[keys, required]);
    assert!(ran.code == 2 && ran.err.contains("mine.hpbundle") && ran.err.contains("no signature"), "{ran:?}");
    assert_eq!(run(&other, &["site.hpbundle", "folder"], &[keys, required]).code, 2, "an unsigned folder has nothing");
    // What is named as one that must be signed is not read where it is not, or where nobody is trusted.
    let ran = run(&other, &["require=mine.hpbundle"], &[keys]);
    assert!(ran.code == 2 && ran.err.contains("mine.hpbundle") && ran.err.contains("no signature"), "{ran:?}");
    let ran = run(&graph, &["require=site.hpbundle"], &[]);
    assert!(ran.code == 2 && ran.err.contains("\"require\"") && ran.err.contains("HIPPLAN_TRUSTED_KEYS"), "{ran:?}");
    // A path that begins so.
    std::fs::rename(scratch.path("mine.hpbundle"), scratch.path("require=mine.hpbundle")).expect("renamed");
    assert_eq!(run(&other, &["./require=mine.hpbundle"], &[]).code, 0);
    let doctor = Ran::of(&scratch.hipplan(&["doctor", "--layer", "require=site.hpbundle"]).env(keys.0, keys.1).output().expect("started"));
    assert!(doctor.out.contains("site.hpbundle, signatures require"), "{doctor:?}");
}
