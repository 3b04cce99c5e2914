//! Reading files of a store, and the comparisons that every file goes through.

use crate::plans::{PlanBytes, check_root, damaged};
use crate::record::{self, Record};
use crate::{EntryKind, Limits, StoreError, fs};
use hipplan_serialize::ContentHash;
use hipplan_serialize::plan::PlanView;
use std::io;
use std::path::Path;

/// Opens a file of the store; `None` when there is none.
pub(crate) fn open(path: &Path) -> Result<Option<fs::OpenFile>, StoreError> {
    match fs::open(path) {
        Ok(Ok(file)) => Ok(Some(file)),
        Ok(Err(kind)) => Err(not_a_file(path, kind)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(StoreError::io("open", path)(e)),
    }
}

/// Something other than a regular file has the name.
pub(crate) fn not_a_file(path: &Path, found: fs::Kind) -> StoreError {
    StoreError::FileType { path: path.to_owned(), found: found.name(), expected: "a regular file" }
}

/// The size must be the one in the address.
pub(crate) fn check_size(path: &Path, found: u64, expected: u64) -> Result<(), StoreError> {
    if found == expected { Ok(()) } else { Err(StoreError::Size { path: path.to_owned(), found, expected }) }
}

/// The content must be what the name or the request says.
pub(crate) fn check_content<T: PartialEq + ToString>(path: &Path, what: &'static str, found: &T, expected: &T) -> Result<(), StoreError> {
    if found == expected {
        return Ok(());
    }
    Err(StoreError::Content { path: path.to_owned(), what, found: found.to_string(), expected: expected.to_string() })
}

/// A number must not be above the limit of this name.
pub(crate) fn check_limit(path: &Path, what: &'static str, found: u64, limit: &'static str, max: u64) -> Result<(), StoreError> {
    if found <= max { Ok(()) } else { Err(StoreError::Limit { path: path.to_owned(), what, found, limit, max }) }
}

/// Holds a number of rows against the limit.
pub(crate) fn check_rows(path: &Path, found: u64, limits: &Limits) -> Result<(), StoreError> {
    check_limit(path, "number of rows", found, "max_record_rows", u64::from(limits.max_record_rows))
}

pub(crate) fn check_plan_size(path: &Path, found: u64, limits: &Limits) -> Result<(), StoreError> {
    check_limit(path, "size in bytes", found, "max_plan_bytes", limits.max_plan_bytes)
}

pub(crate) fn check_blob_size(path: &Path, found: u64, limits: &Limits) -> Result<(), StoreError> {
    check_limit(path, "size in bytes", found, "max_blob_bytes", limits.max_blob_bytes)
}

/// Holds the size of an entry against the limits of its kind.
pub(crate) fn check_limits(kind: EntryKind, path: &Path, size: u64, limits: &Limits) -> Result<(), StoreError> {
    match kind {
        EntryKind::Blob => check_blob_size(path, size, limits),
        EntryKind::Plan => check_plan_size(path, size, limits),
        EntryKind::PlanRecord | EntryKind::Selection => check_rows(path, record::rows_in(size), limits),
    }
}

/// An entry that is what its name says.
#[derive(Debug)]
pub(crate) enum Sound {
    Blob,
    Plan(PlanBytes),
    Record(Record),
}

/// Checks every byte of a file against its name: the one answer to whether a loose file is good. A size above the limits is an error
/// before anything is read; a blob is read piece by piece, and the others are small enough then to be held.
pub(crate) fn check_loose(
    kind: EntryKind,
    name: &[u8; 32],
    path: &Path,
    file: &fs::OpenFile,
    limits: &Limits,
) -> Result<Sound, StoreError> {
    check_limits(kind, path, file.size(), limits)?;
    let read = || file.read().map_err(StoreError::io("read", path));
    match kind {
        EntryKind::Blob => {
            let found = file.hash().map_err(StoreError::io("read", path))?;
            check_content(path, "content hash", &ContentHash(*found.as_bytes()), &ContentHash(*name))?;
            Ok(Sound::Blob)
        }
        EntryKind::Plan => {
            let bytes = read()?;
            check_plan(name, path, &bytes)?;
            Ok(Sound::Plan(PlanBytes::of_checked(bytes)))
        }
        EntryKind::PlanRecord | EntryKind::Selection => read_record(kind, name, path, file, limits).map(Sound::Record),
    }
}

/// The record in a file.
pub(crate) fn read_record(
    kind: EntryKind,
    name: &[u8; 32],
    path: &Path,
    file: &fs::OpenFile,
    limits: &Limits,
) -> Result<Record, StoreError> {
    check_rows(path, record::rows_in(file.size()), limits)?;
    check_record(kind, name, path, &file.read().map_err(StoreError::io("read", path))?)
}

/// The same as of a file, of bytes that are in memory already.
pub(crate) fn check_bytes(kind: EntryKind, name: &[u8; 32], path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    match kind {
        EntryKind::Blob => check_content(path, "content hash", &ContentHash(*blake3::hash(bytes).as_bytes()), &ContentHash(*name)),
        EntryKind::Plan => check_plan(name, path, bytes),
        EntryKind::PlanRecord | EntryKind::Selection => check_record(kind, name, path, bytes).map(drop),
    }
}

fn check_plan(name: &[u8; 32], path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let view = PlanView::open(bytes).map_err(damaged(path))?;
    view.verify().map_err(damaged(path))?;
    check_root(path, &view, name).map(drop)
}

fn check_record(kind: EntryKind, name: &[u8; 32], path: &Path, bytes: &[u8]) -> Result<Record, StoreError> {
    record::decode(kind, name, bytes).map_err(|cause| StoreError::Record { path: path.to_owned(), cause })
}
