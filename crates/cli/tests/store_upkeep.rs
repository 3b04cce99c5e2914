//! `hipplan store ls`, `stat`, `verify`, `gc`, `rm`, `pin`, `unpin`, `pins` and `repair`.

mod common;

use common::{Ran, Scratch, scalar_graph, tree};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// A store of three plans of three graphs; gives the keys of plans and graphs as `ls` tells them.
fn filled() -> (Scratch, Vec<(String, String)>) {
    let scratch = Scratch::new();
    for value in ["1.0", "2.0", "3.0"] {
        let graph = scratch.write(&format!("g{value}.json"), scalar_graph(&format!(r#", "value_type": "Float32Value", "value": {value}"#)));
        let ran = scratch.run(&["compile", graph.to_str().expect("UTF-8"), "--store", "s", "--target", "cpu"]);
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    let (code, listed) = scratch.json(&["ls", "--store", "s"]);
    assert_eq!(code, 0);
    let text = |row: &serde_json::Value, name: &str| row[name].as_str().expect(name).to_owned();
    let plans = listed["plans"].as_array().expect("a list");
    (scratch, plans.iter().map(|row| (text(row, "plan_key"), text(row, "graph_key"))).collect())
}

/// Makes everything look as if it was last used long ago.
fn age(scratch: &Scratch) {
    for path in tree(&scratch.path("s")).into_keys().map(|path| scratch.path("s").join(path)).filter(|path| path.is_file()) {
        let file = std::fs::File::options().write(true).open(path).expect("a file");
        file.set_modified(SystemTime::now() - Duration::from_secs(48 * 3600)).expect("set");
    }
}

/// The files of a folder, locks and stamps included, with their times of change.
fn stamped(scratch: &Scratch, folder: &str) -> BTreeMap<PathBuf, (SystemTime, u64)> {
    let mut files = BTreeMap::new();
    let mut folders = vec![scratch.path(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            let entry = entry.expect("an entry");
            let status = entry.metadata().expect("there");
            files.insert(entry.path(), (status.modified().expect("a time"), status.len()));
            if status.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    files
}

#[test]
fn entries_are_listed_and_counted() {
    let (scratch, keys) = filled();
    assert_eq!(keys.len(), 3);
    let before = tree(&scratch.path("s"));
    let (code, listed) = scratch.json(&["store", "ls", "--store", "s", "--kind", "plan-record"]);
    let mut names: Vec<_> = listed["entries"].as_array().expect("a list").iter().map(|row| row["name"].as_str().expect("a name")).collect();
    let mut expected: Vec<_> = keys.iter().map(|(plan, _)| plan.as_str()).collect();
    names.sort_unstable();
    expected.sort_unstable();
    assert_eq!((code, names), (0, expected));
    let ran = scratch.run(&["store", "ls", "--store", "s"]);
    assert!(ran.code == 0 && ran.out.lines().count() >= 9 && ran.out.contains(&keys[0].0), "{ran:?}");

    assert_eq!(listed["problems"], serde_json::json!([]));

    let (code, stat) = scratch.json(&["store", "stat", "--store", "s"]);
    let layer = &stat["layers"][0];
    assert_eq!((code, layer["kinds"]["plan"]["loose"].as_u64(), layer["packs"].as_u64()), (0, Some(3), Some(0)));
    let (_, selections) = scratch.json(&["store", "ls", "--store", "s", "--kind", "selection"]);
    assert_eq!(layer["kinds"]["selection"]["loose"].as_u64(), selections["entries"].as_array().map(|list| list.len() as u64));
    let ran = scratch.run(&["store", "stat", "--store", "s"]);
    assert!(ran.code == 0 && ran.out.contains("0 packs"), "{ran:?}");
    assert_eq!(scratch.run(&["store", "verify", "--store", "s"]).code, 0);
    assert_eq!(tree(&scratch.path("s")), before, "looking changes nothing");
    for command in ["ls", "stat", "gc", "pins", "repair"] {
        assert_eq!(scratch.run(&["store", command, "--store", "none"]).code, 2, "{command}");
        assert!(!scratch.path("none").exists(), "{command}");
    }
}

#[test]
fn upkeep_works_on_the_store_alone() {
    let (scratch, keys) = filled();
    age(&scratch);
    let commands: [&[&str]; 7] = [
        &["gc", "--max-bytes", "0"],
        &["rm", &keys[0].0],
        &["repair"],
        &["compact"],
        &["pin", "--as", "all", "--graph", &keys[0].1],
        &["unpin", "all"],
        &["pins"],
    ];
    let run = |command: &[&str], store: &str, variables: &[(&str, &str)]| {
        let mut hipplan = scratch.hipplan(&[&["store"], command, &["--store", store]].concat());
        Ran::of(&hipplan.envs(variables.iter().copied()).output().expect("started"))
    };
    // Where the store is missing, no layer and no remote takes its place.
    let before = stamped(&scratch, "s");
    let layer = scratch.path("s").display().to_string();
    for command in commands {
        for variables in [&[("HIPPLAN_LAYERS", &*layer)][..], &[("HIPPLAN_REMOTE", "http://127.0.0.1:1")], &[]] {
            let ran = run(command, "typo", variables);
            assert!(ran.code == 2 && ran.err.contains("typo: no store found there") && ran.err.contains("check the path"), "{ran:?}");
            assert!(!scratch.path("typo").exists(), "{command:?}");
        }
        let ran = scratch.run(&[&["store"], command, &["--store", "typo", "--layer", "s"]].concat());
        assert!(ran.code == 2 && ran.err.contains("typo: no store found there"), "{ran:?}");
        assert_eq!(stamped(&scratch, "s"), before, "{command:?}");
    }
    // Nor is one that cannot be used in the way.
    for variables in [[("HIPPLAN_LAYERS", "/no/such/layer")], [("HIPPLAN_REMOTE", "ftp://host")], [("HIPPLAN_SIGNATURES", "perhaps")]] {
        for command in
            [&["gc"][..], &["compact"], &["repair"], &["pin", "--as", "all", "--graph", &keys[0].1], &["unpin", "all"], &["pins"]]
        {
            let ran = run(command, "s", &variables);
            assert_eq!(ran.code, 0, "{variables:?} {ran:?}");
        }
    }
    assert_eq!(run(&["rm", &keys[0].0], "s", &[("HIPPLAN_LAYERS", "/no/such/layer")]).code, 0);
}

#[test]
fn limits_and_pins_decide_what_goes() {
    let (scratch, keys) = filled();
    let (code, report) = scratch.json(&["store", "gc", "--store", "s", "--max-bytes", "0"]);
    assert_eq!((code, report["kept_in_use"].as_u64(), report["over_limit"].as_bool()), (1, Some(3), Some(true)), "all are young");
    let ran = scratch.run(&["store", "pin", "--as", "release", &keys[0].0[..12], "--graph", &keys[1].1, "--store", "s"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let (_, pins) = scratch.json(&["store", "pins", "--store", "s"]);
    assert_eq!(pins["sets"][0]["pins"][0].as_str(), Some(&*format!("plan {}", keys[0].0)));
    age(&scratch);
    let (code, report) = scratch.json(&["store", "gc", "--store", "s", "--max-age", "1d", "--dry-run"]);
    assert_eq!((code, report["evicted"].as_u64(), report["kept_pinned"].as_u64()), (0, Some(1), Some(2)));
    let left = |scratch: &Scratch| scratch.json(&["ls", "--store", "s"]).1["plans"].as_array().expect("a list").len();
    assert_eq!(left(&scratch), 3);
    let ran = scratch.run(&["store", "gc", "--store", "s", "--max-age", "1d"]);
    assert!(ran.code == 0 && ran.out.contains("removed 1 plan ("), "{ran:?}");
    assert_eq!(left(&scratch), 2);

    let (code, report) = scratch.json(&["store", "rm", &keys[0].0, "--store", "s"]);
    assert_eq!((code, report["pinned"].as_array().map(Vec::len)), (1, Some(1)));
    assert_eq!(scratch.run(&["store", "unpin", "release", "--store", "s"]).code, 0);
    assert_eq!(scratch.run(&["store", "unpin", "release", "--store", "s"]).code, 1);
    let ran = scratch.run(&["store", "rm", &keys[0].0[..10], "--graph", &keys[1].1[..10], "--store", "s"]);
    assert!(ran.code == 0 && ran.out.contains("removed 2 plans"), "{ran:?}");
    assert_eq!(left(&scratch), 0);
    let ran = scratch.run(&["store", "rm", &keys[0].0, "--store", "s"]);
    assert!(ran.code == 1 && ran.out.contains("not in the store: plan "), "{ran:?}");
    let ran = scratch.run(&["store", "rm", "abcd", "--graph", "ef01", "--store", "s"]);
    assert!(ran.code == 1 && ran.out.contains("not in the store: plan abcd...") && ran.out.contains("graph ef01..."), "{ran:?}");
    for wrong in [&["rm"][..], &["rm", "xyz!"], &["rm", "abc"], &["gc", "--max-bytes", "ten"], &["pin", "--as", "../x", &keys[0].0]] {
        let ran = scratch.run(&[&["store"], wrong, &["--store", "s"]].concat());
        assert_eq!(ran.code, 2, "{wrong:?} {ran:?}");
    }
    assert_eq!(scratch.run(&["store", "verify", "--store", "s"]).code, 0);
}

/// A pin that keeps nothing is not taken for one that does.
#[test]
fn what_is_pinned_is_in_the_store_or_said_not_to_be() {
    let (scratch, keys) = filled();
    let pin = |args: &[&str]| scratch.run(&[&["store", "pin", "--as", "set", "--store", "s"], args].concat());
    let (plan, graph) = &keys[0];
    let nobody = "ab".repeat(32);
    for command in [&["pin", "--as", "set"][..], &["rm"]] {
        let ran = scratch.run(&[&["store"], command, &[graph.as_str(), "--store", "s"]].concat());
        assert!(ran.code == 2 && ran.err.contains("is the key of a graph") && ran.err.contains("--graph"), "{ran:?}");
    }
    let ran = pin(&[plan, "--graph", graph]);
    assert!(ran.code == 0 && ran.out == "2 pins kept by set\n", "{ran:?}");
    for (args, what) in [(&[nobody.as_str()][..], "plan"), (&["--graph", plan], "graph"), (&["--selection", plan], "selection")] {
        let ran = pin(args);
        assert!(ran.code == 0 && ran.out.contains(&format!("not in the store yet: {what} ")), "{ran:?}");
    }
    let ran = pin(&[plan, "abcd"]);
    assert!(ran.code == 2 && ran.err.contains("nothing is pinned: the store has no plan abcd..."), "{ran:?}");
}

/// A plan that stands in a pack and in a file of its own, as another machine may have put it there, is one.
#[test]
fn a_plan_in_two_places_is_listed_once() {
    let (scratch, _) = filled();
    assert_eq!(scratch.run(&["bundle", "export", "-o", "all.hpbundle", "--store", "s"]).code, 0);
    let (_, before) = scratch.json(&["ls", "--store", "s"]);
    let (code, listed) = scratch.json(&["ls", "--store", "s", "--layer", "all.hpbundle"]);
    assert_eq!((code, &listed["plans"]), (0, &before["plans"]));
}

#[test]
fn what_cannot_be_listed_is_told() {
    let (scratch, _) = filled();
    // A folder of the store that is none.
    let folder = std::fs::read_dir(scratch.path("s/plans")).expect("a folder").next().expect("one").expect("an entry").path();
    std::fs::rename(&folder, scratch.path("moved")).expect("moved");
    scratch.write(&format!("s/plans/{}", folder.file_name().expect("a name").display()), "a file");
    let (code, listed) = scratch.json(&["store", "ls", "--store", "s"]);
    let problems = listed["problems"].as_array().expect("a list");
    assert!(code == 1 && problems.len() == 1 && listed["store"].is_string(), "{listed:#}");
    let ran = scratch.run(&["store", "ls", "--store", "s"]);
    assert!(ran.code == 1 && ran.err.contains(problems[0].as_str().expect("text")), "{ran:?}");
}

#[test]
fn damage_is_put_right() {
    let (scratch, _) = filled();
    let records = tree(&scratch.path("s/index/plan")).into_keys().map(|path| scratch.path("s/index/plan").join(path));
    let record = records.rev().find(|path| path.is_file()).expect("a record");
    std::fs::write(&record, "damaged").expect("written");
    assert_eq!(scratch.run(&["store", "verify", "--store", "s"]).code, 1);
    let (code, report) = scratch.json(&["store", "repair", "--store", "s"]);
    assert_eq!((code, report["set_aside"].as_u64(), report["rebuilt_records"].as_u64()), (0, Some(1), Some(1)), "{report}");
    let (code, report) = scratch.json(&["store", "verify", "--store", "s"]);
    assert_eq!((code, report["set_aside"].as_array().map(Vec::len)), (0, Some(1)));
    let ran = scratch.run(&["store", "repair", "--store", "s"]);
    assert!(ran.code == 0 && ran.out.contains("set aside 0 damaged files"), "{ran:?}");
}
