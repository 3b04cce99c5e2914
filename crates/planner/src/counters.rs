//! What a process has saved: requests that a store answered, those that it did not and why, and what compiling cost.

use crate::lack::LackReason;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counts of a process, kept by its [`Providers`](crate::Providers). Any number of threads may count at once.
#[derive(Debug, Default)]
pub struct Counters {
    hits: AtomicU64,
    /// By reason, in the order of [`LackReason::ALL`].
    misses: [AtomicU64; LackReason::ALL.len()],
    compiled: AtomicU64,
    compile_ns: AtomicU64,
}

/// The counts at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Requests that the store answered.
    pub hits: u64,
    /// Requests that it did not, by reason, in the order of [`LackReason::ALL`].
    pub misses: [u64; LackReason::ALL.len()],
    /// Graphs that were compiled.
    pub compiled: u64,
    /// Time that compiling them took, of all threads together.
    pub compile_time: Duration,
}

impl Counters {
    /// A request that the store answered.
    pub fn hit(&self) {
        self.hits.fetch_add(1, Ordering::Relaxed);
    }

    /// A request that the store did not answer.
    pub fn miss(&self, reason: LackReason) {
        if let Some(count) = self.misses.get(reason as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn compiled(&self, time: Duration) {
        self.compiled.fetch_add(1, Ordering::Relaxed);
        self.compile_ns.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// The counts now. Those of work under way may be told in part.
    pub fn get(&self) -> Counts {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counts {
            hits: get(&self.hits),
            misses: self.misses.each_ref().map(get),
            compiled: get(&self.compiled),
            compile_time: Duration::from_nanos(get(&self.compile_ns)),
        }
    }
}

impl Counts {
    /// Requests that the store did not answer, for this reason.
    pub fn missed(&self, reason: LackReason) -> u64 {
        self.misses.get(reason as usize).copied().unwrap_or(0)
    }

    /// Requests that the store did not answer.
    pub fn all_missed(&self) -> u64 {
        self.misses.iter().sum()
    }

    /// What compiling the hits would have cost, at the mean of what this process did compile: an estimate, and none where it compiled
    /// nothing.
    pub fn time_not_needed(&self) -> Option<Duration> {
        if self.compiled == 0 {
            return None;
        }
        let seconds = self.compile_time.as_secs_f64() / self.compiled as f64 * self.hits as f64;
        Duration::try_from_secs_f64(seconds).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_counted_under_its_reason() {
        let counters = Counters::default();
        assert_eq!(counters.get().time_not_needed(), None);
        for (i, reason) in LackReason::ALL.into_iter().enumerate() {
            (0..=i).for_each(|_| counters.miss(reason));
        }
        (0..3).for_each(|_| counters.hit());
        assert_eq!(counters.get().time_not_needed(), None, "nothing to go by");
        counters.compiled(Duration::from_secs(1));
        counters.compiled(Duration::from_secs(3));
        let counts = counters.get();
        assert_eq!((counts.hits, counts.misses, counts.all_missed(), counts.compiled), (3, [1, 2, 3, 4], 10, 2));
        assert_eq!(LackReason::ALL.map(|reason| counts.missed(reason)), [1, 2, 3, 4]);
        assert_eq!((counts.compile_time, counts.time_not_needed()), (Duration::from_secs(4), Some(Duration::from_secs(6))));
    }
}
