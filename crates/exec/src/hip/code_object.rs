//! Code objects before HIP sees them: what they are for, and what their kernels take.

use hipplan_serialize::Target;
use hipplan_serialize::code_object::{CodeObject, Kernarg, KernelInfo};

/// What a code object says of its kernels. Those for targets of tests say nothing.
#[derive(Debug, Default)]
pub(super) struct Kernels(Option<Vec<Kernel>>);

#[derive(Debug)]
struct Kernel {
    name: String,
    kernarg: Kernarg,
    max_block: u32,
}

impl Kernels {
    /// Checks that bytes are a code object that runs on a device, and notes its kernels.
    ///
    /// # Errors
    /// Why it does not.
    pub(super) fn of(bytes: &[u8], device: &Target) -> Result<Self, String> {
        let Target::Amd(_) = device else { return Ok(Self(None)) };
        let object = CodeObject::read(bytes).map_err(|e| e.to_string())?;
        object.loads_on(device).map_err(|e| e.to_string())?;
        let kernel = |k: &KernelInfo<'_>| Kernel { name: k.name.to_owned(), kernarg: k.kernarg(), max_block: k.max_workgroup_size };
        Ok(Self(Some(object.kernels.iter().map(kernel).collect())))
    }

    /// Checks that there is such a kernel, which takes so many bytes of kernarg and blocks of so many threads.
    ///
    /// # Errors
    /// What is otherwise.
    pub(super) fn check(&self, name: &str, kernarg_size: u32, block: u32) -> Result<(), String> {
        let Some(kernels) = &self.0 else { return Ok(()) };
        let Some(kernel) = kernels.iter().find(|k| k.name == name) else {
            let known: Vec<&str> = kernels.iter().map(|k| k.name.as_str()).collect();
            return Err(format!("it has no kernel {name:?}, it has {known:?}"));
        };
        if !kernel.kernarg.is_of(kernarg_size) {
            return Err(format!("kernel {name:?} takes {} bytes of kernarg, the plan passes {kernarg_size}", kernel.kernarg.size));
        }
        if block > kernel.max_block {
            return Err(format!("kernel {name:?} takes blocks of at most {} threads, the plan launches {block}", kernel.max_block));
        }
        Ok(())
    }
}
