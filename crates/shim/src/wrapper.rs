//! Generates the wrapper: a library that has every public name and jumps on to the private one through a slot.
//!
//! | pages | what |
//! |---|---|
//! | read-only | symbols, versions, relocations, names |
//! | executable | a stub of two instructions a name: `endbr64; jmp *slot(%rip)` |
//! | read-only once relocated | the table of [`hipplan_miopen_abi::table`], the initialiser's array, the dynamic section |
//! | writable, aligned to 65,536 | the slots and nothing else |

use crate::error::ShimError;
use crate::names;
use hipplan_miopen_abi::table::{
    ATTACH_SYMBOL, MAGIC, SHIM_SONAME, TABLE_SYMBOL, VERSION, WRAPPER_VERSION_NODE, WrapperEntry, WrapperTable,
};
use object::build::elf::{
    Builder, Dynamic, DynamicSymbolId, Relocation, SectionData, SectionId, VersionData, VersionDef, VersionId, VersionNeed,
};
use object::{Endianness, elf};
use std::collections::{BTreeMap, BTreeSet};

/// The function that only wrappers have.
pub const LAST_ERROR: &str = "miopenGetLastForwardedError";
/// Alignment of the slots' pages, bytes.
pub const SLOT_ALIGN: u64 = 65_536;
/// Bytes of a stub.
pub const STUB_SIZE: u64 = 16;
/// The first instruction of a stub.
pub const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
/// The second instruction of a stub without its 32-bit distance to the slot: `jmp *distance(%rip)`.
pub const JUMP: [u8; 2] = [0xff, 0x25];
const PAGE: u64 = 4096;
/// Bytes of machine code that a stub or the function returning 0 has.
const CODE_SIZE: u64 = 10;

/// A public name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Export {
    /// The name.
    pub name: String,
    /// Its version node, if it has one.
    pub version: Option<String>,
    /// Not the default version of the name.
    pub hidden: bool,
}

/// A version node: its name, then those of the nodes that it follows.
pub type Node = Vec<String>;

/// What a wrapper is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrapper {
    /// Its SONAME.
    pub soname: String,
    /// The private library's.
    pub private_soname: String,
    /// Every version node of the library that it stands for.
    pub nodes: Vec<Node>,
    /// The public names; the private library has each with `_impl` and the same version.
    pub exports: Vec<Export>,
}

/// A name with what the file has for it.
struct Entry<'w> {
    export: &'w Export,
    /// None for the function that no private library has.
    implementation: Option<DynamicSymbolId>,
}

struct Sections {
    text: SectionId,
    strings: SectionId,
    relocations: SectionId,
    init: SectionId,
    table: SectionId,
    got: SectionId,
    slots: SectionId,
    rest: SectionId,
    padding: SectionId,
    dynamic: SectionId,
    note: SectionId,
}

impl Wrapper {
    /// The file. Equal input gives equal bytes.
    ///
    /// # Errors
    /// If there are more names than the format can count.
    pub fn build(&self) -> Result<Vec<u8>, ShimError> {
        let mut builder = Builder::new(Endianness::Little, true);
        builder.header.e_type = elf::ET_DYN;
        builder.header.e_machine = elf::EM_X86_64;
        builder.header.e_phoff = builder.file_header_size();

        // Sorted as the table wants it; the version tells apart what has one name.
        let mut exports: BTreeSet<Export> = self.exports.iter().cloned().collect();
        if !exports.iter().any(|e| e.name == LAST_ERROR) {
            exports.insert(Export { name: LAST_ERROR.to_owned(), version: self.main_version(), hidden: false });
        }
        let has_extra = !self.exports.iter().any(|e| e.name == LAST_ERROR);

        let versions = self.add_versions(&mut builder);
        let entries: Vec<Entry<'_>> = exports
            .iter()
            .map(|export| {
                let is_extra = has_extra && export.name == LAST_ERROR;
                let implementation = (!is_extra).then(|| {
                    let symbol = builder.dynamic_symbols.add();
                    symbol.name = names::private_of(export.name.as_bytes()).into();
                    symbol.set_st_info(elf::STB_GLOBAL, elf::STT_NOTYPE);
                    symbol.version = export.version.as_ref().map_or(VersionId::global(), |v| versions.needed[v]);
                    symbol.id()
                });
                Entry { export, implementation }
            })
            .collect();
        let attach = {
            let symbol = builder.dynamic_symbols.add();
            symbol.name = ATTACH_SYMBOL.as_bytes().into();
            symbol.set_st_info(elf::STB_GLOBAL, elf::STT_NOTYPE);
            symbol.version = VersionId::global();
            symbol.id()
        };
        let mut define = |name: &str, kind, size, version: Option<VersionId>, hidden| {
            let symbol = builder.dynamic_symbols.add();
            symbol.name = name.as_bytes().to_vec().into();
            symbol.set_st_info(elf::STB_GLOBAL, kind);
            // Only so that it counts as defined until its section is known.
            symbol.st_shndx = elf::SHN_ABS;
            symbol.st_size = size;
            symbol.version = version.unwrap_or(VersionId::global());
            symbol.version_hidden = hidden;
            symbol.id()
        };
        let stubs: Vec<_> = entries
            .iter()
            .map(|e| {
                define(&e.export.name, elf::STT_FUNC, CODE_SIZE, e.export.version.as_ref().map(|v| versions.defined[v]), e.export.hidden)
            })
            .collect();
        let table = define(TABLE_SYMBOL, elf::STT_OBJECT, size::<WrapperTable>(), Some(versions.wrapper), false);
        // As linkers do it: one absolute symbol a version node, which also keeps nodes that no function uses.
        for (name, version) in &versions.defined {
            define(name, elf::STT_OBJECT, 0, Some(*version), false);
        }

        // Only the default version of a name is in the table.
        let listed: Vec<usize> = (0..entries.len()).filter(|&i| !entries[i].export.hidden).collect();
        let sections = self.add_sections(&mut builder, entries.len(), listed.len(), !versions.needed.is_empty());
        let text_offsets = TextOffsets::new(entries.len());
        let strings = StringOffsets::new(&self.private_soname, listed.iter().map(|&i| entries[i].export.name.as_str()));
        builder.sections.get_mut(sections.strings).data = SectionData::Data(strings.bytes.clone().into());
        // A slot a name, three pointers an entry, three of the table, the initialiser, and where attach is.
        let count = entries.len() + 3 * listed.len() + 5;
        let placeholder = Relocation { r_offset: 0, symbol: None, r_type: elf::R_X86_64_RELATIVE, r_addend: 0 };
        builder.sections.get_mut(sections.relocations).data = SectionData::DynamicRelocation(vec![placeholder; count]);
        builder.sections.get_mut(sections.dynamic).data = SectionData::Dynamic(self.dynamic(&builder, count, !versions.needed.is_empty()));

        builder.gnu_hash_bucket_count = u32::try_from(entries.len() / 4 + 1).unwrap_or(u32::MAX);
        builder.gnu_hash_bloom_count = u32::try_from((entries.len() / 5 + 1).next_power_of_two()).unwrap_or(1);
        builder.gnu_hash_bloom_shift = 26;
        builder.set_section_sizes();
        layout(&mut builder, &sections);

        // Every address is known.
        let address = |builder: &Builder<'_>, id: SectionId| builder.sections.get(id).sh_addr;
        let text_at = address(&builder, sections.text);
        let slots_at = address(&builder, sections.slots);
        let table_at = address(&builder, sections.table);
        let strings_at = address(&builder, sections.strings);
        let got_at = address(&builder, sections.got);
        let init_at = address(&builder, sections.init);
        let slot_of = |i: usize| slots_at + 8 * i as u64;
        let zero_at = text_at + text_offsets.zero;
        let attach_at = text_at + text_offsets.attach;

        let mut text = Vec::with_capacity(text_offsets.size as usize);
        for i in 0..entries.len() {
            stub(&mut text, text_at, slot_of(i));
        }
        // endbr64; xor %eax, %eax; ret
        text.extend([&ENDBR64[..], &[0x31, 0xc0, 0xc3]].concat());
        pad(&mut text);
        // endbr64; lea table(%rip), %rdi; jmp *got(%rip)
        text.extend(ENDBR64);
        text.extend([0x48, 0x8d, 0x3d]);
        push_distance(&mut text, text_at, table_at);
        text.extend(JUMP);
        push_distance(&mut text, text_at, got_at);
        pad(&mut text);
        builder.sections.get_mut(sections.text).data = SectionData::Data(text.into());

        let entries_at = table_at + size::<WrapperTable>();
        let slots_size = (8 * entries.len() as u64).next_multiple_of(SLOT_ALIGN);
        let mut table_bytes: Vec<u8> =
            [MAGIC, VERSION, listed.len() as u32, size::<WrapperEntry>() as u32].iter().flat_map(|w| w.to_le_bytes()).collect();
        table_bytes.extend([0, 0, slots_size, 0].iter().flat_map(|w: &u64| w.to_le_bytes()));
        table_bytes.resize(table_bytes.len() + listed.len() * size_of::<WrapperEntry>(), 0);
        builder.sections.get_mut(sections.table).data = SectionData::Data(table_bytes.into());

        let relative = |at: u64, to: u64| Relocation { r_offset: at, symbol: None, r_type: elf::R_X86_64_RELATIVE, r_addend: to as i64 };
        let symbolic = |at: u64, symbol| Relocation { r_offset: at, symbol: Some(symbol), r_type: elf::R_X86_64_64, r_addend: 0 };
        let mut relocations = vec![
            relative(table_at + 16, entries_at),
            relative(table_at + 24, slots_at),
            relative(table_at + 40, strings_at),
            relative(init_at, attach_at),
        ];
        let listed_at: BTreeMap<usize, u64> =
            listed.iter().zip(0_u64..).map(|(&i, n)| (i, entries_at + n * size::<WrapperEntry>())).collect();
        for (&i, &entry) in &listed_at {
            relocations.push(relative(entry, strings_at + strings.names[&entries[i].export.name]));
            relocations.push(relative(entry + 8, slot_of(i)));
        }
        for (i, entry) in entries.iter().enumerate().filter(|(_, e)| e.implementation.is_none()) {
            relocations.push(relative(slot_of(i), zero_at));
            relocations.extend(listed_at.get(&i).map(|at| relative(at + 16, zero_at)));
            debug_assert_eq!(entry.export.name, LAST_ERROR);
        }
        let relative_count = relocations.len() as u64;
        relocations.push(symbolic(got_at, attach));
        // The two places of a symbol one after the other, so that the dynamic linker looks it up once.
        for (i, entry) in entries.iter().enumerate() {
            if let Some(symbol) = entry.implementation {
                relocations.push(symbolic(slot_of(i), symbol));
                relocations.extend(listed_at.get(&i).map(|at| symbolic(at + 16, symbol)));
            }
        }
        debug_assert_eq!(relocations.len(), count);
        builder.sections.get_mut(sections.relocations).data = SectionData::DynamicRelocation(relocations);

        for (i, &id) in stubs.iter().enumerate() {
            let symbol = builder.dynamic_symbols.get_mut(id);
            symbol.section = Some(sections.text);
            symbol.st_value = text_at + STUB_SIZE * i as u64;
        }
        let symbol = builder.dynamic_symbols.get_mut(table);
        symbol.section = Some(sections.table);
        symbol.st_value = table_at;

        fill_dynamic(&mut builder, &sections, relative_count);
        let note_at = builder.sections.get(sections.note).sh_offset as usize;
        let mut file = Vec::new();
        builder.write(&mut file).map_err(|e| ShimError::Wrapper(e.to_string()))?;
        // Named after what it holds.
        let id = blake3::hash(&file);
        if let Some(place) = file.get_mut(note_at + 16..note_at + 36) {
            place.copy_from_slice(&id.as_bytes()[..20]);
        }
        Ok(file)
    }

    /// The version that most names have.
    fn main_version(&self) -> Option<String> {
        let mut counts: BTreeMap<&Option<String>, usize> = BTreeMap::new();
        for export in self.exports.iter().filter(|e| !e.hidden) {
            *counts.entry(&export.version).or_default() += 1;
        }
        counts.into_iter().max_by_key(|(_, n)| *n).and_then(|(version, _)| version.clone())
    }

    fn add_versions(&self, builder: &mut Builder<'_>) -> VersionIds {
        builder.version_base = Some(self.soname.as_bytes().to_vec().into());
        let mut defined = BTreeMap::new();
        let own = vec![WRAPPER_VERSION_NODE.to_owned()];
        // A node that only names have would be an input that contradicts itself; it gets a definition all the same.
        let used = self.exports.iter().filter_map(|e| e.version.clone()).map(|v| vec![v]);
        for node in self.nodes.iter().cloned().chain(used).chain([own]) {
            let Some(name) = node.first().cloned() else { continue };
            defined.entry(name).or_insert_with(|| {
                let names = node.into_iter().map(|n| n.into_bytes().into()).collect();
                builder.versions.add(VersionData::Def(VersionDef { names, flags: elf::VersionFlags(0) }))
            });
        }
        let used: BTreeSet<String> = self.exports.iter().filter_map(|e| e.version.clone()).collect();
        let mut needed = BTreeMap::new();
        if !used.is_empty() {
            let file = builder.version_files.add(self.private_soname.as_bytes().to_vec().into());
            for name in used {
                let need = VersionNeed { file, name: name.as_bytes().to_vec().into(), flags: elf::VersionFlags(0) };
                needed.insert(name, builder.versions.add(VersionData::Need(need)));
            }
        }
        let wrapper = defined[WRAPPER_VERSION_NODE];
        VersionIds { defined, needed, wrapper }
    }

    fn add_sections(&self, builder: &mut Builder<'_>, names: usize, listed: usize, has_needs: bool) -> Sections {
        let alloc = elf::SHF_ALLOC;
        let mut add = |name: &'static str, kind, flags, align, entry: u64, data: SectionData<'static>| {
            let section = builder.sections.add();
            section.name = name.as_bytes().into();
            (section.sh_type, section.sh_flags, section.sh_addralign, section.sh_entsize) = (kind, flags, align, entry);
            section.data = data;
            section.id()
        };
        let zeros = |n: u64| SectionData::Data(vec![0; n as usize].into());
        let mut note: Vec<u8> = [4_u32, 20, elf::NT_GNU_BUILD_ID.0].iter().flat_map(|w| w.to_le_bytes()).collect();
        note.extend(b"GNU\0");
        note.resize(36, 0);
        let note = add(".note.gnu.build-id", elf::SHT_NOTE, alloc, 4, 0, SectionData::Note(note.into()));
        add(".gnu.hash", elf::SHT_GNU_HASH, alloc, 8, 0, SectionData::GnuHash);
        let symbols = add(".dynsym", elf::SHT_DYNSYM, alloc, 8, 24, SectionData::DynamicSymbol);
        let dynstr = add(".dynstr", elf::SHT_STRTAB, alloc, 1, 0, SectionData::DynamicString);
        add(".gnu.version", elf::SHT_GNU_VERSYM, alloc, 2, 2, SectionData::GnuVersym);
        add(".gnu.version_d", elf::SHT_GNU_VERDEF, alloc, 8, 0, SectionData::GnuVerdef);
        if has_needs {
            add(".gnu.version_r", elf::SHT_GNU_VERNEED, alloc, 8, 0, SectionData::GnuVerneed);
        }
        let relocations = add(".rela.dyn", elf::SHT_RELA, alloc, 8, 24, SectionData::DynamicRelocation(Vec::new()));
        let strings = add(".rodata", elf::SHT_PROGBITS, alloc, 1, 0, zeros(0));
        let text = add(".text", elf::SHT_PROGBITS, alloc | elf::SHF_EXECINSTR, 16, 0, zeros(TextOffsets::new(names).size));
        let write = alloc | elf::SHF_WRITE;
        let init = add(".init_array", elf::SHT_INIT_ARRAY, write, 8, 8, zeros(8));
        let table = size::<WrapperTable>() + listed as u64 * size::<WrapperEntry>();
        let table = add(".data.rel.ro", elf::SHT_PROGBITS, write, 8, 0, zeros(table));
        let dynamic = add(".dynamic", elf::SHT_DYNAMIC, write, 8, 16, SectionData::Dynamic(Vec::new()));
        let got = add(".got", elf::SHT_PROGBITS, write, 8, 8, zeros(8));
        let padding = add(".relro_padding", elf::SHT_NOBITS, write, 1, 0, SectionData::UninitializedData(0));
        let slots = add(".data", elf::SHT_PROGBITS, write, SLOT_ALIGN, 8, zeros(8 * names as u64));
        let rest = add(".bss", elf::SHT_NOBITS, write, 1, 0, SectionData::UninitializedData(0));
        add(".shstrtab", elf::SHT_STRTAB, elf::SectionFlags(0), 1, 0, SectionData::SectionString);
        builder.sections.get_mut(relocations).sh_link_section = Some(symbols);
        builder.sections.get_mut(dynamic).sh_link_section = Some(dynstr);
        Sections { text, strings, relocations, init, table, got, slots, rest, padding, dynamic, note }
    }

    /// The dynamic section; addresses and sizes follow when they are known.
    fn dynamic(&self, builder: &Builder<'_>, relocations: usize, has_needs: bool) -> Vec<Dynamic<'static>> {
        let string = |tag, val: &str| Dynamic::String { tag, val: val.as_bytes().to_vec().into() };
        let integer = |tag, val| Dynamic::Integer { tag, val };
        let mut dynamic = vec![
            string(elf::DT_NEEDED, &self.private_soname),
            string(elf::DT_NEEDED, SHIM_SONAME),
            string(elf::DT_SONAME, &self.soname),
            string(elf::DT_RUNPATH, "$ORIGIN"),
            integer(elf::DT_INIT_ARRAY, 0),
            integer(elf::DT_INIT_ARRAYSZ, 8),
            Dynamic::Auto { tag: elf::DT_GNU_HASH },
            Dynamic::Auto { tag: elf::DT_STRTAB },
            Dynamic::Auto { tag: elf::DT_SYMTAB },
            Dynamic::Auto { tag: elf::DT_STRSZ },
            integer(elf::DT_SYMENT, builder.encoder().sym_size()),
            integer(elf::DT_RELA, 0),
            integer(elf::DT_RELASZ, relocations as u64 * 24),
            integer(elf::DT_RELAENT, 24),
            integer(elf::DT_RELACOUNT, 0),
            integer(elf::DT_FLAGS, elf::DF_BIND_NOW.0),
            integer(elf::DT_FLAGS_1, elf::DF_1_NOW.0),
            Dynamic::Auto { tag: elf::DT_VERSYM },
            Dynamic::Auto { tag: elf::DT_VERDEF },
            Dynamic::Auto { tag: elf::DT_VERDEFNUM },
        ];
        if has_needs {
            dynamic.extend([elf::DT_VERNEED, elf::DT_VERNEEDNUM].map(|tag| Dynamic::Auto { tag }));
        }
        dynamic
    }
}

struct VersionIds {
    defined: BTreeMap<String, VersionId>,
    needed: BTreeMap<String, VersionId>,
    wrapper: VersionId,
}

/// Where the machine code is, from the start of the text.
struct TextOffsets {
    zero: u64,
    attach: u64,
    size: u64,
}

impl TextOffsets {
    fn new(stubs: usize) -> Self {
        let zero = STUB_SIZE * stubs as u64;
        Self { zero, attach: zero + STUB_SIZE, size: zero + 3 * STUB_SIZE }
    }
}

/// The strings to which the table points: the private SONAME, then the names.
struct StringOffsets {
    bytes: Vec<u8>,
    names: BTreeMap<String, u64>,
}

impl StringOffsets {
    fn new<'n>(private_soname: &str, names: impl Iterator<Item = &'n str>) -> Self {
        let mut bytes = [private_soname.as_bytes(), &[0]].concat();
        let mut offsets = BTreeMap::new();
        for name in names {
            offsets.insert(name.to_owned(), bytes.len() as u64);
            bytes.extend(name.as_bytes());
            bytes.push(0);
        }
        Self { bytes, names: offsets }
    }
}

fn size<T>() -> u64 {
    size_of::<T>() as u64
}

fn stub(text: &mut Vec<u8>, text_at: u64, slot: u64) {
    text.extend(ENDBR64);
    text.extend(JUMP);
    push_distance(text, text_at, slot);
    pad(text);
}

/// Appends the distance from the end of these four bytes to an address.
fn push_distance(text: &mut Vec<u8>, text_at: u64, to: u64) {
    let from = text_at + text.len() as u64 + 4;
    // Both are within the few megabytes of this file.
    text.extend((to.wrapping_sub(from) as i32).to_le_bytes());
}

/// Fills up to the next stub with breakpoints.
fn pad(text: &mut Vec<u8>) {
    text.resize(text.len().next_multiple_of(STUB_SIZE as usize), 0xcc);
}

/// Gives sections their places, in the order in which they were added, and makes the segments. File offset and address are equal.
fn layout(builder: &mut Builder<'_>, sections: &Sections) {
    const SEGMENTS: u64 = 8;
    let mut at = builder.file_header_size() + SEGMENTS * builder.encoder().program_header_size();
    let ids: Vec<SectionId> = builder.sections.iter().filter(|s| s.is_alloc()).map(|s| s.id()).collect();
    for id in ids {
        let starts_page = [sections.text, sections.init].contains(&id);
        let section = builder.sections.get_mut(id);
        at = at.next_multiple_of(if starts_page { PAGE } else { section.sh_addralign.max(1) });
        (section.sh_offset, section.sh_addr) = (at, at);
        if id == sections.padding {
            section.sh_size = at.next_multiple_of(PAGE) - at;
        } else if id == sections.rest {
            section.sh_size = at.next_multiple_of(SLOT_ALIGN) - at;
        }
        if section.sh_type == elf::SHT_NOBITS {
            section.data = SectionData::UninitializedData(section.sh_size);
        }
        at += section.sh_size;
    }
    let range = |builder: &Builder<'_>, first: SectionId, last: SectionId| {
        let (first, last) = (builder.sections.get(first), builder.sections.get(last));
        let file_end = if last.sh_type == elf::SHT_NOBITS { last.sh_offset } else { last.sh_offset + last.sh_size };
        (first.sh_offset, file_end - first.sh_offset, last.sh_addr + last.sh_size - first.sh_addr)
    };
    let head = {
        let (_, _, size) = range(builder, sections.note, sections.strings);
        let start = builder.sections.get(sections.note).sh_offset;
        (0, start + size, start + size)
    };
    let segments = [
        (elf::PT_LOAD, elf::PF_R, head, PAGE),
        (elf::PT_LOAD, elf::PF_R | elf::PF_X, range(builder, sections.text, sections.text), PAGE),
        (elf::PT_LOAD, elf::PF_R | elf::PF_W, range(builder, sections.init, sections.padding), PAGE),
        (elf::PT_LOAD, elf::PF_R | elf::PF_W, range(builder, sections.slots, sections.rest), SLOT_ALIGN),
        (elf::PT_DYNAMIC, elf::PF_R | elf::PF_W, range(builder, sections.dynamic, sections.dynamic), 8),
        (elf::PT_NOTE, elf::PF_R, range(builder, sections.note, sections.note), 4),
        (elf::PT_GNU_RELRO, elf::PF_R, range(builder, sections.init, sections.padding), 1),
        (elf::PT_GNU_STACK, elf::PF_R | elf::PF_W, (0, 0, 0), 16),
    ];
    debug_assert_eq!(segments.len() as u64, SEGMENTS);
    for (kind, flags, (offset, file_size, memory_size), align) in segments {
        let segment = builder.segments.add();
        (segment.p_type, segment.p_flags, segment.p_align) = (kind, flags, align);
        (segment.p_offset, segment.p_vaddr, segment.p_paddr) = (offset, offset, offset);
        (segment.p_filesz, segment.p_memsz) = (file_size, memory_size);
    }
}

fn fill_dynamic(builder: &mut Builder<'_>, sections: &Sections, relative: u64) {
    let address = |id| builder.sections.get(id).sh_addr;
    let values =
        [(elf::DT_INIT_ARRAY, address(sections.init)), (elf::DT_RELA, address(sections.relocations)), (elf::DT_RELACOUNT, relative)];
    if let SectionData::Dynamic(entries) = &mut builder.sections.get_mut(sections.dynamic).data {
        for entry in entries {
            if let Dynamic::Integer { tag, val } = entry {
                *val = values.iter().find(|(t, _)| t == tag).map_or(*val, |(_, v)| *v);
            }
        }
    }
}
