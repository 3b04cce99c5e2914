//! Many graphs into a store (C8): in parallel, each compiled once, with a report for every input.

use crate::compile::{CompileError, Request};
use crate::ensure::{Ensured, ensure};
use crate::keeper::{Grouped, Keeper};
use crate::lack::{Lack, LackReason};
use crate::provider::{ProviderRefusal, Providers, Refusal, Site};
use crate::shard::Shard;
use hipplan_serialize::{Canonical, GraphKey, PlanKey, Policy, VerifiedGraph};
use hipplan_store::{CompactOptions, Persisted, Store, StoreError};
use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Compilations from which on their plans are kept together: fewer are in the store sooner if each is kept at once.
const MANY: usize = 16;

/// Plans of a large batch that were kept at once from which on their files, four of each, are folded in the end.
const LOOSE: usize = 4;

/// One input of a batch.
#[derive(Debug)]
pub struct BatchItem {
    /// Where it comes from, for the report.
    pub source: String,
    /// Its canonical form, or why there is none.
    pub graph: Result<Canonical, String>,
    /// The engine that it prefers, which is not part of the canonical form.
    pub preferred: Option<i64>,
}

impl BatchItem {
    /// The item of a graph that was read.
    pub fn of_graph(source: String, graph: &VerifiedGraph<'_>) -> Self {
        Self { source, graph: graph.canonical().map_err(|e| e.to_string()), preferred: graph.preferred_engine_id() }
    }

    /// The item of an input that is no graph.
    pub fn invalid(source: String, reason: String) -> Self {
        Self { source, graph: Err(reason), preferred: None }
    }

    /// Whether a shard of a batch has to do with it. An input that is no graph is told of in every shard: nobody knows in which one it would
    /// have been, and another machine may have read it well.
    pub fn is_in(&self, shard: Option<Shard>) -> bool {
        match (shard, &self.graph) {
            (Some(shard), Ok(canonical)) => shard.contains(&canonical.key),
            _ => true,
        }
    }
}

/// How a batch is compiled.
#[derive(Debug, Clone)]
pub struct BatchOptions {
    /// Compile at each of these.
    pub sites: Vec<Site>,
    /// Which engine. Without a preference of its own, that of each graph counts.
    pub policy: Policy,
    /// Threads.
    pub jobs: usize,
    /// Only what [is in](BatchItem::is_in) this part.
    pub shard: Option<Shard>,
}

/// What became of one input for one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Compiled now.
    Compiled {
        /// The plan.
        plan: PlanKey,
        /// Whether the store kept it; else why not.
        not_stored: Option<String>,
        /// A plan was named and would not do: it is stale, or it cannot be read.
        in_place_of: Option<Lack>,
    },
    /// In the store already.
    Present {
        /// The plan.
        plan: PlanKey,
    },
    /// Has the key of an earlier input of the same batch.
    Duplicate {
        /// Position of that input.
        of: usize,
    },
    /// Not in the store, and compiling is not allowed.
    Lacking(Lack),
    /// No engine takes it.
    Refused {
        /// Every provider with its reason.
        reason: String,
        /// The operations that are not implemented.
        missing_ops: Vec<&'static str>,
        /// No provider compiles for the target, whatever the graph: there is none for it, or its compiler is missing.
        of_target: bool,
    },
    /// The input is no graph.
    Invalid {
        /// Why.
        reason: String,
    },
    /// Something went wrong.
    Failed {
        /// What.
        reason: String,
    },
}

impl Outcome {
    /// A word for tables and JSON.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Compiled { .. } => "compiled",
            Self::Present { .. } => "present",
            Self::Duplicate { .. } => "duplicate",
            Self::Lacking(lack) => lack.reason.word(),
            Self::Refused { .. } => "refused",
            Self::Invalid { .. } => "invalid",
            Self::Failed { .. } => "failed",
        }
    }
}

/// A line of the report.
#[derive(Debug, Clone)]
pub struct ReportRow {
    /// Position of the input.
    pub input: usize,
    /// Where it comes from.
    pub source: String,
    /// The target.
    pub target: String,
    /// The graph's key, where it has one.
    pub graph: Option<GraphKey>,
    /// What became of it.
    pub outcome: Outcome,
}

/// All rows, in the order of the inputs and then of the targets.
#[derive(Debug, Clone)]
pub struct BatchReport {
    /// The rows.
    pub rows: Vec<ReportRow>,
    /// Inputs whose graphs are in other shards. They have no rows.
    pub elsewhere: usize,
}

impl BatchReport {
    /// How many rows have this word.
    pub fn count(&self, word: &str) -> usize {
        self.rows.iter().filter(|r| r.outcome.word() == word).count()
    }

    /// The greatest reason for which plans that had to be in the store are not.
    pub fn lacking(&self) -> Option<LackReason> {
        let reason = |row: &ReportRow| match &row.outcome {
            Outcome::Lacking(lack) => Some(lack.reason),
            _ => None,
        };
        self.rows.iter().filter_map(reason).max()
    }
}

/// Told of each finished row; called from the threads of the batch.
pub trait Progress: Sync {
    /// One more row is done.
    fn finished(&self, source: &str, outcome: &Outcome);
}

impl Progress for () {
    fn finished(&self, _: &str, _: &Outcome) {}
}

/// Compiles every item for every target into the store.
///
/// A bad item costs only itself. Equal graphs are compiled once. What the store holds already is not compiled again, unless it
/// cannot be read: so a batch that was killed is resumed by running it again. The store ends up with the same entries whatever the number of
/// jobs, and whether the shards of the batch were compiled one after the other, at once, or not as shards at all.
///
/// Plans of a large batch are kept [together](hipplan_store::Group), in a few packs. A kill loses those that have not been written: at most a
/// fifth of the time that the batch took so far. What takes a tenth of a second or longer to compile is kept at once: no kill loses it, other
/// processes that wait for it find it, and if there is much of it, it is folded into a pack in the end.
pub fn compile_batch(
    store: &Store,
    items: &[BatchItem],
    options: &BatchOptions,
    providers: &Providers,
    progress: &dyn Progress,
) -> BatchReport {
    let mut rows: Vec<ReportRow> = Vec::with_capacity(items.len() * options.sites.len());
    // Row and item of every compilation that is to be made.
    let mut work: Vec<(usize, &Canonical, Request<'_>)> = Vec::new();
    let mut first: HashMap<(GraphKey, Option<i64>), usize> = HashMap::new();
    // Two sites of one target would compile the same plans.
    let mut seen = HashSet::new();
    let sites: Vec<&Site> = options.sites.iter().filter(|site| seen.insert(site.target().clone())).collect();
    let preferences: HashSet<Option<i64>> = items.iter().map(|item| item.preferred).collect();
    let policies: HashMap<Option<i64>, Policy> = preferences.into_iter().map(|id| (id, options.policy.preferring(id))).collect();
    let mut elsewhere = 0;
    for (input, item) in items.iter().enumerate() {
        if !item.is_in(options.shard) {
            elsewhere += 1;
            continue;
        }
        let duplicate = item.graph.as_ref().ok().and_then(|c| {
            let of = *first.entry((c.key, item.preferred)).or_insert(input);
            (of != input).then_some(of)
        });
        for &site in &sites {
            let outcome = match (&item.graph, duplicate) {
                (Err(reason), _) => Outcome::Invalid { reason: reason.clone() },
                (Ok(_), Some(of)) => Outcome::Duplicate { of },
                (Ok(canonical), None) => {
                    work.push((rows.len(), canonical, Request { site, policy: &policies[&item.preferred] }));
                    // Replaced below; every piece of work is done.
                    Outcome::Failed { reason: "not reached".into() }
                }
            };
            let graph = item.graph.as_ref().ok().map(|c| c.key);
            rows.push(ReportRow { input, source: item.source.clone(), target: site.target().to_string(), graph, outcome });
        }
    }
    let is_work: HashSet<usize> = work.iter().map(|&(row, ..)| row).collect();
    for (_, row) in rows.iter().enumerate().filter(|(i, _)| !is_work.contains(i)) {
        progress.finished(&row.source, &row.outcome);
    }

    let group = (work.len() >= MANY && !providers.requires_precompiled()).then(|| store.group());
    let at_once = AtomicUsize::new(0);
    let keeper = group.as_ref().map_or(Keeper::Store(store), |group| Keeper::Group(Grouped { group, store, at_once: &at_once }));
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, Outcome)>> = Mutex::new(Vec::with_capacity(work.len()));
    let compile_some = || {
        while let Some((row, canonical, request)) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (row, outcome) = (*row, compile_one(store, keeper, canonical, request, providers));
            progress.finished(&rows[row].source, &outcome);
            let mut done = done.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            done.push((row, outcome));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..options.jobs.min(work.len()) {
            // A system that gives no more threads leaves the work to those that there are.
            if std::thread::Builder::new().spawn_scoped(scope, compile_some).is_err() {
                break;
            }
        }
        compile_some();
    });
    for (row, outcome) in done.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
        rows[row].outcome = outcome;
    }
    if let Some(group) = group {
        if let Some(reason) = not_kept(group.commit()) {
            rows.iter_mut().for_each(|row| note_not_kept(store, &mut row.outcome, &reason));
        }
        if rows.iter().any(|row| matches!(row.outcome, Outcome::Compiled { .. })) {
            fold(store, at_once.into_inner() >= LOOSE);
        }
    }
    BatchReport { rows, elsewhere }
}

/// Makes few packs of many, and one of loose `files`, those of other batches too; unless somebody is about to do so.
fn fold(store: &Store, files: bool) {
    let mut options = CompactOptions::default();
    options.files = files;
    options.only_alone = true;
    options.wait = Duration::from_secs(2);
    // Otherwise there are more files than there might be, and nothing else.
    if let Err(error) = store.compact(&options, &()) {
        tracing::info!(store = %store.root().display(), cause = %error, "the files of the batch stay as they are");
    }
}

/// Why a group was not kept.
fn not_kept(committed: Result<Persisted, StoreError>) -> Option<String> {
    match committed {
        Ok(Persisted::No(error)) | Err(error) => Some(with_advice(&error)),
        Ok(_) => None,
    }
}

/// What is wrong with the store, and what to do about it.
fn with_advice(error: &StoreError) -> String {
    format!("{error}; {}", error.advice())
}

/// What was compiled and is not found is not stored.
fn note_not_kept(store: &Store, outcome: &mut Outcome, reason: &str) {
    if let Outcome::Compiled { plan, not_stored: not_stored @ None, .. } = outcome
        && store.find_plan(plan).hit().is_none()
    {
        *not_stored = Some(reason.to_owned());
    }
}

fn compile_one(store: &Store, keeper: Keeper<'_>, canonical: &Canonical, request: &Request<'_>, providers: &Providers) -> Outcome {
    let (ensured, lack) = match ensure(store, keeper, canonical, request, providers) {
        Ok((ensured, lack)) => (Ok(ensured), lack),
        Err(error) => (Err(error), None),
    };
    let in_place_of = lack.filter(|lack| lack.reason > LackReason::WrongTarget);
    match ensured {
        Ok(Ensured::Present(plan)) => Outcome::Present { plan },
        Ok(Ensured::Compiled(plan)) => Outcome::Compiled { plan, not_stored: None, in_place_of },
        Ok(Ensured::NotStored { plan, reason }) => {
            Outcome::Compiled { plan: plan.plan_ref.key, not_stored: Some(with_advice(&reason)), in_place_of }
        }
        Err(CompileError::NotPrecompiled(lack)) => Outcome::Lacking(lack),
        Err(error) => {
            let reason = match &error {
                CompileError::Store(error) => with_advice(error),
                error => error.to_string(),
            };
            match error {
                CompileError::NoApplicableEngines { refusals, .. } | CompileError::CannotPersist { refusals, .. } => {
                    let missing = |r: &ProviderRefusal| match r.reason {
                        Refusal::Operation { op, .. } => Some(op),
                        _ => None,
                    };
                    let of_target = refusals.iter().all(|r| matches!(r.reason, Refusal::Target(_) | Refusal::Unusable(_)));
                    Outcome::Refused { reason, missing_ops: refusals.iter().filter_map(missing).collect(), of_target }
                }
                _ => Outcome::Failed { reason },
            }
        }
    }
}
