//! Plans named on the command line by key.

use crate::{location, output};
use anyhow::bail;
use hipplan::{Device, GraphKey, LackReason, Loaders, Lookup, PlanBytes, PlanKey, Policy, Restore, Store, Target, find_for_targets};

/// Shortest prefix of a key that is looked for.
const SHORTEST: usize = 4;

/// Which of the plans that a key may name is meant.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pick<'t> {
    /// The only one, whatever its target.
    Only,
    /// The best of one graph, for the first of these targets that has one.
    For(Option<&'t Device>, &'t [Target]),
    /// Any of one graph: all have the same in them.
    Graph,
}

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

/// No plan that could be read has a key like the one that was named, or only plans for other targets have.
#[derive(Debug)]
pub(crate) struct NoPlan {
    text: String,
    reason: LackReason,
}

impl NoPlan {
    pub(crate) fn reason(&self) -> LackReason {
        self.reason
    }
}

impl std::fmt::Display for NoPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for NoPlan {}

/// A plan that a key or the beginning of one fits.
struct Found {
    plan: PlanKey,
    graph: GraphKey,
    target: String,
    bytes: PlanBytes,
}

impl Found {
    fn new(bytes: PlanBytes) -> Self {
        let (plan, graph, target) = {
            let view = bytes.view();
            let meta = view.meta();
            (meta.plan_key(), meta.graph_key(), meta.target.as_str().to_owned())
        };
        Self { plan, graph, target, bytes }
    }
}

/// The plan that a graph key, a plan key, or an unambiguous prefix of one names. A whole key is looked up through the index where that is
/// enough; a prefix reads every plan of the store.
pub(crate) fn find(store: &Store, text: &str, pick: Pick<'_>, loaders: &Loaders, policy: &Policy) -> anyhow::Result<PlanBytes> {
    let text = text.to_ascii_lowercase();
    if let Ok(graph) = text.parse::<GraphKey>()
        && let Pick::For(device, targets) = pick
        && let Some(plan) = selected(store, &graph, device, targets, loaders, policy)
    {
        return Ok(plan);
    }
    let mut found = Vec::new();
    if let Ok(plan) = text.parse::<PlanKey>()
        && let Lookup::Hit(led_to) = store.find_plan(&plan)
        && let Lookup::Hit(bytes) = store.get_plan(&led_to)
    {
        found.push(Found::new(bytes));
    } else {
        for plan in store.iter_plans().filter_map(Result::ok) {
            let Lookup::Hit(bytes) = store.get_plan(&plan) else { continue };
            let is_asked_for = bytes.view().meta().satisfies(policy);
            let one = Found::new(bytes);
            if !is_asked_for {
                continue;
            }
            if one.plan.to_string().starts_with(&text) || one.graph.to_string().starts_with(&text) {
                found.push(one);
            }
        }
    }
    let place = location::place(store);
    if found.is_empty() {
        let asked = if *policy == Policy::DEFAULT { "" } else { ", of the engine, provider and settings that were asked for," };
        let text = format!("no graph key or plan key in the {place}{asked} {} {text}", if text.len() == 64 { "is" } else { "starts with" });
        return Err(NoPlan { text, reason: LackReason::Missing }.into());
    }
    let all_found = list(&found);
    if let Pick::For(_, targets) = pick {
        let targets: Vec<String> = targets.iter().map(ToString::to_string).collect();
        let rank = |one: &Found| targets.iter().position(|t| *t == one.target);
        found.retain(|one| rank(one).is_some());
        if found.is_empty() {
            let targets = targets.join(" or ");
            let text =
                format!("the plans in the {place} with keys that start with {text} are for other targets than {targets}: {all_found}");
            return Err(NoPlan { text, reason: LackReason::WrongTarget }.into());
        }
        let is_one_graph = found.iter().all(|one| one.graph == found[0].graph);
        if is_one_graph && let Some(best) = found.iter().filter_map(rank).min() {
            found.retain(|one| rank(one) == Some(best));
        }
    }
    // Of plans of one graph and target, the graph's key means the one that is selected.
    let (graph, target) = (found[0].graph, found[0].target.clone());
    let are_alike = found.iter().all(|one| one.graph == graph && (one.target == target || matches!(pick, Pick::Graph)));
    if found.len() > 1 && are_alike && graph.to_string().starts_with(&text) {
        if let Some(plan) = target.parse().ok().and_then(|target| selected(store, &graph, None, &[target], loaders, policy)) {
            return Ok(plan);
        }
        if matches!(pick, Pick::Graph) {
            found.truncate(1);
        }
    }
    match found.len() {
        1 => Ok(found.swap_remove(0).bytes),
        n => {
            let several_targets = found.iter().any(|one| one.target != found[0].target);
            let advice = if several_targets { "give more digits, or --target" } else { "give more digits" };
            bail!("{n} plans in the {place} have keys that start with {text}: {}; {advice}", list(&found))
        }
    }
}

/// Keys and targets, for a message.
fn list(found: &[Found]) -> String {
    let mut rows: Vec<String> = found.iter().map(|one| format!("{} ({})", one.plan.short(), output::name(&one.target))).collect();
    rows.sort_unstable();
    const MOST: usize = 12;
    if let Some(more) = rows.len().checked_sub(MOST).filter(|more| *more > 0) {
        rows.truncate(MOST);
        rows.push(format!("and {more} more"));
    }
    rows.join(", ")
}

/// The plan that is selected for a graph and the first of these targets that has one.
fn selected(
    store: &Store,
    graph: &GraphKey,
    device: Option<&Device>,
    targets: &[Target],
    loaders: &Loaders,
    policy: &Policy,
) -> Option<PlanBytes> {
    match find_for_targets(store, graph, device, targets, loaders, policy) {
        Restore::Found(plan) => Some(plan),
        Restore::Missed(_) => None,
    }
}
