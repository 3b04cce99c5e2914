//! Puts that become durable together, as one pack.
//!
//! What was put is collected in memory and written when there is enough of it, or when it has waited long enough: one file, synced once,
//! and one folder. So many small plans cost two syncs, and not four each. What a kill loses is what was not written yet.
//!
//! A pack of a group is in front of all packs that were there before ([`generation`](super::generation)). Loose records are in front of packs; so a record
//! that has a loose file, or one that may come back from `trash`, is published loose as well ([`trash`](super::trash)).

use super::in_front::{publish_each, publish_in_front, write_pack};
use crate::layer::{Directory, check_blob_size, check_plan_size, check_rows};
use crate::memo::let_go;
use crate::plans::{checked, code_objects, missing_code_object};
use crate::record::{self, Record, RecordKind};
use crate::targets::{Target, targets};
use crate::{EntryKind, Persisted, Put, Store, StoreError, Turn};
use hipplan_serialize::plan::PlanView;
use hipplan_serialize::{Digest, PlanRef, SelectionKey};
use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Bytes that are collected before they are written.
const MOST_BYTES: u64 = 64 << 20;
/// What was collected is written after this time, or after a fourth of the time that the group has been there before, whichever is longer:
/// so a kill costs no more than a fifth of the work, and an hour of it makes no more than some forty packs.
const SHORTEST: Duration = Duration::from_millis(250);
const SHARE_OF_AGE: u32 = 4;
/// What was put may name what is not looked at again, and gc spares that for an hour.
const LONGEST: Duration = Duration::from_secs(1800);

pub(crate) type Key = (EntryKind, [u8; 32]);
pub(super) type Entries = BTreeMap<Key, Arc<[u8]>>;
type Sets = BTreeMap<[u8; 32], Additions>;

/// Puts that are written together. Threads may put at once. A child that is forked meanwhile has no part in it and must leave it alone.
///
/// [`Persisted::New`] is an answer for what was collected: it is in the store, and durable, once [`commit`](Self::commit) has said so. What was
/// not committed when the group is dropped is lost. Equal contents give a pack of equal bytes, whatever the order of the puts; where two
/// puts are of one key, the last one counts.
#[derive(Debug)]
pub struct Group {
    store: Store,
    began: Instant,
    most_bytes: u64,
    /// Instead of one that grows.
    age: Option<Duration>,
    state: Mutex<State>,
    /// One commit at a time.
    committing: Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    entries: Entries,
    /// A key is in these or among the selections of the entries, never in both: which of the two came last would not be known.
    sets: Sets,
    bytes: u64,
    /// When the oldest of it was put.
    since: Option<Instant>,
    /// What is being written.
    in_flight: Arc<Entries>,
    sets_in_flight: Arc<Sets>,
    /// Why a store that degrades keeps nothing any more.
    failure: Option<String>,
    /// What was missing first of what was named by what was therefore not written, since a commit has told of it.
    left_out: Option<StoreError>,
}

/// Plans that are to be in a set.
#[derive(Debug, Clone, Default)]
struct Additions {
    /// All of a selection that was put before, in place of what the store has.
    instead: Option<Vec<PlanRef>>,
    plans: Vec<PlanRef>,
}

impl Drop for Group {
    fn drop(&mut self) {
        let_go(&mut self.state);
    }
}

impl Store {
    /// A group of puts, which are written together as one pack.
    pub fn group(&self) -> Group {
        Group {
            store: self.clone(),
            began: Instant::now(),
            most_bytes: MOST_BYTES,
            age: None,
            state: Mutex::default(),
            committing: Mutex::default(),
        }
    }
}

impl Group {
    /// The same group, which writes what it has collected when that has so many bytes or is this old; for [`Duration::MAX`] only if it is asked
    /// to, or by the bytes. Without this, it is 64 MiB, and a fourth of the time that the group was there before, at least a quarter of a
    /// second.
    #[must_use]
    pub fn writing_at(mut self, bytes: u64, age: Duration) -> Self {
        (self.most_bytes, self.age) = (bytes, Some(age));
        self
    }

    /// As [`Store::put_blob`].
    ///
    /// # Errors
    /// As there.
    pub fn put_blob(&self, blob: &[u8]) -> Result<Put<Digest>, StoreError> {
        let id = Digest::of(blob);
        check_blob_size(&EntryKind::Blob.file(self.store.root(), &id.hash.0), id.size, self.store.limits())?;
        let persisted = self.put(|layer| self.collect(layer, [(EntryKind::Blob, id.hash.0, blob)]))?;
        Ok(Put { id, persisted })
    }

    /// As [`Store::put_plan`]. The code objects must have been put before, into the group or into the store.
    ///
    /// # Errors
    /// As there.
    pub fn put_plan(&self, plan: &[u8]) -> Result<Put<PlanRef>, StoreError> {
        checked(plan, |plan, view| self.put_checked_plan(plan, view))?
    }

    fn put_checked_plan(&self, plan: &[u8], view: &PlanView<'_>) -> Result<Put<PlanRef>, StoreError> {
        let id = view.plan_ref();
        check_plan_size(&EntryKind::Plan.file(self.store.root(), &id.root.0), id.size, self.store.limits())?;
        let persisted = self.put(|layer| {
            for blob in code_objects(view) {
                if !self.has(EntryKind::Blob, &blob.hash.0, blob.size) {
                    layer.require_durable(EntryKind::Blob, &blob.hash.0, blob.size, |path| missing_code_object(&id, path))?;
                }
            }
            let record = record::encode(RecordKind::Plan, &id.key.0, &[id]);
            // Whether the record is new does not matter to the caller. That no commit writes one of them without the other does.
            self.collect(layer, [(EntryKind::Plan, id.root.0, plan), (EntryKind::PlanRecord, id.key.0, &record)])
        })?;
        Ok(Put { id, persisted })
    }

    /// As [`Store::put_selection`]. The plans must have been put before, into the group or into the store.
    ///
    /// # Errors
    /// As there.
    pub fn put_selection(&self, key: &SelectionKey, plans: &[PlanRef]) -> Result<Persisted, StoreError> {
        if plans.is_empty() {
            return Err(StoreError::EmptySelection { key: *key });
        }
        check_rows(&EntryKind::Selection.file(self.store.root(), &key.0), plans.len() as u64, self.store.limits())?;
        self.put(|layer| {
            let own = self.own_plans(layer, key, plans)?;
            if own.is_empty() {
                return Ok(Persisted::Unchanged);
            }
            self.collect(layer, [(EntryKind::Selection, key.0, &record::encode(RecordKind::Selection, &key.0, &own)[..])])
        })
    }

    /// As [`Store::add_to_set`]. The plan must have been put before, into the group or into the store. What the store has of the set is
    /// read when the group is written.
    ///
    /// # Errors
    /// As there.
    pub fn add_to_set(&self, key: &SelectionKey, plan: &PlanRef) -> Result<Persisted, StoreError> {
        self.put(|layer| {
            if self.own_plans(layer, key, &[*plan])?.is_empty() {
                return Ok(Persisted::Unchanged);
            }
            let mut state = self.state();
            let put_before = state.entries.remove(&(EntryKind::Selection, key.0));
            let instead = put_before.and_then(|bytes| rows_of(&key.0, &bytes));
            let additions = state.sets.entry(key.0).or_default();
            if instead.is_some() {
                *additions = Additions { instead, plans: Vec::new() };
            }
            if !additions.plans.contains(plan) {
                additions.plans.push(*plan);
            }
            state.note(size_of::<PlanRef>());
            Ok(Persisted::New)
        })
    }

    /// Writes what was put since the last time, and gives whether it is there now.
    ///
    /// # Errors
    /// It could not be written, unless the store is one that degrades. Then it is kept for another try. Or, since the last time, something
    /// that was named had gone: what named it was left out, and all the rest is there.
    pub fn commit(&self) -> Result<Persisted, StoreError> {
        let _one = self.committing.lock().unwrap_or_else(PoisonError::into_inner);
        let written = self.commit_alone()?;
        let left_out = self.state().left_out.take();
        match left_out {
            Some(error) => self.store.put(|_| Err(error)),
            None => Ok(written),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Collects something, and writes what there is if that is enough.
    fn put(&self, collect: impl FnOnce(&Directory) -> Result<Persisted, StoreError>) -> Result<Persisted, StoreError> {
        let persisted = self.store.put(|layer| {
            let failure = self.state().failure.clone();
            match failure {
                Some(cause) => Err(StoreError::Unavailable { path: layer.root().to_owned(), cause }),
                None => collect(layer),
            }
        })?;
        if !persisted.is_persisted() || !self.is_full() {
            return Ok(persisted);
        }
        let _one = self.committing.lock().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have written it meanwhile.
        match if self.is_full() { self.commit_alone()? } else { Persisted::Unchanged } {
            Persisted::No(error) => Ok(Persisted::No(error)),
            _ => Ok(persisted),
        }
    }

    fn is_full(&self) -> bool {
        let state = self.state();
        let is_old = |since: Instant| {
            let share = since.saturating_duration_since(self.began).checked_div(SHARE_OF_AGE).unwrap_or_default();
            since.elapsed() >= self.age.unwrap_or(share.clamp(SHORTEST, LONGEST))
        };
        state.bytes >= self.most_bytes || state.since.is_some_and(is_old)
    }

    /// Whether an entry of this size is collected, or is being written.
    fn has(&self, kind: EntryKind, name: &[u8; 32], size: u64) -> bool {
        self.state().get(kind, name).is_some_and(|bytes| bytes.len() as u64 == size)
    }

    fn own_plans(&self, layer: &Directory, key: &SelectionKey, plans: &[PlanRef]) -> Result<Vec<PlanRef>, StoreError> {
        let mut own = Vec::with_capacity(plans.len());
        for plan in plans {
            if self.has(EntryKind::Plan, &plan.root.0, plan.size) {
                own.push(*plan);
            } else if self.has(EntryKind::PlanRecord, &plan.key.0, record::size_of_rows(1)) {
                // The store had the plan, and another record.
                let missing = |path| StoreError::MissingTarget { path, what: "plan", named_by: format!("selection {key}") };
                match layer.require_durable(EntryKind::Plan, &plan.root.0, plan.size, missing) {
                    Ok(()) => own.push(*plan),
                    Err(StoreError::MissingTarget { .. }) if self.store.is_below(plan) => {}
                    Err(error) => return Err(error),
                }
            } else {
                own.append(&mut self.store.own_plans(layer, key, &[*plan])?);
            }
        }
        Ok(own)
    }

    /// Collects entries that are not there yet, all at once; gives whether the first of them is new.
    fn collect<const N: usize>(&self, layer: &Directory, entries: [(EntryKind, [u8; 32], &[u8]); N]) -> Result<Persisted, StoreError> {
        let mut held = [false; N];
        for (is_held, (kind, name, bytes)) in held.iter_mut().zip(&entries) {
            let is_collected = self.state().get(*kind, name).is_some();
            *is_held = !is_collected && layer.holds(*kind, name, bytes)?;
        }
        // Others may have put something since. What is collected is looked at and replaced in one go, so that they come before or behind.
        let mut state = self.state();
        let mut is_first_new = false;
        for (number, (&is_held, (kind, name, bytes))) in held.iter().zip(&entries).enumerate() {
            let is_added_to = *kind == EntryKind::Selection && state.replace_set(name);
            let is_there = state.get(*kind, name).map_or(is_held, |there| **there == **bytes);
            if is_there && !is_added_to {
                continue;
            }
            state.entries.insert((*kind, *name), (*bytes).into());
            state.note(bytes.len());
            is_first_new |= number == 0;
        }
        Ok(if is_first_new { Persisted::New } else { Persisted::Unchanged })
    }

    fn commit_alone(&self) -> Result<Persisted, StoreError> {
        // What was put before the failure is lost: nothing of it may be said to be kept.
        let failure = self.state().failure.clone();
        if let Some(cause) = failure {
            return Ok(Persisted::No(StoreError::Unavailable { path: self.store.root().to_owned(), cause }));
        }
        let (entries, sets) = self.state().take();
        if entries.is_empty() && sets.is_empty() {
            return Ok(Persisted::Unchanged);
        }
        let (mut written, mut missing) = (Entries::new(), None);
        let result = self.store.put(|layer| {
            (written, missing) = self.write(layer, &entries, &sets)?;
            Ok(if written.is_empty() { Persisted::Unchanged } else { Persisted::New })
        });
        let mut state = self.state();
        state.in_flight = Arc::default();
        state.sets_in_flight = Arc::default();
        match &result {
            Ok(Persisted::No(error)) => {
                // What was put since may name what is not kept.
                let failure = Some(error.to_string());
                *state = State { failure, ..State::default() };
            }
            Ok(_) => {}
            Err(_) => state.restore(&entries, &sets),
        }
        drop(state);
        if result.as_ref().is_ok_and(Persisted::is_persisted) {
            written.iter().for_each(|((kind, name), bytes)| self.store.put_far(*kind, name, bytes));
        }
        if let Some(error) = missing {
            // What named it is not kept for another try: it would be missing again. Whoever puts something else has no part in that.
            self.state().left_out.get_or_insert(error);
        }
        result
    }

    /// Writes a pack, and loose files where loose ones would be in front of it; gives what was written, and the first entry that is missing of
    /// those that something named which is therefore left out.
    fn write(&self, layer: &Directory, entries: &Entries, sets: &Sets) -> Result<(Entries, Option<StoreError>), StoreError> {
        let _turns = self.turns(layer, sets);
        let mut all = entries.clone();
        let mut missing = leave_out(layer, &mut all)?;
        for (key, additions) in sets {
            let mut keep = |plans: &[PlanRef]| {
                let mut kept = Vec::with_capacity(plans.len());
                for plan in plans {
                    let target = Target { kind: EntryKind::Plan, name: plan.root.0, size: plan.size };
                    match require(layer, &all, &target, &(EntryKind::Selection, *key))? {
                        None => kept.push(*plan),
                        Some(error) => drop(missing.get_or_insert(error)),
                    }
                }
                Ok::<_, StoreError>(kept)
            };
            let instead = additions.instead.as_deref().map(&mut keep).transpose()?.filter(|instead| !instead.is_empty());
            let additions = Additions { instead, plans: keep(&additions.plans)? };
            if additions.plans.is_empty() && additions.instead.is_none() {
                continue;
            }
            if let Some(record) = self.united(layer, key, &additions)? {
                all.insert((EntryKind::Selection, *key), record.into());
            }
        }
        if all.is_empty() {
            return Ok((all, missing));
        }
        match write_pack(layer, &all) {
            Ok(true) => publish_in_front(layer, &all)?,
            Ok(false) => publish_each(layer, &all)?,
            // Someone has removed a folder, or the whole store, since it was opened.
            Err(error) if error.is_not_found() => publish_each(layer, &all)?,
            Err(error) => return Err(error),
        }
        drop(layer.packs().refresh());
        Ok((all, missing))
    }

    /// The turns at all sets, in an order that is the same for all groups.
    fn turns(&self, layer: &Directory, sets: &Sets) -> Vec<Turn> {
        // Keys of one lock file together, and lock files in their order.
        let mut keys: Vec<&[u8; 32]> = sets.keys().collect();
        keys.sort_unstable_by_key(|key| (key.first().map(|byte| (byte ^ 0x5a) & 0x3f), **key));
        self.store.turns_to_write(layer, keys)
    }

    /// The record of a set with what was added; `None` where that is what there is, to stay.
    fn united(&self, layer: &Directory, key: &[u8; 32], additions: &Additions) -> Result<Option<Vec<u8>>, StoreError> {
        let key = &SelectionKey(*key);
        let there = match &additions.instead {
            Some(rows) => Some(Record { kind: RecordKind::Selection, rows: rows.clone() }),
            None => self.store.record_to_add_to(layer, key)?,
        };
        match there {
            Some(there) if additions.instead.is_none() && additions.plans.iter().all(|plan| there.rows.contains(plan)) => {
                let bytes = record::encode(there.kind, &key.0, &there.rows);
                Ok((!layer.holds(EntryKind::Selection, &key.0, &bytes)?).then_some(bytes))
            }
            there => {
                let rows = there.map(|there| there.rows).unwrap_or_default();
                let set = self.store.set_with(layer, key, rows, &additions.plans)?;
                Ok(Some(record::encode(set.kind, &key.0, &set.rows)))
            }
        }
    }
}

/// Takes out what names an entry that has gone since it was put, and what names that in turn; gives the first that is missing. What is there
/// is stamped once more: it was put, or looked for, up to half an hour ago.
fn leave_out(layer: &Directory, all: &mut Entries) -> Result<Option<StoreError>, StoreError> {
    let mut first = None;
    // What is named comes before what names it.
    let named_first: Vec<Key> = all.keys().copied().collect();
    let mut found = HashSet::new();
    for key in named_first {
        let Some(bytes) = all.get(&key) else { continue };
        for target in targets(key.0, &key.1, bytes) {
            if found.contains(&target.key()) {
                continue;
            }
            if let Some(error) = require(layer, all, &target, &key)? {
                first.get_or_insert(error);
                all.remove(&key);
                break;
            }
            found.insert(target.key());
        }
    }
    Ok(first)
}

/// Whether an entry that another one names is among these, or in the store: if not, the error that says so.
fn require(layer: &Directory, all: &Entries, target: &Target, by: &Key) -> Result<Option<StoreError>, StoreError> {
    if all.contains_key(&target.key()) {
        return Ok(None);
    }
    let missing = |path| {
        let what = if target.kind == EntryKind::Blob { "code object" } else { "plan" };
        StoreError::MissingTarget { path, what, named_by: by.0.file(Path::new(""), &by.1).display().to_string() }
    };
    match layer.require_durable(target.kind, &target.name, target.size, missing) {
        Ok(()) => Ok(None),
        Err(error @ StoreError::MissingTarget { .. }) => Ok(Some(error)),
        Err(error) => Err(error),
    }
}

impl State {
    fn get(&self, kind: EntryKind, name: &[u8; 32]) -> Option<&Arc<[u8]>> {
        self.entries.get(&(kind, *name)).or_else(|| self.in_flight.get(&(kind, *name)))
    }

    /// Something was collected.
    fn note(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes as u64);
        self.since.get_or_insert_with(Instant::now);
    }

    fn take(&mut self) -> (Arc<Entries>, Arc<Sets>) {
        self.in_flight = Arc::new(std::mem::take(&mut self.entries));
        self.sets_in_flight = Arc::new(std::mem::take(&mut self.sets));
        self.bytes = 0;
        self.since = None;
        (Arc::clone(&self.in_flight), Arc::clone(&self.sets_in_flight))
    }

    /// A selection takes the place of what was to be added to the one before. Whether something that is being added gets into the store in
    /// front of it, so that it is to be written whatever the store holds now.
    fn replace_set(&mut self, key: &[u8; 32]) -> bool {
        self.sets.remove(key);
        self.sets_in_flight.contains_key(key)
    }

    /// What could not be written is collected again, behind what was put since.
    fn restore(&mut self, entries: &Entries, sets: &Sets) {
        for (key, bytes) in entries {
            if self.entries.contains_key(key) {
                continue;
            }
            let added = if key.0 == EntryKind::Selection { self.sets.get_mut(&key.1) } else { None };
            match added {
                // To this very selection, or to one that was put since.
                Some(added) => {
                    if added.instead.is_none() {
                        added.instead = rows_of(&key.1, bytes);
                    }
                }
                None => {
                    self.entries.insert(*key, Arc::clone(bytes));
                    self.note(bytes.len());
                }
            }
        }
        for (key, additions) in sets {
            if self.entries.contains_key(&(EntryKind::Selection, *key)) {
                continue;
            }
            self.note(additions.plans.len().saturating_mul(size_of::<PlanRef>()));
            let newer = self.sets.entry(*key).or_default();
            if newer.instead.is_none() {
                newer.instead.clone_from(&additions.instead);
                newer.plans.splice(..0, additions.plans.iter().copied());
            }
        }
    }
}

/// The plans of a selection that was put.
fn rows_of(key: &[u8; 32], bytes: &[u8]) -> Option<Vec<PlanRef>> {
    record::decode(EntryKind::Selection, key, bytes).ok().map(|record| record.rows)
}
