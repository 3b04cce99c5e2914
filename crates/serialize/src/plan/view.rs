//! Reading a plan file in place.

use super::layout::{HEADER, Header, ROW, RawRow, SectionKind, SectionRow, root_hash};
use super::payload::PayloadHead;
use super::{ArchivedPlanMetaV1, PlanError};
use crate::{ContentHash, GraphKey, PlanRef, RootHash};

/// A plan file whose header, section table and metadata have been checked. Sections are checked when they are asked for.
#[derive(Clone, Copy, Debug)]
pub struct PlanView<'a> {
    file: &'a [u8],
    header: Header,
    table: &'a [RawRow],
    meta: &'a ArchivedPlanMetaV1,
    /// Index and row of each known kind.
    canonical: (u32, SectionRow),
    payload: (u32, SectionRow),
}

impl<'a> PlanView<'a> {
    /// Checks header, section table and metadata. The cost does not depend on the payload's size.
    ///
    /// `file` must start at a multiple of 16; [`AlignedBytes`](crate::AlignedBytes) and mappings do.
    ///
    /// # Errors
    /// The first thing that is wrong, in the order of `docs/format.md`.
    pub fn open(file: &'a [u8]) -> Result<Self, PlanError> {
        let (header, header_bytes, rest) = Header::parse(file)?;
        let end = header.body_start();
        let too_short = || PlanError::Length { found: header.file_len, expected: end };
        // Header, then table, then padded metadata, then the sections.
        let checked = usize::try_from(end).ok().and_then(|end| rest.get(..end.checked_sub(HEADER)?)).ok_or_else(too_short)?;
        let found = root_hash(header_bytes, checked);
        if found != header.root {
            return Err(PlanError::RootHash { found, expected: header.root });
        }
        let table_len = header.meta_start().saturating_sub(HEADER as u64);
        let split = usize::try_from(table_len).ok().and_then(|at| checked.split_at_checked(at));
        let (table, padded_meta) = split.ok_or_else(too_short)?;
        let table: &[RawRow] = bytemuck::cast_slice(table.as_chunks::<ROW>().0);
        let [canonical, payload] = check_table(table, &header)?;
        if !file.as_ptr().addr().is_multiple_of(16) {
            return Err(PlanError::Misaligned);
        }
        let split = usize::try_from(header.meta_len).ok().and_then(|at| padded_meta.split_at_checked(at));
        let (meta, padding) = split.ok_or_else(too_short)?;
        if let Some(&byte) = padding.iter().find(|&&b| b != 0) {
            return Err(PlanError::MetadataField { field: "padding".into(), found: byte.to_string(), expected: "0".into() });
        }
        let meta = rkyv::access::<ArchivedPlanMetaV1, rkyv::rancor::Error>(meta).map_err(|e| PlanError::Metadata(e.to_string()))?;
        meta.check()?;
        Ok(Self { file, header, table, meta, canonical, payload })
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
        let encoding = self.checked(self.canonical, SectionKind::Canonical.name())?;
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

    /// Whether the plan's graph has opted in to execute-time shapes, as the canonical section says before it is checked. Damage can only
    /// make this say no, and shapes are refused, or yes, and [`canonical`](Self::canonical) is refused.
    pub fn is_override_shape_enabled(&self) -> bool {
        let section = usize::try_from(self.canonical.1.offset).ok().and_then(|at| self.file.get(at..));
        section.is_some_and(crate::canon::is_override_shape_enabled)
    }

    /// The provider payload, checked against its digest; its kind and version are read, nothing more.
    pub fn payload(&self) -> Result<PayloadHead<'a>, PlanError> {
        Ok(PayloadHead::parse(self.checked(self.payload, SectionKind::Payload.name())?)?)
    }

    /// Checks every byte: all sections, the graph key, the plan key, and that metadata and payload agree.
    pub fn verify(&self) -> Result<(), PlanError> {
        for (index, raw) in (0..).zip(self.table) {
            self.checked((index, parse_row(index, raw)?), "any")?;
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

    /// The bytes of a section, checked against its digest.
    fn checked(&self, (index, row): (u32, SectionRow), name: &'static str) -> Result<&'a [u8], PlanError> {
        // `check_table` has shown that offset and padded length lie in the file.
        let at = usize::try_from(row.offset).ok();
        let padded_len = row.padded_len().and_then(|len| usize::try_from(len).ok());
        let padded = at.zip(padded_len).and_then(|(at, len)| self.file.get(at..at.checked_add(len)?));
        let split = |padded: &'a [u8]| padded.split_at_checked(usize::try_from(row.len).ok()?);
        let Some((padded, (section, padding))) = padded.and_then(|padded| Some((padded, split(padded)?))) else {
            return Err(PlanError::Section { index, field: "length", found: row.len, expected: self.header.file_len });
        };
        let found = ContentHash(*blake3::hash(padded).as_bytes());
        if found != row.digest {
            return Err(PlanError::SectionDigest { index, name, found, expected: row.digest });
        }
        match padding.iter().find(|&&b| b != 0) {
            None => Ok(section),
            Some(&byte) => Err(PlanError::Section { index, field: "padding", found: byte.into(), expected: 0 }),
        }
    }
}

fn parse_row(index: u32, raw: &RawRow) -> Result<SectionRow, PlanError> {
    SectionRow::parse(raw).map_err(|byte| PlanError::Section { index, field: "reserved field", found: byte.into(), expected: 0 })
}

/// Sections lie without gaps from the end of the metadata to the end of the file, and each known kind stands once. Gives the rows of
/// the known kinds, in the order of [`SectionKind::ALL`].
fn check_table(table: &[RawRow], header: &Header) -> Result<[(u32, SectionRow); SectionKind::ALL.len()], PlanError> {
    let mut known = SectionKind::ALL.map(|kind| (kind, 0_u32, None));
    let mut next = header.body_start();
    for (index, raw) in (0..).zip(table) {
        let row = parse_row(index, raw)?;
        let fail = |field, found, expected| Err(PlanError::Section { index, field, found, expected });
        if row.offset != next {
            return fail("offset", row.offset, next);
        }
        let room = header.file_len.saturating_sub(next);
        match row.padded_len().filter(|&len| len <= room).and_then(|len| next.checked_add(len)) {
            Some(end) => next = end,
            None => return fail("length", row.len, room),
        }
        for (kind, count, found) in &mut known {
            if row.kind == *kind as u32 {
                *count = count.saturating_add(1);
                *found = Some((index, row));
            }
        }
    }
    if next != header.file_len {
        return Err(PlanError::Length { found: header.file_len, expected: next });
    }
    let [canonical, payload] = known.map(|(kind, count, row)| match row {
        Some(row) if count == 1 => Ok(row),
        _ => Err(PlanError::SectionCount { name: kind.name(), count }),
    });
    Ok([canonical?, payload?])
}
