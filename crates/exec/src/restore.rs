//! From a key to the bytes of a plan: the lookup that a fresh process makes.

use crate::{Device, ExecError, Loaders};
use hipplan_serialize::{GraphKey, Policy, SelectionKey, Target};
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
    find_for_targets(store, graph, &device.targets(), loaders, policy)
}

/// As [`find_by_graph_key`], for the first of these targets that has a plan to use.
///
/// What was compiled for the policy's preferred engine comes first, then what was compiled without the preference.
pub fn find_for_targets(store: &Store, graph: &GraphKey, targets: &[Target], loaders: &Loaders, policy: &Policy) -> Restore {
    match find_exactly(store, graph, targets, loaders, policy) {
        Restore::Missed(mut misses) if policy.preferred.is_some() => {
            match find_exactly(store, graph, targets, loaders, &policy.without_preference()) {
                Restore::Missed(more) => {
                    // That nothing was compiled for a preference is no news.
                    misses.retain(|(_, miss)| matches!(miss, RestoreMiss::NotAccepted(_)));
                    misses.extend(more);
                    Restore::Missed(misses)
                }
                found => found,
            }
        }
        other => other,
    }
}

fn find_exactly(store: &Store, graph: &GraphKey, targets: &[Target], loaders: &Loaders, policy: &Policy) -> Restore {
    let mut misses = Vec::new();
    for target in targets {
        let target = target.to_string();
        match store.find_selection(&SelectionKey::new(graph, &target, policy)) {
            Lookup::Miss(miss) => misses.push((target, miss.into())),
            Lookup::Hit(selection) => {
                for plan in &selection.plans {
                    match store.get_plan(plan) {
                        Lookup::Hit(bytes) => match loaders.accept(&bytes.view()) {
                            Ok(()) => return Restore::Found(bytes),
                            Err(error) => misses.push((target.clone(), RestoreMiss::NotAccepted(error))),
                        },
                        Lookup::Miss(miss) => misses.push((target.clone(), miss.into())),
                    }
                }
            }
        }
    }
    Restore::Missed(misses)
}
