//! The plan store: immutable objects, and an index of small records that name them.
//!
//! The layout on disk, the order of writes and what a power cut may lose are written down in `docs/format.md`.
//!
//! * [`Store::open`] fails when the place is not usable; [`Store::open_or_degrade`] never does and goes on without
//!   persistence, with one warning.
//! * Lookups give a [`Lookup`], never an error: whatever is wrong with a file is a miss for that one entry, with the reason.
//! * Puts are idempotent, and put right what they find damaged. When a put returns [`Persisted`] other than `No`, what it put
//!   survives a power cut.
//! * Puts keep one order: blobs, then the plans that name them, then the selections that name the plans. A put whose
//!   targets are not there is refused, so no record ever names what is not durable.
//! * Readers take no lock, and neither do puts of blobs and plans: a store can be shared by reference, cloned, sent to other threads and
//!   opened by any number of processes. Locks save double work: of builds ([`Store::turn`]), of upkeep, and of those who add to one set.
//!   Where they are refused, work goes on without.
//!
//! A hash is not a signature: who may write into a store's folder decides what its readers execute.
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable,
        reason = "whatever is wrong with a file must not make its reader panic"
    )
)]

mod blob;
mod bundle;
mod entry;
mod error;
mod far;
mod faults;
mod fork;
mod fs;
mod layer;
mod layout;
mod limits;
mod location;
mod marker;
mod memo;
mod outcome;
mod pack;
mod plans;
mod push;
pub mod record;
mod remote;
mod selections;
mod selftest;
mod store;
mod targets;
mod turn;
mod upkeep;
mod waits;

pub use blob::Blob;
pub use bundle::{
    BundleFacts, ExportReport, ExportedPlan, ImportReport, KeyError, LayerOptions, LayerOptionsError, MergeReport, NamedLayer, PublicKey,
    SecretKey, SignaturePolicy, SignatureStanding, bundle_facts, bundle_facts_with, is_wrapped, merge_bundles, merge_bundles_with,
    read_trusted_keys, sign_bundle, unwrap_bundle, wrap_bundle,
};
pub use error::StoreError;
pub use far::RemoteOptions;
pub use layer::VerifyReport;
pub use layout::EntryKind;
pub use limits::Limits;
pub use location::{Candidate, Location, LocationSource, Verdict, locate, locate_with, look_at_layer};
pub use outcome::{Lookup, Miss, Persisted, Put};
pub use pack::{EntryId, PackError, PackFacts, check_pack, find_in_pack};
pub use plans::PlanBytes;
pub use push::PushReport;
pub use record::RecordError;
pub use remote::{RemoteError, RemoteErrorKind, RemoteTier};
pub use selections::Selection;
pub use selftest::{SelftestCheck, SelftestOptions, SelftestOutcome, SelftestReport, selftest, selftest_child, selftest_probes};
pub use store::{Mode, Store};
pub use turn::{Turn, TurnOptions, Turned};
pub use upkeep::{
    CompactOptions, CompactReport, EntryInfo, GcOptions, GcReport, Group, KindStat, Pin, PinSet, RemoveReport, RepairOptions, RepairReport,
    StoreStat, UpkeepProgress, Usage,
};

/// Seeing and failing every call to the file system, for tests.
#[cfg(any(test, feature = "testing"))]
pub mod testing {
    pub use crate::fs::{Hook, Op, Verdict, with_hook};
    pub use crate::pack::testing::{FoundRow, OpenPack, maps_in, write_pack};
    pub use crate::upkeep::set_claim_age;
    pub use crate::waits::with_longest_wait;

    /// Waits for the turn at a key, as a store does before it builds.
    pub fn take_turn<T>(
        root: Option<&std::path::Path>,
        key: &[u8; 32],
        options: &crate::TurnOptions,
        look: &mut dyn FnMut() -> Option<T>,
    ) -> crate::Turned<T> {
        crate::turn::take(root, key, crate::turn::Purpose::Build, options, look)
    }
}
