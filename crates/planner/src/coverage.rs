//! Which graphs of a run are precompiled, weighted by how often the run asked for them (C8).

use crate::batch::BatchItem;
use crate::lack::{Lack, LackReason};
use crate::precompiled::{Sought, find_precompiled};
use crate::provider::Providers;
use hipplan_exec::Device;
use hipplan_serialize::{GraphKey, PlanKey, Policy, Target};
use hipplan_store::Store;
use std::collections::HashMap;

/// An input, and how often the run asked for it.
#[derive(Debug)]
pub struct LoggedItem {
    /// The graph, or why there is none.
    pub item: BatchItem,
    /// Calls.
    pub calls: u64,
}

/// What the store has for one graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// A plan that a lookup takes, whole.
    Covered {
        /// The plan.
        plan: PlanKey,
        /// What it is compiled for.
        target: String,
    },
    /// No such plan.
    Lacking(Lack),
    /// The input is no graph.
    Invalid {
        /// Why.
        reason: String,
    },
}

impl Answer {
    /// A word for tables and JSON.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Covered { .. } => "covered",
            Self::Lacking(lack) => lack.reason.word(),
            Self::Invalid { .. } => "invalid",
        }
    }
}

/// One different graph of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoverageRow {
    /// Position of the first input that has it.
    pub input: usize,
    /// Where that comes from.
    pub source: String,
    /// Its key, where it has one.
    pub graph: Option<GraphKey>,
    /// Calls of all inputs that have it.
    pub calls: u64,
    /// What the store has.
    pub answer: Answer,
}

/// What of a run is precompiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coverage {
    /// Different graphs, in the order in which the run first has them; each input that is no graph has a row of its own.
    pub rows: Vec<CoverageRow>,
}

impl Coverage {
    /// How many rows have this word, and how many calls they stand for.
    pub fn count(&self, word: &str) -> (usize, u64) {
        let rows = self.rows.iter().filter(|row| row.answer.word() == word);
        rows.fold((0, 0), |(rows, calls), row| (rows + 1, u64::saturating_add(calls, row.calls)))
    }

    /// The part of all calls, 0 to 1, that a plan answers. Without calls it is 1: nothing is missed.
    pub fn share_of_calls(&self) -> f64 {
        let all = self.rows.iter().fold(0_u64, |calls, row| calls.saturating_add(row.calls));
        if all == 0 { 1.0 } else { self.count("covered").1 as f64 / all as f64 }
    }

    /// Everything is covered.
    pub fn is_complete(&self) -> bool {
        self.rows.iter().all(|row| matches!(row.answer, Answer::Covered { .. }))
    }

    /// The greatest reason for which a graph is not covered.
    pub fn lacking(&self) -> Option<LackReason> {
        let reason = |row: &CoverageRow| match &row.answer {
            Answer::Lacking(lack) => Some(lack.reason),
            _ => None,
        };
        self.rows.iter().filter_map(reason).max()
    }
}

/// Looks every different graph of a run up, as a process on the device would. Graphs that prefer different engines are different. Every
/// byte of the plans is read; nothing is compiled or written.
pub fn cover(
    store: &Store,
    items: &[LoggedItem],
    device: Option<&Device>,
    targets: &[Target],
    policy: &Policy,
    providers: &Providers,
) -> Coverage {
    let mut rows: Vec<CoverageRow> = Vec::new();
    let mut first: HashMap<(GraphKey, Option<i64>), usize> = HashMap::new();
    for (input, LoggedItem { item, calls }) in items.iter().enumerate() {
        let row = |graph, answer| CoverageRow { input, source: item.source.clone(), graph, calls: *calls, answer };
        let key = match &item.graph {
            Ok(canonical) => canonical.key,
            Err(reason) => {
                rows.push(row(None, Answer::Invalid { reason: reason.clone() }));
                continue;
            }
        };
        let at = *first.entry((key, item.preferred)).or_insert(rows.len());
        if let Some(known) = rows.get_mut(at) {
            known.calls = known.calls.saturating_add(*calls);
            continue;
        }
        let policy = policy.preferring(item.preferred);
        let found = find_precompiled(store, &Sought { graph: &key, device, targets, policy: &policy }, providers);
        let answer = match found {
            Err(lack) => Answer::Lacking(lack),
            Ok(plan) => {
                let view = plan.view();
                Answer::Covered { plan: view.meta().plan_key(), target: view.meta().target.as_str().to_owned() }
            }
        };
        rows.push(row(Some(key), answer));
    }
    Coverage { rows }
}
