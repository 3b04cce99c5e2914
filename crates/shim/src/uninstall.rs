//! Undoes a split. What a split in place put away goes back first, by one rename; a command that was killed is run again.

use crate::error::{At, ShimError};
use crate::file::{self, Lock};
use crate::locate;
use crate::manifest::{self, Manifest, Mode, Origin};
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
    let mut remove = |name: &Path| -> Result<(), ShimError> {
        let path = folder.join(name);
        if file::remove(&path)? {
            report.removed.push(path);
        }
        Ok(())
    };
    for link in &manifest.links {
        if std::fs::read_link(folder.join(&link.path)).is_ok_and(|t| t == link.target) {
            remove(&link.path)?;
        }
    }
    if manifest.mode == Mode::Prefix {
        remove(Path::new(&manifest.wrapper.name))?;
    }
    // The private library of another split belongs to that one.
    if manifest.mode == Mode::Prefix || manifest.private.origin == Origin::Renamed {
        remove(Path::new(&manifest.private.file.name))?;
    }
    remove(Path::new(&manifest.shim.name))?;
    if let Some(runtime) = &manifest.runtime {
        remove(Path::new(&runtime.name))?;
    }
    file::sync_folder(&folder)?;
    // Last, so that a killed command finds it.
    remove(Path::new(manifest::NAME))?;
    file::sync_folder(&folder)?;
    // Folders that others have put something into stay.
    for link in manifest.links.iter().filter(|l| l.path == Path::new(manifest::DATABASE)) {
        for parent in folder.join(&link.path).ancestors().skip(1).take(2) {
            let _ = std::fs::remove_dir(parent);
        }
    }
    for made in manifest.folders.iter().rev() {
        let _ = std::fs::remove_dir(made);
    }
    Ok(report)
}

fn restore(manifest: &Manifest, report: &mut Report) -> Result<(), ShimError> {
    let folder = &report.folder;
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
        if file::remove(&backup)? {
            report.removed.push(backup);
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
    file::sync_folder(folder)?;
    report.restored = Some(place);
    Ok(())
}

/// Whether the file is a wrapper of ours, perhaps of another version.
fn is_wrapper(path: &Path) -> bool {
    let table = hipplan_miopen_abi::table::TABLE_SYMBOL.as_bytes();
    let Ok(mapped) = file::Mapped::open(path) else { return false };
    locate::read(&mapped).is_ok_and(|elf| elf.symbols().any(|(_, s)| s.is_exported() && s.name == table))
}
