//! Problems for sweeps: random graphs that are the same on every machine.
//!
//! A problem is a function of its kind and index. The index walks through the edge cases, types and layouts of the kind, so that a sweep
//! over the first hundred of each meets all of them; what is left is random. None has more than [`MAX_MACS`] multiply-adds.

use hipplan_exec::reference::Random;
use hipplan_serialize::{
    ConvMode, DataType, GraphBuf, GraphBuilder, Op, PointwiseMode, ReductionMode, ScalarType, TensorAttributes, Uid, ops,
};

/// The most multiply-adds of a problem.
pub const MAX_MACS: u64 = 2_000_000;

/// What a problem is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Convolution, forward.
    ConvForward,
    /// Gradient of a convolution's input.
    ConvData,
    /// Gradient of a convolution's filter.
    ConvWeights,
    /// Convolution in one of three directions with as many groups as channels.
    Depthwise,
    /// Convolution in one of three directions with a filter of one tap and no padding.
    ConvOne,
    /// Convolution of 8-bit integers, forward.
    ConvInteger,
    /// Convolution or product, with a chain of bias, scalars, residual and activations.
    Fused,
    /// Batched product.
    Matmul,
    /// One pointwise function, or a chain of them.
    Pointwise,
    /// Batch normalisation with given statistics.
    Batchnorm,
    /// Reduction over some or all axes.
    Reduction,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 11] = [
        Self::ConvForward,
        Self::ConvData,
        Self::ConvWeights,
        Self::Depthwise,
        Self::ConvOne,
        Self::ConvInteger,
        Self::Fused,
        Self::Matmul,
        Self::Pointwise,
        Self::Batchnorm,
        Self::Reduction,
    ];

    /// Its name, for reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::ConvForward => "conv_fwd",
            Self::ConvData => "conv_dgrad",
            Self::ConvWeights => "conv_wgrad",
            Self::Depthwise => "depthwise",
            Self::ConvOne => "conv_1x1",
            Self::ConvInteger => "conv_int8",
            Self::Fused => "fused",
            Self::Matmul => "matmul",
            Self::Pointwise => "pointwise",
            Self::Batchnorm => "batchnorm",
            Self::Reduction => "reduction",
        }
    }
}

/// One problem.
#[derive(Clone, Debug)]
pub struct Problem {
    /// Kind, index, and what can be said in a few words.
    pub name: String,
    /// What it is about.
    pub kind: Kind,
    /// The graph.
    pub graph: GraphBuf,
    /// Multiply-adds of its convolution or product; of other graphs, elements.
    pub macs: u64,
}

/// The problem of a kind with this index.
///
/// # Panics
/// If a graph of the generator's is invalid, which is a defect of it.
pub fn problem(kind: Kind, index: u64) -> Problem {
    let seed = Random::new(kind as u64 + 1).bits() ^ Random::new(index).bits();
    let mut draw = Draw(Random::new(seed));
    let (what, builder, macs) = match kind {
        Kind::ConvForward => convolution(&mut draw, index, Direction::Forward, Shape::Any, None),
        Kind::ConvData => convolution(&mut draw, index, Direction::Data, Shape::Any, None),
        Kind::ConvWeights => convolution(&mut draw, index, Direction::Weights, Shape::Any, None),
        Kind::Depthwise => convolution(&mut draw, index / 3, Direction::of(index), Shape::Depthwise, None),
        Kind::ConvOne => convolution(&mut draw, index / 3, Direction::of(index), Shape::One, None),
        Kind::ConvInteger => convolution(&mut draw, index, Direction::Forward, Shape::Any, Some((DataType::Int8, DataType::Int32))),
        Kind::Fused => fused(&mut draw, index),
        Kind::Matmul => matmul(&mut draw, index, None),
        Kind::Pointwise => pointwise(&mut draw, index),
        Kind::Batchnorm => batchnorm(&mut draw, index),
        Kind::Reduction => reduction(&mut draw, index),
    };
    let name = format!("{} {index}: {what}", kind.name());
    let graph = builder.build().unwrap_or_else(|e| panic!("{name}: {e}"));
    Problem { name, kind, graph, macs }
}

/// What is drawn.
struct Draw(Random);

impl Draw {
    fn from<T: Clone>(&mut self, list: &[T]) -> T {
        let at = self.0.integer(0, list.len() as i64 - 1);
        list[at as usize].clone()
    }

    fn between(&mut self, low: i64, high: i64) -> i64 {
        self.0.integer(low, high.max(low))
    }

    fn coin(&mut self) -> bool {
        self.0.coin()
    }
}

/// How a tensor lies in memory.
#[derive(Clone, Copy, Debug)]
enum Layout {
    /// Row-major.
    Packed,
    /// Channels last.
    Last,
    /// Row-major with room between rows.
    Gapped,
    /// The axes in some order, with room here and there.
    Odd,
}

const LAYOUTS: [Layout; 4] = [Layout::Packed, Layout::Last, Layout::Gapped, Layout::Odd];

fn tensor(draw: &mut Draw, dtype: DataType, dims: &[i64], layout: Layout) -> TensorAttributes {
    let mut order: Vec<usize> = (0..dims.len()).collect();
    match layout {
        Layout::Last if dims.len() > 2 => order = [0].into_iter().chain(2..dims.len()).chain([1]).collect(),
        Layout::Odd => {
            for i in (1..order.len()).rev() {
                order.swap(i, draw.between(0, i as i64) as usize);
            }
        }
        _ => {}
    }
    let mut strides = vec![0; dims.len()];
    let mut next = if matches!(layout, Layout::Gapped) { 2 } else { 1 };
    for &axis in order.iter().rev() {
        strides[axis] = next;
        let gap = match layout {
            Layout::Gapped => 1,
            Layout::Odd => draw.between(0, 2),
            _ => 0,
        };
        next = next * dims[axis] + gap;
    }
    let mut tensor = TensorAttributes::packed(dtype, dims);
    tensor.set_strides(&strides);
    tensor
}

/// Types of inputs and of the output.
type Types = (DataType, DataType);

const TYPES: [Types; 9] = {
    use DataType::{BFloat16, Double, Float, Half};
    [
        (Float, Float),
        (Half, Half),
        (Float, Float),
        (BFloat16, BFloat16),
        (Float, Float),
        (Double, Double),
        (Half, Float),
        (Float, Float),
        (BFloat16, Float),
    ]
};

fn compute_of((input, _): Types) -> DataType {
    match input {
        DataType::Double => DataType::Double,
        DataType::Int8 => DataType::Int32,
        _ => DataType::Float,
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Direction {
    Forward,
    Data,
    Weights,
}

impl Direction {
    fn of(index: u64) -> Self {
        [Self::Forward, Self::Data, Self::Weights][(index % 3) as usize]
    }
}

/// Which convolutions.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    Any,
    Depthwise,
    One,
}

/// One spatial dimension.
#[derive(Clone, Copy, Debug)]
struct Dim {
    input: i64,
    filter: i64,
    pre: i64,
    post: i64,
    stride: i64,
    dilation: i64,
}

impl Dim {
    /// Filter positions, where there is one.
    fn out(self) -> Option<i64> {
        let room = self.input + self.pre + self.post - (self.filter - 1) * self.dilation - 1;
        (self.input >= 1 && room >= 0).then(|| room / self.stride + 1)
    }
}

/// The edge cases that indices walk through.
#[derive(Clone, Copy, Debug)]
enum Edge {
    /// 3 taps, padding 1.
    Usual,
    /// Whatever there is.
    Mixed,
    /// The stride is larger than the filter: input that no output reads.
    LongStride,
    /// Padding larger than the image.
    WidePadding,
    Dilated,
    /// Different padding before and behind.
    Lopsided,
    /// Dimensions of 1.
    Ones,
    /// 5 to 7 taps, stride 2.
    Large,
}

const EDGES: [Edge; 8] =
    [Edge::Usual, Edge::Mixed, Edge::LongStride, Edge::WidePadding, Edge::Dilated, Edge::Lopsided, Edge::Ones, Edge::Large];

fn spatial(draw: &mut Draw, edge: Edge, rank: usize) -> Dim {
    // Fewer elements a side in more dimensions.
    let side = [40, 14, 7][rank - 1];
    let input = draw.between(1, side);
    let dim = |filter, pre, post, stride, dilation| Dim { input, filter, pre, post, stride, dilation };
    match edge {
        Edge::Usual => Dim { input: input.max(3), ..dim(3, 1, 1, draw.from(&[1, 1, 2]), 1) },
        Edge::Mixed => dim(draw.between(1, 4), draw.between(0, 2), draw.between(0, 2), draw.between(1, 3), draw.between(1, 2)),
        Edge::LongStride => {
            let filter = draw.between(1, 2);
            let pad = draw.between(0, 1);
            dim(filter, pad, pad, filter + draw.between(1, 3), 1)
        }
        Edge::WidePadding => {
            let input = draw.between(1, 3);
            let (pre, post) = (input + draw.between(1, 3), input + draw.between(0, 3));
            Dim { input, ..dim(draw.between(1, 4), pre, post, draw.between(1, 2), 1) }
        }
        Edge::Dilated => {
            let (filter, dilation) = (draw.between(2, 4), draw.between(2, 4));
            let pad = draw.between(0, filter * dilation / 2);
            dim(filter, pad, pad, draw.between(1, 2), dilation)
        }
        Edge::Lopsided => {
            let pre = draw.between(0, 4);
            dim(draw.between(2, 5), pre, (pre + draw.between(1, 3)) % 5, draw.between(1, 2), draw.between(1, 2))
        }
        Edge::Ones => {
            let filter = draw.from(&[1, 1, 3]);
            Dim { input: draw.from(&[1, 1, input]), ..dim(filter, filter / 2, filter / 2, 1, 1) }
        }
        Edge::Large => {
            let filter = draw.between(5, 7);
            dim(filter, filter / 2, filter / 2, 2, 1)
        }
    }
}

/// A convolution as numbers.
struct Conv {
    batch: i64,
    groups: i64,
    /// Of one group.
    channels: i64,
    /// Of one group.
    filters: i64,
    dims: Vec<Dim>,
}

impl Conv {
    fn list(&self, f: fn(Dim) -> i64) -> Vec<i64> {
        self.dims.iter().map(|&d| f(d)).collect()
    }

    fn outs(&self) -> Option<Vec<i64>> {
        self.dims.iter().map(|d| d.out()).collect()
    }

    fn macs(&self) -> Option<u64> {
        let taps: i64 = self.list(|d| d.filter).iter().product();
        let outs: i64 = self.outs()?.iter().product();
        u64::try_from(self.batch * self.groups * self.channels * self.filters * taps * outs).ok()
    }
}

fn conv_numbers(draw: &mut Draw, index: u64, shape: Shape) -> (Conv, u64) {
    let edge = EDGES[(index % EDGES.len() as u64) as usize];
    // Two dimensions half of the time.
    let rank = [2, 1, 2, 3][(index / 3 % 4) as usize];
    let grouped = shape == Shape::Any && index % 5 == 2;
    let odd = [1_i64, 2, 3, 5, 7, 8, 13, 16, 24, 31, 32, 33, 48, 64, 70];
    let mut tries = 0;
    loop {
        // After some tries, small ones.
        let list = if tries < 30 { &odd[..] } else { &odd[..5] };
        let ones = matches!(edge, Edge::Ones) && draw.coin();
        let (groups, channels, filters) = match shape {
            Shape::Depthwise => (draw.from(list), 1, draw.from(&[1, 1, 2, 3])),
            _ if grouped => (draw.between(2, 5), draw.between(1, 9), draw.between(1, 9)),
            _ if ones => (1, draw.from(&[1, 1, 5]), draw.from(&[1, 1, 5])),
            _ => (1, draw.from(list), draw.from(list)),
        };
        let batch = if tries < 30 { draw.from(&[1, 1, 2, 3, 5]) } else { 1 };
        let dims = (0..rank).map(|_| match shape {
            Shape::One => Dim {
                input: draw.between(1, [200, 28, 8][rank - 1]),
                filter: 1,
                pre: 0,
                post: 0,
                stride: draw.from(&[1, 1, 1, 2]),
                dilation: 1,
            },
            _ => spatial(draw, edge, rank),
        });
        let conv = Conv { batch, groups, channels, filters, dims: dims.collect() };
        match conv.macs() {
            Some(macs) if macs <= MAX_MACS => return (conv, macs),
            _ => tries += 1,
        }
    }
}

/// A graph that is not built yet, with its last result, which is a virtual one.
struct Part {
    builder: GraphBuilder,
    result: Uid,
    dims: Vec<i64>,
    types: Types,
    layout: Layout,
}

fn conv_part(draw: &mut Draw, conv: &Conv, direction: Direction, types: Types, is_virtual: bool) -> Part {
    let outs = conv.outs().unwrap_or_default();
    let dims = |n, k, rest: Vec<i64>| [vec![n, k], rest].concat();
    let x = dims(conv.batch, conv.groups * conv.channels, conv.list(|d| d.input));
    let w = dims(conv.groups * conv.filters, conv.channels, conv.list(|d| d.filter));
    let y = dims(conv.batch, conv.groups * conv.filters, outs);
    let [pre, post, stride, dilation] = [conv.list(|d| d.pre), conv.list(|d| d.post), conv.list(|d| d.stride), conv.list(|d| d.dilation)];
    // The usual pairs half of the time.
    let layout = draw.from(&LAYOUTS);
    let all = draw.coin();
    let layouts = if all { [layout; 3] } else { [0; 3].map(|_| draw.from(&LAYOUTS)) };
    let mut builder = GraphBuilder::new();
    let written = match direction {
        Direction::Forward => 2,
        Direction::Data => 0,
        Direction::Weights => 1,
    };
    let mut uids = Vec::new();
    for (i, dims) in [&x, &w, &y].into_iter().enumerate() {
        let dtype = match (i == written, is_virtual) {
            (false, _) => types.0,
            (true, false) => types.1,
            (true, true) => compute_of(types),
        };
        let mut t = tensor(draw, dtype, dims, layouts[i]);
        t.set_virtual(i == written && is_virtual);
        uids.push(builder.tensor(t));
    }
    let [x_uid, w_uid, y_uid] = [uids[0], uids[1], uids[2]];
    let conv_mode = if draw.between(0, 3) == 0 { ConvMode::Convolution } else { ConvMode::CrossCorrelation };
    let (pre_padding, post_padding, stride, dilation) = (&pre[..], &post[..], &stride[..], &dilation[..]);
    let op: Op<'_> = match direction {
        Direction::Forward => {
            ops::ConvolutionFwd { x: x_uid, w: w_uid, y: y_uid, pre_padding, post_padding, stride, dilation, conv_mode }.into()
        }
        Direction::Data => {
            ops::ConvolutionBwd { dy: y_uid, w: w_uid, dx: x_uid, pre_padding, post_padding, stride, dilation, conv_mode }.into()
        }
        Direction::Weights => {
            ops::ConvolutionWrw { x: x_uid, dy: y_uid, dw: w_uid, pre_padding, post_padding, stride, dilation, conv_mode }.into()
        }
    };
    builder.node("conv", compute_of(types), op);
    let dims = [x, w, y].into_iter().nth(written).unwrap_or_default();
    Part { builder, result: uids[written], dims, types, layout: layouts[written] }
}

fn convolution(draw: &mut Draw, index: u64, direction: Direction, shape: Shape, types: Option<Types>) -> (String, GraphBuilder, u64) {
    let (conv, macs) = conv_numbers(draw, index, shape);
    let types = types.unwrap_or(TYPES[(index / 8 % TYPES.len() as u64) as usize]);
    let part = conv_part(draw, &conv, direction, types, false);
    (conv_text(&conv, direction, types), part.builder, macs)
}

fn conv_text(conv: &Conv, direction: Direction, (input, output): Types) -> String {
    let list = |f: fn(Dim) -> i64| conv.dims.iter().map(|&d| f(d).to_string()).collect::<Vec<_>>().join("x");
    format!(
        "{direction:?} {input}->{output} n{} g{} c{} k{} in {} filter {} pad {}/{} stride {} dilation {}",
        conv.batch,
        conv.groups,
        conv.channels,
        conv.filters,
        list(|d| d.input),
        list(|d| d.filter),
        list(|d| d.pre),
        list(|d| d.post),
        list(|d| d.stride),
        list(|d| d.dilation)
    )
}

fn matmul(draw: &mut Draw, index: u64, is_virtual: Option<&mut Option<Part>>) -> (String, GraphBuilder, u64) {
    let types = TYPES[(index / 4 % TYPES.len() as u64) as usize];
    let (transpose_a, transpose_b) = (index % 2 == 1, index / 2 % 2 == 1);
    let sizes = [1_i64, 2, 3, 7, 16, 17, 31, 33, 64, 65, 100, 127, 128, 130, 256];
    let (batch, [m, k, n]) = loop {
        let batch: Vec<(i64, i64)> = (0..draw.between(0, 2)).map(|_| (draw.between(1, 4), draw.between(0, 3))).collect();
        let mkn = [0; 3].map(|_| draw.from(&sizes));
        if mkn.iter().product::<i64>() * batch.iter().map(|b| b.0).product::<i64>() <= MAX_MACS as i64 {
            break (batch, mkn);
        }
    };
    let macs = (m * k * n * batch.iter().map(|b| b.0).product::<i64>()) as u64;
    // Which of the operands a batch dimension broadcasts.
    let side = |which: i64, rows: i64, columns: i64| -> Vec<i64> {
        batch.iter().map(|&(d, b)| if b == which { 1 } else { d }).chain([rows, columns]).collect()
    };
    let mut builder = GraphBuilder::new();
    let mut operand = |dims: Vec<i64>, transposed: bool| {
        // Room behind each row, and between matrices.
        let (row_gap, matrix_gap) = (draw.from(&[0, 0, 1, 5]), draw.from(&[0, 0, 3]));
        let rank = dims.len();
        let (rows, columns) = (dims[rank - 2], dims[rank - 1]);
        let mut strides = vec![0; rank];
        let (inner, outer) = if transposed { (rank - 2, rank - 1) } else { (rank - 1, rank - 2) };
        strides[inner] = 1;
        strides[outer] = if transposed { rows } else { columns } + row_gap;
        let mut next = strides[outer] * dims[outer] + matrix_gap;
        for axis in (0..rank - 2).rev() {
            strides[axis] = next;
            next *= dims[axis];
        }
        let mut t = TensorAttributes::packed(types.0, &dims);
        t.set_strides(&strides);
        builder.tensor(t)
    };
    let a = operand(side(1, m, k), transpose_a);
    let b = operand(side(2, k, n), transpose_b);
    let dims: Vec<i64> = batch.iter().map(|b| b.0).chain([m, n]).collect();
    let layout = draw.from(&[Layout::Packed, Layout::Packed, Layout::Gapped, Layout::Odd]);
    let dtype = if is_virtual.is_some() { compute_of(types) } else { types.1 };
    let mut c = tensor(draw, dtype, &dims, layout);
    c.set_virtual(is_virtual.is_some());
    let c = builder.tensor(c);
    builder.node("matmul", compute_of(types), ops::Matmul { a, b, c });
    let letter = |transposed| if transposed { 't' } else { 'n' };
    let (input, output) = types;
    let what = format!("{input}->{output} {}{} batch {batch:?} m{m} k{k} n{n}", letter(transpose_a), letter(transpose_b));
    if let Some(part) = is_virtual {
        *part = Some(Part { builder, result: c, dims, types, layout });
        return (what, GraphBuilder::new(), macs);
    }
    (what, builder, macs)
}

/// The three states of a by-value scalar, by turns.
fn scalar(draw: &mut Draw, builder: &mut GraphBuilder, dtype: DataType, state: u64) -> Uid {
    let value = draw.from(&[0.5_f32, -1.25, 2.0, 0.75]);
    let ty = if state.is_multiple_of(3) { ScalarType::CompileTimeConst } else { ScalarType::RuntimeParam };
    let mut t = match dtype {
        DataType::Double => TensorAttributes::scalar_of(f64::from(value), ty),
        _ => TensorAttributes::scalar_of(value, ty),
    };
    if state % 3 == 1 {
        t = TensorAttributes::packed(if dtype == DataType::Double { dtype } else { DataType::Float }, &[1]);
        t.set_as_runtime_parameter();
    }
    builder.tensor(t)
}

/// Functions of one number that close a chain.
const ACTIVATIONS: [PointwiseMode; 14] = {
    use PointwiseMode as M;
    [
        M::ReluFwd,
        M::SigmoidFwd,
        M::TanhFwd,
        M::GeluFwd,
        M::SwishFwd,
        M::EluFwd,
        M::SoftplusFwd,
        M::GeluApproxTanhFwd,
        M::Abs,
        M::Neg,
        M::Erf,
        M::Exp,
        M::Identity,
        M::Floor,
    ]
};

fn chain(draw: &mut Draw, index: u64, part: Part) -> (String, GraphBuilder) {
    let Part { mut builder, result, dims, types, layout } = part;
    let compute = compute_of(types);
    let mut names = Vec::new();
    let mut last = result;
    let steps = draw.between(1, 5);
    for step in 0..steps {
        let out = if step + 1 == steps {
            let out = tensor(draw, types.1, &dims, layout);
            builder.tensor(out)
        } else {
            let mut t = TensorAttributes::packed(compute, &dims);
            t.set_virtual(true);
            builder.tensor(t)
        };
        let node = format!("step {step}");
        // Whichever comes first.
        let swapped = draw.coin();
        let pair = |second| if swapped { (second, last) } else { (last, second) };
        // The index decides about the first step, so that each is met with each state of a scalar.
        match if step == 0 { index as i64 % 4 } else { draw.between(0, 4) } {
            0 => {
                let state = index / 4 + step as u64;
                let second = scalar(draw, &mut builder, compute, state);
                let mode = draw.from(&[PointwiseMode::Mul, PointwiseMode::Add, PointwiseMode::Sub, PointwiseMode::Max]);
                let (first, second) = pair(second);
                builder.node(&node, compute, ops::Pointwise::binary(mode, first, second, out));
                names.push(format!("{mode} scalar {}", ["constant", "runtime", "default"][(state % 3) as usize]));
            }
            1 => {
                let axis = if dims.len() > 2 { 1 } else { dims.len() - 1 };
                let mut bias = vec![1; dims.len()];
                bias[axis] = dims[axis];
                let second = builder.tensor(TensorAttributes::packed(types.1, &bias));
                let (first, second) = pair(second);
                builder.node(&node, compute, ops::Pointwise::binary(PointwiseMode::Add, first, second, out));
                names.push("bias".to_owned());
            }
            2 => {
                let mode = draw.from(&ACTIVATIONS);
                builder.node(&node, compute, ops::Pointwise::unary(mode, last, out));
                names.push(mode.to_string());
            }
            3 => {
                let residual = tensor(draw, types.0, &dims, layout);
                let second = builder.tensor(residual);
                let (first, second) = pair(second);
                builder.node(&node, compute, ops::Pointwise::binary(PointwiseMode::Add, first, second, out));
                names.push("residual".to_owned());
            }
            _ => {
                let mut op = ops::Pointwise::unary(PointwiseMode::ReluFwd, last, out);
                op.relu_lower_clip_slope = draw.coin().then_some(0.125);
                op.relu_upper_clip = draw.coin().then_some(1.5);
                builder.node(&node, compute, op);
                names.push("clipped relu".to_owned());
            }
        }
        last = out;
    }
    (names.join(", "), builder)
}

fn fused(draw: &mut Draw, index: u64) -> (String, GraphBuilder, u64) {
    let (what, part, macs) = if index % 3 == 2 {
        let mut part = None;
        let (what, _, macs) = matmul(draw, index, Some(&mut part));
        (what, part.expect("a matmul"), macs)
    } else {
        let shape = [Shape::Any, Shape::One, Shape::Any, Shape::Depthwise][(index / 3 % 4) as usize];
        let direction = if index % 12 == 4 { Direction::Data } else { Direction::Forward };
        let (conv, macs) = conv_numbers(draw, index, shape);
        let types = TYPES[(index / 8 % TYPES.len() as u64) as usize];
        (conv_text(&conv, direction, types), conv_part(draw, &conv, direction, types, true), macs)
    };
    let (names, builder) = chain(draw, index, part);
    (format!("{what}; {names}"), builder, macs)
}

fn pointwise(draw: &mut Draw, index: u64) -> (String, GraphBuilder, u64) {
    let modes: Vec<_> = PointwiseMode::ALL.iter().copied().filter(|m| *m != PointwiseMode::Unset).collect();
    let count = modes.len() as u64;
    let mode = modes[(index % count) as usize];
    let types = TYPES[((index + index / count) % TYPES.len() as u64) as usize];
    let compute = compute_of(types);
    let rank = draw.between(1, 5) as usize;
    let dims = loop {
        let dims: Vec<i64> = (0..rank).map(|_| draw.from(&[1, 2, 3, 5, 8, 17, 64])).collect();
        if dims.iter().product::<i64>() <= 20_000 {
            break dims;
        }
    };
    let layout = draw.from(&LAYOUTS);
    let mut builder = GraphBuilder::new();
    // A second or third operand may lack leading dimensions, or have ones where the first has more.
    let operand = |builder: &mut GraphBuilder, draw: &mut Draw, whole: bool| {
        let skip = if whole { 0 } else { draw.between(0, rank as i64 - 1) as usize };
        let own: Vec<i64> = dims[skip..].iter().map(|&d| if !whole && draw.between(0, 2) == 0 { 1 } else { d }).collect();
        let layout = draw.from(&LAYOUTS);
        let t = tensor(draw, types.0, &own, layout);
        builder.tensor(t)
    };
    let in_0 = operand(&mut builder, draw, true);
    let by_value = mode.arity() == 2 && index / count % 4 == 3;
    let in_1 = match mode.arity() {
        0 | 1 => None,
        _ if by_value => Some(scalar(draw, &mut builder, compute, index)),
        _ => Some(operand(&mut builder, draw, false)),
    };
    let in_2 = (mode.arity() >= 3).then(|| operand(&mut builder, draw, false));
    let out = tensor(draw, types.1, &dims, layout);
    let out_0 = builder.tensor(out);
    let axis = (mode == PointwiseMode::GenIndex).then(|| draw.between(0, rank as i64 - 1));
    let mut op = ops::Pointwise { in_1, in_2, axis, ..ops::Pointwise::unary(mode, in_0, out_0) };
    match mode {
        PointwiseMode::ReluFwd | PointwiseMode::ReluBwd => op.relu_lower_clip_slope = draw.coin().then_some(0.1),
        PointwiseMode::SwishFwd | PointwiseMode::SwishBwd => op.swish_beta = draw.coin().then_some(1.75),
        PointwiseMode::EluFwd | PointwiseMode::EluBwd => op.elu_alpha = draw.coin().then_some(0.3),
        PointwiseMode::SoftplusFwd | PointwiseMode::SoftplusBwd => op.softplus_beta = draw.coin().then_some(2.5),
        _ => {}
    }
    builder.node("function", compute, op);
    let (input, output) = types;
    (format!("{mode} {input}->{output} {dims:?}{}", if by_value { " by value" } else { "" }), builder, dims.iter().product::<i64>() as u64)
}

fn batchnorm(draw: &mut Draw, index: u64) -> (String, GraphBuilder, u64) {
    let types = TYPES[(index / 2 % TYPES.len() as u64) as usize];
    let compute = compute_of(types);
    let rank = draw.between(0, 3);
    let dims = loop {
        let mut dims = vec![draw.between(1, 4), draw.from(&[1, 2, 3, 7, 16, 33])];
        dims.extend((0..rank).map(|_| draw.from(&[1, 2, 5, 9, 16])));
        if dims.iter().product::<i64>() <= 20_000 {
            break dims;
        }
    };
    let mut per_channel = vec![1; dims.len()];
    per_channel[1] = dims[1];
    let mut builder = GraphBuilder::new();
    let layout = draw.from(&LAYOUTS);
    let input = tensor(draw, types.0, &dims, layout);
    let x = builder.tensor(input);
    let [mean, spread, scale, bias] = std::array::from_fn(|_| builder.tensor(TensorAttributes::packed(compute, &per_channel)));
    let output_layout = if draw.coin() { layout } else { draw.from(&LAYOUTS) };
    let output = tensor(draw, types.1, &dims, output_layout);
    let y = builder.tensor(output);
    let with_variance = index % 2 == 1;
    if with_variance {
        let ty = if index % 4 == 1 { ScalarType::CompileTimeConst } else { ScalarType::RuntimeParam };
        let epsilon = builder.scalar(1e-3_f32, ty);
        builder.node("bn", compute, ops::BatchnormInferenceVariance { x, mean, variance: spread, scale, bias, y, epsilon });
    } else {
        builder.node("bn", compute, ops::BatchnormInference { x, mean, inv_variance: spread, scale, bias, y });
    }
    let (input, output) = types;
    (format!("{input}->{output} {dims:?}{}", if with_variance { " variance" } else { "" }), builder, dims.iter().product::<i64>() as u64)
}

fn reduction(draw: &mut Draw, index: u64) -> (String, GraphBuilder, u64) {
    let modes: Vec<_> = ReductionMode::ALL.iter().copied().filter(|m| *m != ReductionMode::NotSet).collect();
    let mode = modes[(index % modes.len() as u64) as usize];
    let types = TYPES[(index / 4 % TYPES.len() as u64) as usize];
    let rank = draw.between(1, 5) as usize;
    // Long rows now and then, and products of few factors, which stay in the range of every type.
    let product = matches!(mode, ReductionMode::Mul | ReductionMode::MulNoZeros);
    let (sizes, limit): (&[i64], _) = match index / 2 % 3 {
        _ if product => (&[1, 2, 3], 12),
        0 => (&[1, 3, 1000, 4097], 100_000),
        1 => (&[1, 2, 5, 8, 33], 20_000),
        _ => (&[1, 7, 64, 256], 100_000),
    };
    let dims = loop {
        let dims: Vec<i64> = (0..rank).map(|_| draw.from(sizes)).collect();
        if dims.iter().product::<i64>() <= limit {
            break dims;
        }
    };
    // All axes, the last, or any.
    let last = draw.between(0, rank as i64 - 1) as usize;
    let out: Vec<i64> = match index % 4 {
        0 => vec![1; rank],
        1 => dims.iter().enumerate().map(|(axis, &d)| if axis == rank - 1 { 1 } else { d }).collect(),
        _ => dims.iter().enumerate().map(|(axis, &d)| if axis == last || draw.coin() { 1 } else { d }).collect(),
    };
    let mut builder = GraphBuilder::new();
    let layout = draw.from(&LAYOUTS);
    let x = tensor(draw, types.0, &dims, layout);
    let input = builder.tensor(x);
    let layout = draw.from(&LAYOUTS);
    let y = tensor(draw, types.1, &out, layout);
    let output = builder.tensor(y);
    builder.node("reduction", compute_of(types), ops::Reduction { mode, input, output, is_deterministic: index.is_multiple_of(2) });
    let (from, to) = types;
    (format!("{mode} {from}->{to} {dims:?} to {out:?}"), builder, dims.iter().product::<i64>() as u64)
}
