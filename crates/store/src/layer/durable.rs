//! What this process knows to be durable, so that it is not synced again.

use crate::memo::Memo;
use crate::{EntryKind, fs};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// Names that are remembered as durable; beyond this number they are forgotten, at the cost of a sync too many.
const MOST_FILES: usize = 4096;
/// Names in `trash` that are remembered as waited for in vain.
const MOST_LEFT: usize = 4096;

/// Which file it is. The number of an inode is used again for another file, soon after the first has gone: the time at which it was made
/// tells them apart, where the file system has one.
type Identity = (fs::Inode, Option<SystemTime>);

/// What this process knows to be durable, so that it is not synced again. What is not known for the moment is as good as not durable.
#[derive(Debug, Default)]
pub(crate) struct Durable {
    known: Memo<Known>,
    /// Times that all was forgotten. Whoever forgets need not get at what is known for that.
    forgotten: AtomicU64,
    /// Names in `trash` that stayed there for longer than upkeep at work leaves them.
    left: Memo<BTreeSet<OsString>>,
}

#[derive(Debug, Default)]
struct Known {
    /// Times that all had been forgotten before.
    after: u64,
    /// Folders whose names are durable; at most four times 256 and those above them.
    folders: BTreeSet<PathBuf>,
    /// What is named by something else, and whose content and name are durable: all but selections. Of each the file that was synced:
    /// another one of its name, which another process has put since, may not have come to its last sync.
    files: BTreeMap<(EntryKind, [u8; 32]), Identity>,
}

fn identity(status: &fs::Status) -> Identity {
    (status.inode, status.born)
}

impl Durable {
    fn known(&self) -> Option<MutexGuard<'_, Known>> {
        let mut known = self.known.get()?;
        let after = self.forgotten.load(Ordering::Acquire);
        if known.after != after {
            *known = Known { after, ..Known::default() };
        }
        Some(known)
    }

    pub(super) fn has_folder(&self, path: &Path) -> bool {
        self.known().is_some_and(|known| known.folders.contains(path))
    }

    pub(super) fn add_folder(&self, path: &Path) {
        if let Some(mut known) = self.known() {
            known.folders.insert(path.to_owned());
        }
    }

    /// Whether it is this file of the entry that was synced.
    pub(super) fn has_file(&self, kind: EntryKind, name: &[u8; 32], status: &fs::Status) -> bool {
        self.known().is_some_and(|known| known.files.get(&(kind, *name)) == Some(&identity(status)))
    }

    pub(super) fn add_file(&self, kind: EntryKind, name: &[u8; 32], status: &fs::Status) {
        let Some(mut known) = self.known() else { return };
        if known.files.len() >= MOST_FILES {
            known.files.clear();
        }
        known.files.insert((kind, *name), identity(status));
    }

    /// An entry is not there any more.
    pub(super) fn forget_file(&self, kind: EntryKind, name: &[u8; 32]) {
        match self.known() {
            Some(mut known) => _ = known.files.remove(&(kind, *name)),
            None => self.forget(),
        }
    }

    pub(super) fn forget(&self) {
        self.forgotten.fetch_add(1, Ordering::Release);
    }

    /// Whether this name in `trash` was waited for in vain.
    pub(super) fn is_left(&self, name: &OsString) -> bool {
        self.left.get().is_some_and(|left| left.contains(name))
    }

    pub(super) fn add_left(&self, names: Vec<OsString>) {
        let Some(mut left) = self.left.get() else { return };
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

    #[test]
    fn what_is_in_use_for_ever_is_not_durable_and_what_is_forgotten_meanwhile_stays_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let status = fs::status(dir.path()).unwrap();
        let durable = Durable::default();
        let add = || {
            durable.add_folder(dir.path());
            durable.add_file(EntryKind::Blob, &[1; 32], &status);
        };
        let has = || (durable.has_folder(dir.path()), durable.has_file(EntryKind::Blob, &[1; 32], &status));
        for forget in [&|| durable.forget() as _, &|| durable.forget_file(EntryKind::Blob, &[1; 32])] as [&dyn Fn(); 2] {
            add();
            assert_eq!(has(), (true, true));
            // As a forked child finds it: a thread of the parent was in the middle of it.
            let kept = (durable.known(), durable.left.get());
            assert_eq!(has(), (false, false));
            add();
            durable.add_left(vec!["name".into()]);
            assert!(!durable.is_left(&"name".into()));
            forget();
            drop(kept);
            assert_eq!(has(), (false, false));
        }
    }
}
