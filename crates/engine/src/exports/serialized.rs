//! Execution contexts as bytes.

use super::engines::give_back;
use crate::context::Context;
use crate::handle::Handle;
use crate::object::{borrow, create};
use crate::pointers::{bytes, check_out, give};
use crate::{entry, graph, lent, log};
use hipplan_engine_abi::status::Status;
use hipplan_engine_abi::types::{self, ConstData, ExecutionContext};

/// A context as bytes, for any process of any machine. They hold the runtime uid set and a version, as an engine of API 1.2.0 is obliged to store
/// (R16 §5.5), and the defaults. Given back with `hipdnnEnginePluginDestroySerializedExecutionContext`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnEnginePluginSerializeExecutionContextWithEngineId(
    handle: types::Handle,
    engine_id: i64,
    context: ExecutionContext,
    serialized: *mut ConstData,
) -> Status {
    entry::call(|| {
        check_out(serialized, "serialized")?;
        // SAFETY: all that is read and written, by the rules of the ABI.
        unsafe {
            borrow::<Handle, _>(handle)?;
            graph::check_engine(engine_id)?;
            let stored = borrow::<Context, _>(context)?.payload().bytes();
            give(serialized, lent::lend(stored.into()), "serialized")
        }
    })
}

/// Frees a context's bytes, and sets pointer and size to 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnEnginePluginDestroySerializedExecutionContext(handle: types::Handle, serialized: *mut ConstData) -> Status {
    // SAFETY: by the rules of the ABI.
    entry::call(|| unsafe {
        borrow::<Handle, _>(handle)?;
        give_back(serialized, "serialized")
    })
}

/// Makes a context of bytes. No graph is needed and nothing is compiled. INVALID_VALUE for bytes of another plugin or version, and for damaged
/// ones, before any slot is known (R16 §4.6).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipdnnEnginePluginCreateExecutionContextFromSerialized(
    handle: types::Handle,
    serialized: *const ConstData,
    context: *mut ExecutionContext,
) -> Status {
    entry::call(|| {
        // SAFETY: all that is read and written, by the rules of the ABI.
        unsafe {
            give(context, std::ptr::null_mut(), "context")?;
            borrow::<Handle, _>(handle)?;
            let made = Context::restore(bytes(serialized, "serialized")?)?;
            log::info(|| format!("a context of {} tensors was restored", made.payload().uids().len()));
            give(context, create(made), "context")
        }
    })
}
