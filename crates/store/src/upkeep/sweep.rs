//! Carrying out a removal: names go before what they name.
//!
//! Each step leaves a folder in which nothing names what is not there, so a kill or a power cut between any two of them does:
//! 1. Loose records lose the rows that name plans which go, selections first; records without rows go. The folders are synced.
//! 2. Packs that are to be written anew are, one after another ([`rewrite`](super::rewrite)).
//! 3. Loose plans go that no copy of a record names any more. Synced.
//! 4. Loose blobs go that no copy of a plan needs any more. Synced.
//!
//! What is still named by a pack that is written anew later, or not at all, stays for this time; another sweep takes it. So does the record
//! of a plan that a selection there names: a plan that is selected has one.
//!
//! Others may be at work. A publisher that relies on what is in place stamps it and looks again, and [`away`](super::away) tells how the
//! two find each other out; a plan that was used meanwhile is *spared*: it stays with its code objects, and its record is put back.
//! Other upkeep makes packs: so after names have gone, packs that were not there before are looked into, and what they name is spared.
//! A compaction says that it is at work before it looks at what there is ([`generation`](super::generation)). So where names have gone
//! and *then* none says so, any that comes finds them gone; where one does, it is waited for, and if it takes long, nothing that is
//! named goes this time.

use super::awaited;
use super::away::{Away, take_away};
use super::claim::Clock;
use super::generation;
use super::progress::{Counter, UpkeepProgress};
use super::reach::{Holdings, open_packs};
use super::removal::Removal;
use super::stamps::{RowStamps, nanos};
use super::table::{Copied, Marks};
use crate::layer::{Directory, packed_plan, packed_record};
use crate::pack::Pack;
use crate::plans::code_objects;
use crate::record;
use crate::{EntryKind, Limits, StoreError, fs};
use hipplan_serialize::{PlanRef, RootHash};
use std::collections::{BTreeSet, HashSet};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// How long a compaction is waited for.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
const NAP: Duration = Duration::from_millis(10);

/// What a sweep did.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Swept {
    /// Copies removed, by kind in the order of [`EntryKind::ALL`].
    pub(super) removed: [u64; 4],
    /// Records that lost some of their rows.
    pub(super) shortened: u64,
    pub(super) packs_rewritten: u64,
    /// Things that were used meanwhile, and stayed.
    pub(super) spared: u64,
    /// Things that are still named by something that this sweep left, and wait for the next.
    pub(super) deferred: u64,
}

impl Swept {
    pub(super) fn count(&mut self, kind: EntryKind) {
        if let Some(count) = EntryKind::ALL.iter().position(|&k| k == kind).and_then(|i| self.removed.get_mut(i)) {
            *count = count.saturating_add(1);
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        let Self { removed, shortened, packs_rewritten, spared, deferred } = other;
        self.removed.iter_mut().zip(removed).for_each(|(sum, more)| *sum = sum.saturating_add(*more));
        self.shortened = self.shortened.saturating_add(*shortened);
        self.packs_rewritten = self.packs_rewritten.saturating_add(*packs_rewritten);
        self.spared = self.spared.saturating_add(*spared);
        self.deferred = *deferred;
    }
}

/// A sweep under way.
pub(super) struct Sweep<'s> {
    pub(super) directory: &'s Directory,
    pub(super) limits: &'s Limits,
    pub(super) holdings: &'s Holdings,
    pub(super) removal: Removal,
    pub(super) swept: Swept,
    /// Packs whose names are accounted for.
    known_packs: HashSet<PathBuf>,
    /// Packs that stand as they were listed.
    pub(super) left: Vec<bool>,
    /// Plans that were to go and of which a copy stays for this time.
    pub(super) deferred: Marks,
    /// Plans that stay after all.
    spared: Vec<u32>,
    /// A compaction is at work that may have seen the names which have gone: what they named stays.
    pub(super) is_blocked: bool,
}

impl<'s> Sweep<'s> {
    pub(super) fn new(directory: &'s Directory, limits: &'s Limits, holdings: &'s Holdings, removal: Removal) -> Self {
        let known_packs = holdings.packs.iter().map(|pack| pack.path().to_owned()).collect();
        let deferred = Marks::none(holdings.plans.len());
        let left = vec![true; holdings.packs.len()];
        Self {
            directory,
            limits,
            holdings,
            removal,
            swept: Swept::default(),
            known_packs,
            left,
            deferred,
            spared: Vec::new(),
            is_blocked: false,
        }
    }

    /// Carries it out. Where that fails, what stays after all has its names nevertheless, and the first error is given.
    pub(super) fn run(mut self, progress: &dyn UpkeepProgress) -> Result<Swept, StoreError> {
        let mut done = self.carry_out(progress);
        if done.is_err() || self.is_blocked {
            // Nobody comes to look at them any more.
            done = done.and(self.spare_all_used());
        }
        // Some of their names went before it was known that they stay.
        for plan in std::mem::take(&mut self.spared) {
            done = done.and(self.restore_record(plan));
        }
        done.map(|()| self.swept)
    }

    fn carry_out(&mut self, progress: &dyn UpkeepProgress) -> Result<(), StoreError> {
        for kind in [EntryKind::Selection, EntryKind::PlanRecord] {
            self.loose_records(kind, progress)?;
        }
        self.look_for_new_packs()?;
        for number in 0..self.holdings.packs.len() {
            if !self.is_blocked && self.removal.rewrite.get(number).copied().unwrap_or(false) {
                self.rewrite(number, progress)?;
            }
        }
        if !self.is_blocked {
            self.loose_plans(progress)?;
            self.look_for_new_packs()?;
        }
        if !self.is_blocked {
            self.loose_blobs(progress)?;
        }
        if self.is_blocked {
            self.swept.deferred = self.swept.deferred.saturating_add(1);
        }
        Ok(())
    }

    /// Spares the plans that were used since it was decided upon them, and that are still there.
    fn spare_all_used(&mut self) -> Result<(), StoreError> {
        let holdings = self.holdings;
        for (number, pack) in holdings.packs.iter().enumerate() {
            if self.is_left(number) {
                self.spare_used(number, &RowStamps::of(pack));
            }
        }
        let mut seen = Ok(());
        for (plan, copies) in holdings.plans.entries() {
            let Some(copy) = copies.first().filter(|copy| copy.is_loose() && self.removal.plans.has(plan)) else { continue };
            let path = EntryKind::Plan.file(self.directory.root(), &copy.name);
            match fs::status(&path) {
                Ok(status) if nanos(status.changed) != copy.stamp => self.spare(plan),
                Err(e) if e.kind() != ErrorKind::NotFound => seen = seen.and(Err(StoreError::io("look at", &path)(e))),
                _ => {}
            }
        }
        seen
    }

    fn loose_records(&mut self, kind: EntryKind, progress: &dyn UpkeepProgress) -> Result<(), StoreError> {
        let holdings = self.holdings;
        let (table, namings) = (holdings.table(kind), holdings.namings(kind));
        let mut touched = BTreeSet::new();
        let selected = if kind == EntryKind::PlanRecord { self.selected_by_packs(None) } else { Marks::default() };
        let mut counter = Counter::new(progress, "removing names", 0);
        for (entry, copies) in table.entries() {
            counter.one();
            let Some(copy) = copies.first().filter(|copy| copy.is_loose()) else { continue };
            let whole = self.removal.records(kind).is_some_and(|marks| marks.has(entry));
            let number = table.first_copy(entry);
            let mut named = namings_of(namings, number);
            if let Some(naming) = named.clone().find(|naming| self.removal.plans.has(naming.plan) && selected.has(naming.plan)) {
                self.defer(naming.plan);
                continue;
            }
            if whole || self.removal.dangling || named.any(|naming| self.removal.plans.has(naming.plan)) {
                self.shorten(kind, copy, whole, &mut touched)?;
            }
        }
        self.sync(touched)
    }

    /// Whatever a record names now stays.
    pub(super) fn spare_named(&mut self, kind: EntryKind, name: &[u8; 32]) -> Result<(), StoreError> {
        let record = self.directory.record(kind, name, self.limits);
        match record {
            Ok(record) => record.iter().flat_map(|record| &record.rows).for_each(|row| self.spare_root(&row.root)),
            Err(error) if error.is_damage() => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn spare_root(&mut self, root: &RootHash) {
        if let Some(plan) = self.holdings.plans.find(&root.0) {
            self.spare(plan);
        }
    }

    pub(super) fn spare(&mut self, plan: u32) {
        if self.removal.plans.has(plan) {
            self.removal.spare_plan(self.holdings, plan);
            self.spared.push(plan);
            self.swept.spared = self.swept.spared.saturating_add(1);
        }
    }

    /// A pack of ours is no news.
    pub(super) fn know_pack(&mut self, path: PathBuf) {
        self.known_packs.insert(path);
    }

    /// Spares what packs name that were not there when the folder was listed, and those that may come back.
    pub(super) fn look_for_new_packs(&mut self) -> Result<(), StoreError> {
        let from = Instant::now();
        let clock = Clock::default();
        while generation::is_claimed(self.directory, &clock)? {
            if from.elapsed() >= LONGEST_WAIT {
                tracing::info!(
                    store = %self.directory.root().display(),
                    "a compaction is at work, or was killed a moment ago: what it may name is left for the next time"
                );
                self.is_blocked = true;
                return Ok(());
            }
            thread::sleep(NAP);
        }
        // What a killed compaction has written and was about to withdraw is in `trash`, and comes back. In this order: what comes back
        // between the first two looks is seen by the third.
        self.spare_all_in_place()?;
        for (place, pack) in awaited::packs(self.directory)? {
            if !self.known_packs.contains(&place) {
                self.spare_all_of(&pack)?;
            }
        }
        self.spare_all_in_place()
    }

    /// Spares what packs name that have a name and were not known.
    fn spare_all_in_place(&mut self) -> Result<(), StoreError> {
        let mut unknown = Vec::new();
        let packs = open_packs(self.directory, &mut unknown);
        if let Some(error) = unknown.into_iter().next() {
            return Err(error);
        }
        for pack in packs {
            if self.known_packs.contains(pack.path()) {
                continue;
            }
            self.spare_all_of(&pack)?;
            self.know_pack(pack.path().to_owned());
        }
        Ok(())
    }

    fn spare_all_of(&mut self, pack: &Arc<Pack>) -> Result<(), StoreError> {
        for kind in [EntryKind::Selection, EntryKind::PlanRecord] {
            for row in pack.rows(kind) {
                match packed_record(pack, &row?, self.limits) {
                    Ok(record) => record.rows.iter().for_each(|row| self.spare_root(&row.root)),
                    Err(error) if error.is_damage() => {}
                    Err(error) => return Err(error),
                }
            }
        }
        for row in pack.rows(EntryKind::Plan) {
            match packed_plan(pack, &row?, self.limits) {
                Ok(plan) => {
                    for blob in code_objects(&plan.view()) {
                        if let Some(blob) = self.holdings.blobs.find(&blob.hash.0) {
                            self.removal.blobs.clear(blob);
                        }
                    }
                }
                Err(error) if error.is_damage() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Plans that records in packs name which stand as they were listed, `other` left out.
    pub(super) fn named_by_packs(&self, other: Option<usize>) -> Marks {
        let mut named = self.selected_by_packs(other);
        self.mark_named_by_packs(EntryKind::PlanRecord, other, &mut named);
        named
    }

    fn mark_named_by_packs(&self, kind: EntryKind, other: Option<usize>, named: &mut Marks) {
        for naming in self.holdings.namings(kind) {
            let pack = self.holdings.table(kind).copy(naming.record).and_then(Copied::pack);
            if pack.is_some_and(|pack| Some(pack) != other && self.is_left(pack)) {
                named.set(naming.plan);
            }
        }
    }

    /// Plans that selections in packs name which stand as they were listed, `other` left out.
    pub(super) fn selected_by_packs(&self, other: Option<usize>) -> Marks {
        let mut selected = Marks::none(self.holdings.plans.len());
        self.mark_named_by_packs(EntryKind::Selection, other, &mut selected);
        selected
    }

    pub(super) fn is_left(&self, pack: usize) -> bool {
        self.left.get(pack).copied().unwrap_or(true)
    }

    fn loose_plans(&mut self, progress: &dyn UpkeepProgress) -> Result<(), StoreError> {
        let named = self.named_by_packs(None);
        let holdings = self.holdings;
        let mut touched = BTreeSet::new();
        let mut counter = Counter::new(progress, "removing plans", 0);
        for (plan, copies) in holdings.plans.entries() {
            counter.one();
            if !self.goes_now(plan, copies, &named) {
                continue;
            }
            let Some(copy) = copies.first().filter(|copy| copy.is_loose()) else { continue };
            match take_away(self.directory, EntryKind::Plan, &copy.name, copy.stamp)? {
                Away::Gone => self.swept.count(EntryKind::Plan),
                Away::Absent => {}
                Away::InUse => {
                    self.spare(plan);
                    self.restore_record(plan)?;
                }
            }
            touched.extend(EntryKind::Plan.file(self.directory.root(), &copy.name).parent().map(ToOwned::to_owned));
        }
        self.sync(touched)
    }

    /// Whether a plan goes in this sweep; one that packs name which are left is put off.
    pub(super) fn goes_now(&mut self, plan: u32, copies: &[Copied], named: &Marks) -> bool {
        if !self.removal.plans.has(plan) {
            return false;
        }
        if named.has(plan) || self.deferred.has(plan) {
            self.defer(plan);
            return false;
        }
        // What is left of it in a pack is a plan that nothing names; its code objects stay as long as it does.
        if self.is_in_a_pack_that_is_left(copies) {
            self.deferred.set(plan);
        }
        true
    }

    /// A plan stays for this time.
    pub(super) fn defer(&mut self, plan: u32) {
        if !self.deferred.has(plan) {
            self.deferred.set(plan);
            self.swept.deferred = self.swept.deferred.saturating_add(1);
        }
    }

    /// Lets its key name a plan again, unless it names another by now.
    pub(super) fn restore_record(&self, plan: u32) -> Result<(), StoreError> {
        let (Some(key), Some(copy)) = (self.holdings.key(plan), self.holdings.plans.copies_of(plan).first()) else { return Ok(()) };
        if matches!(self.directory.record(EntryKind::PlanRecord, &key.0, self.limits), Ok(Some(_))) {
            return Ok(());
        }
        let row = PlanRef { key, root: RootHash(copy.name), size: copy.size };
        // As a publisher does: other upkeep that takes the plan away sees the stamp, or the plan is found to be gone here.
        let missing = |path| StoreError::MissingTarget { path, what: "plan", named_by: format!("plan key {key}") };
        match self.directory.require_now(EntryKind::Plan, &copy.name, copy.size, missing) {
            Ok(()) => {}
            Err(error) if error.is_damage() => return Ok(()),
            Err(error) => return Err(error),
        }
        let bytes = record::encode(record::RecordKind::Plan, &key.0, &[row]);
        self.directory.publish_new(EntryKind::PlanRecord, &key.0, &bytes).map(drop)
    }

    fn loose_blobs(&mut self, progress: &dyn UpkeepProgress) -> Result<(), StoreError> {
        let holdings = self.holdings;
        let needed = self.needed_by_what_stays();
        let mut touched = BTreeSet::new();
        let mut counter = Counter::new(progress, "removing blobs", 0);
        for (blob, copies) in holdings.blobs.entries() {
            counter.one();
            let Some(copy) = copies.first().filter(|copy| copy.is_loose()) else { continue };
            if !self.removal.blobs.has(blob) || needed.has(blob) {
                continue;
            }
            match take_away(self.directory, EntryKind::Blob, &copy.name, copy.stamp)? {
                Away::Gone => self.swept.count(EntryKind::Blob),
                Away::Absent => {}
                Away::InUse => self.swept.spared = self.swept.spared.saturating_add(1),
            }
            touched.extend(EntryKind::Blob.file(self.directory.root(), &copy.name).parent().map(ToOwned::to_owned));
        }
        self.sync(touched)
    }

    /// Whether any of these copies stands in a pack that stays as it is.
    fn is_in_a_pack_that_is_left(&self, copies: &[Copied]) -> bool {
        copies.iter().any(|copy| copy.pack().is_some_and(|pack| self.is_left(pack)))
    }

    /// Blobs that a plan needs which stays, at least for this time.
    pub(super) fn needed_by_what_stays(&self) -> Marks {
        let mut needed = Marks::none(self.holdings.blobs.len());
        for &(plan, blob) in &self.holdings.needs {
            if self.deferred.has(plan) || !self.removal.plans.has(plan) {
                needed.set(blob);
            }
        }
        needed
    }

    /// What has gone from these folders stays gone.
    pub(super) fn sync(&self, folders: BTreeSet<PathBuf>) -> Result<(), StoreError> {
        for folder in folders {
            match fs::sync_folder(&folder) {
                Err(e) if e.kind() != ErrorKind::NotFound => return Err(StoreError::io("sync the folder", &folder)(e)),
                _ => {}
            }
        }
        Ok(())
    }
}

/// The plans that a copy of a record names.
pub(super) fn namings_of(namings: &[super::reach::Naming], record: u32) -> impl Iterator<Item = &super::reach::Naming> + Clone {
    let start = namings.partition_point(|naming| naming.record < record);
    namings.get(start..).unwrap_or_default().iter().take_while(move |naming| naming.record == record)
}
