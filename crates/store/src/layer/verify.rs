//! Checking a whole layer.

use super::packed::{packed_plan, packed_record};
use super::{Directory, walk};
use crate::entry::{self, Sound, check_size};
use crate::layout::{self, LOCKS, PACKS, PINS, QUARANTINE, TMP, TRASH};
use crate::marker::{LOST_AND_FOUND, MARKER};
use crate::pack::Pack;
use crate::plans::{PlanBytes, code_objects, damaged, missing_code_object};
use crate::record::{Record, RecordKind};
use crate::upkeep::Counter;
use crate::{EntryKind, Limits, StoreError, UpkeepProgress};
use hipplan_serialize::{Digest, PlanKey, PlanRef};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a store holds and what is wrong with it.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Blobs that are good. One that stands in several places counts as often.
    pub blobs: u64,
    /// Plans that are good, their code objects being there.
    pub plans: u64,
    /// Records of the plan index that are good, their plans opening.
    pub plan_records: u64,
    /// Records of the selection index that are good, their plans opening.
    pub selection_records: u64,
    /// Packs that are good as a whole; what is in them is counted above.
    pub packs: u64,
    /// Bytes in good blobs and plans.
    pub bytes: u64,
    /// One for each path and entry that cannot be used, is missing or does not belong, in the order of the walk.
    /// [`StoreError::is_damage`] tells damage from what could not be read or does not belong.
    pub problems: Vec<StoreError>,
    /// Unfinished writes: of writers at work, or of writers that were killed. Files in `tmp` and `trash`, and plans that neither a plan
    /// record nor a selection leads to yet.
    pub leftovers: Vec<PathBuf>,
    /// Damaged entries that were set aside.
    pub quarantined: Vec<PathBuf>,
}

impl VerifyReport {
    /// Nothing is wrong. Unfinished writes and what was set aside are not wrong.
    pub fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }

    /// Adds what was found in another layer.
    pub(crate) fn add(&mut self, other: Self) {
        let Self { blobs, plans, plan_records, selection_records, packs, bytes, problems, leftovers, quarantined } = other;
        let counts = [
            (&mut self.blobs, blobs),
            (&mut self.plans, plans),
            (&mut self.plan_records, plan_records),
            (&mut self.selection_records, selection_records),
            (&mut self.packs, packs),
            (&mut self.bytes, bytes),
        ];
        for (count, more) in counts {
            *count = count.saturating_add(more);
        }
        self.problems.extend(problems);
        self.leftovers.extend(leftovers);
        self.quarantined.extend(quarantined);
    }
}

/// A report in the making.
#[derive(Default)]
struct Findings {
    report: VerifyReport,
    /// What the problems are about.
    seen: HashSet<PathBuf>,
    /// Good plans whose key has no record.
    unnamed: Vec<(PlanKey, PathBuf)>,
}

impl Findings {
    fn problem(&mut self, problem: StoreError) {
        // Entries of a pack are told apart by what is said of them: a pack has many.
        let is_new = match &problem {
            StoreError::Pack { .. } => true,
            _ => problem.path().is_none_or(|path| self.seen.insert(path.to_owned())),
        };
        if is_new {
            self.report.problems.push(problem);
        }
    }

    fn note<T>(&mut self, result: Result<T, StoreError>) -> Option<T> {
        result.map_err(|problem| self.problem(problem)).ok()
    }

    fn blob(&mut self, size: u64) {
        self.report.blobs = self.report.blobs.saturating_add(1);
        self.report.bytes = self.report.bytes.saturating_add(size);
    }

    fn plan(&mut self, size: u64) {
        self.report.plans = self.report.plans.saturating_add(1);
        self.report.bytes = self.report.bytes.saturating_add(size);
    }
}

/// Where what is named is looked for.
trait Targets {
    /// Size of an entry that is there. What is wrong with it is found where it is met itself.
    fn size(&self, kind: EntryKind, name: &[u8; 32]) -> Result<Option<u64>, StoreError>;
    /// What a message says of where an entry should be.
    fn place(&self, kind: EntryKind, name: &[u8; 32]) -> PathBuf;
}

impl Targets for Directory {
    fn size(&self, kind: EntryKind, name: &[u8; 32]) -> Result<Option<u64>, StoreError> {
        if let Some(file) = entry::open(&self.place(kind, name))? {
            return Ok(Some(file.size()));
        }
        for pack in &*self.packs().current() {
            if let Ok(Some(row)) = pack.find(kind, name) {
                return Ok(Some(row.size));
            }
        }
        Ok(None)
    }

    fn place(&self, kind: EntryKind, name: &[u8; 32]) -> PathBuf {
        kind.file(self.root(), name)
    }
}

impl Targets for Pack {
    fn size(&self, kind: EntryKind, name: &[u8; 32]) -> Result<Option<u64>, StoreError> {
        Ok(self.find(kind, name)?.map(|row| row.size))
    }

    fn place(&self, kind: EntryKind, name: &[u8; 32]) -> PathBuf {
        kind.file(self.path(), name)
    }
}

/// Checks a pack that stands alone.
pub(crate) fn verify_bundle(pack: &Arc<Pack>, limits: &Limits, progress: &dyn UpkeepProgress) -> VerifyReport {
    let mut all = Findings::default();
    verify_pack(pack, &**pack, limits, progress, &mut all);
    all.report
}

impl Directory {
    /// Reads and checks every entry: every byte of every blob and plan, every record, and that what is named is there.
    pub(crate) fn verify(&self, limits: &Limits, progress: &dyn UpkeepProgress) -> VerifyReport {
        let mut all = Findings::default();
        let Some(root) = self.usable_root() else { return all.report };
        verify_names(root, &mut all);
        let (packs, faults) = self.packs().listed();
        faults.into_iter().for_each(|fault| all.problem(fault));
        let mut counter = Counter::new(progress, phase(EntryKind::Blob), 0);
        for file in walk::files(root, EntryKind::Blob) {
            counter.one();
            let size = file.and_then(|(name, path)| Ok(check_listed(EntryKind::Blob, &name, &path, limits)?.map(|(_, size)| size)));
            if let Some(Some(size)) = all.note(size) {
                all.blob(size);
            }
        }
        let mut counter = Counter::new(progress, phase(EntryKind::Plan), 0);
        for file in walk::files(root, EntryKind::Plan) {
            counter.one();
            let plan = file.and_then(|(name, path)| Ok(self.verify_loose_plan(&path, &name, limits)?.map(|plan| (plan, path))));
            if let Some(Some((plan, path))) = all.note(plan) {
                all.plan(plan.size);
                if matches!(self.size(EntryKind::PlanRecord, &plan.key.0), Ok(None)) {
                    all.unnamed.push((plan.key, path));
                }
            }
        }
        all.report.plan_records = self.verify_records(root, EntryKind::PlanRecord, limits, progress, &mut all);
        all.report.selection_records = self.verify_records(root, EntryKind::Selection, limits, progress, &mut all);
        for pack in &packs {
            verify_pack(pack, self, limits, progress, &mut all);
        }
        // A writer between the plan and its record, unless a selection was written after them.
        for (key, path) in std::mem::take(&mut all.unnamed) {
            let is_unnamed = matches!(self.size(EntryKind::PlanRecord, &key.0), Ok(None));
            if is_unnamed && !all.seen.contains(&self.place(EntryKind::PlanRecord, &key.0)) {
                all.report.leftovers.push(path);
            }
        }
        all.report
    }

    /// A good plan; `None` when it has vanished.
    fn verify_loose_plan(&self, path: &Path, name: &[u8; 32], limits: &Limits) -> Result<Option<PlanRef>, StoreError> {
        match check_listed(EntryKind::Plan, name, path, limits)? {
            Some((Sound::Plan(plan), _)) => verify_code_objects(&plan, self).map(Some),
            _ => Ok(None),
        }
    }

    fn verify_records(&self, root: &Path, entries: EntryKind, limits: &Limits, progress: &dyn UpkeepProgress, all: &mut Findings) -> u64 {
        let mut good = 0_u64;
        let mut counter = Counter::new(progress, phase(entries), 0);
        for file in walk::files(root, entries) {
            counter.one();
            let read = |(key, path): ([u8; 32], PathBuf)| Ok(check_listed(entries, &key, &path, limits)?.map(|(sound, _)| (sound, path)));
            let Some(Some((Sound::Record(record), path))) = all.note(file.and_then(read)) else { continue };
            good = good.saturating_add(u64::from(verify_rows(&record, &path, self, all)));
        }
        good
    }
}

/// What is under way while entries of a kind are checked.
const fn phase(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::Blob => "checking blobs",
        EntryKind::Plan => "checking plans",
        EntryKind::PlanRecord => "checking plan records",
        EntryKind::Selection => "checking selections",
    }
}

/// Checks what is in a pack; what it names may be anywhere in `targets`.
fn verify_pack(pack: &Arc<Pack>, targets: &dyn Targets, limits: &Limits, progress: &dyn UpkeepProgress, all: &mut Findings) {
    let before = all.report.problems.len();
    all.note(pack.check_root());
    for kind in EntryKind::ALL {
        let mut counter = Counter::new(progress, phase(kind), u64::from(pack.len(kind)));
        for row in pack.rows(kind) {
            counter.one();
            let Some(row) = all.note(row) else { break };
            match kind {
                EntryKind::Blob => {
                    // That its row has the digest for a name was checked when it was read.
                    if all.note(pack.check_value(&row)).is_some() {
                        all.blob(row.size);
                    }
                }
                EntryKind::Plan => {
                    let plan = packed_plan(pack, &row, limits).and_then(|plan| verify_plan(pack.path(), &plan, targets));
                    if let Some(plan) = all.note(plan) {
                        all.plan(plan.size);
                    }
                }
                EntryKind::PlanRecord | EntryKind::Selection => {
                    let Some(record) = all.note(packed_record(pack, &row, limits)) else { continue };
                    let good = u64::from(verify_rows(&record, pack.path(), targets, all));
                    let count =
                        if kind == EntryKind::PlanRecord { &mut all.report.plan_records } else { &mut all.report.selection_records };
                    *count = count.saturating_add(good);
                }
            }
        }
    }
    all.report.packs = all.report.packs.saturating_add(u64::from(all.report.problems.len() == before));
}

/// A plan all of whose bytes are good, and whose code objects are there.
fn verify_plan(path: &Path, plan: &PlanBytes, targets: &dyn Targets) -> Result<PlanRef, StoreError> {
    plan.view().verify().map_err(damaged(path))?;
    verify_code_objects(plan, targets)
}

/// The same of a plan whose bytes are known to be good.
fn verify_code_objects(plan: &PlanBytes, targets: &dyn Targets) -> Result<PlanRef, StoreError> {
    let view = plan.view();
    let id = view.plan_ref();
    for Digest { hash, size } in code_objects(&view) {
        let place = targets.place(EntryKind::Blob, &hash.0);
        let found = targets.size(EntryKind::Blob, &hash.0)?.ok_or_else(|| missing_code_object(&id, place.clone()))?;
        check_size(&place, found, size)?;
    }
    Ok(id)
}

/// Whether all rows of a record lead to plans.
fn verify_rows(record: &Record, path: &Path, targets: &dyn Targets, all: &mut Findings) -> bool {
    let rows: Vec<_> = record.rows.iter().map(|plan| all.note(verify_row(record.kind, plan, path, targets)).is_some()).collect();
    rows.into_iter().all(|good| good)
}

/// The plan of a row is there. One that a selection names has its record, which was written before.
fn verify_row(kind: RecordKind, plan: &PlanRef, record: &Path, targets: &dyn Targets) -> Result<(), StoreError> {
    let missing = |kind: EntryKind, name, what| {
        let named_by = format!("record {}", record.display());
        StoreError::MissingTarget { path: targets.place(kind, name), what, named_by }
    };
    let size = targets.size(EntryKind::Plan, &plan.root.0)?.ok_or_else(|| missing(EntryKind::Plan, &plan.root.0, "plan"))?;
    check_size(&targets.place(EntryKind::Plan, &plan.root.0), size, plan.size)?;
    if kind != RecordKind::Plan && targets.size(EntryKind::PlanRecord, &plan.key.0)?.is_none() {
        return Err(missing(EntryKind::PlanRecord, &plan.key.0, "record of the plan"));
    }
    Ok(())
}

/// What stands in the folder of a store, outside of the folders of entries, and is none of its own; and what stands in place of its folders.
pub(crate) fn misplaced(root: &Path) -> Vec<StoreError> {
    let known = [MARKER, TMP, LOST_AND_FOUND, "objects", "plans", "index", PACKS, LOCKS, PINS, QUARANTINE, TRASH];
    let expected = "`hipplan-store`, `objects`, `plans`, `index`, `packs`, `locks`, `pins`, `quarantine`, `trash` and `tmp`";
    let mut misplaced = walk::foreign_names(root, &known, expected);
    let folders = ["objects", "plans", "index", "index/plan", "index/select", PACKS, LOCKS, PINS, QUARANTINE, TRASH, TMP];
    misplaced.extend(folders.into_iter().filter_map(|folder| walk::own_folders(root, folder).err()));
    if walk::own_folders(root, "index").is_ok() {
        misplaced.extend(walk::foreign_names(&root.join("index"), &["plan", "select"], "`plan` and `select`"));
    }
    if walk::own_folders(root, PACKS).is_err() {
        return misplaced;
    }
    let packs = root.join(PACKS);
    for name in walk::names(&packs) {
        let name = match name {
            Ok(name) if is_pack_or_beside(&name) => continue,
            Ok(name) => name,
            Err(error) => {
                misplaced.push(error);
                continue;
            }
        };
        let problem = walk::foreign(&packs.join(name), "packs `<8 hex>-<32 hex>.pack` and their `.used` files");
        misplaced.extend(problem.unwrap_or_else(Some));
    }
    misplaced
}

/// Whether a name is that of a pack, of its stamps, or of a claim.
fn is_pack_or_beside(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| {
        layout::parse_pack(name).is_some()
            || layout::parse_claim(name).is_some()
            || name.strip_suffix(".used").is_some_and(|pack| layout::parse_pack(&format!("{pack}.pack")).is_some())
    })
}

/// What does not belong, and what is left in the folders of upkeep.
fn verify_names(root: &Path, all: &mut Findings) {
    misplaced(root).into_iter().for_each(|problem| all.problem(problem));
    for folder in [TMP, TRASH, QUARANTINE] {
        if walk::own_folders(root, folder).is_err() {
            continue;
        }
        let path = root.join(folder);
        for name in walk::names(&path) {
            let Some(name) = all.note(name) else { continue };
            let list = if folder == QUARANTINE { &mut all.report.quarantined } else { &mut all.report.leftovers };
            list.push(path.join(name));
        }
    }
}

/// A good file and its size; `None` when it has vanished.
fn check_listed(kind: EntryKind, name: &[u8; 32], path: &Path, limits: &Limits) -> Result<Option<(Sound, u64)>, StoreError> {
    let Some(file) = walk::open_listed(path)? else { return Ok(None) };
    entry::check_loose(kind, name, path, &file, limits).map(|sound| Some((sound, file.size())))
}
