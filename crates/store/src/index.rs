//! Records on disk.

use crate::entry::{self, check_limit};
use crate::layout::EntryKind;
use crate::record::{self, RecordKind};
use crate::{Persisted, Store, StoreError};
use hipplan_serialize::PlanRef;
use std::path::Path;

impl Store {
    /// The rows of a record.
    pub(crate) fn read_record(&self, folder: EntryKind, kind: RecordKind, key: &[u8; 32]) -> Result<Option<Vec<PlanRef>>, StoreError> {
        let path = folder.file(self.root(), key);
        let Some(file) = entry::open(&path)? else { return Ok(None) };
        self.check_rows(&path, record::rows_in(file.size()))?;
        let bytes = file.read().map_err(StoreError::io("read", &path))?;
        record::decode(kind, key, &bytes).map(Some).map_err(|cause| StoreError::Record { path, cause })
    }

    /// Replaces a record whole. The plans that it names are durable.
    pub(crate) fn publish_record(
        &self,
        folder: EntryKind,
        kind: RecordKind,
        key: &[u8; 32],
        rows: &[PlanRef],
    ) -> Result<Persisted, StoreError> {
        self.publish(folder, key, &record::encode(kind, key, rows))
    }

    /// Holds a number of rows against the limit.
    pub(crate) fn check_rows(&self, path: &Path, found: u64) -> Result<(), StoreError> {
        let max = u64::from(self.limits().max_record_rows);
        check_limit(path, "number of rows", found, "max_record_rows", max)
    }
}
