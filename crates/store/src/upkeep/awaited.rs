//! What may come back from `trash`.

use super::trash::{names, parse};
use crate::layer::Directory;
use crate::layout::{self, PACKS, TRASH};
use crate::pack::Pack;
use crate::{EntryKind, Limits, StoreError};
use std::path::PathBuf;
use std::sync::Arc;

/// What is in `trash`, each of which may go back at any moment.
#[derive(Debug)]
pub(crate) struct Awaited {
    /// Ascending.
    names: Vec<String>,
}

impl Awaited {
    /// Whether an entry is among it.
    pub(crate) fn contains(&self, (kind, name): &(EntryKind, [u8; 32])) -> bool {
        if self.names.is_empty() {
            return false;
        }
        let least = kind.set_aside_name(name, 0);
        let beginning = least.trim_end_matches(|c| c != '-');
        let from = self.names.partition_point(|other| **other < *least);
        let of_it = self.names.get(from..).unwrap_or_default().iter().take_while(|other| other.starts_with(beginning));
        of_it.into_iter().any(|other| parse(other) == Some((*kind, *name)))
    }
}

/// What is in `trash` now.
pub(crate) fn awaits(directory: &Directory) -> Result<Awaited, StoreError> {
    Ok(Awaited { names: names(directory)? })
}

/// The packs in `trash`, each of which may go back at any moment, with the places from which they come. Damaged ones hold nothing.
pub(super) fn packs(directory: &Directory) -> Result<Vec<(PathBuf, Arc<Pack>)>, StoreError> {
    let mut packs = Vec::new();
    for name in names(directory)?.iter().filter(|name| layout::parse_pack(name).is_some()) {
        match Pack::open(&directory.root().join(TRASH).join(name), &Limits::of_packs()) {
            Ok(Some(pack)) => packs.push((directory.root().join(PACKS).join(name), Arc::new(pack))),
            // It has gone back, or for good.
            Ok(None) => {}
            Err(error) if error.is_damage() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(packs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mode;

    #[test]
    fn an_entry_is_found_among_many_and_among_names_that_are_not_ours() {
        let dir = tempfile::tempdir().unwrap();
        let directory = Directory::open(&dir.path().join("store"), Mode::ReadWrite).unwrap();
        assert!(!awaits(&directory).unwrap().contains(&(EntryKind::Blob, [7; 32])), "no such folder");
        let folder = directory.uses_folder(TRASH).unwrap();
        let named = |n: u8| EntryKind::ALL.map(|kind| kind.set_aside_name(&[n; 32], 0xffff_0000 + u32::from(n)));
        for n in (0..40).step_by(2) {
            named(n).iter().for_each(|name| std::fs::write(folder.join(name), "x").unwrap());
            // Of the same beginning, in front of what is ours.
            std::fs::write(folder.join(named(n + 1)[0].replace("-ffff", "-000 ")), "x").unwrap();
            std::fs::write(folder.join(named(n)[1].replace("-ffff", "-000 ")), "x").unwrap();
        }
        let awaited = awaits(&directory).unwrap();
        for n in 0..40 {
            let found = EntryKind::ALL.map(|kind| awaited.contains(&(kind, [n; 32])));
            assert_eq!(found, [n % 2 == 0; 4], "{n}");
        }
    }
}
