//! Putting right what a check finds wrong.

use super::gc::{GcOptions, GcReport, alone, collect};
use super::leftovers::clear;
use super::problems::Problems;
use super::progress::{Counter, UpkeepProgress};
use super::reach::{Holdings, Wanted};
use super::removal::Removal;
use super::rewrite::{NewRows, publish_rows};
use super::stamps::RowStamps;
use super::sweep::{Sweep, Swept};
use super::table::Marks;
use super::trash;
use crate::entry;
use crate::layer::{Directory, packed_plan, packed_record, walk};
use crate::layout::{self, PACKS, QUARANTINE};
use crate::pack::{NewEntry, Pack, PackRow};
use crate::plans::damaged;
use crate::record::{self, RecordKind};
use crate::{EntryKind, Limits, Store, StoreError, fs};
use hipplan_serialize::{PlanRef, RootHash};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Sweeps at most, as of a gc.
const MOST_SWEEPS: u32 = 4;

/// What a repair is to do.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RepairOptions {
    /// What nothing reaches is removed if it is older than this. One hour.
    pub grace: Duration,
    /// The time from which ages count.
    pub now: SystemTime,
}

impl Default for RepairOptions {
    fn default() -> Self {
        let GcOptions { grace, now, .. } = GcOptions::default();
        Self { grace, now }
    }
}

/// What a repair did.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct RepairReport {
    /// Damaged files of one entry that were moved to `quarantine`.
    pub set_aside: u64,
    /// Damaged packs that were moved to `quarantine`.
    pub packs_set_aside: u64,
    /// Packs that were made of what is good in damaged ones.
    pub packs_rebuilt: u64,
    /// Entries of those packs that were damaged.
    pub lost_entries: u64,
    /// Plan records that were made from their plans.
    pub rebuilt: u64,
    /// Plans that were removed because a code object of theirs is not there.
    pub incomplete: u64,
    /// Records that lost rows which lead nowhere.
    pub shortened: u64,
    /// Records all of whose rows led nowhere, and that went.
    pub records: u64,
    /// What was removed afterwards because nothing reaches it.
    pub collected: GcReport,
    /// What could not be read, or is not ours, and was left as it is; the first thousand.
    pub left: Vec<StoreError>,
}

impl Store {
    /// Puts right what [`verify`](Self::verify) finds wrong in the folder in front: damaged entries are set aside, rows that lead nowhere
    /// are taken out, records of plans are made anew from the plans, plans that lack a code object are removed, and what nothing reaches
    /// is if it is older than the grace age. Nothing is made up: what is lost is built again by whoever wants it.
    ///
    /// Reads everything. May run beside readers, writers and other upkeep. Layers behind the folder are not touched.
    ///
    /// # Errors
    /// As of [`gc`](Self::gc).
    pub fn repair(&self, options: &RepairOptions, progress: &dyn UpkeepProgress) -> Result<RepairReport, StoreError> {
        let directory = self.to_write()?;
        let _alone = alone(directory)?;
        let collecting = GcOptions { grace: options.grace, now: options.now, ..GcOptions::default() };
        clear(directory, &collecting)?;
        let mut repair = Repair { directory, limits: self.limits(), report: RepairReport::default() };
        for kind in EntryKind::ALL {
            repair.loose(kind, progress)?;
        }
        repair.packs(progress)?;
        repair.names(progress)?;
        repair.report.collected = collect(directory, self.limits(), &collecting, progress)?;
        Ok(repair.report)
    }
}

struct Repair<'r> {
    directory: &'r Directory,
    limits: &'r Limits,
    report: RepairReport,
}

impl Repair<'_> {
    /// Sets damaged files of one entry aside.
    fn loose(&mut self, kind: EntryKind, progress: &dyn UpkeepProgress) -> Result<(), StoreError> {
        let mut counter = Counter::new(progress, "checking files", 0);
        for file in walk::files(self.directory.root(), kind) {
            counter.one();
            let checked = match &file {
                Ok((name, path)) => check_loose(kind, name, path, self.limits),
                Err(_) => Ok(()),
            };
            match (file, checked) {
                (Ok((name, path)), Err(error)) if error.is_damage() => {
                    self.directory.forget_file(kind, &name);
                    let quarantine_name = kind.set_aside_name(&name, trash::number());
                    if self.set_aside(&path, &quarantine_name, |path| check_loose(kind, &name, path, self.limits))? {
                        self.report.set_aside = self.report.set_aside.saturating_add(1);
                    }
                }
                (Err(error), _) | (Ok(_), Err(error)) => self.report.left.note(error),
                (Ok(_), Ok(())) => {}
            }
        }
        Ok(())
    }

    /// Moves a damaged file to `quarantine`; a good one that came between the check and the move goes back.
    fn set_aside(&self, path: &Path, name: &str, check: impl FnOnce(&Path) -> Result<(), StoreError>) -> Result<bool, StoreError> {
        let to = self.directory.uses_folder(QUARANTINE)?.join(name);
        match fs::rename_away(path, &to) {
            Ok(()) => {}
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            Err(e) => return Err(StoreError::io("set aside", path)(e)),
        }
        if check(&to).is_ok() {
            if !fs::rename_back(&to, path).map_err(StoreError::io("put back", path))? {
                fs::unlink(&to).map_err(StoreError::io("remove", &to))?;
            }
            return Ok(false);
        }
        self.directory.sync_name(path)?;
        Ok(true)
    }

    /// Makes new packs of what is good in damaged ones.
    fn packs(&mut self, progress: &dyn UpkeepProgress) -> Result<(), StoreError> {
        let folder = self.directory.root().join(PACKS);
        walk::own_folders(self.directory.root(), PACKS)?;
        for name in walk::names(&folder) {
            let name = name?;
            let Some(name) = name.to_str().filter(|name| layout::parse_pack(name).is_some()) else { continue };
            let path = folder.join(name);
            match Pack::open(&path, self.limits) {
                Ok(Some(pack)) => self.pack(name, &Arc::new(pack), progress)?,
                Ok(None) => {}
                Err(error) if error.is_damage() => {
                    if self.set_aside(&path, name, |path| Pack::open(path, self.limits).map(drop))? {
                        self.report.packs_set_aside = self.report.packs_set_aside.saturating_add(1);
                    }
                }
                Err(error) => self.report.left.note(error),
            }
        }
        drop(self.directory.packs().refresh());
        Ok(())
    }

    fn pack(&mut self, name: &str, pack: &Arc<Pack>, progress: &dyn UpkeepProgress) -> Result<(), StoreError> {
        let stamps = RowStamps::of(pack);
        let mut new = NewRows { kept: Vec::new(), hours: Vec::new(), shortened: HashMap::new() };
        let mut lost = 0_u64;
        let mut is_damaged = match pack.check_root() {
            Ok(()) => false,
            Err(error) if error.is_damage() => true,
            Err(error) => {
                self.report.left.note(error);
                return Ok(());
            }
        };
        let mut counter = Counter::new(progress, "checking packs", 0);
        for kind in EntryKind::ALL {
            let mut seen = 0_u64;
            for row in pack.rows(kind) {
                counter.one();
                let checked = row.and_then(|row| check_packed(pack, &row, self.limits).map(|()| row));
                match checked {
                    Ok(row) => {
                        new.kept.push(NewEntry { kind, name: row.name, size: row.size });
                        new.hours.push(stamps.carried(row.ordinal));
                    }
                    Err(error) if error.is_damage() => {
                        is_damaged = true;
                        lost = lost.saturating_add(1);
                    }
                    Err(error) => {
                        self.report.left.note(error);
                        return Ok(());
                    }
                }
                seen = seen.saturating_add(1);
            }
            // An error ends the rows of a kind.
            lost = lost.saturating_add(u64::from(pack.len(kind)).saturating_sub(seen));
        }
        if !is_damaged {
            return Ok(());
        }
        if !new.kept.is_empty() {
            let new = publish_rows(self.directory, pack, &new, progress)?;
            self.report.packs_rebuilt = self.report.packs_rebuilt.saturating_add(1);
            if new.pack.path() == pack.path() {
                // Only its tables were damaged: the new one is what it should have been, and has its name.
                return Ok(());
            }
        }
        let to = self.directory.uses_folder(QUARANTINE)?.join(name);
        match fs::rename_away(pack.path(), &to) {
            Ok(()) => self.directory.sync_name(pack.path())?,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(StoreError::io("set aside", pack.path())(e)),
        }
        drop(fs::unlink(&pack.path().with_extension("used")));
        self.report.packs_set_aside = self.report.packs_set_aside.saturating_add(1);
        self.report.lost_entries = self.report.lost_entries.saturating_add(lost);
        Ok(())
    }

    /// Lets every name lead somewhere, and every complete plan have a record.
    fn names(&mut self, progress: &dyn UpkeepProgress) -> Result<(), StoreError> {
        let mut swept = Swept::default();
        for round in 0..MOST_SWEEPS {
            let wanted = Wanted { all_plans: true, ..Wanted::default() };
            let mut holdings = Holdings::of(self.directory, self.limits, &wanted, progress);
            self.report.left.note_all(holdings.unread_plans.drain(..));
            if !holdings.unknown.is_empty() {
                self.report.left.note_all(holdings.unknown);
                return Ok(());
            }
            if round == 0 {
                self.rebuild(&holdings)?;
            }
            let removal = leading_nowhere(&holdings);
            let incomplete = holdings.plans.entries().filter(|&(plan, _)| removal.plans.has(plan)).count() as u64;
            if incomplete == 0 && holdings.dangling == 0 {
                break;
            }
            self.report.incomplete = self.report.incomplete.max(incomplete);
            let done = Sweep::new(self.directory, self.limits, &holdings, removal).run(progress)?;
            swept.add(&done);
            if done.deferred == 0 {
                break;
            }
        }
        let [_, _, plan_records, selections] = swept.removed;
        self.report.records = plan_records.saturating_add(selections);
        self.report.shortened = swept.shortened;
        Ok(())
    }

    /// Makes records of plans that have none: of those with one key, the one that was used last.
    fn rebuild(&mut self, holdings: &Holdings) -> Result<(), StoreError> {
        let mut best: HashMap<[u8; 32], (u64, PlanRef)> = HashMap::new();
        let mut has_record = Marks::none(holdings.plan_records.len());
        for naming in holdings.namings(EntryKind::PlanRecord) {
            if let Some(entry) = holdings.plan_records.copy(naming.record).and_then(|copy| holdings.plan_records.find(&copy.name)) {
                has_record.set(entry);
            }
        }
        for (plan, copies) in holdings.plans.entries() {
            let (Some(key), Some(copy)) = (holdings.key(plan), copies.first()) else { continue };
            if holdings.incomplete.has(plan) || holdings.plan_records.find(&key.0).is_some_and(|entry| has_record.has(entry)) {
                continue;
            }
            let used = holdings.last_use(EntryKind::Plan, plan);
            let row = PlanRef { key, root: RootHash(copy.name), size: copy.size };
            let place = best.entry(key.0).or_insert((used, row));
            if place.0 < used {
                *place = (used, row);
            }
        }
        for (key, (_, row)) in best {
            let bytes = record::encode(RecordKind::Plan, &key, &[row]);
            // A record whose plan is gone is replaced.
            let has_file = holdings.plan_records.find(&key).is_some();
            let is_new = if has_file {
                self.directory.publish(EntryKind::PlanRecord, &key, &bytes)?.is_persisted()
            } else {
                self.directory.publish_new(EntryKind::PlanRecord, &key, &bytes)?
            };
            self.report.rebuilt = self.report.rebuilt.saturating_add(u64::from(is_new));
        }
        Ok(())
    }
}

/// Plans that lack a code object, and rows that lead to no plan.
fn leading_nowhere(holdings: &Holdings) -> Removal {
    let mut removal = Removal::none(holdings);
    removal.dangling = true;
    let mut going = Marks::none(holdings.plans.len());
    // What could not be read may be complete.
    if holdings.unread_plans.is_empty() {
        for (plan, _) in holdings.plans.entries().filter(|&(plan, _)| holdings.incomplete.has(plan)) {
            removal.plans.set(plan);
            going.set(plan);
        }
    }
    removal.rewrite_packs_of(holdings, &going);
    for (rewrite, &dangling) in removal.rewrite.iter_mut().zip(&holdings.dangling_in) {
        *rewrite |= dangling;
    }
    removal
}

/// Every byte of a loose file is what its name says.
fn check_loose(kind: EntryKind, name: &[u8; 32], path: &Path, limits: &Limits) -> Result<(), StoreError> {
    let Some(file) = walk::open_listed(path)? else { return Ok(()) };
    entry::check_loose(kind, name, path, &file, limits).map(drop)
}

/// Every byte of an entry of a pack is what its row says, and what its name says.
fn check_packed(pack: &Arc<Pack>, row: &PackRow, limits: &Limits) -> Result<(), StoreError> {
    match row.kind {
        EntryKind::Blob => pack.check_value(row),
        EntryKind::Plan => packed_plan(pack, row, limits)?.view().verify().map_err(damaged(pack.path())),
        EntryKind::PlanRecord | EntryKind::Selection => packed_record(pack, row, limits).map(drop),
    }
}
