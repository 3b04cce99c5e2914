//! `hipplan store selftest`.

mod common;

use common::{Scratch, tree};

const CHECKS: [&str; 10] = ["publish", "replace", "sync", "stamps", "locks", "mapping", "damage", "limits", "processes", "kills"];

#[test]
fn a_folder_is_tried_and_left_as_it_was() {
    let scratch = Scratch::new();
    scratch.write("place/mine", "mine");
    let before = tree(&scratch.path(""));
    let (code, report) = scratch.json(&["store", "selftest", "place", "--kills", "4", "--processes", "3", "--seconds", "1"]);
    assert_eq!(code, 0, "{report}");
    let checks = report["checks"].as_array().expect("a list");
    let column = |name: &str| checks.iter().map(|check| check[name].as_str().expect("text")).collect::<Vec<_>>();
    assert_eq!(column("check"), CHECKS, "{report}");
    // What it stands on may have limits; that nothing is lost or damaged may not.
    for (check, outcome) in column("check").into_iter().zip(column("outcome")) {
        assert!(outcome == "good" || outcome == "limited" && ["sync", "stamps", "locks", "mapping"].contains(&check), "{report}");
    }
    let outcome = report["outcome"].as_str().expect("text");
    assert!(
        report["verdict"].as_str().expect("text").starts_with(if outcome == "good" { "good" } else { "works with limits" }),
        "{report}"
    );
    assert_eq!(tree(&scratch.path("")), before, "what was made is removed");

    // One that was killed has left its folder, with nobody's lock in it.
    scratch.write("place/hipplan-selftest-4711-1000/owner", "");
    scratch.write("place/hipplan-selftest-4711-1000/store/hipplan-store", "");
    let ran = scratch.run(&["store", "selftest", "place", "--kills", "1", "--processes", "1", "--seconds", "1"]);
    assert!(ran.code == 0 && CHECKS.iter().all(|check| ran.out.contains(check)), "{ran:?}");
    assert!(ran.out.lines().last().expect("a line").contains("place, file system "), "{ran:?}");
    assert_eq!(tree(&scratch.path("")), before, "so is what was left");
}

#[test]
fn what_cannot_be_tried_is_said() {
    let scratch = Scratch::new();
    scratch.write("file", "");
    for place in ["missing", "file"] {
        let ran = scratch.run(&["store", "selftest", place]);
        assert!(ran.code == 2 && ran.err.contains(place), "{ran:?}");
    }
    // What a child is told is not for people, and is checked all the same.
    let ran = scratch.run(&["store", "selftest", ".", "--child", "dance"]);
    assert!(ran.code == 2 && ran.err.contains("found the task dance"), "{ran:?}");
}
