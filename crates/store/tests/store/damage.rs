use super::common::{new_store, only_file, plan, put, selection_key, warnings};
use super::compact::compact;
use hipplan_serialize::Digest;
use hipplan_store::testing::{Op, Verdict, with_hook};
use hipplan_store::{Lookup, Miss, Mode, Persisted, RepairOptions, Store, StoreError};
use std::fs;
use std::path::Path;

/// The reason for a miss that must be a fault.
fn fault<T>(lookup: Lookup<T>) -> StoreError {
    match lookup {
        Lookup::Miss(Miss::Fault(error)) => error,
        Lookup::Miss(other) => panic!("{other}"),
        Lookup::Hit(_) => panic!("a damaged file was served"),
    }
}

/// Every truncation and a flip of every byte, one after the other; the file is good again afterwards.
fn for_each_damage(path: &Path, mut check: impl FnMut(&str)) {
    let good = fs::read(path).unwrap();
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x20;
        fs::write(path, &bad).unwrap();
        check(&format!("byte {at} flipped"));
        fs::write(path, &good[..at]).unwrap();
        check(&format!("cut to {at} bytes"));
    }
    fs::write(path, [&good[..], &[0]].concat()).unwrap();
    check("one byte more");
    fs::write(path, good).unwrap();
}

#[test]
fn no_damaged_blob_is_served() {
    let (_dir, store) = new_store();
    let id = store.put_blob(&[9; 200]).unwrap().id;
    for_each_damage(&only_file(&store, "objects"), |what| {
        let error = fault(store.get_blob(&id));
        assert_eq!(error.code(), "damaged", "{what}: {error}");
    });
    assert!(store.get_blob(&id).hit().is_some());
}

#[test]
fn no_damaged_record_is_followed() {
    let (_dir, store) = new_store();
    let id = put(&store, &plan(b"graph", 10, &[]));
    let key = selection_key(b"graph");
    assert!(store.put_selection(&key, &[id]).unwrap().is_persisted());
    for_each_damage(&only_file(&store, "index/plan"), |_| drop(fault(store.find_plan(&id.key))));
    for_each_damage(&only_file(&store, "index/select"), |_| drop(fault(store.find_selection(&key))));
    assert_eq!(store.find_plan(&id.key).hit(), Some(id));
    assert_eq!(store.find_selection(&key).hit().unwrap().plans, [id]);
}

#[test]
fn no_damaged_plan_passes_the_checks() {
    let (_dir, store) = new_store();
    let id = put(&store, &plan(b"graph", 100, &[]));
    for_each_damage(&only_file(&store, "plans"), |what| {
        // Opening checks what does not belong to a section; the digests of sections do the rest.
        let caught = match store.get_plan(&id) {
            Lookup::Hit(plan) => plan.view().verify().is_err(),
            Lookup::Miss(Miss::Fault(_)) => true,
            Lookup::Miss(other) => panic!("{other}"),
        };
        assert!(caught, "{what}");
        assert_eq!(store.verify().problems.len(), 1, "{what}");
    });
    assert!(store.verify().is_clean());
}

#[test]
fn a_put_repairs_what_it_finds() {
    let (_dir, store) = new_store();
    let blob = store.put_blob(b"machine code").unwrap().id;
    let file = plan(b"graph", 100, &[blob]);
    let id = put(&store, &file);
    let key = selection_key(b"graph");
    assert!(store.put_selection(&key, &[id]).unwrap().is_persisted());
    let paths = ["objects", "plans", "index/plan", "index/select"].map(|folder| only_file(&store, folder));
    let good = paths.clone().map(|path| fs::read(path).unwrap());
    for kind in ["same size", "empty", "link"] {
        for (path, good) in paths.iter().zip(&good) {
            fs::remove_file(path).unwrap();
            match kind {
                "same size" => fs::write(path, vec![0; good.len()]).unwrap(),
                "empty" => fs::write(path, "").unwrap(),
                _ => std::os::unix::fs::symlink("/dev/zero", path).unwrap(),
            }
        }
        // A reader that may not write leaves them where they are.
        let reader = Store::open(store.root(), Mode::ReadOnly).unwrap();
        assert!(reader.get_blob(&blob).hit().is_none());
        assert!(reader.find_plan(&id.key).hit().is_none());
        assert!(reader.get_plan(&id).hit().is_none());
        assert!(reader.find_selection(&key).hit().is_none());
        assert!(matches!(store.put_blob(b"machine code").unwrap().persisted, Persisted::Replaced));
        assert!(matches!(store.put_plan(&file).unwrap().persisted, Persisted::Replaced));
        assert!(matches!(store.put_selection(&key, &[id]).unwrap(), Persisted::Replaced));
        assert_eq!(paths.clone().map(|path| fs::read(path).unwrap()), good, "{kind}");
        assert!(store.verify().is_clean());
    }
}

#[test]
fn what_is_damaged_is_set_aside_and_built_again() {
    let (_dir, store) = new_store();
    let blob = store.put_blob(b"machine code").unwrap().id;
    let file = plan(b"graph", 100, &[blob]);
    let id = put(&store, &file);
    let key = selection_key(b"graph");
    assert!(store.put_selection(&key, &[id]).unwrap().is_persisted());
    let paths = ["objects", "plans", "index/plan", "index/select"].map(|folder| only_file(&store, folder));
    paths.iter().for_each(|path| fs::write(path, "damaged").unwrap());
    let ((), warned) = warnings(|| {
        for _ in 0..2 {
            assert!(store.get_blob(&blob).hit().is_none());
            assert!(store.find_plan(&id.key).hit().is_none());
            assert!(store.get_plan(&id).hit().is_none());
            assert!(store.find_selection(&key).hit().is_none());
        }
    });
    assert_eq!(warned.len(), 4, "one for each entry: {warned:?}");
    let report = store.verify();
    assert!(report.is_clean() && report.leftovers.is_empty(), "{report:?}");
    assert_eq!((report.quarantined.len(), report.plans), (4, 0));
    assert!(report.quarantined.iter().all(|path| fs::read(path).unwrap() == b"damaged"));
    assert!(matches!(store.put_blob(b"machine code").unwrap().persisted, Persisted::New));
    assert!(matches!(store.put_plan(&file).unwrap().persisted, Persisted::New));
    assert!(matches!(store.put_selection(&key, &[id]).unwrap(), Persisted::New));
    assert!(store.get_plan(&id).hit().is_some() && store.verify().is_clean());
}

#[test]
fn an_entry_under_a_wrong_name_is_not_served() {
    let (_dir, store) = new_store();
    let (a, b) = (put(&store, &plan(b"a", 10, &[])), put(&store, &plan(b"b", 10, &[])));
    let file = |folder: &str, hash: String, end: &str| store.root().join(format!("{folder}/{}/{}{end}", &hash[..2], &hash[2..]));
    fs::copy(file("plans", b.root.to_string(), ".plan"), file("plans", a.root.to_string(), ".plan")).unwrap();
    fs::copy(file("index/plan", b.key.to_string(), ".rec"), file("index/plan", a.key.to_string(), ".rec")).unwrap();
    assert!(matches!(fault(store.get_plan(&a)), StoreError::Content { what: "root hash", .. }));
    assert!(matches!(fault(store.find_plan(&a.key)), StoreError::Record { .. }));
    assert_eq!(store.verify().quarantined.len(), 2);
    // A good file asked for by another key is not the plan that was asked for either.
    let mut other = b;
    other.key = a.key;
    assert!(matches!(fault(store.get_plan(&other)), StoreError::Content { what: "plan key", .. }));
    other.size += 1;
    assert!(matches!(fault(store.get_plan(&other)), StoreError::Size { .. }));
    assert!(store.get_plan(&b).hit().is_some(), "what is asked for wrongly is not set aside");
}

#[test]
fn older_and_newer_files_are_told_from_damaged_ones() {
    let (_dir, store) = new_store();
    let id = put(&store, &plan(b"graph", 10, &[]));
    for (path, at) in [(only_file(&store, "plans"), 8), (only_file(&store, "index/plan"), 8)] {
        let good = fs::read(&path).unwrap();
        for (number, code) in [(0, "too-old"), (2, "too-new")] {
            let mut bad = good.clone();
            bad[at] = number;
            fs::write(&path, bad).unwrap();
            let error = if path.ends_with(format!("{}.plan", &id.root.to_string()[2..])) {
                fault(store.get_plan(&id))
            } else {
                fault(store.find_plan(&id.key))
            };
            assert_eq!(error.code(), code, "{error}");
            assert_eq!((error.is_too_old(), error.is_too_new()), (number == 0, number == 2));
        }
        fs::write(&path, good).unwrap();
    }
}

#[test]
fn a_fault_is_warned_of_once() {
    let (_dir, store) = new_store();
    let id = store.put_blob(b"machine code").unwrap().id;
    let path = only_file(&store, "objects");
    fs::write(&path, b"Machine code").unwrap();
    let ((), warnings) = warnings(|| {
        for _ in 0..3 {
            assert!(store.get_blob(&id).hit().is_none());
            assert!(store.clone().get_blob(&id).hit().is_none());
        }
    });
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    for part in [&format!("cause={}: ", path.display()), "code=\"damaged\"", "advice="] {
        assert!(warnings[0].contains(part), "{part} in {warnings:?}");
    }
    assert_eq!(warnings[0].matches(&*path.to_string_lossy()).count(), 1, "{warnings:?}");
}

#[test]
fn a_refusal_of_the_system_is_warned_of_once_however_many_entries_it_hits() {
    let (_dir, store) = new_store();
    for folder in ["objects", "plans"] {
        fs::write(store.root().join(folder), "").unwrap();
    }
    let ((), warnings) = warnings(|| {
        for i in 0..10_u8 {
            assert!(matches!(fault(store.get_blob(&Digest::of(&[i]))), StoreError::Io { .. }));
        }
    });
    assert_eq!(warnings.len(), 1, "{warnings:?}");
}

#[test]
fn links_pipes_and_folders_are_neither_followed_nor_waited_for() {
    let (dir, store) = new_store();
    let id = store.put_blob(b"machine code").unwrap().id;
    let path = only_file(&store, "objects");
    // The right content behind a link is still not ours: what it points to may change.
    let elsewhere = dir.path().join("elsewhere");
    fs::rename(&path, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
    assert!(matches!(fault(store.get_blob(&id)), StoreError::FileType { found: "a symbolic link", .. }));
    fs::remove_file(&path).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    assert!(matches!(fault(store.get_blob(&id)), StoreError::FileType { .. }));
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(matches!(fault(store.get_blob(&id)), StoreError::FileType { found: "a folder", .. }));
    assert!(matches!(store.put_blob(b"machine code"), Err(StoreError::FileType { .. })));
}

#[test]
fn a_file_where_a_folder_should_be_is_a_fault_of_those_entries_only() {
    let (_dir, store) = new_store();
    let (id, other) = (Digest::of(b"machine code"), store.put_blob(b"other code").unwrap().id);
    assert_ne!(id.hash.0[0], other.hash.0[0]);
    fs::write(store.root().join(format!("objects/{:02x}", id.hash.0[0])), "").unwrap();
    assert!(matches!(fault(store.get_blob(&id)), StoreError::Io { .. }));
    assert!(matches!(store.put_blob(b"machine code"), Err(StoreError::Io { .. })));
    assert!(store.get_blob(&other).hit().is_some());
    assert_eq!(fs::read_dir(store.root().join("tmp")).unwrap().count(), 0);
}

#[test]
fn a_store_removed_under_a_writer_is_made_again() {
    let (_dir, store) = new_store();
    let id = store.put_blob(b"one").unwrap().id;
    fs::remove_dir_all(store.root()).unwrap();
    assert!(matches!(store.get_blob(&id), Lookup::Miss(Miss::Absent)));
    let put = store.put_blob(b"one").unwrap();
    assert!(matches!(put.persisted, Persisted::New));
    fs::remove_dir_all(store.root().join("tmp")).unwrap();
    assert!(store.put_blob(b"two").unwrap().persisted.is_persisted());
    let again = Store::open(store.root(), Mode::ReadOnly).unwrap();
    assert!(again.get_blob(&id).hit().is_some());
    assert!(again.verify().is_clean());
}

#[test]
fn a_file_of_any_size_costs_no_memory() {
    // A hole of a tebibyte takes no room on a disk, and none in memory or time if nobody reads it.
    const HOLE: u64 = 1 << 40;
    let (_dir, store) = new_store();
    let blob = store.put_blob(b"machine code").unwrap().id;
    let id = put(&store, &plan(b"graph", 100, &[blob]));
    let key = selection_key(b"graph");
    assert!(store.put_selection(&key, &[id]).unwrap().is_persisted());
    let grow = |path: &Path| fs::File::options().write(true).open(path).unwrap().set_len(HOLE).unwrap();
    let paths = ["objects", "plans", "index/plan", "index/select"].map(|folder| only_file(&store, folder));
    paths.iter().for_each(|path| grow(path));
    let report = store.verify();
    assert_eq!(report.problems.iter().map(|p| p.code()).collect::<Vec<_>>(), ["limit"; 4], "{report:?}");
    let ((), warned) = warnings(|| {
        assert!(matches!(fault(store.get_blob(&blob)), StoreError::Size { .. }));
        assert!(matches!(fault(store.get_plan(&id)), StoreError::Size { .. }));
        assert!(matches!(fault(store.find_plan(&id.key)), StoreError::Limit { .. }));
        assert!(matches!(fault(store.find_selection(&key)), StoreError::Limit { .. }));
    });
    assert_eq!(warned.len(), 4, "{warned:?}");
    // Those whose address has a size are set aside; records of any size may be somebody's with other limits.
    assert!(matches!(store.get_blob(&blob), Lookup::Miss(Miss::Absent)));
    assert!(matches!(store.get_plan(&id), Lookup::Miss(Miss::Absent)));
    assert_eq!(store.verify().quarantined.len(), 2);
    // What a kill left in the trash is looked at by the next upkeep, and stays there if it cannot be.
    let trash = store.root().join("trash");
    let left = trash.join(format!("blob-{}-00000001", blob.hash));
    fs::write(&left, "").unwrap();
    grow(&left);
    assert_eq!(compact(&store).put_back.len(), 0);
    assert!(left.exists());
    store.repair(&Default::default(), &()).unwrap();
    fs::remove_file(&left).unwrap();
}

/// Damages the only blob of a store, and puts it anew, as another process would, at the moment in which the damaged file is renamed.
fn put_anew_while_it_is_set_aside(store: &Store, id: &Digest, more: impl Fn(Op<'_>) -> Verdict + 'static) -> std::path::PathBuf {
    let path = only_file(store, "objects");
    fs::write(&path, "damaged").unwrap();
    let (at, temp) = (path.clone(), store.root().join("tmp/new"));
    let hook = move |op: Op<'_>| {
        if matches!(op, Op::Rename { from, .. } if from == at) {
            fs::write(&temp, "machine code").unwrap();
            fs::rename(&temp, &at).unwrap();
        }
        more(op)
    };
    with_hook(hook, || assert_eq!(fault(store.get_blob(id)).code(), "damaged"));
    path
}

#[test]
fn a_good_file_that_comes_while_a_damaged_one_is_set_aside_stays() {
    let (_dir, store) = new_store();
    let id = store.put_blob(b"machine code").unwrap().id;
    let path = put_anew_while_it_is_set_aside(&store, &id, |_| Verdict::Go);
    assert_eq!(fs::read(&path).unwrap(), b"machine code");
    assert!(store.get_blob(&id).hit().is_some());
    assert!(store.verify().quarantined.is_empty());

    // Killed before it goes back: the next upkeep puts it back.
    let dies = |op: Op<'_>| if op.name() == "rename-new" { Verdict::Fail(libc::EIO) } else { Verdict::Go };
    let path = put_anew_while_it_is_set_aside(&store, &id, dies);
    assert!(!path.exists());
    let report = store.verify();
    assert_eq!((report.quarantined.len(), report.leftovers.len()), (0, 1), "{report:?}");
    assert_eq!(compact(&Store::open(store.root(), Mode::ReadWrite).unwrap()).put_back, [path]);
    assert!(store.get_blob(&id).hit().is_some());
}

/// What is named by its content is the same wherever it stands: a damaged copy beside a known pack is in nobody's way, and upkeep finds it.
#[test]
fn a_damaged_copy_of_what_a_known_pack_has_is_in_nobodys_way() {
    let (_dir, store) = new_store();
    let blob = store.put_blob(&[7; 3000]).unwrap().id;
    let plan = put(&store, &plan(b"graph", 1000, &[blob]));
    let key = selection_key(b"graph");
    assert!(store.put_selection(&key, &[plan]).unwrap().is_persisted());
    let copies: Vec<_> = ["objects", "plans"].map(|folder| only_file(&store, folder)).into();
    let whole: Vec<_> = copies.iter().map(|copy| std::fs::read(copy).unwrap()).collect();
    compact(&store);
    for (copy, bytes) in copies.iter().zip(whole) {
        let mut bytes = bytes;
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::create_dir_all(copy.parent().unwrap()).unwrap();
        std::fs::write(copy, bytes).unwrap();
    }
    let (_, warnings) = warnings(|| {
        let reader = Store::open(store.root(), Mode::ReadWrite).unwrap();
        assert_eq!(reader.find_selection(&key).hit().unwrap().plans, [plan]);
        assert!(reader.get_plan(&plan).hit().is_some() && reader.get_blob(&blob).hit().is_some());
    });
    assert!(warnings.is_empty(), "{warnings:?}");
    assert_eq!(store.verify().problems.len(), 2, "{:?}", store.verify().problems);
    store.repair(&RepairOptions::default(), &()).unwrap();
    assert!(store.verify().is_clean(), "{:?}", store.verify().problems);
    assert!(store.get_plan(&plan).hit().is_some() && store.get_blob(&blob).hit().is_some());
}
