//! Checks of the wrapper: what it exports, and that each export is the jump that it must be.

use super::Outcome::{self, Found, Skip};
use super::libraries::read;
use super::unit::{Unit, relocations_by_address, text};
use crate::elf::{Elf, Relocation, array, slice, u32_at, u64_at};
use crate::error::ShimError;
use crate::names;
use crate::surface;
use crate::wrapper::{ENDBR64, Export, JUMP, LAST_ERROR, SLOT_ALIGN, Wrapper};
use hipplan_miopen_abi::table::{ATTACH_SYMBOL, MAGIC, TABLE_SYMBOL, VERSION, WRAPPER_VERSION_NODE, WrapperEntry, WrapperTable};
use object::elf;
use std::collections::{BTreeMap, BTreeSet};

fn public(elf: &Elf<'_>) -> Result<Vec<Export>, String> {
    surface::exports(elf, |name| names::is_public(name).then_some(name)).map_err(|e| e.to_string())
}

pub(super) fn superset(unit: &Unit) -> Result<Outcome, ShimError> {
    let (wrapper, private) = (read!(unit.wrapper()), read!(unit.private()));
    let names = |exports: Vec<Export>| exports.into_iter().map(|e| e.name).collect::<BTreeSet<_>>();
    let has = names(read!(public(&wrapper)));
    let private = names(read!(surface::exports(&private, names::public_of).map_err(|e| e.to_string())));
    let original = names(unit.manifest.exports());
    let mut found: Vec<String> = private.difference(&has).map(|n| format!("{n} is not exported, the private library has it")).collect();
    found.extend(original.difference(&has).filter(|n| !private.contains(*n)).map(|n| format!("{n} is not exported, the original has it")));
    found.extend(original.difference(&private).map(|n| format!("{n}{} is not in the private library", names::SUFFIX)));
    if !has.contains(LAST_ERROR) {
        found.push(format!("{LAST_ERROR} is not exported"));
    }
    Ok(Found(found))
}

pub(super) fn versions(unit: &Unit) -> Result<Outcome, ShimError> {
    let (wrapper, private) = (read!(unit.wrapper()), read!(unit.private()));
    let nodes: BTreeSet<_> = read!(surface::nodes(&wrapper).map_err(|e| e.to_string())).into_iter().collect();
    let own = vec![WRAPPER_VERSION_NODE.to_owned()];
    let expected = unit.manifest.nodes.iter().chain([&own]);
    let mut found: Vec<String> =
        expected.filter(|n| !nodes.contains(*n)).map(|n| format!("the wrapper has no version node {}", n.join(" after "))).collect();
    let base = |elf: &Elf<'_>| elf.versions.definitions.iter().find(|d| d.is_base()).map(|d| text(d.name));
    if base(&wrapper).is_some_and(|b| b != unit.manifest.soname) {
        found.push(format!(
            "the wrapper's versions are named after {}, expected {}",
            base(&wrapper).unwrap_or_default(),
            unit.manifest.soname
        ));
    }
    let has: BTreeSet<Export> = read!(public(&wrapper)).into_iter().collect();
    let private = read!(surface::exports(&private, names::public_of).map_err(|e| e.to_string()));
    let known: BTreeSet<&str> = has.iter().map(|e| e.name.as_str()).collect();
    let wrong = private.iter().filter(|e| known.contains(e.name.as_str()) && !has.contains(e));
    found.extend(
        wrong.map(|e| format!("{} has not the version {} of the private library", e.name, e.version.as_deref().unwrap_or("(none)"))),
    );
    let files = wrapper.versions.needs.iter().map(|n| text(n.file)).filter(|f| *f != unit.manifest.private.file.name);
    found.extend(files.map(|f| format!("the wrapper needs versions of {f}")));
    Ok(Found(found))
}

/// The wrapper's parts that the checks below need.
struct Parts<'e, 'a> {
    elf: &'e Elf<'a>,
    relocations: BTreeMap<u64, Relocation>,
    /// Address of the table.
    table: u64,
    /// Address and bytes of the slots' pages, as the table says.
    slots: (u64, u64),
}

impl<'e, 'a> Parts<'e, 'a> {
    fn of(elf: &'e Elf<'a>) -> Result<Self, String> {
        let relocations = relocations_by_address(elf);
        let symbol = elf.symbols().find(|(i, s)| {
            s.is_exported() && s.name == TABLE_SYMBOL.as_bytes() && elf.version(*i).name == Some(WRAPPER_VERSION_NODE.as_bytes())
        });
        let (_, symbol) = symbol.ok_or_else(|| format!("the wrapper does not export {TABLE_SYMBOL}@@{WRAPPER_VERSION_NODE}"))?;
        let mut parts = Self { elf, relocations, table: symbol.value, slots: (0, 0) };
        let table = parts.bytes(symbol.value, size_of::<WrapperTable>() as u64).ok_or("the table is not in the file")?;
        let field = |i: u64| u32_at(table, 4 * i);
        let expected = [MAGIC, VERSION, size_of::<WrapperEntry>() as u32];
        let found = [field(0), field(1), field(3)].map(Option::unwrap_or_default);
        if found != expected {
            return Err(format!("the table begins with magic, version and entry size {found:x?}, expected {expected:x?}"));
        }
        let slots = parts.relative(symbol.value.saturating_add(24)).ok_or("the table does not point at the slots")?;
        parts.slots = (slots, u64_at(table, 32).unwrap_or_default());
        Ok(parts)
    }

    fn bytes(&self, address: u64, size: u64) -> Option<&'a [u8]> {
        slice(self.elf.bytes, self.elf.file_range(address, size)?)
    }

    /// The address that a relocation puts here.
    fn relative(&self, address: u64) -> Option<u64> {
        let relocation = self.relocations.get(&address)?;
        (relocation.kind == elf::R_X86_64_RELATIVE.0).then(|| relocation.addend.cast_unsigned())
    }

    /// The symbol whose address a relocation puts here, with its version.
    fn symbolic(&self, address: u64) -> Option<(&'a [u8], Option<&'a [u8]>)> {
        let relocation = self.relocations.get(&address)?;
        let is_pointer = relocation.kind == elf::R_X86_64_64.0 && relocation.addend == 0;
        let symbol = is_pointer.then(|| self.elf.symbol(relocation.symbol)).flatten()?;
        Some((symbol.name, self.elf.version(relocation.symbol).name))
    }

    /// Where code jumps to that begins with `endbr64; jmp *slot(%rip)`.
    fn slot_of(&self, address: u64) -> Option<u64> {
        let code: [u8; 10] = array(self.bytes(address, 10)?, 0)?;
        (code[..4] == ENDBR64 && code[4..6] == JUMP).then_some(())?;
        let distance = i32::from_le_bytes(*code.last_chunk()?);
        address.checked_add(10)?.checked_add_signed(distance.into())
    }

    fn c_string(&self, address: u64) -> Option<&'a [u8]> {
        let start = self.elf.file_range(address, 1)?.start;
        crate::elf::string_at(self.elf.bytes, start)
    }

    /// Whether what a slot or an entry is filled with belongs to this name.
    fn leads_to(&self, address: u64, name: &[u8], version: Option<&[u8]>) -> bool {
        match self.symbolic(address) {
            Some((symbol, found)) => symbol == names::private_of(name) && found == version,
            None => name == LAST_ERROR.as_bytes() && self.relative(address).is_some_and(|code| self.is_executable(code)),
        }
    }

    fn is_executable(&self, address: u64) -> bool {
        let inside = |s: &&crate::elf::Segment| address >= s.address && address - s.address < s.memory_size;
        self.elf.segments.iter().filter(|s| s.kind == elf::PT_LOAD.0).find(inside).is_some_and(|s| s.flags & elf::PF_X.0 != 0)
    }
}

/// What is generated from the manifest is what is there. Of another version of hipplan, the other checks must do.
pub(super) fn whole(unit: &Unit) -> Result<Outcome, ShimError> {
    let manifest = &unit.manifest;
    if manifest.made_by != env!("CARGO_PKG_VERSION") {
        return Ok(Skip(format!("it was made by hipplan {}, this is {}", manifest.made_by, env!("CARGO_PKG_VERSION"))));
    }
    let private_soname = manifest.private.file.name.clone();
    let wrapper = Wrapper { soname: manifest.soname.clone(), private_soname, nodes: manifest.nodes.clone(), exports: manifest.exports() };
    let (expected, there) = (wrapper.build()?, read!(unit.wrapper()));
    let first = expected.iter().zip(there.bytes).position(|(a, b)| a != b);
    let first = first.or((expected.len() != there.bytes.len()).then_some(expected.len().min(there.bytes.len())));
    Ok(Found(first.map(|at| format!("from byte {at:#x} on the wrapper is not what is generated for these names")).into_iter().collect()))
}

/// The slot of every public name, with the name's index, as its code says.
fn slots_by_name<'a>(parts: &Parts<'_, 'a>) -> Vec<(u32, &'a [u8], Option<u64>)> {
    let functions = parts.elf.symbols().filter(|(_, s)| s.is_exported() && s.is_function() && names::is_public(s.name));
    functions.map(|(i, s)| (i, s.name, parts.slot_of(s.value))).collect()
}

pub(super) fn stubs(unit: &Unit) -> Result<Outcome, ShimError> {
    let wrapper = read!(unit.wrapper());
    let parts = read!(Parts::of(&wrapper));
    let mut found = Vec::new();
    let mut taken = BTreeSet::new();
    for (i, name, slot) in slots_by_name(&parts) {
        let name_text = text(name);
        let Some(slot) = slot else {
            found.push(format!("{name_text} is not `endbr64; jmp *slot(%rip)`"));
            continue;
        };
        let (start, size) = parts.slots;
        if slot < start || slot - start >= size || !taken.insert(slot) {
            found.push(format!("{name_text} jumps through {slot:#x}, which is not a slot of its own"));
        } else if !parts.leads_to(slot, name, wrapper.version(i).name) {
            found.push(format!("the slot of {name_text} does not lead to {name_text}{}", names::SUFFIX));
        }
    }
    Ok(Found(found))
}

pub(super) fn slots(unit: &Unit) -> Result<Outcome, ShimError> {
    let wrapper = read!(unit.wrapper());
    let parts = read!(Parts::of(&wrapper));
    let (start, size) = parts.slots;
    let mut found = Vec::new();
    let segment = wrapper.segments.iter().find(|s| s.kind == elf::PT_LOAD.0 && s.address == start);
    match segment {
        None => found.push("the slots are not the beginning of a segment".to_owned()),
        Some(s) if s.memory_size != size => found.push(format!("the slots' segment has {} bytes, the table says {size}", s.memory_size)),
        Some(s) if s.flags & elf::PF_W.0 == 0 => found.push("the slots' segment is not writable".to_owned()),
        Some(_) => {}
    }
    if start % SLOT_ALIGN != 0 || size % SLOT_ALIGN != 0 || size == 0 {
        found.push(format!("the slots' pages at {start:#x}, {size:#x} bytes, are not aligned to {SLOT_ALIGN}"));
    }
    let known: BTreeSet<u64> = slots_by_name(&parts).into_iter().filter_map(|(_, _, slot)| slot).collect();
    let others = parts.relocations.range(start..start.saturating_add(size)).filter(|(at, _)| !known.contains(at)).count();
    if others != 0 {
        found.push(format!("{others} relocations on the slots' pages belong to no name"));
    }
    Ok(Found(found))
}

pub(super) fn table(unit: &Unit) -> Result<Outcome, ShimError> {
    let wrapper = read!(unit.wrapper());
    let parts = read!(Parts::of(&wrapper));
    let size = size_of::<WrapperEntry>() as u64;
    let count = parts.bytes(parts.table, 16).and_then(|t| u32_at(t, 8)).unwrap_or_default();
    let Some(entries) = parts.relative(parts.table.saturating_add(16)) else {
        return Ok(Found(vec!["the table does not point at its entries".to_owned()]));
    };
    let mut found = Vec::new();
    let soname = parts.relative(parts.table.saturating_add(40)).and_then(|at| parts.c_string(at));
    if soname != Some(unit.manifest.private.file.name.as_bytes()) {
        found.push(format!("the table names the private library {}", soname.map_or("(nothing)".to_owned(), text)));
    }
    let defaults: BTreeMap<&[u8], (u64, Option<&[u8]>)> = slots_by_name(&parts)
        .into_iter()
        .filter(|(i, ..)| !wrapper.version(*i).hidden)
        .filter_map(|(i, name, slot)| Some((name, (slot?, wrapper.version(i).name))))
        .collect();
    let mut listed: Vec<&[u8]> = Vec::new();
    for i in 0..u64::from(count) {
        let at = entries.saturating_add(i.saturating_mul(size));
        let Some(name) = parts.relative(at).and_then(|at| parts.c_string(at)) else {
            found.push(format!("entry {i} has no name"));
            break;
        };
        match defaults.get(name) {
            None => found.push(format!("entry {i} names {}, which is not exported", text(name))),
            Some((slot, _)) if parts.relative(at.saturating_add(8)) != Some(*slot) => {
                found.push(format!("the entry of {} has another slot than its code", text(name)))
            }
            Some((_, version)) if !parts.leads_to(at.saturating_add(16), name, *version) => {
                found.push(format!("the entry of {} does not have its private name", text(name)));
            }
            Some(_) => {}
        }
        listed.push(name);
    }
    if !listed.is_sorted_by(|a, b| a < b) {
        found.push("the entries are not ascending by name".to_owned());
    }
    let listed: BTreeSet<&[u8]> = listed.into_iter().collect();
    found.extend(defaults.keys().filter(|n| !listed.contains(*n)).map(|n| format!("{} is not in the table", text(n))));
    Ok(Found(found))
}

pub(super) fn attach(unit: &Unit) -> Result<Outcome, ShimError> {
    let wrapper = read!(unit.wrapper());
    let parts = read!(Parts::of(&wrapper));
    let follow = || {
        let array_at = wrapper.value(elf::DT_INIT_ARRAY).filter(|_| wrapper.value(elf::DT_INIT_ARRAYSZ) == Some(8))?;
        let code_at = parts.relative(array_at)?;
        // endbr64; lea table(%rip), %rdi; jmp *got(%rip)
        let code: [u8; 17] = array(parts.bytes(code_at, 17)?, 0)?;
        (code[..4] == ENDBR64 && code[4..7] == [0x48, 0x8d, 0x3d] && code[11..13] == JUMP).then_some(())?;
        let target = |end: u64, distance: [u8; 4]| code_at.checked_add(end)?.checked_add_signed(i32::from_le_bytes(distance).into());
        let table = target(11, *code[7..11].first_chunk()?)?;
        let got = target(17, *code[13..17].first_chunk()?)?;
        Some((table == parts.table, parts.symbolic(got).map(|(name, _)| text(name))))
    };
    let expected = Some((true, Some(ATTACH_SYMBOL.to_owned())));
    let is_right = follow() == expected
        && parts.is_executable(parts.relative(wrapper.value(elf::DT_INIT_ARRAY).unwrap_or_default()).unwrap_or_default());
    Ok(Found(if is_right { Vec::new() } else { vec![format!("the initialiser does not hand {TABLE_SYMBOL} to {ATTACH_SYMBOL}")] }))
}
