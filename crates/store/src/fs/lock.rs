//! What a lock needs besides asking for it.

use super::Shared;
use super::op::{Op, gate};
use std::io;
use std::os::fd::AsRawFd;

impl Shared {
    /// Gives the lock back, for every process that has a copy of this descriptor. Closing gives it back too, but only when the last copy
    /// is closed.
    pub(crate) fn unlock(&self) -> io::Result<()> {
        gate(Op::Lock { path: &self.path })?;
        self.file.unlock()
    }

    /// Number of the descriptor, to be told to a forked child.
    pub(crate) fn descriptor(&self) -> i32 {
        self.file.as_raw_fd()
    }
}

/// Name of this machine, which tells the writers of a shared folder apart.
pub(crate) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
