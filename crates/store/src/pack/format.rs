//! The layout of a pack: header, fan-outs, rows. It is described in `docs/format.md`.

use crate::pack::error::PackError;
use crate::{EntryKind, Limits};
use bytemuck::{Pod, Zeroable};
use hipplan_serialize::ContentHash;

const MAGIC: [u8; 8] = *b"\x89HPPK\r\n\x1a";
pub(super) const VERSION: u16 = 1;
const ROOT_CONTEXT: &str = "hipplan pack root 1";
const HEADER_CONTEXT: &str = "hipplan pack header 1";
pub(super) const HEADER: usize = 512;
const SEALED: usize = 480;
/// Bytes of a row.
pub(crate) const ROW: usize = 80;
/// Values, tables and signature blocks start at multiples of it.
pub(crate) const ALIGN: u64 = 64;
/// Size of a signature block.
pub(super) const SIGNATURE: u64 = 128;
/// No file has more signatures.
pub(super) const MOST_SIGNATURES: u64 = 64;
/// More bits would make the fan-out larger than what it saves.
const MOST_BITS: u32 = 24;
/// Rows to a bucket that the writer aims at: at least this many, and fewer than twice as many.
const BUCKET: u32 = 8;

/// Bytes of an unsigned field.
type Field64 = [u8; 8];

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct RawHeader {
    magic: [u8; 8],
    version: [u8; 2],
    reserved0: [u8; 2],
    features: [u8; 4],
    length: Field64,
    reserved1: [u8; 8],
    root: [u8; 32],
    provenance_offset: Field64,
    provenance_length: Field64,
    values_offset: Field64,
    reserved2: [u8; 8],
    tables: [RawTable; 4],
    reserved3: [[u8; 32]; 8],
    digest: [u8; 32],
}

#[derive(Clone, Copy, Pod, Zeroable, PartialEq, Eq)]
#[repr(C)]
struct RawTable {
    fan_out_offset: Field64,
    rows_offset: Field64,
    rows: [u8; 4],
    bits: [u8; 4],
    reserved: [u8; 8],
}

/// A row as it stands in the file.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct RawRow {
    pub(super) name: [u8; 32],
    pub(super) digest: [u8; 32],
    pub(super) offset: [u8; 8],
    pub(super) size: [u8; 8],
}

const _: () = assert!(size_of::<RawHeader>() == HEADER && size_of::<RawRow>() == ROW && size_of::<RawTable>() == 32);

/// Where the fan-out and the rows of one kind stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) fan_out_offset: u64,
    pub(super) rows_offset: u64,
    pub(super) rows: u32,
    pub(super) bits: u32,
    /// Rows of the kinds before.
    pub(super) first_ordinal: u32,
}

impl Table {
    /// The bucket of a name: its leading bits.
    pub(super) fn bucket(&self, name: &[u8; 32]) -> u32 {
        let [a, b, c, d, ..] = *name;
        // At most `MOST_BITS` bits are left, whatever the name.
        let spread = u64::from(u32::from_be_bytes([a, b, c, d])).wrapping_shl(self.bits);
        u32::try_from(spread >> 32).unwrap_or(u32::MAX)
    }

    /// Number of buckets.
    pub(super) fn buckets(&self) -> u32 {
        1_u32.wrapping_shl(self.bits)
    }

    fn fan_out_bytes(&self) -> u64 {
        u64::from(self.buckets()).saturating_add(1).saturating_mul(4)
    }

    fn rows_bytes(&self) -> u64 {
        u64::from(self.rows).saturating_mul(ROW as u64)
    }

    /// Place of a row. Behind the end for a number that is none.
    pub(super) fn row_offset(&self, row: u32) -> u64 {
        self.rows_offset.saturating_add(u64::from(row).saturating_mul(ROW as u64))
    }
}

/// A header, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    /// Length of the file without signature blocks.
    pub(super) length: u64,
    pub(super) root: [u8; 32],
    pub(super) provenance_offset: u64,
    pub(super) provenance_length: u64,
    /// First byte of the values.
    pub(super) values_offset: u64,
    /// By kind.
    tables: [Table; 4],
}

/// Number of a kind, as the header has them.
pub(super) const fn index(kind: EntryKind) -> usize {
    match kind {
        EntryKind::Blob => 0,
        EntryKind::Plan => 1,
        EntryKind::PlanRecord => 2,
        EntryKind::Selection => 3,
    }
}

impl Header {
    /// Where everything stands in a pack of so many rows of each kind. `length` and `root` are left at nothing.
    ///
    /// `None` if there are more rows than can be counted.
    pub(super) fn arrange(rows: [u32; 4], provenance_length: u64) -> Option<Self> {
        Self::place(rows.map(|rows| (rows, bits_for(rows))), provenance_length)
    }

    /// Everything has one place once the sizes are known, so no two things overlap.
    fn place(tables: [(u32, u32); 4], provenance_length: u64) -> Option<Self> {
        let mut next = HEADER as u64;
        let mut take = |bytes: u64| {
            let at = next;
            next = round_up(at.checked_add(bytes)?)?;
            Some(at)
        };
        let mut first_ordinal = 0_u32;
        let mut placed = [Table { fan_out_offset: 0, rows_offset: 0, rows: 0, bits: 0, first_ordinal: 0 }; 4];
        for (table, (rows, bits)) in placed.iter_mut().zip(tables) {
            *table = Table { rows, bits, first_ordinal, ..*table };
            first_ordinal = first_ordinal.checked_add(rows)?;
            table.fan_out_offset = take(table.fan_out_bytes())?;
        }
        for table in &mut placed {
            table.rows_offset = take(table.rows_bytes())?;
        }
        let provenance_offset = take(provenance_length)?;
        let header = Self { length: 0, root: [0; 32], provenance_offset, provenance_length, values_offset: next, tables: placed };
        Some(header)
    }

    pub(super) fn table(&self, kind: EntryKind) -> &Table {
        let [blobs, plans, records, selections] = &self.tables;
        match kind {
            EntryKind::Blob => blobs,
            EntryKind::Plan => plans,
            EntryKind::PlanRecord => records,
            EntryKind::Selection => selections,
        }
    }

    /// Where each table ends, and the provenance: zeros follow, up to a multiple of [`ALIGN`].
    pub(super) fn ends(&self) -> impl Iterator<Item = u64> {
        let ends = self.tables.iter().flat_map(|table| {
            [table.fan_out_offset.saturating_add(table.fan_out_bytes()), table.rows_offset.saturating_add(table.rows_bytes())]
        });
        ends.chain([self.provenance_offset.saturating_add(self.provenance_length)])
    }

    /// The header of a file of so many bytes.
    ///
    /// Order of checks: magic, version, features, header digest, zeros, limits, places, length.
    pub(super) fn decode(bytes: &[u8; HEADER], file: u64, limits: &Limits) -> Result<Self, PackError> {
        let raw: &RawHeader = bytemuck::cast_ref(bytes);
        if raw.magic != MAGIC {
            return Err(PackError::Magic { found: raw.magic });
        }
        let version = u16::from_le_bytes(raw.version);
        if version < VERSION {
            return Err(PackError::TooOld { found: version });
        }
        if version > VERSION {
            return Err(PackError::TooNew { found: version });
        }
        let features = u32::from_le_bytes(raw.features);
        if features != 0 {
            return Err(PackError::Feature { found: features.trailing_zeros() });
        }
        let (found, expected) = (raw.seal(), ContentHash(raw.digest));
        if found != expected {
            return Err(PackError::Header { found, expected });
        }
        let zeros = [&raw.reserved0[..], &raw.reserved1, &raw.reserved2, raw.reserved3.as_flattened()];
        let zeros = zeros.into_iter().chain(raw.tables.iter().map(|table| &table.reserved[..])).flatten();
        if let Some(byte) = zeros.copied().find(|&byte| byte != 0) {
            return Err(PackError::Field { field: "a reserved byte", found: byte.to_string(), expected: "0".into() });
        }
        let header = raw.checked_places(limits)?;
        header.check_length(file)?;
        Ok(header)
    }

    /// The file must be as long as the header says, but for signature blocks.
    fn check_length(&self, file: u64) -> Result<(), PackError> {
        let wrong = |signed| Err(PackError::Length { found: file, expected: self.length, signed });
        let Some(behind) = file.checked_sub(self.length) else { return wrong("") };
        if behind.checked_rem(SIGNATURE) != Some(0) {
            return wrong(" and whole signature blocks of 128 bytes");
        }
        if behind > MOST_SIGNATURES.saturating_mul(SIGNATURE) {
            return wrong(" and at most 64 signature blocks of 128 bytes");
        }
        Ok(())
    }

    /// The bytes of a header without root, which is what the root covers.
    pub(super) fn encode_unsealed(&self) -> [u8; HEADER] {
        bytemuck::cast(RawHeader { root: [0; 32], digest: [0; 32], ..self.to_raw() })
    }

    /// The bytes of a finished header.
    pub(super) fn encode(&self) -> [u8; HEADER] {
        let mut raw = self.to_raw();
        raw.digest = raw.seal().0;
        bytemuck::cast(raw)
    }

    fn to_raw(&self) -> RawHeader {
        RawHeader {
            magic: MAGIC,
            version: VERSION.to_le_bytes(),
            length: self.length.to_le_bytes(),
            root: self.root,
            provenance_offset: self.provenance_offset.to_le_bytes(),
            provenance_length: self.provenance_length.to_le_bytes(),
            values_offset: self.values_offset.to_le_bytes(),
            tables: self.tables.each_ref().map(RawTable::of),
            ..RawHeader::zeroed()
        }
    }
}

impl RawTable {
    fn of(table: &Table) -> Self {
        Self {
            fan_out_offset: table.fan_out_offset.to_le_bytes(),
            rows_offset: table.rows_offset.to_le_bytes(),
            rows: table.rows.to_le_bytes(),
            bits: table.bits.to_le_bytes(),
            ..Self::zeroed()
        }
    }
}

impl RawHeader {
    /// Over all but the digest itself.
    fn seal(&self) -> ContentHash {
        let mut hasher = blake3::Hasher::new_derive_key(HEADER_CONTEXT);
        hasher.update(bytemuck::bytes_of(self).get(..SEALED).unwrap_or_default());
        ContentHash(*hasher.finalize().as_bytes())
    }

    /// Everything must be where the sizes put it.
    fn checked_places(&self, limits: &Limits) -> Result<Header, PackError> {
        let sizes = self.tables.map(|table| (u32::from_le_bytes(table.rows), u32::from_le_bytes(table.bits)));
        let total = sizes.iter().map(|&(rows, _)| u64::from(rows)).sum();
        let (rows_max, provenance_max) = (u64::from(limits.max_pack_rows), limits.max_provenance_bytes);
        if total > rows_max {
            return Err(PackError::Limit { what: "number of rows", found: total, limit: "max_pack_rows", max: rows_max });
        }
        let provenance_length = u64::from_le_bytes(self.provenance_length);
        if provenance_length > provenance_max {
            let (what, limit) = ("size of the provenance in bytes", "max_provenance_bytes");
            return Err(PackError::Limit { what, found: provenance_length, limit, max: provenance_max });
        }
        for (rows, bits) in sizes {
            // A hostile fan-out is no larger than the rows that it leads to.
            if bits > MOST_BITS || 1_u32.wrapping_shl(bits) > rows.max(1) {
                let expected = format!("at most {MOST_BITS}, and no more buckets than the {rows} rows");
                return Err(PackError::Field { field: "bits of a fan-out", found: bits.to_string(), expected });
            }
        }
        let field = |field, found: u64, expected: String| Err(PackError::Field { field, found: found.to_string(), expected });
        let Some(placed) = Header::place(sizes, provenance_length) else {
            return field("number of rows", total, "no more than can be counted".into());
        };
        for (raw, table) in self.tables.iter().zip(&placed.tables) {
            let (fan_out, rows) = (u64::from_le_bytes(raw.fan_out_offset), u64::from_le_bytes(raw.rows_offset));
            if fan_out != table.fan_out_offset {
                return field("offset of a fan-out", fan_out, table.fan_out_offset.to_string());
            }
            if rows != table.rows_offset {
                return field("offset of rows", rows, table.rows_offset.to_string());
            }
        }
        let (provenance, values) = (u64::from_le_bytes(self.provenance_offset), u64::from_le_bytes(self.values_offset));
        if provenance != placed.provenance_offset {
            return field("offset of the provenance", provenance, placed.provenance_offset.to_string());
        }
        if values != placed.values_offset {
            return field("offset of the values", values, placed.values_offset.to_string());
        }
        let length = u64::from_le_bytes(self.length);
        if length < values || !length.is_multiple_of(ALIGN) {
            return field("length", length, format!("a multiple of {ALIGN} that is at least {values}"));
        }
        Ok(Header { length, root: self.root, ..placed })
    }
}

/// Hashes what the root covers: give it the unsealed header, then all bytes up to the values.
pub(super) fn root_hasher() -> blake3::Hasher {
    blake3::Hasher::new_derive_key(ROOT_CONTEXT)
}

/// The next multiple of [`ALIGN`], if that can be counted.
pub(super) fn round_up(n: u64) -> Option<u64> {
    n.checked_next_multiple_of(ALIGN)
}

/// Leading bits of a name that spread so many rows over buckets.
pub(super) fn bits_for(rows: u32) -> u32 {
    rows.div_ceil(BUCKET).checked_ilog2().unwrap_or(0).min(MOST_BITS)
}
