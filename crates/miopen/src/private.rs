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

    miopenGetStream(handle: Handle, stream: *mut AcceleratorQueue) -> c_int;
    miopenGetTensorDescriptorSize(tensor: TensorDescriptor, rank: *mut c_int) -> c_int;
    miopenGetTensorDescriptor(tensor: TensorDescriptor, dtype: *mut Enum, dims: *mut c_int, strides: *mut c_int) -> c_int;
    miopenGetConvolutionSpatialDim(conv: ConvolutionDescriptor, spatial: *mut c_int) -> c_int;
    miopenGetConvolutionNdDescriptor(conv: ConvolutionDescriptor, requested: c_int, spatial: *mut c_int, pads: *mut c_int, strides: *mut c_int, dilations: *mut c_int, mode: *mut Enum) -> c_int;
    miopenGetConvolutionGroupCount(conv: ConvolutionDescriptor, groups: *mut c_int) -> c_int;
    miopenGetConvolutionAttribute(conv: ConvolutionDescriptor, attribute: Enum, value: *mut c_int) -> c_int;
    miopenGetActivationDescriptor(activation: ActivationDescriptor, mode: *mut Enum, alpha: *mut f64, beta: *mut f64, gamma: *mut f64) -> c_int;
    miopenConvolutionForwardGetWorkSpaceSize(handle: Handle, w: TensorDescriptor, x: TensorDescriptor, conv: ConvolutionDescriptor, y: TensorDescriptor, size: *mut usize) -> c_int;
    miopenConvolutionBackwardDataGetWorkSpaceSize(handle: Handle, dy: TensorDescriptor, w: TensorDescriptor, conv: ConvolutionDescriptor, dx: TensorDescriptor, size: *mut usize) -> c_int;
    miopenConvolutionBackwardWeightsGetWorkSpaceSize(handle: Handle, dy: TensorDescriptor, x: TensorDescriptor, conv: ConvolutionDescriptor, dw: TensorDescriptor, size: *mut usize) -> c_int;
    miopenFindConvolutionForwardAlgorithm(handle: Handle, x_desc: TensorDescriptor, x: *const c_void, w_desc: TensorDescriptor, w: *const c_void, conv: ConvolutionDescriptor, y_desc: TensorDescriptor, y: *mut c_void, requested: c_int, returned: *mut c_int, results: *mut ConvAlgoPerf, workspace: *mut c_void, workspace_size: usize, exhaustive: u8) -> c_int;
    miopenFindConvolutionBackwardDataAlgorithm(handle: Handle, dy_desc: TensorDescriptor, dy: *const c_void, w_desc: TensorDescriptor, w: *const c_void, conv: ConvolutionDescriptor, dx_desc: TensorDescriptor, dx: *mut c_void, requested: c_int, returned: *mut c_int, results: *mut ConvAlgoPerf, workspace: *mut c_void, workspace_size: usize, exhaustive: u8) -> c_int;
    miopenFindConvolutionBackwardWeightsAlgorithm(handle: Handle, dy_desc: TensorDescriptor, dy: *const c_void, x_desc: TensorDescriptor, x: *const c_void, conv: ConvolutionDescriptor, dw_desc: TensorDescriptor, dw: *mut c_void, requested: c_int, returned: *mut c_int, results: *mut ConvAlgoPerf, workspace: *mut c_void, workspace_size: usize, exhaustive: u8) -> c_int;
    miopenConvolutionForward(handle: Handle, alpha: *const c_void, x_desc: TensorDescriptor, x: *const c_void, w_desc: TensorDescriptor, w: *const c_void, conv: ConvolutionDescriptor, algorithm: Enum, beta: *const c_void, y_desc: TensorDescriptor, y: *mut c_void, workspace: *mut c_void, workspace_size: usize) -> c_int;
    miopenConvolutionBackwardData(handle: Handle, alpha: *const c_void, dy_desc: TensorDescriptor, dy: *const c_void, w_desc: TensorDescriptor, w: *const c_void, conv: ConvolutionDescriptor, algorithm: Enum, beta: *const c_void, dx_desc: TensorDescriptor, dx: *mut c_void, workspace: *mut c_void, workspace_size: usize) -> c_int;
    miopenConvolutionBackwardWeights(handle: Handle, alpha: *const c_void, dy_desc: TensorDescriptor, dy: *const c_void, x_desc: TensorDescriptor, x: *const c_void, conv: ConvolutionDescriptor, algorithm: Enum, beta: *const c_void, dw_desc: TensorDescriptor, dw: *mut c_void, workspace: *mut c_void, workspace_size: usize) -> c_int;
    miopenConvolutionForwardGetSolutionCount(handle: Handle, w: TensorDescriptor, x: TensorDescriptor, conv: ConvolutionDescriptor, y: TensorDescriptor, count: *mut usize) -> c_int;
    miopenConvolutionBackwardDataGetSolutionCount(handle: Handle, dy: TensorDescriptor, w: TensorDescriptor, conv: ConvolutionDescriptor, dx: TensorDescriptor, count: *mut usize) -> c_int;
    miopenConvolutionBackwardWeightsGetSolutionCount(handle: Handle, dy: TensorDescriptor, x: TensorDescriptor, conv: ConvolutionDescriptor, dw: TensorDescriptor, count: *mut usize) -> c_int;
    miopenConvolutionForwardGetSolution(handle: Handle, w: TensorDescriptor, x: TensorDescriptor, conv: ConvolutionDescriptor, y: TensorDescriptor, most: usize, count: *mut usize, solutions: *mut ConvSolution) -> c_int;
    miopenConvolutionBackwardDataGetSolution(handle: Handle, dy: TensorDescriptor, w: TensorDescriptor, conv: ConvolutionDescriptor, dx: TensorDescriptor, most: usize, count: *mut usize, solutions: *mut ConvSolution) -> c_int;
    miopenConvolutionBackwardWeightsGetSolution(handle: Handle, dy: TensorDescriptor, x: TensorDescriptor, conv: ConvolutionDescriptor, dw: TensorDescriptor, most: usize, count: *mut usize, solutions: *mut ConvSolution) -> c_int;
    miopenConvolutionForwardGetSolutionWorkspaceSize(handle: Handle, w: TensorDescriptor, x: TensorDescriptor, conv: ConvolutionDescriptor, y: TensorDescriptor, solution: u64, size: *mut usize) -> c_int;
    miopenConvolutionBackwardDataGetSolutionWorkspaceSize(handle: Handle, dy: TensorDescriptor, w: TensorDescriptor, conv: ConvolutionDescriptor, dx: TensorDescriptor, solution: u64, size: *mut usize) -> c_int;
    miopenConvolutionBackwardWeightsGetSolutionWorkspaceSize(handle: Handle, dy: TensorDescriptor, x: TensorDescriptor, conv: ConvolutionDescriptor, dw: TensorDescriptor, solution: u64, size: *mut usize) -> c_int;
    miopenConvolutionForwardCompileSolution(handle: Handle, w: TensorDescriptor, x: TensorDescriptor, conv: ConvolutionDescriptor, y: TensorDescriptor, solution: u64) -> c_int;
    miopenConvolutionBackwardDataCompileSolution(handle: Handle, dy: TensorDescriptor, w: TensorDescriptor, conv: ConvolutionDescriptor, dx: TensorDescriptor, solution: u64) -> c_int;
    miopenConvolutionBackwardWeightsCompileSolution(handle: Handle, dy: TensorDescriptor, x: TensorDescriptor, conv: ConvolutionDescriptor, dw: TensorDescriptor, solution: u64) -> c_int;
    miopenConvolutionForwardImmediate(handle: Handle, w_desc: TensorDescriptor, w: *const c_void, x_desc: TensorDescriptor, x: *const c_void, conv: ConvolutionDescriptor, y_desc: TensorDescriptor, y: *mut c_void, workspace: *mut c_void, workspace_size: usize, solution: u64) -> c_int;
    miopenConvolutionBackwardDataImmediate(handle: Handle, dy_desc: TensorDescriptor, dy: *const c_void, w_desc: TensorDescriptor, w: *const c_void, conv: ConvolutionDescriptor, dx_desc: TensorDescriptor, dx: *mut c_void, workspace: *mut c_void, workspace_size: usize, solution: u64) -> c_int;
    miopenConvolutionBackwardWeightsImmediate(handle: Handle, dy_desc: TensorDescriptor, dy: *const c_void, x_desc: TensorDescriptor, x: *const c_void, conv: ConvolutionDescriptor, dw_desc: TensorDescriptor, dw: *mut c_void, workspace: *mut c_void, workspace_size: usize, solution: u64) -> c_int;
    miopenConvolutionForwardBias(handle: Handle, alpha: *const c_void, b_desc: TensorDescriptor, b: *const c_void, beta: *const c_void, y_desc: TensorDescriptor, y: *mut c_void) -> c_int;
    miopenConvolutionBackwardBias(handle: Handle, alpha: *const c_void, dy_desc: TensorDescriptor, dy: *const c_void, beta: *const c_void, db_desc: TensorDescriptor, db: *mut c_void) -> c_int;
    miopenConvolutionBiasActivationForward(handle: Handle, alpha1: *const c_void, x_desc: TensorDescriptor, x: *const c_void, w_desc: TensorDescriptor, w: *const c_void, conv: ConvolutionDescriptor, algorithm: Enum, workspace: *mut c_void, workspace_size: usize, alpha2: *const c_void, z_desc: TensorDescriptor, z: *const c_void, bias_desc: TensorDescriptor, bias: *const c_void, activation: ActivationDescriptor, y_desc: TensorDescriptor, y: *mut c_void) -> c_int;
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
