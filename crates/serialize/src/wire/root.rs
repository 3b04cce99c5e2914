//! The root table of a buffer that nobody has verified yet: which slots it has, and where.
//!
//! hipDNN's buffers carry no identifier, and two of its slots changed their type without a new version. What a slot holds has
//! then to be told from the table's shape, before a verifier can be asked.
#![deny(clippy::as_conversions)]

/// A table whose vtable lies in the buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawTable<'a> {
    buffer: &'a [u8],
    /// Where the table starts.
    at: usize,
    vtable: usize,
    vtable_len: usize,
    table_len: usize,
}

fn u16_at(buffer: &[u8], at: usize) -> Option<usize> {
    let bytes: &[u8; 2] = buffer.get(at..)?.first_chunk()?;
    Some(usize::from(u16::from_le_bytes(*bytes)))
}

/// The number at this place.
pub(crate) fn u32_at(buffer: &[u8], at: usize) -> Option<u32> {
    buffer.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

/// Where the offset at this place leads; nothing when it leads nowhere.
fn follow(buffer: &[u8], at: usize) -> Option<usize> {
    let offset = u32_at(buffer, at).and_then(|v| usize::try_from(v).ok())?;
    let target = at.checked_add(offset)?;
    (at.is_multiple_of(4) && offset != 0 && target.is_multiple_of(4) && target < buffer.len()).then_some(target)
}

/// The bytes of a vector of `size`-byte elements to which the offset at this place leads.
pub(crate) fn vector_at(buffer: &[u8], at: usize, size: usize) -> Option<&[u8]> {
    let vector = follow(buffer, at)?;
    let count = u32_at(buffer, vector).and_then(|v| usize::try_from(v).ok())?;
    let start = vector.checked_add(4)?;
    buffer.get(start..start.checked_add(count.checked_mul(size)?)?)
}

impl<'a> RawTable<'a> {
    /// The root table, which lies in the buffer.
    pub(crate) fn root(buffer: &'a [u8]) -> Option<Self> {
        Self::stated_root(buffer).filter(Self::lies_in_buffer)
    }

    /// The root table, whatever it says of its own size: the FlatBuffers verifier does not look at that.
    pub(crate) fn stated_root(buffer: &'a [u8]) -> Option<Self> {
        Self::at(buffer, follow(buffer, 0)?)
    }

    fn lies_in_buffer(&self) -> bool {
        let end = self.at.checked_add(self.table_len);
        self.vtable_len >= 4 && self.table_len >= 4 && end.is_some_and(|end| end <= self.buffer.len())
    }

    /// The table at this place.
    fn at(buffer: &'a [u8], at: usize) -> Option<Self> {
        let back = i64::from(u32_at(buffer, at)?.cast_signed());
        let vtable = usize::try_from(i64::try_from(at).ok()?.checked_sub(back)?).ok()?;
        let (vtable_len, table_len) = (u16_at(buffer, vtable)?, u16_at(buffer, vtable.checked_add(2)?)?);
        let fits = buffer.get(vtable..vtable.checked_add(vtable_len)?).is_some();
        (fits && vtable_len.is_multiple_of(2)).then_some(Self { buffer, at, vtable, vtable_len, table_len })
    }

    fn offset(&self, slot: usize) -> Option<usize> {
        let entry = slot.checked_mul(2)?.checked_add(4)?;
        if entry >= self.vtable_len {
            return None;
        }
        u16_at(self.buffer, self.vtable.checked_add(entry)?).filter(|&offset| offset != 0)
    }

    /// Where in the buffer the field in this slot stands, and the bytes up to the next field or the table's end; none for a field
    /// behind that end.
    pub(crate) fn slot(&self, slot: usize) -> Option<(usize, usize)> {
        let offset = self.offset(slot)?;
        let slots = self.vtable_len.saturating_sub(4) / 2;
        let next = (0..slots).filter_map(|other| self.offset(other)).filter(|&other| other > offset).min();
        let end = next.unwrap_or(self.table_len).min(self.table_len);
        Some((self.at.checked_add(offset)?, end.saturating_sub(offset)))
    }

    /// Whether any slot from this one on holds a field.
    pub(crate) fn has_slot_from(&self, slot: usize) -> bool {
        (slot..self.vtable_len.saturating_sub(4) / 2).any(|slot| self.offset(slot).is_some())
    }

    /// The elements, of `size` bytes each, of the vector to which the slot's offset leads.
    pub(crate) fn vector(&self, slot: usize, size: usize) -> Option<&'a [u8]> {
        let (at, room) = self.slot(slot)?;
        if room < 4 { None } else { vector_at(self.buffer, at, size) }
    }

    /// Whether the slot holds an offset to a vector of tables; only the first of them is looked at.
    pub(crate) fn has_tables(&self, slot: usize) -> bool {
        let Some((at, _)) = self.slot(slot) else { return false };
        let Some(list) = self.vector(slot, 4) else { return false };
        let first = || Self::at(self.buffer, follow(self.buffer, follow(self.buffer, at)?.checked_add(4)?)?);
        list.is_empty() || first().is_some_and(|table| table.lies_in_buffer())
    }
}
