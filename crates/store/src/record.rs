//! Index records as bytes.

use hipplan_serialize::{ContentHash, PlanKey, PlanRef, RootHash};

const MAGIC: [u8; 8] = *b"\x89HPRC\r\n\x1a";
const VERSION: u16 = 1;
const CONTEXT: &str = "hipplan index record 1";
/// The digest stands here and covers what stands before it.
const DIGEST_AT: usize = 32;
const KEY_AT: usize = 64;
const HEADER: usize = 96;
const ROW: usize = 80;

/// What a record answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub(crate) enum RecordKind {
    /// A plan key: its one plan.
    Plan = 1,
    /// A selection key: plans, best first.
    Selection = 2,
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
pub(crate) fn encode(kind: RecordKind, key: &[u8; 32], rows: &[PlanRef]) -> Vec<u8> {
    let mut out = vec![0; HEADER];
    out[..8].copy_from_slice(&MAGIC);
    out[8..10].copy_from_slice(&VERSION.to_le_bytes());
    out[10..12].copy_from_slice(&(kind as u16).to_le_bytes());
    // Callers have held the rows against a limit that is a u32.
    out[12..16].copy_from_slice(&(rows.len() as u32).to_le_bytes());
    out[16..24].copy_from_slice(&((HEADER + rows.len() * ROW) as u64).to_le_bytes());
    out[KEY_AT..].copy_from_slice(key);
    for PlanRef { key, root, size } in rows {
        out.extend_from_slice(&key.0);
        out.extend_from_slice(&root.0);
        out.extend_from_slice(&size.to_le_bytes());
        out.extend_from_slice(&[0; 8]);
    }
    let digest = digest(&out);
    out[DIGEST_AT..KEY_AT].copy_from_slice(&digest.0);
    out
}

/// The rows of the record of `kind` for `key`.
///
/// Order of checks: length, magic, version, sizes, digest, meaning.
pub(crate) fn decode(kind: RecordKind, key: &[u8; 32], bytes: &[u8]) -> Result<Vec<PlanRef>, RecordError> {
    let found = bytes.len() as u64;
    let Some((header, rows)) = bytes.split_at_checked(HEADER) else {
        return Err(RecordError::TooShort { found });
    };
    let magic: [u8; 8] = array(header, 0);
    if magic != MAGIC {
        return Err(RecordError::Magic { found: magic });
    }
    let version = u16::from_le_bytes(array(header, 8));
    if version < VERSION {
        return Err(RecordError::TooOld { found: version });
    }
    if version > VERSION {
        return Err(RecordError::TooNew { found: version });
    }
    let expected = u64::from_le_bytes(array(header, 16));
    if expected != found {
        return Err(RecordError::Length { found, what: "the header", expected });
    }
    let count = u32::from_le_bytes(array(header, 12));
    // At most 2^39: cannot wrap.
    let expected = HEADER as u64 + u64::from(count) * ROW as u64;
    if expected != found {
        return Err(RecordError::Length { found, what: "the number of rows", expected });
    }
    let (computed, stated) = (digest(bytes), ContentHash(array(header, DIGEST_AT)));
    if computed != stated {
        return Err(RecordError::Digest { found: computed, expected: stated });
    }
    check_meaning(kind, key, header, rows)?;
    Ok(rows.chunks_exact(ROW).map(row).collect())
}

/// The number of rows that a file of this size has room for, rounded up.
pub(crate) fn rows_in(size: u64) -> u64 {
    size.saturating_sub(HEADER as u64).div_ceil(ROW as u64)
}

fn check_meaning(kind: RecordKind, key: &[u8; 32], header: &[u8], rows: &[u8]) -> Result<(), RecordError> {
    let fail = |field, found: String, expected: String| Err(RecordError::Field { field, found, expected });
    let found = u16::from_le_bytes(array(header, 10));
    if found != kind as u16 {
        return fail("kind", found.to_string(), (kind as u16).to_string());
    }
    if header[KEY_AT..] != key[..] {
        return fail("request key", PlanKey(array(header, KEY_AT)).to_string(), PlanKey(*key).to_string());
    }
    let padding = header[24..DIGEST_AT].iter().chain(rows.chunks_exact(ROW).flat_map(|row| &row[72..]));
    if let Some(byte) = padding.copied().find(|&b| b != 0) {
        return fail("a reserved byte", byte.to_string(), "0".into());
    }
    let count = rows.len() / ROW;
    match kind {
        RecordKind::Plan if count != 1 => fail("number of rows", count.to_string(), "1".into()),
        RecordKind::Plan if rows[..32] != key[..] => {
            fail("plan key of the row", PlanKey(array(rows, 0)).to_string(), PlanKey(*key).to_string())
        }
        RecordKind::Selection if count == 0 => fail("number of rows", "0".into(), "at least 1".into()),
        _ => Ok(()),
    }
}

fn row(row: &[u8]) -> PlanRef {
    PlanRef { key: PlanKey(array(row, 0)), root: RootHash(array(row, 32)), size: u64::from_le_bytes(array(row, 64)) }
}

/// Over the header up to the digest, then all that follows it.
fn digest(bytes: &[u8]) -> ContentHash {
    let mut hasher = blake3::Hasher::new_derive_key(CONTEXT);
    hasher.update(&bytes[..DIGEST_AT]).update(&bytes[KEY_AT..]);
    ContentHash(*hasher.finalize().as_bytes())
}

/// `N` bytes at `at`; callers have checked that they are there.
fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

#[cfg(test)]
mod tests;
