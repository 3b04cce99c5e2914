//! Reading a plan file in place.

use super::layout::{ALIGN, HEADER, Header, ROW, SectionKind, SectionRow, root_hash};
use super::payload::PayloadHead;
use super::{ArchivedPlanMetaV1, PlanError};
use crate::{ContentHash, GraphKey, PlanRef, RootHash};

/// A plan file whose header, section table and metadata have been checked. Sections are checked when they are asked for.
#[derive(Clone, Copy, Debug)]
pub struct PlanView<'a> {
    file: &'a [u8],
    header: Header,
    meta: &'a ArchivedPlanMetaV1,
    /// Row of each known kind, in the order of [`SectionKind::ALL`].
    rows: [u32; SectionKind::ALL.len()],
}

impl<'a> PlanView<'a> {
    /// Checks header, section table and metadata. The cost does not depend on the payload's size.
    ///
    /// `file` must start at a multiple of 16; [`AlignedBytes`](crate::AlignedBytes) and mappings do.
    ///
    /// # Errors
    /// The first thing that is wrong, in the order of `docs/format.md`.
    pub fn open(file: &'a [u8]) -> Result<Self, PlanError> {
        let header = Header::parse(file)?;
        let end = header.body_start();
        if end > header.file_len {
            return Err(PlanError::Length { found: header.file_len, expected: end });
        }
        // `end` is at most the length of a slice, so it fits a usize.
        let end = end as usize;
        let found = root_hash(file, &file[HEADER..end]);
        if found != header.root {
            return Err(PlanError::RootHash { found, expected: header.root });
        }
        let rows = check_table(file, &header)?;
        if !(file.as_ptr() as usize).is_multiple_of(16) {
            return Err(PlanError::Misaligned);
        }
        let meta_at = header.meta_start() as usize;
        if let Some(&byte) = file[meta_at + header.meta_len as usize..end].iter().find(|&&b| b != 0) {
            return Err(PlanError::MetadataField { field: "padding".into(), found: byte.to_string(), expected: "0".into() });
        }
        let meta = rkyv::access::<ArchivedPlanMetaV1, rkyv::rancor::Error>(&file[meta_at..meta_at + header.meta_len as usize])
            .map_err(|e| PlanError::Metadata(e.to_string()))?;
        meta.check()?;
        Ok(Self { file, header, meta, rows })
    }

    /// The metadata.
    pub fn meta(&self) -> &'a ArchivedPlanMetaV1 {
        self.meta
    }

    /// The plan's content address.
    pub fn root(&self) -> RootHash {
        self.header.root
    }

    /// Key, root hash and length: what an index records of this plan.
    pub fn plan_ref(&self) -> PlanRef {
        PlanRef { key: self.meta.plan_key(), root: self.header.root, size: self.header.file_len }
    }

    /// The canonical encoding of the graph, checked against its digest and against the graph key.
    ///
    /// # Errors
    /// The section is damaged, or it is the encoding of another graph than the metadata names.
    pub fn canonical(&self) -> Result<&'a [u8], PlanError> {
        let encoding = self.section(SectionKind::Canonical)?;
        let key = GraphKey::of_encoding(encoding);
        if key == self.meta.graph_key() {
            return Ok(encoding);
        }
        Err(PlanError::MetadataField {
            field: "graph key".into(),
            found: self.meta.graph_key().to_string(),
            expected: format!("{key}, the key of the canonical section"),
        })
    }

    /// The provider payload, checked against its digest; its kind and version are read, nothing more.
    pub fn payload(&self) -> Result<PayloadHead<'a>, PlanError> {
        Ok(PayloadHead::parse(self.section(SectionKind::Payload)?)?)
    }

    /// Checks every byte: all sections, the graph key, the plan key, and that metadata and payload agree.
    pub fn verify(&self) -> Result<(), PlanError> {
        for index in 0..self.header.section_count {
            self.checked(index, "any")?;
        }
        self.canonical()?;
        let key = self.meta.identity().key();
        if key != self.meta.plan_key() {
            return Err(PlanError::MetadataField {
                field: "plan key".into(),
                found: self.meta.plan_key().to_string(),
                expected: format!("{key}, the key of graph, target, engine and knobs"),
            });
        }
        self.check_runtime_set(&self.payload()?.read_tables()?)
    }

    /// The payload's runtime set is the authority (R16 §4.6); bindings that disagree with it refuse the plan.
    pub fn check_runtime_set(&self, payload: &super::PayloadView<'_>) -> Result<(), PlanError> {
        let bound = self.meta.bindings.iter().filter(|b| b.kind().is_runtime()).map(|b| i64::from(b.ordinal.to_native()));
        if bound.clone().eq(payload.runtime_uids()) {
            return Ok(());
        }
        Err(PlanError::MetadataField {
            field: "runtime scalars among the bindings".into(),
            found: format!("{:?}", bound.collect::<Vec<_>>()),
            expected: format!("{:?}, the payload's runtime set", payload.runtime_uids().collect::<Vec<_>>()),
        })
    }

    fn row(&self, index: u32) -> SectionRow {
        let at = HEADER + index as usize * ROW;
        SectionRow::parse(&self.file[at..at + ROW])
    }

    fn section(&self, kind: SectionKind) -> Result<&'a [u8], PlanError> {
        let slot = kind as usize - SectionKind::ALL[0] as usize;
        self.checked(self.rows[slot], kind.name())
    }

    fn checked(&self, index: u32, name: &'static str) -> Result<&'a [u8], PlanError> {
        let row = self.row(index);
        // `check_table` has shown that offset and padded length lie in the file.
        let at = row.offset as usize;
        let padded = &self.file[at..at + (row.len as usize).next_multiple_of(ALIGN as usize)];
        let found = ContentHash(*blake3::hash(padded).as_bytes());
        if found != row.digest {
            return Err(PlanError::SectionDigest { index, name, found, expected: row.digest });
        }
        let (section, padding) = padded.split_at(row.len as usize);
        match padding.iter().find(|&&b| b != 0) {
            None => Ok(section),
            Some(&byte) => Err(PlanError::Section { index, field: "padding", found: byte.into(), expected: 0 }),
        }
    }
}

/// Sections lie without gaps from the end of the metadata to the end of the file, and each known kind stands once.
fn check_table(file: &[u8], header: &Header) -> Result<[u32; SectionKind::ALL.len()], PlanError> {
    let mut rows = [0; SectionKind::ALL.len()];
    let mut counts = [0; SectionKind::ALL.len()];
    let mut next = header.body_start();
    for index in 0..header.section_count {
        let at = HEADER + index as usize * ROW;
        let row = SectionRow::parse(&file[at..at + ROW]);
        let fail = |field, found, expected| PlanError::Section { index, field, found, expected };
        if let Some(&byte) = file[at + 4..at + 8].iter().chain(&file[at + 24..at + 32]).find(|&&b| b != 0) {
            return Err(fail("reserved field", byte.into(), 0));
        }
        if row.offset != next {
            return Err(fail("offset", row.offset, next));
        }
        let room = header.file_len - next;
        match row.padded_len() {
            Some(len) if len <= room => next += len,
            _ => return Err(fail("length", row.len, room)),
        }
        for (i, kind) in SectionKind::ALL.into_iter().enumerate() {
            if row.kind == kind as u32 {
                rows[i] = index;
                counts[i] += 1;
            }
        }
    }
    if next != header.file_len {
        return Err(PlanError::Length { found: header.file_len, expected: next });
    }
    for (kind, count) in SectionKind::ALL.into_iter().zip(counts) {
        if count != 1 {
            return Err(PlanError::SectionCount { name: kind.name(), count });
        }
    }
    Ok(rows)
}
