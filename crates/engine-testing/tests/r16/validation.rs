//! What a by-value tensor may be (R16 §4.8).

use crate::graphs::{ALPHA, EPSILON, State, X, Y, batchnorm, device, scalar, scale, scale_in};
use hipplan::{DataType, GraphBuf, GraphBuilder, GraphError, PointwiseMode, TensorAttributes, Uid, ops};

#[test]
fn r16_validation_accepts_every_state_also_where_a_scalar_is_required() {
    for state in State::ALL {
        assert!(scale_in(state, 1.0).view().find(Uid(ALPHA)).is_some());
        // Epsilon must be a scalar: any of the three will do.
        assert!(batchnorm(state, 1e-5).view().find(Uid(EPSILON)).is_some());
    }
    let ordinary = normalised(device(EPSILON, "epsilon", &[1])).expect_err("no scalar");
    assert!(matches!(ordinary, GraphError::Rule(_)), "{ordinary}");
    assert!(ordinary.to_string().contains("epsilon"), "{ordinary}");
}

fn normalised(epsilon: TensorAttributes) -> Result<GraphBuf, GraphError> {
    let mut g = GraphBuilder::new();
    let x = g.tensor(device(X, "x", &[2, 3, 2]));
    let mut channel = |uid| g.tensor(device(uid, "", &[3]));
    let (mean, variance, scale, bias) = (channel(11), channel(12), channel(13), channel(14));
    let epsilon = g.tensor(epsilon);
    let y = g.tensor(device(Y, "y", &[2, 3, 2]));
    g.node("bn", DataType::Float, ops::BatchnormInferenceVariance { x, mean, variance, scale, bias, y, epsilon });
    g.build()
}

/// `y = x * t`, t as it is.
fn built(t: TensorAttributes) -> Result<GraphBuf, GraphError> {
    let mut g = GraphBuilder::new();
    let x = g.tensor(device(X, "x", &[4]));
    let t = g.tensor(t);
    let y = g.tensor(device(Y, "y", &[4]));
    g.node("", DataType::Float, ops::Pointwise::binary(PointwiseMode::Mul, x, t, y));
    g.build()
}

#[test]
fn r16_validation_refuses_virtual_tensors_with_a_flag_or_a_value() {
    for state in State::ALL {
        let mut t = scalar(ALPHA, "alpha", state, 1.0_f32);
        assert!(built(t.clone()).is_ok(), "{state:?}");
        t.set_virtual(true);
        let error = built(t).expect_err("virtual");
        match state {
            State::Supplied | State::Defaulted => assert!(matches!(error, GraphError::VirtualRuntime { .. }), "{error}"),
            State::Constant => assert!(matches!(error, GraphError::VirtualValue { .. }), "{error}"),
        }
        assert!(error.to_string().contains("alpha"), "{error}");
    }
}

#[test]
fn r16_validation_refuses_scalars_of_several_elements() {
    for state in State::ALL {
        let mut t = scalar(ALPHA, "alpha", state, 1.0_f32);
        t.set_dims(&[4]).set_strides(&[1]);
        assert!(matches!(built(t), Err(GraphError::ScalarElements { .. })), "{state:?}");
    }
    assert!(scale(scalar(ALPHA, "alpha", State::Supplied, 1.0_f64)).view().find(Uid(ALPHA)).is_some(), "of any type");
}
