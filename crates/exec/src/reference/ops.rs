//! The operations, by definition: plain loops over logical indices in 64-bit floats.
//!
//! Nothing here is shared with a provider, on purpose, and nothing is clever: this file is what the providers are checked
//! against. Operand orders and defaults are hipDNN's: backward functions take `dy` before `x` (rocm-libraries issue 7676 and pull
//! request 7736; before that its reference had them the other way round), `binary_select(a, b, mask)` is `mask ? a : b` (pull
//! request 10520).

use hipplan_serialize::ops::Pointwise;
use hipplan_serialize::{PointwiseMode, ReductionMode};
use std::ops::Range;
use std::sync::Mutex;

/// A value, and how far the value of a correct implementation may be from it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Num {
    /// The value.
    pub value: f64,
    /// Bound of the absolute difference.
    pub bound: f64,
}

impl Num {
    /// A value without error.
    pub const fn exact(value: f64) -> Self {
        Self { value, bound: 0.0 }
    }
}

/// A dense array in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub struct Array<T> {
    /// Dimensions.
    pub dims: Vec<usize>,
    /// Elements, the last dimension fastest.
    pub data: Vec<T>,
}

impl Array<Num> {
    /// An array of values without error.
    pub fn exact(dims: &[usize], values: &[f64]) -> Self {
        assert_eq!(dims.iter().product::<usize>(), values.len());
        Self { dims: dims.to_vec(), data: values.iter().map(|&v| Num::exact(v)).collect() }
    }
}

/// A sum of products and what an error analysis needs of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sum {
    /// The sum.
    pub value: f64,
    /// Sum of the absolute products.
    pub scale: f64,
    /// Bound of what the errors of the factors add to the sum.
    pub carried: f64,
}

impl Sum {
    fn add_product(&mut self, a: Num, b: Num) {
        self.value += a.value * b.value;
        self.scale += (a.value * b.value).abs();
        self.carried += a.value.abs() * b.bound + b.value.abs() * a.bound + a.bound * b.bound;
    }
}

/// Numbers of a convolution, per spatial dimension.
#[derive(Clone, Debug, PartialEq)]
pub struct Convolution {
    /// Padding before the first element.
    pub pre_padding: Vec<usize>,
    /// Step of the filter.
    pub stride: Vec<usize>,
    /// Distance between filter taps.
    pub dilation: Vec<usize>,
    /// Whether the filter is flipped in every spatial dimension.
    pub flip: bool,
}

impl Convolution {
    /// Calls `f` with every product of the definition
    /// `y[n, k, o] = sum over c, r of x[n, g C + c, o stride + r dilation - pad] w[k, c, r]`, `g` the group of filter `k`, for the
    /// images `n` and the filters `k` in the ranges: a row of outputs at a time, whose products with one tap are at
    /// `x[x_at + i step]`, `w[w_at]` and `y[y_at + i]` for `i` below the length of the row.
    fn each_row(&self, [x, w, y]: [&[usize]; 3], images: Range<usize>, these_filters: Range<usize>, mut f: impl FnMut(Row)) {
        // Three spatial dimensions: those that are missing have one element, one tap, stride 1 and no padding.
        let spatial = x.len() - 2;
        let pad_to_3 = |list: &[usize], neutral| {
            let mut out = [neutral; 3];
            out[3 - spatial..].copy_from_slice(list);
            out
        };
        let [xd, xh, xw] = pad_to_3(&x[2..], 1);
        let [wd, wh, ww] = pad_to_3(&w[2..], 1);
        let [yd, yh, yw] = pad_to_3(&y[2..], 1);
        let pad = pad_to_3(&self.pre_padding, 0);
        let stride = pad_to_3(&self.stride, 1);
        let dilation = pad_to_3(&self.dilation, 1);
        // Where tap `r` of output `o` reads, if that is inside the image.
        let input = |axis: usize, o: usize, r: usize, size: usize| {
            (o * stride[axis] + r * dilation[axis]).checked_sub(pad[axis]).filter(|&i| i < size)
        };
        let tap = |r: usize, size: usize| if self.flip { size - 1 - r } else { r };
        // The outputs of a row whose tap `r` is inside the image are neighbours.
        let inside = |r: usize| {
            let first = pad[2].saturating_sub(r * dilation[2]).div_ceil(stride[2]);
            let end = (xw + pad[2]).saturating_sub(r * dilation[2]).div_ceil(stride[2]).min(yw);
            first..end.max(first)
        };
        let (x_channels, filters, channels) = (x[1], w[0], w[1]);
        let filters_per_group = filters / (x_channels / channels);
        for n in images {
            for k in these_filters.clone() {
                let group = k / filters_per_group;
                for c in 0..channels {
                    for rd in 0..wd {
                        for rh in 0..wh {
                            for rw in 0..ww {
                                let (td, th, tw) = (tap(rd, wd), tap(rh, wh), tap(rw, ww));
                                let w_at = (((k * channels + c) * wd + td) * wh + th) * ww + tw;
                                for od in 0..yd {
                                    let Some(id) = input(0, od, rd, xd) else { continue };
                                    for oh in 0..yh {
                                        let Some(ih) = input(1, oh, rh, xh) else { continue };
                                        let x_row = (((n * x_channels + group * channels + c) * xd + id) * xh + ih) * xw;
                                        let y_row = (((n * filters + k) * yd + od) * yh + oh) * yw;
                                        let ow = inside(rw);
                                        if ow.is_empty() {
                                            continue;
                                        }
                                        let Some(iw) = input(2, ow.start, rw, xw) else { continue };
                                        let (x_at, y_at) = (x_row + iw, y_row + ow.start);
                                        f(Row { x_at, step: stride[2], w_at, y_at, length: ow.len() });
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    /// The convolution: `y` of dims `y_dims`.
    pub fn forward(&self, x: &Array<Num>, w: &Array<Num>, y_dims: &[usize]) -> Array<Sum> {
        let mut y = zeros(y_dims);
        // One image is shared out by its filters.
        let (batch, filters) = (y_dims[0], y_dims[1]);
        let by_image = batch > 1;
        in_parts(&mut y.data, if by_image { batch } else { filters }, |part, first, sums| {
            let (images, filters) = if by_image { (part, 0..filters) } else { (0..batch, part) };
            self.each_row([&x.dims, &w.dims, y_dims], images, filters, |Row { x_at, step, w_at, y_at, length }| {
                let sums = &mut sums[y_at - first..][..length];
                sums.iter_mut().zip(x.data[x_at..].iter().step_by(step)).for_each(|(sum, &x)| sum.add_product(x, w.data[w_at]));
            });
        });
        y
    }

    /// Gradient with respect to the image: each product of the definition, solved for `x`.
    pub fn backward_data(&self, dy: &Array<Num>, w: &Array<Num>, dx_dims: &[usize]) -> Array<Sum> {
        let mut dx = zeros(dx_dims);
        in_parts(&mut dx.data, dx_dims[0], |images, first, sums| {
            self.each_row([dx_dims, &w.dims, &dy.dims], images, 0..w.dims[0], |Row { x_at, step, w_at, y_at, length }| {
                let sums = sums[x_at - first..].iter_mut().step_by(step);
                sums.zip(&dy.data[y_at..][..length]).for_each(|(sum, &dy)| sum.add_product(dy, w.data[w_at]));
            });
        });
        dx
    }

    /// Gradient with respect to the filter: each product of the definition, solved for `w`.
    pub fn backward_filter(&self, x: &Array<Num>, dy: &Array<Num>, dw_dims: &[usize]) -> Array<Sum> {
        let mut dw = zeros(dw_dims);
        in_parts(&mut dw.data, dw_dims[0], |filters, first, sums| {
            self.each_row([&x.dims, dw_dims, &dy.dims], 0..x.dims[0], filters, |Row { x_at, step, w_at, y_at, length }| {
                let sum = &mut sums[w_at - first];
                let x = x.data[x_at..].iter().step_by(step);
                x.zip(&dy.data[y_at..][..length]).for_each(|(&x, &dy)| sum.add_product(x, dy));
            });
        });
        dw
    }
}

/// Products of one tap with neighbouring outputs.
struct Row {
    x_at: usize,
    step: usize,
    w_at: usize,
    y_at: usize,
    length: usize,
}

/// Work of less than this many sums is not shared out.
const FEW_SUMS: usize = 4096;

/// Shares an array out among threads by its outermost dimension. `work` is given a range of that dimension, the position of its first
/// element, and its elements. Each element is summed by one thread, so that the sums do not depend on their number.
fn in_parts(sums: &mut [Sum], outer: usize, work: impl Fn(Range<usize>, usize, &mut [Sum]) + Sync) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    if threads == 1 || outer < 2 || sums.len() < FEW_SUMS {
        return work(0..outer, 0, sums);
    }
    let each = sums.len() / outer;
    // Several parts for each thread, as they may be of unequal work.
    let size = outer.div_ceil(threads * 4);
    let parts: Vec<(usize, &mut [Sum])> = sums.chunks_mut(size * each).enumerate().collect();
    let parts = Mutex::new(parts);
    let take = || parts.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).pop();
    let work_off = || {
        while let Some((i, part)) = take() {
            let from = i * size;
            work(from..from + part.len() / each, from * each, part);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            // A system that gives no more threads leaves the work to those that there are.
            if std::thread::Builder::new().spawn_scoped(scope, work_off).is_err() {
                break;
            }
        }
        work_off();
    });
}

fn zeros(dims: &[usize]) -> Array<Sum> {
    Array { dims: dims.to_vec(), data: vec![Sum::default(); dims.iter().product()] }
}

/// `c[.., m, n] = sum over k of a[.., m, k] b[.., k, n]`, batch dimensions broadcast.
pub fn matmul(a: &Array<Num>, b: &Array<Num>, c_dims: &[usize]) -> Array<Sum> {
    let (a_batch, a_matrix) = a.dims.split_at(a.dims.len() - 2);
    let (b_batch, b_matrix) = b.dims.split_at(b.dims.len() - 2);
    let (batch, c_matrix) = c_dims.split_at(c_dims.len() - 2);
    let (rows, columns, inner) = (c_matrix[0], c_matrix[1], a_matrix[1]);
    let mut c = zeros(c_dims);
    for i in 0..batch.iter().product() {
        let index = index_of(i, batch);
        let (a_matrix_at, b_matrix_at) = (broadcast(&index, a_batch), broadcast(&index, b_batch));
        for m in 0..rows {
            for n in 0..columns {
                for k in 0..inner {
                    let a_at = (a_matrix_at * a_matrix[0] + m) * inner + k;
                    let b_at = (b_matrix_at * b_matrix[0] + k) * columns + n;
                    c.data[(i * rows + m) * columns + n].add_product(a.data[a_at], b.data[b_at]);
                }
            }
        }
    }
    c
}

/// Whether each batch dim of a matmul's operand is 1 or that of the product.
pub fn batch_broadcasts(dims: &[usize], c_dims: &[usize]) -> bool {
    let batch = |dims: &[usize]| dims.iter().rev().skip(2).copied().collect::<Vec<usize>>();
    batch(dims).iter().zip(batch(c_dims)).all(|(&d, c)| d == 1 || d == c)
}

/// The index of element `n`, the last dimension fastest.
pub fn index_of(mut n: usize, dims: &[usize]) -> Vec<usize> {
    let mut index = vec![0; dims.len()];
    for axis in (0..dims.len()).rev() {
        index[axis] = n % dims[axis];
        n /= dims[axis];
    }
    index
}

/// The element of an array of dims `dims` that stands at `index` when the array is broadcast as numpy does: dims are aligned at
/// the right, and a dim of 1 is repeated.
pub fn broadcast(index: &[usize], dims: &[usize]) -> usize {
    let aligned = &index[index.len() - dims.len()..];
    aligned.iter().zip(dims).fold(0, |at, (&i, &dim)| at * dim + if dim == 1 { 0 } else { i })
}

/// The reductions, of at least one value. NaN if a value is; without a mode always.
pub fn reduction(mode: ReductionMode, values: impl Iterator<Item = f64> + Clone) -> f64 {
    use ReductionMode as M;
    let count = values.clone().count() as f64;
    match mode {
        M::NotSet => f64::NAN,
        M::Add => values.sum(),
        M::Avg => values.sum::<f64>() / count,
        M::Norm1 => values.map(f64::abs).sum(),
        M::Norm2 => values.map(|v| v * v).sum::<f64>().sqrt(),
        M::Mul => values.product(),
        // Of nothing but zeros, the product of no factors: 1.
        M::MulNoZeros => values.filter(|&v| v != 0.0).product(),
        M::Min => -values.map(|v| -v).fold(f64::NEG_INFINITY, larger),
        M::Max => values.fold(f64::NEG_INFINITY, larger),
        M::Amax => values.map(f64::abs).fold(0.0, larger),
    }
}

/// Calls `f` with the elements of `input` that each element of an array of dims `dims` is reduced from, in order: those that agree in
/// all axes but where `dims` is 1.
pub fn each_reduced<T: Copy>(input: &Array<T>, dims: &[usize], mut f: impl FnMut(&[T])) {
    let gone: Vec<usize> = input.dims.iter().zip(dims).map(|(&from, &to)| if to == 1 { from } else { 1 }).collect();
    let steps: Vec<usize> = (0..gone.iter().product()).map(|i| broadcast(&index_of(i, &gone), &input.dims)).collect();
    let mut terms = Vec::with_capacity(steps.len());
    for to in 0..dims.iter().product() {
        let start = broadcast(&index_of(to, dims), &input.dims);
        terms.clear();
        terms.extend(steps.iter().map(|step| input.data[start + step]));
        f(&terms);
    }
}

/// Batch normalisation with the inverse standard deviation given.
pub fn batchnorm_inference([x, mean, inv_variance, scale, bias]: [f64; 5]) -> f64 {
    (x - mean) * inv_variance * scale + bias
}

/// Batch normalisation with the variance given.
pub fn batchnorm_inference_variance([x, mean, variance, scale, bias, epsilon]: [f64; 6]) -> f64 {
    (x - mean) / (variance + epsilon).sqrt() * scale + bias
}

/// Constants of a pointwise function, with hipDNN's defaults for those that are absent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// Relu: lower clip.
    pub lower: f64,
    /// Relu: upper clip.
    pub upper: f64,
    /// Relu: slope below the lower clip.
    pub slope: f64,
    /// Swish: factor inside the sigmoid.
    pub swish_beta: f64,
    /// Elu: scale of the negative part.
    pub elu_alpha: f64,
    /// Softplus: sharpness.
    pub softplus_beta: f64,
}

impl Default for Parameters {
    fn default() -> Self {
        Self { lower: 0.0, upper: f64::INFINITY, slope: 0.0, swish_beta: 1.0, elu_alpha: 1.0, softplus_beta: 1.0 }
    }
}

impl Parameters {
    /// Of a node.
    pub fn of(op: &Pointwise) -> Self {
        let or = |given: Option<f32>, default: f64| given.map_or(default, f64::from);
        let d = Self::default();
        Self {
            lower: or(op.relu_lower_clip, d.lower),
            upper: or(op.relu_upper_clip, d.upper),
            slope: or(op.relu_lower_clip_slope, d.slope),
            swish_beta: or(op.swish_beta, d.swish_beta),
            elu_alpha: or(op.elu_alpha, d.elu_alpha),
            softplus_beta: or(op.softplus_beta, d.softplus_beta),
        }
    }
}

/// The pointwise functions. `a`, `b`, `c` are the inputs in order; those that a function does not take are ignored.
/// [`PointwiseMode::GenIndex`] takes the index itself as `a`.
pub fn pointwise(mode: PointwiseMode, p: &Parameters, [a, b, c]: [f64; 3]) -> f64 {
    use PointwiseMode as M;
    let truth = |t: bool| if t { 1.0 } else { 0.0 };
    match mode {
        M::Unset => f64::NAN,
        // Arithmetic.
        M::Identity | M::GenIndex => a,
        M::Abs => a.abs(),
        M::Neg => -a,
        M::Ceil => a.ceil(),
        M::Floor => a.floor(),
        M::Reciprocal => 1.0 / a,
        M::Sqrt => a.sqrt(),
        M::Rsqrt => 1.0 / a.sqrt(),
        M::Add => a + b,
        M::Sub => a - b,
        M::Mul => a * b,
        M::Div => a / b,
        M::AddSquare => a + b * b,
        M::Max => larger(a, b),
        M::Min => -larger(-a, -b),
        // Functions.
        M::Exp => a.exp(),
        M::Log => a.ln(),
        M::Sin => a.sin(),
        M::Tan => a.tan(),
        M::Erf => erf(a),
        // Comparisons, which are 1 or 0.
        M::CmpEq => truth(a == b),
        M::CmpNeq => truth(a != b),
        M::CmpGt => truth(a > b),
        M::CmpGe => truth(a >= b),
        M::CmpLt => truth(a < b),
        M::CmpLe => truth(a <= b),
        // Logic, for which anything but 0 is true.
        M::LogicalAnd => truth(a != 0.0 && b != 0.0),
        M::LogicalOr => truth(a != 0.0 || b != 0.0),
        M::LogicalNot => truth(a == 0.0),
        M::BinarySelect => {
            if c != 0.0 {
                a
            } else {
                b
            }
        }
        // Activations, and their derivatives at `b` times `a`.
        M::ReluFwd => {
            if a <= p.lower && p.slope == 0.0 {
                // Also for minus infinity.
                p.lower
            } else if a <= p.lower {
                p.lower + p.slope * (a - p.lower)
            } else if a >= p.upper {
                p.upper
            } else {
                a
            }
        }
        M::ReluBwd => {
            if b <= p.lower {
                a * p.slope
            } else if b > p.upper {
                a * 0.0
            } else {
                a
            }
        }
        M::SigmoidFwd => sigmoid(a),
        M::SigmoidBwd => a * sigmoid(b) * sigmoid(-b),
        M::TanhFwd => a.tanh(),
        M::TanhBwd => a / b.cosh().powi(2),
        M::EluFwd => {
            if a > 0.0 {
                a
            } else {
                p.elu_alpha * a.exp_m1()
            }
        }
        M::EluBwd => {
            if b > 0.0 {
                a
            } else {
                a * p.elu_alpha * b.exp()
            }
        }
        M::SoftplusFwd => {
            // log(1 + exp(beta x)) / beta, without the overflow.
            let t = p.softplus_beta * a;
            (t.max(0.0) + (-t.abs()).exp().ln_1p()) / p.softplus_beta
        }
        M::SoftplusBwd => a * sigmoid(p.softplus_beta * b),
        M::SwishFwd => a * sigmoid(p.swish_beta * a),
        M::SwishBwd => {
            let t = p.swish_beta * b;
            a * sigmoid(t) * (1.0 + t * sigmoid(-t))
        }
        M::GeluFwd => a * normal_distribution(a),
        M::GeluBwd => a * (normal_distribution(b) + b * normal_density(b)),
        // 0.5 x (1 + tanh(u)) = x sigmoid(2 u).
        M::GeluApproxTanhFwd => a * sigmoid(2.0 * gelu_argument(a)),
        M::GeluApproxTanhBwd => {
            let u = gelu_argument(b);
            let du = (2.0 / std::f64::consts::PI).sqrt() * (1.0 + 3.0 * 0.044715 * b * b);
            a * (sigmoid(2.0 * u) + 2.0 * b * sigmoid(2.0 * u) * sigmoid(-2.0 * u) * du)
        }
    }
}

/// The sum of the absolute values of what a textbook implementation adds up or multiplies to get at [`pointwise`]'s result: its
/// rounding error is a few unit roundoffs of this. 0 for functions that do not round.
pub fn pointwise_scale(mode: PointwiseMode, p: &Parameters, [a, b, c]: [f64; 3]) -> f64 {
    use PointwiseMode as M;
    let result = pointwise(mode, p, [a, b, c]).abs();
    match mode {
        M::Unset
        | M::Identity
        | M::GenIndex
        | M::Abs
        | M::Neg
        | M::Ceil
        | M::Floor
        | M::Max
        | M::Min
        | M::CmpEq
        | M::CmpNeq
        | M::CmpGt
        | M::CmpGe
        | M::CmpLt
        | M::CmpLe
        | M::LogicalAnd
        | M::LogicalOr
        | M::LogicalNot
        | M::BinarySelect => 0.0,
        M::Add | M::Sub | M::Mul | M::Div | M::Reciprocal | M::Sqrt | M::Rsqrt => result,
        M::AddSquare => a.abs() + b * b,
        // The argument is scaled or reduced before the function is applied.
        M::Exp => result * (1.0 + a.abs()),
        M::Log => 1.0 + result,
        M::Sin => 1.0 + a.abs(),
        M::Tan => (1.0 + result * result) * (1.0 + a.abs()),
        M::Erf | M::TanhFwd => 1.0,
        M::ReluFwd if a <= p.lower && p.slope != 0.0 => p.lower.abs() + p.slope.abs() * (a.abs() + p.lower.abs()),
        M::ReluBwd if b <= p.lower && p.slope != 0.0 => result,
        M::ReluFwd | M::ReluBwd => 0.0,
        M::SigmoidFwd => result * (1.0 + a.abs()),
        // 1 - sigmoid(b) cancels.
        M::SigmoidBwd => a.abs() * sigmoid(b) * (1.0 + b.abs()),
        M::TanhBwd => a.abs(),
        M::EluFwd if a > 0.0 => 0.0,
        M::EluFwd => p.elu_alpha.abs(),
        M::EluBwd if b > 0.0 => 0.0,
        M::EluBwd => result * (1.0 + b.abs()),
        M::SoftplusFwd => a.abs() + 1.0 / p.softplus_beta.abs(),
        M::SoftplusBwd => result * (1.0 + (p.softplus_beta * b).abs()),
        M::SwishFwd => result * (1.0 + (p.swish_beta * a).abs()),
        M::SwishBwd => {
            let t = p.swish_beta * b;
            a.abs() * sigmoid(t) * (1.0 + t.abs()) * (1.0 + t.abs())
        }
        M::GeluFwd => a.abs(),
        M::GeluApproxTanhFwd => 2.0 * a.abs(),
        M::GeluBwd => a.abs() * (1.0 + b.abs()),
        M::GeluApproxTanhBwd => a.abs() * (2.0 + b.abs() * (1.0 + b * b)),
    }
}

/// The larger of two; NaN if one is NaN.
fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        f64::NAN
    } else if a > b {
        a
    } else {
        b
    }
}

/// `1 / (1 + exp(-x))`.
pub fn sigmoid(x: f64) -> f64 {
    if x >= 0.0 { 1.0 / (1.0 + (-x).exp()) } else { x.exp() / (1.0 + x.exp()) }
}

fn gelu_argument(x: f64) -> f64 {
    (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x)
}

fn normal_density(x: f64) -> f64 {
    (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

fn normal_distribution(x: f64) -> f64 {
    0.5 * erfc(-x * std::f64::consts::FRAC_1_SQRT_2)
}

/// `exp(-x^2)`, the rounding of the square taken into account.
fn exp_minus_square(x: f64) -> f64 {
    let square = x * x;
    let rest = x.mul_add(x, -square);
    (-square).exp() * (1.0 - rest)
}

/// `2 / sqrt(pi) exp(-x^2) sum over n of 2^n x^(2n+1) / (1 3 5 .. (2n+1))`, for moderate `x`: no term cancels another.
fn erf_series(x: f64) -> f64 {
    let mut term = x;
    let mut sum = 0.0;
    let mut n = 0.0;
    while term.abs() > 1e-18 * f64::abs(sum) {
        sum += term;
        n += 1.0;
        term *= 2.0 * x * x / (2.0 * n + 1.0);
    }
    std::f64::consts::FRAC_2_SQRT_PI * exp_minus_square(x) * sum
}

/// `exp(-x^2) / sqrt(pi) / (x + (1/2) / (x + 1 / (x + (3/2) / (x + ...))))`, for `x` from 1 up.
fn erfc_fraction(x: f64) -> f64 {
    let tail = (1..=300).rev().fold(0.0, |tail, n| f64::from(n) / 2.0 / (x + tail));
    0.5 * std::f64::consts::FRAC_2_SQRT_PI * exp_minus_square(x) / (x + tail)
}

/// The error function.
pub fn erf(x: f64) -> f64 {
    if x.is_nan() || x == 0.0 {
        x
    } else if x.abs() < 1.0 {
        erf_series(x)
    } else {
        (1.0 - erfc(x.abs())).copysign(x)
    }
}

/// `1 - erf(x)`.
pub fn erfc(x: f64) -> f64 {
    if x.is_nan() {
        x
    } else if x > 27.5 {
        0.0
    } else if x >= 1.0 {
        erfc_fraction(x)
    } else if x > -1.0 {
        1.0 - erf(x)
    } else {
        2.0 - erfc(-x)
    }
}
