//! Selections: which plans answer a request, and in which order.

use crate::layer::{Directory, check_rows};
use crate::record::{self, Record, RecordKind};
use crate::{EntryKind, Lookup, Persisted, Store, StoreError};
use hipplan_serialize::{PlanRef, SelectionKey};
use std::cell::Cell;

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
    /// before anything is written: a selection never names a plan that a power cut may still take away. Plans that only a
    /// layer below has are left to the selection there.
    ///
    /// # Errors
    /// There is no plan, or more than [`Limits::max_record_rows`](crate::Limits::max_record_rows); or one of them is not in
    /// the store or something could not be written, unless the store is one that degrades.
    pub fn put_selection(&self, key: &SelectionKey, plans: &[PlanRef]) -> Result<Persisted, StoreError> {
        if plans.is_empty() {
            return Err(StoreError::EmptySelection { key: *key });
        }
        check_rows(&EntryKind::Selection.file(self.root(), &key.0), plans.len() as u64, self.limits())?;
        let mut own = Vec::new();
        let persisted = self.put(|layer| {
            own = self.own_plans(layer, key, plans)?;
            if own.is_empty() {
                return Ok(Persisted::Unchanged);
            }
            layer.publish_record(EntryKind::Selection, RecordKind::Selection, &key.0, &own)
        })?;
        if persisted.is_news() {
            self.put_far(EntryKind::Selection, &key.0, &record::encode(RecordKind::Selection, &key.0, &own));
        }
        Ok(persisted)
    }

    /// Adds a plan to the set of those that answer a request, which has no order but that of their addresses; of plans with one key the last
    /// one added stays. Threads and processes may add to one set at once: none of what they add is lost, unless the file system refuses
    /// locks, or one of them is stopped for half a minute while it writes.
    ///
    /// # Errors
    /// As of [`put_selection`](Self::put_selection).
    pub fn add_to_set(&self, key: &SelectionKey, plan: &PlanRef) -> Result<Persisted, StoreError> {
        let mut made = None;
        let persisted = self.put(|layer| {
            if let Ok(Some(record)) = layer.record(EntryKind::Selection, &key.0, self.limits())
                && record.rows.contains(plan)
                && layer.holds(EntryKind::Selection, &key.0, &record::encode(record.kind, &key.0, &record.rows))?
            {
                return Ok(Persisted::Unchanged);
            }
            // Somebody else's addition is read before it is replaced.
            let _turn = self.turn_to_write(layer, &key.0);
            let there = self.record_to_add_to(layer, key)?;
            let record = match there {
                // Another process may not have come to its last sync.
                Some(there) if there.rows.contains(plan) => there,
                there => {
                    if self.own_plans(layer, key, &[*plan])?.is_empty() {
                        return Ok(Persisted::Unchanged);
                    }
                    self.set_with(layer, key, there.map(|there| there.rows).unwrap_or_default(), &[*plan])?
                }
            };
            let persisted = layer.publish_record(EntryKind::Selection, record.kind, &key.0, &record.rows)?;
            made = Some(record);
            Ok(persisted)
        })?;
        if persisted.is_news()
            && let Some(record) = made
        {
            self.put_far(EntryKind::Selection, &key.0, &record::encode(record.kind, &key.0, &record.rows));
        }
        Ok(persisted)
    }

    /// The record that something is about to be added to.
    pub(crate) fn record_to_add_to(&self, layer: &Directory, key: &SelectionKey) -> Result<Option<Record>, StoreError> {
        match layer.record_to_replace(EntryKind::Selection, &key.0, self.limits()) {
            // What is damaged is built again.
            Err(error) if error.is_damage() => Ok(None),
            result => result,
        }
    }

    /// The set of these plans and of those that are added to them, of which the last one of a key stays.
    pub(crate) fn set_with(
        &self,
        layer: &Directory,
        key: &SelectionKey,
        mut rows: Vec<PlanRef>,
        added: &[PlanRef],
    ) -> Result<Record, StoreError> {
        for plan in added {
            rows.retain(|other| other.key != plan.key);
            rows.push(*plan);
        }
        rows.sort_unstable();
        rows.dedup();
        check_rows(&EntryKind::Selection.file(layer.root(), &key.0), rows.len() as u64, self.limits())?;
        Ok(Record { kind: RecordKind::Set, rows })
    }

    /// The plans that answer a request: those of each layer behind those of the layers before it; where no layer has any, those of the far
    /// tier. They are not looked at; one that cannot be had any more is a miss of its own.
    pub fn find_selection(&self, key: &SelectionKey) -> Lookup<Selection> {
        let mut plans: Vec<PlanRef> = Vec::new();
        let is_near = Cell::new(false);
        let found = self.lookup(
            |layer| {
                let Some(record) = layer.record(EntryKind::Selection, &key.0, self.limits())? else { return Ok(None) };
                // Few: a scan is the cheapest way to find repeats.
                let new: Vec<_> = record.rows.into_iter().filter(|plan| !plans.contains(plan)).collect();
                plans.extend(new);
                is_near.set(true);
                // On to the next layer.
                Ok(None)
            },
            || if is_near.get() { None } else { self.pull_selection(key) },
        );
        match found {
            Lookup::Miss(_) if !plans.is_empty() => Lookup::Hit(Selection { plans }),
            found => found,
        }
    }

    /// Those of these plans that the writable layer holds, durably. The others must be in a layer below.
    pub(crate) fn own_plans(&self, layer: &Directory, key: &SelectionKey, plans: &[PlanRef]) -> Result<Vec<PlanRef>, StoreError> {
        let mut own = Vec::with_capacity(plans.len());
        for plan in plans {
            match require_plan(layer, key, plan, false) {
                Ok(()) => own.push(*plan),
                Err(StoreError::MissingTarget { .. }) if self.is_below(plan) => {}
                // Upkeep may have taken it away for a moment.
                Err(StoreError::MissingTarget { .. }) => {
                    require_plan(layer, key, plan, true)?;
                    own.push(*plan);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(own)
    }

    /// Those of these plans that the writable layer holds now, durably.
    pub(crate) fn own_plans_now(&self, layer: &Directory, key: &SelectionKey, plans: &[PlanRef]) -> Result<Vec<PlanRef>, StoreError> {
        let mut own = Vec::with_capacity(plans.len());
        for plan in plans {
            match require_plan(layer, key, plan, false) {
                Ok(()) => own.push(*plan),
                Err(StoreError::MissingTarget { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(own)
    }

    /// Whether a layer that is not written has a plan.
    pub(crate) fn is_below(&self, plan: &PlanRef) -> bool {
        self.layers().iter().skip(1).any(|layer| matches!(layer.plan(plan, self.limits()), Ok(Some(_))))
    }
}

/// Checks that a plan that a selection is about to name is there, durably, and its record too: a put of the plan may have failed in between.
fn require_plan(layer: &Directory, key: &SelectionKey, plan: &PlanRef, waits: bool) -> Result<(), StoreError> {
    let require = |kind, name, size, what| {
        let missing = |path| StoreError::MissingTarget { path, what, named_by: format!("selection {key}") };
        if waits { layer.require_durable(kind, name, size, missing) } else { layer.require_now(kind, name, size, missing) }
    };
    require(EntryKind::Plan, &plan.root.0, plan.size, "plan")?;
    require(EntryKind::PlanRecord, &plan.key.0, record::size_of_rows(1), "record of the plan")
}
