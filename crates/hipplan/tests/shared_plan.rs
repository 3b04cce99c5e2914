//! Graphs that differ only in how their author named things share one plan, and each caller's uids lead to the right tensors.

mod common;

use hipplan::reference::Inputs;
use hipplan::{
    BoundPlan, DataType, GraphBuf, GraphBuilder, PointwiseMode, Stream, TensorAttributes, Uid, VariantPack, Workspace, aligned, ops,
};
use proptest::prelude::*;
use std::collections::HashMap;

/// A graph of elementwise nodes over few tensors of one shape: symmetric, reused and duplicate operands are the rule.
#[derive(Clone, Debug)]
struct Recipe {
    inputs: usize,
    /// Mode and operands of each node; an operand is an input or the result of an earlier node.
    nodes: Vec<(PointwiseMode, usize, usize)>,
}

fn recipe() -> impl Strategy<Value = Recipe> {
    let mode = prop_oneof![Just(PointwiseMode::Add), Just(PointwiseMode::Mul), Just(PointwiseMode::Sub), Just(PointwiseMode::Max)];
    (1..4_usize, prop::collection::vec((mode, any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..7)).prop_map(
        |(inputs, picks)| {
            // Each node reads the one before it, so that the graph hangs together.
            let nodes = picks.into_iter().enumerate().map(|(i, (mode, a, b))| {
                let known = inputs + i;
                let first = if i == 0 { a.index(known) } else { known - 1 };
                (mode, first, b.index(known))
            });
            Recipe { inputs, nodes: nodes.collect() }
        },
    )
}

/// How an author names and orders things.
#[derive(Clone, Debug)]
struct Style {
    uids: Vec<i64>,
    order: Vec<usize>,
    name: String,
    id: Option<[u8; 16]>,
}

fn style(tensors: usize) -> impl Strategy<Value = Style> {
    let uids = prop::collection::hash_set(any::<i64>(), tensors).prop_map(|set| set.into_iter().collect::<Vec<_>>()).prop_shuffle();
    let order = Just((0..tensors).collect::<Vec<_>>()).prop_shuffle();
    (uids, order, "[a-z]{0,8}", prop::option::of(any::<[u8; 16]>())).prop_map(|(uids, order, name, id)| Style { uids, order, name, id })
}

const DIMS: [i64; 2] = [3, 5];

fn build(recipe: &Recipe, style: &Style) -> GraphBuf {
    let mut builder = GraphBuilder::new();
    builder.set_name(style.name.clone()).set_id(style.id);
    let used = |t: usize| recipe.nodes.iter().enumerate().any(|(i, &(_, a, b))| a == t || b == t || recipe.inputs + i == t);
    for &t in style.order.iter().filter(|&&t| used(t)) {
        let mut tensor = TensorAttributes::packed(DataType::Float, &DIMS);
        tensor.set_uid(Uid(style.uids[t])).set_name(format!("{}{t}", style.name));
        builder.tensor(tensor);
    }
    let uid = |t: usize| Uid(style.uids[t]);
    for (i, &(mode, a, b)) in recipe.nodes.iter().enumerate() {
        builder.node(&style.name, DataType::Float, ops::Pointwise::binary(mode, uid(a), uid(b), uid(recipe.inputs + i)));
    }
    builder.build().expect("a valid graph")
}

/// Executes with the same numbers in the same tensors, whatever their uids; gives the bytes of every result by position.
fn run(plan: &mut BoundPlan, recipe: &Recipe, style: &Style, numbers: &HashMap<usize, Vec<f32>>) -> Vec<Vec<f32>> {
    let mut outputs = vec![vec![f32::NAN; 15]; recipe.nodes.len()];
    let mut workspace = Workspace::new(plan.workspace_size()).expect("memory");
    let mut pack = VariantPack::new();
    for (t, data) in numbers {
        pack.input(style.uids[*t], data);
    }
    for (i, output) in outputs.iter_mut().enumerate() {
        pack.output(style.uids[recipe.inputs + i], output);
    }
    plan.execute(&pack, workspace.as_mut_slice(), Stream::Default).expect("executed");
    drop(pack);
    outputs
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn one_plan_serves_every_author(
        (recipe, a, b) in recipe().prop_flat_map(|r| {
            let tensors = r.inputs + r.nodes.len();
            (Just(r), style(tensors), style(tensors))
        }),
        seed: u64,
    ) {
        let (first, second) = (build(&recipe, &a), build(&recipe, &b));
        let (first_view, second_view) = (first.view(), second.view());
        prop_assert_eq!(first_view.canonical().map(|c| c.key), second_view.canonical().map(|c| c.key));

        let (_folder, runtime) = common::runtime();
        runtime.compile(&first_view).expect("compiled");
        // The second author compiles nothing.
        prop_assert!(matches!(runtime.compile(&second_view), Ok(hipplan::Ensured::Present(_))));
        let inputs = Inputs::generate(&first_view, seed).expect("inputs");
        let numbers: HashMap<usize, Vec<f32>> = inputs
            .tensors()
            .iter()
            .map(|t| (a.uids.iter().position(|u| *u == t.uid.0).expect("an input"), bytemuck_f32(t.tensor.bytes())))
            .collect();
        let mut one = runtime.restore(&first_view).expect("restored");
        let mut other = runtime.restore(&second_view).expect("restored");
        prop_assert_eq!(one.key(), other.key());
        prop_assert_eq!(run(&mut one, &recipe, &a, &numbers), run(&mut other, &recipe, &b, &numbers));
    }
}

fn bytemuck_f32(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|c| f32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect()
}

/// Every flip of a stored plan is refused when it is opened or bound: damage never reaches an execution.
#[test]
fn a_damaged_plan_is_never_bound() {
    let (_folder, runtime) = common::runtime();
    let recipe = Recipe { inputs: 2, nodes: vec![(PointwiseMode::Add, 0, 1)] };
    let style = Style { uids: vec![7, 8, 9], order: vec![0, 1, 2], name: String::new(), id: None };
    let graph = build(&recipe, &style);
    let view = graph.view();
    runtime.compile(&view).expect("compiled");
    let plan = runtime.find(&view.canonical().expect("a key").key).expect("found");
    let bind = |bytes: &[u8]| {
        hipplan::Plan::open(bytes).and_then(|p| p.bind_by_graph(&hipplan::Device::Cpu, &hipplan::Loaders::default(), &view)).map(|_| ())
    };
    let good = aligned::aligned_copy(plan.bytes());
    bind(&good).expect("the plan itself is good");
    let mut bad = good.clone();
    for at in 0..good.len() {
        for flip in [0x01, 0x80, 0xff] {
            bad[at] ^= flip;
            assert!(bind(&bad).is_err(), "byte {at} ^ {flip:#x}");
            bad[at] ^= flip;
        }
        assert!(bind(&aligned::aligned_copy(&good[..at])).is_err(), "truncated to {at}");
    }
    bind(&bad).expect("all flips were undone");
}
