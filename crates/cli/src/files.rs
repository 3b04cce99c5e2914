//! Files that commands write.

use crate::output;
use anyhow::{Context, bail};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Most links that lead from one to the next; Linux's own limit.
const MAX_LINKS: usize = 40;

/// Writes a file whole or not at all; what stood there before is replaced and its mode kept. A link stays, and what it leads to is
/// written. A device or a pipe is written as it is.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let old = std::fs::metadata(path).ok();
    // First, because what /dev/stdout leads to may be no path.
    if old.as_ref().is_some_and(|m| !m.is_file()) {
        return std::fs::write(path, bytes).with_context(|| output::path(path));
    }
    let target = target(path).with_context(|| output::path(path))?;
    let old_mode = old.map(|m| m.permissions().mode() & 0o777);
    // A new file would take its place without asking for its permission.
    if old_mode.is_some_and(|mode| mode & 0o222 == 0) {
        bail!("{}: the file is read-only; make it writable, or name another output", output::path(path));
    }
    let write = || -> std::io::Result<()> {
        let folder = target.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // A new file is for others to read too; what the user's mask takes away is taken away.
        let first = std::fs::Permissions::from_mode(if old_mode.is_some() { 0o600 } else { 0o666 });
        let mut file = tempfile::Builder::new().permissions(first).tempfile_in(folder)?;
        file.write_all(bytes)?;
        if let Some(mode) = old_mode {
            file.as_file().set_permissions(std::fs::Permissions::from_mode(mode))?;
        }
        file.as_file().sync_all()?;
        file.persist(&target).map_err(|e| e.error)?;
        Ok(())
    };
    write().map_err(plain).with_context(|| output::path(path))
}

/// An error of a temporary file without its path, which means nothing to whoever named the output.
pub(crate) fn plain(error: std::io::Error) -> std::io::Error {
    match error.to_string().rsplit_once(" at path \"") {
        Some((text, _)) => std::io::Error::new(error.kind(), text.to_owned()),
        None => error,
    }
}

/// Where links lead, whether or not something is there.
fn target(path: &Path) -> anyhow::Result<PathBuf> {
    let mut at = path.to_owned();
    for _ in 0..MAX_LINKS {
        if !at.is_symlink() {
            return Ok(at);
        }
        let next = std::fs::read_link(&at)?;
        // An absolute one replaces the folder.
        at = at.parent().unwrap_or(Path::new("")).join(next);
    }
    bail!("more than {MAX_LINKS} links lead from one to the next")
}

/// Whether both name one file that exists.
pub(crate) fn are_same(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}
