//! Checking a whole pack.

use super::error::PackError;
use super::format::{ALIGN, root_hasher, round_up};
use super::reader::{Pack, PackRow};
use crate::{Blob, EntryKind, Limits, StoreError, record};
use hipplan_serialize::ContentHash;
use std::path::Path;
use std::sync::Arc;

/// What is in a pack of which every byte has been checked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PackFacts {
    /// Digest of header, tables and provenance, which name all the rest.
    pub root: ContentHash,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Kind, name and size of every entry, in the order of the pack.
    pub entries: Vec<(EntryKind, [u8; 32], u64)>,
    /// Where it comes from.
    pub provenance: Vec<String>,
    /// Public keys of its signatures, which are not checked here.
    pub signed_by: Vec<[u8; 32]>,
}

/// Checks every byte of a pack: header, tables, values, and the zeros in between. What the entries mean is not looked at.
///
/// # Errors
/// The first thing that is wrong; no file stands there.
pub fn check_pack(path: &Path, limits: &Limits) -> Result<PackFacts, StoreError> {
    let pack = open(path, limits)?;
    pack.check_root()?;
    let mut entries = Vec::new();
    for kind in EntryKind::ALL {
        for row in pack.rows(kind) {
            let row = row?;
            pack.check_value(&row)?;
            pack.check_padding(&row)?;
            entries.push((kind, row.name, row.size));
        }
    }
    let signed_by = pack.signatures()?.iter().map(|block| block.public_key).collect();
    Ok(PackFacts { root: ContentHash(*pack.root()), bytes: pack.bytes(), entries, provenance: pack.provenance()?, signed_by })
}

/// Looks one name up in a pack, and gives the bytes of the entry: they are those that its row names. `None` where the pack has none.
///
/// # Errors
/// The pack or the entry is damaged, above a limit, or cannot be read; no file stands there.
pub fn find_in_pack(path: &Path, kind: EntryKind, name: &[u8; 32], limits: &Limits) -> Result<Option<Blob>, StoreError> {
    let pack = Arc::new(open(path, limits)?);
    let max = match kind {
        EntryKind::Blob => limits.max_blob_bytes,
        EntryKind::Plan => limits.max_plan_bytes,
        EntryKind::PlanRecord | EntryKind::Selection => record::size_of_rows(limits.max_record_rows),
    };
    pack.find(kind, name)?.map(|row| pack.blob(&row, max)).transpose()
}

fn open(path: &Path, limits: &Limits) -> Result<Pack, StoreError> {
    let not_found = || StoreError::io("open", path)(std::io::ErrorKind::NotFound.into());
    Pack::open(path, limits)?.ok_or_else(not_found)
}

impl Pack {
    /// Checks that the root is that of header, tables and provenance, that rows and fan-outs are in order and agree, and that the
    /// values fill the rest of the file. The cost is that of reading the rows; no value is looked at.
    pub(crate) fn check_root(&self) -> Result<(), StoreError> {
        let mut hasher = root_hasher();
        let unsealed = self.header.encode_unsealed();
        hasher.update(&unsealed);
        let start = unsealed.len() as u64;
        self.pieces(start, self.header.values_offset.saturating_sub(start), |piece| {
            hasher.update(piece);
            true
        })?;
        let (found, expected) = (ContentHash(*hasher.finalize().as_bytes()), ContentHash(self.header.root));
        if found != expected {
            return Err(self.fault(PackError::Root { found, expected }));
        }
        // The digest says that somebody wrote it so. That it makes sense is another matter.
        self.provenance()?;
        for end in self.header.ends() {
            self.check_zeros(end, "a byte behind a table")?;
        }
        for kind in EntryKind::ALL {
            self.check_fan_out(kind)?;
        }
        let last = EntryKind::ALL.into_iter().rfind(|&kind| self.len(kind) > 0);
        let values_end = last.map_or(Ok(self.header.values_offset), |kind| self.end_of(kind))?;
        if values_end != self.header.length {
            let (found, expected) = (self.header.length.to_string(), format!("{values_end}, the end of the last value"));
            return Err(self.fault(PackError::Field { field: "length", found, expected }));
        }
        Ok(())
    }

    /// Walks the rows of a kind and its fan-out side by side.
    fn check_fan_out(&self, kind: EntryKind) -> Result<(), StoreError> {
        let table = self.header.table(kind);
        // Row at which each bucket begins, as the rows have it: the buckets up to that of the row before have been seen.
        let mut starts = FanOut { pack: self, kind, next: 0, chunk: Vec::new() };
        for (row, number) in self.rows(kind).zip(0_u32..) {
            let row = row?;
            starts.expect_up_to(table.bucket(&row.name), number)?;
        }
        starts.expect_up_to(table.buckets(), table.rows)
    }

    /// Checks that what follows a value is zero.
    pub(crate) fn check_padding(&self, row: &PackRow) -> Result<(), StoreError> {
        self.check_zeros(row.offset.saturating_add(row.size), "a byte behind a value")
    }

    /// Checks that the bytes from here to the next multiple of [`ALIGN`] are zero.
    fn check_zeros(&self, from: u64, field: &'static str) -> Result<(), StoreError> {
        let mut zeros = [0; ALIGN as usize];
        let length = round_up(from).unwrap_or(from).saturating_sub(from);
        let zeros = zeros.get_mut(..usize::try_from(length).unwrap_or(usize::MAX)).unwrap_or_default();
        self.read_at(from, zeros)?;
        match zeros.iter().find(|&&byte| byte != 0) {
            None => Ok(()),
            Some(byte) => Err(self.fault(PackError::Field { field, found: byte.to_string(), expected: "0".into() })),
        }
    }
}

/// Reads a fan-out from its beginning to its end.
struct FanOut<'p> {
    pack: &'p Pack,
    kind: EntryKind,
    /// Bucket whose beginning is read next.
    next: u32,
    /// What has been read and not been looked at, the last first.
    chunk: Vec<[u8; 4]>,
}

impl FanOut<'_> {
    /// All buckets that have not been looked at, up to `bucket`, begin with row `row`.
    fn expect_up_to(&mut self, bucket: u32, row: u32) -> Result<(), StoreError> {
        while self.next <= bucket {
            let found = self.read_next()?;
            if found != row {
                let (kind, bucket) = (self.kind, self.next);
                let (found, expected) = (format!("from {found}"), "from the first row whose name is in it");
                return Err(self.pack.fault(PackError::FanOut { kind, bucket, found, expected }));
            }
            self.next = self.next.saturating_add(1);
        }
        Ok(())
    }

    fn read_next(&mut self) -> Result<u32, StoreError> {
        const CHUNK: u32 = 4096;
        if self.chunk.is_empty() {
            let table = self.pack.header.table(self.kind);
            let count = table.buckets().saturating_add(1).saturating_sub(self.next).min(CHUNK);
            self.chunk.resize(count as usize, [0; 4]);
            let at = table.fan_out_offset.saturating_add(u64::from(self.next).saturating_mul(4));
            self.pack.read_at(at, self.chunk.as_flattened_mut())?;
            self.chunk.reverse();
        }
        Ok(u32::from_le_bytes(self.chunk.pop().unwrap_or_default()))
    }
}
