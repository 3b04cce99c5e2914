//! Carrying out a removal: names go before what they name.
//!
//! Each step leaves a folder in which nothing names what is not there, so a kill or a power cut between any two of them does:
//! 1. Loose records lose the rows that name plans which go; records without rows go. The folders are synced.
//! 2. Packs that are to be written anew are, one after another ([`fold`](super::fold)).
//! 3. Loose plans go that no copy of a record names any more. Synced.
//! 4. Loose blobs go that no copy of a plan needs any more. Synced.
//!
//! What is still named by a pack that is written anew later, or not at all, stays for this time; another sweep takes it.
//!
//! Others may be at work. A publisher that relies on what is in place stamps it and looks again, and [`away`](super::away) tells how the
//! two find each other out; a plan that was used meanwhile is *spared*: it stays with its code objects, and its record is put back.
//! Other upkeep makes packs: so after names have gone, packs that were not there before are looked into, and what they name is spared.
//! Whoever makes a pack finds out in turn, after it has its name, whether what went into it is still in place.

use super::away::{Away, take_away};
use super::progress::{Counter, Progress};
use super::reach::{Holdings, open_packs, read_loose_record};
use super::removal::Removal;
use super::stamps::nanos;
use super::table::{Copied, Marks};
use super::trash;
use crate::layer::{Directory, packed_plan, packed_record};
use crate::layout::TRASH;
use crate::pack::Pack;
use crate::plans::code_objects;
use crate::record;
use crate::{EntryKind, Limits, StoreError, fs};
use hipplan_serialize::{PlanRef, RootHash};
use std::collections::{BTreeSet, HashSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
}

impl<'s> Sweep<'s> {
    pub(super) fn new(directory: &'s Directory, limits: &'s Limits, holdings: &'s Holdings, removal: Removal) -> Self {
        let known_packs = holdings.packs.iter().map(|pack| pack.path().to_owned()).collect();
        let deferred = Marks::none(holdings.plans.len());
        let left = vec![true; holdings.packs.len()];
        Self { directory, limits, holdings, removal, swept: Swept::default(), known_packs, left, deferred, spared: Vec::new() }
    }

    /// Carries it out.
    pub(super) fn run(mut self, progress: &mut Progress<'_>) -> Result<Swept, StoreError> {
        for kind in [EntryKind::Selection, EntryKind::PlanRecord] {
            self.loose_records(kind, progress)?;
        }
        self.look_for_new_packs()?;
        for number in 0..self.holdings.packs.len() {
            if self.removal.rewrite.get(number).copied().unwrap_or(false) {
                self.fold(number, progress)?;
            }
        }
        self.loose_plans(progress)?;
        self.look_for_new_packs()?;
        self.loose_blobs(progress)?;
        // Some of their names went before it was known that they stay.
        for plan in std::mem::take(&mut self.spared) {
            self.restore_record(plan)?;
        }
        Ok(self.swept)
    }

    fn loose_records(&mut self, kind: EntryKind, progress: &mut Progress<'_>) -> Result<(), StoreError> {
        let holdings = self.holdings;
        let (table, namings) = (holdings.table(kind), holdings.namings(kind));
        let mut touched = BTreeSet::new();
        let mut counter = Counter::new(progress, "removing names", None);
        for (entry, copies) in table.entries() {
            counter.one();
            let Some(copy) = copies.first().filter(|copy| copy.is_loose()) else { continue };
            let whole = self.removal.records(kind).is_some_and(|marks| marks.has(entry));
            let number = table.first_copy(entry);
            let mut named = namings_of(namings, number);
            if whole || self.removal.dangling || named.any(|naming| self.removal.plans.has(naming.plan)) {
                self.shorten(kind, copy, whole, &mut touched)?;
            }
        }
        self.sync(touched)
    }

    /// Takes those rows out of a loose record that lead to plans which go, or removes it.
    fn shorten(&mut self, kind: EntryKind, copy: &Copied, whole: bool, touched: &mut BTreeSet<PathBuf>) -> Result<(), StoreError> {
        let path = kind.file(self.directory.root(), &copy.name);
        let record = match read_loose_record(kind, &copy.name, &path, self.limits) {
            Ok(Some(record)) => record,
            Ok(None) => return Ok(()),
            // Damaged meanwhile: it names nothing.
            Err(error) if error.is_damage() => return Ok(()),
            Err(error) => return Err(error),
        };
        let rows: Vec<PlanRef> = if whole { Vec::new() } else { record.rows.iter().filter(|row| self.stays(row)).copied().collect() };
        if rows.len() == record.rows.len() {
            return Ok(());
        }
        let away = if rows.is_empty() {
            let away = take_away(self.directory, kind, &copy.name, copy.stamp)?;
            if away == Away::Gone {
                self.swept.count(kind);
            }
            away
        } else {
            let bytes = record::encode(record.kind, &copy.name, &rows);
            let away = self.replace(kind, copy, &bytes)?;
            if away == Away::Gone {
                self.swept.shortened = self.swept.shortened.saturating_add(1);
            }
            away
        };
        touched.extend(path.parent().map(ToOwned::to_owned));
        match away {
            Away::Gone | Away::Absent => {}
            Away::InUse => self.spare_named(kind, &copy.name)?,
        }
        Ok(())
    }

    /// Whether a row of a record stays.
    pub(super) fn stays(&self, row: &PlanRef) -> bool {
        match self.holdings.plans.find(&row.root.0) {
            Some(plan) => !self.removal.plans.has(plan),
            None => !self.removal.dangling,
        }
    }

    /// Puts other bytes in place of a record that has not been used or replaced since it was decided upon.
    fn replace(&self, kind: EntryKind, copy: &Copied, bytes: &[u8]) -> Result<Away, StoreError> {
        let path = kind.file(self.directory.root(), &copy.name);
        let seen = match fs::status(&path) {
            Ok(status) => status,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Away::Absent),
            Err(e) => return Err(StoreError::io("look at", &path)(e)),
        };
        if nanos(seen.changed) != copy.stamp {
            return Ok(Away::InUse);
        }
        // What a kill leaves there is put back only where nothing has the name.
        let to = self.directory.uses_folder(TRASH)?.join(kind.set_aside_name(&copy.name, trash::number()));
        let temp = self.directory.write_temp(bytes)?;
        fs::rename(temp, &to).map_err(StoreError::io("create the file", &to))?;
        let ours = fs::status(&to).map_err(StoreError::io("look at", &to))?.inode;
        match fs::exchange(&to, &path) {
            // What had the name is in the trash now.
            Ok(true) => {}
            Ok(false) => return self.replace_by_steps(kind, copy, &to, &seen),
            // Other upkeep has cleared the trash, or taken the record.
            Err(e) if e.kind() == ErrorKind::NotFound => {
                return fs::unlink(&to).map(|_| Away::InUse).map_err(StoreError::io("remove", &to));
            }
            Err(e) => return Err(StoreError::io("exchange", &path)(e)),
        }
        match fs::status(&to) {
            Ok(old) if old.inode == seen.inode && nanos(old.changed) == copy.stamp => {
                fs::unlink(&to).map_err(StoreError::io("remove", &to))?;
                return Ok(Away::Gone);
            }
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Away::InUse),
            _ => {}
        }
        // It was used or replaced a moment ago: it goes back. Where ours has been replaced too, what replaced it is newer yet.
        fs::exchange(&to, &path).map_err(StoreError::io("move back", &path))?;
        if fs::status(&to).is_ok_and(|back| back.inode != ours) {
            fs::rename_away(&to, &path).map_err(StoreError::io("move back", &path))?;
        } else {
            fs::unlink(&to).map_err(StoreError::io("remove", &to))?;
        }
        Ok(Away::InUse)
    }

    /// The same where files cannot be exchanged: for a moment nothing has the name.
    fn replace_by_steps(&self, kind: EntryKind, copy: &Copied, ours: &Path, seen: &fs::Status) -> Result<Away, StoreError> {
        let path = kind.file(self.directory.root(), &copy.name);
        let condemned = trash::condemn(self.directory, kind, &copy.name, seen.inode)?;
        let is_unused = |status: Option<fs::Status>| status.is_some_and(|status| nanos(status.changed) == copy.stamp);
        let is_in_place = match condemned {
            Some(condemned) if is_unused(condemned.status()?) => {
                let is_in_place = fs::rename_back(ours, &path).map_err(StoreError::io("create the file", &path))?;
                condemned.delete()?;
                is_in_place
            }
            Some(condemned) => condemned.put_back().map(|_| false)?,
            None => false,
        };
        fs::unlink(ours).map_err(StoreError::io("remove", ours))?;
        Ok(if is_in_place { Away::Gone } else { Away::InUse })
    }

    /// Whatever a record names now stays.
    fn spare_named(&mut self, kind: EntryKind, name: &[u8; 32]) -> Result<(), StoreError> {
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

    /// Spares what packs name that were not there when the folder was listed.
    pub(super) fn look_for_new_packs(&mut self) -> Result<(), StoreError> {
        let mut unknown = Vec::new();
        let packs = open_packs(self.directory, self.limits, &mut unknown);
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
        let mut named = Marks::none(self.holdings.plans.len());
        for kind in [EntryKind::PlanRecord, EntryKind::Selection] {
            for naming in self.holdings.namings(kind) {
                let pack = self.holdings.table(kind).copy(naming.record).and_then(Copied::pack);
                if pack.is_some_and(|pack| Some(pack) != other && self.is_left(pack)) {
                    named.set(naming.plan);
                }
            }
        }
        named
    }

    pub(super) fn is_left(&self, pack: usize) -> bool {
        self.left.get(pack).copied().unwrap_or(true)
    }

    fn loose_plans(&mut self, progress: &mut Progress<'_>) -> Result<(), StoreError> {
        let named = self.named_by_packs(None);
        let holdings = self.holdings;
        let mut touched = BTreeSet::new();
        let mut counter = Counter::new(progress, "removing plans", None);
        for (plan, copies) in holdings.plans.entries() {
            counter.one();
            if !self.removal.plans.has(plan) {
                continue;
            }
            if named.has(plan) || self.deferred.has(plan) {
                self.defer(plan);
                continue;
            }
            // What is left of it in a pack is a plan that nothing names; its code objects stay as long as it does.
            if copies.iter().any(|copy| copy.pack().is_some_and(|pack| self.is_left(pack))) {
                self.deferred.set(plan);
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
        if !matches!(self.directory.plan(&row, self.limits), Ok(Some(_))) {
            return Ok(());
        }
        let bytes = record::encode(record::RecordKind::Plan, &key.0, &[row]);
        self.directory.publish_new(EntryKind::PlanRecord, &key.0, &bytes).map(drop)
    }

    fn loose_blobs(&mut self, progress: &mut Progress<'_>) -> Result<(), StoreError> {
        let holdings = self.holdings;
        let mut needed = Marks::none(holdings.blobs.len());
        for &(plan, blob) in &holdings.needs {
            if self.deferred.has(plan) || !self.removal.plans.has(plan) {
                needed.set(blob);
            }
        }
        let mut touched = BTreeSet::new();
        let mut counter = Counter::new(progress, "removing blobs", None);
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
pub(super) fn namings_of(namings: &[super::reach::Naming], record: u32) -> impl Iterator<Item = &super::reach::Naming> {
    let start = namings.partition_point(|naming| naming.record < record);
    namings.get(start..).unwrap_or_default().iter().take_while(move |naming| naming.record == record)
}
