//! A plan that is ready to execute: found in the store, or compiled for this process.

use crate::keys::{self, Pick};
use crate::{Global, inputs, location, output};
use anyhow::{Context, bail, ensure};
use hipplan::{
    BoundPlan, CompiledPlan, Device, GraphBuf, GraphKey, Lack, LackReason, Limits, Lookup, Plan, PlanBytes, PlanKey, PlanView, Policy,
    Providers, Request, Restore, SelectionKey, Site, Sought, Store, Target, canon, check_precompiled, compile_in_process, describe_misses,
    find_for_targets, find_precompiled,
};
use std::path::Path;
use std::time::{Duration, Instant};

/// What a person named, and what it is to be executed with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'w> {
    /// A graph in any form, or the first digits of a key.
    pub(crate) what: &'w str,
    pub(crate) device: &'w Device,
    pub(crate) targets: &'w [Target],
    pub(crate) policy: &'w Policy,
    pub(crate) providers: &'w Providers,
    /// Options that compiling would need, each after a blank.
    pub(crate) advice: &'w str,
}

/// A plan that is bound, and the graph in the terms of whoever named it.
pub(crate) struct Ready {
    pub(crate) plan: PlanFile,
    pub(crate) bound: BoundPlan,
    pub(crate) graph: GraphBuf,
    pub(crate) ready_in: Duration,
}

/// Where the plan is from.
pub(crate) enum PlanFile {
    Stored(PlanBytes),
    /// Made by this process for itself.
    Made(Box<CompiledPlan>),
}

/// What is known of a plan without its payload.
pub(crate) struct PlanFacts {
    pub(crate) plan_key: PlanKey,
    pub(crate) graph_key: GraphKey,
    pub(crate) provider: String,
    pub(crate) engine: String,
    pub(crate) target: String,
    pub(crate) workspace_size: u64,
}

impl PlanFile {
    pub(crate) fn facts(&self) -> anyhow::Result<PlanFacts> {
        let facts = |view: PlanView<'_>| {
            let meta = view.meta();
            PlanFacts {
                plan_key: meta.plan_key(),
                graph_key: meta.graph_key(),
                provider: meta.provider.as_str().to_owned(),
                engine: meta.engine.as_str().to_owned(),
                target: meta.target.as_str().to_owned(),
                workspace_size: meta.workspace_size.to_native(),
            }
        };
        Ok(match self {
            Self::Stored(bytes) => facts(bytes.view()),
            Self::Made(plan) => facts(PlanView::open(&plan.bytes)?),
        })
    }

    /// What was done before the plan was ready.
    pub(crate) const fn verb(&self) -> &'static str {
        match self {
            Self::Stored(_) => "restored",
            Self::Made(_) => "compiled",
        }
    }
}

impl Wanted<'_> {
    /// Compiles what is named for this process.
    ///
    /// # Errors
    /// It is no graph, or no engine takes it.
    pub(crate) fn compile(&self) -> anyhow::Result<Ready> {
        let Self { what, device, targets, policy, providers, .. } = *self;
        let is_key = keys::may_be_key(what);
        ensure!(!is_key, "--in-process compiles a graph, and {} is a key: name a file", output::name(what));
        ensure!(what == "-" || Path::new(what).exists(), "{}", keys::neither(what));
        let (_, imported) = inputs::read_graph(Path::new(what))?;
        let view = imported.graph.view();
        let target = targets.first().unwrap_or(device.target()).clone();
        let site = Site::Present(device.clone(), target);
        let start = Instant::now();
        let made = compile_in_process(&view, &Request { site: &site, policy }, providers)?;
        let ready_in = start.elapsed();
        Ok(Ready { plan: PlanFile::Made(Box::new(made.plan)), bound: made.bound, graph: imported.graph, ready_in })
    }

    /// Finds a stored plan and binds it.
    ///
    /// # Errors
    /// There is none, or it cannot be bound.
    pub(crate) fn find(&self, global: &Global) -> anyhow::Result<Ready> {
        let Self { what, device, policy, providers, .. } = *self;
        let loaders = providers.loaders();
        if keys::may_be_key(what) {
            let start = Instant::now();
            let store = location::readable(global)?;
            let plan = self.of_key(&store)?;
            let bound = Plan::new(plan.view()).with_code_objects(&store).bind_by_key(device, loaders)?;
            let ready_in = start.elapsed();
            // The graph of the plan itself, whose uids are ordinals: for inputs, names and checks, not for executing.
            let graph = canon::decode(plan.view().canonical()?, &Limits::DEFAULT)?;
            return Ok(Ready { plan: PlanFile::Stored(plan), bound, graph, ready_in });
        }
        ensure!(what == "-" || Path::new(what).exists(), "{}", keys::neither(what));
        let (_, imported) = inputs::read_graph(Path::new(what))?;
        let key = imported.graph.view().canonical()?.key;
        let policy = policy.preferring(imported.graph.view().preferred_engine_id());
        let start = Instant::now();
        let store = location::readable(global)?;
        let plan = self.of_graph(global, &store, &key, &policy)?;
        let open = Plan::new(plan.view()).with_code_objects(&store);
        let bound = open.bind_by_graph(device, loaders, &imported.graph.view())?;
        let ready_in = start.elapsed();
        Ok(Ready { plan: PlanFile::Stored(plan), bound, graph: imported.graph, ready_in })
    }

    /// The stored plan of a graph.
    fn of_graph(&self, global: &Global, store: &Store, key: &GraphKey, policy: &Policy) -> anyhow::Result<PlanBytes> {
        let Self { what, device, targets, providers, .. } = *self;
        if providers.requires_precompiled() {
            let sought = Sought { graph: key, device: Some(device), targets, policy };
            return find_precompiled(store, &sought, providers).with_context(|| self.not_precompiled(store));
        }
        match find_for_targets(store, key, Some(device), targets, providers.loaders(), policy) {
            Restore::Found(plan) => {
                providers.counters().hit();
                Ok(plan)
            }
            Restore::Missed(misses) => {
                providers.counters().miss(LackReason::of_misses(&misses));
                let misses = describe_misses(&misses);
                let target = targets.first().filter(|t| **t != Target::Cpu).map(|t| format!(" --target {t}")).unwrap_or_default();
                let place = global.store.as_deref().map(|path| format!(" --store {}", output::path(path))).unwrap_or_default();
                bail!(
                    "{}: no plan for graph {key} in the {}: {misses}{}; compile it first: hipplan compile {}{place}{target}{}",
                    output::name(what),
                    location::place(store),
                    others(store, key, targets),
                    output::name(what),
                    self.advice
                )
            }
        }
    }

    /// The stored plan that a key or the beginning of one names.
    fn of_key(&self, store: &Store) -> anyhow::Result<PlanBytes> {
        let Self { what, device, targets, policy, providers, .. } = *self;
        let required = providers.requires_precompiled();
        if required && let Ok(graph) = what.to_ascii_lowercase().parse::<GraphKey>() {
            let sought = Sought { graph: &graph, device: Some(device), targets, policy };
            match find_precompiled(store, &sought, providers) {
                // It may be the key of a plan.
                Err(lack) if lack.reason == LackReason::Missing => {}
                found => return found.with_context(|| self.not_precompiled(store)),
            }
        }
        let found = keys::find(store, what, Pick::For(Some(device), targets), providers.loaders(), policy);
        if !required {
            return found.inspect(|_| providers.counters().hit());
        }
        let lack = match found {
            Ok(plan) => match check_precompiled(store, plan, Some(device), providers) {
                Ok(plan) => return Ok(plan),
                Err(lack) => lack,
            },
            Err(error) => match error.downcast_ref::<keys::NoPlan>() {
                None => return Err(error),
                Some(no_plan) => {
                    providers.counters().miss(no_plan.reason());
                    Lack { reason: no_plan.reason(), detail: no_plan.to_string() }
                }
            },
        };
        Err(lack).with_context(|| self.not_precompiled(store))
    }

    /// What comes before the reason.
    fn not_precompiled(&self, store: &Store) -> String {
        format!("{} is not precompiled in the {}", output::name(self.what), location::place(store))
    }
}

/// Other targets that have a plan of a graph, for a message. A remote is not asked about all targets that there are.
fn others(store: &Store, graph: &GraphKey, sought: &[Target]) -> String {
    let near = store.clone().without_remote();
    let has_plan = |target: &Target| {
        let listed = near.find_selection(&SelectionKey::of_all(graph, &target.to_string()));
        matches!(listed, Lookup::Hit(selection) if !selection.plans.is_empty())
    };
    let mut others: Vec<String> =
        Target::known().filter(|target| !sought.contains(target) && has_plan(target)).map(|target| target.to_string()).collect();
    others.sort_unstable();
    if others.is_empty() { String::new() } else { format!("; it has plans of the graph for {}", others.join(", ")) }
}
