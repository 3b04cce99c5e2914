//! Makes the private library: public names renamed, SONAME and RUNPATH changed, nothing else.
//!
//! No code or data moves. The tables of symbols, versions and relocations and the hash tables keep their sizes, so they are rewritten where
//! they are: symbols are sorted anew, because the GNU hash table wants those of a bucket together, and what refers to a symbol by its
//! number follows. The names go into a grown copy of the string table behind the end of the file, in a loaded segment of its own. Its
//! program header needs room: the tables right behind the program headers move to the new segment too, if the dynamic section or a
//! program header is all that refers to them; else the program headers themselves do.
#![deny(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::unreachable
)]

use crate::elf::{
    DYNAMIC_SIZE, Elf, RELA_SIZE, SECTION_SIZE, SEGMENT_SIZE, SYMBOL_SIZE, Section, Segment, array, slice, string_at, u32_at,
};
use crate::error::Unsuitable;
use crate::names;
use crate::patch::Patch;
use object::elf;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// Alignment of the new segment: the page size of x86-64.
const PAGE: u64 = 4096;
/// Tables that move keep their offset within this, so that each stays aligned.
const BLOCK_ALIGN: u64 = 64;

/// Entries of the dynamic section that may give their place to a search path.
pub(crate) const SPARE: [elf::DynamicTag; 2] = [elf::DT_RELACOUNT, elf::DT_SYMENT];

/// Dynamic entries that point at tables which may move.
pub(crate) const POINTERS: [elf::DynamicTag; 9] = [
    elf::DT_SYMTAB,
    elf::DT_HASH,
    elf::DT_GNU_HASH,
    elf::DT_VERSYM,
    elf::DT_VERDEF,
    elf::DT_VERNEED,
    elf::DT_RELA,
    elf::DT_JMPREL,
    elf::DT_RELR,
];

/// What to change.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request<'r> {
    /// Give the exported functions with public names their private names.
    pub rename: bool,
    /// The new SONAME.
    pub soname: Option<&'r str>,
    /// The new RUNPATH, whole.
    pub runpath: Option<&'r [u8]>,
}

/// The changes that make a private library of `elf`.
///
/// # Errors
/// What makes the library unfit.
pub fn plan(elf: &Elf<'_>, request: &Request<'_>) -> Result<Patch, Unsuitable> {
    let new_names = if request.rename { renamed(elf)? } else { HashMap::new() };
    Plan::new(elf).make(&new_names, request)
}

/// The new name of every symbol that gets one.
fn renamed(elf: &Elf<'_>) -> Result<HashMap<u32, Vec<u8>>, Unsuitable> {
    let new: HashMap<u32, Vec<u8>> =
        names::exported(elf, names::is_public).filter_map(|i| Some((i, names::private_of(elf.symbol(i)?.name)))).collect();
    if new.is_empty() {
        return Err(Unsuitable::NoNames);
    }
    let taken: HashSet<&[u8]> = new.values().map(Vec::as_slice).collect();
    match elf.symbols().find(|(_, s)| taken.contains(s.name)) {
        Some((_, s)) => {
            let public = names::public_of(s.name).unwrap_or(s.name);
            Err(Unsuitable::Collision(String::from_utf8_lossy(public).into_owned()))
        }
        None => Ok(new),
    }
}

/// A string table that only grows.
struct Strings {
    bytes: Vec<u8>,
}

impl Strings {
    fn new(old: &[u8]) -> Self {
        let mut bytes = old.to_vec();
        if bytes.last() != Some(&0) {
            bytes.push(0);
        }
        Self { bytes }
    }

    fn add(&mut self, name: &[u8]) -> Result<u32, Unsuitable> {
        let at = u32::try_from(self.bytes.len()).map_err(|_| Unsuitable::TooLarge("the dynamic string table"))?;
        self.bytes.extend(name);
        self.bytes.push(0);
        Ok(at)
    }
}

/// Tables that move to the new segment.
struct Block {
    range: Range<u64>,
    offset_change: u64,
    address_change: u64,
    address: u64,
}

impl Block {
    fn holds(&self, range: &Range<u64>) -> bool {
        self.range.start <= range.start && range.end <= self.range.end
    }

    fn holds_address(&self, address: u64) -> bool {
        address.checked_sub(self.address).is_some_and(|skip| skip < self.range.end.saturating_sub(self.range.start))
    }
}

struct Plan<'e, 'a> {
    elf: &'e Elf<'a>,
    patch: Patch,
    block: Option<Block>,
}

const OVERFLOW: Unsuitable = Unsuitable::TooLarge("the file");

fn add(a: u64, b: u64) -> Result<u64, Unsuitable> {
    a.checked_add(b).ok_or(OVERFLOW)
}

fn element(base: u64, index: usize, size: u64) -> Result<u64, Unsuitable> {
    let index = u64::try_from(index).map_err(|_| OVERFLOW)?;
    add(base, index.checked_mul(size).ok_or(OVERFLOW)?)
}

fn round_up(n: u64, to: u64) -> Result<u64, Unsuitable> {
    n.checked_next_multiple_of(to).ok_or(OVERFLOW)
}

fn length(bytes: &[u8]) -> Result<u64, Unsuitable> {
    u64::try_from(bytes.len()).map_err(|_| OVERFLOW)
}

fn index(i: u32) -> usize {
    usize::try_from(i).unwrap_or(usize::MAX)
}

impl<'e, 'a> Plan<'e, 'a> {
    fn new(elf: &'e Elf<'a>) -> Self {
        Self { elf, patch: Patch::default(), block: None }
    }

    fn make(mut self, new_names: &HashMap<u32, Vec<u8>>, request: &Request<'_>) -> Result<Patch, Unsuitable> {
        let elf = self.elf;
        let mut strings = Strings::new(elf.strings().ok_or(Unsuitable::Layout("the dynamic string table is not in the file"))?);
        let soname = request.soname.map(|s| Ok((strings.add(s.as_bytes())?, s))).transpose()?;
        let runpath = request.runpath.map(|r| strings.add(r)).transpose()?;

        // Where everything new goes.
        let end = round_up(length(elf.bytes)?, PAGE)?;
        let loads = || elf.segments.iter().filter(|s| s.kind == elf::PT_LOAD.0);
        let top = loads().map(|s| s.address.saturating_add(s.memory_size)).max().ok_or(Unsuitable::Static)?;
        let base = round_up(top, PAGE)?;
        let mut at = end;
        self.block = self.block_behind_headers(at, base)?;
        let mut segments_offset = elf.segments_offset;
        let count = add(u64::try_from(elf.segments.len()).map_err(|_| OVERFLOW)?, 1)?;
        let count = u16::try_from(count).ok().filter(|&n| n < elf::PN_XNUM).ok_or(Unsuitable::TooLarge("the program header table"))?;
        let headers_size = element(0, count.into(), SEGMENT_SIZE)?;
        match &self.block {
            Some(block) if block.range.is_empty() => {}
            Some(block) => at = add(block.range.end, block.offset_change)?,
            None => {
                segments_offset = at;
                at = add(at, headers_size)?;
            }
        }

        let order = self.tables(new_names, &mut strings)?;
        self.relocations(&order)?;
        let strings_at = round_up(at, 16)?;
        let address_of = |offset: u64| add(base, offset.checked_sub(end).ok_or(OVERFLOW)?);
        self.dynamic(soname.map(|(at, _)| at), runpath, address_of(strings_at)?, length(&strings.bytes)?)?;
        if let Some((at, soname)) = soname {
            self.version_base(at, soname)?;
        }

        // Everything that is edited in a block moves with it.
        let edits = std::mem::take(&mut self.patch.edits);
        if let Some(block) = self.block.as_ref().filter(|b| !b.range.is_empty()) {
            self.patch.copies.push((block.range.clone(), add(block.range.start, block.offset_change)?));
        }
        for (at, bytes) in edits {
            let range = at..add(at, length(&bytes)?)?;
            let change = self.block.as_ref().filter(|b| b.holds(&range)).map_or(0, |b| b.offset_change);
            self.patch.edits.push((add(at, change)?, bytes));
        }

        let file_end = add(strings_at, length(&strings.bytes)?)?;
        let strings_size = length(&strings.bytes)?;
        self.patch.edits.push((strings_at, strings.bytes));
        self.segments(segments_offset, headers_size, count, &address_of, end..file_end, base)?;
        self.sections(strings_at, address_of(strings_at)?, strings_size)?;
        self.static_symbols(new_names, file_end)?;
        Ok(self.patch)
    }

    /// The symbols, their versions and the hash tables; gives the new number of every old symbol.
    fn tables(&mut self, new_names: &HashMap<u32, Vec<u8>>, strings: &mut Strings) -> Result<Vec<u32>, Unsuitable> {
        const DAMAGED: Unsuitable = Unsuitable::Layout("the dynamic symbols are damaged");
        let elf = self.elf;
        let name = |i: u32| new_names.get(&i).map(Vec::as_slice).or_else(|| elf.symbol(i).map(|s| s.name)).unwrap_or_default();
        let old: Vec<&[u8]> = (0..elf.symbol_count).map(name).collect();
        let first = elf.gnu_hash.as_ref().map_or(elf.symbol_count, |h| h.first.min(elf.symbol_count));
        let sorted = elf.gnu_hash.as_ref().map(|h| h.order(&old)).unwrap_or_default();
        let order: Vec<u32> = (0..first).chain(sorted).collect();
        let names: Vec<&[u8]> = order.iter().map(|&i| old.get(index(i)).copied().unwrap_or_default()).collect();

        let table = elf.symbol_table();
        let symbols = slice(elf.bytes, table.clone()).ok_or(DAMAGED)?;
        let mut new_symbols = Vec::with_capacity(symbols.len());
        for &i in &order {
            let mut symbol: [u8; 24] = array(symbols, element(0, index(i), SYMBOL_SIZE)?).ok_or(DAMAGED)?;
            if let (Some(new), Some(field)) = (new_names.get(&i), symbol.first_chunk_mut()) {
                *field = strings.add(new)?.to_le_bytes();
            }
            new_symbols.extend(symbol);
        }
        self.patch.edits.push((table.start, new_symbols));
        if let Some(range) = &elf.version_indices {
            let versions = order.iter().flat_map(|&i| elf.version_index(i).to_le_bytes()).collect();
            self.patch.edits.push((range.start, versions));
        }
        if let Some(hash) = &elf.gnu_hash {
            self.patch.edits.push((hash.range.start, hash.rebuilt(&names)));
        }
        if let Some(hash) = &elf.sysv_hash {
            self.patch.edits.push((hash.range.start, hash.rebuilt(&names)));
        }
        let mut new = vec![0; order.len()];
        for (to, &from) in (0..).zip(&order) {
            *new.get_mut(index(from)).ok_or(DAMAGED)? = to;
        }
        Ok(new)
    }

    /// Relocations follow the symbols to which they refer.
    fn relocations(&mut self, new: &[u32]) -> Result<(), Unsuitable> {
        /// Unchanged bytes between two changes that are written along rather than skipped.
        const GAP: u64 = 4096;
        const DAMAGED: Unsuitable = Unsuitable::Layout("the relocations are damaged");
        for table in &self.elf.relocation_tables {
            let bytes = slice(self.elf.bytes, table.clone()).ok_or(DAMAGED)?;
            let mut run: Option<Range<u64>> = None;
            let mut runs = Vec::new();
            let symbol = |at: u64| u32_at(bytes, at.checked_add(12)?);
            for i in 0..bytes.as_chunks::<24>().0.len() {
                let at = element(0, i, RELA_SIZE)?;
                let old = symbol(at).ok_or(DAMAGED)?;
                if new.get(index(old)) == Some(&old) {
                    continue;
                }
                let end = add(at, RELA_SIZE)?;
                match &mut run {
                    Some(run) if at <= run.end.saturating_add(GAP) => run.end = end,
                    run => runs.extend(run.replace(at..end)),
                }
            }
            for run in runs.into_iter().chain(run) {
                let mut changed = slice(bytes, run.clone()).ok_or(DAMAGED)?.to_vec();
                for entry in changed.as_chunks_mut::<24>().0 {
                    let old = u32_at(entry, 12).ok_or(DAMAGED)?;
                    let number = new.get(index(old)).ok_or(DAMAGED)?;
                    entry.get_mut(12..16).ok_or(DAMAGED)?.copy_from_slice(&number.to_le_bytes());
                }
                self.patch.edits.push((add(table.start, run.start)?, changed));
            }
        }
        Ok(())
    }

    fn dynamic(&mut self, soname: Option<u32>, runpath: Option<u32>, strings: u64, strings_size: u64) -> Result<(), Unsuitable> {
        let elf = self.elf;
        // DT_RPATH counts only where there is no DT_RUNPATH.
        let path_tag =
            if elf.value(elf::DT_RUNPATH).is_none() && elf.value(elf::DT_RPATH).is_some() { elf::DT_RPATH } else { elf::DT_RUNPATH };
        let mut entries: Vec<(i64, u64)> = elf.dynamic.iter().map(|d| (d.tag, d.value)).collect();
        let mut has_path = false;
        for (tag, value) in &mut entries {
            match elf::DynamicTag(*tag) {
                elf::DT_STRTAB => *value = strings,
                elf::DT_STRSZ => *value = strings_size,
                elf::DT_SONAME => *value = soname.map_or(*value, u64::from),
                tag if tag == path_tag => {
                    has_path = true;
                    *value = runpath.map_or(*value, u64::from);
                }
                tag if POINTERS.contains(&tag) => {
                    if let Some(block) = self.block.as_ref().filter(|b| b.holds_address(*value)) {
                        *value = value.wrapping_add(block.address_change);
                    }
                }
                _ => {}
            }
        }
        if let Some(runpath) = runpath.filter(|_| !has_path) {
            let entry = (elf::DT_RUNPATH.0, u64::from(runpath));
            // The null entry at the end must stay. Where nothing is free (lld leaves nothing), one goes that loaders do not read: how many
            // relocations are relative, or the size of a symbol, of which there is one.
            if u64::try_from(entries.len()).is_ok_and(|n| n.saturating_add(1) < elf.dynamic_slots) {
                entries.push(entry);
            } else {
                let spare = SPARE.iter().find_map(|tag| entries.iter().position(|(t, _)| *t == tag.0));
                let hint = spare.and_then(|i| entries.get_mut(i)).ok_or(Unsuitable::NoFreeDynamic)?;
                *hint = entry;
            }
        }
        for ((i, &(tag, value)), old) in entries.iter().enumerate().zip(elf.dynamic.iter().map(Some).chain(std::iter::repeat(None))) {
            if old.is_none_or(|old| (old.tag, old.value) != (tag, value)) {
                let bytes = [tag.to_le_bytes(), value.to_le_bytes()].concat();
                self.patch.edits.push((element(elf.dynamic_offset, i, DYNAMIC_SIZE)?, bytes));
            }
        }
        Ok(())
    }

    /// The first version definition names the library.
    fn version_base(&mut self, at: u32, soname: &str) -> Result<(), Unsuitable> {
        let definitions = &self.elf.versions.definitions;
        for base in definitions.iter().filter(|d| d.is_base()) {
            // A version of the library's own name may share the entry.
            if definitions.iter().any(|d| d.offset != base.offset && d.name_offset == base.name_offset) {
                continue;
            }
            self.patch.edits.push((add(base.offset, 8)?, elf::hash(soname.as_bytes()).to_le_bytes().to_vec()));
            self.patch.edits.push((base.name_offset, at.to_le_bytes().to_vec()));
        }
        Ok(())
    }

    /// The tables that must make room for one more program header, as a block that may move; an empty one if there is room already,
    /// none if what is there cannot move.
    fn block_behind_headers(&self, at: u64, base: u64) -> Result<Option<Block>, Unsuitable> {
        let elf = self.elf;
        let start = element(elf.segments_offset, elf.segments.len(), SEGMENT_SIZE)?;
        let room = start..add(start, SEGMENT_SIZE)?;
        let meet = |a: &Range<u64>, b: &Range<u64>| a.start < b.end && b.start < a.end && !a.is_empty() && !b.is_empty();
        let in_file = |s: &Segment| s.offset..s.offset.saturating_add(s.file_size);
        let is_load = |s: &&Segment| s.kind == elf::PT_LOAD.0;
        // The dynamic linker hands the program headers on, so they must be loaded.
        let Some(load) = elf.segments.iter().filter(is_load).find(|s| s.offset <= elf.segments_offset && room.end <= in_file(s).end) else {
            return Ok(None);
        };
        let section_headers = elf.sections_offset..element(elf.sections_offset, elf.sections.len(), SECTION_SIZE)?;
        // Sections and the smaller segments that touch the room, then what touches those.
        let mut range = room.clone();
        let parts = || {
            let segments = elf.segments.iter().filter(|s| !is_load(s) && s.kind != elf::PT_PHDR.0 && s.kind != elf::PT_GNU_STACK.0);
            segments.map(in_file).chain(elf.sections.iter().map(Section::range))
        };
        while let Some(part) = parts().find(|p| meet(p, &range) && !(range.start <= p.start && p.end <= range.end)) {
            range = range.start.min(part.start)..range.end.max(part.end);
        }
        if range.start < start || meet(&section_headers, &range) || range.end > in_file(load).end {
            return Ok(None);
        }
        let first = elf.sections.iter().filter(|s| meet(&s.range(), &range)).map(|s| s.offset).min();
        let Some(first) = first else {
            let is_free = parts().all(|p| !meet(&p, &room));
            return Ok(is_free.then_some(Block { range: start..start, offset_change: 0, address_change: 0, address: 0 }));
        };
        let range = first..range.end;
        let mut sections = elf.sections.iter().filter(|s| meet(&s.range(), &range));
        let movable = [
            elf::SHT_NOTE,
            elf::SHT_DYNSYM,
            elf::SHT_HASH,
            elf::SHT_GNU_HASH,
            elf::SHT_GNU_VERSYM,
            elf::SHT_GNU_VERDEF,
            elf::SHT_GNU_VERNEED,
            elf::SHT_RELA,
            elf::SHT_RELR,
        ];
        let can_move = |s: &Section<'_>| {
            s.is_allocated()
                && s.align <= BLOCK_ALIGN
                && (movable.iter().any(|k| k.0 == s.kind) || Some(s) == elf.sections.get(elf.strings_section))
                && elf.file_range(s.address, s.size) == Some(s.range())
        };
        let mut smaller = elf.segments.iter().filter(|s| !is_load(s) && meet(&in_file(s), &range));
        let segments_can = smaller.all(|s| [elf::PT_NOTE, elf::PT_GNU_PROPERTY].iter().any(|k| k.0 == s.kind));
        let address = load.address.checked_add(range.start.checked_sub(load.offset).ok_or(OVERFLOW)?).ok_or(OVERFLOW)?;
        let aligned = address.wrapping_sub(range.start).checked_rem(BLOCK_ALIGN) == Some(0);
        if !segments_can || !aligned || !sections.all(can_move) {
            return Ok(None);
        }
        let offset = add(at, range.start.checked_rem(BLOCK_ALIGN).ok_or(OVERFLOW)?)?;
        let new_address = add(base, offset.checked_sub(at).ok_or(OVERFLOW)?)?;
        let offset_change = offset.checked_sub(range.start).ok_or(OVERFLOW)?;
        Ok(Some(Block { range, offset_change, address_change: new_address.wrapping_sub(address), address }))
    }

    fn segments(
        &mut self,
        offset: u64,
        size: u64,
        count: u16,
        address_of: &dyn Fn(u64) -> Result<u64, Unsuitable>,
        new: Range<u64>,
        base: u64,
    ) -> Result<(), Unsuitable> {
        let elf = self.elf;
        let has_moved = offset != elf.segments_offset;
        let mut segments = elf.segments.clone();
        for s in &mut segments {
            if s.kind == elf::PT_PHDR.0 {
                (s.file_size, s.memory_size) = (size, size);
                if has_moved {
                    (s.offset, s.address) = (offset, address_of(offset)?);
                }
            } else if s.kind != elf::PT_LOAD.0 && s.file_size != 0 {
                let range = s.offset..s.offset.saturating_add(s.file_size);
                if let Some(block) = self.block.as_ref().filter(|b| b.holds(&range)) {
                    (s.offset, s.address) = (add(s.offset, block.offset_change)?, s.address.wrapping_add(block.address_change));
                }
            }
        }
        let new_size = new.end.checked_sub(new.start).ok_or(OVERFLOW)?;
        let (kind, flags) = (elf::PT_LOAD.0, elf::PF_R.0);
        // Loaded segments ascend, and this one is the last.
        segments.push(Segment { kind, flags, offset: new.start, address: base, file_size: new_size, memory_size: new_size, align: PAGE });
        self.patch.edits.push((offset, segments.iter().flat_map(Segment::to_bytes).collect()));
        self.patch.edits.push((32, offset.to_le_bytes().to_vec()));
        self.patch.edits.push((56, count.to_le_bytes().to_vec()));
        Ok(())
    }

    fn sections(&mut self, strings_at: u64, strings_address: u64, strings_size: u64) -> Result<(), Unsuitable> {
        let elf = self.elf;
        for (i, section) in elf.sections.iter().enumerate() {
            let place = if i == elf.strings_section {
                Some((strings_address, strings_at, strings_size))
            } else if section.is_allocated() && section.size != 0 {
                let block = self.block.as_ref().filter(|b| b.holds(&section.range()) && section.kind != elf::SHT_NOBITS.0);
                let moved =
                    |b: &Block| Ok((section.address.wrapping_add(b.address_change), add(section.offset, b.offset_change)?, section.size));
                block.map(moved).transpose()?
            } else {
                None
            };
            if let Some((address, offset, size)) = place {
                let bytes = [address, offset, size].iter().flat_map(|w| w.to_le_bytes()).collect();
                self.patch.edits.push((add(element(elf.sections_offset, i, SECTION_SIZE)?, 16)?, bytes));
            }
        }
        Ok(())
    }

    /// The same names in the table that debuggers read, if the library is not stripped.
    fn static_symbols(&mut self, new_names: &HashMap<u32, Vec<u8>>, end: u64) -> Result<(), Unsuitable> {
        let elf = self.elf;
        let Some(table) = elf.sections.iter().find(|s| s.kind == elf::SHT_SYMTAB.0).filter(|_| !new_names.is_empty()) else {
            return Ok(());
        };
        let strings_index = usize::try_from(table.link).unwrap_or(usize::MAX);
        let strings = elf.sections.get(strings_index).filter(|s| s.kind == elf::SHT_STRTAB.0 && !s.is_allocated());
        let (Some(strings), Some(symbols)) = (strings, slice(elf.bytes, table.range())) else { return Ok(()) };
        let Some(old) = slice(elf.bytes, strings.range()) else { return Ok(()) };
        let wanted: HashSet<&[u8]> = new_names.keys().filter_map(|&i| elf.symbol(i)).map(|s| s.name).collect();
        let mut added = vec![0];
        for (i, symbol) in symbols.as_chunks::<24>().0.iter().enumerate() {
            let [n0, n1, n2, n3, info, _, s0, s1, ..] = *symbol;
            // A static function of that name is somebody else's.
            if info >> 4 == elf::STB_LOCAL.0 || [s0, s1] == [0, 0] {
                continue;
            }
            let Some(name) = string_at(old, u32::from_le_bytes([n0, n1, n2, n3]).into()) else { continue };
            // GNU ld writes `name@@VERSION` here.
            let (bare, version) = name.split_at(name.iter().position(|&b| b == b'@').unwrap_or(name.len()));
            if wanted.contains(bare) {
                let at = add(strings.size, length(&added)?)?;
                let at = u32::try_from(at).map_err(|_| Unsuitable::TooLarge("the string table"))?;
                added.extend(names::private_of(bare));
                added.extend(version);
                added.push(0);
                self.patch.edits.push((element(table.offset, i, SYMBOL_SIZE)?, at.to_le_bytes().to_vec()));
            }
        }
        if added.len() == 1 {
            return Ok(());
        }
        let size = add(strings.size, length(&added)?)?;
        self.patch.copies.push((strings.range(), end));
        self.patch.edits.push((add(end, strings.size)?, added));
        let bytes = [end, size].iter().flat_map(|w| w.to_le_bytes()).collect();
        self.patch.edits.push((add(element(elf.sections_offset, strings_index, SECTION_SIZE)?, 24)?, bytes));
        Ok(())
    }
}
