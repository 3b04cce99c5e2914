//! MIOpen's objects, value structs and enumerations as they cross the C boundary.
//!
//! Objects are pointers to something opaque, enumerations are plain numbers: whatever a C program passes is a legal value here.

use std::ffi::{c_int, c_void};
use std::mem::{align_of, offset_of, size_of};

macro_rules! objects {
    ($($(#[$doc:meta])* $name:ident = $object:ident;)*) => {$(
        #[doc = concat!("What a [`", stringify!($name), "`] points to; never looked into.")]
        #[repr(C)]
        #[derive(Debug)]
        pub struct $object {
            _opaque: [u8; 0],
        }
        $(#[$doc])*
        pub type $name = *mut $object;
    )*};
}

objects! {
    /// `miopenHandle_t`.
    Handle = HandleObject;
    /// `miopenTensorDescriptor_t`.
    TensorDescriptor = TensorDescriptorObject;
    /// `miopenConvolutionDescriptor_t`.
    ConvolutionDescriptor = ConvolutionDescriptorObject;
    /// `miopenActivationDescriptor_t`.
    ActivationDescriptor = ActivationDescriptorObject;
}

/// `miopenAcceleratorQueue_t`: a `hipStream_t`.
pub type AcceleratorQueue = *mut c_void;
/// Any of MIOpen's enumerations.
pub type Enum = c_int;

/// `miopenConvAlgoPerf_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConvAlgoPerf {
    /// The union of the three algorithm enumerations: [`algorithm`].
    pub algorithm: Enum,
    /// Milliseconds.
    pub time: f32,
    /// Workspace in bytes.
    pub memory: usize,
}

/// `miopenConvSolution_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConvSolution {
    /// Milliseconds; negative for a guess.
    pub time: f32,
    /// Workspace in bytes.
    pub workspace_size: usize,
    /// Which solution.
    pub solution_id: u64,
    /// [`algorithm`].
    pub algorithm: Enum,
}

/// `miopenTensorArgument_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct TensorArgument {
    /// `miopenTensorArgumentId_t`.
    pub id: Enum,
    /// Null: the descriptor of the find.
    pub descriptor: *mut TensorDescriptor,
    /// Device memory.
    pub buffer: *mut c_void,
}

const _: () = {
    assert!(size_of::<ConvAlgoPerf>() == 16 && align_of::<ConvAlgoPerf>() == 8);
    assert!(offset_of!(ConvAlgoPerf, algorithm) == 0 && offset_of!(ConvAlgoPerf, time) == 4 && offset_of!(ConvAlgoPerf, memory) == 8);
    assert!(size_of::<ConvSolution>() == 32 && align_of::<ConvSolution>() == 8);
    assert!(offset_of!(ConvSolution, time) == 0 && offset_of!(ConvSolution, workspace_size) == 8);
    assert!(offset_of!(ConvSolution, solution_id) == 16 && offset_of!(ConvSolution, algorithm) == 24);
    assert!(size_of::<TensorArgument>() == 24 && align_of::<TensorArgument>() == 8);
    assert!(offset_of!(TensorArgument, id) == 0 && offset_of!(TensorArgument, descriptor) == 8 && offset_of!(TensorArgument, buffer) == 16);
};

macro_rules! enumerations {
    ($($(#[$doc:meta])* $module:ident { $($name:ident = $value:literal),* $(,)? })*) => {$(
        $(#[$doc])*
        pub mod $module {
            use super::Enum;
            $(
                #[doc = concat!("The value ", stringify!($value), ".")]
                pub const $name: Enum = $value;
            )*
        }
    )*};
}

enumerations! {
    /// `miopenDataType_t`.
    data_type {
        HALF = 0, FLOAT = 1, INT32 = 2, INT8 = 3, INT8X4 = 4, BFLOAT16 = 5, DOUBLE = 6, FLOAT8_FNUZ = 7, BFLOAT8_FNUZ = 8, INT64 = 9,
    }
    /// `miopenConvolutionMode_t`. Group and depthwise convolution are deprecated and become `CONVOLUTION` in the descriptor.
    convolution_mode { CONVOLUTION = 0, TRANSPOSE = 1, GROUP_CONV = 2, DEPTHWISE = 3 }
    /// `miopenTensorLayout_t`.
    tensor_layout { NCHW = 0, NHWC = 1, CHWN = 2, NCHWC4 = 3, NCHWC8 = 4, CHWNC4 = 5, CHWNC8 = 6, NCDHW = 7, NDHWC = 8 }
    /// The algorithm enumerations of the three directions and of immediate mode, which agree where they overlap.
    algorithm { GEMM = 0, DIRECT = 1, FFT = 2, WINOGRAD = 3, TRANSPOSE_BWD_DATA_GEMM = 4, IMPLICIT_GEMM = 5 }
    /// `miopenConvolutionAttrib_t`.
    convolution_attribute { FP16_ALT_IMPL = 0, DETERMINISTIC = 1, FP8_ROUNDING_MODE = 2, MATH_TYPE = 3 }
    /// `miopenActivationMode_t`.
    activation_mode {
        PASSTHRU = 0, LOGISTIC = 1, TANH = 2, RELU = 3, SOFT_RELU = 4, ABS = 5, POWER = 6, CLIPPED_RELU = 7, LEAKY_RELU = 8, ELU = 9,
        CLAMP = 10,
    }
    /// `miopenConvolutionFindMode_t`.
    find_mode { NORMAL = 1, FAST = 2, HYBRID = 3, DYNAMIC_HYBRID = 5, TRUST_VERIFY = 6, TRUST_VERIFY_FULL = 7 }
}
