//! The type of every function. Each is unsafe to call for one common reason: pointers must be what the function says, and handles and
//! contexts those that the same plugin made and has not destroyed.

use crate::status::{PluginType, Severity, Status};
use crate::types::{ConstData, DeviceBuffer, ExecutionContext, Handle, LoggingCallback, Stream};
use std::ffi::{c_char, c_void};

/// Of [`GET_NAME`](crate::symbols::GET_NAME): the plugin's name.
pub type GetName = unsafe extern "C" fn(name: *mut *const c_char) -> Status;
/// Of [`GET_VERSION`](crate::symbols::GET_VERSION): the plugin's own version, which is not that of the ABI.
pub type GetVersion = unsafe extern "C" fn(version: *mut *const c_char) -> Status;
/// Of [`GET_TYPE`](crate::symbols::GET_TYPE): [`TYPE_ENGINE`](crate::status::TYPE_ENGINE) for an engine plugin.
pub type GetType = unsafe extern "C" fn(plugin_type: *mut PluginType) -> Status;
/// Of [`GET_LAST_ERROR_STRING`](crate::symbols::GET_LAST_ERROR_STRING): what failed last on this thread; does nothing on null.
pub type GetLastErrorString = unsafe extern "C" fn(text: *mut *const c_char);
/// Of [`GET_API_VERSION`](crate::symbols::GET_API_VERSION): the version of the ABI, `MAJOR.MINOR.PATCH`.
pub type GetApiVersion = unsafe extern "C" fn(version: *mut *const c_char) -> Status;
/// Of [`SET_LOGGING_CALLBACK`](crate::symbols::SET_LOGGING_CALLBACK): where the plugin logs from now on.
pub type SetLoggingCallback = unsafe extern "C" fn(callback: LoggingCallback) -> Status;
/// Of [`SET_LOG_LEVEL`](crate::symbols::SET_LOG_LEVEL): the least severity that is logged.
pub type SetLogLevel = unsafe extern "C" fn(level: Severity) -> Status;

/// Of [`GET_ALL_ENGINE_IDS`](crate::symbols::GET_ALL_ENGINE_IDS). With a `max` of 0 and `ids` that may be null it gives the number of
/// engines; else it stores at most `max` ids and gives how many.
pub type GetAllEngineIds = unsafe extern "C" fn(ids: *mut i64, max: u32, num: *mut u32) -> Status;
/// Of [`CREATE`](crate::symbols::CREATE): a new handle, never null.
pub type Create = unsafe extern "C" fn(handle: *mut Handle) -> Status;
/// Of [`DESTROY`](crate::symbols::DESTROY).
pub type Destroy = unsafe extern "C" fn(handle: Handle) -> Status;
/// Of [`SET_STREAM`](crate::symbols::SET_STREAM): the stream that executions of the handle go to, which outlives them.
pub type SetStream = unsafe extern "C" fn(handle: Handle, stream: Stream) -> Status;
/// Of [`GET_APPLICABLE_ENGINE_IDS`](crate::symbols::GET_APPLICABLE_ENGINE_IDS): stores at most `max` ids of the engines that take the graph;
/// `num` is how many there are, which may be more.
pub type GetApplicableEngineIds =
    unsafe extern "C" fn(handle: Handle, graph: *const ConstData, ids: *mut i64, max: u32, num: *mut u32) -> Status;
/// Of [`GET_ENGINE_DETAILS`](crate::symbols::GET_ENGINE_DETAILS): an `EngineDetails` buffer, which the plugin owns until
/// [`DestroyEngineDetails`].
pub type GetEngineDetails =
    unsafe extern "C" fn(handle: Handle, engine_id: i64, graph: *const ConstData, details: *mut ConstData) -> Status;
/// Of [`DESTROY_ENGINE_DETAILS`](crate::symbols::DESTROY_ENGINE_DETAILS): frees the bytes, and sets pointer and size to 0.
pub type DestroyEngineDetails = unsafe extern "C" fn(handle: Handle, details: *mut ConstData) -> Status;
/// Of [`GET_WORKSPACE_SIZE`](crate::symbols::GET_WORKSPACE_SIZE): bytes of workspace, or an upper bound of them.
pub type GetWorkspaceSize =
    unsafe extern "C" fn(handle: Handle, config: *const ConstData, graph: *const ConstData, bytes: *mut usize) -> Status;
/// Of [`CREATE_EXECUTION_CONTEXT`](crate::symbols::CREATE_EXECUTION_CONTEXT): compiles; the context keeps what it needs of config and graph.
pub type CreateExecutionContext =
    unsafe extern "C" fn(handle: Handle, config: *const ConstData, graph: *const ConstData, context: *mut ExecutionContext) -> Status;
/// Of [`DESTROY_EXECUTION_CONTEXT`](crate::symbols::DESTROY_EXECUTION_CONTEXT).
pub type DestroyExecutionContext = unsafe extern "C" fn(handle: Handle, context: ExecutionContext) -> Status;
/// Of [`GET_WORKSPACE_SIZE_FROM_EXECUTION_CONTEXT`](crate::symbols::GET_WORKSPACE_SIZE_FROM_EXECUTION_CONTEXT): exactly the bytes of workspace
/// that executing needs.
pub type GetWorkspaceSizeFromExecutionContext =
    unsafe extern "C" fn(handle: Handle, context: ExecutionContext, bytes: *mut usize) -> Status;
/// Of [`EXECUTE_OP_GRAPH`](crate::symbols::EXECUTE_OP_GRAPH): executes on the handle's stream, and may return before the end. Buffers are in no
/// stated order; the workspace may be null where none is needed.
pub type ExecuteOpGraph = unsafe extern "C" fn(
    handle: Handle,
    context: ExecutionContext,
    workspace: *mut c_void,
    buffers: *const DeviceBuffer,
    num_buffers: u32,
) -> Status;

/// Of [`EXECUTE_OP_GRAPH_WITH_OVERRIDES`](crate::symbols::EXECUTE_OP_GRAPH_WITH_OVERRIDES) (API 1.1.0). The last four arrays have
/// `num_overrides` entries each; `lengths[i]` is the rank of `shapes[i]` and of `strides[i]`. Every overridden uid is in `buffers` too.
pub type ExecuteOpGraphWithOverrides = unsafe extern "C" fn(
    handle: Handle,
    context: ExecutionContext,
    workspace: *mut c_void,
    buffers: *const DeviceBuffer,
    num_buffers: u32,
    num_overrides: u32,
    uids: *const i64,
    lengths: *const u32,
    shapes: *const *const i64,
    strides: *const *const i64,
) -> Status;

/// Of [`SERIALIZE_EXECUTION_CONTEXT`](crate::symbols::SERIALIZE_EXECUTION_CONTEXT): the context as bytes, which the plugin owns until
/// [`DestroySerializedExecutionContext`].
pub type SerializeExecutionContext = unsafe extern "C" fn(handle: Handle, context: ExecutionContext, bytes: *mut ConstData) -> Status;
/// Of [`SERIALIZE_EXECUTION_CONTEXT_WITH_ENGINE_ID`](crate::symbols::SERIALIZE_EXECUTION_CONTEXT_WITH_ENGINE_ID).
pub type SerializeExecutionContextWithEngineId =
    unsafe extern "C" fn(handle: Handle, engine_id: i64, context: ExecutionContext, bytes: *mut ConstData) -> Status;
/// Of [`SERIALIZE_EXECUTION_CONTEXT_EXT`](crate::symbols::SERIALIZE_EXECUTION_CONTEXT_EXT).
pub type SerializeExecutionContextExt =
    unsafe extern "C" fn(handle: Handle, context: ExecutionContext, config: *const ConstData, bytes: *mut ConstData) -> Status;
/// Of [`DESTROY_SERIALIZED_EXECUTION_CONTEXT`](crate::symbols::DESTROY_SERIALIZED_EXECUTION_CONTEXT) and of
/// [`DESTROY_SERIALIZED_EXECUTION_CONTEXT_EXT`](crate::symbols::DESTROY_SERIALIZED_EXECUTION_CONTEXT_EXT): to be called whatever became of
/// the bytes.
pub type DestroySerializedExecutionContext = unsafe extern "C" fn(handle: Handle, bytes: *mut ConstData) -> Status;
/// Of [`CREATE_EXECUTION_CONTEXT_FROM_SERIALIZED`](crate::symbols::CREATE_EXECUTION_CONTEXT_FROM_SERIALIZED) with 3 arguments, and of
/// [`CREATE_EXECUTION_CONTEXT_FROM_SERIALIZED_EXT`](crate::symbols::CREATE_EXECUTION_CONTEXT_FROM_SERIALIZED_EXT).
pub type CreateExecutionContextFromSerialized =
    unsafe extern "C" fn(handle: Handle, bytes: *const ConstData, context: *mut ExecutionContext) -> Status;
/// Of [`CREATE_EXECUTION_CONTEXT_FROM_SERIALIZED`](crate::symbols::CREATE_EXECUTION_CONTEXT_FROM_SERIALIZED) with 4 arguments, which some
/// plugins export under the same name: nothing tells them apart.
pub type CreateExecutionContextFromSerializedWithConfig =
    unsafe extern "C" fn(handle: Handle, config: *const ConstData, bytes: *const ConstData, context: *mut ExecutionContext) -> Status;

/// Of [`GET_ENGINE_NAME`](crate::symbols::GET_ENGINE_NAME) (API 1.4.0): the name whose hash the engine's id is, or
/// [`NOT_APPLICABLE`](crate::status::NOT_APPLICABLE).
pub type GetEngineName = unsafe extern "C" fn(engine_id: i64, name: *mut *const c_char) -> Status;
