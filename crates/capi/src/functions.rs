//! The functions of `hipplan.h`. The documentation becomes that of the header. Unsafe: every pointer is what the header says.
#![expect(clippy::missing_safety_doc, reason = "the header says once, for all functions, what pointers must be")]

use crate::bound::Bound;
use crate::failure::{self, Failure};
use crate::input::{self, SizePrefixed};
use crate::lane::Call;
use crate::library::{Library, read_graph};
use crate::shapes::Shapes;
use crate::types::*;
use crate::{entry, last_error, log, output};
use hipplan_exec::hip::HipRuntime;
use hipplan_serialize::GraphKey;
use std::ffi::{c_char, c_void};

// SAFETY: the structure is `repr(C)`, begins with its size, and is made of integers and pointers.
unsafe impl SizePrefixed for hipplan_open_options_t {
    const NAME: &'static str = "hipplan_open_options_t";
    const LEAST: usize = 40;
}
// SAFETY: as above.
unsafe impl SizePrefixed for hipplan_bind_options_t {
    const NAME: &'static str = "hipplan_bind_options_t";
    const LEAST: usize = 16;
}
// SAFETY: as above.
unsafe impl SizePrefixed for hipplan_execute_options_t {
    const NAME: &'static str = "hipplan_execute_options_t";
    const LEAST: usize = 24;
}
// SAFETY: as above.
unsafe impl SizePrefixed for hipplan_counters_t {
    const NAME: &'static str = "hipplan_counters_t";
    const LEAST: usize = 72;
}

/// Flags that are none of those that are known.
fn check_flags(name: &str, found: u32, known: u32) -> Result<(), Failure> {
    if found & !known == 0 {
        return Ok(());
    }
    Err(Failure::argument(format!("{name}: flags are {found:#x}, and this library knows {known:#x}")))
}

/// The version of the interface that the loaded library has: major in the upper 16 bits, minor in the lower 16. Usable if the major version is
/// that of the header and the minor version at least that of what is called.
#[unsafe(no_mangle)]
pub extern "C" fn hipplan_version() -> u32 {
    HIPPLAN_VERSION_MAJOR << 16 | HIPPLAN_VERSION_MINOR
}

/// The name of a status, such as `HIPPLAN_MISS`; a constant, also for a number that is none.
#[unsafe(no_mangle)]
pub extern "C" fn hipplan_status_name(status: hipplan_status_t) -> *const c_char {
    failure::name(status).as_ptr()
}

/// What the calling thread's last call that failed has to say, in English, without a line break at its end: what was found, what was expected,
/// what to do. "" if none has failed. A call that succeeds leaves it as it is. Valid until the thread's next call of a function of this library.
#[unsafe(no_mangle)]
pub extern "C" fn hipplan_last_error() -> *const c_char {
    last_error::text()
}

/// Has log lines given to a function, in place of standard error; NULL: to standard error again. For the whole process, and from any of its
/// threads, also from within other functions of this library. Only warnings and errors are logged, and nothing that is also answered by a call.
/// The function must not unwind. A call of the earlier function may still be under way in another thread when this returns.
#[unsafe(no_mangle)]
pub extern "C" fn hipplan_set_log(log: hipplan_log_t, user: *mut c_void) {
    entry::status(|| {
        log::start();
        log::set(log, user);
        Ok(())
    });
}

/// Opens stores for a device. `options` may be NULL for the default store and the current HIP device.
///
/// HIP is the library that the process has loaded, otherwise the one that the system has; `HIPPLAN_HIP_LIBRARY` names another. The hipDNN
/// engine plugins that `HIPPLAN_PLUGINS` names are loaded; one that cannot be used is warned of, and its plans count as missing.
/// `HIPPLAN_STORE`: a store is unusable, or none is named and there is no place for the default one. `HIPPLAN_DEVICE`: there is no HIP, or no such device. On failure, `*library` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipplan_open(options: *const hipplan_open_options_t, library: *mut *mut hipplan_t) -> hipplan_status_t {
    entry::status(|| {
        log::start();
        // SAFETY: all that is read and written, by the header's rules.
        unsafe {
            give(library, std::ptr::null_mut(), "library")?;
            let options = input::structure(options)?;
            let (stores, device, flags) = match options {
                Some(o) if o.reserved != 0 => {
                    return Err(Failure::argument(format!("hipplan_open_options_t: reserved is {:#x}, and must be 0", o.reserved)));
                }
                Some(o) => (input::texts(o.stores, o.store_count, "stores")?, input::text(o.device), o.flags),
                None => (Vec::new(), None, 0),
            };
            let known = HIPPLAN_OPEN_READ_ONLY | HIPPLAN_OPEN_DEGRADE | HIPPLAN_OPEN_REQUIRE_PRECOMPILED;
            check_flags("hipplan_open_options_t", flags, known)?;
            let opened = Library::open(&stores, device, flags)?;
            give(library, Box::into_raw(Box::new(hipplan_t(opened))), "library")
        }
    })
}

/// Closes stores. NULL is no error. Plans that were bound stay usable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipplan_close(library: *mut hipplan_t) {
    entry::status(|| {
        if !library.is_null() {
            // SAFETY: `hipplan_open` gave it, and it is closed once, by the header's rules.
            drop(unsafe { Box::from_raw(library) });
        }
        Ok(())
    });
}

/// The ordinal of the calling thread's current HIP device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipplan_hip_current_device(ordinal: *mut i32) -> hipplan_status_t {
    entry::status(|| {
        output::check(ordinal, "ordinal")?;
        let current = HipRuntime::find()?.current_device()?.ordinal();
        let current = i32::try_from(current).map_err(|_| Failure::new(HIPPLAN_INTERNAL, format!("HIP device {current}")))?;
        // SAFETY: by the header's rules.
        unsafe { output::write(ordinal, current) };
        Ok(())
    })
}

/// The key of a graph: the same for graphs that differ in numbering, names and order only.
///
/// `graph` is a graph artifact, a bare hipDNN buffer or a hipDNN container, of any alignment; hipDNN JSON is taken as well. It is checked in full
/// and not kept. `HIPPLAN_INVALID_ARGUMENT`: it is no graph. `HIPPLAN_UNSUPPORTED`: it has no key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipplan_graph_key(graph: *const c_void, size: usize, key: *mut hipplan_key_t) -> hipplan_status_t {
    entry::status(|| {
        output::check(key, "key")?;
        // SAFETY: by the header's rules.
        let graph = read_graph(unsafe { input::bytes(graph, size, "graph") }?)?;
        let found = graph.view().canonical()?.key;
        // SAFETY: as above.
        unsafe { output::write(key, hipplan_key_t { bytes: found.0 }) };
        Ok(())
    })
}

/// Whether a usable plan is stored for the graph with this key and the device: `HIPPLAN_OK`, or `HIPPLAN_MISS`. Loads nothing onto the device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipplan_find(library: *const hipplan_t, key: *const hipplan_key_t) -> hipplan_status_t {
    entry::status(|| {
        // SAFETY: by the header's rules.
        let library = unsafe { input::handle(library, "library") }?;
        // SAFETY: as above.
        let key = unsafe { read_key(key) };
        library.0.counted(key.and_then(|key| library.0.find(&key)))
    })
}

/// Loads the plan of a graph. Bindings then name tensors by the graph's own uids. `options` may be NULL. Nothing is compiled.
///
/// Stores are walked in order; in each, the first stored plan is taken that is whole, that can be loaded and that needs no more workspace than
/// allowed. `HIPPLAN_MISS`: there is none. `HIPPLAN_WORKSPACE`: there are some, and all need more. `HIPPLAN_PLAN`, `HIPPLAN_DEVICE`: one was found
/// and cannot be loaded. On failure, `*plan` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipplan_bind_by_graph(
    library: *const hipplan_t,
    graph: *const c_void,
    size: usize,
    options: *const hipplan_bind_options_t,
    plan: *mut *mut hipplan_plan_t,
) -> hipplan_status_t {
    entry::status(|| {
        // SAFETY: all that is read and written, by the header's rules.
        unsafe {
            give(plan, std::ptr::null_mut(), "plan")?;
            let library = &input::handle(library, "library")?.0;
            let bound = || {
                let graph = read_graph(input::bytes(graph, size, "graph")?)?;
                library.bind_by_graph(&graph, max_workspace(options)?)
            };
            give_plan(plan, library.counted(bound())?)
        }
    })
}

/// Loads the plan of the graph with this key. Bindings then name tensors by canonical ordinal, as `hipplan show KEY` lists them. For the rest
/// as `hipplan_bind_by_graph`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipplan_bind_by_key(
    library: *const hipplan_t,
    key: *const hipplan_key_t,
    options: *const hipplan_bind_options_t,
    plan: *mut *mut hipplan_plan_t,
) -> hipplan_status_t {
    entry::status(|| {
        // SAFETY: all that is read and written, by the header's rules.
        unsafe {
            give(plan, std::ptr::null_mut(), "plan")?;
            let library = &input::handle(library, "library")?.0;
            let bound = || library.bind_by_key(&read_key(key)?, max_workspace(options)?);
            give_plan(plan, library.counted(bound())?)
        }
    })
}

/// Makes sure that the stores hold a plan of the graph for the device, the first one if none does, as `hipplan compile` does: compiles it if need be, which takes from
/// milliseconds to minutes, and starts compilers as child processes, never the calling program itself.
///
/// `HIPPLAN_UNSUPPORTED`: no engine takes the graph, there is no compiler for the device, or this library was built without one. `HIPPLAN_COMPILE`: a
/// compiler failed. `HIPPLAN_STORE`: the store cannot be written. Opened with `HIPPLAN_OPEN_REQUIRE_PRECOMPILED`, nothing is compiled: see there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipplan_compile(library: *const hipplan_t, graph: *const c_void, size: usize) -> hipplan_status_t {
    entry::status(|| {
        // SAFETY: by the header's rules.
        let library = unsafe { &input::handle(library, "library")?.0 };
        let compiled = || {
            // SAFETY: by the header's rules.
            let graph = read_graph(unsafe { input::bytes(graph, size, "graph") }?)?;
            if library.requires_precompiled { require(library, &graph) } else { compile(library, &graph) }
        };
        library.counted(compiled())
    })
}

#[cfg(feature = "compile")]
fn compile(library: &Library, graph: &hipplan_serialize::GraphBuf) -> Result<(), Failure> {
    library.compile(graph)
}

#[cfg(feature = "compile")]
fn require(library: &Library, graph: &hipplan_serialize::GraphBuf) -> Result<(), Failure> {
    library.require(graph)
}

#[cfg(not(feature = "compile"))]
fn require(library: &Library, graph: &hipplan_serialize::GraphBuf) -> Result<(), Failure> {
    library.find_by_graph(graph)
}

#[cfg(not(feature = "compile"))]
fn compile(_: &Library, _: &hipplan_serialize::GraphBuf) -> Result<(), Failure> {
    Err(Failure::new(HIPPLAN_UNSUPPORTED, "this library was built without the feature `compile`; compile the graph with `hipplan compile`"))
}

/// Bytes of workspace that an execution needs; 0 for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipplan_plan_workspace_size(plan: *const hipplan_plan_t) -> u64 {
    // SAFETY: by the header's rules.
    entry::value(0, || Ok(unsafe { input::handle(plan, "plan") }?.0.workspace_size()))
}

/// The plan's own key, which tells apart plans of one graph.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipplan_plan_key(plan: *const hipplan_plan_t, key: *mut hipplan_key_t) -> hipplan_status_t {
    entry::status(|| {
        output::check(key, "key")?;
        // SAFETY: by the header's rules.
        let found = unsafe { input::handle(plan, "plan") }?.0.key();
        // SAFETY: as above.
        unsafe { output::write(key, hipplan_key_t { bytes: found.0 }) };
        Ok(())
    })
}

/// Executes a plan once. See "Executing" at the top of this file.
///
/// `workspace` is memory of the device with at least `hipplan_plan_workspace_size` bytes, at a multiple of 256; NULL and 0 where none is needed.
/// `stream` is a `hipStream_t` of the plan's device, NULL for the default stream; always NULL on the device `cpu`. `options` may be NULL.
///
/// `HIPPLAN_INVALID_ARGUMENT`: a binding is missing, twice there, null or badly aligned, or a shape is not one that the graph allows; the text
/// names its uid and tensor, and nothing was executed. `HIPPLAN_WORKSPACE`: too small or badly aligned, nothing was executed. `HIPPLAN_DEVICE`: HIP failed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipplan_execute(
    plan: *mut hipplan_plan_t,
    bindings: *const hipplan_binding_t,
    count: usize,
    workspace: *mut c_void,
    workspace_size: usize,
    stream: *mut c_void,
    options: *const hipplan_execute_options_t,
) -> hipplan_status_t {
    entry::status(|| {
        // SAFETY: all that is read and written, by the header's rules.
        unsafe {
            let plan: &Bound = &input::handle(plan.cast_const(), "plan")?.0;
            let executed = || {
                let options = input::structure(options)?;
                let (flags, kernel_ms) = options.map_or((0, std::ptr::null_mut()), |o| (o.flags, o.kernel_ms));
                let shapes = options.as_ref().map_or(Shapes::NONE, Shapes::of);
                check_flags("hipplan_execute_options_t", flags, HIPPLAN_EXECUTE_OVERRIDE)?;
                if bindings.is_null() && count > 0 || count > isize::MAX as usize / size_of::<hipplan_binding_t>() {
                    return Err(Failure::argument(format!("{count} bindings at {bindings:p}: there are none")));
                }
                let call = Call { bindings, count, workspace, workspace_size, stream, flags, shapes };
                if kernel_ms.is_null() {
                    return plan.execute(&call);
                }
                let milliseconds = plan.execute_timed(&call)?;
                output::write(kernel_ms, milliseconds);
                Ok(())
            };
            plan.shared().counted(executed())
        }
    })
}

/// Gives a plan back. NULL is no error. No execution of it may be prepared in another thread meanwhile; those on a stream must have finished.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipplan_release(plan: *mut hipplan_plan_t) {
    entry::status(|| {
        if !plan.is_null() {
            // SAFETY: a function that binds gave it, and it is released once, by the header's rules.
            drop(unsafe { Box::from_raw(plan) });
        }
        Ok(())
    });
}

/// What has been done with a handle and its plans so far. `counters->struct_size` is set by the caller.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipplan_counters(library: *const hipplan_t, counters: *mut hipplan_counters_t) -> hipplan_status_t {
    entry::status(|| {
        output::check(counters, "counters")?;
        // SAFETY: by the header's rules.
        let read = unsafe { input::handle(library, "library") }?.0.shared.counters.read();
        // SAFETY: as above.
        unsafe { output::structure(counters, &read) }
    })
}

/// Writes a result, or nothing where there is no place for it.
///
/// # Safety
/// The pointer is null, or to memory for one.
unsafe fn give<T>(pointer: *mut T, value: T, what: &str) -> Result<(), Failure> {
    output::check(pointer, what)?;
    // SAFETY: by the caller's promise.
    unsafe { output::write(pointer, value) };
    Ok(())
}

/// # Safety
/// As of [`give`].
unsafe fn give_plan(pointer: *mut *mut hipplan_plan_t, plan: Bound) -> Result<(), Failure> {
    // SAFETY: by the caller's promise.
    unsafe { give(pointer, Box::into_raw(Box::new(hipplan_plan_t(plan))), "plan") }
}

/// # Safety
/// The pointer is null, or to a key.
unsafe fn read_key(key: *const hipplan_key_t) -> Result<GraphKey, Failure> {
    // SAFETY: by the caller's promise; bytes have no alignment.
    let key = unsafe { input::handle(key, "key") }?;
    Ok(GraphKey(key.bytes))
}

/// # Safety
/// As of [`input::structure`].
unsafe fn max_workspace(options: *const hipplan_bind_options_t) -> Result<u64, Failure> {
    // SAFETY: by the caller's promise.
    Ok(unsafe { input::structure(options) }?.map_or(u64::MAX, |options| options.max_workspace))
}
