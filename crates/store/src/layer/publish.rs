//! Writing a file so that a kill or a power cut leaves either all of it or none of it.
//!
//! A file gets its name only after its content is durable; a put returns only after the name is durable as well, and the
//! names of the folders above it. That holds too for what another process has just put: it may not have come to its last
//! sync, so what is found in place is synced again before anything may name it.

use super::require::has_its_name;
use super::{Access, Directory};
use crate::layout::TMP;
use crate::record::{self, RecordKind};
use crate::upkeep::trash;
use crate::{EntryKind, Persisted, StoreError, entry, fs, marker};
use hipplan_serialize::PlanRef;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What became of a file in place that is to stay.
enum Kept {
    /// It is stamped and durable, and has its name.
    Yes,
    /// Somebody took it away, which is where [`gc`](crate::Store::gc) and a put meet: gc takes a name away before it looks at the stamp for
    /// the last time.
    Gone,
    /// It cannot be stamped, as one of another user cannot: nobody would know that it is in use.
    Unstamped,
}

/// How an entry stands in a pack.
enum Packed {
    /// With these bytes: stamped and durable.
    Kept,
    /// With these bytes, which cannot be stamped: nobody would know that they are in use.
    Unstamped,
    /// With other bytes.
    Other,
}

impl Directory {
    /// Runs a put: a fault of the store becomes an answer, and a warning, where that was asked for.
    pub(crate) fn put(&self, write: impl FnOnce() -> Result<Persisted, StoreError>) -> Result<Persisted, StoreError> {
        let path = || self.root().to_owned();
        let result = match self.access() {
            Access::ReadWrite => return write(),
            Access::ReadOnly => return Err(StoreError::ReadOnly { path: path() }),
            Access::Degrading => write(),
            Access::Unavailable(error) => Err(StoreError::Unavailable { path: path(), cause: error.to_string() }),
        };
        result.or_else(|error| {
            self.faults().not_persisted(&error);
            Ok(Persisted::No(error))
        })
    }

    /// Replaces a record whole. The plans that it names are durable.
    pub(crate) fn publish_record(
        &self,
        entries: EntryKind,
        kind: RecordKind,
        key: &[u8; 32],
        rows: &[PlanRef],
    ) -> Result<Persisted, StoreError> {
        self.publish(entries, key, &record::encode(kind, key, rows))
    }

    /// Makes an entry hold `bytes`, durably.
    pub(crate) fn publish(&self, kind: EntryKind, name: &[u8; 32], bytes: &[u8]) -> Result<Persisted, StoreError> {
        match self.publish_once(kind, name, bytes) {
            // Someone has removed a folder, or the whole store, since it was opened.
            Err(e) if e.is_not_found() => {
                self.durable().forget();
                marker::ensure(self.root())?;
                self.publish_once(kind, name, bytes)
            }
            result => result,
        }
    }

    fn publish_once(&self, kind: EntryKind, name: &[u8; 32], bytes: &[u8]) -> Result<Persisted, StoreError> {
        let path = kind.file(self.root(), name);
        let persisted = match fs::open(&path) {
            Ok(Ok(file)) if file.holds(bytes).unwrap_or(false) => match self.keep(&path, &file)? {
                Kept::Yes => {
                    self.note_durable(kind, name, file.status());
                    return Ok(Persisted::Unchanged);
                }
                Kept::Gone => Persisted::New,
                Kept::Unstamped => Persisted::Unchanged,
            },
            Err(e) if e.kind() == io::ErrorKind::NotFound => match self.packed(kind, name, bytes)? {
                Some(Packed::Kept) if !self.may_come_back(kind, name)? => return Ok(Persisted::Unchanged),
                Some(Packed::Unstamped) => Persisted::Unchanged,
                Some(_) => Persisted::Replaced,
                None => Persisted::New,
            },
            Ok(Err(kind @ fs::Kind::Folder)) => return Err(entry::not_a_file(&path, kind)),
            // Other bytes, a link, or a file that this user may not read.
            Ok(_) | Err(_) => Persisted::Replaced,
        };
        let temp = self.write_temp(bytes)?;
        let parent = path.parent().unwrap_or(self.root());
        self.make_durable_folder(parent)?;
        let status = temp.status().map_err(StoreError::io("look at", &path))?;
        fs::rename(temp, &path).map_err(StoreError::io("create the file", &path))?;
        self.sync_name(&path)?;
        self.note_durable(kind, name, &status);
        Ok(persisted)
    }

    /// Remembers what something else may name.
    fn note_durable(&self, kind: EntryKind, name: &[u8; 32], status: &fs::Status) {
        if kind != EntryKind::Selection {
            self.durable().add_file(kind, name, status);
        }
    }

    /// Makes a file that is in place stay: it is stamped, durable, and afterwards still there.
    fn keep(&self, path: &Path, file: &fs::OpenFile) -> Result<Kept, StoreError> {
        if file.touch().is_err() {
            return Ok(Kept::Unstamped);
        }
        file.sync().map_err(StoreError::io("sync", path))?;
        self.sync_name(path)?;
        Ok(if has_its_name(path, file.status()) { Kept::Yes } else { Kept::Gone })
    }

    /// Whether the entry is these bytes already, stamped and durable.
    pub(crate) fn holds(&self, kind: EntryKind, name: &[u8; 32], bytes: &[u8]) -> Result<bool, StoreError> {
        let path = kind.file(self.root(), name);
        match fs::open(&path) {
            Ok(Ok(file)) => Ok(file.holds(bytes).unwrap_or(false) && matches!(self.keep(&path, &file)?, Kept::Yes)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                Ok(matches!(self.packed(kind, name, bytes)?, Some(Packed::Kept)) && !self.may_come_back(kind, name)?)
            }
            Ok(Err(_)) | Err(_) => Ok(false),
        }
    }

    /// Whether another record of this key may come back from `trash`, or just has, and would be in front of that of a pack.
    fn may_come_back(&self, kind: EntryKind, name: &[u8; 32]) -> Result<bool, StoreError> {
        if matches!(kind, EntryKind::Blob | EntryKind::Plan) {
            return Ok(false);
        }
        Ok(trash::awaits(self)?.contains(&(kind, *name)) || fs::status(&kind.file(self.root(), name)).is_ok())
    }

    /// Whether the newest pack with this entry holds these bytes, and is there to stay; `None` where no pack has the entry any more.
    fn packed(&self, kind: EntryKind, name: &[u8; 32], bytes: &[u8]) -> Result<Option<Packed>, StoreError> {
        // What is wrong with a pack is no reason to refuse a put.
        drop(self.packs().refresh());
        for pack in &*self.packs().current() {
            let Ok(Some(row)) = pack.find(kind, name) else { continue };
            if !pack.holds(&row, bytes).unwrap_or(false) {
                return Ok(Some(Packed::Other));
            }
            if !self.packs().stamp(pack, row.ordinal, SystemTime::now()) {
                return Ok(Some(Packed::Unstamped));
            }
            self.make_durable_pack(pack.path())?;
            return Ok(has_its_name(pack.path(), pack.status()).then_some(Packed::Kept));
        }
        Ok(None)
    }

    /// Makes the name of a pack durable: its content was before it had one.
    pub(super) fn make_durable_pack(&self, path: &Path) -> Result<(), StoreError> {
        if !self.durable().has_folder(path) {
            self.sync_name(path)?;
            self.durable().add_folder(path);
        }
        Ok(())
    }

    /// An entry may not be there any more.
    pub(crate) fn forget_file(&self, kind: EntryKind, name: &[u8; 32]) {
        self.durable().forget_file(kind, name);
    }

    /// Notes that an entry is in use, in whatever place it stands.
    pub(crate) fn stamp_now(&self, kind: EntryKind, name: &[u8; 32]) {
        if let Ok(Some(file)) = entry::open(&kind.file(self.root(), name)) {
            // A stamp is a hint.
            drop(file.touch());
        }
        drop(self.packs().refresh());
        for pack in &*self.packs().current() {
            if let Ok(Some(row)) = pack.find(kind, name) {
                self.packs().stamp(pack, row.ordinal, SystemTime::now());
            }
        }
    }

    /// Makes an entry hold `bytes`, durably, unless a file of it is there by now; tells whether it was made.
    pub(crate) fn publish_new(&self, kind: EntryKind, name: &[u8; 32], bytes: &[u8]) -> Result<bool, StoreError> {
        let path = kind.file(self.root(), name);
        let temp = self.write_temp(bytes)?;
        self.make_durable_folder(path.parent().unwrap_or(self.root()))?;
        match fs::rename_new(temp, &path) {
            Ok(()) => self.sync_name(&path).map(|()| true),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(e) => Err(StoreError::io("create the file", &path)(e)),
        }
    }

    /// The folder for unfinished writes.
    pub(crate) fn temp_folder(&self) -> Result<PathBuf, StoreError> {
        let tmp = self.root().join(TMP);
        // Cleaners like to remove empty folders of this name.
        fs::make_folder(&tmp).map_err(StoreError::io("create the folder", &tmp))?;
        Ok(tmp)
    }

    /// A new file with these bytes in the folder for unfinished writes.
    pub(crate) fn write_temp(&self, bytes: &[u8]) -> Result<fs::Temp, StoreError> {
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

    /// Makes a folder that stores of layout 1 do not have, and the store one of our layout.
    pub(crate) fn uses_folder(&self, name: &str) -> Result<PathBuf, StoreError> {
        let path = self.root().join(name);
        if !self.durable().has_folder(&path) {
            marker::upgrade(self.root())?;
            self.make_durable_folder(&path)?;
        }
        Ok(path)
    }

    /// Makes the name of a file and those of all folders above it durable.
    pub(crate) fn sync_name(&self, path: &Path) -> Result<(), StoreError> {
        let parent = path.parent().unwrap_or(self.root());
        self.make_durable_folder(parent)?;
        fs::sync_folder(parent).map_err(StoreError::io("sync the folder", parent))
    }

    /// Makes a folder below the root, and its name durable. The root itself is not made here: a root without a marker
    /// would not be a store.
    pub(super) fn make_durable_folder(&self, path: &Path) -> Result<(), StoreError> {
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
