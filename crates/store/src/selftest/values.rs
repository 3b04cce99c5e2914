//! What a self-test puts and looks for: any number of plans, each with a code object and a request of its own.

use crate::{EntryKind, Lookup, Miss, Store, StoreError};
use hipplan_serialize::plan::{CodeObjectV1, PayloadWriter, PlanMetaV1, PlanView, PlanWriter};
use hipplan_serialize::{AlignedBytes, Digest, GraphKey, PlanIdentity, PlanRef, Policy, SelectionKey};
use std::path::PathBuf;

/// Bytes of a code object.
const BLOB: usize = 2000;
/// Bytes of a large one, which is mapped where packs are.
const LARGE_BLOB: usize = 200_000;

/// A code object, a plan that names it, and the request that the plan answers.
#[derive(Debug)]
pub(super) struct Values {
    pub(super) blob: Vec<u8>,
    digest: Digest,
    pub(super) plan: AlignedBytes,
    pub(super) id: PlanRef,
    pub(super) key: SelectionKey,
}

impl Values {
    /// The same in every process.
    pub(super) fn of(number: u32) -> Result<Self, String> {
        Self::new(number, BLOB)
    }

    /// The same with a large code object.
    pub(super) fn large(number: u32) -> Result<Self, String> {
        Self::new(number, LARGE_BLOB)
    }

    fn new(number: u32, blob: usize) -> Result<Self, String> {
        let text = |error: &dyn std::fmt::Display| format!("a plan for the test cannot be made: {error}");
        let graph = [&b"hipplan selftest "[..], &number.to_le_bytes()].concat();
        let blob: Vec<u8> = number.to_le_bytes().into_iter().cycle().take(blob).collect();
        let digest = Digest::of(&blob);
        let identity = PlanIdentity {
            graph: GraphKey::of_encoding(&graph),
            target: "cpu".into(),
            provider: "selftest".into(),
            engine: "SELFTEST".into(),
            engine_revision: "1".into(),
            knobs: Vec::new(),
        };
        let code_objects = vec![CodeObjectV1 { hash: digest.hash.0, size: digest.size }];
        let meta = PlanMetaV1 { code_objects, ..PlanMetaV1::of(&identity) };
        let payload = PayloadWriter { kind: "selftest", version: 1, runtime_uids: Vec::new(), baked: Vec::new(), body: &graph };
        let payload = payload.finish().map_err(|e| text(&e))?;
        let plan = PlanWriter { meta: &meta, canonical: &graph, payload: &payload }.finish().map_err(|e| text(&e))?;
        let id = PlanView::open(&plan).map_err(|e| text(&e))?.plan_ref();
        Ok(Self { blob, digest, plan, id, key: SelectionKey::new(&identity.graph, "cpu", &Policy::DEFAULT) })
    }

    /// Puts all of it; says whether all of it is kept.
    pub(super) fn put(&self, store: &Store) -> Result<bool, StoreError> {
        let blob = store.put_blob(&self.blob)?.persisted.is_persisted();
        let plan = store.put_plan(&self.plan)?.persisted.is_persisted();
        let selection = store.put_selection(&self.key, &[self.id])?.is_persisted();
        Ok(blob && plan && selection)
    }

    /// The file of an entry where it has one of its own.
    pub(super) fn file(&self, store: &Store, kind: EntryKind) -> PathBuf {
        let name = match kind {
            EntryKind::Blob => self.digest.hash.0,
            EntryKind::Plan => self.id.root.0,
            EntryKind::PlanRecord => self.id.key.0,
            EntryKind::Selection => self.key.0,
        };
        kind.file(store.root(), &name)
    }

    /// Looks all of it up; says whether all of it was found. Wrong bytes and faults are errors.
    pub(super) fn get(&self, store: &Store) -> Result<bool, String> {
        self.look_up(store, true)
    }

    /// The same, a fault being a miss.
    pub(super) fn get_past_faults(&self, store: &Store) -> Result<bool, String> {
        self.look_up(store, false)
    }

    fn look_up(&self, store: &Store, is_strict: bool) -> Result<bool, String> {
        let Some(selection) = found_or(store.find_selection(&self.key), is_strict)? else { return Ok(false) };
        if selection.plans != [self.id] {
            return Err("a request is answered by another plan than was put".into());
        }
        if found_or(store.find_plan(&self.id.key), is_strict)?.is_some_and(|id| id != self.id) {
            return Err("a key leads to another plan than was put".into());
        }
        let Some(plan) = found_or(store.get_plan(&self.id), is_strict)? else { return Ok(false) };
        if plan.bytes() != &*self.plan {
            return Err("a plan has other bytes than were put".into());
        }
        let Some(blob) = found_or(store.get_blob(&self.digest), is_strict)? else { return Ok(false) };
        if *blob != *self.blob {
            return Err("a code object has other bytes than were put".into());
        }
        Ok(true)
    }
}

fn found_or<T>(lookup: Lookup<T>, is_strict: bool) -> Result<Option<T>, String> {
    if is_strict { found(lookup) } else { Ok(lookup.hit()) }
}

/// What a lookup found; that something is damaged or cannot be read is an error.
pub(super) fn found<T>(lookup: Lookup<T>) -> Result<Option<T>, String> {
    match lookup {
        Lookup::Hit(found) => Ok(Some(found)),
        Lookup::Miss(Miss::Absent) => Ok(None),
        Lookup::Miss(why) => Err(why.to_string()),
    }
}
