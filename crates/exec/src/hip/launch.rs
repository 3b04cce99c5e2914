//! The launch of a kernel.

use super::code::HipCode;
use super::module::Function;
use super::runtime::Shared;
use std::ffi::c_void;

/// `HIP_LAUNCH_PARAM_BUFFER_POINTER`, `HIP_LAUNCH_PARAM_BUFFER_SIZE` and `HIP_LAUNCH_PARAM_END`, the same since HIP 4.
const BUFFER_POINTER: *mut c_void = std::ptr::without_provenance_mut(1);
const BUFFER_SIZE: *mut c_void = std::ptr::without_provenance_mut(2);
const END: *mut c_void = std::ptr::without_provenance_mut(3);

/// Puts a kernel on a stream. HIP has copied the kernarg when this returns.
///
/// # Safety
/// * `function` belongs to a module that is loaded on the current device, and `stream` to the device.
/// * `kernarg` starts with the kernel's argument, of so many bytes; what the kernel does with it and on such a grid stays within memory
///   that nothing else accesses until it has finished.
#[inline]
pub(super) unsafe fn launch(
    runtime: &Shared,
    function: Function,
    [grid_x, grid_y, grid_z]: [u32; 3],
    block: u32,
    kernarg: &mut [u64],
    kernarg_bytes: usize,
    stream: *mut c_void,
) -> HipCode {
    let mut bytes = kernarg_bytes;
    let mut extra = [BUFFER_POINTER, kernarg.as_mut_ptr().cast(), BUFFER_SIZE, (&raw mut bytes).cast(), END];
    let parameters = std::ptr::null_mut();
    let launch = runtime.symbols.hipModuleLaunchKernel;
    // SAFETY: the caller vouches for function, grid and stream; the list says where the kernarg is and how many bytes it has, and both
    // outlive the call.
    unsafe { launch(function.0, grid_x, grid_y, grid_z, block, 1, 1, 0, stream, parameters, extra.as_mut_ptr()) }
}
