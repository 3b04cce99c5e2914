//! Files that commands write.

use anyhow::Context;
use std::io::Write;
use std::path::Path;

/// Writes a file whole or not at all; what stood there before is replaced. A device or a pipe is written as it is.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let write = || -> std::io::Result<()> {
        if path.exists() && !path.is_file() {
            return std::fs::write(path, bytes);
        }
        // For others to read too; what the user's mask takes away is taken away.
        let permissions = std::fs::Permissions::from_mode(0o666);
        let mut file = tempfile::Builder::new().permissions(permissions).tempfile_in(folder)?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|e| e.error)?;
        Ok(())
    };
    write().with_context(|| path.display().to_string())
}

/// Whether both name one file that exists.
pub(crate) fn are_same(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}
