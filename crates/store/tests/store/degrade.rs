use super::child;
use super::common::{new_store, only_file, plan, put, selection_key, tree, warnings};
use super::upkeep::{has_graph, pack_up, put_graph};
use hipplan_serialize::Digest;
use hipplan_store::testing::{Op, Verdict, with_hook};
use hipplan_store::{Lookup, Miss, Mode, Persisted, Store, StoreError};
use std::cell::Cell;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

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
        // What is there, and can be neither stamped nor written anew, may be removed at any moment by whoever owns the store.
        match store.put_plan(&kept).unwrap().persisted {
            Persisted::No(error) => assert_eq!(error.code(), "no-permission", "{error}"),
            other => panic!("{other:?}"),
        }
        for i in 0..3_u8 {
            match store.put_blob(&[i]).unwrap().persisted {
                Persisted::No(error) => assert_eq!(error.code(), "no-permission", "{error}"),
                other => panic!("{other:?}"),
            }
        }
    });
    assert_eq!(warned.len(), 1, "{warned:?}");
    // One who may not write is told that nothing was repaired, not what was left.
    let repaired = Store::open(root, Mode::ReadWrite).unwrap().repair(&Default::default(), &());
    assert_eq!(repaired.unwrap_err().code(), "no-permission");
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
        // Permissions do not bind root, so somebody else tries: with a copy of this executable, which may be where others may not go.
        let place = tempfile::tempdir().unwrap();
        set_mode(place.path(), 0o755);
        let copy = place.path().join("executable");
        // By another process: a child that another test starts would keep a file open that this one writes, and the program would be busy.
        assert!(Command::new("cp").args([&std::env::current_exe().unwrap(), &copy]).status().unwrap().success());
        let mut command = child::command_of(&copy, "without permission", store.root());
        assert!(command.uid(65_534).gid(65_534).current_dir("/").status().unwrap().success());
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

/// Runs a body whose files cannot be stamped, as those of another user cannot.
fn without_stamps<T>(body: impl FnOnce() -> T) -> T {
    let is_stamp = |op: &Op<'_>| op.name() == "touch" || op.name() == "create" && op.path().extension().is_some_and(|e| e == "used");
    with_hook(move |op: Op<'_>| if is_stamp(&op) { Verdict::Fail(libc::EPERM) } else { Verdict::Go }, body)
}

#[test]
fn what_cannot_be_stamped_is_written_anew() {
    let (dir, store) = new_store();
    let file = |blob: Digest| plan(b"graph", 100, &[blob]);
    let blob = store.put_blob(b"machine code").unwrap().id;
    let id = put(&store, &file(blob));
    let key = selection_key(b"graph");
    assert!(store.put_selection(&key, &[id]).unwrap().is_persisted());
    let folders = ["objects", "plans", "index/plan", "index/select"];
    let inodes = || folders.map(|folder| fs::metadata(only_file(&store, folder)).unwrap().ino());
    // A second name keeps the number of an inode from being used again.
    let hold = |path: &Path, name: &str| fs::hard_link(path, dir.path().join(name)).unwrap();
    folders.iter().for_each(|folder| hold(&only_file(&store, folder), &folder.replace('/', "-")));
    // Found in place by puts of their own.
    let before = inodes();
    without_stamps(|| {
        assert!(matches!(store.put_blob(b"machine code").unwrap().persisted, Persisted::Unchanged));
        assert!(matches!(store.put_plan(&file(blob)).unwrap().persisted, Persisted::Unchanged));
        assert!(matches!(store.put_selection(&key, &[id]).unwrap(), Persisted::Unchanged));
    });
    let after = inodes();
    assert!(before.iter().zip(&after).all(|(before, after)| before != after), "{before:?} {after:?}");
    // Named by others.
    hold(&only_file(&store, "objects"), "again");
    without_stamps(|| {
        put(&store, &plan(b"other", 10, &[blob]));
        assert!(store.put_selection(&selection_key(b"other"), &[id]).unwrap().is_persisted());
    });
    assert_ne!(fs::metadata(blob_path(&store, &blob)).unwrap().ino(), after[0]);
    assert!(store.verify().is_clean());
    assert_eq!(fs::read_dir(store.root().join("tmp")).unwrap().count(), 0);
}

fn blob_path(store: &Store, blob: &Digest) -> PathBuf {
    let name = blob.hash.to_string();
    store.root().join(format!("objects/{}/{}", &name[..2], &name[2..]))
}

#[test]
fn what_cannot_be_stamped_in_a_pack_is_written_beside_it() {
    let (_dir, store) = new_store();
    let blob = store.put_blob(b"machine code").unwrap().id;
    let id = put(&store, &plan(b"graph", 100, &[blob]));
    pack_up(&store, 1);
    let loose = |folder| tree(&store.root().join(folder)).values().filter(|bytes| bytes.is_some()).count();
    assert_eq!(["objects", "plans", "index"].map(loose), [0; 3]);
    assert!(store.get_blob(&blob).hit().is_some());
    without_stamps(|| _ = put(&Store::open(store.root(), Mode::ReadWrite).unwrap(), &plan(b"other", 10, &[blob])));
    assert_eq!(["objects", "plans", "index"].map(loose), [1, 1, 1], "the blob, the other plan and its record");
    without_stamps(|| {
        let store = Store::open(store.root(), Mode::ReadWrite).unwrap();
        assert!(store.put_selection(&selection_key(b"graph"), &[id]).unwrap().is_persisted());
        assert!(matches!(store.put_plan(&plan(b"graph", 100, &[blob])).unwrap().persisted, Persisted::Unchanged));
    });
    assert_eq!(["objects", "plans", "index"].map(loose), [1, 2, 3]);
    assert!(store.verify().is_clean());
}

/// Runs a body; gives how often the folder of packs was listed, and how often a file in it was opened.
fn counted(body: impl FnOnce()) -> [u32; 2] {
    let counts = Rc::new(Cell::new([0; 2]));
    let count = Rc::clone(&counts);
    let hook = move |op: Op<'_>| {
        let [lists, opens] = count.get();
        let is_list = op.name() == "list" && op.path().ends_with("packs");
        let is_open = op.name() == "open" && op.path().extension().is_some_and(|e| e == "pack");
        count.set([lists + u32::from(is_list), opens + u32::from(is_open)]);
        Verdict::Go
    };
    with_hook(hook, body);
    counts.get()
}

/// Sets the time of last change of the folder of packs.
fn set_changed(store: &Store, to: SystemTime) {
    fs::File::open(store.root().join("packs")).unwrap().set_modified(to).unwrap();
}

#[test]
fn a_pack_that_cannot_be_opened_is_not_opened_again_and_again() {
    let (_dir, store) = new_store();
    put_graph(&store, 1, 100);
    pack_up(&store, 1);
    put_graph(&store, 2, 100);
    let bad = pack_up(&store, 2);
    let bytes = fs::read(&bad).unwrap();
    fs::write(&bad, [&bytes[..100], &[1], &bytes[101..]].concat()).unwrap();
    set_changed(&store, SystemTime::now() - Duration::from_secs(3600));
    let store = Store::open(store.root(), Mode::ReadWrite).unwrap();
    let [lists, opens] = counted(|| {
        for n in 0..100_u8 {
            assert!(matches!(store.get_blob(&Digest::of(&[n; 3])), Lookup::Miss(Miss::Fault(StoreError::Pack { .. }))));
        }
    });
    assert_eq!(opens, 3, "each pack once, and the bad one again behind a look at it");
    assert!(lists <= 50, "{lists} listings for 100 misses");
    assert!(has_graph(&store, 1));
    // In its place comes a good one.
    fs::write(store.root().join("tmp/good"), &bytes).unwrap();
    fs::rename(store.root().join("tmp/good"), &bad).unwrap();
    assert!(has_graph(&store, 2));
    assert!(matches!(store.get_blob(&Digest::of(b"nowhere")), Lookup::Miss(Miss::Absent)));
}

#[test]
fn a_folder_of_packs_that_was_changed_in_the_future_settles() {
    let (_dir, store) = new_store();
    put_graph(&store, 1, 100);
    pack_up(&store, 1);
    set_changed(&store, SystemTime::now() + Duration::from_secs(1_000_000));
    let store = Store::open(store.root(), Mode::ReadWrite).unwrap();
    let miss = || counted(|| assert!(store.get_blob(&Digest::of(b"nowhere")).hit().is_none()));
    assert_ne!(miss()[0], 0);
    let from = Instant::now();
    while miss()[0] != 0 {
        assert!(from.elapsed() < Duration::from_secs(60), "it never settles");
        std::thread::sleep(Duration::from_millis(50));
    }
    // What comes is seen all the same.
    put_graph(&store, 2, 100);
    pack_up(&store, 2);
    assert!(has_graph(&store, 2));
}
