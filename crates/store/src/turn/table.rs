//! The table of turns of this process, which is not its parent's.

use super::threads::Table;
use crate::fork;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering::SeqCst};

/// The table of this process; that of its parent until it first asks for its own.
static TABLE: AtomicPtr<Owned> = AtomicPtr::new(ptr::null_mut());

struct Owned {
    process: u64,
    table: Table,
}

/// The table of this process.
#[expect(unsafe_code, reason = "a table per process is behind an atomic pointer; the blocks below argue")]
pub(super) fn table() -> &'static Table {
    let process = fork::this_process();
    let mut current = TABLE.load(SeqCst);
    loop {
        // SAFETY: `TABLE` holds null or what `Box::into_raw` gave below, which is freed only if it never got into `TABLE`. So it is valid
        // for ever; nobody has it mutably, for `Table` changes only behind its own locks.
        if let Some(owned) = unsafe { current.as_ref() }
            && owned.process == process
        {
            return &owned.table;
        }
        // The parent's is left as it is: one of its locks may be held for ever by a thread that this process does not have.
        let own = Box::into_raw(Box::new(Owned { process, table: Table::default() }));
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
