//! Layers of a store: folders, and packs that are served as they are.

mod access;
mod bundle;
mod directory;
mod durable;
mod listing;
mod packed;
mod packs;
mod publish;
mod quarantine;
mod require;
mod stamps;
mod verify;
pub(crate) mod walk;

pub(crate) use crate::entry::{check_blob_size, check_plan_size, check_rows};
pub(crate) use access::Access;
pub(crate) use bundle::Bundle;
pub(crate) use directory::Directory;
pub(crate) use packed::{check_packed, checked_plan, open_plan, packed_plan, packed_record};
pub(crate) use stamps::hours;
pub use verify::VerifyReport;
pub(crate) use verify::{misplaced, verify_bundle};

use crate::blob::Blob;
use crate::pack::Pack;
use crate::plans::PlanBytes;
use crate::record::Record;
use crate::upkeep::{self, EntryInfo, StoreStat};
use crate::{EntryKind, Limits, StoreError, UpkeepProgress};
use hipplan_serialize::{Digest, PlanRef};
use std::path::Path;
use std::sync::Arc;

/// One layer. Whatever is wrong with an entry has been warned of when it is an error here.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a store has a few, each behind a pointer of its own")]
pub(crate) enum Layer {
    Directory(Directory),
    Bundle(Bundle),
}

impl Layer {
    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Directory(directory) => directory.root(),
            Self::Bundle(bundle) => bundle.path(),
        }
    }

    /// Whether there is anything to look into.
    pub(crate) fn is_usable(&self) -> bool {
        match self {
            Self::Directory(directory) => directory.unavailable().is_none(),
            Self::Bundle(_) => true,
        }
    }

    /// Its packs, newest first, and what keeps others from being used.
    pub(crate) fn packs(&self) -> (Vec<Arc<Pack>>, Vec<StoreError>) {
        match self {
            Self::Directory(directory) => directory.packs().listed(),
            Self::Bundle(bundle) => (vec![bundle.pack().clone()], Vec::new()),
        }
    }

    /// The folder whose loose files may be used, if there is one.
    pub(crate) fn loose_root(&self) -> Option<&Path> {
        match self {
            Self::Directory(directory) => directory.loose_root(),
            Self::Bundle(_) => None,
        }
    }

    /// The record of a key.
    pub(crate) fn record(&self, entries: EntryKind, key: &[u8; 32], limits: &Limits) -> Result<Option<Record>, StoreError> {
        match self {
            Self::Directory(directory) => directory.record(entries, key, limits),
            Self::Bundle(bundle) => bundle.record(entries, key, limits),
        }
    }

    /// The plan file of an address.
    pub(crate) fn plan(&self, plan: &PlanRef, limits: &Limits) -> Result<Option<PlanBytes>, StoreError> {
        match self {
            Self::Directory(directory) => directory.plan(plan, limits),
            Self::Bundle(bundle) => bundle.plan(plan, limits),
        }
    }

    /// The blob of a digest.
    pub(crate) fn blob(&self, digest: &Digest, limits: &Limits) -> Result<Option<Blob>, StoreError> {
        match self {
            Self::Directory(directory) => directory.blob(digest, limits),
            Self::Bundle(bundle) => bundle.blob(digest, limits),
        }
    }

    /// Every plan of it, ascending by root hash.
    pub(crate) fn plans<'s>(&'s self, limits: &'s Limits) -> Box<dyn Iterator<Item = Result<PlanRef, StoreError>> + 's> {
        match self {
            Self::Directory(directory) => Box::new(directory.plans(limits)),
            Self::Bundle(bundle) => Box::new(bundle.plans(limits)),
        }
    }

    /// Adds to a report what it holds and what is wrong with it.
    pub(crate) fn verify(&self, limits: &Limits, progress: &dyn UpkeepProgress) -> VerifyReport {
        match self {
            Self::Directory(directory) => directory.verify(limits, progress),
            Self::Bundle(bundle) => bundle.verify(limits, progress),
        }
    }

    /// Counts what it holds.
    pub(crate) fn stat(&self) -> Result<StoreStat, StoreError> {
        match self {
            Self::Directory(directory) => upkeep::stat_directory(directory),
            Self::Bundle(bundle) => upkeep::stat_bundle(bundle.pack()),
        }
    }

    /// Every copy of every entry of a kind.
    pub(crate) fn entries(&self, kind: EntryKind) -> Box<dyn Iterator<Item = Result<EntryInfo, StoreError>>> {
        match self {
            Self::Directory(directory) => Box::new(upkeep::entries_of_directory(directory, kind)),
            Self::Bundle(bundle) => Box::new(upkeep::entries_of_pack(bundle.pack().clone(), kind)),
        }
    }
}
