//! What stands in a store and is not the store's: `hipplan store repair` and `verify` tell of it, and do the rest.

mod common;

use common::{Ran, Scratch, scalar_graph, tree};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A store `s` of three plans, one of whose records is damaged; gives the damaged record.
fn damaged() -> (Scratch, PathBuf) {
    let scratch = Scratch::new();
    for value in ["1.0", "2.0", "3.0"] {
        scratch.write(&format!("g{value}.json"), scalar_graph(&format!(r#", "value_type": "Float32Value", "value": {value}"#)));
    }
    assert_eq!(scratch.run(&["compile", "g1.0.json", "g2.0.json", "g3.0.json", "--store", "s"]).code, 0);
    let record = files(&scratch.path("s/index/plan")).into_iter().next().expect("a few plans are written as files of their own");
    std::fs::write(&record, "damaged").expect("written");
    (scratch, record)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    tree(folder).into_keys().map(|name| folder.join(name)).filter(|path| path.is_file()).collect()
}

/// Puts something else in place of a folder of the store, or where nothing is.
fn put_in_the_way(path: &Path, how: &str, aside: &Path) {
    if path.exists() {
        std::fs::rename(path, aside).expect("moved");
    }
    match how {
        "file" => std::fs::write(path, "stray").expect("written"),
        "link" => std::os::unix::fs::symlink("/nowhere", path).expect("a link"),
        "pipe" => assert!(Command::new("mkfifo").arg(path).status().expect("mkfifo").success()),
        other => unreachable!("{other}"),
    }
}

fn repair(scratch: &Scratch) -> (i32, Value) {
    // What waits for a pipe would wait for ever.
    let output = Command::new("timeout")
        .args(["600", env!("CARGO_BIN_EXE_hipplan"), "store", "repair", "--store", "s", "--json"])
        .current_dir(scratch.path(""))
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .output()
        .expect("started");
    let ran = Ran::of(&output);
    (ran.code, serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {ran:?}")))
}

fn left(report: &Value) -> Vec<&str> {
    report["left"].as_array().expect("a list").iter().map(|text| text.as_str().expect("text")).collect()
}

#[test]
fn repair_does_what_it_can_and_tells_of_each_thing_that_it_cannot_mend() {
    for folder in ["objects", "packs", "locks", "tmp", "trash", "quarantine", "pins", "index/select", "plans"] {
        for how in ["file", "link", "pipe"] {
            let (scratch, _) = damaged();
            let path = scratch.path("s").join(folder);
            put_in_the_way(&path, how, &scratch.path("aside"));
            let (code, report) = repair(&scratch);
            let left = left(&report);
            assert_eq!(code, 1, "{folder} {how}: {report:#}");
            let named = left.iter().filter(|text| text.contains(path.to_str().expect("UTF-8"))).count();
            assert_eq!(named, 1, "{folder} {how}: told of once: {report:#}");
            // The damaged record is put right unless that needs what is missing: it goes to `quarantine` by way of `trash`.
            let is_set_aside = !["quarantine", "trash"].contains(&folder);
            assert_eq!(report["set_aside"], u64::from(is_set_aside), "{folder} {how}: {report:#}");
            // Nor is it as long as entries may be where nobody can look.
            let can = !["objects", "packs", "index/select", "plans"].contains(&folder);
            if is_set_aside && folder != "tmp" {
                assert_eq!(report["rebuilt_records"], u64::from(can), "{folder} {how}: {report:#}");
            }
            let (code, verified) = scratch.json(&["store", "verify", "--store", "s"]);
            assert_eq!(code, 1, "{folder} {how}: {verified:#}");
            assert!(verified["problems"].to_string().contains(folder), "{folder} {how}: {verified:#}");
            // When it is out of the way, the rest is done too.
            std::fs::remove_file(&path).expect("removed");
            if scratch.path("aside").exists() {
                std::fs::rename(scratch.path("aside"), &path).expect("moved");
            }
            if folder != "plans" {
                assert_eq!(repair(&scratch).0, 0, "{folder} {how}");
                assert_eq!(scratch.run(&["store", "verify", "--store", "s"]).code, 0, "{folder} {how}");
                assert_eq!(scratch.json(&["ls", "--store", "s"]).1["plans"].as_array().map(Vec::len), Some(3), "{folder} {how}");
            }
        }
    }
}

#[test]
fn a_file_in_place_of_a_folder_of_records_does_not_end_a_repair() {
    for how in ["file", "link", "pipe"] {
        let (scratch, record) = damaged();
        // The folder of another record than the damaged one, if they have two.
        let other = files(&scratch.path("s/index/plan")).into_iter().find(|path| path.parent() != record.parent()).expect("another folder");
        let folder = other.parent().expect("a folder");
        put_in_the_way(folder, how, &scratch.path("aside"));
        let (code, report) = repair(&scratch);
        let text = folder.to_str().expect("UTF-8");
        assert_eq!(code, 1, "{how}: {report:#}");
        assert_eq!(left(&report).iter().filter(|left| left.contains(text)).count(), 1, "{how}: {report:#}");
        // A link may lead to the record that would be made.
        let rebuilt = u64::from(how != "link");
        assert_eq!((&report["set_aside"], &report["rebuilt_records"]), (&1.into(), &rebuilt.into()), "{how}: {report:#}");
        std::fs::remove_file(folder).expect("removed");
        // The others are made anew.
        let (code, report) = repair(&scratch);
        assert_eq!((code, &report["rebuilt_records"]), (0, &(2 - rebuilt).into()), "{how}: {report:#}");
        assert_eq!(scratch.run(&["store", "verify", "--store", "s"]).code, 0);
    }
}

#[test]
fn foreign_files_are_told_of_and_left() {
    let (scratch, _) = damaged();
    let strays = ["s/stray.txt", "s/index/stray", "s/packs/stray.pack", "s/plans/xx", "s/objects/00/stray"];
    for stray in strays {
        scratch.write(stray, "stray");
    }
    for _ in 0..2 {
        let (code, report) = repair(&scratch);
        assert_eq!(code, 1, "{report:#}");
        let left = left(&report);
        assert_eq!(left.len(), strays.len(), "{report:#}");
        for stray in strays {
            assert!(left.iter().any(|text| text.contains(stray)), "{stray}: {report:#}");
            assert_eq!(std::fs::read(scratch.path(stray)).expect("there"), b"stray");
        }
    }
    let ran = scratch.run(&["store", "repair", "--store", "s"]);
    assert!(ran.code == 1 && ran.out.contains("stray.txt"), "{ran:?}");
}
