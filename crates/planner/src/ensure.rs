//! One graph into a store, compiled only if it is not there.

use crate::compile::{CompileError, CompiledPlan, Request, compile_canonical, effective_policy};
use crate::lack::{Lack, LackReason};
use crate::precompiled::{Sought, find_precompiled};
use crate::provider::Providers;
use hipplan_exec::RestoreMiss;
use hipplan_serialize::{Canonical, Digest, GraphKey, PlanKey, PlanRef, SelectionKey};
use hipplan_store::{Lookup, Miss, Persisted, PlanBytes, Store, StoreError};
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
/// With providers that [require precompiled plans](Providers::require_precompiled) it only looks, as
/// [`find_precompiled`] does for the target of the site: nothing is compiled, put right or written.
///
/// # Errors
/// No provider takes the graph, or compiling failed, or a store that does not degrade failed; or compiling is not allowed.
pub fn ensure_plan(store: &Store, canonical: &Canonical, request: &Request<'_>, providers: &Providers) -> Result<Ensured, CompileError> {
    ensure(store, canonical, request, providers).map(|(ensured, _)| ensured)
}

/// [`ensure_plan`], and for a plan that was compiled, why that of the store would not do.
pub(crate) fn ensure(
    store: &Store,
    canonical: &Canonical,
    request: &Request<'_>,
    providers: &Providers,
) -> Result<(Ensured, Option<Lack>), CompileError> {
    if providers.requires_precompiled() {
        let targets = std::slice::from_ref(request.site.target());
        let sought = Sought { graph: &canonical.key, device: request.site.device(), targets, policy: request.policy };
        let plan = find_precompiled(store, &sought, providers).map_err(CompileError::NotPrecompiled)?;
        return Ok((Ensured::Present(plan.view().meta().plan_key()), None));
    }
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
    // Why a plan that is named would not do; the greatest reason is told.
    let mut lacks: Vec<Lack> = Vec::new();
    let found = match store.find_selection(&selection) {
        Lookup::Hit(found) => found.plans,
        Lookup::Miss(miss) => {
            lacks.push(Lack { reason: LackReason::of_store(&miss), detail: miss.to_string() });
            Vec::new()
        }
    };
    if !found.is_empty() {
        let mut best = None;
        for plan_ref in &found {
            let (bytes, code_objects) = match read(store, plan_ref) {
                Ok(read) => read,
                Err(lack) => {
                    lacks.push(lack);
                    continue;
                }
            };
            whole.push(*plan_ref);
            if best.is_some() {
                continue;
            }
            let accepted = match request.site.device() {
                Some(device) => providers.loaders().accept_on(&bytes.view(), device),
                None => providers.loaders().accept(&bytes.view()),
            };
            match accepted {
                Ok(()) => best = Some((*plan_ref, bytes, code_objects)),
                // What no loader here accepts stays for those who have one.
                Err(error) => {
                    let reason = LackReason::of_refusal(&error);
                    lacks.push(Lack { reason, detail: RestoreMiss::NotAccepted(error).to_string() });
                }
            }
        }
        if let Some((plan_ref, bytes, code_objects)) = best {
            providers.counters().hit();
            let mut persisted = repair(store, &selection, &found, &whole)?;
            if persisted.is_persisted() {
                persisted = list(store, &canonical.key, &target, plan_ref)?;
            }
            let Persisted::No(reason) = persisted else {
                return Ok((Ensured::Present(plan_ref.key), None));
            };
            let plan = CompiledPlan { selection, graph: canonical.key, plan_ref, bytes: bytes.into_bytes(), code_objects };
            return Ok((Ensured::NotStored { plan: Box::new(plan), reason }, None));
        }
    }
    let lack = lacks.into_iter().max_by_key(|lack| lack.reason);
    providers.counters().miss(lack.as_ref().map_or(LackReason::Missing, |lack| lack.reason));
    let plan = compile_canonical(canonical, &request, providers)?;
    whole.retain(|other| other.key != plan.plan_ref.key);
    whole.insert(0, plan.plan_ref);
    let mut persisted = put(store, &plan, &whole)?;
    if persisted.is_persisted() {
        persisted = list(store, &canonical.key, &target, plan.plan_ref)?;
    }
    let ensured = match persisted {
        Persisted::No(reason) => Ensured::NotStored { plan: Box::new(plan), reason },
        _ => Ensured::Compiled(plan.plan_ref.key),
    };
    Ok((ensured, lack))
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
fn read(store: &Store, plan: &PlanRef) -> Result<(PlanBytes, Vec<Vec<u8>>), Lack> {
    let missed = |miss: Miss| Lack { reason: LackReason::of_store(&miss), detail: format!("plan {}: {miss}", plan.key) };
    let bytes = store.get_plan(plan).ok().map_err(missed)?;
    let damaged = |what: String| Lack { reason: LackReason::Unreadable, detail: format!("plan {}: {what}", plan.key) };
    bytes.view().verify().map_err(|error| damaged(error.to_string()))?;
    let code_object = |blob: Digest| match store.get_blob(&blob) {
        Lookup::Hit(bytes) => Ok(bytes.to_vec()),
        Lookup::Miss(why) => Err(damaged(format!("code object {} of {} bytes: {why}", blob.hash, blob.size))),
    };
    let code_objects = bytes.code_objects().map(code_object).collect::<Result<_, _>>()?;
    Ok((bytes, code_objects))
}

/// Makes the keys of whole plans lead to whole plans, then the selection name these alone.
fn repair(store: &Store, selection: &SelectionKey, named: &[PlanRef], whole: &[PlanRef]) -> Result<Persisted, StoreError> {
    for plan in whole {
        // Another plan of the same key that is whole was put later, and is as good.
        let led_to = store.find_plan(&plan.key).hit();
        if led_to.is_some_and(|found| whole.contains(&found) || read(store, &found).is_ok()) {
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
