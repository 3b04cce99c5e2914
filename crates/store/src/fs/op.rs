//! The gate that every call to the file system passes: each is named before it is made, so that a test can list, record and
//! fail each of them. Outside tests it is nothing.

use std::io;
use std::path::Path;

/// A call to the file system that is about to be made.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
#[cfg_attr(not(any(test, feature = "testing")), expect(dead_code, unreachable_pub, reason = "only tests look at it"))]
pub enum Op<'a> {
    /// Opens a file for reading; the same call asks for its kind, size and times.
    Open {
        /// The file.
        path: &'a Path,
    },
    /// Asks what stands under a name.
    Stat {
        /// The name.
        path: &'a Path,
    },
    /// Asks what kind of file system a file is on.
    StatFs {
        /// The file.
        path: &'a Path,
    },
    /// Reads, at this place.
    Read {
        /// The file.
        path: &'a Path,
        /// First byte.
        offset: u64,
        /// Bytes wanted.
        len: usize,
    },
    /// Maps a file.
    Map {
        /// The file.
        path: &'a Path,
    },
    /// Creates a file that nobody else has, or opens one of the files that are written in place: locks and stamps.
    Create {
        /// The file.
        path: &'a Path,
    },
    /// Writes, at this place.
    Write {
        /// The file.
        path: &'a Path,
        /// First byte.
        offset: u64,
        /// What is written.
        bytes: &'a [u8],
    },
    /// Makes the content of a file durable.
    SyncFile {
        /// The file.
        path: &'a Path,
    },
    /// Makes the names in a folder durable.
    SyncFolder {
        /// The folder.
        path: &'a Path,
    },
    /// Gives a file another name, in place of whatever has it.
    Rename {
        /// The old name.
        from: &'a Path,
        /// The new name.
        to: &'a Path,
    },
    /// Gives a file another name if nothing has it.
    RenameNew {
        /// The old name.
        from: &'a Path,
        /// The new name.
        to: &'a Path,
    },
    /// Removes a name.
    Unlink {
        /// The name.
        path: &'a Path,
    },
    /// Makes a folder.
    MakeFolder {
        /// The folder.
        path: &'a Path,
    },
    /// Lists a folder.
    List {
        /// The folder.
        path: &'a Path,
    },
    /// Asks for a lock on an open file, without waiting.
    Lock {
        /// The file.
        path: &'a Path,
    },
    /// Sets the time of last change to now.
    Touch {
        /// The file.
        path: &'a Path,
    },
    /// Sets the permission bits of a file that has no name of its own yet.
    SetMode {
        /// The file.
        path: &'a Path,
    },
}

#[cfg(any(test, feature = "testing"))]
impl Op<'_> {
    /// Its name, which does not change between releases.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Open { .. } => "open",
            Self::Stat { .. } => "stat",
            Self::StatFs { .. } => "statfs",
            Self::Read { .. } => "read",
            Self::Map { .. } => "map",
            Self::Create { .. } => "create",
            Self::Write { .. } => "write",
            Self::SyncFile { .. } => "sync-file",
            Self::SyncFolder { .. } => "sync-folder",
            Self::Rename { .. } => "rename",
            Self::RenameNew { .. } => "rename-new",
            Self::Unlink { .. } => "unlink",
            Self::MakeFolder { .. } => "make-folder",
            Self::List { .. } => "list",
            Self::Lock { .. } => "lock",
            Self::Touch { .. } => "touch",
            Self::SetMode { .. } => "set-mode",
        }
    }

    /// The name that it is about; of a renaming, the old one.
    pub const fn path(&self) -> &Path {
        match self {
            Self::Open { path }
            | Self::Stat { path }
            | Self::StatFs { path }
            | Self::Read { path, .. }
            | Self::Map { path }
            | Self::Create { path }
            | Self::Write { path, .. }
            | Self::SyncFile { path }
            | Self::SyncFolder { path }
            | Self::Unlink { path }
            | Self::MakeFolder { path }
            | Self::List { path }
            | Self::Lock { path }
            | Self::Touch { path }
            | Self::SetMode { path } => path,
            Self::Rename { from, .. } | Self::RenameNew { from, .. } => from,
        }
    }
}

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(any(test, feature = "testing")), expect(dead_code, unreachable_pub, reason = "only tests give others"))]
pub enum Verdict {
    /// It is made.
    Go,
    /// It is not made, and fails with this `errno`.
    Fail(i32),
    /// A read or a write does no more than this many bytes, at least one; any other call is made.
    Short(usize),
}

/// Asks whether a call may be made.
#[inline]
pub(super) fn gate(op: Op<'_>) -> io::Result<()> {
    match ask(op) {
        Verdict::Fail(errno) => Err(io::Error::from_raw_os_error(errno)),
        Verdict::Go | Verdict::Short(_) => Ok(()),
    }
}

/// Asks how many of `len` bytes a call may move.
#[inline]
pub(super) fn gate_len(op: Op<'_>, len: usize) -> io::Result<usize> {
    match ask(op) {
        Verdict::Fail(errno) => Err(io::Error::from_raw_os_error(errno)),
        Verdict::Short(most) => Ok(len.min(most.max(1))),
        Verdict::Go => Ok(len),
    }
}

#[cfg(not(any(test, feature = "testing")))]
#[inline(always)]
fn ask(_: Op<'_>) -> Verdict {
    Verdict::Go
}

#[cfg(any(test, feature = "testing"))]
pub use hooked::{Hook, with_hook};

#[cfg(any(test, feature = "testing"))]
use hooked::ask;

#[cfg(any(test, feature = "testing"))]
mod hooked {
    use super::{Op, Verdict};
    use std::cell::RefCell;

    /// Judges each call before it is made.
    pub type Hook<'h> = dyn FnMut(Op<'_>) -> Verdict + 'h;

    thread_local! {
        static HOOK: RefCell<Option<Box<Hook<'static>>>> = const { RefCell::new(None) };
    }

    /// Runs `body` with every call of this thread judged by `hook`, which may not use a store itself.
    pub fn with_hook<T>(hook: impl FnMut(Op<'_>) -> Verdict + 'static, body: impl FnOnce() -> T) -> T {
        struct Restore(Option<Box<Hook<'static>>>);
        impl Drop for Restore {
            fn drop(&mut self) {
                let earlier = self.0.take();
                let _ = HOOK.try_with(|hook| hook.replace(earlier));
            }
        }
        let _restore = Restore(HOOK.with(|slot| slot.replace(Some(Box::new(hook)))));
        body()
    }

    pub(super) fn ask(op: Op<'_>) -> Verdict {
        let judged = HOOK.try_with(|hook| hook.try_borrow_mut().ok()?.as_mut().map(|hook| hook(op)));
        judged.ok().flatten().unwrap_or(Verdict::Go)
    }
}
