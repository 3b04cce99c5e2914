//! The mapping of a pack, in which values are checked and given out.

use super::PackRow;
use crate::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// A pack in memory.
#[derive(Debug)]
pub(super) struct Mapping {
    map: fs::Map,
    /// Values that were read whole.
    read_before: Marks,
}

impl Mapping {
    /// Maps a file; `None` where that cannot be, and it has to be read. That is slower and otherwise the same.
    pub(super) fn of(file: &fs::OpenFile, path: &Path) -> Option<Self> {
        let is_local = fs::is_local(file, path).unwrap_or(false);
        let map = if is_local { fs::Map::of(file, path).ok()? } else { return None };
        Some(Self { map, read_before: Marks::default() })
    }

    /// A part of it. Does not touch it.
    pub(super) fn part(&self, range: &Range<usize>) -> Option<&[u8]> {
        self.map.get(range.start, range.len())
    }

    /// Whether the bytes of an entry are right where they stand; `false` also where that cannot be told without the danger of a signal.
    pub(super) fn is_sound(&self, path: &Path, row: &PackRow, range: &Range<usize>) -> bool {
        // What was read before is most likely still in memory.
        let is_new = !self.read_before.has(row.ordinal);
        let brought = self.map.brought(path, range.start, range.len(), is_new);
        let is_sound = brought.is_ok_and(|bytes| blake3::hash(bytes).as_bytes() == &row.digest);
        if is_sound && is_new {
            self.mark(row);
        }
        is_sound
    }

    /// Notes that an entry was read whole.
    pub(super) fn mark(&self, row: &PackRow) {
        self.read_before.add(row.ordinal);
    }
}

/// A set of numbers that may have a few more than were added.
#[derive(Debug)]
struct Marks([AtomicU64; 64]);

impl Default for Marks {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; 64])
    }
}

impl Marks {
    fn word(&self, number: u32) -> Option<&AtomicU64> {
        self.0.get(usize::try_from(number >> 6 & 63).ok()?)
    }

    fn has(&self, number: u32) -> bool {
        self.word(number).is_some_and(|word| word.load(Ordering::Relaxed) & (1 << (number & 63)) != 0)
    }

    fn add(&self, number: u32) {
        if let Some(word) = self.word(number) {
            word.fetch_or(1 << (number & 63), Ordering::Relaxed);
        }
    }
}
