//! Several processes on one store.

use super::child;
use super::common::{plan, put, selection_key, warnings};
use hipplan_serialize::Digest;
use hipplan_store::{Lookup, Miss, Mode, Store};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

const GRAPHS: u32 = 12;

/// What every writer puts: a blob, a plan that names it, and a selection that names the plan.
fn put_graph(store: &Store, n: u32) {
    let graph = n.to_le_bytes();
    let blob = store.put_blob(&graph.repeat(20_000)).unwrap().id;
    let id = put(store, &plan(&graph, 30_000, &[blob]));
    assert!(store.put_selection(&selection_key(&graph), &[id]).unwrap().is_persisted());
}

/// Follows everything from every request; whatever is found must be whole. Gives the number of requests answered.
fn read_all(store: &Store) -> u32 {
    fn whole<T>(lookup: Lookup<T>) -> Option<T> {
        match lookup {
            Lookup::Hit(found) => Some(found),
            Lookup::Miss(Miss::Absent) => None,
            Lookup::Miss(why) => panic!("{why}"),
        }
    }
    let mut answered = 0;
    for n in 0..GRAPHS {
        let Some(selection) = whole(store.find_selection(&selection_key(&n.to_le_bytes()))) else { continue };
        for id in selection.plans {
            let plan = whole(store.get_plan(&id)).expect("a selection names plans that are there");
            plan.view().verify().unwrap();
            assert_eq!(whole(store.find_plan(&id.key)), Some(id), "a plan is found by its key");
            for blob in plan.view().meta().code_objects.iter() {
                let digest = Digest { hash: hipplan_serialize::ContentHash(blob.hash), size: blob.size.to_native() };
                assert!(whole(store.get_blob(&digest)).is_some(), "a plan names blobs that are there");
            }
        }
        answered += 1;
    }
    answered
}

/// A child: puts everything once.
pub(crate) fn fill(root: &Path) {
    let store = Store::open(root, Mode::ReadWrite).unwrap();
    (0..GRAPHS).for_each(|n| put_graph(&store, n));
}

/// A child: puts everything, takes it all away and starts again, so that what a kill interrupts is not only the checking of
/// what is there already. What names goes before what is named, so that the store stays whole.
pub(crate) fn fill_and_empty(root: &Path) {
    loop {
        fill(root);
        for folder in ["index/select", "index/plan", "plans", "objects"] {
            std::fs::remove_dir_all(root.join(folder)).unwrap();
        }
    }
}

fn spawn(role: &str, root: &Path) -> Child {
    child::command(role, root).stdout(Stdio::null()).spawn().unwrap()
}

#[test]
fn processes_and_threads_fill_one_store_while_others_read() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    let mut children: Vec<Child> = (0..3).map(|_| spawn("fill", &root)).collect();
    let store = Store::open(&root, Mode::ReadWrite).unwrap();
    std::thread::scope(|scope| {
        for seed in 0..2_u32 {
            let store = &store;
            scope.spawn(move || (0..GRAPHS).for_each(|i| put_graph(store, (i * 5 + seed) % GRAPHS)));
        }
        let reader = Store::open(&root, Mode::ReadOnly).unwrap();
        let ((), warnings) = warnings(|| while read_all(&reader) < GRAPHS {});
        assert_eq!(warnings, [""; 0]);
    });
    assert!(children.iter_mut().all(|child| child.wait().unwrap().success()));
    let report = store.verify();
    assert!(report.is_clean() && report.leftovers.is_empty(), "{report:?}");
    let counts = (report.blobs, report.plans, report.plan_records, report.selection_records);
    assert_eq!(counts, (12, 12, 12, 12));
}

#[test]
fn a_killed_writer_leaves_nothing_but_unfinished_files() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    for round in 0..40_u64 {
        let mut child = spawn("fill and empty for ever", &root);
        std::thread::sleep(Duration::from_micros(3_000 + round * 1_700));
        child.kill().unwrap();
        child.wait().unwrap();
        // Killed before the store was made, or at any moment after it.
        let Ok(reader) = Store::open(&root, Mode::ReadOnly) else { continue };
        let report = reader.verify();
        assert!(report.is_clean(), "round {round}: {:?}", report.problems);
    }
    // The next writer is not in the way of anything that was left.
    let store = Store::open(&root, Mode::ReadWrite).unwrap();
    (0..GRAPHS).for_each(|n| put_graph(&store, n));
    assert_eq!(read_all(&store), GRAPHS);
    assert!(store.verify().is_clean());
}
