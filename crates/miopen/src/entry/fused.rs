//! `miopenConvolutionBiasActivationForward`: `relu(alpha1 * conv(x, w) + alpha2 * z + bias)`.
//!
//! No query goes before it, so the first call of a problem decides and loads, unless its stream is being captured: then MIOpen answers, and
//! nothing is pinned. Loading takes as long as a query's would, once, within an execute call; nothing is ever compiled there, whatever the miss
//! policy. As nobody asks how much workspace it needs, only plans that need none are taken: with others, the problem is MIOpen's. Null scalars
//! mean 1, as MIOpen has it.
//!
//! MIOpen's own line of the command log is not printed: it has none for this call.
#![expect(non_snake_case, reason = "the name is MIOpen's")]

use super::guard;
use crate::answer::{FusedScalars, Memory, answered};
use crate::counters::Decline;
use crate::decide;
use crate::handles;
use crate::problem::{Descriptors, Kind, Layout, NoKey, ProblemKey, read_bias, read_tensor};
use crate::routing::EntryPoint;
use bytemuck::Zeroable;
use hipplan_miopen_abi::status::{self, Status};
use hipplan_miopen_abi::types::{ActivationDescriptor, ConvolutionDescriptor, Enum, Handle, TensorDescriptor, activation_mode};
use hipplan_serialize::ConvDirection;
use std::ffi::c_void;

const POINT: EntryPoint = EntryPoint::miopenConvolutionBiasActivationForward;

/// Runs the plan, if there is one.
///
/// # Safety
/// As MIOpen's.
pub unsafe extern "C" fn miopenConvolutionBiasActivationForward(
    handle: Handle,
    alpha1: *const c_void,
    x: TensorDescriptor,
    x_memory: *const c_void,
    w: TensorDescriptor,
    w_memory: *const c_void,
    conv: ConvolutionDescriptor,
    algorithm: Enum,
    workspace: *mut c_void,
    workspace_size: usize,
    alpha2: *const c_void,
    z: TensorDescriptor,
    z_memory: *const c_void,
    bias: TensorDescriptor,
    bias_memory: *const c_void,
    activation: ActivationDescriptor,
    y: TensorDescriptor,
    y_memory: *mut c_void,
) -> Status {
    guard(POINT, || {
        // SAFETY: MIOpen reads floats here, whatever the tensors' type.
        let scalar = |pointer: *const c_void| if pointer.is_null() { 1.0 } else { unsafe { pointer.cast::<f32>().read_unaligned() } };
        let scalars = FusedScalars::new(f64::from(scalar(alpha1)), f64::from(scalar(alpha2)));
        let objects = Descriptors { handle, x, w, y, conv };
        // SAFETY: the caller's objects.
        let answer = match unsafe { key(&objects, scalars, z, bias, activation) } {
            // SAFETY: the handle was read.
            Ok(key) => unsafe { decide::first_call(POINT, handle, &key, 0) },
            Err(no_key) => decide::without_key(POINT, no_key),
        };
        let memory = Memory { x: x_memory.cast_mut(), w: w_memory.cast_mut(), y: y_memory };
        let (z_given, bias_given) = (z_memory.cast_mut(), bias_memory.cast_mut());
        answered(
            POINT,
            answer,
            // SAFETY: the caller's memory.
            |ours| unsafe { ours.fused(handle, memory, z_given, bias_given, scalars.unwrap_or_default()) },
            || {
                handles::native_call(handle);
                native!(miopenConvolutionBiasActivationForward(
                    handle,
                    alpha1,
                    x,
                    x_memory,
                    w,
                    w_memory,
                    conv,
                    algorithm,
                    workspace,
                    workspace_size,
                    alpha2,
                    z,
                    z_memory,
                    bias,
                    bias_memory,
                    activation,
                    y,
                    y_memory,
                ))
            },
        )
    })
}

/// The key of the problem with what is behind its sums.
///
/// # Safety
/// The objects are null or alive.
unsafe fn key(
    objects: &Descriptors,
    scalars: Option<FusedScalars>,
    z: TensorDescriptor,
    bias: TensorDescriptor,
    activation: ActivationDescriptor,
) -> Result<ProblemKey, NoKey> {
    if activation.is_null() {
        return Err(NoKey::Null("activation descriptor"));
    }
    let (mut mode, mut parameters) = (0, [0.0_f64; 3]);
    let [a, b, c] = &mut parameters;
    match native!(miopenGetActivationDescriptor(activation, &raw mut mode, &raw mut *a, &raw mut *b, &raw mut *c)) {
        status::SUCCESS => {}
        status => return Err(NoKey::Status(status)),
    }
    if mode != activation_mode::RELU {
        return Err(NoKey::Declined(Decline::Activation));
    }
    // SAFETY: the caller's promise.
    let mut key = unsafe { objects.read(ConvDirection::Forward) }?;
    let scalars = scalars.ok_or(NoKey::Declined(Decline::Operands))?;
    // SAFETY: the caller's promise.
    unsafe { read_bias(bias, key.dtypes[2], &key.tensors[2], key.spatial) }?;
    key.set_kind(Kind::Fused { scale: scalars.scale != 1.0, added: scalars.added, scale_after: scalars.scale_after != 1.0 });
    if scalars.added {
        let (mut dtype, mut layout) = (0, Layout::zeroed());
        // SAFETY: the caller's promise.
        unsafe { read_tensor(z, &mut dtype, &mut layout) }?;
        if dtype != key.dtypes[2] || layout.dims != key.tensors[2].dims {
            return Err(NoKey::Declined(Decline::Operands));
        }
        key.added_strides = layout.strides;
    }
    Ok(key)
}
