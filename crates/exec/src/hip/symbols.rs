//! The HIP functions that are called, resolved into plain pointers.
//!
//! One table says all: name, prototype, and whether the executor can do without. The prototypes are those of HIP's C headers, and have
//! not changed from HIP 5.2 to 7 but for added `const`. Codes come back as [`HipCode`], which takes any number.

use super::code::HipCode;
use super::error::LoadFailure;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::path::Path;

/// The buffer of a device-properties call: larger than the structure of any version.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
pub(super) struct Properties(pub(super) [u8; 4096]);

macro_rules! hip_symbols {
    (
        required { $(fn $required:ident($($rarg:ident: $rty:ty),* $(,)?);)+ }
        optional { $(fn $optional:ident($($oarg:ident: $oty:ty),* $(,)?) -> $oret:ty;)+ }
        newer { $(fn $newer:ident($($narg:ident: $nty:ty),* $(,)?) -> $nret:ty;)+ }
    ) => {
        /// HIP's functions by their names.
        #[expect(non_snake_case, reason = "the names are HIP's")]
        #[derive(Debug)]
        pub(super) struct Symbols {
            $(pub(super) $required: unsafe extern "C" fn($($rarg: $rty),*) -> HipCode,)+
            $(pub(super) $optional: Option<unsafe extern "C" fn($($oarg: $oty),*) -> $oret>,)+
            $(pub(super) $newer: Option<unsafe extern "C" fn($($narg: $nty),*) -> $nret>,)+
        }

        impl Symbols {
            /// Resolves every symbol of a library that stays loaded.
            #[expect(non_snake_case, reason = "the names are HIP's")]
            fn resolve(library: &libloading::Library) -> Result<Self, LoadFailure> {
                let mut missing = Vec::new();
                $(
                    // SAFETY: the symbol has the prototype of HIP's headers, as whoever opened the library promised.
                    let $required = unsafe {
                        library.get::<unsafe extern "C" fn($($rarg: $rty),*) -> HipCode>(concat!(stringify!($required), "\0").as_bytes())
                    };
                    if $required.is_err() {
                        missing.push(stringify!($required));
                    }
                )+
                match ($($required,)+) {
                    ($(Ok($required),)+) => Ok(Self {
                        $($required: *$required,)+
                        $($optional: {
                            // SAFETY: as above.
                            let symbol = unsafe { library.get(concat!(stringify!($optional), "\0").as_bytes()) };
                            symbol.ok().map(|s| *s)
                        },)+
                        $($newer: {
                            // SAFETY: as above.
                            let symbol = unsafe { library.get(concat!(stringify!($newer), "\0").as_bytes()) };
                            symbol.ok().map(|s| *s)
                        },)+
                    }),
                    _ => Err(LoadFailure::Symbols(missing)),
                }
            }

            /// The functions that this program is linked with. What is newer than the bindings is done without.
            #[cfg(feature = "hip-link")]
            #[expect(clippy::missing_transmute_annotations, reason = "the type is the field's")]
            pub(super) fn linked() -> Self {
                // SAFETY (all): the function has this prototype; only the name of its result's type differs, an enum of 4 bytes in the
                // bindings, which would be undefined for a code that they do not list.
                Self {
                    $($required: {
                        // SAFETY: as said above.
                        unsafe { std::mem::transmute(hip_runtime_sys::$required as *const ()) }
                    },)+
                    $($optional: {
                        // SAFETY: as said above.
                        Some(unsafe { std::mem::transmute(hip_runtime_sys::$optional as *const ()) })
                    },)+
                    $($newer: None,)+
                }
            }
        }
    };
}

hip_symbols! {
    required {
        fn hipInit(flags: c_uint);
        fn hipGetDeviceCount(count: *mut c_int);
        fn hipSetDevice(device: c_int);
        fn hipDeviceSynchronize();
        fn hipMalloc(memory: *mut *mut c_void, bytes: usize);
        fn hipFree(memory: *mut c_void);
        fn hipMemcpy(to: *mut c_void, from: *const c_void, bytes: usize, kind: c_int);
        fn hipMemsetAsync(memory: *mut c_void, value: c_int, bytes: usize, stream: *mut c_void);
        fn hipStreamCreateWithFlags(stream: *mut *mut c_void, flags: c_uint);
        fn hipStreamDestroy(stream: *mut c_void);
        fn hipStreamSynchronize(stream: *mut c_void);
        fn hipStreamWaitEvent(stream: *mut c_void, event: *mut c_void, flags: c_uint);
        fn hipEventCreateWithFlags(event: *mut *mut c_void, flags: c_uint);
        fn hipEventDestroy(event: *mut c_void);
        fn hipEventRecord(event: *mut c_void, stream: *mut c_void);
        fn hipEventSynchronize(event: *mut c_void);
        fn hipEventElapsedTime(milliseconds: *mut f32, start: *mut c_void, stop: *mut c_void);
        fn hipModuleLoadData(module: *mut *mut c_void, image: *const c_void);
        fn hipModuleUnload(module: *mut c_void);
        fn hipModuleGetFunction(function: *mut *mut c_void, module: *mut c_void, name: *const c_char);
        fn hipModuleLaunchKernel(
            function: *mut c_void,
            grid_x: c_uint, grid_y: c_uint, grid_z: c_uint,
            block_x: c_uint, block_y: c_uint, block_z: c_uint,
            shared_bytes: c_uint,
            stream: *mut c_void,
            parameters: *mut *mut c_void,
            extra: *mut *mut c_void,
        );
    }
    optional {
        fn hipGetDevice(device: *mut c_int) -> HipCode;
        // The structure of HIP 5, also in later versions.
        fn hipGetDeviceProperties(properties: *mut Properties, device: c_int) -> HipCode;
        fn hipMemGetInfo(free: *mut usize, total: *mut usize) -> HipCode;
        fn hipRuntimeGetVersion(version: *mut c_int) -> HipCode;
        fn hipGetErrorName(code: HipCode) -> *const c_char;
    }
    newer {
        // The structure of HIP 6 and 7.
        fn hipGetDevicePropertiesR0600(properties: *mut Properties, device: c_int) -> HipCode;
    }
}

/// What the dynamic linker says, which is the cause of what `libloading` says; without the path at its start, which messages show anyway.
fn reason(error: &libloading::Error, path: &Path) -> String {
    let text = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
    let start = format!("{}: ", path.display());
    text.strip_prefix(&start).map(str::to_owned).unwrap_or(text)
}

impl Symbols {
    /// Resolves the symbols of a library that this process has loaded already, under this path or SONAME; nothing if it has none.
    #[cfg(all(unix, not(feature = "hip-link")))]
    pub(super) fn of_loaded(path: &Path) -> Option<Result<Self, LoadFailure>> {
        use libloading::os::unix;
        // SAFETY: nothing is loaded, so nothing is run.
        let library = unsafe { unix::Library::open(Some(path), libc::RTLD_NOLOAD | unix::RTLD_NOW | unix::RTLD_LOCAL) }.ok()?;
        let library = libloading::Library::from(library);
        let symbols = Self::resolve(&library);
        if symbols.is_ok() {
            // As of one that is opened here: whoever loaded it may close it.
            std::mem::forget(library);
        }
        Some(symbols)
    }

    /// Opens a library for good and resolves its symbols. One that lacks some is closed again.
    pub(super) fn open(path: &Path) -> Result<Self, LoadFailure> {
        // SAFETY: whoever names the path, or installs a library under HIP's name, has it run code here; a HIP runtime's constructors
        // have no requirements.
        let library = unsafe { libloading::Library::new(path) }.map_err(|e| LoadFailure::Open(reason(&e, path)))?;
        let symbols = Self::resolve(&library)?;
        // A HIP runtime has threads, and handlers that run at exit: it is never closed.
        std::mem::forget(library);
        Ok(symbols)
    }
}
