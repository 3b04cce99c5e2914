//! An x86-64 ELF shared library, read where it lies: tables are checked once, then handed out as ranges of the file.
//!
//! What the dynamic linker uses (`PT_DYNAMIC`) and what the section headers say must agree, because the split rewrites both.
#![deny(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::unreachable
)]

pub mod hash;
pub mod versions;

use crate::error::Unsuitable;
use hash::{GnuHash, SysvHash};
use object::elf;
use std::ops::Range;
use versions::Versions;

/// Bytes of a file header.
pub const HEADER_SIZE: u64 = 64;
/// Bytes of a program header.
pub const SEGMENT_SIZE: u64 = 56;
/// Bytes of a section header.
pub const SECTION_SIZE: u64 = 64;
/// Bytes of a symbol.
pub const SYMBOL_SIZE: u64 = 24;
/// Bytes of a relocation with addend.
pub const RELA_SIZE: u64 = 24;
/// Bytes of an entry of the dynamic section.
pub const DYNAMIC_SIZE: u64 = 16;

/// A program header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// `p_type`.
    pub kind: u32,
    /// `p_flags`.
    pub flags: u32,
    /// `p_offset`, bytes.
    pub offset: u64,
    /// `p_vaddr`.
    pub address: u64,
    /// `p_filesz`, bytes.
    pub file_size: u64,
    /// `p_memsz`, bytes.
    pub memory_size: u64,
    /// `p_align`, bytes.
    pub align: u64,
}

impl Segment {
    /// The program header as it stands in a file.
    pub fn to_bytes(&self) -> [u8; 56] {
        let mut bytes = [0; 56];
        let words = [self.offset, self.address, self.address, self.file_size, self.memory_size, self.align];
        let parts = [self.kind.to_le_bytes(), self.flags.to_le_bytes()];
        let all = parts.iter().flatten().copied().chain(words.iter().flat_map(|w| w.to_le_bytes()));
        bytes.iter_mut().zip(all).for_each(|(to, from)| *to = from);
        bytes
    }
}

/// A section header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section<'a> {
    /// The name.
    pub name: &'a [u8],
    /// `sh_type`.
    pub kind: u32,
    /// `sh_flags`.
    pub flags: u64,
    /// `sh_addr`.
    pub address: u64,
    /// `sh_offset`, bytes.
    pub offset: u64,
    /// `sh_size`, bytes.
    pub size: u64,
    /// `sh_link`.
    pub link: u32,
    /// `sh_addralign`, bytes.
    pub align: u64,
}

impl Section<'_> {
    /// Whether it is part of the process.
    pub fn is_allocated(&self) -> bool {
        self.flags & elf::SHF_ALLOC.0 != 0
    }

    /// Its bytes in the file; empty if it has none there.
    pub fn range(&self) -> Range<u64> {
        let size = if self.kind == elf::SHT_NOBITS.0 { 0 } else { self.size };
        self.offset..self.offset.saturating_add(size)
    }
}

/// An entry of the dynamic section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dynamic {
    /// `d_tag`.
    pub tag: i64,
    /// `d_val` or `d_ptr`.
    pub value: u64,
}

/// A dynamic symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol<'a> {
    /// The name.
    pub name: &'a [u8],
    /// `st_info`.
    pub info: u8,
    /// `st_other`.
    pub other: u8,
    /// `st_shndx`.
    pub section: u16,
    /// `st_value`.
    pub value: u64,
    /// `st_size`.
    pub size: u64,
}

impl Symbol<'_> {
    /// Whether this library has what is named.
    pub fn is_defined(&self) -> bool {
        self.section != elf::SHN_UNDEF.0
    }

    /// Whether others may bind to it.
    pub fn is_exported(&self) -> bool {
        let visible = matches!(self.other & 3, v if v == elf::STV_DEFAULT.0 || v == elf::STV_PROTECTED.0);
        let bound = matches!(self.info >> 4, b if b == elf::STB_GLOBAL.0 || b == elf::STB_WEAK.0 || b == elf::STB_GNU_UNIQUE.0);
        self.is_defined() && visible && bound
    }

    /// Whether it is a function, an indirect one included.
    pub fn is_function(&self) -> bool {
        matches!(self.info & 15, t if t == elf::STT_FUNC.0 || t == elf::STT_GNU_IFUNC.0)
    }
}

/// A relocation with addend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Relocation {
    /// `r_offset`, an address.
    pub address: u64,
    /// Type.
    pub kind: u32,
    /// Index of the dynamic symbol, or 0.
    pub symbol: u32,
    /// `r_addend`.
    pub addend: i64,
}

/// A shared library.
#[derive(Debug)]
pub struct Elf<'a> {
    /// The file.
    pub bytes: &'a [u8],
    /// `e_phoff`.
    pub segments_offset: u64,
    /// The program headers.
    pub segments: Vec<Segment>,
    /// `e_shoff`.
    pub sections_offset: u64,
    /// The section headers; the first is the null section.
    pub sections: Vec<Section<'a>>,
    /// Where the dynamic section is in the file.
    pub dynamic_offset: u64,
    /// Entries that fit there, used or not.
    pub dynamic_slots: u64,
    /// The entries before the null entry.
    pub dynamic: Vec<Dynamic>,
    /// Index of the section of the dynamic symbols.
    pub symbols_section: usize,
    /// Index of the section of their names.
    pub strings_section: usize,
    /// Number of dynamic symbols, the null symbol included.
    pub symbol_count: u32,
    /// `.gnu.version` in the file.
    pub version_indices: Option<Range<u64>>,
    /// What it refers to.
    pub versions: Versions<'a>,
    /// The GNU hash table.
    pub gnu_hash: Option<GnuHash<'a>>,
    /// The SysV hash table.
    pub sysv_hash: Option<SysvHash<'a>>,
    /// Tables of relocations with symbols, ascending and without overlap.
    pub relocation_tables: Vec<Range<u64>>,
}

pub(crate) fn array<const N: usize>(bytes: &[u8], at: u64) -> Option<[u8; N]> {
    bytes.get(usize::try_from(at).ok()?..)?.first_chunk().copied()
}

pub(crate) fn u16_at(bytes: &[u8], at: u64) -> Option<u16> {
    array(bytes, at).map(u16::from_le_bytes)
}

pub(crate) fn u32_at(bytes: &[u8], at: u64) -> Option<u32> {
    array(bytes, at).map(u32::from_le_bytes)
}

pub(crate) fn u64_at(bytes: &[u8], at: u64) -> Option<u64> {
    array(bytes, at).map(u64::from_le_bytes)
}

/// The bytes of a range of offsets.
pub(crate) fn slice(bytes: &[u8], range: Range<u64>) -> Option<&[u8]> {
    bytes.get(usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?)
}

/// The bytes before the next NUL.
pub(crate) fn string_at(bytes: &[u8], at: u64) -> Option<&[u8]> {
    let rest = bytes.get(usize::try_from(at).ok()?..)?;
    rest.get(..rest.iter().position(|&b| b == 0)?)
}

/// `base + index * size`.
fn element(base: u64, index: u64, size: u64) -> Option<u64> {
    base.checked_add(index.checked_mul(size)?)
}

impl<'a> Elf<'a> {
    /// Reads the tables of a shared library.
    ///
    /// # Errors
    /// What makes it unfit to be split: see [`Unsuitable`].
    pub fn read(bytes: &'a [u8]) -> Result<Self, Unsuitable> {
        let (segments_offset, segments) = read_segments(bytes)?;
        let (sections_offset, sections) = read_sections(bytes)?;
        let mut elf = Self {
            bytes,
            segments_offset,
            segments,
            sections_offset,
            sections,
            dynamic_offset: 0,
            dynamic_slots: 0,
            dynamic: Vec::new(),
            symbols_section: 0,
            strings_section: 0,
            symbol_count: 0,
            version_indices: None,
            versions: Versions::default(),
            gnu_hash: None,
            sysv_hash: None,
            relocation_tables: Vec::new(),
        };
        elf.read_dynamic()?;
        elf.read_symbol_table()?;
        elf.read_versions()?;
        elf.read_hash_tables()?;
        elf.read_relocation_tables()?;
        Ok(elf)
    }

    /// Where a range of addresses is in the file.
    pub fn file_range(&self, address: u64, size: u64) -> Option<Range<u64>> {
        self.segments.iter().filter(|s| s.kind == elf::PT_LOAD.0).find_map(|s| {
            let skip = address.checked_sub(s.address)?;
            (skip.checked_add(size)? <= s.file_size).then_some(())?;
            let start = s.offset.checked_add(skip)?;
            Some(start..start.checked_add(size)?)
        })
    }

    /// The value of the first dynamic entry with this tag.
    pub fn value(&self, tag: elf::DynamicTag) -> Option<u64> {
        self.dynamic.iter().find(|d| d.tag == tag.0).map(|d| d.value)
    }

    /// The names of all dynamic entries with this tag.
    pub fn names(&self, tag: elf::DynamicTag) -> impl Iterator<Item = &'a [u8]> + '_ {
        self.dynamic.iter().filter(move |d| d.tag == tag.0).filter_map(|d| self.string(d.value))
    }

    /// The `DT_SONAME`.
    pub fn soname(&self) -> Option<&'a [u8]> {
        self.names(elf::DT_SONAME).next()
    }

    /// A name of the dynamic string table.
    pub fn string(&self, at: u64) -> Option<&'a [u8]> {
        string_at(self.strings()?, at)
    }

    /// The dynamic string table.
    pub fn strings(&self) -> Option<&'a [u8]> {
        slice(self.bytes, self.sections.get(self.strings_section)?.range())
    }

    /// The table of dynamic symbols in the file.
    pub fn symbol_table(&self) -> Range<u64> {
        self.sections.get(self.symbols_section).map(Section::range).unwrap_or_default()
    }

    /// A dynamic symbol.
    pub fn symbol(&self, index: u32) -> Option<Symbol<'a>> {
        let table = slice(self.bytes, self.symbol_table())?;
        let at = element(0, index.into(), SYMBOL_SIZE)?;
        let [n0, n1, n2, n3, info, other, s0, s1] = array(table, at)?;
        Some(Symbol {
            name: self.string(u32::from_le_bytes([n0, n1, n2, n3]).into())?,
            info,
            other,
            section: u16::from_le_bytes([s0, s1]),
            value: u64_at(table, at.checked_add(8)?)?,
            size: u64_at(table, at.checked_add(16)?)?,
        })
    }

    /// All dynamic symbols but the null symbol, with their indices.
    pub fn symbols(&self) -> impl Iterator<Item = (u32, Symbol<'a>)> + '_ {
        (1..self.symbol_count).filter_map(|i| Some((i, self.symbol(i)?)))
    }

    /// `.gnu.version` of a symbol; `VER_NDX_GLOBAL` where there is no such table.
    pub fn version_index(&self, symbol: u32) -> u16 {
        let read = |range: &Range<u64>| u16_at(self.bytes, element(range.start, symbol.into(), 2)?);
        self.version_indices.as_ref().and_then(read).unwrap_or(elf::VER_NDX_GLOBAL.0)
    }

    /// The relocations of all tables, in their order.
    pub fn relocations(&self) -> impl Iterator<Item = Relocation> + '_ {
        self.relocation_tables.iter().flat_map(|range| {
            let table = slice(self.bytes, range.clone()).unwrap_or_default();
            table.as_chunks::<24>().0.iter().filter_map(|r| {
                let info = u64_at(r, 8)?;
                let [k0, k1, k2, k3, s0, s1, s2, s3] = info.to_le_bytes();
                Some(Relocation {
                    address: u64_at(r, 0)?,
                    kind: u32::from_le_bytes([k0, k1, k2, k3]),
                    symbol: u32::from_le_bytes([s0, s1, s2, s3]),
                    addend: i64::from_le_bytes(u64_at(r, 16)?.to_le_bytes()),
                })
            })
        })
    }

    /// The GNU build id, if a note has one.
    pub fn build_id(&self) -> Option<&'a [u8]> {
        self.segments.iter().filter(|s| s.kind == elf::PT_NOTE.0).find_map(|s| {
            let mut notes = slice(self.bytes, s.offset..s.offset.checked_add(s.file_size)?)?;
            let align = if s.align == 8 { 8 } else { 4 };
            loop {
                let (name, size, kind) = (u32_at(notes, 0)?, u32_at(notes, 4)?, u32_at(notes, 8)?);
                let body = 12_u64.checked_add(u64::from(name))?.checked_next_multiple_of(align)?;
                let end = body.checked_add(size.into())?;
                if kind == elf::NT_GNU_BUILD_ID.0 && slice(notes, 12..16)? == b"GNU\0" && name == 4 {
                    return slice(notes, body..end);
                }
                notes = notes.get(usize::try_from(end.checked_next_multiple_of(align)?).ok()?..)?;
            }
        })
    }

    /// The section of this kind, if there is exactly one.
    fn only_section(&self, kind: elf::SectionType) -> Result<Option<usize>, Unsuitable> {
        let mut found = self.sections.iter().enumerate().filter(|(_, s)| s.kind == kind.0).map(|(i, _)| i);
        match (found.next(), found.next()) {
            (first, None) => Ok(first),
            (_, Some(_)) => Err(Unsuitable::Layout("two sections of a kind of which there can be one")),
        }
    }

    fn read_dynamic(&mut self) -> Result<(), Unsuitable> {
        let segment = self.segments.iter().find(|s| s.kind == elf::PT_DYNAMIC.0).ok_or(Unsuitable::Static)?;
        let range = self.file_range(segment.address, segment.file_size);
        let table = range.clone().and_then(|r| slice(self.bytes, r)).ok_or(Unsuitable::Layout("the dynamic section is not in the file"))?;
        let entries = table.as_chunks::<16>().0.iter().filter_map(|e| {
            let tag = i64::from_le_bytes(*e.first_chunk()?);
            Some(Dynamic { tag, value: u64_at(e, 8)? })
        });
        let dynamic: Vec<_> = entries.take_while(|d| d.tag != elf::DT_NULL.0).collect();
        self.dynamic_offset = range.unwrap_or_default().start;
        self.dynamic_slots = segment.file_size.checked_div(DYNAMIC_SIZE).unwrap_or(0);
        if u64::try_from(dynamic.len()).unwrap_or(u64::MAX) >= self.dynamic_slots {
            return Err(Unsuitable::Layout("the dynamic section has no end"));
        }
        self.dynamic = dynamic;
        if self.value(elf::DT_TEXTREL).is_some() || self.value(elf::DT_FLAGS).is_some_and(|f| f & elf::DF_TEXTREL.0 != 0) {
            return Err(Unsuitable::TextRelocations);
        }
        Ok(())
    }

    fn read_symbol_table(&mut self) -> Result<(), Unsuitable> {
        const TABLE: Unsuitable = Unsuitable::Layout("the dynamic section and the section headers disagree about the dynamic symbols");
        let index = self.only_section(elf::SHT_DYNSYM)?.ok_or(TABLE)?;
        let section = *self.sections.get(index).ok_or(TABLE)?;
        let strings_index = usize::try_from(section.link).map_err(|_| TABLE)?;
        let strings = *self.sections.get(strings_index).ok_or(TABLE)?;
        let agree = self.value(elf::DT_SYMTAB) == Some(section.address)
            && self.value(elf::DT_STRTAB) == Some(strings.address)
            && self.value(elf::DT_STRSZ).is_some_and(|s| s <= strings.size)
            && self.file_range(section.address, section.size) == Some(section.range())
            && self.file_range(strings.address, strings.size) == Some(strings.range())
            && strings.kind == elf::SHT_STRTAB.0
            && section.size.checked_rem(SYMBOL_SIZE) == Some(0);
        let count = section.size.checked_div(SYMBOL_SIZE).and_then(|n| u32::try_from(n).ok());
        let (true, Some(count)) = (agree, count) else { return Err(TABLE) };
        self.symbols_section = index;
        self.strings_section = strings_index;
        self.symbol_count = count;
        // Every name must be there, so that no later step skips a symbol.
        match (1..count).find(|&i| self.symbol(i).is_none()) {
            Some(i) => Err(Unsuitable::SymbolName(i)),
            None => Ok(()),
        }
    }

    fn read_versions(&mut self) -> Result<(), Unsuitable> {
        const TABLE: Unsuitable = Unsuitable::Layout("the dynamic section and the section headers disagree about symbol versions");
        let agrees = |tag, kind| -> Result<Option<Section<'a>>, Unsuitable> {
            let section = self.only_section(kind)?.and_then(|i| self.sections.get(i).copied());
            let address = self.value(tag);
            if address != section.map(|s| s.address) {
                return Err(TABLE);
            }
            match section {
                Some(s) if self.file_range(s.address, s.size) != Some(s.range()) => Err(TABLE),
                section => Ok(section),
            }
        };
        let indices = agrees(elf::DT_VERSYM, elf::SHT_GNU_VERSYM)?;
        let definitions = agrees(elf::DT_VERDEF, elf::SHT_GNU_VERDEF)?;
        let needs = agrees(elf::DT_VERNEED, elf::SHT_GNU_VERNEED)?;
        if let Some(section) = indices {
            if Some(section.size) != u64::from(self.symbol_count).checked_mul(2) {
                return Err(TABLE);
            }
            self.version_indices = Some(section.range());
        }
        let strings = self.strings().ok_or(TABLE)?;
        let count = |tag| self.value(tag).unwrap_or(0);
        let definitions = definitions.map(|s| (s.range(), count(elf::DT_VERDEFNUM)));
        let needs = needs.map(|s| (s.range(), count(elf::DT_VERNEEDNUM)));
        self.versions = Versions::read(self.bytes, strings, definitions, needs)?;
        match (1..self.symbol_count).find(|&i| !self.versions.knows(self.version_index(i))) {
            Some(i) => Err(Unsuitable::SymbolVersion(i)),
            None => Ok(()),
        }
    }

    fn read_hash_tables(&mut self) -> Result<(), Unsuitable> {
        const TABLE: Unsuitable = Unsuitable::Layout("the dynamic section and the section headers disagree about hash tables");
        let range = |tag, kind| -> Result<Option<Range<u64>>, Unsuitable> {
            let section = self.only_section(kind)?.and_then(|i| self.sections.get(i).copied());
            match (self.value(tag), section) {
                (None, None) => Ok(None),
                (Some(a), Some(s)) if a == s.address && self.file_range(a, s.size) == Some(s.range()) => Ok(Some(s.range())),
                _ => Err(TABLE),
            }
        };
        let gnu = range(elf::DT_GNU_HASH, elf::SHT_GNU_HASH)?;
        let sysv = range(elf::DT_HASH, elf::SHT_HASH)?;
        self.gnu_hash = gnu.map(|r| GnuHash::read(self.bytes, r, self.symbol_count)).transpose()?;
        self.sysv_hash = sysv.map(|r| SysvHash::read(self.bytes, r, self.symbol_count)).transpose()?;
        if self.gnu_hash.is_none() && self.sysv_hash.is_none() {
            return Err(Unsuitable::NoHash);
        }
        Ok(())
    }

    fn read_relocation_tables(&mut self) -> Result<(), Unsuitable> {
        const TABLE: Unsuitable = Unsuitable::Layout("the dynamic section and the section headers disagree about relocations");
        let is_plt_rel = self.value(elf::DT_PLTREL).is_some_and(|v| v != u64::try_from(elf::DT_RELA.0).unwrap_or(0));
        if self.value(elf::DT_REL).is_some() || is_plt_rel {
            return Err(Unsuitable::RelWithoutAddend);
        }
        let mut tables = Vec::new();
        for (address, size) in [(elf::DT_RELA, elf::DT_RELASZ), (elf::DT_JMPREL, elf::DT_PLTRELSZ)] {
            if let Some(address) = self.value(address) {
                tables.push(self.file_range(address, self.value(size).unwrap_or(0)).ok_or(TABLE)?);
            }
        }
        if self.value(elf::DT_RELA).is_some() && self.value(elf::DT_RELAENT) != Some(RELA_SIZE) {
            return Err(TABLE);
        }
        tables.retain(|r| !r.is_empty());
        tables.sort_by_key(|r| (r.start, r.end));
        // DT_RELA of some linkers covers DT_JMPREL.
        let mut merged: Vec<Range<u64>> = Vec::new();
        for table in tables {
            match merged.last_mut() {
                Some(last) if table.start < last.end => last.end = last.end.max(table.end),
                _ => merged.push(table),
            }
        }
        let whole = |r: &Range<u64>| r.end.checked_sub(r.start).and_then(|n| n.checked_rem(RELA_SIZE)) == Some(0);
        if !merged.iter().all(whole) {
            return Err(TABLE);
        }
        // A table that only a section header names would keep the old indices.
        for section in self.sections.iter().filter(|s| s.is_allocated() && s.size != 0) {
            if section.kind == elf::SHT_REL.0 || section.kind == elf::SHT_CREL.0 {
                return Err(Unsuitable::RelWithoutAddend);
            }
            let range = section.range();
            if section.kind == elf::SHT_RELA.0 && !merged.iter().any(|r| r.start <= range.start && range.end <= r.end) {
                return Err(TABLE);
            }
        }
        self.relocation_tables = merged;
        match self.relocations().find(|r| r.symbol >= self.symbol_count) {
            Some(r) => Err(Unsuitable::RelocationSymbol { address: r.address, symbol: r.symbol }),
            None => Ok(()),
        }
    }
}

fn read_segments(bytes: &[u8]) -> Result<(u64, Vec<Segment>), Unsuitable> {
    const HEADERS: Unsuitable = Unsuitable::Layout("the program headers are not in the file");
    let ident: [u8; 16] = array(bytes, 0).ok_or(Unsuitable::NotElf)?;
    let [m0, m1, m2, m3, class, data, ..] = ident;
    if [m0, m1, m2, m3] != elf::ELFMAG {
        return Err(Unsuitable::NotElf);
    }
    let header = HEADER_SIZE <= u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    let (true, Some(kind), Some(machine)) = (header, u16_at(bytes, 16), u16_at(bytes, 18)) else { return Err(Unsuitable::NotElf) };
    if class != elf::ELFCLASS64.0 || data != elf::ELFDATA2LSB.0 || machine != elf::EM_X86_64.0 {
        return Err(Unsuitable::Machine { class, data, machine });
    }
    if kind != elf::ET_DYN.0 {
        return Err(Unsuitable::NotShared(kind));
    }
    let (Some(offset), Some(entry), Some(count)) = (u64_at(bytes, 32), u16_at(bytes, 54), u16_at(bytes, 56)) else { return Err(HEADERS) };
    if count == 0 {
        return Err(Unsuitable::Static);
    }
    if u64::from(entry) != SEGMENT_SIZE || count == elf::PN_XNUM {
        return Err(Unsuitable::Layout("the program headers have an unknown size or are too many"));
    }
    let read = |i: u16| {
        let at = element(offset, i.into(), SEGMENT_SIZE)?;
        let word = |n: u64| u64_at(bytes, at.checked_add(n)?);
        Some(Segment {
            kind: u32_at(bytes, at)?,
            flags: u32_at(bytes, at.checked_add(4)?)?,
            offset: word(8)?,
            address: word(16)?,
            file_size: word(32)?,
            memory_size: word(40)?,
            align: word(48)?,
        })
    };
    let segments: Vec<_> = (0..count).map(read).collect::<Option<_>>().ok_or(HEADERS)?;
    let mut end = 0_u64;
    for s in segments.iter().filter(|s| s.kind == elf::PT_LOAD.0) {
        let in_file = s.offset.checked_add(s.file_size).is_some_and(|e| e <= u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        let next = s.address.checked_add(s.memory_size);
        // Half of the addresses are enough, and leave room for what is appended.
        let (true, Some(next)) = (in_file && s.file_size <= s.memory_size && s.address >= end, next.filter(|&n| n < 1 << 62)) else {
            return Err(Unsuitable::Layout("the loaded segments overlap, are not ascending, or are not in the file"));
        };
        end = next;
    }
    Ok((offset, segments))
}

fn read_sections(bytes: &[u8]) -> Result<(u64, Vec<Section<'_>>), Unsuitable> {
    const HEADERS: Unsuitable = Unsuitable::Layout("the section headers are not in the file");
    let (Some(offset), Some(entry)) = (u64_at(bytes, 40), u16_at(bytes, 58)) else { return Err(HEADERS) };
    let (Some(count), Some(names)) = (u16_at(bytes, 60), u16_at(bytes, 62)) else { return Err(HEADERS) };
    if offset == 0 {
        return Err(Unsuitable::NoSections);
    }
    if u64::from(entry) != SECTION_SIZE {
        return Err(HEADERS);
    }
    // Numbers that do not fit stand in the null section.
    let first = |at: u64| offset.checked_add(at);
    let count = match count {
        0 => first(32).and_then(|at| u64_at(bytes, at)).ok_or(HEADERS)?,
        n => n.into(),
    };
    let names = match names {
        n if n == elf::SHN_XINDEX.0 => first(40).and_then(|at| u32_at(bytes, at)).ok_or(HEADERS)?,
        n => n.into(),
    };
    let end = element(offset, count, SECTION_SIZE).filter(|&end| slice(bytes, offset..end).is_some()).ok_or(HEADERS)?;
    let table = slice(bytes, offset..end).ok_or(HEADERS)?;
    let field = |index: u64| {
        let at = element(0, index, SECTION_SIZE)?;
        let (half, word) = (|n: u64| u32_at(table, at.checked_add(n)?), |n: u64| u64_at(table, at.checked_add(n)?));
        let (name, kind, flags, address, offset) = (half(0)?, half(4)?, word(8)?, word(16)?, word(24)?);
        Some((name, Section { name: &[], kind, flags, address, offset, size: word(32)?, link: half(40)?, align: word(48)? }))
    };
    let strings = field(names.into()).map(|(_, s)| s.range()).and_then(|r| slice(bytes, r)).ok_or(HEADERS)?;
    let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    let read = |index: u64| {
        // The null section holds numbers that do not fit elsewhere, and is none.
        if index == 0 {
            return Some(Section { name: &[], kind: elf::SHT_NULL.0, flags: 0, address: 0, offset: 0, size: 0, link: 0, align: 0 });
        }
        let (name, mut section) = field(index)?;
        section.name = string_at(strings, name.into())?;
        (section.range().end <= length && section.align <= 1 << 32).then_some(section)
    };
    if count < 2 {
        return Err(Unsuitable::NoSections);
    }
    let sections = (0..count).map(read).collect::<Option<_>>().ok_or(HEADERS)?;
    Ok((offset, sections))
}
