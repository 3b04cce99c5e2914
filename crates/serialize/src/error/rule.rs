//! The rules of the operations, as errors: one variant per rule.

use super::{NodeLabel, TensorLabel};
use crate::DataType;
use std::fmt;

/// What stands in a graph where a rule wants something else.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Found {
    /// Nothing: an operand or attribute that must be there.
    Absent,
    /// An operand that must not be there.
    Present,
    /// An ordinary tensor, where a host scalar must be.
    Ordinary,
    /// A tensor's number of dimensions.
    Rank(usize),
    /// One dimension of a tensor.
    Dim {
        /// Which one.
        axis: usize,
        /// Its size.
        size: i64,
    },
    /// All dimensions of a tensor.
    Dims(Box<[i64]>),
    /// A tensor's number of elements.
    Elements(u64),
    /// A tensor's element type.
    Type(DataType),
    /// The length of a list.
    Length(usize),
    /// One entry of a list.
    Entry {
        /// Which one.
        index: usize,
        /// The number there.
        value: i64,
    },
    /// An attribute, as it is spelled.
    Value(Box<str>),
}

/// Where a rule is broken, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breach {
    /// The node.
    pub node: NodeLabel,
    /// The operand or attribute that is at fault, such as `y` or `stride`.
    pub field: &'static str,
    /// The tensor in that field, where it is an operand that is there.
    pub tensor: Option<TensorLabel>,
    /// What stands there.
    pub found: Found,
    /// What may stand there.
    pub expected: Box<str>,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, field, tensor, found, expected } = self;
        write!(f, "{node}: ")?;
        match found {
            Found::Absent => write!(f, "{field} is absent")?,
            Found::Present => write!(f, "{field} is present")?,
            Found::Ordinary => write!(f, "{field} is an ordinary tensor")?,
            Found::Rank(rank) => write!(f, "rank of {field} is {rank}")?,
            Found::Dim { axis, size } => write!(f, "{field}.dims[{axis}] is {size}")?,
            Found::Dims(dims) => write!(f, "{field}.dims is {dims:?}")?,
            Found::Elements(count) => write!(f, "{field} has {count} elements")?,
            Found::Type(dtype) => write!(f, "data type of {field} is {dtype}")?,
            Found::Length(length) => write!(f, "length of {field} is {length}")?,
            Found::Entry { index, value } => write!(f, "{field}[{index}] is {value}")?,
            Found::Value(value) => write!(f, "{field} is {value}")?,
        }
        write!(f, ", expected {expected}")?;
        tensor.as_ref().map_or(Ok(()), |tensor| write!(f, " ({field} is {tensor})"))
    }
}

macro_rules! rule_errors {
    ($( $name:ident: $why:literal, )+) => {
        /// A rule of an operation, broken by a node.
        #[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
        #[non_exhaustive]
        pub enum RuleError {
            $( #[doc = concat!("The rule: ", $why, ".")] #[error("{0}; {why}", why = $why)] $name(Breach), )+
        }

        impl RuleError {
            /// The names of all rules.
            pub const NAMES: &'static [&'static str] = &[$( stringify!($name), )+];

            /// The rule's name, that of the variant.
            pub const fn name(&self) -> &'static str {
                match self { $( Self::$name(_) => stringify!($name), )+ }
            }

            /// Where it is broken, and how.
            pub const fn breach(&self) -> &Breach {
                match self { $( Self::$name(breach) )|+ => breach }
            }
        }
    };
}

rule_errors! {
    OperandNotScalar: "a scalar operand is a host scalar: a constant, a runtime scalar, or one with a default",

    ConvRank: "a convolution has a batch, channels and 1 to 3 spatial dimensions",
    ConvRanksDiffer: "image, filter and result of a convolution have one rank",
    ConvListLength: "a convolution has one number per spatial dimension in each list",
    ConvPadding: "padding is not negative",
    ConvStride: "a filter moves by at least 1",
    ConvDilation: "filter taps are at least 1 apart",
    ConvModeUnset: "a convolution says whether it flips its filter",
    ConvBatch: "a convolution keeps the batch",
    ConvFilters: "a convolution yields one channel per filter",
    ConvChannels: "the channels of the image are those of one group times the number of groups",
    ConvGroups: "each group has as many filters as the others",
    ConvWindow: "the filter fits into the padded image",
    ConvOutputDim: "a convolution yields one element per position of the filter",

    PointwiseModeUnset: "a pointwise node says which function it is",
    PointwiseOperandMissing: "a function has all its inputs",
    PointwiseOperandExtra: "a function has no more inputs than it takes",
    PointwiseBroadcast: "each input broadcasts to the result",
    GenIndexAxisMissing: "gen_index says along which dimension it counts",
    GenIndexAxis: "gen_index counts along a dimension of its result",

    MatmulRank: "a matrix has two dimensions, behind those of the batch",
    MatmulInner: "the rows of b are the columns of a",
    MatmulRows: "the rows of the product are those of a",
    MatmulColumns: "the columns of the product are those of b",
    MatmulBatch: "of two batch dimensions one is a multiple of the other",
    MatmulOutputBatch: "the batch of the product is the larger of the operands'",

    NormRank: "a normalisation has something to normalise over",
    NormShape: "a normalisation keeps the shape",
    NormChannelShape: "a parameter of a batch normalisation has one value per channel",
    NormRunningStatistics: "running statistics come all together: previous and next mean and variance",
    NormMomentum: "running statistics are updated with a momentum",
    NormStatisticsPair: "saved mean and inverse variance come together",
    NormAxes: "the number of normalised dimensions is at most the rank",
    NormScaleShape: "the scale of a normalisation covers the normalised dimensions",
    NormBiasShape: "the bias of a normalisation covers the normalised dimensions",
    NormGradientShape: "the gradient of a parameter has the parameter's shape",
    NormStatisticsShape: "there is one saved statistic per normalised group",

    ReductionModeUnset: "a reduction says which function it is",
    ReductionRank: "a reduction keeps the rank",
    ReductionDim: "a reduction keeps a dimension or reduces it to 1",

    PoolRank: "pooling has a batch, channels and at least one spatial dimension",
    PoolRanksDiffer: "the two images of a pooling have one rank",
    PoolListLength: "pooling has one number per spatial dimension in each list",
    PoolPadding: "padding is not negative",
    PoolStride: "a window moves by at least 1",
    PoolWindow: "a window has at least one element",
    PoolModeUnset: "pooling says which function it is",
    PoolBatch: "pooling keeps the batch",
    PoolChannels: "pooling keeps the channels",
    PoolRoom: "the window fits into the padded image",
    PoolOutputDim: "pooling yields one element per position of the window",
    PoolIndexMissing: "max pooling has an index tensor where one is asked for, and always in its gradient",
    PoolIndexShape: "there is one index per pooled element",
    PoolIndexType: "an index is an integer",

    AttentionRank: "attention has a batch, heads, a sequence and a head size",
    AttentionBatch: "queries, keys and values have one batch",
    AttentionHeadSize: "queries and keys have one head size",
    AttentionKeyLength: "there is one value per key",
    AttentionHeadRatio: "each head of keys and of values serves the same number of query heads",
    AttentionOutputShape: "the result has the shape of the queries with the head size of the values",
    AttentionGradientShape: "a gradient has the shape of what it is a gradient of",
    AttentionMaskShape: "a mask broadcasts to [batch, query heads, queries, keys]",
    AttentionDropoutMaskShape: "a dropout mask broadcasts to [batch, query heads, queries, keys]",
    AttentionScaleTwice: "the scale is an operand or an attribute, not both",
    AttentionStatisticsMissing: "statistics that are to be generated have a tensor",
    AttentionStatisticsShape: "there is one statistic per query and head",
    AttentionLengthMissing: "a padding mask is made from the lengths of the sequences",
    AttentionLengthCount: "there is one length per sequence of the batch",
    AttentionLengthType: "a length is an integer",
    AttentionPageTablePair: "keys and values are both in pages, or neither",
    AttentionPageTableLength: "keys in pages have lengths",
    AttentionPageTableBatch: "there is one row of pages per sequence of the batch",
    AttentionPageTableType: "a page is named by an integer",
    AttentionSeedPair: "a seed and an offset come together",
    AttentionSeedType: "a seed and its offset are integers",
    AttentionDropoutPair: "a dropout mask and its scale come together",
    AttentionDropoutProbability: "a probability is between 0 and 1",
    AttentionBound: "a bound counts elements; -1 is no bound",
    AttentionCausalTwice: "a causal mask has its diagonal in one corner",
    AttentionMaxLength: "a length is not negative",

    BlockShape: "scaling by blocks keeps the shape",
    BlockSizeMissing: "scaling by blocks has a block size",
    BlockSizeCount: "there is at most one block size per dimension",
    BlockSize: "a block has at least one element",
    BlockAxis: "blocks lie along a dimension of x",
    BlockScaleRank: "scales have the rank of what they scale",
    BlockScaleDim: "there is one scale per block",

    MoeRank: "each operand of a grouped product has three dimensions",
    MoeUnitDim: "dimensions that only fill the rank have size 1",
    MoeDepth: "the inner dimension of tokens and weights is one",
    MoeExperts: "each expert has an offset",
    MoeOffsetType: "an offset is an integer",
    MoeRoutingMissing: "tokens that are gathered or scattered have an index; scattered ones their place among the top k",
    MoeRoutingType: "an index of tokens is an integer",
    MoeRoutingCount: "each routed token has one index and one place",
    MoeTopK: "a token goes to at least one expert and to no expert twice",
    MoeTokens: "there is one row per token, or per index where tokens are gathered",
    MoeColumns: "the columns of the product are those of the weights",

    CustomOpId: "a custom operation has an id, `plugin.operation`",
}
