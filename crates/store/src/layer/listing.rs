//! What a listing of the folder of packs gave, how long that holds, and whose turn it is to list.

use crate::pack::{Pack, PackError, Used};
use crate::{StoreError, fork, fs};
use arc_swap::{ArcSwap, Guard};
use once_cell::race::OnceBox;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// A listing made this soon after the folder changed may have missed a change of the same tick of the clock.
const UNSETTLED: Duration = Duration::from_secs(2);
/// A pack that cannot be opened is tried again after this time,
const RETRY: Duration = Duration::from_secs(2);
/// and at once so often where the system refuses, which may be for a moment.
const TRIES_AT_ONCE: u32 = 3;
/// How long a thread waits for another one that lists, before it lists for itself.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
const FIRST_NAP: Duration = Duration::from_micros(20);
const LAST_NAP: Duration = Duration::from_millis(2);

/// What a listing of the folder gave.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// Newest first.
    pub(super) packs: Arc<[Arc<Pack>]>,
    /// Of each pack: its stamps of use, once they are wanted. Who opens them holds no lock, which a forked child would wait for.
    pub(super) stamps: Vec<OnceBox<Option<Used>>>,
    /// Packs that cannot be used.
    bad: Vec<Bad>,
    began: Option<Began>,
}

/// When a folder was listed, and in which state it was.
#[derive(Debug, Clone, Copy)]
pub(super) struct Began {
    at: Instant,
    /// The folder, and when it was last changed, as it was before it was listed; nothing where there was none.
    of: Option<(fs::Inode, SystemTime)>,
    /// When this process saw first that it had last been changed then.
    seen: Instant,
    /// It can be relied upon that whatever happened since has changed the folder's time.
    is_settled: bool,
}

impl Began {
    /// Of a folder in this state, that is about to be listed.
    pub(super) fn now(before: Option<&Listing>, status: &fs::Status) -> Self {
        let at = Instant::now();
        let of = Some((status.inode, status.changed));
        let seen = before.and_then(|before| before.began).filter(|began| began.of == of).map_or(at, |began| began.seen);
        // By the clock of the system, and by our own where that says that the change is yet to come: a clock may have been set back, and a
        // server's may be ahead. Whoever changes the folder gives it another time by now in either case.
        let is_old = SystemTime::now().duration_since(status.changed).is_ok_and(|age| age >= UNSETTLED);
        Self { at, of, seen, is_settled: is_old || at.duration_since(seen) >= UNSETTLED }
    }

    /// The folder has changed since its time was taken.
    pub(super) fn is_before_a_change(self) -> Self {
        Self { is_settled: false, ..self }
    }

    /// With what was found.
    pub(super) fn found(self, packs: Vec<Arc<Pack>>, bad: Vec<Bad>) -> Listing {
        let stamps = packs.iter().map(|_| OnceBox::new()).collect();
        Listing { packs: packs.into(), stamps, bad, began: Some(self) }
    }
}

/// The listing that holds; nothing before the first. Readers take no lock: it is replaced whole.
///
/// The first one is no swap: a process that looks up one thing never pays for what swapping needs of each thread.
#[derive(Debug, Default)]
pub(super) struct Current(OnceBox<ArcSwap<Listing>>);

impl Current {
    pub(super) fn get(&self) -> Option<Arc<Listing>> {
        self.0.get().map(ArcSwap::load_full)
    }

    /// The same, for a moment: nothing is counted.
    pub(super) fn peek(&self) -> Option<Guard<Arc<Listing>>> {
        self.0.get().map(ArcSwap::load)
    }

    pub(super) fn set(&self, listing: Arc<Listing>) {
        match self.0.get() {
            Some(current) => current.store(listing),
            None => {
                // Another thread may be the first after all.
                if let Err(mine) = self.0.set(Box::new(ArcSwap::new(listing)))
                    && let Some(current) = self.0.get()
                {
                    current.store(mine.into_inner());
                }
            }
        }
    }
}

impl Listing {
    /// That there is no folder.
    pub(super) fn of_nothing() -> Self {
        let at = Instant::now();
        Self { began: Some(Began { at, of: None, seen: at, is_settled: false }), ..Self::default() }
    }

    /// Whether a listing now would give the same, or at least a listing a moment ago has.
    pub(super) fn still_holds(&self, status: &fs::Status, is_thorough: bool) -> bool {
        let Some(began) = &self.began else { return false };
        let is_recent = || began.at.elapsed() < RETRY && !self.faulty().any(Bad::is_to_be_tried);
        let is_the_same = began.is_settled && began.of == Some((status.inode, status.changed));
        is_the_same && (!self.has_faults() || !is_thorough && is_recent())
    }

    /// Whether it was begun at this time or later.
    pub(super) fn began_after(&self, from: Instant) -> bool {
        self.began.is_some_and(|began| began.at >= from)
    }

    pub(super) fn has_other_packs(&self, before: Option<&Self>) -> bool {
        let before = before.map_or(&[][..], |before| &before.packs);
        self.packs.len() != before.len() || self.packs.iter().zip(before).any(|(a, b)| !Arc::ptr_eq(a, b))
    }

    /// The pack of this path, if it is one that cannot be used.
    pub(super) fn bad(&self, path: &Path) -> Option<&Bad> {
        self.bad.iter().find(|bad| bad.path == path)
    }

    /// Those that were refused for want of a signature are none.
    fn faulty(&self) -> impl Iterator<Item = &Bad> {
        self.bad.iter().filter(|bad| !bad.is_refused)
    }

    pub(super) fn has_faults(&self) -> bool {
        self.faulty().next().is_some()
    }

    /// The first of what keeps packs from being opened.
    pub(super) fn fault(&self) -> Option<StoreError> {
        self.faulty().next().map(Bad::error)
    }

    pub(super) fn faults(&self) -> Vec<StoreError> {
        self.faulty().map(Bad::error).collect()
    }
}

/// A pack that cannot be used. It is not opened again and again, as long as it is that file.
#[derive(Debug, Clone)]
pub(super) struct Bad {
    path: PathBuf,
    /// Inode, time of change and size, where they could be asked for.
    file: Option<(fs::Inode, SystemTime, fs::Kind)>,
    tried: Instant,
    tries: u32,
    error: Arc<StoreError>,
    /// It is sound, and lacks the signature that is asked for: which is told once, and is no fault.
    is_refused: bool,
}

impl Bad {
    /// `before` is what was known of it.
    pub(super) fn new(path: PathBuf, status: Option<fs::Status>, error: StoreError, is_refused: bool, before: Option<&Self>) -> Self {
        let file = status.as_ref().map(identity);
        let tries = before.filter(|before| before.file == file).map_or(1, |before| before.tries.saturating_add(1));
        Self { path, file, tried: Instant::now(), tries, error: Arc::new(error), is_refused }
    }

    /// Whether it may open now: what the system refuses it may grant the next time. What a file holds stays as it is.
    fn is_to_be_tried(&self) -> bool {
        self.error.is_unreadable() && (self.tries < TRIES_AT_ONCE || self.tried.elapsed() >= RETRY)
    }

    /// The same, if that is what a look at this file would give again.
    pub(super) fn still_is(&self, status: Option<fs::Status>, is_thorough: bool) -> Option<Self> {
        let is_the_same = self.file.is_some() && self.file == status.as_ref().map(identity);
        let is_tried = self.is_to_be_tried() || is_thorough && self.error.is_unreadable();
        (is_the_same && !is_tried).then(|| self.clone())
    }

    pub(super) fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// The fault, for whoever has to report it.
    fn error(&self) -> StoreError {
        match &*self.error {
            StoreError::Io { path, action, cause } => {
                let cause = cause.raw_os_error().map_or_else(|| cause.kind().into(), std::io::Error::from_raw_os_error);
                StoreError::Io { path: path.clone(), action, cause }
            }
            StoreError::FileType { path, found, expected } => StoreError::FileType { path: path.clone(), found, expected },
            StoreError::Pack { path, cause } => StoreError::Pack { path: path.clone(), cause: cause.clone() },
            // Nothing else is said of a pack that is opened.
            other => StoreError::pack(
                &self.path,
                PackError::Field { field: "the file", found: other.to_string(), expected: "a pack that opens".into() },
            ),
        }
    }
}

fn identity(status: &fs::Status) -> (fs::Inode, SystemTime, fs::Kind) {
    (status.inode, status.changed, status.kind)
}

/// The right to list, which one thread has at a time.
///
/// It is no mutex: nobody waits in it for long, and the child of a fork does not wait for a thread of its parent, which it does not have.
#[derive(Debug)]
pub(super) struct Turn<'l> {
    /// Process whose thread it is, 0 for nobody.
    lister: &'l AtomicU64,
    process: u64,
}

impl<'l> Turn<'l> {
    /// Waits for it; `None` where that took too long, or `is_over`: what it is wanted for has been done.
    pub(super) fn take(lister: &'l AtomicU64, is_over: impl Fn() -> bool) -> Option<Self> {
        let process = fork::this_process();
        let mut nap = FIRST_NAP;
        let mut from = None;
        loop {
            let holder = lister.load(Ordering::Relaxed);
            // What a parent's thread had when this process was forked is nobody's here.
            let is_free = holder != process;
            if is_free && lister.compare_exchange(holder, process, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return Some(Self { lister, process });
            }
            if from.get_or_insert_with(Instant::now).elapsed() >= LONGEST_WAIT || is_over() {
                return None;
            }
            thread::sleep(nap);
            nap = nap.saturating_mul(2).min(LAST_NAP);
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // Nothing changes where it is not this process's.
        let _ = self.lister.compare_exchange(self.process, 0, Ordering::Release, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_lists_and_a_parents_does_not_count() {
        let lister = AtomicU64::new(0);
        let turn = Turn::take(&lister, || false).unwrap();
        assert!(Turn::take(&lister, || false).is_none(), "it is not waited for without end");
        drop(turn);
        assert!(Turn::take(&lister, || false).is_some());
        // As a forked child finds it: a thread of the parent was listing.
        lister.store(fork::this_process().wrapping_add(1), Ordering::Relaxed);
        let turn = Turn::take(&lister, || false).unwrap();
        drop(turn);
        assert_eq!(lister.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_listing_settles_by_either_clock() {
        let dir = tempfile::tempdir().unwrap();
        let mut status = fs::status(dir.path()).unwrap();
        let of = |before: &Listing, status: &fs::Status| Began::now(Some(before), status).found(Vec::new(), Vec::new());
        let from = Instant::now();
        status.changed = SystemTime::now();
        let holds = of(&Listing::default(), &status).still_holds(&status, false);
        assert!(!holds || from.elapsed() >= UNSETTLED, "of this moment");
        status.changed = SystemTime::now() - UNSETTLED;
        let settled = of(&Listing::default(), &status);
        assert!(settled.still_holds(&status, true));
        // A time to come counts once it has been seen for a while.
        status.changed = SystemTime::now() + Duration::from_secs(1_000_000);
        assert!(!settled.still_holds(&status, false));
        let mut first = of(&settled, &status);
        let began = first.began.as_mut().unwrap();
        assert!(!began.is_settled);
        began.seen = Instant::now().checked_sub(UNSETTLED).unwrap();
        assert!(of(&first, &status).still_holds(&status, true));
        // A change in the course of it does not.
        let listing = Began::now(Some(&first), &status).is_before_a_change().found(Vec::new(), Vec::new());
        assert!(!listing.still_holds(&status, false));
    }
}
