//! What is put beside a pack that is written anew: what was dropped from it, and is wanted after all.

use super::rewrite::{Dropped, Sorted};
use super::stamps::RowStamps;
use super::sweep::Sweep;
use super::trash;
use super::withdraw::{put_loose, put_record_loose};
use crate::layer::packed_record;
use crate::pack::Pack;
use crate::{EntryKind, StoreError, record};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Sweep<'_> {
    /// Puts beside a pack that has lost its name what somebody relies on of what was dropped.
    pub(super) fn put_beside(&mut self, pack: &Arc<Pack>, sorted: &Sorted) -> Result<(), StoreError> {
        let holdings = self.holdings;
        let now = RowStamps::of(pack);
        let is_used = |dropped: &&Dropped| now.get(dropped.ordinal) != dropped.stamp;
        let mut plans = BTreeSet::new();
        let mut records = Vec::new();
        for dropped in sorted.dropped.iter().filter(is_used) {
            match dropped.kind {
                EntryKind::Blob => put_loose(self.directory, pack, EntryKind::Blob, &dropped.name)?,
                EntryKind::Plan => plans.extend(holdings.plans.find(&dropped.name)),
                EntryKind::PlanRecord | EntryKind::Selection => {
                    let Some(row) = pack.find(dropped.kind, &dropped.name)? else { continue };
                    let record = packed_record(pack, &row, self.limits)?;
                    plans.extend(record.rows.iter().filter_map(|row| holdings.plans.find(&row.root.0)));
                    records.push((dropped.kind, dropped.name, pack.read(&row, row.size)?));
                }
            }
        }
        // What appeared in other packs has been spared by now.
        for dropped in &sorted.dropped {
            match dropped.kind {
                EntryKind::Plan => plans.extend(holdings.plans.find(&dropped.name).filter(|&plan| !self.removal.plans.has(plan))),
                EntryKind::Blob if holdings.blobs.find(&dropped.name).is_some_and(|blob| !self.removal.blobs.has(blob)) => {
                    put_loose(self.directory, pack, EntryKind::Blob, &dropped.name)?;
                }
                _ => {}
            }
        }
        for plan in plans {
            self.spare(plan);
            for blob in holdings.needs_of(plan) {
                if let Some(name) = holdings.blobs.name(blob) {
                    put_loose(self.directory, pack, EntryKind::Blob, name)?;
                }
            }
            if let Some(name) = holdings.plans.name(plan) {
                put_loose(self.directory, pack, EntryKind::Plan, name)?;
                self.restore_record(plan)?;
            }
        }
        for (kind, name, bytes) in records {
            put_record_loose(self.directory, kind, &name, &bytes)?;
        }
        self.put_beside_what_is_not_hidden(pack, sorted)
    }

    /// Puts beside a pack that has lost its name the records of which no other copy is left: what hid one was in a pack that a compaction
    /// has withdrawn since, or went for the sake of a plan that stays after all.
    fn put_beside_what_is_not_hidden(&self, pack: &Arc<Pack>, sorted: &Sorted) -> Result<(), StoreError> {
        drop(self.directory.packs().refresh());
        for dropped in sorted.dropped.iter().filter(|dropped| dropped.is_hidden) {
            match trash::has(self.directory, dropped.kind, &dropped.name) {
                Ok(true) => continue,
                Ok(false) => {}
                // Nothing is found in what is damaged.
                Err(error) if error.is_damage() => {}
                // What is there may be newer, and must not be hidden; what is here may be the last. So the old pack gets its name back.
                Err(error) => return Err(error),
            }
            let Some(row) = pack.find(dropped.kind, &dropped.name)? else { continue };
            let record = match packed_record(pack, &row, self.limits) {
                Ok(record) => record,
                Err(error) if error.is_damage() => continue,
                Err(error) => return Err(error),
            };
            let rows: Vec<_> = record.rows.iter().filter(|row| self.stays(row)).copied().collect();
            if !rows.is_empty() {
                put_record_loose(self.directory, dropped.kind, &dropped.name, &record::encode(record.kind, &dropped.name, &rows))?;
            }
        }
        Ok(())
    }
}
