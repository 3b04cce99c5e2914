//! The problems met so far, each with the side it is on: a hash table that only grows.
//!
//! Looking up takes no lock and allocates nothing: readers follow atomic pointers to entries that are never freed. A grown index is
//! published whole, the old one stays for whoever still reads it. Entries are added under a lock that a fork leaves usable. What a problem
//! needs is built by one thread, and others that ask for the same problem wait for it; nobody waits for another problem.

use crate::counters::Decline;
use crate::hipplan::Plan;
use crate::lock::{ForkLock, ProcessLock};
use crate::problem::ProblemKey;
use hipplan_miopen_abi::status::Status;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// A bound plan of `libhipplan.so.0`.
#[derive(Debug, Clone, Copy)]
pub struct Bound {
    /// The plan, never released.
    pub plan: *mut Plan,
    /// Bytes of workspace that it needs.
    pub workspace: u64,
}

// SAFETY: a plan may be executed by several threads at once, as hipplan.h says.
unsafe impl Send for Bound {}
// SAFETY: as above.
unsafe impl Sync for Bound {}

/// What a forwarded problem is executed with.
#[derive(Debug, Clone, Copy)]
pub struct Forwarded {
    /// The plan.
    pub plan: Bound,
    /// One that needs less workspace, where one is stored.
    pub small: Option<Bound>,
    /// `alpha` times the sums, where it is stored.
    pub scaled: Option<Bound>,
    /// With `alpha` and `beta`, where it is stored.
    pub bilinear: Option<Bound>,
    /// The number under which immediate mode knows it.
    pub solution: u64,
}

impl Forwarded {
    /// The plan that a workspace of this size is enough for.
    #[inline]
    pub fn within(&self, workspace: usize) -> Option<Bound> {
        if self.plan.workspace <= workspace as u64 {
            return Some(self.plan);
        }
        self.small.filter(|small| small.workspace <= workspace as u64)
    }
}

/// Where a problem's calls go, for as long as the process lives.
#[derive(Debug)]
pub enum Side {
    /// To a plan.
    Forwarded(Forwarded),
    /// To MIOpen, and why.
    Private(Decline),
    /// Nowhere.
    Refused {
        /// What the calls return.
        status: Status,
        /// The code on record.
        code: i32,
        /// The text on record.
        text: String,
    },
}

/// A problem.
#[derive(Debug)]
pub struct Entry {
    hash: u64,
    /// The problem.
    pub key: ProblemKey,
    side: OnceLock<Side>,
    /// One thread builds.
    building: ProcessLock,
    /// Milliseconds of the last find, as bits; all ones for none.
    measured: AtomicU32,
    /// Variants that the recorder has written, a bit each.
    pub recorded: AtomicU64,
}

const UNMEASURED: u32 = u32::MAX;

impl Entry {
    fn new(hash: u64, key: ProblemKey) -> Self {
        Self {
            hash,
            key,
            side: OnceLock::new(),
            building: ProcessLock::new(),
            measured: AtomicU32::new(UNMEASURED),
            recorded: AtomicU64::new(0),
        }
    }

    /// The side, if it is decided.
    #[inline]
    pub fn side(&self) -> Option<&Side> {
        self.side.get()
    }

    /// The side, decided now by `build` if it is not. An error leaves it open, for the next call to try again.
    ///
    /// # Errors
    /// Those of `build`.
    pub fn decide<E>(&self, build: impl FnOnce() -> Result<Side, E>) -> Result<&Side, E> {
        let _building = match self.building.lock_unless(|| self.side.get()) {
            Ok(guard) => guard,
            Err(side) => return Ok(side),
        };
        let side = build()?;
        Ok(self.side.get_or_init(|| side))
    }

    /// Milliseconds of the last find.
    pub fn measured(&self) -> Option<f32> {
        Some(self.measured.load(Ordering::Relaxed)).filter(|&bits| bits != UNMEASURED).map(f32::from_bits)
    }

    /// Sets the milliseconds of a find.
    pub fn set_measured(&self, ms: f32) {
        self.measured.store(ms.to_bits(), Ordering::Relaxed);
    }
}

/// Open addressing, at most half full.
#[derive(Debug)]
struct Index {
    slots: Box<[AtomicPtr<Entry>]>,
}

impl Index {
    /// `size` is a power of two.
    fn new(size: usize) -> Self {
        Self { slots: (0..size).map(|_| AtomicPtr::new(ptr::null_mut())).collect() }
    }

    /// The entry of a key, or the free slot where it belongs.
    #[inline]
    fn probe(&self, hash: u64, key: &ProblemKey) -> Result<&'static Entry, &AtomicPtr<Entry>> {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let slot = &self.slots[at];
            // SAFETY: entries are leaked, so a pointer to one stays good.
            match unsafe { slot.load(Ordering::Acquire).as_ref() } {
                Some(entry) if entry.hash == hash && entry.key == *key => return Ok(entry),
                Some(_) => at = (at + 1) & mask,
                None => return Err(slot),
            }
        }
    }
}

/// The table.
#[derive(Debug)]
pub struct Table {
    index: AtomicPtr<Index>,
    count: ForkLock<usize>,
}

const FIRST_SIZE: usize = 256;

impl Table {
    /// Without entries.
    pub const fn new() -> Self {
        Self { index: AtomicPtr::new(ptr::null_mut()), count: ForkLock::new(0) }
    }

    fn index(&self) -> Option<&'static Index> {
        // SAFETY: indices are leaked, so a pointer to one stays good.
        unsafe { self.index.load(Ordering::Acquire).as_ref() }
    }

    /// The entry of a problem that has been asked about.
    #[inline]
    pub fn find(&self, key: &ProblemKey) -> Option<&'static Entry> {
        self.index()?.probe(key.hash(), key).ok()
    }

    /// The entry of a problem, a new one if need be.
    pub fn find_or_insert(&self, key: &ProblemKey) -> &'static Entry {
        let hash = key.hash();
        if let Some(entry) = self.index().and_then(|index| index.probe(hash, key).ok()) {
            return entry;
        }
        let mut count = self.count.lock();
        let index = match self.index() {
            Some(index) if *count < index.slots.len() / 2 => index,
            old => self.grow(old),
        };
        match index.probe(hash, key) {
            Ok(entry) => entry,
            Err(slot) => {
                let entry: &'static Entry = Box::leak(Box::new(Entry::new(hash, *key)));
                slot.store(ptr::from_ref(entry).cast_mut(), Ordering::Release);
                *count += 1;
                entry
            }
        }
    }

    /// An index of twice the size with the same entries, published.
    fn grow(&self, old: Option<&'static Index>) -> &'static Index {
        let new: &'static Index = Box::leak(Box::new(Index::new(old.map_or(FIRST_SIZE, |old| old.slots.len() * 2))));
        for slot in old.map_or(&[][..], |old| &old.slots) {
            // SAFETY: entries are leaked.
            if let Some(entry) = unsafe { slot.load(Ordering::Acquire).as_ref() }
                && let Err(free) = new.probe(entry.hash, &entry.key)
            {
                free.store(ptr::from_ref(entry).cast_mut(), Ordering::Release);
            }
        }
        self.index.store(ptr::from_ref(new).cast_mut(), Ordering::Release);
        new
    }
}

impl Default for Table {
    fn default() -> Self {
        Self::new()
    }
}

static TABLE: Table = Table::new();

/// The process's table.
#[inline]
pub fn table() -> &'static Table {
    &TABLE
}

/// What a fork waits for.
pub(crate) fn writer() -> &'static ForkLock<usize> {
    &TABLE.count
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytemuck::Zeroable;
    use std::sync::atomic::AtomicUsize;

    fn key(number: i64) -> ProblemKey {
        let mut key = ProblemKey::zeroed();
        key.tensors[0].dims[0] = number;
        key
    }

    #[test]
    fn entries_are_found_while_the_table_grows() {
        let table = Table::new();
        assert!(table.find(&key(0)).is_none());
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let table = &table;
                scope.spawn(move || {
                    for number in 0..2000 {
                        // Half of the keys are shared.
                        let number = if number % 2 == 0 { number } else { number + thread * 10_000 };
                        let entry = table.find_or_insert(&key(number));
                        assert_eq!(entry.key, key(number));
                        assert!(ptr::eq(entry, table.find(&key(number)).expect("just inserted")));
                    }
                });
            }
        });
        assert_eq!(*table.count.lock(), 1000 + 4 * 1000);
        for number in (0..2000).step_by(2) {
            assert!(table.find(&key(number)).is_some());
        }
        assert!(table.find(&key(-1)).is_none());
    }

    #[test]
    fn one_thread_builds_and_failure_leaves_it_open() {
        let table = Table::new();
        let entry = table.find_or_insert(&key(1));
        assert_eq!(entry.decide(|| Err("no")).err(), Some("no"));
        assert!(entry.side().is_none());
        let built = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let side = entry.decide(|| {
                        built.fetch_add(1, Ordering::Relaxed);
                        std::thread::sleep(std::time::Duration::from_millis(5));
                        Ok::<_, ()>(Side::Private(Decline::NoPlan))
                    });
                    assert!(matches!(side, Ok(Side::Private(Decline::NoPlan))));
                });
            }
        });
        assert_eq!(built.into_inner(), 1);
        // What a panic leaves behind is open again.
        let other = table.find_or_insert(&key(2));
        let panicked = std::panic::catch_unwind(|| other.decide(|| -> Result<Side, ()> { panic!("a defect") }).map(|_| ()));
        assert!(panicked.is_err());
        assert!(other.decide(|| Ok::<_, ()>(Side::Private(Decline::NoPlan))).is_ok());
    }

    #[test]
    fn a_builder_that_a_fork_left_behind_is_replaced() {
        let entry = Entry { building: ProcessLock::left_by(1), ..Entry::new(3, key(3)) };
        assert!(entry.decide(|| Ok::<_, ()>(Side::Private(Decline::NoPlan))).is_ok());
    }

    #[test]
    fn a_find_is_remembered() {
        let entry = Table::new().find_or_insert(&key(4));
        assert_eq!(entry.measured(), None);
        entry.set_measured(1.5);
        assert_eq!(entry.measured(), Some(1.5));
    }
}
