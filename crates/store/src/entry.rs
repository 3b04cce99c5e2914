//! Reading files of a store, and the comparisons that every file goes through.

use crate::{StoreError, fs};
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
