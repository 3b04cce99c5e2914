//! Writing a plan file.

use super::layout::{ALIGN, HEADER, Header, SectionKind, SectionRow, root_hash};
use super::{PlanError, PlanMetaV1, PlanView};
use crate::aligned::round_up_64;
use crate::{AlignedBytes, ContentHash, RootHash};

/// The parts of a plan file. Equal parts give equal bytes, wherever and whenever they are written (P6).
#[derive(Debug)]
pub struct PlanWriter<'a> {
    /// The metadata.
    pub meta: &'a PlanMetaV1,
    /// The canonical encoding of the graph.
    pub canonical: &'a [u8],
    /// The provider payload container.
    pub payload: &'a [u8],
}

impl PlanWriter<'_> {
    /// The file as bytes. What was written is read back and checked before it is handed out.
    pub fn finish(&self) -> Result<AlignedBytes, PlanError> {
        let meta = rkyv::to_bytes::<rkyv::rancor::Error>(self.meta).map_err(|e| PlanError::Metadata(e.to_string()))?;
        let meta_len = u32::try_from(meta.len()).map_err(|_| PlanError::TooLarge {
            what: "the metadata",
            size: meta.len() as u64,
            limit: u64::from(u32::MAX),
        })?;
        let sections = [(SectionKind::Canonical, self.canonical), (SectionKind::Payload, self.payload)];
        let mut header = Header { file_len: 0, section_count: sections.len() as u32, meta_len, root: RootHash([0; 32]) };

        let mut file = AlignedBytes::new();
        file.resize(HEADER, 0);
        let mut offset = header.body_start();
        for (kind, bytes) in sections {
            let len = bytes.len() as u64;
            let row = SectionRow { kind: kind as u32, offset, len, digest: padded_digest(bytes) };
            file.extend_from_slice(&row.to_bytes());
            offset = round_up_64(len).and_then(|len| offset.checked_add(len)).ok_or(PlanError::TooLarge {
                what: kind.name(),
                size: len,
                limit: u64::MAX - ALIGN,
            })?;
        }
        file.extend_from_slice(&meta);
        pad(&mut file);
        header.file_len = offset;
        if let Some((place, rest)) = file.split_first_chunk_mut::<HEADER>() {
            header.root = root_hash(&header.to_bytes(), rest);
            *place = header.to_bytes();
        }
        for (_, bytes) in sections {
            file.extend_from_slice(bytes);
            pad(&mut file);
        }
        PlanView::open(&file)?.verify()?;
        Ok(file)
    }
}

fn pad(file: &mut AlignedBytes) {
    file.resize(file.len().next_multiple_of(ALIGN as usize), 0);
}

fn padded_digest(bytes: &[u8]) -> ContentHash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(bytes);
    let padding = bytes.len().next_multiple_of(ALIGN as usize).saturating_sub(bytes.len());
    hasher.update([0; ALIGN as usize].get(..padding).unwrap_or_default());
    ContentHash(*hasher.finalize().as_bytes())
}
