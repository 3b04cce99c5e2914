//! Every operation that takes a constant scalar is given a runtime one with a sentinel for a value: the result shows it, or the graph is
//! declined. Nobody computes with what stood there before.

use crate::graphs::{State, X, Y, batchnorm, device, scalar};
use crate::support::{Given, Via, checked, compile, float, outputs_with};
use hipplan::reference::Inputs;
use hipplan::{BoundPlan, CompileError, DataType, GraphBuf, GraphBuilder, Limits, OpKind, PointwiseMode, TensorValue, Uid, import, ops};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const SCALAR: i64 = 50;
/// A value that no default here has.
const SENTINEL: f32 = 1.75;
const BEFORE: f32 = 0.5;

/// A mode with the scalar in one of its places and tensors in the others.
fn pointwise(mode: PointwiseMode, place: usize, state: State, value: f32) -> GraphBuf {
    let mut g = GraphBuilder::new();
    let mut place_of = |i: usize| {
        if i == place { g.tensor(scalar(SCALAR, "scalar", state, value)) } else { g.tensor(device(X + i as i64, "", &[8])) }
    };
    let operands: Vec<Uid> = (0..mode.arity()).map(&mut place_of).collect();
    let y = g.tensor(device(Y, "y", &[8]));
    let mut op = ops::Pointwise::unary(mode, operands[0], y);
    (op.in_1, op.in_2) = (operands.get(1).copied(), operands.get(2).copied());
    op.axis = (mode == PointwiseMode::GenIndex).then_some(0);
    g.node("", DataType::Float, op);
    g.build().expect("a graph")
}

fn inputs(graph: &GraphBuf, value: f32) -> Inputs {
    let mut inputs = Inputs::generate(&graph.view(), 11).expect("inputs");
    for scalar in inputs.scalars_mut() {
        scalar.value = TensorValue::Float32(value);
    }
    inputs
}

/// What a plan computes with the sentinel supplied, checked by the reference.
fn supplied(plan: &mut BoundPlan, graph: &GraphBuf, what: &str) -> Vec<Vec<u8>> {
    let (report, bytes) = checked(plan, graph, &inputs(graph, SENTINEL));
    assert!(report.passed(), "{what}: {report}");
    bytes
}

#[test]
fn r16_constant_ops_pointwise_modes_show_the_runtime_value_in_every_place() {
    let plugin = Via::Plugin.providers();
    let (mut shown, mut declined) = (0, 0);
    for &mode in PointwiseMode::ALL.iter().filter(|m| **m != PointwiseMode::Unset) {
        for place in 0..mode.arity() {
            let what = format!("{mode:?} {place}");
            let runtime = pointwise(mode, place, State::Supplied, 0.0);
            let ours = supplied(&mut Via::Cpu.bound(&runtime), &runtime, &what);
            // The same as with a constant of that value.
            let constant = pointwise(mode, place, State::Constant, SENTINEL);
            let (report, baked) = checked(&mut Via::Cpu.bound(&constant), &constant, &inputs(&constant, 0.0));
            assert!(report.passed() && baked == ours, "{what}: {report}");
            match compile(&runtime, &plugin) {
                Ok(_) => {
                    // The two round differently; the reference is what both are held to.
                    supplied(&mut Via::Plugin.bound(&runtime), &runtime, &what);
                    shown += 1;
                }
                Err(CompileError::NoApplicableEngines { .. }) => declined += 1,
                Err(error) => panic!("{what}: {error}"),
            }
        }
    }
    // The index generator and the backward modes of elu, gelu (two), softplus and swish are not the plugin's.
    assert_eq!((shown > 50, declined), (true, 11), "{shown} shown");
}

#[test]
fn r16_constant_ops_defaults_give_way_to_an_override() {
    for mode in [PointwiseMode::Mul, PointwiseMode::Sub, PointwiseMode::Max] {
        let graph = pointwise(mode, 1, State::Defaulted, BEFORE);
        let constant = pointwise(mode, 1, State::Constant, BEFORE);
        for via in Via::BOTH {
            let mut plan = via.bound(&graph);
            let (report, default) = checked(&mut plan, &graph, &inputs(&graph, BEFORE));
            assert!(report.passed(), "{via:?} {mode:?}: {report}");
            let (_, baked) = checked(&mut via.bound(&constant), &constant, &inputs(&constant, 0.0));
            assert_eq!(default, baked, "{via:?} {mode:?}");
            let sentinel = pointwise(mode, 1, State::Constant, SENTINEL);
            let (_, shown) = checked(&mut via.bound(&sentinel), &sentinel, &inputs(&sentinel, 0.0));
            assert_ne!(shown, default, "{via:?} {mode:?}");
            let value = float(SENTINEL);
            let mut with = |given| outputs_with(&mut plan, &graph, &inputs(&graph, BEFORE), &[given]);
            assert_eq!(with(Given::Override(SCALAR, &value)), shown, "{via:?} {mode:?}");
            // An entry is inert to us; the plugin sees it, and its contract is that it overrides.
            let entry = if via == Via::Cpu { &default } else { &shown };
            assert_eq!(with(Given::Raw(SCALAR, &value)), *entry, "{via:?} {mode:?}");
        }
    }
}

#[test]
fn r16_constant_ops_epsilon_of_batch_normalisation_shows_the_runtime_value() {
    let runtime = batchnorm(State::Supplied, 0.0);
    let constant = batchnorm(State::Constant, SENTINEL);
    for via in Via::BOTH {
        let ours = supplied(&mut via.bound(&runtime), &runtime, "batchnorm");
        let (report, baked) = checked(&mut via.bound(&constant), &constant, &inputs(&constant, 0.0));
        assert!(report.passed(), "{via:?}: {report}");
        assert_eq!(ours, baked, "{via:?}");
        let (_, other) = checked(&mut via.bound(&runtime), &runtime, &inputs(&runtime, BEFORE));
        assert_ne!(ours, other, "{via:?}: epsilon matters");
    }
}

/// A graph of the corpus with a runtime scalar of no value for this operand of its node.
fn with_runtime_scalar(text: &str, operand: &str) -> GraphBuf {
    let mut graph: Value = serde_json::from_str(text).expect("JSON");
    let inputs = graph["nodes"][0]["inputs"].as_object_mut().expect("inputs");
    inputs.insert(format!("{operand}_tensor_uid"), json!(SCALAR));
    let tensor = json!({"uid": SCALAR, "name": "scalar", "dims": [1], "strides": [1], "data_type": "float", "virtual": false,
        "is_runtime_pass_by_value": true});
    let tensors = graph["tensors"].as_array_mut().expect("tensors");
    tensors.push(tensor);
    // What no node reads any more would be an orphan.
    let used = graph["nodes"].to_string();
    let tensors = graph["tensors"].as_array_mut().expect("tensors");
    tensors.retain(|t| t.get("value").is_none() || used.contains(&format!(":{}", t["uid"])));
    import::import(graph.to_string().as_bytes(), &Limits::DEFAULT).unwrap_or_else(|e| panic!("{operand}: {e}")).graph
}

/// Operation and operand of every rule that says "a host scalar", read from the table of rules as it stands in the sources.
fn operands_that_are_host_scalars() -> BTreeSet<(String, String)> {
    let table = concat!(env!("CARGO_MANIFEST_DIR"), "/../serialize/src/graph/rules/table.rs");
    let table = std::fs::read_to_string(table).unwrap_or_else(|e| panic!("{table}: {e}"));
    let word = |text: &str| text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default().to_owned();
    // Operands by operation, and by the macro that several operations use.
    let mut operands: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut of = String::new();
    for line in table.lines() {
        if let Some(name) = line.strip_prefix("macro_rules! ") {
            of = word(name);
        } else if !line.starts_with(' ')
            && let Some((by, rest)) = line.split_once("! { ")
            && let Some((_, operation)) = rest.split_once(": ")
        {
            of = word(operation);
            let shared = operands.get(by).cloned().unwrap_or_default();
            operands.entry(of.clone()).or_default().extend(shared);
        } else if let Some((_, operand)) = line.split_once("=> Scalar(") {
            operands.entry(of.clone()).or_default().insert(word(operand));
        }
    }
    let names: BTreeSet<String> = OpKind::ALL.iter().map(|kind| format!("{kind:?}")).collect();
    let of_operations = operands.into_iter().filter(|(name, _)| names.contains(name));
    of_operations.flat_map(|(name, operands)| operands.into_iter().map(move |operand| (name.clone(), operand))).collect()
}

#[test]
fn r16_constant_ops_that_no_provider_here_executes_are_declined() {
    macro_rules! corpus {
        ($file:literal) => {
            include_str!(concat!("../../../../corpus/graphs/", $file))
        };
    }
    let case = |kind: OpKind, operand: &'static str, text: &str| (kind, operand, with_runtime_scalar(text, operand));
    let cases = [
        case(OpKind::Batchnorm, "epsilon", corpus!("bn_training_bf16_ncl.json")),
        case(OpKind::Batchnorm, "momentum", corpus!("bn_training_bf16_ncl.json")),
        case(OpKind::Layernorm, "epsilon", corpus!("sample_layernorm.json")),
        case(OpKind::RmsNorm, "epsilon", corpus!("sample_rmsnorm.json")),
        (OpKind::LayernormBackward, "epsilon", layernorm_backward()),
        case(OpKind::Sdpa, "scale", corpus!("sample_sdpa.json")),
        case(OpKind::SdpaBackward, "scale", corpus!("sample_sdpa_backward.json")),
    ];
    for (kind, operand, graph) in &cases {
        let view = graph.view();
        let node = view.nodes().next().expect("a node");
        assert_eq!(view.kind(node), *kind);
        let scalar = view.operands(node).iter().find(|o| view.slot_name(node, o) == *operand).expect("the operand");
        assert!(view.tensor(scalar.tensor).is_runtime && view.tensor(scalar.tensor).uid == Uid(SCALAR), "{kind:?} {operand}");
        for via in Via::BOTH {
            let error = compile(graph, &via.providers()).expect_err("declined");
            assert!(matches!(error, CompileError::NoApplicableEngines { .. }), "{kind:?} {via:?}: {error}");
        }
    }
    // The one that is executed, above. An operand that is in neither list would be missed.
    let executed = [(OpKind::BatchnormInferenceVariance, "epsilon")];
    let tested = cases.iter().map(|(kind, operand, _)| (*kind, *operand)).chain(executed);
    let tested: BTreeSet<_> = tested.map(|(kind, operand)| (format!("{kind:?}"), operand.to_owned())).collect();
    assert_eq!(tested, operands_that_are_host_scalars());
}

fn layernorm_backward() -> GraphBuf {
    let mut g = GraphBuilder::new();
    let mut tensor = |uid, dims: &[i64]| g.tensor(device(uid, "", dims));
    let (dy, x, scale) = (tensor(1, &[4, 8]), tensor(2, &[4, 8]), tensor(3, &[1, 8]));
    let (dx, dscale, dbias) = (tensor(4, &[4, 8]), tensor(5, &[1, 8]), tensor(6, &[1, 8]));
    let epsilon = Some(g.tensor(scalar(SCALAR, "epsilon", State::Supplied, 0.0_f32)));
    let (mean, inv_variance, normalized_dim_count) = (None, None, 1);
    let op = ops::LayernormBackward { dy, x, scale, mean, inv_variance, epsilon, dx, dscale, dbias, normalized_dim_count };
    g.node("", DataType::Float, op);
    g.build().expect("a graph")
}
