//! What a sweep would do, without doing it.
//!
//! The same decisions in the same order as [`Sweep::run`]: what is put off for a second sweep is not counted, and nobody is taken to be at
//! work meanwhile.

use super::reach::Holdings;
use super::stamps::RowStamps;
use super::sweep::{Sweep, Swept, namings_of};
use super::table::{Copied, Marks};
use super::usage::{Usage, size_of};
use crate::pack::packed_length;
use crate::{EntryKind, StoreError, record};

/// What a sweep is thought to bring.
#[derive(Debug, Default)]
pub(super) struct Expected {
    pub(super) swept: Swept,
    /// What would be left of the files.
    pub(super) after: Usage,
}

impl Sweep<'_> {
    /// Counts what [`run`](Self::run) would do; `usage` is what the files take before.
    pub(super) fn expect(mut self, usage: Usage) -> Result<Expected, StoreError> {
        let mut after = usage;
        for kind in [EntryKind::Selection, EntryKind::PlanRecord] {
            self.expect_loose_records(kind, &mut after);
        }
        for number in 0..self.holdings.packs.len() {
            if self.removal.rewrite.get(number).copied().unwrap_or(false) {
                self.expect_rewrite(number, &mut after)?;
            }
        }
        self.expect_loose_plans(&mut after);
        self.expect_loose_blobs(&mut after);
        Ok(Expected { swept: self.swept, after })
    }

    fn expect_loose_records(&mut self, kind: EntryKind, after: &mut Usage) {
        let holdings = self.holdings;
        let table = holdings.table(kind);
        let selected = if kind == EntryKind::PlanRecord { self.selected_by_packs(None) } else { Marks::default() };
        for (entry, copies) in table.entries() {
            let Some(copy) = copies.first().filter(|copy| copy.is_loose()) else { continue };
            let named = namings_of(holdings.namings(kind), table.first_copy(entry));
            let going = || named.clone().filter(|naming| self.removal.plans.has(naming.plan));
            let selected = going().find(|naming| selected.has(naming.plan)).map(|naming| naming.plan);
            let rows = going().count() as u64;
            if let Some(plan) = selected {
                self.defer(plan);
            } else if rows > 0 && rows == record::rows_in(copy.size) {
                self.expect_gone(kind, copy, after);
            } else if rows > 0 {
                self.swept.shortened = self.swept.shortened.saturating_add(1);
                after.bytes = after.bytes.saturating_sub(record::size_of_rows(u32::try_from(rows).unwrap_or(u32::MAX)));
                after.bytes = after.bytes.saturating_add(record::size_of_rows(0));
            }
        }
    }

    fn expect_rewrite(&mut self, number: usize, after: &mut Usage) -> Result<(), StoreError> {
        let holdings = self.holdings;
        let Some(pack) = holdings.packs.get(number) else { return Ok(()) };
        let stamps = RowStamps::of(pack);
        let sorted = self.sort_rows(number, pack, &stamps)?;
        if sorted.dropped.is_empty() {
            return Ok(());
        }
        self.count_rewritten(&sorted);
        if let Some(mark) = self.left.get_mut(number) {
            *mark = false;
        }
        // The pack and its stamps.
        for path in [pack.path().to_owned(), pack.path().with_extension("used")] {
            if let Some((size, _)) = size_of(&path)? {
                after.bytes = after.bytes.saturating_sub(size);
                after.files = after.files.saturating_sub(1);
            }
        }
        let kept = &sorted.rows.kept;
        if !kept.is_empty() {
            let stamps = (kept.len() as u64).saturating_mul(4);
            let length = packed_length(kept, &pack.provenance().unwrap_or_default()).unwrap_or(0);
            after.bytes = after.bytes.saturating_add(length).saturating_add(stamps);
            after.files = after.files.saturating_add(2);
        }
        Ok(())
    }

    fn expect_loose_plans(&mut self, after: &mut Usage) {
        let named = self.named_by_packs(None);
        let holdings = self.holdings;
        for (plan, copies) in holdings.plans.entries() {
            if !self.goes_now(plan, copies, &named) {
                continue;
            }
            if let Some(copy) = copies.first().filter(|copy| copy.is_loose()) {
                self.expect_gone(EntryKind::Plan, copy, after);
            }
        }
    }

    fn expect_loose_blobs(&mut self, after: &mut Usage) {
        let holdings: &Holdings = self.holdings;
        let needed = self.needed_by_what_stays();
        for (blob, copies) in holdings.blobs.entries() {
            let Some(copy) = copies.first().filter(|copy| copy.is_loose()) else { continue };
            if self.removal.blobs.has(blob) && !needed.has(blob) {
                self.expect_gone(EntryKind::Blob, copy, after);
            }
        }
    }

    /// A loose file goes.
    fn expect_gone(&mut self, kind: EntryKind, copy: &Copied, after: &mut Usage) {
        self.swept.count(kind);
        after.bytes = after.bytes.saturating_sub(copy.size);
        after.files = after.files.saturating_sub(1);
    }
}
