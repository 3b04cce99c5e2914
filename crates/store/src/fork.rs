//! What becomes of open files when a process forks while other threads of it are at work.
//!
//! **What a child must not miss.** The system copies the descriptors of a process first and its memory a little later. A file that another
//! thread opens in between, and tells others of, is known to the child and not open there; its number may be another file's soon, which the
//! child would read, write or close instead. So what is opened and may be shared waits until no fork is under way ([`settle`]): whatever
//! fork begins after that copies the descriptor. What is closed needs no such thing, for nobody knows of it any more by then; at worst the
//! child has a descriptor that nobody uses.
//!
//! **What a child must not keep.** A kernel's lock belongs to the open file that parent and child share after a fork: while the child lives,
//! a lock of a parent that has died would stay. So each lock file's descriptor stands in a table of plain atomics, and the child closes all
//! of them before anything else of it runs. A guard in the child then finds that its entry is gone and leaves the number alone, which may
//! be another file by then.
//!
//! **What a child must not end.** What a guard does when it is dropped is its owner's to do, and a child has a copy of it. So a guard that
//! gives something back to others remembers whose it is ([`this_process`]).
//!
//! `exec` needs none of this, for descriptors are opened close-on-exec. A child of a bare `clone(2)`, which runs no handlers, is told by
//! its process id; what its parent's other threads opened in the very moment it may miss.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Most lock files that a process has open at once; more are refused, as a system without locks refuses them.
const SLOTS: usize = 256;

/// How long the end of a fork is waited for, and the pause between two looks. One takes well under a millisecond of a small process and about
/// a second of one with 100 GiB in small pages. One that does not end, and threads that fork so often that there is always one under way, are
/// not waited for: at worst a child has a lock that it should not have, for which waits are bounded, or misses a file.
const LONGEST_WAIT: Duration = Duration::from_secs(3);
const NAP: Duration = Duration::from_micros(100);
/// How often a file is opened anew at least where forks fall between its opening and its entry.
const LEAST_TRIES: u32 = 8;

/// Descriptors of open lock files, with a serial number above so that a number used again is told from the one before. 0: free.
static DESCRIPTORS: [AtomicU64; SLOTS] = [const { AtomicU64::new(0) }; SLOTS];
static SERIAL: AtomicU32 = AtomicU32::new(0);

/// Forks that have begun, and those of them that are over. While they differ, a descriptor that is opened may reach a child unseen, and the
/// knowledge of it without the descriptor.
static BEGUN: AtomicU64 = AtomicU64::new(0);
static OVER: AtomicU64 = AtomicU64::new(0);
static REGISTERED: AtomicBool = AtomicBool::new(false);
/// The end of forks was waited for in vain, and would be with every file that is opened, until there is none under way.
static IS_VAIN: AtomicBool = AtomicBool::new(false);

/// Grows with each fork between the first process and this one.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// An entry of the table of descriptors.
#[derive(Debug)]
pub(crate) struct Ticket {
    slot: &'static AtomicU64,
    entry: u64,
    process: u64,
}

/// What the end of a ticket means for its descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Redeemed {
    /// It is to be closed. It is this process's own, or a copy of a parent's that no handler has closed.
    Open,
    /// The child has closed it already, and its number may be another file's.
    Closed,
}

impl Ticket {
    /// Whether the descriptor is open and this process's own.
    pub(crate) fn is_ours(&self) -> bool {
        self.slot.load(SeqCst) == self.entry && self.process == this_process()
    }

    /// Ends it. To be asked once.
    pub(crate) fn redeem(&self) -> Redeemed {
        match self.slot.compare_exchange(self.entry, 0, SeqCst, SeqCst) {
            Ok(_) => Redeemed::Open,
            Err(_) => Redeemed::Closed,
        }
    }
}

/// Waits for a moment in which no fork is under way; to be called between opening a file and telling other threads of it. Gives the number of
/// forks up to then; `None` where it was waited for in vain.
///
/// A fork that began before the first call of all is not known of.
pub(crate) fn settle() -> Option<u64> {
    register();
    let Some(begun) = begun_while_quiet() else { return settle_slowly() };
    if IS_VAIN.load(SeqCst) {
        IS_VAIN.store(false, SeqCst);
    }
    Some(begun)
}

#[cold]
fn settle_slowly() -> Option<u64> {
    let from = Instant::now();
    while !IS_VAIN.load(SeqCst) {
        std::thread::sleep(NAP);
        if let Some(begun) = begun_while_quiet() {
            return Some(begun);
        }
        if from.elapsed() >= LONGEST_WAIT {
            IS_VAIN.store(true, SeqCst);
        }
    }
    None
}

/// The number of forks so far, if all of them are over.
fn begun_while_quiet() -> Option<u64> {
    // In this order: there are never more that are over, and both numbers only grow, so if they are equal they were when the first was read.
    let over = OVER.load(SeqCst);
    Some(BEGUN.load(SeqCst)).filter(|&begun| begun == over)
}

/// Opens something and enters its descriptor, so that no fork falls between the two. `None` where the table is full.
pub(crate) fn enter<T, E>(open: impl FnMut() -> Result<T, E>, descriptor: impl Fn(&T) -> i32) -> Result<Option<(T, Ticket)>, E> {
    enter_into(&DESCRIPTORS, open, descriptor)
}

fn enter_into<T, E>(
    slots: &'static [AtomicU64],
    mut open: impl FnMut() -> Result<T, E>,
    descriptor: impl Fn(&T) -> i32,
) -> Result<Option<(T, Ticket)>, E> {
    let from = Instant::now();
    let mut tries = 0_u32;
    loop {
        tries = tries.saturating_add(1);
        let begun = settle();
        let opened = open()?;
        let Ok(number) = u32::try_from(descriptor(&opened)) else { return Ok(None) };
        // A serial number of 0 could make an entry of 0.
        let serial = u64::from(SERIAL.fetch_add(1, SeqCst)).wrapping_add(1);
        let entry = serial << 32 | u64::from(number);
        let free = slots.iter().find(|slot| slot.compare_exchange(0, entry, SeqCst, SeqCst).is_ok());
        let Some(slot) = free else { return Ok(None) };
        let ticket = Ticket { slot, entry, process: this_process() };
        // Where there is always one under way, it is taken as it is. That this thread has not run for so long does not mean that.
        let no_fork_between = begun.is_none_or(|begun| begun == BEGUN.load(SeqCst));
        if no_fork_between || tries >= LEAST_TRIES && from.elapsed() >= LONGEST_WAIT {
            return Ok(Some((opened, ticket)));
        }
        // A child may have got the descriptor and not the entry. It is not locked yet, so that closing it here is all that is needed.
        if ticket.redeem() == Redeemed::Closed {
            std::mem::forget(opened);
        }
    }
}

/// A number that tells this process from those that it was forked from; never 0. Process ids alone do not: in a namespace of its own a child
/// may have that of its parent.
pub(crate) fn this_process() -> u64 {
    u64::from(GENERATION.load(SeqCst)) << 32 | u64::from(std::process::id())
}

/// Has the system call the handlers at each fork. Twice does no harm: they count in pairs, and a child has nothing to close twice.
#[expect(unsafe_code, reason = "registering handlers is unsafe; the block below argues")]
fn register() {
    if REGISTERED.load(SeqCst) {
        return;
    }
    // SAFETY: the handlers are functions of this object file, which the C library forgets when it is unloaded; they use atomics and
    // `close(2)` alone, which are safe in a child whatever its parent's other threads were doing. A failure (no memory) leaves the
    // checks by process id.
    unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
    REGISTERED.store(true, SeqCst);
}

extern "C" fn before() {
    BEGUN.fetch_add(1, SeqCst);
}

extern "C" fn in_parent() {
    // Of the fork in whose course handlers are registered, some systems call only this one.
    let _ = OVER.fetch_update(SeqCst, SeqCst, |over| (over < BEGUN.load(SeqCst)).then_some(over.wrapping_add(1)));
}

#[expect(unsafe_code, reason = "closing a descriptor by its number is unsafe; the block below argues")]
extern "C" fn in_child() {
    for slot in &DESCRIPTORS {
        let entry = slot.swap(0, SeqCst);
        if entry != 0 {
            // SAFETY: `close(2)` may be called in the child of a process with several threads. The number is that of a lock file: it was
            // entered when the file was open, and goes from the table before the file is closed. If it was entered between the copying of
            // descriptors and of memory, it may be that of another file here, which was closed then: nobody knows of that one. Its owner in this process (a copy of the
            // parent's) finds its entry gone and neither uses nor closes it. Nobody else knows the number.
            let _ = unsafe { libc::close((entry & u64::from(u32::MAX)) as i32) };
        }
    }
    GENERATION.fetch_add(1, SeqCst);
    // Of the forks that other threads had begun, none goes on here.
    OVER.store(BEGUN.load(SeqCst), SeqCst);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsRawFd;

    #[test]
    fn what_is_opened_in_the_course_of_a_fork_waits_for_its_end() {
        use std::sync::mpsc::channel;
        // Two of them that overlap. Others may be under way in this process, which make the wait longer; on a machine that is so busy that it
        // is given up, it is tried again.
        let waits_for_both = || {
            let (told, tells) = channel();
            // Forgets that it was given up.
            settle();
            before();
            before();
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    told.send(false).unwrap();
                    told.send(settle().is_some()).unwrap();
                });
                tells.recv().unwrap();
                let early = [(); 2].map(|()| {
                    let early = tells.recv_timeout(Duration::from_millis(50)).ok();
                    in_parent();
                    early
                });
                assert!(!early.contains(&Some(true)), "it has not waited");
                // Nothing is to come where it was given up before.
                early == [None; 2] && tells.recv().unwrap()
            })
        };
        assert!((0..20).any(|_| waits_for_both()));
    }

    static FEW: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];

    #[test]
    fn an_entry_is_ended_once_and_a_full_table_refuses() {
        let enter = || enter_into(&FEW, || File::open("/dev/null"), File::as_raw_fd).unwrap();
        let (file, ticket) = enter().unwrap();
        assert!(ticket.is_ours());
        assert_eq!(ticket.redeem(), Redeemed::Open);
        assert!(!ticket.is_ours());
        // The same number entered again is another entry.
        let (_, again) = enter_into(&FEW, || file.try_clone(), |_| file.as_raw_fd()).unwrap().unwrap();
        assert_eq!(ticket.redeem(), Redeemed::Closed);
        assert!(again.is_ours());
        let copied = Ticket { slot: again.slot, entry: again.entry, process: 0 };
        assert!(!copied.is_ours());
        assert_eq!(copied.redeem(), Redeemed::Open);

        let kept: Vec<_> = std::iter::from_fn(enter).collect();
        assert_eq!(kept.len(), FEW.len());
        assert_eq!(kept[1].1.redeem(), Redeemed::Open);
        assert!(enter().is_some() && enter().is_none());
    }
}
