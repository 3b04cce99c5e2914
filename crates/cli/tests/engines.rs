//! Engines and plugins as a person meets them: what is offered and why not, which one compiles, plans of plugins, one process alone.

mod common;

use common::{Scratch, scalar_graph};
use hipplan_engine_testing::Plugins;
use serde_json::{Value, json};
use std::path::PathBuf;

/// A test plugin in C of this name.
fn plugin(name: &str, switches: &[&str]) -> PathBuf {
    let name_switch = format!("PLUGIN_NAME=\"{name}\"");
    let all: Vec<&str> = switches.iter().copied().chain([name_switch.as_str()]).collect();
    Plugins::build(name, &all).unwrap_or_else(|e| panic!("{e}"))
}

fn host(path: &std::path::Path) -> String {
    format!("host:{}", path.display())
}

/// `y = alpha * x`, alpha a runtime scalar with the default 2, as a file.
fn with_default(scratch: &Scratch) {
    scratch.write("default.json", scalar_graph(r#", "value_type": "Float32Value", "value": 2.0, "is_runtime_pass_by_value": true"#));
}

#[test]
fn engines_says_what_each_provider_offers_and_why_not() {
    let scratch = Scratch::new();
    with_default(&scratch);
    let (good, old) = (host(&plugin("good", &[])), host(&plugin("old", &["API_VERSION=\"1.1.0\"", "ENGINE_NAMES={\"OLD\"}"])));
    let absurd = host(&plugin("absurd", &["API_VERSION=\"1.99999.0\"", "ENGINE_NAMES={\"ABSURD\"}"]));
    let (code, told) = scratch.json(&["engines", "default.json", "--plugin", &good, "--plugin", &old, "--plugin", &absurd, "--quiet"]);
    assert_eq!(code, 0);
    assert_eq!(told["api_floor"], "1.2.0");
    let providers = told["providers"].as_array().expect("providers");
    let names: Vec<&str> = providers.iter().filter_map(|p| p["provider"].as_str()).collect();
    assert_eq!(names, ["cpu", "hip", "good", "old"], "in order of preference");
    let by = |name: &str| providers.iter().find(|p| p["provider"] == name).expect("listed");
    assert_eq!(by("cpu")["engines"][0]["engine"], "HIPPLAN_CPU");
    assert!(by("hip")["reason"].as_str().expect("a reason").contains("not for cpu"));
    assert_eq!(by("good")["engines"][0]["engine"], "HIPPLAN_TEST_ENGINE");
    assert_eq!(by("good")["engines"][0]["persists"], true);
    assert!(!by("good")["engines"][0]["knobs"].as_array().expect("knobs").is_empty());
    assert!(by("old")["reason"].as_str().expect("a reason").contains("needs engine API 1.2.0, the provider speaks 1.1.0"));
    let unusable = told["unusable"].as_array().expect("a list");
    assert!(unusable.len() == 1 && unusable[0]["reason"].as_str().expect("a reason").contains("1.99999.0"), "{unusable:?}");

    let ran = scratch.run(&["engines", "default.json", "--plugin", &good, "--plugin", &old]);
    assert!(ran.code == 0 && ran.out.contains("HIPPLAN_TEST_ENGINE") && ran.out.contains("the provider speaks 1.1.0"), "{ran:?}");
    // Without a graph: who is there, and who is not.
    let ran = scratch.run(&["engines", "--plugin", &good, "--plugin", "host:/no/such/plugin.so"]);
    assert!(ran.code == 0 && ran.out.contains("hipDNN plugin") && ran.out.contains("not in use: /no/such/plugin.so"), "{ran:?}");
    // Nobody takes it.
    let ran = scratch.run(&["engines", "default.json", "--target", "gfx942", "--plugin", &good]);
    assert!(ran.out.contains("plugins compile for a device that is present"), "{ran:?}");
}

#[test]
fn a_plugins_plan_is_compiled_kept_and_executed_by_another_process() {
    let scratch = Scratch::new();
    with_default(&scratch);
    let good = host(&plugin("good", &[]));
    let with = ["--store", "s", "--plugin", &good, "--engine", "HIPPLAN_TEST_ENGINE"];
    let ran = scratch.run(&[&["compile", "default.json"][..], &with].concat());
    assert_eq!(ran.code, 0, "{ran:?}");
    let (code, ran) = scratch.json(&[&["run", "default.json", "--check"][..], &with].concat());
    assert!(code == 0 && ran["provider"] == "good" && ran["check"]["passed"] == true, "{ran}");
    // The plugin takes the caller's value in place of the default.
    let (code, ran) = scratch.json(&[&["run", "default.json", "--override", "alpha=-3", "--check"][..], &with].concat());
    assert!(code == 0 && ran["check"]["passed"] == true, "{ran}");

    // Without it, the plan is there and of no use, and the message says whose it is.
    let ran = scratch.run(&["run", "default.json", "--store", "s", "--engine", "HIPPLAN_TEST_ENGINE"]);
    assert!(ran.code == 2 && ran.err.contains("good") && ran.err.contains("HIPPLAN_TEST_ENGINE"), "{ran:?}");
    // An older build of it is not given the plan; both versions are named.
    let newer = host(&plugin("good", &["PLUGIN_VERSION=\"1.4.0\""]));
    let older = host(&plugin("good", &["PLUGIN_VERSION=\"1.3.9\""]));
    let ran = scratch.run(&["compile", "default.json", "--store", "t", "--plugin", &newer, "--engine", "HIPPLAN_TEST_ENGINE"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let ran = scratch.run(&["run", "default.json", "--store", "t", "--plugin", &older, "--engine", "HIPPLAN_TEST_ENGINE"]);
    assert!(ran.code == 2 && ran.err.contains("1.4.0") && ran.err.contains("1.3.9"), "{ran:?}");
    // The environment names plugins too.
    let output = scratch
        .hipplan(&["run", "default.json", "--store", "s", "--engine", "HIPPLAN_TEST_ENGINE", "--check"])
        .env("HIPPLAN_PLUGINS", &good)
        .output()
        .expect("started");
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn an_engine_that_cannot_persist_runs_in_one_process() {
    let scratch = Scratch::new();
    with_default(&scratch);
    let forgetful = host(&plugin("forgetful", &["HOOKS=HOOKS_NONE"]));
    let with = ["--plugin", &forgetful, "--provider", "forgetful"];
    let ran = scratch.run(&[&["compile", "default.json", "--store", "s"][..], &with].concat());
    assert!(
        ran.code == 3 && ran.out.contains("provider cannot persist") && ran.out.contains("cpu: provider forgetful was asked for"),
        "{ran:?}"
    );
    let (code, ran) = scratch.json(&[&["run", "default.json", "--in-process", "--check"][..], &with].concat());
    assert!(code == 0 && ran["ready_by"] == "compiled" && ran["check"]["passed"] == true, "{ran}");
    let ran = scratch.run(&["run", "default.json", "--in-process", "--engine", "NO_SUCH"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    // Where another engine can, a store takes that one.
    let ran = scratch.run(&["compile", "default.json", "--store", "s", "--plugin", &forgetful]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let ran = scratch.run(&["run", "00ff00ff00ff", "--in-process"]);
    assert!(ran.code == 2 && ran.err.contains("is a key"), "{ran:?}");
}

/// A plugin that reads another payload format than it wrote, a plan that is damaged where only the graph stands: there are others.
#[test]
fn what_cannot_be_used_is_compiled_again_and_passed_over() {
    let scratch = Scratch::new();
    with_default(&scratch);
    let [old, new] = ["1", "2"].map(|format| host(&plugin("formats", &[&format!("PAYLOAD_VERSION={format}")])));
    let compile = |plugin: &str| {
        let (code, told) = scratch.json(&["compile", "default.json", "--store", "s", "--plugin", plugin, "--provider", "formats"]);
        assert_eq!(code, 0, "{told}");
        told["rows"][0]["outcome"].clone()
    };
    let outcomes = [compile(&old), compile(&old), compile(&new), compile(&new)];
    assert_eq!(outcomes, ["compiled", "present", "compiled", "present"].map(Value::from));
    let provider = |plugin: &str, more: &[&str]| {
        let (code, ran) = scratch.json(&[&["run", "default.json", "--store", "s", "--plugin", plugin][..], more].concat());
        assert_eq!(code, 0, "{ran}");
        ran["provider"].clone()
    };
    assert_eq!(provider(&new, &["--provider", "formats"]), "formats");
    assert_eq!(scratch.run(&["compile", "default.json", "--store", "s"]).code, 0);
    assert_eq!(provider(&old, &[]), "cpu");

    // The canonical graph of the cpu plan: a lookup goes on to the plan of the plugin.
    let plans = common::tree(&scratch.path("s/plans"));
    for (path, mut bytes) in plans {
        if bytes.windows(11).any(|w| w == b"HIPPLAN_CPU") {
            let at = bytes.windows(7).position(|w| w == b"HPCANON").expect("an encoding") + 20;
            bytes[at] ^= 1;
            std::fs::write(scratch.path("s/plans").join(path), bytes).expect("written");
        }
    }
    assert_eq!(provider(&new, &[]), "formats");
}

#[test]
fn files_that_are_no_plugins_end_nothing() {
    let scratch = Scratch::new();
    with_default(&scratch);
    let whole = std::fs::read(plugin("good", &[])).expect("a library");
    for (name, len) in [("a.so", whole.len()), ("b.so", 8192), ("c.so", 100), ("d.so", 0)] {
        scratch.write(&format!("folder/{name}"), &whole[..len]);
    }
    scratch.write("folder/e.so", "no library");
    let (code, told) = scratch.json(&["engines", "default.json", "--plugin", "host:folder", "--quiet"]);
    assert!(code == 0 && told["providers"].as_array().is_some_and(|p| p.len() == 3), "{told}");
    let unusable = told["unusable"].as_array().expect("a list");
    assert_eq!(unusable.len(), 4, "{unusable:?}");
    assert!(unusable.iter().filter(|u| u["reason"].as_str().is_some_and(|r| r.contains("cut off"))).count() >= 1, "{unusable:?}");
    let pipe = scratch.path("pipe.so");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo");
    assert!(made.success());
    let ran = scratch.run(&["engines", "--plugin", &host(&pipe)]);
    assert!(ran.code == 0 && ran.out.contains("no regular file"), "{ran:?}");
    let cpu = host(&plugin("cpu", &[]));
    let ran = scratch.run(&["engines", "--plugin", &cpu]);
    assert!(ran.out.contains("calls itself cpu"), "{ran:?}");
}

/// Loading a plugin that was built for speed leaves the arithmetic of other engines alone.
#[test]
fn a_plugin_does_not_change_how_others_compute() {
    let scratch = Scratch::new();
    scratch.write("plain.json", scalar_graph(r#", "value_type": "Float32Value", "value": 1.0"#));
    assert_eq!(scratch.run(&["compile", "plain.json", "--store", "s"]).code, 0);
    // A denormal number.
    let mut npy = b"\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }".to_vec();
    npy.resize(127, b' ');
    npy.push(b'\n');
    npy.extend([1e-40_f32; 4].iter().flat_map(|x| x.to_le_bytes()));
    scratch.write("x.npy", npy);
    let source = scratch.write("fast.c", "static void __attribute__((constructor)) fast(void) { __builtin_ia32_ldmxcsr(0x9fc0); }");
    let library = scratch.path("fast.so");
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    let built = std::process::Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status().expect("cc");
    assert!(built.success());
    let output = |more: &[&str]| {
        let ran = scratch.run(&[&["run", "plain.json", "--store", "s", "--input", "x=x.npy", "-o", "out"][..], more].concat());
        assert_eq!(ran.code, 0, "{ran:?}");
        common::tree(&scratch.path("out"))
    };
    let without = output(&[]);
    assert!(without.values().all(|bytes| bytes.ends_with(&1e-40_f32.to_le_bytes())));
    assert_eq!(output(&["--plugin", &host(&library)]), without);
}

#[test]
fn knobs_are_checked_and_part_of_the_plan() {
    let scratch = Scratch::new();
    with_default(&scratch);
    let good = host(&plugin("good", &[]));
    let (_, told) = scratch.json(&["engines", "default.json", "--plugin", &good]);
    let knobs = told["providers"][2]["engines"][0]["knobs"].as_array().expect("knobs").clone();
    let knob = knobs.iter().find(|k| k["default"].as_str().is_some_and(|d| d.parse::<i64>().is_ok())).expect("an integer knob");
    let (id, default) = (knob["id"].as_str().expect("an id"), knob["default"].as_str().expect("a default"));
    let with = ["--store", "s", "--plugin", &good, "--engine", "HIPPLAN_TEST_ENGINE"];
    let setting = format!("{id}={default}");
    let compile = |more: &[&str]| scratch.json(&[&["compile", "default.json"][..], &with, more].concat());
    let (_, plain) = compile(&[]);
    let (code, set) = compile(&["--knob", &setting]);
    assert_eq!((code, plain["rows"][0]["outcome"].clone(), set["rows"][0]["outcome"].clone()), (0, json!("compiled"), json!("compiled")));
    assert_ne!(plain["rows"][0]["plan_key"], set["rows"][0]["plan_key"]);
    for bad in [format!("{id}=x"), format!("{id}=99999999999999999999"), "no.such.knob=1".to_owned()] {
        let (code, report) = compile(&["--knob", &bad]);
        let detail = report["rows"][0]["detail"].as_str().unwrap_or_default();
        assert!(code == 3 && detail.contains(bad.split('=').next().expect("an id")), "{report}");
    }
    let ran = scratch.run(&["compile", "default.json", "--store", "s", "--knob", "nothing"]);
    assert!(ran.code == 2 && ran.err.contains("expected ID=VALUE"), "{ran:?}");
    // What is looked for is what was compiled with the setting.
    let run = [&["run", "default.json"][..], &with, &["--knob", &setting]].concat();
    let (code, ran) = scratch.json(&run);
    assert!(code == 0 && ran["plan_key"] == set["rows"][0]["plan_key"], "{ran}");
}

#[test]
fn the_engine_that_a_graph_prefers_is_taken() {
    let scratch = Scratch::new();
    let text = scalar_graph(r#", "value_type": "Float32Value", "value": 2.0"#);
    let mut graph: Value = serde_json::from_str(&text).expect("JSON");
    scratch.write("plain.json", &text);
    graph["preferred_engine_id"] = hipplan::engine_id("HIPPLAN_TEST_ENGINE").into();
    scratch.write("prefers.json", graph.to_string());
    let good = host(&plugin("good", &[]));
    let (_, told) = scratch.json(&["compile", "plain.json", "prefers.json", "--store", "s", "--plugin", &good]);
    assert_eq!(told["rows"][0]["graph_key"], told["rows"][1]["graph_key"], "a preference is no part of the key");
    let provider = |graph: &str, more: &[&str]| scratch.json(&[&["run", graph, "--store", "s"][..], more].concat()).1["provider"].clone();
    assert_eq!(provider("plain.json", &["--plugin", &good]), "cpu");
    assert_eq!(provider("prefers.json", &["--plugin", &good]), "good");
    // A preference is no condition: another plan of the graph does.
    assert_eq!(provider("prefers.json", &[]), "cpu");

    // One that nobody meets is not taken for met: it is when the engine is there.
    let compile =
        |more: &[&str]| scratch.json(&[&["compile", "prefers.json", "--store", "t"][..], more].concat()).1["rows"][0]["outcome"].clone();
    assert_eq!([compile(&[]), compile(&[]), compile(&["--plugin", &good])], ["compiled", "present", "compiled"]);
    let run = |what: &str, more: &[&str]| scratch.json(&[&["run", what, "--store", "t"][..], more].concat()).1["provider"].clone();
    assert_eq!(run("prefers.json", &["--plugin", &good]), "good");
    // What was compiled for a preference is found without one, where nothing else was compiled.
    scratch.json(&["compile", "prefers.json", "--store", "u", "--plugin", &good]);
    let key = told["rows"][0]["graph_key"].as_str().expect("a key");
    for what in ["plain.json", key] {
        let (code, ran) = scratch.json(&["run", what, "--store", "u", "--plugin", &good]);
        assert!(code == 0 && ran["provider"] == "good", "{ran}");
    }
    // And by key, an engine that is asked for is the one that executes, or none.
    assert_eq!(run(key, &["--plugin", &good, "--engine", "HIPPLAN_TEST_ENGINE"]), "good");
    assert_eq!(run(key, &["--plugin", &good, "--engine", "HIPPLAN_CPU"]), "cpu");
    let ran = scratch.run(&["run", key, "--store", "u", "--plugin", &good, "--engine", "HIPPLAN_CPU"]);
    assert_eq!(ran.code, 2, "{ran:?}");
}

#[test]
fn execute_time_shapes_are_smaller_than_the_graphs() {
    let scratch = Scratch::new();
    let mut graph: Value = serde_json::from_str(&scalar_graph(r#", "value_type": "Float32Value", "value": 2.0"#)).expect("JSON");
    let fixed = graph.to_string();
    graph["is_override_shape_enabled"] = true.into();
    scratch.write("shapes.json", graph.to_string());
    scratch.write("fixed.json", fixed);
    let good = host(&plugin("good", &["API_VERSION=\"1.1.0\""]));
    for with in [&[][..], &["--plugin", good.as_str(), "--engine", "HIPPLAN_TEST_ENGINE"]] {
        let ran = scratch.run(&[&["compile", "shapes.json", "fixed.json", "--store", "s"][..], with].concat());
        assert_eq!(ran.code, 0, "{ran:?}");
        let run = |graph: &'static str, shapes: &[&'static str]| {
            let shapes: Vec<&str> = shapes.iter().flat_map(|shape| ["--shape", shape]).collect();
            scratch.run(&[&["run", graph, "--store", "s", "--check"][..], with, &shapes].concat())
        };
        let ran = run("shapes.json", &["x=2", "y=2"]);
        assert!(ran.code == 0 && !ran.out.contains("FAILED"), "{ran:?}");
        for (shapes, says) in
            [(&["x=2"][..], "shape"), (&["x=5", "y=5"], "5"), (&["x=0", "y=0"], "0"), (&["x=2,2"], "dims"), (&["x=a"], "expected dims")]
        {
            let ran = run("shapes.json", shapes);
            assert!(ran.code == 2 && ran.err.contains(says), "{shapes:?}: {ran:?}");
        }
        let ran = run("fixed.json", &["x=2", "y=2"]);
        assert!(ran.code == 2 && ran.err.contains("is_override_shape_enabled"), "{ran:?}");
    }
}
