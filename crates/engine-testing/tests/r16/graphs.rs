//! Graphs with by-value scalars, in whatever state is asked for.

use hipplan::{ConvMode, DataType, GraphBuf, GraphBuilder, PointwiseMode, Scalar, ScalarType, TensorAttributes, Uid, ops};

/// The three by-value states (R16 §4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Supplied,
    Defaulted,
    Constant,
}

impl State {
    pub(crate) const ALL: [Self; 3] = [Self::Supplied, Self::Defaulted, Self::Constant];
}

/// A scalar in a state. `value` is the constant or the default; of a user-supplied one only its type counts.
pub(crate) fn scalar(uid: i64, name: &str, state: State, value: impl Scalar) -> TensorAttributes {
    let mut tensor = match state {
        State::Supplied | State::Constant => TensorAttributes::scalar(value),
        State::Defaulted => TensorAttributes::scalar_of(value, ScalarType::RuntimeParam),
    };
    if state == State::Supplied {
        tensor.set_as_runtime_parameter();
    }
    tensor.set_uid(Uid(uid)).set_name(name);
    tensor
}

pub(crate) fn device(uid: i64, name: &str, dims: &[i64]) -> TensorAttributes {
    let mut tensor = TensorAttributes::packed(DataType::Float, dims);
    tensor.set_uid(Uid(uid)).set_name(name);
    tensor
}

fn between(uid: i64, dims: &[i64]) -> TensorAttributes {
    let mut tensor = device(uid, "", dims);
    tensor.set_virtual(true);
    tensor
}

pub(crate) const X: i64 = 10;
pub(crate) const ALPHA: i64 = 20;
pub(crate) const BETA: i64 = 21;
pub(crate) const GAMMA: i64 = 22;
pub(crate) const Y: i64 = 30;

/// `y = x * alpha`, four elements.
pub(crate) fn scale(alpha: TensorAttributes) -> GraphBuf {
    let mut g = GraphBuilder::new();
    let x = g.tensor(device(X, "x", &[4]));
    let alpha = g.tensor(alpha);
    let y = g.tensor(device(Y, "y", &[4]));
    g.node("scale", DataType::Float, ops::Pointwise::binary(PointwiseMode::Mul, x, alpha, y));
    g.build().expect("a graph")
}

/// [`scale`] with alpha in a state, a float.
pub(crate) fn scale_in(state: State, value: f32) -> GraphBuf {
    scale(scalar(ALPHA, "alpha", state, value))
}

pub(crate) const EPSILON: i64 = 26;

/// Batch normalisation for inference, from variances: epsilon in a state.
pub(crate) fn batchnorm(state: State, epsilon: f32) -> GraphBuf {
    let mut g = GraphBuilder::new();
    let x = g.tensor(device(X, "x", &[2, 3, 2, 2]));
    let mut channel = |uid, name| g.tensor(device(uid, name, &[1, 3, 1, 1]));
    let (mean, variance, scale, bias) = (channel(11, "mean"), channel(12, "variance"), channel(13, "scale"), channel(14, "bias"));
    let epsilon = g.tensor(scalar(EPSILON, "epsilon", state, epsilon));
    let y = g.tensor(device(Y, "y", &[2, 3, 2, 2]));
    g.node("bn", DataType::Float, ops::BatchnormInferenceVariance { x, mean, variance, scale, bias, y, epsilon });
    g.build().expect("a graph")
}

/// `y = alpha * conv(x, w) + beta * c`, as MIOpen's alpha and beta are expressed: pointwise scalars around a convolution.
pub(crate) fn scaled_convolution(alpha: State, beta: State) -> GraphBuf {
    let dims = [1, 4, 5, 5];
    let mut g = GraphBuilder::new();
    let x = g.tensor(device(X, "x", &[1, 2, 5, 5]));
    let w = g.tensor(device(11, "w", &[4, 2, 3, 3]));
    let c = g.tensor(device(12, "c", &dims));
    let alpha = g.tensor(scalar(ALPHA, "alpha", alpha, 0.5_f32));
    let beta = g.tensor(scalar(BETA, "beta", beta, -2.0_f32));
    let (raw, scaled, kept) = (g.tensor(between(40, &dims)), g.tensor(between(41, &dims)), g.tensor(between(42, &dims)));
    let y = g.tensor(device(Y, "y", &dims));
    let (ones, conv_mode) = (&[1, 1][..], ConvMode::CrossCorrelation);
    let conv = ops::ConvolutionFwd { x, w, y: raw, pre_padding: ones, post_padding: ones, stride: ones, dilation: ones, conv_mode };
    g.node("conv", DataType::Float, conv);
    g.node("alpha", DataType::Float, ops::Pointwise::binary(PointwiseMode::Mul, raw, alpha, scaled));
    g.node("beta", DataType::Float, ops::Pointwise::binary(PointwiseMode::Mul, c, beta, kept));
    g.node("sum", DataType::Float, ops::Pointwise::binary(PointwiseMode::Add, scaled, kept, y));
    g.build().expect("a graph")
}

/// `y = (x * alpha + beta) * gamma`: three scalars, each in its own state and of its own type.
pub(crate) fn three_scalars(alpha: State, beta: State, gamma: State) -> GraphBuf {
    let mut g = GraphBuilder::new();
    let x = g.tensor(device(X, "x", &[4]));
    let alpha = g.tensor(scalar(ALPHA, "alpha", alpha, 2.0_f32));
    let beta = g.tensor(scalar(BETA, "beta", beta, 10.0_f64));
    let gamma = g.tensor(scalar(GAMMA, "gamma", gamma, -3_i32));
    let (scaled, shifted) = (g.tensor(between(40, &[4])), g.tensor(between(41, &[4])));
    let y = g.tensor(device(Y, "y", &[4]));
    g.node("scale", DataType::Float, ops::Pointwise::binary(PointwiseMode::Mul, x, alpha, scaled));
    g.node("shift", DataType::Float, ops::Pointwise::binary(PointwiseMode::Add, scaled, beta, shifted));
    g.node("stretch", DataType::Float, ops::Pointwise::binary(PointwiseMode::Mul, shifted, gamma, y));
    g.build().expect("a graph")
}
