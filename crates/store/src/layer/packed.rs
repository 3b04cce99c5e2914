//! Entries of packs, and what they must be.

use crate::entry::{check_content, check_rows};
use crate::pack::{Pack, PackRow};
use crate::plans::{PlanBytes, check_root, damaged};
use crate::record::{self, Record};
use crate::{EntryKind, Limits, StoreError};
use hipplan_serialize::{AlignedBytes, PlanRef};
use std::path::Path;

/// The plan of an address, from the bytes that stand there.
pub(crate) fn open_plan(path: &Path, bytes: AlignedBytes, plan: &PlanRef) -> Result<PlanBytes, StoreError> {
    let bytes = PlanBytes::open(path, bytes)?;
    let found = check_root(path, &bytes.view(), &plan.root.0)?;
    check_content(path, "plan key", &found.key, &plan.key)?;
    Ok(bytes)
}

/// A plan of a pack that opens and is the one that its row says.
pub(crate) fn packed_plan(pack: &Pack, row: &PackRow, limits: &Limits) -> Result<PlanBytes, StoreError> {
    let bytes = PlanBytes::open(pack.path(), pack.read(row, limits.max_plan_bytes)?)?;
    check_root(pack.path(), &bytes.view(), &row.name)?;
    Ok(bytes)
}

/// The same plan, if all of its bytes are good.
pub(crate) fn checked_plan(pack: &Pack, row: &PackRow, limits: &Limits) -> Result<PlanBytes, StoreError> {
    let plan = packed_plan(pack, row, limits)?;
    plan.view().verify().map_err(damaged(pack.path()))?;
    Ok(plan)
}

/// The record of a row.
pub(crate) fn packed_record(pack: &Pack, row: &PackRow, limits: &Limits) -> Result<Record, StoreError> {
    check_rows(pack.path(), record::rows_in(row.size), limits)?;
    let bytes = pack.read(row, row.size)?;
    record::decode(row.kind, &row.name, &bytes).map_err(|cause| StoreError::Record { path: pack.path().to_owned(), cause })
}

/// Every byte of an entry is what its row says, and what its name says.
pub(crate) fn check_packed(pack: &Pack, row: &PackRow, limits: &Limits) -> Result<(), StoreError> {
    match row.kind {
        // The digest of a blob's row is its name.
        EntryKind::Blob => pack.check_value(row),
        EntryKind::Plan => checked_plan(pack, row, limits).map(drop),
        EntryKind::PlanRecord | EntryKind::Selection => packed_record(pack, row, limits).map(drop),
    }
}
