//! Plans named on the command line by key.

use crate::output;
use anyhow::{Context, bail};
use hipplan::{Device, GraphKey, Loaders, Lookup, PlanBytes, PlanKey, Policy, Restore, Store, describe_misses, find_by_graph_key};

/// Shortest prefix of a key that is looked for.
const SHORTEST: usize = 4;

/// Whether a text may be a key: hexadecimal digits, and not the name of a file that is there.
pub(crate) fn may_be_key(text: &str) -> bool {
    (SHORTEST..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit()) && !std::path::Path::new(text).exists()
}

/// What to say of a text that names neither a file nor a plan.
pub(crate) fn neither(text: &str) -> String {
    if std::path::Path::new(text).exists() || text == "-" {
        output::name(text)
    } else {
        format!("{text:?} is neither a file nor a key ({SHORTEST} to 64 hexadecimal digits)")
    }
}

/// The plan that a graph key, a plan key, or an unambiguous prefix of one names. A whole key is looked up through the index; a prefix
/// reads every plan of the store.
pub(crate) fn find(store: &Store, text: &str, device: &Device) -> anyhow::Result<PlanBytes> {
    let text = text.to_ascii_lowercase();
    if let Ok(graph) = text.parse::<GraphKey>() {
        let misses = match find_by_graph_key(store, &graph, device, &Loaders::default(), &Policy::Default) {
            Restore::Found(plan) => return Ok(plan),
            Restore::Missed(misses) => misses,
        };
        let plan = text.parse::<PlanKey>().context("a key")?;
        if let Lookup::Hit(found) = store.find_plan(&plan)
            && let Lookup::Hit(plan) = store.get_plan(&found)
        {
            return Ok(plan);
        }
        bail!("no plan for key {text} in the store {}: {}", output::path(store.root()), describe_misses(&misses));
    }
    let mut found: Vec<(PlanKey, PlanBytes)> = Vec::new();
    for plan in store.iter_plans().filter_map(Result::ok) {
        let Lookup::Hit(bytes) = store.get_plan(&plan) else { continue };
        let graph = bytes.view().meta().graph_key();
        if plan.key.to_string().starts_with(&text) || graph.to_string().starts_with(&text) {
            found.push((plan.key, bytes));
        }
    }
    match found.len() {
        0 => bail!("no graph key or plan key in the store {} starts with {text}", output::path(store.root())),
        1 => Ok(found.swap_remove(0).1),
        n => {
            let keys: Vec<String> = found.iter().map(|(key, _)| key.short()).collect();
            bail!(
                "{n} plans in the store {} have keys that start with {text}: {}; give more digits",
                output::path(store.root()),
                keys.join(", ")
            )
        }
    }
}
