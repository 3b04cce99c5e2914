//! What is to go, as it was decided; and what turns out to stay.

use super::reach::Holdings;
use super::table::{Copied, Marks};
use crate::EntryKind;

/// What is to go from a folder.
#[derive(Debug, Default)]
pub(super) struct Removal {
    /// Plans, with all their copies and with the rows of records that name them.
    pub(super) plans: Marks,
    pub(super) blobs: Marks,
    /// Records that go whatever they name.
    pub(super) plan_records: Marks,
    pub(super) selections: Marks,
    /// Rows that lead to no plan of this folder go too.
    pub(super) dangling: bool,
    /// By pack: it is written anew without what goes, rather than left as it is.
    pub(super) rewrite: Vec<bool>,
}

impl Removal {
    /// Nothing.
    pub(super) fn none(holdings: &Holdings) -> Self {
        Self {
            plans: Marks::none(holdings.plans.len()),
            blobs: Marks::none(holdings.blobs.len()),
            plan_records: Marks::none(holdings.plan_records.len()),
            selections: Marks::none(holdings.selections.len()),
            dangling: false,
            rewrite: vec![false; holdings.packs.len()],
        }
    }

    /// Records of a kind that go whatever they name.
    pub(super) fn records(&self, kind: EntryKind) -> Option<&Marks> {
        match kind {
            EntryKind::PlanRecord => Some(&self.plan_records),
            EntryKind::Selection => Some(&self.selections),
            EntryKind::Blob | EntryKind::Plan => None,
        }
    }

    /// A plan stays after all, and with it what it needs.
    pub(super) fn spare_plan(&mut self, holdings: &Holdings, plan: u32) {
        self.plans.clear(plan);
        holdings.needs_of(plan).for_each(|blob| self.blobs.clear(blob));
    }

    /// Marks the packs in which plans stand, or are named, that must go now.
    pub(super) fn rewrite_packs_of(&mut self, holdings: &Holdings, plans: &Marks) {
        for (_, copies) in holdings.plans.entries().filter(|&(plan, _)| plans.has(plan)) {
            self.rewrite_packs(copies);
        }
        for kind in [EntryKind::PlanRecord, EntryKind::Selection] {
            for naming in holdings.namings(kind).iter().filter(|naming| plans.has(naming.plan)) {
                self.rewrite_packs(holdings.table(kind).copy(naming.record));
            }
        }
    }

    /// Marks the packs in which these copies stand.
    pub(super) fn rewrite_packs<'c>(&mut self, copies: impl IntoIterator<Item = &'c Copied>) {
        for pack in copies.into_iter().filter_map(Copied::pack) {
            if let Some(mark) = self.rewrite.get_mut(pack) {
                *mark = true;
            }
        }
    }

    /// Marks the blobs that nothing which stays needs, other than those that `spare` says may not go. Where there are plans that cannot be
    /// read, any blob may be needed.
    pub(super) fn take_unneeded_blobs(&mut self, holdings: &Holdings, spare: impl Fn(u32) -> bool) {
        if !holdings.unread_plans.is_empty() {
            return;
        }
        let mut needed = Marks::none(holdings.blobs.len());
        for &(plan, blob) in &holdings.needs {
            if !self.plans.has(plan) {
                needed.set(blob);
            }
        }
        for (blob, _) in holdings.blobs.entries() {
            if !needed.has(blob) && !spare(blob) {
                self.blobs.set(blob);
            }
        }
    }
}
