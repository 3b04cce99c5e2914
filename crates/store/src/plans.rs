//! Plan files, and the records that find them by key.

use crate::entry::{self, check_content, check_limit, check_size};
use crate::layout::EntryKind;
use crate::record::RecordKind;
use crate::{Lookup, Put, Store, StoreError, walk};
use hipplan_serialize::aligned::aligned_copy;
use hipplan_serialize::plan::{PlanError, PlanView};
use hipplan_serialize::{AlignedBytes, ContentHash, Digest, PlanKey, PlanRef, RootHash};
use std::path::{Path, PathBuf};

/// A plan file in memory whose header, section table and metadata have been checked.
#[derive(Debug, Clone)]
pub struct PlanBytes(AlignedBytes);

impl PlanBytes {
    /// The plan. Its sections are checked when they are asked for.
    #[expect(clippy::expect_used, reason = "the same bytes were opened when they were read")]
    pub fn view(&self) -> PlanView<'_> {
        PlanView::open(&self.0).expect("the same bytes were opened when they were read, and nothing can change them")
    }

    /// The code objects that it names.
    pub fn code_objects(&self) -> impl Iterator<Item = Digest> {
        code_objects(&self.view())
    }

    /// The file.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The file, to keep.
    pub fn into_bytes(self) -> AlignedBytes {
        self.0
    }
}

impl Store {
    /// Stores a plan file under its root hash, then lets its key name it. Of plans with one key, the last one put is found.
    ///
    /// The code objects that the plan names must have been put before.
    ///
    /// # Errors
    /// The bytes are not a plan that verifies, or more than [`Limits::max_plan_bytes`](crate::Limits::max_plan_bytes); or a
    /// code object is missing or something could not be written, unless the store is one that degrades.
    pub fn put_plan(&self, plan: &[u8]) -> Result<Put<PlanRef>, StoreError> {
        let copy;
        let plan = if (plan.as_ptr() as usize).is_multiple_of(16) {
            plan
        } else {
            copy = aligned_copy(plan);
            &copy[..]
        };
        let refused = |cause| StoreError::NotAPlan { cause: Box::new(cause) };
        let view = PlanView::open(plan).map_err(refused)?;
        view.verify().map_err(refused)?;
        let id = view.plan_ref();
        self.check_plan_size(&EntryKind::Plan.file(self.root(), &id.root.0), id.size)?;
        let persisted = self.put(|| {
            for blob in code_objects(&view) {
                let missing = |path| missing_code_object(&id, path);
                self.require_durable(EntryKind::Blob, &blob.hash.0, blob.size, missing)?;
            }
            let persisted = self.publish(EntryKind::Plan, &id.root.0, plan)?;
            // Whether the record is new does not matter to the caller; that it is durable does.
            self.publish_record(EntryKind::PlanRecord, RecordKind::Plan, &id.key.0, &[id]).map(|_| persisted)
        })?;
        Ok(Put { id, persisted })
    }

    /// The plan of a key, as the index has it: one small file is read.
    pub fn find_plan(&self, key: &PlanKey) -> Lookup<PlanRef> {
        self.lookup(|| {
            let rows = self.read_record(EntryKind::PlanRecord, RecordKind::Plan, &key.0)?;
            Ok(rows.and_then(|rows| rows.into_iter().next()))
        })
    }

    /// The plan file of an address. Header, section table and metadata are checked here, a section when it is loaded.
    pub fn get_plan(&self, plan: &PlanRef) -> Lookup<PlanBytes> {
        self.lookup(|| self.read_plan(plan))
    }

    /// The address of every plan file, ascending by root hash, found as the iterator advances. What cannot be used is an
    /// item too, and so is what does not belong there; neither ends the iteration. Plans put or removed meanwhile may be
    /// missed. Nothing is logged.
    pub fn iter_plans(&self) -> impl Iterator<Item = Result<PlanRef, StoreError>> {
        let files = self.usable_root().into_iter().flat_map(|root| walk::files(root, EntryKind::Plan));
        files.filter_map(|file| {
            let plan_of = |(root, path): ([u8; 32], PathBuf)| match self.open_plan(&path, None)? {
                Some(plan) => check_root(&path, &plan.view(), &root).map(Some),
                None => Ok(None),
            };
            file.and_then(plan_of).transpose()
        })
    }

    /// The plan file of an address.
    pub(crate) fn read_plan(&self, plan: &PlanRef) -> Result<Option<PlanBytes>, StoreError> {
        let path = EntryKind::Plan.file(self.root(), &plan.root.0);
        let Some(bytes) = self.open_plan(&path, Some(plan.size))? else { return Ok(None) };
        let found = check_root(&path, &bytes.view(), &plan.root.0)?;
        check_content(&path, "plan key", &found.key, &plan.key)?;
        Ok(Some(bytes))
    }

    /// A plan file that opens, of this size if one is given.
    pub(crate) fn open_plan(&self, path: &Path, size: Option<u64>) -> Result<Option<PlanBytes>, StoreError> {
        let Some(file) = entry::open(path)? else { return Ok(None) };
        check_size(path, file.size(), size.unwrap_or(file.size()))?;
        self.check_plan_size(path, file.size())?;
        let bytes = file.read().map_err(StoreError::io("read", path))?;
        PlanView::open(&bytes).map_err(damaged(path))?;
        Ok(Some(PlanBytes(bytes)))
    }

    fn check_plan_size(&self, path: &Path, found: u64) -> Result<(), StoreError> {
        check_limit(path, "size in bytes", found, "max_plan_bytes", self.limits().max_plan_bytes)
    }
}

/// The code objects that a plan names.
pub(crate) fn code_objects<'a>(plan: &PlanView<'a>) -> impl Iterator<Item = Digest> + use<'a> {
    let named = plan.meta().code_objects.iter();
    named.map(|object| Digest { hash: ContentHash(object.hash), size: object.size.to_native() })
}

/// The plan must be the one that its file is named after.
pub(crate) fn check_root(path: &Path, plan: &PlanView<'_>, name: &[u8; 32]) -> Result<PlanRef, StoreError> {
    let found = plan.plan_ref();
    check_content(path, "root hash", &found.root, &RootHash(*name))?;
    Ok(found)
}

pub(crate) fn damaged(path: &Path) -> impl FnOnce(PlanError) -> StoreError {
    move |cause| StoreError::Plan { path: path.to_owned(), cause: Box::new(cause) }
}

pub(crate) fn missing_code_object(plan: &PlanRef, path: PathBuf) -> StoreError {
    StoreError::MissingTarget { path, what: "code object", named_by: format!("plan {}", plan.root) }
}
