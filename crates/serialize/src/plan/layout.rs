//! The fixed parts of a plan file: header and section rows, as bytes.

use super::{FORMAT_MAJOR, FORMAT_MINOR, KNOWN_FEATURES, PlanError};
use crate::aligned::round_up_64;
use crate::key::context;
use crate::{ContentHash, RootHash};

/// Bytes of a header.
pub(super) const HEADER: usize = 64;
/// Bytes of a section row.
pub(super) const ROW: usize = 64;
/// First byte of the root hash in the header; the hash covers what stands before it.
const HASH_AT: usize = 32;
/// Alignment of sections in the file.
pub(super) const ALIGN: u64 = 64;

pub(super) const MAGIC: [u8; 8] = *b"\x89HPPL\r\n\x1a";

/// What a section holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum SectionKind {
    /// The canonical encoding of the graph.
    Canonical = 1,
    /// The provider's payload container.
    Payload = 2,
}

impl SectionKind {
    pub(super) const ALL: [Self; 2] = [Self::Canonical, Self::Payload];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Canonical => "canonical graph",
            Self::Payload => "provider payload",
        }
    }
}

/// The header, field by field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) file_len: u64,
    pub(super) section_count: u32,
    pub(super) meta_len: u32,
    pub(super) root: RootHash,
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut out = [0; 4];
    out.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(out)
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut out = [0; 8];
    out.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(out)
}

pub(super) fn hash_at(bytes: &[u8], at: usize) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(&bytes[at..at + 32]);
    out
}

impl Header {
    /// Reads and checks a header: length, magic, major, required features, size. Nothing else is looked at.
    pub(super) fn parse(file: &[u8]) -> Result<Self, PlanError> {
        let found = file.len() as u64;
        if file.len() < HEADER {
            return Err(PlanError::TooShort { found, expected: HEADER as u64 });
        }
        let mut magic = [0; 8];
        magic.copy_from_slice(&file[..8]);
        if magic != MAGIC {
            return Err(PlanError::Magic { found: magic });
        }
        let major = u16_at(file, 8);
        if major < FORMAT_MAJOR {
            return Err(PlanError::TooOld { found: major, expected: FORMAT_MAJOR });
        }
        if major > FORMAT_MAJOR {
            return Err(PlanError::TooNew { found: major, expected: FORMAT_MAJOR });
        }
        let unknown = u32_at(file, 12) & !KNOWN_FEATURES;
        if unknown != 0 {
            return Err(PlanError::UnknownFeature { unknown });
        }
        let file_len = u64_at(file, 16);
        if file_len != found {
            return Err(PlanError::Length { found, expected: file_len });
        }
        Ok(Self { file_len, section_count: u32_at(file, 24), meta_len: u32_at(file, 28), root: RootHash(hash_at(file, HASH_AT)) })
    }

    /// First byte of the metadata: header and table come before.
    pub(super) fn meta_start(&self) -> u64 {
        HEADER as u64 + u64::from(self.section_count) * ROW as u64
    }

    /// First byte behind the metadata and its padding; at most 2^38, so it cannot wrap.
    pub(super) fn body_start(&self) -> u64 {
        self.meta_start() + u64::from(self.meta_len).div_ceil(ALIGN) * ALIGN
    }

    /// The header as bytes.
    pub(super) fn to_bytes(self) -> [u8; HEADER] {
        let mut out = [0; HEADER];
        out[..8].copy_from_slice(&MAGIC);
        out[8..10].copy_from_slice(&FORMAT_MAJOR.to_le_bytes());
        out[10..12].copy_from_slice(&FORMAT_MINOR.to_le_bytes());
        out[16..24].copy_from_slice(&self.file_len.to_le_bytes());
        out[24..28].copy_from_slice(&self.section_count.to_le_bytes());
        out[28..32].copy_from_slice(&self.meta_len.to_le_bytes());
        out[HASH_AT..].copy_from_slice(&self.root.0);
        out
    }
}

/// The root hash of a file's first bytes: header up to the hash, then table and padded metadata.
pub(super) fn root_hash(header: &[u8], table_and_meta: &[u8]) -> RootHash {
    let mut hasher = blake3::Hasher::new_derive_key(context::PLAN_ROOT);
    hasher.update(&header[..HASH_AT]).update(table_and_meta);
    RootHash(*hasher.finalize().as_bytes())
}

/// One row of the section table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SectionRow {
    pub(super) kind: u32,
    pub(super) offset: u64,
    pub(super) len: u64,
    pub(super) digest: ContentHash,
}

impl SectionRow {
    pub(super) fn parse(row: &[u8]) -> Self {
        Self { kind: u32_at(row, 0), offset: u64_at(row, 8), len: u64_at(row, 16), digest: ContentHash(hash_at(row, 32)) }
    }

    pub(super) fn to_bytes(self) -> [u8; ROW] {
        let mut out = [0; ROW];
        out[..4].copy_from_slice(&self.kind.to_le_bytes());
        out[8..16].copy_from_slice(&self.offset.to_le_bytes());
        out[16..24].copy_from_slice(&self.len.to_le_bytes());
        out[32..].copy_from_slice(&self.digest.0);
        out
    }

    /// Length with padding.
    pub(super) fn padded_len(&self) -> Option<u64> {
        round_up_64(self.len)
    }
}
