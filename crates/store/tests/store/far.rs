//! A far tier, as a store uses it.

use crate::child;
use crate::common::{plan, put, selection_key, warnings};
use crate::turns::failed_forks;
use hipplan_serialize::Digest;
use hipplan_store::{
    CompactOptions, EntryKind, Lookup, Mode, RemoteError, RemoteErrorKind, RemoteOptions, RemoteTier, Store, UpkeepProgress,
};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

type Entries = HashMap<(EntryKind, [u8; 32]), Vec<u8>>;

/// A tier in memory that counts what it is asked for.
#[derive(Debug, Default)]
struct Memory {
    entries: Mutex<Entries>,
    gets: AtomicUsize,
    refuses: AtomicBool,
}

impl RemoteTier for Memory {
    fn get(&self, kind: EntryKind, name: &[u8; 32], _: u64) -> Result<Option<Vec<u8>>, RemoteError> {
        self.gets.fetch_add(1, Ordering::Relaxed);
        Ok(self.entries.lock().unwrap().get(&(kind, *name)).cloned())
    }

    fn put(&self, kind: EntryKind, name: &[u8; 32], bytes: &[u8]) -> Result<(), RemoteError> {
        if self.refuses.load(Ordering::Relaxed) {
            return Err(RemoteError { kind: RemoteErrorKind::Refused, message: "not this one".to_owned() });
        }
        self.entries.lock().unwrap().insert((kind, *name), bytes.to_vec());
        Ok(())
    }

    fn name(&self) -> &str {
        "memory"
    }
}

fn machine(folder: &Path, tier: &Arc<Memory>) -> Store {
    let tier: Arc<dyn RemoteTier> = Arc::<Memory>::clone(tier);
    Store::open(folder, Mode::ReadWrite).unwrap().with_remote(tier, RemoteOptions { read: true, write: true })
}

#[test]
fn machines_add_to_one_set() {
    let folder = tempfile::tempdir().unwrap();
    let tier = Arc::new(Memory::default());
    let key = selection_key(b"one");
    let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| machine(&folder.path().join(name), &tier));
    let [one, two, three] = [b"1", b"2", b"3"].map(|graph| plan(graph, 100, &[]));
    // That there is no such set is known to `b` before `a` makes it.
    assert!(b.find_selection(&key).hit().is_none());
    let one = put(&a, &one);
    assert!(a.add_to_set(&key, &one).unwrap().is_persisted());
    let two = put(&b, &two);
    assert!(b.add_to_set(&key, &two).unwrap().is_persisted());
    let group = c.group();
    let three = group.put_plan(&three).unwrap().id;
    assert!(group.add_to_set(&key, &three).unwrap().is_persisted());
    assert!(group.commit().unwrap().is_persisted());

    let mut all = vec![one, two, three];
    all.sort_unstable();
    assert_eq!(d.find_selection(&key).hit().unwrap().plans, all);
    assert_eq!(d.without_remote().find_selection(&key).hit().unwrap().plans, all, "it is kept");
}

#[test]
fn a_set_of_a_newer_hipplan_is_left_alone_and_a_damaged_one_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let tier = Arc::new(Memory::default());
    let key = selection_key(b"one");
    let place = (EntryKind::Selection, key.0);
    let [a, b, c] = ["a", "b", "c"].map(|name| machine(&folder.path().join(name), &tier));
    let plan = plan(b"1", 100, &[]);
    let (in_a, in_b, in_c) = (put(&a, &plan), put(&b, &plan), put(&c, &plan));
    assert!(a.add_to_set(&key, &in_a).unwrap().is_persisted());
    let good = tier.entries.lock().unwrap()[&place].clone();
    let mut newer = good.clone();
    newer[8] = 9;
    tier.entries.lock().unwrap().insert(place, newer.clone());
    assert!(b.add_to_set(&key, &in_b).unwrap().is_persisted());
    assert_eq!(tier.entries.lock().unwrap()[&place], newer);
    let mut damaged = good.clone();
    *damaged.last_mut().unwrap() ^= 1;
    tier.entries.lock().unwrap().insert(place, damaged);
    assert!(c.add_to_set(&key, &in_c).unwrap().is_persisted());
    assert_eq!(tier.entries.lock().unwrap()[&place], good);
}

#[test]
fn what_is_absent_is_asked_for_once_and_without_the_tier_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let tier = Arc::new(Memory::default());
    let store = machine(folder.path(), &tier);
    let near = store.clone().without_remote();
    for _ in 0..3 {
        assert!(matches!(near.find_selection(&selection_key(b"one")), Lookup::Miss(_)));
    }
    assert_eq!(tier.gets.load(Ordering::Relaxed), 0);
    for _ in 0..3 {
        assert!(matches!(store.find_selection(&selection_key(b"one")), Lookup::Miss(_)));
    }
    assert_eq!(tier.gets.load(Ordering::Relaxed), 1);
}

/// What is about to be kept may be what somebody is adding to: then it is not kept this time, nobody is waited for, and nothing is said of it.
#[test]
fn a_lookup_neither_waits_for_a_writer_nor_writes_beside_one() {
    let folder = tempfile::tempdir().unwrap();
    let tier = Arc::new(Memory::default());
    let key = selection_key(b"one");
    let [a, b] = ["a", "b"].map(|name| machine(&folder.path().join(name), &tier));
    let one = put(&a, &plan(b"1", 100, &[]));
    assert!(a.add_to_set(&key, &one).unwrap().is_persisted());
    let two = put(&b, &plan(b"2", 100, &[]));
    // Another process that writes records: of the same file, since names of locks are those of the first six bits.
    std::fs::create_dir(b.root().join("locks")).unwrap();
    let held = std::fs::File::create(b.root().join(format!("locks/{:02x}", key.0[0] & 0x3f | 0x40))).unwrap();
    held.lock().unwrap();

    let (found, warned) = warnings(|| b.find_selection(&key).hit().unwrap().plans);
    assert_eq!((found, &warned[..]), (vec![one], &[][..]));
    let near = b.clone().without_remote();
    assert!(near.find_selection(&key).hit().is_none(), "nothing is written while somebody else may");
    // A writer waits for it all the same.
    let is_free = AtomicBool::new(false);
    let (added, warned) = warnings(|| {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(std::time::Duration::from_millis(50));
                is_free.store(true, Ordering::SeqCst);
                // Not by closing alone: a child that another test starts may have it open a moment longer.
                held.unlock().unwrap();
            });
            let added = near.add_to_set(&key, &two).unwrap();
            assert!(is_free.load(Ordering::SeqCst));
            added
        })
    });
    assert!(added.is_persisted() && warned.is_empty(), "{warned:?}");
    assert_eq!(b.find_selection(&key).hit().unwrap().plans, [two]);
}

/// A tier is behind the layers: what they have is not asked for, and not replaced by what it has.
#[test]
fn a_selection_that_is_here_stays_whatever_the_tier_has() {
    let folder = tempfile::tempdir().unwrap();
    let tier = Arc::new(Memory::default());
    let key = selection_key(b"one");
    let [a, b] = ["a", "b"].map(|name| machine(&folder.path().join(name), &tier));
    let in_b = put(&b, &plan(b"1", 100, &[]));
    assert!(b.put_selection(&key, &[in_b]).unwrap().is_persisted());
    let in_a = put(&a, &plan(b"2", 100, &[]));
    assert!(a.put_selection(&key, &[in_a]).unwrap().is_persisted());
    let before = tier.gets.load(Ordering::Relaxed);
    for _ in 0..3 {
        assert_eq!(b.find_selection(&key).hit().unwrap().plans, [in_b]);
        assert_eq!(a.find_selection(&key).hit().unwrap().plans, [in_a]);
    }
    assert_eq!(tier.gets.load(Ordering::Relaxed), before, "nothing is asked for");
    assert_eq!(b.without_remote().find_selection(&key).hit().unwrap().plans, [in_b]);
}

/// What comes from afar is kept whole, also where a layer below has a part of it.
#[test]
fn a_plan_whose_code_object_is_in_a_layer_below_is_kept_in_front() {
    let folder = tempfile::tempdir().unwrap();
    let tier = Arc::new(Memory::default());
    let (writer, below, front) = (folder.path().join("writer"), folder.path().join("below"), folder.path().join("front"));
    let writer = machine(&writer, &tier);
    let blob = writer.put_blob(b"a code object").unwrap().id;
    let named = put(&writer, &plan(b"1", 100, &[blob]));
    let key = selection_key(b"one");
    assert!(writer.put_selection(&key, &[named]).unwrap().is_persisted());
    assert!(Store::open(&below, Mode::ReadWrite).unwrap().put_blob(b"a code object").unwrap().persisted.is_persisted());

    let (reader, warnings) = warnings(|| {
        let reader = machine(&front, &tier).with_layer(&below).unwrap();
        assert_eq!(reader.find_selection(&key).hit().unwrap().plans, [named]);
        reader
    });
    assert!(warnings.is_empty(), "{warnings:?}");
    drop(reader);
    let alone = Store::open(&front, Mode::ReadOnly).unwrap();
    assert_eq!(alone.find_selection(&key).hit().unwrap().plans, [named]);
    assert!(alone.get_plan(&named).hit().is_some() && alone.get_blob(&blob).hit().is_some());
    assert!(alone.verify().is_clean());
}

/// What names an entry that could not be put is not put either.
#[test]
fn no_name_is_put_before_what_it_names() {
    let folder = tempfile::tempdir().unwrap();
    let tier = Arc::new(Memory::default());
    let store = machine(folder.path(), &tier);
    let [one, two] = [b"code object 1", b"code object 2"];
    tier.refuses.store(true, Ordering::Relaxed);
    let lost = store.put_blob(one).unwrap().id;
    tier.refuses.store(false, Ordering::Relaxed);
    let kept = store.put_blob(two).unwrap().id;
    let key = selection_key(b"one");
    let of_lost = put(&store, &plan(b"1", 100, &[lost]));
    assert!(store.put_selection(&key, &[of_lost]).unwrap().is_persisted());
    let of_kept = put(&store, &plan(b"2", 100, &[kept]));
    let kinds: Vec<_> = tier.entries.lock().unwrap().keys().copied().collect();
    assert_eq!(kinds.len(), 3, "{kinds:?}");
    for place in [(EntryKind::Blob, kept.hash.0), (EntryKind::Plan, of_kept.root.0), (EntryKind::PlanRecord, of_kept.key.0)] {
        assert!(kinds.contains(&place), "{place:?}");
    }
}

/// What was put while the tier was away is put there later, all of it and in order.
#[test]
fn a_push_puts_everything_there() {
    let folder = tempfile::tempdir().unwrap();
    let tier = Arc::new(Memory::default());
    let (here, below) = (folder.path().join("here"), folder.path().join("below"));
    let (key, set, shared) = (selection_key(b"one"), selection_key(b"set"), selection_key(b"shared"));

    tier.refuses.store(true, Ordering::Relaxed);
    let lower = machine(&below, &tier);
    let under = put(&lower, &plan(b"under", 100, &[lower.put_blob(b"code object below").unwrap().id]));
    assert!(lower.put_selection(&shared, &[under]).unwrap().is_persisted());
    let store = machine(&here, &tier).with_layer(&below).unwrap();
    let blobs: Vec<_> = (0..100_u8).map(|number| store.put_blob(&[number; 3]).unwrap().id).collect();
    let one = put(&store, &plan(b"1", 100, &blobs));
    assert!(store.put_selection(&key, &[one]).unwrap().is_persisted());
    assert!(store.add_to_set(&set, &one).unwrap().is_persisted());
    assert!(store.compact(&CompactOptions::default(), &()).unwrap().pack.is_some());
    let two = put(&store, &plan(b"2", 100, &[]));
    assert!(store.put_selection(&shared, &[two]).unwrap().is_persisted());
    assert!(tier.entries.lock().unwrap().is_empty());

    // As long as it refuses, nothing is there, and each cause is told once.
    let report = store.push(&()).unwrap();
    assert_eq!((report.put, report.problems.len()), ([0; 4], 4), "the cause, and one for each kind that names others: {report:?}");
    let all = 101 + 3 + 3 + 3;
    assert_eq!(report.left, all, "{report:?}");

    // Somebody else was faster with the set.
    tier.refuses.store(false, Ordering::Relaxed);
    let other = machine(&folder.path().join("other"), &tier);
    let three = put(&other, &plan(b"3", 100, &[]));
    assert!(other.add_to_set(&set, &three).unwrap().is_persisted());

    let report = machine(&here, &tier).with_layer(&below).unwrap().push(&()).unwrap();
    assert_eq!((report.put.iter().sum(), report.left, &report.problems[..]), (all, 0, &[][..]), "{report:?}");
    assert!(report.bytes > 300);

    let fresh = machine(&folder.path().join("fresh"), &tier);
    assert_eq!(fresh.find_selection(&key).hit().unwrap().plans, [one]);
    assert_eq!(fresh.find_selection(&shared).hit().unwrap().plans, [two, under], "as the layers have it together");
    let mut both = [one, three];
    both.sort_unstable();
    assert_eq!(fresh.find_selection(&set).hit().unwrap().plans, both);
    assert!(blobs.iter().all(|blob| fresh.get_blob(blob).hit().is_some()));
    assert!(fresh.verify().is_clean());

    let nowhere = Store::open(&here, Mode::ReadOnly).unwrap();
    assert_eq!(nowhere.push(&()).unwrap_err().code(), "read-only");
}

fn loose(store: &Path, blob: &Digest) -> PathBuf {
    let name = blob.hash.to_string();
    let (folder, file) = name.split_at(2);
    store.join("objects").join(folder).join(file)
}

/// A push leaves out what names something that it cannot put, and takes the good one of two copies.
#[test]
fn a_push_leaves_out_what_would_lead_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let (here, below) = (folder.path().join("here"), folder.path().join("below"));
    let [good, bad] = [&b"a code object that stays"[..], b"a code object that is damaged"];
    let lower = Store::open(&below, Mode::ReadWrite).unwrap();
    let twice = lower.put_blob(good).unwrap().id;
    let store = Store::open(&here, Mode::ReadWrite).unwrap();
    let (kept, lost) = (store.put_blob(good).unwrap().id, store.put_blob(bad).unwrap().id);
    assert_eq!(twice, kept);
    let [of_kept, of_lost] = [kept, lost].map(|blob| put(&store, &plan(&blob.hash.0, 100, &[blob])));
    let [key_of_kept, key_of_lost] = [b"kept", b"lost"].map(|key| selection_key(key));
    assert!(store.put_selection(&key_of_kept, &[of_kept]).unwrap().is_persisted());
    assert!(store.put_selection(&key_of_lost, &[of_lost]).unwrap().is_persisted());
    std::fs::write(loose(&here, &lost), b"something else").unwrap();
    std::fs::write(loose(&below, &kept), &good[..5]).unwrap();

    let tier = Arc::new(Memory::default());
    let report = machine(&here, &tier).with_layer(&below).unwrap().push(&()).unwrap();
    assert_eq!((report.put, report.left), ([1; 4], 4), "{report:?}");
    assert_eq!(report.problems.len(), 4, "{report:?}");
    let fresh = machine(&folder.path().join("fresh"), &tier);
    assert_eq!(fresh.find_selection(&key_of_kept).hit().unwrap().plans, [of_kept]);
    assert!(fresh.get_blob(&kept).hit().is_some());
    let entries = tier.entries.lock().unwrap();
    for place in [(EntryKind::Blob, lost.hash.0), (EntryKind::Plan, of_lost.root.0), (EntryKind::Selection, key_of_lost.0)] {
        assert!(!entries.contains_key(&place), "{place:?}");
    }
}

/// What comes while a push is at work, and names what came too, is left for the next one.
#[test]
fn a_push_is_not_led_astray_by_what_comes_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), Mode::ReadWrite).unwrap();
    assert!(store.put_blob(b"a code object").unwrap().persisted.is_persisted());
    let tier = Arc::new(Memory::default());
    let pushed = machine(folder.path(), &tier);
    let is_first = AtomicBool::new(true);
    let report = pushed.push(&Late(&store, &is_first)).unwrap();
    assert_eq!((report.put, report.left), ([1, 0, 0, 0], 2), "{report:?}");
    let report = pushed.push(&()).unwrap();
    assert_eq!((report.put, report.left), ([2, 1, 1, 0], 0), "{report:?}");
}

/// Puts a plan and its code object when blobs have been listed.
struct Late<'s>(&'s Store, &'s AtomicBool);

impl UpkeepProgress for Late<'_> {
    fn step(&self, _: &'static str, _: u64, _: u64) {
        if self.1.swap(false, Ordering::Relaxed) {
            let blob = self.0.put_blob(b"another code object").unwrap().id;
            put(self.0, &plan(b"late", 100, &[blob]));
        }
    }
}

/// A tier that keeps nothing, holds no lock and refuses one blob.
#[derive(Debug)]
struct Sink;

const REFUSED: &[u8] = b"what is refused";

impl RemoteTier for Sink {
    fn get(&self, _: EntryKind, _: &[u8; 32], _: u64) -> Result<Option<Vec<u8>>, RemoteError> {
        Ok(None)
    }

    fn put(&self, _: EntryKind, _: &[u8; 32], bytes: &[u8]) -> Result<(), RemoteError> {
        if bytes == REFUSED { Err(RemoteError { kind: RemoteErrorKind::Refused, message: "not this one".to_owned() }) } else { Ok(()) }
    }

    fn name(&self) -> &str {
        "sink"
    }
}

/// Forks while other threads ask what was lost; the children put something of their own.
pub(crate) fn fork_among_pushes(root: &Path) {
    let tier: Arc<dyn RemoteTier> = Arc::new(Sink);
    let store = Store::open(root, Mode::ReadWrite).unwrap().with_remote(tier, RemoteOptions { read: true, write: true });
    assert!(store.put_blob(REFUSED).unwrap().persisted.is_persisted());
    let (done, started) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    store.push(&()).unwrap();
                    started.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        while started.load(Ordering::Relaxed) < 3 {
            std::thread::yield_now();
        }
        let failed = failed_forks(40, |n| {
            let blob = store.put_blob(&n.to_le_bytes()).unwrap();
            assert!(blob.persisted.is_persisted());
            put(&store, &plan(&n.to_le_bytes(), 10, &[blob.id]));
            assert!(store.get_blob(&blob.id).hit().is_some());
            assert!(store.find_selection(&selection_key(b"none")).hit().is_none());
        });
        done.store(true, Ordering::Relaxed);
        assert_eq!(failed, 0);
    });
}

#[test]
fn a_child_of_a_process_with_busy_threads_puts_and_looks_up() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("store"), Mode::ReadWrite).unwrap();
    let blobs: Vec<_> = (0..3000_u32).map(|n| Digest::of(&n.to_le_bytes())).collect();
    let group = store.group().writing_at(u64::MAX, std::time::Duration::MAX);
    (0..3000_u32).for_each(|n| drop(group.put_blob(&n.to_le_bytes()).unwrap()));
    let _ = group.put_plan(&plan(b"of many", 100, &blobs)).unwrap();
    assert!(group.commit().unwrap().is_persisted());
    assert!(child::command("far: fork among pushes", store.root()).status().unwrap().success());
}
