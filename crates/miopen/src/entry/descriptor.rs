//! Setters and destroyers of descriptors: MIOpen does the work, and what no getter tells is noted in [`observe`].
#![expect(non_snake_case, reason = "the names are MIOpen's")]

use super::{guard, watch};
use crate::observe::{self, MAX_RANK, TensorNote, Wide};
use crate::routing::EntryPoint;
use hipplan_miopen_abi::status::{SUCCESS, Status};
use hipplan_miopen_abi::types::{ConvolutionDescriptor, Enum, TensorDescriptor, tensor_layout as layouts};
use std::ffi::c_int;
use std::slice;

/// Elements of one dimension or between two of its neighbours.
type Extents<'a> = &'a mut dyn Iterator<Item = u64>;

/// An array of the caller's that MIOpen has read already, so that it is there; longer ones than any descriptor are not looked at.
///
/// # Safety
/// `values` is null or has `count` elements.
unsafe fn array<'a, T>(values: *const T, count: c_int) -> Option<&'a [T]> {
    let count = usize::try_from(count).ok().filter(|&count| count <= MAX_RANK)?;
    // SAFETY: the caller's promise.
    (!values.is_null()).then(|| unsafe { slice::from_raw_parts(values, count) })
}

/// Dimensions and strides, if MIOpen's getter would cut one of them. Without strides they are packed, `order` from the outermost
/// dimension inwards.
fn wide(dims: Extents<'_>, strides: Option<Extents<'_>>, channels_last: bool) -> Option<Wide> {
    let mut wide = Wide { rank: 0, dims: [0; MAX_RANK], strides: [0; MAX_RANK] };
    for (place, dim) in wide.dims.iter_mut().zip(dims) {
        *place = dim;
        wide.rank += 1;
    }
    let rank = wide.rank;
    match strides {
        Some(strides) => wide.strides.iter_mut().zip(strides).for_each(|(place, stride)| *place = stride),
        None => {
            let mut stride = 1_u64;
            let channel = (channels_last && rank > 2).then_some(1);
            for at in channel.into_iter().chain((0..rank).rev().filter(|&at| Some(at) != channel)) {
                wide.strides[at] = stride;
                stride = stride.saturating_mul(wide.dims[at]);
            }
        }
    }
    let cut = |value: &u64| i32::try_from(*value).is_err();
    (wide.dims.iter().any(cut) || wide.strides.iter().any(cut)).then_some(wide)
}

fn noted(status: Status, descriptor: TensorDescriptor, note: impl FnOnce() -> TensorNote) -> Status {
    if status == SUCCESS {
        observe::set_tensor(descriptor, note());
    }
    status
}

/// The tensor's type, where the getters tell it.
fn data_type(descriptor: TensorDescriptor) -> Option<Enum> {
    let mut rank = 0;
    let status = native!(miopenGetTensorDescriptorSize(descriptor, &raw mut rank));
    // The getter writes as many numbers as the tensor has dimensions.
    if status != SUCCESS || usize::try_from(rank).map_or(true, |rank| rank > MAX_RANK) {
        return None;
    }
    let (mut dtype, mut dims, mut strides) = (0, [0_i32; MAX_RANK], [0_i32; MAX_RANK]);
    let status = native!(miopenGetTensorDescriptor(descriptor, &raw mut dtype, dims.as_mut_ptr(), strides.as_mut_ptr()));
    (status == SUCCESS).then_some(dtype)
}

/// The getters tell all of it.
fn plain(status: Status, descriptor: TensorDescriptor) -> Status {
    if status == SUCCESS {
        observe::forget_tensor(descriptor);
    }
    status
}

/// A dimension; MIOpen refuses negative ones.
fn extent(value: c_int) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

/// Packed NCHW.
///
/// # Safety
/// As MIOpen's.
pub unsafe extern "C" fn miopenSet4dTensorDescriptor(
    descriptor: TensorDescriptor,
    data_type: Enum,
    n: c_int,
    c: c_int,
    h: c_int,
    w: c_int,
) -> Status {
    watch(EntryPoint::miopenSet4dTensorDescriptor, || {
        let status = native!(miopenSet4dTensorDescriptor(descriptor, data_type, n, c, h, w));
        noted(status, descriptor, || TensorNote {
            wide: wide(&mut [n, c, h, w].into_iter().map(extent), None, false),
            ..TensorNote::default()
        })
    })
}

/// 32-bit strides: the getter tells them all.
///
/// # Safety
/// As MIOpen's.
pub unsafe extern "C" fn miopenSet4dTensorDescriptorEx(
    descriptor: TensorDescriptor,
    data_type: Enum,
    n: c_int,
    c: c_int,
    h: c_int,
    w: c_int,
    n_stride: c_int,
    c_stride: c_int,
    h_stride: c_int,
    w_stride: c_int,
) -> Status {
    watch(EntryPoint::miopenSet4dTensorDescriptorEx, || {
        let status = native!(miopenSet4dTensorDescriptorEx(descriptor, data_type, n, c, h, w, n_stride, c_stride, h_stride, w_stride));
        plain(status, descriptor)
    })
}

/// A layout by name. Vectorised ones and CHWN look like something else to the getter.
///
/// # Safety
/// As MIOpen's.
pub unsafe extern "C" fn miopenSetNdTensorDescriptorWithLayout(
    descriptor: TensorDescriptor,
    data_type: Enum,
    layout: Enum,
    dims: *const c_int,
    count: c_int,
) -> Status {
    watch(EntryPoint::miopenSetNdTensorDescriptorWithLayout, || {
        let status = native!(miopenSetNdTensorDescriptorWithLayout(descriptor, data_type, layout, dims, count));
        noted(status, descriptor, || {
            let plain = matches!(layout, layouts::NCHW | layouts::NHWC | layouts::NCDHW | layouts::NDHWC);
            let channels_last = matches!(layout, layouts::NHWC | layouts::NDHWC);
            // SAFETY: MIOpen has read the array.
            let dims = unsafe { array(dims, count) };
            TensorNote {
                layout: (!plain).then_some(layout),
                wide: dims.and_then(|dims| wide(&mut dims.iter().map(|&dim| extent(dim)), None, channels_last)),
                ..TensorNote::default()
            }
        })
    })
}

/// 32-bit dimensions and strides; without strides it is packed.
///
/// # Safety
/// As MIOpen's.
pub unsafe extern "C" fn miopenSetTensorDescriptor(
    descriptor: TensorDescriptor,
    data_type: Enum,
    count: c_int,
    dims: *const c_int,
    strides: *const c_int,
) -> Status {
    watch(EntryPoint::miopenSetTensorDescriptor, || {
        let status = native!(miopenSetTensorDescriptor(descriptor, data_type, count, dims, strides));
        if !strides.is_null() {
            return plain(status, descriptor);
        }
        noted(status, descriptor, || {
            // SAFETY: MIOpen has read the array.
            let dims = unsafe { array(dims, count) };
            let wide = dims.and_then(|dims| wide(&mut dims.iter().map(|&dim| extent(dim)), None, false));
            TensorNote { wide, ..TensorNote::default() }
        })
    })
}

/// Dimensions and strides that the getter may cut to 32 bits.
///
/// # Safety
/// As MIOpen's.
pub unsafe extern "C" fn miopenSetTensorDescriptorV2(
    descriptor: TensorDescriptor,
    data_type: Enum,
    count: c_int,
    dims: *const usize,
    strides: *const usize,
) -> Status {
    watch(EntryPoint::miopenSetTensorDescriptorV2, || {
        let status = native!(miopenSetTensorDescriptorV2(descriptor, data_type, count, dims, strides));
        noted(status, descriptor, || {
            // SAFETY: MIOpen has read the arrays.
            let (dims, strides) = unsafe { (array(dims, count), array(strides, count)) };
            let wide = dims.and_then(|dims| {
                let mut strides = strides.map(|strides| strides.iter().map(|&stride| stride as u64));
                wide(&mut dims.iter().map(|&dim| dim as u64), strides.as_mut().map(|strides| strides as Extents<'_>), false)
            });
            TensorNote { wide, ..TensorNote::default() }
        })
    })
}

/// No getter tells it.
///
/// # Safety
/// As MIOpen's.
pub unsafe extern "C" fn miopenSetTensorCastType(descriptor: TensorDescriptor, cast_type: Enum) -> Status {
    watch(EntryPoint::miopenSetTensorCastType, || {
        let status = native!(miopenSetTensorCastType(descriptor, cast_type));
        if status == SUCCESS {
            observe::set_cast_type(descriptor, Some(cast_type).filter(|&cast| data_type(descriptor) != Some(cast)));
        }
        status
    })
}

/// Its address may come back.
///
/// # Safety
/// As MIOpen's.
pub unsafe extern "C" fn miopenDestroyTensorDescriptor(descriptor: TensorDescriptor) -> Status {
    guard(EntryPoint::miopenDestroyTensorDescriptor, || {
        observe::forget_tensor(descriptor);
        native!(miopenDestroyTensorDescriptor(descriptor))
    })
}

/// Sets the output padding to 0.
///
/// # Safety
/// As MIOpen's.
pub unsafe extern "C" fn miopenInitConvolutionDescriptor(
    descriptor: ConvolutionDescriptor,
    mode: Enum,
    pad_h: c_int,
    pad_w: c_int,
    stride_h: c_int,
    stride_w: c_int,
    dilation_h: c_int,
    dilation_w: c_int,
) -> Status {
    watch(EntryPoint::miopenInitConvolutionDescriptor, || {
        let status = native!(miopenInitConvolutionDescriptor(descriptor, mode, pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w));
        if status == SUCCESS {
            observe::forget_conv(descriptor);
        }
        status
    })
}

/// Sets the output padding to 0.
///
/// # Safety
/// As MIOpen's.
pub unsafe extern "C" fn miopenInitConvolutionNdDescriptor(
    descriptor: ConvolutionDescriptor,
    spatial: c_int,
    pads: *const c_int,
    strides: *const c_int,
    dilations: *const c_int,
    mode: Enum,
) -> Status {
    watch(EntryPoint::miopenInitConvolutionNdDescriptor, || {
        let status = native!(miopenInitConvolutionNdDescriptor(descriptor, spatial, pads, strides, dilations, mode));
        if status == SUCCESS {
            observe::forget_conv(descriptor);
        }
        status
    })
}

/// No getter tells it.
///
/// # Safety
/// As MIOpen's.
pub unsafe extern "C" fn miopenSetTransposeConvOutputPadding(descriptor: ConvolutionDescriptor, h: c_int, w: c_int) -> Status {
    watch(EntryPoint::miopenSetTransposeConvOutputPadding, || {
        let status = native!(miopenSetTransposeConvOutputPadding(descriptor, h, w));
        if status == SUCCESS {
            observe::set_output_padding(descriptor, &[h, w]);
        }
        status
    })
}

/// No getter tells it.
///
/// # Safety
/// As MIOpen's.
pub unsafe extern "C" fn miopenSetTransposeConvNdOutputPadding(
    descriptor: ConvolutionDescriptor,
    spatial: c_int,
    paddings: *const c_int,
) -> Status {
    watch(EntryPoint::miopenSetTransposeConvNdOutputPadding, || {
        let status = native!(miopenSetTransposeConvNdOutputPadding(descriptor, spatial, paddings));
        if status == SUCCESS
            // SAFETY: MIOpen has read the array.
            && let Some(paddings) = unsafe { array(paddings, spatial) }
        {
            observe::set_output_padding(descriptor, paddings);
        }
        status
    })
}

/// Its address may come back.
///
/// # Safety
/// As MIOpen's.
pub unsafe extern "C" fn miopenDestroyConvolutionDescriptor(descriptor: ConvolutionDescriptor) -> Status {
    guard(EntryPoint::miopenDestroyConvolutionDescriptor, || {
        observe::forget_conv(descriptor);
        native!(miopenDestroyConvolutionDescriptor(descriptor))
    })
}
