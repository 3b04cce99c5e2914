use super::common::{new_store, only_file, plan, put, selection_key, tree};
use hipplan_store::Store;
use std::fs;

/// A store of one blob, one plan that names it, and its two records.
fn filled() -> (tempfile::TempDir, Store) {
    let (dir, store) = new_store();
    let blob = store.put_blob(b"machine code").unwrap().id;
    let id = put(&store, &plan(b"graph", 100, &[blob]));
    assert!(store.put_selection(&selection_key(b"graph"), &[id]).unwrap().is_persisted());
    (dir, store)
}

#[test]
fn a_good_store_is_counted() {
    let (_dir, store) = filled();
    let plan_bytes = fs::metadata(only_file(&store, "plans")).unwrap().len();
    let report = store.verify();
    assert!(report.is_clean(), "{report:?}");
    assert_eq!((report.blobs, report.plans, report.plan_records, report.selection_records), (1, 1, 1, 1));
    assert_eq!(report.bytes, plan_bytes + 12);
    assert!(report.leftovers.is_empty());
}

#[test]
fn a_missing_target_is_reported_by_whatever_names_it() {
    let (_dir, store) = filled();
    fs::remove_file(only_file(&store, "objects")).unwrap();
    let report = store.verify();
    assert_eq!((report.plans, report.problems.len()), (0, 1));
    assert_eq!(report.problems[0].code(), "missing-target");
    fs::remove_file(only_file(&store, "plans")).unwrap();
    let report = store.verify();
    assert_eq!(report.problems.iter().map(|p| p.code()).collect::<Vec<_>>(), ["missing-target"; 2]);
    assert_eq!((report.plan_records, report.selection_records), (0, 0));
}

#[test]
fn what_does_not_belong_is_reported_and_not_followed() {
    let (dir, store) = filled();
    let root = store.root();
    fs::create_dir_all(dir.path().join("outside/ab")).unwrap();
    fs::write(dir.path().join("outside/ab/file"), "").unwrap();
    std::os::unix::fs::symlink(dir.path().join("outside"), root.join("objects/ab")).unwrap();
    let shard = only_file(&store, "plans").parent().unwrap().to_owned();
    fs::write(shard.join("stray"), "").unwrap();
    fs::create_dir(shard.join("0".repeat(62) + ".plan")).unwrap();
    fs::write(root.join("notes.txt"), "").unwrap();
    fs::create_dir(root.join("index/other")).unwrap();
    fs::write(root.join("tmp/left.tmp"), "").unwrap();
    let before = tree(root);
    let report = store.verify();
    let mut found: Vec<_> = report.problems.iter().map(|p| (p.code(), p.path().unwrap().to_owned())).collect();
    found.sort();
    let mut expected = [
        root.join("notes.txt"),
        root.join("index/other"),
        root.join("objects/ab"),
        shard.join("stray"),
        shard.join("0".repeat(62) + ".plan"),
    ]
    .map(|path| ("foreign", path));
    expected.sort();
    assert_eq!(found, expected);
    assert_eq!(report.leftovers, [root.join("tmp/left.tmp")]);
    assert_eq!((report.blobs, report.plans), (1, 1));
    assert_eq!(tree(root), before);
}
