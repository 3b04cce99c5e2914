//! The harness puts host values under the uids of runtime scalars, and its reference reads them.

use crate::graphs::{ALPHA, EPSILON, State, X, Y, batchnorm, scale_in};
use crate::support::{Via, checked};
use hipplan::reference::{Inputs, Values, check_with, evaluate};
use hipplan::{GraphBuf, TensorValue, Uid};

fn epsilon_of(inputs: &mut Inputs, value: f32) {
    for scalar in inputs.scalars_mut().iter_mut().filter(|s| s.uid == Uid(EPSILON)) {
        scalar.value = TensorValue::Float32(value);
    }
}

/// Means of 0, variances of 3.75, scales of 1, biases of 0: with an epsilon of 0.25, y is x / 2 exactly.
fn plain(graph: &GraphBuf) -> Inputs {
    let mut inputs = Inputs::generate(&graph.view(), 1).expect("inputs");
    for input in inputs.tensors_mut() {
        let value = |i: usize| match input.uid.0 {
            X => i as f64 - 9.0,
            12 => 3.75,
            13 => 1.0,
            _ => 0.0,
        };
        let values: Vec<f64> = (0..input.tensor.elements()).map(value).collect();
        input.tensor.fill(&values).expect("as many values as elements");
    }
    inputs
}

#[test]
fn r16_harness_injects_host_values_for_runtime_scalars_only() {
    for state in State::ALL {
        let graph = scale_in(state, 0.5);
        let inputs = Inputs::generate(&graph.view(), 1).expect("inputs");
        let scalars: Vec<_> = inputs.scalars().iter().map(|s| (s.uid, s.is_default)).collect();
        let expected = match state {
            State::Supplied => vec![(Uid(ALPHA), false)],
            State::Defaulted => vec![(Uid(ALPHA), true)],
            State::Constant => vec![],
        };
        assert_eq!(scalars, expected, "{state:?}");
        assert!(inputs.tensor(Uid(ALPHA)).is_none(), "a scalar is no device buffer");
        assert_eq!(inputs.tensors().len(), 1, "only x is");
    }
}

#[test]
fn r16_harness_reference_reads_the_scalar_from_where_the_state_says() {
    // The value in the graph, and the one that is passed, if any: of a default, that is an override.
    for (state, in_graph, passed) in [
        (State::Supplied, 99.0, Some(0.25)),
        (State::Defaulted, 0.25, None),
        (State::Defaulted, 99.0, Some(0.25)),
        (State::Constant, 0.25, None),
    ] {
        let graph = batchnorm(state, in_graph);
        let view = graph.view();
        let mut inputs = plain(&graph);
        if let Some(epsilon) = passed {
            epsilon_of(&mut inputs, epsilon);
        }
        let mut values: Values = inputs.to_values(&view).expect("values");
        evaluate(&view, &mut values).expect("evaluated");
        let y = values.exact(view.find(Uid(Y)).expect("there")).expect("computed");
        let halves: Vec<f64> = (0..y.len()).map(|i| (i as f64 - 9.0) / 2.0).collect();
        assert_eq!(y, halves, "{state:?} {in_graph} {passed:?}");
    }
}

#[test]
fn r16_harness_batchnorm_epsilon_is_right_and_the_same_through_cpu_and_plugin() {
    for state in State::ALL {
        let graph = batchnorm(state, 0.25);
        let mut inputs = plain(&graph);
        if state == State::Supplied {
            epsilon_of(&mut inputs, 0.25);
        }
        let [(cpu, ours), (plugin, theirs)] = Via::BOTH.map(|via| checked(&mut via.bound(&graph), &graph, &inputs));
        assert!(cpu.passed() && plugin.passed(), "{state:?}: {cpu}\n{plugin}");
        assert_eq!(ours, theirs, "{state:?}");
        let halves: Vec<u8> = (0..24_u8).flat_map(|i| ((f32::from(i) - 9.0) / 2.0).to_le_bytes()).collect();
        assert_eq!(ours, [halves], "{state:?}");
    }
}

#[test]
fn r16_harness_notices_a_value_that_was_not_delivered() {
    // The check can fail: an execution with another epsilon than the reference is told of.
    let graph = batchnorm(State::Supplied, 0.0);
    for via in Via::BOTH {
        let mut inputs = plain(&graph);
        epsilon_of(&mut inputs, 0.25);
        let mut plan = via.bound(&graph);
        let report = check_with(&graph.view(), &inputs, &mut |inputs, outputs| {
            let mut other = inputs.clone();
            epsilon_of(&mut other, 0.26);
            crate::support::execute(&mut plan, &other, outputs)
        });
        assert!(!report.unwrap_or_else(|e| panic!("{e}")).passed(), "{via:?}");
    }
}
