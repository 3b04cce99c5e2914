//! Putting right what a check finds wrong.

use super::carry::NewStamps;
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
use crate::layer::{Directory, check_packed, misplaced, walk};
use crate::layout::{self, PACKS, QUARANTINE, TRASH};
use crate::pack::{NewEntry, Pack};
use crate::record::{self, RecordKind};
use crate::{EntryKind, Limits, Store, StoreError, fs};
use hipplan_serialize::{PlanRef, RootHash};
use std::collections::{HashMap, HashSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
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
    /// What cannot be put right, such as a file that stands in place of a folder of the store, is told of in the report, and the rest is
    /// done. While entries may be where nobody can look, or others cannot be told that something is being removed, nothing is removed and no
    /// record made.
    ///
    /// Reads everything. May run beside readers, writers and other upkeep. Layers behind the folder are not touched.
    ///
    /// # Errors
    /// The folder may not be written; or other upkeep is removing things, and goes on doing so.
    pub fn repair(&self, options: &RepairOptions, progress: &dyn UpkeepProgress) -> Result<RepairReport, StoreError> {
        let directory = self.to_write()?;
        // Whoever may not write at all would be told so of each thing that is damaged, and of nothing else.
        fs::may_write(directory.root()).map_err(StoreError::io("write to the folder", directory.root()))?;
        let mut repair =
            Repair { directory, limits: self.limits(), report: RepairReport::default(), told: HashSet::new(), said: HashSet::new() };
        misplaced(directory.root()).into_iter().for_each(|error| repair.leave(error));
        let alone = match alone(directory) {
            Ok(alone) => Some(alone),
            Err(error) if error.is_busy() => return Err(error),
            Err(error) => {
                repair.leave(error);
                None
            }
        };
        // What is removed is seen by others in `packs` and `trash`; and where entries are that cannot be listed, nothing is known to lead nowhere.
        let mut of_entries = EntryKind::ALL.into_iter().map(EntryKind::path).chain([PACKS]);
        let is_whole = of_entries.all(|folder| walk::own_folders(directory.root(), folder).is_ok());
        let may_remove = alone.is_some() && is_whole && walk::own_folders(directory.root(), TRASH).is_ok();
        let collecting = GcOptions { grace: options.grace, now: options.now, ..GcOptions::default() };
        if may_remove {
            let cleared = clear(directory, &collecting);
            repair.done(cleared);
        }
        for kind in EntryKind::ALL {
            repair.loose(kind, progress);
        }
        repair.packs(progress);
        repair.names(is_whole, may_remove, progress);
        if may_remove {
            let collected = collect(directory, self.limits(), &collecting, progress);
            repair.report.collected = repair.done(collected).unwrap_or_default();
        }
        Ok(repair.report)
    }
}

struct Repair<'r> {
    directory: &'r Directory,
    limits: &'r Limits,
    report: RepairReport,
    /// What the report tells of, entries of packs left out: several steps meet the same thing.
    told: HashSet<PathBuf>,
    /// What it says of packs: they have many entries.
    said: HashSet<String>,
}

impl Repair<'_> {
    /// Tells of something that stays as it is.
    fn leave(&mut self, error: StoreError) {
        let is_new = match &error {
            StoreError::Pack { .. } => self.said.insert(error.to_string()),
            // Asking for a folder below it says no more than that it is none.
            _ => error.path().is_none_or(|path| {
                let is_told = error.is_not_a_folder() && path.ancestors().any(|above| self.told.contains(above));
                !is_told && self.told.insert(path.to_owned())
            }),
        };
        if is_new {
            self.report.left.note(error);
        }
    }

    fn done<T>(&mut self, result: Result<T, StoreError>) -> Option<T> {
        result.map_err(|error| self.leave(error)).ok()
    }

    /// Sets damaged files of one entry aside.
    fn loose(&mut self, kind: EntryKind, progress: &dyn UpkeepProgress) {
        let mut counter = Counter::new(progress, "checking files", 0);
        for file in walk::files(self.directory.root(), kind) {
            counter.one();
            let checked = file.and_then(|(name, path)| self.file(kind, &name, &path));
            self.done(checked);
        }
    }

    /// Sets a file aside if it is damaged.
    fn file(&mut self, kind: EntryKind, name: &[u8; 32], path: &Path) -> Result<(), StoreError> {
        let Some(file) = walk::open_listed(path)? else { return Ok(()) };
        // Every byte of it is what its name says.
        let error = match entry::check_loose(kind, name, path, &file, self.limits) {
            Ok(_) => return Ok(()),
            Err(error) if error.is_damage() => error,
            Err(error) => return Err(error),
        };
        match self.directory.set_aside(kind, name, path, &file, &error, self.limits) {
            Ok(false) => Ok(()),
            Ok(true) => {
                self.report.set_aside = self.report.set_aside.saturating_add(1);
                self.directory.sync_name(path)
            }
            Err(in_the_way) => {
                self.leave(error);
                Err(in_the_way)
            }
        }
    }

    /// Makes new packs of what is good in damaged ones.
    fn packs(&mut self, progress: &dyn UpkeepProgress) {
        let folder = self.directory.root().join(PACKS);
        if let Err(error) = walk::own_folders(self.directory.root(), PACKS) {
            return self.leave(error);
        }
        for name in walk::names(&folder) {
            let Some(name) = self.done(name) else { continue };
            let Some(name) = name.to_str().filter(|name| layout::parse_pack(name).is_some()) else { continue };
            let path = folder.join(name);
            match Pack::open(&path, &Limits::of_packs()) {
                Ok(Some(pack)) => {
                    let repaired = self.pack(name, &Arc::new(pack), progress);
                    self.done(repaired);
                }
                Ok(None) => {}
                Err(error) if error.is_damage() => match self.unopened(name, &path) {
                    Ok(is_set_aside) => self.report.packs_set_aside = self.report.packs_set_aside.saturating_add(is_set_aside.into()),
                    Err(in_the_way) => {
                        self.leave(error);
                        self.leave(in_the_way);
                    }
                },
                Err(error) => self.leave(error),
            }
        }
        drop(self.directory.packs().refresh());
    }

    /// Sets a pack aside that did not open a moment ago, if it is damaged still.
    fn unopened(&self, name: &str, path: &Path) -> Result<bool, StoreError> {
        // Opened behind this look: so what takes its name in between is another one.
        let inode = match fs::status(path) {
            Ok(status) => status.inode,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(false),
            Err(e) => return Err(StoreError::io("look at", path)(e)),
        };
        match Pack::open(path, &Limits::of_packs()) {
            Ok(_) => Ok(false),
            Err(error) if error.is_damage() => self.set_pack_aside(name, path, inode, || ()),
            Err(error) => Err(error),
        }
    }

    /// Moves a pack to `quarantine`, by way of `trash` as damaged files go; tells whether it did. `between` runs when nobody finds anything in
    /// it any more.
    fn set_pack_aside(&self, name: &str, path: &Path, inode: fs::Inode, between: impl FnOnce()) -> Result<bool, StoreError> {
        let to = self.directory.uses_folder(QUARANTINE)?.join(name);
        let Some(condemned) = trash::condemn_pack(self.directory, path, inode)? else { return Ok(false) };
        self.directory.sync_name(path)?;
        between();
        condemned.set_aside(&to)
    }

    fn pack(&mut self, name: &str, pack: &Arc<Pack>, progress: &dyn UpkeepProgress) -> Result<(), StoreError> {
        let stamps = RowStamps::of(pack);
        let mut new = NewRows { kept: Vec::new(), hours: Vec::new(), shortened: HashMap::new() };
        let mut lost = 0_u64;
        let mut is_damaged = match pack.check_root() {
            Ok(()) => false,
            Err(error) if error.is_damage() => true,
            Err(error) => return Err(error),
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
                    Err(error) => return Err(error),
                }
                seen = seen.saturating_add(1);
            }
            // An error ends the rows of a kind.
            lost = lost.saturating_add(u64::from(pack.len(kind)).saturating_sub(seen));
        }
        if !is_damaged {
            return Ok(());
        }
        let mut rebuilt = None;
        if !new.kept.is_empty() {
            let new = publish_rows(self.directory, pack, &new, progress)?;
            self.report.packs_rebuilt = self.report.packs_rebuilt.saturating_add(1);
            if new.pack.path() == pack.path() {
                // Only its tables were damaged: the new one is what it should have been, and has its name.
                return Ok(());
            }
            rebuilt = Some(new.pack);
        }
        // What was used while it was checked and written anew may be in use by somebody who relies on that.
        let renew = || rebuilt.iter().for_each(|new| NewStamps::of(new).renew_from(pack, &stamps));
        if !self.set_pack_aside(name, pack.path(), pack.status().inode, renew)? {
            return Ok(());
        }
        drop(fs::unlink(&pack.path().with_extension("used")));
        self.report.packs_set_aside = self.report.packs_set_aside.saturating_add(1);
        self.report.lost_entries = self.report.lost_entries.saturating_add(lost);
        Ok(())
    }

    /// Lets every complete plan have a record, and every name lead somewhere, as far as anything may be removed.
    fn names(&mut self, is_whole: bool, may_remove: bool, progress: &dyn UpkeepProgress) {
        let mut swept = Swept::default();
        for round in 0..MOST_SWEEPS {
            let wanted = Wanted { all_plans: true, ..Wanted::default() };
            let mut holdings = Holdings::of(self.directory, self.limits, &wanted, progress);
            holdings.unread_plans.drain(..).for_each(|error| self.leave(error));
            if !holdings.unknown.is_empty() {
                return holdings.unknown.into_iter().for_each(|error| self.leave(error));
            }
            // A record that stands where nobody can look now may be the one.
            if round == 0 && is_whole {
                self.rebuild(&holdings);
            }
            let removal = leading_nowhere(&holdings);
            let incomplete = holdings.plans.entries().filter(|&(plan, _)| removal.plans.has(plan)).count() as u64;
            if incomplete == 0 && holdings.dangling == 0 || !may_remove {
                break;
            }
            self.report.incomplete = self.report.incomplete.max(incomplete);
            let done = Sweep::new(self.directory, self.limits, &holdings, removal).run(progress);
            let Some(done) = self.done(done) else { break };
            swept.add(&done);
            if done.deferred == 0 {
                break;
            }
        }
        let [_, _, plan_records, selections] = swept.removed;
        self.report.records = plan_records.saturating_add(selections);
        self.report.shortened = swept.shortened;
    }

    /// Makes records of plans that have none: of those with one key, the one that was used last.
    fn rebuild(&mut self, holdings: &Holdings) {
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
                self.directory.publish(EntryKind::PlanRecord, &key, &bytes).map(|persisted| persisted.is_persisted())
            } else {
                self.directory.publish_new(EntryKind::PlanRecord, &key, &bytes)
            };
            let is_new = self.done(is_new).unwrap_or(false);
            self.report.rebuilt = self.report.rebuilt.saturating_add(u64::from(is_new));
        }
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
