//! Looking for a plan where nothing may be compiled: it is there, or one of four things is the matter.

use crate::lack::{Lack, LackReason};
use crate::provider::Providers;
use hipplan_exec::{Device, Restore, RestoreMiss, find_for_targets};
use hipplan_serialize::{GraphKey, Policy, SelectionKey, Target};
use hipplan_store::{Lookup, PlanBytes, Store};

/// What a plan is looked for by.
#[derive(Debug, Clone, Copy)]
pub struct Sought<'s> {
    /// The graph.
    pub graph: &'s GraphKey,
    /// Where it is to execute, if that is known here.
    pub device: Option<&'s Device>,
    /// Targets whose plans will do, best first.
    pub targets: &'s [Target],
    /// Which engines will do, with the graph's preference.
    pub policy: &'s Policy,
}

/// Finds the plan that a lookup would take, and reads every byte of it and of its code objects. Nothing is compiled or written.
///
/// Counted as one request of the providers' [`Counters`](crate::Counters). To tell a wrong target from a missing plan, the records of all
/// [known targets](Target::known) are looked for: some hundred and sixty names, none of which is a scan of the store. A far tier is only
/// asked for plans of the targets that are sought.
///
/// # Errors
/// There is no such plan, and why.
pub fn find_precompiled(store: &Store, sought: &Sought<'_>, providers: &Providers) -> Result<PlanBytes, Lack> {
    let found = look(store, sought, providers);
    count(providers, &found);
    found
}

/// Whether a plan that was found in some other way is what [`find_precompiled`] would take: a loader accepts it, and every byte of it and
/// of its code objects is good. Counted as one request.
///
/// # Errors
/// It is not, and why: it is stale, or cannot be read.
pub fn check_precompiled(store: &Store, plan: PlanBytes, device: Option<&Device>, providers: &Providers) -> Result<PlanBytes, Lack> {
    let checked = match providers.loaders().accept_on(&plan.view(), device) {
        Ok(()) => check_whole(store, plan),
        Err(error) => Err(Lack { reason: LackReason::of_refusal(&error), detail: RestoreMiss::NotAccepted(error).to_string() }),
    };
    count(providers, &checked);
    checked
}

fn count(providers: &Providers, found: &Result<PlanBytes, Lack>) {
    match found {
        Ok(_) => providers.counters().hit(),
        Err(lack) => providers.counters().miss(lack.reason),
    }
}

fn look(store: &Store, sought: &Sought<'_>, providers: &Providers) -> Result<PlanBytes, Lack> {
    let Sought { graph, device, targets, policy } = *sought;
    let misses = match find_for_targets(store, graph, device, targets, providers.loaders(), policy) {
        Restore::Found(plan) => return check_whole(store, plan),
        Restore::Missed(misses) => misses,
    };
    let reason = LackReason::of_misses(&misses);
    if reason != LackReason::Missing {
        return Err(Lack { reason, detail: told(&misses, reason) });
    }
    let asked = join(targets, " or ");
    let as_asked = if policy.without_preference() == Policy::DEFAULT { "" } else { " with the engine and settings that were asked for" };
    let others = other_targets(store, sought);
    if others.is_empty() {
        return Err(Lack { reason, detail: format!("no plan for target {asked}{as_asked}, nor for any other") });
    }
    let detail = format!("no plan for target {asked}{as_asked}; there is one for {}", join(&others, ", "));
    Err(Lack { reason: LackReason::WrongTarget, detail })
}

/// The misses of one reason, each told once.
fn told(misses: &[(String, RestoreMiss)], reason: LackReason) -> String {
    let mut texts: Vec<String> = Vec::new();
    for (target, miss) in misses.iter().filter(|(_, miss)| LackReason::of_miss(miss) == reason) {
        let text = format!("target {target}: {miss}");
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    texts.join("; ")
}

fn join(targets: &[Target], between: &str) -> String {
    targets.iter().map(ToString::to_string).collect::<Vec<_>>().join(between)
}

/// A plan that is whole, its code objects too.
fn check_whole(store: &Store, plan: PlanBytes) -> Result<PlanBytes, Lack> {
    match fault(store, &plan) {
        None => Ok(plan),
        Some(what) => Err(Lack { reason: LackReason::Unreadable, detail: format!("plan {}: {what}", plan.view().meta().plan_key()) }),
    }
}

/// What is wrong with the bytes of a plan that opened, or with its code objects.
fn fault(store: &Store, plan: &PlanBytes) -> Option<String> {
    if let Err(error) = plan.view().verify() {
        return Some(error.to_string());
    }
    plan.code_objects().find_map(|blob| match store.get_blob(&blob) {
        Lookup::Hit(_) => None,
        Lookup::Miss(why) => Some(format!("code object {} of {} bytes: {why}", blob.hash, blob.size)),
    })
}

/// Known targets beside those that were asked for that have a plan of the graph, which opens and which the policy admits.
/// A far tier is not asked: some hundred and sixty requests would be too many for one word.
pub(crate) fn other_targets(store: &Store, sought: &Sought<'_>) -> Vec<Target> {
    let near = store.clone().without_remote();
    let others = Target::known().filter(|target| !sought.targets.contains(target));
    others.filter(|target| !plans_of(&near, sought.graph, target, Some(sought.policy)).is_empty()).collect()
}

/// The plans that are listed for a graph and a target, and open.
pub(crate) fn plans_of(store: &Store, graph: &GraphKey, target: &Target, policy: Option<&Policy>) -> Vec<PlanBytes> {
    let listed = store.find_selection(&SelectionKey::of_all(graph, &target.to_string())).hit();
    let plans = listed.into_iter().flat_map(|selection| selection.plans);
    let open = plans.filter_map(|plan| store.get_plan(&plan).hit());
    open.filter(|plan| policy.is_none_or(|policy| plan.view().meta().satisfies(policy))).collect()
}
