//! The calls of a plugin, each checked: what comes back is what the ABI promises, or an error that names plugin and function.
//!
//! What a plugin does to memory that is not its own cannot be checked; a plugin is code in this process.

use super::answers::{last_error, repeated, room, stored};
use super::error::PluginError;
use super::symbols::{Hooks, Symbols};
use hipplan_engine_abi::status::{NOT_APPLICABLE, SUCCESS, Status};
use hipplan_engine_abi::symbols as names;
use hipplan_engine_abi::types::{ConstData, DeviceBuffer, ExecutionContext, Handle, Stream};
use hipplan_serialize::engine_id_text;
use std::ffi::{CStr, c_void};

/// Most bytes of workspace that anybody means.
pub(super) const MAX_WORKSPACE: u64 = 1 << 48;

/// A loaded plugin's functions, and its name for messages.
#[derive(Debug)]
pub(super) struct Library {
    pub(super) name: String,
    pub(super) symbols: Symbols,
}

/// Which plugin it is, however often its library has been opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PluginId(usize);

/// A handle of a plugin. It is not used by two calls at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RawHandle(pub(super) Handle);

// SAFETY: the ABI names no thread that a handle belongs to. That it may be used by one after the other is an assumption about plugins, as
// `mod.rs` says; nothing can check it. Two at once do not use it: it is in one thread's pool, or idle, or leased to one call.
unsafe impl Send for RawHandle {}

impl RawHandle {
    /// Its value.
    pub(super) fn address(self) -> usize {
        self.0.addr()
    }
}

/// A context of a plugin, until it is destroyed.
#[derive(Debug)]
pub(super) struct RawContext(ExecutionContext);

// SAFETY: the ABI names no thread that a context belongs to. That any may use it, with any handle of the plugin, is an assumption about
// plugins, as `mod.rs` says; nothing can check it. Two at once do not use it: all that execute or serialize it borrow it from an owner
// that is not `Sync`.
unsafe impl Send for RawContext {}

/// Execute-time shapes as the ABI takes them: arrays of one length.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawOverrides<'o> {
    pub(super) uids: &'o [i64],
    pub(super) lengths: &'o [u32],
    pub(super) shapes: &'o [*const i64],
    pub(super) strides: &'o [*const i64],
}

impl Library {
    /// Which plugin it is: a library that is opened again has its functions where they were.
    #[inline]
    pub(super) fn id(&self) -> PluginId {
        PluginId(self.symbols.create as usize)
    }

    fn check(&self, function: &'static CStr, status: Status) -> Result<(), PluginError> {
        if status == SUCCESS { Ok(()) } else { Err(self.failed(function, status)) }
    }

    /// The error of a call that failed, on the thread that made the call and before any other call.
    #[cold]
    fn failed(&self, function: &'static CStr, status: Status) -> PluginError {
        let text = last_error(&self.symbols);
        PluginError::Call { plugin: self.name.clone(), function: function_name(function), status, text }
    }

    #[cold]
    pub(super) fn misbehaved(&self, function: &'static CStr, what: impl Into<String>) -> PluginError {
        PluginError::Misbehaved { plugin: self.name.clone(), function: function_name(function), what: what.into() }
    }

    /// A new handle.
    pub(super) fn create_handle(&self) -> Result<RawHandle, PluginError> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: the pointer is to a pointer.
        let status = unsafe { (self.symbols.create)(&raw mut handle) };
        self.check(names::CREATE, status)?;
        if handle.is_null() {
            return Err(self.misbehaved(names::CREATE, "it gives a null handle and reports success"));
        }
        Ok(RawHandle(handle))
    }

    /// A new handle that is one of those that there are.
    #[cold]
    pub(super) fn handle_twice(&self) -> PluginError {
        self.misbehaved(names::CREATE, "it gives a handle that it has given before and that was not destroyed")
    }

    /// Puts the executions of a handle on a stream; null is the default stream.
    ///
    /// # Safety
    /// The handle is of this plugin. The stream is null, or one that outlives the executions that are put on it.
    pub(super) unsafe fn set_stream(&self, handle: RawHandle, stream: Stream) -> Result<(), PluginError> {
        // SAFETY: as the caller promised.
        let status = unsafe { (self.symbols.set_stream)(handle.0, stream) };
        self.check(names::SET_STREAM, status)
    }

    /// Gives a handle back. What the plugin says of it changes nothing.
    ///
    /// # Safety
    /// The handle is of this plugin, and is not used any more.
    pub(super) unsafe fn destroy_handle(&self, handle: RawHandle) {
        // SAFETY: as the caller promised.
        let status = unsafe { (self.symbols.destroy)(handle.0) };
        self.note(names::DESTROY, status);
    }

    /// Ids of the engines that take a graph, in the plugin's order; `known` are all that the plugin has.
    ///
    /// # Safety
    /// The handle is of this plugin.
    pub(super) unsafe fn applicable_engines(&self, handle: RawHandle, graph: &[u8], known: &[i64]) -> Result<Vec<i64>, PluginError> {
        let function = names::GET_APPLICABLE_ENGINE_IDS;
        let (mut ids, mut num, graph) = (room(known.len()), u32::MAX, ConstData::of(graph));
        // `identify` takes no plugin of more engines than a number of 32 bits counts.
        let max = u32::try_from(known.len()).unwrap_or(u32::MAX);
        // SAFETY: there is room for `max` ids, and the other pointers are to what the ABI says. The handle is as the caller promised.
        let status = unsafe { (self.symbols.get_applicable_engine_ids)(handle.0, &raw const graph, ids.as_mut_ptr(), max, &raw mut num) };
        if status == NOT_APPLICABLE {
            return Ok(Vec::new());
        }
        self.check(function, status)?;
        if num > max {
            return Err(self.misbehaved(function, format!("it counts {num} engines, the plugin has {max}")));
        }
        stored(&mut ids, num).map_err(|what| self.misbehaved(function, format!("it {what}")))?;
        if let Some(&id) = ids.iter().find(|id| !known.contains(id)) {
            return Err(self.misbehaved(function, format!("it gives engine {}, which is none of the plugin's", engine_id_text(id))));
        }
        match repeated(&ids) {
            Some(id) => Err(self.misbehaved(function, format!("it gives engine {} twice", engine_id_text(id)))),
            None => Ok(ids),
        }
    }

    /// The `EngineDetails` buffer of an engine and a graph.
    ///
    /// # Safety
    /// The handle is of this plugin.
    pub(super) unsafe fn engine_details(&self, handle: RawHandle, engine: i64, graph: &[u8]) -> Result<Vec<u8>, PluginError> {
        let mut details = ConstData::EMPTY;
        let graph = ConstData::of(graph);
        // SAFETY: the pointers are to what the ABI says. The handle is as the caller promised.
        let status = unsafe { (self.symbols.get_engine_details)(handle.0, engine, &raw const graph, &raw mut details) };
        self.check(names::GET_ENGINE_DETAILS, status)?;
        // SAFETY: the plugin reports that it has made these bytes, and the function is the one that frees them.
        unsafe {
            self.take(handle, details, names::GET_ENGINE_DETAILS, (names::DESTROY_ENGINE_DETAILS, self.symbols.destroy_engine_details))
        }
    }

    /// Compiles a graph for an engine that takes it.
    ///
    /// # Safety
    /// The handle is of this plugin.
    pub(super) unsafe fn create_context(&self, handle: RawHandle, config: &[u8], graph: &[u8]) -> Result<RawContext, PluginError> {
        let mut context = std::ptr::null_mut();
        let (config, graph) = (ConstData::of(config), ConstData::of(graph));
        // SAFETY: the pointers are to what the ABI says. The handle is as the caller promised.
        let status = unsafe { (self.symbols.create_execution_context)(handle.0, &raw const config, &raw const graph, &raw mut context) };
        self.context(names::CREATE_EXECUTION_CONTEXT, status, context)
    }

    fn context(&self, function: &'static CStr, status: Status, context: ExecutionContext) -> Result<RawContext, PluginError> {
        // What a failed call left there is not the host's to destroy.
        self.check(function, status)?;
        if context.is_null() {
            return Err(self.misbehaved(function, "it gives a null context and reports success"));
        }
        Ok(RawContext(context))
    }

    /// Gives a context back. What the plugin says of it changes nothing.
    ///
    /// # Safety
    /// Handle and context are of this plugin; no execution of the context is under way.
    pub(super) unsafe fn destroy_context(&self, handle: RawHandle, context: &mut RawContext) {
        let context = std::mem::replace(&mut context.0, std::ptr::null_mut());
        if context.is_null() {
            return;
        }
        // SAFETY: as the caller promised; it is destroyed once, because null is left in its place.
        let status = unsafe { (self.symbols.destroy_execution_context)(handle.0, context) };
        self.note(names::DESTROY_EXECUTION_CONTEXT, status);
    }

    /// Bytes of workspace that executing a context needs.
    ///
    /// # Safety
    /// Handle and context are of this plugin.
    pub(super) unsafe fn workspace_size(&self, handle: RawHandle, context: &RawContext) -> Result<u64, PluginError> {
        let function = names::GET_WORKSPACE_SIZE_FROM_EXECUTION_CONTEXT;
        let mut bytes = usize::MAX;
        // SAFETY: the pointer is to a number. Handle and context are as the caller promised.
        let status = unsafe { (self.symbols.get_workspace_size_from_execution_context)(handle.0, context.0, &raw mut bytes) };
        self.check(function, status)?;
        match bytes as u64 {
            bytes if bytes > MAX_WORKSPACE => {
                Err(self.misbehaved(function, format!("it asks for a workspace of {bytes} bytes, the most is {MAX_WORKSPACE}")))
            }
            bytes => Ok(bytes),
        }
    }

    /// A context as bytes that another process can restore.
    ///
    /// # Safety
    /// Handle and context are of this plugin, and `config` is what the context was made with.
    pub(super) unsafe fn serialize(
        &self,
        hooks: Hooks,
        handle: RawHandle,
        engine: i64,
        config: &[u8],
        context: &RawContext,
    ) -> Result<Vec<u8>, PluginError> {
        let mut bytes = ConstData::EMPTY;
        let config = ConstData::of(config);
        // SAFETY: the pointers are to what the ABI says. Handle and context are as the caller promised.
        let (function, status) = unsafe {
            let out = &raw mut bytes;
            match hooks {
                Hooks::WithEngineId { serialize, .. } => {
                    (names::SERIALIZE_EXECUTION_CONTEXT_WITH_ENGINE_ID, serialize(handle.0, engine, context.0, out))
                }
                Hooks::Plain { serialize, .. } | Hooks::WithConfig { serialize, .. } => {
                    (names::SERIALIZE_EXECUTION_CONTEXT, serialize(handle.0, context.0, out))
                }
                Hooks::Ext { serialize, .. } => {
                    (names::SERIALIZE_EXECUTION_CONTEXT_EXT, serialize(handle.0, context.0, &raw const config, out))
                }
            }
        };
        self.check(function, status)?;
        let destroy = match hooks {
            Hooks::WithEngineId { destroy, .. } | Hooks::Plain { destroy, .. } | Hooks::WithConfig { destroy, .. } => {
                (names::DESTROY_SERIALIZED_EXECUTION_CONTEXT, destroy)
            }
            Hooks::Ext { destroy, .. } => (names::DESTROY_SERIALIZED_EXECUTION_CONTEXT_EXT, destroy),
        };
        // SAFETY: the plugin reports that it has made these bytes, and the function is the one that frees them.
        unsafe { self.take(handle, bytes, function, destroy) }
    }

    /// A context from the bytes of [`serialize`](Self::serialize).
    ///
    /// # Safety
    /// The handle is of this plugin, and a plugin of its name, of no newer version, has stored the bytes with hooks of this form. That they are
    /// as they were stored, nothing here can see: the store checks its files by their digests, and what else is wrong is the plugin's to notice
    /// (R16 §5.5), which its caller believes.
    pub(super) unsafe fn restore(&self, hooks: Hooks, handle: RawHandle, config: &[u8], bytes: &[u8]) -> Result<RawContext, PluginError> {
        let mut context = std::ptr::null_mut();
        let (config, bytes) = (ConstData::of(config), ConstData::of(bytes));
        // SAFETY: the pointers are to what the ABI says, and the create function has the arguments of its form. Handle and bytes are as the
        // caller promised.
        let (function, status) = unsafe {
            let out = &raw mut context;
            match hooks {
                Hooks::WithEngineId { create, .. } | Hooks::Plain { create, .. } => {
                    (names::CREATE_EXECUTION_CONTEXT_FROM_SERIALIZED, create(handle.0, &raw const bytes, out))
                }
                Hooks::WithConfig { create, .. } => {
                    (names::CREATE_EXECUTION_CONTEXT_FROM_SERIALIZED, create(handle.0, &raw const config, &raw const bytes, out))
                }
                Hooks::Ext { create, .. } => (names::CREATE_EXECUTION_CONTEXT_FROM_SERIALIZED_EXT, create(handle.0, &raw const bytes, out)),
            }
        };
        self.context(function, status, context)
    }

    /// Executes once, or puts an execution on the handle's stream.
    ///
    /// # Safety
    /// Handle and context are of this plugin. What the plugin reads and writes through `buffers` and `workspace` is as large as the context's
    /// graph and its workspace size say, in the plugin's memory, until the stream has come so far.
    #[inline]
    pub(super) unsafe fn execute(
        &self,
        handle: RawHandle,
        context: &RawContext,
        workspace: *mut c_void,
        buffers: &[DeviceBuffer],
    ) -> Result<(), PluginError> {
        let count = self.count("buffers", buffers.len())?;
        // SAFETY: as the caller promised; so many buffers are there.
        let status = unsafe { (self.symbols.execute_op_graph)(handle.0, context.0, workspace, buffers.as_ptr(), count) };
        self.check(names::EXECUTE_OP_GRAPH, status)
    }

    /// [`execute`](Self::execute) with execute-time shapes.
    ///
    /// # Safety
    /// As of [`execute`](Self::execute), for the shapes that are given. Every element of `shapes` and `strides` points to as many numbers as
    /// its element of `lengths` says, and the arrays have one length.
    pub(super) unsafe fn execute_with_overrides(
        &self,
        handle: RawHandle,
        context: &RawContext,
        workspace: *mut c_void,
        buffers: &[DeviceBuffer],
        overrides: RawOverrides<'_>,
    ) -> Result<(), PluginError> {
        let function = names::EXECUTE_OP_GRAPH_WITH_OVERRIDES;
        let Some(execute) = self.symbols.execute_op_graph_with_overrides else {
            return Err(self.misbehaved(function, "it is not exported"));
        };
        let count = self.count("buffers", buffers.len())?;
        let RawOverrides { uids, lengths, shapes, strides } = overrides;
        let num = self.count("overrides", uids.len())?;
        // SAFETY: as the caller promised; so many buffers and overrides are there.
        let status = unsafe {
            let (uids, lengths, shapes, strides) = (uids.as_ptr(), lengths.as_ptr(), shapes.as_ptr(), strides.as_ptr());
            execute(handle.0, context.0, workspace, buffers.as_ptr(), count, num, uids, lengths, shapes, strides)
        };
        self.check(function, status)
    }

    #[inline]
    fn count(&self, what: &'static str, found: usize) -> Result<u32, PluginError> {
        u32::try_from(found).map_err(|_| {
            let (found, limit) = (found as u64, u64::from(u32::MAX));
            PluginError::Limit { plugin: self.name.clone(), what, found, limit }
        })
    }

    /// The result of a call that gives something back: what failed cannot be mended.
    pub(super) fn note(&self, function: &'static CStr, status: Status) {
        if status != SUCCESS {
            tracing::warn!(target: "hipplan::plugin", "{}", self.failed(function, status));
        }
    }
}

fn function_name(function: &'static CStr) -> &'static str {
    // Names are ASCII.
    function.to_str().unwrap_or("a function of the plugin")
}
