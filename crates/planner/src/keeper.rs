//! Where compiled plans go: each at once, or many together.

use hipplan_serialize::{Digest, PlanRef, SelectionKey};
use hipplan_store::{Group, Persisted, Put, Store, StoreError};

/// Where compiled plans go.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Keeper<'k> {
    /// Into the store, each at once.
    Store(&'k Store),
    /// Into a group of puts, which are in the store when it has been committed.
    Group(&'k Group),
}

impl Keeper<'_> {
    pub(crate) fn put_blob(self, blob: &[u8]) -> Result<Put<Digest>, StoreError> {
        match self {
            Self::Store(store) => store.put_blob(blob),
            Self::Group(group) => group.put_blob(blob),
        }
    }

    pub(crate) fn put_plan(self, plan: &[u8]) -> Result<Put<PlanRef>, StoreError> {
        match self {
            Self::Store(store) => store.put_plan(plan),
            Self::Group(group) => group.put_plan(plan),
        }
    }

    pub(crate) fn put_selection(self, key: &SelectionKey, plans: &[PlanRef]) -> Result<Persisted, StoreError> {
        match self {
            Self::Store(store) => store.put_selection(key, plans),
            Self::Group(group) => group.put_selection(key, plans),
        }
    }

    pub(crate) fn add_to_set(self, key: &SelectionKey, plan: &PlanRef) -> Result<Persisted, StoreError> {
        match self {
            Self::Store(store) => store.add_to_set(key, plan),
            Self::Group(group) => group.add_to_set(key, plan),
        }
    }
}
