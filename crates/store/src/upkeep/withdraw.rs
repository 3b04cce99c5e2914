//! Taking back a pack that upkeep has just written, because what went into it was taken away by others meanwhile.

use super::stamps::RowStamps;
use super::trash::condemn_pack;
use crate::layer::{Directory, hours as hours_of, packed_plan, packed_record};
use crate::pack::{Pack, PackRow};
use crate::plans::code_objects;
use crate::{EntryKind, Limits, StoreError, record};
use hipplan_serialize::ContentHash;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Removes a pack that was written for nothing. Rows that somebody relies on already become loose files, and so does what they lead to.
/// `hours` are the stamps that it was written with, by row. A use in the hour of a stamp leaves no trace: so what is stamped with the hour in
/// which the pack was made is taken to be in use.
pub(super) fn withdraw(directory: &Directory, limits: &Limits, pack: &Arc<Pack>, hours: &[u32]) -> Result<(), StoreError> {
    let Some(condemned) = condemn_pack(directory, pack.path(), pack.status().inode)? else { return Ok(()) };
    let now = RowStamps::of(pack);
    let made = hours_of(pack.status().changed);
    let mut wanted = BTreeSet::new();
    for kind in EntryKind::ALL {
        for row in pack.rows(kind) {
            let row = row?;
            let before = hours.get(row.ordinal as usize).copied().filter(|&hours| hours != 0);
            if now.hours(row.ordinal) != before || before.is_some_and(|before| before >= made) {
                wanted.insert((kind, row.name));
            }
        }
    }
    // What a record leads to, then what plans lead to: the one way in which entries name others.
    for kind in [EntryKind::Selection, EntryKind::PlanRecord, EntryKind::Plan] {
        for (_, name) in wanted.clone().into_iter().filter(|&(of, _)| of == kind) {
            if let Some(row) = pack.find(kind, &name)? {
                add_named_by(pack, &row, limits, &mut wanted)?;
            }
        }
    }
    // What is named before what names it.
    for (kind, name) in wanted {
        match kind {
            EntryKind::Blob | EntryKind::Plan => put_loose(directory, pack, kind, &name)?,
            EntryKind::PlanRecord | EntryKind::Selection => {
                let Some(row) = pack.find(kind, &name)? else { continue };
                let bytes = pack.read(&row, row.size)?;
                // Where it is elsewhere too, it is stamped there. A loose file would be in front of what was put since.
                if !directory.holds(kind, &name, &bytes)? && !is_behind(directory, pack, kind, &name)? {
                    put_record_loose(directory, kind, &name, &bytes)?;
                }
            }
        }
    }
    condemned.delete().map(drop)
}

/// Whether a pack in front of this one has a record. Nothing is found in what is damaged; where one cannot be read, it is not known, and this
/// pack must not go: its copy may be the last.
fn is_behind(directory: &Directory, pack: &Pack, kind: EntryKind, name: &[u8; 32]) -> Result<bool, StoreError> {
    for other in directory.packs().current().iter().take_while(|other| other.path() > pack.path()) {
        match other.find(kind, name) {
            Ok(Some(_)) => return Ok(true),
            Ok(None) => {}
            Err(error) if error.is_damage() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

/// What a row names. Damaged ones name nothing.
fn add_named_by(pack: &Arc<Pack>, row: &PackRow, limits: &Limits, wanted: &mut BTreeSet<(EntryKind, [u8; 32])>) -> Result<(), StoreError> {
    match row.kind {
        EntryKind::Blob => {}
        EntryKind::Plan => match packed_plan(pack, row, limits) {
            Ok(plan) => wanted.extend(code_objects(&plan.view()).map(|blob| (EntryKind::Blob, blob.hash.0))),
            Err(error) if error.is_damage() => {}
            Err(error) => return Err(error),
        },
        EntryKind::PlanRecord | EntryKind::Selection => match packed_record(pack, row, limits) {
            Ok(record) => {
                for plan in record.rows {
                    wanted.extend([(EntryKind::Plan, plan.root.0), (EntryKind::PlanRecord, plan.key.0)]);
                }
            }
            Err(error) if error.is_damage() => {}
            Err(error) => return Err(error),
        },
    }
    Ok(())
}

/// Makes a loose file of a row, if there is one and nothing else has the entry.
pub(super) fn put_loose(directory: &Directory, pack: &Arc<Pack>, kind: EntryKind, name: &[u8; 32]) -> Result<(), StoreError> {
    let Some(row) = pack.find(kind, name)? else { return Ok(()) };
    let bytes = pack.read(&row, row.size)?;
    directory.publish(kind, name, &bytes).map(drop)
}

/// Makes a loose file of a record, unless something it leads to has gone: then nobody relies on it, for who does has stamped that too.
pub(super) fn put_record_loose(directory: &Directory, kind: EntryKind, name: &[u8; 32], bytes: &[u8]) -> Result<(), StoreError> {
    let Ok(record) = record::decode(kind, name, bytes) else { return Ok(()) };
    let require = |of: EntryKind, named: &[u8; 32], size: u64| {
        let named_by = format!("{} {}", kind.word(), ContentHash(*name));
        match directory.require_now(of, named, size, |path| StoreError::MissingTarget { path, what: of.word(), named_by }) {
            Ok(()) => Ok(true),
            Err(error) if error.is_damage() => Ok(false),
            Err(error) => Err(error),
        }
    };
    for plan in &record.rows {
        let is_there = require(EntryKind::Plan, &plan.root.0, plan.size)?
            && (kind == EntryKind::PlanRecord || require(EntryKind::PlanRecord, &plan.key.0, record::size_of_rows(1))?);
        if !is_there {
            return Ok(());
        }
    }
    directory.publish_new(kind, name, bytes).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{self, PACKS};
    use crate::pack::testing::write_pack;
    use crate::{Mode, fs};

    #[test]
    fn a_pack_in_front_that_cannot_be_read_is_not_taken_to_have_a_record() {
        let dir = tempfile::tempdir().unwrap();
        let directory = Directory::open(&dir.path().join("store"), Mode::ReadWrite).unwrap();
        let folder = directory.uses_folder(PACKS).unwrap();
        for (generation, name) in [(1, [1; 32]), (2, [2; 32])] {
            let temp = directory.temp_folder().unwrap().join("a.tmp");
            let root = write_pack(&temp, &[(EntryKind::PlanRecord, name, 5)], &[], |_| vec![7; 5]).unwrap();
            std::fs::rename(temp, folder.join(layout::pack_name(generation, &root))).unwrap();
        }
        directory.packs().refresh().unwrap();
        let packs = directory.packs().current();
        let [front, pack] = &packs[..] else { panic!("{packs:?}") };
        let is_behind = |name: u8| is_behind(&directory, pack, EntryKind::PlanRecord, &[name; 32]);
        assert!(is_behind(2).unwrap() && !is_behind(1).unwrap());
        let refuse = |op: fs::Op<'_>| if op.name() == "read" { fs::Verdict::Fail(libc::EIO) } else { fs::Verdict::Go };
        assert!(fs::with_hook(refuse, || is_behind(1)).unwrap_err().is_unreadable());
        // Its file is empty under the open pack.
        std::fs::write(front.path(), b"").unwrap();
        assert!(!is_behind(1).unwrap());
    }
}
