//! Which engines there are, and which of them take a graph.

use crate::engine::{ENGINE_ID, ENGINE_NAME, ENGINE_NAME_TEXT};
use crate::failure::Failure;
use crate::handle::Handle;
use crate::object::borrow;
use crate::pointers::{bytes, check_out, give};
use crate::{context, entry, graph, lent, log};
use hipplan_engine_abi::status::{self, Status};
use hipplan_engine_abi::types::{self, ConstData};
use hipplan_serialize::hipdnn::engine::EngineDetails;
use std::ffi::c_char;

/// Ids of all engines. With `max` 0, `num` becomes how many there are; otherwise how many were stored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnEnginePluginGetAllEngineIds(ids: *mut i64, max: u32, num: *mut u32) -> Status {
    // SAFETY: by the rules of the ABI.
    entry::call(|| unsafe { give_ids(&[ENGINE_ID], ids, max, num) })
}

/// Name of an engine, whose hash is its id.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnEnginePluginGetEngineName(engine_id: i64, name: *mut *const c_char) -> Status {
    entry::call(|| {
        check_out(name, "name")?;
        graph::check_engine(engine_id)?;
        // SAFETY: by the rules of the ABI.
        unsafe { give(name, ENGINE_NAME.as_ptr(), "name") }
    })
}

/// Ids of the engines that execute a graph. `num` becomes their number, of which at most `max` are stored.
///
/// None with SUCCESS where the graph is one, and the engine does not have an operation, type or layout of it, or it is larger or newer than what
/// is read here; INVALID_VALUE where the bytes are no graph.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnEnginePluginGetApplicableEngineIds(
    handle: types::Handle,
    graph: *const ConstData,
    ids: *mut i64,
    max: u32,
    num: *mut u32,
) -> Status {
    entry::call(|| {
        check_out(num, "num")?;
        // SAFETY: all that is read and written, by the rules of the ABI.
        unsafe {
            borrow::<Handle, _>(handle)?;
            let applicable = graph::read(bytes(graph, "graph")?).and_then(|graph| graph::check_applicable(&graph));
            match applicable {
                Ok(()) => give_ids(&[ENGINE_ID], ids, max, num),
                Err(Failure { status: status::NOT_APPLICABLE, text }) => {
                    log::info(|| text);
                    give_ids(&[], ids, max, num)
                }
                Err(failure) => Err(failure),
            }
        }
    })
}

/// Details of the engine for a graph: no knobs and no notes. Given back with `hipdnnEnginePluginDestroyEngineDetails`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnEnginePluginGetEngineDetails(
    handle: types::Handle,
    engine_id: i64,
    graph: *const ConstData,
    details: *mut ConstData,
) -> Status {
    entry::call(|| {
        check_out(details, "details")?;
        // SAFETY: all that is read and written, by the rules of the ABI.
        unsafe {
            borrow::<Handle, _>(handle)?;
            let graph = bytes(graph, "graph")?;
            graph::check_engine(engine_id)?;
            graph::check_applicable(&graph::read(graph)?)?;
            let name = Some(ENGINE_NAME_TEXT.to_owned());
            let found = EngineDetails { engine_id, name, knobs: Vec::new(), behavior_notes: Vec::new() };
            give(details, lent::lend(found.encode().into()), "details")
        }
    })
}

/// Frees details of an engine, and sets pointer and size to 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnEnginePluginDestroyEngineDetails(handle: types::Handle, details: *mut ConstData) -> Status {
    // SAFETY: by the rules of the ABI.
    entry::call(|| unsafe {
        borrow::<Handle, _>(handle)?;
        give_back(details, "details")
    })
}

/// Bytes of workspace that a context of this configuration and graph will need.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnEnginePluginGetWorkspaceSize(
    handle: types::Handle,
    config: *const ConstData,
    graph: *const ConstData,
    size: *mut usize,
) -> Status {
    entry::call(|| {
        check_out(size, "size")?;
        // SAFETY: all that is read and written, by the rules of the ABI.
        unsafe {
            borrow::<Handle, _>(handle)?;
            let (config, graph) = (bytes(config, "config")?, bytes(graph, "graph")?);
            graph::check_config(config)?;
            let needed = graph::workspace_size(&graph::read(graph)?)?;
            give(size, context::stated_workspace(needed)?, "size")
        }
    })
}

/// Stores ids by the convention of both functions: `num` is how many there are; `max` 0 only asks for it.
///
/// # Safety
/// `num` is null or to a number, `ids` null or to `max` of them.
unsafe fn give_ids(found: &[i64], ids: *mut i64, max: u32, num: *mut u32) -> Result<(), Failure> {
    check_out(num, "num")?;
    if max > 0 {
        check_out(ids, "ids")?;
    }
    for (at, &id) in found.iter().enumerate().take(max as usize) {
        // SAFETY: `ids` has room for `max`; nothing is said of the alignment.
        unsafe { ids.add(at).write_unaligned(id) };
    }
    // SAFETY: by the caller's promise.
    unsafe { give(num, found.len() as u32, "num") }
}

/// Frees what was lent, and sets pointer and size to 0.
///
/// # Safety
/// The pointer is null or to a structure of pointer and size.
pub(super) unsafe fn give_back(data: *mut ConstData, what: &str) -> Result<(), Failure> {
    if data.is_null() {
        return Err(Failure::bad_param(format!("{what} is null")));
    }
    // SAFETY: by the caller's promise.
    lent::give_back(unsafe { data.read_unaligned() }, what)?;
    // SAFETY: as above.
    unsafe { give(data, ConstData::EMPTY, what) }
}
