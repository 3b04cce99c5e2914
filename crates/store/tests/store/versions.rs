//! Stores of earlier layouts, and of one to come.

use super::common::{plan, put, tree};
use hipplan_store::{CompactOptions, Mode, Store, StoreError};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A copy of a store of the corpus, to be changed.
fn copy_of(layout: &str) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/stores").join(layout), &root);
    (dir, root)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() { copy(&entry.path(), &to) } else { _ = fs::copy(entry.path(), to).unwrap() }
    }
}

fn marker(root: &Path) -> String {
    fs::read_to_string(root.join("hipplan-store")).unwrap()
}

/// Everything in it is found; nothing is wrong with it.
fn check_whole(store: &Store) {
    let report = store.verify();
    assert!(report.is_clean() && report.leftovers.is_empty(), "{report:?}");
    assert_eq!((report.plans, report.blobs), (5, 1));
    let plans: Vec<_> = store.iter_plans().map(Result::unwrap).collect();
    assert_eq!(plans.len(), 5);
    for id in plans {
        let plan = store.get_plan(&id).hit().expect("a plan that is listed");
        plan.view().verify().unwrap();
        assert_eq!(store.find_plan(&id.key).hit(), Some(id));
        plan.code_objects().for_each(|blob| assert!(store.get_blob(&blob).hit().is_some()));
    }
}

#[test]
fn a_store_of_layout_1_is_read_as_it_is_and_raised_when_something_new_is_put_there() {
    let (_dir, root) = copy_of("v1");
    let before = tree(&root);
    check_whole(&Store::open(&root, Mode::ReadOnly).unwrap());
    assert_eq!(tree(&root), before);

    // What layout 1 knows is put without raising it, so that an older hipplan goes on using it.
    let store = Store::open(&root, Mode::ReadWrite).unwrap();
    let id = put(&store, &plan(b"another", 10, &[]));
    assert_eq!(marker(&root), "hipplan store 1\n");
    let _ = store.compact(&CompactOptions::default(), &()).unwrap();
    assert_eq!(marker(&root), "hipplan store 2\n");
    assert!(store.get_plan(&id).hit().is_some());
    assert_eq!(store.verify().plans, 6);
    assert!(store.verify().is_clean());
}

#[test]
fn a_store_of_this_layout_stays_readable() {
    let (_dir, root) = copy_of("v2");
    assert_eq!(marker(&root), "hipplan store 2\n");
    assert!(fs::read_dir(root.join("packs")).unwrap().count() > 0, "some of it is in a pack");
    let before = tree(&root);
    check_whole(&Store::open(&root, Mode::ReadOnly).unwrap());
    assert_eq!(tree(&root), before);
    assert_eq!(Store::open(&root, Mode::ReadOnly).unwrap().pins().unwrap().len(), 1);
}

#[test]
fn a_store_of_a_layout_to_come_is_refused_and_left_alone() {
    let (_dir, root) = copy_of("v2");
    fs::write(root.join("hipplan-store"), "hipplan store 3\nwhatever that says\n").unwrap();
    let before = tree(&root);
    for mode in [Mode::ReadOnly, Mode::ReadWrite] {
        let error = Store::open(&root, mode).unwrap_err();
        assert!(matches!(error, StoreError::TooNew { found: 3, expected: 2, .. }), "{error}");
    }
    assert!(Store::open_or_degrade(&root).unavailable().is_some_and(StoreError::is_too_new));
    assert_eq!(tree(&root), before);
}
