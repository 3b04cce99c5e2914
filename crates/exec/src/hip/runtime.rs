//! A HIP runtime: one loaded library.

use super::code::HipCode;
use super::device::{DeviceShared, HipDevice};
use super::error::{HipError, HipFailure, LoadAttempt};
use super::process;
use super::symbols::Symbols;
use crate::lock::lock;
use std::ffi::{CStr, c_uint};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Names the library to load in place of the candidates.
pub const HIP_LIBRARY_VARIABLE: &str = "HIPPLAN_HIP_LIBRARY";

/// Libraries that are tried, newest first. The last is there where development files are installed.
#[cfg(not(feature = "hip-link"))]
const CANDIDATES: [&str; 4] = ["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"];

/// A HIP runtime with at least one device. It stays loaded until the process ends; copies are one runtime.
#[derive(Clone, Copy)]
pub struct HipRuntime(pub(super) &'static Shared);

pub(super) struct Shared {
    pub(super) symbols: Symbols,
    library: String,
    /// In order of opening, of those in this process.
    pub(super) number: u16,
    pub(super) count: u32,
    /// By ordinal, once opened.
    devices: Mutex<Vec<Option<&'static DeviceShared>>>,
}

impl std::fmt::Debug for HipRuntime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HipRuntime").field("library", &self.0.library).field("devices", &self.0.count).finish_non_exhaustive()
    }
}

impl PartialEq for HipRuntime {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for HipRuntime {}

/// A library that was loaded. It stays loaded whether it could be started or not.
struct Opened {
    /// The path that it was asked for by; nothing stands for the candidates.
    path: Option<PathBuf>,
    /// Address of its `hipInit`: one library under two names has one.
    init: unsafe extern "C" fn(c_uint) -> HipCode,
    runtime: Result<HipRuntime, HipError>,
}

/// The libraries of this process, in order of opening.
static OPENED: Mutex<Vec<Opened>> = Mutex::new(Vec::new());

impl HipRuntime {
    /// The runtime in the library that the environment variable `HIPPLAN_HIP_LIBRARY` names, or else the first of `libamdhip64.so.7`,
    /// `.so.6`, `.so.5` and `.so` that the process has loaded already, whose streams and memory its other parts use, or else the first of
    /// them that the system's loader finds. With the feature `hip-link`, in place of the latter, the one that the
    /// program is linked with. Loaded and initialised at the first call; a runtime that could not be initialised is not tried again in this
    /// process, while libraries that were not there are looked for at each call.
    ///
    /// # Errors
    /// [`HipError::Library`] with every library tried; [`HipError::NoDevice`]; [`HipError::Forked`].
    pub fn find() -> Result<Self, HipError> {
        match std::env::var_os(HIP_LIBRARY_VARIABLE).filter(|path| !path.is_empty()) {
            Some(path) => Self::open(Path::new(&path)),
            None => Self::cached(None, Self::load_default),
        }
    }

    /// The runtime in this library, whatever the environment says. Loaded and initialised at the first call, as by [`find`](Self::find).
    ///
    /// # Errors
    /// As [`find`](Self::find).
    pub fn open(path: impl AsRef<Path>) -> Result<Self, HipError> {
        let path = path.as_ref();
        Self::cached(Some(path), || Ok((path.display().to_string(), Self::load(path).map_err(|e| HipError::Library { tried: vec![e] })?)))
    }

    fn cached(path: Option<&Path>, load: impl FnOnce() -> Result<(String, Symbols), HipError>) -> Result<Self, HipError> {
        // Before the lock, which may have been held when the process was forked.
        if process::is_forked() {
            return Err(HipError::Forked);
        }
        let mut opened = lock(&OPENED);
        if let Some(known) = opened.iter().find(|known| known.path.as_deref() == path) {
            return known.runtime.clone();
        }
        let had_loaded = process::before_load();
        let (library, symbols) = load().inspect_err(|_| {
            if !had_loaded {
                process::nothing_loaded();
            }
        })?;
        let init = symbols.hipInit;
        // One library under two names is one runtime.
        let known = opened.iter().find(|known| std::ptr::fn_addr_eq(known.init, init)).map(|known| known.runtime.clone());
        let runtime = known.unwrap_or_else(|| {
            let numbers = opened.iter().filter_map(|known| Some(known.runtime.as_ref().ok()?.0.number));
            Self::initialise(library, symbols, numbers.max().map_or(0, |n| n.saturating_add(1)))
        });
        opened.push(Opened { path: path.map(Path::to_owned), init, runtime: runtime.clone() });
        runtime
    }

    fn load(path: &Path) -> Result<Symbols, LoadAttempt> {
        Symbols::open(path).map_err(|reason| LoadAttempt { path: path.display().to_string(), reason })
    }

    #[cfg(not(feature = "hip-link"))]
    fn load_default() -> Result<(String, Symbols), HipError> {
        let mut tried = Vec::with_capacity(CANDIDATES.len());
        #[cfg(unix)]
        for name in CANDIDATES {
            // What has a HIP runtime's name and is none may stand before one that is found by its path.
            if let Some(Ok(symbols)) = Symbols::of_loaded(Path::new(name)) {
                return Ok((name.to_owned(), symbols));
            }
        }
        for name in CANDIDATES {
            match Self::load(Path::new(name)) {
                Ok(symbols) => return Ok((name.to_owned(), symbols)),
                Err(attempt) => tried.push(attempt),
            }
        }
        Err(HipError::Library { tried })
    }

    #[cfg(feature = "hip-link")]
    #[expect(clippy::unnecessary_wraps, reason = "the other way to a runtime can fail")]
    fn load_default() -> Result<(String, Symbols), HipError> {
        Ok(("linked with this program".to_owned(), Symbols::linked()))
    }

    fn initialise(library: String, symbols: Symbols, number: u16) -> Result<Self, HipError> {
        let fail = |call, code: HipCode| {
            let failure = failure(&symbols, call, code);
            if code.is_no_device() || code == HipCode::SUCCESS {
                HipError::NoDevice { library: library.clone(), failure }
            } else {
                HipError::Call { ordinal: 0, doing: format!("starting the HIP runtime {library}"), failure }
            }
        };
        // SAFETY: the call has no requirements.
        let code = unsafe { (symbols.hipInit)(0) };
        process::after_load();
        if code != HipCode::SUCCESS {
            return Err(fail("hipInit", code));
        }
        let mut count = 0;
        // SAFETY: the pointer is to a number.
        let code = unsafe { (symbols.hipGetDeviceCount)(&raw mut count) };
        // HIP's ordinals are signed, and device memory is told apart by 16 bits of them.
        let count = u32::try_from(count).unwrap_or(0).min(u32::from(u16::MAX));
        if code != HipCode::SUCCESS || count == 0 {
            return Err(fail("hipGetDeviceCount", if code == HipCode::SUCCESS { HipCode(100) } else { code }));
        }
        let devices = Mutex::new(vec![None; count as usize]);
        Ok(Self(Box::leak(Box::new(Shared { symbols, library, number, count, devices }))))
    }

    /// Name or path of the library.
    pub fn library(&self) -> &'static str {
        &self.0.library
    }

    /// Number of devices, at least 1.
    pub fn device_count(&self) -> u32 {
        self.0.count
    }

    /// The runtime's version as HIP states it, such as 60443484 for 6.4; none where it states none.
    pub fn version(&self) -> Option<i32> {
        let get = self.0.symbols.hipRuntimeGetVersion.filter(|_| !process::is_forked())?;
        let mut version = 0;
        // SAFETY: the pointer is to a number.
        (unsafe { get(&raw mut version) } == HipCode::SUCCESS).then_some(version)
    }

    /// The calling thread's current device: 0 where the runtime does not say.
    ///
    /// # Errors
    /// As of [`device`](Self::device).
    pub fn current_device(&self) -> Result<HipDevice, HipError> {
        if process::is_forked() {
            return Err(HipError::Forked);
        }
        let mut ordinal = 0;
        if let Some(get) = self.0.symbols.hipGetDevice {
            // SAFETY: the pointer is to a number.
            let code = unsafe { get(&raw mut ordinal) };
            self.0.check("hipGetDevice", code).map_err(|failure| HipError::Call {
                ordinal: 0,
                doing: "asking for the current device".to_owned(),
                failure,
            })?;
        }
        // No runtime answers a number below 0; one that did has no such device.
        self.device(u32::try_from(ordinal).unwrap_or(u32::MAX))
    }

    /// The device with this number. Opened at the first call; all are one device.
    ///
    /// # Errors
    /// [`HipError::Ordinal`]; [`HipError::Arch`] for an architecture that is no target; a call that failed; [`HipError::Forked`].
    pub fn device(&self, ordinal: u32) -> Result<HipDevice, HipError> {
        if process::is_forked() {
            return Err(HipError::Forked);
        }
        let mut devices = lock(&self.0.devices);
        let Some(slot) = devices.get_mut(ordinal as usize) else {
            return Err(HipError::Ordinal { ordinal, library: self.0.library.clone(), count: self.0.count });
        };
        if let Some(device) = slot {
            return Ok(HipDevice(device));
        }
        let device: &'static DeviceShared = Box::leak(Box::new(DeviceShared::open(self.0, ordinal)?));
        *slot = Some(device);
        Ok(HipDevice(device))
    }
}

impl Shared {
    /// A call's code as a result.
    #[inline]
    pub(super) fn check(&self, call: &'static str, code: HipCode) -> Result<(), HipFailure> {
        if code == HipCode::SUCCESS { Ok(()) } else { Err(self.failure(call, code)) }
    }

    /// A call that failed, with the name of its code.
    pub(super) fn failure(&self, call: &'static str, code: HipCode) -> HipFailure {
        failure(&self.symbols, call, code)
    }
}

#[cold]
fn failure(symbols: &Symbols, call: &'static str, code: HipCode) -> HipFailure {
    let own_name = || {
        let get = symbols.hipGetErrorName?;
        // SAFETY: the function takes any code.
        let name = unsafe { get(code) };
        // SAFETY: it gives null or a string constant of the library, which stays loaded.
        let name: &'static CStr = if name.is_null() { return None } else { unsafe { CStr::from_ptr(name) } };
        name.to_str().ok()
    };
    HipFailure { call, code, name: code.name().or_else(own_name).unwrap_or("an error without a name") }
}
