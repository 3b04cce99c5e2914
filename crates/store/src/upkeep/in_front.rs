//! Writing what a group has collected: as a pack, and where that is not enough, as loose files.

use super::generation::write_on_top;
use super::group::{Entries, Key};
use super::readable::check_readable;
use super::trash;
use crate::layer::Directory;
use crate::pack::{self, NewEntry};
use crate::{EntryKind, Limits, StoreError, fs};
use std::collections::HashSet;
use std::sync::Arc;

/// Writes a pack in front of all others. `false` when others have folded it each time before it had its place: then its entries are
/// published one by one, as are more than a pack may have.
pub(super) fn write_pack(layer: &Directory, all: &Entries) -> Result<bool, StoreError> {
    let new = |(&(kind, name), bytes): (&Key, &Arc<[u8]>)| NewEntry { kind, name, size: bytes.len() as u64 };
    let entries: Vec<NewEntry> = all.iter().map(new).collect();
    if check_readable(layer.root(), &entries, &[], &Limits::of_packs()).is_err() {
        return Ok(false);
    }
    let written = write_on_top(layer, || {
        pack::write(&layer.temp_folder()?, &entries, &[], &mut |number, sink| {
            let bytes = entries.get(number).and_then(|entry| all.get(&(entry.kind, entry.name)));
            sink(bytes.map(|bytes| &bytes[..]).unwrap_or_default())
        })
    })?;
    Ok(written.is_some())
}

/// Publishes the records that have a loose file, which would be in front of the pack, or may have one again.
pub(super) fn publish_in_front(layer: &Directory, all: &Entries) -> Result<(), StoreError> {
    let records = all.keys().filter(|(kind, _)| matches!(kind, EntryKind::PlanRecord | EntryKind::Selection));
    let hidden = loose_or_awaited(layer, records.copied())?;
    for ((kind, name), bytes) in all.iter().filter(|(key, _)| hidden.contains(*key)) {
        // Nothing to say of what it was.
        drop(layer.publish(*kind, name, bytes)?);
    }
    Ok(())
}

/// Those of these entries that have something in the place of a loose file, or may have a file there again.
pub(crate) fn loose_or_awaited(layer: &Directory, entries: impl Iterator<Item = Key>) -> Result<HashSet<Key>, StoreError> {
    let is_loose = |(kind, name): &Key| fs::status(&kind.file(layer.root(), name)).is_ok();
    let (loose, others): (Vec<Key>, Vec<Key>) = entries.partition(is_loose);
    // In this order: what goes back from `trash` between the two looks is seen by the second.
    let awaited = trash::awaits(layer)?;
    Ok(others.into_iter().filter(|key| awaited.contains(key) || is_loose(key)).chain(loose).collect())
}

/// What is named comes before what names it.
pub(super) fn publish_each(layer: &Directory, all: &Entries) -> Result<(), StoreError> {
    for ((kind, name), bytes) in all {
        drop(layer.publish(*kind, name, bytes)?);
    }
    Ok(())
}
