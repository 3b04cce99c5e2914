//! `hipplan store where`.

mod common;

use common::{Ran, Scratch, tree};

#[test]
fn where_tells_the_place_and_why_not_elsewhere() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("home")).expect("a folder");
    scratch.write("bundle", "");
    scratch.write("g.json", common::scalar_graph(r#", "value_type": "Float32Value", "value": 2.0"#));
    assert_eq!(scratch.run(&["compile", "g.json", "--store", "s"]).code, 0);
    assert_eq!(scratch.run(&["bundle", "export", "-o", "good", "--store", "s"]).code, 0);
    let before = tree(&scratch.path(""));
    let home = scratch.path("home/.cache/hipplan/store").display().to_string();

    let (code, place) = scratch.json(&["store", "where"]);
    assert_eq!((code, place["store"].as_str()), (0, Some(&*home)));
    let rows = place["candidates"].as_array().expect("a list");
    let column = |name: &str| rows.iter().map(|row| row[name].as_str().unwrap_or_default()).collect::<Vec<_>>();
    assert_eq!(column("source"), ["--store", "HIPPLAN_STORE", "XDG_CACHE_HOME", "HOME", "TMPDIR", "/var/tmp", "/tmp"]);
    assert_eq!(column("verdict")[..5], ["not-set", "not-set", "not-set", "new", "not-looked-at"]);
    assert_eq!(rows.iter().filter(|row| row["used"] == true).count(), 1);

    let ran = scratch.run(&["store", "where"]);
    assert!(ran.code == 0 && ran.out.contains(&format!("{home}  used: no store is there yet")), "{ran:?}");
    // A place that is said is told of whatever its state.
    let ran = scratch.run(&["store", "where", "--store", "bundle"]);
    assert!(ran.code == 1 && ran.out.contains("used: bundle: found a file, expected a folder"), "{ran:?}");
    let ran = scratch.run(&["store", "where", "--store", ""]);
    assert!(ran.code == 2 && ran.err.contains("--store"), "{ran:?}");
    // Odd bytes in a name stay on one line.
    let ran = scratch.run(&["store", "where", "--store", "a\nb"]);
    assert!(ran.code == 0 && ran.out.contains("a\\u{a}b"), "{ran:?}");

    let layered = |list: &str| Ran::of(&scratch.hipplan(&["store", "where"]).env("HIPPLAN_LAYERS", list).output().expect("started"));
    let ran = layered("good");
    assert!(ran.code == 0 && ran.out.ends_with("layer 1, of HIPPLAN_LAYERS: good: read as a bundle\n"), "{ran:?}");
    let ran = layered("good:missing");
    assert!(ran.code == 1 && ran.out.contains("layer 2, of HIPPLAN_LAYERS: missing: "), "{ran:?}");
    // What no command could read is no layer.
    let ran = layered("good:bundle");
    assert!(ran.code == 1 && ran.out.contains("layer 2, of HIPPLAN_LAYERS: bundle: cannot be used: "), "{ran:?}");
    let ran = layered("require=good");
    assert!(ran.code == 1 && ran.out.contains("good: cannot be used: ") && ran.out.contains("HIPPLAN_TRUSTED_KEYS"), "{ran:?}");
    assert!(ran.out.ends_with(", signatures require\n"), "{ran:?}");
    // Options come before the variable.
    let ran = Ran::of(&scratch.hipplan(&["store", "where", "--layer", "good"]).env("HIPPLAN_LAYERS", "missing").output().expect("started"));
    assert!(
        ran.code == 1 && ran.out.contains("layer 1, of --layer: good: read as a bundle\nlayer 2, of HIPPLAN_LAYERS: missing: "),
        "{ran:?}"
    );
    let (code, place) = scratch.json(&["store", "where", "--layer", "missing"]);
    assert_eq!((code, place["layers"][0]["source"].as_str()), (1, Some("--layer")), "{place:#}");
    assert!(place["layers"][0]["signatures"].is_null(), "{place:#}");
    assert_eq!(tree(&scratch.path("")), before, "nothing is created by asking");
}

#[test]
fn without_a_home_the_store_is_a_private_folder_among_temporary_files() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("tmp")).expect("a folder");
    scratch.write("g.json", common::scalar_graph(r#", "value_type": "Float32Value", "value": 2.0"#));
    let ran = |args: &[&str]| {
        Ran::of(&scratch.hipplan(args).env("HOME", "/nonexistent").env("TMPDIR", scratch.path("tmp")).output().expect("started"))
    };
    // Reading makes nothing.
    assert_eq!(ran(&["ls"]).code, 2);
    assert_eq!(std::fs::read_dir(scratch.path("tmp")).expect("a folder").count(), 0);
    let compiled = ran(&["compile", "g.json"]);
    assert!(compiled.code == 0, "{compiled:?}");
    let warnings: Vec<_> = compiled.err.lines().filter(|line| line.contains("WARN")).collect();
    assert!(warnings.len() == 1 && warnings[0].contains("HOME: there is no folder /nonexistent"), "{compiled:?}");
    let listed = ran(&["ls"]);
    assert!(listed.code == 0 && listed.out.contains("1 plan"), "{listed:?}");
    use std::os::unix::fs::PermissionsExt;
    let folder = std::fs::read_dir(scratch.path("tmp")).expect("a folder").next().expect("one").expect("an entry");
    assert_eq!(folder.metadata().expect("there").permissions().mode() & 0o7777, 0o700);
}
