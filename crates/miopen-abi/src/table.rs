//! The table through which a generated wrapper hands its slots to `libhipplan_miopen.so`.
//!
//! The wrapper exports it as [`TABLE_SYMBOL`] and, when it is initialised, passes its address to [`ATTACH_SYMBOL`] of the shim library. All
//! three files of a split are made together; the version is there so that a mixture is refused and not followed.

use std::ffi::{c_char, c_void};

/// The wrapper's table, an object symbol.
pub const TABLE_SYMBOL: &str = "hipplan_wrapper_table";
/// Version node of what only wrappers export.
pub const WRAPPER_VERSION_NODE: &str = "HIPPLAN_WRAPPER_1";
/// The shim library's function that the wrapper calls once, from its `DT_INIT_ARRAY`: [`Attach`].
pub const ATTACH_SYMBOL: &str = "miopen_forwarding_attach";
/// What `DT_NEEDED` of the wrapper calls the shim library.
pub const SHIM_SONAME: &str = "libhipplan_miopen.so.0";
/// First field of the table: `HPWT` read as a little-endian number.
pub const MAGIC: u32 = u32::from_le_bytes(*b"HPWT");
/// Version of the layout below.
pub const VERSION: u32 = 1;

/// The function behind [`ATTACH_SYMBOL`]. It never fails: what it cannot use, it leaves alone.
pub type Attach = unsafe extern "C" fn(table: *const WrapperTable);

/// The table. Addresses are those of the running process: the wrapper's relocations fill them in.
#[repr(C)]
#[derive(Debug)]
pub struct WrapperTable {
    /// [`MAGIC`].
    pub magic: u32,
    /// [`VERSION`].
    pub version: u32,
    /// Entries at [`entries`](Self::entries), ascending by the bytes of their names.
    pub count: u32,
    /// Bytes of an entry: the size of [`WrapperEntry`].
    pub entry_size: u32,
    /// The entries.
    pub entries: *const WrapperEntry,
    /// The pages of the slots: nothing else is on them, so that they can be made read-only.
    pub slots: *mut c_void,
    /// Bytes of the slots' pages, as many as the file reserves; the file aligns them to 65,536 so that any page size divides them.
    pub slots_size: u64,
    /// SONAME of the private library, NUL-terminated.
    pub private_soname: *const c_char,
}

/// One public name.
#[repr(C)]
#[derive(Debug)]
pub struct WrapperEntry {
    /// The public name, NUL-terminated.
    pub name: *const c_char,
    /// Where the public function jumps to; at first [`implementation`](Self::implementation).
    pub slot: *mut *const c_void,
    /// The private library's function. Of `miopenGetLastForwardedError`, which no private library has, a function that returns 0.
    pub implementation: *const c_void,
}
