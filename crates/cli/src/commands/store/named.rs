//! What is to be removed, or kept, as the command line names it.

use anyhow::bail;
use hipplan::{EntryKind, GraphKey, Lookup, Miss, Pin, PlanKey, SelectionKey, Store, StoreError};
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

/// What names stand for.
pub(super) struct Meant {
    pub(super) pins: Vec<Pin>,
    /// Those whose whole keys were given, and which are not in the store.
    pub(super) absent: Vec<Pin>,
    /// Beginnings of keys that nothing in the store has, with the word for what they were to begin.
    pub(super) unmatched: Vec<String>,
}

impl Named {
    /// The keys that are meant.
    pub(super) fn resolve(&self, store: &Store) -> anyhow::Result<Meant> {
        let mut meant = Meant { pins: Vec::new(), absent: Vec::new(), unmatched: Vec::new() };
        for text in &self.plans {
            let is_there = |key| is_there(&store.find_plan(&PlanKey(key)));
            let Some(pin) = meant.resolve("plan", text, || names(store, EntryKind::PlanRecord), is_there, |key| Pin::Plan(PlanKey(key)))?
            else {
                continue;
            };
            // Keys look alike, and one of a graph keeps no plan that is named by it.
            if meant.absent.last() == Some(&pin)
                && let Pin::Plan(key) = pin
                && graphs(store).is_ok_and(|graphs| graphs.contains(&key.0))
            {
                bail!("{key} is the key of a graph, not of a plan: name it with --graph");
            }
        }
        for text in &self.selections {
            let is_there = |key| is_there(&store.find_selection(&SelectionKey(key)));
            let pin = |key| Pin::Selection(SelectionKey(key));
            meant.resolve("selection", text, || names(store, EntryKind::Selection), is_there, pin)?;
        }
        for text in &self.graphs {
            let is_there = |key| graphs(store).map_or(true, |graphs| graphs.contains(&key));
            meant.resolve("graph", text, || graphs(store), is_there, |key| Pin::Graph(GraphKey(key)))?;
        }
        Ok(meant)
    }
}

impl Meant {
    /// A whole key, or the only one of these that begins like the text.
    fn resolve(
        &mut self,
        kind: &str,
        text: &str,
        keys: impl FnOnce() -> Result<BTreeSet<[u8; 32]>, StoreError>,
        is_there: impl FnOnce([u8; 32]) -> bool,
        pin: impl FnOnce([u8; 32]) -> Pin,
    ) -> anyhow::Result<Option<Pin>> {
        let text = text.to_ascii_lowercase();
        let pin = if let Ok(key) = text.parse::<PlanKey>() {
            let pin = pin(key.0);
            if !is_there(key.0) {
                self.absent.push(pin);
            }
            pin
        } else {
            if text.len() < SHORTEST || !text.bytes().all(|b| b.is_ascii_hexdigit()) || text.len() > 64 {
                bail!("{text:?} is no key of a {kind}: expected {SHORTEST} to 64 hexadecimal digits");
            }
            let fitting: Vec<[u8; 32]> = keys()?.into_iter().filter(|key| PlanKey(*key).to_string().starts_with(&text)).collect();
            match fitting[..] {
                [key] => pin(key),
                [] => {
                    self.unmatched.push(format!("{kind} {text}..."));
                    return Ok(None);
                }
                _ => bail!("{} keys of a {kind} in the store begin with {text}; give more digits", fitting.len()),
            }
        };
        self.pins.push(pin);
        Ok(Some(pin))
    }
}

/// Whether something was found, or is there and cannot be read.
fn is_there<T>(found: &Lookup<T>) -> bool {
    !matches!(found, Lookup::Miss(Miss::Absent))
}

/// The keys of a kind. What cannot be listed may be what is named: then nothing is known.
fn names(store: &Store, kind: EntryKind) -> Result<BTreeSet<[u8; 32]>, StoreError> {
    let entries = store.entries(kind).filter(|entry| entry.as_ref().err().is_none_or(StoreError::is_unreadable));
    entries.map(|entry| entry.map(|entry| entry.name)).collect()
}

/// The keys of all graphs that have a plan. Reads every plan.
fn graphs(store: &Store) -> Result<BTreeSet<[u8; 32]>, StoreError> {
    let mut graphs = BTreeSet::new();
    for plan in store.iter_plans() {
        match plan {
            Ok(plan) => {
                if let Lookup::Hit(plan) = store.get_plan(&plan) {
                    graphs.insert(plan.view().meta().graph_key().0);
                }
            }
            Err(error) if error.is_unreadable() => return Err(error),
            // Damage, of which `verify` tells.
            Err(_) => {}
        }
    }
    Ok(graphs)
}
