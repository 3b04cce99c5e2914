//! Blobs: code objects and whatever else plans name by content.

use crate::layer::check_blob_size;
use crate::pack::Pack;
use crate::{EntryKind, Lookup, Put, Store, StoreError};
use hipplan_serialize::aligned::aligned_copy;
use hipplan_serialize::{AlignedBytes, Digest};
use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// The bytes of a blob, which have been checked. They start at a multiple of 64.
///
/// They are a copy in memory, or, if they are large and in a pack on a file system whose pages stay, a part of the mapped file. A mapped file is
/// one that hipplan never changes and never cuts short; `docs/security.md` says what other programs that may write to it can do.
#[derive(Clone)]
pub struct Blob(Bytes);

#[derive(Clone)]
enum Bytes {
    Owned(AlignedBytes),
    /// The pack keeps the mapping, and its file open; unlinking the file changes neither.
    Mapped {
        pack: Arc<Pack>,
        range: Range<usize>,
    },
}

impl Blob {
    pub(crate) fn mapped(pack: Arc<Pack>, range: Range<usize>) -> Self {
        Self(Bytes::Mapped { pack, range })
    }

    /// Whether it is part of a mapped file.
    pub fn is_mapped(&self) -> bool {
        matches!(self.0, Bytes::Mapped { .. })
    }

    /// The bytes in memory; copied if they are part of a mapped file.
    pub fn into_aligned(self) -> AlignedBytes {
        match self.0 {
            Bytes::Owned(bytes) => bytes,
            Bytes::Mapped { .. } => aligned_copy(&self),
        }
    }
}

impl From<AlignedBytes> for Blob {
    fn from(bytes: AlignedBytes) -> Self {
        Self(Bytes::Owned(bytes))
    }
}

impl Deref for Blob {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Bytes::Owned(bytes) => bytes,
            // The part was there when this was made, and the mapping stays.
            Bytes::Mapped { pack, range } => pack.mapped(range).unwrap_or_default(),
        }
    }
}

impl AsRef<[u8]> for Blob {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blob").field("len", &self.len()).field("mapped", &self.is_mapped()).finish()
    }
}

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
