//! What there is to tell of a bundle.

use super::merge::open_any;
use super::sign::{SignatureStanding, standings};
use crate::layer::{VerifyReport, verify_bundle};
use crate::{EntryKind, Limits, StoreError, UpkeepProgress};
use hipplan_serialize::ContentHash;
use std::path::Path;
use std::sync::Arc;

/// What is in a bundle. Its tables have been checked.
#[derive(Debug)]
#[non_exhaustive]
pub struct BundleFacts {
    /// Digest of header, tables and provenance: what signatures are over.
    pub root: ContentHash,
    /// Length of the file, unwrapped.
    pub bytes: u64,
    /// It is inside zstd.
    pub is_wrapped: bool,
    /// Number of entries by kind, in the order of [`EntryKind::ALL`].
    pub entries: [u64; 4],
    /// Where it comes from.
    pub provenance: Vec<String>,
    /// Its signatures.
    pub signatures: Vec<SignatureStanding>,
    /// What is found when every entry is checked, if that was asked for.
    pub report: Option<VerifyReport>,
}

/// Reads what there is to tell of a bundle; `verify` checks every byte of every entry too. One that is wrapped is unwrapped into a file in
/// the folder `tmp` that is gone afterwards.
///
/// # Errors
/// It is no bundle, or its tables are damaged.
pub fn bundle_facts(path: &Path, tmp: &Path, verify: bool, limits: &Limits) -> Result<BundleFacts, StoreError> {
    bundle_facts_with(path, tmp, verify, limits, &())
}

/// As [`bundle_facts`], telling how far it has come.
///
/// # Errors
/// As there.
pub fn bundle_facts_with(
    path: &Path,
    tmp: &Path,
    verify: bool,
    limits: &Limits,
    progress: &dyn UpkeepProgress,
) -> Result<BundleFacts, StoreError> {
    let is_wrapped = super::is_wrapped(path)?;
    let pack = Arc::new(open_any(path, tmp, limits)?);
    pack.check_root()?;
    Ok(BundleFacts {
        root: ContentHash(*pack.root()),
        bytes: pack.bytes(),
        is_wrapped,
        entries: EntryKind::ALL.map(|kind| u64::from(pack.len(kind))),
        provenance: pack.provenance()?,
        signatures: standings(&pack)?,
        report: verify.then(|| verify_bundle(&pack, limits, progress)),
    })
}
