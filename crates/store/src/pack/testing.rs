//! Packs for tests and measurements outside of this crate.

use super::{NewEntry, Pack, PackRow};
use crate::{Blob, EntryKind, Limits, StoreError, fs};
use std::path::Path;
use std::sync::Arc;

/// Writes a pack of these entries under `path`, by way of the folder that it is in; gives its root. `read` is asked for the bytes of
/// every entry once.
///
/// # Errors
/// No pack can be made of them, or it cannot be written.
pub fn write_pack(
    path: &Path,
    entries: &[(EntryKind, [u8; 32], u64)],
    provenance: &[String],
    mut read: impl FnMut(usize) -> Vec<u8>,
) -> Result<[u8; 32], StoreError> {
    let entries: Vec<NewEntry> = entries.iter().map(|&(kind, name, size)| NewEntry { kind, name, size }).collect();
    let folder = path.parent().unwrap_or(path);
    let written = super::write(folder, &entries, provenance, &mut |number, sink| sink(&read(number)))?;
    fs::rename(written.temp, path).map_err(StoreError::io("create the file", path))?;
    Ok(written.root)
}

/// Whether large values are given out as parts of a mapping, of a pack that stands in this folder.
///
/// # Errors
/// The folder cannot be asked.
pub fn maps_in(folder: &Path) -> std::io::Result<bool> {
    let path = folder.join("maps-in");
    fs::write_new(&path, b"x", 0o600)?;
    let is_local = fs::open(&path).and_then(|file| file.map_or(Ok(false), |file| fs::is_local(&file, &path)));
    fs::unlink(&path)?;
    is_local
}

/// An open pack.
#[derive(Debug, Clone)]
pub struct OpenPack(Arc<Pack>);

/// A row that was found.
#[derive(Debug, Clone, Copy)]
pub struct FoundRow(PackRow);

impl OpenPack {
    /// Opens a pack; `None` when there is no such file.
    ///
    /// # Errors
    /// It is no pack.
    pub fn open(path: &Path) -> Result<Option<Self>, StoreError> {
        Ok(Pack::open(path, &Limits::default())?.map(|pack| Self(Arc::new(pack))))
    }

    /// Looks a name up.
    ///
    /// # Errors
    /// What was read is damaged, or cannot be read.
    pub fn find(&self, kind: EntryKind, name: &[u8; 32]) -> Result<Option<FoundRow>, StoreError> {
        Ok(self.0.find(kind, name)?.map(FoundRow))
    }

    /// The bytes of an entry.
    ///
    /// # Errors
    /// They are damaged, or cannot be read.
    pub fn get(&self, row: &FoundRow) -> Result<Blob, StoreError> {
        self.0.blob(&row.0, u64::MAX)
    }
}
