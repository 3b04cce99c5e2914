//! What this process knows to be durable, so that it is not synced again.

use crate::{EntryKind, fs};
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// Names that are remembered as durable; beyond this number they are forgotten, at the cost of a sync too many.
const MOST_FILES: usize = 4096;
/// Names in `trash` that are remembered as waited for in vain.
const MOST_LEFT: usize = 4096;

/// Which file it is. The number of an inode is used again for another file, soon after the first has gone: the time at which it was made
/// tells them apart, where the file system has one.
type Identity = (fs::Inode, Option<SystemTime>);

/// What this process knows to be durable, so that it is not synced again.
#[derive(Debug, Default)]
pub(crate) struct Durable {
    /// Folders whose names are durable; at most four times 256 and those above them.
    folders: Mutex<HashSet<PathBuf>>,
    /// What is named by something else, and whose content and name are durable: all but selections. Of each the file that was synced:
    /// another one of its name, which another process has put since, may not have come to its last sync.
    files: Mutex<HashMap<(EntryKind, [u8; 32]), Identity>>,
    /// Names in `trash` that stayed there for longer than upkeep at work leaves them.
    left: Mutex<HashSet<OsString>>,
}

fn identity(status: &fs::Status) -> Identity {
    (status.inode, status.born)
}

impl Durable {
    pub(super) fn has_folder(&self, path: &Path) -> bool {
        self.folders.lock().unwrap_or_else(PoisonError::into_inner).contains(path)
    }

    pub(super) fn add_folder(&self, path: &Path) {
        self.folders.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned());
    }

    /// Whether it is this file of the entry that was synced.
    pub(super) fn has_file(&self, kind: EntryKind, name: &[u8; 32], status: &fs::Status) -> bool {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).get(&(kind, *name)) == Some(&identity(status))
    }

    pub(super) fn add_file(&self, kind: EntryKind, name: &[u8; 32], status: &fs::Status) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if files.len() >= MOST_FILES {
            files.clear();
        }
        files.insert((kind, *name), identity(status));
    }

    /// An entry is not there any more.
    pub(super) fn forget_file(&self, kind: EntryKind, name: &[u8; 32]) {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).remove(&(kind, *name));
    }

    pub(super) fn forget(&self) {
        self.folders.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.files.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Whether this name in `trash` was waited for in vain.
    pub(super) fn is_left(&self, name: &OsString) -> bool {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).contains(name)
    }

    pub(super) fn add_left(&self, names: Vec<OsString>) {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        if left.len() >= MOST_LEFT {
            left.clear();
        }
        left.extend(names);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_file_of_the_same_name_is_not_durable() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "x").unwrap();
        let status = fs::status(&path).unwrap();
        let durable = Durable::default();
        durable.add_file(EntryKind::Blob, &[1; 32], &status);
        assert!(durable.has_file(EntryKind::Blob, &[1; 32], &fs::status(&path).unwrap()));
        assert!(!durable.has_file(EntryKind::Plan, &[1; 32], &status));
        std::fs::write(dir.path().join("other"), "x").unwrap();
        std::fs::rename(dir.path().join("other"), &path).unwrap();
        assert!(!durable.has_file(EntryKind::Blob, &[1; 32], &fs::status(&path).unwrap()));
        // The number of an inode that is used again.
        let later = status.born.unwrap_or(SystemTime::UNIX_EPOCH) + std::time::Duration::from_secs(1);
        assert!(!durable.has_file(EntryKind::Blob, &[1; 32], &fs::Status { born: Some(later), ..status }));
        durable.forget_file(EntryKind::Blob, &[1; 32]);
        assert!(!durable.has_file(EntryKind::Blob, &[1; 32], &status));
    }
}
