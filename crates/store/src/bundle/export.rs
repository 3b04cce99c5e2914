//! Writing a bundle of what a store holds.

use super::output;
use crate::layer::{Layer, walk};
use crate::pack::NewEntry;
use crate::plans::PlanBytes;
use crate::record::{self, Record, RecordKind};
use crate::upkeep::Counter;
use crate::{EntryKind, Store, StoreError, UpkeepProgress};
use hipplan_serialize::{ContentHash, Digest, GraphKey, PlanKey, PlanRef};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A plan that may be exported, as the chooser sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportedPlan {
    /// Its address.
    pub plan: PlanRef,
    /// The graph that it executes.
    pub graph: GraphKey,
    /// What it was compiled for.
    pub target: String,
}

/// What an export has written, and what it has left out.
#[derive(Debug)]
#[non_exhaustive]
pub struct ExportReport {
    /// Digest of the bundle's tables, and by them of all that is in it; nothing where no plan was chosen, so that nothing was written.
    pub root: Option<ContentHash>,
    /// Length of the file; 0 where nothing was written.
    pub bytes: u64,
    /// The plans that are in it, ascending by address.
    pub plans: Vec<ExportedPlan>,
    /// Number of blobs in it.
    pub blobs: u64,
    /// Number of plan records in it.
    pub plan_records: u64,
    /// Number of selections and sets in it.
    pub selections: u64,
    /// Entries that are damaged or cannot be read, and plans one of whose code objects is: left out.
    pub problems: Vec<StoreError>,
}

/// The bytes of what is written: those of records are made here, those of the others are asked of the layers again.
enum Content {
    Plan(PlanRef),
    Blob(Digest),
    Record(Vec<u8>),
}

/// What is going to be written.
#[derive(Default)]
struct Collected {
    plans: BTreeMap<PlanRef, ExportedPlan>,
    blobs: BTreeSet<(ContentHash, u64)>,
    plan_records: BTreeMap<PlanKey, PlanRef>,
    selections: BTreeMap<[u8; 32], Record>,
    /// What compiled the plans.
    origins: BTreeSet<String>,
    problems: Vec<StoreError>,
}

/// How a line of provenance about engines begins.
const ORIGIN: &str = "compiled by ";
/// More engines than this are told of by their number alone. Nobody has as many, and a store may be full of made-up ones.
const MOST_ORIGINS: usize = 256;

impl Store {
    /// Writes a bundle of the plans that `choose` wants into `output`: the plans, the blobs that they name, and what of the plan records,
    /// selections and sets leads to them. Only plans that something leads to are asked for.
    ///
    /// Equal contents give equal bytes: where the store is, how its entries are packed and who exports them makes no difference. What the
    /// layers below hold is exported as it is found: their selections behind those of the layers above. The far tier is not asked.
    ///
    /// Where no plan is chosen, nothing is written, and a file of the name stays as it is.
    ///
    /// The provenance of the bundle is `provenance`, that of all packs and bundles of the store, and a line for each engine that has
    /// compiled plans of it, which follows from the plans alone.
    ///
    /// # Errors
    /// The bundle cannot be written, or would be above a limit; or something went away while it was being written.
    pub fn export(
        &self,
        output: &Path,
        provenance: &[String],
        choose: &mut dyn FnMut(&ExportedPlan) -> bool,
    ) -> Result<ExportReport, StoreError> {
        self.export_with(output, provenance, choose, &())
    }

    /// As [`export`](Self::export), telling how far it has come.
    ///
    /// # Errors
    /// As there.
    pub fn export_with(
        &self,
        output: &Path,
        provenance: &[String],
        choose: &mut dyn FnMut(&ExportedPlan) -> bool,
        progress: &dyn UpkeepProgress,
    ) -> Result<ExportReport, StoreError> {
        let collected = self.collect(choose, progress)?;
        let Collected { plans, blobs, plan_records, selections, origins, problems } = collected;
        if plans.is_empty() {
            return Ok(ExportReport { root: None, bytes: 0, plans: Vec::new(), blobs: 0, plan_records: 0, selections: 0, problems });
        }
        let mut entries: Vec<NewEntry> = Vec::new();
        let mut contents: Vec<Content> = Vec::new();
        let mut add = |kind, name, size, content| {
            entries.push(NewEntry { kind, name, size });
            contents.push(content);
        };
        for &(hash, size) in &blobs {
            add(EntryKind::Blob, hash.0, size, Content::Blob(Digest { hash, size }));
        }
        for plan in plans.keys() {
            add(EntryKind::Plan, plan.root.0, plan.size, Content::Plan(*plan));
        }
        for (key, plan) in &plan_records {
            let bytes = record::encode(RecordKind::Plan, &key.0, &[*plan]);
            add(EntryKind::PlanRecord, key.0, bytes.len() as u64, Content::Record(bytes));
        }
        for (key, record) in &selections {
            let bytes = record::encode(record.kind, key, &record.rows);
            add(EntryKind::Selection, *key, bytes.len() as u64, Content::Record(bytes));
        }
        let mut lines: BTreeSet<String> = provenance.iter().cloned().collect();
        for layer in self.layers() {
            for pack in layer.packs().0 {
                // What they say of engines is of all that was in them once.
                lines.extend(pack.provenance()?.into_iter().filter(|line| !is_origin(line)));
            }
        }
        match origins.len() {
            0..=MOST_ORIGINS => lines.extend(origins),
            n => drop(lines.insert(format!("{ORIGIN}{n} engines"))),
        }
        let lines: Vec<String> = lines.into_iter().collect();
        let mut counter = Counter::new(progress, "writing", entries.len() as u64);
        let (root, bytes) = output::write(output, &entries, &lines, self.limits(), &mut |number, sink| {
            counter.one();
            match contents.get(number) {
                Some(Content::Record(bytes)) => sink(bytes),
                Some(Content::Plan(plan)) => {
                    sink(self.plan_in_layers(plan)?.ok_or_else(|| gone(self, EntryKind::Plan, &plan.root.0))?.bytes())
                }
                Some(Content::Blob(blob)) => {
                    let found = self.first(|layer| layer.blob(blob, self.limits()))?;
                    sink(&found.ok_or_else(|| gone(self, EntryKind::Blob, &blob.hash.0))?)
                }
                None => Ok(()),
            }
        })?;
        Ok(ExportReport {
            root: Some(ContentHash(root)),
            bytes,
            plans: plans.into_values().collect(),
            blobs: blobs.len() as u64,
            plan_records: plan_records.len() as u64,
            selections: selections.len() as u64,
            problems,
        })
    }

    fn collect(&self, choose: &mut dyn FnMut(&ExportedPlan) -> bool, progress: &dyn UpkeepProgress) -> Result<Collected, StoreError> {
        let mut all = Collected::default();
        // What is in a pack that cannot be opened is left out.
        for layer in self.layers().iter().filter(|layer| layer.is_usable()) {
            all.problems.extend(layer.packs().1);
        }
        // Plans that something leads to, whether or not they are wanted or good.
        let mut seen: BTreeSet<PlanRef> = BTreeSet::new();
        let keys = self.names(EntryKind::PlanRecord, &mut all.problems);
        let mut counter = Counter::new(progress, "reading plans", keys.len() as u64);
        for key in keys {
            counter.one();
            let record = self.first(|layer| layer.record(EntryKind::PlanRecord, &key, self.limits()));
            match record {
                Ok(record) => {
                    let Some(plan) = record.and_then(|record| record.rows.into_iter().next()) else { continue };
                    if seen.insert(plan) {
                        self.take_plan(&plan, choose, &mut all);
                    }
                    if all.plans.contains_key(&plan) {
                        all.plan_records.insert(PlanKey(key), plan);
                    }
                }
                Err(error) => all.problems.push(error),
            }
        }
        let keys = self.names(EntryKind::Selection, &mut all.problems);
        let mut counter = Counter::new(progress, "reading selections", keys.len() as u64);
        for key in keys {
            counter.one();
            let Some(mut record) = self.united_record(&key, &mut all.problems) else { continue };
            for plan in &record.rows {
                if seen.insert(*plan) {
                    self.take_plan(plan, choose, &mut all);
                }
            }
            record.rows.retain(|plan| all.plans.contains_key(plan));
            // A selection leads to plans by their addresses; whoever has the key alone needs a record, and readers count on there being one.
            for plan in &record.rows {
                all.plan_records.entry(plan.key).or_insert(*plan);
            }
            if record.rows.is_empty() {
                continue;
            }
            let place = EntryKind::Selection.file(self.root(), &key);
            crate::layer::check_rows(&place, record.rows.len() as u64, self.limits())?;
            all.selections.insert(key, record);
        }
        Ok(all)
    }

    /// A plan with its code objects, if it is wanted and all of it is good.
    fn take_plan(&self, plan: &PlanRef, choose: &mut dyn FnMut(&ExportedPlan) -> bool, all: &mut Collected) {
        let taken = self.good_plan(plan).and_then(|found| {
            let Some(found) = found else { return Ok(None) };
            let (exported, origin) = {
                let view = found.view();
                let meta = view.meta();
                let origin = origin(&meta.provider, &meta.engine, &meta.engine_revision);
                (ExportedPlan { plan: *plan, graph: meta.graph_key(), target: meta.target.as_str().to_owned() }, origin)
            };
            if !choose(&exported) {
                return Ok(None);
            }
            let mut blobs = Vec::new();
            for blob in found.code_objects() {
                if !all.blobs.contains(&(blob.hash, blob.size)) && self.first(|layer| layer.blob(&blob, self.limits()))?.is_none() {
                    let path = EntryKind::Blob.file(self.root(), &blob.hash.0);
                    return Err(crate::plans::missing_code_object(plan, path));
                }
                blobs.push((blob.hash, blob.size));
            }
            Ok(Some((exported, origin, blobs)))
        });
        match taken {
            Ok(Some((exported, origin, blobs))) => {
                all.plans.insert(*plan, exported);
                all.origins.insert(origin);
                all.blobs.extend(blobs);
            }
            // Not wanted; or a plan that a record names and nobody has, which is what gc leaves for a moment.
            Ok(None) => {}
            Err(error) => all.problems.push(error),
        }
    }

    /// A plan all of whose bytes are good.
    fn good_plan(&self, plan: &PlanRef) -> Result<Option<PlanBytes>, StoreError> {
        let Some(found) = self.plan_in_layers(plan)? else { return Ok(None) };
        let path = EntryKind::Plan.file(self.root(), &plan.root.0);
        found.view().verify().map_err(crate::plans::damaged(&path))?;
        Ok(Some(found))
    }

    fn plan_in_layers(&self, plan: &PlanRef) -> Result<Option<PlanBytes>, StoreError> {
        self.first(|layer| layer.plan(plan, self.limits()))
    }

    /// What the first layer gives that has something good; the first fault if none has.
    pub(super) fn first<T>(&self, mut find: impl FnMut(&Layer) -> Result<Option<T>, StoreError>) -> Result<Option<T>, StoreError> {
        let mut fault = None;
        for layer in self.layers().iter().filter(|layer| layer.is_usable()) {
            match find(layer) {
                Ok(Some(found)) => return Ok(Some(found)),
                Ok(None) => {}
                Err(error) => {
                    fault.get_or_insert(error);
                }
            }
        }
        fault.map_or(Ok(None), Err)
    }

    /// The record of a selection key over all layers: sets are united, otherwise the rows of a layer come behind those of the layers
    /// before it, as a lookup gives them.
    fn united_record(&self, key: &[u8; 32], problems: &mut Vec<StoreError>) -> Option<Record> {
        let mut all: Option<Record> = None;
        for layer in self.layers().iter().filter(|layer| layer.is_usable()) {
            match layer.record(EntryKind::Selection, key, self.limits()) {
                Ok(Some(record)) => {
                    all = Some(match all {
                        None => record,
                        Some(upper) => behind(upper, record),
                    });
                }
                Ok(None) => {}
                Err(error) => problems.push(error),
            }
        }
        all
    }

    /// The names of a kind in all layers, ascending, each once. What does not belong there is left out and reported.
    fn names(&self, kind: EntryKind, problems: &mut Vec<StoreError>) -> BTreeSet<[u8; 32]> {
        let mut names = BTreeSet::new();
        for layer in self.layers().iter().filter(|layer| layer.is_usable()) {
            if let Some(path) = layer.loose_root() {
                for file in walk::files(path, kind) {
                    match file {
                        Ok((name, _)) => drop(names.insert(name)),
                        Err(error) => problems.push(error),
                    }
                }
            }
            // Those that cannot be opened have been reported.
            for pack in layer.packs().0 {
                for row in pack.rows(kind) {
                    match row {
                        Ok(row) => drop(names.insert(row.name)),
                        Err(error) => problems.push(error),
                    }
                }
            }
        }
        names
    }
}

/// What compiled a plan, as a line of provenance, which has no control characters.
fn origin(provider: &str, engine: &str, revision: &str) -> String {
    let line = format!("{ORIGIN}provider {provider}, engine {engine}, revision {revision}");
    line.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// Whether an export has written a line of provenance, and not a person.
fn is_origin(line: &str) -> bool {
    let Some(what) = line.strip_prefix(ORIGIN) else { return false };
    let is_number = |number: &str| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    what.strip_prefix("provider ").is_some_and(|rest| rest.contains(", engine ") && rest.contains(", revision "))
        || what.strip_suffix(" engines").is_some_and(is_number)
}

/// The rows of `lower` behind those of `upper`; two sets are united. As a lookup that goes through both: so plans of one key all stay, other
/// than in a set that a plan is added to.
pub(super) fn behind(upper: Record, lower: Record) -> Record {
    let kind = if upper.kind == lower.kind { upper.kind } else { RecordKind::Selection };
    let mut rows = upper.rows;
    let new: Vec<PlanRef> = lower.rows.into_iter().filter(|plan| !rows.contains(plan)).collect();
    rows.extend(new);
    if kind == RecordKind::Set {
        rows.sort_unstable();
    }
    Record { kind, rows }
}

fn gone(store: &Store, kind: EntryKind, name: &[u8; 32]) -> StoreError {
    StoreError::MissingTarget { path: kind.file(store.root(), name), what: kind.word(), named_by: "the list of this export".to_owned() }
}
