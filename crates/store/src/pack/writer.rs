//! Writing a pack: one pass over the bytes of its entries, with the tables kept in memory until all digests are known.

use super::error::{EntryId, PackError};
use super::format::{ALIGN, HEADER, Header, RawRow, index, root_hasher, round_up};
use super::provenance;
use crate::{EntryKind, StoreError, fs};
use hipplan_serialize::ContentHash;
use std::path::Path;

/// Bytes that are gathered before they are written.
const BUFFER: usize = 1 << 20;

/// What is to become an entry of a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NewEntry {
    pub(crate) kind: EntryKind,
    pub(crate) name: [u8; 32],
    /// Bytes that it has.
    pub(crate) size: u64,
}

/// A finished pack that has no name yet.
#[derive(Debug)]
pub(crate) struct Written {
    /// Its content is durable.
    pub(crate) temp: fs::Temp,
    pub(crate) root: [u8; 32],
    /// Length of the file.
    pub(crate) bytes: u64,
}

/// Takes the bytes of an entry, piece by piece.
pub(crate) type Sink<'s> = dyn FnMut(&[u8]) -> Result<(), StoreError> + 's;

/// Writes a pack of these entries into a temporary file in the folder `tmp`. Whatever their order, equal entries give equal bytes.
///
/// `read(i, sink)` hands the bytes of `entries[i]` to the sink; it is asked once for each, in the order of the pack. What it gives is
/// hashed and not checked, but for its size, and for the name where that is the digest: callers check what they read.
pub(crate) fn write(
    tmp: &Path,
    entries: &[NewEntry],
    provenance: &[String],
    read: &mut dyn FnMut(usize, &mut Sink<'_>) -> Result<(), StoreError>,
) -> Result<Written, StoreError> {
    let refused = |cause| StoreError::pack(tmp, cause);
    let provenance = provenance::encode(provenance).map_err(refused)?;
    let order = sorted(entries).map_err(refused)?;
    let mut header = arrange(entries, &provenance).map_err(refused)?;

    let temp = fs::create_temp(tmp).map_err(StoreError::io("create a file in", tmp))?;
    let mut out = Out { tmp, temp: &temp, at: header.values_offset, buffer: Vec::with_capacity(BUFFER) };
    let mut rows: Vec<RawRow> = Vec::with_capacity(entries.len());
    let mut hasher = blake3::Hasher::new();
    for &number in &order {
        let Some(entry) = entries.get(number as usize) else { continue };
        let offset = out.place();
        let mut size = 0_u64;
        hasher.reset();
        read(number as usize, &mut |piece| {
            size = size.saturating_add(piece.len() as u64);
            check_size(entry, size.max(entry.size)).map_err(refused)?;
            hasher.update(piece);
            out.put(piece)
        })?;
        check_size(entry, size).map_err(refused)?;
        let digest = *hasher.finalize().as_bytes();
        check_name(entry, &digest).map_err(refused)?;
        rows.push(RawRow { name: entry.name, digest, offset: offset.to_le_bytes(), size: size.to_le_bytes() });
        out.pad()?;
    }
    header.length = out.place();
    out.flush()?;

    // The tables, from behind the header on, and the header last: all of them are one piece of the file.
    let mut root = root_hasher();
    root.update(&header.encode_unsealed());
    let mut out = Out { tmp, temp: &temp, at: HEADER as u64, buffer: out.buffer };
    let mut table = |out: &mut Out<'_>, bytes: &[u8]| {
        root.update(bytes);
        let padding = padding_behind(bytes.len());
        root.update(padding);
        out.put(bytes)?;
        out.put(padding)
    };
    let mut rest = &rows[..];
    let by_kind = EntryKind::ALL.map(|kind| {
        let (of_kind, others) = rest.split_at_checked(header.table(kind).rows as usize).unwrap_or_default();
        rest = others;
        (kind, of_kind)
    });
    for (kind, rows) in by_kind {
        table(&mut out, &fan_out(&header, kind, rows))?;
    }
    for (_, rows) in by_kind {
        table(&mut out, bytemuck::cast_slice(rows))?;
    }
    table(&mut out, &provenance)?;
    out.flush()?;
    header.root = *root.finalize().as_bytes();
    temp.write_at(0, &header.encode()).map_err(StoreError::io("write a file in", tmp))?;
    temp.sync().map_err(StoreError::io("sync a file in", tmp))?;
    Ok(Written { root: header.root, bytes: header.length, temp })
}

/// The order of the pack: by kind, then by name; repeats are refused.
fn sorted(entries: &[NewEntry]) -> Result<Vec<u32>, PackError> {
    let too_many =
        |_| PackError::Refused { what: "number of entries", found: entries.len().to_string(), expected: format!("at most {}", u32::MAX) };
    let count = u32::try_from(entries.len()).map_err(too_many)?;
    let place = |&number: &u32| entries.get(number as usize).map(|entry| (entry.kind, entry.name));
    let mut order: Vec<u32> = (0..count).collect();
    order.sort_unstable_by_key(place);
    for pair in order.windows(2) {
        let [a, b] = pair else { continue };
        if place(a) == place(b) {
            let entry = place(a).map(|(kind, name)| EntryId { kind, name }.to_string()).unwrap_or_default();
            return Err(PackError::Refused { what: "an entry", found: format!("{entry}, twice"), expected: "each once".into() });
        }
    }
    Ok(order)
}

/// Where everything will stand.
fn arrange(entries: &[NewEntry], provenance: &[u8]) -> Result<Header, PackError> {
    let mut counts = [0_u32; 4];
    let mut bytes = Some(0_u64);
    for entry in entries {
        if let Some(count) = counts.get_mut(index(entry.kind)) {
            *count = count.saturating_add(1);
        }
        bytes = bytes.and_then(|bytes| bytes.checked_add(round_up(entry.size)?));
    }
    let header = Header::arrange(counts, provenance.len() as u64);
    // The length of the whole must be a number too.
    header.filter(|header| bytes.and_then(|bytes| header.values_offset.checked_add(bytes)).is_some()).ok_or_else(|| {
        let found = format!("{} entries", entries.len());
        PackError::Refused { what: "the size of all entries", found, expected: "less than 2^64 bytes".into() }
    })
}

/// Bytes of the pack that [`write`] makes of these entries; `None` where it makes none.
pub(crate) fn packed_length(entries: &[NewEntry], provenance: &[String]) -> Option<u64> {
    let header = arrange(entries, &provenance::encode(provenance).ok()?).ok()?;
    entries.iter().try_fold(header.values_offset, |length, entry| length.checked_add(round_up(entry.size)?))
}

fn check_size(entry: &NewEntry, found: u64) -> Result<(), PackError> {
    if found == entry.size {
        return Ok(());
    }
    let what = "size of an entry";
    let found = format!("{found} bytes for {}", EntryId { kind: entry.kind, name: entry.name });
    Err(PackError::Refused { what, found, expected: format!("the {} that were announced", entry.size) })
}

/// Readers hold a blob's digest against its name.
fn check_name(entry: &NewEntry, digest: &[u8; 32]) -> Result<(), PackError> {
    if entry.kind != EntryKind::Blob || entry.name == *digest {
        return Ok(());
    }
    let (what, found) = ("digest of a blob", ContentHash(*digest).to_string());
    Err(PackError::Refused { what, found, expected: format!("its name {}", ContentHash(entry.name)) })
}

/// For every bucket the number of its first row, and the number of rows behind the last.
fn fan_out(header: &Header, kind: EntryKind, rows: &[RawRow]) -> Vec<u8> {
    let table = header.table(kind);
    let mut bytes = Vec::with_capacity((table.buckets() as usize).saturating_add(1).saturating_mul(4));
    let mut rows = rows.iter().zip(0_u32..).peekable();
    for bucket in 0..table.buckets() {
        while rows.next_if(|(row, _)| table.bucket(&row.name) < bucket).is_some() {}
        let first = rows.peek().map_or(table.rows, |&(_, number)| number);
        bytes.extend_from_slice(&first.to_le_bytes());
    }
    bytes.extend_from_slice(&table.rows.to_le_bytes());
    bytes
}

/// The zeros that fill up to the next multiple of [`ALIGN`].
fn padding_behind(length: usize) -> &'static [u8] {
    const ZEROS: [u8; ALIGN as usize] = [0; ALIGN as usize];
    let padding = length.next_multiple_of(ZEROS.len()).saturating_sub(length);
    ZEROS.get(..padding).unwrap_or_default()
}

/// Gathers what is written one after another.
struct Out<'t> {
    tmp: &'t Path,
    temp: &'t fs::Temp,
    /// Where the buffer belongs.
    at: u64,
    buffer: Vec<u8>,
}

impl Out<'_> {
    /// Where the next byte belongs.
    fn place(&self) -> u64 {
        self.at.saturating_add(self.buffer.len() as u64)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        if self.buffer.len().saturating_add(bytes.len()) > BUFFER {
            self.flush()?;
        }
        if bytes.len() >= BUFFER {
            self.write(bytes)
        } else {
            self.buffer.extend_from_slice(bytes);
            Ok(())
        }
    }

    /// Zeros up to the next multiple of [`ALIGN`].
    fn pad(&mut self) -> Result<(), StoreError> {
        // The first byte stood at a multiple, and `ALIGN` divides 2^64.
        let padding = padding_behind(usize::try_from(self.place() % ALIGN).unwrap_or(0));
        self.put(padding)
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let result = self.write(&buffer);
        buffer.clear();
        self.buffer = buffer;
        result
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.temp.write_at(self.at, bytes).map_err(StoreError::io("write a file in", self.tmp))?;
        self.at = self.at.saturating_add(bytes.len() as u64);
        Ok(())
    }
}
