//! Every call to the file system that a store makes. Nothing else in this crate touches `std::fs`, so this is the one place
//! in which faults can be injected and operations recorded.
//!
//! Nothing here follows a symbolic link in the last component of a path, blocks on a pipe, or opens a device.

use hipplan_serialize::AlignedBytes;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

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
            Self::Other("a symbolic link")
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

/// A regular file, open for reading.
#[derive(Debug)]
pub(crate) struct OpenFile {
    file: File,
    size: u64,
}

/// Opens a regular file; `Ok(Err(kind))` when something else stands there.
pub(crate) fn open(path: &Path) -> io::Result<Result<OpenFile, Kind>> {
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path);
    let file = match opened {
        Ok(file) => file,
        // A symbolic link (ELOOP) or a socket (ENXIO) cannot be opened this way; what stands there says it better.
        Err(e) if e.kind() != ErrorKind::NotFound => match kind(path) {
            Ok(kind @ Kind::Other(_)) => return Ok(Err(kind)),
            _ => return Err(e),
        },
        Err(e) => return Err(e),
    };
    match Kind::of(&file.metadata()?) {
        Kind::File { size } => Ok(Ok(OpenFile { file, size })),
        other => Ok(Err(other)),
    }
}

impl OpenFile {
    /// Size when it was opened.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// All bytes that were there at opening. The caller has checked [`size`](Self::size) against a limit.
    pub(crate) fn read(self) -> io::Result<AlignedBytes> {
        let len = usize::try_from(self.size).map_err(|_| ErrorKind::FileTooLarge)?;
        let mut bytes = AlignedBytes::with_capacity(len);
        bytes.resize(len, 0);
        (&self.file).read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// BLAKE3 of the file, read piece by piece.
    pub(crate) fn hash(self) -> io::Result<blake3::Hash> {
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(self.file.take(self.size))?;
        Ok(hasher.finalize())
    }

    /// Whether it holds exactly these bytes.
    pub(crate) fn holds(&self, expected: &[u8]) -> io::Result<bool> {
        if self.size != expected.len() as u64 {
            return Ok(false);
        }
        let mut buffer = vec![0; expected.len().min(1 << 16)];
        for piece in expected.chunks(1 << 16) {
            let found = buffer.get_mut(..piece.len()).unwrap_or_default();
            match (&self.file).read_exact(found) {
                Ok(()) if found == piece => {}
                Ok(()) => return Ok(false),
                Err(e) if e.kind() == ErrorKind::UnexpectedEof => return Ok(false),
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }

    /// Makes its content durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }
}

/// What stands under a name; a link is not followed.
pub(crate) fn kind(path: &Path) -> io::Result<Kind> {
    fs::symlink_metadata(path).map(|meta| Kind::of(&meta))
}

/// A written file that has no name of its own yet. It is deleted when dropped.
#[derive(Debug)]
pub(crate) struct Temp(NamedTempFile);

/// A new file of these bytes in the folder `tmp`. Its content is durable, its name is not.
pub(crate) fn write_temp(tmp: &Path, bytes: &[u8]) -> io::Result<Temp> {
    // Readable for others as far as the umask allows, so that a store can be shared.
    let open = |path: &Path| OpenOptions::new().read(true).write(true).create_new(true).mode(0o644).open(path);
    // Opened and written by ourselves: the errors of `tempfile` repeat the path.
    let file = tempfile::Builder::new().prefix("").suffix(".tmp").make_in(tmp, open)?;
    file.as_file().write_all(bytes)?;
    file.as_file().sync_all()?;
    Ok(Temp(file))
}

/// Gives a written file its name, in place of whatever file had it.
pub(crate) fn rename(temp: Temp, path: &Path) -> io::Result<()> {
    temp.0.persist(path).map(drop).map_err(|e| e.error)
}

/// Gives a written file its name if nothing has it.
pub(crate) fn rename_new(temp: Temp, path: &Path) -> io::Result<()> {
    temp.0.persist_noclobber(path).map(drop).map_err(|e| e.error)
}

/// Makes the names in a folder durable. File systems that cannot say so are taken to need no saying.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    match File::open(path)?.sync_all() {
        Err(e) if matches!(e.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => Ok(()),
        result => result,
    }
}

/// Makes a folder whose parent exists; tells whether it is new.
pub(crate) fn make_folder(path: &Path) -> io::Result<bool> {
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
    match fs::metadata(path) {
        Ok(meta) if meta.is_dir() => return Ok(()),
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
    let mut names = fs::read_dir(path)?.map(|entry| entry.map(|e| e.file_name())).collect::<io::Result<Vec<_>>>()?;
    names.sort_unstable();
    Ok(names)
}

/// A path that no later change of the working folder moves.
pub(crate) fn absolute(path: &Path) -> io::Result<PathBuf> {
    std::path::absolute(path)
}
