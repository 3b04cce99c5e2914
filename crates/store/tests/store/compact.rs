//! Folding loose files and small packs into one pack.

use super::child;
use super::common::{new_store, plan, plan_of_engine, put, selection_key, tree, warnings};
use super::upkeep::HOUR;
use hipplan_serialize::{Digest, PlanRef};
use hipplan_store::testing::{Op, Verdict, with_hook, write_pack};
use hipplan_store::{CompactOptions, CompactReport, EntryKind, LayerOptions, Limits, Lookup, Mode, Store, check_pack};
use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

pub(crate) fn compact(store: &Store) -> CompactReport {
    store.compact(&CompactOptions::default(), &()).unwrap()
}

fn compact_all(store: &Store) -> CompactReport {
    let mut options = CompactOptions::default();
    options.all = true;
    store.compact(&options, &()).unwrap()
}

/// What was put of a graph.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Put {
    graph: Vec<u8>,
    blob: Digest,
    plan: PlanRef,
}

/// A blob, a plan that names it, and a selection that names the plan.
pub(crate) fn put_graph(store: &Store, graph: &[u8]) -> Put {
    let blob = store.put_blob(&graph.repeat(30)).unwrap().id;
    let plan = put(store, &plan(graph, 200, &[blob]));
    assert!(store.put_selection(&selection_key(graph), &[plan]).unwrap().is_persisted());
    Put { graph: graph.to_vec(), blob, plan }
}

/// Everything of it is found, with exactly this content.
pub(crate) fn assert_found(store: &Store, put: &Put, what: &str) {
    match store.find_selection(&selection_key(&put.graph)) {
        Lookup::Hit(found) => assert_eq!(found.plans, [put.plan], "{what}"),
        Lookup::Miss(why) => panic!("{what}: selection: {why}"),
    }
    match store.find_plan(&put.plan.key) {
        Lookup::Hit(found) => assert_eq!(found, put.plan, "{what}"),
        Lookup::Miss(why) => panic!("{what}: record: {why}"),
    }
    match store.get_plan(&put.plan) {
        Lookup::Hit(found) => found.view().verify().unwrap(),
        Lookup::Miss(why) => panic!("{what}: plan: {why}"),
    }
    match store.get_blob(&put.blob) {
        Lookup::Hit(found) => assert_eq!(&found[..], put.graph.repeat(30), "{what}"),
        Lookup::Miss(why) => panic!("{what}: blob: {why}"),
    }
}

pub(crate) fn assert_whole(store: &Store, puts: &[Put], what: &str) {
    let fresh = Store::open(store.root(), Mode::ReadWrite).unwrap();
    for put in puts {
        assert_found(store, put, what);
        assert_found(&fresh, put, what);
    }
    let report = fresh.verify();
    assert!(report.is_clean(), "{what}: {:?}", report.problems);
}

pub(crate) fn files(root: &Path, below: &str) -> Vec<PathBuf> {
    tree(root).into_iter().filter(|(path, bytes)| bytes.is_some() && path.starts_with(below)).map(|(path, _)| path).collect()
}

fn packs(store: &Store) -> Vec<PathBuf> {
    files(store.root(), "packs").into_iter().filter(|path| path.extension().is_some_and(|e| e == "pack")).collect()
}

/// Loose files of entries.
pub(crate) fn loose(store: &Store) -> Vec<PathBuf> {
    ["objects", "plans", "index"].into_iter().flat_map(|below| files(store.root(), below)).collect()
}

fn graphs(range: std::ops::Range<u32>) -> impl Iterator<Item = [u8; 4]> {
    range.map(u32::to_le_bytes)
}

#[test]
fn loose_files_become_one_pack_and_everything_is_found() {
    let (_dir, store) = new_store();
    let mut puts: Vec<Put> = graphs(0..40).map(|graph| put_graph(&store, &graph)).collect();
    let report = compact(&store);
    assert_eq!((report.entries, report.files_folded, report.files_kept, report.packs_folded), (160, 160, 0, 0), "{report:?}");
    assert!(report.damaged == 0 && report.left == 0 && report.problems.is_empty() && report.put_back.is_empty(), "{report:?}");
    assert_eq!(packs(&store).len(), 1);
    assert_eq!(loose(&store), Vec::<PathBuf>::new());
    assert_whole(&store, &puts, "after the first");
    // Nothing to do, nothing done.
    let before = tree(store.root());
    assert!(compact(&store).pack.is_none());
    assert!(compact_all(&store).pack.is_none());
    assert_eq!(tree(store.root()), before);
    // What is in the pack is not written again.
    let again: Vec<Put> = graphs(0..40).map(|graph| put_graph(&store, &graph)).collect();
    assert_eq!(again, puts);
    assert_eq!(loose(&store), Vec::<PathBuf>::new());

    puts.extend(graphs(40..50).map(|graph| put_graph(&store, &graph)));
    let report = compact(&store);
    assert_eq!((report.entries, packs(&store).len()), (40, 2));
    let report = compact_all(&store);
    assert_eq!((report.entries, report.packs_folded, packs(&store).len()), (200, 2, 1));
    assert_whole(&store, &puts, "after all");
    assert!(files(store.root(), "packs").len() <= 2, "a pack and its stamps: {:?}", files(store.root(), "packs"));
    assert_eq!(files(store.root(), "trash"), Vec::<PathBuf>::new());
}

#[test]
fn small_packs_are_folded_when_there_are_many_and_large_ones_stay() {
    let (_dir, store) = new_store();
    let mut puts = Vec::new();
    let mut options = CompactOptions::default();
    options.few_packs = 3;
    let large: Vec<Put> = graphs(0..300).map(|graph| put_graph(&store, &graph)).collect();
    compact(&store);
    puts.extend(large);
    options.small_pack_bytes = std::fs::metadata(store.root().join(&packs(&store)[0])).unwrap().len();
    let mut most = 0;
    for graph in graphs(300..312) {
        puts.push(put_graph(&store, &graph));
        store.compact(&options, &()).unwrap();
        most = most.max(packs(&store).len());
    }
    assert!(most <= 6, "{most}");
    assert_whole(&store, &puts, "");
}

#[test]
fn equal_stores_become_equal_packs() {
    let contents = [[0_u32, 1, 2, 3], [3, 1, 0, 2]].map(|order| {
        let (_dir, store) = new_store();
        order.iter().for_each(|graph| drop(put_graph(&store, &graph.to_le_bytes())));
        compact(&store);
        std::fs::read(store.root().join(&packs(&store)[0])).unwrap()
    });
    assert_eq!(contents[0], contents[1]);
}

#[test]
fn the_newest_record_stays_the_newest() {
    let (_dir, store) = new_store();
    let key = selection_key(b"g");
    let plans: Vec<PlanRef> = (0..5).map(|n| put(&store, &plan_of_engine(b"g", &format!("ENGINE{n}"), 10, &[]))).collect();
    for (n, plan) in plans.iter().enumerate() {
        assert!(store.put_selection(&key, &[*plan]).unwrap().is_persisted());
        if n % 2 == 0 {
            compact(&store)
        } else {
            compact_all(&store)
        };
        assert_eq!(store.find_selection(&key).hit().unwrap().plans, [*plan], "{n}");
    }
    // Another process that has not looked for a while.
    let other = Store::open(store.root(), Mode::ReadOnly).unwrap();
    assert_eq!(other.find_selection(&key).hit().unwrap().plans, [plans[4]]);
    assert!(store.put_selection(&key, &[plans[0]]).unwrap().is_persisted());
    compact(&store);
    assert_eq!(other.find_selection(&key).hit().unwrap().plans, [plans[0]]);
}

#[test]
fn damaged_entries_are_set_aside_and_what_is_not_ours_stays() {
    let (_dir, store) = new_store();
    let puts: Vec<Put> = graphs(0..6).map(|graph| put_graph(&store, &graph)).collect();
    let of = |below: &str, n: usize| store.root().join(&files(store.root(), below)[n]);
    let bad = [of("objects", 0), of("plans", 1), of("index/plan", 2), of("index/select", 3)];
    for path in &bad {
        let mut bytes = std::fs::read(path).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        std::fs::write(path, bytes).unwrap();
    }
    let foreign = store.root().join("objects/README");
    std::fs::write(&foreign, "x").unwrap();
    let (report, warnings) = warnings(|| compact(&store));
    assert_eq!((report.entries, report.damaged, report.left), (20, 4, 1), "{report:?}");
    assert_eq!((report.problems.len(), warnings.len()), (5, 4), "{report:?} {warnings:?}");
    assert_eq!(files(store.root(), "quarantine").len(), 4);
    assert_eq!(loose(&store), [PathBuf::from("objects/README")]);
    // Put again, all is as it should be.
    std::fs::remove_file(foreign).unwrap();
    let again: Vec<Put> = graphs(0..6).map(|graph| put_graph(&store, &graph)).collect();
    assert_whole(&store, &again, "");
    assert_eq!(puts, again);
}

#[test]
fn what_is_damaged_in_a_pack_is_not_taken_over_and_a_good_copy_is() {
    let (_dir, store) = new_store();
    let puts: Vec<Put> = graphs(0..6).map(|graph| put_graph(&store, &graph)).collect();
    compact(&store);
    let pack = store.root().join(&packs(&store)[0]);
    let mut bytes = std::fs::read(&pack).unwrap();
    let needle = puts[2].graph.repeat(30);
    let at = bytes.windows(needle.len()).position(|window| window == needle).unwrap();
    bytes[at] ^= 1;
    std::fs::remove_file(&pack).unwrap();
    std::fs::write(&pack, bytes).unwrap();
    let fresh = Store::open(store.root(), Mode::ReadWrite).unwrap();
    assert!(fresh.get_blob(&puts[2].blob).hit().is_none());
    put_graph(&fresh, &7_u32.to_le_bytes());
    let report = compact_all(&fresh);
    assert_eq!((report.damaged, report.entries), (1, 27), "{report:?}");
    assert!(fresh.get_blob(&puts[2].blob).hit().is_none());
    put_graph(&fresh, &puts[2].graph);
    assert_whole(&fresh, &puts, "");
}

#[test]
fn use_is_remembered() {
    let (_dir, store) = new_store();
    let put = put_graph(&store, b"g");
    let path = store.root().join(&files(store.root(), "objects")[0]);
    let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(500_000 * 3600);
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(old).unwrap();
    let stamps = |report: &CompactReport| std::fs::read(report.pack.as_ref().unwrap().with_extension("used")).unwrap();
    let report = compact(&store);
    let first = stamps(&report);
    assert_eq!((first.len(), &first[..4]), (16, &500_000_u32.to_le_bytes()[..]));
    assert_ne!(first[4..8], first[..4]);
    // Used since.
    assert!(store.get_blob(&put.blob).hit().is_some());
    put_graph(&store, b"h");
    let merged = stamps(&compact_all(&store));
    assert_eq!(merged.len(), 32);
    assert!(merged.as_chunks::<4>().0.iter().all(|stamp| u32::from_le_bytes(*stamp) != 500_000));
}

/// Fails the k-th call, for every k, until one run has no k-th call. `fresh` makes a store and what was put, `act` is what is done to it.
pub(crate) fn fail_each_call<T>(fresh: impl Fn() -> (tempfile::TempDir, Store, T), act: impl Fn(&Store), check: impl Fn(&Store, &T, &str)) {
    for errno in [libc::EIO, libc::ENOSPC, libc::EACCES, libc::ESTALE] {
        let mut k = 0;
        loop {
            let (_dir, store, made) = fresh();
            let count = Rc::new(Cell::new(0));
            let failed = Rc::new(RefCell::new(String::new()));
            let (counted, named) = (Rc::clone(&count), Rc::clone(&failed));
            let hook = move |op: Op<'_>| {
                counted.set(counted.get() + 1);
                if counted.get() - 1 == k {
                    *named.borrow_mut() = format!("{} {}", op.name(), op.path().display());
                    return Verdict::Fail(errno);
                }
                Verdict::Go
            };
            with_hook(hook, || act(&store));
            check(&store, &made, &format!("errno {errno}, call {k}: {}", failed.borrow()));
            if count.get() <= k {
                break;
            }
            k += 1;
        }
        assert!(k > 20, "{k}");
    }
}

#[test]
fn a_call_that_fails_loses_nothing() {
    let fresh = || {
        let (dir, store) = new_store();
        let first = put_graph(&store, b"first");
        compact(&store);
        let puts = vec![first, put_graph(&store, b"second")];
        (dir, store, puts)
    };
    let mut options = CompactOptions::default();
    options.all = true;
    // What cannot be removed or written is told, and nothing more.
    let act = |store: &Store| drop(store.compact(&options, &()));
    fail_each_call(fresh, act, |store, puts: &Vec<Put>, what| {
        assert_whole(store, puts, what);
        // The next one finishes what was left.
        compact_all(store);
        assert_whole(store, puts, what);
        assert_eq!(files(store.root(), "trash"), Vec::<PathBuf>::new(), "{what}");
        assert_eq!((loose(store), packs(store).len()), (Vec::new(), 1), "{what}");
    });
}

/// Does something else in the middle of a compaction: before its k-th call, for every k.
fn in_between(fresh: impl Fn() -> (tempfile::TempDir, Store), other: impl Fn(&Store) + Sync, check: impl Fn(&Store, &str)) {
    let mut k = 0;
    loop {
        let (_dir, store) = fresh();
        let count = Rc::new(Cell::new(0));
        let counted = Rc::clone(&count);
        // A hook may not use a store on its own thread, and hooks are of one thread.
        let second = Store::open(store.root(), Mode::ReadWrite).unwrap();
        let name = Rc::new(RefCell::new(String::new()));
        let named = Rc::clone(&name);
        let (ask, asked) = std::sync::mpsc::channel::<()>();
        let (answer, answered) = std::sync::mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (asked, answer) = (asked, answer);
                while asked.recv().is_ok() {
                    other(&second);
                    answer.send(()).unwrap();
                }
            });
            let hook = move |op: Op<'_>| {
                counted.set(counted.get() + 1);
                if counted.get() - 1 == k {
                    *named.borrow_mut() = format!("call {k}: {} {}", op.name(), op.path().display());
                    ask.send(()).unwrap();
                    answered.recv().unwrap();
                }
                Verdict::Go
            };
            with_hook(hook, || compact_all(&store));
        });
        if count.get() <= k {
            break;
        }
        check(&store, &name.borrow());
        k += 1;
    }
    assert!(k > 20, "{k}");
}

#[test]
fn a_record_that_is_replaced_in_the_middle_stays_the_newest() {
    let fresh = || {
        let (dir, store) = new_store();
        put_graph(&store, b"before");
        compact(&store);
        put_graph(&store, b"g");
        (dir, store)
    };
    let newer = plan_of_engine(b"g", "NEWER", 10, &[]);
    let key = selection_key(b"g");
    // As a loose file.
    let put_loose = |store: &Store| {
        let id = put(store, &newer);
        assert!(store.put_selection(&key, &[id]).unwrap().is_persisted());
    };
    let check = |store: &Store, what: &str| {
        let newest = put(store, &newer);
        for round in ["", ", compacted again"] {
            assert_eq!(store.find_selection(&key).hit().unwrap().plans, [newest], "{what}{round}");
            assert_eq!(store.find_plan(&newest.key).hit(), Some(newest), "{what}{round}");
            let report = Store::open(store.root(), Mode::ReadOnly).unwrap().verify();
            assert!(report.is_clean() && report.leftovers.is_empty(), "{what}{round}: {report:?}");
            compact_all(store);
        }
    };
    in_between(fresh, put_loose, check);
    // In a pack.
    let put_in_group = |store: &Store| {
        let group = store.group();
        let id = group.put_plan(&newer).unwrap().id;
        assert!(group.put_selection(&key, &[id]).unwrap().is_persisted());
        assert!(group.commit().unwrap().is_persisted());
    };
    in_between(fresh, put_in_group, check);
    // Put, and what was there before put again: it is found, and not what came in between.
    let older = Cell::new(None);
    let put_back_and_forth = |store: &Store| {
        put_loose(store);
        put_graph(store, b"g");
    };
    let check_older = |store: &Store, what: &str| {
        let id = put_graph(store, b"g").plan;
        older.set(Some(id));
        assert_eq!(store.find_selection(&key).hit().unwrap().plans, [id], "{what}");
        compact_all(store);
        assert_eq!(store.find_selection(&key).hit().unwrap().plans, [id], "{what}");
    };
    let found_before_it_is_put_again = |store: &Store, what: &str| {
        let found = store.find_selection(&key).hit().unwrap().plans;
        check_older(store, what);
        assert_eq!(found, [older.get().unwrap()], "{what}");
    };
    in_between(fresh, put_back_and_forth, found_before_it_is_put_again);
}

#[test]
fn compactions_at_once_are_right() {
    let fresh = || {
        let (dir, store) = new_store();
        put_graph(&store, b"before");
        compact(&store);
        put_graph(&store, b"g");
        (dir, store)
    };
    let newer = plan_of_engine(b"g", "NEWER", 10, &[]);
    let key = selection_key(b"g");
    let mut options = CompactOptions::default();
    options.all = true;
    // The other one has the lock.
    options.wait = std::time::Duration::ZERO;
    let other = |store: &Store| {
        let id = put(store, &newer);
        assert!(store.put_selection(&key, &[id]).unwrap().is_persisted());
        store.compact(&options, &()).unwrap();
    };
    in_between(fresh, other, |store, what| {
        let newest = put(store, &newer);
        for round in ["", ", compacted again"] {
            assert_eq!(store.find_selection(&key).hit().unwrap().plans, [newest], "{what}{round}");
            let report = Store::open(store.root(), Mode::ReadOnly).unwrap().verify();
            assert!(report.is_clean(), "{what}{round}: {report:?}");
            compact_all(store);
        }
    });
}

/// A child: reads until it is told to stop, and finds all that is there at every moment.
pub(crate) fn read_throughout(root: &Path) {
    let stop = root.join("../stop");
    let store = Store::open(root, Mode::ReadOnly).unwrap();
    let mut rounds = 0_u32;
    while !stop.exists() || rounds == 0 {
        // One that looks for the first time, and one that has looked before.
        let fresh = Store::open(root, Mode::ReadOnly).unwrap();
        for graph in graphs(0..GRAPHS) {
            for store in [&store, &fresh] {
                let selected = store.find_selection(&selection_key(&graph)).ok().unwrap().plans;
                let plan = store.get_plan(&selected[0]).ok().unwrap();
                assert!(store.find_plan(&selected[0].key).ok().unwrap() == selected[0]);
                plan.code_objects().for_each(|blob| drop(store.get_blob(&blob).ok().unwrap()));
            }
        }
        rounds += 1;
    }
}

const GRAPHS: u32 = 12;

#[test]
fn readers_find_everything_at_every_moment() {
    let (dir, store) = new_store();
    let puts: Vec<Put> = graphs(0..GRAPHS).map(|graph| put_graph(&store, &graph)).collect();
    let mut child = child::command("read all that is there", store.root()).stdout(Stdio::null()).spawn().unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let reader = Store::open(store.root(), Mode::ReadOnly).unwrap();
                while !done.load(Ordering::Relaxed) {
                    puts.iter().for_each(|put| assert_found(&reader, put, "a reader"));
                }
            });
        }
        for round in 0..60_u32 {
            // A record that is replaced by its equal has a loose file again.
            let put = &puts[round as usize % puts.len()];
            let other = super::common::put(&store, &plan_of_engine(&put.graph, "OTHER", round as usize, &[]));
            let key = selection_key(&round.to_le_bytes().repeat(9));
            assert!(store.put_selection(&key, &[other]).unwrap().is_persisted());
            if round % 2 == 0 {
                compact(&store)
            } else {
                compact_all(&store)
            };
        }
        done.store(true, Ordering::Relaxed);
    });
    std::fs::write(dir.path().join("stop"), "").unwrap();
    assert!(child.wait().unwrap().success());
    assert_whole(&store, &puts, "");
}

#[test]
fn what_a_killed_upkeep_took_away_comes_back() {
    let (_dir, store) = new_store();
    let puts: Vec<Put> = graphs(0..3).map(|graph| put_graph(&store, &graph)).collect();
    let trash = store.root().join("trash");
    std::fs::create_dir(&trash).unwrap();
    for (kind, below) in [(EntryKind::Selection, "index/select"), (EntryKind::Plan, "plans"), (EntryKind::Blob, "objects")] {
        let path = &files(store.root(), below)[0];
        let digits: String = path.to_str().unwrap().strip_prefix(below).unwrap().chars().filter(char::is_ascii_hexdigit).collect();
        let name = format!("{}-{}-00000007", kind.word(), &digits[..64]);
        std::fs::rename(store.root().join(path), trash.join(name)).unwrap();
    }
    assert!(!store.verify().is_clean());
    let report = compact(&store);
    assert_eq!((report.put_back.len(), report.entries), (3, 12), "{report:?}");
    assert_whole(&store, &puts, "");
}

#[test]
fn a_store_that_may_not_be_written_is_not() {
    let (_dir, store) = new_store();
    put_graph(&store, b"g");
    let before = tree(store.root());
    let reader = Store::open(store.root(), Mode::ReadOnly).unwrap();
    assert_eq!(reader.compact(&CompactOptions::default(), &()).unwrap_err().code(), "read-only");
    assert_eq!(tree(store.root()), before);
}

/// A bundle of one graph that says of itself what is asked for.
fn bundle(path: &Path, graph: &[u8], provenance: &[String]) -> Put {
    let (_dir, origin) = new_store();
    let put = put_graph(&origin, graph);
    let all = EntryKind::ALL.into_iter().flat_map(|kind| origin.entries(kind).collect::<Vec<_>>()).map(Result::unwrap);
    let (entries, bytes): (Vec<_>, Vec<_>) =
        all.map(|entry| ((entry.kind, entry.name, entry.size), std::fs::read(entry.path).unwrap())).unzip();
    write_pack(path, &entries, provenance, |number| bytes[number].clone()).unwrap();
    put
}

/// Lines of 60 KiB.
fn long_lines(of: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{of} {n:02} {}", "x".repeat(60 << 10))).collect()
}

#[test]
fn provenance_that_is_too_long_together_is_cut_and_everything_is_found() {
    let (dir, store) = new_store();
    let file = dir.path().join("b");
    let mut puts = Vec::new();
    for of in ["first", "second", "third"] {
        puts.push(bundle(&file, of.as_bytes(), &long_lines(of, 10)));
        store.import(&file, &LayerOptions::default()).unwrap();
    }
    let report = compact_all(&store);
    assert_eq!((report.packs_folded, report.entries), (3, 12), "{report:?}");
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    assert_whole(&store, &puts, "");
    let lines = check_pack(report.pack.as_ref().unwrap(), &Limits::default()).unwrap().provenance;
    let of = |name: &str| lines.iter().filter(|line| line.starts_with(name)).count();
    assert_eq!([of("third"), of("second"), of("first"), of("13 lines of older provenance left out")], [10, 7, 0, 1]);
    // Folded again, with another.
    puts.push(bundle(&file, b"fourth", &long_lines("fourth", 10)));
    store.import(&file, &LayerOptions::default()).unwrap();
    let report = compact_all(&store);
    assert_eq!(report.packs_folded, 2, "{report:?}");
    assert_whole(&store, &puts, "again");
    let lines = check_pack(report.pack.as_ref().unwrap(), &Limits::default()).unwrap().provenance;
    assert_eq!(lines.iter().filter(|line| line.starts_with("23 lines of older provenance left out")).count(), 1);
}

#[test]
fn what_readers_would_not_open_gets_no_name() {
    let (dir, store) = new_store();
    let own = put_graph(&store, b"own");
    let file = dir.path().join("b");
    let put = bundle(&file, b"large", &long_lines("large", 30));
    let mut limits = Limits::default();
    limits.max_provenance_bytes = 4 << 20;
    let generous = Store::open(store.root(), Mode::ReadWrite).unwrap().with_limits(limits);
    let error = generous.import(&file, &LayerOptions::default()).unwrap_err();
    assert_eq!(error.code(), "limit", "{error}");
    assert!(packs(&store).is_empty() && generous.get_blob(&put.blob).hit().is_none());
    assert_whole(&store, &[own], "");
}

#[test]
fn entries_that_others_take_away_are_left_out_or_it_is_said_that_nothing_was_folded() {
    for every_time in [false, true] {
        let (_dir, store) = new_store();
        let puts: Vec<Put> = graphs(0..3).map(|graph| put_graph(&store, &graph)).collect();
        let alone: Vec<Digest> = (0..20_u32).map(|n| store.put_blob(&n.to_le_bytes().repeat(100)).unwrap().id).collect();
        let is_alone = {
            let of_graphs: Vec<String> = puts.iter().map(|put| put.blob.hash.to_string()[2..].to_owned()).collect();
            move |path: &Path| {
                let name = path.file_name().unwrap().to_str().unwrap();
                path.to_str().unwrap().contains("/objects/") && !of_graphs.iter().any(|other| other == name)
            }
        };
        let taken = Rc::new(Cell::new(0));
        let (count, opened) = (Rc::clone(&taken), RefCell::new(std::collections::BTreeSet::new()));
        let hook = move |op: Op<'_>| {
            // The first time it is listed, the second time it is packed.
            if let Op::Open { path } = op
                && is_alone(path)
                && !opened.borrow_mut().insert(path.to_owned())
                && (every_time || count.get() == 0)
            {
                opened.borrow_mut().clear();
                std::fs::remove_file(path).unwrap();
                count.set(count.get() + 1);
            }
            Verdict::Go
        };
        let report = with_hook(hook, || compact(&store));
        assert_eq!(report.gave_up, every_time, "{report:?}");
        assert!(report.problems.is_empty() && report.left == 0, "{report:?}");
        let left = alone.iter().filter(|id| store.get_blob(id).hit().is_some()).count();
        assert_eq!((taken.get(), left), if every_time { (4, 16) } else { (1, 19) });
        assert_eq!(report.entries, if every_time { 0 } else { 31 });
        assert_eq!((packs(&store).len(), loose(&store).is_empty()), if every_time { (0, false) } else { (1, true) });
        assert_whole(&store, &puts, "");
    }
}

#[test]
fn of_many_problems_the_first_thousand_are_told() {
    let (_dir, store) = new_store();
    put_graph(&store, b"g");
    for n in 0..1500 {
        std::fs::write(store.root().join(format!("objects/not ours {n}")), "x").unwrap();
    }
    let report = compact(&store);
    assert_eq!((report.left, report.problems.len(), report.entries), (1500, 1000, 4));
    assert_eq!(store.repair(&Default::default(), &()).unwrap().left.len(), 1000);
}

#[test]
fn claims_and_stamps_of_others_die_by_age_alone() {
    let (_dir, store) = new_store();
    put_graph(&store, b"g");
    std::fs::create_dir(store.root().join("packs")).unwrap();
    let left =
        ["00000007.claim".to_owned(), format!("00000007-{}.used", "ab".repeat(16))].map(|name| store.root().join("packs").join(name));
    let stamp = |path: &PathBuf, time: SystemTime| std::fs::File::create(path).unwrap().set_modified(time).unwrap();
    // However slow this is, they are not old.
    left.iter().for_each(|path| stamp(path, SystemTime::now() + HOUR));
    let upkeep: [&dyn Fn(); 4] = [
        &|| drop(compact(&store)),
        &|| drop(store.gc(&Default::default(), &()).unwrap()),
        &|| drop(store.remove(&[], &()).unwrap()),
        &|| drop(store.repair(&Default::default(), &()).unwrap()),
    ];
    for act in upkeep {
        // Somebody without the lock may be at work.
        act();
        assert!(left.iter().all(|path| path.exists()));
    }
    for act in upkeep {
        left.iter().for_each(|path| stamp(path, SystemTime::now() - HOUR));
        act();
        assert!(!left.iter().any(|path| path.exists()));
    }
}

#[test]
fn a_claim_that_was_taken_to_be_dead_ends_the_compaction_that_made_it() {
    let (_dir, store) = new_store();
    let puts = [put_graph(&store, b"g")];
    let claim = |store: &Store| files(store.root(), "packs").into_iter().find(|path| path.extension().is_some_and(|e| e == "claim"));
    let (seen, root) = (Rc::new(Cell::new(0)), store.root().to_owned());
    let count = Rc::clone(&seen);
    let hook = move |op: Op<'_>| {
        // Each time that a pack is about to be written, somebody else has come to have the claim.
        if let Op::Create { path } = op
            && path.parent().unwrap().ends_with("tmp")
        {
            let names = std::fs::read_dir(root.join("packs")).unwrap().map(|name| name.unwrap().path());
            let is_own = |path: &PathBuf| path.extension().is_some_and(|e| e == "claim") && std::fs::read(path).unwrap() != b"another's";
            for path in names.filter(is_own) {
                count.set(count.get() + 1);
                std::fs::remove_file(&path).unwrap();
                std::fs::write(&path, "another's").unwrap();
            }
        }
        Verdict::Go
    };
    let report = with_hook(hook, || compact(&store));
    assert!(report.gave_up && report.pack.is_none() && seen.get() > 0, "{report:?}");
    assert!(packs(&store).is_empty());
    // That of the other one stays.
    assert_eq!(std::fs::read(store.root().join(claim(&store).unwrap())).unwrap(), b"another's");
    assert_whole(&store, &puts, "");
}
