//! A pack that is a layer of its own.

use super::packed::{open_plan, packed_plan, packed_record};
use super::verify::{self, VerifyReport};
use crate::blob::Blob;
use crate::bundle::{Trust, not_served};
use crate::entry::check_size;
use crate::faults::Faults;
use crate::pack::{Pack, PackRow};
use crate::plans::PlanBytes;
use crate::record::Record;
use crate::{EntryKind, Limits, StoreError, UpkeepProgress};
use hipplan_serialize::{Digest, PlanRef};
use std::path::Path;
use std::sync::Arc;

/// A pack, served as it is. It stays what it was when it was opened, whatever takes its name.
#[derive(Debug)]
pub(crate) struct Bundle {
    pack: Arc<Pack>,
    faults: Faults,
}

impl Bundle {
    /// Opens a bundle that is trusted far enough; `None` when there is no such file.
    pub(crate) fn open(path: &Path, trust: &Trust) -> Result<Option<Self>, StoreError> {
        let opened = Pack::open(path, &Limits::default()).map_err(|error| not_served(path, error))?;
        let Some(mut pack) = opened else { return Ok(None) };
        trust.check(&mut pack)?;
        Ok(Some(Self { pack: Arc::new(pack), faults: Faults::default() }))
    }

    pub(crate) fn path(&self) -> &Path {
        self.pack.path()
    }

    pub(crate) fn pack(&self) -> &Arc<Pack> {
        &self.pack
    }

    fn find<T>(
        &self,
        kind: EntryKind,
        name: &[u8; 32],
        take: impl FnOnce(&PackRow) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        let found = self.pack.find(kind, name).and_then(|row| row.map(|row| take(&row)).transpose());
        found.inspect_err(|error| self.faults.entry(error))
    }

    pub(crate) fn record(&self, entries: EntryKind, key: &[u8; 32], limits: &Limits) -> Result<Option<Record>, StoreError> {
        self.find(entries, key, |row| packed_record(&self.pack, row, limits))
    }

    pub(crate) fn plan(&self, plan: &PlanRef, limits: &Limits) -> Result<Option<PlanBytes>, StoreError> {
        self.find(EntryKind::Plan, &plan.root.0, |row| {
            check_size(self.path(), row.size, plan.size)?;
            open_plan(self.path(), self.pack.read(row, limits.max_plan_bytes)?, plan)
        })
    }

    pub(crate) fn blob(&self, digest: &Digest, limits: &Limits) -> Result<Option<Blob>, StoreError> {
        self.find(EntryKind::Blob, &digest.hash.0, |row| {
            check_size(self.path(), row.size, digest.size)?;
            self.pack.blob(row, limits.max_blob_bytes)
        })
    }

    pub(crate) fn plans<'s>(&'s self, limits: &'s Limits) -> impl Iterator<Item = Result<PlanRef, StoreError>> + 's {
        let rows = self.pack.rows(EntryKind::Plan);
        rows.map(move |row| packed_plan(&self.pack, &row?, limits).map(|plan| plan.view().plan_ref()))
    }

    pub(crate) fn verify(&self, limits: &Limits, progress: &dyn UpkeepProgress) -> VerifyReport {
        verify::verify_bundle(&self.pack, limits, progress)
    }
}
