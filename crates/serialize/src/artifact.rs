//! The native graph artifact: a 64-byte header around an untouched hipDNN buffer (G3).

use crate::key::context;
use crate::{AlignedBytes, ContentHash};
use bytemuck::{Pod, Zeroable};

/// Bytes of the header.
pub const HEADER_LEN: usize = 64;
/// Header version that this crate reads and writes.
pub const HEADER_VERSION: u16 = 1;
/// Highest `min_reader_version` that this crate honours (R16 §4.10: K_GRAPH_READER_VERSION).
pub const READER_VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"\x89HPGR\r\n\x1a";

/// The header as it stands in the file.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct RawHeader {
    magic: [u8; 8],
    version: [u8; 2],
    reserved_10: [u8; 2],
    min_reader_version: [u8; 4],
    length: [u8; 8],
    reserved_24: [u8; 8],
    digest: [u8; 32],
}

const _: () = assert!(size_of::<RawHeader>() == HEADER_LEN);

/// A graph artifact that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the message of each variant says what its fields are")]
pub enum ArtifactError {
    /// Fewer bytes than a header.
    #[error("graph artifact: {found} bytes are fewer than the 64 of a header; the file is truncated or not an artifact")]
    TooShort { found: u64 },
    /// The first eight bytes are not an artifact's.
    #[error("graph artifact: magic is {found:02x?}; this is not a graph artifact (a `.hpgraph` written by hipplan was expected)")]
    Magic { found: [u8; 8] },
    /// Written by a hipplan too old to be read.
    #[error("graph artifact: header version {found} is too old, this hipplan reads {expected}; import the graph again")]
    TooOld { found: u16, expected: u16 },
    /// Written by a newer hipplan.
    #[error("graph artifact: header version {found} is too new, this hipplan reads {expected}; use the hipplan that wrote it")]
    TooNew { found: u16, expected: u16 },
    /// The length in the header is not the buffer's.
    #[error("graph artifact: {found} bytes follow the header, it says {expected}; the file is truncated or has grown")]
    Length { found: u64, expected: u64 },
    /// A reserved byte is not zero: written by something that is not hipplan, or newer.
    #[error("graph artifact: reserved byte {at} is {found:#04x}, expected 0")]
    Reserved { at: usize, found: u8 },
    /// The bytes are not what was written.
    #[error("graph artifact: digest is {found}, the header says {expected}; the file is damaged")]
    Digest { found: ContentHash, expected: ContentHash },
    /// The graph needs a newer reader (R16 §4.10).
    #[error("graph artifact: min_reader_version {found} is above this reader's {known}; the graph is too new")]
    ReaderVersion { found: u32, known: u32 },
    /// The stamp disagrees with the graph.
    #[error("graph artifact: min_reader_version is {found}, the graph's tensors imply {expected}")]
    Stamp { found: u32, expected: u32 },
}

impl ArtifactError {
    /// Written for a newer reader.
    pub fn is_too_new(&self) -> bool {
        matches!(self, Self::TooNew { .. } | Self::ReaderVersion { .. })
    }

    /// Written by a version that is no longer read.
    pub fn is_too_old(&self) -> bool {
        matches!(self, Self::TooOld { .. })
    }
}

/// Whether these bytes start like a graph artifact.
pub fn is_artifact(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

/// An artifact whose header and digest have been checked; its buffer has not been looked at.
#[derive(Clone, Copy, Debug)]
pub struct Artifact<'a> {
    /// 1 when the graph holds a runtime pass-by-value tensor, else 0.
    pub min_reader_version: u32,
    /// The hipDNN buffer.
    pub buffer: &'a [u8],
}

impl<'a> Artifact<'a> {
    /// Checks length, magic, header version, size, digest and the reader guard, in this order.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ArtifactError> {
        let Some((header, buffer)) = bytes.split_first_chunk::<HEADER_LEN>() else {
            return Err(ArtifactError::TooShort { found: bytes.len() as u64 });
        };
        let header: &RawHeader = bytemuck::cast_ref(header);
        if header.magic != MAGIC {
            return Err(ArtifactError::Magic { found: header.magic });
        }
        let version = u16::from_le_bytes(header.version);
        if version < HEADER_VERSION {
            return Err(ArtifactError::TooOld { found: version, expected: HEADER_VERSION });
        }
        if version > HEADER_VERSION {
            return Err(ArtifactError::TooNew { found: version, expected: HEADER_VERSION });
        }
        let expected = u64::from_le_bytes(header.length);
        if buffer.len() as u64 != expected {
            return Err(ArtifactError::Length { found: buffer.len() as u64, expected });
        }
        let (found, expected) = (digest(header, buffer), ContentHash(header.digest));
        if found != expected {
            return Err(ArtifactError::Digest { found, expected });
        }
        let reserved = (10..).zip(header.reserved_10).chain((24..).zip(header.reserved_24));
        if let Some((at, found)) = reserved.into_iter().find(|&(_, byte)| byte != 0) {
            return Err(ArtifactError::Reserved { at, found });
        }
        let min_reader_version = u32::from_le_bytes(header.min_reader_version);
        if min_reader_version > READER_VERSION {
            return Err(ArtifactError::ReaderVersion { found: min_reader_version, known: READER_VERSION });
        }
        Ok(Self { min_reader_version, buffer })
    }

    /// The artifact as a file.
    pub fn to_bytes(&self) -> AlignedBytes {
        let mut header = RawHeader {
            magic: MAGIC,
            version: HEADER_VERSION.to_le_bytes(),
            min_reader_version: self.min_reader_version.to_le_bytes(),
            length: (self.buffer.len() as u64).to_le_bytes(),
            ..RawHeader::zeroed()
        };
        header.digest = digest(&header, self.buffer).0;
        let mut file = AlignedBytes::with_capacity(HEADER_LEN.saturating_add(self.buffer.len()));
        file.extend_from_slice(bytemuck::bytes_of(&header));
        file.extend_from_slice(self.buffer);
        file
    }
}

/// Over the header up to the digest, then the buffer.
fn digest(header: &RawHeader, buffer: &[u8]) -> ContentHash {
    let [covered, _] = bytemuck::cast_ref::<_, [[u8; 32]; 2]>(header);
    let mut hasher = blake3::Hasher::new_derive_key(context::GRAPH_ARTIFACT);
    hasher.update(covered).update(buffer);
    ContentHash(*hasher.finalize().as_bytes())
}
