use super::common::{new_store, plan, put, selection_key};
use super::upkeep::{HOUR, age, assert_clean, gc, has_graph, pack_up, put_graph};
use hipplan_serialize::{GraphKey, PlanKey};
use hipplan_store::{EntryKind, Mode, Pin, Store};
use std::collections::BTreeMap;
use std::fs;

#[test]
fn pinned_things_stay_with_all_that_they_reach() {
    for packed in [false, true] {
        let (_dir, store) = new_store();
        let ids: Vec<_> = (0..5).map(|n| put_graph(&store, n, 400)).collect();
        if packed {
            pack_up(&store, 1);
        }
        let graph = |n: u32| GraphKey::of_encoding(&n.to_le_bytes());
        store.pin("release-1", &[Pin::Plan(ids[0].key), Pin::Selection(selection_key(&1_u32.to_le_bytes()))]).unwrap();
        store.pin("graphs", &[Pin::Graph(graph(2)), Pin::Graph(graph(77))]).unwrap();
        let sets = store.pins().unwrap();
        assert_eq!(sets.iter().map(|set| (&*set.name, set.targets.len())).collect::<Vec<_>>(), [("graphs", 2), ("release-1", 2)]);
        age(&store, 30 * HOUR);
        let store = Store::open(store.root(), Mode::ReadWrite).unwrap();
        let report = gc(&store, |options| options.max_bytes = Some(0));
        assert!(report.is_over && report.kept_pinned == 3 && report.evicted == 2, "{packed} {report:?}");
        let found = |store: &Store| (0..5).map(|n| has_graph(store, n)).collect::<Vec<_>>();
        assert_eq!(found(&store), [true, true, true, false, false], "{packed}");
        assert_clean(&store);

        let removed = store.remove(&[Pin::Plan(ids[0].key), Pin::Graph(graph(2))], &()).unwrap();
        assert_eq!((removed.plans, removed.pinned.len()), (0, 2));
        assert!(store.unpin("graphs").unwrap() && !store.unpin("graphs").unwrap());
        age(&store, 30 * HOUR);
        gc(&store, |options| options.max_bytes = Some(0));
        assert_eq!(found(&Store::open(store.root(), Mode::ReadOnly).unwrap()), [true, true, false, false, false], "{packed}");
        assert_clean(&store);
    }
}

#[test]
fn damaged_pins_keep_everything() {
    let (_dir, store) = new_store();
    let id = put_graph(&store, 1, 100);
    store.pin("good", &[Pin::Plan(id.key)]).unwrap();
    age(&store, 30 * HOUR);
    let good = fs::read_to_string(store.root().join("pins/good")).unwrap();
    let path = store.root().join("pins/other");
    for text in ["", "plan", &good[..good.len() - 1], &good.to_uppercase(), &format!("{good}\n"), "blob 00\n", "\u{0}\n"] {
        fs::write(&path, text).unwrap();
        for error in [
            store.gc(&Default::default(), &()).unwrap_err(),
            store.remove(&[Pin::Plan(id.key)], &()).unwrap_err(),
            store.pins().unwrap_err(),
        ] {
            assert_eq!((error.code(), error.path()), ("pins", Some(&*path)), "{text:?}: {error}");
        }
        // Whoever looks for what is wrong finds it, but not in a layer, whose pins keep nothing here.
        let report = store.verify();
        let found: Vec<_> = report.problems.iter().map(|problem| (problem.code(), problem.path().unwrap())).collect();
        assert_eq!(found, [("pins", &*path)], "{text:?}");
        assert!(new_store().1.with_layer(store.root()).unwrap().verify().is_clean(), "{text:?}");
        assert!(has_graph(&store, 1));
    }
    fs::remove_file(&path).unwrap();
    fs::write(store.root().join("pins/.hidden~"), &good).unwrap();
    assert_eq!(store.gc(&Default::default(), &()).unwrap_err().code(), "pins");
    assert_eq!(store.verify().problems.len(), 1);
    fs::remove_file(store.root().join("pins/.hidden~")).unwrap();
    assert!(store.gc(&Default::default(), &()).is_ok());
}

#[test]
fn names_of_pins_lead_nowhere_else() {
    let (_dir, store) = new_store();
    let pins = [Pin::Graph(GraphKey([1; 32]))];
    for name in ["", "..", "../hipplan-store", "a/b", ".a", "a b", "ä"] {
        for error in [store.pin(name, &pins).unwrap_err(), store.unpin(name).unwrap_err()] {
            assert_eq!(error.code(), "pins", "{name}");
            assert!(error.advice().starts_with("name the set with letters"), "{name}: {}", error.advice());
        }
    }
    let error = store.pin("empty", &[]).unwrap_err();
    assert!(error.code() == "pins" && error.advice().starts_with("name what is to stay"), "{error}");
    assert!(store.pins().unwrap().is_empty());
    assert!(store.verify().is_clean());
}

/// What nobody reads would keep everything.
#[test]
fn no_pins_are_written_that_are_not_read() {
    let (_dir, store) = new_store();
    let most = (16 << 20) / Pin::Plan(PlanKey([0; 32])).to_string().len();
    let error = store.pin("many", &vec![Pin::Plan(PlanKey([0; 32])); most]).unwrap_err();
    assert!(error.to_string().contains(&format!("{most} targets")) && error.advice().contains("several sets"), "{error}");
    assert!(store.pins().unwrap().is_empty());
    assert!(store.gc(&Default::default(), &()).is_ok());
}

#[test]
fn a_plan_goes_with_what_names_it_and_what_it_alone_needs() {
    for packed in [false, true] {
        let (_dir, store) = new_store();
        let shared = store.put_blob(&[1; 900]).unwrap().id;
        let own = store.put_blob(&[2; 900]).unwrap().id;
        let gone = put(&store, &plan(b"gone", 50, &[shared, own]));
        let stays = put(&store, &plan(b"stays", 50, &[shared]));
        let (both, only) = (selection_key(b"both"), selection_key(b"only"));
        assert!(store.put_selection(&both, &[gone, stays]).unwrap().is_persisted());
        assert!(store.put_selection(&only, &[gone]).unwrap().is_persisted());
        if packed {
            pack_up(&store, 1);
        }
        age(&store, 2 * HOUR);
        let store = Store::open(store.root(), Mode::ReadWrite).unwrap();
        let nothing = Pin::Graph(GraphKey([9; 32]));
        let report = store.remove(&[Pin::Plan(gone.key), nothing], &()).unwrap();
        assert_eq!((report.plans, report.blobs, report.records, report.shortened), (1, 1, 2, 1), "{packed} {report:?}");
        assert_eq!(report.missing, [nothing]);
        assert_eq!(store.find_selection(&both).hit().unwrap().plans, [stays]);
        assert!(store.find_selection(&only).hit().is_none() && store.find_plan(&gone.key).hit().is_none());
        assert!(store.get_blob(&own).hit().is_none() && store.get_blob(&shared).hit().is_some());
        assert_clean(&store);
    }
}

#[test]
fn a_selection_goes_with_the_plans_that_no_other_names() {
    for packed in [false, true] {
        let (_dir, store) = new_store();
        let [one, two] = [b"one", b"two"].map(|graph| put(&store, &plan(graph, 50, &[])));
        let (both, other) = (selection_key(b"both"), selection_key(b"other"));
        assert!(store.put_selection(&both, &[one, two]).unwrap().is_persisted());
        assert!(store.put_selection(&other, &[two]).unwrap().is_persisted());
        if packed {
            pack_up(&store, 1);
        }
        age(&store, 2 * HOUR);
        let store = Store::open(store.root(), Mode::ReadWrite).unwrap();
        let report = store.remove(&[Pin::Selection(both)], &()).unwrap();
        assert_eq!((report.plans, report.records), (1, 2), "{packed} {report:?}");
        assert!(store.find_selection(&both).hit().is_none() && store.get_plan(&one).hit().is_none());
        assert_eq!(store.find_selection(&other).hit().unwrap().plans, [two]);
        assert!(store.get_plan(&two).hit().is_some());
        assert_clean(&store);
    }
}

#[test]
fn pinning_a_graph_uses_its_plans_and_no_others() {
    for packed in [false, true] {
        let (_dir, store) = new_store();
        (0..4).for_each(|n| _ = put_graph(&store, n, 400));
        if packed {
            pack_up(&store, 1);
            let store = Store::open(store.root(), Mode::ReadWrite).unwrap();
            assert!((0..4).all(|n| has_graph(&store, n)), "stamps beside the pack");
        }
        age(&store, 30 * HOUR);
        let used = |store: &Store| -> BTreeMap<_, _> {
            let all = EntryKind::ALL.into_iter().flat_map(|kind| store.entries(kind).collect::<Vec<_>>());
            all.map(Result::unwrap).map(|entry| ((entry.kind, entry.name), entry.used)).collect()
        };
        let store = Store::open(store.root(), Mode::ReadWrite).unwrap();
        let before = used(&store);
        let graph = |n: u32| GraphKey::of_encoding(&n.to_le_bytes());
        store.pin("two", &[Pin::Graph(graph(1)), Pin::Graph(graph(3)), Pin::Graph(graph(99))]).unwrap();
        let after = used(&store);
        let changed: Vec<EntryKind> = after.iter().filter(|(entry, used)| before[entry] != **used).map(|(entry, _)| entry.0).collect();
        let expected = [EntryKind::Blob, EntryKind::Plan, EntryKind::PlanRecord].map(|kind| [kind; 2]);
        assert_eq!(changed, expected.as_flattened(), "{packed}");
    }
}
