//! Everything that a store has, put into its far tier.

use crate::far::{Far, NotPut};
use crate::record::{self, Record, RecordKind};
use crate::targets::targets;
use crate::{EntryKind, Lookup, Miss, Store, StoreError, UpkeepProgress};
use hipplan_serialize::{ContentHash, Digest, PlanKey, PlanRef, RootHash, SelectionKey};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Puts at a time: each waits for a network most of its time.
const AT_A_TIME: usize = 8;
/// Causes that a report names.
const MOST_PROBLEMS: usize = 16;

/// What [`Store::push`] did.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PushReport {
    /// Entries that the far tier has now, by kind, in the order of [`EntryKind::ALL`].
    pub put: [u64; 4],
    /// Their bytes.
    pub bytes: u64,
    /// Entries that it may lack: they could not be read here or put there, or name something that could not.
    pub left: u64,
    /// Why, the first of different causes.
    pub problems: Vec<String>,
}

impl Store {
    /// Puts every entry of all layers into the far tier: what was put while it was away, or before there was one.
    ///
    /// First comes what others name, and what names an entry that was not put is not put either, so that no name there leads to what is not
    /// there. What the far tier has of blobs and plans stays as it is; a record takes the place of the one there, but for sets of plans, which
    /// are united. What comes or goes here meanwhile may be left out; then it is among what is left.
    ///
    /// It takes about a hundred bytes of memory an entry.
    ///
    /// # Errors
    /// There is no far tier that may be written ([`RemoteOptions::write`](crate::RemoteOptions::write)).
    pub fn push(&self, progress: &dyn UpkeepProgress) -> Result<PushReport, StoreError> {
        let Some(far) = self.far().filter(|far| far.is_written()) else {
            return Err(StoreError::ReadOnly { path: self.far().map_or_else(|| self.root().to_owned(), |far| far.name().into()) });
        };
        let mut push = Push { near: self.clone().without_remote(), far, there: HashSet::new(), report: PushReport::default() };
        push.all_blobs(progress);
        push.all_plans(progress);
        push.all_records(EntryKind::PlanRecord, progress);
        push.all_records(EntryKind::Selection, progress);
        Ok(push.report)
    }
}

/// One run of it.
struct Push<'s> {
    near: Store,
    far: &'s Far,
    /// Blobs and plans that were put.
    there: HashSet<(EntryKind, [u8; 32])>,
    report: PushReport,
}

/// Bytes that were put, or why an entry was not.
type Answer = Result<u64, String>;

impl Push<'_> {
    fn all_blobs(&mut self, progress: &dyn UpkeepProgress) {
        // Copies may be damaged so that they have other sizes.
        let mut sizes: BTreeMap<[u8; 32], BTreeSet<u64>> = BTreeMap::new();
        for entry in self.near.entries(EntryKind::Blob) {
            match entry {
                Ok(entry) => _ = sizes.entry(entry.name).or_default().insert(entry.size),
                Err(error) => self.report.leave(error.to_string()),
            }
        }
        let blobs: Vec<_> = sizes.into_iter().collect();
        let put = |push: &Self, (name, sizes): &([u8; 32], BTreeSet<u64>)| {
            let mut answer = Err(gone(EntryKind::Blob, name));
            for &size in sizes {
                answer = match push.near.get_blob(&Digest { hash: ContentHash(*name), size }) {
                    Lookup::Hit(blob) => return push.put(EntryKind::Blob, name, &blob),
                    Lookup::Miss(Miss::Fault(error)) => Err(error.to_string()),
                    Lookup::Miss(_) => answer,
                };
            }
            answer
        };
        self.all(EntryKind::Blob, &blobs, |(name, _)| *name, put, progress);
    }

    fn all_plans(&mut self, progress: &dyn UpkeepProgress) {
        let mut plans: BTreeMap<RootHash, PlanRef> = BTreeMap::new();
        for plan in self.near.iter_plans() {
            match plan {
                Ok(plan) => _ = plans.insert(plan.root, plan),
                Err(error) => self.report.leave(error.to_string()),
            }
        }
        let plans: Vec<_> = plans.into_values().collect();
        let put = |push: &Self, plan: &PlanRef| {
            let bytes = had(push.near.get_plan(plan), EntryKind::Plan, &plan.root.0)?;
            push.put(EntryKind::Plan, &plan.root.0, bytes.bytes())
        };
        self.all(EntryKind::Plan, &plans, |plan| plan.root.0, put, progress);
    }

    fn all_records(&mut self, kind: EntryKind, progress: &dyn UpkeepProgress) {
        let mut names = BTreeSet::new();
        for entry in self.near.entries(kind) {
            match entry {
                Ok(entry) => _ = names.insert(entry.name),
                Err(error) => self.report.leave(error.to_string()),
            }
        }
        let names: Vec<_> = names.into_iter().collect();
        let put = |push: &Self, name: &[u8; 32]| match kind {
            EntryKind::PlanRecord => {
                let plan = had(push.near.find_plan(&PlanKey(*name)), kind, name)?;
                push.put(kind, name, &record::encode(RecordKind::Plan, name, &[plan]))
            }
            _ => push.put_selection(&SelectionKey(*name)),
        };
        self.all(kind, &names, |name| *name, put, progress);
    }

    /// Puts entries of a kind, several at a time.
    fn all<T: Sync>(
        &mut self,
        kind: EntryKind,
        entries: &[T],
        name_of: impl Fn(&T) -> [u8; 32],
        put: impl Fn(&Self, &T) -> Answer + Sync,
        progress: &dyn UpkeepProgress,
    ) {
        let all = entries.len() as u64;
        let next = AtomicUsize::new(0);
        let answers = Mutex::new(Vec::with_capacity(entries.len()));
        let this = &*self;
        let work = |tell: &dyn Fn(u64)| {
            while let Some((at, entry)) = take(&next, entries) {
                let answer = put(this, entry);
                answers.lock().unwrap_or_else(PoisonError::into_inner).push((at, answer));
                tell(at as u64);
            }
        };
        progress.step("putting", 0, all);
        thread::scope(|scope| {
            for _ in 1..AT_A_TIME.min(entries.len()) {
                // Where the system has no thread to give, there are fewer.
                let _ = thread::Builder::new().spawn_scoped(scope, || work(&|_| {}));
            }
            work(&|at| progress.step("putting", at, all));
        });
        progress.step("putting", all, all);
        let count = EntryKind::ALL.iter().position(|&of| of == kind);
        for (at, answer) in answers.into_inner().unwrap_or_else(PoisonError::into_inner) {
            match (answer, entries.get(at)) {
                (Ok(bytes), Some(entry)) => {
                    self.report.bytes = self.report.bytes.saturating_add(bytes);
                    if let Some(put) = count.and_then(|count| self.report.put.get_mut(count)) {
                        *put = put.saturating_add(1);
                    }
                    if matches!(kind, EntryKind::Blob | EntryKind::Plan) {
                        self.there.insert((kind, name_of(entry)));
                    }
                }
                (Err(problem), _) => self.report.leave(problem),
                (Ok(_), None) => {}
            }
        }
    }

    /// Puts an entry, all of whose targets have been put.
    fn put(&self, kind: EntryKind, name: &[u8; 32], bytes: &[u8]) -> Answer {
        self.has_all(kind, name, bytes)?;
        answer(self.far.try_put(kind, name, bytes), kind).map(|()| bytes.len() as u64)
    }

    fn has_all(&self, kind: EntryKind, name: &[u8; 32], bytes: &[u8]) -> Result<(), String> {
        let has_all = targets(kind, name, bytes).iter().all(|target| self.there.contains(&target.key()));
        if has_all { Ok(()) } else { Err(names_what_is_not(kind)) }
    }

    /// What the layers say together, as the kind of record that the first of them has.
    fn put_selection(&self, key: &SelectionKey) -> Answer {
        let (entries, limits) = (EntryKind::Selection, self.near.limits());
        let kind = self.near.lookup(|layer| Ok(layer.record(entries, &key.0, limits)?.map(|Record { kind, .. }| kind)), || None);
        let kind = had(kind, entries, &key.0)?;
        let mut plans = had(self.near.find_selection(key), entries, &key.0)?.plans;
        plans.truncate(usize::try_from(limits.max_record_rows).unwrap_or(usize::MAX));
        if kind == RecordKind::Set {
            // As the far tier unites them.
            plans.sort_unstable();
        }
        let bytes = record::encode(kind, &key.0, &plans);
        if kind != RecordKind::Set {
            return self.put(entries, &key.0, &bytes);
        }
        self.has_all(entries, &key.0, &bytes)?;
        answer(self.near.try_put_set(self.far, key, plans), entries).map(|()| bytes.len() as u64)
    }
}

/// The next entry that nobody has taken.
fn take<'e, T>(next: &AtomicUsize, entries: &'e [T]) -> Option<(usize, &'e T)> {
    let at = next.fetch_add(1, Ordering::Relaxed);
    entries.get(at).map(|entry| (at, entry))
}

impl PushReport {
    fn leave(&mut self, problem: String) {
        self.left = self.left.saturating_add(1);
        if self.problems.len() < MOST_PROBLEMS && !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }
}

/// What a lookup has found.
fn had<T>(lookup: Lookup<T>, kind: EntryKind, name: &[u8; 32]) -> Result<T, String> {
    match lookup {
        Lookup::Hit(found) => Ok(found),
        Lookup::Miss(Miss::Fault(error)) => Err(error.to_string()),
        Lookup::Miss(_) => Err(gone(kind, name)),
    }
}

fn gone(kind: EntryKind, name: &[u8; 32]) -> String {
    format!("{} {} is gone since it was listed", kind.word(), ContentHash(*name))
}

fn names_what_is_not(kind: EntryKind) -> String {
    format!("a {} names an entry that was not put", kind.word())
}

fn answer(put: Result<(), NotPut>, kind: EntryKind) -> Result<(), String> {
    put.map_err(|why| match why {
        NotPut::Failed(error) => error.to_string(),
        NotPut::NamesWhatIsNot => names_what_is_not(kind),
    })
}
