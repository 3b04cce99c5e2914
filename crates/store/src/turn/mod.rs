//! Taking turns, so that what is expensive to build is built once: among the threads of a process by a table, among processes by the
//! kernel's locks on a few files.
//!
//! A turn saves double work and nothing else: the store stays whole without it. So nothing here is an error. Where locks are refused, or a
//! wait ends, the caller builds for itself, and one warning says why.

mod fork;
mod lock_file;
mod threads;

use lock_file::LockFile;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use threads::{Seat, Seated};

/// Shortest and longest pause between two looks at a lock. Kernels can wait for a lock, but neither for a bounded time nor on every
/// file system.
const NAPS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));
/// A wait that is too long for a clock ends after this.
const A_YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// How long to wait for what another thread or process is building.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnOptions {
    /// Longest wait; then the caller builds for itself. A file system that does not answer at all is outside this bound.
    pub wait: Duration,
    /// Time between two reports (at level `info`) of who is waited for.
    pub report_every: Duration,
}

impl Default for TurnOptions {
    /// Two minutes, with a report every five seconds.
    fn default() -> Self {
        Self { wait: Duration::from_secs(120), report_every: Duration::from_secs(5) }
    }
}

/// What became of asking for a turn.
#[derive(Debug)]
#[must_use]
pub enum Turned<T> {
    /// Another thread or process has it ready.
    Found(T),
    /// The caller's turn, to be kept until what it builds can be found.
    Mine(Turn),
}

/// The caller's turn. Dropped, also by a panic, it is the next one's; so it is when the process dies.
///
/// A child that is forked meanwhile has no part in it.
#[derive(Debug)]
pub struct Turn {
    // In this order: a thread that comes next should find the lock free.
    lock: Option<Arc<LockFile>>,
    _seat: Option<Seat>,
}

impl Turn {
    /// Whether other processes that take turns are kept out. Not so where locks are refused, where the wait has ended, and where there is no
    /// folder for locks.
    pub fn shared(&self) -> bool {
        self.lock.as_ref().is_some_and(|lock| lock.is_ours())
    }
}

/// What a turn is taken for. A moment's writing never waits for minutes of building.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Purpose {
    /// To build what can be found afterwards.
    Build,
    /// To read a record and replace it.
    Record,
}

/// Waits for the turn at a key. `look` is asked before the turn is given and after each wait, so that what another has finished is found
/// rather than built again.
///
/// `root` is the folder of a store, which knows of lock files by its layout; with `None`, only threads take turns. Keys whose first bytes
/// are alike in six bits share a lock file: the turns of different processes at them may wait for each other, those of one process do
/// not. Who has a turn already and takes another had better wait for it shortly, for two who do so may wait for each other.
pub(crate) fn take<T>(
    root: Option<&Path>,
    key: &[u8; 32],
    purpose: Purpose,
    options: &TurnOptions,
    look: &mut dyn FnMut() -> Option<T>,
) -> Turned<T> {
    let mut wait = Wait::new(root, options);
    let (seat, locked) = match threads::sit(root, key, purpose, &mut wait, look) {
        Seated::Seat(seat) => (Some(seat), root.map(|root| lock(root, key, lock_file::stripe(key, purpose), &mut wait, look))),
        Seated::Found(found) => return Turned::Found(found),
        Seated::Late => {
            wait.warn_late("another thread of this process");
            (None, None)
        }
    };
    let lock = match locked {
        Some(Locked::Found(found)) => return Turned::Found(found),
        Some(Locked::Lock(lock)) => Some(lock),
        Some(Locked::Private) | None => None,
    };
    // Between the caller's own look and this turn, another's may have come to its end.
    match look() {
        Some(found) => Turned::Found(found),
        None => Turned::Mine(Turn { lock, _seat: seat }),
    }
}

/// How asking for the lock of a key ended.
enum Locked<T> {
    Lock(Arc<LockFile>),
    Found(T),
    /// Without a lock.
    Private,
}

fn lock<T>(root: &Path, key: &[u8; 32], stripe: u8, wait: &mut Wait<'_>, look: &mut dyn FnMut() -> Option<T>) -> Locked<T> {
    let mut nap = NAPS.0;
    let mut open: Option<LockFile> = None;
    loop {
        let table = fork::table();
        if let Some(lock) = table.shared_lock(root, stripe) {
            return Locked::Lock(lock);
        }
        let attempt = match open.take().filter(LockFile::is_ours) {
            Some(file) => Ok(file),
            None => LockFile::open(root, stripe),
        };
        let file = match attempt.and_then(|file| Ok((file.try_lock()?, file))) {
            Ok((true, file)) => {
                file.sign(key);
                return Locked::Lock(table.share(root, stripe, file));
            }
            Ok((false, file)) => file,
            Err(error) => {
                warn_refused(root, &error);
                return Locked::Private;
            }
        };
        let holder = file.text();
        if table.is_stuck(root, stripe, &holder) {
            return Locked::Private;
        }
        if wait.is_over() {
            wait.warn_late(&format!("{}, by {}", lock_file::describe(&holder), file.path().display()));
            table.set_stuck(root, stripe, holder);
            return Locked::Private;
        }
        std::thread::sleep(jittered(nap).min(wait.left()));
        nap = nap.saturating_mul(2).min(NAPS.1);
        wait.report(|| lock_file::describe(&holder));
        if let Some(found) = look() {
            return Locked::Found(found);
        }
        open = Some(file);
    }
}

/// Half of a pause, and by chance up to as much again: so those who wait together do not look together.
fn jittered(nap: Duration) -> Duration {
    use std::hash::{BuildHasher, RandomState};
    let half = u64::try_from(nap.as_micros()).unwrap_or(0) >> 1;
    let chance = RandomState::new().hash_one(0).checked_rem(half.saturating_add(1)).unwrap_or(0);
    Duration::from_micros(half.saturating_add(chance))
}

/// Locks are refused: one warning for a cause.
fn warn_refused(root: &Path, error: &io::Error) {
    if fork::table().is_news(root, &error.kind().to_string()) {
        tracing::warn!(
            code = "no-locks",
            cause = %format_args!("cannot lock a file in {}: {error}", root.join("locks").display()),
            advice = "nothing needs doing; to have each plan built once, use a store whose file system has locks and whose folder this user may write",
            "the plan store cannot keep other processes out; what several need at once is built by each"
        );
    }
}

/// A bounded wait.
struct Wait<'a> {
    root: Option<&'a Path>,
    start: Instant,
    end: Instant,
    every: Duration,
    reported: Instant,
}

impl<'a> Wait<'a> {
    fn new(root: Option<&'a Path>, options: &TurnOptions) -> Self {
        let start = Instant::now();
        let end = start.checked_add(options.wait.min(A_YEAR)).unwrap_or(start);
        // Waking to report nothing all the time would be a busy loop.
        Self { root, start, end, every: options.report_every.clamp(NAPS.1, A_YEAR), reported: start }
    }

    fn left(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }

    fn is_over(&self) -> bool {
        self.left().is_zero()
    }

    /// Time until there is something to report, or to give up.
    fn next_report(&self) -> Duration {
        self.every.saturating_sub(self.reported.elapsed()).min(self.left()).max(NAPS.0)
    }

    /// Reports who is waited for, if it is time.
    fn report(&mut self, who: impl FnOnce() -> String) {
        if self.reported.elapsed() >= self.every {
            self.reported = Instant::now();
            let store = self.root.map(|root| root.display().to_string());
            tracing::info!(
                store,
                who = who(),
                waited_s = self.start.elapsed().as_secs(),
                left_s = self.left().as_secs(),
                "waits for its turn to build"
            );
        }
    }

    /// The wait has ended in vain.
    fn warn_late(&self, who: &str) {
        let place = self.root.map(|root| format!(" in the store {}", root.display())).unwrap_or_default();
        tracing::warn!(
            code = "waited-in-vain",
            cause = %format_args!("waited {:.1} s for a turn to build{place}; it is held by {who}", self.start.elapsed().as_secs_f64()),
            advice = "see whether the holder is stopped or slow; a longer wait can be set where the turn is asked for",
            "builds for itself what another may be building too"
        );
    }
}
