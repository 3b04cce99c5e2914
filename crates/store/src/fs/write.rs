//! Files in the making, and giving them their names.

use super::Status;
use super::op::{Op, gate, gate_len};
use crate::fork;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use tempfile::NamedTempFile;

/// A file that has no name of its own yet. It is deleted when dropped.
#[derive(Debug)]
pub(crate) struct Temp {
    /// Taken when it gets its name.
    file: Option<NamedTempFile>,
    /// Whose it is to delete.
    process: u64,
}

/// A new, empty file in the folder `tmp`.
pub(crate) fn create_temp(tmp: &Path) -> io::Result<Temp> {
    // Readable for others as far as the umask allows, so that a store can be shared.
    let open = |path: &Path| {
        gate(Op::Create { path })?;
        OpenOptions::new().read(true).write(true).create_new(true).mode(0o644).open(path)
    };
    // Opened by ourselves: the errors of `tempfile` repeat the path.
    let file = tempfile::Builder::new().prefix("").suffix(".tmp").make_in(tmp, open)?;
    let (file, path) = file.into_parts();
    Ok(Temp { file: Some(NamedTempFile::from_parts(file, path)), process: fork::this_process() })
}

/// A new file of these bytes in the folder `tmp`. Its content is durable, its name is not.
pub(crate) fn write_temp(tmp: &Path, bytes: &[u8]) -> io::Result<Temp> {
    let temp = create_temp(tmp)?;
    temp.write_at(0, bytes)?;
    temp.sync()?;
    Ok(temp)
}

impl Temp {
    fn file(&self) -> io::Result<&NamedTempFile> {
        self.file.as_ref().ok_or_else(|| ErrorKind::NotFound.into())
    }

    /// Where it is for now.
    pub(crate) fn path(&self) -> io::Result<&Path> {
        self.file().map(NamedTempFile::path)
    }

    /// What is known of it; it stays so when it gets its name.
    pub(crate) fn status(&self) -> io::Result<Status> {
        let file = self.file()?;
        gate(Op::Stat { path: file.path() })?;
        Ok(Status::of(&file.as_file().metadata()?))
    }

    /// Writes at this place.
    pub(crate) fn write_at(&self, mut offset: u64, mut bytes: &[u8]) -> io::Result<()> {
        let file = self.file()?;
        while !bytes.is_empty() {
            let len = gate_len(Op::Write { path: file.path(), offset, bytes }, bytes.len())?;
            match file.as_file().write_at(bytes.get(..len).unwrap_or_default(), offset) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => {
                    offset = offset.saturating_add(written as u64);
                    bytes = bytes.get(written..).unwrap_or_default();
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Sets its permission bits, whatever the umask.
    pub(crate) fn set_mode(&self, mode: u32) -> io::Result<()> {
        let file = self.file()?;
        gate(Op::SetMode { path: file.path() })?;
        file.as_file().set_permissions(Permissions::from_mode(mode))
    }

    /// Makes its content durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        let file = self.file()?;
        gate(Op::SyncFile { path: file.path() })?;
        file.as_file().sync_all()
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        let Some(file) = self.file.take() else { return };
        if self.process != fork::this_process() || gate(Op::Unlink { path: file.path() }).is_err() {
            // It is the parent's, or as a file that cannot be removed: then it stays, and is swept later.
            let _ = file.into_temp_path().keep();
        }
    }
}

/// Gives a written file its name, in place of whatever file had it.
pub(crate) fn rename(mut temp: Temp, path: &Path) -> io::Result<()> {
    gate(Op::Rename { from: temp.file()?.path(), to: path })?;
    let Some(file) = temp.file.take() else { return Err(ErrorKind::NotFound.into()) };
    let (file, from) = file.into_parts();
    drop(file);
    from.persist(path).map_err(|e| {
        // Its deletion passes the gate as well.
        drop(gate(Op::Unlink { path: &e.path }));
        e.error
    })
}

/// Gives a written file its name, in place of whatever file had it; tells whether none had.
pub(crate) fn rename_over(mut temp: Temp, path: &Path) -> io::Result<bool> {
    gate(Op::RenameNew { from: temp.file()?.path(), to: path })?;
    let Some(file) = temp.file.take() else { return Err(ErrorKind::NotFound.into()) };
    let (file, from) = file.into_parts();
    drop(file);
    let (error, from) = match from.persist_noclobber(path) {
        Ok(()) => return Ok(true),
        Err(e) => (e.error, e.path),
    };
    let replaced = match error.kind() {
        ErrorKind::AlreadyExists => gate(Op::Rename { from: &from, to: path }).map(|()| from),
        _ => {
            drop(gate(Op::Unlink { path: &from }));
            return Err(error);
        }
    };
    replaced?.persist(path).map(|()| false).map_err(|e| {
        drop(gate(Op::Unlink { path: &e.path }));
        e.error
    })
}

/// Gives a written file its name if nothing has it.
pub(crate) fn rename_new(mut temp: Temp, path: &Path) -> io::Result<()> {
    gate(Op::RenameNew { from: temp.file()?.path(), to: path })?;
    let Some(file) = temp.file.take() else { return Err(ErrorKind::NotFound.into()) };
    let (file, from) = file.into_parts();
    drop(file);
    from.persist_noclobber(path).map_err(|e| {
        drop(gate(Op::Unlink { path: &e.path }));
        e.error
    })
}

/// Writes a small file that must be new, durably. Of what fails nothing is left.
pub(crate) fn write_new(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    gate(Op::Create { path })?;
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    let write = || {
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let len = gate_len(Op::Write { path, offset: at as u64, bytes: rest }, rest.len())?;
            match file.write_at(rest.get(..len).unwrap_or_default(), at as u64) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => at = at.saturating_add(written),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        gate(Op::SyncFile { path })?;
        file.sync_all()?;
        super::sync_parent(path)
    };
    write().inspect_err(|_| drop(super::unlink(path)))
}

/// Gives a file that has a name another one, in place of whatever had that.
pub(crate) fn rename_away(from: &Path, to: &Path) -> io::Result<()> {
    gate(Op::Rename { from, to })?;
    fs::rename(from, to)
}

/// Gives a file that has a name another one, if nothing has that; tells whether it did. Whoever removes the old name meanwhile has either
/// removed the file, or finds no such name.
pub(crate) fn rename_back(from: &Path, to: &Path) -> io::Result<bool> {
    use rustix::io::Errno;
    gate(Op::RenameNew { from, to })?;
    match rustix::fs::renameat_with(rustix::fs::CWD, from, rustix::fs::CWD, to, rustix::fs::RenameFlags::NOREPLACE) {
        Ok(()) => return Ok(true),
        Err(Errno::EXIST) => return Ok(false),
        // The file system, or the kernel, has no such renaming.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
        Err(e) => return Err(e.into()),
    }
    // Two names for a moment, where both are of one file: a kill in between leaves one too many, never one too few.
    match fs::hard_link(from, to) {
        Ok(()) => {}
        Err(e) if e.kind() == ErrorKind::AlreadyExists => return Ok(false),
        Err(e) => return Err(e),
    }
    super::unlink(from)?;
    Ok(true)
}

/// Exchanges what two names lead to, in one step; `false` where the file system cannot.
pub(crate) fn exchange(a: &Path, b: &Path) -> io::Result<bool> {
    use rustix::io::Errno;
    gate(Op::Rename { from: a, to: b })?;
    match rustix::fs::renameat_with(rustix::fs::CWD, a, rustix::fs::CWD, b, rustix::fs::RenameFlags::EXCHANGE) {
        Ok(()) => Ok(true),
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => Ok(false),
        Err(e) => Err(e.into()),
    }
}
