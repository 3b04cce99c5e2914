//! `libhipplan.so.0`, opened when it is first needed.

use crate::lock::ProcessLock;
use crate::{config, log};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The C API's major version that this is written for.
pub const MAJOR: u32 = 0;
/// The least minor version that has all functions used here.
pub const MINOR: u32 = 1;
/// Its SONAME.
pub const SONAME: &CStr = c"libhipplan.so.0";

/// `hipplan_status_t`.
pub mod status {
    /// Done.
    pub const OK: i32 = 0;
    /// An argument that does not fit.
    pub const INVALID_ARGUMENT: i32 = 1;
    /// No usable plan is stored.
    pub const MISS: i32 = 2;
    /// No engine, no key, or no compiler in that build.
    pub const UNSUPPORTED: i32 = 3;
    /// The store failed.
    pub const STORE: i32 = 4;
    /// A damaged or refused plan.
    pub const PLAN: i32 = 5;
    /// HIP failed or is absent.
    pub const DEVICE: i32 = 6;
    /// No memory.
    pub const OUT_OF_MEMORY: i32 = 7;
    /// A workspace that is too small or misaligned.
    pub const WORKSPACE: i32 = 8;
    /// A compiler failed.
    pub const COMPILE: i32 = 9;
    /// Something failed inside.
    pub const INTERNAL: i32 = 10;
}

/// `hipplan_t`.
#[repr(C)]
#[derive(Debug)]
pub struct Context {
    _opaque: [u8; 0],
}

/// `hipplan_plan_t`.
#[repr(C)]
#[derive(Debug)]
pub struct Plan {
    _opaque: [u8; 0],
}

/// `hipplan_key_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Key {
    /// The key.
    pub bytes: [u8; 32],
}

/// `hipplan_open_options_t`.
#[repr(C)]
#[derive(Debug)]
pub struct OpenOptions {
    /// Bytes of the struct.
    pub struct_size: usize,
    /// Store folders.
    pub stores: *const *const c_char,
    /// How many.
    pub store_count: usize,
    /// `hip:N`.
    pub device: *const c_char,
    /// [`OPEN_DEGRADE`].
    pub flags: u32,
    /// 0.
    pub reserved: u32,
}

/// A store that cannot be used is a warning and an empty layer.
pub const OPEN_DEGRADE: u32 = 2;

/// `hipplan_bind_options_t`.
#[repr(C)]
#[derive(Debug)]
pub struct BindOptions {
    /// Bytes of the struct.
    pub struct_size: usize,
    /// Most workspace in bytes; `u64::MAX`: any.
    pub max_workspace: u64,
}

/// `hipplan_binding_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Binding {
    /// The graph's number of the tensor.
    pub uid: i64,
    /// Device memory, or host memory of one element for runtime scalars.
    pub pointer: *mut c_void,
}

/// `hipplan_execute_options_t`.
#[repr(C)]
#[derive(Debug)]
pub struct ExecuteOptions {
    /// Bytes of the struct.
    pub struct_size: usize,
    /// 0: none are used here.
    pub flags: u32,
    /// Not null: waits, and writes the milliseconds on the device.
    pub kernel_ms: *mut f32,
}

macro_rules! api {
    ($($(#[$doc:meta])* $name:ident = $symbol:literal: fn($($argument:ident: $ty:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions.
        #[derive(Debug)]
        pub struct Api {
            $($(#[$doc])* pub $name: unsafe extern "C" fn($($argument: $ty),*) $(-> $result)?,)*
        }

        impl Api {
            /// Resolves all of them: what is used here and nothing else. The name of one that is missing is the error.
            fn resolve(library: *mut c_void) -> Result<Self, &'static CStr> {
                Ok(Self {$(
                    $name: {
                        // SAFETY: an open library and a name.
                        let address = unsafe { libc::dlsym(library, $symbol.as_ptr()) };
                        if address.is_null() {
                            return Err($symbol);
                        }
                        // SAFETY: the header of this major version declares the function so.
                        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($ty),*) $(-> $result)?>(address) }
                    },
                )*})
            }
        }
    };
}

api! {
    /// `hipplan_last_error`.
    last_error = c"hipplan_last_error": fn() -> *const c_char;
    /// `hipplan_open`.
    open = c"hipplan_open": fn(options: *const OpenOptions, context: *mut *mut Context) -> i32;
    /// `hipplan_hip_current_device`.
    hip_current_device = c"hipplan_hip_current_device": fn(ordinal: *mut i32) -> i32;
    /// `hipplan_find`.
    find = c"hipplan_find": fn(context: *mut Context, key: *const Key) -> i32;
    /// `hipplan_bind_by_graph`.
    bind_by_graph = c"hipplan_bind_by_graph": fn(context: *mut Context, graph: *const c_void, size: usize, options: *const BindOptions, plan: *mut *mut Plan) -> i32;
    /// `hipplan_compile`.
    compile = c"hipplan_compile": fn(context: *mut Context, graph: *const c_void, size: usize) -> i32;
    /// `hipplan_plan_workspace_size`.
    plan_workspace_size = c"hipplan_plan_workspace_size": fn(plan: *const Plan) -> u64;
    /// `hipplan_plan_key`.
    plan_key = c"hipplan_plan_key": fn(plan: *const Plan, key: *mut Key) -> i32;
    /// `hipplan_execute`.
    execute = c"hipplan_execute": fn(plan: *mut Plan, bindings: *const Binding, count: usize, workspace: *mut c_void, workspace_size: usize, stream: *mut c_void, options: *const ExecuteOptions) -> i32;
}

impl Api {
    /// What the calling thread's last failure was.
    pub fn last_error_text(&self) -> String {
        // SAFETY: the string lasts until this thread's next call.
        unsafe { text((self.last_error)()) }
    }
}

/// # Safety
/// Null or NUL-terminated.
unsafe fn text(string: *const c_char) -> String {
    if string.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(string) }.to_string_lossy().into_owned()
}

/// Why `libhipplan.so.0` cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unavailable(String);

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why there is no context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// A `hipplan_status_t`, or [`crate::last_error::UNAVAILABLE`].
    pub code: i32,
    /// What failed.
    pub text: String,
}

type Outcome = Result<Api, Unavailable>;

/// What came of opening the library; never freed. Not a `OnceLock`, which a fork during the opening would leave taken for good.
static API: AtomicPtr<Outcome> = AtomicPtr::new(std::ptr::null_mut());
static OPENING: ProcessLock = ProcessLock::new();

#[inline]
fn known() -> Option<&'static Outcome> {
    // SAFETY: outcomes are leaked, so a pointer to one stays good.
    unsafe { API.load(Ordering::Acquire).as_ref() }
}

/// The outcome, which is that of `open` if there is none yet, and if it is.
fn known_or(open: impl FnOnce() -> Outcome) -> (&'static Outcome, bool) {
    let _opening = match OPENING.lock_unless(known) {
        Ok(guard) => guard,
        Err(known) => return (known, false),
    };
    let outcome: &'static Outcome = Box::leak(Box::new(open()));
    API.store(std::ptr::from_ref(outcome).cast_mut(), Ordering::Release);
    (outcome, true)
}

/// Takes these functions for those of the library, which is then never opened. Too late after the first use: the result says if they count.
pub fn provide(api: Api) -> bool {
    known_or(|| Ok(api)).1
}

/// The functions. The first call opens the library, and says so if it cannot.
#[inline]
pub fn api() -> Result<&'static Api, &'static Unavailable> {
    match known() {
        Some(outcome) => outcome.as_ref(),
        None => opened(),
    }
}

#[cold]
fn opened() -> Result<&'static Api, &'static Unavailable> {
    let (outcome, is_new) = known_or(open);
    if is_new && let Err(why) = outcome {
        log::error(format_args!("forwarding is requested, but {why}; forwarded calls fail"));
    }
    outcome.as_ref()
}

/// `libhipplan.so.0` in the folder of this library, if it is there.
fn beside() -> Option<CString> {
    // SAFETY: all zeros is a valid Dl_info.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: an address within this library, and `info` is written to.
    let found = unsafe { libc::dladdr(beside as *const c_void, &raw mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader's own string.
    let path = unsafe { CStr::from_ptr(info.dli_fname) }.to_bytes();
    let folder = path.iter().rposition(|&byte| byte == b'/').map(|slash| &path[..=slash])?;
    let file = CString::new([folder, SONAME.to_bytes()].concat()).ok()?;
    // SAFETY: a path.
    (unsafe { libc::access(file.as_ptr(), libc::F_OK) } == 0).then_some(file)
}

fn open() -> Result<Api, Unavailable> {
    let configured = config::get().library.clone();
    let name = configured.or_else(beside).unwrap_or_else(|| SONAME.to_owned());
    let shown = name.to_string_lossy().into_owned();
    // It stays open for good: bound plans and log callbacks point into it.
    // SAFETY: its initialisers are those of a library that the user has put there.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL | libc::RTLD_NODELETE) };
    if library.is_null() {
        // SAFETY: the loader's own string.
        return Err(Unavailable(format!("libhipplan.so.0 cannot be opened: {}", unsafe { text(libc::dlerror()) })));
    }
    // SAFETY: an open library and a name.
    let version = unsafe { libc::dlsym(library, c"hipplan_version".as_ptr()) };
    if version.is_null() {
        return Err(Unavailable(format!("{shown} has no hipplan_version")));
    }
    // SAFETY: the header of every version declares it so.
    let version = unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> u32>(version)() };
    let (major, minor) = (version >> 16, version & 0xffff);
    if major != MAJOR || minor < MINOR {
        return Err(Unavailable(format!("{shown} is of version {major}.{minor}, and {MAJOR}.{MINOR} or a newer {MAJOR}.x is needed")));
    }
    Api::resolve(library).map_err(|symbol| Unavailable(format!("{shown} has no {}", symbol.to_string_lossy())))
}

const DEVICES: usize = 64;
static CONTEXTS: [AtomicPtr<Context>; DEVICES] = [const { AtomicPtr::new(std::ptr::null_mut()) }; DEVICES];

/// The stores and the device with this ordinal. Opened once for each device; what failed is tried again by the next call.
pub fn context(device: c_int) -> Result<*mut Context, Failure> {
    static OPENING: ProcessLock = ProcessLock::new();
    let api = api().map_err(|why| Failure { code: crate::last_error::UNAVAILABLE, text: why.to_string() })?;
    let Some(place) = usize::try_from(device).ok().and_then(|device| CONTEXTS.get(device)) else {
        return Err(Failure { code: status::DEVICE, text: format!("device {device}: expected 0 to {}", DEVICES - 1) });
    };
    let known = || Some(place.load(Ordering::Acquire)).filter(|context| !context.is_null());
    let _opening = match OPENING.lock_unless(known) {
        Ok(guard) => guard,
        Err(context) => return Ok(context),
    };
    let stores: Vec<*const c_char> = config::get().stores.iter().map(|store| store.as_ptr()).collect();
    let name = CString::new(format!("hip:{device}")).unwrap_or_default();
    let options = OpenOptions {
        struct_size: size_of::<OpenOptions>(),
        stores: stores.as_ptr(),
        store_count: stores.len(),
        device: name.as_ptr(),
        flags: OPEN_DEGRADE,
        reserved: 0,
    };
    let mut context = std::ptr::null_mut();
    // SAFETY: the options and what they point to live until the call returns.
    let code = unsafe { (api.open)(&raw const options, &raw mut context) };
    if code != status::OK || context.is_null() {
        return Err(Failure { code, text: format!("hip:{device} cannot be opened: {}", api.last_error_text()) });
    }
    place.store(context, Ordering::Release);
    Ok(context)
}
