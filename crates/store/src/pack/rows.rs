//! All rows of a kind, one after another.

use super::format::{RawRow, round_up};
use super::reader::{Pack, PackRow};
use crate::pack::error::PackError;
use crate::{EntryKind, StoreError};
use bytemuck::Zeroable;
use std::borrow::Borrow;
use std::sync::Arc;

/// Rows that are read at once.
const CHUNK: u32 = 512;

/// Ascends through the rows of a kind. Ends with the first error.
struct Rows<P> {
    pack: P,
    kind: EntryKind,
    /// What was read last, its first row being number `first`.
    chunk: Vec<RawRow>,
    first: u32,
    next: u32,
    before: Option<[u8; 32]>,
    /// Where the next value must begin; `None` as long as the kinds before have not been asked.
    place: Option<u64>,
    ended: bool,
}

impl Pack {
    /// The rows of a kind, ascending by name. A row that is out of order, or whose bytes are not right behind those of the row
    /// before, ends it with an error: so no two rows share bytes, and what all of them hold is no more than the file.
    pub(crate) fn rows(&self, kind: EntryKind) -> impl Iterator<Item = Result<PackRow, StoreError>> + '_ {
        rows_of(self, kind)
    }

    /// The same, keeping the pack open.
    pub(crate) fn into_rows(self: Arc<Self>, kind: EntryKind) -> impl Iterator<Item = Result<PackRow, StoreError>> {
        rows_of(self, kind)
    }

    /// Where the values of a kind begin: behind the last value of the kinds before it.
    pub(super) fn values_of(&self, kind: EntryKind) -> Result<u64, StoreError> {
        let before = EntryKind::ALL.into_iter().take_while(|&before| before != kind);
        match before.filter(|&before| self.len(before) > 0).last() {
            None => Ok(self.header.values_offset),
            Some(last) => self.end_of(last),
        }
    }

    /// Where the values of a kind that has any end.
    pub(super) fn end_of(&self, kind: EntryKind) -> Result<u64, StoreError> {
        let number = self.len(kind).saturating_sub(1);
        let mut raw = RawRow::zeroed();
        self.read_at(self.header.table(kind).row_offset(number), bytemuck::bytes_of_mut(&mut raw))?;
        Ok(end(&self.row(kind, number, &raw)?))
    }
}

fn rows_of<P: Borrow<Pack>>(pack: P, kind: EntryKind) -> Rows<P> {
    Rows { pack, kind, chunk: Vec::new(), first: 0, next: 0, before: None, place: None, ended: false }
}

/// Where the next value begins. Rows that were checked are inside the file, so it does not saturate.
pub(super) fn end(row: &PackRow) -> u64 {
    round_up(row.offset.saturating_add(row.size)).unwrap_or(u64::MAX)
}

impl<P: Borrow<Pack>> Rows<P> {
    fn advance(&mut self) -> Result<Option<PackRow>, StoreError> {
        let pack = self.pack.borrow();
        let table = pack.header.table(self.kind);
        if self.next >= table.rows {
            return Ok(None);
        }
        let place = match self.place {
            Some(place) => place,
            None => pack.values_of(self.kind)?,
        };
        let at = usize::try_from(self.next.saturating_sub(self.first)).unwrap_or(usize::MAX);
        let raw = match self.chunk.get(at) {
            Some(raw) => *raw,
            None => {
                let count = table.rows.saturating_sub(self.next).min(CHUNK);
                self.first = self.next;
                self.chunk.resize(usize::try_from(count).unwrap_or(0), RawRow::zeroed());
                pack.read_at(table.row_offset(self.next), bytemuck::cast_slice_mut(&mut self.chunk))?;
                let Some(raw) = self.chunk.first() else { return Ok(None) };
                *raw
            }
        };
        if self.before >= Some(raw.name) {
            return Err(pack.unsorted(self.kind, self.next, &raw.name));
        }
        let row = pack.row(self.kind, self.next, &raw)?;
        if row.offset != place {
            let (found, expected) = (row.offset.to_string(), format!("{place}, behind the value before"));
            let fault = PackError::Row { kind: self.kind, row: self.next, field: "offset", found, expected };
            return Err(pack.fault(fault));
        }
        self.place = Some(end(&row));
        self.before = Some(raw.name);
        self.next = self.next.saturating_add(1);
        Ok(Some(row))
    }
}

impl<P: Borrow<Pack>> Iterator for Rows<P> {
    type Item = Result<PackRow, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let row = self.advance().transpose();
        self.ended = !matches!(row, Some(Ok(_)));
        row
    }
}
