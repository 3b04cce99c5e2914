//! Power cuts: what was done is replayed up to any moment, and of what was not synced by then any part may be missing.
//!
//! The model is harsher than the file systems that people use. The content of a file is kept from its last sync on; before that it may be
//! empty, half there, zeros or whole. A name (made, moved, removed, of a file or a folder) is kept from the next sync of its folder on;
//! before that it may be there or not, whatever became of other names. Moving a file from one folder to another may leave both names, but
//! not none.

use super::common::{selection_key, tree};
use super::model::Disk;
use super::scenario;
use super::scratch;
use super::values::{Promise, Values, check};
use hipplan_store::testing::{Op, Verdict, with_hook};
use hipplan_store::{CompactOptions, GcOptions, Mode, Pin, Store};
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Pending changes of names of which every subset is tried; of more, some.
const ALL_SUBSETS_OF: usize = 10;

/// Runs something on a store and tries every state of the disk that a power cut may leave.
struct Recorder {
    disk: Rc<RefCell<Disk>>,
    kept: Rc<RefCell<Vec<Promise>>>,
    states: Rc<RefCell<States>>,
    /// States are being tried: those calls are not of what is recorded.
    is_trying: Rc<Cell<bool>>,
}

struct States {
    name: &'static str,
    seen: HashSet<blake3::Hash>,
    moments: u64,
    /// Where states are laid out.
    place: PathBuf,
    random: u64,
    most_random: u64,
}

impl Recorder {
    /// What must be found from now on.
    fn must_find(&self, promises: Vec<Promise>) {
        self.is_trying.set(true);
        self.disk.borrow_mut().settle();
        self.states.borrow_mut().try_all(&self.disk.borrow(), &self.kept.borrow());
        *self.kept.borrow_mut() = promises;
        self.states.borrow_mut().try_all(&self.disk.borrow(), &self.kept.borrow());
        self.is_trying.set(false);
    }

    /// What must be found from now on, too.
    fn must_also_find(&self, promises: impl IntoIterator<Item = Promise>) {
        let mut all = self.kept.borrow().clone();
        all.extend(promises);
        self.must_find(all);
    }
}

impl States {
    /// Tries every state that the disk may have after a power cut at this moment.
    fn try_all(&mut self, disk: &Disk, kept: &[Promise]) {
        self.moments += 1;
        for subset in self.subsets(disk.pending()) {
            for content in 0..disk.contents(&subset) {
                let state = disk.after_cut(&subset, content);
                let promises = format!("{kept:?}");
                let mut hasher = blake3::Hasher::new();
                hasher.update(promises.as_bytes());
                for (path, bytes) in &state {
                    hasher.update(path.as_os_str().as_encoded_bytes()).update(&[0, u8::from(bytes.is_some())]);
                    let bytes = bytes.as_deref().unwrap_or_default();
                    hasher.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
                }
                if self.seen.insert(hasher.finalize()) {
                    self.check(&state, kept);
                }
            }
        }
    }

    fn subsets(&mut self, pending: usize) -> Vec<Vec<bool>> {
        if pending <= ALL_SUBSETS_OF {
            return (0..1_u32 << pending).map(|bits| (0..pending).map(|i| bits >> i & 1 == 1).collect()).collect();
        }
        let mut subsets = vec![vec![false; pending], vec![true; pending]];
        // Each alone missing, each alone there.
        for i in 0..pending {
            for there in [false, true] {
                subsets.push((0..pending).map(|j| (i == j) == there).collect());
            }
        }
        for _ in 0..self.most_random {
            subsets.push((0..pending).map(|_| self.random() & 1 == 1).collect());
        }
        subsets
    }

    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.random >> 33
    }

    fn check(&mut self, state: &[(PathBuf, Option<Vec<u8>>)], kept: &[Promise]) {
        fs::create_dir_all(&self.place).unwrap();
        lay_out(&self.place, state);
        let root = scenario::root(&self.place);
        let what = format_args!("{}, moment {}, state {}", self.name, self.moments, self.seen.len());
        check(&root, kept, &what);
        // Now and then: the next writer can go on.
        if self.seen.len().is_multiple_of(16) {
            let store = Store::open(&root, Mode::ReadWrite).unwrap();
            let values = Values::of(77);
            assert_eq!(values.put(&store).len(), 3, "{what}");
            let mut all = kept.to_vec();
            all.extend(values.promises());
            check(&root, &all, &what);
        }
        fs::remove_dir_all(&self.place).unwrap();
    }
}

fn lay_out(place: &Path, state: &[(PathBuf, Option<Vec<u8>>)]) {
    for (path, bytes) in state {
        let path = place.join(path);
        match bytes {
            None => fs::create_dir(path).unwrap(),
            Some(bytes) => fs::write(path, bytes).unwrap(),
        }
    }
}

/// Fills a folder, does something to it that is recorded, and tries every state in between.
fn record(name: &'static str, before: fn(&Path) -> Vec<Promise>, script: impl FnOnce(&Path, &Recorder)) {
    let work = scratch::folder();
    let folder = work.path().join("recorded");
    fs::create_dir(&folder).unwrap();
    let kept = before(&folder);
    let states = States {
        name,
        seen: HashSet::new(),
        moments: 0,
        place: work.path().join("state"),
        random: 1,
        most_random: scratch::number("HIPPLAN_STORE_STATES", 64),
    };
    let recorder = Recorder {
        disk: Rc::new(RefCell::new(Disk::of(&folder))),
        kept: Rc::new(RefCell::new(kept)),
        states: Rc::new(RefCell::new(states)),
        is_trying: Rc::default(),
    };
    let is_trying = Rc::clone(&recorder.is_trying);
    let (disk, kept, states) = (Rc::clone(&recorder.disk), Rc::clone(&recorder.kept), Rc::clone(&recorder.states));
    let hook = move |op: Op<'_>| {
        if is_trying.get() {
            return Verdict::Go;
        }
        let mut disk = disk.borrow_mut();
        // The call before this one has been made by now.
        if disk.settle() {
            // Trying a state uses stores, which a hook may not: inside of it, their calls are not judged, so this is all right.
            states.borrow_mut().try_all(&disk, &kept.borrow());
        }
        disk.will(&op);
        Verdict::Go
    };
    with_hook(hook, || script(&folder, &recorder));
    recorder.disk.borrow_mut().settle();
    let states = recorder.states.borrow();
    // The model has followed: what it takes to be there is there.
    let all = vec![true; recorder.disk.borrow().pending()];
    let modelled: std::collections::BTreeMap<_, _> = recorder.disk.borrow().with_everything(&all).into_iter().collect();
    assert_eq!(modelled.keys().collect::<Vec<_>>(), tree(&folder).keys().collect::<Vec<_>>(), "{name}");
    assert_eq!(modelled, tree(&folder), "{name}");
    println!("{name}: {} moments, {} states", states.moments, states.seen.len());
    assert!(states.moments > 4 && states.seen.len() > 20, "{name}");
}

fn put_step_by_step(store: &Store, values: &Values, recorder: &Recorder) {
    assert!(store.put_blob(&values.blob).unwrap().persisted.is_persisted());
    recorder.must_also_find([Promise::Blob(values.digest)]);
    assert!(store.put_plan(&values.plan).unwrap().persisted.is_persisted());
    recorder.must_also_find([Promise::Plan(values.id)]);
    assert!(store.put_selection(&values.key, &[values.id]).unwrap().is_persisted());
    recorder.must_also_find([Promise::Selection(values.key, vec![values.id])]);
}

#[test]
fn publishing_into_nothing() {
    record(
        "publish into nothing",
        |_| Vec::new(),
        |folder, recorder| {
            let store = Store::open(scenario::root(folder), Mode::ReadWrite).unwrap();
            put_step_by_step(&store, &Values::of(1), recorder);
            put_step_by_step(&store, &Values::of(2), recorder);
        },
    );
}

#[test]
fn publishing_what_another_process_has_only_just_put() {
    // Nothing of what the first one did is known to be durable by the second, which finds all of it in place.
    record(
        "publish again",
        |_| Vec::new(),
        |folder, recorder| {
            let root = scenario::root(folder);
            put_step_by_step(&Store::open(&root, Mode::ReadWrite).unwrap(), &Values::of(1), recorder);
            put_step_by_step(&Store::open(&root, Mode::ReadWrite).unwrap(), &Values::of(1), recorder);
        },
    );
}

#[test]
fn replacing_and_adding() {
    let before = scenario::of("replace a selection").before;
    record("replace and add", before, |folder, recorder| {
        let store = Store::open(scenario::root(folder), Mode::ReadWrite).unwrap();
        let (first, second) = (Values::of(1), Values::of(2));
        // Until it has answered, either may be found.
        assert!(store.put_selection(&first.key, &[second.id]).unwrap().is_persisted());
        recorder.must_also_find([Promise::Selection(first.key, vec![second.id])]);
        let set = selection_key(b"set");
        for values in [&first, &second] {
            assert!(store.add_to_set(&set, &values.id).unwrap().is_persisted());
            recorder.must_also_find([Promise::InSet(set, values.id)]);
        }
    });
}

#[test]
fn putting_right_and_setting_aside_what_is_damaged() {
    // What is damaged before is damaged after a power cut, too, until it has been put right: so first all is met and set aside.
    record("set aside", scenario::of("put new").before, |folder, recorder| {
        let values = Values::of(1);
        let root = scenario::root(folder);
        let store = Store::open(&root, Mode::ReadWrite).unwrap();
        put_step_by_step(&store, &values, recorder);
        drop(store);
        let store = Store::open(&root, Mode::ReadWrite).unwrap();
        assert!(values.get(&store));
        put_step_by_step(&store, &Values::of(2), recorder);
    });
}

fn collect(folder: &Path, recorder: &Recorder) {
    let store = Store::open(scenario::root(folder), Mode::ReadWrite).unwrap();
    store.pin("kept", &[Pin::Selection(Values::of(1).key)]).unwrap();
    // The caps take everything else.
    recorder.must_find(Values::of(1).promises());
    let mut options = GcOptions::default();
    options.max_bytes = Some(0);
    let report = store.gc(&options, &()).unwrap();
    assert!(report.evicted > 0, "{report:?}");
    recorder.must_find(Values::of(1).promises());
}

#[test]
fn collecting_loose_files() {
    record("gc of loose files", scenario::of("gc of all").before, collect);
}

#[test]
fn collecting_packs() {
    record("gc of packs", scenario::of("put unchanged, packed").before, collect);
}

#[test]
fn folding_loose_files_and_packs() {
    record("compact", scenario::of("compact").before, |folder, recorder| {
        let store = Store::open(scenario::root(folder), Mode::ReadWrite).unwrap();
        let report = store.compact(&CompactOptions::default(), &()).unwrap();
        assert!(report.files_folded > 0, "{report:?}");
        recorder.must_also_find([]);
        put_step_by_step(&store, &Values::of(5), recorder);
        let mut options = CompactOptions::default();
        options.all = true;
        let report = store.compact(&options, &()).unwrap();
        assert!(report.packs_folded > 0, "{report:?}");
        recorder.must_also_find([]);
    });
}

#[test]
fn putting_together() {
    record("group", scenario::of("group over loose files").before, |folder, recorder| {
        let store = Store::open(scenario::root(folder), Mode::ReadWrite).unwrap();
        let (first, second, new) = (Values::of(1), Values::of(2), Values::of(5));
        let set = selection_key(b"set");
        let group = store.group();
        assert!(group.put_blob(&new.blob).unwrap().persisted.is_persisted());
        assert!(group.put_plan(&new.plan).unwrap().persisted.is_persisted());
        assert!(group.put_selection(&new.key, &[new.id]).unwrap().is_persisted());
        assert!(group.put_selection(&first.key, &[second.id]).unwrap().is_persisted());
        assert!(group.add_to_set(&set, &first.id).unwrap().is_persisted());
        assert!(group.commit().unwrap().is_persisted());
        let news = [Promise::Selection(first.key, vec![second.id]), Promise::InSet(set, first.id)];
        recorder.must_also_find(new.promises().into_iter().chain(news));
        assert!(group.add_to_set(&set, &second.id).unwrap().is_persisted());
        assert!(group.commit().unwrap().is_persisted());
        recorder.must_also_find([Promise::InSet(set, second.id)]);
    });
}
