//! From a key to the bytes of a plan: the lookup that a fresh process makes.

use crate::Device;
use hipplan_serialize::{GraphKey, Policy, SelectionKey};
use hipplan_store::{Lookup, Miss, PlanBytes, Store};

/// The answer of a lookup.
#[derive(Debug)]
pub enum Restore {
    /// The best plan for the device.
    Found(PlanBytes),
    /// No usable plan, and why, for each target that was tried.
    Missed(Vec<(String, Miss)>),
}

/// Finds the best plan of a graph for a device: targets in the device's order, plans in the order of their selection.
///
/// A plan that cannot be read is passed over for the next one; no fault of the store fails the caller.
pub fn find_by_graph_key(store: &Store, graph: &GraphKey, device: &Device, policy: &Policy) -> Restore {
    let mut misses = Vec::new();
    for target in device.targets() {
        let target = target.to_string();
        match store.find_selection(&SelectionKey::new(graph, &target, policy)) {
            Lookup::Miss(miss) => misses.push((target, miss)),
            Lookup::Hit(selection) => {
                for plan in &selection.plans {
                    match store.get_plan(plan) {
                        Lookup::Hit(bytes) => return Restore::Found(bytes),
                        Lookup::Miss(miss) => misses.push((target.clone(), miss)),
                    }
                }
            }
        }
    }
    Restore::Missed(misses)
}
