//! Everything that a store has, put into its far tier.

use crate::far::{Far, NotPut};
use crate::record::{self, Record, RecordKind};
use crate::{EntryKind, Lookup, Miss, Store, StoreError, UpkeepProgress};
use hipplan_serialize::{ContentHash, Digest, PlanKey, PlanRef, SelectionKey};
use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Puts at a time: each waits for a network most of its time.
const AT_A_TIME: usize = 8;
/// Entries between two words on how far it has come.
const PART: usize = 64;
/// Causes that a report names.
const MOST_PROBLEMS: usize = 16;

/// What [`Store::push`] did.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct PushReport {
    /// Entries that the far tier has now, by kind, in the order of [`EntryKind::ALL`].
    pub put: [u64; 4],
    /// Their bytes.
    pub bytes: u64,
    /// Entries that it may lack: they could not be read here or put there, or name something that could not.
    pub left: u64,
    /// Why, for the first of them; one line for each cause.
    pub problems: Vec<String>,
}

impl Store {
    /// Puts every entry of all layers into the far tier: what was put while it was away, or before there was one.
    ///
    /// First comes what others name, so that no name there ever leads to what is not there. What the far tier has of blobs and plans stays as
    /// it is; a record takes the place of the one there, but for sets of plans, which are united.
    ///
    /// # Errors
    /// There is no far tier that may be written ([`RemoteOptions::write`](crate::RemoteOptions::write)), or what is here cannot be listed.
    pub fn push(&self, progress: &dyn UpkeepProgress) -> Result<PushReport, StoreError> {
        let Some(far) = self.far().filter(|far| far.is_written()) else {
            return Err(StoreError::ReadOnly { path: self.far().map_or_else(|| self.root().to_owned(), |far| far.name().into()) });
        };
        let push = Push { near: self.clone().without_remote(), far, plans: self.plans_by_root()?, tally: Tally::default() };
        let mut report = PushReport::default();
        for (kind, put) in EntryKind::ALL.into_iter().zip(&mut report.put) {
            *put = push.all_of(kind, progress)?;
        }
        report.bytes = push.tally.bytes.into_inner();
        report.left = push.tally.left.into_inner();
        report.problems = push.tally.problems.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        Ok(report)
    }

    /// A plan is asked for by more than its name.
    fn plans_by_root(&self) -> Result<HashMap<[u8; 32], PlanRef>, StoreError> {
        let plans = self.iter_plans().filter_map(Result::ok);
        Ok(plans.map(|plan| (plan.root.0, plan)).collect())
    }
}

/// One run of it.
struct Push<'s> {
    near: Store,
    far: &'s Far,
    plans: HashMap<[u8; 32], PlanRef>,
    tally: Tally,
}

#[derive(Default)]
struct Tally {
    bytes: AtomicU64,
    left: AtomicU64,
    problems: Mutex<Vec<String>>,
}

impl Tally {
    fn left(&self, problem: Option<String>) {
        self.left.fetch_add(1, Ordering::Relaxed);
        let mut problems = self.problems.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(problem) = problem
            && problems.len() < MOST_PROBLEMS
            && !problems.contains(&problem)
        {
            problems.push(problem);
        }
    }
}

impl Push<'_> {
    /// Puts all entries of a kind; gives how many.
    fn all_of(&self, kind: EntryKind, progress: &dyn UpkeepProgress) -> Result<u64, StoreError> {
        // Once each, however many copies there are.
        let mut sizes = BTreeMap::new();
        for entry in self.near.entries(kind) {
            match entry {
                Ok(entry) => _ = sizes.insert(entry.name, entry.size),
                Err(error) => self.tally.left(Some(error.to_string())),
            }
        }
        let entries: Vec<([u8; 32], u64)> = sizes.into_iter().collect();
        let (mut put, mut done) = (0_u64, 0_u64);
        for part in entries.chunks(PART) {
            progress.step("putting", done, entries.len() as u64);
            thread::scope(|scope| {
                let workers: Vec<_> = (0..AT_A_TIME)
                    .map(|first| {
                        let mine = part.iter().skip(first).step_by(AT_A_TIME);
                        scope.spawn(move || mine.filter(|(name, size)| self.one(kind, name, *size)).count() as u64)
                    })
                    .collect();
                // A worker does not panic; one that did has put nothing that counts.
                put = workers.into_iter().fold(put, |put, worker| put.saturating_add(worker.join().unwrap_or(0)));
            });
            done = done.saturating_add(part.len() as u64);
        }
        progress.step("putting", done, entries.len() as u64);
        Ok(put)
    }

    /// Puts one entry; tells whether the far tier has it now.
    fn one(&self, kind: EntryKind, name: &[u8; 32], size: u64) -> bool {
        match self.try_one(kind, name, size) {
            Ok(Some(bytes)) => {
                self.tally.bytes.fetch_add(bytes, Ordering::Relaxed);
                true
            }
            // It has been removed since it was listed.
            Ok(None) => false,
            Err(problem) => {
                self.tally.left(problem);
                false
            }
        }
    }

    /// Gives how many bytes were put. An error is a cause, if it is one of its own.
    fn try_one(&self, kind: EntryKind, name: &[u8; 32], size: u64) -> Result<Option<u64>, Option<String>> {
        let put = |bytes: &[u8]| answer(self.far.try_put(kind, name, bytes)).map(|()| Some(bytes.len() as u64));
        match kind {
            EntryKind::Blob => match had(self.near.get_blob(&Digest { hash: ContentHash(*name), size }))? {
                Some(blob) => put(&blob),
                None => Ok(None),
            },
            EntryKind::Plan => {
                let Some(plan) = self.plans.get(name) else { return Err(Some(format!("plan {} cannot be read", ContentHash(*name)))) };
                match had(self.near.get_plan(plan))? {
                    Some(plan) => put(plan.bytes()),
                    None => Ok(None),
                }
            }
            EntryKind::PlanRecord => match had(self.near.find_plan(&PlanKey(*name)))? {
                Some(plan) => put(&record::encode(RecordKind::Plan, name, &[plan])),
                None => Ok(None),
            },
            EntryKind::Selection => {
                let Some((kind, rows)) = self.selection(&SelectionKey(*name))? else { return Ok(None) };
                if kind != RecordKind::Set {
                    return put(&record::encode(kind, name, &rows));
                }
                let bytes = record::size_of_rows(u32::try_from(rows.len()).unwrap_or(u32::MAX));
                answer(self.near.try_put_set(self.far, &SelectionKey(*name), rows)).map(|()| Some(bytes))
            }
        }
    }

    /// What the layers say together, as the kind of record that the first of them has.
    fn selection(&self, key: &SelectionKey) -> Result<Option<(RecordKind, Vec<PlanRef>)>, Option<String>> {
        let mut kind = None;
        let found = self.near.lookup(
            |layer| {
                let Some(Record { kind: of_layer, .. }) = layer.record(EntryKind::Selection, &key.0, self.near.limits())? else {
                    return Ok(None);
                };
                kind = Some(of_layer);
                Ok(Some(()))
            },
            || None,
        );
        let (Some(()), Some(kind)) = (had(found)?, kind) else { return Ok(None) };
        let mut plans = had(self.near.find_selection(key))?.map_or_else(Vec::new, |selection| selection.plans);
        plans.truncate(self.near.limits().max_record_rows as usize);
        Ok((!plans.is_empty()).then_some((kind, plans)))
    }
}

/// What a lookup has found; what is damaged is a cause.
fn had<T>(lookup: Lookup<T>) -> Result<Option<T>, Option<String>> {
    match lookup {
        Lookup::Hit(found) => Ok(Some(found)),
        Lookup::Miss(Miss::Fault(error)) => Err(Some(error.to_string())),
        Lookup::Miss(_) => Ok(None),
    }
}

fn answer(put: Result<(), NotPut>) -> Result<(), Option<String>> {
    put.map_err(|why| match why {
        NotPut::Failed(error) => Some(error.to_string()),
        NotPut::NamesWhatIsNot => None,
    })
}
