//! The rules that no general check says: windows, groups, axes, masks, blocks.

use super::node::Node;
use super::{Slot, Verdict, attribute_fault, broadcasts, dim_at, fault};
use crate::error::Found;
use crate::ops::{Layernorm, LayernormBackward, Op, OpKind};
use crate::{MoeGroupedMatmulMode, PointwiseMode, ResampleMode};

/// Whether a rule concerns a node.
pub(super) type Condition = fn(&Node<'_, '_>) -> bool;

/// The lists of convolutions and pooling, one entry per spatial dimension; empty for other operations.
#[derive(Default)]
pub(super) struct Spatial<'a> {
    pub(super) pre_padding: &'a [i64],
    pub(super) post_padding: &'a [i64],
    pub(super) stride: &'a [i64],
    pub(super) dilation: &'a [i64],
    pub(super) window: &'a [i64],
}

macro_rules! spatial {
    ($op:expr, $($list:ident),+) => { Spatial { $($list: $op.$list,)+ ..Spatial::default() } };
}

impl<'a> Spatial<'a> {
    pub(super) fn of(op: &Op<'a>) -> Self {
        match op {
            Op::ConvolutionFwd(op) => spatial!(op, pre_padding, post_padding, stride, dilation),
            Op::ConvolutionBwd(op) => spatial!(op, pre_padding, post_padding, stride, dilation),
            Op::ConvolutionWrw(op) => spatial!(op, pre_padding, post_padding, stride, dilation),
            Op::ResampleFwd(op) => spatial!(op, pre_padding, post_padding, stride, window),
            Op::ResampleBwd(op) => spatial!(op, pre_padding, post_padding, stride, window),
            _ => Self::default(),
        }
    }
}

/// One spatial dimension of a sliding window.
///
/// All numbers come from 64 bits, so that 128 hold the product of any two and the sums here: `wrapping` never wraps, and there is
/// no division, which is slow for 128 bits.
struct Slide {
    axis: usize,
    /// Size of the large side, with padding.
    padded: i128,
    /// From the first to the last element under the window, both included.
    extent: i128,
    stride: i128,
    /// Size of the small side.
    positions: i64,
}

impl Slide {
    /// How far the window can move.
    fn room(&self) -> i128 {
        self.padded.wrapping_sub(self.extent)
    }

    /// Whether the positions are `room / stride + 1`, rounded down.
    fn agrees(&self, room: i128) -> bool {
        let positions = i128::from(self.positions);
        let last = positions.wrapping_sub(1).wrapping_mul(self.stride);
        last <= room && room < positions.wrapping_mul(self.stride)
    }

    /// With whole steps only.
    fn whole_steps(&self) -> bool {
        self.agrees(self.room())
    }

    /// With a last step that the edge cuts short.
    fn cut_step(&self) -> bool {
        self.agrees(self.room().wrapping_add(self.stride).wrapping_sub(1))
    }
}

/// The spatial dimensions of a convolution or pooling between `x` and `y`; `w` is the filter of a convolution.
fn slides<'a>(node: &Node<'_, 'a>, [x, y, w, _]: [Slot; 4]) -> Option<impl Iterator<Item = Slide> + use<'a>> {
    let lists = Spatial::of(node.op()?);
    let (x, y) = node.pair(x, y)?;
    let filter = if lists.window.is_empty() { node.dims(w)?.get(2..)? } else { lists.window };
    let sizes = x.iter().zip(y).enumerate().skip(2);
    let attributes = lists.pre_padding.iter().zip(lists.post_padding).zip(lists.stride).zip(filter);
    let dilation = lists.dilation.iter().copied().chain(std::iter::repeat(1));
    Some(sizes.zip(attributes).zip(dilation).map(|(((axis, (&x, &y)), (((&pre, &post), &stride), &filter)), dilation)| {
        let [x, pre, post, stride, filter, dilation] = [x, pre, post, stride, filter, dilation].map(i128::from);
        Slide {
            axis,
            padded: x.wrapping_add(pre).wrapping_add(post),
            extent: filter.wrapping_sub(1).wrapping_mul(dilation).wrapping_add(1),
            stride,
            positions: y,
        }
    }))
}

/// The window, dilated, is not larger than the padded image.
pub(super) fn window_fits(node: &Node<'_, '_>, slots: [Slot; 4]) -> Verdict {
    let Some(mut slides) = slides(node, slots) else { return Ok(()) };
    let [x, ..] = slots;
    let Some(s) = slides.find(|s| s.room() < 0) else { return Ok(()) };
    let size = node.dims(x).and_then(|dims| dims.get(s.axis)).copied().unwrap_or(0);
    let expected = format!("enough to be, with padding, at least {} (is {}), the extent of the window", s.extent, s.padded);
    fault(node, x, Found::Dim { axis: s.axis, size }, expected)
}

fn output(node: &Node<'_, '_>, slots: [Slot; 4], may_be_cut: bool) -> Verdict {
    let Some(mut slides) = slides(node, slots) else { return Ok(()) };
    let [_, y, ..] = slots;
    let agrees = |s: &Slide| s.whole_steps() || may_be_cut && s.cut_step();
    let Some(s) = slides.find(|s| !agrees(s)) else { return Ok(()) };
    let positions = s.room().checked_div(s.stride).unwrap_or(0).saturating_add(1);
    let expected = format!("{positions} = ({} with padding - {} of the window) / {} + 1", s.padded, s.extent, s.stride);
    fault(node, y, Found::Dim { axis: s.axis, size: s.positions }, expected)
}

/// One output element per position of the filter.
pub(super) fn conv_output(node: &Node<'_, '_>, slots: [Slot; 4]) -> Verdict {
    output(node, slots, false)
}

/// One output element per position of the window; frameworks also let the last window hang over the edge.
pub(super) fn pool_output(node: &Node<'_, '_>, slots: [Slot; 4]) -> Verdict {
    output(node, slots, true)
}

/// The filters divide evenly among the groups.
pub(super) fn conv_groups(node: &Node<'_, '_>, [x, w, ..]: [Slot; 4]) -> Verdict {
    let Some((x_dims, w_dims)) = node.pair(x, w) else { return Ok(()) };
    let (Some(&channels), Some(&[filters, of_group])) = (x_dims.get(1), w_dims.first_chunk()) else { return Ok(()) };
    let groups = channels.checked_div(of_group).unwrap_or(1);
    if filters.checked_rem(groups) == Some(0) {
        return Ok(());
    }
    fault(node, w, Found::Dim { axis: 0, size: filters }, format!("a multiple of {groups}, the number of groups"))
}

fn pointwise_mode(node: &Node<'_, '_>) -> PointwiseMode {
    match node.op() {
        Some(Op::Pointwise(op)) => op.mode,
        _ => PointwiseMode::Unset,
    }
}

pub(super) fn pointwise_is_stated(op: &Op<'_>) -> bool {
    !matches!(op, Op::Pointwise(op) if op.mode == PointwiseMode::Unset)
}

/// Every input that the function takes is there.
pub(super) fn operand_missing(node: &Node<'_, '_>, [in_0, in_1, in_2, _]: [Slot; 4]) -> Verdict {
    let mode = pointwise_mode(node);
    match [in_0, in_1, in_2].into_iter().take(mode.arity()).find(|&s| !node.has(s)) {
        Some(missing) => fault(node, missing, Found::Absent, format!("{} inputs for {mode}", mode.arity())),
        None => Ok(()),
    }
}

/// No input is there that the function does not take.
pub(super) fn operand_extra(node: &Node<'_, '_>, [in_0, in_1, in_2, _]: [Slot; 4]) -> Verdict {
    let mode = pointwise_mode(node);
    match [in_0, in_1, in_2].into_iter().skip(mode.arity()).find(|&s| node.has(s)) {
        Some(extra) => fault(node, extra, Found::Present, format!("{} inputs for {mode}", mode.arity())),
        None => Ok(()),
    }
}

pub(super) fn generates_index(node: &Node<'_, '_>) -> bool {
    pointwise_mode(node) == PointwiseMode::GenIndex
}

fn index_axis(node: &Node<'_, '_>) -> Option<i64> {
    match node.op() {
        Some(Op::Pointwise(op)) => op.axis,
        _ => None,
    }
}

pub(super) fn axis_missing(node: &Node<'_, '_>, _: [Slot; 4]) -> Verdict {
    match index_axis(node) {
        Some(_) => Ok(()),
        None => attribute_fault("axis", Found::Absent, "a dimension of out_0".into()),
    }
}

/// An axis is one of the dims.
fn axis_of(field: &'static str, axis: Option<i64>, of: &'static str, rank: usize) -> Verdict {
    match axis {
        Some(axis) if !usize::try_from(axis).is_ok_and(|axis| axis < rank) => {
            attribute_fault(field, Found::Value(axis.to_string().into()), format!("0..{rank}, a dimension of {of}"))
        }
        _ => Ok(()),
    }
}

pub(super) fn axis_in_range(node: &Node<'_, '_>, [out, ..]: [Slot; 4]) -> Verdict {
    let Some(dims) = node.dims(out) else { return Ok(()) };
    axis_of("axis", index_axis(node), node.name(out), dims.len())
}

/// The batch dims of a matrix, the last first.
fn batch(dims: &[i64]) -> impl Iterator<Item = i64> {
    dims.iter().rev().skip(2).copied()
}

/// Of two batch dims, one is a multiple of the other: 1 broadcasts, and hipDNN also repeats in groups.
pub(super) fn matmul_batch(node: &Node<'_, '_>, [a, b, ..]: [Slot; 4]) -> Verdict {
    let Some((a_dims, b_dims)) = node.pair(a, b) else { return Ok(()) };
    let divides = |(a, b): (i64, i64)| a.checked_rem(b) == Some(0) || b.checked_rem(a) == Some(0);
    if batch(a_dims).zip(batch(b_dims)).all(divides) {
        return Ok(());
    }
    fault(node, b, Found::Dims(b_dims.into()), format!("batch dims that broadcast with {a_dims:?}, the dims of a"))
}

/// The batch of the product is that of the larger operand.
pub(super) fn matmul_output_batch(node: &Node<'_, '_>, [a, b, c, _]: [Slot; 4]) -> Verdict {
    let (Some((a_dims, b_dims)), Some(c_dims)) = (node.pair(a, b), node.dims(c)) else { return Ok(()) };
    let one = || std::iter::repeat(1);
    let rank = a_dims.len().max(b_dims.len()).max(c_dims.len()).saturating_sub(2);
    let operands = batch(a_dims).chain(one()).zip(batch(b_dims).chain(one()));
    if batch(c_dims).chain(one()).zip(operands).take(rank).all(|(c, (a, b))| c == a.max(b)) {
        return Ok(());
    }
    fault(node, c, Found::Dims(c_dims.into()), format!("batch dims as {a_dims:?} and {b_dims:?} broadcast"))
}

/// `[1, C, 1...]` of any rank, or `[C]`.
fn is_per_channel(dims: &[i64], channels: i64) -> bool {
    match dims {
        [c] => *c == channels,
        [1, c, rest @ ..] => *c == channels && rest.iter().all(|&d| d == 1),
        _ => false,
    }
}

/// One value per channel of `x`.
pub(super) fn per_channel(node: &Node<'_, '_>, [parameter, x, ..]: [Slot; 4]) -> Verdict {
    let Some((dims, x_dims)) = node.pair(parameter, x) else { return Ok(()) };
    match x_dims.get(1) {
        Some(&channels) if !is_per_channel(dims, channels) => {
            fault(node, parameter, Found::Dims(dims.into()), format!("[1, {channels}, 1...] or [{channels}]: one value per channel"))
        }
        _ => Ok(()),
    }
}

/// A shape that broadcasts to `x`, or one value per channel of it.
pub(super) fn broadcast_or_per_channel(node: &Node<'_, '_>, [parameter, x, ..]: [Slot; 4]) -> Verdict {
    let Some((dims, x_dims)) = node.pair(parameter, x) else { return Ok(()) };
    if broadcasts(dims, x_dims) || x_dims.get(1).is_some_and(|&c| is_per_channel(dims, c)) {
        return Ok(());
    }
    fault(node, parameter, Found::Dims(dims.into()), format!("dims that broadcast to {x_dims:?}, the dims of {}", node.name(x)))
}

/// `normalized_dim_count` of a layer normalisation; 0 leaves it to the scale.
fn normalized(node: &Node<'_, '_>) -> i64 {
    match node.op() {
        Some(Op::Layernorm(Layernorm { normalized_dim_count, .. }))
        | Some(Op::LayernormBackward(LayernormBackward { normalized_dim_count, .. })) => *normalized_dim_count,
        _ => 0,
    }
}

pub(super) fn axis_count(node: &Node<'_, '_>, [x, ..]: [Slot; 4]) -> Verdict {
    let Some(dims) = node.dims(x) else { return Ok(()) };
    let count = normalized(node);
    if usize::try_from(count).is_ok_and(|count| count <= dims.len()) {
        return Ok(());
    }
    let expected = format!("1..={}, a number of dimensions of {} (or 0, not stated)", dims.len(), node.name(x));
    attribute_fault("normalized_dim_count", Found::Value(count.to_string().into()), expected)
}

/// The dims of `x` that are kept apart and those that are normalised over together; none where that is not stated.
fn split<'a>(node: &Node<'_, 'a>, x: &'a [i64]) -> Option<(&'a [i64], &'a [i64])> {
    match usize::try_from(normalized(node)) {
        Ok(0) | Err(_) => None,
        Ok(count) => x.split_at_checked(x.len().checked_sub(count)?),
    }
}

/// The scale has the normalised dims, with ones in front of them or not.
pub(super) fn layer_scale(node: &Node<'_, '_>, [scale, x, ..]: [Slot; 4]) -> Verdict {
    let Some((dims, x_dims)) = node.pair(scale, x) else { return Ok(()) };
    let Some((kept, inner)) = split(node, x_dims) else {
        if broadcasts(dims, x_dims) {
            return Ok(());
        }
        return fault(node, scale, Found::Dims(dims.into()), format!("the last dims of {x_dims:?}, the dims of {}", node.name(x)));
    };
    let padded = dims.split_at_checked(kept.len());
    if dims == inner || padded.is_some_and(|(front, back)| front.iter().all(|&d| d == 1) && back == inner) {
        return Ok(());
    }
    let expected = format!("{inner:?}, the normalized dims of {}, with {} ones in front of them or not", node.name(x), kept.len());
    fault(node, scale, Found::Dims(dims.into()), expected)
}

/// A saved statistic has the dims that are kept, with ones behind them or not; hipDNN infers 1 for some of those too.
pub(super) fn layer_statistics(node: &Node<'_, '_>, [statistic, x, ..]: [Slot; 4]) -> Verdict {
    let Some((dims, x_dims)) = node.pair(statistic, x) else { return Ok(()) };
    let one_or_same = |dims: &[i64], of: &[i64]| dims.iter().zip(of).all(|(&d, &x)| d == 1 || d == x);
    let fits = match split(node, x_dims) {
        Some((kept, inner)) => {
            let padded = dims.split_at_checked(kept.len());
            let padded =
                padded.is_some_and(|(front, back)| back.len() == inner.len() && back.iter().all(|&d| d == 1) && one_or_same(front, kept));
            padded || dims == kept
        }
        None => dims.len() <= x_dims.len() && one_or_same(dims, x_dims),
    };
    if fits {
        return Ok(());
    }
    let expected = format!("the dims of {}, {x_dims:?}, with 1 for each normalized one", node.name(x));
    fault(node, statistic, Found::Dims(dims.into()), expected)
}

/// Each dim is kept or becomes 1.
pub(super) fn reduced(node: &Node<'_, '_>, [output, input, ..]: [Slot; 4]) -> Verdict {
    let Some((dims, from)) = node.pair(output, input) else { return Ok(()) };
    match dims.iter().zip(from).enumerate().find(|&(_, (&d, &from))| d != 1 && d != from) {
        Some((axis, (&size, from))) => {
            fault(node, output, Found::Dim { axis, size }, format!("1 or {from}, {}.dims[{axis}]", node.name(input)))
        }
        None => Ok(()),
    }
}

/// Max pooling that was asked for indices; the gradient of max pooling, which has nothing else to go by.
pub(super) fn index_is_wanted(node: &Node<'_, '_>) -> bool {
    match node.op() {
        Some(Op::ResampleFwd(op)) => op.resample_mode == ResampleMode::MaxPool && op.generate_index == Some(true),
        Some(Op::ResampleBwd(op)) => op.resample_mode == ResampleMode::MaxPool,
        _ => false,
    }
}

const Q: Slot = super::slot(OpKind::Sdpa, "q");
const PAGE_TABLES: [Slot; 2] = [super::slot(OpKind::Sdpa, "page_table_k"), super::slot(OpKind::Sdpa, "page_table_v")];

/// Keys and values are not in pages: their dims are those of the batch.
pub(super) fn is_contiguous(node: &Node<'_, '_>) -> bool {
    node.kind != OpKind::Sdpa || PAGE_TABLES.iter().all(|&s| !node.has(s))
}

/// Queries are not ragged.
pub(super) fn is_dense(node: &Node<'_, '_>) -> bool {
    node.tensor(Q).is_none_or(|q| q.ragged_offset.is_none())
}

pub(super) fn pads(node: &Node<'_, '_>) -> bool {
    match node.op() {
        Some(Op::Sdpa(op)) => op.padding_mask,
        Some(Op::SdpaBackward(op)) => op.padding_mask,
        _ => false,
    }
}

pub(super) fn generates_statistics(node: &Node<'_, '_>) -> bool {
    matches!(node.op(), Some(Op::Sdpa(op)) if op.generate_stats == Some(true))
}

/// Left and right bound of the attention band.
pub(super) fn bounds(op: &Op<'_>) -> [Option<i64>; 2] {
    match op {
        Op::Sdpa(op) => [op.left_bound, op.right_bound],
        Op::SdpaBackward(op) => [op.left_bound, op.right_bound],
        _ => [None; 2],
    }
}

/// A mask broadcasts to the scores: `[batch, query heads, queries, keys]`.
pub(super) fn attention_mask(node: &Node<'_, '_>, [mask, q, k, _]: [Slot; 4]) -> Verdict {
    let (Some(dims), Some((q, k))) = (node.dims(mask), node.pair(q, k)) else { return Ok(()) };
    let (Some(&[batch, heads, queries]), Some((_, keys))) = (q.first_chunk(), dim_at(k, 2)) else { return Ok(()) };
    // The keys of a paged cache are not counted by its dims.
    let keys = match dims.last() {
        Some(&last) if !is_contiguous(node) => last,
        _ => keys,
    };
    let scores = [batch, heads, queries, keys];
    if broadcasts(dims, &scores) {
        return Ok(());
    }
    fault(node, mask, Found::Dims(dims.into()), format!("dims that broadcast to {scores:?}: batch, query heads, queries, keys"))
}

pub(super) fn scale_twice(node: &Node<'_, '_>, [scale, ..]: [Slot; 4]) -> Verdict {
    let value = match node.op() {
        Some(Op::Sdpa(op)) => op.attn_scale_value,
        Some(Op::SdpaBackward(op)) => op.attn_scale_value,
        _ => None,
    };
    match value {
        Some(value) if node.has(scale) => fault(node, scale, Found::Present, format!("no tensor, because attn_scale_value is {value}")),
        _ => Ok(()),
    }
}

pub(super) fn probability(node: &Node<'_, '_>, _: [Slot; 4]) -> Verdict {
    let value = match node.op() {
        Some(Op::Sdpa(op)) => op.dropout_probability,
        Some(Op::SdpaBackward(op)) => op.dropout_probability,
        _ => None,
    };
    match value {
        Some(p) if !(0.0..=1.0).contains(&p) => attribute_fault("dropout_probability", Found::Value(p.to_string().into()), "0 to 1".into()),
        _ => Ok(()),
    }
}

pub(super) fn causal_twice(node: &Node<'_, '_>, _: [Slot; 4]) -> Verdict {
    let both = match node.op() {
        Some(Op::Sdpa(op)) => op.causal_mask && op.causal_mask_bottom_right,
        Some(Op::SdpaBackward(op)) => op.causal_mask && op.causal_mask_bottom_right,
        _ => false,
    };
    if both {
        let found = Found::Value("true".into());
        return attribute_fault("causal_mask_bottom_right", found, "false, because causal_mask is true".into());
    }
    Ok(())
}

fn block_sizes<'a>(node: &Node<'_, 'a>) -> &'a [i32] {
    match node.op() {
        Some(Op::BlockScaleDequantize(op)) => op.block_size,
        _ => &[],
    }
}

pub(super) fn block_size_missing(node: &Node<'_, '_>, _: [Slot; 4]) -> Verdict {
    if block_sizes(node).is_empty() {
        return attribute_fault("block_size", Found::Absent, "one size per blocked dimension".into());
    }
    Ok(())
}

pub(super) fn block_size_count(node: &Node<'_, '_>, [x, ..]: [Slot; 4]) -> Verdict {
    let Some(dims) = node.dims(x) else { return Ok(()) };
    let sizes = block_sizes(node);
    if sizes.len() <= dims.len() {
        return Ok(());
    }
    attribute_fault("block_size", Found::Length(sizes.len()), format!("at most {}, the rank of {}", dims.len(), node.name(x)))
}

pub(super) fn block_size_least(node: &Node<'_, '_>, _: [Slot; 4]) -> Verdict {
    match block_sizes(node).iter().enumerate().find(|&(_, &size)| size < 1) {
        Some((index, &size)) => attribute_fault("block_size", Found::Entry { index, value: size.into() }, "at least 1".into()),
        None => Ok(()),
    }
}

/// The scales are at least as many as the blocks along one dimension.
fn enough_scales(node: &Node<'_, '_>, scale: Slot, axis: usize, [size, x]: [i64; 2], block: i64) -> Verdict {
    // The dims are positive, so that this rounds up without overflow.
    let blocks = x.saturating_sub(1).checked_div(block).unwrap_or(0).saturating_add(1);
    if size >= blocks {
        return Ok(());
    }
    fault(node, scale, Found::Dim { axis, size }, format!("at least {blocks}: blocks of {block} in a dim of {x}"))
}

/// Block sizes belong to the last dimensions; each dimension has a scale per block, or per element in front of them.
pub(super) fn dequantize_scale(node: &Node<'_, '_>, [scale, x, ..]: [Slot; 4]) -> Verdict {
    let Some((scales, x_dims)) = node.pair(scale, x) else { return Ok(()) };
    let blocks = block_sizes(node).iter().rev().map(|&size| i64::from(size)).chain(std::iter::repeat(1));
    let dims = scales.iter().zip(x_dims).enumerate().rev().zip(blocks);
    for ((axis, (&size, &x)), block) in dims {
        enough_scales(node, scale, axis, [size, x], block)?;
    }
    Ok(())
}

pub(super) fn block_axis(node: &Node<'_, '_>, [x, ..]: [Slot; 4]) -> Verdict {
    let (Some(dims), Some(Op::BlockScaleQuantize(op))) = (node.dims(x), node.op()) else { return Ok(()) };
    axis_of("axis", op.axis, node.name(x), dims.len())
}

/// Blocks lie along `axis`, the last dimension where it is not stated.
pub(super) fn quantize_scale(node: &Node<'_, '_>, [scale, x, ..]: [Slot; 4]) -> Verdict {
    let (Some((scales, x_dims)), Some(Op::BlockScaleQuantize(op))) = (node.pair(scale, x), node.op()) else { return Ok(()) };
    let along = op.axis.map_or(x_dims.len().checked_sub(1), |axis| usize::try_from(axis).ok());
    for (axis, (&size, &x)) in scales.iter().zip(x_dims).enumerate() {
        enough_scales(node, scale, axis, [size, x], if Some(axis) == along { op.block_size.into() } else { 1 })?;
    }
    Ok(())
}

fn moe_mode(node: &Node<'_, '_>) -> MoeGroupedMatmulMode {
    match node.op() {
        Some(Op::MoeGroupedMatmul(op)) => op.mode,
        _ => MoeGroupedMatmulMode::None,
    }
}

pub(super) fn routes(node: &Node<'_, '_>) -> bool {
    moe_mode(node) != MoeGroupedMatmulMode::None
}

pub(super) fn gathers(node: &Node<'_, '_>) -> bool {
    moe_mode(node) == MoeGroupedMatmulMode::Gather
}

pub(super) fn scatters(node: &Node<'_, '_>) -> bool {
    moe_mode(node) == MoeGroupedMatmulMode::Scatter
}

/// Each token goes to 1 up to all experts.
pub(super) fn top_k(node: &Node<'_, '_>, [weight, ..]: [Slot; 4]) -> Verdict {
    let (Some(dims), Some(Op::MoeGroupedMatmul(op))) = (node.dims(weight), node.op()) else { return Ok(()) };
    match dims.first() {
        Some(&experts) if !(1..=experts).contains(&op.top_k.into()) => {
            attribute_fault("top_k", Found::Value(op.top_k.to_string().into()), format!("1 to {experts}, the number of experts"))
        }
        _ => Ok(()),
    }
}
