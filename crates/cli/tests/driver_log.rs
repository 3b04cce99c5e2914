//! MIOpenDriver lines from a log to checked results, through the real command.

mod common;

use common::{Scratch, corpus};
use std::collections::HashSet;
use std::path::PathBuf;

fn lines() -> PathBuf {
    corpus().join("../miopen/driver-lines.txt").canonicalize().expect("corpus/miopen")
}

/// Bounds of what is executed here; the whole acceptance is `HIPPLAN_CHECK_GMAC=2` with a release build, some minutes.
fn max_gmac() -> String {
    std::env::var("HIPPLAN_CHECK_GMAC").unwrap_or_else(|_| "0.03".to_owned())
}

#[test]
fn every_line_of_the_corpus_is_compiled_once_and_the_small_ones_are_checked() {
    let scratch = Scratch::new();
    let lines = lines();
    let lines = lines.to_str().expect("UTF-8");
    let (code, report) = scratch.json(&["compile", lines, "--store", "s"]);
    assert_eq!((code, &report["summary"]["compiled"]), (0, &78.into()), "{}", report["summary"]);
    assert_eq!(report["rows"].as_array().map(Vec::len), Some(78), "different problems");
    let log = &report["logs"][0];
    assert_eq!((&log["records"], &log["read"], &log["lost"], &log["skipped"]), (&59.into(), &59.into(), &0.into(), &serde_json::json!([])));

    // Compiling again builds nothing, and a line that means the same in other words shares the plan.
    let (code, report) = scratch.json(&["compile", lines, "--store", "s"]);
    assert_eq!((code, &report["summary"]["present"]), (0, &78.into()), "{}", report["summary"]);
    let again = [
        "MIOpenDriver conv --out_channels 64 -c 3 -H 32 -W 32 -n 128 -k 64 -p 1 --pad_w 1 -F 1 -V 0 -i 9",
        "['/opt/rocm/bin/MIOpenDriver', 'conv', '-n', '128', '-k', '64', '-p', '1', '-q', '1', '-F', '1']",
        "12 MIOpen(HIP): Command [LogCmdConvolution] ./bin/MIOpenDriver conv -n 128 -k 64 -p 1 -q 1 -m conv -g 1 -F 1 -t 1 -S 0",
    ];
    let mut plans = HashSet::new();
    for line in again {
        let (code, report) = scratch.json(&["compile", "--line", line, "--store", "s"]);
        let row = &report["rows"][0];
        assert_eq!((code, &row["outcome"]), (0, &"present".into()), "{line}: {row}");
        plans.insert(row["plan_key"].to_string());
    }
    assert_eq!(plans.len(), 1);

    let (code, report) = scratch.json(&["check", lines, "--store", "s", "--max-gmac", &max_gmac(), "--max-bytes", "1G"]);
    let summary = &report["summary"];
    assert_eq!(code, 0, "{}", serde_json::to_string_pretty(&report["rows"]).expect("JSON"));
    let executed = summary["ok"].as_u64().expect("a number");
    assert!(executed >= 12 && executed + summary["too large"].as_u64().expect("a number") == 78, "{summary}");
    // A transposed int8 convolution is among them.
    let row = report["rows"].as_array().and_then(|rows| rows.iter().find(|r| r["source"].as_str().is_some_and(|s| s.ends_with(":64 fwd"))));
    assert_eq!(row.map(|r| &r["outcome"]), Some(&"ok".into()));
}

#[test]
fn a_log_is_explained_and_its_losses_are_findings() {
    let scratch = Scratch::new();
    scratch.write(
        "train.log",
        "epoch 1\nMIOpen(HIP): Command [LogCmdFindConvolution] ./bin/MIOpenDriver conv -n 1 -c 1 -H 5 -W 5 -k 1 -m conv -g 1 -F 1 -t 1\n\
         MIOpen(HIP): Command [LogCmdBNorm] ./bin/MIOpenDriver bnorm -n 1 -c 2 -H 3 -W 3 -m 1 --forw 1 -b 0\n\
         MIOpen(HIP): Command [LogCmdConvolution] ./bin/MIOpenDriver conv -n 1 -c 1 -H 5 -W 5 -k 1 -m conv -g 1 -F 1 -t 1\n",
    );
    let ran = scratch.run(&["import", "train.log", "--explain"]);
    assert_eq!(ran.code, 0, "a batch normalisation is no loss: {ran:?}");
    for text in
        ["--batchsize", "given", "default", "skipped line 3", "bnorm is not a convolution", "output padding", "strides", "2 records"]
    {
        assert!(ran.out.contains(text), "{text}: {}", ran.out);
    }
    let (code, report) = scratch.json(&["import", "train.log", "--explain"]);
    let problem = &report["graphs"][0]["problem"];
    assert_eq!((code, &problem["count"], &problem["direction"], &problem["line"]), (0, &2.into(), &"fwd".into(), &2.into()));
    assert!(problem["flags"].as_array().is_some_and(|f| f.iter().any(|f| f["flag"] == "pad_h" && f["source"] == "default")));

    // One graph is a graph like any other.
    assert_eq!(scratch.run(&["compile", "train.log", "--store", "s"]).code, 0);
    let (code, value) = scratch.json(&["run", "train.log", "--check", "--store", "s"]);
    assert_eq!((code, &value["check"]["passed"]), (0, &true.into()));
    assert_eq!(scratch.run(&["import", "train.log", "-o", "one.hpgraph"]).code, 0);
    assert_eq!(scratch.json(&["check", "one.hpgraph", "--store", "s"]).1["summary"]["ok"], 1);

    // Several are written to a folder, one where a file is named, and run wants one.
    scratch.write("three.txt", "MIOpenDriver conv -n 1 -c 1\nMIOpenDriver conv -n 0\n");
    let ran = scratch.run(&["import", "three.txt", "-o", "x.hpgraph"]);
    assert!(ran.code == 2 && ran.err.contains("3 graphs"), "{ran:?}");
    let (code, report) = scratch.json(&["import", "three.txt", "-o", "out/"]);
    assert_eq!((code, &report["logs"][0]["lost"]), (1, &1.into()), "a convolution was lost");
    for name in ["three_L1_fwd", "three_L1_bwd", "three_L1_wrw"] {
        assert!(scratch.path("out").join(name).with_extension("hpgraph").is_file(), "{name}");
    }
    let ran = scratch.run(&["run", "three.txt", "--store", "s"]);
    assert!(ran.code == 2 && ran.err.contains("3 different convolutions"), "{ran:?}");

    // In a folder, a text without driver lines is passed over; named, it is an error.
    scratch.write("mixed/readme.txt", "nothing here");
    scratch.write("mixed/a.log", "MIOpenDriver conv -n 1 -F 1");
    let (code, report) = scratch.json(&["import", "mixed"]);
    assert_eq!((code, report["graphs"].as_array().map(Vec::len)), (0, Some(1)));
    let ran = scratch.run(&["import", "mixed/readme.txt"]);
    assert!(ran.code == 1 && ran.out.contains("no MIOpenDriver line"), "{ran:?}");
}

#[test]
fn checking_finds_what_is_missing() {
    let scratch = Scratch::new();
    assert_eq!(scratch.run(&["compile", "--line", "MIOpenDriver conv -n 1 -F 1", "--store", "s"]).code, 0);
    let both = ["check", "--line", "MIOpenDriver conv -n 1 -F 1", "--line", "MIOpenDriver conv -n 1 -F 2", "--store", "s"];
    let (code, report) = scratch.json(&both);
    assert_eq!((code, &report["summary"]["ok"], &report["summary"]["no plan"]), (1, &1.into(), &1.into()));
    let ran = scratch.run(&["check", "--line", "MIOpenDriver conv -n 1 -F 1", "--store", "s", "--max-bytes", "1K"]);
    assert!(ran.code == 0 && ran.out.contains("too large"), "{ran:?}");
}
