//! Compiling into the first store.

use crate::beside;
use crate::failure::Failure;
use crate::library::Library;
use crate::types::{
    HIPPLAN_COMPILE, HIPPLAN_INTERNAL, HIPPLAN_MISS, HIPPLAN_STALE, HIPPLAN_STORE, HIPPLAN_UNREADABLE, HIPPLAN_UNSUPPORTED,
    HIPPLAN_WRONG_TARGET, hipplan_status_t,
};
use hipplan_exec::plugin::Plugins;
use hipplan_planner::hip::compiler::hiprtc;
use hipplan_planner::{
    CompileError, CompiledPlan, Ensured, Lack, LackReason, Providers, Request, Site, Sought, ensure_plan, find_precompiled,
};
use hipplan_serialize::{GraphBuf, GraphKey, Policy};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The providers, made when something is to be compiled for the first time.
#[derive(Debug, Default)]
pub(crate) struct LazyProviders(OnceLock<Providers>);

impl LazyProviders {
    fn get(&self, plugins: &Plugins) -> &Providers {
        self.0.get_or_init(|| {
            // hiprtc works in a child process. The program that this library is in is somebody else's, and is never started again: the
            // `hipplan` command takes its place, and without one there is clang alone.
            if let Some(command) = beside::hipplan_command() {
                hiprtc::set_worker(&command);
            }
            let mut providers = Providers::default();
            providers.add_plugins(plugins);
            providers
        })
    }
}

/// Plans that the first store did not keep, which this process goes on with.
#[derive(Debug, Default)]
pub(crate) struct Kept(Mutex<Vec<Arc<CompiledPlan>>>);

impl Kept {
    fn keep(&self, plan: CompiledPlan) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|other| other.plan_ref.key != plan.plan_ref.key);
        kept.push(Arc::new(plan));
    }

    /// Those of a graph.
    pub(crate) fn of(&self, graph: &GraphKey) -> Vec<Arc<CompiledPlan>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().filter(|plan| plan.graph == *graph).cloned().collect()
    }
}

impl Library {
    /// Makes sure that the first store has a plan of the graph for the device.
    pub(crate) fn compile(&self, graph: &GraphBuf) -> Result<(), Failure> {
        let store = self.layers.writable()?;
        let canonical = graph.view().canonical()?;
        let policy = Policy::DEFAULT.preferring(graph.view().preferred_engine_id());
        let request = Request { site: &Site::present(&self.shared.device), policy: &policy };
        let ensured = ensure_plan(store, &canonical, &request, self.providers.get(&self.plugins))?;
        match ensured {
            Ensured::Present(_) => Ok(()),
            Ensured::Compiled(_) => {
                self.shared.counters.compiles.add_one();
                Ok(())
            }
            // The store has warned of it.
            Ensured::NotStored { plan, .. } => {
                self.shared.counters.compiles.add_one();
                self.kept.keep(*plan);
                Ok(())
            }
        }
    }

    /// Whether the stores have a plan of the graph for the device that needs no compiling and every byte of which is good.
    pub(crate) fn require(&self, graph: &GraphBuf) -> Result<(), Failure> {
        let counters = &self.shared.counters;
        let canonical = graph.view().canonical()?;
        let policy = Policy::DEFAULT.preferring(graph.view().preferred_engine_id());
        let (device, targets) = (&self.shared.device, self.shared.device.targets());
        let sought = Sought { graph: &canonical.key, device: Some(device), targets: &targets, policy: &policy };
        counters.lookups.add_one();
        let found = match self.layers.store() {
            Some(store) => find_precompiled(store, &sought, self.providers.get(&self.plugins)).map(drop),
            None => Err(Lack { reason: LackReason::Unreadable, detail: "no store could be opened".to_owned() }),
        };
        match found {
            Ok(()) => {
                counters.hits.add_one();
                Ok(())
            }
            Err(lack) => {
                counters.misses.add_one();
                Err(Failure::new(status(lack.reason), format!("{lack} (graph {}, {})", canonical.key, self.layers)))
            }
        }
    }
}

fn status(reason: LackReason) -> hipplan_status_t {
    match reason {
        LackReason::Missing => HIPPLAN_MISS,
        LackReason::WrongTarget => HIPPLAN_WRONG_TARGET,
        LackReason::Stale => HIPPLAN_STALE,
        LackReason::Unreadable => HIPPLAN_UNREADABLE,
    }
}

impl From<CompileError> for Failure {
    fn from(error: CompileError) -> Self {
        let status = match &error {
            CompileError::NoKey(_) | CompileError::NoApplicableEngines { .. } | CompileError::CannotPersist { .. } => HIPPLAN_UNSUPPORTED,
            CompileError::Store(_) => HIPPLAN_STORE,
            CompileError::NotPrecompiled(lack) => self::status(lack.reason),
            CompileError::Provider { .. } => HIPPLAN_COMPILE,
            // What is left are defects.
            _ => HIPPLAN_INTERNAL,
        };
        Self::new(status, error.to_string())
    }
}
