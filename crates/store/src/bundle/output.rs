//! Files that are written beside others: whole or not at all.

use super::wrap;
use crate::pack::{NewEntry, Pack, Sink, Written};
use crate::upkeep::check_readable;
use crate::{Limits, StoreError, fs, pack};
use hipplan_serialize::form::{self, Form};
use std::io;
use std::path::{Path, PathBuf};

/// Opens a bundle that must be there. A link that was named is followed.
pub(super) fn open(path: &Path, limits: &Limits) -> Result<Pack, StoreError> {
    let real = fs::resolved(path).map_err(StoreError::io("open", path))?;
    let opened = Pack::open(&real, limits).map_err(|error| wrap::not_served(path, error))?;
    opened.ok_or_else(|| StoreError::io("open", path)(io::ErrorKind::NotFound.into()))
}

/// Where a file of this name goes, and the folder that it is in. What is no bundle, or may not be written, is not replaced.
pub(super) fn place(output: &Path) -> Result<(PathBuf, PathBuf), StoreError> {
    let path = fs::absolute(output).map_err(StoreError::io("use the path", output))?;
    // What a link leads to is replaced, not the link.
    let path = fs::resolved(&path).unwrap_or(path);
    if let Ok(status) = fs::status(&path) {
        check_replaceable(&path, &status)?;
    }
    let folder = path.parent().map(Path::to_owned);
    let folder = folder.ok_or_else(|| StoreError::io("use the path", output)(io::ErrorKind::InvalidInput.into()))?;
    Ok((path, folder))
}

/// Refuses to replace what was not made to be replaced.
fn check_replaceable(path: &Path, status: &fs::Status) -> Result<(), StoreError> {
    let refused = |found: &str, expected, advice| {
        let (path, found) = (path.to_owned(), found.to_owned());
        Err(StoreError::Named { path, found, expected, advice })
    };
    let fs::Kind::File { size } = status.kind else {
        return refused(status.kind.name(), "a regular file to be replaced, or nothing", "name another file to write");
    };
    // The new file would take its place without asking for its permission.
    if status.mode & 0o222 == 0 {
        let advice = "make it writable, or name another file to write";
        return refused("a file that is read-only", "one that may be replaced, or nothing", advice);
    }
    // It may be named by mistake, and be worth more than what is written.
    if size > 0 && !begins_like_a_bundle(path)? {
        let advice = "only a bundle is replaced: name another file to write, or remove this one";
        return refused("a file that is no bundle", "a bundle to be replaced, or nothing", advice);
    }
    Ok(())
}

/// Whether a file was meant to be a bundle, wrapped or not, whatever became of it.
fn begins_like_a_bundle(path: &Path) -> Result<bool, StoreError> {
    if wrap::is_wrapped(path)? {
        return Ok(true);
    }
    let opened = fs::open(path).map_err(StoreError::io("open", path))?;
    let Ok(file) = opened else { return Ok(false) };
    let mut beginning = [0; 8];
    if file.size() < beginning.len() as u64 {
        return Ok(false);
    }
    file.read_at(0, &mut beginning).map_err(StoreError::io("read", path))?;
    Ok(form::detect(&beginning) == Form::Bundle)
}

/// A new file in the folder, which nobody may read who may not read the file that it is to replace.
pub(super) fn create(path: &Path, folder: &Path) -> Result<fs::Temp, StoreError> {
    let temp = fs::create_temp(folder).map_err(StoreError::io("create a file in", folder))?;
    keep_mode(&temp, path)?;
    Ok(temp)
}

/// Gives a file the permissions of the one that it is to replace, if there is one; tells whether it had others.
fn keep_mode(temp: &fs::Temp, path: &Path) -> Result<bool, StoreError> {
    let mode = match fs::status(path) {
        Ok(status) if matches!(status.kind, fs::Kind::File { .. }) => status.mode & 0o777,
        // Renaming finds out.
        Ok(_) => return Ok(false),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(e) => return Err(StoreError::io("look at", path)(e)),
    };
    let failed = || StoreError::io("keep the permissions of", path);
    // Some file systems have the same for all files, and let nobody set them.
    if temp.status().map_err(failed())?.mode & 0o777 == mode {
        return Ok(false);
    }
    temp.set_mode(mode).map_err(failed())?;
    Ok(true)
}

/// Gives a finished file its name, durably, in place of whatever file had it, whose permissions stay.
pub(super) fn name(temp: fs::Temp, path: &Path) -> Result<(), StoreError> {
    if keep_mode(&temp, path)? {
        temp.sync().map_err(StoreError::io("sync the file for", path))?;
    }
    fs::rename(temp, path).map_err(StoreError::io("create the file", path))?;
    fs::sync_parent(path).map_err(StoreError::io("sync the folder of", path))
}

/// Writes a bundle, durably, in place of the bundle that has the name; gives its root and its length.
pub(super) fn write(
    output: &Path,
    entries: &[NewEntry],
    provenance: &[String],
    limits: &Limits,
    read: &mut dyn FnMut(usize, &mut Sink<'_>) -> Result<(), StoreError>,
) -> Result<([u8; 32], u64), StoreError> {
    let (path, folder) = place(output)?;
    // What is written under these limits can be read under them.
    check_readable(&path, entries, provenance, limits)?;
    let Written { temp, root, bytes } = pack::write(&folder, entries, provenance, read)?;
    name(temp, &path)?;
    Ok((root, bytes))
}

/// Replaces a bundle by a copy of it with more bytes behind it.
pub(super) fn copy_and_append(pack: &Pack, more: &[u8]) -> Result<(), StoreError> {
    let (path, folder) = place(pack.path())?;
    let failed = || StoreError::io("write a file in", &folder);
    let temp = create(&path, &folder)?;
    let mut at = 0_u64;
    pack.copy(&mut |piece| {
        temp.write_at(at, piece).map_err(failed())?;
        at = at.saturating_add(piece.len() as u64);
        Ok(())
    })?;
    temp.write_at(at, more).map_err(failed())?;
    temp.sync().map_err(StoreError::io("sync a file in", &folder))?;
    name(temp, &path)
}
