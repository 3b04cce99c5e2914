//! `hipplan doctor`.

mod common;

use common::{Ran, Scratch, scalar_graph, tree};
use serde_json::Value;

/// Runs it with variables; gives its exit code and what it reports.
fn doctor(scratch: &Scratch, args: &[&str], variables: &[(&str, &str)]) -> (i32, Value) {
    let mut command = scratch.hipplan(&[&["doctor", "--json"], args].concat());
    let ran = Ran::of(&command.envs(variables.iter().copied()).output().expect("started"));
    let report: Value = serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {ran:?}"));
    for check in report["checks"].as_array().expect("a list") {
        let is_good = check["outcome"] == "ok";
        assert_eq!(check["advice"].is_null(), is_good, "what is not good has advice: {check}");
        assert!(is_good || check["outcome"] == "warning" || check["outcome"] == "problem", "{check}");
    }
    (ran.code, report)
}

/// Outcome and text of all checks of a name.
fn of<'r>(report: &'r Value, name: &str) -> Vec<(&'r str, &'r str)> {
    let checks = report["checks"].as_array().expect("a list").iter().filter(|check| check["check"] == name);
    checks.map(|check| (check["outcome"].as_str().expect("text"), check["text"].as_str().expect("text"))).collect()
}

#[test]
fn a_place_is_looked_at_and_left_as_it_was() {
    let scratch = Scratch::new();
    scratch.write("g.json", scalar_graph(r#", "value_type": "Float32Value", "value": 2.0"#));
    let before = tree(&scratch.path(""));
    let (code, report) = doctor(&scratch, &["--store", "s"], &[]);
    assert_eq!(code, 0, "{report:#}");
    assert!(of(&report, "store")[0].1.contains("s (said by --store): no store is there yet"), "{report:#}");
    assert_eq!(tree(&scratch.path("")), before, "nothing is made where there is no store");
    assert_eq!(scratch.run(&["compile", "g.json", "--store", "s"]).code, 0);

    let before = tree(&scratch.path("s"));
    let (code, report) = doctor(&scratch, &["--store", "s"], &[]);
    assert_eq!(code, 0, "{report:#}");
    assert!(of(&report, "version")[0].1.contains(env!("CARGO_PKG_VERSION")));
    assert!(of(&report, "store")[0].1.ends_with("a store is there") && of(&report, "layout")[0].1.contains("hipplan store "), "{report:#}");
    for check in [
        "writable",
        "sync",
        "stamps",
        "locks",
        "mapping",
        "signatures",
        "remote",
        "compiler",
        "hip",
        "device",
        "plugins",
        "forwarding",
        "split",
    ] {
        let found = of(&report, check);
        assert!(!found.is_empty() && found.iter().all(|(outcome, _)| *outcome != "problem"), "{check}: {report:#}");
    }
    assert_eq!(tree(&scratch.path("s")), before);
    assert_eq!(scratch.run(&["verify", "--store", "s"]).code, 0);

    let ran = scratch.run(&["doctor", "--store", "s"]);
    assert!(ran.code == 0 && ran.out.contains("ok      store       s (said by --store): a store is there"), "{ran:?}");
    let ran = scratch.run(&["doctor", "--store", "s", "--quiet"]);
    assert!(ran.code == 0 && !ran.out.contains("ok      "), "{ran:?}");
}

#[test]
fn what_is_said_and_cannot_be_used_is_a_problem() {
    let scratch = Scratch::new();
    scratch.write("file", "");
    for (check, args, variables, text) in [
        ("store", &["--store", "file"][..], &[][..], "expected a folder"),
        ("store", &["--store", "file/below"], &[], "file"),
        ("layer", &["--store", "s", "--layer", "none"], &[], "none"),
        ("layer", &["--store", "s"], &[("HIPPLAN_LAYERS", "file")], "file"),
        ("signatures", &["--store", "s"], &[("HIPPLAN_SIGNATURES", "perhaps")], "expected `off`"),
        ("compiler", &["--store", "s"], &[("HIPPLAN_CLANG", "/no/such/clang")], "/no/such/clang"),
        ("hip", &["--store", "s"], &[("HIPPLAN_HIP_LIBRARY", "/no/such/library")], "/no/such/library"),
        ("device", &["--store", "s"], &[("HIPPLAN_DEVICE", "gpu")], "HIPPLAN_DEVICE"),
        ("plugins", &["--store", "s"], &[("HIPPLAN_PLUGINS", "/no/such/plugin.so")], "/no/such/plugin.so"),
        ("remote", &["--store", "s"], &[("HIPPLAN_REMOTE", "ftp://me:hunter2@host")], ""),
    ] {
        let (code, report) = doctor(&scratch, args, variables);
        let found = of(&report, check);
        assert!(code == 1 && found.iter().any(|(outcome, said)| *outcome == "problem" && said.contains(text)), "{check}: {report:#}");
        assert_eq!(report["outcome"], "problem");
        assert!(!report.to_string().contains("hunter2"), "{report:#}");
        let others = report["checks"].as_array().expect("a list").iter().filter(|row| row["outcome"] == "problem" && row["check"] != check);
        assert_eq!(others.count(), 0, "{check}: {report:#}");
    }
    let ran = scratch.run(&["doctor", "--store", "file"]);
    assert!(ran.code == 1 && ran.out.contains("problem store") && ran.out.contains("hipplan store where"), "{ran:?}");
}

#[test]
fn a_remote_and_signatures_exclude_each_other() {
    let scratch = Scratch::new();
    assert_eq!(scratch.run(&["bundle", "keygen", "key"]).code, 0);
    let signed = [("HIPPLAN_SIGNATURES", "require"), ("HIPPLAN_TRUSTED_KEYS", "key.pub")];
    let (code, report) = doctor(&scratch, &["--store", "s"], &signed);
    assert_eq!((code, of(&report, "signatures")), (0, vec![("ok", "require, 1 key trusted")]), "{report:#}");
    let (code, report) = doctor(&scratch, &["--store", "s", "--remote", "https://host"], &signed);
    assert!(code == 1 && of(&report, "remote")[0].1.contains("not signed"), "{report:#}");
}

#[test]
fn forwarding_without_a_split_is_told() {
    let scratch = Scratch::new();
    let forwarding = |value| {
        doctor(
            &scratch,
            &["--store", "s"],
            &[("MIOPEN_HIPDNN_FORWARDING", value), ("MIOPEN_FIND_ENFORCE", "4"), ("HIPPLAN_MIOPEN_STORE", "none")],
        )
    };
    let (code, report) = forwarding("enabled");
    assert_eq!(code, 0, "{report:#}");
    let found = of(&report, "forwarding");
    assert_eq!(found[0], ("ok", "HIPPLAN_MIOPEN_STORE=none MIOPEN_FIND_ENFORCE=4 MIOPEN_HIPDNN_FORWARDING=enabled"));
    assert!(found.iter().any(|(outcome, text)| *outcome == "warning" && text.starts_with("MIOPEN_FIND_ENFORCE ")), "{report:#}");
    assert!(found.iter().any(|(outcome, text)| *outcome == "warning" && text.starts_with("HIPPLAN_MIOPEN_STORE: ")), "{report:#}");
    assert_eq!(of(&report, "split")[0].0, "warning");
    let (_, report) = forwarding("perhaps");
    assert_eq!((of(&report, "forwarding")[0].0, of(&report, "split")[0].0), ("warning", "ok"), "{report:#}");
    // A MIOpen that is there and not split.
    scratch.write("lib/libMIOpen.so.1", "");
    let folder = scratch.path("lib").display().to_string();
    let (_, report) = doctor(&scratch, &["--store", "s"], &[("LD_LIBRARY_PATH", &folder), ("MIOPEN_HIPDNN_FORWARDING", "1")]);
    let found = of(&report, "split");
    assert!(found[0].0 == "warning" && found[0].1.contains("is not split"), "{report:#}");
}
