//! `miopenConvolutionForwardBias` and `miopenConvolutionBackwardBias`, where alpha is 1 and beta 0.
//!
//! No query goes before them: see [`fused`](super::fused) for what their first call does. MIOpen itself adds `alpha * y + alpha * b +
//! beta * y` in the one and takes no other scalars in the other; both refuse bfloat16. All of that is left to it.
#![expect(non_snake_case, reason = "the names are MIOpen's")]

use super::guard;
use crate::answer::{answered, is_identity};
use crate::counters::Decline;
use crate::decide;
use crate::handles;
use crate::problem::{Kind, NoKey, ProblemKey, read_bias, read_tensor};
use crate::routing::EntryPoint;
use bytemuck::Zeroable;
use hipplan_miopen_abi::status::Status;
use hipplan_miopen_abi::types::{Handle, TensorDescriptor, data_type};
use hipplan_serialize::conv_problem::MAX_SPATIAL;
use std::ffi::c_void;

/// `y = y + b`.
///
/// # Safety
/// As MIOpen's.
pub unsafe extern "C" fn miopenConvolutionForwardBias(
    handle: Handle,
    alpha: *const c_void,
    b: TensorDescriptor,
    b_memory: *const c_void,
    beta: *const c_void,
    y: TensorDescriptor,
    y_memory: *mut c_void,
) -> Status {
    const POINT: EntryPoint = EntryPoint::miopenConvolutionForwardBias;
    guard(POINT, || {
        // SAFETY: the caller's objects and scalars.
        let answer = match unsafe { key(Kind::ForwardBias, handle, [alpha, beta], b, y) } {
            // SAFETY: the caller's handle, which is not null.
            Ok(key) => unsafe { decide::first_call(POINT, handle, &key, 0) },
            Err(no_key) => decide::without_key(POINT, no_key),
        };
        answered(
            POINT,
            answer,
            // SAFETY: the caller's memory.
            |ours| unsafe { ours.forward_bias(handle, b_memory.cast_mut(), y_memory) },
            || {
                handles::native_call(handle);
                native!(miopenConvolutionForwardBias(handle, alpha, b, b_memory, beta, y, y_memory))
            },
        )
    })
}

/// `db = sum of dy` over batch and space.
///
/// # Safety
/// As MIOpen's.
pub unsafe extern "C" fn miopenConvolutionBackwardBias(
    handle: Handle,
    alpha: *const c_void,
    dy: TensorDescriptor,
    dy_memory: *const c_void,
    beta: *const c_void,
    db: TensorDescriptor,
    db_memory: *mut c_void,
) -> Status {
    const POINT: EntryPoint = EntryPoint::miopenConvolutionBackwardBias;
    guard(POINT, || {
        // SAFETY: the caller's objects and scalars.
        let answer = match unsafe { key(Kind::BackwardBias, handle, [alpha, beta], db, dy) } {
            // SAFETY: the caller's handle, which is not null.
            Ok(key) => unsafe { decide::first_call(POINT, handle, &key, 0) },
            Err(no_key) => decide::without_key(POINT, no_key),
        };
        answered(
            POINT,
            answer,
            // SAFETY: the caller's memory.
            |ours| unsafe { ours.backward_bias(handle, dy_memory.cast_mut(), db_memory) },
            || {
                handles::native_call(handle);
                native!(miopenConvolutionBackwardBias(handle, alpha, dy, dy_memory, beta, db, db_memory))
            },
        )
    })
}

/// The key of a bias and its tensor, which stands for `y`.
///
/// # Safety
/// The objects are null or alive, the scalars null or of MIOpen's type for the tensor.
unsafe fn key(
    kind: Kind,
    handle: Handle,
    [alpha, beta]: [*const c_void; 2],
    bias: TensorDescriptor,
    tensor: TensorDescriptor,
) -> Result<ProblemKey, NoKey> {
    if handle.is_null() {
        return Err(NoKey::Null("handle"));
    }
    if alpha.is_null() || beta.is_null() {
        return Err(NoKey::Null("scalar alpha or beta"));
    }
    let mut key = ProblemKey::zeroed();
    key.set_kind(kind);
    // SAFETY: the caller's promise.
    let rank = unsafe { read_tensor(tensor, &mut key.dtypes[2], &mut key.tensors[2]) }?;
    let spatial = u8::try_from(rank - 2).ok().filter(|&spatial| (1..=MAX_SPATIAL).contains(&usize::from(spatial)));
    key.spatial = spatial.ok_or(NoKey::Declined(Decline::Rank))?;
    // SAFETY: the caller's promise.
    unsafe { read_bias(bias, key.dtypes[2], &key.tensors[2], key.spatial) }?;
    // SAFETY: the caller's promise.
    if key.dtypes[2] == data_type::BFLOAT16 || !unsafe { is_identity(alpha, beta, key.dtypes[2]) } {
        return Err(NoKey::Declined(Decline::Operands));
    }
    key.device = handles::device(handle);
    Ok(key)
}
