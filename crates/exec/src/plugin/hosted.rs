//! A plugin that has been loaded.

use super::call::Library;
use super::context::{PluginContext, Subject};
use super::error::{PluginError, memory_advice};
use super::float_state::FloatState;
use super::handle::{self, PluginStream};
use super::handshake::{self, Identity};
use super::log;
use super::source::{PluginMemory, StatedHooks};
use super::symbols::{Hooks, Symbols};
use crate::{Device, MemorySpace};
use hipplan_engine_abi::symbols as names;
use hipplan_serialize::hipdnn::engine::{EngineConfig, EngineDetails};
use hipplan_serialize::{ApiVersion, Limits, VerifiedGraph, aligned, engine_id_text};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An engine of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginEngine {
    /// Its id.
    pub id: i64,
    /// Its name, or the text of its id where it has none.
    pub name: String,
}

/// A plugin that has been loaded and has said what it is. It stays loaded until the process ends; copies are one plugin.
#[derive(Clone, Debug)]
pub struct Plugin(Arc<Loaded>);

#[derive(Debug)]
struct Loaded {
    library: Library,
    path: PathBuf,
    memory: PluginMemory,
    identity: Identity,
    engines: Vec<PluginEngine>,
    /// The other ones, and why they are not used.
    left_out: Vec<(i64, String)>,
}

/// What is wrong with a file.
pub(super) struct Problem {
    pub(super) plugin: Option<String>,
    pub(super) reason: String,
}

impl Plugin {
    /// Loads a file. `claimed` says why an engine may not be used because of another plugin's; the plugin goes on without such engines, and
    /// without those that something is wrong with.
    ///
    /// # Errors
    /// The plugin's name, where it has said that, and why it is not used.
    pub(super) fn load(
        path: &Path,
        memory: PluginMemory,
        stated: StatedHooks,
        claimed: impl Fn(i64) -> Option<String>,
    ) -> Result<Self, Problem> {
        let _state = FloatState::keep();
        let symbols = Symbols::open(path, stated).map_err(|reason| Problem { plugin: None, reason })?;
        // First of all: what it says of itself may be worth a line.
        log::connect(path, &symbols);
        let identity = handshake::identify(&symbols).map_err(|(plugin, reason)| Problem { plugin, reason })?;
        let (mut engines, mut left_out) = (Vec::new(), Vec::new());
        for &id in &identity.ids {
            let name = handshake::engine_name(&symbols, id);
            match name.and_then(|name| claimed(id).map_or(Ok(name), Err)) {
                Ok(name) => engines.push(PluginEngine { id, name: name.unwrap_or_else(|| engine_id_text(id)) }),
                Err(why) => left_out.push((id, why)),
            }
        }
        let library = Library { name: identity.name.clone(), symbols };
        Ok(Self(Arc::new(Loaded { library, path: path.to_owned(), memory, identity, engines, left_out })))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0.identity.name
    }

    /// Its own version, which is not that of the API.
    pub fn version(&self) -> &str {
        &self.0.identity.version
    }

    /// The version of the engine API that it speaks; 1.0.0 where it does not say.
    pub fn api_version(&self) -> ApiVersion {
        self.0.identity.api_version
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Which memory it computes in.
    pub fn memory(&self) -> PluginMemory {
        self.0.memory
    }

    /// Engines that may be used, in the plugin's order.
    pub fn engines(&self) -> &[PluginEngine] {
        &self.0.engines
    }

    /// Ids of the engines that may not be used, and why.
    pub(super) fn left_out(&self) -> &[(i64, String)] {
        &self.0.left_out
    }

    /// Its engine of this id.
    pub fn engine(&self, id: i64) -> Option<&PluginEngine> {
        self.0.engines.iter().find(|engine| engine.id == id)
    }

    /// Whether what it compiles can be stored.
    ///
    /// # Errors
    /// Why not.
    pub fn persistence(&self) -> Result<(), &str> {
        self.0.library.symbols.hooks.as_ref().map(|_| ()).map_err(String::as_str)
    }

    /// It takes execute-time shapes: it exports the function, and speaks an API version that has it.
    pub fn executes_overrides(&self) -> bool {
        self.api_version() >= ApiVersion::OVERRIDE_SHAPES && self.0.library.symbols.execute_op_graph_with_overrides.is_some()
    }

    /// It computes in the device's memory. A plugin calls the HIP runtime that the process finds, and knows no second one.
    pub fn serves(&self, device: &Device) -> bool {
        match device.memory_space() {
            MemorySpace::Host => self.memory() == PluginMemory::Host,
            MemorySpace::Hip { runtime, .. } => self.memory() == PluginMemory::Device && runtime == 0,
        }
    }

    /// Ids of its engines that take a graph, in the plugin's order.
    ///
    /// # Errors
    /// The plugin does not serve the device, or is below the graph's API floor and must not be asked (R16 §4.7); what it reports; ids that are
    /// not its own, repeated, or too many; it has engines for the graph and none of them is used.
    pub fn applicable_engines(&self, device: &Device, graph: &VerifiedGraph<'_>) -> Result<Vec<i64>, PluginError> {
        self.check_device(device)?;
        self.check_graph(graph)?;
        let graph = aligned::aligned_copy(graph.buffer());
        let mut ids = handle::with_handle(&self.0.library, device, PluginStream::DEFAULT, |handle| {
            // SAFETY: the handle is one of this plugin.
            unsafe { self.0.library.applicable_engines(handle, &graph, &self.0.identity.ids) }
        })?;
        // An engine that was left out when the plugin was loaded is not there, whatever it takes.
        let found = ids.len();
        ids.retain(|&id| self.engine(id).is_some());
        if ids.is_empty() && found > 0 {
            let engines = self.0.left_out.iter().map(|(id, why)| format!("{} ({why})", engine_id_text(*id))).collect::<Vec<_>>().join(", ");
            return Err(PluginError::EnginesLeftOut { plugin: self.name().to_owned(), engines });
        }
        Ok(ids)
    }

    /// What an engine says of itself and a graph that it takes.
    ///
    /// # Errors
    /// The plugin does not serve the device or has no such engine; what it reports; details that cannot be read, or are another engine's.
    pub fn engine_details(&self, device: &Device, engine: i64, graph: &VerifiedGraph<'_>) -> Result<EngineDetails, PluginError> {
        self.check_device(device)?;
        self.check_engine(engine)?;
        self.check_graph(graph)?;
        let graph = aligned::aligned_copy(graph.buffer());
        let bytes = handle::with_handle(&self.0.library, device, PluginStream::DEFAULT, |handle| {
            // SAFETY: the handle is one of this plugin.
            unsafe { self.0.library.engine_details(handle, engine, &graph) }
        })?;
        let details = EngineDetails::parse(&bytes, &Limits::DEFAULT)
            .map_err(|error| PluginError::Details { plugin: self.name().to_owned(), error })?;
        if details.engine_id != engine {
            let what = format!("asked of engine {}, it tells of engine {}", engine_id_text(engine), engine_id_text(details.engine_id));
            return Err(self.0.library.misbehaved(names::GET_ENGINE_DETAILS, what));
        }
        Ok(details)
    }

    /// Compiles a graph with an engine that takes it: the one that `config` names. The graph is in canonical form, its tensors' uids are their
    /// canonical ordinals ([`canon::decode`](hipplan_serialize::canon::decode)): that is how a bound plan tells buffers apart.
    ///
    /// # Errors
    /// The plugin does not serve the device, is below the graph's API floor, or has no such engine; the graph is in another form; what the
    /// plugin reports.
    pub fn create_context(&self, device: &Device, config: &EngineConfig, graph: &VerifiedGraph<'_>) -> Result<PluginContext, PluginError> {
        self.check_engine(config.engine_id)?;
        self.check_graph(graph)?;
        let canonical = graph.canonical()?;
        if let Some((ordinal, uid)) = (0_i64..).zip(&canonical.uids).find(|(ordinal, uid)| uid.0 != *ordinal) {
            return Err(PluginError::NotCanonical { plugin: self.name().to_owned(), ordinal, uid: uid.0 });
        }
        // Plugins read both in place, as FlatBuffers aligned to their numbers.
        let (config_bytes, bytes) = (aligned::aligned_copy(&config.encode()), aligned::aligned_copy(graph.buffer()));
        let subject = Subject { device, engine: config.engine_id, graph: canonical.key, config: config_bytes };
        PluginContext::create(self, subject, &bytes)
    }

    pub(super) fn library(&self) -> &Library {
        &self.0.library
    }

    pub(super) fn hooks(&self) -> Result<Hooks, PluginError> {
        self.0
            .library
            .symbols
            .hooks
            .as_ref()
            .copied()
            .map_err(|reason| PluginError::NotPersistent { plugin: self.name().to_owned(), reason: reason.clone() })
    }

    pub(super) fn check_device(&self, device: &Device) -> Result<(), PluginError> {
        if self.serves(device) {
            return Ok(());
        }
        let advice = match (self.memory(), device.memory_space()) {
            (PluginMemory::Device, MemorySpace::Hip { .. }) => "it is of a second HIP runtime, and plugins know the first only",
            (memory, _) => memory_advice(memory),
        };
        let (plugin, device) = (self.name().to_owned(), device.to_string());
        Err(PluginError::Device { plugin, memory: self.memory(), device, advice })
    }

    /// Whether the plugin may be shown a graph.
    fn check_graph(&self, graph: &VerifiedGraph<'_>) -> Result<(), PluginError> {
        let (plugin, version) = (|| self.name().to_owned(), || self.version().to_owned());
        let (floor, found) = (graph.api_floor(), self.api_version());
        if found < floor {
            return Err(PluginError::GraphFloor { plugin: plugin(), version: version(), floor, found });
        }
        if graph.is_override_shape_enabled() && !self.executes_overrides() {
            return Err(PluginError::GraphOverrides { plugin: plugin(), version: version() });
        }
        Ok(())
    }

    fn check_engine(&self, engine: i64) -> Result<(), PluginError> {
        match self.engine(engine) {
            Some(_) => Ok(()),
            None => Err(PluginError::NoEngine { plugin: self.name().to_owned(), engine: engine_id_text(engine) }),
        }
    }
}
