//! What a folder holds, and what names what in it.
//!
//! Every copy of a record counts as something that names, also one that a newer copy hides: a kill in the middle of upkeep may bring it
//! to light, and it must not lead nowhere then. Of plans and blobs any copy will do.
//!
//! In memory are 56 bytes for each copy of an entry, 4 for each entry, 33 for each plan, and 8 for each row of a record and each code
//! object of a plan: some 350 bytes for a plan with its record, one selection and one code object.

use super::problems::Problems;
use super::progress::{Counter, UpkeepProgress};
use super::stamps::{RowStamps, nanos};
use super::table::{Copied, LOOSE, Marks, Table};
use super::trash;
use crate::layer::{Directory, packed_plan, packed_record, walk};
use crate::layout::{self, EntryKind, PACKS};
use crate::pack::{Pack, PackRow};
use crate::plans::{PlanBytes, check_root};
use crate::record::Record;
use crate::{Limits, StoreError, entry, fs};
use hipplan_serialize::{GraphKey, PlanKey};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

/// A record copy names a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Naming {
    /// Number of the copy in its table.
    pub(super) record: u32,
    /// Number of the plan.
    pub(super) plan: u32,
}

/// What a folder holds.
#[derive(Debug, Default)]
pub(super) struct Holdings {
    /// Newest first.
    pub(super) packs: Vec<Arc<Pack>>,
    pub(super) stamps: Vec<RowStamps>,
    pub(super) blobs: Table,
    pub(super) plans: Table,
    pub(super) plan_records: Table,
    pub(super) selections: Table,
    /// Ascending by record.
    pub(super) by_plan_record: Vec<Naming>,
    pub(super) by_selection: Vec<Naming>,
    /// Copies of plan records that a good copy hides, which is looked at before them.
    hidden_plan_records: Marks,
    hidden_selections: Marks,
    /// By plan: the key under which it is named, or that it says it has.
    keys: Vec<Option<[u8; 32]>>,
    /// Plan and blob, ascending; empty where there are no blobs.
    pub(super) needs: Vec<(u32, u32)>,
    /// Plans no copy of which opens, or which lack a code object.
    pub(super) incomplete: Marks,
    /// Plans of the graphs that were asked for.
    pub(super) of_graphs: HashMap<GraphKey, Vec<u32>>,
    /// Rows of records that lead to no plan in this folder.
    pub(super) dangling: u64,
    /// By pack: it has such rows.
    pub(super) dangling_in: Vec<bool>,
    /// Records and packs that could not be read: whatever there is may be named by them.
    pub(super) unknown: Vec<StoreError>,
    /// Plans that could not be read, among them those of other versions: they may need any blob.
    pub(super) unread_plans: Vec<StoreError>,
}

/// What is to be known.
#[derive(Debug, Default, Clone)]
pub(super) struct Wanted {
    /// Plans of these graphs are marked.
    pub(super) graphs: HashSet<GraphKey>,
    /// Every plan is opened, and all keys are known, whether or not there are blobs.
    pub(super) all_plans: bool,
}

impl Holdings {
    /// Lists the folder and reads all its records, and its plans if there is a reason to. Writes nothing.
    pub(super) fn of(directory: &Directory, limits: &Limits, wanted: &Wanted, progress: &dyn UpkeepProgress) -> Self {
        let mut this = Self::default();
        let mut unknown = Vec::new();
        this.packs = open_packs(directory, &mut unknown);
        this.dangling_in = vec![false; this.packs.len()];
        this.stamps = this.packs.iter().map(|pack| RowStamps::of(pack)).collect();
        this.unknown = unknown;
        this.blobs = this.list(directory, EntryKind::Blob, progress).0;
        this.plans = this.list(directory, EntryKind::Plan, progress).0;
        this.keys = vec![None; this.plans.len()];
        (this.plan_records, this.by_plan_record, this.hidden_plan_records) =
            this.records(directory, EntryKind::PlanRecord, limits, progress);
        (this.selections, this.by_selection, this.hidden_selections) = this.records(directory, EntryKind::Selection, limits, progress);
        this.incomplete = Marks::none(this.plans.len());
        if this.blobs.len() > 0 || wanted.all_plans || !wanted.graphs.is_empty() {
            this.open_plans(directory, limits, wanted, progress);
        }
        this
    }

    pub(super) fn table(&self, kind: EntryKind) -> &Table {
        match kind {
            EntryKind::Blob => &self.blobs,
            EntryKind::Plan => &self.plans,
            EntryKind::PlanRecord => &self.plan_records,
            EntryKind::Selection => &self.selections,
        }
    }

    /// Which record copies of a kind name which plans.
    pub(super) fn namings(&self, kind: EntryKind) -> &[Naming] {
        match kind {
            EntryKind::PlanRecord => &self.by_plan_record,
            EntryKind::Selection => &self.by_selection,
            EntryKind::Blob | EntryKind::Plan => &[],
        }
    }

    /// Copies of records that are never read, because a good one is looked at before them.
    pub(super) fn hidden(&self, kind: EntryKind) -> &Marks {
        if kind == EntryKind::PlanRecord { &self.hidden_plan_records } else { &self.hidden_selections }
    }

    /// The key of a plan, if it is known.
    pub(super) fn key(&self, plan: u32) -> Option<PlanKey> {
        self.keys.get(plan as usize).copied().flatten().map(PlanKey)
    }

    /// The last use of any copy of an entry.
    pub(super) fn last_use(&self, kind: EntryKind, entry: u32) -> u64 {
        self.table(kind).copies_of(entry).iter().map(|copy| copy.stamp).max().unwrap_or(0)
    }

    fn known<T>(&mut self, result: Result<T, StoreError>) -> Option<T> {
        match result {
            Ok(found) => Some(found),
            Err(error) => {
                // What is damaged or not ours names nothing. Of the rest it is not known, nor of what a link leads to, or is hidden by what stands
                // in place of a folder.
                if !error.is_damage() && !error.is_foreign() {
                    self.unknown.note(error);
                }
                None
            }
        }
    }

    fn list(&mut self, directory: &Directory, kind: EntryKind, progress: &dyn UpkeepProgress) -> (Table, Vec<u32>) {
        let mut copies = Vec::new();
        let mut counter = Counter::new(progress, what_of(kind), 0);
        for file in walk::files(directory.root(), kind) {
            counter.one();
            let copy = file.and_then(|(name, path)| loose_copy(name, &path));
            copies.extend(self.known(copy).flatten());
        }
        for (number, pack) in self.packs.clone().iter().enumerate() {
            for row in pack.rows(kind) {
                counter.one();
                let Some(row) = self.known_row(row) else { break };
                copies.push(self.packed_copy(number, &row));
            }
        }
        Table::of(copies)
    }

    /// A pack whose rows end with an error may have held anything behind it.
    fn known_row(&mut self, row: Result<PackRow, StoreError>) -> Option<PackRow> {
        row.map_err(|error| self.unknown.note(error)).ok()
    }

    fn packed_copy(&self, pack: usize, row: &PackRow) -> Copied {
        Copied {
            name: row.name,
            size: row.size,
            stamp: self.stamps.get(pack).map_or(u64::MAX, |stamps| stamps.get(row.ordinal)),
            place: u32::try_from(pack.saturating_add(1)).unwrap_or(u32::MAX),
            ordinal: row.ordinal,
        }
    }

    fn records(
        &mut self,
        directory: &Directory,
        kind: EntryKind,
        limits: &Limits,
        progress: &dyn UpkeepProgress,
    ) -> (Table, Vec<Naming>, Marks) {
        let mut copies = Vec::new();
        let mut named = Vec::new();
        let mut is_good = Vec::new();
        let mut counter = Counter::new(progress, what_of(kind), 0);
        for file in walk::files(directory.root(), kind) {
            counter.one();
            let read = file.and_then(|(name, path)| {
                let Some(copy) = loose_copy(name, &path)? else { return Ok(None) };
                Ok(Some((copy, read_loose_record(kind, &name, &path, limits))))
            });
            let Some(Some((copy, record))) = self.known(read) else { continue };
            self.note_record(copy, record, &mut copies, &mut named, &mut is_good);
        }
        for (number, pack) in self.packs.clone().iter().enumerate() {
            for row in pack.rows(kind) {
                counter.one();
                let Some(row) = self.known_row(row) else { break };
                let record = packed_record(pack, &row, limits).map(Some);
                self.note_record(self.packed_copy(number, &row), record, &mut copies, &mut named, &mut is_good);
            }
        }
        let (table, place) = Table::of(copies);
        for naming in &mut named {
            naming.record = place.get(naming.record as usize).copied().unwrap_or(u32::MAX);
        }
        named.sort_unstable_by_key(|naming| (naming.record, naming.plan));
        let mut good = Marks::none(table.all().len());
        for (&place, is_good) in place.iter().zip(is_good) {
            if is_good {
                good.set(place);
            }
        }
        let mut hidden = Marks::none(table.all().len());
        for (entry, copies) in table.entries() {
            let first = table.first_copy(entry);
            let copies = first..first.saturating_add(u32::try_from(copies.len()).unwrap_or(0));
            copies.skip_while(|&copy| !good.has(copy)).skip(1).for_each(|copy| hidden.set(copy));
        }
        (table, named, hidden)
    }

    fn note_record(
        &mut self,
        copy: Copied,
        record: Result<Option<Record>, StoreError>,
        copies: &mut Vec<Copied>,
        named: &mut Vec<Naming>,
        is_good: &mut Vec<bool>,
    ) {
        let number = u32::try_from(copies.len()).unwrap_or(u32::MAX);
        let record = match self.known(record) {
            // It vanished.
            Some(None) => return,
            Some(Some(record)) => Some(record.rows),
            None => None,
        };
        copies.push(copy);
        is_good.push(record.is_some());
        let record = record.unwrap_or_default();
        for row in record {
            let Some(plan) = self.plans.find(&row.root.0) else {
                self.dangling = self.dangling.saturating_add(1);
                if let Some(mark) = copy.pack().and_then(|pack| self.dangling_in.get_mut(pack)) {
                    *mark = true;
                }
                continue;
            };
            named.push(Naming { record: number, plan });
            if let Some(key) = self.keys.get_mut(plan as usize) {
                *key = Some(row.key.0);
            }
        }
    }

    fn open_plans(&mut self, directory: &Directory, limits: &Limits, wanted: &Wanted, progress: &dyn UpkeepProgress) {
        let count = u32::try_from(self.plans.len()).unwrap_or(u32::MAX);
        let mut counter = Counter::new(progress, "opening plans", u64::from(count));
        for plan in 0..count {
            counter.one();
            let Some(opened) = self.open_plan(directory, plan, limits) else {
                self.incomplete.set(plan);
                continue;
            };
            let view = opened.view();
            if let Some(key) = self.keys.get_mut(plan as usize) {
                *key = Some(view.plan_ref().key.0);
            }
            let graph = view.meta().graph_key();
            if wanted.graphs.contains(&graph) {
                self.of_graphs.entry(graph).or_default().push(plan);
            }
            for blob in crate::plans::code_objects(&view) {
                match self.blobs.find(&blob.hash.0) {
                    Some(blob) => self.needs.push((plan, blob)),
                    // It may have been put, or packed, since they were listed: before the stamp of the plan was taken.
                    None if trash::may_have(directory, EntryKind::Blob, &blob.hash.0) => {}
                    None => self.incomplete.set(plan),
                }
            }
        }
        self.needs.sort_unstable();
        self.needs.dedup();
    }

    /// The first copy of a plan that opens.
    pub(super) fn open_plan(&mut self, directory: &Directory, plan: u32, limits: &Limits) -> Option<PlanBytes> {
        let copies = self.plans.copies_of(plan).to_vec();
        copies.iter().find_map(|copy| match read_plan(directory, &self.packs, copy, limits) {
            Ok(plan) => plan,
            Err(error) => {
                if !error.is_damage() {
                    self.unread_plans.note(error);
                }
                None
            }
        })
    }
}

/// The plan of a copy, `None` when it has vanished.
fn read_plan(directory: &Directory, packs: &[Arc<Pack>], copy: &Copied, limits: &Limits) -> Result<Option<PlanBytes>, StoreError> {
    match copy.pack().and_then(|number| packs.get(number)) {
        Some(pack) => pack.find(EntryKind::Plan, &copy.name)?.map(|row| packed_plan(pack, &row, limits)).transpose(),
        None => {
            let path = EntryKind::Plan.file(directory.root(), &copy.name);
            let Some(plan) = directory.open_loose_plan(&path, limits)? else { return Ok(None) };
            check_root(&path, &plan.view(), &copy.name)?;
            Ok(Some(plan))
        }
    }
}

/// A loose record; `None` when it has vanished.
pub(super) fn read_loose_record(kind: EntryKind, name: &[u8; 32], path: &Path, limits: &Limits) -> Result<Option<Record>, StoreError> {
    let Some(file) = walk::open_listed(path)? else { return Ok(None) };
    entry::read_record(kind, name, path, &file, limits).map(Some)
}

fn loose_copy(name: [u8; 32], path: &Path) -> Result<Option<Copied>, StoreError> {
    match walk::twice(|| fs::status(path)) {
        Ok(status) => Ok(match status.kind {
            fs::Kind::File { size } => Some(Copied { name, size, stamp: nanos(status.changed), place: LOOSE, ordinal: 0 }),
            fs::Kind::Folder | fs::Kind::Other(_) => None,
        }),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(StoreError::io("look at", path)(e)),
    }
}

/// Every pack of the folder, newest first. Those that this process has open are not opened again.
pub(super) fn open_packs(directory: &Directory, unknown: &mut Vec<StoreError>) -> Vec<Arc<Pack>> {
    let folder = directory.root().join(PACKS);
    drop(directory.packs().refresh());
    let known = directory.packs().current();
    let mut packs = Vec::new();
    for name in walk::names(&folder).into_iter().rev() {
        let name = match name {
            Ok(name) => name,
            // There is no folder, and so there are no packs.
            Err(error) if error.is_not_a_folder() => continue,
            Err(error) => {
                unknown.note(error);
                continue;
            }
        };
        if name.to_str().and_then(layout::parse_pack).is_none() {
            continue;
        }
        let path = folder.join(name);
        if let Some(pack) = known.iter().find(|pack| pack.path() == path) {
            packs.push(pack.clone());
            continue;
        }
        let opened = match Pack::open(&path, &Limits::of_packs()) {
            Ok(None) => Pack::open(&path, &Limits::of_packs()),
            opened => opened,
        };
        match opened {
            Ok(Some(pack)) => packs.push(Arc::new(pack)),
            Ok(None) => {}
            // Nothing can be found in a pack whose header is damaged.
            Err(error) if error.is_damage() => {}
            Err(error) => unknown.note(error),
        }
    }
    packs
}

fn what_of(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::Blob => "listing blobs",
        EntryKind::Plan => "listing plans",
        EntryKind::PlanRecord => "reading plan records",
        EntryKind::Selection => "reading selections",
    }
}
