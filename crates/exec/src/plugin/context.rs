//! Execution contexts: graphs that a plugin has compiled or restored.

use super::call::{Library, RawContext, RawHandle};
use super::error::PluginError;
use super::executable::PluginExecutable;
use super::handle::{self, PluginStream};
use super::hosted::Plugin;
use super::program::PluginProgram;
use crate::{Device, Executable, Requirement};
use hipplan_serialize::{AlignedBytes, GraphKey};

/// A graph that a plugin has compiled or restored, for one device. Any thread may use it, one at a time.
pub struct PluginContext {
    plugin: Plugin,
    device: Device,
    engine: i64,
    graph: GraphKey,
    /// What it was made with, as an engine config.
    config: AlignedBytes,
    raw: RawContext,
    workspace_size: u64,
    /// Something may be under way on a stream.
    is_executed: bool,
}

/// What a context is of.
pub(super) struct Subject<'s> {
    pub(super) device: &'s Device,
    pub(super) engine: i64,
    /// The graph whose tensors have their canonical ordinals as uids.
    pub(super) graph: GraphKey,
    /// An engine config, aligned as plugins read it: in place.
    pub(super) config: AlignedBytes,
}

impl std::fmt::Debug for PluginContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut f = f.debug_struct("PluginContext");
        f.field("plugin", &self.plugin.name()).field("device", &self.device).field("engine", &self.engine);
        f.field("graph", &self.graph).field("workspace_size", &self.workspace_size).finish_non_exhaustive()
    }
}

impl PluginContext {
    /// Compiles a graph, whose buffer this is.
    pub(super) fn create(plugin: &Plugin, subject: Subject<'_>, graph: &AlignedBytes) -> Result<Self, PluginError> {
        // SAFETY: the handle is one of this plugin.
        Self::make(plugin, subject, |library, handle, config| unsafe { library.create_context(handle, config, graph) })
    }

    /// Restores a context that [`serialize`](Self::serialize) has stored. Plugin, version and hooks have been compared.
    pub(super) fn restore(plugin: &Plugin, subject: Subject<'_>, bytes: &AlignedBytes) -> Result<Self, PluginError> {
        let hooks = plugin.hooks()?;
        // SAFETY: the handle is one of this plugin. The loader has compared name, version and form of the hooks with what the plan says, which is
        // believed.
        Self::make(plugin, subject, |library, handle, config| unsafe { library.restore(hooks, handle, config, bytes) })
    }

    fn make(
        plugin: &Plugin,
        subject: Subject<'_>,
        make: impl FnOnce(&Library, RawHandle, &[u8]) -> Result<RawContext, PluginError>,
    ) -> Result<Self, PluginError> {
        let Subject { device, engine, graph, config } = subject;
        plugin.check_device(device)?;
        let library = plugin.library();
        let (raw, workspace_size) = handle::with_handle(library, device, PluginStream::DEFAULT, |handle| {
            let mut raw = make(library, handle, &config)?;
            // SAFETY: handle and context are of this plugin.
            match unsafe { library.workspace_size(handle, &raw) } {
                Ok(bytes) => Ok((raw, bytes)),
                Err(error) => {
                    // SAFETY: as above; nothing has been executed.
                    unsafe { library.destroy_context(handle, &mut raw) };
                    Err(error)
                }
            }
        })?;
        let (plugin, device) = (plugin.clone(), device.clone());
        Ok(Self { plugin, device, engine, graph, config, raw, workspace_size, is_executed: false })
    }

    /// The plugin.
    pub fn plugin(&self) -> &Plugin {
        &self.plugin
    }

    /// Id of the engine.
    pub fn engine(&self) -> i64 {
        self.engine
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Bytes of workspace that executing needs: exactly, as the plugin says of this context.
    pub fn workspace_size(&self) -> u64 {
        self.workspace_size
    }

    /// The context as bytes that the plugin restores in another process.
    ///
    /// # Errors
    /// [`PluginError::NotPersistent`] where the plugin cannot, or nobody can tell how; what the plugin reports.
    pub fn serialize(&self) -> Result<Vec<u8>, PluginError> {
        let (hooks, library) = (self.plugin.hooks()?, self.plugin.library());
        handle::with_handle(library, &self.device, PluginStream::DEFAULT, |handle| {
            // SAFETY: handle and context are of this plugin.
            unsafe { library.serialize(hooks, handle, self.engine, &self.config, &self.raw) }
        })
    }

    /// The context as the body of a plan: [`serialize`](Self::serialize), and all that says which plugin may have the bytes.
    ///
    /// # Errors
    /// As [`serialize`](Self::serialize).
    pub fn program(&self) -> Result<PluginProgram, PluginError> {
        Ok(PluginProgram {
            plugin: self.plugin.name().to_owned(),
            plugin_version: self.plugin.version().to_owned(),
            hooks: self.plugin.hooks()?.form(),
            engine_id: self.engine,
            config: self.config.to_vec(),
            bytes: self.serialize()?,
        })
    }

    /// The context as what a bound plan executes. `tensors` is the number of tensors that packs may name: executions with at most so many
    /// entries allocate nothing.
    pub fn into_executable(self, tensors: usize) -> Box<dyn Executable> {
        Box::new(PluginExecutable::new(self, tensors))
    }

    /// What executing it asks of the plan that it is bound to.
    pub(super) fn requirement(&self) -> Requirement {
        Requirement { graph: self.graph, memory: self.device.memory_space(), workspace_size: self.workspace_size }
    }

    /// Calls the plugin with this context, on a stream.
    pub(super) fn with_handle(
        &mut self,
        stream: PluginStream,
        execute: impl FnOnce(&Library, RawHandle, &RawContext) -> Result<(), PluginError>,
    ) -> Result<(), PluginError> {
        self.is_executed = true;
        let library = self.plugin.library();
        handle::with_handle(library, &self.device, stream, |handle| execute(library, handle, &self.raw))
    }
}

impl Drop for PluginContext {
    fn drop(&mut self) {
        if !handle::may_release(&self.device) {
            return;
        }
        if self.is_executed {
            handle::synchronize(&self.device);
        }
        let library = self.plugin.library();
        let destroyed = handle::with_handle(library, &self.device, PluginStream::DEFAULT, |handle| {
            // SAFETY: handle and context are of this plugin. The device has been waited for.
            unsafe { library.destroy_context(handle, &mut self.raw) };
            Ok(())
        });
        if let Err(error) = destroyed {
            tracing::debug!(target: "hipplan::plugin", %error, "a context is not given back");
        }
    }
}
