//! Puts that become durable together.

use super::child;
use super::common::{is_new, new_store, plan, plan_of_engine, selection_key, tree, warnings};
use super::compact::{assert_whole, compact, fail_each_call, files, loose};
use hipplan_serialize::{GraphKey, PlanRef, SelectionKey};
use hipplan_store::testing::{Op, Verdict, with_hook, with_longest_wait};
use hipplan_store::{Group, Mode, Persisted, Store, StoreError};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// As [`super::compact::put_graph`], into a group.
fn put_graph(group: &Group, graph: &[u8]) -> PlanRef {
    let blob = group.put_blob(&graph.repeat(30)).unwrap().id;
    let plan = group.put_plan(&plan(graph, 200, &[blob])).unwrap();
    assert!(plan.persisted.is_persisted());
    assert!(group.put_selection(&selection_key(graph), &[plan.id]).unwrap().is_persisted());
    plan.id
}

/// A group that writes when it is told to, however slow the machine is.
fn group_of(store: &Store) -> Group {
    store.group().writing_at(u64::MAX, Duration::MAX)
}

fn packs(store: &Store) -> Vec<PathBuf> {
    files(store.root(), "packs")
}

/// What the loose way of putting gives.
fn expected(graphs: &[[u8; 4]]) -> Vec<super::compact::Put> {
    let (_dir, store) = new_store();
    graphs.iter().map(|graph| super::compact::put_graph(&store, graph)).collect()
}

#[test]
fn a_group_is_one_pack_of_the_same_bytes_whatever_the_order() {
    let graphs: Vec<[u8; 4]> = (0..50_u32).map(u32::to_le_bytes).collect();
    let expected = expected(&graphs);
    let mut contents = Vec::new();
    for order in [graphs.clone(), graphs.iter().rev().copied().collect()] {
        let (_dir, store) = new_store();
        let group = group_of(&store);
        let all = SelectionKey::of_all(&GraphKey::of_encoding(b"all"), "cpu");
        for graph in &order {
            let id = put_graph(&group, graph);
            assert!(group.add_to_set(&all, &id).unwrap().is_persisted());
        }
        assert_eq!(packs(&store), Vec::<PathBuf>::new(), "not before it is committed");
        assert!(is_new(&group.commit().unwrap()));
        assert!(matches!(group.commit().unwrap(), Persisted::Unchanged));
        assert_eq!((packs(&store).len(), loose(&store).len()), (1, 0));
        assert_whole(&store, &expected, "");
        assert_eq!(store.find_selection(&all).hit().unwrap().plans.len(), 50);
        contents.push(std::fs::read(store.root().join(&packs(&store)[0])).unwrap());
        // Again, and nothing is written.
        let contents_of_packs = || {
            let mut files = tree(&store.root().join("packs"));
            // When they were used is no content: the hour may be another one by now.
            files.retain(|path, _| path.extension().is_none_or(|e| e != "used"));
            files
        };
        let before = contents_of_packs();
        for graph in &order {
            let id = put_graph(&group, graph);
            assert!(group.add_to_set(&all, &id).unwrap().is_persisted());
        }
        assert!(matches!(group.commit().unwrap(), Persisted::Unchanged));
        let is_pack = |path: &PathBuf| path.extension().is_some_and(|e| e == "pack");
        let after = contents_of_packs();
        assert!(before.iter().all(|(path, bytes)| after.get(path) == Some(bytes)));
        assert_eq!(after.keys().filter(|path| is_pack(path)).count(), 1);
    }
    assert_eq!(contents[0], contents[1]);
}

#[test]
fn twenty_thousand_plans_are_few_files() {
    let (_dir, store) = new_store();
    let group = group_of(&store);
    let all = SelectionKey::of_all(&GraphKey::of_encoding(b"all"), "cpu");
    let mut ids = Vec::new();
    for n in 0..20_000_u32 {
        let id = group.put_plan(&plan(&n.to_le_bytes(), 64, &[])).unwrap().id;
        assert!(group.put_selection(&selection_key(&n.to_le_bytes()), &[id]).unwrap().is_persisted());
        if n < 1000 {
            assert!(group.add_to_set(&all, &id).unwrap().is_persisted());
        }
        ids.push(id);
        // As a batch that takes hours, which writes what it has from time to time.
        if n % 1000 == 999 {
            assert!(group.commit().unwrap().is_persisted());
        }
    }
    let count = || tree(store.root()).values().flatten().count();
    assert!(count() <= 50, "{}", count());
    let found =
        || ids.iter().zip(0_u32..).all(|(id, n)| store.find_selection(&selection_key(&n.to_le_bytes())).hit().unwrap().plans == [*id]);
    assert!(found());
    let report = compact(&store);
    assert_eq!((report.entries, report.packs_folded), (60_001, 20));
    assert!(count() <= 8, "{:?}", tree(store.root()).keys());
    assert!(found());
    assert!(store.verify().is_clean());
}

#[test]
fn what_is_refused_by_the_store_is_refused_by_a_group() {
    let (_dir, store) = new_store();
    let group = group_of(&store);
    assert_eq!(group.put_plan(b"no plan").unwrap_err().code(), "refused");
    let missing = hipplan_serialize::Digest::of(b"not put");
    assert_eq!(group.put_plan(&plan(b"g", 10, &[missing])).unwrap_err().code(), "missing-target");
    assert_eq!(group.put_selection(&selection_key(b"g"), &[]).unwrap_err().code(), "refused");
    let other = plan(b"g", 10, &[]);
    let id = hipplan_serialize::plan::PlanView::open(&other).unwrap().plan_ref();
    assert_eq!(group.put_selection(&selection_key(b"g"), &[id]).unwrap_err().code(), "missing-target");
    assert_eq!(group.add_to_set(&selection_key(b"g"), &id).unwrap_err().code(), "missing-target");
    assert!(matches!(group.commit().unwrap(), Persisted::Unchanged));
    let reader = Store::open(store.root(), Mode::ReadOnly).unwrap();
    assert_eq!(group_of(&reader).put_blob(b"x").unwrap_err().code(), "read-only");
}

#[test]
fn a_group_is_in_front_of_what_was_there() {
    let (_dir, store) = new_store();
    let key = selection_key(b"g");
    let [first, second, third] = ["A", "B", "C"].map(|engine| plan_of_engine(b"g", engine, 10, &[]));
    let select = |bytes: &[u8]| {
        let group = group_of(&store);
        let id = group.put_plan(bytes).unwrap().id;
        assert!(group.put_selection(&key, &[id]).unwrap().is_persisted());
        assert!(is_new(&group.commit().unwrap()));
        assert_eq!(store.find_selection(&key).hit().unwrap().plans, [id]);
        id
    };
    // In front of a loose file, of a pack of a compaction, and of a group.
    let loose = super::common::put(&store, &first);
    assert!(store.put_selection(&key, &[loose]).unwrap().is_persisted());
    select(&second);
    compact(&store);
    select(&third);
    select(&second);
    assert_eq!(select(&first), loose);
    // What a kill left in `trash` and may come back is not in front of it.
    std::fs::create_dir_all(store.root().join("trash")).unwrap();
    compact(&store);
    assert!(store.put_selection(&key, &[super::common::put(&store, &third)]).unwrap().is_persisted());
    let path = &files(store.root(), "index/select")[0];
    let digits: String = path.to_str().unwrap()["index/select".len()..].chars().filter(char::is_ascii_hexdigit).collect();
    let name = format!("trash/selection-{}-00000001", &digits[..64]);
    std::fs::rename(store.root().join(path), store.root().join(name)).unwrap();
    let id = select(&second);
    compact(&store);
    assert_eq!(store.find_selection(&key).hit().unwrap().plans, [id]);
    assert!(store.verify().is_clean());
}

#[test]
fn sets_are_united_with_what_the_store_holds_by_then() {
    let (_dir, store) = new_store();
    let key = selection_key(b"set");
    let plans: Vec<_> = (0..4).map(|n| plan_of_engine(b"g", &format!("E{n}"), 10, &[])).collect();
    let ids: Vec<PlanRef> = plans.iter().map(|plan| super::common::put(&store, plan)).collect();
    let group = group_of(&store);
    assert!(group.add_to_set(&key, &ids[0]).unwrap().is_persisted());
    assert!(store.add_to_set(&key, &ids[1]).unwrap().is_persisted());
    assert!(is_new(&group.commit().unwrap()));
    assert!(group.add_to_set(&key, &ids[2]).unwrap().is_persisted());
    assert!(is_new(&group.commit().unwrap()));
    let mut expected = ids[..3].to_vec();
    expected.sort_unstable();
    assert_eq!(store.find_selection(&key).hit().unwrap().plans, expected);
    // A selection takes the place of the set, and what is added then is added to it.
    assert!(group.add_to_set(&key, &ids[1]).unwrap().is_persisted());
    assert!(group.put_selection(&key, &[ids[0]]).unwrap().is_persisted());
    assert!(group.add_to_set(&key, &ids[3]).unwrap().is_persisted());
    assert!(is_new(&group.commit().unwrap()));
    let mut expected = vec![ids[0], ids[3]];
    expected.sort_unstable();
    assert_eq!(store.find_selection(&key).hit().unwrap().plans, expected);
    assert!(store.verify().is_clean());
}

#[test]
fn a_group_that_is_full_or_old_is_written_by_the_next_put() {
    for (bytes, age) in [(1, Duration::MAX), (u64::MAX, Duration::ZERO)] {
        let (_dir, store) = new_store();
        let group = store.group().writing_at(bytes, age);
        put_graph(&group, b"a");
        assert!(store.find_selection(&selection_key(b"a")).hit().is_some());
        assert!(matches!(group.commit().unwrap(), Persisted::Unchanged));
    }
}

#[test]
fn threads_put_while_others_commit() {
    let (_dir, store) = new_store();
    let graphs: Vec<[u8; 4]> = (0..80_u32).map(u32::to_le_bytes).collect();
    let group = group_of(&store);
    let all = selection_key(b"all of them");
    std::thread::scope(|scope| {
        for part in graphs.chunks(20) {
            let group = &group;
            scope.spawn(move || {
                for (n, graph) in part.iter().enumerate() {
                    let id = put_graph(group, graph);
                    assert!(group.add_to_set(&all, &id).unwrap().is_persisted());
                    if n % 7 == 6 {
                        assert!(group.commit().unwrap().is_persisted());
                    }
                }
            });
        }
    });
    assert!(group.commit().unwrap().is_persisted());
    assert_whole(&store, &expected(&graphs), "");
    assert_eq!(store.find_selection(&all).hit().unwrap().plans.len(), 80);
}

#[test]
fn a_call_that_fails_loses_nothing_that_was_there_and_the_next_commit_brings_the_rest() {
    let graphs: Vec<[u8; 4]> = (0..3_u32).map(u32::to_le_bytes).collect();
    let expected = expected(&graphs);
    let fresh = || {
        let (dir, store) = new_store();
        let before = vec![super::compact::put_graph(&store, &graphs[0])];
        compact(&store);
        // One that has a loose file, which the group replaces.
        let other = super::common::put(&store, &plan_of_engine(&graphs[1], "OTHER", 10, &[]));
        assert!(store.put_selection(&selection_key(&graphs[1]), &[other]).unwrap().is_persisted());
        let group = group_of(&store);
        put_graph(&group, &graphs[1]);
        let id = put_graph(&group, &graphs[2]);
        assert!(group.add_to_set(&selection_key(b"set"), &id).unwrap().is_persisted());
        (dir, store, (group, before))
    };
    let groups = std::cell::Cell::new(0);
    // The group belongs to the store that is made for each call.
    let check = |store: &Store, made: &(Group, Vec<super::compact::Put>), what: &str| {
        let (group, before) = made;
        assert_whole(store, before, what);
        let failing =
            with_hook(|op: Op<'_>| if op.name() == "write" { Verdict::Fail(libc::ENOSPC) } else { Verdict::Go }, || group.commit());
        assert_eq!(failing.unwrap_err().code(), "full", "{what}");
        assert_whole(store, before, what);
        assert!(group.commit().unwrap().is_persisted(), "{what}");
        assert_whole(store, &expected, what);
        groups.set(groups.get() + 1);
    };
    let (_dir, store, made) = fresh();
    check(&store, &made, "no call");
    // Every call of the commit itself.
    let commit = |store: &Store| {
        let group = group_of(store);
        graphs.iter().for_each(|graph| _ = with_hook(|_: Op<'_>| Verdict::Go, || put_graph(&group, graph)));
        drop(group.commit());
    };
    fail_each_call(fresh, commit, |store, (_, before), what| {
        assert_whole(store, before, what);
        let group = group_of(store);
        graphs.iter().for_each(|graph| _ = put_graph(&group, graph));
        assert!(group.commit().unwrap().is_persisted(), "{what}");
        assert_whole(store, &expected, what);
    });
    assert_eq!(groups.get(), 1);
}

#[test]
fn a_store_that_degrades_says_no_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open_or_degrade(dir.path().join("store"));
    let group = group_of(&store);
    put_graph(&group, b"a");
    let full = |op: Op<'_>| if op.name() == "write" { Verdict::Fail(libc::ENOSPC) } else { Verdict::Go };
    let (persisted, warnings) = warnings(|| with_hook(full, || group.commit().unwrap()));
    assert!(matches!(&persisted, Persisted::No(error) if error.code() == "full"), "{persisted:?}");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    // What is put later may name what was not kept.
    assert!(!group.put_blob(b"b").unwrap().persisted.is_persisted());
    assert!(store.verify().is_clean());
    let group = group_of(&store);
    put_graph(&group, b"a");
    assert!(group.commit().unwrap().is_persisted());
    assert!(store.find_selection(&selection_key(b"a")).hit().is_some());
}

/// A child: puts group after group.
pub(crate) fn fill_in_groups(root: &Path) {
    let store = Store::open(root, Mode::ReadWrite).unwrap();
    let group = group_of(&store);
    for n in 0..u32::MAX {
        put_graph(&group, &n.to_le_bytes());
        if n % 4 == 3 {
            assert!(group.commit().unwrap().is_persisted());
            std::fs::write(root.join("../committed"), n.to_string()).unwrap();
        }
    }
}

#[test]
fn what_was_committed_is_found_after_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    for round in 0..8_u64 {
        let mut child = child::command("fill in groups", &root).stdout(Stdio::null()).spawn().unwrap();
        let committed = || std::fs::read_to_string(dir.path().join("committed")).ok()?.parse::<u32>().ok();
        while committed().is_none() {
            assert!(child.try_wait().unwrap().is_none(), "it has ended by itself");
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(round * 7));
        child.kill().unwrap();
        child.wait().unwrap();
        let last = committed().unwrap_or(3);
        let store = Store::open(&root, Mode::ReadWrite).unwrap();
        let graphs: Vec<[u8; 4]> = (last - 3..=last).map(u32::to_le_bytes).collect();
        assert_whole(&store, &expected(&graphs), "");
        std::fs::remove_file(dir.path().join("committed")).unwrap();
    }
}

/// What a group names was looked for when it was put, and may have gone when the group is written.
#[test]
fn what_names_an_entry_that_has_gone_is_left_out_and_the_rest_is_written() {
    let (_dir, store) = new_store();
    let [gone, stays] = [b"code object 1", b"code object 2"].map(|blob| store.put_blob(blob).unwrap().id);
    let group = group_of(&store);
    let lost = group.put_plan(&plan(b"lost", 10, &[gone])).unwrap().id;
    let kept = group.put_plan(&plan(b"kept", 10, &[stays])).unwrap().id;
    let [of_lost, of_both] = [selection_key(b"lost"), selection_key(b"both")];
    assert!(group.put_selection(&of_lost, &[lost]).unwrap().is_persisted());
    for plan in [lost, kept] {
        assert!(group.add_to_set(&of_both, &plan).unwrap().is_persisted());
    }
    let mut blobs = files(store.root(), "objects").into_iter().map(|file| store.root().join(file));
    std::fs::remove_file(blobs.find(|file| std::fs::read(file).unwrap() == b"code object 1").unwrap()).unwrap();

    let error = group.commit().unwrap_err();
    assert!(matches!(&error, StoreError::MissingTarget { what: "code object", .. }), "{error}");
    assert_eq!(store.find_selection(&of_both).hit().unwrap().plans, [kept]);
    assert!(store.get_plan(&kept).hit().is_some() && store.find_plan(&kept.key).hit().is_some());
    assert!(store.find_selection(&of_lost).hit().is_none() && store.find_plan(&lost.key).hit().is_none());
    assert!(store.verify().is_clean(), "{:?}", store.verify());
    // It is over with that.
    assert!(matches!(group.commit(), Ok(Persisted::Unchanged)));
}

/// Who puts a selection and who adds to it in the same moment: one of them is the last, and nothing but that is lost.
#[test]
fn a_selection_and_an_addition_at_once_come_one_after_the_other() {
    const ROUNDS: u32 = 4000;
    // The one comes by so much later, more in each round: so it meets the other at every moment of its work.
    const MOST_SPINS: usize = 400;
    let (_dir, store) = new_store();
    let group = group_of(&store);
    let [one, two] = ["A", "B"].map(|engine| group.put_plan(&plan_of_engine(b"g", engine, 10, &[])).unwrap().id);
    let keys: Vec<SelectionKey> = (0..ROUNDS).map(|n| selection_key(&n.to_le_bytes())).collect();
    for key in &keys {
        assert!(group.put_selection(key, &[one]).unwrap().is_persisted());
    }
    let arrived = AtomicUsize::new(0);
    let together = |round: usize| {
        arrived.fetch_add(1, Ordering::SeqCst);
        let mut spins = 0_u32;
        while arrived.load(Ordering::SeqCst) < 2 * (round + 1) {
            spins += 1;
            // The other may need this processor to come here.
            if spins < 2000 { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for (round, key) in keys.iter().enumerate() {
                together(round);
                (0..round % MOST_SPINS).for_each(|_| std::hint::spin_loop());
                assert!(group.add_to_set(key, &two).unwrap().is_persisted());
            }
        });
        for (round, key) in keys.iter().enumerate() {
            together(round);
            assert!(group.put_selection(key, &[one]).unwrap().is_persisted());
        }
    });
    assert!(group.commit().unwrap().is_persisted());
    let mut both = vec![one, two];
    both.sort_unstable();
    for key in &keys {
        let found = store.find_selection(key).hit().map(|found| found.plans).unwrap_or_default();
        assert!(found == [one] || found == both, "{found:?}");
    }
}

/// Commits, and has another thread do something in the middle of it.
fn commit_and_meanwhile(group: &Group, fails: bool, meanwhile: impl FnOnce() + Send + 'static) -> Result<Persisted, StoreError> {
    let mut meanwhile = Some(meanwhile);
    let hook = move |op: Op<'_>| {
        if op.name() != "write" || !op.path().components().any(|part| part.as_os_str() == "tmp") {
            return Verdict::Go;
        }
        if let Some(meanwhile) = meanwhile.take() {
            std::thread::spawn(meanwhile).join().unwrap();
        }
        if fails { Verdict::Fail(libc::ENOSPC) } else { Verdict::Go }
    };
    with_hook(hook, || group.commit())
}

#[test]
fn what_is_put_during_a_commit_comes_behind_what_that_writes() {
    for fails in [false, true] {
        let (_dir, store) = new_store();
        let [one, two] = ["A", "B"].map(|engine| super::common::put(&store, &plan_of_engine(b"g", engine, 10, &[])));
        let mut both = vec![one, two];
        both.sort_unstable();
        let group = Arc::new(group_of(&store));
        let commit = |meanwhile: Box<dyn FnOnce(&Group) + Send>| {
            let other = Arc::clone(&group);
            assert_eq!(commit_and_meanwhile(&group, fails, move || meanwhile(&other)).is_err(), fails);
            assert!(group.commit().unwrap().is_persisted());
        };
        // The store has this selection, until what is being written gets there.
        let key = selection_key(b"put again");
        assert!(store.put_selection(&key, &[one]).unwrap().is_persisted());
        assert!(group.add_to_set(&key, &two).unwrap().is_persisted());
        commit(Box::new(move |group| assert!(group.put_selection(&key, &[one]).unwrap().is_persisted())));
        assert_eq!(store.find_selection(&key).hit().unwrap().plans, [one], "{fails}");
        // What is added to a selection that is being written.
        let key = selection_key(b"added to");
        assert!(group.put_selection(&key, &[one]).unwrap().is_persisted());
        commit(Box::new(move |group| assert!(group.add_to_set(&key, &two).unwrap().is_persisted())));
        assert_eq!(store.find_selection(&key).hit().unwrap().plans, both, "{fails}");
        // And to a set.
        let key = selection_key(b"added to a set");
        assert!(group.add_to_set(&key, &one).unwrap().is_persisted());
        commit(Box::new(move |group| assert!(group.add_to_set(&key, &two).unwrap().is_persisted())));
        assert_eq!(store.find_selection(&key).hit().unwrap().plans, both, "{fails}");
        assert!(store.verify().is_clean());
    }
}

/// What another process has put may not have come to its last sync.
#[test]
fn a_set_that_has_the_plan_already_is_made_durable_before_that_is_said() {
    let (_dir, store) = new_store();
    let id = super::common::put(&store, &plan(b"g", 10, &[]));
    let key = selection_key(b"set");
    assert!(is_new(&store.add_to_set(&key, &id).unwrap()));
    let file = super::common::only_file(&store, "index/select");
    let add = |store: &Store, in_a_group: bool| {
        if !in_a_group {
            return store.add_to_set(&key, &id);
        }
        let group = group_of(store);
        drop(group.add_to_set(&key, &id)?);
        group.commit()
    };
    for in_a_group in [false, true] {
        for failing in [None, Some("sync-file"), Some("sync-folder")] {
            // It knows nothing to be durable, as another process does not.
            let other = Store::open(store.root(), Mode::ReadWrite).unwrap();
            let (of, seen) = (file.clone(), Arc::new(AtomicUsize::new(0)));
            let count = Arc::clone(&seen);
            let hook = move |op: Op<'_>| {
                let is_of_it = op.path() == of || op.name() == "sync-folder" && Some(op.path()) == of.parent();
                if !is_of_it || !op.name().starts_with("sync") {
                    return Verdict::Go;
                }
                count.fetch_add(1, Ordering::Relaxed);
                if failing == Some(op.name()) { Verdict::Fail(libc::EIO) } else { Verdict::Go }
            };
            let added = with_hook(hook, || add(&other, in_a_group));
            match failing {
                None => {
                    assert!(matches!(added, Ok(Persisted::Unchanged)), "{added:?}");
                    assert_eq!(seen.load(Ordering::Relaxed), 2);
                }
                Some(_) => assert_eq!(added.unwrap_err().code(), "io"),
            }
        }
    }
    assert_eq!(store.find_selection(&key).hit().unwrap().plans, [id]);
}

/// What is stopped holds a commit up once, and not once for each set that it keeps.
#[test]
fn a_commit_waits_once_for_all_that_it_cannot_have() {
    let (_dir, store) = new_store();
    let [one, two] = ["A", "B"].map(|engine| super::common::put(&store, &plan_of_engine(b"g", engine, 10, &[])));
    // Keys of as many lock files.
    let mut keys = BTreeMap::new();
    for n in 0..8_u32 {
        let key = selection_key(&n.to_le_bytes());
        keys.insert(format!("locks/{:02x}", key.0[0] & 0x3f | 0x40), key);
    }
    assert!(keys.len() > 4);
    for key in keys.values() {
        assert!(store.add_to_set(key, &one).unwrap().is_persisted());
    }
    // As another process would have them.
    let held: Vec<File> = keys.keys().map(|name| File::open(store.root().join(name)).unwrap()).collect();
    held.iter().for_each(|file| file.lock().unwrap());
    let group = group_of(&store);
    for key in keys.values() {
        assert!(group.add_to_set(key, &two).unwrap().is_persisted());
    }
    let wait = Duration::from_millis(200);
    // On a machine that is very busy, it may also be said that it waits.
    let in_vain = |warned: &[String]| {
        assert!(warned.iter().all(|text| text.contains("code=\"waited-in-vain\"") || text.contains("code=\"waits\"")), "{warned:?}");
        warned.iter().filter(|text| text.contains("code=\"waited-in-vain\"")).count()
    };
    let (committed, warned) = warnings(|| with_longest_wait(wait, || group.commit().unwrap()));
    assert!(is_new(&committed));
    assert_eq!(in_vain(&warned), 1, "{warned:?}");
    let mut both = vec![one, two];
    both.sort_unstable();
    assert!(keys.values().all(|key| store.find_selection(key).hit().unwrap().plans == both));
    // Of who has one that was asked for when the wait was over, nothing is known: it is waited for by the next one.
    let last = keys.values().zip(held).max_by_key(|(key, _)| (key.0[0] ^ 0x5a) & 0x3f);
    let (key, _still_held) = last.unwrap();
    let three = super::common::put(&store, &plan_of_engine(b"g", "C", 10, &[]));
    let (added, warned) = warnings(|| with_longest_wait(wait, || store.add_to_set(key, &three).unwrap()));
    assert!(added.is_persisted());
    assert_eq!(in_vain(&warned), 1, "{warned:?}");
    assert!(store.find_selection(key).hit().unwrap().plans.contains(&three));
}
