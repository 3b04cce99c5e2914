//! Mapping a file: the only unsafe code of this crate that touches files.

use super::OpenFile;
use super::op::{Op, gate};
use std::io;
use std::path::Path;

/// File systems whose files others may change under a mapping, or whose pages may be gone when they are asked for: an access would be a
/// signal rather than an error. Numbers of `statfs(2)`.
const REMOTE_FILE_SYSTEMS: [u64; 14] = [
    0x6969,      // NFS
    0x517b,      // SMB
    0xff53_4d42, // CIFS
    0xfe53_4d42, // SMB2
    0x6573_5546, // FUSE
    0x0102_1997, // 9P
    0x0bd0_0bd0, // Lustre
    0x4750_4653, // GPFS
    0x00c3_6400, // Ceph
    0x5346_414f, // AFS
    0x6b41_4653, // kAFS
    0x7375_7245, // Coda
    0x564c,      // NCP
    0x1980_0202, // BeeGFS
];

/// A mapped file. Nothing in this crate reads it: what callers are given of it has been read and hashed by other means.
#[derive(Debug)]
pub(crate) struct Map(memmap2::Mmap);

impl Map {
    /// Maps the whole of an open file.
    #[expect(unsafe_code, reason = "mapping a file is unsafe; the block below argues")]
    pub(crate) fn of(file: &OpenFile, path: &Path) -> io::Result<Self> {
        gate(Op::Map { path })?;
        // SAFETY: a shared read-only mapping, which is sound as long as nobody changes or truncates the inode. hipplan itself never
        // opens a pack for writing once it has its name, removes packs only by unlinking them, and replaces them only by renaming; so
        // the inode that is mapped here stays as it is. What other programs that may write there can break is in `docs/security.md`;
        // files on network file systems are not mapped (`is_local`).
        unsafe { memmap2::Mmap::map(&file.file) }.map(Self)
    }

    /// A part of it, if it is that long.
    pub(crate) fn get(&self, offset: usize, len: usize) -> Option<&[u8]> {
        self.0.get(offset..offset.checked_add(len)?)
    }
}

/// Whether the file is on a file system whose mapped pages cannot go away.
pub(crate) fn is_local(file: &OpenFile, path: &Path) -> io::Result<bool> {
    gate(Op::StatFs { path })?;
    let kind = rustix::fs::fstatfs(&file.file)?.f_type;
    // The type of the field differs between platforms; the numbers have 32 bits.
    Ok(!REMOTE_FILE_SYSTEMS.contains(&(kind as u64 & 0xffff_ffff)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_gives_parts_of_the_file_and_nothing_beyond() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, b"0123456789").unwrap();
        let file = super::super::open(&path).unwrap().unwrap();
        let map = Map::of(&file, &path).unwrap();
        assert_eq!(map.get(2, 3), Some(&b"234"[..]));
        assert_eq!(map.get(8, 3), None);
        assert_eq!(map.get(usize::MAX, 2), None);
        // Unlinked and replaced, it is still there.
        std::fs::write(dir.path().join("other"), b"x").unwrap();
        std::fs::rename(dir.path().join("other"), &path).unwrap();
        assert_eq!(map.get(0, 10), Some(&b"0123456789"[..]));
    }

    #[test]
    fn folders_of_this_machine_are_local() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, b"x").unwrap();
        let file = super::super::open(&path).unwrap().unwrap();
        assert!(is_local(&file, &path).unwrap());
    }
}
