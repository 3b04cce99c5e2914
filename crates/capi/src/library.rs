//! Stores and a device: what `hipplan_t` is.

use crate::bound::Bound;
use crate::counters::Counters;
use crate::failure::{Failure, is_miss};
use crate::layers::{CodeOf, Layers};
use crate::types::{HIPPLAN_MISS, HIPPLAN_OPEN_READ_ONLY, HIPPLAN_OPEN_REQUIRE_PRECOMPILED, HIPPLAN_WORKSPACE};
use hipplan_exec::hip::HipRuntime;
use hipplan_exec::plugin::{PluginLoader, PluginSearch, Plugins};
use hipplan_exec::{CodeObjects, Device, ExecError, Loaders, Plan};
use hipplan_serialize::{GraphBuf, GraphKey, Limits, import};
use std::ffi::CStr;
use std::sync::Arc;

/// What plans outlive the handle with.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) device: Device,
    pub(crate) counters: Counters,
}

/// Stores and a device.
#[derive(Debug)]
pub(crate) struct Library {
    pub(crate) layers: Layers,
    /// Nothing may be compiled.
    pub(crate) requires_precompiled: bool,
    loaders: Loaders,
    #[cfg_attr(not(feature = "compile"), expect(dead_code, reason = "nothing is compiled"))]
    pub(crate) plugins: Plugins,
    /// Targets whose plans are looked for, best first.
    targets: Vec<String>,
    pub(crate) shared: Arc<Shared>,
    #[cfg(feature = "compile")]
    pub(crate) providers: crate::compile::LazyProviders,
    #[cfg(feature = "compile")]
    pub(crate) kept: crate::compile::Kept,
}

/// A graph in any form, from bytes of any alignment.
pub(crate) fn read_graph(bytes: &[u8]) -> Result<GraphBuf, Failure> {
    Ok(import::import(bytes, &Limits::DEFAULT)?.graph)
}

/// The device that a text names: nothing and `hip` are the calling thread's current HIP device.
fn device(name: Option<&CStr>) -> Result<Device, Failure> {
    match name.map(CStr::to_string_lossy) {
        Some(name) if name != "hip" => Ok(Device::parse(&name)?),
        _ => Ok(Device::Hip(HipRuntime::find()?.current_device()?)),
    }
}

/// The hipDNN engine plugins that `HIPPLAN_PLUGINS` names. One that cannot be used is warned of, and is missed by its plans alone.
fn plugins() -> Result<Plugins, Failure> {
    let mut search = PluginSearch::new();
    search.add_environment().map_err(|error| Failure::argument(error.to_string()))?;
    let plugins = search.load();
    for failure in plugins.failures() {
        tracing::warn!("{failure}");
    }
    Ok(plugins)
}

impl Library {
    pub(crate) fn open(stores: &[&CStr], device_name: Option<&CStr>, flags: u32) -> Result<Self, Failure> {
        let device = device(device_name)?;
        let targets = device.targets().iter().map(ToString::to_string).collect();
        let plugins = plugins()?;
        let mut loaders = Loaders::default();
        loaders.add(Box::new(PluginLoader::new(&plugins)));
        let requires_precompiled = flags & HIPPLAN_OPEN_REQUIRE_PRECOMPILED != 0;
        let flags = if requires_precompiled { flags | HIPPLAN_OPEN_READ_ONLY } else { flags };
        Ok(Self {
            layers: Layers::open(stores, flags)?,
            requires_precompiled,
            loaders,
            plugins,
            targets,
            shared: Arc::new(Shared { device, counters: Counters::default() }),
            #[cfg(feature = "compile")]
            providers: Default::default(),
            #[cfg(feature = "compile")]
            kept: Default::default(),
        })
    }

    /// Whether a usable plan is stored.
    pub(crate) fn find(&self, graph: &GraphKey) -> Result<(), Failure> {
        self.lookup(graph, None, u64::MAX, |_, _| Ok(()))
    }

    /// The same for a graph, with the engine that it prefers.
    #[cfg(not(feature = "compile"))]
    pub(crate) fn find_by_graph(&self, graph: &GraphBuf) -> Result<(), Failure> {
        let view = graph.view();
        self.lookup(&view.canonical()?.key, view.preferred_engine_id(), u64::MAX, |_, _| Ok(()))
    }

    /// Loads the first plan that needs at most so much workspace; tensors are known by canonical ordinal.
    pub(crate) fn bind_by_key(&self, graph: &GraphKey, max_workspace: u64) -> Result<Bound, Failure> {
        self.bind(graph, None, max_workspace, |plan| plan.bind_by_key(&self.shared.device, &self.loaders))
    }

    /// The same for a graph; tensors are known by its uids.
    pub(crate) fn bind_by_graph(&self, graph: &GraphBuf, max_workspace: u64) -> Result<Bound, Failure> {
        let view = graph.view();
        let key = view.canonical()?.key;
        let preferred = view.preferred_engine_id();
        self.bind(&key, preferred, max_workspace, |plan| plan.bind_by_graph(&self.shared.device, &self.loaders, &view))
    }

    fn bind(
        &self,
        graph: &GraphKey,
        preferred: Option<i64>,
        max_workspace: u64,
        bind: impl Fn(&Plan<'_>) -> Result<hipplan_exec::BoundPlan, ExecError>,
    ) -> Result<Bound, Failure> {
        let bound = self.lookup(graph, preferred, max_workspace, |plan, code| {
            let plan = plan.with_code_objects(code);
            Bound::new(&self.shared, plan.view().meta().bindings.len(), || bind(&plan))
        })?;
        self.shared.counters.binds.add_one();
        Ok(bound)
    }

    /// Takes the first plan that is small enough and that `take` can use. If there is none, the first reason of `take` is the answer, else
    /// that all are too large, else why there is none.
    fn lookup<T>(
        &self,
        graph: &GraphKey,
        preferred: Option<i64>,
        max_workspace: u64,
        mut take: impl FnMut(Plan<'_>, &dyn CodeObjects) -> Result<T, ExecError>,
    ) -> Result<T, Failure> {
        let counters = &self.shared.counters;
        counters.lookups.add_one();
        let mut misses = Vec::new();
        let mut least: Option<u64> = None;
        let mut refusal: Option<ExecError> = None;
        let miss = |target: &str, why: String| misses.push(format!("target {target}: {why}"));
        let mut consider = |plan: Plan<'_>, code: &dyn CodeObjects| {
            let needs = plan.view().meta().workspace_size.to_native();
            if needs > max_workspace {
                least = Some(least.map_or(needs, |least| least.min(needs)));
                return None;
            }
            take(plan, code).map_err(|error| refusal.get_or_insert(error)).ok()
        };
        let found = self.layers.walk(graph, preferred, &self.targets, &self.loaders, miss, |store, bytes| {
            consider(Plan::new(bytes.view()), &CodeOf { store, loads: &counters.module_loads })
        });
        #[cfg(feature = "compile")]
        let found =
            found.or_else(|| self.kept.of(graph).iter().find_map(|kept| consider(Plan::open(&kept.bytes).ok()?, &kept.code_objects)));
        if let Some(found) = found {
            counters.hits.add_one();
            return Ok(found);
        }
        if let Some(error) = refusal {
            // A plan was found; that it could not be used is the failure.
            counters.hits.add_one();
            return Err(error.into());
        }
        counters.misses.add_one();
        if let Some(least) = least {
            let text =
                format!("every plan of graph {graph} needs more than {max_workspace} bytes of workspace; the smallest needs {least}");
            return Err(Failure::new(HIPPLAN_WORKSPACE, text));
        }
        let why =
            if self.layers.is_empty() { "no store could be opened".to_owned() } else { format!("{}: {}", self.layers, misses.join("; ")) };
        Err(Failure::new(HIPPLAN_MISS, format!("no plan for graph {graph}: {why}")))
    }

    /// A failure of one of this handle's functions, counted.
    pub(crate) fn counted<T>(&self, result: Result<T, Failure>) -> Result<T, Failure> {
        self.shared.counted(result)
    }
}

impl Shared {
    /// A failure, counted. A miss is none.
    #[inline]
    pub(crate) fn counted<T>(&self, result: Result<T, Failure>) -> Result<T, Failure> {
        result.inspect_err(|failure| {
            if !is_miss(failure.status) {
                self.counters.failures.add_one();
            }
        })
    }
}
