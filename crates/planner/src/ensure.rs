//! One graph into a store, compiled only if it is not there.

use crate::compile::{CompileError, CompiledPlan, Request, compile_canonical, effective_policy};
use crate::provider::Providers;
use hipplan_serialize::{Canonical, GraphKey, PlanKey, PlanRef, SelectionKey};
use hipplan_store::{Lookup, Persisted, PlanBytes, Store, StoreError};
use std::sync::{Mutex, PoisonError};

/// What [`ensure_plan`] did.
#[derive(Debug)]
pub enum Ensured {
    /// The store held a plan that can be read in full; its records are right, or have been put right.
    Present(PlanKey),
    /// The graph was compiled, and the store keeps the plan.
    Compiled(PlanKey),
    /// There is a plan, compiled or read, and the store could not keep it or its records.
    NotStored {
        /// The plan.
        plan: Box<CompiledPlan>,
        /// Why.
        reason: StoreError,
    },
}

/// Makes sure that the store answers a request, by selection and by plan key: looks, compiles if need be, and stores.
///
/// A plan that the selection leads to and that is whole, its code objects too, is not compiled again. What is wrong beside
/// it is put right from the store's own bytes first: a plan record that leads to no such plan, and rows of the selection
/// that do not. A plan that no loader here accepts, because another hipplan wrote it, is no answer; it keeps its place behind
/// the one that is compiled, so that versions share a store in peace.
///
/// # Errors
/// No provider takes the graph, or compiling failed, or a store that does not degrade failed.
pub fn ensure_plan(store: &Store, canonical: &Canonical, request: &Request<'_>, providers: &Providers) -> Result<Ensured, CompileError> {
    let target = request.site.target().to_string();
    let mut selection = SelectionKey::new(&canonical.key, &target, request.policy);
    let policy;
    let mut request = *request;
    if request.policy.preferred.is_some() && store.find_selection(&selection).hit().is_none() {
        // A preference that nobody meets now may be met another time: nothing is filed under it.
        policy = effective_policy(canonical, &request, providers)?;
        request.policy = &policy;
        selection = SelectionKey::new(&canonical.key, &target, &policy);
    }
    let mut whole: Vec<PlanRef> = Vec::new();
    if let Lookup::Hit(found) = store.find_selection(&selection) {
        let mut best = None;
        for plan_ref in &found.plans {
            let Some((bytes, code_objects)) = read(store, plan_ref) else { continue };
            whole.push(*plan_ref);
            let is_accepted = || match request.site.device() {
                Some(device) => providers.loaders().accept_on(&bytes.view(), device).is_ok(),
                None => providers.loaders().accept(&bytes.view()).is_ok(),
            };
            // What no loader here accepts stays for those who have one.
            if best.is_none() && is_accepted() {
                best = Some((*plan_ref, bytes, code_objects));
            }
        }
        if let Some((plan_ref, bytes, code_objects)) = best {
            let mut persisted = repair(store, &selection, &found.plans, &whole)?;
            if persisted.is_persisted() {
                persisted = list(store, &canonical.key, &target, plan_ref)?;
            }
            let Persisted::No(reason) = persisted else {
                return Ok(Ensured::Present(plan_ref.key));
            };
            let plan = CompiledPlan { selection, graph: canonical.key, plan_ref, bytes: bytes.into_bytes(), code_objects };
            return Ok(Ensured::NotStored { plan: Box::new(plan), reason });
        }
    }
    let plan = compile_canonical(canonical, &request, providers)?;
    whole.retain(|other| other.key != plan.plan_ref.key);
    whole.insert(0, plan.plan_ref);
    let mut persisted = put(store, &plan, &whole)?;
    if persisted.is_persisted() {
        persisted = list(store, &canonical.key, &target, plan.plan_ref)?;
    }
    match persisted {
        Persisted::No(reason) => Ok(Ensured::NotStored { plan: Box::new(plan), reason }),
        _ => Ok(Ensured::Compiled(plan.plan_ref.key)),
    }
}

/// One thread of this process at a time: the record is read and then written.
static LISTING: Mutex<()> = Mutex::new(());

/// Adds a plan to the list of all plans of its graph and target, in the order of their keys, so that the list is the same in whatever order
/// they were compiled. Of two processes that add at once one may lose: the next request for its plan adds it again.
fn list(store: &Store, graph: &GraphKey, target: &str, plan: PlanRef) -> Result<Persisted, StoreError> {
    let _guard = LISTING.lock().unwrap_or_else(PoisonError::into_inner);
    let key = SelectionKey::of_all(graph, target);
    let mut plans = store.find_selection(&key).hit().map(|selection| selection.plans).unwrap_or_default();
    if plans.contains(&plan) {
        return Ok(Persisted::Unchanged);
    }
    plans.retain(|other| other.key != plan.key);
    plans.push(plan);
    plans.sort_unstable();
    store.put_selection(&key, &plans)
}

/// A plan with its code objects, if every byte of them is good.
fn read(store: &Store, plan: &PlanRef) -> Option<(PlanBytes, Vec<Vec<u8>>)> {
    let plan = store.get_plan(plan).hit()?;
    plan.view().verify().ok()?;
    let code_objects = plan.code_objects().map(|blob| Some(store.get_blob(&blob).hit()?.to_vec())).collect::<Option<_>>()?;
    Some((plan, code_objects))
}

/// Makes the keys of whole plans lead to whole plans, then the selection name these alone.
fn repair(store: &Store, selection: &SelectionKey, named: &[PlanRef], whole: &[PlanRef]) -> Result<Persisted, StoreError> {
    for plan in whole {
        // Another plan of the same key that is whole was put later, and is as good.
        let led_to = store.find_plan(&plan.key).hit();
        if led_to.is_some_and(|found| whole.contains(&found) || read(store, &found).is_some()) {
            continue;
        }
        // One that has vanished meanwhile is missed by the next call.
        let Lookup::Hit(bytes) = store.get_plan(plan) else { continue };
        let put = store.put_plan(bytes.bytes())?;
        if !put.persisted.is_persisted() {
            return Ok(put.persisted);
        }
    }
    if named == whole { Ok(Persisted::Unchanged) } else { store.put_selection(selection, whole) }
}

/// Blobs, then the plan that names them, then the selection that names the plan, and behind it those that others can use.
fn put(store: &Store, plan: &CompiledPlan, selected: &[PlanRef]) -> Result<Persisted, StoreError> {
    for blob in &plan.code_objects {
        let put = store.put_blob(blob)?;
        if !put.persisted.is_persisted() {
            return Ok(put.persisted);
        }
    }
    let put = store.put_plan(&plan.bytes)?;
    if !put.persisted.is_persisted() {
        return Ok(put.persisted);
    }
    store.put_selection(&plan.selection, selected)
}
