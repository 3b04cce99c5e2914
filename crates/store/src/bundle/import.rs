//! Taking a bundle into a store.

use super::export::behind;
use super::merge::{check_entry, checked_plan, open_any};
use super::policy::{LayerOptions, Trust};
use crate::layer::{Directory, packed_record};
use crate::layout::PACKS;
use crate::pack::{NewEntry, Pack, PackRow};
use crate::plans::{code_objects, missing_code_object};
use crate::record::{self, Record, RecordKind};
use crate::turn::Purpose;
use crate::upkeep::write_on_top;
use crate::{EntryKind, Limits, Persisted, Store, StoreError, TurnOptions, fs, pack, turn};
use hipplan_serialize::{ContentHash, PlanRef};
use std::collections::HashSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The key of the turn that imports take. It is that of no record: none hashes to text.
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
    /// Selections and sets of the bundle that bring something new: looked at again once the pack is in its place.
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
            selections: Vec::new(),
            good: HashSet::new(),
            report,
        };
        // From the first record on, imports into one folder go one after another: what a record becomes depends on what the packs have.
        let mut turn = None;
        for (kind, number) in EntryKind::ALL.into_iter().zip(0..) {
            if kind == EntryKind::PlanRecord {
                let taken = turn::take::<()>(Some(layer.root()), &TURN, Purpose::Record, &TurnOptions::default(), &mut || None);
                turn = Some(taken);
                // What is wrong with other packs is no reason to stop.
                drop(layer.packs().refresh());
            }
            for row in bundle.rows(kind) {
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
        let report = import.write(self);
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
        let persisted = self.layer.publish(row.kind, &row.name, &bytes).map_err(Left::Store)?;
        Ok(if matches!(persisted, Persisted::Unchanged) { Taken::Present } else { Taken::New })
    }

    /// Something that is named must be a good entry of the bundle, or in the store.
    fn require(&self, kind: EntryKind, name: &[u8; 32], size: u64, missing: impl FnOnce() -> StoreError) -> Result<(), Left> {
        if self.good.contains(&(kind, *name)) {
            return Ok(());
        }
        match self.layer.require_durable(kind, name, size, |_| missing()) {
            Ok(()) => Ok(()),
            Err(error @ (StoreError::MissingTarget { .. } | StoreError::Size { .. })) => Err(Left::Out(error)),
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
        let there = match self.layer.record(row.kind, &row.name, self.limits) {
            Ok(there) => there,
            // What is damaged is built again.
            Err(error) if error.is_damage() => None,
            Err(error) => return Err(Left::Store(error)),
        };
        let is_there = there.is_some();
        let joined = join(row.kind, there.clone(), record.clone());
        if there.as_ref() == Some(&joined) {
            return Ok(Taken::Present);
        }
        let path = row.kind.file(self.layer.root(), &row.name);
        crate::layer::check_rows(&path, joined.rows.len() as u64, self.limits).map_err(Left::Out)?;
        if row.kind == EntryKind::Selection {
            for plan in &record.rows {
                self.provide_record(plan)?;
            }
            self.selections.push((row.name, record));
        }
        // A loose file would hide what is in the pack.
        if !is_there || fs::status(&path).is_err() {
            let bytes = record::encode(joined.kind, &row.name, &joined.rows);
            self.add(row.kind, row.name, bytes.len() as u64, Source::Made(bytes));
        }
        Ok(Taken::New)
    }

    /// Readers count on there being a record of a plan that a selection names: one that was damaged in the bundle is made again.
    fn provide_record(&mut self, plan: &PlanRef) -> Result<(), Left> {
        let kind = EntryKind::PlanRecord;
        if self.good.contains(&(kind, plan.key.0)) {
            return Ok(());
        }
        match self.layer.record(kind, &plan.key.0, self.limits) {
            Ok(Some(_)) => return Ok(()),
            Ok(None) => {}
            Err(error) if error.is_damage() => {}
            Err(error) => return Err(Left::Store(error)),
        }
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
            Err(StoreError::Size { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }

    fn add(&mut self, kind: EntryKind, name: [u8; 32], size: u64, source: Source) {
        self.entries.push(NewEntry { kind, name, size });
        self.sources.push(source);
    }

    /// Writes the pack, then what of the selections it does not show: those that have loose files, and those that somebody has changed
    /// meanwhile, who may have read before the pack was there. So each is looked at again, at its turn.
    fn write(mut self, store: &Store) -> Result<ImportReport, StoreError> {
        if !self.entries.is_empty() {
            let lines = self.bundle.provenance()?;
            let pack = write_on_top(self.layer, || {
                pack::write(&self.layer.temp_folder()?, &self.entries, &lines, &mut |number, sink| match self.sources.get(number) {
                    Some(Source::Row(row)) => self.bundle.stream(row, sink),
                    Some(Source::Made(bytes)) => sink(bytes),
                    None => Ok(()),
                })
            })?;
            let folder = self.layer.root().join(PACKS);
            // Compactions have folded it each time before it was in front. What they made of it is there; whether it is found is not known.
            let pack = pack.ok_or_else(|| StoreError::io("create a pack in", &folder)(ErrorKind::AlreadyExists.into()))?;
            self.report.pack = Some(pack);
        }
        drop(self.layer.packs().refresh());
        for (key, record) in &self.selections {
            let _turn = store.turn_to_write(self.layer, key);
            if let Some(joined) = self.unshown(key, record)? {
                self.layer.publish_record(EntryKind::Selection, joined.kind, key, &joined.rows).map(drop)?;
            }
        }
        Ok(self.report)
    }
}

impl Import<'_> {
    /// What a selection must become to show what the bundle has of it; nothing if it does.
    fn unshown(&self, key: &[u8; 32], record: &Record) -> Result<Option<Record>, StoreError> {
        let there = match self.layer.record(EntryKind::Selection, key, self.limits) {
            // What is damaged is built again.
            Err(error) if error.is_damage() => None,
            there => there?,
        };
        let joined = join(EntryKind::Selection, there.clone(), record.clone());
        Ok((there.as_ref() != Some(&joined)).then_some(joined))
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
