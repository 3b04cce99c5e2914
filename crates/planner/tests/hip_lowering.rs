//! Any valid graph is lowered or declined: numbers at the edges of what kernels count never overflow, and what comes out is a program that
//! its loader takes.
#![expect(clippy::unwrap_used, reason = "a test may panic, also in its helper functions")]

use hipplan_exec::hip::HipProgram;
use hipplan_fuzzing::{Generator, Rng, Style};
use hipplan_planner::hip::HipCompiler;
use hipplan_planner::hip::compiler::{KernelCompileError, KernelCompiler, KernelSource};
use hipplan_planner::{CompileError, Providers, Request, Site, compile_graph};
use hipplan_serialize::plan::PlanView;
use hipplan_serialize::{
    ConvMode, DataType, GraphBuf, GraphBuilder, Limits, OpKind, PointwiseMode, Policy, ReductionMode, Target, TensorAttributes, Uid, ops,
};

/// Takes every text for its own object: what is tested lies before and behind the compiler.
struct Echo;

impl KernelCompiler for Echo {
    fn identity(&self) -> String {
        "echo".to_owned()
    }

    fn revision(&self) -> String {
        "1".to_owned()
    }

    fn supports(&self, _: &Target) -> Result<(), String> {
        Ok(())
    }

    fn compile(&self, source: &KernelSource, _: &Target) -> Result<Vec<u8>, KernelCompileError> {
        Ok(source.name.clone().into_bytes())
    }
}

/// What the graphs came to.
#[derive(Debug, Default)]
struct Count {
    compiled: u32,
    declined: u32,
    launches: usize,
}

struct Lowering {
    providers: Providers,
    count: Count,
}

impl Lowering {
    fn new() -> Self {
        let mut providers = Providers::none();
        providers.add(Box::new(HipCompiler::new(vec![Box::new(Echo)])));
        Self { providers, count: Count::default() }
    }

    /// Compiles a graph, and reads its program as the loader does.
    fn lower(&mut self, graph: &GraphBuf) {
        let target: Target = "gfx942".parse().unwrap();
        let compiled = match compile_graph(&graph.view(), &Request { site: &Site::of(&target), policy: &Policy::DEFAULT }, &self.providers)
        {
            Ok(compiled) => compiled,
            Err(CompileError::NoApplicableEngines { .. } | CompileError::NoKey(_)) => {
                self.count.declined += 1;
                return;
            }
            Err(other) => panic!("{other}"),
        };
        let plan = PlanView::open(&compiled.bytes).unwrap();
        let payload = plan.payload().unwrap().read_tables().unwrap();
        let program = HipProgram::read(payload.body(), plan.meta()).unwrap();
        self.count.compiled += 1;
        self.count.launches += program.launches.len();
    }
}

/// Graphs of each test.
fn graphs(default: u64) -> u64 {
    std::env::var("HIPPLAN_GRAPHS").ok().map_or(default, |n| n.parse().expect("HIPPLAN_GRAPHS is a number"))
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
    let mut lowering = Lowering::new();
    for seed in 0..graphs(600) {
        let mut generator = Generator::new(seed);
        for _ in 0..1 + seed % 6 {
            let kind = if seed % 8 == 0 { generator.rng.pick(OpKind::ALL) } else { generator.rng.pick(&KINDS) };
            generator.node(kind);
        }
        // Graphs with execute-time shapes are all declined, which another test sees to.
        generator.model.override_shapes = false;
        lowering.lower(&generator.model.graph(&Style { seed }));
    }
    println!("{:?}", lowering.count);
    assert!(lowering.count.compiled > 50 && lowering.count.declined > 50, "{:?}", lowering.count);
}

/// Kernels are compiled for the shapes of the graph, so a graph that leaves them to each execution is declined (C3, C10), whatever it holds.
#[test]
fn graphs_with_execute_time_shapes_are_declined() {
    let mut providers = Providers::none();
    providers.add(Box::new(HipCompiler::new(vec![Box::new(Echo)])));
    let target: Target = "gfx942".parse().unwrap();
    let compile = |is_enabled| {
        let mut builder = GraphBuilder::new();
        builder.set_override_shape_enabled(is_enabled);
        let [x, y] = std::array::from_fn(|_| builder.tensor(TensorAttributes::packed(DataType::Float, &[4, 8])));
        builder.node("relu", DataType::Float, ops::Pointwise::unary(PointwiseMode::ReluFwd, x, y));
        compile_graph(&builder.build().unwrap().view(), &Request { site: &Site::of(&target), policy: &Policy::DEFAULT }, &providers)
    };
    assert!(compile(false).is_ok());
    let error = compile(true).unwrap_err();
    let CompileError::NoApplicableEngines { .. } = &error else { panic!("{error}") };
    let text = error.to_string();
    assert!(text.contains("compiles shapes into its kernels") && text.contains("is_override_shape_enabled"), "{text}");
}

/// Nothing is too large to be a graph.
const LIMITS: Limits = Limits { max_elements: u64::MAX, ..Limits::DEFAULT };

/// Numbers at the edges of what is counted in 8, 16, 31, 32 and 63 bits, and small ones.
fn number(rng: &mut Rng, least: i64) -> i64 {
    let bits = [0, 1, 2, 3, 4, 7, 8, 15, 16, 19, 20, 30, 31, 32, 39, 40, 61, 62];
    let near = (1_i64 << rng.pick(&bits)) + rng.below(5) as i64 - 2;
    let small = rng.below(6) as i64;
    if rng.one_in(3) { near.max(least) } else { small.max(least) }
}

/// Mostly small numbers, so that graphs with one or two hostile ones are made too.
fn mostly(rng: &mut Rng, least: i64, small: i64) -> i64 {
    if rng.one_in(6) { number(rng, least) } else { small }
}

fn tensor(rng: &mut Rng, builder: &mut GraphBuilder, dims: &[i64], is_virtual: bool) -> Uid {
    use DataType::{BFloat16, Boolean, Double, Float, Half, Int8, Int32, UInt8};
    let dtype = rng.pick(&[Float, Float, Float, Half, BFloat16, Double, Int8, UInt8, Int32, Boolean]);
    let mut strides = vec![1_i64; dims.len()];
    for i in (0..dims.len().saturating_sub(1)).rev() {
        strides[i] = strides[i + 1].saturating_mul(dims[i + 1]);
    }
    match rng.below(4) {
        0 => strides.iter_mut().for_each(|s| *s = mostly(rng, 0, *s)),
        1 => strides.rotate_left(1),
        _ => {}
    }
    let mut tensor = TensorAttributes::packed(dtype, dims);
    tensor.set_strides(&strides).set_virtual(is_virtual);
    builder.tensor(tensor)
}

/// `(input + pre + post - dilation * (filter - 1) - 1) / stride + 1`, where that is a size.
fn positions(input: i64, filter: i64, padding: i64, stride: i64, dilation: i64) -> Option<i64> {
    let taps = filter.checked_sub(1)?.checked_mul(dilation)?.checked_add(1)?;
    let reach = input.checked_add(padding)?.checked_sub(taps)?;
    (reach >= 0).then_some(reach / stride + 1)
}

/// One operation over tensors with hostile numbers, and sometimes a chain behind it. Nothing where the numbers make no graph.
fn hostile(rng: &mut Rng) -> Option<GraphBuf> {
    let mut builder = GraphBuilder::new();
    let compute = rng.pick(&[DataType::Float, DataType::Float, DataType::Double]);
    let is_chain = rng.one_in(3);
    let (mut result, dims);
    match rng.below(6) {
        kind @ 0..3 => {
            let spatial = 1 + rng.below(3);
            let mut list = |least, small| -> Vec<i64> { (0..spatial).map(|_| mostly(rng, least, small)).collect() };
            let (input, filter, pre, post) = (list(1, 5), list(1, 2), list(0, 1), list(0, 1));
            let (stride, dilation) = (list(1, 1), list(1, 1));
            let (groups, channels, filters, batch) = (mostly(rng, 1, 2), mostly(rng, 1, 2), mostly(rng, 1, 2), mostly(rng, 1, 2));
            let outs: Option<Vec<i64>> =
                (0..spatial).map(|i| positions(input[i], filter[i], pre[i].checked_add(post[i])?, stride[i], dilation[i])).collect();
            let x_dims = [vec![batch, groups.checked_mul(channels)?], input].concat();
            let w_dims = [vec![groups.checked_mul(filters)?, channels], filter].concat();
            let y_dims = [vec![batch, groups.checked_mul(filters)?], outs?].concat();
            let is_virtual = |n| is_chain && n == kind;
            let (y, x, w) = (
                tensor(rng, &mut builder, &y_dims, is_virtual(0)),
                tensor(rng, &mut builder, &x_dims, is_virtual(1)),
                tensor(rng, &mut builder, &w_dims, is_virtual(2)),
            );
            let conv_mode = rng.pick(&[ConvMode::CrossCorrelation, ConvMode::Convolution]);
            let (pre_padding, post_padding, stride, dilation) = (&pre[..], &post[..], &stride[..], &dilation[..]);
            match kind {
                0 => {
                    let op = ops::ConvolutionFwd { x, w, y, pre_padding, post_padding, stride, dilation, conv_mode };
                    builder.node("conv", compute, op);
                    (result, dims) = (y, y_dims);
                }
                1 => {
                    let op = ops::ConvolutionBwd { dy: y, w, dx: x, pre_padding, post_padding, stride, dilation, conv_mode };
                    builder.node("conv", compute, op);
                    (result, dims) = (x, x_dims);
                }
                _ => {
                    let op = ops::ConvolutionWrw { x, dy: y, dw: w, pre_padding, post_padding, stride, dilation, conv_mode };
                    builder.node("conv", compute, op);
                    (result, dims) = (w, w_dims);
                }
            }
        }
        3 => {
            let batch: Vec<i64> = (0..rng.below(3)).map(|_| mostly(rng, 1, 2)).collect();
            let [m, n, k] = [0; 3].map(|_| mostly(rng, 1, 3));
            let mut with = |a: i64, b: i64| -> Vec<i64> {
                let batch = batch.iter().map(|&d| if rng.one_in(4) { 1 } else { d });
                batch.chain([a, b]).collect()
            };
            let (a_dims, b_dims) = (with(m, k), with(k, n));
            let c_dims: Vec<i64> = a_dims.iter().zip(&b_dims).map(|(a, b)| *a.max(b)).take(batch.len()).chain([m, n]).collect();
            let (a, b) = (tensor(rng, &mut builder, &a_dims, false), tensor(rng, &mut builder, &b_dims, false));
            result = tensor(rng, &mut builder, &c_dims, is_chain);
            builder.node("matmul", compute, ops::Matmul { a, b, c: result });
            dims = c_dims;
        }
        4 => {
            let x_dims: Vec<i64> = (0..1 + rng.below(5)).map(|_| mostly(rng, 1, 3)).collect();
            dims = x_dims.iter().map(|&d| if rng.one_in(2) { 1 } else { d }).collect();
            let input = tensor(rng, &mut builder, &x_dims, false);
            result = tensor(rng, &mut builder, &dims, is_chain);
            builder.node(
                "reduce",
                compute,
                ops::Reduction { input, output: result, mode: rng.pick(ReductionMode::ALL), is_deterministic: true },
            );
        }
        _ => {
            dims = (0..1 + rng.below(5)).map(|_| mostly(rng, 1, 3)).collect();
            let x = tensor(rng, &mut builder, &dims, false);
            result = tensor(rng, &mut builder, &dims, is_chain);
            builder.node("first", compute, ops::Pointwise::unary(PointwiseMode::ReluFwd, x, result));
        }
    }
    if is_chain {
        // As many tensors as no kernel reads at once, some of them the same one.
        let links = 1 + rng.below(12);
        let mut side = tensor(rng, &mut builder, &dims, false);
        for link in 0..links {
            if rng.one_in(2) {
                let broadcast: Vec<i64> = dims.iter().map(|&d| if rng.one_in(3) { 1 } else { d }).collect();
                side = tensor(rng, &mut builder, &broadcast, false);
            }
            let next = tensor(rng, &mut builder, &dims, link + 1 < links);
            let other = if rng.one_in(4) { result } else { side };
            builder.node("link", compute, ops::Pointwise::binary(PointwiseMode::Add, result, other, next));
            result = next;
        }
    }
    builder.build_with(&LIMITS).ok()
}

#[test]
fn a_tensor_whose_bytes_cannot_be_counted_is_declined() {
    let mut lowering = Lowering::new();
    // Rows, bits of their stride, and how many graphs are compiled by then. The bits of the last cannot be counted in 64.
    for (rows, bits, compiled) in [(16, 36, 1), (16, 37, 1), (1 << 22, 39, 1)] {
        let mut builder = GraphBuilder::new();
        let mut attributes = TensorAttributes::packed(DataType::Double, &[rows, 32]);
        attributes.set_strides(&[1 << bits, 1]);
        let x = builder.tensor(attributes);
        let y = builder.tensor(TensorAttributes::packed(DataType::Double, &[rows, 32]));
        builder.node("relu", DataType::Double, ops::Pointwise::unary(PointwiseMode::ReluFwd, x, y));
        lowering.lower(&builder.build_with(&LIMITS).unwrap());
        assert_eq!(lowering.count.compiled, compiled, "{rows} rows of 2^{bits}");
    }
}

#[test]
fn numbers_at_the_edges_never_overflow() {
    let mut lowering = Lowering::new();
    let mut rng = Rng::new(4);
    let mut valid = 0;
    for number in 0..graphs(4000) {
        let Some(graph) = hostile(&mut rng) else { continue };
        valid += 1;
        let lowered = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| lowering.lower(&graph)));
        assert!(lowered.is_ok(), "graph {number}: {}", hipplan_serialize::json::export(&graph.view(), &LIMITS).unwrap().compact());
    }
    println!("{valid} graphs, {:?}", lowering.count);
    assert!(lowering.count.compiled > 200 && lowering.count.declined > 100, "{valid} graphs: {:?}", lowering.count);
}
