use super::common::{is_new, new_store, plan, plan_of_engine, put, selection_key, tree, warnings};
use super::upkeep::pack_up;
use hipplan_serialize::{ContentHash, Digest};
use hipplan_store::testing::{Op, Verdict, with_hook};
use hipplan_store::{Limits, Lookup, Miss, Mode, Persisted, Store, StoreError};
use std::cell::Cell;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::rc::Rc;

#[test]
fn blobs_come_back_aligned() {
    let (_dir, store) = new_store();
    for len in [0, 1, 63, 64, 65, 65_536, 65_537, 300_000] {
        let blob: Vec<u8> = (0..len).map(|i| (i * 31) as u8).collect();
        let first = store.put_blob(&blob).unwrap();
        assert!(is_new(&first.persisted));
        assert_eq!(first.id, Digest::of(&blob));
        let again = store.put_blob(&blob).unwrap();
        assert!(matches!(again.persisted, Persisted::Unchanged));
        let found = store.get_blob(&first.id).hit().unwrap();
        assert_eq!(found[..], blob[..]);
        assert!(found.is_empty() || found.as_ptr().addr().is_multiple_of(64));
    }
}

#[test]
fn what_was_never_put_is_absent_without_a_warning() {
    let (_dir, store) = new_store();
    let digest = Digest { hash: ContentHash([7; 32]), size: 7 };
    let other = plan(b"g", 10, &[]);
    let (_elsewhere, full) = new_store();
    let id = put(&full, &other);
    let (misses, warnings) = warnings(|| {
        [
            matches!(store.get_blob(&digest), Lookup::Miss(Miss::Absent)),
            matches!(store.get_plan(&id), Lookup::Miss(Miss::Absent)),
            matches!(store.find_plan(&id.key), Lookup::Miss(Miss::Absent)),
            matches!(store.find_selection(&selection_key(b"g")), Lookup::Miss(Miss::Absent)),
        ]
    });
    assert_eq!(misses, [true; 4]);
    assert_eq!(warnings, [""; 0]);
}

#[test]
fn plans_are_found_by_key_and_by_address() {
    let (_dir, store) = new_store();
    let blob = store.put_blob(b"machine code").unwrap().id;
    let file = plan(b"graph", 5000, &[blob]);
    let first = store.put_plan(&file).unwrap();
    assert!(is_new(&first.persisted));
    assert!(matches!(store.put_plan(&file).unwrap().persisted, Persisted::Unchanged));
    assert_eq!(store.find_plan(&first.id.key).hit(), Some(first.id));
    let found = store.get_plan(&first.id).hit().unwrap();
    assert_eq!(found.bytes(), &file[..]);
    assert_eq!(found.view().plan_ref(), first.id);
    found.view().verify().unwrap();
    // A clone, a reader and another writer see the same.
    for other in [store.clone(), Store::open(store.root(), Mode::ReadOnly).unwrap(), Store::open_or_degrade(store.root())] {
        assert_eq!(other.get_plan(&first.id).hit().unwrap().into_bytes()[..], file[..]);
    }
}

#[test]
fn a_plan_may_come_at_any_address_in_memory() {
    let (_dir, store) = new_store();
    let file = plan(b"graph", 100, &[]);
    let mut shifted = vec![0];
    shifted.extend_from_slice(&file);
    let id = put(&store, &shifted[1..]);
    assert_eq!(store.get_plan(&id).hit().unwrap().bytes(), &file[..]);
}

#[test]
fn the_last_plan_of_a_key_is_found_and_the_others_stay() {
    let (_dir, store) = new_store();
    let (a, b) = (put(&store, &plan(b"graph", 100, &[])), put(&store, &plan(b"graph", 200, &[])));
    assert_eq!(a.key, b.key);
    assert_eq!(store.find_plan(&a.key).hit(), Some(b));
    assert!(store.get_plan(&a).hit().is_some());
}

#[test]
fn selections_keep_their_order_and_are_replaced_whole() {
    let (_dir, store) = new_store();
    let key = selection_key(b"graph");
    let ids: Vec<_> = ["B", "A", "C"].map(|engine| put(&store, &plan_of_engine(b"graph", engine, 10, &[]))).into();
    assert!(is_new(&store.put_selection(&key, &ids).unwrap()));
    assert_eq!(store.find_selection(&key).hit().unwrap().plans, ids);
    assert!(matches!(store.put_selection(&key, &ids[..1]).unwrap(), Persisted::Replaced));
    assert_eq!(store.find_selection(&key).hit().unwrap().plans, ids[..1]);
    assert!(matches!(store.put_selection(&key, &ids[..1]).unwrap(), Persisted::Unchanged));
}

#[test]
fn nothing_may_name_what_is_not_there() {
    let (_dir, store) = new_store();
    let before = tree(store.root());
    let absent = Digest::of(b"never put");
    let error = store.put_plan(&plan(b"graph", 10, &[absent])).unwrap_err();
    assert!(matches!(&error, StoreError::MissingTarget { what: "code object", .. }), "{error}");

    let (_elsewhere, other) = new_store();
    let id = put(&other, &plan(b"graph", 10, &[]));
    let error = store.put_selection(&selection_key(b"graph"), &[id]).unwrap_err();
    assert!(matches!(&error, StoreError::MissingTarget { what: "plan", .. }), "{error}");
    let error = store.put_selection(&selection_key(b"graph"), &[]).unwrap_err();
    assert!(matches!(&error, StoreError::EmptySelection { .. }), "{error}");
    assert_eq!(tree(store.root()), before);
}

#[test]
fn what_is_no_plan_is_refused_and_not_written() {
    let (_dir, store) = new_store();
    let before = tree(store.root());
    let good = plan(b"graph", 100, &[]);
    let mut bad = good.clone();
    let last = bad.len() - 1;
    bad[last] ^= 1;
    for bytes in [&b""[..], b"not a plan", &good[..good.len() - 1], &bad] {
        assert!(matches!(store.put_plan(bytes), Err(StoreError::NotAPlan { .. })));
        assert!(matches!(Store::open_or_degrade(store.root()).put_plan(bytes), Err(StoreError::NotAPlan { .. })));
    }
    assert_eq!(tree(store.root()), before);
}

#[test]
fn limits_name_themselves_on_both_sides() {
    let (_dir, store) = new_store();
    let blob = store.put_blob(&[1; 100]).unwrap().id;
    let ids = ["A", "B"].map(|engine| put(&store, &plan_of_engine(b"graph", engine, 10, &[])));
    let key = selection_key(b"graph");
    assert!(store.put_selection(&key, &ids).unwrap().is_persisted());

    let mut limits = Limits::default();
    (limits.max_blob_bytes, limits.max_plan_bytes, limits.max_record_rows) = (99, 100, 1);
    let small = Store::open(store.root(), Mode::ReadWrite).unwrap().with_limits(limits);
    let names = |error: StoreError| match error {
        StoreError::Limit { limit, .. } => limit,
        other => panic!("{other}"),
    };
    fn why<T>(lookup: Lookup<T>) -> StoreError {
        match lookup {
            Lookup::Miss(Miss::Fault(error)) => error,
            _ => panic!("expected a fault"),
        }
    }
    assert_eq!(names(small.put_blob(&[2; 100]).unwrap_err()), "max_blob_bytes");
    assert_eq!(names(small.put_plan(&plan(b"x", 10, &[])).unwrap_err()), "max_plan_bytes");
    assert_eq!(names(small.put_selection(&key, &ids).unwrap_err()), "max_record_rows");
    assert_eq!(names(why(small.get_blob(&blob))), "max_blob_bytes");
    assert_eq!(names(why(small.get_plan(&ids[0]))), "max_plan_bytes");
    assert_eq!(names(why(small.find_selection(&key))), "max_record_rows");
    assert_eq!(small.find_plan(&ids[0].key).hit(), Some(ids[0]));
}

#[test]
fn plans_are_listed_in_order_with_what_does_not_belong() {
    let (_dir, store) = new_store();
    let mut ids: Vec<_> = (0..40_u8).map(|i| put(&store, &plan(&[i], 10, &[]))).collect();
    ids.sort_by_key(|id| id.root);
    assert_eq!(store.iter_plans().map(Result::unwrap).collect::<Vec<_>>(), ids);

    let plans = store.root().join("plans");
    std::fs::write(plans.join("README"), "").unwrap();
    std::fs::create_dir(plans.join("zz")).unwrap();
    std::os::unix::fs::symlink("/", plans.join("yy")).unwrap();
    let (good, bad): (Vec<_>, Vec<_>) = store.iter_plans().partition(Result::is_ok);
    assert_eq!(good.into_iter().map(Result::unwrap).collect::<Vec<_>>(), ids);
    let mut found: Vec<_> = bad.into_iter().map(|e| e.unwrap_err().path().unwrap().to_owned()).collect();
    found.sort();
    assert_eq!(found, ["README", "yy", "zz"].map(|name| plans.join(name)));
}

#[test]
fn files_are_readable_for_others_as_far_as_the_umask_allows() {
    let (_dir, store) = new_store();
    let _ = put(&store, &plan(b"graph", 10, &[]));
    let probe = store.root().join("probe");
    std::fs::write(&probe, "").unwrap();
    let allowed = std::fs::metadata(&probe).unwrap().permissions().mode() & 0o644;
    for (name, bytes) in tree(store.root()) {
        if bytes.is_some() && !name.ends_with("probe") {
            let mode = std::fs::metadata(store.root().join(&name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, allowed, "{}", name.display());
        }
    }
}

#[test]
fn a_store_is_shared_between_threads() {
    fn shared<T: Send + Sync + Clone>() {}
    shared::<Store>();
    shared::<hipplan_store::PlanBytes>();
}

#[test]
fn what_upkeep_has_taken_away_to_look_at_it_again_is_waited_for() {
    // A gc that writes a pack anew takes its name away, and puts what is in use beside it before it is deleted: here at the first look of the
    // put into the trash, and at later ones.
    for at in 1..=4 {
        let (_dir, store) = new_store();
        let blob = store.put_blob(b"machine code").unwrap().id;
        let path = super::common::only_file(&store, "objects");
        let pack = pack_up(&store, 1);
        let condemned = store.root().join("trash").join(pack.file_name().unwrap());
        std::fs::create_dir(store.root().join("trash")).unwrap();
        std::fs::rename(&pack, &condemned).unwrap();
        let file = plan(b"graph", 10, &[blob]);
        let looks = Rc::new(Cell::new(0));
        let count = Rc::clone(&looks);
        let hook = move |op: Op<'_>| {
            if op.name() == "list" && op.path().ends_with("trash") {
                count.set(count.get() + 1);
                if count.get() == at {
                    std::fs::write(&path, "machine code").unwrap();
                    std::fs::remove_file(&condemned).unwrap();
                }
            }
            Verdict::Go
        };
        let id = with_hook(hook, || put(&store, &file));
        assert!(looks.get() >= at, "{at}");
        assert!(store.get_plan(&id).hit().is_some() && store.get_blob(&blob).hit().is_some());
        assert!(store.verify().is_clean());
    }
}

#[test]
fn another_file_of_a_name_that_was_durable_is_synced() {
    let (_dir, store) = new_store();
    let blob = store.put_blob(b"machine code").unwrap().id;
    let path = super::common::only_file(&store, "objects");
    let syncs = |graph: &[u8]| {
        let syncs = Rc::new(Cell::new(0));
        let (count, blob_path) = (Rc::clone(&syncs), path.clone());
        let hook = move |op: Op<'_>| {
            count.set(count.get() + u32::from(op.name() == "sync-file" && op.path() == blob_path));
            Verdict::Go
        };
        let file = plan(graph, 10, &[blob]);
        with_hook(hook, || _ = put(&store, &file));
        syncs.get()
    };
    assert_eq!(syncs(b"its own"), 0);
    // Another process removes it, and a third one puts it anew and has not come to its last sync.
    let before = std::fs::metadata(&path).unwrap().ino();
    std::fs::write(path.with_extension("new"), "machine code").unwrap();
    std::fs::rename(path.with_extension("new"), &path).unwrap();
    assert_ne!(std::fs::metadata(&path).unwrap().ino(), before);
    assert_eq!([syncs(b"another's"), syncs(b"known by now")], [1, 0]);
}
