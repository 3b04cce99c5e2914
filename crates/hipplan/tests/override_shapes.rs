//! Execute-time shapes (C10): one plan of a large graph executes smaller ones, and each result is that of the graph of that shape.

mod common;

use hipplan::cpu::CpuProgram;
use hipplan::plan::{PayloadWriter, PlanMetaV1, PlanWriter};
use hipplan::reference::{CheckReport, check};
use hipplan::{
    BoundPlan, ConvMode, DataType, Device, ExecError, GraphBuf, GraphBuilder, InvalidValue, Loaders, Plan, PointwiseMode, ReshapeError,
    ShapeError, ShapeOverride, Stream, TensorAttributes, Uid, VariantPack, Workspace, ops,
};
use proptest::prelude::*;

/// A tensor's shape: uid, dims, strides.
type Shape = (Uid, Vec<i64>, Vec<i64>);

fn packed(uid: Uid, dims: &[i64]) -> Shape {
    (uid, dims.to_vec(), TensorAttributes::packed(DataType::Float, dims).strides().to_vec())
}

/// Channels last, with a gap behind each row of the last dim.
fn channels_last(uid: Uid, dims: &[i64]) -> Shape {
    let mut strides = vec![0; dims.len()];
    let mut next = 1;
    for axis in [1].into_iter().chain((2..dims.len()).rev()).chain([0]) {
        strides[axis] = next;
        next = next * dims[axis] + 1;
    }
    (uid, dims.to_vec(), strides)
}

/// Executes the plan with these shapes, and compares with the reference on the graph that has them.
fn check_shapes(plan: &mut BoundPlan, graph: &GraphBuf, shapes: &[Shape], seed: u64) -> CheckReport {
    let given: Vec<_> = shapes.iter().map(|(uid, dims, strides)| ShapeOverride { uid: *uid, dims, strides }).collect();
    let reshaped = graph.view().reshape(&given).unwrap_or_else(|e| panic!("{e}"));
    let mut workspace = Workspace::new(plan.workspace_size()).expect("memory");
    let report = check(&reshaped.view(), seed, &mut |inputs, outputs| {
        let mut pack = VariantPack::new();
        for input in inputs.tensors() {
            pack.input(input.uid.0, input.tensor.bytes());
        }
        for scalar in inputs.scalars().iter().filter(|s| !s.is_default) {
            pack.scalar_value(scalar.uid.0, scalar.value);
        }
        for output in outputs.tensors_mut() {
            pack.output(output.uid.0, output.tensor.bytes_mut());
        }
        for (uid, dims, strides) in shapes {
            pack.override_shape(uid.0, dims, strides);
        }
        plan.execute(&pack, workspace.as_mut_slice(), Stream::Default)
    });
    report.unwrap_or_else(|e| panic!("{e}"))
}

const X: Uid = Uid(11);
const W: Uid = Uid(12);
const BIAS: Uid = Uid(13);
const Y: Uid = Uid(14);
const BETA: Uid = Uid(15);
const CONVOLVED: Uid = Uid(16);

/// `y = relu(conv(x, w) + bias) * beta`, 3 x 3 with padding 1 and stride 2, with virtual tensors between; `is_enabled` is the flag.
fn conv_graph(dtype: DataType, x: [i64; 4], filters: i64, is_enabled: bool) -> GraphBuf {
    let mut builder = GraphBuilder::new();
    builder.set_override_shape_enabled(is_enabled);
    let mut tensor = |uid, dims: &[i64], is_virtual, name: &str| {
        let mut tensor = TensorAttributes::packed(dtype, dims);
        tensor.set_uid(uid).set_virtual(is_virtual).set_name(name);
        builder.tensor(tensor)
    };
    let [_, w, bias, y] = conv_shapes(x, filters);
    tensor(X, &x, false, "x");
    tensor(W, &w, false, "w");
    tensor(BIAS, &bias, false, "bias");
    tensor(Y, &y, false, "y");
    tensor(CONVOLVED, &y, true, "convolved");
    tensor(Uid(17), &y, true, "biased");
    tensor(Uid(18), &y, true, "clipped");
    let mut beta = TensorAttributes::packed(DataType::Float, &[1]);
    beta.set_uid(BETA).set_as_runtime_parameter();
    builder.tensor(beta);
    let conv = ops::ConvolutionFwd {
        x: X,
        w: W,
        y: CONVOLVED,
        pre_padding: &[1, 1],
        post_padding: &[1, 1],
        stride: &[2, 2],
        dilation: &[1, 1],
        conv_mode: ConvMode::CrossCorrelation,
    };
    builder.node("conv", DataType::Float, conv);
    builder.node("bias", DataType::Float, ops::Pointwise::binary(PointwiseMode::Add, CONVOLVED, BIAS, Uid(17)));
    builder.node("clip", DataType::Float, ops::Pointwise::unary(PointwiseMode::ReluFwd, Uid(17), Uid(18)));
    builder.node("scale", DataType::Float, ops::Pointwise::binary(PointwiseMode::Mul, Uid(18), BETA, Y));
    builder.build().expect("a graph")
}

/// Dims of x, w, bias and y.
fn conv_shapes(x: [i64; 4], filters: i64) -> [Vec<i64>; 4] {
    let [n, c, h, w] = x;
    [x.to_vec(), vec![filters, c, 3, 3], vec![1, filters, 1, 1], vec![n, filters, (h - 1) / 2 + 1, (w - 1) / 2 + 1]]
}

fn conv_overrides(x: [i64; 4], filters: i64, layout: fn(Uid, &[i64]) -> Shape) -> Vec<Shape> {
    let [x, w, bias, y] = conv_shapes(x, filters);
    vec![layout(X, &x), packed(W, &w), packed(BIAS, &bias), layout(Y, &y)]
}

#[test]
fn one_plan_executes_many_shapes() {
    let large = [4, 6, 17, 14];
    for dtype in [DataType::Float, DataType::BFloat16] {
        let (_folder, runtime) = common::runtime();
        let graph = conv_graph(dtype, large, 10, true);
        let mut plan = common::restored(&runtime, &graph.view());
        // The declared shape, without overrides and with them, before, between and behind the others; shapes come back, too.
        let small = [[4, 6, 17, 14], [1, 6, 17, 14], [3, 2, 5, 14], [1, 1, 1, 1], [3, 2, 5, 14], [2, 6, 16, 13]];
        for (seed, x) in (0..).zip(small) {
            for (filters, layout) in [(10, packed as fn(Uid, &[i64]) -> Shape), (7, packed), (7, channels_last)] {
                let report = check_shapes(&mut plan, &graph, &conv_overrides(x, filters, layout), seed);
                assert!(report.passed(), "{dtype} {x:?} {filters}: {report}");
            }
            let view = graph.view();
            let report = check(&view, seed, &mut |inputs, outputs| common::execute(&mut plan, inputs, outputs)).expect("executed");
            assert!(report.passed(), "{dtype} at the declared shape, after {x:?}: {report}");
        }
    }
}

#[test]
fn products_and_normalisations_take_shapes() {
    let (_folder, runtime) = common::runtime();
    // y = abs(a b), with a batch that broadcasts.
    let mut builder = GraphBuilder::new();
    builder.set_override_shape_enabled(true);
    let [a, b, y] = [&[5, 9, 12][..], &[1, 12, 8], &[5, 9, 8]].map(|dims| builder.tensor(TensorAttributes::packed(DataType::Float, dims)));
    let mut product = TensorAttributes::packed(DataType::Float, &[5, 9, 8]);
    product.set_virtual(true);
    let product = builder.tensor(product);
    builder.node("product", DataType::Float, ops::Matmul { a, b, c: product });
    builder.node("abs", DataType::Float, ops::Pointwise::unary(PointwiseMode::Abs, product, y));
    let graph = builder.build().expect("a graph");
    let mut plan = common::restored(&runtime, &graph.view());
    for (seed, [n, m, k, columns]) in (0..).zip([[5, 9, 12, 8], [2, 9, 12, 8], [1, 3, 12, 5], [4, 1, 1, 1]]) {
        let shapes = [packed(a, &[n, m, k]), packed(b, &[1, k, columns]), packed(y, &[n, m, columns])];
        let report = check_shapes(&mut plan, &graph, &shapes, seed);
        assert!(report.passed(), "{n} x {m} x {k} x {columns}: {report}");
        // Transposed.
        let transposed = (b, vec![1, k, columns], vec![k * columns, 1, k]);
        let report = check_shapes(&mut plan, &graph, &[shapes[0].clone(), transposed, shapes[2].clone()], seed);
        assert!(report.passed(), "{n} x {m} x {k} x {columns}, transposed: {report}");
    }

    // y = relu(batchnorm(x)), with epsilon as a constant.
    let mut builder = GraphBuilder::new();
    builder.set_override_shape_enabled(true);
    let (dims, channels) = ([4, 6, 5, 5], [1, 6, 1, 1]);
    let x = builder.tensor(TensorAttributes::packed(DataType::Float, &dims));
    let [mean, variance, scale, bias] = std::array::from_fn(|_| builder.tensor(TensorAttributes::packed(DataType::Float, &channels)));
    let epsilon = builder.tensor(TensorAttributes::scalar(1e-3_f32));
    let mut normalised = TensorAttributes::packed(DataType::Float, &dims);
    normalised.set_virtual(true);
    let normalised = builder.tensor(normalised);
    let y = builder.tensor(TensorAttributes::packed(DataType::Float, &dims));
    builder.node("bn", DataType::Float, ops::BatchnormInferenceVariance { x, mean, variance, scale, bias, y: normalised, epsilon });
    builder.node("relu", DataType::Float, ops::Pointwise::unary(PointwiseMode::ReluFwd, normalised, y));
    let graph = builder.build().expect("a graph");
    let mut plan = common::restored(&runtime, &graph.view());
    for (seed, [n, c, h, w]) in (0..).zip([[4, 6, 5, 5], [1, 6, 5, 5], [3, 2, 1, 4]]) {
        let mut shapes = vec![channels_last(x, &[n, c, h, w]), packed(y, &[n, c, h, w])];
        shapes.extend([mean, variance, scale, bias].map(|uid| packed(uid, &[1, c, 1, 1])));
        let report = check_shapes(&mut plan, &graph, &shapes, seed);
        assert!(report.passed(), "{n} x {c} x {h} x {w}: {report}");
    }
}

/// A graph whose virtual tensors lie in the workspace: each is read by two nodes, so that nothing is fused.
fn forked(dims: &[i64]) -> (GraphBuf, [Uid; 3]) {
    let mut builder = GraphBuilder::new();
    builder.set_override_shape_enabled(true);
    let mut tensor = |is_virtual| {
        let mut tensor = TensorAttributes::packed(DataType::Float, dims);
        tensor.set_virtual(is_virtual);
        builder.tensor(tensor)
    };
    let [x, a, b, c, y, z] = [false, true, true, true, false, false].map(&mut tensor);
    for (mode, from, to) in [(PointwiseMode::Neg, x, a), (PointwiseMode::Abs, a, b), (PointwiseMode::Identity, a, c)] {
        builder.node("", DataType::Float, ops::Pointwise::unary(mode, from, to));
    }
    builder.node("", DataType::Float, ops::Pointwise::binary(PointwiseMode::Add, b, c, y));
    builder.node("", DataType::Float, ops::Pointwise::binary(PointwiseMode::Mul, b, c, z));
    (builder.build().expect("a graph"), [x, y, z])
}

#[test]
fn tensors_in_the_workspace_take_shapes() {
    let (_folder, runtime) = common::runtime();
    let (graph, uids) = forked(&[3, 40, 7]);
    let mut plan = common::restored(&runtime, &graph.view());
    assert!(plan.workspace_size() > 0, "something lies in the workspace");
    for (seed, dims) in (0..).zip([[3, 40, 7], [1, 40, 7], [3, 1, 1], [2, 39, 6]]) {
        let report = check_shapes(&mut plan, &graph, &uids.map(|uid| packed(uid, &dims)), seed);
        assert!(report.passed(), "{dims:?}: {report}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_smaller_shapes_are_right(
        large in [1..5_i64, 1..7_i64, 1..20_i64, 1..20_i64], filters in 1..9_i64,
        parts in prop::collection::vec([1..100_i64, 1..100, 1..100, 1..100, 1..100], 1..4),
        is_bf16: bool, is_channels_last: bool, seed: u64,
    ) {
        let (_folder, runtime) = common::runtime();
        let dtype = if is_bf16 { DataType::BFloat16 } else { DataType::Float };
        let graph = conv_graph(dtype, large, filters, true);
        let mut plan = common::restored(&runtime, &graph.view());
        let of = |size: i64, percent: i64| (size * percent).div_euclid(100).max(1);
        for part in parts {
            let small = std::array::from_fn(|axis| of(large[axis], part[axis]));
            let layout = if is_channels_last { channels_last } else { packed };
            let report = check_shapes(&mut plan, &graph, &conv_overrides(small, of(filters, part[4]), layout), seed);
            prop_assert!(report.passed(), "{large:?} as {small:?}: {report}");
        }
    }
}

/// Executes with these overrides and buffers of so many elements for x and y.
fn attempt(plan: &mut BoundPlan, shapes: &[Shape], buffers: [Option<usize>; 2]) -> Result<(), ExecError> {
    let x = vec![1.0_f32; buffers[0].unwrap_or(0)];
    let mut y = vec![0.0_f32; buffers[1].unwrap_or(0)];
    let (w, bias) = (vec![1.0_f32; 10 * 6 * 9], vec![0.0_f32; 10]);
    let mut workspace = Workspace::new(plan.workspace_size()).expect("memory");
    let mut pack = VariantPack::new();
    pack.input(W.0, &w).input(BIAS.0, &bias).scalar(BETA.0, 1.0_f32);
    if buffers[0].is_some() {
        pack.input(X.0, &x);
    }
    if buffers[1].is_some() {
        pack.output(Y.0, &mut y);
    }
    for (uid, dims, strides) in shapes {
        pack.override_shape(uid.0, dims, strides);
    }
    plan.execute(&pack, workspace.as_mut_slice(), Stream::Default)
}

const LARGE: [i64; 4] = [4, 6, 8, 8];
const LARGE_X: usize = 4 * 6 * 8 * 8;
const LARGE_Y: usize = 4 * 10 * 4 * 4;

#[test]
fn buffers_are_held_against_the_shape_of_the_execution() {
    let (_folder, runtime) = common::runtime();
    let graph = conv_graph(DataType::Float, LARGE, 10, true);
    let mut plan = common::restored(&runtime, &graph.view());
    let batch_of_2 = conv_overrides([2, 6, 8, 8], 10, packed);
    let (x, y) = (LARGE_X / 2, LARGE_Y / 2);
    let size = |result: Result<(), ExecError>| match result {
        Err(ExecError::InvalidValue { uid, reason: InvalidValue::BufferSize { found, expected }, .. }) => (uid, found, expected),
        other => panic!("{other:?}"),
    };
    let bytes = |elements: usize| elements as u64 * 4;
    for _ in 0..2 {
        attempt(&mut plan, &batch_of_2, [Some(x), Some(y)]).expect("as large as they need be");
        assert_eq!(size(attempt(&mut plan, &batch_of_2, [Some(x - 1), Some(y)])), (X.0, bytes(x - 1), bytes(x)));
        assert_eq!(size(attempt(&mut plan, &batch_of_2, [Some(x), Some(y - 1)])), (Y.0, bytes(y - 1), bytes(y)));
        // Without overrides, the declared shape is asked for again.
        assert_eq!(size(attempt(&mut plan, &[], [Some(x), Some(y)])), (X.0, bytes(x), bytes(LARGE_X)));
        attempt(&mut plan, &[], [Some(LARGE_X), Some(LARGE_Y)]).expect("the declared shape");
    }
    // Strides may ask for more than the declared shape does.
    let mut wide = batch_of_2.clone();
    wide[0].2[0] = 10_000;
    assert_eq!(size(attempt(&mut plan, &wide, [Some(LARGE_X), Some(y)])), (X.0, bytes(LARGE_X), bytes(10_000 + 6 * 64)));
    attempt(&mut plan, &wide, [Some(10_000 + 6 * 64), Some(y)]).expect("large enough");
    assert_eq!(plan.span_bytes(X.0), Some(bytes(LARGE_X)), "what is told of the plan is its declared shape");
}

#[test]
fn what_cannot_be_overridden_is_named() {
    let (_folder, runtime) = common::runtime();
    let graph = conv_graph(DataType::Float, LARGE, 10, true);
    let mut plan = common::restored(&runtime, &graph.view());
    let all = [Some(LARGE_X), Some(LARGE_Y)];
    let mut refused = |shapes: &[Shape]| match attempt(&mut plan, shapes, all).expect_err("refused") {
        ExecError::Shape(error) => match *error {
            ShapeError::Reshape(error) => error,
            error => panic!("{error}"),
        },
        error => panic!("{error}"),
    };
    let x = |dims: [i64; 4]| packed(X, &dims);
    assert_eq!(refused(&[packed(Uid(999), &[1])]), ReshapeError::UnknownUid { uid: 999 });
    let error = refused(&[packed(CONVOLVED, &[4, 10, 4, 4])]);
    assert!(matches!(&error, ReshapeError::Virtual { tensor } if &*tensor.name == "convolved" && tensor.uid == CONVOLVED.0), "{error}");
    assert!(matches!(refused(&[packed(BETA, &[1])]), ReshapeError::ByValue { .. }));
    assert!(matches!(refused(&[packed(X, &[4, 6, 8])]), ReshapeError::Rank { found: 3, declared: 4, .. }));
    assert!(matches!(refused(&[(X, LARGE.to_vec(), vec![1, 1, 1])]), ReshapeError::StrideCount { found: 3, dims: 4, .. }));
    assert!(matches!(refused(&[x([4, 6, 0, 8])]), ReshapeError::Dim { axis: 2, found: 0, .. }));
    let error = refused(&[x([5, 6, 8, 8])]);
    assert!(matches!(&error, ReshapeError::AboveDeclared { axis: 0, found: 5, declared: 4, .. }), "{error}");
    assert!(error.to_string().contains("\"x\" (uid 11)"), "{error}");
    assert!(matches!(refused(&[(X, LARGE.to_vec(), vec![0, 64, 8, 1])]), ReshapeError::Stride { axis: 0, found: 0, .. }));
    assert!(matches!(refused(&[x(LARGE), x(LARGE)]), ReshapeError::Twice { .. }));
    assert!(matches!(refused(&[x([2, 6, 8, 8])]), ReshapeError::Graph(_)));
    // What was refused leaves nothing behind.
    attempt(&mut plan, &[], all).expect("the declared shape");
    let batch_of_1 = conv_overrides([1, 6, 8, 8], 10, packed);
    attempt(&mut plan, &batch_of_1, all).expect("a smaller one");
    attempt(&mut plan, &[x([5, 6, 8, 8])], all).expect_err("a larger one");
    attempt(&mut plan, &batch_of_1, all).expect("the smaller one again");

    // An overridden tensor without a buffer.
    for buffers in [[None, Some(LARGE_Y)], [Some(LARGE_X), None]] {
        let missing = if buffers[0].is_none() { X.0 } else { Y.0 };
        let error = attempt(&mut plan, &batch_of_1, buffers).expect_err("a buffer is missing");
        assert!(matches!(&error, ExecError::InvalidValue { uid, reason: InvalidValue::Missing { .. }, .. } if *uid == missing), "{error}");
    }
}

#[test]
fn a_plan_of_fixed_shapes_says_how_to_get_another() {
    let (_folder, runtime) = common::runtime();
    let graph = conv_graph(DataType::Float, LARGE, 10, false);
    let mut plan = common::restored(&runtime, &graph.view());
    let all = [Some(LARGE_X), Some(LARGE_Y)];
    let error = attempt(&mut plan, &[packed(X, &LARGE)], all).expect_err("fixed");
    assert!(matches!(&error, ExecError::Shape(e) if matches!(**e, ShapeError::NotEnabled { uid: 11 })), "{error}");
    assert!(error.to_string().contains("is_override_shape_enabled"), "{error}");
    attempt(&mut plan, &[], all).expect("the declared shape");
    // The flag is part of the graph: it is another graph, with another plan.
    let enabled = conv_graph(DataType::Float, LARGE, 10, true);
    assert_ne!(graph.view().canonical().expect("a key").key, enabled.view().canonical().expect("a key").key);
}

#[test]
fn packs_of_other_bindings_name_tensors_in_their_way() {
    let (_folder, runtime) = common::runtime();
    let graph = conv_graph(DataType::Float, LARGE, 10, true);
    let view = graph.view();
    runtime.compile(&view).expect("compiled");
    let canonical = view.canonical().expect("a key");
    let bytes = runtime.find(&canonical.key).expect("found");
    let plan = Plan::new(bytes.view());
    let loaders = Loaders::default();
    let ordinal = |uid| canonical.uids.iter().position(|&u| u == uid).expect("a tensor") as i64;
    let by_key: Vec<i64> = (0..canonical.uids.len() as i64).collect();
    // The caller's own numbers, none for the tensors that no pack may name, but for one that has the number of another.
    let own = |uid: Uid| if uid == CONVOLVED { 1011 } else { 1000 + uid.0 };
    let by_uids: Vec<i64> = canonical.uids.iter().map(|&uid| own(uid)).collect();
    let bound = [
        (plan.bind_by_key(&Device::Cpu, &loaders).expect("bound"), by_key),
        (plan.bind_by_uids(&Device::Cpu, &loaders, &by_uids).expect("bound"), by_uids),
    ];
    for (mut bound, names) in bound {
        let name = |uid| names[ordinal(uid) as usize];
        let [x, w, bias, y] = [X, W, BIAS, Y].map(name);
        let (image, filter, zero) = (vec![1.0_f32; 2 * 6 * 64], vec![1.0_f32; 540], [0.5_f32; 10]);
        let mut result = vec![0.0_f32; 2 * 10 * 16];
        let mut workspace = Workspace::new(bound.workspace_size()).expect("memory");
        let mut pack = VariantPack::new();
        pack.input(x, &image).input(w, &filter).input(bias, &zero).output(y, &mut result).scalar(name(BETA), 2.0_f32);
        for ((_, dims, strides), uid) in conv_overrides([2, 6, 8, 8], 10, packed).iter().zip([x, w, bias, y]) {
            pack.override_shape(uid, dims, strides);
        }
        bound.execute(&pack, workspace.as_mut_slice(), Stream::Default).unwrap_or_else(|e| panic!("{e}"));
        pack.override_shape(x, &[2, 6, 8, 8], &[384, 64, 8, 1]);
        let error = bound.execute(&pack, workspace.as_mut_slice(), Stream::Default).expect_err("twice");
        assert!(error.to_string().contains(&format!("(uid {x})")), "{error}");
        // In the middle the filter meets 9 taps of 6 channels; half is added, and all is doubled.
        assert_eq!(result[5], 2.0 * (54.0 + 0.5));
    }
}

/// A shape that has been forgotten does not make a broadcast of what was none: refused before any provider is asked.
#[test]
fn shapes_that_would_repeat_a_tensor_are_refused() {
    let (_folder, runtime) = common::runtime();
    let mut builder = GraphBuilder::new();
    builder.set_override_shape_enabled(true);
    let mut tensor = |is_virtual| {
        let mut tensor = TensorAttributes::packed(DataType::Float, &[4, 3]);
        tensor.set_virtual(is_virtual);
        builder.tensor(tensor)
    };
    let [x, z, y] = std::array::from_fn(|_| tensor(false));
    let a = tensor(true);
    builder.node("", DataType::Float, ops::Pointwise::unary(PointwiseMode::Abs, x, a));
    builder.node("", DataType::Float, ops::Pointwise::binary(PointwiseMode::Add, a, z, y));
    let graph = builder.build().expect("a graph");
    let mut plan = common::restored(&runtime, &graph.view());
    // The absolute value would be added to every row of z.
    let shapes = [packed(x, &[1, 3])];
    let (input, mut output) = ([-1.0_f32; 12], [0.0_f32; 12]);
    let mut pack = VariantPack::new();
    pack.input(x.0, &input).input(z.0, &input).output(y.0, &mut output).override_shape(x.0, &shapes[0].1, &shapes[0].2);
    let mut workspace = Workspace::new(plan.workspace_size()).expect("memory");
    let error = plan.execute(&pack, workspace.as_mut_slice(), Stream::Default).expect_err("z was forgotten");
    let ExecError::Shape(shape) = &error else { panic!("{error}") };
    assert!(matches!(&**shape, ShapeError::Reshape(ReshapeError::Repeated { axis: 0, found: 4, declared: 4, .. })), "{error}");
}

/// A plan whose bindings and program agree, and whose graph is larger: its shapes would reach beyond buffers that were found large enough.
#[test]
fn a_graph_that_is_not_that_of_the_bindings_is_refused() {
    let (_folder, runtime) = common::runtime();
    let mut builder = GraphBuilder::new();
    builder.set_override_shape_enabled(true);
    let [x, y] = std::array::from_fn(|_| builder.tensor(TensorAttributes::packed(DataType::Float, &[64])));
    builder.node("", DataType::Float, ops::Pointwise::unary(PointwiseMode::Abs, x, y));
    let graph = builder.build().expect("a graph");
    runtime.compile(&graph.view()).expect("compiled");
    let bytes = runtime.find(&graph.view().canonical().expect("a key").key).expect("found");
    let plan = bytes.view();
    let mut meta = rkyv::deserialize::<PlanMetaV1, rkyv::rancor::Error>(plan.meta()).expect("metadata");
    let payload = plan.payload().and_then(|head| Ok(head.read_tables()?)).expect("a payload");
    let mut program = rkyv::from_bytes::<CpuProgram, rkyv::rancor::Error>(payload.body()).expect("a program");
    meta.bindings.iter_mut().for_each(|b| b.dims = vec![2]);
    program.tensors.iter_mut().for_each(|t| t.dims = vec![2]);
    let body = rkyv::to_bytes::<rkyv::rancor::Error>(&program).expect("archived");
    let (kind, version) = (payload.kind(), payload.version());
    let payload = PayloadWriter { kind, version, runtime_uids: Vec::new(), baked: Vec::new(), body: &body }.finish().expect("a payload");
    let forged = PlanWriter { meta: &meta, canonical: plan.canonical().expect("canonical"), payload: &payload }.finish().expect("a plan");
    let forged = Plan::open(&forged).expect("every hash is right");
    let error = forged.bind_by_key(&Device::Cpu, &Loaders::default()).expect_err("refused");
    assert!(matches!(error, ExecError::BindingDisagrees { .. }), "{error}");
}
