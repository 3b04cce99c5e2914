//! Turns among processes: a fixed set of files that are never deleted, each locked by the kernel for as long as its holder lives.
//!
//! What a holder writes into the file is for people who wait. It is not trusted, and nothing is recovered by it: the kernel alone knows
//! who holds a lock, and gives it free when its holder dies.

use super::Purpose;
use crate::fork::{Redeemed, Ticket, enter};
use crate::layout::LOCKS;
use crate::{fs, marker};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

/// There are 64 of them for building and for records each: as many as processes that are likely to build at once, and few enough to stay for
/// ever.
const STRIPES: u8 = 64;
/// The one that imports take their turn by.
const IMPORT: u8 = 2 * STRIPES;
/// Bytes that a holder writes, at the front and always as many, so that nothing of the holder before is left.
const TEXT: usize = 256;

/// The lock file that orders a key.
pub(super) fn stripe(key: &[u8; 32], purpose: Purpose) -> u8 {
    let [first, ..] = key;
    let stripe = first & (STRIPES - 1);
    match purpose {
        Purpose::Build => stripe,
        Purpose::Record => stripe | STRIPES,
        // One at a time, whatever the key.
        Purpose::Import => IMPORT,
    }
}

/// An open lock file. Dropped, the lock is free at once; so it is when the process dies.
#[derive(Debug)]
pub(crate) struct LockFile {
    /// Taken when it is dropped.
    file: Option<fs::Shared>,
    path: PathBuf,
    ticket: Ticket,
    /// It says who holds it.
    is_signed: AtomicBool,
}

impl LockFile {
    /// Opens a lock file, and makes it and its folder where they are not there.
    pub(super) fn open(root: &Path, stripe: u8) -> io::Result<Self> {
        let folder = root.join(LOCKS);
        let path = folder.join(format!("{stripe:02x}"));
        let open = || match fs::open_in_place(&path, true) {
            Err(e) if e.kind() == ErrorKind::NotFound => {
                marker::upgrade(root).map_err(|error| io::Error::other(error.to_string()))?;
                fs::make_folder(&folder)?;
                fs::open_in_place(&path, true)
            }
            result => result,
        };
        Self::entered(&path, open)
    }

    /// Opens a lock file that is none of the keys', and makes it where it is not there.
    pub(crate) fn at(path: &Path) -> io::Result<Self> {
        Self::entered(path, || fs::open_in_place(path, true))
    }

    fn entered(path: &Path, open: impl FnMut() -> io::Result<fs::Shared>) -> io::Result<Self> {
        match enter(open, fs::Shared::descriptor)? {
            Some((file, ticket)) => Ok(Self { file: Some(file), path: path.to_owned(), ticket, is_signed: AtomicBool::new(false) }),
            None => Err(io::Error::other("this process has too many lock files open")),
        }
    }

    /// Whether the open file is this process's own, and not a parent's.
    pub(crate) fn is_ours(&self) -> bool {
        self.ticket.is_ours()
    }

    /// For messages.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn file(&self) -> io::Result<&fs::Shared> {
        // In a child the descriptor is closed, and its number may be another file's.
        self.file.as_ref().filter(|_| self.is_ours()).ok_or_else(|| ErrorKind::NotFound.into())
    }

    /// Takes the lock if nobody has it.
    pub(crate) fn try_lock(&self) -> io::Result<bool> {
        match self.file()?.try_lock() {
            Err(e) if e.kind() == ErrorKind::Interrupted => Ok(false),
            result => result,
        }
    }

    /// Writes who holds the lock, for those who wait. A failure only makes their message poorer.
    pub(crate) fn sign(&self, key: Option<&[u8; 32]>) {
        self.is_signed.store(true, Ordering::Relaxed);
        if let Ok(file) = self.file() {
            sign(file, key);
        }
    }

    /// What the holder wrote; nothing where that cannot be read.
    pub(crate) fn text(&self) -> Vec<u8> {
        self.file().map(text).unwrap_or_default()
    }

    /// Where the lock is certain to hold; empty where that cannot be told.
    pub(crate) fn domain(&self) -> String {
        self.file().map(fs::Shared::lock_domain).unwrap_or_default()
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        let Some(file) = self.file.take() else { return };
        // Another process may have a copy of the descriptor: between a fork of another kind and its exec, or of a fork between this entry's
        // end and the closing. So the lock is given back before either; closing alone would leave it with the copy.
        if self.ticket.is_ours() {
            // A store that is copied somewhere tells nothing of who made it.
            if *self.is_signed.get_mut() {
                unsign(&file);
            }
            let _ = file.unlock();
        }
        match self.ticket.redeem() {
            Redeemed::Open => drop(file),
            Redeemed::Closed => std::mem::forget(file),
        }
    }
}

/// Writes into a lock file who holds it. A failure only makes others' message poorer.
fn sign(file: &fs::Shared, key: Option<&[u8; 32]>) {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let key = key.map_or(String::new(), |key| format!("key {}\n", blake3::Hash::from_bytes(*key).to_hex()));
    let mut text = format!("pid {}\nhost {}\nsince {since}\n{key}", std::process::id(), fs::host_name()).into_bytes();
    text.resize(TEXT, b'\n');
    let _ = file.write_some(0, &text);
}

/// Takes out of a lock file who holds it.
fn unsign(file: &fs::Shared) {
    let _ = file.write_some(0, &[b'\n'; TEXT]);
}

/// What the holder wrote into a lock file; nothing where that cannot be read.
fn text(file: &fs::Shared) -> Vec<u8> {
    let mut text = vec![0; TEXT];
    let read = file.read_some(0, &mut text).unwrap_or(0);
    text.truncate(read);
    text
}

/// What a holder wrote, in words. Anything but what holders write is left out.
pub(crate) fn describe(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let field = |name: &str, fits: fn(char) -> bool, most: usize| {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        (!value.is_empty() && value.len() <= most && value.chars().all(fits)).then_some(value)
    };
    let pid = field("pid", |c| c.is_ascii_digit(), 10);
    let host = field("host", |c| c.is_ascii_alphanumeric() || "-._".contains(c), 64);
    let (Some(pid), Some(host)) = (pid, host) else { return "another process, which has not said who it is".to_owned() };
    let since = field("since", |c| c.is_ascii_digit(), 12).and_then(|since| since.parse().ok()).map(Duration::from_secs);
    let held = since.and_then(|since| SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?.checked_sub(since));
    let held = held.map_or(String::new(), |held| format!(" for {} s", held.as_secs()));
    let key = field("key", |c| c.is_ascii_hexdigit(), 64).and_then(|key| key.get(..12));
    let key = key.map_or(String::new(), |key| format!(", with key {key}"));
    format!("process {pid} on {host}{held}{key}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_signs_and_is_described() {
        let dir = tempfile::tempdir().unwrap();
        let key = [0xab; 32];
        assert_eq!([Purpose::Build, Purpose::Record, Purpose::Import].map(|purpose| stripe(&key, purpose)), [0x2b, 0x6b, 0x80]);
        let holder = LockFile::open(dir.path(), stripe(&key, Purpose::Build)).unwrap();
        assert!(holder.try_lock().unwrap());
        holder.sign(Some(&key));
        let other = LockFile::open(dir.path(), stripe(&key, Purpose::Build)).unwrap();
        assert!(!other.try_lock().unwrap());
        assert_eq!(other.text().len(), TEXT);
        let words = describe(&other.text());
        let start = format!("process {} on {} for ", std::process::id(), fs::host_name());
        assert!(words.starts_with(&start) && words.ends_with(", with key abababababab"), "{words}");
        drop(holder);
        assert!(other.try_lock().unwrap());
        assert_eq!(std::fs::read_dir(dir.path().join(LOCKS)).unwrap().count(), 1);
    }

    #[test]
    fn whatever_stands_in_a_lock_file_makes_a_harmless_message() {
        let unknown = "another process, which has not said who it is";
        for text in [
            &b""[..],
            b"\xff\xfe",
            b"pid 1",
            b"pid x\nhost y\n",
            b"pid 1\nhost a\x1b[31m\n",
            b"pid \nhost a\n",
            b"pid 12345678901\nhost a\n",
        ] {
            assert_eq!(describe(text), unknown, "{text:?}");
        }
        assert_eq!(describe(b"pid 1\nhost a\nsince 999999999999\nkey \xc3\xa9\n"), "process 1 on a");
        assert_eq!(describe(b"pid 1\nhost a\nkey 0123"), "process 1 on a");
    }
}
