//! A graph by the definitions of its operations, with a bound of what a correct implementation may differ by.

use super::compare::{Report, compare};
use super::dtype;
use super::error::ReferenceError;
use super::ops::{self, Array, Num, Parameters, Sum};
use super::reduction::Arithmetic;
use super::tensor::HostTensor;
use hipplan_serialize::ops::{ConvolutionBwd, ConvolutionFwd, ConvolutionWrw, Matmul, Pointwise, Reduction};
use hipplan_serialize::{ConvMode, DataType, NodeIx, Op, PointwiseMode, TensorIx, TensorValue, Uid, VerifiedGraph};

/// Underflow to zero costs at most this much in any type that providers compute in.
const TINY: f64 = f64::from_bits((1023 - 126) << 52);

/// Roundings in a row that a textbook implementation of a function may make, each of one unit roundoff of its scale.
const ROUNDINGS: f64 = 4.0;

/// The tensors of one graph, by position.
#[derive(Clone, Debug)]
pub struct Values {
    entries: Vec<Option<Entry>>,
}

#[derive(Clone, Debug)]
struct Entry {
    tensor: HostTensor,
    computed: Option<Computed>,
}

/// Results before they were rounded to the type of their tensor, in row-major order.
#[derive(Clone, Debug)]
struct Computed {
    exact: Vec<f64>,
    bound: Vec<f64>,
}

impl Values {
    /// No values yet, for the tensors of `graph`.
    pub fn new(graph: &VerifiedGraph<'_>) -> Self {
        Self { entries: vec![None; graph.tensors().len()] }
    }

    /// Sets an input. The tensor may be laid out differently than the graph's, but must have its type and dims.
    pub fn insert(&mut self, ix: TensorIx, tensor: HostTensor) {
        self.entries[ix.index()] = Some(Entry { tensor, computed: None });
    }

    /// Sets a runtime scalar, or overrides its default. Constants keep the value that the graph has.
    ///
    /// # Errors
    /// A value that cannot be an element of the tensor.
    pub fn insert_scalar(&mut self, graph: &VerifiedGraph<'_>, ix: TensorIx, value: TensorValue) -> Result<(), ReferenceError> {
        let view = graph.tensor(ix);
        let mut tensor = host_tensor(graph, ix)?;
        let Some(element) = value.to_element(view.dtype) else {
            return Err(ReferenceError::Scalar { tensor: graph.tensor_label(ix), dtype: view.dtype });
        };
        let size = tensor.element_size();
        tensor.element_mut(0).copy_from_slice(&element[..size]);
        self.insert(ix, tensor);
        Ok(())
    }

    /// A tensor as it is stored: rounded to its type.
    pub fn get(&self, ix: TensorIx) -> Option<&HostTensor> {
        self.entries[ix.index()].as_ref().map(|e| &e.tensor)
    }

    /// A computed tensor before it was rounded to its type, in row-major order.
    pub fn exact(&self, ix: TensorIx) -> Option<&[f64]> {
        self.computed(ix).map(|c| c.exact.as_slice())
    }

    /// Bounds of the difference between [`exact`](Self::exact) and what a correct implementation has before it rounds to the
    /// type of the tensor.
    pub fn bound(&self, ix: TensorIx) -> Option<&[f64]> {
        self.computed(ix).map(|c| c.bound.as_slice())
    }

    /// Compares what an implementation has stored with a computed tensor; nothing if that was not computed.
    ///
    /// # Panics
    /// If the tensors have different numbers of elements.
    pub fn compare(&self, ix: TensorIx, found: &HostTensor) -> Option<Report> {
        self.computed(ix).map(|c| compare(&c.exact, &c.bound, found))
    }

    fn computed(&self, ix: TensorIx) -> Option<&Computed> {
        self.entries[ix.index()].as_ref()?.computed.as_ref()
    }
}

/// A tensor of zeros as the graph describes it.
pub(super) fn host_tensor(graph: &VerifiedGraph<'_>, ix: TensorIx) -> Result<HostTensor, ReferenceError> {
    let view = graph.tensor(ix);
    if view.ragged_offset.is_some() {
        return Err(ReferenceError::Ragged { tensor: graph.tensor_label(ix) });
    }
    HostTensor::of_view(view).map_err(|error| match error {
        ReferenceError::Type { dtype } => ReferenceError::TensorType { tensor: graph.tensor_label(ix), dtype },
        other => other,
    })
}

/// Computes every virtual and every output tensor of `graph` from the inputs in `values`.
///
/// By-value tensors need no entry: constants, and runtime scalars with a default, have their value in the graph. Virtual tensors
/// are rounded to their type like any other.
///
/// # Errors
/// An input without a value or with one that does not fit, or something that the reference does not implement.
pub fn evaluate(graph: &VerifiedGraph<'_>, values: &mut Values) -> Result<(), ReferenceError> {
    for ix in graph.tensor_ixs() {
        let view = graph.tensor(ix);
        if let Some(value) = view.value
            && (!view.is_runtime || values.get(ix).is_none())
        {
            values.insert_scalar(graph, ix, value)?;
        }
    }
    for node in graph.nodes() {
        Evaluator { graph, node, compute: graph.compute_type(node), values }.node()?;
    }
    Ok(())
}

/// One node being evaluated.
struct Evaluator<'g, 'a> {
    graph: &'g VerifiedGraph<'a>,
    node: NodeIx,
    compute: DataType,
    values: &'g mut Values,
}

impl Evaluator<'_, '_> {
    fn node(mut self) -> Result<(), ReferenceError> {
        match self.graph.op(self.node) {
            Op::ConvolutionFwd(ConvolutionFwd { x, w, y, pre_padding, post_padding: _, stride, dilation, conv_mode }) => {
                let conv = convolution(pre_padding, stride, dilation, conv_mode);
                let (x, w) = (self.operand(x)?, self.operand(w)?);
                let terms = w.array.data.len() / w.array.dims[0];
                let sums = conv.forward(&x.array, &w.array, &self.dims(y));
                self.store_sums(y, &sums, terms, x.integral && w.integral)
            }
            Op::ConvolutionBwd(ConvolutionBwd { dy, w, dx, pre_padding, post_padding: _, stride, dilation, conv_mode }) => {
                let conv = convolution(pre_padding, stride, dilation, conv_mode);
                let (dy, w) = (self.operand(dy)?, self.operand(w)?);
                let dx_dims = self.dims(dx);
                // Filters of one group times taps.
                let groups = dx_dims[1] / w.array.dims[1];
                let terms = w.array.data.len() / w.array.dims[1] / groups;
                let sums = conv.backward_data(&dy.array, &w.array, &dx_dims);
                self.store_sums(dx, &sums, terms, dy.integral && w.integral)
            }
            Op::ConvolutionWrw(ConvolutionWrw { x, dy, dw, pre_padding, post_padding: _, stride, dilation, conv_mode }) => {
                let conv = convolution(pre_padding, stride, dilation, conv_mode);
                let (x, dy) = (self.operand(x)?, self.operand(dy)?);
                let terms = dy.array.data.len() / dy.array.dims[1];
                let sums = conv.backward_filter(&x.array, &dy.array, &self.dims(dw));
                self.store_sums(dw, &sums, terms, x.integral && dy.integral)
            }
            Op::Matmul(Matmul { a, b, c }) => {
                let (a, b) = (self.operand(a)?, self.operand(b)?);
                if [&a, &b].iter().any(|side| !ops::batch_broadcasts(&side.array.dims, &self.dims(c))) {
                    return Err(ReferenceError::GroupedBatch { node: self.graph.node_label(self.node) });
                }
                let terms = a.array.dims.last().copied().unwrap_or(1);
                let sums = ops::matmul(&a.array, &b.array, &self.dims(c));
                self.store_sums(c, &sums, terms, a.integral && b.integral)
            }
            Op::Pointwise(op) => self.pointwise(&op),
            Op::BatchnormInference(op) => {
                let inputs = [op.x, op.mean, op.inv_variance, op.scale, op.bias];
                self.batchnorm(inputs, op.y, ops::batchnorm_inference, |[x, mean, inv_variance, scale, bias]| {
                    (x.abs() + mean.abs()) * (inv_variance * scale).abs() + bias.abs()
                })
            }
            Op::BatchnormInferenceVariance(op) => {
                let inputs = [op.x, op.mean, op.variance, op.scale, op.bias, op.epsilon];
                self.batchnorm(inputs, op.y, ops::batchnorm_inference_variance, |[x, mean, variance, scale, bias, epsilon]| {
                    // The square root halves the relative error of a sum that may cancel.
                    let sum = (variance.abs() + epsilon.abs()) / (variance + epsilon).abs();
                    (x.abs() + mean.abs()) * (scale / (variance + epsilon).sqrt()).abs() * sum + bias.abs()
                })
            }
            Op::Reduction(op) => self.reduction(&op),
            _ => Err(ReferenceError::Operation { node: self.graph.node_label(self.node) }),
        }
    }

    fn ix(&self, uid: Uid) -> TensorIx {
        match self.graph.find(uid) {
            Some(ix) => ix,
            None => unreachable!("the operands of a verified graph were resolved"),
        }
    }

    fn dims(&self, uid: Uid) -> Vec<usize> {
        self.graph.tensor(self.ix(uid)).dims.iter().map(|&d| d as usize).collect()
    }

    /// A tensor as the node reads it.
    fn operand(&self, uid: Uid) -> Result<Operand, ReferenceError> {
        let (ix, graph) = (self.ix(uid), self.graph);
        let view = graph.tensor(ix);
        let Some(entry) = &self.values.entries[ix.index()] else {
            return Err(ReferenceError::Missing { tensor: graph.tensor_label(ix) });
        };
        let tensor = &entry.tensor;
        if (tensor.dtype(), tensor.dims()) != (view.dtype, view.dims) {
            return Err(ReferenceError::Mismatch {
                tensor: graph.tensor_label(ix),
                found: format!("{} {:?}", tensor.dtype(), tensor.dims()),
                expected: format!("{} {:?}", view.dtype, view.dims),
            });
        }
        // An implementation may convert what it reads to the type that it computes in.
        let narrows = dtype::unit_roundoff(self.compute).is_some();
        let read = |value: f64| if narrows { difference(value, dtype::round(self.compute, value)) } else { 0.0 };
        let stored = |i: usize, value: f64| match &entry.computed {
            Some(c) => stored_bound(view.dtype, c.exact[i], c.bound[i], value),
            None => 0.0,
        };
        // Any byte but 0 is true.
        let is_boolean = view.dtype == DataType::Boolean;
        let values = tensor.values().into_iter().map(|v| if is_boolean && v != 0.0 { 1.0 } else { v });
        let data = values.enumerate();
        let data = data.map(|(i, value)| Num { value, bound: stored(i, value) + read(value) }).collect();
        let integral = dtype::is_integral(view.dtype);
        Ok(Operand { array: Array { dims: self.dims(uid), data }, integral })
    }

    /// Unit roundoff of the arithmetic. Nobody computes in integers or 8-bit floats what is not exact in them.
    fn unit(&self) -> f64 {
        let float = f64::from(f32::EPSILON) / 2.0;
        match self.compute {
            DataType::Double | DataType::Half | DataType::BFloat16 => dtype::unit_roundoff(self.compute).unwrap_or(float),
            _ => float,
        }
    }

    /// Integers up to this are exact in the arithmetic.
    fn exact_integers(&self) -> f64 {
        match self.compute {
            DataType::Int32 | DataType::Int64 => f64::from(i32::MAX),
            _ => 1.0 / self.unit(),
        }
    }

    fn store(&mut self, uid: Uid, exact: Vec<f64>, bound: Vec<f64>) -> Result<(), ReferenceError> {
        let ix = self.ix(uid);
        let mut tensor = host_tensor(self.graph, ix)?;
        tensor.fill(&exact)?;
        self.values.entries[ix.index()] = Some(Entry { tensor, computed: Some(Computed { exact, bound }) });
        Ok(())
    }

    fn store_sums(&mut self, uid: Uid, sums: &Array<Sum>, terms: usize, integral: bool) -> Result<(), ReferenceError> {
        // Errors of roundings are of either sign, so that they grow with the square root of their number and not with it.
        let terms = terms as f64;
        let unit = self.unit() * (terms + 1.0).min(4.0 * terms.sqrt());
        let limit = self.exact_integers();
        let bound = sums.data.iter().map(|sum| {
            let is_exact = sum.scale == 0.0 || integral && sum.scale <= limit;
            sum.carried + if is_exact { 0.0 } else { unit * sum.scale + TINY * terms }
        });
        self.store(uid, sums.data.iter().map(|sum| sum.value).collect(), bound.collect())
    }

    fn pointwise(&mut self, op: &Pointwise) -> Result<(), ReferenceError> {
        let (mode, parameters) = (op.mode, Parameters::of(op));
        let mut operands = Vec::new();
        for uid in [Some(op.in_0), op.in_1, op.in_2].into_iter().flatten() {
            operands.push(self.operand(uid)?);
        }
        let dims = self.dims(op.out_0);
        let count = dims.iter().product();
        let (mut exact, mut bound) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let keeps_integers = matches!(mode, PointwiseMode::Add | PointwiseMode::Sub | PointwiseMode::Mul | PointwiseMode::AddSquare);
        let integral = keeps_integers && operands.iter().all(|o| o.integral);
        for i in 0..count {
            let index = ops::index_of(i, &dims);
            let mut inputs = [Num::default(); 3];
            for (input, operand) in inputs.iter_mut().zip(&operands) {
                *input = operand.array.data[ops::broadcast(&index, &operand.array.dims)];
            }
            if mode == PointwiseMode::GenIndex {
                // The verifier has seen to it that there is an axis and that it is a dimension.
                let axis = op.axis.unwrap_or(0) as usize;
                inputs[0] = Num::exact(index[axis] as f64);
            }
            let at = inputs.map(|n| n.value);
            let scale = ops::pointwise_scale(mode, &parameters, at);
            let is_exact = scale == 0.0 || integral && scale <= self.exact_integers();
            let rounding = if is_exact { 0.0 } else { ROUNDINGS * self.unit() * scale + TINY };
            exact.push(ops::pointwise(mode, &parameters, at));
            // Where the function has a kink or a step, apart from where its inputs are equal.
            let steps = [0.0, parameters.lower, parameters.upper];
            bound.push(rounding + carried_jointly(|at| ops::pointwise(mode, &parameters, at), inputs, steps));
        }
        self.store(op.out_0, exact, bound)
    }

    fn reduction(&mut self, op: &Reduction) -> Result<(), ReferenceError> {
        let input = self.operand(op.input)?;
        let arithmetic = Arithmetic {
            unit: self.unit(),
            exact_integers: self.exact_integers(),
            greatest: match self.compute {
                DataType::Double | DataType::Half | DataType::BFloat16 => dtype::greatest(self.compute),
                _ => dtype::greatest(DataType::Float),
            },
            tiny: TINY,
            roundings: ROUNDINGS,
        };
        let (mut exact, mut bound) = (Vec::new(), Vec::new());
        ops::each_reduced(&input.array, &self.dims(op.output), |terms| {
            exact.push(ops::reduction(op.mode, terms.iter().map(|n| n.value)));
            bound.push(arithmetic.bound(op.mode, terms, input.integral));
        });
        self.store(op.output, exact, bound)
    }

    /// Both forms of inference: `x` first, then one value per channel each, then perhaps a scalar.
    fn batchnorm<const N: usize>(
        &mut self,
        inputs: [Uid; N],
        y: Uid,
        formula: impl Fn([f64; N]) -> f64,
        scale: impl Fn([f64; N]) -> f64,
    ) -> Result<(), ReferenceError> {
        let mut operands = Vec::new();
        for uid in inputs {
            operands.push(self.operand(uid)?);
        }
        let dims = self.dims(y);
        let count = dims.iter().product();
        let (mut exact, mut bound) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for i in 0..count {
            let channel = ops::index_of(i, &dims)[1];
            let mut at = [Num::default(); N];
            for (n, (input, operand)) in at.iter_mut().zip(&operands).enumerate() {
                let data = &operand.array.data;
                *input = data[if n == 0 {
                    i
                } else if data.len() == 1 {
                    0
                } else {
                    channel
                }];
            }
            let values = at.map(|n| n.value);
            exact.push(formula(values));
            bound.push(ROUNDINGS * self.unit() * scale(values) + TINY + carried_singly(&formula, at));
        }
        self.store(y, exact, bound)
    }
}

/// A tensor as a node reads it.
struct Operand {
    array: Array<Num>,
    /// Of an integer type.
    integral: bool,
}

fn convolution(pre_padding: &[i64], stride: &[i64], dilation: &[i64], mode: ConvMode) -> ops::Convolution {
    let list = |list: &[i64]| list.iter().map(|&v| v as usize).collect();
    ops::Convolution { pre_padding: list(pre_padding), stride: list(stride), dilation: list(dilation), flip: mode == ConvMode::Convolution }
}

/// Distance of two values; 0 if they are equal or both NaN, so also for equal infinities.
fn difference(a: f64, b: f64) -> f64 {
    if a == b || a.is_nan() && b.is_nan() {
        return 0.0;
    }
    let d = (a - b).abs();
    if d.is_nan() { f64::INFINITY } else { d }
}

/// How far the value that a correct implementation goes on with may be from `stored`, which is `exact` rounded to `dtype`. It may
/// have rounded its own value, or may not have stored it at all.
fn stored_bound(dtype: DataType, exact: f64, bound: f64, stored: f64) -> f64 {
    if exact.is_nan() {
        return 0.0;
    }
    if !bound.is_finite() {
        return f64::INFINITY;
    }
    if dtype == DataType::Boolean {
        return if bound > 0.0 && exact.abs() <= bound { 1.0 } else { 0.0 };
    }
    let ends = [exact - bound, exact + bound];
    let rounded = ends.map(|end| difference(dtype::round(dtype, end), stored));
    let unrounded = if dtype::is_integral(dtype) { [0.0; 2] } else { ends.map(|end| difference(end, stored)) };
    rounded.into_iter().chain(unrounded).fold(0.0, f64::max)
}

/// How far `f` may move when each input moves within its bound: the largest of the values at the corners, at the `steps` of `f`
/// and where the inputs are equal. Exact for functions that are monotonic between those, and a first-order estimate for others.
fn carried_jointly(f: impl Fn([f64; 3]) -> f64, inputs: [Num; 3], steps: [f64; 3]) -> f64 {
    if inputs.iter().all(|n| n.bound == 0.0) {
        return 0.0;
    }
    let [a, b, c] = inputs.map(|n| n.value);
    let center = f([a, b, c]);
    let [all_a, all_b, all_c] = inputs.map(|n| candidates(n, steps.into_iter().chain([a, b, c])));
    let mut worst = 0.0_f64;
    for &a in &all_a {
        for &b in &all_b {
            for &c in &all_c {
                worst = worst.max(difference(f([a, b, c]), center));
            }
        }
    }
    worst
}

/// The value, both ends, and those of the points that lie between them.
fn candidates(n: Num, points: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut all = vec![n.value];
    if n.bound > 0.0 {
        all.extend([n.value - n.bound, n.value + n.bound]);
        all.extend(points.filter(|&p| p != n.value && (p - n.value).abs() < n.bound));
    }
    all
}

/// How far a smooth `f` may move when each input moves within its bound, to first order: the inputs one by one.
fn carried_singly<const N: usize>(f: impl Fn([f64; N]) -> f64, inputs: [Num; N]) -> f64 {
    let values = inputs.map(|n| n.value);
    let center = f(values);
    let moved = |i: usize, by: f64| {
        let mut at = values;
        at[i] += by;
        difference(f(at), center)
    };
    let moving = (0..N).filter(|&i| inputs[i].bound > 0.0);
    moving.map(|i| moved(i, -inputs[i].bound).max(moved(i, inputs[i].bound))).sum()
}
