//! GNU symbol versions: what `.gnu.version_d` defines and `.gnu.version_r` needs.
#![deny(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::unreachable
)]

use super::{Elf, array, string_at, u16_at, u32_at};
use crate::error::Unsuitable;
use object::elf;
use std::ops::Range;

const DAMAGED: Unsuitable = Unsuitable::Layout("the tables of symbol versions are damaged");

/// A version that this library defines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition<'a> {
    /// Where the entry is in the file.
    pub offset: u64,
    /// Where its first name entry is in the file.
    pub name_offset: u64,
    /// `vd_flags`.
    pub flags: u16,
    /// `vd_ndx`.
    pub index: u16,
    /// Its name.
    pub name: &'a [u8],
    /// The versions that it follows.
    pub parents: Vec<&'a [u8]>,
}

impl Definition<'_> {
    /// Whether it names the library and not a version.
    pub fn is_base(&self) -> bool {
        self.flags & elf::VER_FLG_BASE.0 != 0
    }
}

/// A version that this library needs of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need<'a> {
    /// The other library's `DT_NEEDED` name.
    pub file: &'a [u8],
    /// `vna_flags`.
    pub flags: u16,
    /// `vna_other`.
    pub index: u16,
    /// The version's name.
    pub name: &'a [u8],
}

/// All versions of a library.
#[derive(Clone, Debug, Default)]
pub struct Versions<'a> {
    /// Defined here.
    pub definitions: Vec<Definition<'a>>,
    /// Needed of others.
    pub needs: Vec<Need<'a>>,
}

/// The version of a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version<'a> {
    /// Name; none if the symbol has no version.
    pub name: Option<&'a [u8]>,
    /// Not the default: found only by those who ask for this version (`name@VERSION`).
    pub hidden: bool,
}

impl<'a> Versions<'a> {
    pub(super) fn read(
        bytes: &'a [u8],
        strings: &'a [u8],
        definitions: Option<(Range<u64>, u64)>,
        needs: Option<(Range<u64>, u64)>,
    ) -> Result<Self, Unsuitable> {
        let mut versions = Self::default();
        if let Some((range, count)) = definitions {
            versions.read_definitions(bytes, strings, &range, count).ok_or(DAMAGED)?;
        }
        if let Some((range, count)) = needs {
            versions.read_needs(bytes, strings, &range, count).ok_or(DAMAGED)?;
        }
        // A name that nothing could ask for.
        if versions.definitions.iter().any(|d| d.name.is_empty()) || versions.needs.iter().any(|n| n.name.is_empty()) {
            return Err(DAMAGED);
        }
        let mut indices: Vec<u16> = versions.indices().collect();
        indices.sort_unstable();
        if indices.windows(2).any(|w| w.first() == w.last()) {
            return Err(Unsuitable::Layout("two symbol versions have one number"));
        }
        Ok(versions)
    }

    fn read_definitions(&mut self, bytes: &'a [u8], strings: &'a [u8], range: &Range<u64>, count: u64) -> Option<()> {
        let mut at = range.start;
        for left in (0..count).rev() {
            range.contains(&at).then_some(())?;
            let entry: [u8; 20] = array(bytes, at)?;
            let (flags, index, names) = (u16_at(&entry, 2)?, u16_at(&entry, 4)?, u16_at(&entry, 6)?);
            let name_offset = at.checked_add(u32_at(&entry, 12)?.into())?;
            let mut name_at = name_offset;
            let mut all = Vec::new();
            for left in (0..names).rev() {
                range.contains(&name_at).then_some(())?;
                all.push(string_at(strings, u32_at(bytes, name_at)?.into())?);
                name_at = step(name_at, u32_at(bytes, name_at.checked_add(4)?)?, left == 0)?;
            }
            let name = all.first().copied()?;
            self.definitions.push(Definition { offset: at, name_offset, flags, index, name, parents: all.split_off(1) });
            at = step(at, u32_at(&entry, 16)?, left == 0)?;
        }
        Some(())
    }

    fn read_needs(&mut self, bytes: &'a [u8], strings: &'a [u8], range: &Range<u64>, count: u64) -> Option<()> {
        let mut at = range.start;
        for left in (0..count).rev() {
            range.contains(&at).then_some(())?;
            let entry: [u8; 16] = array(bytes, at)?;
            let file = string_at(strings, u32_at(&entry, 4)?.into())?;
            let mut need_at = at.checked_add(u32_at(&entry, 8)?.into())?;
            for left in (0..u16_at(&entry, 2)?).rev() {
                range.contains(&need_at).then_some(())?;
                let need: [u8; 16] = array(bytes, need_at)?;
                let name = string_at(strings, u32_at(&need, 8)?.into())?;
                self.needs.push(Need { file, flags: u16_at(&need, 4)?, index: u16_at(&need, 6)?, name });
                need_at = step(need_at, u32_at(&need, 12)?, left == 0)?;
            }
            at = step(at, u32_at(&entry, 12)?, left == 0)?;
        }
        Some(())
    }

    fn indices(&self) -> impl Iterator<Item = u16> + '_ {
        let special = [elf::VER_NDX_LOCAL.0, elf::VER_NDX_GLOBAL.0];
        let definitions = self.definitions.iter().filter(|d| !d.is_base()).map(|d| d.index);
        definitions.chain(self.needs.iter().map(|n| n.index & elf::VERSYM_VERSION)).chain(special)
    }

    /// Whether this number of `.gnu.version` means something.
    pub(super) fn knows(&self, index: u16) -> bool {
        let index = index & elf::VERSYM_VERSION;
        index <= elf::VER_NDX_GLOBAL.0 || self.name(index).is_some()
    }

    /// The name of the version with this number.
    pub fn name(&self, index: u16) -> Option<&'a [u8]> {
        let definition = self.definitions.iter().find(|d| d.index == index && !d.is_base()).map(|d| d.name);
        definition.or_else(|| self.needs.iter().find(|n| n.index == index).map(|n| n.name))
    }
}

/// The next entry of a chain; any place if this was the last.
fn step(at: u64, next: u32, is_last: bool) -> Option<u64> {
    (is_last || next != 0).then_some(())?;
    at.checked_add(next.into())
}

impl<'a> Elf<'a> {
    /// The version of a dynamic symbol.
    pub fn version(&self, symbol: u32) -> Version<'a> {
        let index = self.version_index(symbol);
        Version { name: self.versions.name(index & elf::VERSYM_VERSION), hidden: index & elf::VERSYM_HIDDEN.0 != 0 }
    }
}
