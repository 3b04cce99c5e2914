//! What a split must not change, as digests: equal for a library and its private form.
//!
//! Private names count as the public ones that they were, the order of symbols and where the tables lie do not count.

use crate::elf::{Elf, Section, Segment};
use crate::error::ShimError;
use crate::names;
use crate::private::{POINTERS, SPARE};
use object::elf;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// One section.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SectionPrint {
    /// Its name.
    pub name: String,
    /// Of type, flags, address (unless it may move) and content.
    pub blake3: String,
}

/// All that must stay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// Number of program headers of the original.
    pub segments: usize,
    /// Of the program headers, without those whose parts may move.
    pub segments_blake3: String,
    /// Of the dynamic symbols: names with versions, types, sections, values, sizes.
    pub symbols_blake3: String,
    /// Number of relocations.
    pub relocations: usize,
    /// Of the relocations, symbols by name and version.
    pub relocations_blake3: String,
    /// Of the version definitions and needs.
    pub versions_blake3: String,
    /// Of the dynamic section, without the SONAME, the search path and what points at tables.
    pub dynamic_blake3: String,
    /// The sections that are copied as they are, in their order.
    pub sections: Vec<SectionPrint>,
}

struct Hasher(blake3::Hasher);

impl Hasher {
    fn new() -> Self {
        Self(blake3::Hasher::new())
    }

    fn number(&mut self, n: u64) {
        self.0.update(&n.to_le_bytes());
    }

    /// With its length, so that no two lists of strings are alike.
    fn text(&mut self, text: &[u8]) {
        self.number(text.len() as u64);
        self.0.update(text);
    }

    fn finish(self) -> String {
        self.0.finalize().to_hex().to_string()
    }
}

impl Fingerprint {
    /// Of a library; `content` gives the digest of a part of its file. Of a private library, `original_segments` is the number of program
    /// headers that the original had.
    ///
    /// # Errors
    /// If `content` fails.
    pub fn of(
        elf: &Elf<'_>,
        original_segments: Option<usize>,
        content: &mut dyn FnMut(Range<u64>) -> Result<blake3::Hash, ShimError>,
    ) -> Result<Self, ShimError> {
        let segments = original_segments.unwrap_or(elf.segments.len());
        let relocations = elf.relocations().count();
        Ok(Self {
            segments,
            segments_blake3: segments_print(elf, segments),
            symbols_blake3: symbols_print(elf),
            relocations,
            relocations_blake3: relocations_print(elf),
            versions_blake3: versions_print(elf),
            dynamic_blake3: dynamic_print(elf),
            sections: sections_print(elf, content)?,
        })
    }

    /// What differs, in words.
    pub fn differences(&self, original: &Self) -> Vec<String> {
        let mut found = Vec::new();
        let parts = [
            ("program headers", &self.segments_blake3, &original.segments_blake3),
            ("dynamic symbols (names without the suffix, versions, values)", &self.symbols_blake3, &original.symbols_blake3),
            ("symbol versions", &self.versions_blake3, &original.versions_blake3),
            ("dynamic section (needed libraries, flags, functions)", &self.dynamic_blake3, &original.dynamic_blake3),
        ];
        found.extend(parts.iter().filter(|(_, a, b)| a != b).map(|(what, ..)| format!("the {what} are not those of the original")));
        found
    }

    /// What differs in the relocations, in words.
    pub fn relocation_differences(&self, original: &Self) -> Vec<String> {
        match (self.relocations == original.relocations, self.relocations_blake3 == original.relocations_blake3) {
            (true, true) => Vec::new(),
            (false, _) => vec![format!("{} relocations, the original has {}", self.relocations, original.relocations)],
            (true, false) => vec!["some relocations have another place, type, addend or symbol than in the original".to_owned()],
        }
    }

    /// Which sections differ, in words.
    pub fn section_differences(&self, original: &Self) -> Vec<String> {
        if self.sections.len() != original.sections.len() {
            return vec![format!("{} sections to compare, the original has {}", self.sections.len(), original.sections.len())];
        }
        let pairs = self.sections.iter().zip(&original.sections);
        pairs.filter(|(a, b)| a != b).map(|(a, b)| format!("section {} ({} in the original) differs", a.name, b.name)).collect()
    }
}

/// Where a library's headers and what is loaded of it are not the same, in words. Sections are compared where the section headers say, so
/// that must be where the segments and the dynamic section lead.
pub fn contradictions(elf: &Elf<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for section in elf.sections.iter().filter(|s| s.is_allocated() && s.kind != elf::SHT_NOBITS.0 && s.size != 0) {
        if elf.file_range(section.address, section.size) != Some(section.range()) {
            found.push(format!("section {} is not what is loaded at its address", String::from_utf8_lossy(section.name)));
        }
    }
    if let Some(address) = elf.value(elf::DT_RELR)
        && !elf.sections.iter().any(|s| s.kind == elf::SHT_RELR.0 && s.address == address && elf.value(elf::DT_RELRSZ) == Some(s.size))
    {
        found.push(format!("DT_RELR leads to {address:#x}, which is not the section of these relocations"));
    }
    found
}

/// What is wrong with the segments that a private library has beyond its original's: one, the last, of tables that are only read.
pub fn added_segments(elf: &Elf<'_>, original: usize) -> Vec<String> {
    let added = elf.segments.get(original..).unwrap_or_default();
    let last = elf.segments.iter().filter(|s| s.kind == elf::PT_LOAD.0).map(|s| s.address).max();
    match added {
        [one] if one.kind == elf::PT_LOAD.0 && one.flags == elf::PF_R.0 && Some(one.address) == last => Vec::new(),
        _ => vec![format!(
            "{} program headers, expected {original} and one of a segment behind all others that is only read",
            elf.segments.len()
        )],
    }
}

/// The name that a symbol had before the split.
fn name_before<'a>(elf: &Elf<'a>, index: u32) -> &'a [u8] {
    let Some(symbol) = elf.symbol(index) else { return b"" };
    let public = (symbol.is_exported() && symbol.is_function()).then(|| names::public_of(symbol.name)).flatten();
    public.unwrap_or(symbol.name)
}

fn segments_print(elf: &Elf<'_>, count: usize) -> String {
    let may_move = |s: &&Segment| ![elf::PT_PHDR, elf::PT_NOTE, elf::PT_GNU_PROPERTY].iter().any(|k| k.0 == s.kind);
    let mut hasher = Hasher::new();
    for segment in elf.segments.iter().take(count).filter(may_move) {
        hasher.0.update(&segment.to_bytes());
    }
    hasher.finish()
}

fn symbols_print(elf: &Elf<'_>) -> String {
    let rewritten = rewritten(elf);
    let mut symbols: Vec<_> = elf
        .symbols()
        .map(|(i, s)| {
            let version = elf.version(i);
            // Symbols of tables that moved: their addresses say nothing.
            let value = if rewritten.get(usize::from(s.section)) == Some(&true) { 0 } else { s.value };
            (name_before(elf, i), version.name, version.hidden, s.info, s.other, s.section, value, s.size)
        })
        .collect();
    symbols.sort_unstable();
    let mut hasher = Hasher::new();
    for (name, version, hidden, info, other, section, value, size) in symbols {
        hasher.text(name);
        hasher.text(version.unwrap_or_default());
        [u64::from(hidden), info.into(), other.into(), section.into(), value, size].iter().for_each(|&n| hasher.number(n));
    }
    hasher.finish()
}

fn relocations_print(elf: &Elf<'_>) -> String {
    let mut hasher = Hasher::new();
    for relocation in elf.relocations() {
        hasher.number(relocation.address);
        hasher.number(relocation.kind.into());
        hasher.number(relocation.addend.cast_unsigned());
        if relocation.symbol != 0 {
            hasher.text(name_before(elf, relocation.symbol));
            hasher.text(elf.version(relocation.symbol).name.unwrap_or_default());
        }
    }
    hasher.finish()
}

fn versions_print(elf: &Elf<'_>) -> String {
    let mut hasher = Hasher::new();
    for definition in &elf.versions.definitions {
        hasher.number(definition.flags.into());
        hasher.number(definition.index.into());
        // The base is the SONAME.
        hasher.text(if definition.is_base() { b"" } else { definition.name });
        definition.parents.iter().for_each(|p| hasher.text(p));
    }
    for need in &elf.versions.needs {
        [need.file, need.name].iter().for_each(|t| hasher.text(t));
        [need.flags, need.index].iter().for_each(|&n| hasher.number(n.into()));
    }
    hasher.finish()
}

fn dynamic_print(elf: &Elf<'_>) -> String {
    const NAMES: [elf::DynamicTag; 5] = [elf::DT_SONAME, elf::DT_RUNPATH, elf::DT_RPATH, elf::DT_STRTAB, elf::DT_STRSZ];
    let is_name = |tag: i64| [elf::DT_NEEDED, elf::DT_AUXILIARY, elf::DT_FILTER].iter().any(|t| t.0 == tag);
    let mut hasher = Hasher::new();
    for entry in elf.dynamic.iter().filter(|d| !NAMES.iter().chain(&POINTERS).chain(&SPARE).any(|t| t.0 == d.tag)) {
        hasher.number(entry.tag.cast_unsigned());
        match is_name(entry.tag) {
            true => hasher.text(elf.string(entry.value).unwrap_or_default()),
            false => hasher.number(entry.value),
        }
    }
    hasher.finish()
}

/// Which sections a split writes anew.
fn rewritten(elf: &Elf<'_>) -> Vec<bool> {
    let kinds = [
        elf::SHT_NULL,
        elf::SHT_DYNSYM,
        elf::SHT_GNU_HASH,
        elf::SHT_HASH,
        elf::SHT_GNU_VERSYM,
        elf::SHT_GNU_VERDEF,
        elf::SHT_GNU_VERNEED,
        elf::SHT_DYNAMIC,
        elf::SHT_SYMTAB,
    ];
    let strings_of = |kind: elf::SectionType| elf.sections.iter().find(|s| s.kind == kind.0).map(|s| s.link as usize);
    let strings = [elf::SHT_DYNSYM, elf::SHT_SYMTAB].map(strings_of);
    let is_rewritten = |(i, s): (usize, &Section<'_>)| {
        kinds.iter().any(|k| k.0 == s.kind) || (s.kind == elf::SHT_RELA.0 && s.is_allocated()) || strings.contains(&Some(i))
    };
    elf.sections.iter().enumerate().map(is_rewritten).collect()
}

fn sections_print(
    elf: &Elf<'_>,
    content: &mut dyn FnMut(Range<u64>) -> Result<blake3::Hash, ShimError>,
) -> Result<Vec<SectionPrint>, ShimError> {
    let mut prints = Vec::new();
    for (section, _) in elf.sections.iter().zip(rewritten(elf)).filter(|(_, rewritten)| !rewritten) {
        let may_move = section.kind == elf::SHT_NOTE.0 || section.kind == elf::SHT_RELR.0;
        let mut hasher = Hasher::new();
        hasher.text(section.name);
        let address = if may_move { 0 } else { section.address };
        [section.kind.into(), section.flags, address, section.size, section.align].iter().for_each(|&n| hasher.number(n));
        hasher.0.update(content(section.range())?.as_bytes());
        prints.push(SectionPrint { name: String::from_utf8_lossy(section.name).into_owned(), blake3: hasher.finish() });
    }
    Ok(prints)
}
