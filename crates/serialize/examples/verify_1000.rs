//! What checking a graph costs beside the bare FlatBuffers verifier: `cargo run --release -p hipplan-serialize --example verify_1000`.
//!
//! One graph of 1,000 nodes, a chain of convolution, batch normalisation, bias and relu. Each round times the same buffer with
//! the verifier that flatc generates (bounds only), with [`VerifiedGraph::verify`] (bounds and meaning) and with the canonical key
//! on top; printed are the medians over many rounds and their ratios.

use hipplan_serialize::ops::{BatchnormInference, ConvolutionFwd, Pointwise};
use hipplan_serialize::wire::generated::Graph;
use hipplan_serialize::{ConvMode, DataType, GraphBuf, GraphBuilder, Limits, PointwiseMode, TensorAttributes, Uid, VerifiedGraph};
use std::hint::black_box;
use std::time::{Duration, Instant};

const NODES: usize = 1000;
const ROUNDS: usize = 400;
/// Verify and key together, in units of the bare verifier.
const BUDGET: f64 = 2.5;

/// The chain; every fourth node is a convolution.
fn graph() -> GraphBuf {
    let mut graph = GraphBuilder::new();
    graph.set_name("chain").set_types(DataType::Float, DataType::Float, DataType::Half);
    let image = || TensorAttributes::packed(DataType::Unset, &[8, 64, 28, 28]);
    let channels = || TensorAttributes::packed(DataType::Float, &[1, 64, 1, 1]);
    let named = |graph: &mut GraphBuilder, mut t: TensorAttributes, name: String| {
        t.set_name(name);
        graph.tensor(t)
    };
    let mut x = named(&mut graph, image(), "input".into());
    for i in 0..NODES {
        let mut y = image();
        y.set_virtual(i + 1 < NODES);
        let y = named(&mut graph, y, format!("y{i}"));
        let name = format!("node_{i}");
        let pointwise = |mode, in_1: Option<Uid>| Pointwise {
            mode,
            relu_lower_clip: in_1.is_none().then_some(0.0),
            relu_upper_clip: None,
            relu_lower_clip_slope: None,
            axis: None,
            in_0: x,
            in_1,
            in_2: None,
            out_0: y,
            swish_beta: None,
            elu_alpha: None,
            softplus_beta: None,
        };
        match i % 4 {
            0 => {
                let w = named(&mut graph, TensorAttributes::packed(DataType::Half, &[64, 64, 3, 3]), format!("w{i}"));
                let (pre_padding, post_padding, stride, dilation) = (&[1, 1], &[1, 1], &[1, 1], &[1, 1]);
                let conv_mode = ConvMode::CrossCorrelation;
                let op = ConvolutionFwd { x, w, y, pre_padding, post_padding, stride, dilation, conv_mode };
                graph.node(&name, DataType::Float, op);
            }
            1 => {
                let [mean, inv_variance, scale, bias] =
                    ["mean", "inv_variance", "scale", "bias"].map(|n| named(&mut graph, channels(), format!("{n}{i}")));
                graph.node(&name, DataType::Float, BatchnormInference { x, mean, inv_variance, scale, bias, y });
            }
            2 => {
                let bias = named(&mut graph, channels(), format!("bias{i}"));
                graph.node(&name, DataType::Unset, pointwise(PointwiseMode::Add, Some(bias)));
            }
            _ => {
                graph.node(&name, DataType::Unset, pointwise(PointwiseMode::ReluFwd, None));
            }
        }
        x = y;
    }
    graph.build().expect("a valid graph")
}

fn timed(run: impl FnOnce()) -> Duration {
    let start = Instant::now();
    run();
    start.elapsed()
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64()
}

fn main() {
    let graph = graph();
    let buffer = graph.buffer();
    let bare = || {
        black_box(flatbuffers::root::<Graph<'_>>(black_box(buffer))).expect("well-formed");
    };
    let verify = || {
        black_box(VerifiedGraph::verify(black_box(buffer), &Limits::DEFAULT)).expect("valid");
    };
    let key = || {
        let graph = VerifiedGraph::verify(black_box(buffer), &Limits::DEFAULT).expect("valid");
        black_box(graph.canonical()).expect("known fields only");
    };
    // The three take turns, so that a slow moment of the machine falls on all of them.
    let mut times: [Vec<Duration>; 3] = Default::default();
    for _ in 0..ROUNDS {
        times[0].push(timed(bare));
        times[1].push(timed(verify));
        times[2].push(timed(key));
    }
    let [bare, verify, key] = times.map(median);
    println!("graph of {NODES} nodes, {} bytes; medians of {ROUNDS} rounds", buffer.len());
    for (name, time) in [("bare FlatBuffers verifier", bare), ("VerifiedGraph::verify", verify), ("verify + canonical key", key)] {
        println!("{name:<28} {:>9.1} us   {:.2}x", time * 1e6, time / bare);
    }
    let within = if key <= BUDGET * bare { "within" } else { "OVER" };
    println!("budget for verify + key      {BUDGET:>22.2}x   {within}");
}
