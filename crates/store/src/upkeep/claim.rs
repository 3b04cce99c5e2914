//! Claims: that upkeep is at work, and which generation its pack will have.
//!
//! A claim is a file. Who made it says several times in [`stale_after`] that he is still at work, by renewing its time of change; a claim
//! whose time is older is of somebody who was killed, and whoever looks after the store removes it. Ages are by the clock of the file
//! system, which is the same for all machines.
//!
//! That somebody has the lock of upkeep does not say that claims are of the dead: locks may be refused, or given up waiting for, or hold
//! within one machine only. So who makes a claim while he has the lock writes into it where that lock is certain to hold. Who has the lock
//! there and finds such a claim need not wait until it gets old.
//!
//! The claim of generation 0, which no pack has, is that of what removes things: only one of those is at work at a time. See
//! [`gc::alone`](super::gc::alone).

use super::alone::Alone;
use super::trash;
use crate::layer::Directory;
use crate::pack::Written;
use crate::{StoreError, fork, fs, layout};
use std::cell::OnceCell;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// How long a claim is taken to be of somebody at work after he last said so.
const STALE: Duration = Duration::from_secs(120);
/// Times that he says so meanwhile.
const BEATS: u32 = 6;

/// How long a claim is taken to be of somebody at work after he last said so.
pub(super) fn stale_after() -> Duration {
    #[cfg(any(test, feature = "testing"))]
    if let Some(age) = testing::age() {
        return age;
    }
    STALE
}

/// A generation that is kept for a pack in the making.
#[derive(Debug)]
pub(super) struct Claim {
    path: PathBuf,
    folder: PathBuf,
    pub(super) generation: u32,
    /// Open as long as the claim is, so that no other file can have its inode.
    file: Arc<fs::OpenFile>,
    /// Dropped, it ends the thread that says that somebody is at work. None where there was no thread to be had: then the claim gets old.
    beating: Option<Sender<()>>,
    /// Whose it is.
    process: u64,
}

impl Claim {
    /// Makes a claim. `None` when somebody else has one of this generation, or this one has been taken away again.
    pub(super) fn make(directory: &Directory, folder: &Path, generation: u32, alone: &Alone) -> Result<Option<Self>, StoreError> {
        let path = folder.join(layout::claim_name(generation));
        let temp = directory.write_temp(alone.domain().as_bytes())?;
        match fs::rename_new(temp, &path) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            Err(e) => return Err(StoreError::io("create the file", &path)(e)),
        }
        let file = match fs::open(&path) {
            Ok(Ok(file)) => Arc::new(file),
            Ok(Err(_)) => return Ok(None),
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => {
                drop(fs::unlink(&path));
                return Err(StoreError::io("open", &path)(e));
            }
        };
        let beating = beat(Arc::clone(&file));
        Ok(Some(Self { path, folder: folder.to_owned(), generation, file, beating, process: fork::this_process() }))
    }

    /// Gives a pack the generation, durably.
    pub(super) fn publish(&self, directory: &Directory, written: Written) -> Result<PathBuf, StoreError> {
        let path = self.folder.join(layout::pack_name(self.generation, &written.root));
        fs::rename(written.temp, &path).map_err(StoreError::io("create the file", &path))?;
        directory.sync_name(&path)?;
        Ok(path)
    }

    /// Whether it stands as it was made. Where it does not, its owner was taken to be dead: he was stopped for longer than claims live.
    pub(super) fn stands(&self) -> bool {
        fs::status(&self.path).is_ok_and(|status| status.inode == self.file.status().inode)
    }

    /// The folder of packs.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.process != fork::this_process() {
            // A forked child's copy of its parent's. It has not the thread either, which would have to be woken.
            std::mem::forget(self.beating.take());
            return;
        }
        // Another one of the same name is somebody else's. What stays gets old.
        if self.stands() {
            drop(fs::unlink(&self.path));
        }
    }
}

/// Renews the time of change of a claim until the sender is dropped.
fn beat(file: Arc<fs::OpenFile>) -> Option<Sender<()>> {
    let (sender, stop) = mpsc::channel();
    let pause = stale_after().checked_div(BEATS).unwrap_or(STALE);
    let renew = move || {
        while stop.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
            // One that fails is followed by others.
            drop(file.renew());
        }
    };
    thread::Builder::new().name("hipplan claim".into()).spawn(renew).ok().map(|_| sender)
}

/// The time by the clock of the file system that a folder is on, looked at once.
#[derive(Debug, Default)]
pub(super) struct Clock(OnceCell<(SystemTime, Instant)>);

impl Clock {
    fn start(&self, directory: &Directory) -> &(SystemTime, Instant) {
        self.0.get_or_init(|| (file_system_time(directory).unwrap_or_else(SystemTime::now), Instant::now()))
    }

    /// How long ago this was; `None` if it is to come.
    pub(super) fn age(&self, directory: &Directory, changed: SystemTime) -> Option<Duration> {
        let (then, since) = self.start(directory);
        then.checked_add(since.elapsed())?.duration_since(changed).ok()
    }
}

/// What the file system gives a new file.
fn file_system_time(directory: &Directory) -> Option<SystemTime> {
    let temp = fs::create_temp(&directory.temp_folder().ok()?).ok()?;
    fs::status(temp.path().ok()?).ok().map(|status| status.changed)
}

/// Removes a claim of somebody who is not at work any more.
///
/// No call removes a name only if it still is that of the file that was looked at: others may have removed that a moment ago, and made a claim
/// of their own. So the file is moved first, and looked at once more where it is nobody else's. Another one goes back. Who has made a third
/// one by then has not seen it, and its owner finds that out ([`Claim::stands`]).
pub(super) fn bury(directory: &Directory, path: &Path, clock: &Clock, alone: &Alone) -> Result<(), StoreError> {
    if !is_dead(directory, path, clock, alone) {
        return Ok(());
    }
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return Ok(()) };
    let aside = directory.temp_folder()?.join(format!("{name}-{:08x}.tmp", trash::number()));
    match fs::rename_away(path, &aside) {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(StoreError::io("delete", path)(e)),
    }
    if !is_dead(directory, &aside, clock, alone) && fs::rename_back(&aside, path).map_err(StoreError::io("put back", path))? {
        return Ok(());
    }
    fs::unlink(&aside).map(drop).map_err(StoreError::io("delete", &aside))
}

/// Whether a file was last renewed longer ago than somebody at work leaves a claim; `false` where it cannot be told.
pub(super) fn is_stale(directory: &Directory, path: &Path, clock: &Clock) -> bool {
    // First: else the time that this takes would count as age.
    clock.start(directory);
    let Ok(status) = fs::status(path) else { return false };
    clock.age(directory, status.changed).is_some_and(|age| age >= stale_after())
}

/// Whether a claim is of somebody who is not at work any more; `false` where it cannot be told.
pub(super) fn is_dead(directory: &Directory, path: &Path, clock: &Clock, alone: &Alone) -> bool {
    is_stale(directory, path, clock) || (!alone.domain().is_empty() && says(path, alone.domain()))
}

fn says(path: &Path, domain: &str) -> bool {
    fs::open(path).is_ok_and(|file| file.is_ok_and(|file| file.holds(domain.as_bytes()).unwrap_or(false)))
}

/// The claims among these names.
pub(super) fn claims(names: &[OsString]) -> impl Iterator<Item = &OsString> {
    names.iter().filter(|name| name.to_str().and_then(layout::parse_claim).is_some())
}

/// Claims that get old sooner, for tests.
#[cfg(any(test, feature = "testing"))]
pub(crate) mod testing {
    use std::cell::Cell;
    use std::time::Duration;

    thread_local! {
        static AGE: Cell<Option<Duration>> = const { Cell::new(None) };
    }

    /// Makes upkeep on this thread take claims to be of the dead that have not been renewed for so long, and renew its own accordingly.
    pub fn set_claim_age(age: Duration) {
        AGE.set(Some(age));
    }

    pub(super) fn age() -> Option<Duration> {
        AGE.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mode;

    fn directory(dir: &tempfile::TempDir) -> Directory {
        Directory::open(&dir.path().join("store"), Mode::ReadWrite).unwrap()
    }

    #[test]
    fn who_is_at_work_says_so_again_and_again() {
        testing::set_claim_age(Duration::from_millis(60));
        let dir = tempfile::tempdir().unwrap();
        let directory = directory(&dir);
        let folder = directory.uses_folder(layout::PACKS).unwrap();
        let alone = Alone::wait(&directory, Duration::ZERO).unwrap();
        let claim = Claim::make(&directory, &folder, 7, &alone).unwrap().unwrap();
        assert!(Claim::make(&directory, &folder, 7, &alone).unwrap().is_none(), "only one");
        let old = SystemTime::now() - Duration::from_secs(7200);
        std::fs::File::options().write(true).open(&claim.path).unwrap().set_modified(old).unwrap();
        let changed = || fs::status(&claim.path).unwrap().changed;
        while changed() == old {
            thread::sleep(Duration::from_millis(5));
        }
        assert!(changed() > old + Duration::from_secs(3600));
    }

    #[test]
    fn only_the_own_claim_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let directory = directory(&dir);
        let folder = directory.uses_folder(layout::PACKS).unwrap();
        let alone = Alone::wait(&directory, Duration::ZERO).unwrap();
        let claim = Claim::make(&directory, &folder, 1, &alone).unwrap().unwrap();
        let path = claim.path.clone();
        assert!(claim.stands());
        std::fs::remove_file(&path).unwrap();
        assert!(!claim.stands());
        let other = Claim::make(&directory, &folder, 1, &alone).unwrap().unwrap();
        assert!(!claim.stands() && other.stands());
        drop(claim);
        assert!(path.exists());
        drop(other);
        assert!(!path.exists());
    }

    #[test]
    fn who_has_the_lock_knows_that_its_last_holder_has_ended_and_nothing_of_others() {
        let dir = tempfile::tempdir().unwrap();
        let directory = directory(&dir);
        let folder = directory.uses_folder(layout::PACKS).unwrap();
        let alone = Alone::wait(&directory, Duration::ZERO).unwrap();
        let second = Alone::wait(&directory, Duration::ZERO).unwrap();
        assert!(!alone.domain().is_empty() && second.domain().is_empty());
        let [with, without] = [(1, &alone), (2, &second)].map(|(n, alone)| Claim::make(&directory, &folder, n, alone).unwrap().unwrap());
        let clock = Clock::default();
        let dead = |alone: &Alone| [&with, &without].map(|claim| is_dead(&directory, &claim.path, &clock, alone));
        assert_eq!((dead(&alone), dead(&second)), ([true, false], [false, false]));
        // Another lock file: other locks.
        drop(alone);
        std::fs::rename(dir.path().join("store/locks/upkeep"), dir.path().join("store/locks/other")).unwrap();
        assert_eq!(dead(&Alone::wait(&directory, Duration::ZERO).unwrap()), [false, false]);
    }

    #[test]
    fn ages_are_told_and_what_is_to_come_has_none() {
        let dir = tempfile::tempdir().unwrap();
        let directory = directory(&dir);
        let clock = Clock::default();
        let now = SystemTime::now();
        assert!(clock.age(&directory, now - Duration::from_secs(500)).unwrap() > Duration::from_secs(400));
        assert_eq!(clock.age(&directory, now + Duration::from_secs(500)), None);
        assert!(!is_stale(&directory, &dir.path().join("none"), &clock));
    }
}
