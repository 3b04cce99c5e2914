use super::child;
use super::common::{new_store, only_file, plan, put, selection_key, tree, warnings};
use hipplan_store::{Lookup, Miss, Mode, Persisted, Store, StoreError};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Places that refuse a store even to root.
fn impossible_places(dir: &Path) -> Vec<PathBuf> {
    let file = dir.join("file");
    fs::write(&file, "").unwrap();
    let foreign = dir.join("foreign");
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("thesis.tex"), "").unwrap();
    let newer = dir.join("newer");
    fs::create_dir(&newer).unwrap();
    fs::write(newer.join("hipplan-store"), "hipplan store 3\n").unwrap();
    vec![file.clone(), file.join("below"), foreign, newer, PathBuf::from("/proc/hipplan"), PathBuf::new(), PathBuf::from("a\0b")]
}

#[test]
fn work_goes_on_without_a_store_and_with_one_warning() {
    let dir = tempfile::tempdir().unwrap();
    let file = plan(b"graph", 10, &[]);
    for place in impossible_places(dir.path()) {
        assert!(Store::open(&place, Mode::ReadWrite).is_err(), "{place:?}");
        let before = tree(dir.path());
        let ((), warnings) = warnings(|| {
            let store = Store::open_or_degrade(&place);
            assert!(store.unavailable().is_some());
            for _ in 0..2 {
                let put = store.put_plan(&file).unwrap();
                assert!(matches!(put.persisted, Persisted::No(StoreError::Unavailable { .. })));
                assert!(matches!(store.put_blob(b"x").unwrap().persisted, Persisted::No(_)));
                assert!(matches!(store.put_selection(&selection_key(b"graph"), &[put.id]).unwrap(), Persisted::No(_)));
                assert!(matches!(store.get_plan(&put.id), Lookup::Miss(Miss::NoStore)));
                assert!(matches!(store.find_plan(&put.id.key), Lookup::Miss(Miss::NoStore)));
            }
            assert_eq!(store.iter_plans().count(), 0);
            assert!(store.verify().is_clean());
        });
        assert_eq!(warnings.len(), 1, "{place:?}: {warnings:?}");
        for part in ["code=", "cause=", "advice="] {
            assert!(warnings[0].contains(part), "{part} in {warnings:?}");
        }
        assert_eq!(tree(dir.path()), before, "{place:?}");
    }
}

#[test]
fn a_store_that_cannot_be_written_is_still_read() {
    let (_dir, store) = new_store();
    let kept = put(&store, &plan(b"kept", 10, &[]));
    // A file in the way of every temporary file: refused to root as well.
    fs::remove_dir_all(store.root().join("tmp")).unwrap();
    fs::write(store.root().join("tmp"), "").unwrap();
    let tmp = store.root().join("tmp");
    let error = store.put_blob(b"x").unwrap_err();
    assert!(error.is_unreadable() && !error.is_damage());
    assert_eq!(error.to_string(), format!("cannot create a file in {}: Not a directory (os error 20)", tmp.display()));

    let ((), warnings) = warnings(|| {
        let store = Store::open_or_degrade(store.root());
        assert!(store.unavailable().is_none());
        assert!(store.get_plan(&kept).hit().is_some());
        for i in 0..3_u8 {
            let put = store.put_plan(&plan(&[i], 10, &[])).unwrap();
            assert!(matches!(put.persisted, Persisted::No(StoreError::Io { .. })), "{:?}", put.persisted);
            assert!(matches!(store.put_selection(&selection_key(&[i]), &[put.id]).unwrap(), Persisted::No(_)));
        }
        // What is there needs no writing.
        assert!(matches!(store.put_plan(&plan(b"kept", 10, &[])).unwrap().persisted, Persisted::Unchanged));
        assert!(store.get_plan(&kept).hit().is_some());
    });
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert_eq!(warnings[0].matches(&*store.root().to_string_lossy()).count(), 1, "{warnings:?}");
}

#[test]
fn a_store_that_can_be_written_again_keeps_results_again() {
    let (_dir, store) = new_store();
    let store = Store::open_or_degrade(store.root());
    let tmp = store.root().join("tmp");
    assert!(store.put_blob(b"0").unwrap().persisted.is_persisted());
    fs::remove_dir_all(&tmp).unwrap();
    fs::write(&tmp, "").unwrap();
    assert!(!store.put_blob(b"1").unwrap().persisted.is_persisted());
    fs::remove_file(&tmp).unwrap();
    assert!(store.put_blob(b"1").unwrap().persisted.is_persisted());
}

#[test]
fn a_reader_creates_and_touches_nothing() {
    let (dir, store) = new_store();
    let file = plan(b"graph", 10, &[]);
    let id = put(&store, &file);
    fs::write(dir.path().join("store/tmp/litter"), "").unwrap();
    let before = (tree(dir.path()), times(dir.path()));

    let reader = Store::open(store.root(), Mode::ReadOnly).unwrap();
    assert!(reader.get_plan(&id).hit().is_some());
    assert_eq!(reader.iter_plans().count(), 1);
    assert_eq!(reader.verify().leftovers.len(), 1);
    assert!(matches!(reader.put_plan(&file), Err(StoreError::ReadOnly { .. })));
    assert!(matches!(reader.put_blob(b"x"), Err(StoreError::ReadOnly { .. })));
    assert!(matches!(reader.put_selection(&selection_key(b"graph"), &[id]), Err(StoreError::ReadOnly { .. })));
    assert!(matches!(Store::open(dir.path().join("none"), Mode::ReadOnly), Err(StoreError::NoSuchStore { .. })));
    assert_eq!((tree(dir.path()), times(dir.path())), before);
}

#[test]
fn opening_a_filled_store_for_writing_writes_nothing() {
    let (dir, store) = new_store();
    let id = put(&store, &plan(b"graph", 10, &[]));
    let before = (tree(dir.path()), times(dir.path()));
    let again = Store::open_or_degrade(store.root());
    assert!(again.get_plan(&id).hit().is_some());
    assert_eq!((tree(dir.path()), times(dir.path())), before);
}

/// When each thing below a folder was last changed.
fn times(root: &Path) -> Vec<SystemTime> {
    tree(root).into_keys().map(|name| fs::metadata(root.join(name)).unwrap().modified().unwrap()).collect()
}

/// A child that may read the store in `root` and write nothing, and may not even look into the one beside it.
pub(crate) fn without_permission(root: &Path) {
    let kept = plan(b"kept", 10, &[]);
    let ((), warned) = warnings(|| {
        let store = Store::open_or_degrade(root);
        assert_eq!(store.iter_plans().filter_map(Result::ok).count(), 1);
        assert!(matches!(store.put_plan(&kept).unwrap().persisted, Persisted::Unchanged));
        for i in 0..3_u8 {
            match store.put_blob(&[i]).unwrap().persisted {
                Persisted::No(error) => assert_eq!(error.code(), "no-permission", "{error}"),
                other => panic!("{other:?}"),
            }
        }
    });
    assert_eq!(warned.len(), 1, "{warned:?}");
    // Nothing that may not be read is called damaged, and none of it is listed twice.
    let report = Store::open(root.with_file_name("unreadable"), Mode::ReadOnly).unwrap().verify();
    let mut paths: Vec<_> = report.problems.iter().map(|p| p.path().unwrap()).collect();
    assert!(report.problems.iter().all(|p| p.is_unreadable() && !p.is_damage() && p.code() == "no-permission"), "{report:?}");
    paths.dedup();
    assert_eq!(paths.len(), 4, "{report:?}");
    for place in ["closed", "closed/below", "new"] {
        let (store, warned) = warnings(|| Store::open_or_degrade(root.with_file_name(place)));
        assert_eq!(store.unavailable().map(StoreError::code), Some("no-permission"), "{place}");
        assert_eq!(warned.len(), 1, "{warned:?}");
    }
}

#[test]
fn a_store_of_another_user_is_read_and_not_written() {
    let (dir, store) = new_store();
    let _ = put(&store, &plan(b"kept", 10, &[]));
    let closed = Store::open(dir.path().join("closed"), Mode::ReadWrite).unwrap();
    let set_mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    set_mode(closed.root(), 0o000);
    let unreadable = Store::open(dir.path().join("unreadable"), Mode::ReadWrite).unwrap();
    let _ = unreadable.put_blob(b"code").unwrap();
    let id = put(&unreadable, &plan(b"kept", 10, &[]));
    assert!(unreadable.put_selection(&selection_key(b"kept"), &[id]).unwrap().is_persisted());
    for folder in ["objects", "plans", "index/plan", "index/select"] {
        set_mode(&only_file(&unreadable, folder), 0o000);
    }
    let folders: Vec<_> = tree(store.root()).into_iter().filter_map(|(name, file)| file.is_none().then_some(name)).collect();
    folders.iter().for_each(|name| set_mode(&store.root().join(name), 0o555));
    set_mode(store.root(), 0o555);
    set_mode(dir.path(), 0o555);
    if fs::metadata(dir.path()).unwrap().uid() == 0 {
        // Permissions do not bind root, so somebody else tries; unless nobody else can run this executable.
        let mut command = child::command("without permission", store.root());
        match command.uid(65_534).gid(65_534).current_dir("/").status() {
            Ok(status) => assert!(status.success()),
            Err(e) => assert_eq!(e.kind(), std::io::ErrorKind::PermissionDenied),
        }
    } else {
        without_permission(store.root());
    }
    // So that the folder can be removed.
    set_mode(dir.path(), 0o755);
    set_mode(closed.root(), 0o755);
    set_mode(store.root(), 0o755);
    folders.iter().for_each(|name| set_mode(&store.root().join(name), 0o755));
}

/// A child whose writes stop half-way through a large file.
pub(crate) fn with_a_full_disk(root: &Path) {
    let ((), warned) = warnings(|| {
        let store = Store::open_or_degrade(root);
        for i in 0..2_u8 {
            let put = store.put_blob(&vec![i; 1 << 20]).unwrap();
            assert!(matches!(put.persisted, Persisted::No(StoreError::Io { .. })));
            assert!(matches!(store.get_blob(&put.id), Lookup::Miss(Miss::Absent)));
        }
        assert!(matches!(store.put_blob(b"small").unwrap().persisted, Persisted::New));
    });
    assert_eq!(warned.len(), 1, "{warned:?}");
}

#[test]
fn a_write_that_stops_half_way_leaves_nothing() {
    let (_dir, store) = new_store();
    // A limit on the size of files stops a write as a full disk does, and needs no disk of its own.
    // Its output is a pipe: the limit would hold for a log file, too.
    let ran = child::shell_command("trap '' XFSZ; ulimit -f 64", "with a full disk", store.root()).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    let report = store.verify();
    assert!(report.is_clean() && report.leftovers.is_empty(), "{report:?}");
    assert_eq!(report.blobs, 1);
}
