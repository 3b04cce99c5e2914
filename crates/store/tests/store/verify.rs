use super::common::{new_store, only_file, plan, put, selection_key, tree, warnings};
use super::upkeep::{has_graph, pack_up, put_graph};
use hipplan_serialize::Digest;
use hipplan_store::{EntryKind, Mode, Store};
use std::fs;

/// A store of one blob, one plan that names it, and its two records.
fn filled() -> (tempfile::TempDir, Store) {
    let (dir, store) = new_store();
    let blob = store.put_blob(b"machine code").unwrap().id;
    let id = put(&store, &plan(b"graph", 100, &[blob]));
    assert!(store.put_selection(&selection_key(b"graph"), &[id]).unwrap().is_persisted());
    (dir, store)
}

#[test]
fn a_good_store_is_counted() {
    let (_dir, store) = filled();
    let plan_bytes = fs::metadata(only_file(&store, "plans")).unwrap().len();
    let report = store.verify();
    assert!(report.is_clean(), "{report:?}");
    assert_eq!((report.blobs, report.plans, report.plan_records, report.selection_records), (1, 1, 1, 1));
    assert_eq!(report.bytes, plan_bytes + 12);
    assert!(report.leftovers.is_empty());
}

#[test]
fn a_missing_target_is_reported_by_whatever_names_it() {
    let (_dir, store) = filled();
    fs::remove_file(only_file(&store, "objects")).unwrap();
    let report = store.verify();
    assert_eq!((report.plans, report.problems.len()), (0, 1));
    assert_eq!(report.problems[0].code(), "missing-target");
    fs::remove_file(only_file(&store, "plans")).unwrap();
    let report = store.verify();
    // Two records name it; it is one file.
    assert_eq!(report.problems.iter().map(|p| p.code()).collect::<Vec<_>>(), ["missing-target"]);
    assert!(report.problems[0].is_damage());
    assert_eq!((report.plan_records, report.selection_records), (0, 0));
}

#[test]
fn what_does_not_belong_is_reported_and_not_followed() {
    let (dir, store) = filled();
    let root = store.root();
    fs::create_dir_all(dir.path().join("outside/ab")).unwrap();
    fs::write(dir.path().join("outside/ab/file"), "").unwrap();
    std::os::unix::fs::symlink(dir.path().join("outside"), root.join("objects/ab")).unwrap();
    let shard = only_file(&store, "plans").parent().unwrap().to_owned();
    fs::write(shard.join("stray"), "").unwrap();
    fs::create_dir(shard.join("0".repeat(62) + ".plan")).unwrap();
    fs::write(root.join("notes.txt"), "").unwrap();
    fs::create_dir(root.join("index/other")).unwrap();
    fs::write(root.join("tmp/left.tmp"), "").unwrap();
    let before = tree(root);
    let report = store.verify();
    let mut found: Vec<_> = report.problems.iter().map(|p| (p.code(), p.path().unwrap().to_owned())).collect();
    found.sort();
    let mut expected = [
        root.join("notes.txt"),
        root.join("index/other"),
        root.join("objects/ab"),
        shard.join("stray"),
        shard.join("0".repeat(62) + ".plan"),
    ]
    .map(|path| ("foreign", path));
    expected.sort();
    assert_eq!(found, expected);
    assert_eq!(report.leftovers, [root.join("tmp/left.tmp")]);
    assert_eq!((report.blobs, report.plans), (1, 1));
    assert_eq!(tree(root), before);
}

#[test]
fn a_plan_that_no_record_leads_to_is_reported() {
    let (_dir, store) = filled();
    let (record, selection) = (only_file(&store, "index/plan"), only_file(&store, "index/select"));
    fs::remove_file(&record).unwrap();
    let report = store.verify();
    assert_eq!(report.problems.iter().map(|p| (p.code(), p.path().unwrap())).collect::<Vec<_>>(), [("missing-target", &*record)]);
    assert!(report.problems[0].to_string().contains(&selection.display().to_string()), "{report:?}");
    assert_eq!((report.plans, report.selection_records), (1, 0));
    assert!(report.leftovers.is_empty());
    // Without a selection it is what a writer leaves that was killed between the plan and its record.
    fs::remove_file(&selection).unwrap();
    let report = store.verify();
    assert!(report.is_clean());
    assert_eq!(report.leftovers, [only_file(&store, "plans")]);
}

#[test]
fn every_row_of_a_selection_is_looked_at() {
    let (_dir, store) = new_store();
    let ids = [b"a", b"b", b"c"].map(|graph| put(&store, &plan(graph, 10, &[])));
    assert!(store.put_selection(&selection_key(b"graph"), &ids).unwrap().is_persisted());
    let file = |id: &hipplan_serialize::PlanRef| {
        let root = id.root.to_string();
        store.root().join(format!("plans/{}/{}.plan", &root[..2], &root[2..]))
    };
    for id in [&ids[0], &ids[2]] {
        fs::remove_file(file(id)).unwrap();
        let key = id.key.to_string();
        fs::remove_file(store.root().join(format!("index/plan/{}/{}.rec", &key[..2], &key[2..]))).unwrap();
    }
    let report = store.verify();
    assert_eq!(report.problems.iter().map(|p| p.path().unwrap().to_owned()).collect::<Vec<_>>(), [file(&ids[0]), file(&ids[2])]);
}

#[test]
fn a_link_in_place_of_a_folder_of_the_store_is_reported_once_and_not_entered() {
    for folder in ["objects", "plans", "index", "index/plan", "index/select", "tmp"] {
        let (dir, store) = filled();
        let (path, outside) = (store.root().join(folder), dir.path().join("outside"));
        fs::rename(&path, &outside).unwrap();
        fs::write(outside.join("stray"), "").unwrap();
        std::os::unix::fs::symlink(&outside, &path).unwrap();
        let report = store.verify();
        let found: Vec<_> = report.problems.iter().map(|p| (p.code(), p.path().unwrap())).collect();
        assert_eq!(found, [("foreign", &*path)], "{folder}");
        assert!(!report.problems[0].is_damage() && report.leftovers.is_empty(), "{report:?}");
        assert_eq!(store.iter_plans().filter(Result::is_err).count(), usize::from(folder == "plans"));
    }
}

#[test]
fn every_pack_that_cannot_be_opened_is_reported_and_the_others_are_used() {
    let (dir, store) = new_store();
    let packs = [1, 2, 3].map(|n| {
        put_graph(&store, n, 100);
        pack_up(&store, n)
    });
    let mut good = Vec::new();
    for pack in [&packs[0], &packs[2]] {
        good.push((pack, fs::read(pack).unwrap()));
        let mut bytes = fs::read(pack).unwrap();
        bytes[100] ^= 1;
        fs::write(pack, bytes).unwrap();
    }
    let fresh = || Store::open(store.root(), Mode::ReadWrite).unwrap();
    let report = fresh().verify();
    let found: Vec<_> = report.problems.iter().map(|p| (p.code(), p.path().unwrap().to_owned())).collect();
    assert_eq!(found, [("damaged", packs[2].clone()), ("damaged", packs[0].clone())]);
    assert!(report.problems.iter().all(|p| p.advice().contains("hipplan store repair")), "{report:?}");
    assert_eq!((report.packs, report.plans), (1, 1));

    let same = fresh();
    for _ in 0..2 {
        assert!(has_graph(&same, 2));
        let plans: Vec<bool> = same.iter_plans().map(|plan| plan.is_ok()).collect();
        assert_eq!(plans, [false, false, true]);
        let entries: Vec<bool> = same.entries(EntryKind::Blob).map(|entry| entry.is_ok()).collect();
        assert_eq!(entries, [false, false, true]);
        let stat = same.stat().unwrap().remove(0);
        assert_eq!((stat.packs, stat.unread_packs), (1, 2));
        assert_eq!(same.verify().problems.len(), 2);
        let exported = same.export(&dir.path().join("exported.bundle"), &[], &mut |_| true).unwrap();
        assert_eq!((exported.plans.len(), exported.problems.len()), (1, 2), "{:?}", exported.problems);
    }
    let ((), warned) = warnings(|| {
        for _ in 0..3 {
            assert!(fresh().get_blob(&Digest::of(b"nowhere")).hit().is_none());
        }
    });
    assert_eq!(warned.len(), 6, "each pack, once a store: {warned:?}");

    // Put right in place, it is used again by those who have met it before.
    for (pack, bytes) in &good {
        fs::write(pack, bytes).unwrap();
    }
    assert!(same.verify().is_clean());
    assert!([1, 2, 3].into_iter().all(|n| has_graph(&same, n)));
    // Nobody is told to delete a pack, nor to repair a bundle.
    let bundle = dir.path().join("bad.bundle");
    let mut bytes = fs::read(&packs[0]).unwrap();
    bytes[100] ^= 1;
    fs::write(&bundle, bytes).unwrap();
    let error = Store::open_layer(&bundle).unwrap_err();
    assert!(error.advice().contains("fetch the bundle anew"), "{}", error.advice());
}
