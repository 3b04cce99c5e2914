//! What is about to be named must be there, and stay.

use super::Directory;
use crate::entry::{self, check_size};
use crate::layout::{self, TRASH};
use crate::pack::{Pack, PackRow, Sink};
use crate::{EntryKind, StoreError, fs, waits};
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// Times that an entry is looked for which others move meanwhile.
const MOST_LOOKS: u32 = 4;
/// How long upkeep is waited for that has taken away what is looked for, or a pack that may hold it. A gc that writes a pack anew waits for
/// a compaction in between, for five seconds, before it puts beside the new pack what was used of the old one.
const LONGEST_WAIT: Duration = Duration::from_secs(7);
const FIRST_NAP: Duration = Duration::from_millis(1);
const LAST_NAP: Duration = Duration::from_millis(50);

/// What a look for an entry found.
enum Found {
    /// It is there, stamped and durable.
    There,
    /// It has been taken away since it was found.
    Moved,
    /// Nowhere.
    Nowhere,
}

impl Directory {
    /// Checks that an entry which something is about to name is there, of this size, and durable; and that whoever removes things knows that
    /// it is in use.
    ///
    /// What upkeep has taken away to look at it again may come back: that is waited for.
    pub(crate) fn require_durable(
        &self,
        kind: EntryKind,
        name: &[u8; 32],
        size: u64,
        missing: impl FnOnce(PathBuf) -> StoreError,
    ) -> Result<(), StoreError> {
        let mut from = None;
        let mut nap = FIRST_NAP;
        let mut is_last = false;
        loop {
            if self.is_there(kind, name, size)? {
                return Ok(());
            }
            if is_last {
                return Err(missing(kind.file(self.root(), name)));
            }
            let awaited = self.awaited(kind, name)?;
            if awaited.is_empty() {
                // What was there a moment ago has come back by now, or goes for good.
                is_last = true;
            } else if from.get_or_insert_with(Instant::now).elapsed() >= waits::at_most(LONGEST_WAIT) {
                // Left by upkeep that was killed: it is not waited for again.
                self.durable().add_left(awaited);
                is_last = true;
            } else {
                thread::sleep(nap);
                nap = nap.saturating_mul(2).min(LAST_NAP);
            }
        }
    }

    /// The same for upkeep, and for those to whom it makes no difference that something may come back: nothing is waited for.
    pub(crate) fn require_now(
        &self,
        kind: EntryKind,
        name: &[u8; 32],
        size: u64,
        missing: impl FnOnce(PathBuf) -> StoreError,
    ) -> Result<(), StoreError> {
        if self.is_there(kind, name, size)? { Ok(()) } else { Err(missing(kind.file(self.root(), name))) }
    }

    /// What in `trash` may come back as this entry: itself, and all packs.
    fn awaited(&self, kind: EntryKind, name: &[u8; 32]) -> Result<Vec<OsString>, StoreError> {
        let trash = self.root().join(TRASH);
        let names = match fs::list(&trash) {
            Ok(names) => names,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(StoreError::io("list the folder", &trash)(e)),
        };
        let mut own = kind.set_aside_name(name, 0);
        own.truncate(own.len().saturating_sub(8));
        let may_be = |text: &str| text.starts_with(&own) || layout::parse_pack(text).is_some();
        Ok(names.into_iter().filter(|name| name.to_str().is_some_and(may_be) && !self.durable().is_left(name)).collect())
    }

    /// Looks for an entry as often as others move it meanwhile.
    fn is_there(&self, kind: EntryKind, name: &[u8; 32], size: u64) -> Result<bool, StoreError> {
        for _ in 0..MOST_LOOKS {
            match self.look_for(kind, name, size)? {
                Found::There => return Ok(true),
                Found::Moved => {}
                Found::Nowhere => return Ok(false),
            }
        }
        Ok(false)
    }

    fn look_for(&self, kind: EntryKind, name: &[u8; 32], size: u64) -> Result<Found, StoreError> {
        let path = kind.file(self.root(), name);
        let Some(file) = entry::open(&path)? else {
            return self.look_in_packs(kind, name, size, &path);
        };
        check_size(&path, file.size(), size)?;
        // It is stamped, and only then looked at again: gc does the same the other way round.
        if file.touch().is_err() {
            return self.write_anew(&path, Some(file.status().inode), |sink| copy(&path, &file, sink));
        }
        if !self.durable().has_file(kind, name, file.status()) {
            file.sync().map_err(StoreError::io("sync", &path))?;
            self.sync_name(&path)?;
        }
        if has_its_name(&path, file.status()) {
            self.durable().add_file(kind, name, file.status());
            return Ok(Found::There);
        }
        self.durable().forget_file(kind, name);
        Ok(Found::Moved)
    }

    fn look_in_packs(&self, kind: EntryKind, name: &[u8; 32], size: u64, path: &Path) -> Result<Found, StoreError> {
        let Some((pack, row)) = self.packed_row(kind, name)? else { return Ok(Found::Nowhere) };
        check_size(pack.path(), row.size, size)?;
        if !self.packs().stamp(&pack, row.ordinal, SystemTime::now()) {
            return self.write_anew(path, None, |sink| pack.stream(&row, sink));
        }
        self.make_durable_pack(pack.path())?;
        Ok(if has_its_name(pack.path(), pack.status()) { Found::There } else { Found::Moved })
    }

    /// The newest pack with an entry, and its row there.
    fn packed_row(&self, kind: EntryKind, name: &[u8; 32]) -> Result<Option<(Arc<Pack>, PackRow)>, StoreError> {
        drop(self.packs().refresh());
        for pack in &*self.packs().current() {
            if let Some(row) = pack.find(kind, name)? {
                return Ok(Some((pack.clone(), row)));
            }
        }
        Ok(None)
    }

    /// Makes a file of this user's own of what cannot be stamped, since nobody would know that it is in use. `in_place` is the file that it
    /// takes the place of, if there is one: a newer one stays.
    fn write_anew(
        &self,
        path: &Path,
        in_place: Option<fs::Inode>,
        copy: impl FnOnce(&mut Sink<'_>) -> Result<(), StoreError>,
    ) -> Result<Found, StoreError> {
        let temp = fs::create_temp(&self.temp_folder()?).map_err(StoreError::io("create the file", path))?;
        let mut at = 0_u64;
        copy(&mut |piece| {
            temp.write_at(at, piece).map_err(StoreError::io("write the file", path))?;
            at = at.saturating_add(piece.len() as u64);
            Ok(())
        })?;
        temp.sync().map_err(StoreError::io("sync", path))?;
        self.make_durable_folder(path.parent().unwrap_or(self.root()))?;
        let is_named = match in_place {
            None => match fs::rename_new(temp, path) {
                Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(false),
                result => result.map(|()| true),
            },
            Some(inode) if fs::status_anew(path).is_ok_and(|status| status.inode == inode) => fs::rename(temp, path).map(|()| true),
            Some(_) => Ok(false),
        };
        if !is_named.map_err(StoreError::io("create the file", path))? {
            return Ok(Found::Moved);
        }
        self.sync_name(path)?;
        Ok(Found::There)
    }
}

/// Whether a name is still that of this file, as far as the system knows that keeps it.
pub(super) fn has_its_name(path: &Path, of: &fs::Status) -> bool {
    fs::status_anew(path).is_ok_and(|status| status.inode == of.inode)
}

/// Hands the bytes of a file to a sink.
fn copy(path: &Path, file: &fs::OpenFile, sink: &mut Sink<'_>) -> Result<(), StoreError> {
    let mut stopped = Ok(());
    let read: io::Result<()> = file.pieces(0, file.size(), |piece| {
        stopped = sink(piece);
        stopped.is_ok()
    });
    read.map_err(StoreError::io("read", path))?;
    stopped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mode;
    use crate::fs::{Op, Verdict, with_hook};
    use crate::waits::with_longest_wait;
    use std::cell::Cell;
    use std::rc::Rc;

    #[test]
    fn what_killed_upkeep_left_is_waited_for_once() {
        let dir = tempfile::tempdir().unwrap();
        let directory = Directory::open(&dir.path().join("store"), Mode::ReadWrite).unwrap();
        let trash = directory.root().join(TRASH);
        std::fs::create_dir(&trash).unwrap();
        std::fs::write(trash.join(layout::pack_name(1, &[7; 32])), "").unwrap();
        std::fs::write(trash.join(EntryKind::Blob.set_aside_name(&[2; 32], 5)), "").unwrap();
        // A nap is longer than nothing: so there are two looks into the trash at least, and one afterwards.
        for looks in [2_u32, 1] {
            let listed = Rc::new(Cell::new(0_u32));
            let count = Rc::clone(&listed);
            let hook = move |op: Op<'_>| {
                count.set(count.get() + u32::from(op.name() == "list" && op.path().ends_with(TRASH)));
                Verdict::Go
            };
            let missing = |path| StoreError::MissingTarget { path, what: "blob", named_by: "a test".into() };
            let longest = Duration::from_millis(50);
            let require = || directory.require_durable(EntryKind::Blob, &[3; 32], 9, missing);
            let required = with_hook(hook, || with_longest_wait(longest, require));
            assert_eq!(required.unwrap_err().code(), "missing-target");
            assert!(if looks == 1 { listed.get() == 1 } else { listed.get() >= looks }, "{}", listed.get());
        }
        let names: Vec<_> = std::fs::read_dir(&trash).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        let left = names.iter().filter(|name| directory.durable().is_left(name)).count();
        assert_eq!((names.len(), left), (2, 1), "another blob is nothing to wait for");
    }
}
