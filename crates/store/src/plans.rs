//! Plan files, and the records that find them by key.

use crate::entry::check_content;
use crate::layer::{Layer, check_plan_size};
use crate::record::{self, RecordKind};
use crate::{EntryKind, Lookup, Put, Store, StoreError};
use hipplan_serialize::aligned::aligned_copy;
use hipplan_serialize::plan::{PlanError, PlanView};
use hipplan_serialize::{AlignedBytes, ContentHash, Digest, PlanKey, PlanRef, RootHash};
use std::path::{Path, PathBuf};

/// A plan file in memory whose header, section table and metadata have been checked.
#[derive(Debug, Clone)]
pub struct PlanBytes(AlignedBytes);

impl PlanBytes {
    /// Opens bytes of a file as a plan.
    pub(crate) fn open(path: &Path, bytes: AlignedBytes) -> Result<Self, StoreError> {
        PlanView::open(&bytes).map_err(damaged(path))?;
        Ok(Self(bytes))
    }

    /// Bytes that have been opened as a plan.
    pub(crate) fn of_checked(bytes: AlignedBytes) -> Self {
        Self(bytes)
    }

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
        checked(plan, |plan, view| self.put_checked_plan(plan, view))?
    }

    fn put_checked_plan(&self, plan: &[u8], view: &PlanView<'_>) -> Result<Put<PlanRef>, StoreError> {
        let id = view.plan_ref();
        check_plan_size(&EntryKind::Plan.file(self.root(), &id.root.0), id.size, self.limits())?;
        let mut has_new_record = false;
        let persisted = self.put(|layer| {
            for blob in code_objects(view) {
                let missing = |path| missing_code_object(&id, path);
                layer.require_durable(EntryKind::Blob, &blob.hash.0, blob.size, missing)?;
            }
            let persisted = layer.publish(EntryKind::Plan, &id.root.0, plan)?;
            // Whether the record is new does not matter to the caller; that it is durable does.
            has_new_record = layer.publish_record(EntryKind::PlanRecord, RecordKind::Plan, &id.key.0, &[id])?.is_news();
            Ok(persisted)
        })?;
        if persisted.is_news() {
            self.put_far(EntryKind::Plan, &id.root.0, plan);
        }
        if has_new_record && persisted.is_persisted() {
            self.put_far(EntryKind::PlanRecord, &id.key.0, &record::encode(RecordKind::Plan, &id.key.0, &[id]));
        }
        Ok(Put { id, persisted })
    }

    /// The plan of a key: of the first layer that has one.
    pub fn find_plan(&self, key: &PlanKey) -> Lookup<PlanRef> {
        let find = |layer: &Layer| {
            Ok(layer.record(EntryKind::PlanRecord, &key.0, self.limits())?.and_then(|record| record.rows.into_iter().next()))
        };
        self.lookup(find, || self.pull_plan_record(key))
    }

    /// The plan file of an address. Header, section table and metadata are checked here, a section when it is loaded.
    pub fn get_plan(&self, plan: &PlanRef) -> Lookup<PlanBytes> {
        self.lookup(|layer| layer.plan(plan, self.limits()), || self.pull_plan(plan))
    }

    /// The address of every plan file, layer by layer, ascending by root hash in each, found as the iterator advances; a plan that stands
    /// in several places comes as often. What cannot be used is an item too, and so is what does not belong there; neither ends the
    /// iteration. Plans put or removed meanwhile may be missed. Nothing is logged.
    pub fn iter_plans(&self) -> impl Iterator<Item = Result<PlanRef, StoreError>> {
        self.layers().iter().filter(|layer| layer.is_usable()).flat_map(|layer| layer.plans(self.limits()))
    }
}

/// Bytes that are to be put, as a plan all of which is good.
pub(crate) fn checked<T>(plan: &[u8], take: impl FnOnce(&[u8], &PlanView<'_>) -> T) -> Result<T, StoreError> {
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
    Ok(take(plan, &view))
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
