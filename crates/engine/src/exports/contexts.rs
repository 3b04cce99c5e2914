//! Handles, execution contexts, executions.

use crate::context::Context;
use crate::handle::Handle;
use crate::lane::Call;
use crate::object::{borrow, create, destroy};
use crate::overrides::Overrides;
use crate::pointers::{array, bytes, check_out, give};
use crate::{entry, graph, log, stream};
use hipplan_engine_abi::status::Status;
use hipplan_engine_abi::types::{self, ConstData, DeviceBuffer, ExecutionContext, Stream};
use std::ffi::c_void;

/// Makes a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnEnginePluginCreate(handle: *mut types::Handle) -> Status {
    entry::call(|| {
        check_out(handle, "handle")?;
        // SAFETY: by the rules of the ABI.
        unsafe { give(handle, create(Handle::default()), "handle") }
    })
}

/// Destroys a handle. Contexts live on: they belong to none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnEnginePluginDestroy(handle: types::Handle) -> Status {
    // SAFETY: by the rules of the ABI.
    entry::call(|| unsafe { destroy::<Handle, _>(handle) })
}

/// Sets the stream that executions with the handle wait for, before they read anything. Nothing is ever put on it.
///
/// It is waited for through the HIP library that the process has loaded, and nothing is where none is loaded; with two, which cannot be told
/// apart, executions are refused. Null is not waited for: it is what hosts set that have no streams. A host that puts work on HIP's null stream
/// (the default one) waits for it by itself, before it executes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnEnginePluginSetStream(handle: types::Handle, stream: Stream) -> Status {
    entry::call(|| {
        // SAFETY: by the rules of the ABI.
        unsafe { borrow::<Handle, _>(handle) }?.set_stream(stream);
        Ok(())
    })
}

/// Compiles a graph for execution. The context keeps all that it needs. NOT_APPLICABLE where the engine does not execute the graph.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnEnginePluginCreateExecutionContext(
    handle: types::Handle,
    config: *const ConstData,
    graph: *const ConstData,
    context: *mut ExecutionContext,
) -> Status {
    entry::call(|| {
        // SAFETY: all that is read and written, by the rules of the ABI.
        unsafe {
            give(context, std::ptr::null_mut(), "context")?;
            borrow::<Handle, _>(handle)?;
            let (config, graph) = (bytes(config, "config")?, bytes(graph, "graph")?);
            graph::check_config(config)?;
            let made = Context::compile(&graph::read(graph)?)?;
            log::info(|| format!("a graph of {} tensors was compiled", made.payload().uids().len()));
            give(context, create(made), "context")
        }
    })
}

/// Destroys an execution context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnEnginePluginDestroyExecutionContext(handle: types::Handle, context: ExecutionContext) -> Status {
    // SAFETY: by the rules of the ABI.
    entry::call(|| unsafe {
        borrow::<Handle, _>(handle)?;
        destroy::<Context, _>(context)
    })
}

/// Bytes of workspace that an execution needs. They may start anywhere: room to start the plan's own at a multiple of 64 is in them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnEnginePluginGetWorkspaceSizeFromExecutionContext(
    handle: types::Handle,
    context: ExecutionContext,
    size: *mut usize,
) -> Status {
    entry::call(|| {
        check_out(size, "size")?;
        // SAFETY: by the rules of the ABI.
        unsafe {
            borrow::<Handle, _>(handle)?;
            give(size, borrow::<Context, _>(context)?.workspace_size(), "size")
        }
    })
}

/// Executes once, on the calling thread, and has finished when it returns.
///
/// Buffers and workspace are memory that the CPU can address: host memory, or HIP memory that is mapped or managed. Device memory that is not
/// cannot be told from it, and its use ends the process.
///
/// Entries of uids that the graph does not have are ignored, and so are those of constants. That of a runtime scalar is a pointer to a host
/// scalar, which overrides a default; none is kept. INVALID_VALUE for a tensor that is missing, there twice, null or badly aligned; nothing is
/// executed then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnEnginePluginExecuteOpGraph(
    handle: types::Handle,
    context: ExecutionContext,
    workspace: *mut c_void,
    buffers: *const DeviceBuffer,
    num_buffers: u32,
) -> Status {
    // SAFETY: by the rules of the ABI.
    entry::call(|| unsafe { execute(handle, context, workspace, (buffers, num_buffers), Overrides::NONE) })
}

/// As `hipdnnEnginePluginExecuteOpGraph`, with other shapes and strides for some tensors. Their own are the largest, the graph allows it, and all
/// of it is checked: INVALID_VALUE otherwise.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnEnginePluginExecuteOpGraphWithOverrides(
    handle: types::Handle,
    context: ExecutionContext,
    workspace: *mut c_void,
    buffers: *const DeviceBuffer,
    num_buffers: u32,
    num_overrides: u32,
    uids: *const i64,
    lengths: *const u32,
    shapes: *const *const i64,
    strides: *const *const i64,
) -> Status {
    let overrides = Overrides { count: num_overrides as usize, uids, lengths, shapes, strides };
    // SAFETY: by the rules of the ABI.
    entry::call(|| unsafe { execute(handle, context, workspace, (buffers, num_buffers), overrides) })
}

/// # Safety
/// All pointers are what the ABI says.
unsafe fn execute(
    handle: types::Handle,
    context: ExecutionContext,
    workspace: *mut c_void,
    (buffers, count): (*const DeviceBuffer, u32),
    overrides: Overrides,
) -> Result<(), crate::failure::Failure> {
    // SAFETY: by the caller's promise.
    unsafe {
        let handle = borrow::<Handle, _>(handle)?;
        let context = borrow::<Context, _>(context)?;
        let buffers = array(buffers, count as usize, "the list of buffers")?;
        stream::wait(handle.stream())?;
        context.execute(&Call { workspace, buffers, overrides })
    }
}
