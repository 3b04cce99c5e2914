//! What has been done.

use crate::types::hipplan_counters_t;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub(crate) fn add_one(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Those of a library handle and its plans.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) lookups: Counter,
    pub(crate) hits: Counter,
    pub(crate) misses: Counter,
    pub(crate) compiles: Counter,
    pub(crate) binds: Counter,
    pub(crate) module_loads: Counter,
    pub(crate) executions: Counter,
    pub(crate) failures: Counter,
}

impl Counters {
    pub(crate) fn read(&self) -> hipplan_counters_t {
        hipplan_counters_t {
            struct_size: size_of::<hipplan_counters_t>(),
            lookups: self.lookups.get(),
            hits: self.hits.get(),
            misses: self.misses.get(),
            compiles: self.compiles.get(),
            binds: self.binds.get(),
            module_loads: self.module_loads.get(),
            executions: self.executions.get(),
            failures: self.failures.get(),
        }
    }
}
