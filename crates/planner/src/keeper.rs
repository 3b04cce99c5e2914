//! Where compiled plans go: each at once, or many together.

use hipplan_serialize::{Digest, PlanRef, SelectionKey};
use hipplan_store::{Group, Persisted, Put, Store, StoreError};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Compiling that took this long is expensive.
const EXPENSIVE: Duration = Duration::from_millis(100);

/// Where compiled plans go.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Keeper<'k> {
    /// Into the store, each at once.
    Store(&'k Store),
    /// Into a group of puts, which are in the store when it has been committed.
    Group(Grouped<'k>),
}

/// A group, and what it is not for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grouped<'k> {
    pub(crate) group: &'k Group,
    /// That of the group.
    pub(crate) store: &'k Store,
    /// Plans that went into the store at once all the same.
    pub(crate) at_once: &'k AtomicUsize,
}

impl Keeper<'_> {
    /// Where a plan goes that took this long to compile. What was expensive is not kept waiting: others may have waited for it, in whatever
    /// process, and find it in the store alone.
    pub(crate) fn after(self, compiling: Duration) -> Self {
        match self {
            Self::Group(grouped) if compiling >= EXPENSIVE => {
                grouped.at_once.fetch_add(1, Ordering::Relaxed);
                Self::Store(grouped.store)
            }
            keeper => keeper,
        }
    }

    pub(crate) fn put_blob(self, blob: &[u8]) -> Result<Put<Digest>, StoreError> {
        match self {
            Self::Store(store) => store.put_blob(blob),
            Self::Group(Grouped { group, .. }) => group.put_blob(blob),
        }
    }

    pub(crate) fn put_plan(self, plan: &[u8]) -> Result<Put<PlanRef>, StoreError> {
        match self {
            Self::Store(store) => store.put_plan(plan),
            Self::Group(Grouped { group, .. }) => group.put_plan(plan),
        }
    }

    pub(crate) fn put_selection(self, key: &SelectionKey, plans: &[PlanRef]) -> Result<Persisted, StoreError> {
        match self {
            Self::Store(store) => store.put_selection(key, plans),
            Self::Group(Grouped { group, .. }) => group.put_selection(key, plans),
        }
    }

    pub(crate) fn add_to_set(self, key: &SelectionKey, plan: &PlanRef) -> Result<Persisted, StoreError> {
        match self {
            Self::Store(store) => store.add_to_set(key, plan),
            Self::Group(Grouped { group, .. }) => group.add_to_set(key, plan),
        }
    }
}
