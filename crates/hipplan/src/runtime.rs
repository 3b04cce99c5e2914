//! The short way: one store, one device.

use hipplan_exec::{BoundPlan, Device, ExecError, Plan, Restore, RestoreMiss, describe_misses, find_by_graph_key};
use hipplan_planner::{
    CompileError, Counts, Ensured, Lack, LackReason, Providers, Request, Site, Sought, compile_in_process, ensure_plan, find_precompiled,
};
use hipplan_serialize::canon::NoKey;
use hipplan_serialize::{GraphKey, Policy, VerifiedGraph};
use hipplan_store::{Mode, PlanBytes, Store, StoreError};
use std::path::Path;

/// A store and a device, with the providers that are built in.
#[derive(Debug)]
pub struct Runtime {
    store: Store,
    device: Device,
    providers: Providers,
    policy: Policy,
}

/// Why a plan was not restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The graph has no key.
    #[error(transparent)]
    NoKey(#[from] NoKey),
    /// The store holds no usable plan.
    #[error("no plan for {what} in the store {store}: {}", describe_misses(.misses))]
    Missed {
        /// The key that was looked for.
        what: String,
        /// The store's folder.
        store: String,
        /// Why, for each target that was tried.
        misses: Vec<(String, RestoreMiss)>,
    },
    /// The store holds no usable plan, and plans must have been compiled before.
    #[error("not precompiled, {lack} (graph {graph}, store {store})")]
    NotPrecompiled {
        /// The graph that was looked for.
        graph: GraphKey,
        /// The store's folder.
        store: String,
        /// Which of four things is the matter.
        lack: Lack,
    },
    /// The plan is there and cannot be bound.
    #[error(transparent)]
    Bind(#[from] ExecError),
}

impl Runtime {
    /// A runtime for the CPU device over a store, which is made if it is not there.
    ///
    /// # Errors
    /// The folder cannot be used as a store.
    pub fn open(store: impl AsRef<Path>) -> Result<Self, StoreError> {
        Ok(Self::new(Store::open(store, Mode::ReadWrite)?))
    }

    /// A runtime for the CPU device over a store that has been opened.
    pub fn new(store: Store) -> Self {
        Self::on(store, Device::Cpu)
    }

    /// A runtime for a device over a store that has been opened.
    pub fn on(store: Store, device: Device) -> Self {
        Self { store, device, providers: Providers::default(), policy: Policy::DEFAULT }
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The providers, compilers and loaders, to add to.
    pub fn providers_mut(&mut self) -> &mut Providers {
        &mut self.providers
    }

    /// Which engines plans are compiled with and looked up for. The default takes the first that will; a graph's preferred engine comes
    /// before it where the policy states no preference.
    pub fn set_policy(&mut self, policy: Policy) -> &mut Self {
        self.policy = policy;
        self
    }

    /// Whether plans must have been compiled before. Then nothing is ever compiled and nothing is written: [`compile`](Self::compile) only
    /// looks, and what is not there is [`CompileError::NotPrecompiled`] or [`RestoreError::NotPrecompiled`], which say whether the plan is
    /// missing, is there for another target only, is stale, or cannot be read. Every byte of a plan is read before it is taken for one.
    pub fn require_precompiled(&mut self, required: bool) -> &mut Self {
        self.providers.require_precompiled(required);
        self
    }

    /// What was asked of the store by this runtime, and what it compiled.
    pub fn counts(&self) -> Counts {
        self.providers.counters().get()
    }

    /// Makes sure that the store holds a plan of the graph for the device: compiles it if need be.
    ///
    /// # Errors
    /// No provider takes the graph, or compiling failed, or the graph has no key, or the store failed.
    pub fn compile(&self, graph: &VerifiedGraph<'_>) -> Result<Ensured, CompileError> {
        let policy = self.policy.preferring(graph.preferred_engine_id());
        let request = Request { site: &Site::present(&self.device), policy: &policy };
        ensure_plan(&self.store, &graph.canonical()?, &request, &self.providers)
    }

    /// Compiles a graph for this process alone, past the store: also with an engine that cannot persist. Packs name tensors by the graph's
    /// own uids.
    ///
    /// # Errors
    /// No provider takes the graph, or compiling failed, or the graph has no key, or the plan cannot be bound.
    pub fn compile_in_process(&self, graph: &VerifiedGraph<'_>) -> Result<BoundPlan, CompileError> {
        let request = Request { site: &Site::present(&self.device), policy: &self.policy };
        Ok(compile_in_process(graph, &request, &self.providers)?.bound)
    }

    /// Restores the plan of a graph. Packs name tensors by the graph's own uids.
    ///
    /// # Errors
    /// The store holds no usable plan, or it cannot be bound. Nothing is compiled.
    pub fn restore(&self, graph: &VerifiedGraph<'_>) -> Result<BoundPlan, RestoreError> {
        let plan = self.find_with(&graph.canonical()?.key, &self.policy.preferring(graph.preferred_engine_id()))?;
        let plan = Plan::new(plan.view()).with_code_objects(&self.store);
        Ok(plan.bind_by_graph(&self.device, self.providers.loaders(), graph)?)
    }

    /// Restores the plan of a graph that is known by its key alone. Packs name tensors by canonical ordinal.
    ///
    /// # Errors
    /// The store holds no usable plan, or it cannot be bound. Nothing is compiled.
    pub fn restore_by_key(&self, graph: &GraphKey) -> Result<BoundPlan, RestoreError> {
        let plan = self.find(graph)?;
        let plan = Plan::new(plan.view()).with_code_objects(&self.store);
        Ok(plan.bind_by_key(&self.device, self.providers.loaders())?)
    }

    /// The plan file of a graph.
    ///
    /// # Errors
    /// The store holds no usable plan.
    pub fn find(&self, graph: &GraphKey) -> Result<PlanBytes, RestoreError> {
        self.find_with(graph, &self.policy)
    }

    fn find_with(&self, graph: &GraphKey, policy: &Policy) -> Result<PlanBytes, RestoreError> {
        if self.providers.requires_precompiled() {
            let sought = Sought { graph, device: Some(&self.device), targets: &self.device.targets(), policy };
            let store = || self.store.root().display().to_string();
            return find_precompiled(&self.store, &sought, &self.providers).map_err(|lack| RestoreError::NotPrecompiled {
                graph: *graph,
                store: store(),
                lack,
            });
        }
        match find_by_graph_key(&self.store, graph, &self.device, self.providers.loaders(), policy) {
            Restore::Found(plan) => {
                self.providers.counters().hit();
                Ok(plan)
            }
            Restore::Missed(misses) => {
                self.providers.counters().miss(LackReason::of_misses(&misses));
                Err(RestoreError::Missed { what: format!("graph {graph}"), store: self.store.root().display().to_string(), misses })
            }
        }
    }
}
