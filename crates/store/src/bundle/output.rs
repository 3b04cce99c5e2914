//! Files that are written beside others: whole or not at all.

use super::wrap;
use crate::pack::{NewEntry, Pack, Sink, Written};
use crate::upkeep::check_readable;
use crate::{Limits, StoreError, fs, pack};
use std::io;
use std::path::{Path, PathBuf};

/// Opens a bundle that must be there. A link that was named is followed.
pub(super) fn open(path: &Path, limits: &Limits) -> Result<Pack, StoreError> {
    let real = fs::resolved(path).map_err(StoreError::io("open", path))?;
    let opened = Pack::open(&real, limits).map_err(|error| wrap::not_served(path, error))?;
    opened.ok_or_else(|| StoreError::io("open", path)(io::ErrorKind::NotFound.into()))
}

/// Where a file of this name goes, and the folder that it is in.
pub(super) fn place(output: &Path) -> Result<(PathBuf, PathBuf), StoreError> {
    let path = fs::absolute(output).map_err(StoreError::io("use the path", output))?;
    // What a link leads to is replaced, not the link.
    let path = fs::resolved(&path).unwrap_or(path);
    match fs::status(&path) {
        Ok(status) if !matches!(status.kind, fs::Kind::File { .. }) => {
            let (found, expected) = (status.kind.name().to_owned(), "a regular file to be replaced, or nothing");
            return Err(StoreError::Named { path, found, expected, advice: "name another file to write" });
        }
        _ => {}
    }
    let folder = path.parent().map(Path::to_owned);
    let folder = folder.ok_or_else(|| StoreError::io("use the path", output)(io::ErrorKind::InvalidInput.into()))?;
    Ok((path, folder))
}

/// Gives a finished file its name, durably, in place of whatever file had it.
pub(super) fn name(temp: fs::Temp, path: &Path) -> Result<(), StoreError> {
    fs::rename(temp, path).map_err(StoreError::io("create the file", path))?;
    fs::sync_parent(path).map_err(StoreError::io("sync the folder of", path))
}

/// Writes a bundle, durably, in place of whatever file has the name; gives its root and its length.
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
    let temp = fs::create_temp(&folder).map_err(StoreError::io("create a file in", &folder))?;
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
