//! Selections: which plans answer a request, and in which order.

use crate::layout::EntryKind;
use crate::record::RecordKind;
use crate::{Lookup, Persisted, Store, StoreError};
use hipplan_serialize::{PlanRef, SelectionKey};

/// The plans that answer a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// Best first, at least one.
    pub plans: Vec<PlanRef>,
}

impl Store {
    /// Lets a request name these plans, best first, in place of those that it named before.
    ///
    /// The plans must have been put before. Each is looked for, and made durable if another process has only just put it,
    /// before anything is written: a selection never names a plan that a power cut may still take away.
    ///
    /// # Errors
    /// There is no plan, or more than [`Limits::max_record_rows`](crate::Limits::max_record_rows); or one of them is not in
    /// the store or something could not be written, unless the store is one that degrades.
    pub fn put_selection(&self, key: &SelectionKey, plans: &[PlanRef]) -> Result<Persisted, StoreError> {
        if plans.is_empty() {
            return Err(StoreError::EmptySelection { key: *key });
        }
        self.check_rows(&EntryKind::Selection.file(self.root(), &key.0), plans.len() as u64)?;
        self.put(|| {
            for plan in plans {
                self.require_durable(EntryKind::Plan, &plan.root.0, plan.size, |path| StoreError::MissingTarget {
                    path,
                    what: "plan",
                    named_by: format!("selection {key}"),
                })?;
            }
            self.publish_record(EntryKind::Selection, RecordKind::Selection, &key.0, plans)
        })
    }

    /// The plans that answer a request: one small file is read. They are not looked at; one that cannot be had any more
    /// is a miss of its own.
    pub fn find_selection(&self, key: &SelectionKey) -> Lookup<Selection> {
        self.lookup(|| {
            let rows = self.read_record(EntryKind::Selection, RecordKind::Selection, &key.0)?;
            Ok(rows.map(|plans| Selection { plans }))
        })
    }
}
