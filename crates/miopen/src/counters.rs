//! What happened so far, counted. Static atomics: counting costs an addition and never waits.

use crate::routing::Family;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! declines {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// Why a problem is not forwarded.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Decline {
            $($(#[$doc])* $name,)*
        }

        impl Decline {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// As traces and reports spell it.
            pub const fn text(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

declines! {
    /// `MIOPEN_DISABLE_HIPDNN_FOR` names its data type or its key.
    DisabledByEnv = "disabled-by-env",
    /// No plan is stored, and the miss policy is `private`.
    NoPlan = "no-plan",
    /// An execute call for a problem that no query call asked about.
    NotQueried = "not-queried",
    /// Not one to three spatial dimensions, or tensors that do not agree about it.
    Rank = "rank",
    /// A vectorised layout, CHWN, or numbers that are no strides.
    Layout = "layout",
    /// Types of x, w and y that MIOpen does not convolve together.
    Types = "types",
    /// A tensor is computed with in another type than it has.
    CastType = "cast-type",
    /// A convolution mode that MIOpen does not define.
    Mode = "mode",
    /// A data type or another thing that no graph can say, or an output that no such convolution has.
    NoGraph = "no-graph",
    /// The result is int8: sums beyond it wrap around in MIOpen and saturate in plans.
    Int8Result = "int8-result",
    /// The attribute for the alternative implementation of half convolutions is set.
    Fp16Alternative = "fp16-alternative",
    /// The handle's device cannot be told.
    NoDevice = "no-device",
    /// A plan was to be compiled, and that failed.
    NotCompiled = "not-compiled",
    /// A first call without a query, while the stream is captured.
    Capturing = "capturing",
    /// An activation other than RELU.
    Activation = "activation",
    /// A bias or an addend of other dims than the operation takes, or scalars that it does not take.
    Operands = "operands",
    /// The solution is one of MIOpen's own.
    ForeignSolution = "foreign-solution",
}

const FAMILIES: usize = Family::ALL.len();

struct Counter([AtomicU64; FAMILIES]);

impl Counter {
    const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; FAMILIES])
    }

    fn add(&self, family: Family) {
        self.0[family as usize].fetch_add(1, Relaxed);
    }

    fn get(&self, family: Family) -> u64 {
        self.0[family as usize].load(Relaxed)
    }
}

static HITS: Counter = Counter::new();
static MISSES: Counter = Counter::new();
static PRIVATE: Counter = Counter::new();
static FAILURES: Counter = Counter::new();
static DECLINES: [Counter; Decline::ALL.len()] = [const { Counter::new() }; Decline::ALL.len()];

/// A call was answered from a plan.
pub fn hit(family: Family) {
    HITS.add(family);
}

/// No plan was stored.
pub fn miss(family: Family) {
    MISSES.add(family);
}

/// A call went to MIOpen.
pub fn private_call(family: Family) {
    PRIVATE.add(family);
}

/// A call failed on the forwarded side.
pub fn failure(family: Family) {
    FAILURES.add(family);
}

/// A problem is not forwarded.
pub fn decline(family: Family, why: Decline) {
    DECLINES[why as usize].add(family);
}

/// The counters of a family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Calls answered from a plan.
    pub hits: u64,
    /// Lookups that found no plan.
    pub misses: u64,
    /// Calls that went to MIOpen.
    pub private_calls: u64,
    /// Calls that failed on the forwarded side.
    pub failures: u64,
    /// Problems declined, by reason; reasons that did not occur are left out.
    pub declines: Vec<(Decline, u64)>,
}

/// The counters of `family` now.
pub fn snapshot(family: Family) -> Snapshot {
    let declines = Decline::ALL.iter().map(|&why| (why, DECLINES[why as usize].get(family))).filter(|&(_, count)| count > 0);
    Snapshot {
        hits: HITS.get(family),
        misses: MISSES.get(family),
        private_calls: PRIVATE.get(family),
        failures: FAILURES.get(family),
        declines: declines.collect(),
    }
}
