//! What an entry names, from its bytes.

use crate::plans::code_objects;
use crate::{EntryKind, record};
use hipplan_serialize::aligned::aligned_copy;
use hipplan_serialize::plan::PlanView;

/// An entry that another one names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) kind: EntryKind,
    pub(crate) name: [u8; 32],
    /// Its bytes, as whoever names it says.
    pub(crate) size: u64,
}

impl Target {
    pub(crate) fn key(&self) -> (EntryKind, [u8; 32]) {
        (self.kind, self.name)
    }
}

/// The code objects of a plan, the plans of a record; nothing of a blob, nor of what cannot be read.
pub(crate) fn targets(kind: EntryKind, name: &[u8; 32], bytes: &[u8]) -> Vec<Target> {
    match kind {
        EntryKind::Blob => Vec::new(),
        EntryKind::Plan => {
            let copy = aligned_copy(bytes);
            let Ok(plan) = PlanView::open(&copy) else { return Vec::new() };
            code_objects(&plan).map(|blob| Target { kind: EntryKind::Blob, name: blob.hash.0, size: blob.size }).collect()
        }
        EntryKind::PlanRecord | EntryKind::Selection => {
            let rows = record::decode(kind, name, bytes).map(|record| record.rows).unwrap_or_default();
            rows.into_iter().map(|plan| Target { kind: EntryKind::Plan, name: plan.root.0, size: plan.size }).collect()
        }
    }
}
