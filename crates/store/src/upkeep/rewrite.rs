//! Writing a pack anew without what goes.
//!
//! The new pack has the generation of the old one and holds nothing that the old one does not, so with both in place every name leads
//! where it led. When the new one has its name, the old one loses its own; *then* the stamps of the rows that were dropped are looked at
//! again, and packs that appeared meanwhile: what was used, or is named there, is put beside the pack as loose files before the old pack
//! is deleted, and so are records of which nothing else has a copy any more. If somebody else has taken the old pack away, what was written is
//! withdrawn, unless it was there before: others who have written the same may have taken the old pack away for it.
//!
//! A row stays for this time if something outside of the pack still leads to it: a plan that a record in another pack names, a blob that
//! a plan elsewhere needs, the record of a plan that a selection in another pack names.

use super::carry::NewStamps;
use super::origins::Origins;
use super::progress::{Counter, UpkeepProgress};
use super::reach::Holdings;
use super::readable::{check_readable, open_written};
use super::stamps::RowStamps;
use super::sweep::{Sweep, namings_of};
use super::table::{Copied, Marks};
use super::trash::condemn_pack;
use super::withdraw::withdraw;
use crate::layer::{Directory, packed_record};
use crate::layout::{self, PACKS};
use crate::pack::{NewEntry, Pack, PackRow, Used, write};
use crate::{EntryKind, Limits, StoreError, fs, record};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Rows of a pack for a new one, in their order.
#[derive(Default)]
pub(super) struct NewRows {
    pub(super) kept: Vec<NewEntry>,
    /// Hours since 1970 of their last use.
    pub(super) hours: Vec<u32>,
    /// Records that get other bytes.
    pub(super) shortened: HashMap<(EntryKind, [u8; 32]), Vec<u8>>,
}

/// What becomes of the rows of a pack.
#[derive(Default)]
pub(super) struct Sorted {
    pub(super) rows: NewRows,
    /// Rows that go, and records that lose rows, with the stamps that were decided upon.
    pub(super) dropped: Vec<Dropped>,
}

#[derive(Clone, Copy)]
pub(super) struct Dropped {
    pub(super) kind: EntryKind,
    pub(super) name: [u8; 32],
    pub(super) ordinal: u32,
    pub(super) stamp: u64,
    /// Shortened, rather than gone.
    pub(super) is_kept: bool,
    /// A record that goes only because another copy is looked at before it.
    pub(super) is_hidden: bool,
}

/// A pack that was written in place of another.
pub(super) struct Anew {
    pub(super) pack: Arc<Pack>,
    /// Nothing had its name: whoever writes the same later finds it, and leaves it in place.
    is_first: bool,
}

impl Sweep<'_> {
    /// Writes a pack anew.
    pub(super) fn rewrite(&mut self, number: usize, progress: &dyn UpkeepProgress) -> Result<(), StoreError> {
        let holdings = self.holdings;
        let Some(pack) = holdings.packs.get(number) else { return Ok(()) };
        // From here on everybody stamps the same file.
        drop(Used::open(pack.path(), pack.rows_in_all(), true));
        let stamps = RowStamps::of(pack);
        self.spare_used(number, &stamps);
        let sorted = self.sort_rows(number, pack, &stamps)?;
        if sorted.dropped.is_empty() {
            return Ok(());
        }
        let new = if sorted.rows.kept.is_empty() { None } else { Some(self.publish_pack(pack, &sorted, progress)?) };
        if new.as_ref().is_some_and(|new| new.pack.path() == pack.path()) {
            // The old one said of itself what is true of the new one: it was damaged, and has been replaced.
            self.keep_all_of(number);
            return Ok(());
        }
        let Some(old) = condemn_pack(self.directory, pack.path(), pack.status().inode)? else {
            // Others have made something else of it.
            self.take_back(new, &sorted)?;
            self.keep_all_of(number);
            return Ok(());
        };
        // Until it is deleted it counts as left: where anything of this fails, it gets its name back.
        self.sync(BTreeSet::from([self.directory.root().join(PACKS)]))?;
        self.look_for_new_packs()?;
        if self.is_blocked {
            old.put_back()?;
            self.take_back(new, &sorted)?;
            return Ok(());
        }
        // Nobody finds anything in the old one any more: what was stamped there has been.
        if let Some(new) = &new {
            NewStamps::of(&new.pack).renew_from(pack, &stamps);
        }
        self.put_beside(pack, &sorted)?;
        let is_gone = old.delete()?;
        drop(self.directory.packs().refresh());
        if !is_gone {
            // Other upkeep has put it back.
            self.keep_all_of(number);
            return Ok(());
        }
        if let Some(mark) = self.left.get_mut(number) {
            *mark = false;
        }
        self.count_rewritten(&sorted);
        Ok(())
    }

    /// Counts what has gone, or would go, with a pack that is written anew.
    pub(super) fn count_rewritten(&mut self, sorted: &Sorted) {
        for dropped in &sorted.dropped {
            if dropped.is_kept {
                self.swept.shortened = self.swept.shortened.saturating_add(1);
            } else {
                self.swept.count(dropped.kind);
            }
        }
        self.swept.packs_rewritten = self.swept.packs_rewritten.saturating_add(1);
    }

    /// Withdraws what was written for nothing. What was there before stays: it is what others have written, who may be about to remove the
    /// old pack for it, or have done so.
    fn take_back(&self, new: Option<Anew>, sorted: &Sorted) -> Result<(), StoreError> {
        match new {
            Some(Anew { pack, is_first: true }) => withdraw(self.directory, self.limits, &pack, &sorted.rows.hours),
            _ => Ok(()),
        }
    }

    /// Spares what was used since it was decided upon.
    pub(super) fn spare_used(&mut self, number: usize, stamps: &RowStamps) {
        let holdings = self.holdings;
        let is_used = |copy: &Copied| copy.pack() == Some(number) && stamps.get(copy.ordinal) != copy.stamp;
        for (plan, copies) in holdings.plans.entries() {
            if self.removal.plans.has(plan) && copies.iter().any(is_used) {
                self.spare(plan);
            }
        }
        for kind in [EntryKind::PlanRecord, EntryKind::Selection] {
            for naming in holdings.namings(kind) {
                if self.removal.plans.has(naming.plan) && holdings.table(kind).copy(naming.record).is_some_and(is_used) {
                    self.spare(naming.plan);
                }
            }
        }
        for (blob, copies) in holdings.blobs.entries() {
            if copies.iter().any(is_used) {
                self.removal.blobs.clear(blob);
            }
        }
    }

    /// Decides about each row of a pack.
    pub(super) fn sort_rows(&mut self, number: usize, pack: &Arc<Pack>, stamps: &RowStamps) -> Result<Sorted, StoreError> {
        let holdings = self.holdings;
        let named = self.named_by_packs(Some(number));
        let mut sorted = Sorted::default();
        // Plans first: which blobs stay depends on them.
        for (plan, copies) in holdings.plans.entries() {
            let goes = self.removal.plans.has(plan) && !self.deferred.has(plan) && copies.iter().any(|copy| copy.pack() == Some(number));
            if goes && named.has(plan) {
                self.defer(plan);
            }
        }
        // The record of a plan goes after what selects it.
        let selected = self.selected_by_packs(Some(number));
        for naming in holdings.namings(EntryKind::PlanRecord) {
            let is_here = holdings.plan_records.copy(naming.record).is_some_and(|copy| copy.pack() == Some(number));
            if is_here && self.removal.plans.has(naming.plan) && selected.has(naming.plan) {
                self.defer(naming.plan);
            }
        }
        let needed = self.needed_blobs(number);
        for kind in EntryKind::ALL {
            let table = holdings.table(kind);
            for row in pack.rows(kind) {
                let row = row?;
                let dropped = |is_kept| Dropped {
                    kind,
                    name: row.name,
                    ordinal: row.ordinal,
                    stamp: stamps.get(row.ordinal),
                    is_kept,
                    is_hidden: !is_kept && self.goes_as_hidden(kind, number, &row.name),
                };
                // An entry that was not there when the folder was listed cannot be: packs never change.
                let Some(entry) = table.find(&row.name) else { continue };
                let goes = match kind {
                    EntryKind::Blob => self.removal.blobs.has(entry) && !needed.has(entry),
                    EntryKind::Plan => self.removal.plans.has(entry) && !self.deferred.has(entry),
                    EntryKind::PlanRecord | EntryKind::Selection => match self.shortened(kind, number, entry, pack, &row, &selected)? {
                        Some(bytes) if bytes.is_empty() => true,
                        Some(bytes) => {
                            sorted.dropped.push(dropped(true));
                            sorted.rows.kept.push(NewEntry { kind, name: row.name, size: bytes.len() as u64 });
                            sorted.rows.hours.push(stamps.carried(row.ordinal));
                            sorted.rows.shortened.insert((kind, row.name), bytes);
                            continue;
                        }
                        None => false,
                    },
                };
                if goes {
                    sorted.dropped.push(dropped(false));
                } else {
                    sorted.rows.kept.push(NewEntry { kind, name: row.name, size: row.size });
                    sorted.rows.hours.push(stamps.carried(row.ordinal));
                }
            }
        }
        Ok(sorted)
    }

    /// Blobs that a plan needs which stays, here or elsewhere.
    fn needed_blobs(&self, number: usize) -> Marks {
        let holdings = self.holdings;
        let mut needed = Marks::none(holdings.blobs.len());
        let mut before = None;
        let mut stays = false;
        for &(plan, blob) in &holdings.needs {
            if before != Some(plan) {
                before = Some(plan);
                // Loose copies go later, if they go.
                let elsewhere = |copy: &Copied| copy.pack().is_none_or(|pack| pack != number && self.is_left(pack));
                stays = !self.removal.plans.has(plan) || self.deferred.has(plan) || holdings.plans.copies_of(plan).iter().any(elsewhere);
            }
            if stays {
                needed.set(blob);
            }
        }
        needed
    }

    /// Whether a record of a pack goes only because another copy is looked at before it.
    fn goes_as_hidden(&self, kind: EntryKind, number: usize, name: &[u8; 32]) -> bool {
        let table = self.holdings.table(kind);
        let Some(entry) = table.find(name).filter(|&entry| self.removal.records(kind).is_some_and(|marks| !marks.has(entry))) else {
            return false;
        };
        table.copy_in_pack(entry, number).is_some_and(|copy| self.holdings.is_hidden(kind, copy))
    }

    /// What becomes of a record of a pack: `None` if it stays as it is, no bytes if it goes.
    fn shortened(
        &self,
        kind: EntryKind,
        number: usize,
        entry: u32,
        pack: &Arc<Pack>,
        row: &PackRow,
        selected: &Marks,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let table = self.holdings.table(kind);
        let Some(copy) = table.copy_in_pack(entry, number) else { return Ok(None) };
        if self.removal.records(kind).is_some_and(|marks| marks.has(entry)) || self.holdings.is_hidden(kind, copy) {
            return Ok(Some(Vec::new()));
        }
        let mut named = namings_of(self.holdings.namings(kind), copy);
        if kind == EntryKind::PlanRecord && named.clone().any(|naming| selected.has(naming.plan)) {
            return Ok(None);
        }
        if !self.removal.dangling && !named.any(|naming| self.removal.plans.has(naming.plan)) {
            return Ok(None);
        }
        let record = match packed_record(pack, row, self.limits) {
            Ok(record) => record,
            Err(error) if error.is_damage() => return Ok(None),
            Err(error) => return Err(error),
        };
        let rows: Vec<_> = record.rows.iter().filter(|row| self.stays(row)).copied().collect();
        Ok(match rows.len() {
            0 => Some(Vec::new()),
            left if left == record.rows.len() => None,
            _ => Some(record::encode(record.kind, &row.name, &rows)),
        })
    }

    /// Writes the rows that stay into a new pack, and gives it its name.
    fn publish_pack(&mut self, pack: &Arc<Pack>, sorted: &Sorted, progress: &dyn UpkeepProgress) -> Result<Anew, StoreError> {
        let new = publish_rows(self.directory, pack, &sorted.rows, progress)?;
        self.know_pack(new.pack.path().to_owned());
        Ok(new)
    }

    /// Others are at work on a pack: nothing goes of what it holds or names.
    fn keep_all_of(&mut self, number: usize) {
        let holdings = self.holdings;
        let is_here = |copy: &Copied| copy.pack() == Some(number);
        for (plan, copies) in holdings.plans.entries() {
            if copies.iter().any(is_here) {
                self.spare(plan);
            }
        }
        for kind in [EntryKind::PlanRecord, EntryKind::Selection] {
            for naming in holdings.namings(kind) {
                if holdings.table(kind).copy(naming.record).is_some_and(is_here) {
                    self.spare(naming.plan);
                }
            }
        }
    }
}

/// Writes rows of a pack into a new one of the same generation, and gives it its name. Their bytes are checked.
pub(super) fn publish_rows(
    directory: &Directory,
    pack: &Arc<Pack>,
    new: &NewRows,
    progress: &dyn UpkeepProgress,
) -> Result<Anew, StoreError> {
    let mut counter = Counter::new(progress, "writing packs anew", new.kept.len() as u64);
    let mut rows = EntryKind::ALL.into_iter().flat_map(|kind| pack.rows(kind));
    let tmp = directory.temp_folder()?;
    let mut origins = Origins::new(Limits::of_packs().max_provenance_bytes);
    match pack.provenance() {
        Ok(lines) => origins.add(lines),
        // A pack whose tables are damaged may have lost it.
        Err(error) if error.is_damage() => {}
        Err(error) => return Err(error),
    }
    let provenance = origins.finish();
    check_readable(pack.path(), &new.kept, &provenance, &Limits::of_packs())?;
    // Entries are asked for in the order of the rows.
    let written = write(&tmp, &new.kept, &provenance, &mut |number, sink| {
        counter.one();
        let Some(entry) = new.kept.get(number) else { return Ok(()) };
        // An error of the rows is one that was there when they were chosen: behind it none was.
        let row = rows.by_ref().flatten().find(|row| (row.kind, row.name) == (entry.kind, entry.name));
        match (row, new.shortened.get(&(entry.kind, entry.name))) {
            (_, Some(bytes)) => sink(bytes),
            (Some(row), None) => pack.stream(&row, sink),
            (None, None) => Ok(()),
        }
    })?;
    // The old one goes when this has its name.
    let opened = open_written(&written)?;
    let generation = pack.path().file_name().and_then(|name| layout::parse_pack(name.to_str()?)).map_or(0, |(generation, _)| generation);
    let path = directory.root().join(PACKS).join(layout::pack_name(generation, &written.root));
    if let Some(used) = Used::open(&path, u32::try_from(new.hours.len()).unwrap_or(u32::MAX), true) {
        // Where others have written the same, there may be later ones.
        used.raise(&new.hours);
    }
    let is_first = fs::rename_over(written.temp, &path).map_err(StoreError::io("create the file", &path))?;
    directory.sync_name(&path)?;
    Ok(Anew { pack: Arc::new(opened.called(&path)), is_first })
}

impl Holdings {
    /// The blobs that a plan needs.
    pub(super) fn needs_of(&self, plan: u32) -> impl Iterator<Item = u32> + '_ {
        let start = self.needs.partition_point(|&(other, _)| other < plan);
        self.needs.get(start..).unwrap_or_default().iter().take_while(move |(other, _)| *other == plan).map(|&(_, blob)| blob)
    }

    /// Whether a copy of a record is never read, because a good one is looked at before it.
    pub(super) fn is_hidden(&self, kind: EntryKind, copy: u32) -> bool {
        self.hidden(kind).has(copy)
    }
}
