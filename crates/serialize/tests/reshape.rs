//! Execute-time shapes (C10): what may be overridden, what follows for virtual tensors, and what is refused.

mod common;

use hipplan_fuzzing::{Generator, Style};
use hipplan_serialize::error::RuleError;
use hipplan_serialize::{
    ConvMode, DataType, GraphBuf, GraphBuilder, GraphError, Op, PointwiseMode, ReductionMode, ResampleMode, ReshapeError, ScalarType,
    ShapeOverride, TensorAttributes, Uid, VerifiedGraph, canon, ops,
};
use proptest::prelude::*;

const FLOAT: DataType = DataType::Float;

fn shape<'o>(uid: Uid, dims: &'o [i64], strides: &'o [i64]) -> ShapeOverride<'o> {
    ShapeOverride { uid, dims, strides }
}

/// Packed strides.
fn packed(dims: &[i64]) -> Vec<i64> {
    TensorAttributes::packed(FLOAT, dims).strides().to_vec()
}

fn reshape(graph: &GraphBuf, overrides: &[(Uid, Vec<i64>)]) -> Result<GraphBuf, ReshapeError> {
    let given: Vec<(Uid, &[i64], Vec<i64>)> = overrides.iter().map(|(uid, dims)| (*uid, &dims[..], packed(dims))).collect();
    let given: Vec<_> = given.iter().map(|(uid, dims, strides)| shape(*uid, dims, strides)).collect();
    graph.view().reshape(&given)
}

fn dims_of(graph: &GraphBuf, uid: Uid) -> Vec<i64> {
    let view = graph.view();
    view.tensor(view.find(uid).expect("the tensor")).dims.to_vec()
}

/// Uids of the graphs of this file.
const X: Uid = Uid(70);
const W: Uid = Uid(-3);
const CONVOLVED: Uid = Uid(12);
const BIAS: Uid = Uid(0);
const BIASED: Uid = Uid(5);
const ALPHA: Uid = Uid(6);
const Y: Uid = Uid(9);

#[derive(Clone, Copy, Debug)]
struct Conv {
    n: i64,
    c: i64,
    k: i64,
    size: [i64; 2],
    filter: [i64; 2],
    pad: i64,
    stride: i64,
    dilation: i64,
}

impl Conv {
    fn x(&self) -> Vec<i64> {
        vec![self.n, self.c, self.size[0], self.size[1]]
    }

    fn w(&self) -> Vec<i64> {
        vec![self.k, self.c, self.filter[0], self.filter[1]]
    }

    fn y(&self) -> Vec<i64> {
        // A filter that does not fit has one position here, so that no dim is refused for its own sake.
        let out = |i: usize| 1.max((self.size[i] + 2 * self.pad - self.dilation * (self.filter[i] - 1) - 1) / self.stride + 1);
        vec![self.n, self.k, out(0), out(1)]
    }

    fn bias(&self) -> Vec<i64> {
        vec![1, self.k, 1, 1]
    }

    /// `y = max(conv(x, w) + bias, 0) * alpha` with virtual tensors between, which have these strides.
    fn graph(&self, strides: &[i64]) -> GraphBuf {
        let mut builder = GraphBuilder::new();
        builder.set_override_shape_enabled(true).set_name("conv").set_id(Some([3; 16])).set_preferred_engine_id(Some(8));
        let mut tensor = |uid, dims: &[i64], name: &str, is_virtual| {
            let mut tensor = TensorAttributes::packed(FLOAT, dims);
            tensor.set_uid(uid).set_name(name).set_virtual(is_virtual).set_alignment(32);
            if is_virtual {
                tensor.set_strides(strides);
            }
            builder.tensor(tensor)
        };
        tensor(X, &self.x(), "x", false);
        tensor(W, &self.w(), "w", false);
        tensor(CONVOLVED, &self.y(), "convolved", true);
        tensor(BIAS, &self.bias(), "bias", false);
        tensor(BIASED, &self.y(), "biased", true);
        tensor(Uid(40), &self.y(), "clipped", true);
        tensor(Y, &self.y(), "y", false);
        let mut alpha = TensorAttributes::scalar_of(0.5_f32, ScalarType::RuntimeParam);
        alpha.set_uid(ALPHA);
        builder.tensor(alpha);
        let (padding, stride, dilation) = ([self.pad; 2], [self.stride; 2], [self.dilation; 2]);
        let conv = ops::ConvolutionFwd {
            x: X,
            w: W,
            y: CONVOLVED,
            pre_padding: &padding,
            post_padding: &padding,
            stride: &stride,
            dilation: &dilation,
            conv_mode: ConvMode::CrossCorrelation,
        };
        builder.node("conv", FLOAT, conv);
        builder.node("bias", FLOAT, ops::Pointwise::binary(PointwiseMode::Add, CONVOLVED, BIAS, BIASED));
        builder.node("clip", FLOAT, ops::Pointwise::unary(PointwiseMode::ReluFwd, BIASED, Uid(40)));
        builder.node("scale", FLOAT, ops::Pointwise::binary(PointwiseMode::Mul, Uid(40), ALPHA, Y));
        builder.build().expect("a graph")
    }

    fn overrides(&self) -> Vec<(Uid, Vec<i64>)> {
        vec![(X, self.x()), (W, self.w()), (BIAS, self.bias()), (Y, self.y())]
    }
}

const LARGE: Conv = Conv { n: 4, c: 3, k: 6, size: [12, 10], filter: [3, 3], pad: 1, stride: 2, dilation: 1 };

/// The graph with strides of its virtual tensors as they are packed at the declared size.
fn large() -> GraphBuf {
    LARGE.graph(&packed(&LARGE.y()))
}

fn assert_same(a: &GraphBuf, b: &GraphBuf) {
    let (a, b) = (a.view(), b.view());
    assert_eq!(a.canonical().expect("a key"), b.canonical().expect("a key"));
    let rest = |graph: &VerifiedGraph<'_>| {
        let nodes: Vec<_> =
            graph.nodes().map(|n| (graph.node_name(n).to_owned(), graph.compute_type(n), format!("{:?}", graph.op(n)))).collect();
        let tensors = format!("{:?}", graph.tensors());
        (graph.name().to_owned(), graph.id(), graph.preferred_engine_id(), graph.is_override_shape_enabled(), nodes, tensors)
    };
    assert_eq!(rest(&a), rest(&b));
}

#[test]
fn the_declared_shapes_give_the_same_graph() {
    assert_same(&reshape(&large(), &LARGE.overrides()).expect("its own shapes"), &large());
    assert_same(&reshape(&large(), &[]).expect("no shape"), &large());
    // Every graph that can be, over all operations: by-value tensors in their states, ragged ones, odd alignments.
    let mut overridden = 0;
    for seed in 0..600 {
        let mut model = Generator::random(seed, 3);
        model.override_shapes = true;
        let graph = model.graph(&Style { seed });
        let view = graph.view();
        let tensors = view.tensors().iter().filter(|t| !t.is_virtual && !t.is_by_value() && t.strides.iter().all(|&s| s > 0));
        let list: Vec<_> = tensors.map(|t| shape(t.uid, t.dims, t.strides)).collect();
        overridden += list.len();
        assert_same(&view.reshape(&list).unwrap_or_else(|e| panic!("{seed}: {e}")), &graph);
    }
    assert!(overridden > 2000, "{overridden} tensors were overridden");
}

#[test]
fn each_violation_is_its_own_error() {
    let graph = large();
    let refused = |overrides: &[ShapeOverride<'_>]| graph.view().reshape(overrides).expect_err("refused");
    let (dims, strides) = (LARGE.x(), packed(&LARGE.x()));

    let error = refused(&[shape(Uid(99), &dims, &strides)]);
    assert_eq!(error, ReshapeError::UnknownUid { uid: 99 });
    let error = refused(&[shape(BIASED, &LARGE.y(), &packed(&LARGE.y()))]);
    assert!(matches!(&error, ReshapeError::Virtual { tensor } if tensor.uid == BIASED.0 && &*tensor.name == "biased"), "{error}");
    let error = refused(&[shape(ALPHA, &[1], &[1])]);
    assert!(matches!(&error, ReshapeError::ByValue { tensor } if tensor.uid == ALPHA.0), "{error}");
    let error = refused(&[shape(X, &dims[..3], &strides)]);
    assert!(matches!(&error, ReshapeError::Rank { tensor, found: 3, declared: 4 } if tensor.uid == X.0), "{error}");
    let error = refused(&[shape(X, &dims, &strides[..3])]);
    assert!(matches!(&error, ReshapeError::StrideCount { found: 3, dims: 4, .. }), "{error}");
    for found in [0, -1, i64::MIN] {
        let error = refused(&[shape(X, &[4, 3, found, 10], &strides)]);
        assert!(matches!(&error, ReshapeError::Dim { axis: 2, found: f, .. } if *f == found), "{error}");
    }
    for found in [13, i64::MAX] {
        let error = refused(&[shape(X, &[4, 3, found, 10], &strides)]);
        assert!(matches!(&error, ReshapeError::AboveDeclared { axis: 2, found: f, declared: 12, .. } if *f == found), "{error}");
        let text = error.to_string();
        assert!(text.contains(&found.to_string()) && text.contains("12") && text.contains("\"x\" (uid 70)"), "{text}");
    }
    for found in [0, -1, i64::MIN] {
        let error = refused(&[shape(X, &dims, &[found, 120, 10, 1])]);
        assert!(matches!(&error, ReshapeError::Stride { axis: 0, found: f, .. } if *f == found), "{error}");
    }
    let error = refused(&[shape(X, &dims, &strides), shape(X, &dims, &strides)]);
    assert!(matches!(&error, ReshapeError::Twice { tensor } if tensor.uid == X.0), "{error}");
    // Each fits, and they do not fit together: the batch of the result is not that of the image.
    let error = refused(&[shape(X, &[2, 3, 12, 10], &strides)]);
    assert!(matches!(&error, ReshapeError::Graph(GraphError::Rule(rule)) if matches!(**rule, RuleError::PointwiseBroadcast(_))), "{error}");
    let error = refused(&[shape(X, &dims, &[i64::MAX, 120, 10, 1])]);
    assert!(matches!(&error, ReshapeError::Graph(GraphError::Limit { limit_name: "max_elements", .. })), "{error}");
    // Results whose elements would share memory.
    let error = refused(&[shape(Y, &LARGE.y(), &[1, 1, 1, 1])]);
    assert!(matches!(&error, ReshapeError::Graph(GraphError::OutputTooDense { .. })), "{error}");

    let mut model = Generator::random(1, 1);
    model.override_shapes = false;
    let fixed = model.graph(&Style { seed: 1 });
    let view = fixed.view();
    let error = view.reshape(&[shape(view.tensors()[0].uid, &[1], &[1])]).expect_err("not enabled");
    assert_eq!(error, ReshapeError::NotEnabled);
    assert!(error.to_string().contains("is_override_shape_enabled"), "{error}");
    assert_same(&view.reshape(&[]).expect("nothing is asked for"), &fixed);
}

/// A dim that becomes 1 is not repeated for another that has been forgotten, unless the graph states it as 1.
#[test]
fn a_tensor_is_not_repeated_for_one_that_was_forgotten() {
    let graph = |first: &[i64], b: &[i64], y: &[i64], is_matmul: bool| {
        let mut builder = GraphBuilder::new();
        builder.set_override_shape_enabled(true);
        let [a, b, y] = [first, b, y].map(|dims| builder.tensor(TensorAttributes::packed(FLOAT, dims)));
        let mut between = TensorAttributes::packed(FLOAT, first);
        between.set_virtual(true).set_name("between");
        let between = builder.tensor(between);
        builder.node("abs", FLOAT, ops::Pointwise::unary(PointwiseMode::Abs, a, between));
        match is_matmul {
            true => builder.node("product", FLOAT, ops::Matmul { a: between, b, c: y }),
            false => builder.node("sum", FLOAT, ops::Pointwise::binary(PointwiseMode::Add, between, b, y)),
        };
        (builder.build().expect("a graph"), [a, b, y])
    };
    let repeated = |graph: &GraphBuf, overrides: &[(Uid, Vec<i64>)]| match reshape(graph, overrides) {
        Err(ReshapeError::Repeated { tensor, node, axis, other, found, declared }) => {
            (tensor.uid, node.index, axis, other.uid, found, declared)
        }
        other => panic!("{other:?}"),
    };
    let (sum, [a, b, y]) = graph(&[4, 5], &[4, 5], &[4, 5], false);
    // The other is an input, or the result of the node.
    let between = between_of(&sum);
    assert_eq!(repeated(&sum, &[(a, vec![1, 5])]), (between, 1, 0, b.0, 4, 4));
    assert_eq!(repeated(&sum, &[(b, vec![4, 1])]), (b.0, 1, 1, between, 5, 5));
    assert_eq!(repeated(&sum, &[(a, vec![1, 5]), (b, vec![3, 5]), (y, vec![3, 5])]), (between, 1, 0, b.0, 3, 4));
    assert_eq!(repeated(&sum, &[(a, vec![1, 5]), (b, vec![1, 5])]), (between, 1, 0, y.0, 4, 4));
    reshape(&sum, &[(a, vec![1, 5]), (b, vec![1, 5]), (y, vec![1, 5])]).expect("all are 1");
    let text = reshape(&sum, &[(a, vec![1, 5])]).expect_err("refused").to_string();
    assert!(text.contains("\"between\"") && text.contains("becomes 1") && text.contains("keeps 4"), "{text}");
    // Stated as 1, it is repeated whatever the others have; aligned at the right.
    let (sum, [_, b, y]) = graph(&[5], &[4, 5], &[4, 5], false);
    reshape(&sum, &[(b, vec![2, 5]), (y, vec![2, 5])]).expect("as the graph states");
    let (sum, [a, ..]) = graph(&[5], &[4, 5], &[4, 5], false);
    assert_eq!(repeated(&sum, &[(a, vec![1])]).2, 0, "the axis is that of the tensor");
    // The batch of a product, and not its rows.
    let (product, [a, b, y]) = graph(&[4, 2, 3], &[4, 3, 6], &[4, 2, 6], true);
    assert_eq!(repeated(&product, &[(b, vec![1, 3, 6])]), (b.0, 1, 0, between_of(&product), 4, 4));
    reshape(&product, &[(a, vec![4, 1, 3]), (y, vec![4, 1, 6])]).expect("one row");
}

fn between_of(graph: &GraphBuf) -> i64 {
    graph.view().tensors().iter().find(|t| t.is_virtual).expect("one").uid.0
}

/// A filter that shrinks makes the result grow: a virtual tensor has a place for its declared size only.
#[test]
fn a_virtual_tensor_does_not_outgrow_its_place() {
    let small = Conv { filter: [1, 1], ..LARGE };
    let error = reshape(&large(), &[(W, small.w())]).expect_err("too large");
    let ReshapeError::DerivedAboveDeclared { tensor, node, axis, found, declared } = &error else { panic!("{error}") };
    assert_eq!((tensor.uid, node.op, *axis, *found, *declared), (CONVOLVED.0, "convolution_fwd", 2, 7, 6));
}

#[test]
fn strides_may_be_any_that_are_positive() {
    let dims = LARGE.x();
    // Channels last.
    let strides = [360, 1, 30, 3];
    let graph = large();
    let reshaped = graph.view().reshape(&[shape(X, &dims, &strides)]).expect("reshaped");
    let view = reshaped.view();
    let x = view.tensor(view.find(X).expect("x"));
    assert_eq!((x.dims, x.strides), (&dims[..], &strides[..]));
    let biased = view.tensor(view.find(BIASED).expect("there"));
    assert_eq!(biased.strides, packed(&LARGE.y()), "strides of virtual tensors stay");
}

fn smaller(of: Conv) -> impl Strategy<Value = Conv> {
    let sizes = (1..=of.n, 1..=of.c, 1..=of.k, of.filter[0]..=of.size[0], of.filter[1]..=of.size[1]);
    sizes.prop_map(move |(n, c, k, h, w)| Conv { n, c, k, size: [h, w], ..of })
}

fn any_conv() -> impl Strategy<Value = Conv> {
    (1..5_i64, 1..5_i64, 1..7_i64, (1..4_i64, 1..4_i64), (0..9_i64, 0..9_i64), 0..3_i64, 1..4_i64, 1..3_i64).prop_map(
        |(n, c, k, filter, more, pad, stride, dilation)| Conv {
            n,
            c,
            k,
            size: [dilation * (filter.0 - 1) + 1 + more.0, dilation * (filter.1 - 1) + 1 + more.1],
            filter: [filter.0, filter.1],
            pad,
            stride,
            dilation,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// What is made for smaller shapes at once is what a large graph comes to with them.
    #[test]
    fn a_reshaped_graph_is_the_graph_of_that_shape((large, small) in any_conv().prop_flat_map(|large| (Just(large), smaller(large)))) {
        let strides = packed(&large.y());
        let fits = (0..2).all(|i| small.size[i] + 2 * small.pad > small.dilation * (small.filter[i] - 1));
        let reshaped = reshape(&large.graph(&strides), &small.overrides());
        if fits {
            assert_same(&reshaped.expect("it fits"), &small.graph(&strides));
        } else {
            let error = reshaped.expect_err("the filter does not fit");
            let is_window = matches!(&error, ReshapeError::Graph(GraphError::Rule(rule)) if matches!(**rule, RuleError::ConvWindow(_)));
            prop_assert!(is_window, "{}", error);
        }
    }

    /// Broadcasts in two directions, through a chain of virtual tensors.
    #[test]
    fn broadcasts_follow(large in prop::collection::vec(1..6_i64, 3), small in prop::collection::vec(1..6_i64, 3), masks: [u8; 3]) {
        let small: Vec<i64> = small.iter().zip(&large).map(|(&s, &l)| s.min(l)).collect();
        let masked = |dims: &[i64], mask: u8| -> Vec<i64> {
            dims.iter().enumerate().map(|(axis, &d)| if mask & (1 << axis) == 0 { 1 } else { d }).collect()
        };
        let inputs = |dims: &[i64]| -> Vec<Vec<i64>> {
            let second = masked(dims, masks[1]);
            vec![masked(dims, masks[0]), second[1..].to_vec(), masked(dims, masks[2])]
        };
        let joined = |a: &[i64], b: &[i64]| -> Vec<i64> {
            let at = |dims: &[i64], k: usize| dims.iter().rev().nth(k).copied().unwrap_or(1);
            (0..3).rev().map(|k| at(a, k).max(at(b, k))).collect()
        };
        let graph = |dims: &[i64], strides: &[Vec<i64>]| {
            let inputs = inputs(dims);
            let (ab, abc) = (joined(&inputs[0], &inputs[1]), joined(&joined(&inputs[0], &inputs[1]), &inputs[2]));
            let mut builder = GraphBuilder::new();
            builder.set_override_shape_enabled(true);
            let [a, b, c] = [0, 1, 2].map(|i| builder.tensor(TensorAttributes::packed(FLOAT, &inputs[i])));
            let mut between = TensorAttributes::packed(FLOAT, &ab);
            between.set_virtual(true);
            strides.first().map(|s| between.set_strides(s));
            let between = builder.tensor(between);
            let out = builder.tensor(TensorAttributes::packed(FLOAT, &abc));
            builder.node("", FLOAT, ops::Pointwise::binary(PointwiseMode::Add, a, b, between));
            builder.node("", FLOAT, ops::Pointwise::binary(PointwiseMode::Mul, between, c, out));
            let overrides = [(a, inputs[0].clone()), (b, inputs[1].clone()), (c, inputs[2].clone()), (out, abc)];
            (builder.build().expect("a graph"), overrides, packed(&ab))
        };
        let (big, _, strides) = graph(&large, &[]);
        let (little, overrides, _) = graph(&small, &[strides]);
        assert_same(&reshape(&big, &overrides).expect("reshaped"), &little);
    }
}

/// A graph of one operation over tensors with the uids 0, 1, ...; those marked are its results and virtual, and an absolute value writes
/// each of them to a tensor whose uid is 100 more.
fn behind<'a>(tensors: &[(&[i64], bool)], op: impl Into<Op<'a>>) -> GraphBuf {
    let mut builder = GraphBuilder::new();
    builder.set_override_shape_enabled(true);
    for (i, &(dims, is_result)) in (0..).zip(tensors) {
        let mut tensor = TensorAttributes::packed(FLOAT, dims);
        tensor.set_uid(Uid(i)).set_virtual(is_result);
        builder.tensor(tensor);
        if is_result {
            let mut tensor = TensorAttributes::packed(FLOAT, dims);
            tensor.set_uid(Uid(100 + i));
            builder.tensor(tensor);
        }
    }
    let mut epsilon = TensorAttributes::scalar(1e-5_f32);
    epsilon.set_uid(EPSILON);
    builder.tensor(epsilon);
    builder.node("op", FLOAT, op);
    for (i, _) in (0..).zip(tensors).filter(|(_, (_, is_result))| *is_result) {
        builder.node("abs", FLOAT, ops::Pointwise::unary(PointwiseMode::Abs, Uid(i), Uid(100 + i)));
    }
    builder.build().unwrap_or_else(|e| panic!("{e}"))
}

const EPSILON: Uid = Uid(50);

/// With these shapes of what is read, the results have those.
#[track_caller]
fn follows(graph: &GraphBuf, read: &[(i64, &[i64])], results: &[(i64, &[i64])]) {
    let written = results.iter().map(|&(uid, dims)| (100 + uid, dims));
    let all: Vec<_> = read.iter().copied().chain(written).map(|(uid, dims)| (Uid(uid), dims.to_vec())).collect();
    let reshaped = reshape(graph, &all).unwrap_or_else(|e| panic!("{e}"));
    for &(uid, dims) in results {
        assert_eq!(dims_of(&reshaped, Uid(uid)), dims, "uid {uid}");
    }
}

/// With these shapes of what is read, the result with this uid could have several.
#[track_caller]
fn uncertain(graph: &GraphBuf, read: &[(i64, &[i64])], result: i64) {
    let all: Vec<_> = read.iter().map(|&(uid, dims)| (Uid(uid), dims.to_vec())).collect();
    let error = reshape(graph, &all).expect_err("uncertain");
    assert!(matches!(&error, ReshapeError::Underived { tensor, node } if tensor.uid == result && node.index == 0), "{error}");
}

const LISTS: [&[i64]; 3] = [&[1, 1], &[2, 2], &[1, 1]];

#[test]
fn results_of_products_follow() {
    let op = ops::Matmul { a: Uid(0), b: Uid(1), c: Uid(2) };
    let graph = behind(&[(&[4, 1, 6, 5], false), (&[3, 5, 7], false), (&[4, 3, 6, 7], true)], op);
    follows(&graph, &[(0, &[2, 1, 3, 4]), (1, &[3, 4, 6])], &[(2, &[2, 3, 3, 6])]);
    follows(&graph, &[(0, &[4, 1, 1, 5]), (1, &[1, 5, 7])], &[(2, &[4, 1, 1, 7])]);

    let [padding, stride, dilation] = LISTS;
    let op = ops::ConvolutionBwd {
        dy: Uid(0),
        w: Uid(1),
        dx: Uid(2),
        pre_padding: padding,
        post_padding: padding,
        stride,
        dilation,
        conv_mode: ConvMode::CrossCorrelation,
    };
    let graph = behind(&[(&[4, 8, 5, 5], false), (&[8, 3, 3, 3], false), (&[4, 3, 9, 9], true)], op);
    follows(&graph, &[(0, &[3, 8, 5, 5])], &[(2, &[3, 3, 9, 9])]);
    follows(&graph, &[(0, &[4, 8, 5, 5])], &[(2, &[4, 3, 9, 9])]);
    // An image of 7 or 8 has a result of 4.
    uncertain(&graph, &[(0, &[4, 8, 4, 5])], 2);
    uncertain(&graph, &[(0, &[4, 7, 5, 5]), (1, &[7, 3, 3, 3])], 2);
    // Four filters of four, and one batch of four: what has become of the 4 is not to be told from its size.
    let graph = behind(
        &[(&[4, 4, 5, 5], false), (&[4, 3, 3, 3], false), (&[4, 3, 9, 9], true)],
        ops::ConvolutionBwd {
            dy: Uid(0),
            w: Uid(1),
            dx: Uid(2),
            pre_padding: padding,
            post_padding: padding,
            stride,
            dilation,
            conv_mode: ConvMode::CrossCorrelation,
        },
    );
    uncertain(&graph, &[(0, &[4, 2, 5, 5]), (1, &[2, 3, 3, 3])], 2);

    let op = ops::ConvolutionWrw {
        x: Uid(0),
        dy: Uid(1),
        dw: Uid(2),
        pre_padding: padding,
        post_padding: padding,
        stride,
        dilation,
        conv_mode: ConvMode::CrossCorrelation,
    };
    let graph = behind(&[(&[4, 3, 9, 9], false), (&[4, 8, 5, 5], false), (&[8, 3, 3, 3], true)], op);
    follows(&graph, &[(0, &[2, 3, 9, 9]), (1, &[2, 8, 5, 5])], &[(2, &[8, 3, 3, 3])]);
    uncertain(&graph, &[(0, &[4, 3, 7, 9]), (1, &[4, 8, 4, 5])], 2);
}

#[test]
fn results_of_normalisations_follow() {
    let x: &[i64] = &[4, 6, 5];
    let small: &[i64] = &[2, 3, 4];
    let [c, c_small]: [&[i64]; 2] = [&[1, 6, 1], &[1, 3, 1]];
    let op = ops::BatchnormInference { x: Uid(0), mean: Uid(1), inv_variance: Uid(2), scale: Uid(3), bias: Uid(4), y: Uid(5) };
    let graph = behind(&[(x, false), (c, false), (&[6], false), (c, false), (c, false), (x, true)], op);
    follows(&graph, &[(0, small), (1, c_small), (2, &[3]), (3, c_small), (4, c_small)], &[(5, small)]);

    let op = ops::Batchnorm {
        x: Uid(0),
        scale: Uid(1),
        bias: Uid(2),
        epsilon: EPSILON,
        peer_stats: &[],
        prev_running_mean: None,
        prev_running_variance: None,
        momentum: None,
        y: Uid(3),
        mean: Some(Uid(4)),
        inv_variance: Some(Uid(5)),
        next_running_mean: None,
        next_running_variance: None,
    };
    let graph = behind(&[(x, false), (c, false), (c, false), (x, true), (c, true), (&[6], true)], op);
    follows(&graph, &[(0, small), (1, c_small), (2, c_small)], &[(3, small), (4, c_small), (5, &[3])]);

    let op = ops::Layernorm {
        x: Uid(0),
        scale: Uid(1),
        bias: Uid(2),
        epsilon: EPSILON,
        y: Uid(3),
        normalized_dim_count: 1,
        mean: Some(Uid(4)),
        inv_variance: Some(Uid(5)),
        forward_phase: hipplan_serialize::NormFwdPhase::Training,
    };
    let graph = behind(&[(x, false), (&[5], false), (&[5], false), (x, true), (&[4, 6, 1], true), (&[4, 6], true)], op);
    follows(&graph, &[(0, small), (1, &[4]), (2, &[4])], &[(3, small), (4, &[2, 3, 1]), (5, &[2, 3])]);

    let rms = |statistic: &[i64]| {
        let op = ops::RmsNorm {
            x: Uid(0),
            scale: Uid(1),
            epsilon: EPSILON,
            y: Uid(2),
            bias: None,
            inv_rms: Some(Uid(3)),
            forward_phase: hipplan_serialize::NormFwdPhase::Training,
        };
        behind(&[(x, false), (&[5], false), (x, true), (statistic, true)], op)
    };
    follows(&rms(&[4, 6, 1]), &[(0, small), (1, &[4])], &[(2, small), (3, &[2, 3, 1])]);
    uncertain(&rms(&[6]), &[(0, small), (1, &[4])], 3);

    let op = ops::LayernormBackward {
        dy: Uid(0),
        x: Uid(1),
        scale: Uid(2),
        mean: None,
        inv_variance: None,
        epsilon: Some(EPSILON),
        dx: Uid(3),
        dscale: Uid(4),
        dbias: Uid(5),
        normalized_dim_count: 1,
    };
    let graph = behind(&[(x, false), (x, false), (&[5], false), (x, true), (&[5], true), (&[5], true)], op);
    follows(&graph, &[(0, small), (1, small), (2, &[4])], &[(3, small), (4, &[4]), (5, &[4])]);

    let op = ops::BatchnormBackward {
        dy: Uid(0),
        x: Uid(1),
        mean: None,
        inv_variance: None,
        scale: Uid(2),
        peer_stats: &[],
        dx: Uid(3),
        dscale: Uid(4),
        dbias: Uid(5),
    };
    let graph = behind(&[(x, false), (x, false), (c, false), (x, true), (c, true), (c, true)], op);
    follows(&graph, &[(0, small), (1, small), (2, c_small)], &[(3, small), (4, c_small), (5, c_small)]);
}

#[test]
fn results_of_reductions_and_pooling_follow() {
    let op = ops::Reduction { mode: ReductionMode::Add, input: Uid(0), output: Uid(1), is_deterministic: false };
    let graph = behind(&[(&[4, 6, 1, 5], false), (&[4, 1, 1, 5], true)], op);
    follows(&graph, &[(0, &[2, 3, 1, 4])], &[(1, &[2, 1, 1, 4])]);

    let [padding, stride, window] = LISTS;
    let op = ops::ResampleFwd {
        x: Uid(0),
        y: Uid(1),
        index: None,
        pre_padding: padding,
        post_padding: padding,
        stride,
        window,
        resample_mode: ResampleMode::AvgPoolIncludePadding,
        padding_mode: hipplan_serialize::PaddingMode::Zero,
        generate_index: None,
    };
    let graph = behind(&[(&[4, 6, 9, 9], false), (&[4, 6, 6, 6], true)], op);
    follows(&graph, &[(0, &[3, 2, 9, 9])], &[(1, &[3, 2, 6, 6])]);
    // Rounded up or down: the declared sizes do not tell, because 9 with padding is 11.
    uncertain(&graph, &[(0, &[4, 6, 7, 9])], 1);
}

#[test]
fn what_only_a_plugin_knows_is_not_guessed() {
    let op = ops::CustomOp { custom_op_id: "a.b", inputs: &[Uid(0)], outputs: &[Uid(1)], data: &[] };
    let graph = behind(&[(&[4, 6], false), (&[4, 6], true)], op);
    uncertain(&graph, &[(0, &[2, 6])], 1);
    follows(&graph, &[(0, &[4, 6])], &[(1, &[4, 6])]);
}

/// A pointwise result may be larger than its inputs broadcast to; then it may not change.
#[test]
fn a_broadcast_to_more_than_the_inputs_have_is_fixed() {
    let op = ops::Pointwise::unary(PointwiseMode::Abs, Uid(0), Uid(1));
    let graph = behind(&[(&[4, 1], false), (&[4, 6], true)], op);
    follows(&graph, &[(0, &[2, 1])], &[(1, &[2, 6])]);
    let graph = behind(&[(&[1, 6], false), (&[4, 6], true)], ops::Pointwise::unary(PointwiseMode::Abs, Uid(0), Uid(1)));
    follows(&graph, &[(0, &[1, 3])], &[(1, &[4, 3])]);
}

#[test]
fn an_encoding_tells_its_flag_and_takes_uids() {
    for flag in [false, true] {
        let mut model = Generator::random(3, 4);
        model.override_shapes = flag;
        let canonical = model.graph(&Style { seed: 9 }).view().canonical().expect("a key");
        assert_eq!(canon::is_override_shape_enabled(&canonical.encoding), flag);
        let name = |ordinal: u32| (Uid(1000 - i64::from(ordinal)), format!("t{ordinal}"));
        let named = canon::decode_as(&canonical.encoding, &canonical.limits, &|ordinal| Some(name(ordinal))).expect("decodes");
        let view = named.view();
        for (tensor, ordinal) in view.tensors().iter().zip(0..) {
            assert_eq!((tensor.uid, tensor.name.to_owned()), name(ordinal));
        }
        let again = view.canonical().expect("a key");
        assert_eq!((again.key, again.encoding), (canonical.key, canonical.encoding.clone()));
        assert!(view.tensors().len() > 1);
        let twice = canon::decode_as(&canonical.encoding, &canonical.limits, &|_| Some((Uid(1), String::new()))).expect_err("one uid");
        assert!(matches!(twice, canon::DecodeError::Graph(GraphError::DuplicateUid { .. })), "{twice}");
    }
    assert!(!canon::is_override_shape_enabled(b"HPCANON\0"));
    assert!(!canon::is_override_shape_enabled(&[1; 64]));
}
