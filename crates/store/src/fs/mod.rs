//! Every call to the file system that a store makes. Nothing else in this crate touches `std::fs`, and every call here passes
//! the gate of [`op`]: so this is the one place in which faults are injected and operations recorded. What `/proc` says of the kernel is no
//! part of that.
//!
//! No file is opened or looked at through a symbolic link in the last component of its path, but for the path that a caller named; nothing
//! blocks on a pipe or opens a device. Folders that are listed, or whose names are synced, may be links: the root of a store may be one. Whether
//! those below it are is asked by whoever it matters to.

mod access;
mod lock;
mod map;
mod op;
mod probe;
mod write;

pub(crate) use access::{make_private_folder, may_write, user};
pub(crate) use lock::host_name;
pub(crate) use map::{Map, is_local};
#[cfg(any(test, feature = "testing"))]
pub use op::{Hook, Op, Verdict, with_hook};
pub(crate) use probe::{change_byte, cut, file_system, remove_tree, set_changed, syncs_folders};
pub(crate) use write::{Temp, create_temp, exchange, rename, rename_away, rename_back, rename_new, rename_over, write_new, write_temp};

use crate::fork;
use hipplan_serialize::AlignedBytes;
#[cfg(not(any(test, feature = "testing")))]
use op::Op;
use op::{gate, gate_len};
use rustix::fs::RawDir;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Bytes that are read in one piece where a file is not read whole: they stay in the processor's cache until they are hashed.
pub(crate) const PIECE: usize = 1 << 14;

/// A symbolic link, in words.
pub(crate) const LINK: &str = "a symbolic link";

/// What stands under a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    File { size: u64 },
    Folder,
    Other(&'static str),
}

impl Kind {
    fn of(meta: &fs::Metadata) -> Self {
        let kind = meta.file_type();
        if kind.is_file() {
            Self::File { size: meta.len() }
        } else if kind.is_dir() {
            Self::Folder
        } else if kind.is_symlink() {
            Self::Other(LINK)
        } else {
            Self::Other("a pipe, socket or device")
        }
    }

    /// In words.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::File { .. } => "a file",
            Self::Folder => "a folder",
            Self::Other(name) => name,
        }
    }
}

/// Which file it is, whatever its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Inode {
    device: u64,
    number: u64,
}

/// What is known of a name without opening it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Status {
    pub(crate) kind: Kind,
    pub(crate) inode: Inode,
    /// When it was made, where the file system knows: numbers of inodes are used again.
    pub(crate) born: Option<SystemTime>,
    /// Time of last change: the stamp of last use of a file of the store, for none is ever changed.
    pub(crate) changed: SystemTime,
    /// When it last got a name, or anything else was done to it but reading.
    pub(crate) moved: SystemTime,
    /// User that it belongs to.
    pub(crate) owner: u32,
    /// Permission bits.
    pub(crate) mode: u32,
}

impl Status {
    fn of(meta: &fs::Metadata) -> Self {
        Self {
            kind: Kind::of(meta),
            inode: Inode { device: meta.dev(), number: meta.ino() },
            born: meta.created().ok(),
            changed: meta.modified().unwrap_or(SystemTime::UNIX_EPOCH),
            moved: status_changed(meta),
            owner: meta.uid(),
            mode: meta.mode() & 0o7777,
        }
    }
}

/// The time of the last change of anything about a file, its names among it.
fn status_changed(meta: &fs::Metadata) -> SystemTime {
    let seconds = Duration::from_secs(u64::try_from(meta.ctime()).unwrap_or(0));
    let nanos = Duration::from_nanos(u64::try_from(meta.ctime_nsec()).unwrap_or(0));
    SystemTime::UNIX_EPOCH.checked_add(seconds.saturating_add(nanos)).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// A regular file, open for reading.
#[derive(Debug)]
pub(crate) struct OpenFile {
    file: File,
    path: PathBuf,
    size: u64,
    status: Status,
}

/// Whether a small file is just these bytes, found out by as few calls as can be. Where it is not, that may have any reason.
pub(crate) fn is_just(path: &Path, expected: &[u8]) -> bool {
    let mut buffer = [0; 64];
    let opened = gate(Op::Open { path }).and_then(|()| to_read().open(path));
    let read = opened.and_then(|file| {
        let len = gate_len(Op::Read { path, offset: 0, len: buffer.len() }, buffer.len())?;
        file.read_at(buffer.get_mut(..len).unwrap_or_default(), 0)
    });
    // What fills the buffer may be longer.
    read.is_ok_and(|len| len < buffer.len() && buffer.get(..len) == Some(expected))
}

/// For what may be read: no link, and no pipe that somebody would have to write to.
fn to_read() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    options
}

/// Opens a regular file; `Ok(Err(kind))` when something else stands there. It may be shared with other threads.
pub(crate) fn open(path: &Path) -> io::Result<Result<OpenFile, Kind>> {
    gate(Op::Open { path })?;
    let file = match to_read().open(path) {
        Ok(file) => file,
        // A symbolic link (ELOOP) or a socket (ENXIO) cannot be opened this way; what stands there says it better.
        Err(e) if e.kind() != ErrorKind::NotFound => match kind(path) {
            Ok(kind @ Kind::Other(_)) => return Ok(Err(kind)),
            _ => return Err(e),
        },
        Err(e) => return Err(e),
    };
    gate(Op::Stat { path })?;
    let status = Status::of(&file.metadata()?);
    fork::settle();
    match status.kind {
        Kind::File { size } => Ok(Ok(OpenFile { file, path: path.to_owned(), size, status })),
        other => Ok(Err(other)),
    }
}

impl OpenFile {
    /// Size when it was opened.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// What was known of it when it was opened.
    pub(crate) fn status(&self) -> &Status {
        &self.status
    }

    /// All bytes that were there at opening. The caller has checked [`size`](Self::size) against a limit.
    pub(crate) fn read(&self) -> io::Result<AlignedBytes> {
        self.read_part(0, self.size)
    }

    /// These bytes. The caller has checked `len` against a limit.
    pub(crate) fn read_part(&self, offset: u64, len: u64) -> io::Result<AlignedBytes> {
        let len = usize::try_from(len).map_err(|_| ErrorKind::FileTooLarge)?;
        let mut bytes = AlignedBytes::with_capacity(len);
        bytes.resize(len, 0);
        self.read_at(offset, &mut bytes)?;
        Ok(bytes)
    }

    /// Fills the buffer from this place. A file that ends before is an error.
    pub(crate) fn read_at(&self, mut offset: u64, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            let len = gate_len(Op::Read { path: &self.path, offset, len: buffer.len() }, buffer.len())?;
            let (piece, _) = buffer.split_at_mut_checked(len).ok_or(ErrorKind::InvalidInput)?;
            match self.file.read_at(piece, offset) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(read) => {
                    offset = offset.saturating_add(read as u64);
                    buffer = buffer.get_mut(read..).unwrap_or_default();
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// BLAKE3 of these bytes, read piece by piece into one small buffer.
    pub(crate) fn hash_part(&self, offset: u64, len: u64) -> io::Result<blake3::Hash> {
        let mut hasher = blake3::Hasher::new();
        self.pieces(offset, len, |piece| {
            hasher.update(piece);
            true
        })?;
        Ok(hasher.finalize())
    }

    /// BLAKE3 of the file, read piece by piece.
    pub(crate) fn hash(&self) -> io::Result<blake3::Hash> {
        self.hash_part(0, self.size)
    }

    /// Hands these bytes out piece by piece, as long as `take` wants more.
    pub(crate) fn pieces(&self, mut offset: u64, len: u64, mut take: impl FnMut(&[u8]) -> bool) -> io::Result<()> {
        let mut left = len;
        let mut buffer = [0; PIECE];
        while left > 0 {
            let len = usize::try_from(left).map_or(PIECE, |left| left.min(PIECE));
            let piece = buffer.get_mut(..len).unwrap_or_default();
            self.read_at(offset, piece)?;
            if !take(piece) {
                break;
            }
            offset = offset.saturating_add(len as u64);
            left = left.saturating_sub(len as u64);
        }
        Ok(())
    }

    /// Whether it holds exactly these bytes.
    pub(crate) fn holds(&self, expected: &[u8]) -> io::Result<bool> {
        Ok(self.size == expected.len() as u64 && self.holds_at(0, expected)?)
    }

    /// Whether these bytes stand at this place.
    pub(crate) fn holds_at(&self, offset: u64, mut expected: &[u8]) -> io::Result<bool> {
        let mut same = true;
        let compared = self.pieces(offset, expected.len() as u64, |piece| {
            let (first, rest) = expected.split_at_checked(piece.len()).unwrap_or_default();
            expected = rest;
            same = first == piece;
            same
        });
        match compared {
            Err(e) if e.kind() == ErrorKind::UnexpectedEof => Ok(false),
            Err(e) => Err(e),
            Ok(()) => Ok(same),
        }
    }

    /// Makes its content durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        gate(Op::SyncFile { path: &self.path })?;
        self.file.sync_all()
    }

    /// Sets its time of last change to now. Its owner may do so whatever the permissions of the folder.
    pub(crate) fn touch(&self) -> io::Result<()> {
        gate(Op::Touch { path: &self.path })?;
        self.file.set_modified(SystemTime::now())
    }

    /// Sets its times to now by the clock of the file system, which all machines have in common; it may be coarser than theirs.
    pub(crate) fn renew(&self) -> io::Result<()> {
        gate(Op::Touch { path: &self.path })?;
        let now = rustix::fs::Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
        rustix::fs::futimens(&self.file, &rustix::fs::Timestamps { last_access: now, last_modification: now })?;
        Ok(())
    }
}

/// What stands under a name; a link is not followed.
pub(crate) fn kind(path: &Path) -> io::Result<Kind> {
    status(path).map(|status| status.kind)
}

/// What is known of a name; a link is not followed.
pub(crate) fn status(path: &Path) -> io::Result<Status> {
    gate(Op::Stat { path })?;
    fs::symlink_metadata(path).map(|meta| Status::of(&meta))
}

/// As [`status`], which a network file system may answer from what it knew a moment ago; opening asks the server. Where the thing cannot be
/// opened, it is that answer after all.
pub(crate) fn status_anew(path: &Path) -> io::Result<Status> {
    match open(path) {
        Ok(Ok(file)) => Ok(file.status),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Err(e),
        Ok(Err(_)) | Err(_) => status(path),
    }
}

/// What is known of the thing that a name leads to.
pub(crate) fn status_followed(path: &Path) -> io::Result<Status> {
    gate(Op::Stat { path })?;
    fs::metadata(path).map(|meta| Status::of(&meta))
}

/// Opens a folder, or a link to one, and nothing else: a pipe of its name is not waited for.
fn open_folder(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NONBLOCK).open(path)
}

/// Makes the names in a folder durable. File systems that cannot say so are taken to need no saying.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    gate(Op::SyncFolder { path })?;
    match open_folder(path)?.sync_all() {
        Err(e) if matches!(e.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => Ok(()),
        result => result,
    }
}

/// Makes a folder whose parent exists; tells whether it is new.
pub(crate) fn make_folder(path: &Path) -> io::Result<bool> {
    gate(Op::MakeFolder { path })?;
    match fs::create_dir(path) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == ErrorKind::AlreadyExists => match kind(path)? {
            Kind::Folder => Ok(false),
            _ => Err(ErrorKind::NotADirectory.into()),
        },
        Err(e) => Err(e),
    }
}

/// Makes a folder and all above it, each durable; links among those above are followed.
pub(crate) fn make_folders(path: &Path) -> io::Result<()> {
    match status_followed(path) {
        Ok(status) if status.kind == Kind::Folder => return Ok(()),
        Ok(_) => return Err(ErrorKind::NotADirectory.into()),
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        Err(e) => return Err(e),
    }
    let parent = path.parent().ok_or(ErrorKind::NotFound)?;
    make_folders(parent)?;
    make_folder(path)?;
    sync_parent(path)
}

/// Makes the name of a folder durable in the folder above it, where this user may.
pub(crate) fn sync_parent(path: &Path) -> io::Result<()> {
    match path.parent().map(sync_folder) {
        Some(Err(e)) if e.kind() != ErrorKind::PermissionDenied => Err(e),
        _ => Ok(()),
    }
}

/// The names in a folder, sorted by their bytes.
pub(crate) fn list(path: &Path) -> io::Result<Vec<OsString>> {
    gate(Op::List { path })?;
    names_in::<{ 16 << 10 }>(&open_folder(path)?, |_| true)
}

/// What is known of a folder of few names, and then those that are wanted, sorted by their bytes. It must not be a link.
pub(crate) fn list_with_status(path: &Path, is_wanted: impl Fn(&OsStr) -> bool) -> io::Result<(Status, Vec<OsString>)> {
    gate(Op::List { path })?;
    let flags = libc::O_DIRECTORY | libc::O_NONBLOCK | libc::O_NOFOLLOW;
    let folder = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let status = Status::of(&folder.metadata()?);
    names_in::<{ 1 << 10 }>(&folder, is_wanted).map(|names| (status, names))
}

/// Read into a buffer of our own: a small one costs nothing where a process is new, and has touched little memory so far.
fn names_in<const BYTES: usize>(folder: &File, is_wanted: impl Fn(&OsStr) -> bool) -> io::Result<Vec<OsString>> {
    let mut buffer = [const { MaybeUninit::uninit() }; BYTES];
    let mut entries = RawDir::new(folder, &mut buffer);
    let mut names = Vec::with_capacity(8);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." && is_wanted(name) {
            names.push(name.to_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Removes a file's name; tells whether there was one.
pub(crate) fn unlink(path: &Path) -> io::Result<bool> {
    gate(Op::Unlink { path })?;
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}

/// A file that is written in place: a lock, or stamps. What it holds is a hint and is never trusted.
#[derive(Debug)]
pub(crate) struct Shared {
    file: File,
    path: PathBuf,
}

/// Opens a file that is written in place, and creates it if it is not there and `create` says so. It may be shared with other threads.
pub(crate) fn open_shared(path: &Path, create: bool) -> io::Result<Shared> {
    let file = open_in_place(path, create)?;
    fork::settle();
    Ok(file)
}

/// The same, to be shared with other threads by [`fork::enter`] alone.
pub(crate) fn open_in_place(path: &Path, create: bool) -> io::Result<Shared> {
    gate(Op::Create { path })?;
    // Others may lock and stamp it as far as the umask allows.
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(create).truncate(false).mode(0o666).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = options.open(path)?;
    gate(Op::Stat { path })?;
    match Kind::of(&file.metadata()?) {
        Kind::File { .. } => Ok(Shared { file, path: path.to_owned() }),
        _ => Err(ErrorKind::InvalidInput.into()),
    }
}

impl Shared {
    /// Takes the kernel's lock on it if nobody else has it; `false` when somebody has.
    pub(crate) fn try_lock(&self) -> io::Result<bool> {
        gate(Op::Lock { path: &self.path })?;
        match self.file.try_lock() {
            Ok(()) => Ok(true),
            Err(fs::TryLockError::WouldBlock) => Ok(false),
            Err(fs::TryLockError::Error(e)) => Err(e),
        }
    }

    /// Up to this many bytes from a place; fewer where it ends.
    pub(crate) fn read_some(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let len = gate_len(Op::Read { path: &self.path, offset, len: buffer.len() }, buffer.len())?;
        self.file.read_at(buffer.get_mut(..len).unwrap_or_default(), offset)
    }

    /// Writes a hint, and tells how much of it. What a short write leaves is a worse hint.
    pub(crate) fn write_some(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let len = gate_len(Op::Write { path: &self.path, offset, bytes }, bytes.len())?;
        self.file.write_at(bytes.get(..len).unwrap_or_default(), offset)
    }
}

/// Where a path leads, all links followed. What is there must be there.
pub(crate) fn resolved(path: &Path) -> io::Result<PathBuf> {
    gate(Op::Stat { path })?;
    fs::canonicalize(path)
}

/// A path that no later change of the working folder moves.
pub(crate) fn absolute(path: &Path) -> io::Result<PathBuf> {
    // Most are one already, which takes a new process less code to see than to make.
    if is_plain(path) { Ok(path.to_owned()) } else { std::path::absolute(path) }
}

/// Whether a path is absolute, and no component of it is empty or the folder itself.
fn is_plain(path: &Path) -> bool {
    let Some(below) = path.as_os_str().as_bytes().strip_prefix(b"/") else { return false };
    below.split(|&byte| byte == b'/').all(|name| !matches!(name, b"" | b"."))
}

#[cfg(test)]
mod tests;
