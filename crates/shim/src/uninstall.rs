//! Undoes a split. What a split in place put away goes back first, by one rename; a command that was killed is run again.

use crate::error::{At, ShimError};
use crate::file::{self, Lock};
use crate::locate;
use crate::manifest::{self, FileRecord, Manifest, Mode, Origin};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What was done.
#[derive(Clone, Debug)]
pub struct Report {
    /// The folder that held the split.
    pub folder: PathBuf,
    /// What is in its place again, in place only.
    pub restored: Option<PathBuf>,
    /// What was removed.
    pub removed: Vec<PathBuf>,
    /// What the user should know.
    pub remarks: Vec<String>,
}

/// Undoes the split at `path`: its folder, its prefix, or a file of it.
///
/// # Errors
/// If there is no split, or the original cannot be put back. Nothing is removed then.
pub fn unsplit(path: &Path) -> Result<Report, ShimError> {
    let folder = locate::split_folder(path)?;
    let _lock = Lock::take(&folder)?;
    let manifest = Manifest::read(&folder)?;
    file::remove_unfinished(&folder);
    let mut report = Report { folder: folder.clone(), restored: None, removed: Vec::new(), remarks: Vec::new() };
    if manifest.mode == Mode::InPlace {
        restore(&manifest, &mut report)?;
    }
    for link in &manifest.links {
        if std::fs::read_link(folder.join(&link.path)).is_ok_and(|t| t == link.target) {
            remove(manifest::resolve(&folder, &link.path), &mut report)?;
        }
    }
    let is_kept = |name: &str| match manifest.mode {
        Mode::Prefix => false,
        // What has the wrapper's place has been dealt with; the private library of another split belongs to that one.
        Mode::InPlace => name == manifest.wrapper.name || (name == manifest.private.file.name && manifest.private.origin == Origin::Kept),
    };
    let libraries = manifest.files().chain(&manifest.earlier).filter(|f| !manifest.preexisting.contains(&f.name) && !is_kept(&f.name));
    remove_made(&folder, libraries.chain(&manifest.development), &mut report)?;
    file::sync_folder(&folder)?;
    // Last, so that a killed command finds it.
    remove(folder.join(manifest::NAME), &mut report)?;
    file::sync_folder(&folder)?;
    // Folders that others have put something into stay.
    let mut made: Vec<PathBuf> = manifest.folders.iter().map(|f| manifest::resolve(&folder, f)).collect();
    made.sort_by_key(|f| std::cmp::Reverse(f.components().count()));
    for made in made {
        let _ = std::fs::remove_dir(made);
    }
    Ok(report)
}

fn remove(path: PathBuf, report: &mut Report) -> Result<(), ShimError> {
    if file::remove(&path)? {
        report.removed.push(path);
    }
    Ok(())
}

/// Removes files that are as the split made them; a file may have several records. Others are somebody else's by now.
fn remove_made<'m>(folder: &Path, records: impl Iterator<Item = &'m FileRecord>, report: &mut Report) -> Result<(), ShimError> {
    let mut digests: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for record in records {
        digests.entry(&record.name).or_default().push(&record.blake3);
    }
    for (name, known) in digests {
        let path = manifest::resolve(folder, Path::new(name));
        if path.symlink_metadata().is_err() {
            continue;
        }
        // The names of wrapper and private library are nobody else's, whatever was done to these files.
        let is_ours = |path: &Path| is_wrapper(path) || is_private(path);
        match file::digest(&path) {
            Ok((_, found)) if known.contains(&found.to_hex().as_str()) || is_ours(&path) => remove(path, report)?,
            _ => report.remarks.push(format!("{}: is not what the split put there and was left as it is", path.display())),
        }
    }
    Ok(())
}

fn restore(manifest: &Manifest, report: &mut Report) -> Result<(), ShimError> {
    let folder = report.folder.clone();
    let place = folder.join(&manifest.wrapper.name);
    let Some(backup) = manifest.backup.as_ref().map(|b| folder.join(b)) else { return Ok(()) };
    let digest = |path: &Path| -> Result<Option<String>, ShimError> {
        if path.symlink_metadata().is_ok() { Ok(Some(file::digest(path)?.1.to_hex().to_string())) } else { Ok(None) }
    };
    let there = digest(&place)?;
    let original = &manifest.input.blake3;
    if there.as_ref() == Some(original) {
        // A killed command: the original never went, or is back.
        file::remove(&backup)?;
        report.restored = Some(place);
        return Ok(());
    }
    if there.is_some() && there.as_ref() != Some(&manifest.wrapper.blake3) && !is_wrapper(&place) {
        report.remarks.push(format!("{}: is not the wrapper any more (an update of MIOpen?) and was left as it is", place.display()));
        if digest(&backup)?.as_ref() == Some(original) {
            remove(backup, report)?;
        }
        return Ok(());
    }
    let named = folder.join(&manifest.soname);
    if there.is_none() && named.is_file() && !is_wrapper(&named) {
        report.remarks.push(format!(
            "{}: is gone, and {} is another MIOpen (an update?), which was left as it is",
            place.display(),
            named.display()
        ));
        if digest(&backup)?.as_ref() == Some(original) {
            remove(backup, report)?;
        }
        return Ok(());
    }
    match digest(&backup)? {
        Some(found) if found == *original => {}
        found => {
            let found = found.map_or("missing".to_owned(), |f| format!("BLAKE3 {f}"));
            return Err(ShimError::Backup { path: backup, found, expected: format!("BLAKE3 {original}") });
        }
    }
    std::fs::rename(&backup, &place).at(&place, "the original cannot be put back")?;
    file::sync_folder(&folder)?;
    report.restored = Some(place);
    Ok(())
}

/// Whether the file is a wrapper of ours, perhaps of another version.
fn is_wrapper(path: &Path) -> bool {
    let table = hipplan_miopen_abi::table::TABLE_SYMBOL.as_bytes();
    let Ok(mapped) = file::Mapped::open(path) else { return false };
    locate::read(&mapped).is_ok_and(|elf| elf.symbols().any(|(_, s)| s.is_exported() && s.name == table))
}

/// Whether the file is a private library.
fn is_private(path: &Path) -> bool {
    let Ok(mapped) = file::Mapped::open(path) else { return false };
    locate::read(&mapped).is_ok_and(|elf| elf.symbols().any(|(_, s)| s.is_exported() && crate::names::public_of(s.name).is_some()))
}
