//! What a self-test puts and looks for: any number of plans, each with a code object and a request of its own.

use crate::{Lookup, Miss, Store, StoreError};
use hipplan_serialize::plan::{CodeObjectV1, PayloadWriter, PlanMetaV1, PlanView, PlanWriter};
use hipplan_serialize::{AlignedBytes, Digest, GraphKey, PlanIdentity, PlanRef, Policy, SelectionKey};

/// Bytes of a code object.
const BLOB: usize = 2000;

/// A code object, a plan that names it, and the request that the plan answers.
#[derive(Debug)]
pub(super) struct Values {
    blob: Vec<u8>,
    digest: Digest,
    plan: AlignedBytes,
    pub(super) id: PlanRef,
    pub(super) key: SelectionKey,
}

impl Values {
    /// The same in every process.
    pub(super) fn of(number: u32) -> Result<Self, String> {
        let text = |error: &dyn std::fmt::Display| format!("a plan for the test cannot be made: {error}");
        let graph = [&b"hipplan selftest "[..], &number.to_le_bytes()].concat();
        let blob: Vec<u8> = number.to_le_bytes().into_iter().cycle().take(BLOB).collect();
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

    /// Looks all of it up; says whether all of it was found. Wrong bytes and faults are errors.
    pub(super) fn get(&self, store: &Store) -> Result<bool, String> {
        let Some(selection) = found(store.find_selection(&self.key))? else { return Ok(false) };
        if selection.plans != [self.id] {
            return Err("a request is answered by another plan than was put".into());
        }
        if found(store.find_plan(&self.id.key))?.is_some_and(|id| id != self.id) {
            return Err("a key leads to another plan than was put".into());
        }
        let Some(plan) = found(store.get_plan(&self.id))? else { return Ok(false) };
        if plan.bytes() != &*self.plan {
            return Err("a plan has other bytes than were put".into());
        }
        let Some(blob) = found(store.get_blob(&self.digest))? else { return Ok(false) };
        if *blob != *self.blob {
            return Err("a code object has other bytes than were put".into());
        }
        Ok(true)
    }
}

/// What a lookup found; that something is damaged or cannot be read is an error.
pub(super) fn found<T>(lookup: Lookup<T>) -> Result<Option<T>, String> {
    match lookup {
        Lookup::Hit(found) => Ok(Some(found)),
        Lookup::Miss(Miss::Absent) => Ok(None),
        Lookup::Miss(why) => Err(why.to_string()),
    }
}
