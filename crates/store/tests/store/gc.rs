use super::common::{new_store, plan, plan_of_engine, put, selection_key, tree};
use super::upkeep::{HOUR, age, assert_clean, bytes_of, gc, has_graph, pack_up, packs, put_graph};
use hipplan_store::testing::{Op, Verdict, set_claim_age, with_hook, with_longest_wait};
use hipplan_store::{GcOptions, GcReport, Lookup, Mode, Pin, Store};
use std::cell::Cell;
use std::fs;
use std::rc::Rc;
use std::time::Duration;

#[test]
fn without_caps_only_what_nothing_reaches_goes_and_only_when_it_is_old() {
    let (_dir, store) = new_store();
    put_graph(&store, 1, 1000);
    let unnamed = store.put_blob(b"nobody names this").unwrap().id;
    fs::write(store.root().join("tmp/left.tmp"), "half").unwrap();
    // Of two plans with one key the second is found.
    let old = put(&store, &plan(b"again", 10, &[]));
    let new = put(&store, &plan(b"again", 20, &[]));
    assert_eq!(old.key, new.key);

    let before = tree(store.root());
    let report = gc(&store, |_| ());
    assert_eq!((report.plans, report.blobs, report.leftovers), (0, 0, 0), "all of it is young");
    assert!(before.iter().all(|(path, bytes)| tree(store.root()).get(path) == Some(bytes)));

    age(&store, 2 * HOUR);
    let dry = gc(&store, |options| options.dry_run = true);
    assert_eq!((dry.plans, dry.blobs, dry.leftovers, dry.evicted), (1, 1, 1, 0));
    assert!(store.get_blob(&unnamed).hit().is_some());
    age(&store, 2 * HOUR);
    let report = gc(&store, |_| ());
    assert_eq!((report.plans, report.blobs, report.leftovers, report.evicted), (1, 1, 1, 0), "{report:?}");
    assert!(report.unknown.is_empty() && !report.is_over);
    assert_eq!((report.before, report.after), (dry.before, dry.after));
    assert_eq!(report.after.bytes, bytes_of(store.root()));
    assert!(store.get_blob(&unnamed).hit().is_none() && store.get_plan(&old).hit().is_none());
    assert!(has_graph(&store, 1) && store.get_plan(&new).hit().is_some());
    assert_clean(&store);
}

#[test]
fn what_was_used_longest_ago_goes_first_until_the_caps_hold() {
    for packed in [false, true] {
        let (_dir, store) = new_store();
        for n in 0..10 {
            put_graph(&store, n, 10_000);
        }
        if packed {
            pack_up(&store, 1);
            let store = Store::open(store.root(), Mode::ReadWrite).unwrap();
            assert!((0..10).all(|n| has_graph(&store, n)), "stamps of use beside the pack");
        }
        age(&store, 3 * HOUR);
        let store = Store::open(store.root(), Mode::ReadWrite).unwrap();
        // The first is used a while later.
        assert!(has_graph(&store, 0));
        age(&store, 2 * HOUR);
        let before = bytes_of(store.root());
        let max = before / 10 * 4;
        let report = gc(&store, |options| options.max_bytes = Some(max));
        assert!(!report.is_over && report.after.bytes <= max, "{packed} {report:?}");
        assert_eq!(report.after.bytes, bytes_of(store.root()));
        let gone = report.evicted;
        assert!((6..=7).contains(&gone), "no more than needed: {report:?}");
        assert_eq!((report.plans, report.blobs, report.records), (gone, gone, 2 * gone), "{packed}");
        assert_eq!(report.packs_rewritten, u64::from(packed));
        assert!(has_graph(&store, 0), "{packed}: used last");
        let left = (0..10).filter(|&n| has_graph(&store, n)).count() as u64;
        assert_eq!(left, 10 - gone, "{packed}");
        assert_clean(&store);

        age(&store, 2 * HOUR);
        let report = gc(&store, |options| options.max_age = Some(Duration::from_secs(60)));
        assert_eq!((report.evicted, packs(&store).len()), (left, 0));
        assert_eq!(bytes_of(store.root()), 0, "{packed}: {:?}", tree(store.root()).keys());
        assert_clean(&store);
    }
}

#[test]
fn a_cap_of_files_takes_loose_plans_and_says_when_it_cannot_be_kept() {
    let (_dir, store) = new_store();
    for n in 0..4 {
        put_graph(&store, n, 100);
    }
    pack_up(&store, 1);
    for n in 4..10 {
        put_graph(&store, n, 100);
    }
    age(&store, 2 * HOUR);
    let report = gc(&store, |options| options.max_files = Some(9));
    assert!(!report.is_over && report.after.files <= 9, "{report:?}");
    assert_eq!(report.evicted, 4);
    assert!((0..4).all(|n| has_graph(&store, n)), "a plan in a pack is no file");
    assert_eq!((4..10).filter(|&n| has_graph(&store, n)).count(), 2);
    assert_clean(&store);

    // All of it is in use now.
    let report = gc(&store, |options| options.max_bytes = Some(10));
    assert!(report.is_over && report.evicted == 0 && report.kept_in_use == 6, "{report:?}");
}

#[test]
fn records_lose_the_rows_of_plans_that_go_and_stay_with_the_others() {
    for packed in [false, true] {
        let (_dir, store) = new_store();
        let ids = ["a", "b", "c"].map(|engine| put(&store, &plan_of_engine(b"graph", engine, 1000, &[])));
        let key = selection_key(b"graph");
        assert!(store.put_selection(&key, &ids).unwrap().is_persisted());
        if packed {
            pack_up(&store, 1);
        }
        let store = Store::open(store.root(), Mode::ReadWrite).unwrap();
        age(&store, 3 * HOUR);
        assert!(store.get_plan(&ids[1]).hit().is_some());
        age(&store, HOUR);
        let report = gc(&store, |options| {
            options.max_age = Some(3 * HOUR);
            options.grace = Duration::from_secs(60);
        });
        assert_eq!((report.evicted, report.shortened), (2, 1), "{packed} {report:?}");
        assert_eq!(store.find_selection(&key).hit().unwrap().plans, [ids[1]], "{packed}");
        assert!(store.find_plan(&ids[0].key).hit().is_none());
        assert_clean(&store);
    }
}

#[test]
fn a_record_that_a_newer_one_hides_goes_with_what_it_alone_names() {
    let (_dir, store) = new_store();
    let key = selection_key(b"graph");
    let blob = store.put_blob(&[7; 4000]).unwrap().id;
    let old = put(&store, &plan_of_engine(b"graph", "old", 3000, &[blob]));
    assert!(store.put_selection(&key, &[old]).unwrap().is_persisted());
    pack_up(&store, 1);
    // The plan is compiled anew: its record and the selection are loose, and hide those in the pack.
    let new = put(&store, &plan_of_engine(b"graph", "old", 10, &[]));
    assert_eq!(old.key, new.key);
    assert!(store.put_selection(&key, &[new]).unwrap().is_persisted());
    let stat = &store.stat().unwrap()[0];
    assert!(stat.hidden_bytes > 0 && stat.packs == 1);
    age(&store, 2 * HOUR);
    let store = Store::open(store.root(), Mode::ReadWrite).unwrap();
    let report = gc(&store, |_| ());
    assert_eq!((report.plans, report.blobs, report.records, report.packs_rewritten), (1, 1, 2, 1), "{report:?}");
    assert!(packs(&store).is_empty());
    assert_eq!(store.find_selection(&key).hit().unwrap().plans, [new]);
    assert_clean(&store);
}

#[test]
fn plans_that_packs_name_across_each_other_go_one_sweep_after_another() {
    let (_dir, store) = new_store();
    let ids: Vec<_> = (0..3).map(|n| put_graph(&store, n, 2000)).collect();
    pack_up(&store, 1);
    // Records in the newer pack name plans in the older one.
    assert!(store.put_selection(&selection_key(b"all"), &ids).unwrap().is_persisted());
    put_graph(&store, 3, 2000);
    pack_up(&store, 2);
    assert_eq!(packs(&store).len(), 2);
    age(&store, 3 * HOUR);
    let store = Store::open(store.root(), Mode::ReadWrite).unwrap();
    let report = gc(&store, |options| options.max_bytes = Some(0));
    assert!(!report.is_over && report.evicted >= 4, "{report:?}");
    assert_eq!(bytes_of(store.root()), 0);
    assert_clean(&store);
}

#[test]
fn whoever_holds_something_keeps_it_and_the_cap_is_kept() {
    const CAP: u64 = 10 << 20;
    let (_dir, store) = new_store();
    for n in 0..40 {
        put_graph(&store, n, 300_000);
        if n == 19 {
            pack_up(&store, 1);
        }
    }
    age(&store, 2 * HOUR);
    let store = Store::open(store.root(), Mode::ReadWrite).unwrap();
    let reader = Store::open(store.root(), Mode::ReadOnly).unwrap();
    let held: Vec<_> = (0..40_u32)
        .map(|n| {
            let selection = reader.find_selection(&selection_key(&n.to_le_bytes())).hit().unwrap();
            let plan = reader.get_plan(&selection.plans[0]).hit().unwrap();
            let blob = reader.get_blob(&plan.code_objects().next().unwrap()).hit().unwrap();
            (n, plan, blob)
        })
        .collect();
    let maps = hipplan_store::testing::maps_in(store.root()).unwrap();
    assert!(held[..20].iter().all(|(_, _, blob)| blob.is_mapped() == maps), "those in the pack");
    let report = gc(&store, |options| options.max_bytes = Some(CAP));
    assert!(!report.is_over && report.after.bytes <= CAP && bytes_of(store.root()) <= CAP, "{report:?}");
    assert!(report.after.bytes > CAP / 2, "no more than needed: {report:?}");
    for (n, plan, blob) in &held {
        plan.view().verify().unwrap();
        assert_eq!(**blob, n.to_le_bytes().repeat(75_000));
    }
    // A reader that goes on finds a thing whole, or misses.
    (0..40).for_each(|n| _ = has_graph(&reader, n));
    assert_clean(&store);
}

/// Two old graphs that a gc is about to evict, in loose files or in a pack.
fn evictable(packed: bool) -> (tempfile::TempDir, Store) {
    let (dir, store) = new_store();
    put_graph(&store, 1, 500);
    put_graph(&store, 2, 500);
    if packed {
        pack_up(&store, 1);
    }
    age(&store, 5 * HOUR);
    (dir, store)
}

/// The same again, without waiting for the disk.
pub(crate) fn copy_of(template: &Store) -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    fs::create_dir(&root).unwrap();
    for (path, bytes) in tree(template.root()) {
        match bytes {
            None => fs::create_dir_all(root.join(path)).unwrap(),
            Some(bytes) => {
                fs::write(root.join(&path), bytes).unwrap();
                let stamp = fs::metadata(template.root().join(&path)).unwrap().modified().unwrap();
                fs::File::options().write(true).open(root.join(&path)).unwrap().set_modified(stamp).unwrap();
            }
        }
    }
    let store = Store::open(root, Mode::ReadWrite).unwrap();
    (dir, store)
}

/// Counts the calls of `body` to the file system, and runs `middle` on a thread of its own in front of call number `at`.
pub(crate) fn interrupted(at: u32, middle: impl Fn() + Send + Sync + 'static, body: impl FnOnce()) -> u32 {
    let calls = Rc::new(Cell::new(0));
    let counted = Rc::clone(&calls);
    let hook = move |_: Op<'_>| {
        if counted.get() == at {
            std::thread::scope(|scope| scope.spawn(&middle).join().unwrap());
        }
        counted.set(counted.get() + 1);
        Verdict::Go
    };
    with_hook(hook, body);
    calls.get()
}

#[test]
fn a_put_at_any_moment_of_a_gc_is_kept() {
    for packed in [false, true] {
        let (_template_dir, template) = evictable(packed);
        let mut at = 0;
        loop {
            let (_dir, store) = copy_of(&template);
            let putting = Store::open(store.root(), Mode::ReadWrite).unwrap();
            let middle = move || _ = put_graph(&putting, 1, 500);
            let calls = interrupted(at, middle, || drop(gc(&store, |options| options.max_bytes = Some(0))));
            if calls <= at {
                assert!(at > 50, "{at}");
                break;
            }
            let reader = Store::open(store.root(), Mode::ReadOnly).unwrap();
            assert!(has_graph(&reader, 1), "packed {packed}, put at call {at} of {calls}");
            assert_clean(&reader);
            at += 1;
        }
    }
}

#[test]
fn a_gc_at_any_moment_of_a_put_leaves_what_is_put() {
    for packed in [false, true] {
        let (_template_dir, template) = evictable(packed);
        let mut at = 0;
        loop {
            let (_dir, store) = copy_of(&template);
            let collecting = Store::open(store.root(), Mode::ReadWrite).unwrap();
            let middle = move || drop(gc(&collecting, |options| options.max_bytes = Some(0)));
            let calls = interrupted(at, middle, || _ = put_graph(&store, 1, 500));
            if calls <= at {
                assert!(at > 20, "{at}");
                break;
            }
            let reader = Store::open(store.root(), Mode::ReadOnly).unwrap();
            assert!(has_graph(&reader, 1), "packed {packed}, gc at call {at} of {calls}");
            assert_clean(&reader);
            at += 1;
        }
    }
}

#[test]
fn a_selection_alone_that_is_put_at_any_moment_finds_its_plan_or_is_refused() {
    for packed in [false, true] {
        let (_template_dir, template) = evictable(packed);
        let mut at = 0;
        loop {
            let (_dir, store) = copy_of(&template);
            let id = store.iter_plans().next().unwrap().unwrap();
            let putting = Store::open(store.root(), Mode::ReadWrite).unwrap();
            let middle = move || {
                // The gc stands still meanwhile: it is waited for in vain.
                let wait = Duration::from_millis(2);
                let put = with_longest_wait(wait, || putting.put_selection(&selection_key(b"other"), &[id]));
                assert!(put.is_ok() || put.is_err_and(|e| e.code() == "missing-target"));
            };
            let calls = interrupted(at, middle, || drop(gc(&store, |options| options.max_bytes = Some(0))));
            if calls <= at {
                break;
            }
            let reader = Store::open(store.root(), Mode::ReadOnly).unwrap();
            if let Lookup::Hit(selection) = reader.find_selection(&selection_key(b"other")) {
                let plan = reader.get_plan(&selection.plans[0]).hit().unwrap();
                assert!(plan.code_objects().all(|blob| reader.get_blob(&blob).hit().is_some()));
            }
            assert_clean(&reader);
            at += 1;
        }
    }
}

#[test]
fn two_gcs_at_once_leave_a_whole_store_even_without_locks() {
    for packed in [false, true] {
        let (_template_dir, template) = evictable(packed);
        let mut at = 0;
        loop {
            let (_dir, store) = copy_of(&template);
            put_graph(&store, 3, 500);
            let root = store.root().to_owned();
            let middle = move || {
                let store = Store::open(&root, Mode::ReadWrite).unwrap();
                let refuse = |op: Op<'_>| match op.name() {
                    "lock" => Verdict::Fail(libc::ENOLCK),
                    _ => Verdict::Go,
                };
                // The other one has been silent for so long that it is taken to be dead.
                if let Ok(claim) = fs::File::options().write(true).open(root.join("packs/00000000.claim")) {
                    claim.set_modified(std::time::SystemTime::now() - HOUR).unwrap();
                }
                with_hook(refuse, || drop(gc(&store, |options| options.max_bytes = Some(0))));
            };
            // Whatever goes wrong for the one that is overtaken, the store is whole.
            let mut options = GcOptions::default();
            options.max_bytes = Some(0);
            let calls = interrupted(at, middle, || drop(store.gc(&options, &())));
            if calls <= at {
                break;
            }
            let reader = Store::open(store.root(), Mode::ReadOnly).unwrap();
            let report = reader.verify();
            assert!(report.is_clean(), "packed {packed}, at {at}: {:?}", report.problems);
            assert!(has_graph(&reader, 3), "packed {packed}, at {at}: young");
            assert!(gc(&store, |options| options.max_bytes = Some(0)).evicted <= 2);
            assert_clean(&reader);
            at += 3;
        }
    }
}

#[test]
fn a_gc_that_fails_or_is_killed_anywhere_leaves_a_whole_store() {
    for packed in [false, true] {
        // From this call on nothing succeeds any more, as after a kill; or only this call fails.
        for is_killed in [true, false] {
            let (_template_dir, template) = evictable(packed);
            let mut at = 0;
            loop {
                let (_dir, store) = copy_of(&template);
                let calls = Rc::new(Cell::new(0));
                let counted = Rc::clone(&calls);
                let hook = move |_: Op<'_>| {
                    let number = counted.replace(counted.get() + 1);
                    if number == at || is_killed && number > at { Verdict::Fail(libc::EIO) } else { Verdict::Go }
                };
                let mut options = GcOptions::default();
                options.max_bytes = Some(0);
                drop(with_hook(hook, || store.gc(&options, &())));
                if calls.get() <= at {
                    break;
                }
                let reader = Store::open(store.root(), Mode::ReadOnly).unwrap();
                let report = reader.verify();
                assert!(report.is_clean(), "packed {packed}, call {at}: {:?}", report.problems);
                (1..3).for_each(|n| _ = has_graph(&reader, n));
                // The next one takes what is left.
                age(&store, 5 * HOUR);
                let again = Store::open(store.root(), Mode::ReadWrite).unwrap();
                let report = gc(&again, |options| options.max_bytes = Some(0));
                assert!(!report.is_over, "packed {packed}, call {at}: {report:?}");
                assert_eq!(bytes_of(store.root()), 0, "packed {packed}, call {at}: {:?}", tree(store.root()).keys());
                assert_clean(&reader);
                at += 1;
            }
        }
    }
}

#[test]
fn layers_behind_the_first_are_not_touched_and_stores_that_may_not_be_written_refuse() {
    let (_dir, store) = new_store();
    put_graph(&store, 1, 100);
    age(&store, 9 * HOUR);
    let before = tree(store.root());
    let (_other_dir, front) = new_store();
    let layered = front.with_layer(store.root()).unwrap();
    let report = gc(&layered, |options| options.max_bytes = Some(0));
    assert_eq!(report.evicted, 0);
    assert!(has_graph(&layered, 1));
    let reader = Store::open(store.root(), Mode::ReadOnly).unwrap();
    assert_eq!(reader.gc(&Default::default(), &()).unwrap_err().code(), "read-only");
    assert_eq!(tree(store.root()), before);
}

#[test]
fn stamps_of_a_pack_that_a_killed_gc_left_in_the_trash_come_back_with_it() {
    for has_locks in [true, false] {
        let (_dir, store) = new_store();
        let kept = put_graph(&store, 1, 40_000);
        put_graph(&store, 2, 40_000);
        let pack = pack_up(&store, 1);
        let used = pack.with_extension("used");
        let reader = Store::open(store.root(), Mode::ReadWrite).unwrap();
        assert!(has_graph(&reader, 1) && has_graph(&reader, 2));
        age(&store, 5 * HOUR);
        let stamps = fs::read(&used).unwrap();

        // Killed when the pack has lost its name and is about to go.
        let trashed = store.root().join("trash").join(pack.file_name().unwrap());
        let (place, is_killed) = (trashed.clone(), Cell::new(false));
        let kill = move |op: Op<'_>| {
            is_killed.set(is_killed.get() || op.name() == "unlink" && op.path() == place);
            if is_killed.get() { Verdict::Fail(libc::EIO) } else { Verdict::Go }
        };
        let mut options = GcOptions::default();
        options.max_bytes = Some(0);
        let killed = Store::open(store.root(), Mode::ReadWrite).unwrap();
        assert!(with_hook(kill, || killed.gc(&options, &())).is_err());
        assert!(trashed.exists() && used.exists() && !pack.exists());

        if !has_locks {
            // Where there are no locks, the dead are known by the age of their claims.
            let claim = fs::File::options().write(true).open(store.root().join("packs/00000000.claim")).unwrap();
            claim.set_modified(std::time::SystemTime::now() - HOUR).unwrap();
        }

        // The next one keeps everything.
        let pins = store.root().join("pins");
        fs::create_dir(&pins).unwrap();
        let plans = store.iter_plans().map(|plan| format!("plan {}\n", plan.unwrap().key)).collect::<String>();
        fs::write(pins.join("all"), format!("{plans}plan {}\n", kept.key)).unwrap();
        let again = Store::open(store.root(), Mode::ReadWrite).unwrap();
        let locks = move |op: Op<'_>| match op.name() {
            "lock" if !has_locks => Verdict::Fail(libc::ENOLCK),
            _ => Verdict::Go,
        };
        with_hook(locks, || drop(again.remove(&[], &()).unwrap()));
        assert!(pack.exists() && !trashed.exists(), "locks {has_locks}");
        assert_eq!(fs::read(&used).unwrap(), stamps, "locks {has_locks}");
        let reader = Store::open(store.root(), Mode::ReadOnly).unwrap();
        assert!(has_graph(&reader, 1) && has_graph(&reader, 2));
        assert_clean(&reader);
    }
}

#[test]
fn leftover_stamps_are_not_those_of_a_pack_in_the_trash() {
    let (_dir, store) = new_store();
    put_graph(&store, 1, 400);
    let pack = pack_up(&store, 1);
    assert!(has_graph(&Store::open(store.root(), Mode::ReadWrite).unwrap(), 1));
    let orphan = store.root().join(format!("packs/00000009-{}.used", "cd".repeat(16)));
    fs::write(&orphan, [1; 16]).unwrap();
    age(&store, 5 * HOUR);
    let used = pack.with_extension("used");
    let stamps = fs::read(&used).unwrap();
    fs::create_dir(store.root().join("trash")).unwrap();
    fs::rename(&pack, store.root().join("trash").join(pack.file_name().unwrap())).unwrap();
    let again = Store::open(store.root(), Mode::ReadWrite).unwrap();
    let dry = gc(&again, |options| options.dry_run = true);
    assert_eq!(dry.leftovers, 1, "the orphan");
    gc(&again, |_| ());
    assert!(pack.exists() && !orphan.exists());
    assert_eq!(fs::read(&used).unwrap(), stamps);
    assert!(has_graph(&again, 1));
    assert_clean(&again);
}

#[test]
fn while_something_is_being_removed_nothing_else_is() {
    // When it begins to look at what there is, and when it takes the first thing away.
    for moment in ["list", "rename"] {
        // On a thread of its own, which the age of claims is set for.
        std::thread::spawn(move || nothing_else_is_removed_at(moment)).join().unwrap();
    }
}

fn nothing_else_is_removed_at(moment: &'static str) {
    let (_dir, store) = evictable(false);
    let root = store.root().to_owned();
    let middle = move || {
        set_claim_age(Duration::from_millis(200));
        let store = Store::open(&root, Mode::ReadWrite).unwrap();
        let refuse = |op: Op<'_>| if op.name() == "lock" { Verdict::Fail(libc::ENOLCK) } else { Verdict::Go };
        with_hook(refuse, || {
            // However slow this is, the other one is at work.
            let claim = fs::File::options().write(true).open(root.join("packs/00000000.claim")).unwrap();
            claim.set_modified(std::time::SystemTime::now() + HOUR).unwrap();
            let nothing = [Pin::Graph(hipplan_serialize::GraphKey([0; 32]))];
            let errors = [
                store.gc(&Default::default(), &()).unwrap_err(),
                store.remove(&nothing, &()).unwrap_err(),
                store.repair(&Default::default(), &()).unwrap_err(),
            ];
            assert!(errors.iter().all(|error| error.to_string().contains("other upkeep is at work")), "{errors:?}");
        });
    };
    let is_first = Cell::new(true);
    let hook = move |op: Op<'_>| {
        let is_now = match op {
            Op::List { path } => moment == "list" && path.ends_with("trash"),
            Op::Rename { to, .. } => moment == "rename" && to.parent().is_some_and(|folder| folder.ends_with("trash")),
            _ => false,
        };
        if is_now && is_first.replace(false) {
            std::thread::scope(|scope| scope.spawn(&middle).join().unwrap());
        }
        Verdict::Go
    };
    fs::create_dir_all(store.root().join("trash")).unwrap();
    let mut options = GcOptions::default();
    options.max_bytes = Some(0);
    // It tells that it is alive by the time of its claim, which is changed above, only after hours.
    set_claim_age(24 * HOUR);
    let report = with_hook(hook, || store.gc(&options, &())).unwrap();
    assert_eq!(report.evicted, 2, "{moment}: {report:?}");
    assert_eq!(bytes_of(store.root()), 0, "{:?}", tree(store.root()).keys());
}

#[test]
fn what_a_pack_in_the_trash_names_stays_when_it_came_there_after_the_gc_had_looked() {
    let (_dir, store) = evictable(false);
    // Of both graphs, as a compaction that was killed a moment ago has written it and was about to withdraw it.
    let (_copy_dir, copy) = copy_of(&store);
    let pack = pack_up(&copy, 7);
    let trash = store.root().join("trash");
    fs::create_dir(&trash).unwrap();
    let (to, is_first) = (trash.join(pack.file_name().unwrap()), Cell::new(true));
    let hook = move |op: Op<'_>| {
        // When it begins to take names away.
        if matches!(op, hipplan_store::testing::Op::Rename { to, .. } if to.parent().unwrap().ends_with("trash")) && is_first.replace(false)
        {
            fs::copy(&pack, &to).unwrap();
        }
        Verdict::Go
    };
    let mut options = GcOptions::default();
    options.max_bytes = Some(0);
    with_hook(hook, || store.gc(&options, &())).unwrap();
    store.remove(&[], &()).unwrap();
    let reader = Store::open(store.root(), Mode::ReadOnly).unwrap();
    assert_eq!(packs(&reader).len(), 1, "it comes back");
    assert_clean(&reader);
    assert!(has_graph(&reader, 1) && has_graph(&reader, 2));
}

/// Two old graphs of which the records of the plans are elsewhere than the rest: in loose files, or in a pack in front or behind.
fn evictable_in_parts(records: &str) -> (tempfile::TempDir, Store) {
    let (dir, store) = evictable(false);
    let (index, aside) = (store.root().join("index/plan"), dir.path().join("aside"));
    let others = ["objects", "plans", "index/select"];
    let hide =
        |names: &[&str]| names.iter().for_each(|name| fs::rename(store.root().join(name), aside.join(name.replace('/', "-"))).unwrap());
    let show =
        |names: &[&str]| names.iter().for_each(|name| fs::rename(aside.join(name.replace('/', "-")), store.root().join(name)).unwrap());
    fs::create_dir(&aside).unwrap();
    if records == "behind" {
        hide(&others);
        pack_up(&store, 1);
        others.iter().for_each(|name| drop(fs::remove_dir_all(store.root().join(name))));
        show(&others);
        pack_up(&store, 2);
    } else {
        hide(&["index/plan"]);
        pack_up(&store, 1);
        drop(fs::remove_dir_all(&index));
        show(&["index/plan"]);
        if records == "in front" {
            pack_up(&store, 2);
        }
    }
    age(&store, 5 * HOUR);
    let store = Store::open(store.root(), Mode::ReadWrite).unwrap();
    (dir, store)
}

#[test]
fn no_kill_takes_the_record_of_a_plan_from_under_what_selects_it() {
    for records in ["loose", "in front", "behind"] {
        let (_template_dir, template) = evictable_in_parts(records);
        let mut at = 0;
        loop {
            let (_dir, store) = copy_of(&template);
            let calls = Rc::new(Cell::new(0));
            let counted = Rc::clone(&calls);
            let hook = move |_: Op<'_>| {
                let number = counted.replace(counted.get() + 1);
                if number >= at { Verdict::Fail(libc::EIO) } else { Verdict::Go }
            };
            let mut options = GcOptions::default();
            options.max_bytes = Some(0);
            drop(with_hook(hook, || store.gc(&options, &())));
            let reader = Store::open(store.root(), Mode::ReadOnly).unwrap();
            let report = reader.verify();
            assert!(report.is_clean(), "records {records}, call {at}: {:?}", report.problems);
            // The first one that follows may leave what comes back to the second.
            for _ in 0..2 {
                age(&store, 5 * HOUR);
                let again = Store::open(store.root(), Mode::ReadWrite).unwrap();
                gc(&again, |options| options.max_bytes = Some(0));
                let report = reader.verify();
                assert!(report.is_clean(), "records {records}, after call {at}: {:?}", report.problems);
            }
            assert_eq!(bytes_of(store.root()), 0, "records {records}, call {at}: {:?}", tree(store.root()).keys());
            assert_clean(&reader);
            if calls.get() <= at {
                break;
            }
            at += 1;
        }
        assert!(at > 50, "{at}");
    }
}

/// Names go before it is known that somebody uses the plan: whatever fails then, the plan gets its record back.
#[test]
fn a_plan_that_is_used_has_its_record_after_a_gc_that_failed() {
    for packed in [false, true] {
        let (dir, store) = new_store();
        let mut plans = [b"one", b"two"].map(|graph| put(&store, &plan(graph, 100, &[])));
        // What is used is looked at last.
        plans.sort_unstable_by_key(|plan| plan.root);
        let used = plans[1];
        if packed {
            let (index, aside) = (store.root().join("index/plan"), dir.path().join("aside"));
            fs::rename(&index, &aside).unwrap();
            pack_up(&store, 1);
            fs::rename(&aside, &index).unwrap();
        }
        age(&store, 5 * HOUR);
        let store = Store::open(store.root(), Mode::ReadWrite).unwrap();
        let reader = Store::open(store.root(), Mode::ReadWrite).unwrap();
        let (has_used, has_failed) = (Cell::new(false), Cell::new(false));
        let (index, plans, tmp) = (store.root().join("index/plan"), store.root().join("plans"), store.root().join("tmp"));
        let hook = move |op: Op<'_>| {
            if matches!(op, Op::SyncFolder { path } if path.starts_with(&index)) && !has_used.replace(true) {
                assert!(reader.find_plan(&used.key).hit().is_none());
                assert!(reader.get_plan(&used).hit().is_some());
            }
            let fails = match op {
                Op::Create { path } => packed && path.starts_with(&tmp),
                Op::Rename { from, .. } => from.starts_with(&plans),
                _ => false,
            };
            if fails && has_used.get() && !has_failed.replace(true) { Verdict::Fail(libc::ENOSPC) } else { Verdict::Go }
        };
        let mut options = GcOptions::default();
        options.max_bytes = Some(0);
        let failed = with_hook(hook, || store.gc(&options, &()));
        assert_eq!(failed.unwrap_err().code(), "full", "packed {packed}");
        let store = Store::open(store.root(), Mode::ReadOnly).unwrap();
        assert_eq!(store.find_plan(&used.key).hit(), Some(used), "packed {packed}");
        assert!(store.get_plan(&used).hit().is_some(), "packed {packed}");
    }
}

#[test]
fn a_dry_run_counts_what_a_run_then_does() {
    // Loose, in one pack, or half and half; and what makes things go.
    type Change = fn(&mut GcOptions);
    let changes: [(&str, Change); 5] = [
        ("nothing reaches it", |_| ()),
        ("too old", |options| options.max_age = Some(4 * HOUR)),
        ("all too old", |options| options.max_age = Some(Duration::from_secs(60))),
        ("too many bytes", |options| options.max_bytes = Some(30_000)),
        ("no grace", |options| {
            (options.grace, options.max_bytes) = (Duration::ZERO, Some(0));
        }),
    ];
    for place in ["loose", "packed", "mixed", "in two packs"] {
        for (what, change) in changes {
            let (_dir, store) = new_store();
            (0..4).for_each(|n| _ = put_graph(&store, n, 5000));
            // A selection of several plans, some of which go before the others.
            let ids = ["a", "b", "c"].map(|engine| put(&store, &plan_of_engine(b"graph", engine, 1000, &[])));
            assert!(store.put_selection(&selection_key(b"graph"), &ids).unwrap().is_persisted());
            assert!(store.put_blob(&[3; 3000]).unwrap().persisted.is_persisted());
            put(&store, &plan(b"again", 10, &[]));
            if place != "loose" {
                pack_up(&store, 1);
            }
            if place == "mixed" || place == "in two packs" {
                (4..8).for_each(|n| _ = put_graph(&store, n, 5000));
                fs::write(store.root().join("tmp/left.tmp"), "half").unwrap();
            }
            if place == "in two packs" {
                pack_up(&store, 2);
            }
            let store = Store::open(store.root(), Mode::ReadWrite).unwrap();
            (0..8).for_each(|n| _ = has_graph(&store, n));
            assert!(ids.iter().all(|id| store.get_plan(id).hit().is_some()));
            if what != "no grace" {
                age(&store, 5 * HOUR);
            }
            // Some are used later than the others.
            let store = Store::open(store.root(), Mode::ReadWrite).unwrap();
            assert!(store.get_plan(&ids[1]).hit().is_some() && has_graph(&store, 2));
            if what != "no grace" {
                age(&store, 2 * HOUR);
            }
            let before = tree(store.root());
            let dry = gc(&store, |options| {
                change(options);
                options.dry_run = true;
            });
            assert_eq!(tree(store.root()), before, "{place}, {what}");
            let done = gc(&store, change);
            let counts = |report: &GcReport| {
                let GcReport { evicted, blobs, plans, records, shortened, packs_rewritten, leftovers, quarantined, .. } = *report;
                (
                    [evicted, blobs, plans, records, shortened, packs_rewritten, leftovers, quarantined],
                    report.before,
                    report.after,
                    report.is_over,
                )
            };
            assert_eq!(counts(&dry), counts(&done), "{place}, {what}");
            if what == "no grace" {
                assert_eq!(bytes_of(store.root()), 0, "{place}: {:?}", tree(store.root()).keys());
            }
            if what != "nothing reaches it" {
                assert!(done.plans > 0, "{place}, {what}: {done:?}");
            }
            assert_clean(&store);
        }
    }
}

#[test]
fn the_last_use_of_what_is_in_a_pack_is_never_told_as_one_to_come() {
    // Uses are told by the hour: one that is about to end is let pass.
    let of_hour = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() % 3600;
    if of_hour >= 3600 - 60 {
        std::thread::sleep(Duration::from_secs(3600 - of_hour + 1));
    }
    let (_dir, store) = new_store();
    put_graph(&store, 1, 100);
    pack_up(&store, 1);
    let store = Store::open(store.root(), Mode::ReadWrite).unwrap();
    assert!(has_graph(&store, 1));
    let now = std::time::SystemTime::now();
    for kind in hipplan_store::EntryKind::ALL {
        for entry in store.entries(kind) {
            let used = entry.unwrap().used;
            assert!(used <= now && now.duration_since(used).unwrap() < 2 * HOUR, "{used:?}");
        }
        assert!(store.stat().unwrap()[0].kinds.iter().all(|of_kind| of_kind.newest.is_none_or(|newest| newest <= now)));
    }
    // What was used in this hour stays where there is a grace age, however short.
    let report = gc(&store, |options| (options.grace, options.max_bytes) = (Duration::from_nanos(1), Some(0)));
    assert!(report.is_over && report.kept_in_use == 1 && has_graph(&store, 1), "{report:?}");
}

/// Numbers that leave out what could not be listed are wrong.
#[test]
fn what_cannot_be_listed_is_not_counted_as_nothing() {
    let (dir, store) = new_store();
    put_graph(&store, 1, 400);
    fs::write(store.root().join("tmp/left.tmp"), "half").unwrap();
    let before = store.stat().unwrap();
    let shard = fs::read_dir(store.root().join("plans")).unwrap().next().unwrap().unwrap().path();
    for folder in ["plans", "objects", "index/plan", "index/select", "tmp"].map(|name| store.root().join(name)).into_iter().chain([shard]) {
        let unlisted = folder.clone();
        let hook = move |op: Op<'_>| match op {
            Op::List { path } if path == unlisted => Verdict::Fail(libc::EACCES),
            _ => Verdict::Go,
        };
        let error = with_hook(hook, || store.stat()).unwrap_err();
        assert_eq!((error.code(), error.path()), ("no-permission", Some(&*folder)), "{error}");
    }
    // Nor is what stands in place of a folder.
    for folder in ["plans", "objects", "index", "index/plan", "index/select", "packs", "tmp", "trash", "quarantine", "pins"] {
        let (path, aside) = (store.root().join(folder), dir.path().join("aside"));
        let is_there = path.exists();
        if is_there {
            fs::rename(&path, &aside).unwrap();
        }
        for is_link in [false, true] {
            if is_link {
                std::os::unix::fs::symlink(&aside, &path).unwrap();
            } else {
                fs::write(&path, "stray").unwrap();
            }
            let error = store.stat().unwrap_err();
            assert_eq!((error.code(), error.path()), ("foreign", Some(&*path)), "{folder} {is_link}: {error}");
            fs::remove_file(&path).unwrap();
        }
        // One that is not there holds nothing.
        assert!(store.stat().is_ok(), "{folder}");
        if is_there {
            fs::rename(&aside, &path).unwrap();
        }
    }
    // What does not belong hides nothing: the rest is counted.
    fs::write(store.root().join("plans/stray"), "").unwrap();
    fs::write(store.root().join("notes.txt"), "").unwrap();
    assert_eq!(store.stat().unwrap(), before);
    // A gc says itself what it could not look into.
    let plans = store.root().join("plans");
    let hook = move |op: Op<'_>| match op {
        Op::List { path } if path == plans => Verdict::Fail(libc::EACCES),
        _ => Verdict::Go,
    };
    assert!(!with_hook(hook, || gc(&store, |_| ())).unknown.is_empty());
    assert!(has_graph(&store, 1));
}
