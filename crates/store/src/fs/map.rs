//! Mapping a file: the only unsafe code of this crate that touches files.

use super::OpenFile;
use super::op::{Op, gate};
use memmap2::{Advice, MmapOptions};
use std::io;
use std::path::Path;

/// File systems of this machine's own disks and memory, by the numbers of `statfs(2)`: what is mapped there can be touched as long as the inode
/// is not changed. On all others, known or not, somebody elsewhere may change or remove a file under its mapping, and an access would be a
/// signal rather than an error; there, values are read.
///
/// An overlay is not among them: the system does not say what its lower layers are on, and one may be a network's.
const LOCAL_FILE_SYSTEMS: [u64; 10] = [
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // XFS
    0x9123_683e, // Btrfs
    0x2fc1_2fc1, // ZFS
    0xf2f5_2010, // F2FS
    0xca45_1a4e, // bcachefs
    0xe0f5_e1e2, // EROFS
    0x7371_7368, // squashfs
    0x0102_1994, // tmpfs
    0x8584_58f6, // ramfs
];

/// A mapped file.
#[derive(Debug)]
pub(crate) struct Map(memmap2::Mmap);

impl Map {
    /// Maps the whole of an open file.
    #[expect(unsafe_code, reason = "mapping a file is unsafe; the block below argues")]
    pub(crate) fn of(file: &OpenFile, path: &Path) -> io::Result<Self> {
        gate(Op::Map { path })?;
        let len = usize::try_from(file.size).map_err(|_| io::ErrorKind::FileTooLarge)?;
        // SAFETY: a shared read-only mapping, which is sound as long as nobody changes or truncates the inode. hipplan itself never
        // opens a pack for writing once it has its name, removes packs only by unlinking them, and replaces them only by renaming; so
        // the inode that is mapped here stays as it is. What other programs that may write there can break is in `docs/security.md`;
        // nothing is mapped but on the file systems of `LOCAL_FILE_SYSTEMS` (`is_local`).
        unsafe { MmapOptions::new().len(len).map(&file.file) }.map(Self)
    }

    /// A part of it whose pages have just been brought into memory, to be read now. What the system cannot bring, because the disk fails or the file
    /// has become shorter, is an error here, where touching it would be a signal. Linux before 5.14 cannot say so, which is an error too.
    ///
    /// `is_new` has what is not in memory read from disk all at once rather than a few pages at a time.
    pub(crate) fn brought(&self, path: &Path, offset: usize, len: usize, is_new: bool) -> io::Result<&[u8]> {
        gate(Op::Map { path })?;
        let part = self.get(offset, len).ok_or(io::ErrorKind::UnexpectedEof)?;
        if is_new {
            // A system that does not do so brings the pages as it likes.
            drop(self.0.advise_range(Advice::WillNeed, offset, len));
        }
        self.0.advise_range(Advice::PopulateRead, offset, len)?;
        Ok(part)
    }

    /// A part of it, if it is that long.
    pub(crate) fn get(&self, offset: usize, len: usize) -> Option<&[u8]> {
        self.0.get(offset..offset.checked_add(len)?)
    }
}

/// Whether the file is on a file system that is known to keep mapped pages.
pub(crate) fn is_local(file: &OpenFile, path: &Path) -> io::Result<bool> {
    gate(Op::StatFs { path })?;
    let kind = rustix::fs::fstatfs(&file.file)?.f_type;
    // The type of the field differs between platforms; the numbers have 32 bits.
    Ok(is_known(kind as u64 & 0xffff_ffff))
}

fn is_known(file_system: u64) -> bool {
    LOCAL_FILE_SYSTEMS.contains(&file_system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_to_keep_its_pages_is_not_mapped() {
        // NFS, CIFS, FUSE, 9P, an overlay, GFS2, OCFS2, NTFS, and one that nobody has made yet.
        for number in [0x6969, 0xff53_4d42, 0x6573_5546, 0x0102_1997, 0x794c_7630, 0x0116_1970, 0x7461_636f, 0x7366_746e, 1] {
            assert!(!is_known(number), "{number:#x}");
        }
        assert!([0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994].into_iter().all(is_known));
    }

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
    fn a_file_is_local_if_its_file_system_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, b"x").unwrap();
        let file = super::super::open(&path).unwrap().unwrap();
        // Temporary files may well be on an overlay.
        let name = super::super::file_system(&path).unwrap();
        let known = ["ext4", "XFS", "Btrfs", "ZFS", "F2FS", "bcachefs", "EROFS", "squashfs", "tmpfs", "ramfs"];
        assert_eq!(is_local(&file, &path).unwrap(), known.contains(&&*name), "{name}");
    }
}
