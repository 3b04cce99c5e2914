//! Graphs that nobody would write, and that are valid all the same: the hip provider on the host runtime against the reference.

mod common;

use hipplan_exec::Device;
use hipplan_exec::hip::HipRuntime;
use hipplan_fuzzing::{Generator, Style};
use hipplan_hip_testing::problems::{Kind, Problem};
use hipplan_hip_testing::sweep::{Outcome, Sweep};
use hipplan_hip_testing::{HostCompiler, build};
use hipplan_planner::Providers;
use hipplan_planner::hip::HipCompiler;
use hipplan_serialize::{
    ConvMode, DataType, GraphBuf, GraphBuilder, OpKind, PointwiseMode, ReductionMode, ScalarType, TensorAttributes, Uid, ops,
};
use hipplan_store::{Mode, Store};
use std::env;
use std::process::Command;

use DataType::{Boolean, Double, Float, Half, Int8, Int32, UInt8};

/// What is not as it should be, and how many of the graphs were executed.
fn run(graphs: Vec<(String, GraphBuf)>) -> (Vec<String>, usize) {
    let sanitize = env::var_os("HIPPLAN_CHILD").is_some();
    let runtime = HipRuntime::open(build::host_runtime(&common::build_dir(), sanitize).expect("built")).expect("opened");
    let device = Device::Hip(runtime.device(0).expect("a device"));
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(folder.path(), Mode::ReadWrite).expect("a store");
    let mut providers = Providers::default();
    providers.add(Box::new(HipCompiler::new(vec![Box::new(HostCompiler::new(sanitize).expect("g++"))])));
    let sweep = Sweep { device: &device, providers: &providers, store: &store };
    let problems = graphs.into_iter().map(|(name, graph)| Problem { name, kind: Kind::Fused, graph, macs: 1 });
    let rows: Vec<_> = problems.map(|problem| sweep.run(&problem)).collect();
    for row in &rows {
        println!("{row}");
    }
    let wrong = rows.iter().filter(|r| matches!(r.outcome, Outcome::Wrong(_) | Outcome::Failed(_))).map(ToString::to_string);
    (wrong.collect(), rows.iter().filter(|r| r.passed()).count())
}

fn tensor(builder: &mut GraphBuilder, dtype: DataType, dims: &[i64]) -> Uid {
    builder.tensor(TensorAttributes::packed(dtype, dims))
}

fn strided(builder: &mut GraphBuilder, dtype: DataType, dims: &[i64], strides: &[i64]) -> Uid {
    let mut t = TensorAttributes::packed(dtype, dims);
    t.set_strides(strides);
    builder.tensor(t)
}

fn virtual_tensor(builder: &mut GraphBuilder, dtype: DataType, dims: &[i64]) -> Uid {
    let mut t = TensorAttributes::packed(dtype, dims);
    t.set_virtual(true);
    builder.tensor(t)
}

type Tensor<'t> = (&'t [i64], &'t [i64]);

/// A convolution in a direction (0 forward, 1 data, 2 weights) of two dimensions: extents and strides of x, w and y; padding before and
/// behind, stride, dilation.
fn conv(direction: u8, [x, w, y]: [Tensor<'_>; 3], [pre, post, stride, dilation]: [i64; 4]) -> GraphBuf {
    let mut b = GraphBuilder::new();
    let [x, w, y] = [x, w, y].map(
        |(dims, strides)| {
            if strides.is_empty() { tensor(&mut b, Float, dims) } else { strided(&mut b, Float, dims, strides) }
        },
    );
    let [pre, post, stride, dilation] = [pre, post, stride, dilation].map(|n| [n, n]);
    let (pre_padding, post_padding, stride, dilation) = (&pre[..], &post[..], &stride[..], &dilation[..]);
    let conv_mode = ConvMode::CrossCorrelation;
    match direction {
        0 => b.node("conv", Float, ops::ConvolutionFwd { x, w, y, pre_padding, post_padding, stride, dilation, conv_mode }),
        1 => b.node("conv", Float, ops::ConvolutionBwd { dy: y, w, dx: x, pre_padding, post_padding, stride, dilation, conv_mode }),
        _ => b.node("conv", Float, ops::ConvolutionWrw { x, dy: y, dw: w, pre_padding, post_padding, stride, dilation, conv_mode }),
    };
    b.build().expect("a convolution")
}

fn matmul(types: [DataType; 3], [a, b, c]: [&[i64]; 3]) -> GraphBuf {
    let mut builder = GraphBuilder::new();
    let [a, b, c] = [(types[0], a), (types[1], b), (types[2], c)].map(|(dtype, dims)| tensor(&mut builder, dtype, dims));
    builder.node("matmul", Float, ops::Matmul { a, b, c });
    builder.build().expect("a product")
}

#[test]
fn convolutions() {
    let mut graphs = Vec::new();
    let mut add = |name: &str, tensors: [Tensor<'_>; 3], numbers: [i64; 4], directions: &[u8]| {
        for &direction in directions {
            graphs.push((format!("{name}, direction {direction}"), conv(direction, tensors, numbers)));
        }
    };
    let all = &[0, 1, 2][..];
    add("extents of 1", [(&[1, 1, 1, 1], &[]), (&[1, 1, 1, 1], &[]), (&[1, 1, 1, 1], &[])], [0, 0, 1, 1], all);
    add("a multiplier of 3", [(&[2, 5, 4, 4], &[]), (&[15, 1, 3, 3], &[]), (&[2, 15, 4, 4], &[])], [1, 1, 1, 1], all);
    add("nothing but padding", [(&[1, 2, 1, 1], &[]), (&[3, 2, 1, 1], &[]), (&[1, 3, 1, 1], &[])], [5, 5, 20, 1], all);
    add("mostly padding", [(&[1, 2, 1, 1], &[]), (&[3, 2, 1, 1], &[]), (&[1, 3, 21, 21], &[])], [10, 10, 1, 1], all);
    add("a dilation of 1000", [(&[1, 2, 3, 3], &[]), (&[3, 2, 2, 2], &[]), (&[1, 3, 1003, 1003], &[])], [1000, 1000, 1, 1000], &[1]);
    add("a dilation of 100", [(&[1, 2, 3, 3], &[]), (&[3, 2, 2, 2], &[]), (&[1, 3, 103, 103], &[])], [100, 100, 1, 100], all);
    add(
        "strides that share a factor with dilations",
        [(&[1, 1, 9, 9], &[]), (&[1, 1, 3, 3], &[]), (&[1, 1, 1, 1], &[])],
        [0, 0, 6, 4],
        all,
    );
    // Offsets outside of the image are beyond 32 bits, the image is not.
    let far: Tensor<'_> = (&[1, 1, 2, 2], &[1, 1, 1 << 21, 1]);
    add("padding beyond 32 bits", [far, (&[2, 1, 2, 2], &[]), (&[1, 2, 11, 11], &[])], [1100, 1100, 220, 1], all);
    // Inputs may repeat and overlap.
    let ones: Tensor<'_> = (&[3, 4, 5, 5], &[0, 0, 0, 0]);
    add("strides of 0", [ones, (&[2, 4, 3, 3], &[0, 9, 3, 1]), (&[3, 2, 5, 5], &[])], [1, 1, 1, 1], &[0]);
    let overlapping: Tensor<'_> = (&[2, 3, 6, 6], &[1, 1, 2, 1]);
    add("strides that overlap", [overlapping, (&[4, 3, 3, 3], &[2, 1, 1, 1]), (&[2, 4, 6, 6], &[])], [1, 1, 1, 1], &[0]);
    let (wrong, right) = run(graphs);
    assert!(wrong.is_empty() && right >= 24, "{right} right; {wrong:#?}");
}

#[test]
fn products() {
    let [f32s, f64s] = [[Float; 3], [Double; 3]];
    let mut graphs: Vec<(String, GraphBuf)> = [
        ("1 x 1 x 1", f32s, [&[1, 1][..], &[1, 1], &[1, 1]]),
        ("depth 1", f32s, [&[70, 1], &[1, 70], &[70, 70]]),
        ("one row", f32s, [&[1, 300], &[300, 257], &[1, 257]]),
        ("one column", f64s, [&[257, 300], &[300, 1], &[257, 1]]),
        ("depth alone", f32s, [&[1, 100_000], &[100_000, 1], &[1, 1]]),
        ("70000 products", f32s, [&[70_000, 2, 3], &[70_000, 3, 1], &[70_000, 2, 1]]),
        ("70000 products of one matrix", f32s, [&[70_000, 2, 3], &[1, 3, 2], &[70_000, 2, 2]]),
        ("batches that cross", f32s, [&[3, 1, 4, 5], &[1, 7, 5, 2], &[3, 7, 4, 2]]),
        ("bytes of two signs", [Int8, UInt8, Int32], [&[9, 40], &[40, 9], &[9, 9]]),
        ("bytes and halves", [Int8, Half, Float], [&[9, 40], &[40, 9], &[9, 9]]),
        ("a half that overflows", [Float, Float, Half], [&[9, 4000], &[4000, 9], &[9, 9]]),
        ("sums of bytes in a byte", [Int8, Int8, Int8], [&[9, 40], &[40, 9], &[9, 9]]),
    ]
    .into_iter()
    .map(|(name, types, dims)| (name.to_owned(), matmul(types, dims)))
    .collect();
    let mut builder = GraphBuilder::new();
    let a = tensor(&mut builder, Float, &[33, 33]);
    let c = tensor(&mut builder, Float, &[33, 33]);
    builder.node("square", Float, ops::Matmul { a, b: a, c });
    graphs.push(("a square".to_owned(), builder.build().expect("a graph")));
    let (wrong, right) = run(graphs);
    assert!(wrong.is_empty() && right >= 11, "{right} right; {wrong:#?}");
}

#[test]
fn chains() {
    let mut graphs = Vec::new();
    // More tensors than one kernel reads, and the carried one twice.
    for links in [5, 12] {
        let mut b = GraphBuilder::new();
        let dims = [3, 5, 7];
        let mut carried = tensor(&mut b, Float, &dims);
        for link in 0..links {
            let other = if link % 3 == 2 { carried } else { tensor(&mut b, Float, if link % 2 == 0 { &dims } else { &[1, 5, 1] }) };
            let out = if link + 1 == links { tensor(&mut b, Float, &dims) } else { virtual_tensor(&mut b, Float, &dims) };
            b.node("add", Float, ops::Pointwise::binary(PointwiseMode::Add, carried, other, out));
            carried = out;
        }
        graphs.push((format!("a chain of {links}"), b.build().expect("a graph")));
    }
    // One result read by two, which are joined again: virtual tensors that live at once.
    let mut b = GraphBuilder::new();
    let dims = [4, 33];
    let x = tensor(&mut b, Half, &dims);
    let [p, q, r, s] = [0; 4].map(|_| virtual_tensor(&mut b, Float, &dims));
    let y = tensor(&mut b, Half, &dims);
    b.node("p", Float, ops::Pointwise::unary(PointwiseMode::ReluFwd, x, p));
    b.node("q", Float, ops::Pointwise::binary(PointwiseMode::Mul, p, x, q));
    b.node("r", Float, ops::Pointwise::binary(PointwiseMode::Sub, p, q, r));
    b.node("s", Float, ops::Pointwise::binary(PointwiseMode::Mul, r, p, s));
    b.node("y", Float, ops::Pointwise::binary(PointwiseMode::Add, s, q, y));
    graphs.push(("a diamond".to_owned(), b.build().expect("a graph")));
    // A factor that no half holds, a byte, an integer and a boolean hold none of either.
    for dtype in [Half, DataType::BFloat16, Int8, UInt8, Int32] {
        for value in [1e6_f32, -1e6, 1e30, -1e30] {
            let mut b = GraphBuilder::new();
            let x = tensor(&mut b, Float, &[7, 9]);
            let factor = b.scalar(value, ScalarType::CompileTimeConst);
            let y = tensor(&mut b, dtype, &[7, 9]);
            b.node("mul", Float, ops::Pointwise::binary(PointwiseMode::Mul, x, factor, y));
            graphs.push((format!("{dtype} of {value:e}"), b.build().expect("a graph")));
        }
    }
    for (first, second, out) in [(Int32, UInt8, Boolean), (Int8, Int32, Int32), (Boolean, UInt8, Float), (Boolean, Boolean, Int8)] {
        for mode in [PointwiseMode::Add, PointwiseMode::Sub, PointwiseMode::Max, PointwiseMode::CmpGt, PointwiseMode::LogicalAnd] {
            let mut b = GraphBuilder::new();
            let [x, z] = [first, second].map(|dtype| tensor(&mut b, dtype, &[5, 13]));
            let y = tensor(&mut b, out, &[5, 13]);
            b.node("mixed", Float, ops::Pointwise::binary(mode, x, z, y));
            graphs.push((format!("{} of {first} and {second} in {out}", mode.name()), b.build().expect("a graph")));
        }
    }
    let mut b = GraphBuilder::new();
    let x = strided(&mut b, Float, &[6, 70, 5], &[0, 1, 1]);
    let y = tensor(&mut b, Float, &[6, 1, 1]);
    b.node("reduce", Float, ops::Reduction { mode: ReductionMode::Max, input: x, output: y, is_deterministic: true });
    graphs.push(("a reduction of what overlaps".to_owned(), b.build().expect("a graph")));
    let (wrong, right) = run(graphs);
    assert!(wrong.is_empty() && right >= 30, "{right} right; {wrong:#?}");
}

/// One value per channel may have any rank, whatever that of the tensor.
#[test]
fn values_per_channel() {
    let mut graphs = Vec::new();
    for x_dims in [&[2, 3][..], &[2, 3, 7], &[2, 3, 4, 5], &[2, 1, 4, 3], &[3, 3, 3, 3, 3]] {
        for rank in 1..=6 {
            for kind in 0..4 {
                let channels = x_dims[1];
                let mut dims = vec![1; rank];
                dims[rank.min(2) - 1] = channels;
                let mut b = GraphBuilder::new();
                let x = tensor(&mut b, Float, x_dims);
                // One of the four has the rank, the others are vectors.
                let [mean, inv_variance, scale, bias] =
                    [0, 1, 2, 3].map(|n| tensor(&mut b, Float, if n == kind { &dims } else { std::slice::from_ref(&channels) }));
                let y = tensor(&mut b, Float, x_dims);
                b.node("bn", Float, ops::BatchnormInference { x, mean, inv_variance, scale, bias, y });
                graphs.push((format!("{x_dims:?} with {dims:?} as parameter {kind}"), b.build().expect("a graph")));
            }
        }
    }
    let count = graphs.len();
    let (wrong, right) = run(graphs);
    assert!(wrong.is_empty() && right == count, "{right} of {count} right; {wrong:#?}");
}

/// hipDNN also repeats the batches of an operand in groups, which nobody here does: no kernel may read them as if they were there.
#[test]
fn batches_in_groups_are_declined() {
    let mut graphs = vec![("8 heads over 2".to_owned(), matmul([Float; 3], [&[2, 8, 3, 4], &[2, 2, 4, 5], &[2, 8, 3, 5]]))];
    graphs.push(("2 heads over 8".to_owned(), matmul([Float; 3], [&[2, 3, 4], &[8, 4, 5], &[8, 3, 5]])));
    assert_eq!(run(graphs), (Vec::new(), 0));
}

/// Operations that the provider has.
const KINDS: [OpKind; 8] = [
    OpKind::ConvolutionFwd,
    OpKind::ConvolutionBwd,
    OpKind::ConvolutionWrw,
    OpKind::Matmul,
    OpKind::Pointwise,
    OpKind::Reduction,
    OpKind::BatchnormInference,
    OpKind::BatchnormInferenceVariance,
];

#[test]
fn random_graphs() {
    let count = env::var("HIPPLAN_GRAPHS").ok().map_or(40, |n| n.parse().expect("HIPPLAN_GRAPHS is a number"));
    let graph = |seed: u64| {
        let mut generator = Generator::new(seed);
        for _ in 0..1 + seed % 4 {
            let kind = generator.rng.pick(&KINDS);
            generator.node(kind);
        }
        // The provider has no ragged tensors.
        generator.model.tensors.iter_mut().for_each(|t| t.ragged = None);
        // Nor does it take execute-time shapes.
        generator.model.override_shapes = false;
        (format!("random {seed}"), generator.model.graph(&Style { seed }))
    };
    let (wrong, right) = run((0..count).map(graph).collect());
    assert!(wrong.is_empty() && right as u64 > count / 10, "{right} right; {wrong:#?}");
}

/// The same with sanitizers: nothing outside of its tensors is read.
#[test]
fn sanitizers_find_nothing() {
    if env::var_os("HIPPLAN_CHILD").is_some() {
        return;
    }
    let Some(asan) = build::asan_library() else {
        assert!(env::var_os("HIPPLAN_CI").is_none(), "the compiler has no AddressSanitizer");
        eprintln!("skipped: the compiler has no AddressSanitizer");
        return;
    };
    build::host_runtime(&common::build_dir(), true).expect("built");
    let mut command = Command::new(env::current_exe().expect("this test"));
    command.args(["random_graphs", "convolutions", "--exact", "--nocapture"]);
    command.env("HIPPLAN_CHILD", "1").env("LD_PRELOAD", asan).env("ASAN_OPTIONS", "detect_leaks=0");
    if env::var_os("HIPPLAN_GRAPHS").is_none() {
        command.env("HIPPLAN_GRAPHS", "20");
    }
    let output = command.output().expect("started");
    let text = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
}
