//! One graph into a store, compiled only if it is not there.

use crate::compile::{CompileError, CompiledPlan, Request, compile_canonical, effective_policy};
use crate::keeper::Keeper;
use crate::lack::{Lack, LackReason};
use crate::precompiled::{Sought, find_precompiled};
use crate::provider::Providers;
use hipplan_exec::RestoreMiss;
use hipplan_serialize::{Canonical, Digest, GraphKey, PlanKey, PlanRef, SelectionKey};
use hipplan_store::{Lookup, Miss, Persisted, PlanBytes, Store, StoreError, TurnOptions, Turned};
use std::time::Instant;

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
/// [`find_precompiled`] does for the [candidates](hipplan_serialize::Target::candidates) of the site's target, or for a target alone that is
/// not that of the site's device: nothing is compiled, put right or written.
///
/// # Errors
/// No provider takes the graph, or compiling failed, or a store that does not degrade failed; or compiling is not allowed.
pub fn ensure_plan(store: &Store, canonical: &Canonical, request: &Request<'_>, providers: &Providers) -> Result<Ensured, CompileError> {
    ensure(store, Keeper::Store(store), canonical, request, providers).map(|(ensured, _)| ensured)
}

/// [`ensure_plan`], and for a plan that was compiled, why that of the store would not do. What was compiled goes to the keeper, which is of
/// this store; what was expensive goes into the store at once.
pub(crate) fn ensure(
    store: &Store,
    keeper: Keeper<'_>,
    canonical: &Canonical,
    request: &Request<'_>,
    providers: &Providers,
) -> Result<(Ensured, Option<Lack>), CompileError> {
    if providers.requires_precompiled() {
        // What a lookup on such a device would take is there, also where it was compiled for the family; where a device is named and another
        // target than its own, that one alone is looked for.
        let target = request.site.target();
        let is_of_device = request.site.device().is_none_or(|device| device.target() == target);
        let targets = if is_of_device { target.candidates() } else { vec![target.clone()] };
        let sought = Sought { graph: &canonical.key, device: request.site.device(), targets: &targets, policy: request.policy };
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
    let place = Place { store, request: &request, providers, graph: canonical.key, target: &target, selection };
    let (mut whole, lack) = match place.look() {
        Looked::Found(found) => return place.present(*found),
        Looked::Lacking { whole, lack } => (whole, lack),
    };
    // Another thread or process may be compiling it this moment: it is waited for, for a while.
    let look_again = || match place.look() {
        Looked::Found(found) => Some(found),
        Looked::Lacking { .. } => None,
    };
    let _turn = match store.turn(&selection.0, &TurnOptions::default(), look_again) {
        Turned::Found(found) => return place.present(*found),
        Turned::Mine(turn) => turn,
    };
    providers.counters().miss(lack.as_ref().map_or(LackReason::Missing, |lack| lack.reason));
    let began = Instant::now();
    let plan = compile_canonical(canonical, &request, providers)?;
    let keeper = keeper.after(began.elapsed());
    whole.retain(|other| other.key != plan.plan_ref.key);
    whole.insert(0, plan.plan_ref);
    let mut persisted = put(keeper, &plan, &whole)?;
    if persisted.is_persisted() {
        persisted = list(keeper, &canonical.key, &target, plan.plan_ref)?;
    }
    let ensured = match persisted {
        Persisted::No(reason) => Ensured::NotStored { plan: Box::new(plan), reason },
        _ => Ensured::Compiled(plan.plan_ref.key),
    };
    Ok((ensured, lack))
}

/// Where a plan is looked for, and for whom.
struct Place<'p> {
    store: &'p Store,
    request: &'p Request<'p>,
    providers: &'p Providers,
    graph: GraphKey,
    target: &'p str,
    selection: SelectionKey,
}

/// What a look found.
enum Looked {
    /// A plan to use.
    Found(Box<Found>),
    /// None.
    Lacking {
        /// Plans that are whole, and that no loader here accepts.
        whole: Vec<PlanRef>,
        /// Why a plan that is named would not do: the greatest reason.
        lack: Option<Lack>,
    },
}

/// The first plan that is whole and that a loader here accepts.
struct Found {
    plan: PlanRef,
    bytes: PlanBytes,
    code_objects: Vec<Vec<u8>>,
    /// All plans that the selection names.
    named: Vec<PlanRef>,
    /// Those of them that are whole.
    whole: Vec<PlanRef>,
}

impl Place<'_> {
    /// Reads what the selection leads to.
    fn look(&self) -> Looked {
        let mut lacks: Vec<Lack> = Vec::new();
        let named = match self.store.find_selection(&self.selection) {
            Lookup::Hit(found) => found.plans,
            Lookup::Miss(miss) => {
                lacks.push(Lack { reason: LackReason::of_store(&miss), detail: miss.to_string() });
                Vec::new()
            }
        };
        let (mut whole, mut best) = (Vec::new(), None);
        for plan_ref in &named {
            let (bytes, code_objects) = match read(self.store, plan_ref) {
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
            match self.providers.loaders().accept_on(&bytes.view(), self.request.site.device()) {
                Ok(()) => best = Some((*plan_ref, bytes, code_objects)),
                // What no loader here accepts stays for those who have one.
                Err(error) => {
                    let reason = LackReason::of_refusal(&error);
                    lacks.push(Lack { reason, detail: RestoreMiss::NotAccepted(error).to_string() });
                }
            }
        }
        match best {
            Some((plan, bytes, code_objects)) => Looked::Found(Box::new(Found { plan, bytes, code_objects, named, whole })),
            None => Looked::Lacking { whole, lack: lacks.into_iter().max_by_key(|lack| lack.reason) },
        }
    }

    /// Answers with a plan that is there, after what is wrong beside it was put right.
    fn present(&self, found: Found) -> Result<(Ensured, Option<Lack>), CompileError> {
        let Found { plan: plan_ref, bytes, code_objects, named, whole } = found;
        self.providers.counters().hit();
        let mended = repair(self.store, &self.selection, &named, &whole).and_then(|persisted| match persisted {
            Persisted::No(_) => Ok(persisted),
            _ => list(Keeper::Store(self.store), &self.graph, self.target, plan_ref),
        });
        let reason = match mended {
            // Where nothing may be written, it stays as it is.
            Ok(Persisted::No(reason)) | Err(reason) if reason.is_read_only() => return Ok((Ensured::Present(plan_ref.key), None)),
            Ok(Persisted::No(reason)) => reason,
            Ok(_) => return Ok((Ensured::Present(plan_ref.key), None)),
            Err(error) => return Err(error.into()),
        };
        let bytes = bytes.into_bytes();
        let plan = CompiledPlan { selection: self.selection, graph: self.graph, plan_ref, bytes, code_objects };
        Ok((Ensured::NotStored { plan: Box::new(plan), reason }, None))
    }
}

/// Adds a plan to the list of all plans of its graph and target, which is the same in whatever order they were compiled.
fn list(keeper: Keeper<'_>, graph: &GraphKey, target: &str, plan: PlanRef) -> Result<Persisted, StoreError> {
    keeper.add_to_set(&SelectionKey::of_all(graph, target), &plan)
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
fn put(keeper: Keeper<'_>, plan: &CompiledPlan, selected: &[PlanRef]) -> Result<Persisted, StoreError> {
    for blob in &plan.code_objects {
        let put = keeper.put_blob(blob)?;
        if !put.persisted.is_persisted() {
            return Ok(put.persisted);
        }
    }
    let put = keeper.put_plan(&plan.bytes)?;
    if !put.persisted.is_persisted() {
        return Ok(put.persisted);
    }
    keeper.put_selection(&plan.selection, selected)
}
