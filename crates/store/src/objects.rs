//! Blobs: code objects and whatever else plans name by content.

use crate::layer::check_blob_size;
use crate::{Blob, EntryKind, Lookup, Put, Store, StoreError};
use hipplan_serialize::Digest;

impl Store {
    /// Stores a blob under its digest.
    ///
    /// # Errors
    /// The blob is larger than [`Limits::max_blob_bytes`](crate::Limits::max_blob_bytes); or it could not be written, unless
    /// the store is one that degrades.
    pub fn put_blob(&self, blob: &[u8]) -> Result<Put<Digest>, StoreError> {
        let id = Digest::of(blob);
        check_blob_size(&EntryKind::Blob.file(self.root(), &id.hash.0), id.size, self.limits())?;
        let persisted = self.put(|layer| layer.publish(EntryKind::Blob, &id.hash.0, blob))?;
        if persisted.is_news() {
            self.put_far(EntryKind::Blob, &id.hash.0, blob);
        }
        Ok(Put { id, persisted })
    }

    /// The blob of a digest: its size is checked before memory is taken for it, its bytes before they are given out.
    pub fn get_blob(&self, digest: &Digest) -> Lookup<Blob> {
        self.lookup(|layer| layer.blob(digest, self.limits()), || self.pull_blob(digest))
    }
}
