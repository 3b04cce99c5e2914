//! Writing a file so that a kill or a power cut leaves either all of it or none of it.
//!
//! A file gets its name only after its content is durable; a put returns only after the name is durable as well, and the
//! names of the folders above it. That holds too for what another process has just put: it may not have come to its last
//! sync, so what is found in place is synced again before anything may name it.

use crate::entry::check_size;
use crate::layout::{EntryKind, TMP};
use crate::{Persisted, Store, StoreError, entry, fs, marker};
use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Names that are remembered as durable; beyond this number they are forgotten, at the cost of a sync too many.
const MOST_FILES: usize = 4096;

/// What this process knows to be durable, so that it is not synced again.
#[derive(Debug, Default)]
pub(crate) struct Durable {
    /// Folders whose names are durable; at most four times 256 and those above them.
    folders: Mutex<HashSet<PathBuf>>,
    /// Blobs and plans whose content and name are durable; nothing names a record.
    files: Mutex<HashSet<(EntryKind, [u8; 32])>>,
}

impl Durable {
    fn has_folder(&self, path: &Path) -> bool {
        self.folders.lock().unwrap_or_else(PoisonError::into_inner).contains(path)
    }

    fn add_folder(&self, path: &Path) {
        self.folders.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned());
    }

    fn has_file(&self, folder: EntryKind, name: &[u8; 32]) -> bool {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).contains(&(folder, *name))
    }

    fn add_file(&self, folder: EntryKind, name: &[u8; 32]) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if files.len() >= MOST_FILES {
            files.clear();
        }
        files.insert((folder, *name));
    }

    fn forget(&self) {
        self.folders.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.files.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Store {
    /// Makes the file `name` hold `bytes`, durably.
    pub(crate) fn publish(&self, folder: EntryKind, name: &[u8; 32], bytes: &[u8]) -> Result<Persisted, StoreError> {
        let persisted = match self.publish_once(folder, name, bytes) {
            // Someone has removed a folder, or the whole store, since it was opened.
            Err(e) if e.is_not_found() => {
                self.durable().forget();
                marker::ensure(self.root())?;
                self.publish_once(folder, name, bytes)?
            }
            result => result?,
        };
        if matches!(folder, EntryKind::Blob | EntryKind::Plan) {
            self.durable().add_file(folder, name);
        }
        Ok(persisted)
    }

    fn publish_once(&self, folder: EntryKind, name: &[u8; 32], bytes: &[u8]) -> Result<Persisted, StoreError> {
        let path = folder.file(self.root(), name);
        let persisted = match fs::open(&path) {
            Ok(Ok(file)) if file.holds(bytes).unwrap_or(false) => {
                file.sync().map_err(StoreError::io("sync", &path))?;
                self.sync_name(&path)?;
                return Ok(Persisted::Unchanged);
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => Persisted::New,
            Ok(Err(kind @ fs::Kind::Folder)) => return Err(entry::not_a_file(&path, kind)),
            // Other bytes, a link, or a file that this user may not read.
            Ok(_) | Err(_) => Persisted::Replaced,
        };
        let temp = self.write_temp(bytes)?;
        let parent = path.parent().unwrap_or(self.root());
        self.make_durable_folder(parent)?;
        fs::rename(temp, &path).map_err(StoreError::io("create the file", &path))?;
        self.sync_name(&path)?;
        Ok(persisted)
    }

    fn write_temp(&self, bytes: &[u8]) -> Result<fs::Temp, StoreError> {
        let tmp = self.root().join(TMP);
        let temp = match fs::write_temp(&tmp, bytes) {
            // Cleaners like to remove empty folders of this name.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                fs::make_folder(&tmp).map_err(StoreError::io("create the folder", &tmp))?;
                fs::write_temp(&tmp, bytes)
            }
            result => result,
        };
        temp.map_err(StoreError::io("create a file in", &tmp))
    }

    /// Checks that a file which something is about to name is there, of this size, and durable.
    pub(crate) fn require_durable(
        &self,
        folder: EntryKind,
        name: &[u8; 32],
        size: u64,
        missing: impl FnOnce(PathBuf) -> StoreError,
    ) -> Result<(), StoreError> {
        let path = folder.file(self.root(), name);
        let Some(file) = entry::open(&path)? else { return Err(missing(path)) };
        check_size(&path, file.size(), size)?;
        if !self.durable().has_file(folder, name) {
            file.sync().map_err(StoreError::io("sync", &path))?;
            self.sync_name(&path)?;
            self.durable().add_file(folder, name);
        }
        Ok(())
    }

    /// Makes the name of a file and those of all folders above it durable.
    fn sync_name(&self, path: &Path) -> Result<(), StoreError> {
        let parent = path.parent().unwrap_or(self.root());
        self.make_durable_folder(parent)?;
        fs::sync_folder(parent).map_err(StoreError::io("sync the folder", parent))
    }

    /// Makes a folder below the root, and its name durable. The root itself is not made here: a root without a marker
    /// would not be a store.
    fn make_durable_folder(&self, path: &Path) -> Result<(), StoreError> {
        if self.durable().has_folder(path) {
            return Ok(());
        }
        if path == self.root() {
            // Made by whoever made the store, perhaps a moment ago.
            fs::sync_parent(path).map_err(StoreError::io("sync the folder above", path))?;
        } else {
            let parent = path.parent().unwrap_or(self.root());
            self.make_durable_folder(parent)?;
            fs::make_folder(path).map_err(StoreError::io("create the folder", path))?;
            fs::sync_folder(parent).map_err(StoreError::io("sync the folder", parent))?;
        }
        self.durable().add_folder(path);
        Ok(())
    }
}
