//! Going through a folder in a fixed order.

use crate::layout::EntryKind;
use crate::{StoreError, entry, fs};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

/// The files of a folder with what their names say, ascending by name; one two-digit folder is listed at a time. What
/// does not belong there is reported and not entered, and so is what stands in place of one of the store's folders. Files that vanish meanwhile are passed over.
pub(crate) fn files(root: &Path, folder: EntryKind) -> impl Iterator<Item = Result<([u8; 32], PathBuf), StoreError>> + use<> {
    let base = root.join(folder.path());
    let names = own_folders(root, folder.path()).map_or_else(|error| vec![Err(error)], |()| names(&base));
    names.into_iter().flat_map(move |name| match name {
        Ok(name) => shard(folder, &name, &base.join(&name)),
        Err(error) => vec![Err(error)],
    })
}

/// The folders of the store on this path are folders, not links to some, or are not there.
pub(crate) fn own_folders(root: &Path, below: &str) -> Result<(), StoreError> {
    let mut path = root.to_owned();
    for name in below.split('/') {
        path.push(name);
        match kind(&path)? {
            None | Some(fs::Kind::Folder) => {}
            Some(found) => return Err(StoreError::FileType { path, found: found.name(), expected: "a folder" }),
        }
    }
    Ok(())
}

fn shard(folder: EntryKind, name: &OsString, path: &Path) -> Vec<Result<([u8; 32], PathBuf), StoreError>> {
    let kind = match kind(path) {
        Ok(Some(kind)) => kind,
        Ok(None) => return Vec::new(),
        Err(error) => return vec![Err(error)],
    };
    match name.to_str().and_then(EntryKind::parse_shard) {
        Some(first) if kind == fs::Kind::Folder => names(path)
            .into_iter()
            .filter_map(|name| name.and_then(|name| file(folder, first, &name, path.join(&name))).transpose())
            .collect(),
        _ => vec![Err(foreign_kind(path, kind, "folders named by two lower-case hexadecimal digits"))],
    }
}

fn file(folder: EntryKind, first: u8, name: &OsString, path: PathBuf) -> Result<Option<([u8; 32], PathBuf)>, StoreError> {
    let Some(kind) = kind(&path)? else { return Ok(None) };
    match name.to_str().and_then(|name| folder.parse(first, name)) {
        Some(name) if matches!(kind, fs::Kind::File { .. }) => Ok(Some((name, path))),
        _ => Err(foreign_kind(&path, kind, folder.expected())),
    }
}

/// Names in a folder that are not among these.
pub(crate) fn foreign_names(path: &Path, known: &[&str], expected: &'static str) -> Vec<StoreError> {
    let unknown = |name: OsString| {
        if known.iter().any(|known| name == *known) {
            return Ok(None);
        }
        foreign(&path.join(name), expected)
    };
    names(path).into_iter().filter_map(|name| name.and_then(unknown).unwrap_or_else(Some)).collect()
}

/// Asks again where the first answer is that there is no such thing. Upkeep takes what was listed a moment ago to be gone only if two calls
/// say so: a server may not know for a moment of what is being replaced, and what upkeep takes to be gone names nothing.
pub(crate) fn twice<T>(ask: impl Fn() -> io::Result<T>) -> io::Result<T> {
    match ask() {
        Err(e) if e.kind() == io::ErrorKind::NotFound => ask(),
        result => result,
    }
}

/// Opens a file that was listed a moment ago; `None` when it has gone.
pub(crate) fn open_listed(path: &Path) -> Result<Option<fs::OpenFile>, StoreError> {
    match entry::open(path)? {
        None => entry::open(path),
        file => Ok(file),
    }
}

/// The names in a folder, sorted; none when there is no such folder.
pub(crate) fn names(path: &Path) -> Vec<Result<OsString, StoreError>> {
    match twice(|| fs::list(path)) {
        Ok(names) => names.into_iter().map(Ok).collect(),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(e) => vec![Err(StoreError::io("list the folder", path)(e))],
    }
}

fn kind(path: &Path) -> Result<Option<fs::Kind>, StoreError> {
    match twice(|| fs::kind(path)) {
        Ok(kind) => Ok(Some(kind)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(StoreError::io("look at", path)(e)),
    }
}

/// What is to be said of a name that does not belong; nothing if it has vanished.
pub(crate) fn foreign(path: &Path, expected: &'static str) -> Result<Option<StoreError>, StoreError> {
    Ok(kind(path)?.map(|kind| foreign_kind(path, kind, expected)))
}

fn foreign_kind(path: &Path, found: fs::Kind, expected: &'static str) -> StoreError {
    StoreError::Foreign { path: path.to_owned(), found: found.name(), expected }
}
