//! One graph into a store, compiled only if it is not there.

use crate::compile::{CompileError, CompiledPlan, Request, compile_canonical};
use crate::provider::Providers;
use hipplan_serialize::{Canonical, PlanKey, SelectionKey};
use hipplan_store::{Lookup, Persisted, Store, StoreError};

/// What [`ensure_plan`] did.
#[derive(Debug)]
pub enum Ensured {
    /// The store held a plan that can be read in full.
    Present(PlanKey),
    /// The graph was compiled, and the store keeps the plan.
    Compiled(PlanKey),
    /// The graph was compiled, and the store could not keep the plan.
    NotStored {
        /// The plan.
        plan: Box<CompiledPlan>,
        /// Why.
        reason: StoreError,
    },
}

/// Makes sure that the store answers a request: looks, compiles if need be, and stores.
///
/// # Errors
/// No provider takes the graph, or compiling failed, or a store that does not degrade failed.
pub fn ensure_plan(store: &Store, canonical: &Canonical, request: &Request<'_>, providers: &Providers) -> Result<Ensured, CompileError> {
    let selection = SelectionKey::new(&canonical.key, &request.target.to_string(), request.policy);
    if let Lookup::Hit(found) = store.find_selection(&selection) {
        let readable = found.plans.iter().find(|p| matches!(store.get_plan(p), Lookup::Hit(plan) if plan.view().verify().is_ok()));
        if let Some(plan) = readable {
            return Ok(Ensured::Present(plan.key));
        }
    }
    let plan = compile_canonical(canonical, request, providers)?;
    match put(store, &plan)? {
        Persisted::No(reason) => Ok(Ensured::NotStored { plan: Box::new(plan), reason }),
        _ => Ok(Ensured::Compiled(plan.plan_ref.key)),
    }
}

/// Blobs, then the plan that names them, then the selection that names the plan.
fn put(store: &Store, plan: &CompiledPlan) -> Result<Persisted, StoreError> {
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
    store.put_selection(&plan.selection, &[plan.plan_ref])
}
