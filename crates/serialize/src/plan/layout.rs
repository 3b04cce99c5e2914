//! The fixed parts of a plan file: header and section rows, as bytes.

use super::{FORMAT_MAJOR, FORMAT_MINOR, KNOWN_FEATURES, PlanError};
use crate::aligned::round_up_64;
use crate::key::context;
use crate::{ContentHash, RootHash};
use bytemuck::{Pod, Zeroable};

/// Bytes of a header.
pub(super) const HEADER: usize = 64;
/// Bytes of a section row.
pub(super) const ROW: usize = 64;
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

/// The header as it stands in the file.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct RawHeader {
    magic: [u8; 8],
    major: [u8; 2],
    minor: [u8; 2],
    features: [u8; 4],
    file_len: [u8; 8],
    section_count: [u8; 4],
    meta_len: [u8; 4],
    root: [u8; 32],
}

/// A section row as it stands in the file.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct RawRow {
    kind: [u8; 4],
    reserved_4: [u8; 4],
    offset: [u8; 8],
    len: [u8; 8],
    reserved_24: [u8; 8],
    digest: [u8; 32],
}

const _: () = assert!(size_of::<RawHeader>() == HEADER && size_of::<RawRow>() == ROW);

impl Header {
    /// Reads and checks a header: length, magic, major, required features, size. Nothing else is looked at. Gives its bytes too, and
    /// those behind it.
    pub(super) fn parse(file: &[u8]) -> Result<(Self, &[u8; HEADER], &[u8]), PlanError> {
        let found = file.len() as u64;
        let Some((header, rest)) = file.split_first_chunk::<HEADER>() else {
            return Err(PlanError::TooShort { found, expected: HEADER as u64 });
        };
        let raw: &RawHeader = bytemuck::cast_ref(header);
        if raw.magic != MAGIC {
            return Err(PlanError::Magic { found: raw.magic });
        }
        let major = u16::from_le_bytes(raw.major);
        if major < FORMAT_MAJOR {
            return Err(PlanError::TooOld { found: major, expected: FORMAT_MAJOR });
        }
        if major > FORMAT_MAJOR {
            return Err(PlanError::TooNew { found: major, expected: FORMAT_MAJOR });
        }
        let unknown = u32::from_le_bytes(raw.features) & !KNOWN_FEATURES;
        if unknown != 0 {
            return Err(PlanError::UnknownFeature { unknown });
        }
        let file_len = u64::from_le_bytes(raw.file_len);
        if file_len != found {
            return Err(PlanError::Length { found, expected: file_len });
        }
        let (section_count, meta_len) = (u32::from_le_bytes(raw.section_count), u32::from_le_bytes(raw.meta_len));
        Ok((Self { file_len, section_count, meta_len, root: RootHash(raw.root) }, header, rest))
    }

    /// First byte of the metadata: header and table come before. At most 2^38 + 64.
    pub(super) fn meta_start(&self) -> u64 {
        u64::from(self.section_count).saturating_mul(ROW as u64).saturating_add(HEADER as u64)
    }

    /// First byte behind the metadata and its padding.
    pub(super) fn body_start(&self) -> u64 {
        let meta = u64::from(self.meta_len).checked_next_multiple_of(ALIGN).unwrap_or(u64::MAX);
        self.meta_start().saturating_add(meta)
    }

    /// The header as bytes.
    pub(super) fn to_bytes(self) -> [u8; HEADER] {
        bytemuck::cast(RawHeader {
            magic: MAGIC,
            major: FORMAT_MAJOR.to_le_bytes(),
            minor: FORMAT_MINOR.to_le_bytes(),
            features: [0; 4],
            file_len: self.file_len.to_le_bytes(),
            section_count: self.section_count.to_le_bytes(),
            meta_len: self.meta_len.to_le_bytes(),
            root: self.root.0,
        })
    }
}

/// The root hash over the header up to the hash itself, and what follows the header up to the first section.
pub(super) fn root_hash(header: &[u8; HEADER], table_and_meta: &[u8]) -> RootHash {
    let [covered, _] = bytemuck::cast_ref::<_, [[u8; 32]; 2]>(header);
    let mut hasher = blake3::Hasher::new_derive_key(context::PLAN_ROOT);
    hasher.update(covered).update(table_and_meta);
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
    /// Reads a row; reserved bytes other than 0 are an error, which tells the first of them.
    pub(super) fn parse(raw: &RawRow) -> Result<Self, u8> {
        match raw.reserved_4.iter().chain(&raw.reserved_24).find(|&&byte| byte != 0) {
            Some(&byte) => Err(byte),
            None => Ok(Self {
                kind: u32::from_le_bytes(raw.kind),
                offset: u64::from_le_bytes(raw.offset),
                len: u64::from_le_bytes(raw.len),
                digest: ContentHash(raw.digest),
            }),
        }
    }

    pub(super) fn to_bytes(self) -> [u8; ROW] {
        bytemuck::cast(RawRow {
            kind: self.kind.to_le_bytes(),
            reserved_4: [0; 4],
            offset: self.offset.to_le_bytes(),
            len: self.len.to_le_bytes(),
            reserved_24: [0; 8],
            digest: self.digest.0,
        })
    }

    /// Length with padding.
    pub(super) fn padded_len(&self) -> Option<u64> {
        round_up_64(self.len)
    }
}
