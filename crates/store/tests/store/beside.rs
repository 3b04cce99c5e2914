//! Upkeep beside other upkeep where locks are refused, and one of them is stopped, killed or overtaken.

use super::common::{new_store, selection_key};
use super::gc::{copy_of, interrupted};
use super::upkeep::{HOUR, age, assert_clean, gc, has_graph, pack_up, packs, put_graph};
use hipplan_store::testing::{Op, Verdict, set_claim_age, with_hook};
use hipplan_store::{CompactOptions, EntryKind, GcOptions, Mode, Store};
use std::cell::{Cell, RefCell};
use std::fs;
use std::path::Path;
use std::rc::Rc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, SystemTime};

/// The claim of what removes things.
const REMOVES: &str = "packs/00000000.claim";

fn open(root: &Path) -> Store {
    Store::open(root, Mode::ReadWrite).unwrap()
}

fn refuse_locks(op: Op<'_>) -> Verdict {
    if op.name() == "lock" { Verdict::Fail(libc::ENOLCK) } else { Verdict::Go }
}

fn everything() -> GcOptions {
    let mut options = GcOptions::default();
    options.max_bytes = Some(0);
    options
}

/// Keeps the plans of these graphs.
fn pin(store: &Store, graphs: &[u32]) {
    let pins = store.root().join("pins");
    fs::create_dir_all(&pins).unwrap();
    let keys = graphs.iter().map(|n| store.find_selection(&selection_key(&n.to_le_bytes())).hit().unwrap().plans[0].key);
    fs::write(pins.join("kept"), keys.map(|key| format!("plan {key}\n")).collect::<String>()).unwrap();
}

/// One that was stopped for so long that it was taken to be dead goes on, and does once more what the other one has done.
#[test]
fn a_pack_that_two_write_anew_alike_stays() {
    let (_template_dir, template) = new_store();
    (1..=3).for_each(|n| _ = put_graph(&template, n, 500));
    pack_up(&template, 1);
    pin(&template, &[2, 3]);
    age(&template, 5 * HOUR);
    let mut at = 0;
    loop {
        let (_dir, store) = copy_of(&template);
        let root = store.root().to_owned();
        let middle = move || {
            if let Ok(claim) = fs::File::options().write(true).open(root.join(REMOVES)) {
                claim.set_modified(SystemTime::now() - HOUR).unwrap();
            }
            with_hook(refuse_locks, || drop(open(&root).gc(&everything(), &())));
        };
        let calls = interrupted(at, middle, || drop(store.gc(&everything(), &())));
        if calls <= at {
            assert!(at > 100, "{at}");
            break;
        }
        let reader = Store::open(store.root(), Mode::ReadOnly).unwrap();
        let report = reader.verify();
        assert!(report.is_clean(), "at {at}: {:?}", report.problems);
        assert!(has_graph(&reader, 2) && has_graph(&reader, 3), "at {at}");
        at += 1;
    }
}

/// Two find the claim of one that was killed. One removes it and makes its own; the other one, a moment later, must not remove that.
#[test]
fn the_claim_of_the_dead_is_removed_and_not_that_which_has_taken_its_place() {
    let (_dir, store) = new_store();
    put_graph(&store, 1, 500);
    age(&store, 5 * HOUR);
    let root = store.root().to_owned();
    for folder in ["packs", "trash"] {
        fs::create_dir(root.join(folder)).unwrap();
    }
    let claim = root.join(REMOVES);
    fs::write(&claim, "").unwrap();
    fs::File::options().write(true).open(&claim).unwrap().set_modified(SystemTime::now() - 48 * HOUR).unwrap();

    let (at_work, is_at_work) = channel();
    let (finish, is_to_finish) = channel::<()>();
    let first = {
        let (root, claim) = (root.clone(), claim.clone());
        move || {
            let stops = Cell::new(Some((is_to_finish, at_work)));
            let hook = move |op: Op<'_>| {
                if matches!(op, Op::List { path } if path.ends_with("trash"))
                    && let Some((is_to_finish, at_work)) = stops.take()
                {
                    // However slow this is, it is at work.
                    let claim = fs::File::options().write(true).open(&claim).unwrap();
                    claim.set_modified(SystemTime::now() + HOUR).unwrap();
                    at_work.send(()).unwrap();
                    // Also where the other one has failed.
                    let _ = is_to_finish.recv();
                }
                refuse_locks(op)
            };
            // It tells that it is alive by the time of its claim only after hours.
            set_claim_age(24 * HOUR);
            with_hook(hook, || open(&root).gc(&everything(), &())).unwrap()
        }
    };
    thread::scope(|scope| {
        let finish = finish;
        let (start, started) = channel::<()>();
        let first = scope.spawn(move || started.recv().ok().map(|()| first()));
        let stops = Cell::new(Some((start, is_at_work)));
        let is_claim = claim.clone();
        let hook = move |op: Op<'_>| {
            // It has seen that the claim is old, and is about to remove it.
            if matches!(op, Op::Unlink { path } | Op::Rename { from: path, .. } if path == is_claim)
                && let Some((start, is_at_work)) = stops.take()
            {
                start.send(()).unwrap();
                is_at_work.recv().unwrap();
            }
            refuse_locks(op)
        };
        set_claim_age(Duration::from_millis(200));
        let second = with_hook(hook, || open(&root).gc(&everything(), &()));
        let error = second.expect_err("the first one is at work");
        assert!(error.to_string().contains("other upkeep is at work"), "{error}");
        assert!(claim.exists());
        finish.send(()).unwrap();
        assert_eq!(first.join().unwrap().unwrap().evicted, 1);
    });
    assert!(!claim.exists());
    assert_eq!(fs::read_dir(root.join("tmp")).unwrap().count(), 0);
    assert_clean(&Store::open(&root, Mode::ReadOnly).unwrap());
}

/// A put relies on what it finds in the pack of a compaction, which then takes it back; and a gc has decided that the older copy goes.
#[test]
fn what_a_put_found_in_a_pack_that_is_taken_back_stays() {
    let (_dir, store) = new_store();
    let id = put_graph(&store, 1, 500);
    pack_up(&store, 1);
    for n in 0..8_u32 {
        assert!(store.put_blob(&n.to_le_bytes().repeat(100)).unwrap().persisted.is_persisted());
    }
    let root = store.root().to_owned();
    let middle = move || {
        let (compacting, old) = (open(&root), packs(&open(&root)));
        let (to, is_first) = (root.clone(), Cell::new(true));
        let hook = move |op: Op<'_>| {
            let is_new = || packs(&open(&to)).iter().any(|pack| !old.contains(pack));
            if matches!(op, Op::SyncFolder { path } if path.ends_with("packs")) && is_new() {
                if is_first.replace(false) {
                    let put = || open(&to).put_selection(&selection_key(b"other"), &[id]).unwrap();
                    assert!(thread::scope(|scope| scope.spawn(put).join().unwrap()).is_persisted());
                }
                // Other upkeep takes away something of what is in it.
                let mut blobs = open(&to).entries(EntryKind::Blob).map(Result::unwrap).collect::<Vec<_>>().into_iter();
                fs::remove_file(blobs.find(|entry| entry.path.extension().is_none_or(|e| e != "pack")).unwrap().path).unwrap();
            }
            refuse_locks(op)
        };
        let mut options = CompactOptions::default();
        options.all = true;
        assert!(with_hook(hook, || compacting.compact(&options, &())).unwrap().gave_up);
    };
    let is_first = Cell::new(true);
    let hook = move |op: Op<'_>| {
        // The pack is about to lose its name.
        let is_now = |to: &Path| to.parent().is_some_and(|folder| folder.ends_with("trash")) && to.extension().is_some_and(|e| e == "pack");
        if matches!(op, Op::Rename { to, .. } if is_now(to)) && is_first.replace(false) {
            thread::scope(|scope| scope.spawn(&middle).join().unwrap());
        }
        refuse_locks(op)
    };
    let mut options = everything();
    // What was put a moment ago may go.
    options.grace = Duration::from_nanos(1);
    assert_eq!(with_hook(hook, || open(store.root()).gc(&options, &())).unwrap().evicted, 1);
    let reader = Store::open(store.root(), Mode::ReadOnly).unwrap();
    let report = reader.verify();
    assert!(report.is_clean(), "{:?}", report.problems);
    let found = reader.find_selection(&selection_key(b"other")).hit().unwrap();
    assert!(reader.get_plan(&found.plans[0]).hit().is_some());
}

/// A gc takes a record to be hidden by one in the pack of a compaction, which then takes the pack back.
#[test]
fn a_record_that_only_a_pack_that_is_taken_back_has_hidden_stays() {
    let fails = |_: &Path| false;
    is_kept_behind_a_pack_that_is_taken_back(fails);
}

/// The same where it cannot be looked whether the record is there.
#[test]
fn a_record_stays_where_it_is_not_known_whether_another_hides_it() {
    let is_selection = |path: &Path| {
        let kind = path.parent().and_then(Path::parent);
        kind.is_some_and(|kind| kind.ends_with("index/select"))
    };
    is_kept_behind_a_pack_that_is_taken_back(is_selection);
}

/// Looks at such paths fail once the pack has lost its name.
fn is_kept_behind_a_pack_that_is_taken_back(fails: fn(&Path) -> bool) {
    let (_dir, store) = new_store();
    put_graph(&store, 1, 500);
    pack_up(&store, 1);
    put_graph(&store, 2, 500);
    pin(&store, &[1]);
    age(&store, 5 * HOUR);
    let root = store.root().to_owned();
    let old = packs(&store);
    let (written, is_written) = channel();
    let (go_on, is_to_go_on) = channel::<()>();
    thread::scope(|scope| {
        let to = root.clone();
        let compacting = scope.spawn(move || {
            let stops = RefCell::new(Some((written, is_to_go_on)));
            let compacting = open(&to);
            let hook = move |op: Op<'_>| {
                let mut stops = stops.borrow_mut();
                let is_new = || packs(&Store::open(&to, Mode::ReadOnly).unwrap()).iter().any(|pack| !old.contains(pack));
                if matches!(op, Op::SyncFolder { path } if path.ends_with("packs"))
                    && is_new()
                    && let Some((written, is_to_go_on)) = stops.take()
                {
                    written.send(()).unwrap();
                    is_to_go_on.recv().unwrap();
                }
                // It ends when it begins anew.
                if stops.is_none() && op.name() == "create" { Verdict::Fail(libc::EIO) } else { refuse_locks(op) }
            };
            let mut options = CompactOptions::default();
            options.all = true;
            drop(with_hook(hook, || compacting.compact(&options, &())));
        });
        is_written.recv().unwrap();
        let go_on = RefCell::new(Some(go_on));
        let has_no_name = Cell::new(false);
        let hook = move |op: Op<'_>| {
            // The selection of the graph that goes has gone.
            if matches!(op, Op::SyncFolder { path } if path.parent().is_some_and(|above| above.ends_with("select")))
                && let Some(go_on) = go_on.borrow_mut().take()
            {
                go_on.send(()).unwrap();
            }
            if matches!(op, Op::Rename { from, .. } if from.extension().is_some_and(|e| e == "pack")) {
                has_no_name.set(true);
            }
            match op {
                Op::Stat { path } if has_no_name.get() && fails(path) => Verdict::Fail(libc::EIO),
                _ => refuse_locks(op),
            }
        };
        drop(with_hook(hook, || open(&root).gc(&everything(), &())));
        compacting.join().unwrap();
    });
    let reader = Store::open(&root, Mode::ReadOnly).unwrap();
    let report = reader.verify();
    assert!(report.is_clean(), "{:?}", report.problems);
    assert!(has_graph(&reader, 1));
    assert!(!has_graph(&reader, 2));
}

/// A pack that was to be written anew gets its name back. What was used of it meanwhile has its name again.
#[test]
fn a_plan_of_a_pack_that_is_put_back_after_a_failure_keeps_its_record_if_it_was_used() {
    let (_dir, store) = new_store();
    let id = put_graph(&store, 1, 500);
    put_graph(&store, 2, 500);
    // Only plans and blobs are packed: their names go first.
    let names: Vec<_> = [EntryKind::PlanRecord, EntryKind::Selection].into_iter().flat_map(|kind| store.entries(kind)).collect();
    let names: Vec<_> = names.into_iter().map(|entry| entry.unwrap().path).map(|path| (fs::read(&path).unwrap(), path)).collect();
    names.iter().for_each(|(_, path)| fs::remove_file(path).unwrap());
    pack_up(&store, 1);
    names.iter().for_each(|(bytes, path)| fs::write(path, bytes).unwrap());
    pin(&store, &[2]);
    age(&store, 5 * HOUR);
    let root = store.root().to_owned();
    let (used, failed) = (Cell::new(false), Rc::new(Cell::new(false)));
    let has_failed = Rc::clone(&failed);
    let hook = move |op: Op<'_>| {
        let is_now = |to: &Path| to.parent().is_some_and(|folder| folder.ends_with("trash")) && to.extension().is_some_and(|e| e == "pack");
        if matches!(op, Op::Rename { to, .. } if is_now(to)) && !used.replace(true) {
            let get = || assert!(open(&root).get_plan(&id).hit().is_some());
            thread::scope(|scope| scope.spawn(get).join().unwrap());
        }
        if matches!(op, Op::SyncFolder { path } if path.ends_with("packs")) && used.get() && !has_failed.replace(true) {
            return Verdict::Fail(libc::EIO);
        }
        refuse_locks(op)
    };
    assert!(with_hook(hook, || open(store.root()).gc(&everything(), &())).is_err() && failed.get());
    let reader = Store::open(store.root(), Mode::ReadOnly).unwrap();
    assert_eq!(reader.find_plan(&id.key).hit(), Some(id));
    assert!(reader.get_plan(&id).hit().is_some() && has_graph(&reader, 2));
    let report = reader.verify();
    assert!(report.is_clean(), "{:?}", report.problems);
}

/// What is used between the look at the stamps of a pack and the end of its name is in use in the new pack too.
#[test]
fn use_is_remembered_when_a_pack_is_written_anew() {
    let (_dir, store) = new_store();
    put_graph(&store, 1, 500);
    put_graph(&store, 2, 500);
    pack_up(&store, 1);
    pin(&store, &[2]);
    assert!(has_graph(&open(store.root()), 2));
    age(&store, 5 * HOUR);
    let (root, is_first) = (store.root().to_owned(), Cell::new(true));
    let hook = move |op: Op<'_>| {
        // The new pack is about to get its name.
        let is_now = |to: &Path| to.extension().is_some_and(|e| e == "pack") && is_first.replace(false);
        if matches!(op, Op::Rename { to, .. } | Op::RenameNew { to, .. } if is_now(to)) {
            thread::scope(|scope| scope.spawn(|| assert!(has_graph(&open(&root), 2))).join().unwrap());
        }
        refuse_locks(op)
    };
    assert_eq!(with_hook(hook, || open(store.root()).gc(&everything(), &())).unwrap().packs_rewritten, 1);
    fs::remove_dir_all(store.root().join("pins")).unwrap();
    gc(&open(store.root()), |options| options.max_age = Some(HOUR));
    let reader = Store::open(store.root(), Mode::ReadOnly).unwrap();
    assert!(has_graph(&reader, 2) && !has_graph(&reader, 1));
    assert_clean(&reader);
}
