//! What a forked child must not keep of its parent: locks, and the table of threads that it does not have.
//!
//! A kernel's lock belongs to the open file that parent and child share after a fork: while the child lives, a lock of a parent that has
//! died would stay. So each lock file's descriptor stands in a table of plain atomics, and the child closes all of them before anything
//! else of it runs. A guard in the child then finds that its entry is gone and leaves the number alone, which may be another file by then.
//!
//! `exec` needs none of this, for descriptors are opened close-on-exec. A child of a bare `clone(2)`, which runs no handlers, is told by
//! its process id.

use super::threads::Table;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering::SeqCst};

/// Most lock files that a process has open at once; more are refused, as a system without locks refuses them.
const SLOTS: usize = 256;

/// Looks, a millisecond apart, whether a fork is over. A fork takes well under this even of a large process. One that does not end is not
/// waited for: at worst a child keeps a lock, and waits for locks are bounded.
const MOST_TRIES: u32 = 200;

/// Descriptors of open lock files, with a serial number above so that a number used again is told from the one before. 0: free.
static DESCRIPTORS: [AtomicU64; SLOTS] = [const { AtomicU64::new(0) }; SLOTS];
static SERIAL: AtomicU32 = AtomicU32::new(0);

/// Forks that have begun, and those of them that are over. While they differ, a descriptor that is opened may reach a child unseen.
static BEGUN: AtomicU64 = AtomicU64::new(0);
static OVER: AtomicU64 = AtomicU64::new(0);
static REGISTERED: AtomicBool = AtomicBool::new(false);

/// The table of this process; that of its parent until it first asks for its own.
static TABLE: AtomicPtr<Owned> = AtomicPtr::new(ptr::null_mut());

struct Owned {
    pid: u32,
    table: Table,
}

/// An entry of the table of descriptors.
#[derive(Debug)]
pub(super) struct Ticket {
    slot: &'static AtomicU64,
    entry: u64,
    pid: u32,
}

/// What the end of a ticket means for its descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Redeemed {
    /// It is to be closed. It is this process's own, or a copy of a parent's that no handler has closed.
    Open,
    /// The child has closed it already, and its number may be another file's.
    Closed,
}

impl Ticket {
    /// Whether the descriptor is open and this process's own.
    pub(super) fn is_ours(&self) -> bool {
        self.slot.load(SeqCst) == self.entry && self.pid == std::process::id()
    }

    /// Ends it. To be asked once.
    pub(super) fn redeem(&self) -> Redeemed {
        match self.slot.compare_exchange(self.entry, 0, SeqCst, SeqCst) {
            Ok(_) => Redeemed::Open,
            Err(_) => Redeemed::Closed,
        }
    }
}

/// Opens something and enters its descriptor, so that no fork falls between the two. `None` where the table is full.
pub(super) fn enter<T, E>(open: impl FnMut() -> Result<T, E>, descriptor: impl Fn(&T) -> i32) -> Result<Option<(T, Ticket)>, E> {
    register();
    enter_into(&DESCRIPTORS, open, descriptor)
}

fn enter_into<T, E>(
    slots: &'static [AtomicU64],
    mut open: impl FnMut() -> Result<T, E>,
    descriptor: impl Fn(&T) -> i32,
) -> Result<Option<(T, Ticket)>, E> {
    let mut tries: u32 = 0;
    loop {
        let begun = BEGUN.load(SeqCst);
        let quiet = OVER.load(SeqCst) >= begun;
        tries = tries.saturating_add(1);
        if !quiet && tries < MOST_TRIES {
            std::thread::sleep(std::time::Duration::from_millis(1));
            continue;
        }
        let opened = open()?;
        let Ok(number) = u32::try_from(descriptor(&opened)) else { return Ok(None) };
        // A serial number of 0 could make an entry of 0.
        let serial = u64::from(SERIAL.fetch_add(1, SeqCst)).wrapping_add(1);
        let entry = serial << 32 | u64::from(number);
        let free = slots.iter().find(|slot| slot.compare_exchange(0, entry, SeqCst, SeqCst).is_ok());
        let Some(slot) = free else { return Ok(None) };
        let ticket = Ticket { slot, entry, pid: std::process::id() };
        if BEGUN.load(SeqCst) == begun || tries >= MOST_TRIES {
            return Ok(Some((opened, ticket)));
        }
        // A child may have got the descriptor and not the entry. It is not locked yet, so that closing it here is all that is needed.
        if ticket.redeem() == Redeemed::Closed {
            std::mem::forget(opened);
        }
    }
}

/// The table of this process.
#[expect(unsafe_code, reason = "a table per process is behind an atomic pointer; the blocks below argue")]
pub(super) fn table() -> &'static Table {
    let pid = std::process::id();
    let mut current = TABLE.load(SeqCst);
    loop {
        // SAFETY: `TABLE` holds null or what `Box::into_raw` gave below, which is freed only if it never got into `TABLE`. So it is valid
        // for ever; nobody has it mutably, for `Table` changes only behind its own locks.
        if let Some(owned) = unsafe { current.as_ref() }
            && owned.pid == pid
        {
            return &owned.table;
        }
        // The parent's is left as it is: one of its locks may be held for ever by a thread that this process does not have.
        let own = Box::into_raw(Box::new(Owned { pid, table: Table::default() }));
        match TABLE.compare_exchange(current, own, SeqCst, SeqCst) {
            Ok(_) => current = own,
            Err(other) => {
                // SAFETY: it comes from `Box::into_raw` a line above, and nobody else has seen it.
                drop(unsafe { Box::from_raw(own) });
                current = other;
            }
        }
    }
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
    OVER.fetch_add(1, SeqCst);
}

#[expect(unsafe_code, reason = "closing a descriptor by its number is unsafe; the block below argues")]
extern "C" fn in_child() {
    for slot in &DESCRIPTORS {
        let entry = slot.swap(0, SeqCst);
        if entry != 0 {
            // SAFETY: `close(2)` may be called in the child of a process with several threads. The number is that of a lock file: it was
            // entered when the file was open, and goes from the table before the file is closed. Its owner in this process (a copy of the
            // parent's) finds its entry gone and neither uses nor closes it. Nobody else knows the number.
            let _ = unsafe { libc::close((entry & u64::from(u32::MAX)) as i32) };
        }
    }
    TABLE.store(ptr::null_mut(), SeqCst);
    // Of the forks that other threads had begun, none goes on here.
    OVER.store(BEGUN.load(SeqCst), SeqCst);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsRawFd;

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
        let copied = Ticket { slot: again.slot, entry: again.entry, pid: 0 };
        assert!(!copied.is_ours());
        assert_eq!(copied.redeem(), Redeemed::Open);

        let kept: Vec<_> = std::iter::from_fn(enter).collect();
        assert_eq!(kept.len(), FEW.len());
        assert_eq!(kept[1].1.redeem(), Redeemed::Open);
        assert!(enter().is_some() && enter().is_none());
    }
}
