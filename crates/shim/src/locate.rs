//! Finds what a split is made from: the library, and the shim's own libraries.

use crate::elf::Elf;
use crate::error::{At, ShimError, Unsuitable};
use crate::file::{self, Mapped};
use crate::manifest::{self, Manifest, Mode};
use crate::names;
use hipplan_miopen_abi::table::{ATTACH_SYMBOL, SHIM_SONAME, TABLE_SYMBOL};
use std::path::{Path, PathBuf};

/// What the runtime library is called.
pub const RUNTIME_SONAME: &str = "libhipplan.so.0";

/// The function of the runtime library that the shim library asks first.
const RUNTIME_VERSION: &str = "hipplan_version";

/// What is split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Folder of the library that was named, without links.
    pub folder: PathBuf,
    /// File name there.
    pub name: String,
    /// The file with the original's bytes: the library itself, or what an earlier split put away.
    pub original: PathBuf,
    /// The private library, if the original is the wrapper of a split already.
    pub private: Option<PathBuf>,
}

impl Source {
    /// Finds out what a path leads to.
    ///
    /// # Errors
    /// If there is no library, or it cannot be split. In place, also if the file is in another folder than the path, or is a wrapper of
    /// ours and nothing is left of what was split.
    pub fn find(path: &Path, in_place: bool) -> Result<Self, ShimError> {
        let named = path;
        let path = path.canonicalize().at(path, "cannot be found")?;
        let (folder, name) = place(&path);
        if in_place {
            let absolute = std::path::absolute(named).at(named, "is no path")?;
            let named_folder = absolute.parent().unwrap_or(Path::new("/")).canonicalize().at(named, "cannot be found")?;
            if named_folder != folder {
                return Err(ShimError::Elsewhere { path: named.to_owned(), real: path });
            }
        }
        let mapped = Mapped::open(&path)?;
        let elf = read(&mapped)?;
        let is_ours = elf.symbols().any(|(_, s)| s.name == TABLE_SYMBOL.as_bytes() && s.is_exported());
        let before = if is_ours { put_away(&folder, &name)? } else { None };
        if is_ours && in_place {
            match &before {
                None => return Err(no_way_back(&folder, &name)),
                Some((original, Mode::Prefix)) => return Err(ShimError::Elsewhere { path: named.to_owned(), real: original.clone() }),
                Some((_, Mode::InPlace)) => {}
            }
        }
        if let Some((original, mode)) = before {
            let mapped = Mapped::open(&original)?;
            // In a prefix, it is as if the original had been named.
            let (folder, name) = if mode == Mode::Prefix { place(&original) } else { (folder, name) };
            let private = private_of_pair(&mapped, &folder)?;
            return Ok(Self { folder, name, original, private });
        }
        let private = private_of_pair(&mapped, &folder)?;
        Ok(Self { folder, name, original: path, private })
    }

    /// Names by which the library can be reached in its folder: links that lead to it, and the one that linkers look for.
    pub fn other_names(&self, soname: &str) -> Vec<String> {
        let mut found = vec![self.name.clone()];
        let path = self.folder.join(&self.name);
        for entry in std::fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let leads_here = || entry.path().canonicalize().is_ok_and(|p| p == path);
            if entry.file_type().is_ok_and(|t| t.is_symlink()) && leads_here() {
                found.extend(entry.file_name().into_string());
            }
        }
        found.extend(soname.split_once(".so").map(|(stem, _)| format!("{stem}.so")));
        found.retain(|n| n != soname);
        found.sort();
        found.dedup();
        found
    }
}

/// Reads a library.
///
/// # Errors
/// If it is none that can be part of a split.
pub fn read(mapped: &Mapped) -> Result<Elf<'_>, ShimError> {
    Elf::read(mapped.bytes()).map_err(unsuitable(mapped.path()))
}

pub(crate) fn unsuitable(path: &Path) -> impl Fn(Unsuitable) -> ShimError + '_ {
    move |reason| ShimError::Unsuitable { path: path.to_owned(), reason }
}

/// Folder and file name.
fn place(path: &Path) -> (PathBuf, String) {
    let folder = path.parent().unwrap_or(Path::new("/")).to_owned();
    (folder, path.file_name().unwrap_or_default().to_string_lossy().into_owned())
}

/// What an earlier split in place put away, or in a prefix left where it was.
fn put_away(folder: &Path, name: &str) -> Result<Option<(PathBuf, Mode)>, ShimError> {
    let Ok(manifest) = Manifest::read(folder) else { return Ok(None) };
    let original = match (manifest.mode, &manifest.backup) {
        (Mode::InPlace, Some(backup)) if manifest.wrapper.name == name => folder.join(backup),
        (Mode::Prefix, _) => manifest.input.path.clone(),
        _ => return Ok(None),
    };
    if !original.is_file() {
        return Ok(None);
    }
    let (size, found) = file::digest(&original)?;
    let is_it = size == manifest.input.size && found.to_hex().as_str() == manifest.input.blake3;
    Ok(is_it.then_some((original, manifest.mode)))
}

/// Why a wrapper of ours cannot be split again in its place.
fn no_way_back(folder: &Path, name: &str) -> ShimError {
    let manifest = Manifest::read(folder);
    let backup = manifest.as_ref().ok().and_then(|m| m.backup.clone()).unwrap_or_else(|| format!("{}{name}", crate::install::BACKUP));
    let path = folder.join(backup);
    let found = file::digest(&path).map_or_else(|_| "missing".to_owned(), |(_, d)| format!("BLAKE3 {}", d.to_hex()));
    let expected = match &manifest {
        Ok(manifest) => format!("BLAKE3 {}", manifest.input.blake3),
        Err(_) => format!("one that {} names, which cannot be read", manifest::NAME),
    };
    ShimError::Backup { path, found, expected }
}

/// The private library that a wrapper needs; none of a stock library.
fn private_of_pair(wrapper: &Mapped, folder: &Path) -> Result<Option<PathBuf>, ShimError> {
    let elf = read(wrapper)?;
    let Some(first) = elf.symbols().find(|(_, s)| !s.is_defined() && names::public_of(s.name).is_some()).map(|(_, s)| s.name) else {
        return Ok(None);
    };
    let mut needed = String::new();
    for name in elf.names(object::elf::DT_NEEDED).filter_map(|n| std::str::from_utf8(n).ok()).filter(|n| names::is_file_name(n)) {
        let path = folder.join(name);
        if !name.contains("private") {
            continue;
        }
        name.clone_into(&mut needed);
        if path.is_file() {
            let mapped = Mapped::open(&path)?;
            let private = read(&mapped)?;
            if private.symbols().any(|(_, s)| s.is_exported() && s.name == first) {
                return Ok(Some(path.canonicalize().at(&path, "cannot be found")?));
            }
        }
    }
    let looked = folder.join(if needed.is_empty() { "*_private.so*" } else { &needed });
    Err(unsuitable(wrapper.path())(Unsuitable::WrapperAlone { needed, looked }))
}

/// The shim's own libraries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Libraries {
    /// `libhipplan_miopen.so.0`.
    pub shim: PathBuf,
    /// `libhipplan.so.0`, if it is anywhere.
    pub runtime: Option<PathBuf>,
}

impl Libraries {
    /// Looks in `folders`, then beside this program, in `../lib` and in `../lib/hipplan`; or takes the shim library that is named, and looks
    /// for the other beside it first.
    ///
    /// # Errors
    /// If there is no shim library, or what has its name is none.
    pub fn find(named: Option<&Path>, folders: &[PathBuf]) -> Result<Self, ShimError> {
        let mut folders = folders.to_vec();
        if let Some(folder) = std::env::current_exe().ok().and_then(|exe| exe.canonicalize().ok()?.parent().map(Path::to_owned)) {
            folders.extend([folder.clone(), folder.join("../lib"), folder.join("../lib/hipplan")]);
        }
        let shim = match named {
            Some(path) => path.canonicalize().at(path, "cannot be found")?,
            None => {
                let found = look(&folders, &[SHIM_SONAME, "libhipplan_miopen.so"]);
                let looked = || folders.iter().map(|f| f.display().to_string()).collect::<Vec<_>>().join(", ");
                found.ok_or_else(|| ShimError::NoShimLibrary { name: SHIM_SONAME, looked: looked() })?
            }
        };
        check_shim(&shim)?;
        let beside = shim.parent().map(Path::to_owned);
        let all: Vec<PathBuf> = beside.into_iter().chain(folders).collect();
        let runtime = look(&all, &[RUNTIME_SONAME]);
        runtime.as_deref().map(check_runtime).transpose()?;
        Ok(Self { shim, runtime })
    }
}

fn look(folders: &[PathBuf], names: &[&str]) -> Option<PathBuf> {
    let mut paths = folders.iter().flat_map(|f| names.iter().map(move |n| f.join(n)));
    paths.find(|p| p.is_file()).and_then(|p| p.canonicalize().ok())
}

/// What must hold of a shim library: it can be called by the wrapper, and reaches nothing but by way of the table.
fn check_shim(path: &Path) -> Result<(), ShimError> {
    let mapped = Mapped::open(path)?;
    let elf = read(&mapped)?;
    let bad = |reason| Err(ShimError::NotShimLibrary { path: path.to_owned(), reason });
    if elf.soname() != Some(SHIM_SONAME.as_bytes()) {
        let found = elf.soname().map_or("none".to_owned(), |s| String::from_utf8_lossy(s).into_owned());
        return bad(format!("its SONAME is {found}, expected {SHIM_SONAME}"));
    }
    if !elf.symbols().any(|(_, s)| s.is_exported() && s.name == ATTACH_SYMBOL.as_bytes()) {
        return bad(format!("it does not export {ATTACH_SYMBOL}"));
    }
    match foreign_reference(&elf) {
        Some(name) => bad(format!("it refers to {name}, which must be reached through the table or at run time")),
        None => Ok(()),
    }
}

/// What must hold of a runtime library, so that the shim library can open it.
fn check_runtime(path: &Path) -> Result<(), ShimError> {
    let bad = |reason| Err(ShimError::NotRuntimeLibrary { path: path.to_owned(), reason });
    let mapped = match Mapped::open(path) {
        Ok(mapped) => mapped,
        Err(error) => return bad(error.to_string()),
    };
    let elf = match Elf::read(mapped.bytes()) {
        Ok(elf) => elf,
        Err(reason) => return bad(reason.to_string()),
    };
    if elf.soname() != Some(RUNTIME_SONAME.as_bytes()) {
        let found = elf.soname().map_or("none".to_owned(), |s| String::from_utf8_lossy(s).into_owned());
        return bad(format!("its SONAME is {found}, expected {RUNTIME_SONAME}"));
    }
    if !elf.symbols().any(|(_, s)| s.is_exported() && s.name == RUNTIME_VERSION.as_bytes()) {
        return bad(format!("it does not export {RUNTIME_VERSION}"));
    }
    Ok(())
}

/// An undefined symbol of a shim library that is a private name or one of the runtime's.
pub(crate) fn foreign_reference(elf: &Elf<'_>) -> Option<String> {
    let is_foreign = |name: &[u8]| names::public_of(name).is_some() || names::is_public(name) || name.starts_with(b"hipplan_");
    elf.symbols().find(|(_, s)| !s.is_defined() && is_foreign(s.name)).map(|(_, s)| String::from_utf8_lossy(s.name).into_owned())
}

/// The folder with the manifest of a split: the one named, its `lib`, or that of the file named.
///
/// # Errors
/// If there is no split.
pub fn split_folder(path: &Path) -> Result<PathBuf, ShimError> {
    let real = path.canonicalize().at(path, "cannot be found")?;
    let parent = real.parent().map(Path::to_owned);
    let candidates = if real.is_dir() { vec![real.clone(), real.join("lib")] } else { parent.into_iter().collect() };
    let found = candidates.into_iter().find(|c| c.join(manifest::NAME).is_file());
    found.ok_or_else(|| ShimError::NoManifest { path: path.to_owned(), manifest: manifest::NAME })
}
