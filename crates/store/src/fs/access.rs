//! What this user may do, and a folder that is this user's alone.

use super::op::{Op, gate};
use super::{Kind, kind};
use rustix::fs::{Access, AtFlags, CWD};
use std::fs::DirBuilder;
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// The user that this process acts as.
pub(crate) fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Whether this user may make files in a folder; an error says why not. Creates nothing.
///
/// It is the system's guess. What it does not know (a quota, a server with a will of its own) is found out by the first put.
pub(crate) fn may_write(folder: &Path) -> io::Result<()> {
    gate(Op::Stat { path: folder })?;
    match rustix::fs::accessat(CWD, folder, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS) {
        // An old kernel that cannot answer for the acting user: writing answers.
        Ok(()) | Err(rustix::io::Errno::NOSYS | rustix::io::Errno::INVAL) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

/// Makes a folder that only its user may enter, unless a folder stands there; whose that is, the caller has to ask.
pub(crate) fn make_private_folder(path: &Path) -> io::Result<()> {
    gate(Op::MakeFolder { path })?;
    match DirBuilder::new().mode(0o700).create(path) {
        Err(e) if e.kind() == ErrorKind::AlreadyExists => match kind(path)? {
            Kind::Folder => Ok(()),
            _ => Err(ErrorKind::NotADirectory.into()),
        },
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_private_folder_is_the_users_own_and_is_not_made_twice() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("private");
        make_private_folder(&path).unwrap();
        make_private_folder(&path).unwrap();
        let meta = std::fs::symlink_metadata(&path).unwrap();
        assert_eq!((meta.mode() & 0o7777, meta.uid()), (0o700, user()));
        assert!(may_write(&path).is_ok());
        std::fs::write(dir.path().join("file"), "").unwrap();
        let error = make_private_folder(&dir.path().join("file")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotADirectory);
        assert!(may_write(&dir.path().join("none")).is_err());
        // Nothing is made in a file, and root is told so as well.
        assert!(may_write(&dir.path().join("file")).is_err());
    }
}
