//! What a lock needs besides asking for it.

use super::Shared;
use super::op::{Op, gate};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;

impl Shared {
    /// Gives the lock back, for every process that has a copy of this descriptor. Closing gives it back too, but only when the last copy
    /// is closed.
    pub(crate) fn unlock(&self) -> io::Result<()> {
        gate(Op::Lock { path: &self.path })?;
        self.file.unlock()
    }

    /// Where a lock on it is certain to hold: this kernel, this mounted file system, this file. Who takes the lock knows that nobody has
    /// it who had it there, and nothing of others. Empty where it cannot be told.
    pub(crate) fn lock_domain(&self) -> String {
        let Ok(kernel) = std::fs::read_to_string("/proc/sys/kernel/random/boot_id") else { return String::new() };
        let status = gate(Op::Stat { path: &self.path }).and_then(|()| self.file.metadata());
        status.map(|status| format!("{} {:x} {:x}", kernel.trim_end(), status.dev(), status.ino())).unwrap_or_default()
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
