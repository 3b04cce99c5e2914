//! Taking a bundle into a store.

use super::export::behind;
use super::merge::{check_entry, open_any};
use super::policy::{LayerOptions, Trust};
use crate::layer::{Directory, checked_plan, packed_record};
use crate::layout::PACKS;
use crate::pack::{NewEntry, Pack, PackRow};
use crate::plans::{code_objects, missing_code_object};
use crate::record::{self, Record, RecordKind};
use crate::turn::Purpose;
use crate::upkeep::{Awaited, Counter, awaits, loose_or_awaited, write_on_top};
use crate::{EntryKind, Limits, Persisted, Store, StoreError, TurnOptions, UpkeepProgress, fs, pack, turn};
use hipplan_serialize::{ContentHash, PlanRef};
use std::collections::HashSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The key of the turn that imports take, which says to those who wait what they wait for.
const TURN: [u8; 32] = *b"hipplan: imports take their turn";

/// What an import has taken in, and what it has left out.
#[derive(Debug)]
#[non_exhaustive]
pub struct ImportReport {
    /// Digest of the bundle's tables.
    pub root: ContentHash,
    /// The pack that what is new was written into; `None` where nothing was.
    pub pack: Option<PathBuf>,
    /// Entries that are new, by kind, in the order of [`EntryKind::ALL`]. Records that were united with those that were there are among them.
    pub new: [u64; 4],
    /// Entries that the store had already.
    pub present: u64,
    /// Entries that are damaged, or that name something which is neither in the bundle nor in the store: left out.
    pub problems: Vec<StoreError>,
}

/// What is to be written for a row of the bundle.
enum Source {
    Row(PackRow),
    Made(Vec<u8>),
}

/// An import at work.
struct Import<'i> {
    bundle: &'i Pack,
    layer: &'i Directory,
    limits: &'i Limits,
    entries: Vec<NewEntry>,
    sources: Vec<Source>,
    /// Records in `trash` before others were looked for. A kill may have left them, and they may come back in front of those of packs.
    awaited: Awaited,
    /// Records that the pack is to show, or that a pack shows and may hide again. They are looked at once more when the pack is in its place.
    plan_records: Vec<PlanRef>,
    selections: Vec<([u8; 32], Record)>,
    /// What of the bundle is good and does not hang in the air.
    good: HashSet<(EntryKind, [u8; 32])>,
    report: ImportReport,
}

impl Store {
    /// Takes all that is good in a bundle into the layer in front, as one pack. The bundle may be wrapped; `options` say what its
    /// signatures must be.
    ///
    /// What lookups find afterwards is what they would find with the bundle as a layer below: records that are there keep their plans
    /// first, those of the bundle come behind; two sets are united; a plan record that is there stays.
    ///
    /// A damaged entry is left out, and so is what names it. An import that ends early has changed nothing, or has all of its pack and
    /// some of its records.
    ///
    /// # Errors
    /// The layer in front cannot be written; the file is no bundle, its tables are damaged, or it is not signed as it must be.
    pub fn import(&self, bundle: &Path, options: &LayerOptions) -> Result<ImportReport, StoreError> {
        self.import_with(bundle, options, &())
    }

    /// As [`import`](Self::import), telling how far it has come.
    ///
    /// # Errors
    /// As there.
    pub fn import_with(&self, bundle: &Path, options: &LayerOptions, progress: &dyn UpkeepProgress) -> Result<ImportReport, StoreError> {
        let Some(layer) = self.writable() else { return Err(StoreError::ReadOnly { path: self.root().to_owned() }) };
        let limits = self.limits();
        let mut bundle = open_any(bundle, &layer.temp_folder()?, limits)?;
        Trust::of(options).check(&mut bundle)?;
        bundle.check_root()?;
        let report = ImportReport { root: ContentHash(*bundle.root()), pack: None, new: [0; 4], present: 0, problems: Vec::new() };
        let mut import = Import {
            bundle: &bundle,
            layer,
            limits,
            entries: Vec::new(),
            sources: Vec::new(),
            awaited: awaits(layer)?,
            plan_records: Vec::new(),
            selections: Vec::new(),
            good: HashSet::new(),
            report,
        };
        // From the first record on, imports into one folder go one after another: what a record becomes depends on what the packs have.
        let mut turn = None;
        for (kind, number) in EntryKind::ALL.into_iter().zip(0..) {
            if kind == EntryKind::PlanRecord {
                let taken = turn::take::<()>(Some(layer.root()), &TURN, Purpose::Import, &TurnOptions::default(), &mut || None);
                turn = Some(taken);
                // What is wrong with other packs is no reason to stop.
                drop(layer.packs().refresh());
                import.awaited = awaits(layer)?;
            }
            let mut counter = Counter::new(progress, "checking entries", u64::from(bundle.len(kind)));
            for row in bundle.rows(kind) {
                counter.one();
                let row = row?;
                match import.row(&row) {
                    Ok(Taken::New) => {
                        if let Some(count) = import.report.new.get_mut::<usize>(number) {
                            *count = count.saturating_add(1);
                        }
                    }
                    Ok(Taken::Present) => import.report.present = import.report.present.saturating_add(1),
                    // Of the store, not of the bundle: going on would do half of what was asked.
                    Err(Left::Store(error)) => return Err(error),
                    Err(Left::Out(error)) => {
                        import.report.problems.push(error);
                        continue;
                    }
                }
                import.good.insert((kind, row.name));
            }
        }
        let report = import.write(self, progress);
        drop(turn);
        report
    }
}

enum Taken {
    New,
    Present,
}

enum Left {
    /// The entry cannot be used.
    Out(StoreError),
    /// The store cannot.
    Store(StoreError),
}

impl Import<'_> {
    fn row(&mut self, row: &PackRow) -> Result<Taken, Left> {
        match row.kind {
            EntryKind::Blob => check_entry(self.bundle, row, self.limits).map_err(Left::Out)?,
            EntryKind::Plan => {
                let plan = checked_plan(self.bundle, row, self.limits).map_err(Left::Out)?;
                let view = plan.view();
                for blob in code_objects(&view) {
                    let path = || EntryKind::Blob.file(self.bundle.path(), &blob.hash.0);
                    self.require(EntryKind::Blob, &blob.hash.0, blob.size, || missing_code_object(&view.plan_ref(), path()))?;
                }
            }
            EntryKind::PlanRecord | EntryKind::Selection => return self.record(row),
        }
        if !self.is_there(row.kind, &row.name, row.size).map_err(Left::Store)? {
            self.add(row.kind, row.name, row.size, Source::Row(*row));
            return Ok(Taken::New);
        }
        // As any put: what is in place is stamped and looked at again, so that nobody removes it meanwhile; what is damaged is replaced.
        let bytes = self.bundle.read(row, row.size).map_err(Left::Out)?;
        let path = row.kind.file(self.layer.root(), &row.name);
        let left = |error| if stands_at(&error, &path) { Left::Out(error) } else { Left::Store(error) };
        let persisted = self.layer.publish(row.kind, &row.name, &bytes).map_err(left)?;
        Ok(if matches!(persisted, Persisted::Unchanged) { Taken::Present } else { Taken::New })
    }

    /// Something that is named must be a good entry of the bundle, or in the store.
    fn require(&self, kind: EntryKind, name: &[u8; 32], size: u64, missing: impl FnOnce() -> StoreError) -> Result<(), Left> {
        if self.good.contains(&(kind, *name)) {
            return Ok(());
        }
        match self.layer.require_durable(kind, name, size, |_| missing()) {
            Ok(()) => Ok(()),
            Err(error @ (StoreError::MissingTarget { .. } | StoreError::Size { .. } | StoreError::FileType { .. })) => {
                Err(Left::Out(error))
            }
            Err(error) => Err(Left::Store(error)),
        }
    }

    fn record(&mut self, row: &PackRow) -> Result<Taken, Left> {
        let mut record = packed_record(self.bundle, row, self.limits).map_err(Left::Out)?;
        let mut missing = None;
        let mut rows: Vec<PlanRef> = Vec::with_capacity(record.rows.len());
        for plan in record.rows {
            let named_by = format!("the {} of the bundle", row.id());
            let path = EntryKind::Plan.file(self.bundle.path(), &plan.root.0);
            let error = || StoreError::MissingTarget { path, what: "plan", named_by };
            match self.require(EntryKind::Plan, &plan.root.0, plan.size, error) {
                Ok(()) => rows.push(plan),
                Err(Left::Out(error)) => drop(missing.get_or_insert(error)),
                Err(error) => return Err(error),
            }
        }
        record.rows = rows;
        match missing {
            Some(error) if record.rows.is_empty() => return Err(Left::Out(error)),
            // The others of a selection are of use.
            Some(error) => self.report.problems.push(error),
            None => {}
        }
        let there = self.there(row.kind, &row.name)?;
        let is_there = there.is_some();
        let joined = join(row.kind, there.clone(), record.clone());
        if there.as_ref() == Some(&joined) {
            if self.awaited.contains(&(row.kind, row.name)) {
                self.look_again(row, joined);
            }
            return Ok(Taken::Present);
        }
        let path = row.kind.file(self.layer.root(), &row.name);
        crate::layer::check_rows(&path, joined.rows.len() as u64, self.limits).map_err(Left::Out)?;
        if row.kind == EntryKind::Selection {
            for plan in &record.rows {
                self.provide_record(plan)?;
            }
        }
        self.look_again(row, record);
        // A loose file would hide what is in the pack.
        if !is_there || !fs::status(&path).is_ok_and(|status| matches!(status.kind, fs::Kind::File { .. })) {
            let bytes = record::encode(joined.kind, &row.name, &joined.rows);
            self.add(row.kind, row.name, bytes.len() as u64, Source::Made(bytes));
        }
        Ok(Taken::New)
    }

    /// The record of a key, if it is of use.
    fn there(&self, kind: EntryKind, name: &[u8; 32]) -> Result<Option<Record>, Left> {
        match self.layer.record(kind, name, self.limits) {
            Ok(there) => Ok(there),
            // What is damaged is built again.
            Err(error) if error.is_damage() => Ok(None),
            Err(error) if stands_at(&error, &kind.file(self.layer.root(), name)) => match error {
                StoreError::FileType { found, .. } if found == fs::Kind::Folder.name() => Err(Left::Out(error)),
                // Replaced, as a put does.
                _ => Ok(None),
            },
            Err(error) => Err(Left::Store(error)),
        }
    }

    /// Has a record looked at when the pack is in its place.
    fn look_again(&mut self, row: &PackRow, record: Record) {
        match row.kind {
            EntryKind::PlanRecord => self.plan_records.extend(record.rows),
            _ => self.selections.push((row.name, record)),
        }
    }

    /// Readers count on there being a record of a plan that a selection names: one that was damaged in the bundle is made again.
    fn provide_record(&mut self, plan: &PlanRef) -> Result<(), Left> {
        let kind = EntryKind::PlanRecord;
        if self.good.contains(&(kind, plan.key.0)) {
            return Ok(());
        }
        if self.there(kind, &plan.key.0)?.is_some() {
            return Ok(());
        }
        self.plan_records.push(*plan);
        let bytes = record::encode(RecordKind::Plan, &plan.key.0, &[*plan]);
        self.add(kind, plan.key.0, bytes.len() as u64, Source::Made(bytes));
        self.good.insert((kind, plan.key.0));
        let [_, _, plan_records, _] = &mut self.report.new;
        *plan_records = plan_records.saturating_add(1);
        Ok(())
    }

    fn is_there(&self, kind: EntryKind, name: &[u8; 32], size: u64) -> Result<bool, StoreError> {
        match self.layer.require_now(kind, name, size, |path| StoreError::MissingTarget { path, what: "", named_by: String::new() }) {
            Ok(()) => Ok(true),
            Err(StoreError::MissingTarget { .. }) => Ok(false),
            // Of another size, or no file: replaced, as a put does.
            Err(StoreError::Size { .. } | StoreError::FileType { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }

    fn add(&mut self, kind: EntryKind, name: [u8; 32], size: u64, source: Source) {
        self.entries.push(NewEntry { kind, name, size });
        self.sources.push(source);
    }

    /// Writes the pack, then the records that it does not show: those that have loose files or may have one again from `trash`, and selections
    /// that somebody has changed meanwhile, who may have read before the pack was there. So each is looked at again, at its turn.
    fn write(mut self, store: &Store, progress: &dyn UpkeepProgress) -> Result<ImportReport, StoreError> {
        if !self.entries.is_empty() {
            let lines = self.bundle.provenance()?;
            let pack = write_on_top(self.layer, || {
                let mut counter = Counter::new(progress, "writing", self.entries.len() as u64);
                pack::write(&self.layer.temp_folder()?, &self.entries, &lines, &mut |number, sink| {
                    counter.one();
                    match self.sources.get(number) {
                        Some(Source::Row(row)) => self.bundle.stream(row, sink),
                        Some(Source::Made(bytes)) => sink(bytes),
                        None => Ok(()),
                    }
                })
            })?;
            let folder = self.layer.root().join(PACKS);
            // Compactions have folded it each time before it was in front. What they made of it is there; whether it is found is not known.
            let pack = pack.ok_or_else(|| StoreError::io("create a pack in", &folder)(ErrorKind::AlreadyExists.into()))?;
            self.report.pack = Some(pack);
        }
        drop(self.layer.packs().refresh());
        let plan_records = self.plan_records.iter().map(|plan| (EntryKind::PlanRecord, plan.key.0));
        let selections = self.selections.iter().map(|(key, _)| (EntryKind::Selection, *key));
        let hidden = loose_or_awaited(self.layer, plan_records.chain(selections))?;
        for plan in self.plan_records.iter().filter(|plan| hidden.contains(&(EntryKind::PlanRecord, plan.key.0))) {
            let put = self.show_plan_record(plan);
            self.report.problems.extend(of_the_entry(put, &EntryKind::PlanRecord.file(self.layer.root(), &plan.key.0))?);
        }
        for (key, record) in &self.selections {
            let _turn = store.turn_to_write(self.layer, key);
            let put = self.show_selection(key, record, hidden.contains(&(EntryKind::Selection, *key)));
            self.report.problems.extend(of_the_entry(put, &EntryKind::Selection.file(self.layer.root(), key))?);
        }
        Ok(self.report)
    }

    /// Makes a file of a plan record, where there is none: one that is there stays.
    fn show_plan_record(&self, plan: &PlanRef) -> Result<(), StoreError> {
        let (kind, name) = (EntryKind::PlanRecord, &plan.key.0);
        let bytes = record::encode(RecordKind::Plan, name, &[*plan]);
        let path = kind.file(self.layer.root(), name);
        match fs::status(&path) {
            Ok(status) if matches!(status.kind, fs::Kind::File { .. }) => Ok(()),
            Ok(_) => self.layer.publish(kind, name, &bytes).map(drop),
            Err(e) if e.kind() == ErrorKind::NotFound => self.layer.publish_new(kind, name, &bytes).map(drop),
            Err(e) => Err(StoreError::io("look at", &path)(e)),
        }
    }

    /// Has a selection show what the bundle has of it, for good.
    fn show_selection(&self, key: &[u8; 32], record: &Record, may_be_hidden: bool) -> Result<(), StoreError> {
        let kind = EntryKind::Selection;
        let there = match self.layer.record(kind, key, self.limits) {
            // What is damaged is built again, and what is no file is replaced.
            Err(error) if error.is_damage() || stands_at(&error, &kind.file(self.layer.root(), key)) => None,
            there => there?,
        };
        let joined = join(kind, there.clone(), record.clone());
        if may_be_hidden || there.as_ref() != Some(&joined) {
            drop(self.layer.publish_record(kind, joined.kind, key, &joined.rows)?);
        }
        Ok(())
    }
}

/// Whether an error says that something else than a file stands here.
fn stands_at(error: &StoreError, place: &Path) -> bool {
    matches!(error, StoreError::FileType { path, .. } if path == place)
}

/// What keeps one entry from being put is a problem, and no reason to stop.
fn of_the_entry(put: Result<(), StoreError>, place: &Path) -> Result<Option<StoreError>, StoreError> {
    match put {
        Ok(()) => Ok(None),
        Err(error) if stands_at(&error, place) => Ok(Some(error)),
        Err(error) => Err(error),
    }
}

/// What is found of a key after `record` came to what was there.
fn join(kind: EntryKind, there: Option<Record>, record: Record) -> Record {
    match there {
        None => record,
        Some(there) if kind == EntryKind::PlanRecord => there,
        Some(there) => behind(there, record),
    }
}
