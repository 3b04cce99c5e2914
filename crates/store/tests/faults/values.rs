//! What is put and looked for, and what a store has promised.

use super::common::{plan, selection_key};
use hipplan_serialize::plan::PlanView;
use hipplan_serialize::{AlignedBytes, Digest, PlanRef, SelectionKey};
use hipplan_store::{Lookup, Miss, Mode, Persisted, Store, StoreError};
use std::cell::Cell;
use std::path::Path;

/// What a program was told that it does not get. Of each a warning must have been logged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Told {
    /// Puts that are not kept.
    pub(crate) not_kept: u32,
    /// Lookups that missed for a fault.
    pub(crate) not_usable: u32,
}

thread_local! {
    static TOLD: Cell<Told> = const { Cell::new(Told { not_kept: 0, not_usable: 0 }) };
}

/// Runs `f` and gives what this thread was told meanwhile.
pub(crate) fn told<T>(f: impl FnOnce() -> T) -> (T, Told) {
    TOLD.set(Told::default());
    (f(), TOLD.get())
}

/// Whether something was kept; what was not is counted.
pub(crate) fn is_kept(persisted: &Persisted) -> bool {
    let told = TOLD.get();
    TOLD.set(Told { not_kept: told.not_kept + u32::from(!persisted.is_persisted()), ..told });
    persisted.is_persisted()
}

/// What was found; faults are counted.
fn hit<T>(lookup: Lookup<T>) -> Option<T> {
    let told = TOLD.get();
    TOLD.set(Told { not_usable: told.not_usable + u32::from(matches!(lookup, Lookup::Miss(Miss::Fault(_)))), ..told });
    lookup.hit()
}

/// A blob, a plan that names it, and the key of a selection that names the plan.
#[derive(Debug)]
pub(crate) struct Values {
    pub(crate) blob: Vec<u8>,
    pub(crate) digest: Digest,
    pub(crate) plan: AlignedBytes,
    pub(crate) id: PlanRef,
    pub(crate) key: SelectionKey,
}

impl Values {
    /// Small ones.
    pub(crate) fn of(number: u8) -> Self {
        Self::with_blob(number, 700)
    }

    /// Those of a blob that is large enough to be mapped in a pack.
    pub(crate) fn large(number: u8) -> Self {
        Self::with_blob(number, 300 << 10)
    }

    fn with_blob(number: u8, size: usize) -> Self {
        let blob: Vec<u8> = (0..size).map(|i| (i / 7) as u8 ^ number).collect();
        let digest = Digest::of(&blob);
        let graph = [b'g', number];
        let plan = plan(&graph, 100, &[digest]);
        let id = PlanView::open(&plan).unwrap().plan_ref();
        Self { digest, id, key: selection_key(&graph), blob, plan }
    }

    /// Puts all of it, in the order that is asked for; gives what was promised.
    pub(crate) fn put(&self, store: &Store) -> Vec<Promise> {
        let mut promised = self.put_plan(store);
        let selection = degraded(store.put_selection(&self.key, &[self.id]));
        promised.extend(is_kept(&selection).then(|| self.selection()));
        promised
    }

    /// Puts the blob and the plan.
    pub(crate) fn put_plan(&self, store: &Store) -> Vec<Promise> {
        let mut promised = Vec::new();
        let blob = degraded(store.put_blob(&self.blob));
        assert_eq!(blob.id, self.digest);
        promised.extend(is_kept(&blob.persisted).then_some(Promise::Blob(self.digest)));
        let plan = degraded(store.put_plan(&self.plan));
        assert_eq!(plan.id, self.id);
        promised.extend(is_kept(&plan.persisted).then_some(Promise::Plan(self.id)));
        promised
    }

    /// As [`put`](Self::put), with the plan put into the set of the key.
    pub(crate) fn put_into(&self, store: &Store, key: &SelectionKey) -> Vec<Promise> {
        let mut promised = self.put_plan(store);
        let selection = degraded(store.add_to_set(key, &self.id));
        promised.extend(is_kept(&selection).then_some(Promise::InSet(*key, self.id)));
        promised
    }

    /// What a put of all of it promises.
    pub(crate) fn promises(&self) -> Vec<Promise> {
        vec![Promise::Blob(self.digest), Promise::Plan(self.id), self.selection()]
    }

    fn selection(&self) -> Promise {
        Promise::Selection(self.key, vec![self.id])
    }

    /// Looks everything up: what comes is right, and what does not come the caller has itself. Tells whether all came.
    pub(crate) fn get(&self, store: &Store) -> bool {
        let selection = hit(store.find_selection(&self.key));
        assert!(selection.as_ref().is_none_or(|found| found.plans == [self.id]), "{selection:?}");
        let found = hit(store.find_plan(&self.id.key));
        assert!(found.is_none_or(|found| found == self.id));
        let plan = hit(store.get_plan(&self.id));
        assert!(plan.as_ref().is_none_or(|plan| plan.bytes() == &self.plan[..]));
        let blob = hit(store.get_blob(&self.digest));
        assert!(blob.as_ref().is_none_or(|blob| **blob == self.blob[..]));
        selection.is_some() && found.is_some() && plan.is_some() && blob.is_some()
    }

    /// What a runtime does: looks, takes a turn, builds, puts.
    pub(crate) fn get_or_build(&self, store: &Store) -> Vec<Promise> {
        let options = hipplan_store::TurnOptions { wait: std::time::Duration::from_millis(20), ..Default::default() };
        let look = || self.get(store).then_some(());
        if look().is_some() {
            return Vec::new();
        }
        match store.turn(&self.key.0, &options, look) {
            hipplan_store::Turned::Found(()) => Vec::new(),
            hipplan_store::Turned::Mine(_turn) => self.put(store),
        }
    }
}

/// A store that degrades never fails a put.
fn degraded<T>(result: Result<T, StoreError>) -> T {
    result.unwrap_or_else(|error| panic!("the caller was failed: {error}"))
}

/// What must be found by whoever comes later.
#[derive(Debug, Clone)]
pub(crate) enum Promise {
    Blob(Digest),
    Plan(PlanRef),
    /// Names at least one of these plans and no other, and what it names is there.
    Selection(SelectionKey, Vec<PlanRef>),
    /// Names this plan, perhaps among others.
    InSet(SelectionKey, PlanRef),
}

/// The store is clean, and all that was promised is found.
pub(crate) fn check(root: &Path, promises: &[Promise], what: &dyn std::fmt::Display) {
    let store = match Store::open(root, Mode::ReadOnly) {
        Ok(store) => store,
        Err(error) => {
            assert!(promises.is_empty() && error.code() == "no-such-store", "{what}: {error}");
            return;
        }
    };
    let report = store.verify();
    assert!(report.is_clean(), "{what}: {:?}", report.problems);
    check_promises(&store, promises, what);
}

/// All that was promised is found.
pub(crate) fn check_promises(store: &Store, promises: &[Promise], what: &dyn std::fmt::Display) {
    for promise in promises {
        keep(store, promise).unwrap_or_else(|missing| panic!("{what}: {promise:?} was promised, but {missing}"));
    }
}

fn keep(store: &Store, promise: &Promise) -> Result<(), String> {
    fn found<T>(lookup: Lookup<T>) -> Result<T, String> {
        lookup.ok().map_err(|why| why.to_string())
    }
    let plan_is_there = |id: &PlanRef| {
        let plan = found(store.get_plan(id))?;
        plan.view().verify().map_err(|e| e.to_string())?;
        plan.code_objects().try_for_each(|blob| found(store.get_blob(&blob)).map(drop))
    };
    match promise {
        Promise::Blob(digest) => found(store.get_blob(digest)).map(drop),
        Promise::Plan(id) => {
            plan_is_there(id)?;
            // Another plan of this key may have come.
            found(store.find_plan(&id.key)).map(drop)
        }
        Promise::Selection(key, allowed) => {
            let selection = found(store.find_selection(key))?;
            match selection.plans.iter().find(|plan| !allowed.contains(plan)) {
                Some(other) => Err(format!("{other:?} is named")),
                None => selection.plans.iter().try_for_each(plan_is_there),
            }
        }
        Promise::InSet(key, id) => {
            let selection = found(store.find_selection(key))?;
            if !selection.plans.contains(id) {
                return Err(format!("only {:?} are named", selection.plans));
            }
            selection.plans.iter().try_for_each(plan_is_there)
        }
    }
}
