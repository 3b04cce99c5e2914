//! A convolution in MIOpen's terms, and the one function that turns it into a graph.
//!
//! The importer of driver lines and whoever sits behind MIOpen's API both go through [`ConvProblem::to_graph`], so that a logged
//! problem and the same problem met at run time have one key. [`ConvProblem::to_graph_with`] is the same with what MIOpen lets follow
//! the sums of a convolution; [`bias`] has the two operations on biases alone.
#![deny(clippy::as_conversions)]

pub mod bias;

use crate::ops::{ConvolutionBwd, ConvolutionFwd, ConvolutionWrw, Pointwise};
use crate::{ConvMode, DataType, GraphBuf, GraphBuilder, GraphError, Limits, PointwiseMode, TensorAttributes, Uid};
use std::fmt;

/// Uids of the tensors of a problem's graphs. `x`, `w` and `y` stand for `dx`, `dw` and `dy` where those are meant.
pub mod uid {
    use crate::Uid;

    /// The image.
    pub const X: Uid = Uid(1);
    /// The filter.
    pub const W: Uid = Uid(2);
    /// The positions.
    pub const Y: Uid = Uid(3);
    /// What is added to the sums element by element. It may be the memory of the result.
    pub const ADDED: Uid = Uid(4);
    /// The runtime scalar that multiplies the sums.
    pub const SCALE: Uid = Uid(5);
    /// The runtime scalar that multiplies what the addition gives.
    pub const SCALE_AFTER: Uid = Uid(6);
    /// One value a channel.
    pub const BIAS: Uid = Uid(7);
    /// The first of the tensors that exist between operations only.
    pub(super) const BETWEEN: i64 = 8;
}

/// Most dimensions of a tensor: batch, channels, three of space.
pub const MAX_RANK: usize = 5;
/// Most spatial dimensions.
pub const MAX_SPATIAL: usize = 3;

/// What is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConvDirection {
    /// `y` from `x` and `w`; MIOpen's direction bit 1.
    Forward,
    /// `dx` from `dy` and `w`; bit 2.
    BackwardData,
    /// `dw` from `x` and `dy`; bit 4.
    BackwardWeights,
}

impl ConvDirection {
    /// All of them, in the order of their bits.
    pub const ALL: [Self; 3] = [Self::Forward, Self::BackwardData, Self::BackwardWeights];

    /// The bit of `-F`.
    pub const fn bit(self) -> i64 {
        match self {
            Self::Forward => 1,
            Self::BackwardData => 2,
            Self::BackwardWeights => 4,
        }
    }

    /// A short word: `fwd`, `bwd`, `wrw`, as MIOpen has them.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Forward => "fwd",
            Self::BackwardData => "bwd",
            Self::BackwardWeights => "wrw",
        }
    }
}

impl fmt::Display for ConvDirection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// MIOpen's convolution mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProblemMode {
    /// Cross-correlation. `w` is `(k, c / g, spatial..)`.
    Convolution,
    /// The transpose of it: `y` is larger than `x`. `w` is `(c, k / g, spatial..)`.
    Transpose,
}

impl ProblemMode {
    /// MIOpen's word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Convolution => "conv",
            Self::Transpose => "trans",
        }
    }
}

/// A tensor of a problem. Entries behind the rank are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProblemTensor {
    /// Element type.
    pub dtype: DataType,
    /// Dimensions: batch or filters, channels, space.
    pub dims: [i64; MAX_RANK],
    /// Strides, in elements.
    pub strides: [i64; MAX_RANK],
}

impl ProblemTensor {
    /// A tensor with these dims and strides.
    ///
    /// # Errors
    /// More than [`MAX_RANK`] of either, or different numbers of them.
    pub fn new(dtype: DataType, dims: &[i64], strides: &[i64]) -> Result<Self, ConvProblemError> {
        let wrong = ConvProblemError::TensorRank { dims: dims.len(), strides: strides.len() };
        if dims.len() != strides.len() {
            return Err(wrong);
        }
        let mut tensor = Self { dtype, dims: [0; MAX_RANK], strides: [0; MAX_RANK] };
        tensor.dims.get_mut(..dims.len()).ok_or(wrong.clone())?.copy_from_slice(dims);
        tensor.strides.get_mut(..strides.len()).ok_or(wrong)?.copy_from_slice(strides);
        Ok(tensor)
    }

    /// The tensor of a graph.
    fn attributes(&self, name: &str, uid: Uid, rank: usize) -> TensorAttributes {
        let mut attributes = TensorAttributes::new();
        attributes.set_name(name).set_data_type(self.dtype).set_uid(uid);
        attributes.set_dims(self.dims.get(..rank).unwrap_or_default());
        attributes.set_strides(self.strides.get(..rank).unwrap_or_default());
        attributes
    }
}

/// A convolution as MIOpen's descriptors describe it: a fixed-size value without pointers, to be made, compared and hashed without
/// allocation.
///
/// `x`, `w` and `y` are those of the forward direction; in the backward directions they stand for `dx`, `dw` and `dy` where those
/// are meant. Lists have one entry per spatial dimension, the entries behind are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConvProblem {
    /// What is computed.
    pub direction: ConvDirection,
    /// Convolution or its transpose.
    pub mode: ProblemMode,
    /// Spatial dimensions, 1 to 3.
    pub spatial: u8,
    /// Image: `(n, c, spatial..)`.
    pub x: ProblemTensor,
    /// Filter: `(k, c / g, spatial..)`, or `(c, k / g, spatial..)` in transpose mode.
    pub w: ProblemTensor,
    /// Result: `(n, k, spatial..)`.
    pub y: ProblemTensor,
    /// Groups.
    pub groups: i64,
    /// Padding on either side.
    pub pads: [i64; MAX_SPATIAL],
    /// Step of the filter.
    pub strides: [i64; MAX_SPATIAL],
    /// Distance between filter taps.
    pub dilations: [i64; MAX_SPATIAL],
    /// What transpose mode adds to the size of `y`; 0 in the other.
    pub output_pads: [i64; MAX_SPATIAL],
}

/// What follows the sums of a convolution before they are stored, in this order: `relu((sums * scale + added) * scale_after + bias)`,
/// each part where it is wanted.
///
/// `alpha * sums + beta * y` is said as `(sums * (alpha / beta) + y) * beta`: that is one chain behind the sums, which engines fuse, where
/// a product on the other side of the sum would be a pass over memory of its own with a workspace of the size of the result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ConvEpilogue {
    /// A runtime scalar multiplies: double for a double result, else float, as MIOpen reads its `alpha`.
    pub scale: bool,
    /// A tensor of the result's dims and type with these strides is added.
    pub added: Option<[i64; MAX_RANK]>,
    /// A runtime scalar multiplies.
    pub scale_after: bool,
    /// One value a channel of the result is added, packed.
    pub bias: bool,
    /// Negative results become 0.
    pub relu: bool,
}

impl ConvEpilogue {
    /// Nothing: the sums are stored.
    pub const NONE: Self = Self { scale: false, added: None, scale_after: false, bias: false, relu: false };
    /// A runtime scalar times the sums.
    pub const SCALE: Self = Self { scale: true, ..Self::NONE };

    /// Two runtime scalars: the sums times one, and what the result's memory held, with these strides, times the other.
    pub const fn bilinear(strides: [i64; MAX_RANK]) -> Self {
        Self { scale: true, added: Some(strides), scale_after: true, ..Self::NONE }
    }
}

/// Why a problem is no graph.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the message of each variant says what its fields are")]
pub enum ConvProblemError {
    /// A tensor that is not `(batch, channels, 1 to 3 of space)`.
    #[error("convolution: a tensor with {dims} dims and {strides} strides, expected at most 5, as many of one as of the other")]
    TensorRank { dims: usize, strides: usize },
    /// A number of spatial dimensions that there is not.
    #[error("convolution: {found} spatial dimensions, expected 1 to 3")]
    Spatial { found: u8 },
    /// Groups do not agree with the channels.
    #[error("convolution: {groups} groups do not divide the {channels} {of} into filters of {per_group}; check -g and the channels")]
    Groups { groups: i64, channels: i64, of: &'static str, per_group: i64 },
    /// A number that must be positive, or at least not negative.
    #[error("convolution: {what} {axis} is {found}, expected at least {least}")]
    Attribute { what: &'static str, axis: usize, found: i64, least: i64 },
    /// A type that convolutions do not have.
    #[error("convolution: element type {dtype} of {tensor} is not one that MIOpen convolves")]
    Type { tensor: &'static str, dtype: DataType },
    /// A transposed convolution whose output padding cannot be said in a graph.
    #[error(
        "convolution: output padding {found} of spatial dimension {axis} is at least the stride {stride} and more than the padding {pad}; no graph has that"
    )]
    OutputPadding { axis: usize, found: i64, stride: i64, pad: i64 },
    /// Something behind the sums that this type does not have.
    #[error("convolution: results computed in {compute} are neither scaled nor added to; float and double are")]
    Epilogue { compute: DataType },
    /// A rule of graphs is broken.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

/// Name, operation and second operand of a step behind the sums.
type ChainLink = (&'static str, PointwiseMode, Option<TensorAttributes>);

impl ConvProblem {
    /// Rank of the tensors.
    pub fn rank(&self) -> usize {
        usize::from(self.spatial).saturating_add(2)
    }

    /// The type that is computed in: int32 for integers, double for double, else float. Source: what MIOpen and its forwarding to
    /// hipDNN accumulate in.
    pub fn compute_type(&self) -> DataType {
        let types = [self.x.dtype, self.w.dtype, self.y.dtype];
        if types.contains(&DataType::Double) {
            DataType::Double
        } else if [self.x.dtype, self.w.dtype].iter().any(|t| matches!(t, DataType::Int8 | DataType::UInt8 | DataType::Int32)) {
            DataType::Int32
        } else {
            DataType::Float
        }
    }

    /// Multiply-adds of the definition, padding included: outputs times taps times channels of a group. Saturates.
    pub fn macs(&self) -> u64 {
        let product = |dims: &[i64]| dims.iter().fold(1_u64, |n, &d| n.saturating_mul(d.unsigned_abs()));
        let (image, filter) = match self.mode {
            ProblemMode::Convolution => (&self.y, &self.w),
            ProblemMode::Transpose => (&self.x, &self.w),
        };
        let rank = self.rank();
        product(image.dims.get(..rank).unwrap_or_default()).saturating_mul(product(filter.dims.get(1..rank).unwrap_or_default()))
    }

    /// The tensor that the direction writes: `y`, `dx` or `dw`.
    pub fn result(&self) -> &ProblemTensor {
        match self.direction {
            ConvDirection::Forward => &self.y,
            ConvDirection::BackwardData => &self.x,
            ConvDirection::BackwardWeights => &self.w,
        }
    }

    /// The graph: one node that obeys hipDNN's rules, tensors `x`, `w`, `y` (or their gradients) in this order with uids 1, 2, 3.
    ///
    /// A transposed convolution is the same sums seen from the other side: its forward is a data gradient with `dy = x` and
    /// `dx = y`, its data gradient a forward convolution, its weight gradient a weight gradient with the two images exchanged. So
    /// it has the key of that operation.
    ///
    /// # Errors
    /// Numbers that do not make a convolution.
    pub fn to_graph(&self, limits: &Limits) -> Result<GraphBuf, ConvProblemError> {
        self.to_graph_with(&ConvEpilogue::NONE, limits)
    }

    /// The graph of the problem with something behind the sums. Uids are those of [`uid`].
    ///
    /// # Errors
    /// Numbers that do not make a convolution, and anything behind sums of integers.
    pub fn to_graph_with(&self, epilogue: &ConvEpilogue, limits: &Limits) -> Result<GraphBuf, ConvProblemError> {
        let spatial = usize::from(self.spatial);
        if !(1..=MAX_SPATIAL).contains(&spatial) {
            return Err(ConvProblemError::Spatial { found: self.spatial });
        }
        self.check_numbers(spatial)?;
        self.check_groups()?;
        let (pre, post) = self.paddings(spatial)?;
        let rank = self.rank();
        let mut builder = GraphBuilder::new();
        let compute = self.compute_type();
        builder.set_types(compute, compute, self.x.dtype);
        let chain = self.chain(epilogue, compute)?;
        let is_transpose = self.mode == ProblemMode::Transpose;
        let [x_name, w_name, y_name] = match self.direction {
            ConvDirection::Forward => ["x", "w", "y"],
            ConvDirection::BackwardData => ["dx", "w", "dy"],
            ConvDirection::BackwardWeights => ["x", "dw", "dy"],
        };
        let mut add = |name: &str, uid: Uid, tensor: &ProblemTensor| builder.tensor(tensor.attributes(name, uid, rank));
        let (mut x, mut w, mut y) = (add(x_name, uid::X, &self.x), add(w_name, uid::W, &self.w), add(y_name, uid::Y, &self.y));
        let result = match self.direction {
            ConvDirection::Forward => &mut y,
            ConvDirection::BackwardData => &mut x,
            ConvDirection::BackwardWeights => &mut w,
        };
        // With something behind them, the sums are a tensor between nodes.
        let stored = *result;
        let mut next = uid::BETWEEN;
        let mut between = |builder: &mut GraphBuilder| {
            let mut tensor = TensorAttributes::packed(compute, self.result().dims.get(..rank).unwrap_or_default());
            tensor.set_virtual(true).set_uid(Uid(next));
            next = next.saturating_add(1);
            builder.tensor(tensor)
        };
        if !chain.is_empty() {
            *result = between(&mut builder);
        }
        let mut carried = *result;
        // The side that the filter slides over, and the side with one element per position.
        let (image, positions) = if is_transpose { (y, x) } else { (x, y) };
        let stride = self.strides.get(..spatial).unwrap_or_default();
        let dilation = self.dilations.get(..spatial).unwrap_or_default();
        let (pre_padding, post_padding) = (pre.get(..spatial).unwrap_or_default(), post.get(..spatial).unwrap_or_default());
        let conv_mode = ConvMode::CrossCorrelation;
        let unset = DataType::Unset;
        match (self.direction, is_transpose) {
            (ConvDirection::Forward, false) | (ConvDirection::BackwardData, true) => {
                let op = ConvolutionFwd { x: image, w, y: positions, pre_padding, post_padding, stride, dilation, conv_mode };
                builder.node("conv", unset, op)
            }
            (ConvDirection::BackwardData, false) | (ConvDirection::Forward, true) => {
                let op = ConvolutionBwd { dy: positions, w, dx: image, pre_padding, post_padding, stride, dilation, conv_mode };
                builder.node("conv", unset, op)
            }
            (ConvDirection::BackwardWeights, _) => {
                let op = ConvolutionWrw { x: image, dy: positions, dw: w, pre_padding, post_padding, stride, dilation, conv_mode };
                builder.node("conv", unset, op)
            }
        };
        let last = chain.len().saturating_sub(1);
        for (at, (name, mode, operand)) in chain.into_iter().enumerate() {
            let out = if at == last { stored } else { between(&mut builder) };
            let op = match operand {
                Some(operand) => Pointwise::binary(mode, carried, builder.tensor(operand), out),
                None => Pointwise::unary(mode, carried, out),
            };
            builder.node(name, unset, op);
            carried = out;
        }
        Ok(builder.build_with(limits)?)
    }

    /// The operations behind the sums, each with its second operand.
    fn chain(&self, epilogue: &ConvEpilogue, compute: DataType) -> Result<Vec<ChainLink>, ConvProblemError> {
        let ConvEpilogue { scale, added, scale_after, bias, relu } = *epilogue;
        if *epilogue != ConvEpilogue::NONE && !matches!(compute, DataType::Float | DataType::Double) {
            return Err(ConvProblemError::Epilogue { compute });
        }
        let result = self.result();
        let rank = self.rank();
        let scalar = |name: &str, uid: Uid| {
            let dtype = if result.dtype == DataType::Double { DataType::Double } else { DataType::Float };
            let mut scalar = TensorAttributes::packed(dtype, &[1]);
            scalar.set_name(name).set_uid(uid).set_as_runtime_parameter();
            scalar
        };
        let mut chain: Vec<ChainLink> = Vec::new();
        if scale {
            chain.push(("scale", PointwiseMode::Mul, Some(scalar("scale", uid::SCALE))));
        }
        if let Some(strides) = added {
            let tensor = ProblemTensor { strides, ..*result };
            chain.push(("add", PointwiseMode::Add, Some(tensor.attributes("added", uid::ADDED, rank))));
        }
        if scale_after {
            chain.push(("scale after", PointwiseMode::Mul, Some(scalar("scale_after", uid::SCALE_AFTER))));
        }
        if bias {
            chain.push(("bias", PointwiseMode::Add, Some(bias::attributes(result, rank))));
        }
        if relu {
            chain.push(("relu", PointwiseMode::ReluFwd, None));
        }
        Ok(chain)
    }

    fn check_numbers(&self, spatial: usize) -> Result<(), ConvProblemError> {
        for (tensor, it) in [("x", &self.x), ("w", &self.w), ("y", &self.y)] {
            use DataType as T;
            let known = matches!(
                it.dtype,
                T::Float
                    | T::Half
                    | T::BFloat16
                    | T::Double
                    | T::Int8
                    | T::UInt8
                    | T::Int32
                    | T::Fp8E4M3
                    | T::Fp8E5M2
                    | T::Fp8E4M3Fnuz
                    | T::Fp8E5M2Fnuz
            );
            if !known {
                return Err(ConvProblemError::Type { tensor, dtype: it.dtype });
            }
        }
        let lists = [
            ("padding", &self.pads, 0),
            ("stride", &self.strides, 1),
            ("dilation", &self.dilations, 1),
            ("output padding", &self.output_pads, 0),
        ];
        for (what, list, least) in lists {
            let bad = list.iter().take(spatial).enumerate().find(|&(_, &v)| v < least);
            if let Some((axis, &found)) = bad {
                return Err(ConvProblemError::Attribute { what, axis, found, least });
            }
        }
        Ok(())
    }

    /// The groups are said twice: by their number, and by the channels of `w`.
    fn check_groups(&self) -> Result<(), ConvProblemError> {
        let groups = self.groups;
        if groups < 1 {
            return Err(ConvProblemError::Attribute { what: "number of groups", axis: 0, found: groups, least: 1 });
        }
        let [_, x_channels, ..] = self.x.dims;
        let [_, y_channels, ..] = self.y.dims;
        let [_, per_group, ..] = self.w.dims;
        let (split, of, other, other_of) = match self.mode {
            ProblemMode::Convolution => (x_channels, "channels of x", y_channels, "channels of y"),
            ProblemMode::Transpose => (y_channels, "channels of y", x_channels, "channels of x"),
        };
        if per_group.checked_mul(groups) != Some(split) {
            return Err(ConvProblemError::Groups { groups, channels: split, of, per_group });
        }
        if other.checked_rem(groups) != Some(0) {
            let per_group = other.checked_div(groups).unwrap_or(0);
            return Err(ConvProblemError::Groups { groups, channels: other, of: other_of, per_group });
        }
        Ok(())
    }

    /// Padding before and behind. They differ only where output padding reaches the stride: a position more would then fit, which
    /// less padding behind takes away.
    fn paddings(&self, spatial: usize) -> Result<([i64; MAX_SPATIAL], [i64; MAX_SPATIAL]), ConvProblemError> {
        let mut post = self.pads;
        if self.mode == ProblemMode::Transpose {
            let numbers = post.iter_mut().zip(self.output_pads).zip(self.strides).take(spatial);
            for (axis, ((pad, found), stride)) in numbers.enumerate() {
                if found >= stride {
                    let less = pad.checked_sub(found).filter(|&p| p >= 0);
                    *pad = less.ok_or(ConvProblemError::OutputPadding { axis, found, stride, pad: *pad })?;
                }
            }
        }
        Ok((self.pads, post))
    }
}
