//! Turns among the threads of a process, and what the process knows of the lock files.

use super::lock_file::LockFile;
use super::{Purpose, Wait, table};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

/// Causes that are remembered; others are not warned of.
const MOST_CAUSES: usize = 256;

/// What one at a time has its turn at: a key of a store, or of none, for a purpose.
type Name = Arc<(Option<PathBuf>, [u8; 32], Purpose)>;

/// One lock file of a store.
type Stripe = (PathBuf, u8);

/// What the threads of a process share. A forked child has one of its own.
#[derive(Debug, Default)]
pub(super) struct Table {
    busy: Mutex<HashSet<Name>>,
    freed: Condvar,
    /// Locks that this process has: whoever needs one of the same file shares it, for among threads the keys are told apart here.
    locks: Mutex<HashMap<Stripe, Weak<LockFile>>>,
    /// What stood in a lock file when waiting for it ended without it.
    stuck: Mutex<HashMap<Stripe, Vec<u8>>>,
    warned: Mutex<HashSet<(PathBuf, String)>>,
    /// What long waits were for.
    told: Mutex<HashSet<Name>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Table {
    /// The lock that this process has on a lock file.
    pub(super) fn shared_lock(&self, root: &Path, stripe: u8) -> Option<Arc<LockFile>> {
        lock(&self.locks).get(&(root.to_owned(), stripe))?.upgrade().filter(|file| file.is_ours())
    }

    /// Shares a lock that has just been taken with the other threads.
    pub(super) fn share(&self, root: &Path, stripe: u8, file: LockFile) -> Arc<LockFile> {
        let file = Arc::new(file);
        let mut locks = lock(&self.locks);
        locks.retain(|_, file| file.strong_count() > 0);
        locks.insert((root.to_owned(), stripe), Arc::downgrade(&file));
        lock(&self.stuck).remove(&(root.to_owned(), stripe));
        file
    }

    /// Remembers that waiting for a lock ended without it, and what its holder wrote.
    pub(super) fn set_stuck(&self, root: &Path, stripe: u8, holder: Vec<u8>) {
        lock(&self.stuck).insert((root.to_owned(), stripe), holder);
    }

    /// Whether the same holder has been waited for in vain.
    pub(super) fn is_stuck(&self, root: &Path, stripe: u8, holder: &[u8]) -> bool {
        lock(&self.stuck).get(&(root.to_owned(), stripe)).is_some_and(|known| known == holder)
    }

    /// Whether this is the first warning of a cause.
    pub(super) fn is_news(&self, root: &Path, cause: &str) -> bool {
        let mut warned = lock(&self.warned);
        warned.len() < MOST_CAUSES && warned.insert((root.to_owned(), cause.to_owned()))
    }

    /// Whether this is the first long wait for a turn.
    pub(super) fn is_news_wait(&self, root: Option<&Path>, key: &[u8; 32], purpose: Purpose) -> bool {
        let mut told = lock(&self.told);
        told.len() < MOST_CAUSES && told.insert(Arc::new((root.map(Path::to_owned), *key, purpose)))
    }
}

/// The turn among threads. Dropped, also by a panic, it is the next one's.
#[derive(Debug)]
pub(super) struct Seat {
    table: &'static Table,
    name: Name,
}

impl Drop for Seat {
    fn drop(&mut self) {
        // A copy in a forked child is of the parent's table, which may be locked for ever.
        if std::ptr::eq(self.table, table::table()) {
            lock(&self.table.busy).remove(&self.name);
            self.table.freed.notify_all();
        }
    }
}

/// How asking for a seat ended.
pub(super) enum Seated<T> {
    Seat(Seat),
    /// Somebody else has finished what this one was about to do.
    Found(T),
    /// The wait is over.
    Late,
}

/// Waits for the turn among threads.
pub(super) fn sit<T>(
    root: Option<&Path>,
    key: &[u8; 32],
    purpose: Purpose,
    wait: &mut Wait<'_>,
    look: &mut dyn FnMut() -> Option<T>,
) -> Seated<T> {
    let table = table::table();
    let name: Name = Arc::new((root.map(Path::to_owned), *key, purpose));
    loop {
        let mut busy = lock(&table.busy);
        if busy.insert(Arc::clone(&name)) {
            return Seated::Seat(Seat { table, name });
        }
        if wait.is_over() {
            return Seated::Late;
        }
        let (busy, _) = table.freed.wait_timeout(busy, wait.next_report()).unwrap_or_else(PoisonError::into_inner);
        let still = busy.contains(&name);
        drop(busy);
        wait.report(|| "another thread of this process".to_owned());
        // What woke this one may have been another key's end.
        if !still && let Some(found) = look() {
            return Seated::Found(found);
        }
    }
}
