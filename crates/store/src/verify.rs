//! Checking a whole store.

use crate::entry::{self, check_content, check_size};
use crate::layout::{EntryKind, TMP};
use crate::marker::{LOST_AND_FOUND, MARKER};
use crate::plans::{check_root, code_objects, damaged, missing_code_object};
use crate::record::RecordKind;
use crate::{Store, StoreError, walk};
use hipplan_serialize::{ContentHash, PlanKey, PlanRef};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// What a store holds and what is wrong with it.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Blobs that are good.
    pub blobs: u64,
    /// Plans that are good, their code objects being there.
    pub plans: u64,
    /// Records of the plan index that are good, their plans opening.
    pub plan_records: u64,
    /// Records of the selection index that are good, their plans opening.
    pub selection_records: u64,
    /// Bytes in good blobs and plans.
    pub bytes: u64,
    /// One for each path under which something cannot be used, is missing or does not belong, in the order of the walk.
    /// [`StoreError::is_damage`] tells damage from what could not be read or does not belong.
    pub problems: Vec<StoreError>,
    /// Unfinished writes: of writers at work, or of writers that were killed. Files in `tmp`, and plans that neither a plan
    /// record nor a selection leads to yet.
    pub leftovers: Vec<PathBuf>,
}

impl VerifyReport {
    /// Nothing is wrong. Unfinished writes are not wrong.
    pub fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }
}

/// A report in the making.
#[derive(Default)]
struct Findings {
    report: VerifyReport,
    /// Paths of the problems.
    seen: HashSet<PathBuf>,
    /// Good plans whose key has no record.
    unnamed: Vec<(PlanKey, PathBuf)>,
}

impl Findings {
    fn problem(&mut self, problem: StoreError) {
        if problem.path().is_none_or(|path| self.seen.insert(path.to_owned())) {
            self.report.problems.push(problem);
        }
    }

    fn note<T>(&mut self, result: Result<T, StoreError>) -> Option<T> {
        result.map_err(|problem| self.problem(problem)).ok()
    }
}

impl Store {
    /// Reads and checks every file: every byte of every blob and plan, every record, and that what is named is there.
    ///
    /// Writes nothing, logs nothing, and may run beside readers and writers.
    pub fn verify(&self) -> VerifyReport {
        let mut all = Findings::default();
        let Some(root) = self.usable_root() else { return all.report };
        verify_names(root, &mut all);
        for file in walk::files(root, EntryKind::Blob) {
            let size = file.and_then(|(name, path)| verify_blob(&path, &name));
            if let Some(Some(size)) = all.note(size) {
                all.report.blobs = all.report.blobs.saturating_add(1);
                all.report.bytes = all.report.bytes.saturating_add(size);
            }
        }
        for file in walk::files(root, EntryKind::Plan) {
            let plan = file.and_then(|(name, path)| Ok(self.verify_plan(&path, &name)?.map(|plan| (plan, path))));
            if let Some(Some((plan, path))) = all.note(plan) {
                all.report.plans = all.report.plans.saturating_add(1);
                all.report.bytes = all.report.bytes.saturating_add(plan.size);
                if self.lacks_record(&plan.key) {
                    all.unnamed.push((plan.key, path));
                }
            }
        }
        all.report.plan_records = self.verify_records(root, EntryKind::PlanRecord, RecordKind::Plan, &mut all);
        all.report.selection_records = self.verify_records(root, EntryKind::Selection, RecordKind::Selection, &mut all);
        // A writer between the plan and its record, unless a selection was written after them.
        for (key, path) in std::mem::take(&mut all.unnamed) {
            if self.lacks_record(&key) && !all.seen.contains(&EntryKind::PlanRecord.file(root, &key.0)) {
                all.report.leftovers.push(path);
            }
        }
        all.report
    }

    /// Whether nothing stands under the name of the record; what is wrong with one that does is found elsewhere.
    fn lacks_record(&self, key: &PlanKey) -> bool {
        matches!(entry::open(&EntryKind::PlanRecord.file(self.root(), &key.0)), Ok(None))
    }

    /// A good plan; `None` when it has vanished.
    fn verify_plan(&self, path: &Path, name: &[u8; 32]) -> Result<Option<PlanRef>, StoreError> {
        let Some(plan) = self.open_plan(path, None)? else { return Ok(None) };
        let view = plan.view();
        let id = check_root(path, &view, name)?;
        view.verify().map_err(damaged(path))?;
        for blob in code_objects(&view) {
            let path = EntryKind::Blob.file(self.root(), &blob.hash.0);
            let file = entry::open(&path)?.ok_or_else(|| missing_code_object(&id, path.clone()))?;
            check_size(&path, file.size(), blob.size)?;
        }
        Ok(Some(id))
    }

    fn verify_records(&self, root: &Path, folder: EntryKind, kind: RecordKind, all: &mut Findings) -> u64 {
        let mut good = 0_u64;
        for file in walk::files(root, folder) {
            let rows = file.and_then(|(key, path)| Ok(self.read_record(folder, kind, &key)?.map(|rows| (rows, path))));
            let Some(Some((rows, path))) = all.note(rows) else { continue };
            let checked: Vec<_> = rows.iter().map(|plan| all.note(self.verify_row(kind, plan, &path)).is_some()).collect();
            good = good.saturating_add(u64::from(checked.into_iter().all(|good| good)));
        }
        good
    }

    /// The plan of a row is there. One that a selection names has its record, which was written before.
    fn verify_row(&self, kind: RecordKind, plan: &PlanRef, record: &Path) -> Result<(), StoreError> {
        let missing = |folder: EntryKind, name, what| {
            let named_by = format!("record {}", record.display());
            StoreError::MissingTarget { path: folder.file(self.root(), name), what, named_by }
        };
        if self.read_plan(plan)?.is_none() {
            return Err(missing(EntryKind::Plan, &plan.root.0, "plan"));
        }
        if kind == RecordKind::Selection && self.lacks_record(&plan.key) {
            return Err(missing(EntryKind::PlanRecord, &plan.key.0, "record of the plan"));
        }
        Ok(())
    }
}

/// What stands in the root, in `index` and in `tmp`.
fn verify_names(root: &Path, all: &mut Findings) {
    let known = [MARKER, TMP, LOST_AND_FOUND, "objects", "plans", "index"];
    let expected = "`hipplan-store`, `objects`, `plans`, `index` and `tmp`";
    let mut foreign = walk::foreign_names(root, &known, expected);
    // One that is not a folder is reported when its files are to be listed.
    if walk::own_folders(root, "index").is_ok() {
        foreign.extend(walk::foreign_names(&root.join("index"), &["plan", "select"], "`plan` and `select`"));
    }
    foreign.into_iter().for_each(|problem| all.problem(problem));
    if all.note(walk::own_folders(root, TMP)).is_some() {
        let tmp = root.join(TMP);
        for name in walk::names(&tmp) {
            if let Some(name) = all.note(name) {
                all.report.leftovers.push(tmp.join(name));
            }
        }
    }
}

/// Size of a good blob; `None` when it has vanished.
fn verify_blob(path: &Path, name: &[u8; 32]) -> Result<Option<u64>, StoreError> {
    let Some(file) = entry::open(path)? else { return Ok(None) };
    let size = file.size();
    let found = file.hash().map_err(StoreError::io("read", path))?;
    check_content(path, "content hash", &ContentHash(*found.as_bytes()), &ContentHash(*name))?;
    Ok(Some(size))
}
