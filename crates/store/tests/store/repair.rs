use super::common::{new_store, only_file, plan, put, selection_key};
use super::gc::{copy_of, interrupted};
use super::upkeep::{HOUR, age, assert_clean, gc, has_graph, pack_up, packs, put_graph};
use hipplan_serialize::Digest;
use hipplan_store::testing::{Op, Verdict, with_hook};
use hipplan_store::{CompactOptions, EntryKind, GcOptions, Limits, Mode, Pin, RepairOptions, RepairReport, Store};
use std::cell::Cell;
use std::fs;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

fn repair(store: &Store) -> RepairReport {
    store.repair(&Default::default(), &()).unwrap()
}

fn files(store: &Store, kind: EntryKind) -> Vec<PathBuf> {
    store.entries(kind).map(|entry| entry.unwrap().path).collect()
}

fn damage(path: &PathBuf) {
    let mut bytes = fs::read(path).unwrap();
    let at = bytes.len() - 1;
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_sound_store_is_left_as_it_is() {
    let (_dir, store) = new_store();
    put_graph(&store, 1, 100);
    put_graph(&store, 2, 100);
    let report = repair(&store);
    let counts = [report.set_aside, report.packs_set_aside, report.rebuilt, report.incomplete, report.shortened, report.records];
    assert_eq!((counts, report.left.len()), ([0; 6], 0));
    assert!(has_graph(&store, 1) && has_graph(&store, 2));
}

#[test]
fn damage_of_each_kind_is_set_aside_and_nothing_names_it_afterwards() {
    for kind in EntryKind::ALL {
        let (_dir, store) = new_store();
        put_graph(&store, 1, 100);
        damage(&files(&store, kind)[0]);
        put_graph(&store, 2, 100);
        assert!(!store.verify().is_clean());
        let store = Store::open(store.root(), Mode::ReadWrite).unwrap();
        let report = repair(&store);
        assert_eq!((report.set_aside, report.left.len()), (1, 0), "{kind:?} {report:?}");
        assert_eq!(report.rebuilt, u64::from(kind == EntryKind::PlanRecord), "{kind:?}");
        assert_eq!(report.incomplete, u64::from(kind == EntryKind::Blob), "{kind:?}");
        assert_eq!(has_graph(&store, 1), kind == EntryKind::PlanRecord, "{kind:?}");
        assert!(has_graph(&store, 2));
        assert_clean(&store);
        assert_eq!(store.verify().quarantined.len(), 1);
        // What was lost is put again.
        put_graph(&store, 1, 100);
        assert!(has_graph(&store, 1));
        assert_clean(&store);
    }
}

#[test]
fn what_is_missing_is_named_no_more_or_made_anew() {
    for kind in EntryKind::ALL {
        let (_dir, store) = new_store();
        put_graph(&store, 1, 100);
        fs::remove_file(&files(&store, kind)[0]).unwrap();
        let store = Store::open(store.root(), Mode::ReadWrite).unwrap();
        let report = repair(&store);
        assert_eq!(report.rebuilt, u64::from(kind == EntryKind::PlanRecord), "{kind:?} {report:?}");
        assert_eq!(has_graph(&store, 1), kind == EntryKind::PlanRecord, "{kind:?}");
        assert_clean(&store);
    }
}

#[test]
fn a_selection_keeps_the_rows_that_lead_somewhere() {
    for packed in [false, true] {
        let (_dir, store) = new_store();
        let [one, two] = [b"one", b"two"].map(|graph| put(&store, &plan(graph, 50, &[])));
        if packed {
            pack_up(&store, 1);
        }
        let key = selection_key(b"graph");
        let lost = put(&store, &plan(b"lost", 50, &[]));
        assert!(store.put_selection(&key, &[one, lost, two]).unwrap().is_persisted());
        let root = lost.root.to_string();
        let file = store.root().join(format!("plans/{}/{}.plan", &root[..2], &root[2..]));
        if packed {
            let bytes = fs::read(&file).unwrap();
            fs::remove_file(&file).unwrap();
            pack_up(&store, 2);
            drop(bytes);
        } else {
            fs::remove_file(&file).unwrap();
        }
        let store = Store::open(store.root(), Mode::ReadWrite).unwrap();
        let report = repair(&store);
        assert_eq!((report.shortened, report.records), (1, 1), "{packed} {report:?}");
        assert_eq!(store.find_selection(&key).hit().unwrap().plans, [one, two]);
        assert_clean(&store);
    }
}

#[test]
fn what_is_good_in_a_damaged_pack_is_kept() {
    for at_end in [true, false] {
        let (_dir, store) = new_store();
        (0..4).for_each(|n| _ = put_graph(&store, n, 500));
        let pack = pack_up(&store, 1);
        let mut bytes = fs::read(&pack).unwrap();
        let at = if at_end { bytes.len() - 64 } else { 600 };
        bytes[at] ^= 1;
        fs::write(&pack, bytes).unwrap();
        let store = Store::open(store.root(), Mode::ReadWrite).unwrap();
        assert!(!store.verify().is_clean());
        let report = repair(&store);
        assert_eq!((report.packs_rebuilt, report.left.len()), (1, 0), "{report:?}");
        assert_eq!([report.packs_set_aside, report.lost_entries], [u64::from(at_end); 2], "{report:?}");
        assert_eq!(packs(&store) == [pack], !at_end, "whole again, it is what it was");
        let store = Store::open(store.root(), Mode::ReadWrite).unwrap();
        // The last entry is a selection; at the front are tables, which hold nothing of their own.
        assert_eq!((0..4).filter(|&n| has_graph(&store, n)).count(), if at_end { 3 } else { 4 });
        assert_clean(&store);
        assert_eq!(store.verify().quarantined.len(), usize::from(at_end));
    }
}

#[test]
fn a_pack_without_a_header_is_set_aside() {
    let (_dir, store) = new_store();
    put_graph(&store, 1, 500);
    let pack = pack_up(&store, 1);
    put_graph(&store, 2, 500);
    fs::write(&pack, "short").unwrap();
    let store = Store::open(store.root(), Mode::ReadWrite).unwrap();
    let report = repair(&store);
    assert_eq!((report.packs_set_aside, report.left.len()), (1, 0), "{report:?}");
    assert!(packs(&store).is_empty() && !has_graph(&store, 1) && has_graph(&store, 2));
    assert_clean(&store);
}

#[test]
fn what_nothing_reaches_goes_when_it_is_old() {
    let (_dir, store) = new_store();
    let id = put(&store, &plan(b"graph", 50, &[]));
    store.pin("some", &[Pin::Plan(id.key)]).unwrap();
    let blob = store.put_blob(b"unnamed").unwrap().id;
    assert_eq!(repair(&store).collected.blobs, 0);
    age(&store, 2 * HOUR);
    assert_eq!(repair(&store).collected.blobs, 1);
    assert!(store.get_blob(&blob).hit().is_none() && store.get_plan(&id).hit().is_some());
}

#[test]
fn what_was_written_long_ago_and_is_set_aside_now_is_kept_to_be_looked_at() {
    for packed in [false, true] {
        let (_dir, store) = new_store();
        put_graph(&store, 1, 100);
        let file = if packed { pack_up(&store, 1) } else { files(&store, EntryKind::Blob)[0].clone() };
        if packed {
            fs::write(&file, "short").unwrap();
        } else {
            damage(&file);
        }
        age(&store, 5 * HOUR);
        let store = Store::open(store.root(), Mode::ReadWrite).unwrap();
        let report = repair(&store);
        assert_eq!((report.set_aside + report.packs_set_aside, report.collected.quarantined), (1, 0), "{packed} {report:?}");
        assert_eq!(store.verify().quarantined.len(), 1, "{packed}");
        // Until its hour is over.
        let mut options = GcOptions::default();
        assert_eq!(store.gc(&options, &()).unwrap().quarantined, 0, "{packed}");
        options.now += 2 * HOUR;
        assert_eq!(store.gc(&options, &()).unwrap().quarantined, 1, "{packed}");
        assert!(store.verify().quarantined.is_empty(), "{packed}");
    }
}

/// Something of the store is moved elsewhere and a link put in its place: repairing takes nothing to be gone, and nothing to be missing.
#[test]
fn what_is_moved_behind_a_link_is_not_taken_to_be_gone() {
    for moved in ["a pack", "packs", "objects", "plans", "index/plan", "index/select", "a shard"] {
        let (dir, store) = new_store();
        put_graph(&store, 1, 100);
        pack_up(&store, 1);
        put_graph(&store, 2, 100);
        let names = |kind| store.entries(kind).filter_map(Result::ok).map(|entry| (entry.name, entry.path)).collect::<Vec<_>>();
        let before = EntryKind::ALL.map(names);
        age(&store, 100 * HOUR);
        let place = match moved {
            "a pack" => packs(&store)[0].clone(),
            "a shard" => only_file(&store, "plans").parent().unwrap().to_owned(),
            folder => store.root().join(folder),
        };
        let elsewhere = dir.path().join("elsewhere");
        fs::rename(&place, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &place).unwrap();

        let mut options = RepairOptions::default();
        options.grace = std::time::Duration::ZERO;
        let store = Store::open(store.root(), Mode::ReadWrite).unwrap();
        let mut collecting = GcOptions::default();
        collecting.grace = std::time::Duration::ZERO;
        // It may refuse to work at all.
        drop(store.gc(&collecting, &()));
        let report = store.repair(&options, &()).unwrap();
        assert!(!report.left.is_empty(), "{moved}: {report:?}");
        let counts = [report.set_aside, report.packs_set_aside, report.rebuilt, report.incomplete, report.shortened, report.records];
        assert_eq!(counts, [0; 6], "{moved}: {report:?}");

        fs::remove_file(&place).unwrap();
        fs::rename(&elsewhere, &place).unwrap();
        let store = Store::open(store.root(), Mode::ReadWrite).unwrap();
        let names = |kind| store.entries(kind).filter_map(Result::ok).map(|entry| (entry.name, entry.path)).collect::<Vec<_>>();
        assert_eq!(EntryKind::ALL.map(names), before, "{moved}");
        assert!(has_graph(&store, 1) && has_graph(&store, 2), "{moved}");
        assert_clean(&store);
    }
}

#[test]
fn a_pack_of_a_version_to_come_is_told_of_once_and_left() {
    let (_dir, store) = new_store();
    put_graph(&store, 1, 500);
    let pack = pack_up(&store, 1);
    let mut bytes = fs::read(&pack).unwrap();
    bytes[8] = 2;
    fs::write(&pack, &bytes).unwrap();
    let store = Store::open(store.root(), Mode::ReadWrite).unwrap();
    let report = repair(&store);
    assert_eq!(report.left.iter().map(|error| error.code()).collect::<Vec<_>>(), ["too-new"], "{:?}", report.left);
    assert_eq!(fs::read(&pack).unwrap(), bytes);
}

/// What is damaged in a store that is tried.
const DAMAGE: [&str; 5] = ["a blob", "a record", "the end of a pack", "the tables of a pack", "the header of a pack"];

/// A blob that nothing names, and most of the store.
const UNNAMED: &[u8] = &[7; 9000];

/// An old store of two graphs and a blob that nothing names.
fn old_and_damaged(what: &str) -> (tempfile::TempDir, Store) {
    let (dir, store) = new_store();
    put_graph(&store, 1, 500);
    put_graph(&store, 2, 500);
    assert!(store.put_blob(UNNAMED).unwrap().persisted.is_persisted());
    let file = match what {
        "a blob" => files(&store, EntryKind::Blob)[0].clone(),
        "a record" => files(&store, EntryKind::PlanRecord)[0].clone(),
        _ => pack_up(&store, 1),
    };
    let mut bytes = fs::read(&file).unwrap();
    let at = match what {
        "the tables of a pack" => 600,
        "the header of a pack" => 0,
        "the end of a pack" => bytes.len() - 64,
        _ => bytes.len() - 1,
    };
    bytes[at] ^= 1;
    fs::write(&file, bytes).unwrap();
    age(&store, 5 * HOUR);
    (dir, store)
}

/// Puts all that a store of [`old_and_damaged`] had.
fn put_all(store: &Store) {
    (1..=2).for_each(|n| _ = put_graph(store, n, 500));
    assert!(store.put_blob(UNNAMED).unwrap().persisted.is_persisted());
}

fn assert_all(reader: &Store, what: &dyn std::fmt::Display) {
    assert!((1..=2).all(|n| has_graph(reader, n)), "{what}");
    assert!(reader.get_blob(&Digest::of(UNNAMED)).hit().is_some(), "{what}");
}

#[test]
fn what_is_put_at_any_moment_of_a_repair_is_kept() {
    for (number, what) in (0_u32..).zip(DAMAGE) {
        let (_template_dir, template) = old_and_damaged(what);
        // Every second call for each: what most of them have in common is met at every one.
        let mut at = number % 2;
        loop {
            let (_dir, store) = copy_of(&template);
            let putting = Store::open(store.root(), Mode::ReadWrite).unwrap();
            let calls = interrupted(at, move || put_all(&putting), || drop(repair(&store)));
            if calls <= at {
                assert!(at > 50, "{at}");
                break;
            }
            let reader = Store::open(store.root(), Mode::ReadOnly).unwrap();
            assert_all(&reader, &format_args!("{what}, put at call {at} of {calls}"));
            assert_clean(&reader);
            at += 2;
        }
    }
}

/// What is put takes the place of what is damaged, and may be taken for it: then a call fails, or the repair is killed.
#[test]
fn what_is_put_before_a_repair_fails_or_is_killed_is_there_after_the_next_upkeep() {
    for what in DAMAGE {
        let (_template_dir, template) = old_and_damaged(what);
        for is_killed in [true, false] {
            let (mut at, mut tried) = (0, 0);
            loop {
                let (_dir, store) = copy_of(&template);
                let putting = Store::open(store.root(), Mode::ReadWrite).unwrap();
                let renames = Rc::new(Cell::new(0));
                let counted = Rc::clone(&renames);
                let is_failing = Cell::new(false);
                let hook = move |op: Op<'_>| {
                    if is_failing.replace(is_failing.get() && is_killed) {
                        return Verdict::Fail(libc::EIO);
                    }
                    // Files that are there are moved.
                    if matches!(op, Op::Rename { from, .. } | Op::RenameNew { from, .. } if !from.starts_with(putting.root().join("tmp"))) {
                        if counted.get() == at {
                            std::thread::scope(|scope| scope.spawn(|| put_all(&putting)).join().unwrap());
                            is_failing.set(true);
                        }
                        counted.set(counted.get() + 1);
                    }
                    Verdict::Go
                };
                drop(with_hook(hook, || store.repair(&Default::default(), &())));
                if renames.get() <= at {
                    break;
                }
                let again = Store::open(store.root(), Mode::ReadWrite).unwrap();
                gc(&again, |_| ());
                assert_all(&again, &format_args!("{what}, killed {is_killed}, put before renaming {at} of {}", renames.get()));
                at += 1;
                tried += 1;
            }
            assert!(tried > 0 || what == "the tables of a pack", "{what}");
        }
    }
}

/// As for lookups, what is in a pack is there whatever limits the store was given.
#[test]
fn a_pack_of_more_entries_than_the_limits_of_a_store_is_repaired() {
    let (_dir, store) = old_and_damaged("the end of a pack");
    let mut limits = Limits::default();
    limits.max_pack_rows = 2;
    let store = Store::open(store.root(), Mode::ReadWrite).unwrap().with_limits(limits);
    let report = repair(&store);
    assert_eq!((report.packs_rebuilt, report.left.len()), (1, 0), "{report:?}");
    assert_clean(&store);
}

/// What is moved into a pack between two looks is not taken to be missing.
#[test]
fn what_is_compacted_at_any_moment_of_a_repair_is_kept() {
    let (_template_dir, template) = old_and_damaged("a blob");
    put_all(&template);
    // A row that leads nowhere is taken out; the others are looked at once more.
    let lost = put(&template, &plan(b"lost", 50, &[]));
    assert!(template.put_selection(&selection_key(b"lost"), &[lost]).unwrap().is_persisted());
    let root = lost.root.to_string();
    fs::remove_file(template.root().join(format!("plans/{}/{}.plan", &root[..2], &root[2..]))).unwrap();
    let mut at = 0;
    loop {
        let (_dir, store) = copy_of(&template);
        let compacting = Store::open(store.root(), Mode::ReadWrite).unwrap();
        let middle = move || {
            let mut options = CompactOptions::default();
            options.wait = Duration::ZERO;
            drop(compacting.compact(&options, &()));
        };
        let calls = interrupted(at, middle, || drop(repair(&store)));
        if calls <= at {
            assert!(at > 50, "{at}");
            break;
        }
        let reader = Store::open(store.root(), Mode::ReadOnly).unwrap();
        assert_all(&reader, &format_args!("compacted at call {at} of {calls}"));
        at += 2;
    }
}
