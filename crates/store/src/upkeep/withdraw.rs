//! Taking back a pack that upkeep has just written, because what went into it was taken away by others meanwhile.

use super::stamps::RowStamps;
use super::trash::condemn_pack;
use crate::layer::{Directory, packed_plan, packed_record};
use crate::pack::{Pack, PackRow};
use crate::plans::code_objects;
use crate::{EntryKind, Limits, StoreError, record};
use hipplan_serialize::ContentHash;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Removes a pack that was written for nothing. Rows that somebody relies on already become loose files, and so does what they lead to.
/// `hours` are the stamps that it was written with, by row.
pub(super) fn withdraw(directory: &Directory, limits: &Limits, pack: &Arc<Pack>, hours: &[u32]) -> Result<(), StoreError> {
    let Some(condemned) = condemn_pack(directory, pack.path(), pack.status().inode)? else { return Ok(()) };
    let now = RowStamps::of(pack);
    let mut wanted = BTreeSet::new();
    for kind in EntryKind::ALL {
        for row in pack.rows(kind) {
            let row = row?;
            let before = hours.get(row.ordinal as usize).copied().filter(|&hours| hours != 0);
            if now.hours(row.ordinal) != before {
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
                put_record_loose(directory, kind, &name, &pack.read(&row, row.size)?)?;
            }
        }
    }
    condemned.delete().map(drop)
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
