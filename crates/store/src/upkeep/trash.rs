//! Taking a name away before it is decided for good that it goes.
//!
//! Whoever removes an entry has looked at it a moment ago, and somebody may have published or used it since. No call removes a name
//! only if it still is that file's. So the file is renamed into `trash` first, where it can be looked at again in peace, and then it is
//! deleted or goes back. Nothing in here takes a lock.
//!
//! **What others do.** A put that finds its bytes in place stamps them and then looks whether the name is still there; if not, it writes
//! anew. So either the put sees that the name was taken away, or whoever took it away sees the stamp. A record is different from a blob
//! or a plan in that others may replace it by another one: one that was published between the looking and the renaming is the wrong
//! file, and goes back unless an even newer one stands there. For that moment readers find the record of a pack, if there is one, or
//! none.
//!
//! **What a put into a pack, or one that finds its record in a pack, must do.** A loose record beats one in a pack. While a record is in
//! `trash` it may still go back and be in front of what was put meanwhile. So these look into `trash` ([`awaits`]) and publish a loose
//! file if the key is there: what stands under a name is never replaced by what comes back.
//!
//! **What a kill leaves.** A file in `trash` is one about which it was not decided, or one whose deletion did not happen. The next
//! upkeep puts it back if nothing stands under its name, however old it is ([`recover`]). That is right in both cases: what was published
//! by somebody who was told that it is kept comes back, and what should have gone is as it was before, so that it is decided about once
//! more. Age plays no part, for the age of a file says nothing about when it was taken away. What it names may have gone meanwhile; then
//! it is deleted, since nobody may have relied on it: a publisher stamps what it names, and what is freshly stamped is not removed.

pub(crate) use super::awaited::awaits;
use crate::entry::Sound;
use crate::layer::{Directory, walk};
use crate::layout::{self, PACKS, TRASH};
use crate::{EntryKind, Limits, StoreError, entry, fork, fs};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

/// A file that has lost its name and is in `trash`. Dropped undecided, it goes back.
#[derive(Debug)]
#[must_use]
pub(crate) struct Condemned<'d> {
    directory: &'d Directory,
    /// Where it was.
    place: PathBuf,
    /// Where it is.
    trash: PathBuf,
    is_decided: bool,
    /// Whose it is to decide.
    process: u64,
}

/// Takes the name of a loose file away. `None` when another file has the name by now, which keeps it, or none has.
pub(crate) fn condemn<'d>(
    directory: &'d Directory,
    kind: EntryKind,
    name: &[u8; 32],
    expected: fs::Inode,
) -> Result<Option<Condemned<'d>>, StoreError> {
    let trash_name = kind.set_aside_name(name, number());
    let condemned = take(directory, kind.file(directory.root(), name), &trash_name, expected);
    directory.forget_file(kind, name);
    condemned
}

/// Takes the name of a pack away. `None` when it has none any more. Its stamps stay where they are until it is deleted: whoever has
/// them open goes on writing them, and they can be looked at again.
pub(crate) fn condemn_pack<'d>(directory: &'d Directory, pack: &Path, expected: fs::Inode) -> Result<Option<Condemned<'d>>, StoreError> {
    let Some(name) = pack.file_name().and_then(|name| name.to_str()) else { return Ok(None) };
    take(directory, pack.to_owned(), name, expected)
}

fn take<'d>(directory: &'d Directory, place: PathBuf, trash_name: &str, expected: fs::Inode) -> Result<Option<Condemned<'d>>, StoreError> {
    // Nearly always this shows already that it is another one, which then need not be moved at all.
    match fs::status(&place) {
        Ok(status) if status.inode == expected => {}
        Ok(_) => return Ok(None),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(StoreError::io("look at", &place)(e)),
    }
    let trash = directory.uses_folder(TRASH)?.join(trash_name);
    match fs::rename_away(&place, &trash) {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(StoreError::io("move to the trash", &place)(e)),
    }
    let condemned = Condemned { directory, place, trash, is_decided: false, process: fork::this_process() };
    // Where it cannot be looked at, nothing is known of it: it is dropped here, and goes back.
    if condemned.status()?.is_some_and(|status| status.inode == expected) {
        return Ok(Some(condemned));
    }
    condemned.put_back()?;
    Ok(None)
}

impl Condemned<'_> {
    /// What is known of it now, such as its stamp of last use; `None` when another upkeep has put it back.
    pub(crate) fn status(&self) -> Result<Option<fs::Status>, StoreError> {
        match fs::status_anew(&self.trash) {
            Ok(status) => Ok(Some(status)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(StoreError::io("look at", &self.trash)(e)),
        }
    }

    /// Gives it its name back, durably. `false` when a newer file has the name; then that one stays and this one is deleted.
    pub(crate) fn put_back(mut self) -> Result<bool, StoreError> {
        self.is_decided = true;
        give_back(self.directory, &self.trash, &self.place)
    }

    /// Moves it to where damaged entries are kept. `false` when another upkeep has put it back.
    pub(crate) fn set_aside(mut self, to: &Path) -> Result<bool, StoreError> {
        match fs::rename_away(&self.trash, to) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(e) => return Err(StoreError::io("set aside", &self.trash)(e)),
        }
        self.is_decided = true;
        Ok(true)
    }

    /// Deletes it. `false` when another upkeep has put it back: then it has *not* gone, and what it names must stay.
    ///
    /// The folder that it was in should be synced before: else a power cut may bring the name back when others have long taken it to be
    /// gone.
    pub(crate) fn delete(mut self) -> Result<bool, StoreError> {
        let deleted = fs::unlink(&self.trash).map_err(StoreError::io("delete", &self.trash))?;
        self.is_decided = true;
        // The stamps of a pack.
        if deleted && self.place.extension().is_some_and(|extension| extension == "pack") {
            drop(fs::unlink(&self.place.with_extension("used")));
        }
        Ok(deleted)
    }
}

impl Drop for Condemned<'_> {
    fn drop(&mut self) {
        if !self.is_decided && self.process == fork::this_process() {
            // What stays in `trash` is put back by the next upkeep.
            drop(give_back(self.directory, &self.trash, &self.place));
        }
    }
}

/// `false` when something stands under the name; then what is in `trash` is deleted.
fn give_back(directory: &Directory, trash: &Path, place: &Path) -> Result<bool, StoreError> {
    match fs::rename_back(trash, place) {
        Ok(true) => {}
        Ok(false) => {
            fs::unlink(trash).map_err(StoreError::io("delete", trash))?;
            return Ok(false);
        }
        // Somebody else has put it back, or has removed the folder.
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(fs::status(place).is_ok()),
        Err(e) => return Err(StoreError::io("put back", place)(e)),
    }
    // Somebody may have been told that it is durable under this name.
    directory.sync_name(place)?;
    Ok(true)
}

/// Tells apart what one process takes away under one name, and what several do.
pub(super) fn number() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    now.subsec_nanos().rotate_left(2) ^ std::process::id().rotate_left(16) ^ NEXT.fetch_add(1, Ordering::Relaxed)
}

/// What a name in `trash` says: the inverse of [`EntryKind::set_aside_name`].
pub(super) fn parse(file_name: &str) -> Option<(EntryKind, [u8; 32])> {
    let (rest, number) = file_name.rsplit_once('-')?;
    layout::hex_bytes::<4>(number)?;
    let (word, name) = rest.rsplit_once('-')?;
    let kind = EntryKind::ALL.into_iter().find(|kind| kind.word() == word)?;
    Some((kind, layout::hex_bytes(name)?))
}

/// The names in `trash`, ascending; none where there is no such folder.
pub(super) fn names(directory: &Directory) -> Result<Vec<String>, StoreError> {
    let trash = directory.root().join(TRASH);
    match fs::list(&trash) {
        Ok(names) => Ok(names.into_iter().filter_map(|name| name.into_string().ok()).collect()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) => Err(StoreError::io("list the folder", &trash)(e)),
    }
}

/// Decides about what a kill left in `trash`; gives what was put back. What is not ours, and what cannot be read, stays.
///
/// Another upkeep may be at work: what this takes out of its hands goes back, and [`Condemned::delete`] tells it so.
pub(crate) fn recover(directory: &Directory) -> Result<Vec<PathBuf>, StoreError> {
    walk::own_folders(directory.root(), TRASH)?;
    let trash = directory.root().join(TRASH);
    let names = names(directory)?;
    let mut put_back = Vec::new();
    let mut give = |from: &Path, place: PathBuf| {
        if give_back(directory, from, &place)? {
            put_back.push(place);
        }
        Ok(())
    };
    for name in names.iter().filter(|name| layout::parse_pack(name).is_some()) {
        give(&trash.join(name), directory.root().join(PACKS).join(name))?;
    }
    drop(directory.packs().refresh());
    // What is named before what names it.
    let mut entries: Vec<_> = names.iter().filter_map(|name| parse(name).map(|(kind, key)| (kind, key, name))).collect();
    entries.sort_unstable();
    for (kind, key, name) in entries {
        let from = trash.join(name);
        match is_whole(directory, kind, &key, &from) {
            Ok(Some(true)) => give(&from, kind.file(directory.root(), &key))?,
            // Nobody can have relied on it.
            Ok(Some(false)) => drop(fs::unlink(&from)),
            Ok(None) | Err(_) => {}
        }
    }
    Ok(put_back)
}

/// Whether an entry is what its name says, and what it names is there. `None` when it has vanished, or cannot be told: such as where it is
/// above the limits, which nobody said to be others here.
fn is_whole(directory: &Directory, kind: EntryKind, name: &[u8; 32], path: &Path) -> Result<Option<bool>, StoreError> {
    let Some(file) = entry::open(path)? else { return Ok(None) };
    // Where this fails, nobody knows whether somebody relies on the entry.
    let has_all = |named: &mut dyn Iterator<Item = (EntryKind, [u8; 32])>| {
        for (kind, name) in named {
            if !has(directory, kind, &name)? {
                return Ok(Some(false));
            }
        }
        Ok(Some(true))
    };
    match entry::check_loose(kind, name, path, &file, &Limits::default()) {
        Ok(Sound::Blob) => Ok(Some(true)),
        Ok(Sound::Plan(plan)) => has_all(&mut plan.code_objects().map(|blob| (EntryKind::Blob, blob.hash.0))),
        Ok(Sound::Record(record)) => has_all(&mut record.rows.iter().flat_map(|plan| {
            let own = (kind == EntryKind::Selection).then_some((EntryKind::PlanRecord, plan.key.0));
            [(EntryKind::Plan, plan.root.0)].into_iter().chain(own)
        })),
        Err(error) if error.is_damage() => Ok(Some(false)),
        Err(error) if error.is_too_old() || error.is_too_new() => Ok(Some(true)),
        Err(error) => Err(error),
    }
}

/// Whether a folder has an entry, good or bad. An error where it is not found, and something that may have it cannot be looked into: one
/// of damage only if that is all that is in the way.
pub(super) fn has(directory: &Directory, kind: EntryKind, name: &[u8; 32]) -> Result<bool, StoreError> {
    let path = kind.file(directory.root(), name);
    let mut unknown = Vec::new();
    let is_loose = |unknown: &mut Vec<StoreError>| match walk::twice(|| fs::status(&path)) {
        Ok(status) => matches!(status.kind, fs::Kind::File { .. }),
        Err(e) => {
            if e.kind() != io::ErrorKind::NotFound {
                unknown.push(StoreError::io("look at", &path)(e));
            }
            false
        }
    };
    let is_packed = |unknown: &mut Vec<StoreError>| {
        directory.packs().current().iter().any(|pack| match pack.find(kind, name) {
            Ok(row) => row.is_some(),
            Err(error) => {
                unknown.push(error);
                false
            }
        })
    };
    if is_loose(&mut unknown) || is_packed(&mut unknown) {
        return Ok(true);
    }
    // What is compacted meanwhile is in a new pack before its file goes; what is taken out of a pack again is a file by then.
    unknown.extend(directory.packs().refresh().err());
    if is_packed(&mut unknown) || is_loose(&mut unknown) {
        return Ok(true);
    }
    unknown.extend(directory.packs().faults());
    unknown.into_iter().min_by_key(StoreError::is_damage).map_or(Ok(false), Err)
}

/// Whether a folder has an entry, or may have: what the system does not let be looked at may be there. What is damaged holds nothing.
pub(super) fn may_have(directory: &Directory, kind: EntryKind, name: &[u8; 32]) -> bool {
    has(directory, kind, name).unwrap_or_else(|error| !error.is_damage())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mode, record};
    use std::cell::Cell;
    use std::rc::Rc;

    fn new_directory() -> (tempfile::TempDir, Directory) {
        let dir = tempfile::tempdir().unwrap();
        let directory = Directory::open(&dir.path().join("store"), Mode::ReadWrite).unwrap();
        (dir, directory)
    }

    fn put(directory: &Directory, bytes: &[u8]) -> ([u8; 32], PathBuf) {
        let name = *blake3::hash(bytes).as_bytes();
        assert!(directory.publish(EntryKind::Blob, &name, bytes).unwrap().is_persisted());
        (name, EntryKind::Blob.file(directory.root(), &name))
    }

    fn trash(directory: &Directory) -> Vec<String> {
        names(directory).unwrap()
    }

    #[test]
    fn what_is_condemned_goes_or_comes_back() {
        let (_dir, directory) = new_directory();
        let (name, path) = put(&directory, b"one");
        let inode = fs::status(&path).unwrap().inode;
        let take = || condemn(&directory, EntryKind::Blob, &name, inode).unwrap().unwrap();

        let condemned = take();
        assert!(!path.exists() && condemned.status().unwrap().unwrap().inode == inode);
        let awaited = awaits(&directory).unwrap();
        assert!(awaited.contains(&(EntryKind::Blob, name)));
        assert!(!awaited.contains(&(EntryKind::Plan, name)) && !awaited.contains(&(EntryKind::Blob, [0; 32])));
        assert!(condemned.put_back().unwrap());
        assert_eq!(std::fs::read(&path).unwrap(), b"one");

        drop(take());
        assert!(path.exists() && trash(&directory).is_empty(), "undecided is put back");

        // Somebody publishes anew meanwhile.
        let condemned = take();
        put(&directory, b"one");
        let newer = fs::status(&path).unwrap().inode;
        assert!(!condemned.put_back().unwrap());
        assert!(fs::status(&path).unwrap().inode == newer && trash(&directory).is_empty());
        assert!(condemn(&directory, EntryKind::Blob, &name, inode).unwrap().is_none(), "another file");

        let condemned = condemn(&directory, EntryKind::Blob, &name, newer).unwrap().unwrap();
        assert!(condemned.delete().unwrap());
        assert!(!path.exists() && trash(&directory).is_empty());
        assert!(condemn(&directory, EntryKind::Blob, &name, newer).unwrap().is_none(), "none");
    }

    #[test]
    fn a_file_that_comes_between_the_look_and_the_move_goes_back() {
        let (_dir, directory) = new_directory();
        let (name, path) = put(&directory, b"one");
        let inode = fs::status(&path).unwrap().inode;
        directory.uses_folder(TRASH).unwrap();
        let (hooked, other) = (path.clone(), directory.root().join("tmp/other"));
        std::fs::write(&other, b"newer").unwrap();
        let moved = Rc::new(Cell::new(false));
        let seen = Rc::clone(&moved);
        let hook = move |op: fs::Op<'_>| {
            if matches!(op, fs::Op::Rename { from, .. } if from == hooked) {
                std::fs::rename(&other, &hooked).unwrap();
                seen.set(true);
            }
            fs::Verdict::Go
        };
        let taken = fs::with_hook(hook, || condemn(&directory, EntryKind::Blob, &name, inode).unwrap().is_none());
        assert!(taken && moved.get());
        assert_eq!(std::fs::read(&path).unwrap(), b"newer");
        assert!(trash(&directory).is_empty());
    }

    #[test]
    fn what_a_kill_left_is_put_back_unless_something_newer_stands_there_or_what_it_names_has_gone() {
        let (_dir, directory) = new_directory();
        let leave = |path: &Path, kind: EntryKind, name: &[u8; 32]| {
            let to = directory.uses_folder(TRASH).unwrap().join(kind.set_aside_name(name, 7));
            std::fs::rename(path, to).unwrap();
        };
        let (one, one_path) = put(&directory, b"one");
        leave(&one_path, EntryKind::Blob, &one);
        let (two, two_path) = put(&directory, b"two");
        leave(&two_path, EntryKind::Blob, &two);
        put(&directory, b"two");
        // A record that names a plan which is not there.
        let plan =
            hipplan_serialize::PlanRef { key: hipplan_serialize::PlanKey([3; 32]), root: hipplan_serialize::RootHash([4; 32]), size: 5 };
        assert!(directory.publish_record(EntryKind::PlanRecord, record::RecordKind::Plan, &[3; 32], &[plan]).unwrap().is_persisted());
        let record_path = EntryKind::PlanRecord.file(directory.root(), &[3; 32]);
        leave(&record_path, EntryKind::PlanRecord, &[3; 32]);
        std::fs::write(directory.root().join(TRASH).join("not ours"), b"x").unwrap();

        assert_eq!(recover(&directory).unwrap(), [one_path.as_path()]);
        assert_eq!(std::fs::read(&one_path).unwrap(), b"one");
        assert!(!record_path.exists());
        assert_eq!(trash(&directory), ["not ours"]);
    }

    /// Packs a blob, and gives the path of the pack.
    fn pack(directory: &Directory, bytes: &[u8]) -> ([u8; 32], PathBuf) {
        let name = *blake3::hash(bytes).as_bytes();
        let temp = directory.temp_folder().unwrap().join("a.tmp");
        let entries = [(EntryKind::Blob, name, bytes.len() as u64)];
        let root = crate::pack::testing::write_pack(&temp, &entries, &[], |_| bytes.to_vec()).unwrap();
        let path = directory.uses_folder(PACKS).unwrap().join(layout::pack_name(1, &root));
        std::fs::rename(temp, &path).unwrap();
        (name, path)
    }

    /// Every call of this name fails that is about something of this path.
    fn failing<T>(call: &'static str, path: &Path, body: impl FnOnce() -> T) -> T {
        let path = path.to_owned();
        let hook = move |op: fs::Op<'_>| {
            if op.name() == call && op.path() == path { fs::Verdict::Fail(libc::EIO) } else { fs::Verdict::Go }
        };
        fs::with_hook(hook, body)
    }

    #[test]
    fn what_cannot_be_looked_at_is_neither_there_nor_absent() {
        let (dir, directory) = new_directory();
        let (name, pack) = pack(&directory, b"packed");
        let anew = || Directory::open(&dir.path().join("store"), Mode::ReadWrite).unwrap();
        let known = anew();
        assert!(has(&known, EntryKind::Blob, &name).unwrap());
        assert!(!has(&known, EntryKind::Blob, &[0; 32]).unwrap() && !may_have(&known, EntryKind::Blob, &[0; 32]));
        let loose = EntryKind::Blob.file(directory.root(), &[0; 32]);
        let packs = directory.root().join(PACKS);
        for (call, path, name, directory) in [
            ("stat", &loose, [0; 32], &known),
            ("read", &pack, name, &known),
            ("open", &pack, name, &anew()),
            ("stat", &packs, [0; 32], &known),
            ("list", &packs, name, &anew()),
        ] {
            let error = failing(call, path, || has(directory, EntryKind::Blob, &name)).unwrap_err();
            assert!(error.is_unreadable(), "{call} {error}");
            assert!(failing(call, path, || may_have(directory, EntryKind::Blob, &name)), "{call} {}", path.display());
        }
        // Nothing is found in what is damaged.
        std::fs::write(&pack, b"no pack").unwrap();
        let damaged = anew();
        assert!(has(&damaged, EntryKind::Blob, &name).unwrap_err().is_damage());
        assert!(!may_have(&damaged, EntryKind::Blob, &name));
    }

    #[test]
    fn what_names_something_that_cannot_be_looked_at_is_left_in_the_trash() {
        let (dir, directory) = new_directory();
        let plan =
            hipplan_serialize::PlanRef { key: hipplan_serialize::PlanKey([3; 32]), root: hipplan_serialize::RootHash([4; 32]), size: 5 };
        assert!(directory.publish_record(EntryKind::PlanRecord, record::RecordKind::Plan, &[3; 32], &[plan]).unwrap().is_persisted());
        let left = directory.uses_folder(TRASH).unwrap().join(EntryKind::PlanRecord.set_aside_name(&[3; 32], 7));
        std::fs::rename(EntryKind::PlanRecord.file(directory.root(), &[3; 32]), &left).unwrap();
        let (_, pack) = pack(&directory, b"packed");
        let recovered = || {
            let directory = Directory::open(&dir.path().join("store"), Mode::ReadWrite).unwrap();
            assert!(recover(&directory).unwrap().is_empty());
            left.exists()
        };
        assert!(failing("open", &pack, recovered), "the plan may be in that pack");
        assert!(failing("stat", &EntryKind::Plan.file(directory.root(), &[4; 32]), recovered));
        let good = std::fs::read(&pack).unwrap();
        std::fs::write(&pack, b"no pack").unwrap();
        assert!(recovered(), "a pack that may yet be had again");
        std::fs::write(&pack, good).unwrap();
        assert!(!recovered(), "the plan is not there");
    }

    #[test]
    fn names_in_the_trash_are_read_back() {
        for kind in EntryKind::ALL {
            assert_eq!(parse(&kind.set_aside_name(&[0xab; 32], 9)), Some((kind, [0xab; 32])));
        }
        for bad in ["", "blob", "blob-ab-00000001", "plan-00000001"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
