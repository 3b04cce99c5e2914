//! A program that is loaded on a device.

use super::check::{Checked, CheckedLaunch, ScalarPatch};
use super::code::HipCode;
use super::device::HipDevice;
use super::launch::launch;
use super::module::{Function, Module};
use super::program::ScalarType;
use crate::arguments::{Arguments, BindingIx};
use crate::{ExecError, Executable, Stream, WorkspaceRef};
use std::ffi::CString;
use std::sync::Arc;

/// Kernels, and the arguments that are written into their kernargs at each execution.
pub(super) struct HipExecutable {
    device: HipDevice,
    /// Kept: functions are theirs.
    _modules: Vec<Arc<Module>>,
    launches: Vec<(Function, CheckedLaunch)>,
    addresses: Vec<(u32, BindingIx)>,
    workspace: Vec<(u32, u64)>,
    scalars: Vec<ScalarPatch>,
    /// Templates, filled in place. Addresses of an earlier execution are overwritten before they are used.
    kernargs: Vec<u64>,
    /// By position of the kernel, for messages.
    names: Vec<CString>,
}

// SAFETY: functions belong to modules that are kept, and HIP takes them from any thread.
unsafe impl Send for HipExecutable {}

impl HipExecutable {
    /// `functions` are those of the program's kernels, of `modules`.
    pub(super) fn new(device: &HipDevice, modules: Vec<Arc<Module>>, functions: &[Function], checked: Checked) -> Self {
        let Checked { kernargs, addresses, workspace, scalars, kernels, launches } = checked;
        Self {
            device: *device,
            _modules: modules,
            // `check` has shown that the positions are those of kernels.
            launches: launches.into_iter().map(|launch| (functions[launch.kernel as usize], launch)).collect(),
            addresses,
            workspace,
            scalars,
            kernargs,
            names: kernels.into_iter().map(|kernel| kernel.name).collect(),
        }
    }

    /// Why the launch failed whose kernarg is at this word: each launch has one of its own.
    #[cold]
    fn launch_failed(&self, code: HipCode, kernarg_word: u32) -> ExecError {
        let launch = self.launches.iter().map(|(_, launch)| launch).find(|launch| launch.kernarg_word == kernarg_word);
        let doing = || match launch {
            Some(CheckedLaunch { kernel, grid: [x, y, z], block, .. }) => {
                let name = self.names.get(*kernel as usize);
                format!("launching kernel {:?} on {x}x{y}x{z} blocks of {block}", name.map(CString::as_c_str).unwrap_or_default())
            }
            None => "launching a kernel".to_owned(),
        };
        self.device.failed("hipModuleLaunchKernel", code, doing).into()
    }

    /// Writes addresses and scalars into the kernargs of all launches: what is missing is found before anything is launched.
    #[inline(always)]
    fn fill(&mut self, arguments: Arguments<'_>, workspace: *mut u8) -> Result<(), ExecError> {
        let kernargs = self.kernargs.as_mut_slice();
        for &(word, binding) in &self.addresses {
            kernargs[word as usize] = arguments.find_address(binding)?;
        }
        for &(word, offset) in &self.workspace {
            kernargs[word as usize] = (workspace.addr() as u64).wrapping_add(offset);
        }
        for patch in &self.scalars {
            let element = arguments.find_scalar(patch.binding)?;
            match patch.conversion.to {
                ScalarType::F64 => kernargs[patch.at as usize / 8] = patch.conversion.to_f64(element).to_bits(),
                ScalarType::F32 => {
                    let halves: &mut [u32] = bytemuck::cast_slice_mut(kernargs);
                    halves[patch.at as usize / 4] = patch.conversion.to_f32(element).to_bits();
                }
            }
        }
        Ok(())
    }

    /// Executes with the device current.
    #[inline(always)]
    fn run(&mut self, arguments: Arguments<'_>, workspace: *mut u8, stream: Stream<'_>) -> Result<(), ExecError> {
        self.fill(arguments, workspace)?;
        let stream = match stream {
            Stream::Default => std::ptr::null_mut(),
            Stream::Hip(stream) => stream.as_ptr(),
            Stream::RawHip(stream) => stream.as_ptr(),
        };
        let runtime = self.device.0.runtime;
        for (function, CheckedLaunch { grid, block, kernarg_word, kernarg_bytes, .. }) in &self.launches {
            let kernarg = &mut self.kernargs[*kernarg_word as usize..];
            // SAFETY: the function is of a module that is kept, on the device that is current, as is the stream. `check` has shown that
            // the kernarg holds so many bytes. Every tensor that the program addresses lies in a buffer as large and aligned as its
            // binding says, writable where the program says that it writes it, or in a workspace of the size that the plan states (or the
            // caller of a raw entry promised all that). That the kernel stays within its arguments is believed of a plan, as that it
            // computes what its graph says: a hash is not a signature.
            let code = unsafe { launch(runtime, *function, *grid, *block, kernarg, *kernarg_bytes as usize, stream) };
            if code != HipCode::SUCCESS {
                return Err(self.launch_failed(code, *kernarg_word));
            }
        }
        Ok(())
    }
}

impl Executable for HipExecutable {
    fn execute(&mut self, arguments: &Arguments<'_>, workspace: WorkspaceRef<'_>, stream: Stream<'_>) -> Result<(), ExecError> {
        if self.device.is_only() {
            self.device.usable()?;
            return self.run(*arguments, workspace.as_ptr(), stream);
        }
        let _current = self.device.make_current()?;
        self.run(*arguments, workspace.as_ptr(), stream)
    }
}
