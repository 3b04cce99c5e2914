//! The plan of a store that is nearest to a request which it does not answer, and what differs, field by field (C8).

use crate::precompiled::{Sought, plans_of};
use crate::provider::Providers;
use hipplan_exec::RestoreMiss;
use hipplan_serialize::diff::{self, Difference, Place};
use hipplan_serialize::{Knob, Limits, PlanIdentity, PlanKey, Policy, Target, VerifiedGraph, canon, engine_id_of_text};
use hipplan_store::{PlanBytes, Store};

/// One field in which a request and a plan differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldDifference {
    /// Where: `request`, `plan`, `graph`, or a tensor or node of the graph that was asked for.
    pub place: String,
    /// Which field, such as `dims[0]`.
    pub field: String,
    /// What was asked for; none when it has no such thing.
    pub here: Option<String>,
    /// What the plan in the store has.
    pub in_store: Option<String>,
}

impl std::fmt::Display for FieldDifference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = |side: &Option<String>| side.clone().unwrap_or_else(|| "nothing".to_owned());
        write!(f, "{} {}: {} here, {} in the store", self.place, self.field, text(&self.here), text(&self.in_store))
    }
}

/// A plan of the store, beside the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The plan.
    pub plan: PlanKey,
    /// What it is made of.
    pub identity: PlanIdentity,
    /// In what it differs. Empty if it is what was asked for.
    pub differing: Vec<FieldDifference>,
}

/// What was found near a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nearest {
    /// The plan with the fewest differing fields; of several, one of the same graph, and then the one with the least key.
    pub entry: Option<Entry>,
    /// Plans of other graphs that were looked at.
    pub looked_at: usize,
    /// Whether no other plan can be nearer: all were looked at, or one with the fewest fields that another can have was found.
    pub is_exact: bool,
}

/// Finds the plan of a store that is nearest to a request: the fewest fields differ that make another key, another target, or another
/// engine than the policy admits.
///
/// Plans of the graph itself are found by their records, for all [known targets](Target::known); in a far tier, for the targets that are
/// sought. Then plans of other graphs are looked at
/// one by one, `most` at most, in the order of their content addresses, which is as good as none: of a larger store the answer is the
/// nearest of a sample.
pub fn nearest(store: &Store, graph: &VerifiedGraph<'_>, sought: &Sought<'_>, providers: &Providers, most: usize) -> Nearest {
    let request = Comparison { graph, sought, providers };
    let mut best: Option<Entry> = None;
    let mut keep = |entry: Entry| {
        let rank = |entry: &Entry| (entry.differing.len(), entry.identity.graph != *sought.graph, entry.plan);
        if best.as_ref().is_none_or(|best| rank(&entry) < rank(best)) {
            best = Some(entry);
        }
        best.as_ref().map_or(usize::MAX, |best| best.differing.len())
    };
    let mut fewest = usize::MAX;
    let near = store.clone().without_remote();
    let others = Target::known().filter(|target| !sought.targets.contains(target)).map(|target| (&near, target));
    for (store, target) in sought.targets.iter().map(|target| (store, target.clone())).chain(others) {
        for plan in plans_of(store, sought.graph, &target, None) {
            fewest = request.with(&plan).map_or(fewest, &mut keep);
        }
    }
    let (mut looked_at, mut is_exact) = (0, true);
    // Another graph differs in one field at least.
    for plan in store.iter_plans().filter_map(Result::ok).filter_map(|plan| store.get_plan(&plan).hit()) {
        if fewest <= 1 {
            break;
        }
        if plan.view().meta().graph_key() == *sought.graph {
            // It was found by its record, unless it has none: then it is looked at like the others.
            fewest = request.with(&plan).map_or(fewest, &mut keep);
            continue;
        }
        if looked_at == most {
            is_exact = false;
            break;
        }
        looked_at += 1;
        fewest = request.with(&plan).map_or(fewest, &mut keep);
    }
    Nearest { entry: best, looked_at, is_exact }
}

struct Comparison<'c, 'g> {
    graph: &'c VerifiedGraph<'g>,
    sought: &'c Sought<'c>,
    providers: &'c Providers,
}

impl Comparison<'_, '_> {
    /// The plan beside the request; nothing where it has no graph that can be read.
    fn with(&self, plan: &PlanBytes) -> Option<Entry> {
        let view = plan.view();
        let identity = view.meta().identity();
        let mut differing = request_level(self.sought, &identity, view.meta().satisfies(self.sought.policy));
        if identity.graph != *self.sought.graph {
            let theirs = canon::decode(view.canonical().ok()?, &Limits::DEFAULT).ok()?;
            let all = diff::graphs(self.graph, &theirs.view());
            differing.extend(all.iter().filter(|difference| difference.changes_key).flat_map(fields));
        }
        // Only a plan for the device can be asked of it.
        let device = self.sought.device.filter(|_| self.sought.targets.iter().any(|t| t.to_string() == identity.target));
        if let Err(error) = self.providers.loaders().accept_on(&view, device) {
            let payload =
                view.payload().map_or_else(|e| e.to_string(), |head| format!("payload {} version {}", head.kind(), head.version()));
            let here = Some(RestoreMiss::NotAccepted(error).to_string());
            differing.push(FieldDifference { place: "plan".to_owned(), field: "loader".to_owned(), here, in_store: Some(payload) });
        }
        Some(Entry { plan: view.meta().plan_key(), identity, differing })
    }
}

/// What differs beside the graph: the target, and what the policy asks for.
fn request_level(sought: &Sought<'_>, plan: &PlanIdentity, satisfies: bool) -> Vec<FieldDifference> {
    let mut found = Vec::new();
    let mut push = |field: &str, here: String, in_store: Option<String>| {
        found.push(FieldDifference { place: "request".to_owned(), field: field.to_owned(), here: Some(here), in_store });
    };
    let targets: Vec<String> = sought.targets.iter().map(ToString::to_string).collect();
    if !targets.contains(&plan.target) {
        push("target", targets.join(" or "), Some(plan.target.clone()));
    }
    if satisfies {
        return found;
    }
    let Policy { engine, provider, preferred: _, knobs } = sought.policy;
    if let Some(engine) = engine.as_ref().filter(|text| engine_id_of_text(text) != engine_id_of_text(&plan.engine)) {
        push("engine", engine.clone(), Some(plan.engine.clone()));
    }
    if let Some(provider) = provider.as_ref().filter(|name| **name != plan.provider) {
        push("provider", provider.clone(), Some(plan.provider.clone()));
    }
    for Knob { id, value } in knobs {
        let theirs = plan.knobs.iter().find(|knob| knob.id == *id).map(|knob| knob.value.clone());
        if theirs.as_ref() != Some(value) {
            push(&format!("knob {id}"), value.clone(), theirs);
        }
    }
    found
}

/// A difference of two graphs; that of two lists of numbers of one length as one for each place.
fn fields(difference: &Difference) -> Vec<FieldDifference> {
    let Difference { place, field, a, b, changes_key: _ } = difference;
    let place = match place {
        // In the terms of whoever asked: the numbering of the graph in the store is nobody's.
        Place::Tensor(Some(here), _) => here.to_string(),
        Place::Tensor(None, Some(in_store)) => format!("tensor {} of the store's graph", in_store.index),
        Place::Node(Some(here), _) => here.to_string(),
        Place::Node(None, Some(in_store)) => format!("node {} ({}) of the store's graph", in_store.index, in_store.op),
        other => other.to_string(),
    };
    let lists = a.as_deref().and_then(numbers).zip(b.as_deref().and_then(numbers));
    match lists.filter(|(a, b)| a.len() == b.len()) {
        None => vec![FieldDifference { place, field: field.clone(), here: a.clone(), in_store: b.clone() }],
        Some((a, b)) => {
            let places = a.iter().zip(&b).enumerate().filter(|(_, (a, b))| a != b);
            let one = |(i, (a, b)): (usize, (&i64, &i64))| FieldDifference {
                place: place.clone(),
                field: format!("{field}[{i}]"),
                here: Some(a.to_string()),
                in_store: Some(b.to_string()),
            };
            places.map(one).collect()
        }
    }
}

/// The numbers of a list such as `[1, 3, 8]`; nothing of another text.
fn numbers(text: &str) -> Option<Vec<i64>> {
    let inner = text.strip_prefix('[')?.strip_suffix(']')?;
    inner.split(", ").map(|number| number.parse().ok()).collect()
}
