//! What is to be removed, or kept, as the command line names it.

use anyhow::bail;
use hipplan::{EntryKind, GraphKey, Lookup, Pin, PlanKey, Store};
use std::collections::BTreeSet;

/// Shortest beginning of a key that is looked for.
const SHORTEST: usize = 4;

/// Things of the store, by key
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = true)]
pub(super) struct Named {
    /// Plans, by key or by the beginning of one
    #[arg(value_name = "PLAN")]
    plans: Vec<String>,
    /// Selections, with the plans that they name
    #[arg(long = "selection", value_name = "KEY")]
    selections: Vec<String>,
    /// All plans of these graphs
    #[arg(long = "graph", value_name = "KEY")]
    graphs: Vec<String>,
}

impl Named {
    /// The keys that are meant. A whole key need not be in the store.
    pub(super) fn resolve(&self, store: &Store) -> anyhow::Result<Vec<Pin>> {
        let mut pins = Vec::new();
        for text in &self.plans {
            let key = resolve("plan", text, || names(store, EntryKind::PlanRecord))?;
            pins.push(Pin::Plan(PlanKey(key)));
        }
        for text in &self.selections {
            let key = resolve("selection", text, || names(store, EntryKind::Selection))?;
            pins.push(Pin::Selection(hipplan::SelectionKey(key)));
        }
        for text in &self.graphs {
            pins.push(Pin::Graph(GraphKey(resolve("graph", text, || graphs(store))?)));
        }
        Ok(pins)
    }
}

/// A whole key, or the only one of these that begins like the text.
fn resolve(kind: &str, text: &str, keys: impl FnOnce() -> BTreeSet<[u8; 32]>) -> anyhow::Result<[u8; 32]> {
    let text = text.to_ascii_lowercase();
    if let Ok(key) = text.parse::<PlanKey>() {
        return Ok(key.0);
    }
    if text.len() < SHORTEST || !text.bytes().all(|b| b.is_ascii_hexdigit()) || text.len() > 64 {
        bail!("{text:?} is no key of a {kind}: expected {SHORTEST} to 64 hexadecimal digits");
    }
    let fitting: Vec<[u8; 32]> = keys().into_iter().filter(|key| PlanKey(*key).to_string().starts_with(&text)).collect();
    match fitting[..] {
        [key] => Ok(key),
        [] => bail!("no key of a {kind} in the store begins with {text}"),
        _ => bail!("{} keys of a {kind} in the store begin with {text}; give more digits", fitting.len()),
    }
}

fn names(store: &Store, kind: EntryKind) -> BTreeSet<[u8; 32]> {
    store.entries(kind).flatten().map(|entry| entry.name).collect()
}

/// The keys of all graphs that have a plan. Reads every plan.
fn graphs(store: &Store) -> BTreeSet<[u8; 32]> {
    let plans = store.iter_plans().flatten().filter_map(|plan| match store.get_plan(&plan) {
        Lookup::Hit(plan) => Some(plan.view().meta().graph_key().0),
        Lookup::Miss(_) => None,
    });
    plans.collect()
}
