//! A process that forks. One test to a program: a child has only the thread that forked.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod common;
#[path = "servers/scripted.rs"]
mod scripted;

use common::{name, open, unhurried};
use hipplan_remote::Remote;
use hipplan_store::{EntryKind, RemoteErrorKind, RemoteTier};
use scripted::{Server, status};

/// What a child finds, as its exit status: 0 an answer, 1 left alone, 2 anything else.
fn in_child(remote: &Remote) -> i32 {
    // SAFETY: the child calls into the remote, whose first act in a process that is not its owner is to leave, or which has not been used
    // yet; it allocates, which the C library allows after fork, and ends by `_exit`, so that nothing of the parent's is flushed or dropped.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        // SAFETY: has the system end this process where it hangs.
        unsafe { libc::alarm(300) };
        let status = match remote.get(EntryKind::Blob, &name(1), 9) {
            Ok(None) => 0,
            Err(error) if error.kind == RemoteErrorKind::Resting && error.message.contains("forked") => 1,
            _ => 2,
        };
        // SAFETY: ends the process.
        unsafe { libc::_exit(status) }
    }
    let mut status = 0;
    // SAFETY: `child` is a child of this process that has not been waited for, and `status` may be written.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(waited, child);
    assert!(libc::WIFEXITED(status), "the child was killed: {status}");
    libc::WEXITSTATUS(status)
}

#[test]
fn a_child_has_a_connection_of_its_own_or_none() {
    let server = Server::start(|_, _| status("404 Not Found", b""));
    let remote = open(&server.url(), unhurried());
    assert_eq!(in_child(&remote), 0, "nobody has used it yet: the child does");
    assert_eq!(remote.get(EntryKind::Blob, &name(1), 9).unwrap(), None, "and the parent still can");
    assert_eq!(in_child(&remote), 1, "it is the parent's");
    assert_eq!(remote.get(EntryKind::Blob, &name(1), 9).unwrap(), None, "which goes on as before");
}
