//! What is done to a store, by this process and by children, while calls fail and the power goes.

use super::common::{selection_key, tree};
use super::scratch;
use super::values::{self, Promise, Values};
use hipplan_serialize::SelectionKey;
use hipplan_store::testing::{OpenPack, write_pack};
use hipplan_store::{CompactOptions, EntryKind, GcOptions, Mode, Pin, Store};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

/// Something that is done to a store.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// Fills a new, empty folder; gives what must be found at all times.
    pub(crate) before: fn(&Path) -> Vec<Promise>,
    /// Does it to the folder, as a program does that can do without the store; gives what it was promised.
    pub(crate) run: fn(&Path) -> Vec<Promise>,
    /// Whether everything is found when nothing fails.
    pub(crate) after: fn(&Path) -> bool,
}

/// All that are tried.
pub(crate) static ALL: &[Scenario] = &[
    Scenario { name: "get loose", before: loose, run: get, after: has_all },
    Scenario { name: "get packed", before: packed, run: get, after: has_all },
    Scenario { name: "get mapped", before: packed_large, run: get_large, after: has_large },
    Scenario { name: "get from a layer", before: layered, run: get_layered, after: has_all_layered },
    Scenario { name: "get from a bundle", before: bundled, run: get_bundled, after: has_all_bundled },
    Scenario { name: "get damaged", before: damaged, run: get, after: |_| true },
    Scenario { name: "get damaged, packed behind", before: damaged_over_pack, run: get, after: has_all },
    Scenario { name: "put into nothing", before: |_| Vec::new(), run: put, after: has_all },
    Scenario { name: "put new", before: other, run: put, after: has_all },
    Scenario { name: "put unchanged", before: loose, run: put, after: has_all },
    Scenario { name: "put unchanged, packed", before: packed, run: put, after: has_all },
    Scenario { name: "put over damage", before: damaged, run: put, after: has_all },
    Scenario { name: "replace a selection", before: both, run: replace, after: |_| true },
    Scenario { name: "replace a selection, packed", before: both_packed, run: replace, after: |_| true },
    Scenario { name: "add to a set", before: set, run: add_to_set, after: has_set },
    Scenario { name: "gc of all", before: garbage_pinned, run: gc_all, after: |_| true },
    Scenario { name: "gc of packs", before: garbage_packed, run: gc_all, after: |_| true },
    Scenario { name: "compact", before: mixed, run: compact, after: has_all },
    Scenario { name: "compact packs", before: two_packs, run: compact_all, after: has_all },
    Scenario { name: "group", before: other, run: group, after: has_all },
    Scenario { name: "group over loose files", before: both, run: group_replacing, after: |_| true },
    Scenario { name: "get or build, built", before: loose, run: get_or_build, after: has_all },
    Scenario { name: "get or build, in nothing", before: |_| Vec::new(), run: get_or_build, after: has_all },
    Scenario { name: "get or build, new", before: other, run: get_or_build, after: has_all },
];

/// The one of a name.
pub(crate) fn of(name: &str) -> &'static Scenario {
    ALL.iter().find(|scenario| scenario.name == name).unwrap()
}

const LAYER: &str = "layer";

/// The store in a folder of a scenario.
pub(crate) fn root(folder: &Path) -> PathBuf {
    folder.join("store")
}

fn open(folder: &Path) -> Store {
    Store::open_or_degrade(root(folder))
}

/// The values that are asked for.
fn asked_for() -> &'static [Values; 2] {
    static VALUES: OnceLock<[Values; 2]> = OnceLock::new();
    VALUES.get_or_init(|| [Values::of(1), Values::of(2)])
}

/// Values with a blob that is mapped where it is packed.
fn large() -> &'static [Values; 1] {
    static VALUES: OnceLock<[Values; 1]> = OnceLock::new();
    VALUES.get_or_init(|| [Values::large(3)])
}

fn fill(root: &Path, values: &[Values]) -> Vec<Promise> {
    let store = Store::open(root, Mode::ReadWrite).unwrap();
    let promised: Vec<_> = values.iter().flat_map(|values| values.put(&store)).collect();
    assert_eq!(promised.len(), values.len() * 3);
    promised
}

/// Old enough for its stamps to be renewed.
fn old(root: &Path) {
    scratch::age(root, Duration::from_secs(7200));
}

fn loose(folder: &Path) -> Vec<Promise> {
    let promised = fill(&root(folder), asked_for());
    old(&root(folder));
    promised
}

fn other(folder: &Path) -> Vec<Promise> {
    fill(&root(folder), &[Values::of(9)])
}

fn packed(folder: &Path) -> Vec<Promise> {
    let promised = loose(folder);
    pack(&root(folder));
    old(&root(folder));
    promised
}

fn packed_large(folder: &Path) -> Vec<Promise> {
    let promised = fill(&root(folder), large());
    pack(&root(folder));
    old(&root(folder));
    promised
}

fn layered(folder: &Path) -> Vec<Promise> {
    fill(&folder.join(LAYER), asked_for());
    other(folder)
}

fn bundled(folder: &Path) -> Vec<Promise> {
    fill(&folder.join(LAYER), asked_for());
    fs::rename(pack(&folder.join(LAYER)), folder.join("bundle")).unwrap();
    fs::remove_dir_all(folder.join(LAYER)).unwrap();
    other(folder)
}

/// Everything that is asked for is there and damaged, and something else is whole.
fn damaged(folder: &Path) -> Vec<Promise> {
    loose(folder);
    spoil(&root(folder));
    let promised = other(folder);
    old(&root(folder));
    promised
}

/// The records of all that is asked for are damaged and in front of a pack that has them. A copy of a plan or a blob would not be looked at:
/// what is named by its content is taken from packs that are known.
fn damaged_over_pack(folder: &Path) -> Vec<Promise> {
    let loose_ones = folder.join("loose");
    fill(&loose_ones, asked_for());
    let promised = packed(folder);
    fs::rename(loose_ones.join("index"), root(folder).join("index")).unwrap();
    fs::remove_dir_all(loose_ones).unwrap();
    spoil(&root(folder));
    old(&root(folder));
    promised
}

/// Damages every loose entry: records lose a byte, the others change one.
fn spoil(root: &Path) {
    for (name, bytes) in tree(root) {
        let is_entry = ["objects", "plans", "index"].iter().any(|folder| name.starts_with(folder));
        if let Some(mut bytes) = bytes.filter(|_| is_entry) {
            if name.starts_with("index") {
                bytes.pop();
            } else {
                let middle = bytes.len() / 2;
                bytes[middle] ^= 1;
                if name.starts_with("plans") {
                    bytes[100] ^= 1;
                }
            }
            fs::write(root.join(name), bytes).unwrap();
        }
    }
}

/// Two plans, and a selection that names the first.
fn both(folder: &Path) -> Vec<Promise> {
    let [first, second] = asked_for();
    let store = Store::open(root(folder), Mode::ReadWrite).unwrap();
    let mut promised = first.put(&store);
    promised.pop();
    promised.extend(second.put_plan(&store));
    promised.push(Promise::Selection(first.key, vec![first.id, second.id]));
    promised
}

fn both_packed(folder: &Path) -> Vec<Promise> {
    let promised = both(folder);
    pack(&root(folder));
    promised
}

fn set_key() -> SelectionKey {
    selection_key(b"set")
}

fn set(folder: &Path) -> Vec<Promise> {
    let store = Store::open(root(folder), Mode::ReadWrite).unwrap();
    Values::of(7).put_into(&store, &set_key())
}

/// A plan that nothing names any more beside what is asked for, and what a killed writer has left.
fn garbage(folder: &Path) -> Vec<Promise> {
    let promised = loose(folder);
    let store = Store::open(root(folder), Mode::ReadWrite).unwrap();
    let orphan = Values::of(8);
    orphan.put_plan(&store);
    let digits = orphan.id.key.to_string();
    fs::remove_file(root(folder).join(format!("index/plan/{}/{}.rec", &digits[..2], &digits[2..]))).unwrap();
    fs::write(root(folder).join("tmp/left.tmp"), "left").unwrap();
    old(&root(folder));
    promised
}

/// What may be taken away is not promised; what is pinned is.
fn garbage_packed(folder: &Path) -> Vec<Promise> {
    let mut promised = loose(folder);
    let store = Store::open(root(folder), Mode::ReadWrite).unwrap();
    store.pin("kept", &[Pin::Selection(asked_for()[0].key)]).unwrap();
    pack(&root(folder));
    old(&root(folder));
    promised.truncate(3);
    promised
}

fn garbage_pinned(folder: &Path) -> Vec<Promise> {
    let mut promised = garbage(folder);
    let store = Store::open(root(folder), Mode::ReadWrite).unwrap();
    store.pin("kept", &[Pin::Selection(asked_for()[0].key)]).unwrap();
    promised.truncate(3);
    promised
}

/// Some of what is asked for in a pack, the rest in loose files.
fn mixed(folder: &Path) -> Vec<Promise> {
    let mut promised = fill(&root(folder), &asked_for()[..1]);
    pack(&root(folder));
    promised.extend(fill(&root(folder), &asked_for()[1..]));
    promised
}

/// A pack, and one in front of it that has some of the same.
fn two_packs(folder: &Path) -> Vec<Promise> {
    let promised = loose(folder);
    pack(&root(folder));
    let store = Store::open(root(folder), Mode::ReadWrite).unwrap();
    let [first, second] = asked_for();
    assert!(store.put_selection(&first.key, &[second.id]).unwrap().is_persisted());
    assert!(store.put_selection(&first.key, &[first.id]).unwrap().is_persisted());
    store.compact(&CompactOptions::default(), &()).unwrap();
    promised
}

fn compact(folder: &Path) -> Vec<Promise> {
    compact_with(folder, CompactOptions::default())
}

fn compact_all(folder: &Path) -> Vec<Promise> {
    let mut options = CompactOptions::default();
    options.all = true;
    compact_with(folder, options)
}

fn compact_with(folder: &Path, mut options: CompactOptions) -> Vec<Promise> {
    options.wait = Duration::from_millis(20);
    drop(open(folder).compact(&options, &()));
    Vec::new()
}

/// Puts what is asked for together.
fn group(folder: &Path) -> Vec<Promise> {
    // What it writes, and when, is not to depend on how busy the machine is.
    let group = open(folder).group().writing_at(u64::MAX, Duration::MAX);
    let mut is_kept = true;
    for values in asked_for() {
        let blob = group.put_blob(&values.blob).unwrap();
        let plan = group.put_plan(&values.plan).unwrap();
        assert_eq!((blob.id, plan.id), (values.digest, values.id));
        let selection = group.put_selection(&values.key, &[values.id]).unwrap();
        is_kept &= [&blob.persisted, &plan.persisted, &selection].into_iter().all(values::is_kept);
    }
    if !values::is_kept(&group.commit().unwrap()) || !is_kept {
        return Vec::new();
    }
    asked_for().iter().flat_map(Values::promises).collect()
}

/// Replaces a selection that has a loose file, and adds to a set.
fn group_replacing(folder: &Path) -> Vec<Promise> {
    let [first, second] = asked_for();
    // What it writes, and when, is not to depend on how busy the machine is.
    let group = open(folder).group().writing_at(u64::MAX, Duration::MAX);
    let replaced = group.put_selection(&first.key, &[second.id]).unwrap();
    let added = group.add_to_set(&set_key(), &first.id).unwrap();
    let is_kept = [group.commit().unwrap(), replaced, added].iter().all(values::is_kept);
    let promised = [Promise::Selection(first.key, vec![second.id]), Promise::InSet(set_key(), first.id)];
    promised.into_iter().filter(|_| is_kept).collect()
}

/// Everything goes but what is pinned.
fn gc_all(folder: &Path) -> Vec<Promise> {
    let mut options = GcOptions::default();
    options.max_bytes = Some(0);
    // What cannot be done is left to the next; nobody waits for it.
    drop(open(folder).gc(&options, &()));
    Vec::new()
}

fn get(folder: &Path) -> Vec<Promise> {
    let store = open(folder);
    asked_for().iter().for_each(|values| _ = values.get(&store));
    Vec::new()
}

fn get_large(folder: &Path) -> Vec<Promise> {
    let store = open(folder);
    large().iter().for_each(|values| _ = values.get(&store));
    Vec::new()
}

fn has_large(folder: &Path) -> bool {
    let store = Store::open(root(folder), Mode::ReadOnly).unwrap();
    large().iter().all(|values| values.get(&store))
}

fn get_layered(folder: &Path) -> Vec<Promise> {
    let store = open(folder).with_layer_or_warn(folder.join(LAYER));
    asked_for().iter().for_each(|values| _ = values.get(&store));
    Vec::new()
}

fn get_bundled(folder: &Path) -> Vec<Promise> {
    let store = open(folder).with_layer_or_warn(folder.join("bundle"));
    asked_for().iter().for_each(|values| _ = values.get(&store));
    Vec::new()
}

fn put(folder: &Path) -> Vec<Promise> {
    let store = open(folder);
    asked_for().iter().flat_map(|values| values.put(&store)).collect()
}

fn replace(folder: &Path) -> Vec<Promise> {
    let [first, second] = asked_for();
    let replaced = open(folder).put_selection(&first.key, &[second.id]).unwrap();
    values::is_kept(&replaced).then(|| Promise::Selection(first.key, vec![second.id])).into_iter().collect()
}

fn add_to_set(folder: &Path) -> Vec<Promise> {
    let store = open(folder);
    asked_for().iter().flat_map(|values| values.put_into(&store, &set_key())).collect()
}

fn get_or_build(folder: &Path) -> Vec<Promise> {
    let store = open(folder);
    asked_for().iter().flat_map(|values| values.get_or_build(&store)).collect()
}

fn has_all(folder: &Path) -> bool {
    let store = Store::open(root(folder), Mode::ReadOnly).unwrap();
    asked_for().iter().all(|values| values.get(&store))
}

fn has_all_layered(folder: &Path) -> bool {
    let store = open(folder).with_layer(folder.join(LAYER)).unwrap();
    asked_for().iter().all(|values| values.get(&store))
}

fn has_all_bundled(folder: &Path) -> bool {
    let store = open(folder).with_layer(folder.join("bundle")).unwrap();
    asked_for().iter().all(|values| values.get(&store))
}

fn has_set(folder: &Path) -> bool {
    let store = Store::open(root(folder), Mode::ReadOnly).unwrap();
    let named = store.find_selection(&set_key()).hit().map_or(0, |set| set.plans.len());
    named == 3
}

/// Makes a pack of all loose entries and removes them; gives its path.
pub(crate) fn pack(root: &Path) -> PathBuf {
    let mut entries = Vec::new();
    let mut contents = Vec::new();
    for (name, bytes) in tree(root) {
        let kind = EntryKind::ALL.into_iter().find(|kind| name.starts_with(folder_of(*kind)));
        let (Some(kind), Some(bytes)) = (kind, bytes) else { continue };
        let digits: String = name.iter().rev().take(2).map(|part| part.to_str().unwrap()).collect::<Vec<_>>().into_iter().rev().collect();
        let digits = digits.split('.').next().unwrap();
        let entry_name: [u8; 32] = std::array::from_fn(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).unwrap());
        entries.push((kind, entry_name, bytes.len() as u64));
        contents.push(bytes);
    }
    let packs = root.join("packs");
    fs::create_dir_all(&packs).unwrap();
    let unnamed = packs.join("unnamed");
    let digest = write_pack(&unnamed, &entries, &[], |number| contents[number].clone()).unwrap();
    let id: String = digest[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    let path = packs.join(format!("00000001-{id}.pack"));
    fs::rename(unnamed, &path).unwrap();
    assert!(OpenPack::open(&path).unwrap().is_some());
    for folder in ["objects", "plans", "index"] {
        fs::remove_dir_all(root.join(folder)).unwrap();
    }
    path
}

fn folder_of(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::Blob => "objects",
        EntryKind::Plan => "plans",
        EntryKind::PlanRecord => "index/plan",
        EntryKind::Selection => "index/select",
    }
}
