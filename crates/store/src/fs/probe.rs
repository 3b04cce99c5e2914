//! What only the self-test asks of a file system.

use super::op::{Op, gate};
use super::{Kind, OpenFile};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::SystemTime;

/// Names of file systems by the numbers of `statfs(2)`.
const NAMES: [(u64, &str); 18] = [
    (0xef53, "ext4"),
    (0x5846_5342, "XFS"),
    (0x9123_683e, "Btrfs"),
    (0x2fc1_2fc1, "ZFS"),
    (0xf2f5_2010, "F2FS"),
    (0xca45_1a4e, "bcachefs"),
    (0x0102_1994, "tmpfs"),
    (0x8584_58f6, "ramfs"),
    (0xe0f5_e1e2, "EROFS"),
    (0x7371_7368, "squashfs"),
    (0x794c_7630, "overlay"),
    (0x6969, "NFS"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB"),
    (0x6573_5546, "FUSE"),
    (0x0102_1997, "9P"),
    (0x0bd0_0bd0, "Lustre"),
    (0x00c3_6400, "Ceph"),
];

/// Name of the file system that a file is on; its number where it is none of the common ones.
pub(crate) fn file_system(path: &Path) -> io::Result<String> {
    gate(Op::StatFs { path })?;
    let number = rustix::fs::statfs(path)?.f_type as u64 & 0xffff_ffff;
    let name = NAMES.iter().find(|(of, _)| *of == number).map(|(_, name)| (*name).to_owned());
    Ok(name.unwrap_or_else(|| format!("of number {number:#x}")))
}

/// Whether the file system can make the names in a folder durable. Where it cannot, a store takes it to need no saying.
pub(crate) fn syncs_folders(path: &Path) -> io::Result<bool> {
    gate(Op::SyncFolder { path })?;
    match super::open_folder(path)?.sync_all() {
        Ok(()) => Ok(true),
        Err(e) if matches!(e.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => Ok(false),
        Err(e) => Err(e),
    }
}

/// Sets the time of last change of a file.
pub(crate) fn set_changed(file: &OpenFile, to: SystemTime) -> io::Result<()> {
    gate(Op::Touch { path: &file.path })?;
    file.file.set_modified(to)
}

/// Changes a byte of a file in place, as a failing disk does.
pub(crate) fn change_byte(path: &Path, offset: u64) -> io::Result<()> {
    let file = super::open_shared(path, false)?;
    let mut byte = [0];
    if file.read_some(offset, &mut byte)? == 0 {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    file.write_some(offset, &byte.map(|byte| byte ^ 1)).map(drop)
}

/// Cuts a file short in place, as somebody else may.
pub(crate) fn cut(path: &Path, size: u64) -> io::Result<()> {
    let file = super::open_shared(path, false)?;
    gate(Op::Write { path, offset: size, bytes: &[] })?;
    file.file.set_len(size)
}

/// Removes a folder with all that is in it. Links in it are removed and not followed.
pub(crate) fn remove_tree(path: &Path) -> io::Result<()> {
    gate(Op::Unlink { path })?;
    match super::kind(path)? {
        Kind::Folder => fs::remove_dir_all(path),
        _ => Err(ErrorKind::NotADirectory.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_folder_is_asked_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("folder");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("file"), "x").unwrap();
        assert!(!file_system(&path).unwrap().is_empty());
        assert!(syncs_folders(&path).is_ok());
        let file = super::super::open(&path.join("file")).unwrap().unwrap();
        let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        set_changed(&file, old).unwrap();
        assert_eq!(super::super::status(&path.join("file")).unwrap().changed, old);
        assert!(remove_tree(&path.join("file")).is_err());
        remove_tree(&path).unwrap();
        assert!(!path.exists() && remove_tree(&path).is_err());
    }
}
