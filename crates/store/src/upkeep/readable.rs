//! What is written must be such that every reader opens it: the packs that it stands for go afterwards.

use crate::entry::check_limit;
use crate::pack::{NewEntry, Pack, Written};
use crate::{Limits, StoreError};
use std::io::ErrorKind;
use std::path::Path;

/// A pack of these entries and lines can be opened under these limits. Looked at before it is written.
pub(crate) fn check_readable(path: &Path, entries: &[NewEntry], provenance: &[String], limits: &Limits) -> Result<(), StoreError> {
    let limit = |what, found, limit, max| check_limit(path, what, found, limit, max);
    limit("number of rows", entries.len() as u64, "max_pack_rows", u64::from(limits.max_pack_rows))?;
    let provenance = provenance.iter().fold(0, |sum: u64, line| sum.saturating_add(size_of_line(line)));
    limit("size of the provenance in bytes", provenance, "max_provenance_bytes", limits.max_provenance_bytes)
}

/// Bytes that a line of provenance takes.
pub(super) fn size_of_line(line: &str) -> u64 {
    (line.len() as u64).saturating_add(1)
}

/// Opens a pack that has no name yet, as every reader of the folder will. One that cannot be opened never gets a name.
pub(super) fn open_written(written: &Written) -> Result<Pack, StoreError> {
    let nothing = Path::new("");
    let path = written.temp.path().map_err(StoreError::io("open the new pack", nothing))?;
    let pack = Pack::open(path, &Limits::of_packs())?;
    pack.ok_or_else(|| StoreError::io("open the new pack", path)(ErrorKind::NotFound.into()))
}
