//! Taking turns, so that what is expensive to build is built once: among the threads of a process by a table, among processes by the
//! kernel's locks on a few files.
//!
//! A turn saves double work and nothing else: the store stays whole without it. So nothing here is an error. Where locks are refused, or a
//! wait ends, the caller builds for itself, and one warning says why.

mod lock_file;
mod table;
mod threads;

pub(crate) use lock_file::{LockFile, describe};

use crate::layout::LOCKS;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
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
    /// Time between two reports of who is waited for. The first for a key is a warning, so that nobody waits for long without knowing
    /// why; the others are at level `info`.
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
    /// To import a bundle: as long as writing its pack takes.
    Import,
}

impl Purpose {
    /// In words, behind "a turn".
    const fn words(self) -> &'static str {
        match self {
            Self::Build => "to build",
            Self::Record => "to write a record",
            Self::Import => "to import a bundle",
        }
    }
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
    let mut wait = Wait::new(root, key, purpose, options);
    let turn = match ask(root, key, purpose, &mut wait, look) {
        Asked::Turn(turn) => turn,
        Asked::Found(found) => return Turned::Found(found),
        Asked::Late(late) => {
            wait.warn_late(&late.holder.to_string());
            late.holder.remember(root);
            late.turn
        }
    };
    // Between the caller's own look and this turn, another's may have come to its end.
    match look() {
        Some(found) => Turned::Found(found),
        None => Turned::Mine(turn),
    }
}

/// The turn at a key, if nobody has it; `None` where somebody has, who is not waited for. That says nothing of the holder: the next one waits
/// for it as long as ever.
pub(crate) fn take_at_once(root: &Path, key: &[u8; 32], purpose: Purpose) -> Option<Turn> {
    let mut wait = Wait::new(Some(root), key, purpose, &TurnOptions { wait: Duration::ZERO, ..TurnOptions::default() });
    match ask::<()>(Some(root), key, purpose, &mut wait, &mut || None) {
        Asked::Turn(turn) => Some(turn),
        Asked::Found(()) | Asked::Late(_) => None,
    }
}

/// The turns at several keys, in the order that they are given in, for one wait in all.
pub(crate) fn take_all<'k>(root: &Path, keys: impl Iterator<Item = &'k [u8; 32]>, purpose: Purpose, options: &TurnOptions) -> Vec<Turn> {
    let mut keys = keys.peekable();
    let Some(first) = keys.peek() else { return Vec::new() };
    let mut wait = Wait::new(Some(root), first, purpose, options);
    let mut is_told = false;
    let mut turn_at = |key| {
        wait.key = key;
        let left = wait.left();
        match ask::<()>(Some(root), key, purpose, &mut wait, &mut || None) {
            Asked::Turn(turn) => Some(turn),
            Asked::Found(()) => None,
            Asked::Late(late) => {
                if !std::mem::replace(&mut is_told, true) {
                    wait.warn_late(&late.holder.to_string());
                }
                // Who was asked for near the end of the wait need not be stuck.
                if left.saturating_mul(2) >= options.wait {
                    late.holder.remember(Some(root));
                }
                Some(late.turn)
            }
        }
    };
    keys.filter_map(&mut turn_at).collect()
}

/// How asking for the turn at a key ended.
enum Asked<T> {
    /// The turn. Others may not be kept out by it.
    Turn(Turn),
    Found(T),
    /// The wait is over.
    Late(Late),
}

/// What a wait that is over has come to.
struct Late {
    holder: Holder,
    /// As much of the turn as was to be had.
    turn: Turn,
}

/// Who was waited for in vain.
enum Holder {
    Thread,
    /// What it has written into the lock file.
    Process {
        stripe: u8,
        text: Vec<u8>,
        path: PathBuf,
    },
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Thread => f.write_str("another thread of this process"),
            Self::Process { text, path, .. } => write!(f, "{}, by {}", lock_file::describe(text), path.display()),
        }
    }
}

impl Holder {
    /// Keeps others of this process from waiting for it as well.
    fn remember(self, root: Option<&Path>) {
        if let (Self::Process { stripe, text, .. }, Some(root)) = (self, root) {
            table::table().set_stuck(root, stripe, text);
        }
    }
}

fn ask<T>(root: Option<&Path>, key: &[u8; 32], purpose: Purpose, wait: &mut Wait<'_>, look: &mut dyn FnMut() -> Option<T>) -> Asked<T> {
    let seat = match threads::sit(root, key, purpose, wait, look) {
        Seated::Seat(seat) => Some(seat),
        Seated::Found(found) => return Asked::Found(found),
        Seated::Late => return Asked::Late(Late { holder: Holder::Thread, turn: Turn { lock: None, _seat: None } }),
    };
    let turn = |lock| Turn { lock, _seat: seat };
    match root.map(|root| lock(root, key, lock_file::stripe(key, purpose), wait, look)) {
        Some(Locked::Lock(lock)) => Asked::Turn(turn(Some(lock))),
        Some(Locked::Private) | None => Asked::Turn(turn(None)),
        Some(Locked::Found(found)) => Asked::Found(found),
        Some(Locked::Late(holder)) => Asked::Late(Late { holder, turn: turn(None) }),
    }
}

/// How asking for the lock of a key ended.
enum Locked<T> {
    Lock(Arc<LockFile>),
    Found(T),
    /// Without a lock: locks are refused, or its holder is known not to be worth waiting for.
    Private,
    /// The wait is over.
    Late(Holder),
}

fn lock<T>(root: &Path, key: &[u8; 32], stripe: u8, wait: &mut Wait<'_>, look: &mut dyn FnMut() -> Option<T>) -> Locked<T> {
    let mut nap = NAPS.0;
    let mut open: Option<LockFile> = None;
    loop {
        let table = table::table();
        if let Some(lock) = table.shared_lock(root, stripe) {
            return Locked::Lock(lock);
        }
        let attempt = match open.take().filter(LockFile::is_ours) {
            Some(file) => Ok(file),
            None => LockFile::open(root, stripe),
        };
        let file = match attempt.and_then(|file| Ok((file.try_lock()?, file))) {
            Ok((true, file)) => {
                file.sign(Some(key));
                return Locked::Lock(table.share(root, stripe, file));
            }
            Ok((false, file)) => file,
            Err(error) => {
                warn_refused(root, &error);
                return Locked::Private;
            }
        };
        let text = file.text();
        if table.is_stuck(root, stripe, &text) {
            return Locked::Private;
        }
        if wait.is_over() {
            return Locked::Late(Holder::Process { stripe, text, path: file.path().to_owned() });
        }
        std::thread::sleep(jittered(nap).min(wait.left()));
        nap = nap.saturating_mul(2).min(NAPS.1);
        wait.report(|| lock_file::describe(&text));
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
    if table::table().is_news(root, &error.kind().to_string()) {
        tracing::warn!(
            code = "no-locks",
            cause = %format_args!("cannot lock a file in {}: {error}", root.join(LOCKS).display()),
            advice = "nothing needs doing; to have each plan built once, use a store whose file system has locks and whose folder this user may write",
            "the plan store cannot keep other processes out; what several need at once is built by each"
        );
    }
}

/// A bounded wait.
struct Wait<'a> {
    root: Option<&'a Path>,
    key: &'a [u8; 32],
    purpose: Purpose,
    start: Instant,
    end: Instant,
    every: Duration,
    reported: Instant,
}

impl<'a> Wait<'a> {
    fn new(root: Option<&'a Path>, key: &'a [u8; 32], purpose: Purpose, options: &TurnOptions) -> Self {
        let start = Instant::now();
        let end = start.checked_add(options.wait.min(A_YEAR)).unwrap_or(start);
        // Waking to report nothing all the time would be a busy loop.
        Self { root, key, purpose, start, end, every: options.report_every.clamp(NAPS.1, A_YEAR), reported: start }
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

    /// What is waited for, and where.
    fn what(&self) -> String {
        let place = self.root.map(|root| format!(" in the store {}", root.display())).unwrap_or_default();
        let key = blake3::Hash::from_bytes(*self.key).to_hex();
        format!("a turn {} key {}{place}", self.purpose.words(), key.get(..12).unwrap_or_default())
    }

    /// Reports who is waited for, if it is time.
    fn report(&mut self, who: impl FnOnce() -> String) {
        if self.reported.elapsed() < self.every {
            return;
        }
        self.reported = Instant::now();
        let (what, who) = (self.what(), who());
        let (waited_s, left_s) = (self.start.elapsed().as_secs(), self.left().as_secs());
        // Who waits with others for the same says nothing new.
        if table::table().is_news_wait(self.root, self.key, self.purpose) {
            tracing::warn!(
                code = "waits",
                cause = %format_args!("waited {waited_s} s for {what}; it is held by {who}"),
                advice = %format_args!("nothing needs doing: this goes on when that is done, or without it in {left_s} s"),
                "waits for its turn"
            );
        } else {
            tracing::info!(what, who, waited_s, left_s, "waits for its turn");
        }
    }

    /// The wait has ended in vain.
    fn warn_late(&self, who: &str) {
        tracing::warn!(
            code = "waited-in-vain",
            cause = %format_args!("waited {:.1} s for {}; it is held by {who}", self.start.elapsed().as_secs_f64(), self.what()),
            advice = "see whether the holder is stopped or slow; a longer wait can be set where the turn is asked for",
            "does for itself what another may be doing too"
        );
    }
}
