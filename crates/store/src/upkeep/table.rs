//! Names and where their copies stand, in flat sorted tables: a million entries are a few allocations.

use std::ops::Range;

/// One copy of an entry: a loose file, or a row of a pack. 56 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Copied {
    pub(super) name: [u8; 32],
    /// Bytes of the entry.
    pub(super) size: u64,
    /// When it was last used, as [`stamps`](super::stamps) counts.
    pub(super) stamp: u64,
    /// [`LOOSE`], or 1 more than the number of the pack.
    pub(super) place: u32,
    /// Of a row of a pack, over all kinds.
    pub(super) ordinal: u32,
}

/// The place of loose files. They are looked at before packs.
pub(super) const LOOSE: u32 = 0;

impl Copied {
    pub(super) fn is_loose(&self) -> bool {
        self.place == LOOSE
    }

    /// Number of the pack that it is in.
    pub(super) fn pack(&self) -> Option<usize> {
        self.place.checked_sub(1).and_then(|pack| usize::try_from(pack).ok())
    }
}

/// The entries of a kind, ascending by name, each with its copies in the order of lookups.
#[derive(Debug, Default)]
pub(super) struct Table {
    copies: Vec<Copied>,
    /// First copy of each entry, and one more.
    starts: Vec<u32>,
}

impl Table {
    /// Sorts; gives the new place of each copy too.
    pub(super) fn of(unsorted: Vec<Copied>) -> (Self, Vec<u32>) {
        let count = u32::try_from(unsorted.len()).unwrap_or(u32::MAX);
        let mut order: Vec<u32> = (0..count).collect();
        let at = |&i: &u32| unsorted.get(i as usize);
        order.sort_unstable_by_key(|i| at(i).map(|copy| (copy.name, copy.place)));
        let mut place = vec![0; order.len()];
        for (new, old) in (0_u32..).zip(&order) {
            if let Some(place) = place.get_mut(*old as usize) {
                *place = new;
            }
        }
        let copies: Vec<Copied> = order.iter().filter_map(at).copied().collect();
        drop((order, unsorted));
        let mut starts = Vec::new();
        let mut before = None;
        for (i, copy) in (0_u32..).zip(&copies) {
            if before != Some(copy.name) {
                starts.push(i);
                before = Some(copy.name);
            }
        }
        starts.push(count);
        (Self { copies, starts }, place)
    }

    /// Number of entries.
    pub(super) fn len(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    pub(super) fn find(&self, name: &[u8; 32]) -> Option<u32> {
        let entries = self.starts.get(..self.len())?;
        let found = entries.binary_search_by(|&start| self.copies.get(start as usize).map(|copy| &copy.name).cmp(&Some(name)));
        found.ok().and_then(|entry| u32::try_from(entry).ok())
    }

    fn range(&self, entry: u32) -> Range<usize> {
        let at = |i: usize| self.starts.get(i).map_or(0, |&start| start as usize);
        at(entry as usize)..at((entry as usize).saturating_add(1))
    }

    /// The copies of an entry, in the order of lookups.
    pub(super) fn copies_of(&self, entry: u32) -> &[Copied] {
        self.copies.get(self.range(entry)).unwrap_or_default()
    }

    pub(super) fn name(&self, entry: u32) -> Option<&[u8; 32]> {
        self.copies_of(entry).first().map(|copy| &copy.name)
    }

    /// Every copy.
    pub(super) fn all(&self) -> &[Copied] {
        &self.copies
    }

    /// Number of the first copy of an entry; the others follow it.
    pub(super) fn first_copy(&self, entry: u32) -> u32 {
        self.starts.get(entry as usize).copied().unwrap_or(u32::MAX)
    }

    /// Number of the copy of an entry that stands in a pack.
    pub(super) fn copy_in_pack(&self, entry: u32, pack: usize) -> Option<u32> {
        let found = self.copies_of(entry).iter().position(|copy| copy.pack() == Some(pack))?;
        self.first_copy(entry).checked_add(u32::try_from(found).ok()?)
    }

    pub(super) fn copy(&self, number: u32) -> Option<&Copied> {
        self.copies.get(number as usize)
    }

    /// The entries with their numbers.
    pub(super) fn entries(&self) -> impl Iterator<Item = (u32, &[Copied])> {
        let count = u32::try_from(self.len()).unwrap_or(u32::MAX);
        (0..count).map(|entry| (entry, self.copies_of(entry)))
    }
}

/// One bit, kept in a byte, for each entry of a table.
#[derive(Debug, Default, Clone)]
pub(super) struct Marks(Vec<bool>);

impl Marks {
    pub(super) fn none(len: usize) -> Self {
        Self(vec![false; len])
    }

    pub(super) fn has(&self, entry: u32) -> bool {
        self.0.get(entry as usize).copied().unwrap_or(false)
    }

    pub(super) fn set(&mut self, entry: u32) {
        if let Some(mark) = self.0.get_mut(entry as usize) {
            *mark = true;
        }
    }

    pub(super) fn clear(&mut self, entry: u32) {
        if let Some(mark) = self.0.get_mut(entry as usize) {
            *mark = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copied(name: u8, place: u32) -> Copied {
        Copied { name: [name; 32], size: u64::from(name), stamp: 0, place, ordinal: 0 }
    }

    #[test]
    fn copies_of_one_name_are_one_entry_in_the_order_of_lookups() {
        let (table, places) = Table::of(vec![copied(3, 2), copied(1, 1), copied(3, LOOSE), copied(2, 1)]);
        assert_eq!(places, [3, 0, 2, 1]);
        assert_eq!(table.len(), 3);
        assert_eq!([1, 2, 3, 4].map(|name| table.find(&[name; 32])), [Some(0), Some(1), Some(2), None]);
        assert_eq!(table.copies_of(2), [copied(3, LOOSE), copied(3, 2)]);
        assert_eq!(table.copies_of(3), []);
        assert_eq!(table.entries().map(|(_, copies)| copies.len()).collect::<Vec<_>>(), [1, 1, 2]);
        assert_eq!([copied(1, LOOSE).pack(), copied(1, 1).pack()], [None, Some(0)]);
        let (empty, _) = Table::of(Vec::new());
        assert_eq!((empty.len(), empty.find(&[0; 32])), (0, None));
    }

    #[test]
    fn copies_are_small() {
        assert_eq!(size_of::<Copied>(), 56);
    }
}
