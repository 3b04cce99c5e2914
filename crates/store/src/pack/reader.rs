//! Reading a pack: opening it, finding a name, and the bytes of an entry.

use super::error::{EntryId, PackError};
use super::format::{ALIGN, HEADER, Header, MOST_SIGNATURES, RawRow, Table};
use super::mapping::Mapping;
use crate::fs::PIECE;
use crate::{Blob, EntryKind, Limits, StoreError, fs};
use bytemuck::Zeroable;
use hipplan_serialize::{AlignedBytes, ContentHash};
use once_cell::race::OnceBox;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Values of at least this size are given out as part of a mapping. Below it, copying is cheaper than the faults of fresh pages.
const MAP_FROM: u64 = 16 << 10;
/// Rows that a lookup reads at once. A bucket that is larger, which takes names that are no digests, is halved until it fits.
const MOST_AT_ONCE: u32 = 256;
/// Rows that a lookup has room for without asking for memory: nearly every bucket.
const FEW: usize = 40;

/// An open pack. Its bytes never change: whoever makes a pack gives it a name when it is complete.
#[derive(Debug)]
pub(crate) struct Pack {
    file: fs::OpenFile,
    path: PathBuf,
    pub(super) header: Header,
    max_provenance: u64,
    /// What stands between header and values, where it must stay what it was: [`hold_tables`](Self::hold_tables).
    held: Option<Box<[u8]>>,
    /// Made when it is first wanted; `None` where the file may not be mapped. Who makes it holds no lock, which a forked child would wait for.
    mapping: OnceBox<Option<Mapping>>,
}

/// Where the bytes of an entry stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PackRow {
    pub(crate) kind: EntryKind,
    /// Over all kinds, as stamps of use are.
    pub(crate) ordinal: u32,
    pub(crate) name: [u8; 32],
    /// BLAKE3 of the bytes.
    pub(crate) digest: [u8; 32],
    pub(crate) offset: u64,
    pub(crate) size: u64,
}

impl PackRow {
    pub(crate) fn id(&self) -> EntryId {
        EntryId { kind: self.kind, name: self.name }
    }
}

impl Pack {
    /// Bytes of a header.
    pub(crate) const HEADER: usize = HEADER;
    /// No pack has more signatures.
    pub(crate) const MOST_SIGNATURES: u64 = MOST_SIGNATURES;

    /// Checks what a file of so many bytes begins with.
    pub(crate) fn check_header(bytes: &[u8; HEADER], file: u64, limits: &Limits) -> Result<(), PackError> {
        Header::decode(bytes, file, limits).map(drop)
    }

    /// The same pack under another name, where the one that it was opened with says nothing to anybody.
    pub(crate) fn called(self, path: &Path) -> Self {
        Self { path: path.to_owned(), ..self }
    }

    /// Hands out the whole file, signatures included, as it stands.
    pub(crate) fn copy(&self, sink: &mut dyn FnMut(&[u8]) -> Result<(), StoreError>) -> Result<(), StoreError> {
        let mut stopped = Ok(());
        self.pieces(0, self.file.size(), |piece| {
            stopped = sink(piece);
            stopped.is_ok()
        })?;
        stopped
    }

    /// Opens a pack; `None` when there is no such file. Only its header is read, so the cost does not depend on what it holds.
    pub(crate) fn open(path: &Path, limits: &Limits) -> Result<Option<Self>, StoreError> {
        let file = match fs::open(path) {
            Ok(Ok(file)) => file,
            Ok(Err(kind)) => {
                return Err(StoreError::FileType { path: path.to_owned(), found: kind.name(), expected: "a pack" });
            }
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(StoreError::io("open", path)(e)),
        };
        let fault = |cause| StoreError::pack(path, cause);
        let size = file.size();
        if size < HEADER as u64 {
            return Err(fault(PackError::TooShort { found: size }));
        }
        let mut bytes = [0; HEADER];
        file.read_at(0, &mut bytes).map_err(|e| read_error(path, size, e))?;
        let header = Header::decode(&bytes, size, limits).map_err(fault)?;
        let max_provenance = limits.max_provenance_bytes;
        Ok(Some(Self { file, path: path.to_owned(), header, max_provenance, held: None, mapping: OnceBox::new() }))
    }

    /// Reads all that stands between header and values, and takes it from memory from now on: what becomes of it in the file makes no
    /// difference to what is found. It takes about a hundred bytes an entry.
    pub(crate) fn hold_tables(&mut self) -> Result<(), StoreError> {
        let mut held = Vec::new();
        let length = self.header.values_offset.saturating_sub(HEADER as u64);
        // Memory is taken as bytes come.
        self.pieces(HEADER as u64, length, |piece| {
            held.extend_from_slice(piece);
            true
        })?;
        self.held = Some(held.into());
        Ok(())
    }

    /// A part of what is held.
    fn held(&self, offset: u64, length: u64) -> Option<&[u8]> {
        let start = usize::try_from(offset.checked_sub(HEADER as u64)?).ok()?;
        self.held.as_deref()?.get(start..start.checked_add(usize::try_from(length).ok()?)?)
    }

    /// Where it was when it was opened.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Digest of its header, tables and provenance, and so of all that is in it.
    pub(crate) fn root(&self) -> &[u8; 32] {
        &self.header.root
    }

    /// Of the open file.
    pub(crate) fn status(&self) -> &fs::Status {
        self.file.status()
    }

    /// Number of entries of a kind.
    pub(crate) fn len(&self, kind: EntryKind) -> u32 {
        self.header.table(kind).rows
    }

    /// Number of entries of all kinds.
    pub(crate) fn rows_in_all(&self) -> u32 {
        EntryKind::ALL.into_iter().fold(0, |sum, kind| sum.saturating_add(self.len(kind)))
    }

    /// Length of the file.
    pub(crate) fn bytes(&self) -> u64 {
        self.file.size()
    }

    /// Looks a name up: one read of the fan-out, one of its bucket.
    pub(crate) fn find(&self, kind: EntryKind, name: &[u8; 32]) -> Result<Option<PackRow>, StoreError> {
        let table = self.header.table(kind);
        if table.rows == 0 {
            return Ok(None);
        }
        let bucket = table.bucket(name);
        let rows = self.bucket_rows(kind, table, bucket)?;
        if rows.end.saturating_sub(rows.start) > MOST_AT_ONCE {
            return self.find_by_halves(kind, name, rows);
        }
        // A row on either side shows that the fan-out leaves none of the bucket out.
        let first = rows.start.saturating_sub(1);
        let last = rows.end.saturating_add(1).min(table.rows);
        let count = usize::try_from(last.saturating_sub(first)).unwrap_or(usize::MAX);
        let (mut few, mut many) = ([RawRow::zeroed(); FEW], Vec::new());
        let raw = match few.get_mut(..count) {
            Some(raw) => raw,
            None => {
                many.resize(count, RawRow::zeroed());
                &mut many[..]
            }
        };
        self.read_at(table.row_offset(first), bytemuck::cast_slice_mut(raw))?;
        let mut before = None;
        let mut found = None;
        for (number, row) in (first..last).zip(&*raw) {
            let expected = if number < rows.start {
                table.bucket(&row.name) < bucket
            } else if number < rows.end {
                table.bucket(&row.name) == bucket
            } else {
                table.bucket(&row.name) > bucket
            };
            if !expected {
                let found = format!("{} to {}", rows.start, rows.end);
                return Err(self.fault(PackError::FanOut { kind, bucket, found, expected: "all rows of the bucket and no other" }));
            }
            if before >= Some(&row.name) {
                return Err(self.unsorted(kind, number, &row.name));
            }
            before = Some(&row.name);
            if row.name == *name {
                found = Some((number, row));
            }
        }
        found.map(|(number, row)| self.row(kind, number, row)).transpose()
    }

    /// The rows that the fan-out names for a bucket.
    fn bucket_rows(&self, kind: EntryKind, table: &Table, bucket: u32) -> Result<Range<u32>, StoreError> {
        let mut bounds = [[0_u8; 4]; 2];
        let at = table.fan_out_offset.saturating_add(u64::from(bucket).saturating_mul(4));
        self.read_at(at, bounds.as_flattened_mut())?;
        let [start, end] = bounds.map(u32::from_le_bytes);
        if start > end || end > table.rows {
            let (found, expected) = (format!("{start} to {end}"), "ascending numbers of rows");
            return Err(self.fault(PackError::FanOut { kind, bucket, found, expected }));
        }
        Ok(start..end)
    }

    /// Looks a name up among too many rows to read them all.
    fn find_by_halves(&self, kind: EntryKind, name: &[u8; 32], mut rows: Range<u32>) -> Result<Option<PackRow>, StoreError> {
        while !rows.is_empty() {
            let middle = rows.start.midpoint(rows.end);
            let mut raw = RawRow::zeroed();
            self.read_at(self.header.table(kind).row_offset(middle), bytemuck::bytes_of_mut(&mut raw))?;
            match raw.name.cmp(name) {
                std::cmp::Ordering::Equal => return self.row(kind, middle, &raw).map(Some),
                std::cmp::Ordering::Less => rows.start = middle.saturating_add(1),
                std::cmp::Ordering::Greater => rows.end = middle,
            }
        }
        Ok(None)
    }

    /// A row whose bytes are inside the file.
    pub(super) fn row(&self, kind: EntryKind, number: u32, raw: &RawRow) -> Result<PackRow, StoreError> {
        let wrong = |field, found: String, expected: String| Err(self.fault(PackError::Row { kind, row: number, field, found, expected }));
        let (offset, size) = (u64::from_le_bytes(raw.offset), u64::from_le_bytes(raw.size));
        let (from, length) = (self.header.values_offset, self.header.length);
        if offset < from || offset > length || !offset.is_multiple_of(ALIGN) {
            let expected = format!("a multiple of {} from {from} to {length}", ALIGN);
            return wrong("offset", offset.to_string(), expected);
        }
        let room = length.saturating_sub(offset);
        if size > room {
            return wrong("size", size.to_string(), format!("at most the {room} bytes behind its offset"));
        }
        if kind == EntryKind::Blob && raw.digest != raw.name {
            return wrong("digest", ContentHash(raw.digest).to_string(), format!("the blob's name {}", ContentHash(raw.name)));
        }
        let ordinal = self.header.table(kind).first_ordinal.saturating_add(number);
        Ok(PackRow { kind, ordinal, name: raw.name, digest: raw.digest, offset, size })
    }

    pub(super) fn unsorted(&self, kind: EntryKind, row: u32, name: &[u8; 32]) -> StoreError {
        let (found, expected) = (ContentHash(*name).to_string(), "more than the name before it".into());
        self.fault(PackError::Row { kind, row, field: "name", found, expected })
    }

    /// The bytes of an entry, of which at most `max` are taken: checked against its digest.
    pub(crate) fn read(&self, row: &PackRow, max: u64) -> Result<AlignedBytes, StoreError> {
        let size = self.checked_size(row, max)?;
        let mut bytes = AlignedBytes::with_capacity(size);
        if size <= PIECE {
            bytes.resize(size, 0);
            self.read_at(row.offset, &mut bytes)?;
            self.check_digest(row, &blake3::hash(&bytes))?;
            return Ok(bytes);
        }
        let mut hasher = blake3::Hasher::new();
        while bytes.len() < size {
            let at = bytes.len();
            bytes.resize(size.min(at.saturating_add(PIECE)), 0);
            let piece = bytes.get_mut(at..).unwrap_or_default();
            self.read_at(row.offset.saturating_add(at as u64), piece)?;
            hasher.update(piece);
        }
        self.check_digest(row, &hasher.finalize())?;
        Ok(bytes)
    }

    /// The bytes of an entry, as [`read`](Self::read) gives them; large ones as part of a mapping, where there can be one.
    pub(crate) fn blob(self: &Arc<Self>, row: &PackRow, max: u64) -> Result<Blob, StoreError> {
        let size = self.checked_size(row, max)?;
        let Some(range) = self.mappable(row, size) else { return self.read(row, max).map(Blob::from) };
        if let Some(mapping) = self.mapping()
            && !mapping.is_sound(&self.path, row, &range)
        {
            // Why it is not, or that it is after all, is found by this.
            self.check_value(row)?;
            mapping.mark(row);
        }
        Ok(Blob::mapped(Arc::clone(self), range))
    }

    /// Where an entry stands in the mapping, if it is large enough and there is one.
    fn mappable(&self, row: &PackRow, size: usize) -> Option<Range<usize>> {
        if row.size < MAP_FROM {
            return None;
        }
        let start = usize::try_from(row.offset).ok()?;
        let range = start..start.checked_add(size)?;
        self.mapped(&range).map(|_| range)
    }

    /// A part of the mapping. Does not touch it.
    pub(crate) fn mapped(&self, range: &Range<usize>) -> Option<&[u8]> {
        self.mapping()?.part(range)
    }

    fn mapping(&self) -> Option<&Mapping> {
        if self.mapping.get().is_none() {
            // Another thread may have been the first.
            drop(self.mapping.set(Box::new(Mapping::of(&self.file, &self.path))));
        }
        self.mapping.get()?.as_ref()
    }

    /// Checks the bytes of an entry without keeping them.
    pub(crate) fn check_value(&self, row: &PackRow) -> Result<(), StoreError> {
        let found = self.file.hash_part(row.offset, row.size).map_err(|e| self.io(e))?;
        self.check_digest(row, &found)
    }

    /// Hands the bytes of an entry out in pieces. They are right if this succeeds.
    pub(crate) fn stream(&self, row: &PackRow, sink: &mut dyn FnMut(&[u8]) -> Result<(), StoreError>) -> Result<(), StoreError> {
        let mut hasher = blake3::Hasher::new();
        let mut stopped = Ok(());
        let pieces = self.file.pieces(row.offset, row.size, |piece| {
            hasher.update(piece);
            stopped = sink(piece);
            stopped.is_ok()
        });
        pieces.map_err(|e| self.io(e))?;
        stopped?;
        self.check_digest(row, &hasher.finalize())
    }

    /// Whether an entry is exactly these bytes.
    pub(crate) fn holds(&self, row: &PackRow, bytes: &[u8]) -> Result<bool, StoreError> {
        if row.size != bytes.len() as u64 {
            return Ok(false);
        }
        self.file.holds_at(row.offset, bytes).map_err(|e| self.io(e))
    }

    fn checked_size(&self, row: &PackRow, max: u64) -> Result<usize, StoreError> {
        let too_large = || self.fault(PackError::TooLarge { entry: row.id(), found: row.size, max });
        if row.size > max {
            return Err(too_large());
        }
        usize::try_from(row.size).map_err(|_| too_large())
    }

    fn check_digest(&self, row: &PackRow, found: &blake3::Hash) -> Result<(), StoreError> {
        if *found.as_bytes() == row.digest {
            return Ok(());
        }
        let (found, expected) = (ContentHash(*found.as_bytes()), ContentHash(row.digest));
        Err(self.fault(PackError::Entry { entry: row.id(), found, expected }))
    }

    /// Where it was made by, one line for each.
    pub(crate) fn provenance(&self) -> Result<Vec<String>, StoreError> {
        // Held against the limit when it was opened.
        let length = usize::try_from(self.header.provenance_length.min(self.max_provenance)).unwrap_or(0);
        let mut bytes = vec![0; length];
        self.read_at(self.header.provenance_offset, &mut bytes)?;
        super::provenance::decode(&bytes).map_err(|cause| self.fault(cause))
    }

    /// The signature blocks, as they stand: nothing says yet that one of them is right.
    pub(crate) fn signatures(&self) -> Result<Vec<super::SignatureBlock>, StoreError> {
        let mut at = self.header.length;
        let mut blocks = Vec::new();
        while at < self.file.size() {
            let mut bytes = [0; super::SignatureBlock::BYTES];
            self.read_at(at, &mut bytes)?;
            blocks.push(super::SignatureBlock::decode(&bytes).map_err(|cause| self.fault(cause))?);
            at = at.saturating_add(bytes.len() as u64);
        }
        Ok(blocks)
    }

    /// Hands out all bytes of a part of the file.
    pub(super) fn pieces(&self, offset: u64, length: u64, mut take: impl FnMut(&[u8]) -> bool) -> Result<(), StoreError> {
        if let Some(held) = self.held(offset, length) {
            take(held);
            return Ok(());
        }
        self.file.pieces(offset, length, take).map_err(|e| self.io(e))
    }

    pub(super) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), StoreError> {
        if let Some(held) = self.held(offset, buffer.len() as u64) {
            buffer.copy_from_slice(held);
            return Ok(());
        }
        self.file.read_at(offset, buffer).map_err(|e| self.io(e))
    }

    pub(super) fn fault(&self, cause: PackError) -> StoreError {
        StoreError::pack(&self.path, cause)
    }

    fn io(&self, cause: io::Error) -> StoreError {
        read_error(&self.path, self.file.size(), cause)
    }
}

/// Everything that is read was inside the file when it was opened.
fn read_error(path: &Path, opened: u64, cause: io::Error) -> StoreError {
    if cause.kind() == ErrorKind::UnexpectedEof {
        return StoreError::pack(path, PackError::CutShort { opened });
    }
    StoreError::io("read", path)(cause)
}
