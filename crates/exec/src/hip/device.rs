//! A device of a HIP runtime.

use super::code::HipCode;
use super::error::{HipError, HipFailure};
use super::module::{Module, Modules};
use super::process;
use super::runtime::{HipRuntime, Shared};
use super::symbols::Properties;
use crate::MemorySpace;
use crate::memory_space::SpaceKey;
use hipplan_serialize::{Digest, Target};
use std::ffi::c_int;
use std::sync::{Arc, OnceLock};

/// Where the architecture's name stands in the properties: `gcnArchName`, 256 bytes that end in zeros.
const ARCH_LEN: usize = 256;
/// In the structure of HIP 6 and 7 (1472 bytes).
const ARCH_AT_R0600: usize = 1160;
/// In the structure of HIP 5 (792 bytes).
const ARCH_AT: usize = 396;

/// A GPU. Copies are one device.
#[derive(Clone, Copy)]
pub struct HipDevice(pub(super) &'static DeviceShared);

pub(super) struct DeviceShared {
    pub(super) runtime: &'static Shared,
    ordinal: u32,
    space: SpaceKey,
    arch: String,
    target: Target,
    modules: Modules,
    /// The call after which the device did nothing any more.
    lost: OnceLock<HipFailure>,
}

impl std::fmt::Debug for HipDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HipDevice").field("ordinal", &self.0.ordinal).field("arch", &self.0.arch).finish_non_exhaustive()
    }
}

impl PartialEq for HipDevice {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for HipDevice {}

impl DeviceShared {
    pub(super) fn open(runtime: &'static Shared, ordinal: u32) -> Result<Self, HipError> {
        let arch = arch_name(runtime, ordinal)?;
        let fail = |reason: String| HipError::Arch { ordinal, found: arch.clone(), reason };
        if arch.is_empty() {
            return Err(fail("it is empty".to_owned()));
        }
        let target = arch.parse::<Target>().map_err(|e| fail(e.reason))?;
        if target == Target::Cpu {
            return Err(fail("that is the target of no GPU".to_owned()));
        }
        // `count` is at most 65,535, and `ordinal` is below it.
        let space = MemorySpace::Hip { ordinal: ordinal as u16, runtime: runtime.number };
        Ok(Self { runtime, ordinal, space: SpaceKey::of(space), arch, target, modules: Modules::default(), lost: OnceLock::new() })
    }
}

/// The device's architecture with its features, such as `gfx942:sramecc+:xnack-`. It stands in the properties only, whose layout depends
/// on the version of HIP.
fn arch_name(runtime: &'static Shared, ordinal: u32) -> Result<String, HipError> {
    let symbols = &runtime.symbols;
    let functions = [
        ("hipGetDevicePropertiesR0600", symbols.hipGetDevicePropertiesR0600, ARCH_AT_R0600),
        ("hipGetDeviceProperties", symbols.hipGetDeviceProperties, ARCH_AT),
    ];
    let Some((call, get, at)) = functions.into_iter().find_map(|(call, get, at)| Some((call, get?, at))) else {
        let reason = "the HIP runtime has neither hipGetDevicePropertiesR0600 nor hipGetDeviceProperties".to_owned();
        return Err(HipError::Arch { ordinal, found: String::new(), reason });
    };
    let mut properties = Box::new(Properties([0; 4096]));
    // SAFETY: the buffer is larger than the structure of every version, and aligned for it. The ordinal is below the device count, an int.
    let code = unsafe { get(&raw mut *properties, ordinal as c_int) };
    runtime.check(call, code).map_err(|failure| HipError::Call { ordinal, doing: "reading its properties".to_owned(), failure })?;
    let name = properties.0.get(at..at + ARCH_LEN).unwrap_or_default();
    let name = name.split(|&b| b == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(name).into_owned())
}

impl HipDevice {
    /// Its number within the runtime.
    pub fn ordinal(&self) -> u32 {
        self.0.ordinal
    }

    /// The architecture that the runtime reports, such as `gfx942:sramecc+:xnack-`.
    pub fn arch(&self) -> &'static str {
        &self.0.arch
    }

    /// Its target, with all features that the runtime reports.
    pub fn target(&self) -> &'static Target {
        &self.0.target
    }

    /// Targets whose plans are looked up for it, best first: its own, that without features, and those of its family.
    pub fn targets(&self) -> Vec<Target> {
        self.0.target.candidates()
    }

    /// Its memory.
    pub fn memory_space(&self) -> MemorySpace {
        self.0.space.space()
    }

    #[inline]
    pub(crate) fn space_key(&self) -> SpaceKey {
        self.0.space
    }

    /// The runtime that it is a device of.
    pub fn runtime(&self) -> HipRuntime {
        HipRuntime(self.0.runtime)
    }

    /// Waits for all that was put on any of its streams.
    ///
    /// # Errors
    /// What of it failed, or that the device is lost.
    pub fn synchronize(&self) -> Result<(), HipError> {
        let _current = self.make_current()?;
        // SAFETY: the call has no requirements.
        let code = unsafe { (self.0.runtime.symbols.hipDeviceSynchronize)() };
        self.check("hipDeviceSynchronize", code, || "waiting for the device".to_owned())
    }

    /// Free and total bytes of its memory, where the runtime says.
    ///
    /// # Errors
    /// That the device is lost, or the process forked.
    pub fn memory_info(&self) -> Result<Option<(u64, u64)>, HipError> {
        let _current = self.make_current()?;
        Ok(self.free_and_total())
    }

    /// Called with the device current.
    pub(super) fn free_and_total(&self) -> Option<(u64, u64)> {
        let get = self.0.runtime.symbols.hipMemGetInfo?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: the pointers are to numbers.
        let code = unsafe { get(&raw mut free, &raw mut total) };
        (code == HipCode::SUCCESS).then_some((free as u64, total as u64))
    }

    /// The module of a code object: loaded if the process has not loaded it on this device.
    pub(super) fn module<E: From<HipError>>(
        &self,
        digest: &Digest,
        bytes: impl FnOnce() -> Result<hipplan_serialize::AlignedBytes, E>,
    ) -> Result<Arc<Module>, E> {
        // Before a lock is taken that may have been held when the process was forked.
        self.usable()?;
        self.0.modules.get_or_load(self, digest, bytes)
    }

    /// HIP may be called for this device.
    #[inline]
    pub(super) fn usable(&self) -> Result<(), HipError> {
        if process::is_forked() {
            return Err(HipError::Forked);
        }
        match self.0.lost.get() {
            None => Ok(()),
            Some(&failure) => Err(HipError::DeviceLost { ordinal: self.0.ordinal, failure }),
        }
    }

    /// Makes the device the calling thread's current one until the guard is dropped, which restores what the thread had: its owner may
    /// use HIP too.
    #[inline]
    pub(crate) fn make_current(&self) -> Result<CurrentDevice, HipError> {
        self.usable()?;
        if self.is_only() { Ok(CurrentDevice(None)) } else { self.switch() }
    }

    /// It is current whatever is done: a thread's current device is 0 from the start, and there is no other.
    #[inline]
    pub(super) fn is_only(&self) -> bool {
        self.0.runtime.count == 1
    }

    fn switch(&self) -> Result<CurrentDevice, HipError> {
        let symbols = &self.0.runtime.symbols;
        // The ordinal is below the device count, an int.
        let own = self.0.ordinal as c_int;
        let mut before = own;
        if let Some(get) = symbols.hipGetDevice {
            // SAFETY: the pointer is to a number.
            let code = unsafe { get(&raw mut before) };
            self.check("hipGetDevice", code, || "asking for the current device".to_owned())?;
            if before == own {
                return Ok(CurrentDevice(None));
            }
        }
        // SAFETY: the call takes any number.
        let code = unsafe { (symbols.hipSetDevice)(own) };
        self.check("hipSetDevice", code, || "making the device current".to_owned())?;
        Ok(CurrentDevice((before != own).then_some((self.0.runtime, before))))
    }

    /// A call's code as a result. `doing` says for what it was called.
    #[inline]
    pub(super) fn check(&self, call: &'static str, code: HipCode, doing: impl FnOnce() -> String) -> Result<(), HipError> {
        if code == HipCode::SUCCESS { Ok(()) } else { Err(self.failed(call, code, doing)) }
    }

    /// The error of a call that failed.
    #[cold]
    pub(super) fn failed(&self, call: &'static str, code: HipCode, doing: impl FnOnce() -> String) -> HipError {
        let (ordinal, failure) = (self.0.ordinal, self.0.runtime.failure(call, code));
        if failure.code.is_sticky() {
            // The first failure is the one that explains the others.
            return HipError::DeviceLost { ordinal, failure: *self.0.lost.get_or_init(|| failure) };
        }
        HipError::Call { ordinal, doing: doing(), failure }
    }
}

/// Restores a thread's current device when dropped.
pub(crate) struct CurrentDevice(Option<(&'static Shared, c_int)>);

impl Drop for CurrentDevice {
    fn drop(&mut self) {
        if let Some((runtime, before)) = self.0 {
            // SAFETY: the call takes any number. What it returns does not matter: the device was current before.
            let _ = unsafe { (runtime.symbols.hipSetDevice)(before) };
        }
    }
}
