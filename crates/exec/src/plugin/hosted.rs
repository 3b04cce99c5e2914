//! A plugin that has been loaded.

use super::call::Library;
use super::context::PluginContext;
use super::error::PluginError;
use super::handle;
use super::handshake::{self, Identity};
use super::log;
use super::source::{PluginMemory, StatedHooks};
use super::symbols::{Hooks, Symbols};
use crate::Device;
use hipplan_serialize::hipdnn::engine::EngineDetails;
use hipplan_serialize::{ApiVersion, Limits, aligned, engine_id_text};
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
    library: Arc<Library>,
    path: PathBuf,
    memory: PluginMemory,
    identity: Identity,
    engines: Vec<PluginEngine>,
}

/// What is wrong with a file, or with an engine of a plugin.
pub(super) struct Problem {
    pub(super) plugin: Option<String>,
    pub(super) reason: String,
}

impl Plugin {
    /// Loads a file. What is wrong with single engines is told with the plugin, which goes on without them.
    ///
    /// # Errors
    /// The plugin's name, where it has said that, and why it is not used.
    pub(super) fn load(path: &Path, memory: PluginMemory, stated: StatedHooks) -> Result<(Self, Vec<Problem>), Problem> {
        let symbols = Symbols::open(path, stated).map_err(|reason| Problem { plugin: None, reason })?;
        let identity = handshake::identify(&symbols).map_err(|(plugin, reason)| Problem { plugin, reason })?;
        log::connect(&identity.name, &symbols);
        let (mut engines, mut problems) = (Vec::new(), Vec::new());
        for &id in &identity.ids {
            match handshake::engine_name(&symbols, id) {
                Ok(name) => engines.push(PluginEngine { id, name: name.unwrap_or_else(|| engine_id_text(id)) }),
                Err(reason) => {
                    let reason = format!("engine {} is not used: {reason}", engine_id_text(id));
                    problems.push(Problem { plugin: Some(identity.name.clone()), reason });
                }
            }
        }
        let library = Arc::new(Library { name: identity.name.clone(), symbols });
        Ok((Self(Arc::new(Loaded { library, path: path.to_owned(), memory, identity, engines })), problems))
    }

    /// The same plugin without some of its engines.
    pub(super) fn without(self, ids: &[i64]) -> Self {
        if ids.is_empty() {
            return self;
        }
        let Loaded { library, path, memory, identity, engines } = &*self.0;
        let Identity { name, version, api_version, ids: all } = identity;
        let identity = Identity { name: name.clone(), version: version.clone(), api_version: *api_version, ids: all.clone() };
        let engines = engines.iter().filter(|engine| !ids.contains(&engine.id)).cloned().collect();
        Self(Arc::new(Loaded { library: library.clone(), path: path.clone(), memory: *memory, identity, engines }))
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

    /// It computes in the device's memory.
    pub fn serves(&self, device: &Device) -> bool {
        match device {
            Device::Cpu => self.memory() == PluginMemory::Host,
            Device::Hip(_) => self.memory() == PluginMemory::Device,
        }
    }

    /// Ids of its engines that take a graph, in the plugin's order. `graph` is a hipDNN graph buffer, whose API floor the plugin speaks: a
    /// plugin below it is not asked (R16 §4.7).
    ///
    /// # Errors
    /// The plugin does not serve the device; what it reports; ids that are not its own, repeated, or too many.
    pub fn applicable_engines(&self, device: &Device, graph: &[u8]) -> Result<Vec<i64>, PluginError> {
        self.check_device(device)?;
        let graph = aligned::aligned_copy(graph);
        let ids = handle::with_handle(&self.0.library, device, std::ptr::null_mut(), |handle| {
            // SAFETY: the handle is one of this plugin.
            unsafe { self.0.library.applicable_engines(handle, &graph, &self.0.identity.ids) }
        })?;
        // An engine that was dropped when the plugin was loaded is not there, whatever it takes.
        Ok(ids.into_iter().filter(|&id| self.engine(id).is_some()).collect())
    }

    /// What an engine says of itself and a graph that it takes.
    ///
    /// # Errors
    /// The plugin does not serve the device or has no such engine; what it reports; details that cannot be read, or are another engine's.
    pub fn engine_details(&self, device: &Device, engine: i64, graph: &[u8]) -> Result<EngineDetails, PluginError> {
        self.check_device(device)?;
        self.check_engine(engine)?;
        let graph = aligned::aligned_copy(graph);
        let bytes = handle::with_handle(&self.0.library, device, std::ptr::null_mut(), |handle| {
            // SAFETY: the handle is one of this plugin.
            unsafe { self.0.library.engine_details(handle, engine, &graph) }
        })?;
        let details = EngineDetails::parse(&bytes, &Limits::DEFAULT)
            .map_err(|error| PluginError::Details { plugin: self.name().to_owned(), error })?;
        if details.engine_id != engine {
            let what = format!("asked of engine {}, it tells of engine {}", engine_id_text(engine), engine_id_text(details.engine_id));
            let function = "hipdnnEnginePluginGetEngineDetails";
            return Err(PluginError::Misbehaved { plugin: self.name().to_owned(), function, what });
        }
        Ok(details)
    }

    /// Compiles a graph with an engine that takes it. `config` is an engine config, `graph` a hipDNN graph buffer; both are gone afterwards.
    ///
    /// # Errors
    /// The plugin does not serve the device or has no such engine; what it reports.
    pub fn create_context(&self, device: &Device, engine: i64, config: &[u8], graph: &[u8]) -> Result<PluginContext, PluginError> {
        self.check_engine(engine)?;
        PluginContext::create(self, device, engine, config, graph)
    }

    pub(super) fn library(&self) -> &Arc<Library> {
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
        Err(PluginError::Device { plugin: self.name().to_owned(), memory: self.memory(), device: device.to_string() })
    }

    fn check_engine(&self, engine: i64) -> Result<(), PluginError> {
        match self.engine(engine) {
            Some(_) => Ok(()),
            None => Err(PluginError::NoEngine { plugin: self.name().to_owned(), engine: engine_id_text(engine) }),
        }
    }
}
