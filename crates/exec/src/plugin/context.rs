//! Execution contexts: graphs that a plugin has compiled or restored.

use super::call::{Library, RawContext, RawHandle};
use super::error::PluginError;
use super::executable::PluginExecutable;
use super::handle;
use super::hosted::Plugin;
use crate::{Device, Executable};
use hipplan_serialize::aligned;
use std::ffi::c_void;

/// A graph that a plugin has compiled or restored, for one device. Any thread may use it, one at a time.
pub struct PluginContext {
    plugin: Plugin,
    device: Device,
    engine: i64,
    raw: RawContext,
    workspace_size: u64,
    /// Something may be under way on a stream.
    is_executed: bool,
}

impl std::fmt::Debug for PluginContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut f = f.debug_struct("PluginContext");
        f.field("plugin", &self.plugin.name()).field("device", &self.device).field("engine", &self.engine);
        f.field("workspace_size", &self.workspace_size).finish_non_exhaustive()
    }
}

impl PluginContext {
    /// Compiles a graph.
    pub(super) fn create(plugin: &Plugin, device: &Device, engine: i64, config: &[u8], graph: &[u8]) -> Result<Self, PluginError> {
        // Plugins read both in place, as FlatBuffers aligned to their numbers.
        let (config, graph) = (aligned::aligned_copy(config), aligned::aligned_copy(graph));
        // SAFETY: the handle is one of this plugin.
        Self::make(plugin, device, engine, |library, handle| unsafe { library.create_context(handle, &config, &graph) })
    }

    /// Restores a context that [`serialize`](Self::serialize) has stored. Plugin and version have been compared.
    pub(super) fn restore(plugin: &Plugin, device: &Device, engine: i64, config: &[u8], bytes: &[u8]) -> Result<Self, PluginError> {
        let hooks = plugin.hooks()?;
        let (config, bytes) = (aligned::aligned_copy(config), aligned::aligned_copy(bytes));
        // SAFETY: the handle is one of this plugin.
        Self::make(plugin, device, engine, |library, handle| unsafe { library.restore(hooks, handle, &config, &bytes) })
    }

    fn make(
        plugin: &Plugin,
        device: &Device,
        engine: i64,
        make: impl FnOnce(&Library, RawHandle) -> Result<RawContext, PluginError>,
    ) -> Result<Self, PluginError> {
        plugin.check_device(device)?;
        let library = plugin.library();
        handle::with_handle(library, device, std::ptr::null_mut(), |handle| {
            let raw = make(library, handle)?;
            // Owned from here on: it is destroyed whatever comes.
            let mut context = Self { plugin: plugin.clone(), device: device.clone(), engine, raw, workspace_size: 0, is_executed: false };
            // SAFETY: handle and context are of this plugin.
            context.workspace_size = unsafe { library.workspace_size(handle, &context.raw) }?;
            Ok(context)
        })
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

    /// The context as bytes that the plugin restores in another process. `config` is what the context was made with.
    ///
    /// # Errors
    /// [`PluginError::NotPersistent`] where the plugin cannot, or nobody can tell how; what the plugin reports.
    pub fn serialize(&self, config: &[u8]) -> Result<Vec<u8>, PluginError> {
        let (hooks, library, config) = (self.plugin.hooks()?, self.plugin.library(), aligned::aligned_copy(config));
        handle::with_handle(library, &self.device, std::ptr::null_mut(), |handle| {
            // SAFETY: handle and context are of this plugin.
            unsafe { library.serialize(hooks, handle, self.engine, &config, &self.raw) }
        })
    }

    /// The context as what a bound plan executes. `tensors` is the number of tensors that packs may name: executions with at most so many
    /// entries allocate nothing.
    pub fn into_executable(self, tensors: usize) -> Box<dyn Executable> {
        Box::new(PluginExecutable::new(self, tensors))
    }

    /// Calls the plugin with this context, on a stream.
    pub(super) fn with_handle(
        &mut self,
        stream: *mut c_void,
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
        let destroyed = handle::with_handle(library, &self.device, std::ptr::null_mut(), |handle| {
            // SAFETY: handle and context are of this plugin. The device has been waited for.
            unsafe { library.destroy_context(handle, &mut self.raw) };
            Ok(())
        });
        if let Err(error) = destroyed {
            tracing::debug!(target: "hipplan::plugin", %error, "a context is not given back");
        }
    }
}
