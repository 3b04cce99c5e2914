//! Code objects on a device: each is loaded once, and stays as long as some bound plan uses it.

use super::check::Kernel;
use super::code_object::Kernels;
use super::device::HipDevice;
use super::error::HipError;
use super::process;
use crate::lock::lock;
use hipplan_serialize::{AlignedBytes, Digest};
use std::ffi::c_void;
use std::sync::{Arc, Mutex, Weak};

/// A loaded code object.
pub(super) struct Module {
    device: HipDevice,
    raw: *mut c_void,
    /// The code object. HIP may read it long after it was loaded.
    _image: AlignedBytes,
    digest: Digest,
    kernels: Kernels,
}

// SAFETY: HIP takes a module from any thread.
unsafe impl Send for Module {}
// SAFETY: as above, and from several at once.
unsafe impl Sync for Module {}

/// A kernel of a module that the owner keeps.
#[derive(Clone, Copy)]
pub(super) struct Function(pub(super) *mut c_void);

impl Module {
    fn load(device: &HipDevice, digest: &Digest, image: AlignedBytes) -> Result<Self, HipError> {
        let hash = || digest.hash.to_string();
        // Whoever gave the bytes may have looked at others: these are the ones that are executed, and nobody else has them.
        let found = Digest::of(&image);
        if found != *digest {
            let reason = format!("its bytes have the hash {} and number {}, expected {}", found.hash, found.size, digest.size);
            return Err(HipError::CodeObject { hash: hash(), reason });
        }
        let kernels = Kernels::of(&image, device.target()).map_err(|reason| HipError::CodeObject { hash: hash(), reason })?;
        let _current = device.make_current()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the image is a code object for the device, as far as it can be read; it outlives the module. Who wrote it is
        // believed that its code does what the plan says: a hash is not a signature.
        let code = unsafe { (device.0.runtime.symbols.hipModuleLoadData)(&raw mut raw, image.as_ptr().cast()) };
        device
            .check("hipModuleLoadData", code, || format!("loading code object {} of {} bytes on {}", hash(), image.len(), device.arch()))?;
        Ok(Self { device: *device, raw, _image: image, digest: *digest, kernels })
    }

    /// A kernel of the module.
    pub(super) fn function(&self, kernel: &Kernel) -> Result<Function, HipError> {
        let name = &kernel.name;
        let refuse = |reason| HipError::CodeObject { hash: self.digest.hash.to_string(), reason };
        self.kernels.check(&name.to_string_lossy(), kernel.kernarg_size, kernel.block).map_err(refuse)?;
        let _current = self.device.make_current()?;
        let mut function = std::ptr::null_mut();
        // SAFETY: the module is loaded, the name ends in a zero, the pointer is to a handle.
        let code = unsafe { (self.device.0.runtime.symbols.hipModuleGetFunction)(&raw mut function, self.raw, name.as_ptr()) };
        self.device.check("hipModuleGetFunction", code, || format!("looking for kernel {name:?}"))?;
        Ok(Function(function))
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        if !process::may_release() {
            return;
        }
        let symbols = &self.device.0.runtime.symbols;
        if let Ok(_current) = self.device.make_current() {
            // Kernels of the module may still run: not every version of HIP waits for them.
            // SAFETY: the call has no requirements.
            let _ = unsafe { (symbols.hipDeviceSynchronize)() };
            // SAFETY: the module was loaded here and is unloaded once; nobody has a function of it, whoever had one kept it.
            let _ = unsafe { (symbols.hipModuleUnload)(self.raw) };
        }
    }
}

/// The modules of one device that are in use.
#[derive(Default)]
pub(super) struct Modules(Mutex<Vec<Loaded>>);

type Loaded = (Digest, Weak<Module>);

impl Modules {
    /// The lock is held while one is loaded: who needs the same waits for it rather than loading it too. It is not held while bytes are
    /// fetched, which is the caller's code.
    pub(super) fn get_or_load<E: From<HipError>>(
        &self,
        device: &HipDevice,
        digest: &Digest,
        bytes: impl FnOnce() -> Result<AlignedBytes, E>,
    ) -> Result<Arc<Module>, E> {
        if let Some(module) = find(&lock(&self.0), digest) {
            return Ok(module);
        }
        let image = bytes()?;
        let mut loaded = lock(&self.0);
        if let Some(module) = find(&loaded, digest) {
            return Ok(module);
        }
        let module = Arc::new(Module::load(device, digest, image)?);
        loaded.retain(|(_, module)| module.strong_count() > 0);
        loaded.push((*digest, Arc::downgrade(&module)));
        Ok(module)
    }
}

fn find(loaded: &[Loaded], digest: &Digest) -> Option<Arc<Module>> {
    loaded.iter().find(|(known, _)| known == digest).and_then(|(_, module)| module.upgrade())
}
