//! What C sees: constants, structures and handles. The documentation becomes that of `hipplan.h`.
//!
//! Structures that the caller gives begin with `struct_size`. They grow at the end only: a field is never moved, changed or removed
//! within a major version.
#![expect(non_camel_case_types, reason = "the names are those of the C header")]

use std::ffi::{c_char, c_void};

/// Major version of the interface that this header describes. Libraries of another major version are not compatible.
pub const HIPPLAN_VERSION_MAJOR: u32 = 0;
/// Minor version of the interface that this header describes. A library of a higher one has all that this one has.
pub const HIPPLAN_VERSION_MINOR: u32 = 1;

/// What a function answers: one of the `HIPPLAN_` codes below. A later minor version may answer codes that are not listed here.
pub type hipplan_status_t = i32;

/// Done.
pub const HIPPLAN_OK: hipplan_status_t = 0;
/// An argument cannot be used: a null pointer, a graph that is none, a tensor that is missing among the bindings.
pub const HIPPLAN_INVALID_ARGUMENT: hipplan_status_t = 1;
/// No usable plan is stored: none, or only damaged ones, or ones of another version. The text says why for every store and target. Not counted
/// as a failure.
pub const HIPPLAN_MISS: hipplan_status_t = 2;
/// No engine takes the graph, or it has no key, or this library has no compiler.
pub const HIPPLAN_UNSUPPORTED: hipplan_status_t = 3;
/// A store cannot be opened or written.
pub const HIPPLAN_STORE: hipplan_status_t = 4;
/// A plan was found, whole, and cannot be loaded on the device.
pub const HIPPLAN_PLAN: hipplan_status_t = 5;
/// HIP is absent, or failed.
pub const HIPPLAN_DEVICE: hipplan_status_t = 6;
/// Memory of the host or the device is exhausted.
pub const HIPPLAN_OUT_OF_MEMORY: hipplan_status_t = 7;
/// The workspace is too small or badly aligned; or plans are stored, and every one needs more than was allowed.
pub const HIPPLAN_WORKSPACE: hipplan_status_t = 8;
/// A compiler failed.
pub const HIPPLAN_COMPILE: hipplan_status_t = 9;
/// A defect of hipplan. Please report the text.
pub const HIPPLAN_INTERNAL: hipplan_status_t = 10;
/// `HIPPLAN_OPEN_REQUIRE_PRECOMPILED`: no plan is stored for the device's targets, and there is one for another. As `HIPPLAN_MISS`, not counted
/// as a failure.
pub const HIPPLAN_WRONG_TARGET: hipplan_status_t = 11;
/// `HIPPLAN_OPEN_REQUIRE_PRECOMPILED`: a plan is stored, and nothing here loads it: another hipplan or another plugin wrote it. Not counted as a
/// failure.
pub const HIPPLAN_STALE: hipplan_status_t = 12;
/// `HIPPLAN_OPEN_REQUIRE_PRECOMPILED`: a plan is stored, or a record that names one, and it is damaged, lacks a code object, or cannot be read; or
/// no store could be opened at all. Not counted as a failure.
pub const HIPPLAN_UNREADABLE: hipplan_status_t = 13;

/// `hipplan_open_options_t::flags`: nothing is written, the first store included.
pub const HIPPLAN_OPEN_READ_ONLY: u32 = 1;
/// `hipplan_open_options_t::flags`: a store that cannot be used is one warning and counts as empty; one that cannot be written is found out
/// by the first `hipplan_compile`, which then keeps its plan for this process only.
pub const HIPPLAN_OPEN_DEGRADE: u32 = 2;
/// `hipplan_open_options_t::flags`: plans must have been compiled before. `hipplan_compile` compiles nothing: it answers `HIPPLAN_OK` if a usable
/// plan is stored, every byte of which it reads; if not, `HIPPLAN_MISS`, `HIPPLAN_WRONG_TARGET`, `HIPPLAN_STALE` or `HIPPLAN_UNREADABLE`. Nothing
/// is written, as with `HIPPLAN_OPEN_READ_ONLY`.
pub const HIPPLAN_OPEN_REQUIRE_PRECOMPILED: u32 = 4;
/// `hipplan_execute_options_t::flags`: an entry for a scalar with a default replaces the default.
pub const HIPPLAN_EXECUTE_OVERRIDE: u32 = 1;

/// `level` of a log line: something failed.
pub const HIPPLAN_LOG_ERROR: i32 = 1;
/// `level` of a log line: something is not as it should be, and work goes on.
pub const HIPPLAN_LOG_WARNING: i32 = 2;

/// Stores and a device. May be used by any number of threads at once; closed by one, when no other uses it any more.
pub struct hipplan_t(pub(crate) crate::library::Library);

/// A plan on a device, ready to execute: by several threads at once, too. Released by one thread, when no other uses it any more.
pub struct hipplan_plan_t(pub(crate) crate::bound::Bound);

/// Key of a graph or a plan: 32 bytes that depend on its content alone.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct hipplan_key_t {
    /// As `hipplan show` prints them, two digits a byte.
    pub bytes: [u8; 32],
}

/// What is opened. All strings are read during the call only.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct hipplan_open_options_t {
    /// `sizeof(hipplan_open_options_t)`.
    pub struct_size: usize,
    /// Folders of stores, and bundles. A lookup walks them in this order. The first, if it is no bundle, is written by `hipplan_compile` and made
    /// if it is not there; the others are only read, and so is a bundle in the first place, also with `HIPPLAN_OPEN_DEGRADE`. None (NULL and 0): those that the `hipplan` command uses, as `hipplan store where` tells:
    /// the store that `HIPPLAN_STORE` names, or the user's own, and the layers that `HIPPLAN_LAYERS` names.
    pub stores: *const *const c_char,
    /// How many.
    pub store_count: usize,
    /// `cpu`, or `hip:N` for the HIP device with that number, or `hip` or NULL for the calling thread's current HIP device.
    pub device: *const c_char,
    /// `HIPPLAN_OPEN_` flags.
    pub flags: u32,
    /// Must be 0.
    pub reserved: u32,
}

/// Which plan is bound.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct hipplan_bind_options_t {
    /// `sizeof(hipplan_bind_options_t)`.
    pub struct_size: usize,
    /// Bytes of workspace that there will be; UINT64_MAX for any number. The first stored plan that needs at most this is bound.
    pub max_workspace: u64,
}

/// A tensor of an execution.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct hipplan_binding_t {
    /// Uid of the tensor: as the graph numbers it that the plan was bound by, or its canonical ordinal if the plan was bound by key.
    pub uid: i64,
    /// Memory of the plan's device, for the tensor's whole span, aligned for an element; host memory of one element of the tensor's type for a
    /// scalar that is supplied when executing.
    pub pointer: *mut c_void,
}

/// How a plan is executed.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct hipplan_execute_options_t {
    /// `sizeof(hipplan_execute_options_t)`.
    pub struct_size: usize,
    /// `HIPPLAN_EXECUTE_` flags.
    pub flags: u32,
    /// Not NULL: the call waits until the execution has finished and writes the milliseconds that it took on the device. Such a call allocates,
    /// and it fails while the stream is being captured.
    pub kernel_ms: *mut f32,
    /// How many tensors have another shape in this execution than the graph states. The graph must have opted in to that
    /// (`is_override_shape_enabled`), and the rest of the fields are read only if this is not 0. The first execution with a set of shapes
    /// checks them and allocates, and where threads execute at once, the first of each may; repeating the shapes of the execution before does not.
    pub override_count: usize,
    /// Their uids, each of which is bound too: tensors that are neither passed by value nor virtual, each once.
    pub override_uids: *const i64,
    /// The number of dims of each, which is the number that the graph states.
    pub override_ranks: *const u32,
    /// The dims of each, in an array that is aligned: from 1 to what the graph states, which is the largest.
    pub override_dims: *const *const i64,
    /// The strides of each, in an array that is aligned: in elements, each at least 1. What is bound holds the span of this shape.
    pub override_strides: *const *const i64,
}

/// What has been done with a `hipplan_t` and its plans.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct hipplan_counters_t {
    /// `sizeof(hipplan_counters_t)`, set by the caller.
    pub struct_size: usize,
    /// Calls of `hipplan_find` and the functions that bind.
    pub lookups: u64,
    /// Lookups that found a plan.
    pub hits: u64,
    /// Lookups that found none, or none that needs so little workspace.
    pub misses: u64,
    /// Graphs that were compiled.
    pub compiles: u64,
    /// Plans that were bound.
    pub binds: u64,
    /// Code objects that were loaded onto the device. Plans share them.
    pub module_loads: u64,
    /// Executions that were put on a stream, or finished on the CPU.
    pub executions: u64,
    /// Calls that answered something other than `HIPPLAN_OK`, `HIPPLAN_MISS` and its like.
    pub failures: u64,
}

/// Takes log lines: `level` is a `HIPPLAN_LOG_` number, `text` is valid during the call and ends without a line break.
pub type hipplan_log_t = Option<unsafe extern "C" fn(level: i32, text: *const c_char, user: *mut c_void)>;
