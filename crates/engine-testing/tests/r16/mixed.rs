//! Several scalars in one graph, each in its own state.

use crate::graphs::{ALPHA, BETA, GAMMA, State, scaled_convolution, three_scalars};
use crate::support::{Via, checked, integers};
use hipplan::reference::Inputs;
use hipplan::{GraphBuf, TensorValue, Uid};

/// Runs through both providers, with values that are exact; the results are the reference's, and the same bits.
fn agree(graph: &GraphBuf, inputs: &Inputs) {
    let [(cpu, ours), (plugin, theirs)] = Via::BOTH.map(|via| checked(&mut via.bound(graph), graph, inputs));
    assert!(cpu.passed(), "{cpu}");
    assert!(plugin.passed(), "{plugin}");
    assert_eq!(ours, theirs);
}

fn supply(inputs: &mut Inputs, uid: i64, value: TensorValue) {
    for scalar in inputs.scalars_mut().iter_mut().filter(|s| s.uid == Uid(uid) && !s.is_default) {
        scalar.value = value;
    }
}

#[test]
fn r16_mixed_scalars_of_a_chain_are_each_delivered_or_baked() {
    for alpha in State::ALL {
        for beta in State::ALL {
            for gamma in State::ALL {
                let graph = three_scalars(alpha, beta, gamma);
                let mut inputs = integers(&graph);
                // Nothing like the values in the graph, which are 2, 10 and -3.
                supply(&mut inputs, ALPHA, TensorValue::Float32(-5.0));
                supply(&mut inputs, BETA, TensorValue::Float64(100.0));
                supply(&mut inputs, GAMMA, TensorValue::Int32(7));
                agree(&graph, &inputs);
            }
        }
    }
}

#[test]
fn r16_mixed_alpha_and_beta_of_a_convolution_in_every_pair_of_states() {
    for alpha in State::ALL {
        for beta in State::ALL {
            let graph = scaled_convolution(alpha, beta);
            let mut inputs = integers(&graph);
            supply(&mut inputs, ALPHA, TensorValue::Float32(4.0));
            supply(&mut inputs, BETA, TensorValue::Float32(0.0));
            agree(&graph, &inputs);
        }
    }
}

#[test]
fn r16_mixed_values_change_one_at_a_time_without_a_new_plan() {
    let graph = three_scalars(State::Constant, State::Supplied, State::Supplied);
    for via in Via::BOTH {
        let mut plan = via.bound(&graph);
        for (beta, gamma) in [(1.0, 1), (1.0, -2), (50.0, -2), (0.0, 0)] {
            let mut inputs = integers(&graph);
            supply(&mut inputs, BETA, TensorValue::Float64(beta));
            supply(&mut inputs, GAMMA, TensorValue::Int32(gamma));
            let (report, _) = checked(&mut plan, &graph, &inputs);
            assert!(report.passed(), "{via:?}: {report}");
        }
    }
}
