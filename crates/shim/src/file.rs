//! Files: mapped to be read, hashed piece by piece, written beside their place and renamed into it.

use crate::error::{At, ShimError};
use std::fs::{File, Metadata, Permissions};
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// What unfinished files begin with. The dot keeps `ldconfig` away from them.
pub const UNFINISHED: &str = ".hipplan-split-";

/// Whether a path leads to a regular file. Asked before it is opened: opening a pipe may wait for ever.
///
/// # Errors
/// It is something else, or cannot be looked at.
pub fn require_regular(path: &Path) -> Result<Metadata, ShimError> {
    let metadata = std::fs::metadata(path).at(path, "cannot be opened")?;
    if !metadata.is_file() {
        return Err(io::Error::from(io::ErrorKind::InvalidInput)).at(path, "is no regular file");
    }
    Ok(metadata)
}

/// A file that can be read as bytes and as a file. Only the pages that are looked at take memory.
#[derive(Debug)]
pub struct Mapped {
    path: PathBuf,
    file: File,
    map: memmap2::Mmap,
}

impl Mapped {
    /// Opens a regular file.
    ///
    /// # Errors
    /// If it cannot be opened or is no regular file.
    pub fn open(path: &Path) -> Result<Self, ShimError> {
        require_regular(path)?;
        let file = File::open(path).at(path, "cannot be opened")?;
        // SAFETY: nobody may shorten a library that processes can have mapped, this one included: package managers, linkers and this crate
        // write a new file and rename it. Bytes that change meanwhile give wrong tables, and every table is checked.
        let map = unsafe { memmap2::Mmap::map(&file) }.at(path, "cannot be mapped")?;
        Ok(Self { path: path.to_owned(), file, map })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// The open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// What the system knows of it.
    ///
    /// # Errors
    /// If it cannot be asked.
    pub fn metadata(&self) -> Result<Metadata, ShimError> {
        self.file.metadata().at(&self.path, "cannot be read")
    }

    /// The digest of a part of it, read and not mapped, so that it takes no memory.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn digest(&self, range: Range<u64>) -> Result<blake3::Hash, ShimError> {
        let mut hasher = blake3::Hasher::new();
        let mut piece = vec![0; 1 << 20];
        let mut at = range.start;
        while at < range.end {
            let size = usize::try_from(range.end - at).unwrap_or(usize::MAX).min(piece.len());
            self.file.read_exact_at(&mut piece[..size], at).at(&self.path, "cannot be read")?;
            hasher.update(&piece[..size]);
            at += size as u64;
        }
        Ok(hasher.finalize())
    }

    /// The digest of the whole.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn digest_all(&self) -> Result<blake3::Hash, ShimError> {
        self.digest(0..self.map.len() as u64)
    }
}

/// Size and digest of a file.
///
/// # Errors
/// If it cannot be read.
pub fn digest(path: &Path) -> Result<(u64, blake3::Hash), ShimError> {
    let mut file = File::open(path).at(path, "cannot be opened")?;
    let mut hasher = blake3::Hasher::new();
    let mut piece = vec![0; 1 << 20];
    let mut size = 0;
    loop {
        let read = file.read(&mut piece).at(path, "cannot be read")?;
        if read == 0 {
            return Ok((size, hasher.finalize()));
        }
        hasher.update(&piece[..read]);
        size += read as u64;
    }
}

/// A file that is written beside its place, flushed, and then takes its place at once.
#[derive(Debug)]
pub struct Staged {
    file: tempfile::NamedTempFile,
    target: PathBuf,
}

impl Staged {
    /// A new empty file for this place.
    ///
    /// # Errors
    /// If its folder does not let it be made.
    pub fn new(target: &Path) -> Result<Self, ShimError> {
        let folder = target.parent().unwrap_or(Path::new("."));
        let file = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(folder).at(folder, "no file can be made here")?;
        Ok(Self { file, target: target.to_owned() })
    }

    /// With these bytes.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn with(target: &Path, bytes: &[u8]) -> Result<Self, ShimError> {
        let staged = Self::new(target)?;
        staged.file().write_all_at(bytes, 0).at(target, "cannot be written")?;
        Ok(staged)
    }

    /// With the bytes of another file, copied in the kernel.
    ///
    /// # Errors
    /// If they cannot be copied.
    pub fn copy_of(target: &Path, from: &Path) -> Result<Self, ShimError> {
        let mut staged = Self::new(target)?;
        let mut source = File::open(from).at(from, "cannot be opened")?;
        io::copy(&mut source, staged.file.as_file_mut()).at(from, "cannot be copied")?;
        Ok(staged)
    }

    /// The file.
    pub fn file(&self) -> &File {
        self.file.as_file()
    }

    /// Where it is until it is committed.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Size and digest.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn digest(&self) -> Result<(u64, blake3::Hash), ShimError> {
        digest(self.file.path())
    }

    /// Takes its place, with mode, owner and group like those of `like`. Owner and group only if the system allows it.
    ///
    /// # Errors
    /// If it cannot be flushed or renamed.
    pub fn commit(self, like: Option<&Metadata>) -> Result<(), ShimError> {
        let mode = like.map_or(0o644, |m| m.permissions().mode() & 0o777);
        let target = self.target;
        if let Some(like) =
            like.filter(|m| std::fs::metadata(self.file.path()).is_ok_and(|own| (own.uid(), own.gid()) != (m.uid(), m.gid())))
        {
            // Only root may; for everybody else the file is theirs.
            let _ = std::os::unix::fs::fchown(self.file.as_file(), Some(like.uid()), Some(like.gid()));
        }
        self.file.as_file().set_permissions(Permissions::from_mode(mode)).at(&target, "its mode cannot be set")?;
        self.file.as_file().sync_all().at(&target, "cannot be flushed")?;
        self.file.persist(&target).map_err(|e| e.error).at(&target, "cannot be put in place")?;
        Ok(())
    }
}

/// Makes a symbolic link, in the place of another if there is one.
pub(crate) fn link(target: &Path, at: &Path) -> Result<(), ShimError> {
    if std::fs::read_link(at).is_ok_and(|t| t == target) {
        return Ok(());
    }
    let folder = at.parent().unwrap_or(Path::new("."));
    let make = |path: &Path| std::os::unix::fs::symlink(target, path);
    let staged = tempfile::Builder::new().prefix(UNFINISHED).make_in(folder, make).at(at, "no link can be made")?;
    staged.persist(at).map_err(|e| e.error).at(at, "the link cannot be put in place")?;
    Ok(())
}

/// Flushes the names of a folder.
pub(crate) fn sync_folder(folder: &Path) -> Result<(), ShimError> {
    File::open(folder).and_then(|f| f.sync_all()).at(folder, "cannot be flushed")
}

/// Removes a file, if it is there.
pub(crate) fn remove(path: &Path) -> Result<bool, ShimError> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        result => result.map(|()| true).at(path, "cannot be removed"),
    }
}

/// Removes what killed commands left unfinished.
pub(crate) fn remove_unfinished(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(UNFINISHED.as_bytes()) {
            // It is in nobody's way.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Holds a folder, so that no other command changes the split in it.
#[derive(Debug)]
pub struct Lock {
    folder: File,
}

impl Lock {
    /// Takes it.
    ///
    /// # Errors
    /// If another command has it, or the folder cannot be opened.
    pub fn take(folder: &Path) -> Result<Self, ShimError> {
        let file = File::open(folder).at(folder, "cannot be opened")?;
        match file.try_lock() {
            Ok(()) => Ok(Self { folder: file }),
            Err(std::fs::TryLockError::WouldBlock) => Err(ShimError::Busy { path: folder.to_owned() }),
            Err(std::fs::TryLockError::Error(source)) => Err(source).at(folder, "cannot be locked"),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing is not enough: a child of another thread that has not yet become another program has the file open too.
        let _ = self.folder.unlock();
    }
}
