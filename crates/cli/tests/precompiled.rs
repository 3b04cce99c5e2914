//! What a store has for a graph or a run, through the real command: `run --require-precompiled`, `why`, `coverage`.

mod common;

use common::{Lacks, Scratch, corpus, put_plan_for, tree};
use serde_json::{Value, json};

#[test]
fn a_required_plan_runs_or_says_by_its_code_what_is_the_matter() {
    let scratch = Scratch::new();
    let lacks = Lacks::new(&scratch);
    let before = tree(&scratch.path("s"));
    let run = |what: &str| scratch.run(&["run", what, "--store", "s", "--require-precompiled"]);
    let ran = run("good.json");
    assert!(ran.code == 0 && ran.out.contains("store: 1 hit\n"), "{ran:?}");
    let (code, ran) = scratch.json(&["run", "good.json", "--store", "s", "--require-precompiled", "--check"]);
    assert_eq!((code, &ran["counters"]["hits"], &ran["counters"]["compiled"]), (0, &json!(1), &json!(0)));
    for (word, file, exit) in Lacks::ALL {
        let ran = run(file);
        assert!(
            ran.code == exit && ran.err.contains(&format!("is not precompiled in the store {}: {word}: ", scratch.path("s").display())),
            "{ran:?}"
        );
        // By key, in full and by its beginning: a plan that cannot be opened has no key.
        let key = lacks.key(file);
        let ran = run(&key);
        assert!(ran.code == exit && ran.err.contains(&format!(": {word}: ")), "{file}: {ran:?}");
        let ran = run(&key[..12]);
        let expected = if word == "unreadable" { 4 } else { exit };
        assert_eq!(ran.code, expected, "{file}: {ran:?}");
        // Without the flag, it is not done, as ever.
        assert_eq!(scratch.run(&["run", file, "--store", "s"]).code, 2, "{file}");
    }
    assert_eq!(run(&lacks.key("good.json")).code, 0);
    assert_eq!(run("no-such-file.json").code, 2);
    let ran = scratch.run(&["run", "good.json", "--store", "s", "--require-precompiled", "--in-process"]);
    assert!(ran.code == 2 && ran.err.contains("--in-process"), "{ran:?}");
    assert_eq!(tree(&scratch.path("s")), before, "nothing is written");
}

#[test]
fn why_tells_hits_and_misses_apart() {
    let scratch = Scratch::new();
    let lacks = Lacks::new(&scratch);
    let before = tree(&scratch.path("s"));
    let (code, told) = scratch.json(&["why", "good.json", "--store", "s"]);
    assert_eq!((code, &told["outcome"], &told["nearest"]), (0, &json!("hit"), &Value::Null));
    assert_eq!((&told["graph_key"], &told["plan"]["graph_key"]), (&json!(lacks.key("good.json")), &json!(lacks.key("good.json"))));
    assert_eq!(
        (&told["plan"]["target"], &told["plan"]["engine"], &told["counters"]["hits"]),
        (&json!("cpu"), &json!("HIPPLAN_CPU"), &json!(1))
    );
    let ran = scratch.run(&["why", &lacks.key("good.json")[..12], "--store", "s"]);
    assert!(ran.code == 0 && ran.out.starts_with("hit: plan "), "by key: {ran:?}");
    for (word, file, exit) in Lacks::ALL {
        let (code, told) = scratch.json(&["why", file, "--store", "s"]);
        assert_eq!((code, &told["outcome"], &told["plan"]), (exit, &json!(word), &Value::Null));
        assert_eq!(told["compiling_here"]["engine"], "HIPPLAN_CPU");
        let ran = scratch.run(&["why", file, "--store", "s"]);
        assert!(ran.code == exit && ran.out.starts_with(&format!("{word}: ")) && ran.out.contains("nearest entry: "), "{ran:?}");
    }
    let differences = |file: &str| {
        let (_, told) = scratch.json(&["why", file, "--store", "s"]);
        assert_eq!(told["nearest_is_exact"], true, "{told}");
        told["nearest"]["differences"].clone()
    };
    assert_eq!(differences("other.json"), json!([{ "where": "request", "field": "target", "here": "cpu", "in_store": "gfx942" }]));
    let stale = differences("stale.json");
    assert_eq!((&stale[0]["where"], &stale[0]["field"], stale.as_array().map(Vec::len)), (&json!("plan"), &json!("loader"), Some(1)));
    assert!(stale[0]["here"].as_str().expect("text").contains("too new"), "{stale}");
    // Two fields of the graph: the dims of both tensors, in the terms of the file.
    let missing = differences("missing.json");
    let field = |place: &str| json!({ "where": place, "field": "dims[0]", "here": "9", "in_store": "4" });
    assert_eq!(missing, json!([field("tensor 0 \"x\" (uid 5)"), field("tensor 2 \"y\" (uid 7)")]));
    // An engine that nobody has.
    let (code, told) = scratch.json(&["why", "good.json", "--store", "s", "--engine", "MINE"]);
    assert_eq!((code, &told["outcome"], &told["compiling_here"]), (4, &json!("missing"), &Value::Null));
    assert_eq!(
        told["nearest"]["differences"],
        json!([{ "where": "request", "field": "engine", "here": "MINE", "in_store": "HIPPLAN_CPU" }])
    );
    // A named target is looked up as a device that reports it would be.
    let (code, told) = scratch.json(&["why", "other.json", "--store", "s", "--target", "gfx942:sramecc+:xnack-"]);
    assert_eq!(told["targets"], json!(["gfx942:sramecc+:xnack-", "gfx942", "gfx9-4-generic:sramecc+:xnack-", "gfx9-4-generic"]));
    assert_eq!((code, &told["outcome"], &told["plan"]["target"]), (0, &json!("hit"), &json!("gfx942")));
    assert_eq!(tree(&scratch.path("s")), before, "nothing is written");
    // Bounds are kept, and said.
    let (code, told) = scratch.json(&["why", "missing.json", "--store", "s", "--most", "0"]);
    assert_eq!((code, &told["looked_at"], &told["nearest_is_exact"], &told["nearest"]), (4, &json!(0), &json!(false), &Value::Null));
    scratch.write("bad.json", "{}");
    for args in [["why", "bad.json", "--store", "s"], ["why", "good.json", "--store", "absent"], ["why", "absent.json", "--store", "s"]] {
        assert_eq!(scratch.run(&args).code, 2, "{args:?}");
    }
}

#[test]
fn coverage_of_a_run_is_weighted_by_its_calls() {
    let scratch = Scratch::new();
    let lines = std::fs::read_to_string(corpus().join("../miopen/driver-lines.txt")).expect("corpus/miopen");
    scratch.write("first.log", &lines);
    assert_eq!(scratch.run(&["compile", "first.log", "--store", "s"]).code, 0);
    let (code, told) = scratch.json(&["coverage", "first.log", "--store", "s"]);
    assert_eq!((code, &told["share_of_graphs"], &told["share_of_calls"], &told["uncovered"]), (0, &json!(1.0), &json!(1.0), &json!([])));
    assert_eq!((&told["graphs"], &told["counters"]["hits"], &told["counters"]["compiled"]), (&json!(78), &json!(78), &json!(0)));
    let first_calls = told["calls"].as_u64().expect("a number");
    assert!(told["rows"].as_array().is_some_and(|rows| rows.iter().all(|row| row["plan_key"].is_string() && row["target"] == "cpu")));

    // A second run with the first in it and two new problems, one of which is called six times.
    let often = "MIOpenDriver conv -n 11 -c 3 -H 8 -W 8 -k 4 -F 1\n".repeat(6);
    scratch.write("second.log", lines + "MIOpenDriver conv -n 12 -c 3 -H 8 -W 8 -k 4 -F 1\n" + &often);
    let (code, told) = scratch.json(&["coverage", "second.log", "--store", "s"]);
    assert_eq!((code, &told["graphs"], &told["calls"]), (1, &json!(80), &json!(first_calls + 7)));
    assert_eq!(told["summary"]["missing"], json!({ "graphs": 2, "calls": 7 }));
    let calls: Vec<_> = told["uncovered"].as_array().expect("rows").iter().map(|row| row["calls"].as_u64()).collect();
    assert_eq!(calls, [Some(6), Some(1)], "most calls first");
    let share = first_calls as f64 / (first_calls + 7) as f64;
    assert!((told["share_of_calls"].as_f64().expect("a number") - share).abs() < 1e-12);
    let ran = scratch.run(&["coverage", "second.log", "--store", "s"]);
    let summary = format!("78 of 80 graphs precompiled (97.5 %), {first_calls} of {} calls", first_calls + 7);
    assert!(ran.code == 1 && ran.out.contains(&summary) && ran.out.contains("; 2 missing"), "{ran:?}");
    // The plans that the list asks for make it whole.
    assert_eq!(scratch.run(&["compile", "second.log", "--store", "s"]).code, 0);
    assert_eq!(scratch.run(&["coverage", "second.log", "first.log", "--store", "s"]).code, 0);
    // For another target, all are there for the wrong one.
    let (code, told) = scratch.json(&["coverage", "second.log", "--store", "s", "--target", "gfx1100"]);
    assert_eq!((code, &told["summary"]["wrong-target"]["graphs"]), (1, &json!(80)));
    assert_eq!(told["targets"], json!(["gfx1100", "gfx11-generic"]));
}

#[test]
fn coverage_takes_every_input_and_tells_of_all_that_is_wrong() {
    let scratch = Scratch::new();
    Lacks::new(&scratch);
    let files = ["good.json", "missing.json", "other.json", "stale.json", "unreadable.json"];
    for file in files {
        let bytes = std::fs::read(scratch.path(file)).expect("read");
        scratch.write(&format!("recorded/{file}"), bytes);
    }
    scratch.write("recorded/bad.json", "{}");
    let (code, told) = scratch.json(&["coverage", "recorded", "good.json", "--store", "s"]);
    assert_eq!((code, &told["graphs"], &told["calls"]), (1, &json!(6), &json!(7)), "{told}");
    let one = json!({ "graphs": 1, "calls": 1 });
    let expected = json!({
        "covered": { "graphs": 1, "calls": 2 }, "missing": one, "wrong-target": one, "stale": one, "unreadable": one, "invalid": one,
    });
    assert_eq!(told["summary"], expected);
    // A convolution that a log mentions and that cannot be read is a finding, too.
    scratch.write("lost.log", "MIOpenDriver conv -n 1 -c 3 -H 8 -W 8 -k 4 -F 1\nMIOpenDriver conv -n -1 -F 1\n");
    assert_eq!(scratch.run(&["compile", "lost.log", "--store", "s"]).code, 1);
    let (code, told) = scratch.json(&["coverage", "lost.log", "--store", "s"]);
    assert_eq!((code, &told["share_of_calls"], &told["logs"][0]["lost"]), (1, &json!(1.0), &json!(1)), "{told}");
    for args in
        [&["coverage", "--store", "s"][..], &["coverage", "good.json", "--store", "absent"], &["coverage", "absent", "--store", "s"]]
    {
        assert_eq!(scratch.run(args).code, 2, "{args:?}");
    }
}

#[test]
fn a_plan_for_the_family_counts_everywhere_or_nowhere() {
    let scratch = Scratch::new();
    Lacks::new(&scratch);
    put_plan_for(&scratch, "missing.json", "gfx9-4-generic");
    // What a device that reports the target would look for, and what it would not.
    for (target, exit) in [("gfx942", 0), ("gfx942:sramecc+:xnack-", 0), ("gfx950", 0), ("gfx9-4-generic", 0), ("gfx90a", 5), ("cpu", 5)] {
        let (code, covered) = scratch.json(&["coverage", "missing.json", "--store", "s", "--target", target]);
        let row = if exit == 0 { "covered" } else { "wrong-target" };
        assert_eq!((code, &covered["summary"][row]["graphs"]), (i32::from(exit != 0), &json!(1)), "{target} {covered:#}");
        let (code, told) = scratch.json(&["why", "missing.json", "--store", "s", "--target", target]);
        assert_eq!((code, &told["outcome"]), (exit, &json!(if exit == 0 { "hit" } else { "wrong-target" })), "{target} {told:#}");
        let (code, gate) = scratch.json(&["compile", "missing.json", "--store", "s", "--target", target, "--require-precompiled"]);
        let word = if exit == 0 { "present" } else { "wrong-target" };
        assert_eq!((code, &gate["rows"][0]["outcome"]), (exit, &json!(word)), "{target} {gate:#}");
    }
}

#[test]
fn a_run_that_finds_none_names_the_targets_that_have_one() {
    let scratch = Scratch::new();
    Lacks::new(&scratch);
    put_plan_for(&scratch, "other.json", "gfx90a");
    for store in [&["--store", "s"][..], &["--store", "none", "--layer", "s"]] {
        let ran = scratch.run(&[&["run", "other.json"], store].concat());
        assert!(ran.code == 2 && ran.err.contains("it has plans of the graph for gfx90a, gfx942;"), "{ran:?}");
        let ran = scratch.run(&[&["run", "missing.json"], store].concat());
        assert!(ran.code == 2 && !ran.err.contains("it has plans"), "{ran:?}");
    }
}

#[test]
fn the_documents_show_what_why_prints() {
    let scratch = Scratch::new();
    let graph = std::fs::read_to_string(corpus().join("sample_add.json")).expect("a graph");
    scratch.write("stored.json", &graph);
    scratch.write("layer.json", graph.replace("128", "64"));
    assert_eq!(scratch.run(&["compile", "stored.json", "--store", "plans"]).code, 0);
    let ran = scratch.run(&["why", "layer.json", "--store", "plans"]);
    assert_eq!(ran.code, 4, "{ran:?}");
    let document = std::fs::read_to_string(corpus().join("../../docs/fleet.md")).expect("text");
    let (_, shown) = document.split_once("$ hipplan why layer.json --store plans\n").expect("the example");
    let (shown, _) = shown.split_once("```").expect("its end");
    // The plan's key changes with the revision of the engine.
    let without_key = |text: &str| {
        let (before, after) = text.split_once("nearest entry: plan ").expect("an entry");
        format!("{before}nearest entry: plan {}", after.split_once(',').expect("a key").1)
    };
    let printed = ran.out.replace(&scratch.path("plans").display().to_string(), "/home/me/plans");
    assert_eq!(without_key(&printed).trim_end(), without_key(shown).trim_end());
}

#[test]
fn what_is_not_kept_says_what_to_do() {
    let scratch = Scratch::new();
    let graph = corpus().join("sample_add.json");
    let graph = graph.to_str().expect("UTF-8");
    assert_eq!(scratch.run(&["compile", graph, "--store", "s"]).code, 0);
    std::fs::remove_dir_all(scratch.path("s/plans")).expect("removed");
    scratch.write("s/plans", "in the way");
    let (code, report) = scratch.json(&["compile", graph, "--store", "s"]);
    let detail = report["rows"][0]["detail"].as_str().expect("text");
    assert!(
        code == 1 && detail.contains("s/plans") && detail.ends_with("; check the path: something else has the name of a folder"),
        "{report:#}"
    );
}
