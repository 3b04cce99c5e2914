//! The private library's functions, by their public names.

use hipplan_miopen_abi::table::WrapperEntry;
use hipplan_miopen_abi::types::*;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

macro_rules! private {
    ($($name:ident($($argument:ident: $ty:ty),*) -> $result:ty;)*) => {
        /// The functions; one that the library does not have is `None`.
        #[derive(Debug, Default)]
        #[expect(non_snake_case, reason = "the names are MIOpen's")]
        pub struct Private {
            $(
                #[doc = concat!("`", stringify!($name), "`.")]
                pub $name: Option<unsafe extern "C" fn($($argument: $ty),*) -> $result>,
            )*
        }

        impl Private {
            /// Takes what it knows out of a wrapper's table.
            ///
            /// # Safety
            /// The names are NUL-terminated, and the implementations are MIOpen's functions of those names.
            pub unsafe fn from_entries(entries: &[WrapperEntry]) -> Self {
                let mut private = Self::default();
                for entry in entries {
                    // SAFETY: the caller's promise.
                    let name = unsafe { CStr::from_ptr(entry.name) };
                    match name.to_bytes() {
                        $(
                            name if name == stringify!($name).as_bytes() => {
                                // SAFETY: the caller's promise; null is None.
                                private.$name = unsafe { std::mem::transmute::<*const c_void, Option<unsafe extern "C" fn($($argument: $ty),*) -> $result>>(entry.implementation) };
                            }
                        )*
                        _ => {}
                    }
                }
                private
            }
        }
    };
}

private! {
    miopenCreate(handle: *mut Handle) -> c_int;
    miopenCreateWithStream(handle: *mut Handle, stream: AcceleratorQueue) -> c_int;
    miopenDestroy(handle: Handle) -> c_int;
    miopenEnableProfiling(handle: Handle, enable: u8) -> c_int;
    miopenGetKernelTime(handle: Handle, time: *mut f32) -> c_int;
    miopenGetErrorString(error: c_int) -> *const c_char;
    miopenGetSolverIdConvAlgorithm(solver_id: u64, result: *mut Enum) -> c_int;
    miopenSet4dTensorDescriptor(descriptor: TensorDescriptor, data_type: Enum, n: c_int, c: c_int, h: c_int, w: c_int) -> c_int;
    miopenSet4dTensorDescriptorEx(descriptor: TensorDescriptor, data_type: Enum, n: c_int, c: c_int, h: c_int, w: c_int, n_stride: c_int, c_stride: c_int, h_stride: c_int, w_stride: c_int) -> c_int;
    miopenSetNdTensorDescriptorWithLayout(descriptor: TensorDescriptor, data_type: Enum, layout: Enum, dims: *const c_int, count: c_int) -> c_int;
    miopenSetTensorDescriptor(descriptor: TensorDescriptor, data_type: Enum, count: c_int, dims: *const c_int, strides: *const c_int) -> c_int;
    miopenSetTensorDescriptorV2(descriptor: TensorDescriptor, data_type: Enum, count: c_int, dims: *const usize, strides: *const usize) -> c_int;
    miopenSetTensorCastType(descriptor: TensorDescriptor, cast_type: Enum) -> c_int;
    miopenDestroyTensorDescriptor(descriptor: TensorDescriptor) -> c_int;
    miopenInitConvolutionDescriptor(descriptor: ConvolutionDescriptor, mode: Enum, pad_h: c_int, pad_w: c_int, stride_h: c_int, stride_w: c_int, dilation_h: c_int, dilation_w: c_int) -> c_int;
    miopenInitConvolutionNdDescriptor(descriptor: ConvolutionDescriptor, spatial: c_int, pads: *const c_int, strides: *const c_int, dilations: *const c_int, mode: Enum) -> c_int;
    miopenSetTransposeConvOutputPadding(descriptor: ConvolutionDescriptor, h: c_int, w: c_int) -> c_int;
    miopenSetTransposeConvNdOutputPadding(descriptor: ConvolutionDescriptor, spatial: c_int, paddings: *const c_int) -> c_int;
    miopenDestroyConvolutionDescriptor(descriptor: ConvolutionDescriptor) -> c_int;
}

static PRIVATE: OnceLock<Private> = OnceLock::new();

/// Keeps the functions of the first table.
///
/// # Safety
/// As [`Private::from_entries`].
pub unsafe fn init(entries: &[WrapperEntry]) -> &'static Private {
    // SAFETY: the caller's promise.
    PRIVATE.get_or_init(|| unsafe { Private::from_entries(entries) })
}

/// The functions; before a wrapper has attached, none.
pub fn get() -> &'static Private {
    static NONE: OnceLock<Private> = OnceLock::new();
    PRIVATE.get().unwrap_or_else(|| NONE.get_or_init(Private::default))
}
