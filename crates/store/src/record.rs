//! Index records as bytes: what a request key leads to. The layout is in `docs/format.md`.

use crate::EntryKind;
use bytemuck::{Pod, Zeroable};
use hipplan_serialize::{ContentHash, PlanKey, PlanRef, RootHash};

const MAGIC: [u8; 8] = *b"\x89HPRC\r\n\x1a";
const VERSION: u16 = 1;
const CONTEXT: &str = "hipplan index record 1";
const HEADER: usize = 96;
const ROW: usize = 80;

/// What stands before the rows.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct RawHeader {
    magic: [u8; 8],
    version: [u8; 2],
    kind: [u8; 2],
    rows: [u8; 4],
    length: [u8; 8],
    reserved: [u8; 8],
    digest: [u8; 32],
    key: [u8; 32],
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct RawRow {
    key: [u8; 32],
    root: [u8; 32],
    size: [u8; 8],
    reserved: [u8; 8],
}

const _: () = assert!(size_of::<RawHeader>() == HEADER && size_of::<RawRow>() == ROW);

/// What a record answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum RecordKind {
    /// A plan key: its one plan.
    Plan = 1,
    /// A selection key: plans, best first.
    Selection = 2,
    /// A selection key: plans in the order of their addresses, none twice. Two of them are united rather than replaced.
    Set = 3,
}

impl RecordKind {
    /// Which kind of record stands among those of this kind of entry.
    const fn is_in(self, entries: EntryKind) -> bool {
        match self {
            Self::Plan => matches!(entries, EntryKind::PlanRecord),
            Self::Selection | Self::Set => matches!(entries, EntryKind::Selection),
        }
    }
}

/// A record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// What it answers.
    pub kind: RecordKind,
    /// At least one.
    pub rows: Vec<PlanRef>,
}

/// A file that is no record, or not the one that was looked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// Fewer bytes than a header.
    #[error("record: {found} bytes are fewer than the {HEADER} of a header; the file is truncated or not a record")]
    TooShort {
        /// Bytes present.
        found: u64,
    },
    /// The first eight bytes are not a record's.
    #[error("record: magic is {found:02x?}; this is not an index record")]
    Magic {
        /// Bytes present.
        found: [u8; 8],
    },
    /// Written by a hipplan too old to be read.
    #[error("record: version {found} is too old, this hipplan reads {VERSION}")]
    TooOld {
        /// Version in the file.
        found: u16,
    },
    /// Written by a newer hipplan.
    #[error("record: version {found} is too new, this hipplan reads {VERSION}")]
    TooNew {
        /// Version in the file.
        found: u16,
    },
    /// The stated length, or that of the rows, is not the file's.
    #[error("record: {found} bytes present, {what} says {expected}; the file is truncated or has grown")]
    Length {
        /// Bytes present.
        found: u64,
        /// What states a length.
        what: &'static str,
        /// The length stated.
        expected: u64,
    },
    /// Not the bytes that were written.
    #[error("record: digest of the bytes is {found}, the header says {expected}; the file is damaged")]
    Digest {
        /// Digest of the bytes present.
        found: ContentHash,
        /// Digest stated.
        expected: ContentHash,
    },
    /// A field has a value that no writer gives it.
    #[error("record: {field} is {found}, expected {expected}")]
    Field {
        /// The field.
        field: &'static str,
        /// Its value.
        found: String,
        /// What it should be.
        expected: String,
    },
}

/// The bytes of a record.
pub fn encode(kind: RecordKind, key: &[u8; 32], rows: &[PlanRef]) -> Vec<u8> {
    let rows: Vec<RawRow> =
        rows.iter().map(|row| RawRow { key: row.key.0, root: row.root.0, size: row.size.to_le_bytes(), ..RawRow::zeroed() }).collect();
    let rows: &[u8] = bytemuck::cast_slice(&rows);
    let mut header = RawHeader {
        magic: MAGIC,
        version: VERSION.to_le_bytes(),
        kind: (kind as u16).to_le_bytes(),
        // Callers have held the rows against a limit that is a u32.
        rows: u32::try_from(rows.len() / ROW).unwrap_or(u32::MAX).to_le_bytes(),
        length: (HEADER.saturating_add(rows.len()) as u64).to_le_bytes(),
        key: *key,
        ..RawHeader::zeroed()
    };
    header.digest = digest(&header, rows).0;
    [bytemuck::bytes_of(&header), rows].concat()
}

/// The record for `key` among the records of these entries: plan records, or selections.
///
/// Order of checks: length, magic, version, sizes, digest, meaning.
///
/// # Errors
/// The first check that fails.
pub fn decode(entries: EntryKind, key: &[u8; 32], bytes: &[u8]) -> Result<Record, RecordError> {
    let found = bytes.len() as u64;
    let Some((header, rows)) = bytes.split_first_chunk::<HEADER>() else {
        return Err(RecordError::TooShort { found });
    };
    let header: &RawHeader = bytemuck::cast_ref(header);
    if header.magic != MAGIC {
        return Err(RecordError::Magic { found: header.magic });
    }
    let version = u16::from_le_bytes(header.version);
    if version < VERSION {
        return Err(RecordError::TooOld { found: version });
    }
    if version > VERSION {
        return Err(RecordError::TooNew { found: version });
    }
    let expected = u64::from_le_bytes(header.length);
    if expected != found {
        return Err(RecordError::Length { found, what: "the header", expected });
    }
    let count = u32::from_le_bytes(header.rows);
    // At most 2^39: never saturates.
    let expected = size_of_rows(count);
    if expected != found {
        return Err(RecordError::Length { found, what: "the number of rows", expected });
    }
    let (computed, stated) = (digest(header, rows), ContentHash(header.digest));
    if computed != stated {
        return Err(RecordError::Digest { found: computed, expected: stated });
    }
    let rows: &[RawRow] = bytemuck::cast_slice(rows.as_chunks::<ROW>().0);
    let kind = check_meaning(entries, key, header, rows)?;
    let row = |row: &RawRow| PlanRef { key: PlanKey(row.key), root: RootHash(row.root), size: u64::from_le_bytes(row.size) };
    let rows: Vec<PlanRef> = rows.iter().map(row).collect();
    if kind == RecordKind::Set && !rows.is_sorted_by(|a, b| a < b) {
        let (found, expected) = ("not ascending".to_owned(), "plans in the order of their addresses, none twice".to_owned());
        return Err(RecordError::Field { field: "order of the rows", found, expected });
    }
    Ok(Record { kind, rows })
}

/// The number of rows that a file of this size has room for, rounded up.
pub(crate) fn rows_in(size: u64) -> u64 {
    size.saturating_sub(HEADER as u64).div_ceil(ROW as u64)
}

/// The size of a record of so many rows.
pub(crate) fn size_of_rows(rows: u32) -> u64 {
    u64::from(rows).saturating_mul(ROW as u64).saturating_add(HEADER as u64)
}

fn check_meaning(entries: EntryKind, key: &[u8; 32], header: &RawHeader, rows: &[RawRow]) -> Result<RecordKind, RecordError> {
    let fail = |field, found: String, expected: String| Err(RecordError::Field { field, found, expected });
    let found = u16::from_le_bytes(header.kind);
    let kind = [RecordKind::Plan, RecordKind::Selection, RecordKind::Set].into_iter().find(|&kind| kind as u16 == found);
    let Some(kind) = kind.filter(|kind| kind.is_in(entries)) else {
        let expected = if entries == EntryKind::PlanRecord { "1 (plan)" } else { "2 (selection) or 3 (set)" };
        return fail("kind", found.to_string(), expected.to_owned());
    };
    if header.key != *key {
        return fail("request key", PlanKey(header.key).to_string(), PlanKey(*key).to_string());
    }
    let reserved = header.reserved.iter().chain(rows.iter().flat_map(|row| &row.reserved));
    if let Some(byte) = reserved.copied().find(|&b| b != 0) {
        return fail("a reserved byte", byte.to_string(), "0".into());
    }
    match (kind, rows) {
        (RecordKind::Plan, [row]) if row.key != *key => {
            fail("plan key of the row", PlanKey(row.key).to_string(), PlanKey(*key).to_string())
        }
        (RecordKind::Plan, [_]) => Ok(kind),
        (RecordKind::Plan, _) => fail("number of rows", rows.len().to_string(), "1".into()),
        (RecordKind::Selection | RecordKind::Set, []) => fail("number of rows", "0".into(), "at least 1".into()),
        (RecordKind::Selection | RecordKind::Set, _) => Ok(kind),
    }
}

/// Over the header up to the digest, then all that follows it.
fn digest(header: &RawHeader, rows: &[u8]) -> ContentHash {
    let [covered, _, key] = bytemuck::cast_ref::<_, [[u8; 32]; 3]>(header);
    let mut hasher = blake3::Hasher::new_derive_key(CONTEXT);
    hasher.update(covered).update(key).update(rows);
    ContentHash(*hasher.finalize().as_bytes())
}

#[cfg(test)]
mod tests;
