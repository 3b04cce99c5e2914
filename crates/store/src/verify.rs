//! Checking a whole store.

use crate::entry::{self, check_content, check_size};
use crate::layout::{Folder, TMP};
use crate::marker::{LOST_AND_FOUND, MARKER};
use crate::plans::{check_root, code_objects, damaged, missing_code_object};
use crate::record::RecordKind;
use crate::{Store, StoreError, walk};
use hipplan_serialize::ContentHash;
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
    /// One for each file that cannot be used or does not belong there, and for each missing target, in the order of the walk.
    pub problems: Vec<StoreError>,
    /// Unfinished writes: of writers at work, or of writers that were killed.
    pub leftovers: Vec<PathBuf>,
}

impl VerifyReport {
    /// Nothing is wrong. Unfinished writes are not wrong.
    pub fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }

    fn note<T>(&mut self, result: Result<T, StoreError>) -> Option<T> {
        result.map_err(|problem| self.problems.push(problem)).ok()
    }
}

impl Store {
    /// Reads and checks every file: every byte of every blob and plan, every record, and that what is named is there.
    ///
    /// Writes nothing, logs nothing, and may run beside readers and writers.
    pub fn verify(&self) -> VerifyReport {
        let mut report = VerifyReport::default();
        let Some(root) = self.usable_root() else { return report };
        self.verify_names(root, &mut report);
        for file in walk::files(root, Folder::Objects) {
            let size = file.and_then(|(name, path)| verify_blob(&path, &name));
            if let Some(Some(size)) = report.note(size) {
                report.blobs += 1;
                report.bytes += size;
            }
        }
        for file in walk::files(root, Folder::Plans) {
            let size = file.and_then(|(name, path)| self.verify_plan(&path, &name));
            if let Some(Some(size)) = report.note(size) {
                report.plans += 1;
                report.bytes += size;
            }
        }
        report.plan_records = self.verify_records(root, Folder::PlanIndex, RecordKind::Plan, &mut report);
        report.selection_records = self.verify_records(root, Folder::SelectionIndex, RecordKind::Selection, &mut report);
        report
    }

    fn verify_names(&self, root: &Path, report: &mut VerifyReport) {
        let known = [MARKER, TMP, LOST_AND_FOUND, "objects", "plans", "index"];
        let expected = "`hipplan-store`, `objects`, `plans`, `index` and `tmp`";
        report.problems.extend(walk::foreign_names(root, &known, expected));
        let expected = "`plan` and `select`";
        report.problems.extend(walk::foreign_names(&root.join("index"), &["plan", "select"], expected));
        let tmp = root.join(TMP);
        for name in walk::names(&tmp) {
            if let Some(name) = report.note(name) {
                report.leftovers.push(tmp.join(name));
            }
        }
    }

    /// Size of a good plan; `None` when it has vanished.
    fn verify_plan(&self, path: &Path, name: &[u8; 32]) -> Result<Option<u64>, StoreError> {
        let Some(plan) = self.open_plan(path, None)? else { return Ok(None) };
        let view = plan.view();
        let id = check_root(path, &view, name)?;
        view.verify().map_err(damaged(path))?;
        for blob in code_objects(&view) {
            let path = Folder::Objects.file(self.root(), &blob.hash.0);
            let file = entry::open(&path)?.ok_or_else(|| missing_code_object(&id, path.clone()))?;
            check_size(&path, file.size(), blob.size)?;
        }
        Ok(Some(id.size))
    }

    fn verify_records(&self, root: &Path, folder: Folder, kind: RecordKind, report: &mut VerifyReport) -> u64 {
        let mut good = 0;
        for file in walk::files(root, folder) {
            let checked = file.and_then(|(key, path)| self.verify_record(folder, kind, &key, &path));
            good += u64::from(report.note(checked) == Some(true));
        }
        good
    }

    /// Whether the record is still there; it is good then.
    fn verify_record(&self, folder: Folder, kind: RecordKind, key: &[u8; 32], path: &Path) -> Result<bool, StoreError> {
        let Some(rows) = self.read_record(folder, kind, key)? else { return Ok(false) };
        for plan in &rows {
            if self.read_plan(plan)?.is_none() {
                let missing = Folder::Plans.file(self.root(), &plan.root.0);
                let named_by = format!("record {}", path.display());
                return Err(StoreError::MissingTarget { path: missing, what: "plan", named_by });
            }
        }
        Ok(true)
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
