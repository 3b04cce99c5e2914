//! The closed enums of hipDNN's wire format.
//!
//! FlatBuffers enums are open: any `i8` may stand in a buffer. A [`VerifiedGraph`](crate::VerifiedGraph)
//! hands out only values of these closed enums; a number outside them is an error that names the field.

/// Declares an enum with its wire numbers and its JSON spellings (the first spelling is the one hipDNN writes).
macro_rules! wire_enum {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident = $value:literal => $text:literal $(| $alias:literal)*,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(i8)]
        pub enum $name { $($(#[$vmeta])* $variant = $value,)+ }

        impl $name {
            /// Every variant, in wire order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The variant with this wire number.
            pub const fn from_wire(value: i8) -> Option<Self> {
                match value { $($value => Some(Self::$variant),)+ _ => None }
            }

            /// The wire number.
            pub const fn to_wire(self) -> i8 {
                self as i8
            }

            /// hipDNN's JSON spelling.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }

            /// The variant spelled so, in any case and any of hipDNN's dialects; nothing for an unknown spelling.
            pub fn from_name(text: &str) -> Option<Self> {
                $(if text.eq_ignore_ascii_case($text) $(|| text.eq_ignore_ascii_case($alias))* {
                    return Some(Self::$variant);
                })+
                None
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

wire_enum! {
    /// Element type of a tensor, or the type that a node computes in.
    DataType {
        /// Not stated: resolved from the graph's defaults.
        Unset = 0 => "unset",
        /// IEEE binary32.
        Float = 1 => "float",
        /// IEEE binary16.
        Half = 2 => "half",
        /// Upper half of binary32.
        BFloat16 = 3 => "bfloat16",
        /// IEEE binary64.
        Double = 4 => "double",
        /// Unsigned byte.
        UInt8 = 5 => "uint8",
        /// Signed 32-bit integer.
        Int32 = 6 => "int32",
        /// Signed byte.
        Int8 = 7 => "int8",
        /// OCP 8-bit float, 4 exponent bits.
        Fp8E4M3 = 8 => "fp8_e4m3",
        /// OCP 8-bit float, 5 exponent bits.
        Fp8E5M2 = 9 => "fp8_e5m2",
        /// OCP power-of-two scale.
        Fp8E8M0 = 10 => "fp8_e8m0",
        /// OCP 4-bit float.
        Fp4E2M1 = 11 => "fp4_e2m1",
        /// OCP 6-bit float, 2 exponent bits.
        Fp6E2M3 = 12 => "fp6_e2m3",
        /// OCP 6-bit float, 3 exponent bits.
        Fp6E3M2 = 13 => "fp6_e3m2",
        /// Signed 4-bit integer.
        Int4 = 14 => "int4",
        /// Signed 64-bit integer.
        Int64 = 15 => "int64",
        /// One byte, 0 or 1.
        Boolean = 16 => "boolean",
        /// AMD's earlier 8-bit float, 4 exponent bits.
        Fp8E4M3Fnuz = 17 => "fp8_e4m3_fnuz",
        /// AMD's earlier 8-bit float, 5 exponent bits.
        Fp8E5M2Fnuz = 18 => "fp8_e5m2_fnuz",
    }
}

impl DataType {
    /// Bits of one element in memory; 0 for [`DataType::Unset`].
    pub const fn bits(self) -> u32 {
        match self {
            Self::Unset => 0,
            Self::Fp4E2M1 | Self::Int4 => 4,
            Self::Fp6E2M3 | Self::Fp6E3M2 => 6,
            Self::UInt8
            | Self::Int8
            | Self::Fp8E4M3
            | Self::Fp8E5M2
            | Self::Fp8E8M0
            | Self::Boolean
            | Self::Fp8E4M3Fnuz
            | Self::Fp8E5M2Fnuz => 8,
            Self::Half | Self::BFloat16 => 16,
            Self::Float | Self::Int32 => 32,
            Self::Double | Self::Int64 => 64,
        }
    }
}

wire_enum! {
    /// Whether a convolution flips its filter.
    ConvMode {
        /// Not stated.
        Unset = 0 => "UNSET",
        /// The filter is flipped in every spatial dimension.
        Convolution = 1 => "CONVOLUTION",
        /// What deep learning calls convolution: no flip.
        CrossCorrelation = 2 => "CROSS_CORRELATION",
    }
}

wire_enum! {
    /// The function of a pointwise node.
    #[expect(missing_docs, reason = "each name is the function's usual name; the formulas stand in docs/operations.md")]
    PointwiseMode {
        Unset = 0 => "unset",
        Abs = 1 => "abs",
        Add = 2 => "add",
        AddSquare = 3 => "add_square",
        BinarySelect = 4 => "binary_select",
        Ceil = 5 => "ceil",
        CmpEq = 6 => "cmp_eq",
        CmpGe = 7 => "cmp_ge",
        CmpGt = 8 => "cmp_gt",
        CmpLe = 9 => "cmp_le",
        CmpLt = 10 => "cmp_lt",
        CmpNeq = 11 => "cmp_neq",
        Div = 12 => "div",
        EluBwd = 13 => "elu_bwd",
        EluFwd = 14 => "elu_fwd",
        Erf = 15 => "erf",
        Exp = 16 => "exp",
        Floor = 17 => "floor",
        GeluApproxTanhBwd = 18 => "gelu_approx_tanh_bwd",
        GeluApproxTanhFwd = 19 => "gelu_approx_tanh_fwd",
        GeluBwd = 20 => "gelu_bwd",
        GeluFwd = 21 => "gelu_fwd",
        GenIndex = 22 => "gen_index",
        Identity = 23 => "identity",
        Log = 24 => "log",
        LogicalAnd = 25 => "logical_and",
        LogicalNot = 26 => "logical_not",
        LogicalOr = 27 => "logical_or",
        Max = 28 => "max_op" | "max",
        Min = 29 => "min_op" | "min",
        Mul = 30 => "mul",
        Neg = 31 => "neg",
        Reciprocal = 32 => "reciprocal",
        ReluBwd = 33 => "relu_bwd",
        ReluFwd = 34 => "relu_fwd",
        Rsqrt = 35 => "rsqrt",
        SigmoidBwd = 36 => "sigmoid_bwd",
        SigmoidFwd = 37 => "sigmoid_fwd",
        Sin = 38 => "sin",
        SoftplusBwd = 39 => "softplus_bwd",
        SoftplusFwd = 40 => "softplus_fwd",
        Sqrt = 41 => "sqrt",
        Sub = 42 => "sub",
        SwishBwd = 43 => "swish_bwd",
        SwishFwd = 44 => "swish_fwd",
        Tan = 45 => "tan",
        TanhBwd = 46 => "tanh_bwd",
        TanhFwd = 47 => "tanh_fwd",
    }
}

impl PointwiseMode {
    /// Number of tensor inputs that the function takes; 0 for [`PointwiseMode::Unset`].
    pub const fn arity(self) -> usize {
        use PointwiseMode as M;
        match self {
            M::Unset => 0,
            M::BinarySelect => 3,
            M::Add
            | M::AddSquare
            | M::CmpEq
            | M::CmpGe
            | M::CmpGt
            | M::CmpLe
            | M::CmpLt
            | M::CmpNeq
            | M::Div
            | M::EluBwd
            | M::GeluApproxTanhBwd
            | M::GeluBwd
            | M::LogicalAnd
            | M::LogicalOr
            | M::Max
            | M::Min
            | M::Mul
            | M::ReluBwd
            | M::SigmoidBwd
            | M::SoftplusBwd
            | M::Sub
            | M::SwishBwd
            | M::TanhBwd => 2,
            M::Abs
            | M::Ceil
            | M::EluFwd
            | M::Erf
            | M::Exp
            | M::Floor
            | M::GeluApproxTanhFwd
            | M::GeluFwd
            | M::GenIndex
            | M::Identity
            | M::Log
            | M::LogicalNot
            | M::Neg
            | M::Reciprocal
            | M::ReluFwd
            | M::Rsqrt
            | M::SigmoidFwd
            | M::Sin
            | M::SoftplusFwd
            | M::Sqrt
            | M::SwishFwd
            | M::Tan
            | M::TanhFwd => 1,
        }
    }
}

wire_enum! {
    /// Whether a normalisation also yields what its backward pass needs.
    NormFwdPhase {
        /// Not stated.
        NotSet = 0 => "NOT_SET",
        /// Outputs only.
        Inference = 1 => "INFERENCE",
        /// Saved statistics too.
        Training = 2 => "TRAINING",
    }
}

wire_enum! {
    /// The combining function of a reduction.
    #[expect(missing_docs, reason = "each name is the function's usual name; the formulas stand in docs/operations.md")]
    ReductionMode {
        NotSet = 0 => "not_set",
        Add = 1 => "add",
        Mul = 2 => "mul",
        Min = 3 => "min" | "min_op",
        Max = 4 => "max" | "max_op",
        Amax = 5 => "amax",
        Avg = 6 => "avg",
        Norm1 = 7 => "norm1",
        Norm2 = 8 => "norm2",
        MulNoZeros = 9 => "mul_no_zeros",
    }
}

wire_enum! {
    /// The kind of a pooling window.
    ResampleMode {
        /// Not stated.
        NotSet = 0 => "not_set",
        /// Largest element.
        MaxPool = 1 => "maxpool",
        /// Mean over the elements inside the tensor.
        AvgPoolExcludePadding = 2 => "avgpool_exclude_padding",
        /// Mean over the whole window.
        AvgPoolIncludePadding = 3 => "avgpool_include_padding",
    }
}

wire_enum! {
    /// What a pooling window sees outside the tensor.
    PaddingMode {
        /// Not stated.
        NotSet = 0 => "padding_not_set",
        /// Negative infinity.
        NegInf = 1 => "neg_inf_pad",
        /// Zero.
        Zero = 2 => "zero_pad",
    }
}

wire_enum! {
    /// The corner in which an attention mask's diagonal starts.
    DiagonalAlignment {
        /// First query against first key.
        TopLeft = 0 => "TOP_LEFT",
        /// Last query against last key.
        BottomRight = 1 => "BOTTOM_RIGHT",
    }
}

wire_enum! {
    /// How attention is to be computed.
    AttentionImplementation {
        /// The engine decides.
        Auto = 0 => "AUTO",
        /// As separate operations.
        Composite = 1 => "COMPOSITE",
        /// As one kernel.
        Unified = 2 => "UNIFIED",
    }
}

wire_enum! {
    /// How a grouped matmul of a mixture of experts addresses tokens.
    MoeGroupedMatmulMode {
        /// In the order given.
        None = 0 => "none",
        /// Tokens are gathered by index.
        Gather = 1 => "gather",
        /// Results are scattered by index.
        Scatter = 2 => "scatter",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wire_numbers_and_names_are_total_and_unique() {
        for &t in DataType::ALL {
            assert_eq!(DataType::from_wire(t.to_wire()), Some(t));
            assert_eq!(DataType::from_name(t.name()), Some(t));
        }
        for &m in PointwiseMode::ALL {
            assert_eq!(PointwiseMode::from_wire(m.to_wire()), Some(m));
            assert_eq!(PointwiseMode::from_name(&m.name().to_uppercase()), Some(m));
        }
        assert_eq!(DataType::ALL.len(), 19);
        assert_eq!(PointwiseMode::ALL.len(), 48);
        assert_eq!(DataType::from_wire(19), None);
        assert_eq!(DataType::from_name("float16"), None);
        assert_eq!(ReductionMode::from_name("MIN_OP"), Some(ReductionMode::Min));
    }
}
