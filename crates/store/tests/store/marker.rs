use super::common::tree;
use hipplan_store::{Mode, Store, StoreError};
use std::fs;

#[test]
fn a_folder_becomes_a_store_with_all_above_it() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("a/b/c");
    let store = Store::open(&root, Mode::ReadWrite).unwrap();
    assert_eq!(store.root(), root);
    assert_eq!(fs::read(root.join("hipplan-store")).unwrap(), b"hipplan store 2\n");
    assert_eq!(tree(&root).len(), 2);
    Store::open(&root, Mode::ReadWrite).unwrap();
    Store::open(&root, Mode::ReadOnly).unwrap();
}

#[test]
fn a_fresh_file_system_and_a_killed_creator_leave_room_for_a_store() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("lost+found")).unwrap();
    fs::create_dir(dir.path().join("tmp")).unwrap();
    fs::write(dir.path().join("tmp/abcdef.tmp"), "hipplan st").unwrap();
    let store = Store::open(dir.path(), Mode::ReadWrite).unwrap();
    assert_eq!(store.verify().leftovers.len(), 1);
    assert!(store.verify().is_clean());
}

#[test]
fn other_folders_are_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    for mode in [Mode::ReadOnly, Mode::ReadWrite] {
        fs::write(dir.path().join("thesis.tex"), "").unwrap();
        let error = Store::open(dir.path(), mode).unwrap_err();
        assert!(matches!(&error, StoreError::NotAStore { found, .. } if found == "thesis.tex"), "{error}");
        assert_eq!(tree(dir.path()).len(), 1);
    }
    // Objects without a marker: a store whose marker was lost is not guessed to be one.
    let lost = dir.path().join("lost");
    fs::create_dir_all(lost.join("objects")).unwrap();
    assert!(matches!(Store::open(&lost, Mode::ReadWrite), Err(StoreError::NotAStore { .. })));
}

#[test]
fn other_layouts_are_refused_each_by_its_own_error() {
    let dir = tempfile::tempdir().unwrap();
    for mode in [Mode::ReadOnly, Mode::ReadWrite] {
        for (text, code) in [
            ("hipplan store 0\n", "too-old"),
            ("hipplan store 3\n", "too-new"),
            ("hipplan store 12\nand more\n", "too-new"),
            ("", "marker"),
            ("hipplan store 2", "marker"),
            (&"x".repeat(5000), "marker"),
        ] {
            fs::write(dir.path().join("hipplan-store"), text).unwrap();
            let error = Store::open(dir.path(), mode).unwrap_err();
            assert_eq!(error.code(), code, "{error}");
            assert!(error.to_string().contains("hipplan-store"), "{error}");
        }
    }
    assert_eq!(tree(dir.path()).len(), 1);
}

#[test]
fn many_threads_make_one_store() {
    let dir = tempfile::tempdir().unwrap();
    for i in 0..20 {
        let root = dir.path().join(format!("deep/{i}/store"));
        std::thread::scope(|scope| {
            for n in 0..8_u8 {
                let root = &root;
                scope.spawn(move || Store::open(root, Mode::ReadWrite).unwrap().put_blob(&[n]).unwrap().persisted.is_persisted());
            }
        });
        let report = Store::open(&root, Mode::ReadOnly).unwrap().verify();
        assert!(report.is_clean() && report.leftovers.is_empty(), "{report:?}");
        assert_eq!(report.blobs, 8);
    }
}
