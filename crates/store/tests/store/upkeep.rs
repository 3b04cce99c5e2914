//! What the tests of upkeep share: stores of an age, in loose files and in packs.

use super::common::{plan, put, selection_key, tree};
use hipplan_serialize::PlanRef;
use hipplan_store::testing::write_pack;
use hipplan_store::{EntryKind, GcOptions, GcReport, Lookup, Miss, Store};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// A blob of so many bytes, a plan that names it, and a selection that names the plan.
pub(crate) fn put_graph(store: &Store, n: u32, bytes: usize) -> PlanRef {
    let graph = n.to_le_bytes();
    let blob = store.put_blob(&graph.repeat(bytes / 4)).unwrap().id;
    let id = put(store, &plan(&graph, bytes, &[blob]));
    assert!(store.put_selection(&selection_key(&graph), &[id]).unwrap().is_persisted());
    id
}

/// Whether everything of a graph is found, whole; nothing may be found in parts.
pub(crate) fn has_graph(store: &Store, n: u32) -> bool {
    let selection = match store.find_selection(&selection_key(&n.to_le_bytes())) {
        Lookup::Hit(selection) => selection,
        Lookup::Miss(Miss::Absent) => return false,
        Lookup::Miss(why) => panic!("{why}"),
    };
    for id in selection.plans {
        let plan = store.get_plan(&id).ok().unwrap();
        assert_eq!(store.find_plan(&id.key).ok().unwrap(), id);
        plan.code_objects().for_each(|blob| drop(store.get_blob(&blob).ok().unwrap()));
    }
    true
}

/// Makes everything in a store look as if it was last used so long ago.
pub(crate) fn age(store: &Store, by: Duration) {
    let now = SystemTime::now();
    for (path, bytes) in tree(store.root()) {
        let Some(bytes) = bytes else { continue };
        if path.starts_with("locks") || path.starts_with("pins") {
            continue;
        }
        let path = store.root().join(path);
        if path.extension().is_some_and(|e| e == "used") {
            let older = |hours: &[u8]| u32::from_le_bytes(hours.try_into().unwrap()).saturating_sub((by.as_secs() / 3600) as u32);
            let stamps: Vec<u8> = bytes.chunks_exact(4).flat_map(|hours| older(hours).to_le_bytes()).collect();
            fs::write(&path, stamps).unwrap();
        }
        let file = fs::File::options().write(true).open(&path).unwrap();
        let stamp = file.metadata().unwrap().modified().unwrap().min(now) - by;
        file.set_modified(stamp).unwrap();
    }
}

/// Moves every loose file of a store into one pack of this generation.
pub(crate) fn pack_up(store: &Store, generation: u32) -> PathBuf {
    let root = store.root();
    fs::create_dir_all(root.join("packs")).unwrap();
    let mut files: Vec<(EntryKind, [u8; 32], PathBuf, Vec<u8>)> = Vec::new();
    for kind in EntryKind::ALL {
        for entry in store.entries(kind).map(Result::unwrap).filter(|entry| entry.path.extension().is_none_or(|e| e != "pack")) {
            let bytes = fs::read(&entry.path).unwrap();
            files.push((kind, entry.name, entry.path, bytes));
        }
    }
    let entries: Vec<_> = files.iter().map(|(kind, name, _, bytes)| (*kind, *name, bytes.len() as u64)).collect();
    let temp = root.join("tmp/a.tmp");
    let digest = write_pack(&temp, &entries, &[], |i| files[i].3.clone()).unwrap();
    let id: String = digest[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    let path = root.join(format!("packs/{generation:08x}-{id}.pack"));
    fs::rename(temp, &path).unwrap();
    files.iter().for_each(|(_, _, path, _)| fs::remove_file(path).unwrap());
    path
}

/// Names of the packs of a store.
pub(crate) fn packs(store: &Store) -> Vec<PathBuf> {
    let folder = store.root().join("packs");
    let Ok(names) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = names.map(|entry| entry.unwrap().path()).filter(|p| p.extension().is_some_and(|e| e == "pack")).collect();
    paths.sort();
    paths
}

pub(crate) fn gc(store: &Store, change: impl FnOnce(&mut GcOptions)) -> GcReport {
    let mut options = GcOptions::default();
    change(&mut options);
    store.gc(&options, &()).unwrap()
}

/// Nothing is wrong, and nothing is left over.
pub(crate) fn assert_clean(store: &Store) {
    let report = store.verify();
    assert!(report.is_clean(), "{:?}", report.problems);
    assert!(report.leftovers.is_empty(), "{:?}", report.leftovers);
}

/// Bytes of all files that count, as a person would count them.
pub(crate) fn bytes_of(root: &Path) -> u64 {
    let counts = |path: &Path| !path.starts_with("locks") && !path.starts_with("pins") && path != Path::new("hipplan-store");
    tree(root).into_iter().filter(|(path, _)| counts(path)).filter_map(|(_, bytes)| Some(bytes?.len() as u64)).sum()
}
