//! From a key to the bytes of a plan: the lookup that a fresh process makes.

use crate::{Device, ExecError, Loaders};
use hipplan_serialize::plan::PlanView;
use hipplan_serialize::{GraphKey, PlanRef, Policy, SelectionKey, Target};
use hipplan_store::{Lookup, Miss, PlanBytes, Store};

/// The answer of a lookup.
#[derive(Debug)]
pub enum Restore {
    /// The best plan for the device.
    Found(PlanBytes),
    /// No usable plan, and why, for each target that was tried.
    Missed(Vec<(String, RestoreMiss)>),
}

/// Why a lookup found no plan to use.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreMiss {
    /// The store has none, or none that can be read.
    #[error(transparent)]
    Store(#[from] Miss),
    /// The store has one that no loader here accepts: too old, too new, or of another provider.
    #[error("a plan is there and no loader accepts it: {0}")]
    NotAccepted(ExecError),
}

/// The misses of a lookup in one line, for a message.
pub fn describe_misses(misses: &[(String, RestoreMiss)]) -> String {
    misses.iter().map(|(target, miss)| format!("target {target}: {miss}")).collect::<Vec<_>>().join("; ")
}

/// Finds the best plan of a graph for a device: targets in the device's order, plans in the order of their selection.
///
/// A plan that cannot be read, or that no loader accepts, is passed over for the next one; no fault of the store fails the caller.
pub fn find_by_graph_key(store: &Store, graph: &GraphKey, device: &Device, loaders: &Loaders, policy: &Policy) -> Restore {
    find_for_targets(store, graph, Some(device), &device.targets(), loaders, policy)
}

/// As [`find_by_graph_key`], for the first of these targets that has a plan to use. Without a device, a plan whose provider judges its own
/// bytes is believed to be one.
///
/// What was compiled for the very request comes first; then what was compiled for it without its preference; then, among all plans of the
/// graph, one that the policy admits: such as one of the engine that is asked for, which was compiled because its graph prefers it.
pub fn find_for_targets(
    store: &Store,
    graph: &GraphKey,
    device: Option<&Device>,
    targets: &[Target],
    loaders: &Loaders,
    policy: &Policy,
) -> Restore {
    let mut search = Search { store, device, loaders, policy, tried: Vec::new(), misses: Vec::new() };
    let own = |target: &str| SelectionKey::new(graph, target, policy);
    if policy.preferred.is_some() {
        if let Some(found) = search.find(targets, own) {
            return Restore::Found(found);
        }
        // That nothing was compiled for a preference is no news.
        search.misses.retain(|(_, miss)| matches!(miss, RestoreMiss::NotAccepted(_)));
    }
    let plain = policy.without_preference();
    if let Some(found) = search.find(targets, |target| SelectionKey::new(graph, target, &plain)) {
        return Restore::Found(found);
    }
    let mut misses = std::mem::take(&mut search.misses);
    match search.find(targets, |target| SelectionKey::of_all(graph, target)) {
        Some(found) => Restore::Found(found),
        None => {
            // What is told is why the request itself was not answered, and what of its own kind could not be used.
            misses.extend(search.misses.into_iter().filter(|(_, miss)| matches!(miss, RestoreMiss::NotAccepted(_))));
            Restore::Missed(misses)
        }
    }
}

struct Search<'s> {
    store: &'s Store,
    device: Option<&'s Device>,
    loaders: &'s Loaders,
    policy: &'s Policy,
    /// Plans that were looked at and cannot be used: several records name them.
    tried: Vec<PlanRef>,
    misses: Vec<(String, RestoreMiss)>,
}

impl Search<'_> {
    /// Whether a plan can be used: what binding it by graph would find wrong with it comes to light while there are others to take.
    fn accept(&self, plan: &PlanView<'_>) -> Result<(), ExecError> {
        plan.canonical()?;
        self.loaders.accept_on(plan, self.device)
    }

    /// The first usable plan of the records with these keys, by target; plans of the preferred engine come first in each.
    fn find(&mut self, targets: &[Target], key: impl Fn(&str) -> SelectionKey) -> Option<PlanBytes> {
        for target in targets {
            let target = target.to_string();
            let selection = match self.store.find_selection(&key(&target)) {
                Lookup::Hit(selection) => selection,
                Lookup::Miss(miss) => {
                    self.misses.push((target, miss.into()));
                    continue;
                }
            };
            let mut second = None;
            for plan in &selection.plans {
                if self.tried.contains(plan) {
                    continue;
                }
                let bytes = match self.store.get_plan(plan) {
                    Lookup::Hit(bytes) => bytes,
                    Lookup::Miss(miss) => {
                        self.misses.push((target.clone(), miss.into()));
                        continue;
                    }
                };
                let view = bytes.view();
                if !view.meta().satisfies(self.policy) {
                    continue;
                }
                if let Err(error) = self.accept(&view) {
                    self.tried.push(*plan);
                    self.misses.push((target.clone(), RestoreMiss::NotAccepted(error)));
                    continue;
                }
                if self.policy.preferred.is_none_or(|id| view.meta().engine_id.to_native() == id) {
                    return Some(bytes);
                }
                second.get_or_insert(bytes);
            }
            if second.is_some() {
                return second;
            }
        }
        None
    }
}
