//! The flags and the base arguments of MIOpenDriver, as tables.
//!
//! Source: MIOpen 3.3 (October 2024); the flags marked so are newer.

use crate::DataType;

/// What a convolution flag is to the problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Batch,
    Channels,
    Filters,
    In(Axis),
    Tap(Axis),
    Pad(Axis),
    Stride(Axis),
    Dilation(Axis),
    OutputPad(Axis),
    Groups,
    Mode,
    SpatialDim,
    PadMode,
    InLayout,
    OutLayout,
    FilterLayout,
    Vectorised,
    VectorLength,
    Directions,
    Bias,
    InCast,
    OutCast,
    FilterCast,
    /// A file with `dy`; a common mistake for depth.
    GradientFile,
    Help,
    /// Says how the driver runs, not what.
    Run,
}

/// A spatial dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Axis {
    D,
    H,
    W,
}

impl Axis {
    /// The dimensions of a problem, outermost first.
    pub(super) const fn all(spatial: u8) -> &'static [Self] {
        match spatial {
            3 => &[Self::D, Self::H, Self::W],
            _ => &[Self::H, Self::W],
        }
    }
}

/// One flag.
#[derive(Debug)]
pub(super) struct FlagSpec {
    pub(super) field: Field,
    short: &'static [u8],
    pub(super) long: &'static str,
    pub(super) default: &'static str,
    pub(super) meaning: &'static str,
}

impl FlagSpec {
    /// The short name, without its dash; the first if there are two.
    pub(super) fn short(&self) -> char {
        self.short.first().map_or(' ', |&b| char::from(b))
    }
}

const fn flag(field: Field, short: &'static str, long: &'static str, default: &'static str, meaning: &'static str) -> FlagSpec {
    FlagSpec { field, short: short.as_bytes(), long, default, meaning }
}

use Field as F;

/// The flags of the convolution driver.
pub(super) static CONVOLUTION: &[FlagSpec] = &[
    flag(F::Batch, "n", "batchsize", "100", "batch"),
    flag(F::Channels, "c", "in_channels", "3", "input channels"),
    flag(F::Filters, "k", "out_channels", "32", "output channels"),
    flag(F::In(Axis::D), "!", "in_d", "32", "input depth"),
    flag(F::In(Axis::H), "H", "in_h", "32", "input height"),
    flag(F::In(Axis::W), "W", "in_w", "32", "input width"),
    flag(F::Tap(Axis::D), "@", "fil_d", "3", "filter depth"),
    flag(F::Tap(Axis::H), "y", "fil_h", "3", "filter height"),
    flag(F::Tap(Axis::W), "x", "fil_w", "3", "filter width"),
    flag(F::Pad(Axis::D), "$", "pad_d", "0", "padding, depth"),
    flag(F::Pad(Axis::H), "p", "pad_h", "0", "padding, height"),
    flag(F::Pad(Axis::W), "q", "pad_w", "0", "padding, width"),
    flag(F::Stride(Axis::D), "#", "conv_stride_d", "1", "stride, depth"),
    flag(F::Stride(Axis::H), "u", "conv_stride_h", "1", "stride, height"),
    flag(F::Stride(Axis::W), "v", "conv_stride_w", "1", "stride, width"),
    flag(F::Dilation(Axis::D), "^", "dilation_d", "1", "dilation, depth"),
    flag(F::Dilation(Axis::H), "l", "dilation_h", "1", "dilation, height"),
    flag(F::Dilation(Axis::W), "j", "dilation_w", "1", "dilation, width"),
    flag(F::Groups, "g", "group_count", "1", "groups"),
    flag(F::Mode, "m", "mode", "conv", "conv or trans"),
    flag(F::OutputPad(Axis::D), "%", "trans_output_pad_d", "0", "output padding, depth"),
    flag(F::OutputPad(Axis::H), "Y", "trans_output_pad_h", "0", "output padding, height"),
    flag(F::OutputPad(Axis::W), "X", "trans_output_pad_w", "0", "output padding, width"),
    flag(F::SpatialDim, "_", "spatial_dim", "2", "spatial dimensions"),
    flag(F::PadMode, "z", "pad_mode", "default", "same, valid or default"),
    flag(F::InLayout, "I", "in_layout", "", "layout of x"),
    flag(F::FilterLayout, "f", "fil_layout", "", "layout of w"),
    flag(F::OutLayout, "O", "out_layout", "", "layout of y"),
    flag(F::Vectorised, "Z", "tensor_vect", "0", "0 plain, 1 vectorised on channels, 2 on batch"),
    flag(F::VectorLength, "L", "vector_length", "1", "length of the vectors"),
    flag(F::Directions, "F", "forw", "0", "direction bits: 1 fwd, 2 bwd, 4 wrw; 0 all"),
    flag(F::Bias, "b", "bias", "", "add a bias"),
    flag(F::InCast, "U", "in_cast_type", "-1", "cast of x"),
    flag(F::FilterCast, "R", "wei_cast_type", "-1", "cast of w"),
    flag(F::OutCast, "T", "out_cast_type", "-1", "cast of y"),
    flag(F::GradientFile, "D", "dout_data", "", "file with dy"),
    flag(F::Run, "r", "pad_val", "0", "padding value, which the driver does not use"),
    flag(F::Run, "i", "iter", "10", "iterations"),
    flag(F::Run, "t", "time", "0", "kernel times"),
    flag(F::Run, "w", "wall", "0", "wall time"),
    flag(F::Run, "V", "verify", "1", "verification"),
    flag(F::Run, "C", "verification_cache", "", "folder"),
    flag(F::Run, "s", "search", "0", "exhaustive search"),
    flag(F::Run, "S", "solution", "-1", "solution, or find"),
    flag(F::Run, "P", "printconv", "1", "print dimensions"),
    flag(F::Run, "o", "dump_output", "0", "dump buffers"),
    flag(F::Run, "d", "in_data", "", "file with x"),
    flag(F::Run, "e", "weights", "", "file with w"),
    flag(F::Run, "a", "in_bias", "", "file with the bias"),
    flag(F::Run, "G", "gpualloc", "0", "initialise on the GPU"),
    // Newer: 2025 and later.
    flag(F::Run, "~", "gpubuffer_check", "0", "guards around buffers"),
    flag(F::Run, "QJ", "use_hip_graph", "0", "replay by graph capture"),
    flag(F::Help, "h?", "help", "", "print the usage"),
];

/// The flag with this character.
pub(super) fn by_short(short: u8) -> Option<&'static FlagSpec> {
    CONVOLUTION.iter().find(|f| f.short.contains(&short))
}

/// The flag with this long name, without dashes.
pub(super) fn by_long(long: &[u8]) -> Option<&'static FlagSpec> {
    CONVOLUTION.iter().find(|f| f.long.as_bytes() == long)
}

/// A base argument: the first word behind the program.
#[derive(Debug)]
pub(super) enum BaseArgument {
    /// A convolution of this type.
    Convolution(DataType),
    /// Something else that the driver knows.
    Other,
    /// A word that people write for another one.
    Misspelt(&'static str),
}

/// MIOpen's 8-bit floats are of the older kind, without infinities and negative zero.
static BASE_ARGUMENTS: &[(&str, BaseArgument)] = &[
    ("conv", BaseArgument::Convolution(DataType::Float)),
    ("convfp16", BaseArgument::Convolution(DataType::Half)),
    ("convbfp16", BaseArgument::Convolution(DataType::BFloat16)),
    ("convint8", BaseArgument::Convolution(DataType::Int8)),
    ("convfp8", BaseArgument::Convolution(DataType::Fp8E4M3Fnuz)),
    ("convbfp8", BaseArgument::Convolution(DataType::Fp8E5M2Fnuz)),
    ("convbf16", BaseArgument::Misspelt("convbfp16")),
    ("convfp32", BaseArgument::Misspelt("conv")),
];

/// Beginnings of what else the driver does; the type follows, as in `bnormfp16`.
static OTHER: &[&str] = &[
    "CBAInfer",
    "activ",
    "adam",
    "addlayernorm",
    "bnorm",
    "cat",
    "conv_",
    "ctc",
    "dropout",
    "gemm",
    "getitem",
    "glu",
    "groupnorm",
    "kthvalue",
    "layernorm",
    "lrn",
    "mha",
    "multimarginloss",
    "pool",
    "prelu",
    "reduce",
    "reduceextreme",
    "rnn",
    "rope",
    "softmarginloss",
    "softmax",
    "sum",
    "t5layernorm",
    "tensorop",
    "transformersadamw",
];

/// What a base argument means; nothing for an unknown word.
pub(super) fn base_argument(word: &[u8]) -> Option<&'static BaseArgument> {
    let known = BASE_ARGUMENTS.iter().find(|(name, _)| name.as_bytes() == word).map(|(_, base)| base);
    known.or_else(|| OTHER.iter().any(|name| word.starts_with(name.as_bytes())).then_some(&BaseArgument::Other))
}

/// What a command log does not tell, and what is taken instead. The second is about transposed convolutions only.
pub const NOT_IN_LOGS: &[(&str, &str)] = &[
    ("strides", "a strided view is printed as the layout that is nearest; packed tensors are taken"),
    ("output padding", "not printed; 0 is taken, so y of a transposed convolution may be smaller than it was"),
    ("types of w and y", "not printed; those of x are taken. int8 with int32 or float results, fp64 and fp8 cannot be told apart"),
    ("attributes", "deterministic, bias, alpha and beta, cast types are not printed; none are taken"),
    ("pad mode", "not printed; the paddings are those that the library saw"),
    ("vectorised layouts", "dims of layouts other than NCHW may be printed wrongly"),
    ("workspace and find mode", "not printed; no part of the graph"),
];
