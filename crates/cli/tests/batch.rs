//! Batches through the real command: shards, runs that are killed and resumed, and runs that may compile nothing.

mod common;

use common::{Lacks, Ran, Scratch, corpus, tree};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;

/// So many different problems of the corpus and its kind, as a log.
fn log(scratch: &Scratch, problems: usize) {
    let lines = std::fs::read_to_string(corpus().join("../miopen/driver-lines.txt")).expect("corpus/miopen");
    let more = (1..=problems).map(|n| format!("MIOpenDriver conv -n {n} -c 3 -H 8 -W 8 -k 4 -y 3 -x 3 -p 1 -q 1 -F 1\n"));
    scratch.write("train.log", lines + &more.collect::<String>());
}

/// What a store holds, in whatever files it stands.
fn content(scratch: &Scratch, store: &str) -> Vec<u8> {
    let bundle = format!("{store}.hpbundle");
    let ran = scratch.run(&["bundle", "export", "-o", &bundle, "--store", store]);
    assert_eq!(ran.code, 0, "{ran:?}");
    std::fs::read(scratch.path(&bundle)).expect("a bundle")
}

fn packs(store: &Path) -> usize {
    let files = std::fs::read_dir(store.join("packs")).into_iter().flatten().flatten();
    files.filter(|file| file.path().extension().is_some_and(|extension| extension == "pack")).count()
}

fn rows(report: &Value) -> &Vec<Value> {
    report["rows"].as_array().expect("rows")
}

#[test]
fn shards_fill_one_store_at_once_and_are_the_whole() {
    let scratch = Scratch::new();
    log(&scratch, 20);
    let (code, whole) = scratch.json(&["compile", "train.log", "--store", "whole"]);
    assert_eq!((code, &whole["shard"], &whole["in_other_shards"]), (0, &Value::Null, &json!(0)));
    let all = rows(&whole).len();
    assert_eq!((all, &whole["summary"]["compiled"], &whole["counters"]["compiled"]), (98, &json!(98), &json!(98)));
    assert_eq!(whole["counters"]["misses"], json!({ "missing": 98, "wrong-target": 0, "stale": 0, "unreadable": 0 }));

    let start = |i: u32| {
        let shard = format!("{i}/4");
        let mut command = scratch.hipplan(&["compile", "train.log", "--store", "parts", "--shard", &shard, "--json"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started")
    };
    let running: Vec<_> = (1..=4).map(start).collect();
    let mut seen = BTreeSet::new();
    for (i, child) in (1..).zip(running) {
        let ran = Ran::of(&child.wait_with_output().expect("ended"));
        let report: Value = serde_json::from_str(&ran.out).expect("JSON");
        assert_eq!((ran.code, &report["shard"]), (0, &json!(format!("{i}/4"))), "{ran:?}");
        assert_eq!(rows(&report).len() + report["in_other_shards"].as_u64().expect("a number") as usize, all);
        assert!(!rows(&report).is_empty() && report["summary"]["compiled"] == rows(&report).len());
        for row in rows(&report) {
            assert!(seen.insert(row["graph_key"].to_string()), "{row}");
        }
    }
    assert_eq!(seen.len(), all);
    assert_eq!(content(&scratch, "parts"), content(&scratch, "whole"));
    // The text says so too, and what is no part is wrong usage.
    let ran = scratch.run(&["compile", "train.log", "--store", "parts", "--shard", "2/4"]);
    assert!(ran.code == 0 && ran.out.contains("; shard 2/4: ") && ran.out.contains(" inputs in other shards"), "{ran:?}");
    for shard in ["0/4", "5/4", "4", "1/0", "x/y"] {
        let ran = scratch.run(&["compile", "train.log", "--store", "parts", "--shard", shard]);
        assert!(ran.code == 2 && ran.err.contains("expected I/N"), "{ran:?}");
    }
    // An input that is no graph is told of by every shard.
    scratch.write("bad.json", "{}");
    for shard in ["1/2", "2/2"] {
        let (code, report) = scratch.json(&["compile", "bad.json", "--store", "parts", "--shard", shard]);
        assert_eq!((code, &report["summary"]["invalid"]), (1, &json!(1)));
    }
}

#[test]
fn a_batch_that_is_killed_again_and_again_is_finished() {
    let scratch = Scratch::new();
    log(&scratch, 1500);
    let store = scratch.path("killed");
    let mut killed = 0;
    // More of them each time: what was written before a kill is there, and few files hold it.
    let mut before = 0;
    for enough in 1..=3 {
        let mut command = scratch.hipplan(&["compile", "train.log", "--store", "killed", "--jobs", "2"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("started");
        while packs(&store) < enough && child.try_wait().expect("asked").is_none() {
            std::thread::yield_now();
        }
        if child.try_wait().expect("asked").is_none() {
            // SIGKILL: nothing of it runs any more.
            child.kill().expect("killed");
            killed += 1;
        }
        child.wait().expect("ended");
        // What is there is whole, and nothing is named that is not there.
        let (code, verified) = scratch.json(&["verify", "--store", "killed"]);
        assert_eq!(code, 0, "{verified}");
        let found = verified["plans"].as_u64().expect("a number") as usize;
        assert!(found >= before, "{found}, {before} before");
        before = found;
    }
    assert!(killed > 0, "every run ended before it was killed");
    let (code, report) = scratch.json(&["compile", "train.log", "--store", "killed"]);
    let count = |word: &str| report["summary"][word].as_u64().expect("a number") as usize;
    // A plan that was written before its selection is compiled again, and is the same: at most one for each job that was killed.
    assert_eq!((code, count("compiled") + count("present")), (0, 1578), "{}", report["summary"]);
    assert!(count("present") > 0 && count("present") + 2 * killed >= before, "{before}: {}", report["summary"]);
    assert_eq!(report["counters"]["hits"], report["summary"]["present"]);
    assert_eq!(scratch.run(&["compile", "train.log", "--store", "straight"]).code, 0);
    assert_eq!(content(&scratch, "killed"), content(&scratch, "straight"));
    let (code, report) = scratch.json(&["compile", "train.log", "--store", "killed"]);
    assert_eq!((code, &report["summary"]["present"]), (0, &json!(1578)));
}

#[test]
fn required_plans_are_checked_and_nothing_is_compiled_or_written() {
    let scratch = Scratch::new();
    Lacks::new(&scratch);
    // A compiler that leaves a trace.
    let clang = scratch.write("clang", "#!/bin/sh\necho \"$@\" >> \"$(dirname \"$0\")/compiler-ran\"\nexit 1\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&clang, mode).expect("made executable");
    let before = tree(&scratch.path("s"));
    let check = |args: &[&str]| {
        let args = [&["compile", "--store", "s", "--require-precompiled", "--json"], args].concat();
        let ran = Ran::of(&scratch.hipplan(&args).env("HIPPLAN_CLANG", &clang).output().expect("started"));
        let report: Value = serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {ran:?}"));
        (ran.code, report)
    };
    let (code, report) = check(&["good.json"]);
    assert_eq!((code, &report["summary"]["present"], &report["counters"]["hits"]), (0, &json!(1), &json!(1)));
    for (word, file, exit) in Lacks::ALL {
        let (code, report) = check(&[file]);
        assert_eq!((code, &report["rows"][0]["outcome"]), (exit, &json!(word)), "{report}");
        assert_eq!((&report["summary"][word], &report["counters"]["misses"][word]), (&json!(1), &json!(1)));
        assert!(!report["rows"][0]["detail"].as_str().expect("text").is_empty());
        assert_eq!(report["rows"][0]["plan_key"], Value::Null);
    }
    // Of several, the highest; what is good stays good, what is no graph is one more finding.
    scratch.write("bad.json", "{}");
    let (code, report) = check(&["good.json", "missing.json", "bad.json"]);
    assert_eq!((code, &report["summary"]["invalid"]), (4, &json!(1)));
    assert_eq!(check(&["missing.json", "stale.json", "other.json", "good.json"]).0, 6);
    assert_eq!(check(&["unreadable.json", "stale.json", "missing.json"]).0, 7);
    assert_eq!(check(&["good.json", "--target", "cpu,gfx942"]).0, 5);
    assert_eq!(check(&["bad.json"]).0, 1);
    assert_eq!(check(&["good.json", "--engine", "NO_SUCH"]).0, 4);
    // By shards: the graph is in one of two.
    let codes: BTreeSet<i32> = ["1/2", "2/2"].map(|shard| check(&["stale.json", "--shard", shard]).0).into_iter().collect();
    assert_eq!(codes, BTreeSet::from([0, 6]));
    let ran = scratch.run(&["compile", "--store", "s", "--require-precompiled", "stale.json", "other.json"]);
    assert!(ran.code == 6 && ran.out.contains("store: 0 hits, 2 misses (1 wrong-target, 1 stale)"), "{ran:?}");
    assert!(ran.out.ends_with("2 graphs: 1 wrong-target, 1 stale\n"), "{ran:?}");
    let ran = scratch.run(&["compile", "--store", "absent", "--require-precompiled", "good.json"]);
    assert!(ran.code == 2 && !scratch.path("absent").exists(), "{ran:?}");

    assert_eq!(tree(&scratch.path("s")), before, "nothing is written");
    assert!(!scratch.path("compiler-ran").exists(), "no compiler is run");

    // Without the flag they are compiled, and the report says what they replace.
    let (code, report) =
        scratch.json(&["compile", "--store", "s", "good.json", "missing.json", "other.json", "stale.json", "unreadable.json"]);
    let told: Vec<_> = rows(&report)
        .iter()
        .map(|row| (row["outcome"].as_str(), row["detail"].as_str().map(|d| d.contains("in place of one that is"))))
        .collect();
    let (new, old) = ((Some("compiled"), Some(false)), (Some("compiled"), Some(true)));
    assert_eq!((code, told), (0, vec![(Some("present"), Some(false)), new, new, old, old]), "{report}");
    let expected = json!({ "missing": 2, "wrong-target": 0, "stale": 1, "unreadable": 1 });
    assert_eq!((&report["counters"]["misses"], &report["counters"]["hits"]), (&expected, &json!(1)));
    assert!(report["counters"]["compile_seconds"].is_f64() && report["counters"]["seconds_not_needed"].is_f64());
    let files = ["good.json", "missing.json", "other.json", "stale.json", "unreadable.json"];
    assert_eq!(check(&files).0, 0);
}
