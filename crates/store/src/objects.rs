//! Blobs: code objects and whatever else plans name by content.

use crate::entry::{self, check_content, check_limit, check_size};
use crate::layout::EntryKind;
use crate::{Lookup, Put, Store, StoreError};
use hipplan_serialize::{AlignedBytes, Digest};
use std::path::Path;

impl Store {
    /// Stores a blob under its digest.
    ///
    /// # Errors
    /// The blob is larger than [`Limits::max_blob_bytes`](crate::Limits::max_blob_bytes); or it could not be written, unless
    /// the store is one that degrades.
    pub fn put_blob(&self, blob: &[u8]) -> Result<Put<Digest>, StoreError> {
        let id = Digest::of(blob);
        self.check_blob_size(&EntryKind::Blob.file(self.root(), &id.hash.0), id.size)?;
        let persisted = self.put(|| self.publish(EntryKind::Blob, &id.hash.0, blob))?;
        Ok(Put { id, persisted })
    }

    /// The blob of a digest: its size is checked before memory is taken for it, its bytes before they are given out.
    pub fn get_blob(&self, digest: &Digest) -> Lookup<AlignedBytes> {
        self.lookup(|| {
            let path = EntryKind::Blob.file(self.root(), &digest.hash.0);
            let Some(file) = entry::open(&path)? else { return Ok(None) };
            check_size(&path, file.size(), digest.size)?;
            self.check_blob_size(&path, file.size())?;
            let blob = file.read().map_err(StoreError::io("read", &path))?;
            check_content(&path, "content hash", &Digest::of(&blob).hash, &digest.hash)?;
            Ok(Some(blob))
        })
    }

    fn check_blob_size(&self, path: &Path, found: u64) -> Result<(), StoreError> {
        check_limit(path, "size in bytes", found, "max_blob_bytes", self.limits().max_blob_bytes)
    }
}
