//! The parts of an ELF file that a code object is made of: headers, segments, notes, symbols. Every place is checked before it is read.

use super::error::CodeObjectError;
use bytemuck::{AnyBitPattern, Pod, Zeroable};

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Header {
    pub(super) ident: [u8; 16],
    pub(super) kind: u16,
    pub(super) machine: u16,
    pub(super) version: u32,
    pub(super) entry: u64,
    pub(super) segments: u64,
    pub(super) sections: u64,
    pub(super) flags: u32,
    pub(super) header_size: u16,
    pub(super) segment_size: u16,
    pub(super) segment_count: u16,
    pub(super) section_size: u16,
    pub(super) section_count: u16,
    pub(super) section_names: u16,
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Segment {
    pub(super) kind: u32,
    pub(super) flags: u32,
    pub(super) offset: u64,
    pub(super) address: u64,
    physical: u64,
    pub(super) file_size: u64,
    pub(super) memory_size: u64,
    align: u64,
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct Section {
    name: u32,
    kind: u32,
    flags: u64,
    address: u64,
    offset: u64,
    size: u64,
    link: u32,
    info: u32,
    align: u64,
    entry_size: u64,
}

#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct RawSymbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: u64,
    size: u64,
}

/// A defined symbol of the dynamic symbol table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Symbol<'a> {
    pub(super) name: &'a [u8],
    /// `STT_*`.
    pub(super) kind: u8,
    pub(super) address: u64,
    pub(super) size: u64,
}

const HEADER: usize = 64;
const SEGMENT: usize = 56;
const SECTION: usize = 64;
const SYMBOL: usize = 24;
const _: () = assert!(size_of::<Header>() == HEADER && size_of::<Segment>() == SEGMENT);
const _: () = assert!(size_of::<Section>() == SECTION && size_of::<RawSymbol>() == SYMBOL);

const LOAD: u32 = 1;
const NOTE: u32 = 4;
const EXECUTABLE: u32 = 1;
const DYNAMIC_SYMBOLS: u32 = 11;
const STRINGS: u32 = 3;
const AMDGPU: u16 = 224;
const AMDGPU_HSA: u8 = 64;

/// A file with its header and tables in bounds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Elf<'a> {
    bytes: &'a [u8],
    pub(super) header: Header,
    segments: &'a [[u8; SEGMENT]],
    sections: &'a [[u8; SECTION]],
}

/// Some bytes of a larger whole.
pub(super) fn slice<'a>(
    bytes: &'a [u8],
    offset: u64,
    size: u64,
    what: &'static str,
    within: &'static str,
) -> Result<&'a [u8], CodeObjectError> {
    let range = usize::try_from(offset).ok().zip(usize::try_from(size).ok());
    let found = range.and_then(|(at, len)| bytes.get(at..)?.get(..len));
    found.ok_or(CodeObjectError::Bounds { what, offset, size, within, len: len_of(bytes) })
}

pub(super) fn len_of(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

/// Rows of a table, which need not be aligned.
fn rows<'a, const N: usize>(bytes: &'a [u8], offset: u64, count: u64, what: &'static str) -> Result<&'a [[u8; N]], CodeObjectError> {
    let size = count.saturating_mul(u64::try_from(N).unwrap_or(u64::MAX));
    Ok(slice(bytes, offset, size, what, "the file")?.as_chunks().0)
}

fn read<T: AnyBitPattern>(row: &[u8]) -> T {
    // Rows are arrays of the type's size.
    bytemuck::try_pod_read_unaligned(row).unwrap_or_else(|_| T::zeroed())
}

/// The bytes of a text that a zero ends.
fn text(strings: &[u8], at: u32) -> Option<&[u8]> {
    let rest = strings.get(usize::try_from(at).ok()?..)?;
    rest.get(..rest.iter().position(|&b| b == 0)?)
}

impl<'a> Elf<'a> {
    pub(super) fn open(bytes: &'a [u8]) -> Result<Self, CodeObjectError> {
        for (magic, form) in [(&b"__CLANG_OFFLOAD_BUNDLE__"[..], "an offload bundle"), (b"CCOB", "a compressed offload bundle")] {
            if bytes.starts_with(magic) {
                return Err(CodeObjectError::Bundle { form });
            }
        }
        if !bytes.starts_with(b"\x7fELF") {
            return Err(CodeObjectError::Magic { found: bytes.get(..4).unwrap_or(bytes).to_vec() });
        }
        let header: Header = read(slice(bytes, 0, 64, "the header", "the file")?);
        let [_, _, _, _, class, order, version, abi, ..] = header.ident;
        for (field, found, wanted, expected) in [
            ("the ELF class", u64::from(class), 2, "2 (64 bits)"),
            ("the byte order", order.into(), 1, "1 (little-endian)"),
            ("the ELF version", version.into(), 1, "1"),
            ("the machine", header.machine.into(), AMDGPU.into(), "224 (AMDGPU)"),
            ("the operating system", abi.into(), AMDGPU_HSA.into(), "64 (HSA)"),
            ("the kind of file", header.kind.into(), 3, "3 (shared object)"),
            ("the size of a segment header", header.segment_size.into(), 56, "56"),
            ("the size of a section header", header.section_size.into(), 64, "64"),
        ] {
            if found != wanted {
                return Err(CodeObjectError::Header { field, found, expected });
            }
        }
        // Linkers make about ten; with no limit, looking for one could be made slow.
        if header.segment_count > 256 {
            let (field, found) = ("the number of segments", header.segment_count.into());
            return Err(CodeObjectError::Header { field, found, expected: "at most 256" });
        }
        let segments = rows(bytes, header.segments, header.segment_count.into(), "the table of segments")?;
        let sections = rows(bytes, header.sections, header.section_count.into(), "the table of sections")?;
        Ok(Self { bytes, header, segments, sections })
    }

    /// Segments; what they hold may lie beyond the file.
    fn segments(self) -> impl Iterator<Item = Segment> {
        self.segments.iter().map(|row| read(row))
    }

    /// Segments that are loaded lie within the file.
    pub(super) fn check_segments(self) -> Result<(), CodeObjectError> {
        for segment in self.segments().filter(|s| s.kind == LOAD) {
            slice(self.bytes, segment.offset, segment.file_size, "a segment", "the file")?;
            if segment.memory_size < segment.file_size || segment.address.checked_add(segment.memory_size).is_none() {
                let (field, found) = ("the size of a segment in memory", segment.memory_size);
                return Err(CodeObjectError::Header {
                    field,
                    found,
                    expected: "at least its size in the file, and no address beyond 64 bits",
                });
            }
        }
        Ok(())
    }

    /// Bytes of the file that will be loaded at an address; `code` tells segments of code from those of data.
    pub(super) fn loaded(self, address: u64, size: u64, code: bool) -> Option<(u64, &'a [u8])> {
        self.segments().filter(|s| s.kind == LOAD && (s.flags & EXECUTABLE != 0) == code).find_map(|segment| {
            let into = address.checked_sub(segment.address)?;
            if into.checked_add(size)? > segment.file_size {
                return None;
            }
            let offset = segment.offset.checked_add(into)?;
            Some((offset, slice(self.bytes, offset, size, "", "").ok()?))
        })
    }

    /// What the notes of one name and kind hold, as the loader finds them: by segments.
    pub(super) fn notes(self, name: &[u8], kind: u32) -> Result<Vec<&'a [u8]>, CodeObjectError> {
        let mut found = Vec::new();
        for segment in self.segments().filter(|s| s.kind == NOTE) {
            let mut rest = slice(self.bytes, segment.offset, segment.file_size, "a segment of notes", "the file")?;
            while let Some((head, body)) = rest.split_first_chunk::<12>() {
                let [name_size, size, this]: [u32; 3] = read(head);
                let name_end = u64::from(name_size).next_multiple_of(4);
                let this_name = slice(body, 0, name_size.into(), "the name of a note", "its segment")?;
                let held = slice(body, name_end, size.into(), "a note", "its segment")?;
                if this == kind && this_name.strip_suffix(&[0]).unwrap_or(this_name) == name {
                    found.push(held);
                }
                let end = name_end.saturating_add(u64::from(size).next_multiple_of(4));
                // The last note may lack the bytes that fill it up.
                rest = usize::try_from(end).ok().and_then(|end| body.get(end..)).unwrap_or_default();
            }
        }
        Ok(found)
    }

    /// The dynamic symbols that are defined and have a name, sorted by it.
    pub(super) fn symbols(self) -> Result<Vec<Symbol<'a>>, CodeObjectError> {
        let mut tables = self.sections.iter().map(|row| read::<Section>(row)).filter(|s| s.kind == DYNAMIC_SYMBOLS);
        let (table, more) = (tables.next(), tables.count());
        let Some(table) = table.filter(|_| more == 0) else {
            let found = if table.is_some() { more.saturating_add(1) } else { 0 };
            return Err(CodeObjectError::Count { what: "dynamic symbol tables", found });
        };
        let strings = usize::try_from(table.link).ok().and_then(|at| self.sections.get(at)).map(|row| read::<Section>(row));
        let Some(strings) = strings.filter(|s| s.kind == STRINGS) else {
            return Err(CodeObjectError::Header {
                field: "the link of the dynamic symbol table",
                found: table.link.into(),
                expected: "the number of a section of strings",
            });
        };
        let strings = slice(self.bytes, strings.offset, strings.size, "the names of symbols", "the file")?;
        let raw = slice(self.bytes, table.offset, table.size, "the dynamic symbol table", "the file")?;
        let mut symbols = Vec::new();
        for row in raw.as_chunks::<SYMBOL>().0 {
            let raw: RawSymbol = read(row);
            let name = text(strings, raw.name).ok_or(CodeObjectError::Bounds {
                what: "the name of a symbol",
                offset: raw.name.into(),
                size: 1,
                within: "the names of symbols",
                len: len_of(strings),
            })?;
            if raw.section != 0 && !name.is_empty() {
                symbols.push(Symbol { name, kind: raw.info & 15, address: raw.value, size: raw.size });
            }
        }
        symbols.sort_unstable_by_key(|s| s.name);
        Ok(symbols)
    }
}
