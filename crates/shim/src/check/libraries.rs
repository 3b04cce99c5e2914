//! Checks of the three libraries as files, and of the private one against the original.

use super::Outcome::{self, Found, Skip, Warn};
use super::unit::{Original, Unit, text};
use crate::elf::Elf;
use crate::error::{At, ShimError};
use crate::fingerprint::{self, Fingerprint};
use crate::install::{self, hexadecimal};
use crate::locate::{self, RUNTIME_SONAME};
use crate::manifest::{Mode, Origin};
use crate::{file, names};
use hipplan_miopen_abi::table::{ATTACH_SYMBOL, SHIM_SONAME};
use object::elf;
use std::collections::BTreeSet;

/// Runs a check on libraries that must be readable; if one is not, says so.
macro_rules! read {
    ($library:expr) => {
        match $library {
            Ok(elf) => elf,
            Err(why) => return Ok(Found(vec![why])),
        }
    };
}
pub(super) use read;

pub(super) fn files(unit: &Unit) -> Result<Outcome, ShimError> {
    let mut found = Vec::new();
    for record in unit.manifest.files() {
        match file::digest(&unit.folder.join(&record.name)) {
            Err(error) => found.push(error.to_string()),
            Ok((size, _)) if size != record.size => found.push(format!("{}: {size} bytes, the manifest says {}", record.name, record.size)),
            Ok((_, digest)) if digest.to_hex().as_str() != record.blake3 => {
                found.push(format!("{}: BLAKE3 {}, the manifest says {}", record.name, digest.to_hex(), record.blake3));
            }
            Ok(_) => {}
        }
    }
    if found.is_empty() && unit.manifest.runtime.is_none() {
        let why = format!("{RUNTIME_SONAME} was not there when the library was split: nothing is forwarded unless it is found elsewhere");
        return Ok(Warn(vec![why]));
    }
    Ok(Found(found))
}

pub(super) fn links(unit: &Unit) -> Result<Outcome, ShimError> {
    let mut found = Vec::new();
    for link in &unit.manifest.links {
        let at = unit.folder.join(&link.path);
        match std::fs::read_link(&at) {
            Ok(target) if target == link.target => {}
            Ok(target) => found.push(format!("{}: leads to {}, should lead to {}", at.display(), target.display(), link.target.display())),
            Err(error) => found.push(format!("{}: {error}", at.display())),
        }
    }
    if unit.manifest.links.is_empty() {
        return Ok(Skip("the split has no links".to_owned()));
    }
    Ok(Found(found))
}

pub(super) fn build_id(unit: &Unit) -> Result<Outcome, ShimError> {
    let private = read!(unit.private());
    let Some(expected) = &unit.manifest.private.build_id else { return Ok(Skip("the original has no build id".to_owned())) };
    let found = private.build_id().map(hexadecimal);
    let is_same = found.as_ref() == Some(expected);
    let found = found.unwrap_or_else(|| "none".to_owned());
    Ok(Found(if is_same { Vec::new() } else { vec![format!("build id {found}, that of the original was {expected}")] }))
}

pub(super) fn leak(unit: &Unit) -> Result<Outcome, ShimError> {
    let (wrapper, private) = (read!(unit.wrapper()), read!(unit.private()));
    let named = |elf: &Elf<'_>, is_bad: fn(&[u8]) -> bool, what: &str| -> Vec<String> {
        let bad = elf.symbols().filter(|(_, s)| s.is_exported() && is_bad(s.name));
        bad.map(|(_, s)| format!("the {what} exports {}", text(s.name))).collect()
    };
    let mut found = named(&wrapper, |n| n.ends_with(names::SUFFIX.as_bytes()), "wrapper");
    found.extend(
        private
            .symbols()
            .filter(|(_, s)| s.is_exported() && s.is_function() && names::is_public(s.name))
            .map(|(_, s)| format!("the private library exports {}", text(s.name))),
    );
    Ok(Found(found))
}

pub(super) fn sonames(unit: &Unit) -> Result<Outcome, ShimError> {
    let libraries = [
        ("wrapper", read!(unit.wrapper()), unit.manifest.soname.as_str()),
        ("private library", read!(unit.private()), unit.manifest.private.file.name.as_str()),
        ("shim library", read!(unit.shim()), SHIM_SONAME),
    ];
    let wrong = libraries.iter().filter(|(_, elf, expected)| elf.soname() != Some(expected.as_bytes()));
    let found = |elf: &Elf<'_>| elf.soname().map_or("none".to_owned(), text);
    Ok(Found(wrong.map(|(what, elf, expected)| format!("the {what}'s SONAME is {}, expected {expected}", found(elf))).collect()))
}

fn needs(elf: &Elf<'_>) -> Vec<String> {
    elf.names(elf::DT_NEEDED).map(text).collect()
}

pub(super) fn needed(unit: &Unit) -> Result<Outcome, ShimError> {
    let (wrapper, private, shim) = (read!(unit.wrapper()), read!(unit.private()), read!(unit.shim()));
    let expected = [unit.manifest.private.file.name.clone(), SHIM_SONAME.to_owned()];
    let mut found = Vec::new();
    if needs(&wrapper) != expected {
        found.push(format!("the wrapper needs {}, expected {}", needs(&wrapper).join(" "), expected.join(" ")));
    }
    let own = [unit.manifest.soname.as_str(), SHIM_SONAME];
    found.extend(needs(&private).iter().filter(|n| own.contains(&n.as_str())).map(|n| format!("the private library needs {n}")));
    let own = [unit.manifest.soname.as_str(), unit.manifest.private.file.name.as_str(), RUNTIME_SONAME];
    found.extend(needs(&shim).iter().filter(|n| own.contains(&n.as_str())).map(|n| format!("the shim library needs {n}")));
    Ok(Found(found))
}

pub(super) fn search_path(unit: &Unit) -> Result<Outcome, ShimError> {
    let (wrapper, private) = (read!(unit.wrapper()), read!(unit.private()));
    let paths = |elf: &Elf<'_>| -> Vec<String> {
        let found = elf.names(elf::DT_RUNPATH).next().or_else(|| elf.names(elf::DT_RPATH).next()).map(text).unwrap_or_default();
        found.split(':').map(str::to_owned).collect()
    };
    let mut found = Vec::new();
    if paths(&wrapper) != ["$ORIGIN"] {
        found.push(format!("the wrapper looks in {:?}, expected $ORIGIN", paths(&wrapper).join(":")));
    }
    let folder = unit.manifest.input.path.parent().unwrap_or(std::path::Path::new("/"));
    if unit.manifest.private.origin == Origin::Renamed
        && let Original::Same(_) = unit.original()
    {
        let mapped = file::Mapped::open(&unit.original_path())?;
        let original = locate::read(&mapped)?;
        let expected = match unit.manifest.mode {
            Mode::Prefix => text(&install::search_path(&original, folder)),
            Mode::InPlace => paths(&original).join(":"),
        };
        if paths(&private).join(":") != expected {
            found.push(format!("the private library looks in {:?}, expected {expected:?}", paths(&private).join(":")));
        }
    }
    let folder = folder.display().to_string();
    if unit.manifest.mode == Mode::Prefix && !paths(&private).contains(&folder) {
        found.push(format!("the private library looks in {:?}, which lacks the original's folder {folder}", paths(&private).join(":")));
    }
    Ok(Found(found))
}

pub(super) fn undefined(unit: &Unit) -> Result<Outcome, ShimError> {
    let (wrapper, private, shim) = (read!(unit.wrapper()), read!(unit.private()), read!(unit.shim()));
    let defined: BTreeSet<_> = private.symbols().filter(|(_, s)| s.is_exported()).map(|(i, s)| (s.name, private.version(i).name)).collect();
    let mut found = Vec::new();
    for (i, symbol) in wrapper.symbols().filter(|(_, s)| !s.is_defined()) {
        let version = wrapper.version(i).name;
        if symbol.name == ATTACH_SYMBOL.as_bytes() || defined.contains(&(symbol.name, version)) {
            continue;
        }
        let version = version.map(|v| format!("@{}", text(v))).unwrap_or_default();
        found.push(format!("the wrapper refers to {}{version}, which the private library does not have", text(symbol.name)));
    }
    if !shim.symbols().any(|(_, s)| s.is_exported() && s.name == ATTACH_SYMBOL.as_bytes()) {
        found.push(format!("the shim library does not export {ATTACH_SYMBOL}"));
    }
    found.extend(locate::foreign_reference(&shim).map(|name| format!("the shim library refers to {name}")));
    Ok(Found(found))
}

pub(super) fn hash(unit: &Unit) -> Result<Outcome, ShimError> {
    let mut found = Vec::new();
    for (what, elf) in
        [("wrapper", read!(unit.wrapper())), ("private library", read!(unit.private())), ("shim library", read!(unit.shim()))]
    {
        let lost = elf.symbols().filter(|(i, s)| s.is_exported() && !elf.finds(s.name, *i));
        found.extend(lost.map(|(_, s)| format!("{} of the {what} is not found", text(s.name))));
    }
    Ok(Found(found))
}

pub(super) fn original(unit: &Unit) -> Result<Outcome, ShimError> {
    Ok(match (unit.original(), unit.manifest.mode) {
        (Original::Same(print), _) => {
            // The manifest must be the original's too, or a later check against it alone would mislead.
            let is_same = unit.manifest.private.origin == Origin::Kept || **print == unit.manifest.private.fingerprint;
            Found(if is_same { Vec::new() } else { vec!["the digests in the manifest are not those of the original".to_owned()] })
        }
        (Original::Other(why), Mode::InPlace) => Found(vec![format!("{why}; unsplit cannot restore it")]),
        (Original::Gone(why), Mode::InPlace) => Found(vec![format!("{why}; unsplit cannot restore it")]),
        (Original::Other(why), Mode::Prefix) => Warn(vec![format!("{why}; split again to follow the update")]),
        (Original::Gone(why), Mode::Prefix) => Warn(vec![format!("{why}; compared with the digests in the manifest only")]),
    })
}

/// What the private library is, and what it must be.
fn prints(unit: &Unit) -> Result<(Fingerprint, Fingerprint), String> {
    let expected = match (unit.original(), unit.manifest.private.origin) {
        (Original::Same(print), Origin::Renamed) => (**print).clone(),
        _ => unit.manifest.private.fingerprint.clone(),
    };
    Ok((unit.private_print()?, expected))
}

pub(super) fn relocations(unit: &Unit) -> Result<Outcome, ShimError> {
    let (private, expected) = read!(prints(unit));
    Ok(Found(private.relocation_differences(&expected)))
}

pub(super) fn tables(unit: &Unit) -> Result<Outcome, ShimError> {
    let (private, expected) = read!(prints(unit));
    let mut found = private.differences(&expected);
    let elf = read!(unit.private());
    // The private library of another split, in place, is as it was.
    let is_untouched = unit.manifest.private.origin == Origin::Kept && unit.manifest.mode == Mode::InPlace;
    if !is_untouched {
        found.extend(fingerprint::added_segments(&elf, expected.segments));
    } else if elf.segments.len() != expected.segments {
        found.push(format!("{} program headers, expected {}", elf.segments.len(), expected.segments));
    }
    Ok(Found(found))
}

pub(super) fn sections(unit: &Unit) -> Result<Outcome, ShimError> {
    let (private, expected) = read!(prints(unit));
    let mut found = private.section_differences(&expected);
    found.extend(fingerprint::contradictions(&read!(unit.private())));
    Ok(Found(found))
}

/// Bytes of a folder's file, for checks of other files.
pub(super) fn read_file(path: &std::path::Path) -> Result<Vec<u8>, ShimError> {
    std::fs::read(path).at(path, "cannot be read")
}
