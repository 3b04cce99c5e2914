//! Changes to a file, made first and applied in one go to a copy of it.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// What turns one file into another of at least its size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patch {
    /// Parts of the old file that are copied to another place of the new one.
    pub copies: Vec<(Range<u64>, u64)>,
    /// New bytes and where they go, which may be behind the end of the old file. Applied in this order, after the copies.
    pub edits: Vec<(u64, Vec<u8>)>,
}

/// Bytes that are in memory at a time.
const PIECE: u64 = 1 << 20;

impl Patch {
    /// Applies it to a whole copy of the old file.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    pub fn apply(&self, file: &File) -> io::Result<()> {
        let mut piece = Vec::new();
        for (from, to) in &self.copies {
            let (mut at, mut to) = (from.start, *to);
            while at < from.end {
                let size = PIECE.min(from.end - at);
                piece.resize(usize::try_from(size).map_err(io::Error::other)?, 0);
                file.read_exact_at(&mut piece, at)?;
                file.write_all_at(&piece, to)?;
                at += size;
                to = to.checked_add(size).ok_or(io::ErrorKind::FileTooLarge)?;
            }
        }
        self.edits.iter().try_for_each(|(at, bytes)| file.write_all_at(bytes, *at))
    }

    /// The new file, in memory; nothing if it is damaged or larger than `limit` bytes.
    pub fn applied(&self, old: &[u8], limit: usize) -> Option<Vec<u8>> {
        let mut new = old.to_vec();
        let mut write = |at: u64, bytes: &[u8]| {
            let start = usize::try_from(at).ok()?;
            let end = start.checked_add(bytes.len()).filter(|&end| end <= limit)?;
            new.resize(new.len().max(end), 0);
            new.get_mut(start..end)?.copy_from_slice(bytes);
            Some(())
        };
        for (from, to) in &self.copies {
            write(*to, crate::elf::slice(old, from.clone())?)?;
        }
        for (at, bytes) in &self.edits {
            write(*at, bytes)?;
        }
        Some(new)
    }
}
