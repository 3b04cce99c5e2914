//! Evaluation of whole graphs.

use super::{W, X, Y, packed};
use hipplan_exec::reference::{HostTensor, Inputs, ReferenceError, Values, evaluate};
use hipplan_serialize::ops::{BatchnormInference, ConvolutionBwd, ConvolutionFwd, ConvolutionWrw, Pointwise, ResampleFwd};
use hipplan_serialize::{
    ConvMode, DataType, GraphBuf, GraphBuilder, Op, PaddingMode, PointwiseMode, ResampleMode, ScalarType, TensorValue, Uid,
};

pub(crate) fn values_of(graph: &GraphBuf, inputs: &[(Uid, DataType, &[i64], &[f64])]) -> Result<Values, ReferenceError> {
    let view = graph.view();
    let mut values = Values::new(&view);
    for &(uid, dtype, dims, list) in inputs {
        values.insert(view.find(uid).unwrap(), HostTensor::from_values(dtype, dims, list)?);
    }
    evaluate(&view, &mut values)?;
    Ok(values)
}

pub(crate) fn build<'a>(dtype: DataType, tensors: &[(Uid, &[i64])], op: impl Into<Op<'a>>) -> GraphBuf {
    let mut g = GraphBuilder::new();
    g.set_types(DataType::Float, dtype, dtype);
    for (uid, dims) in tensors {
        g.tensor(packed(*uid, dtype, dims));
    }
    g.node("the node", DataType::Unset, op);
    g.build().unwrap()
}

#[test]
fn operations_are_wired_to_their_slots() {
    let f = DataType::Float;
    let list: [i64; 1] = [1];
    let zero: [i64; 1] = [0];
    let dims: [i64; 3] = [1, 1, 4];
    let mode = ConvMode::CrossCorrelation;
    let graph = build(
        f,
        &[(X, &dims), (W, &[1, 1, 3]), (Y, &dims)],
        ConvolutionBwd { dy: X, w: W, dx: Y, pre_padding: &list, post_padding: &list, stride: &list, dilation: &list, conv_mode: mode },
    );
    let v = values_of(&graph, &[(X, f, &dims, &[1., 2., 3., 4.]), (W, f, &[1, 1, 3], &[1., 10., 100.])]).unwrap();
    assert_eq!(v.get(graph.view().find(Y).unwrap()).unwrap().values(), [12., 123., 234., 340.]);
    let graph = build(
        f,
        &[(X, &dims), (W, &dims), (Y, &[1, 1, 3])],
        ConvolutionWrw { x: X, dy: W, dw: Y, pre_padding: &list, post_padding: &list, stride: &list, dilation: &list, conv_mode: mode },
    );
    let v = values_of(&graph, &[(X, f, &dims, &[1., 2., 3., 4.]), (W, f, &dims, &[1., 10., 100., 1000.])]).unwrap();
    assert_eq!(v.get(graph.view().find(Y).unwrap()).unwrap().values(), [3210., 4321., 432.]);
    let graph = build(
        f,
        &[(X, &dims), (W, &[1, 1, 3]), (Y, &[1, 1, 2])],
        ConvolutionFwd {
            x: X,
            w: W,
            y: Y,
            pre_padding: &zero,
            post_padding: &zero,
            stride: &list,
            dilation: &list,
            conv_mode: ConvMode::Convolution,
        },
    );
    let v = values_of(&graph, &[(X, f, &dims, &[1., 2., 3., 4.]), (W, f, &[1, 1, 3], &[1., 10., 100.])]).unwrap();
    assert_eq!(v.get(graph.view().find(Y).unwrap()).unwrap().values(), [123., 234.]);
    let p: [Uid; 4] = [Uid(11), Uid(12), Uid(13), Uid(14)];
    let [mean, inv_variance, scale, bias] = p;
    let op = BatchnormInference { x: X, mean, inv_variance, scale, bias, y: Y };
    let graph = build(f, &[(X, &[1, 2, 1]), (p[0], &[2]), (p[1], &[1, 2, 1]), (p[2], &[2]), (p[3], &[2]), (Y, &[1, 2, 1])], op);
    let inputs: [(Uid, DataType, &[i64], &[f64]); 5] = [
        (X, f, &[1, 2, 1], &[3., 5.]),
        (mean, f, &[2], &[1., 1.]),
        (inv_variance, f, &[1, 2, 1], &[0.5, 2.]),
        (scale, f, &[2], &[4., 1.]),
        (bias, f, &[2], &[10., 0.]),
    ];
    let v = values_of(&graph, &inputs).unwrap();
    assert_eq!(v.get(graph.view().find(Y).unwrap()).unwrap().values(), [14., 8.]);
}

#[test]
fn by_value_tensors_have_their_value_or_their_override() {
    for (ty, overridden, expected) in [
        (ScalarType::CompileTimeConst, false, 6.0),
        (ScalarType::CompileTimeConst, true, 6.0),
        (ScalarType::RuntimeParam, false, 6.0),
        (ScalarType::RuntimeParam, true, 10.0),
    ] {
        let mut g = GraphBuilder::new();
        g.set_types(DataType::Float, DataType::Float, DataType::Float);
        g.tensor(packed(X, DataType::Float, &[1]));
        let scalar = g.scalar(3.0_f32, ty);
        g.tensor(packed(Y, DataType::Float, &[1]));
        g.node("", DataType::Unset, Pointwise { in_1: Some(scalar), ..Pointwise::unary(PointwiseMode::Mul, X, Y) });
        let graph = g.build().unwrap();
        let view = graph.view();
        let mut values = Values::new(&view);
        values.insert(view.find(X).unwrap(), HostTensor::from_values(DataType::Float, &[1], &[2.0]).unwrap());
        if overridden {
            values.insert_scalar(&view, view.find(scalar).unwrap(), TensorValue::Float32(5.0)).unwrap();
        }
        evaluate(&view, &mut values).unwrap();
        assert_eq!(values.get(view.find(Y).unwrap()).unwrap().values(), [expected]);
    }
}

#[test]
fn virtual_tensors_are_rounded_to_their_type() {
    let mut g = GraphBuilder::new();
    g.set_types(DataType::Float, DataType::Half, DataType::Float);
    g.tensor(packed(X, DataType::Float, &[1]));
    let mut between = packed(W, DataType::Half, &[1]);
    g.tensor(between.set_virtual(true).clone());
    g.tensor(packed(Y, DataType::Float, &[1]));
    g.node("", DataType::Unset, Pointwise::unary(PointwiseMode::Identity, X, W));
    g.node("", DataType::Unset, Pointwise::unary(PointwiseMode::Neg, W, Y));
    let graph = g.build().unwrap();
    let v = values_of(&graph, &[(X, DataType::Float, &[1], &[2049.0])]).unwrap();
    let y = graph.view().find(Y).unwrap();
    assert_eq!(v.get(y).unwrap().values(), [-2048.0]);
    // An implementation that does not round in between is right, too, and so is one that rounds up.
    assert_eq!(v.bound(y).unwrap(), [1.0]);
}

#[test]
fn what_cannot_be_evaluated_says_so() {
    let one: [i64; 1] = [1];
    let op = ResampleFwd {
        x: X,
        y: Y,
        index: None,
        pre_padding: &[0],
        post_padding: &[0],
        stride: &one,
        window: &one,
        resample_mode: ResampleMode::MaxPool,
        padding_mode: PaddingMode::NegInf,
        generate_index: None,
    };
    let graph = build(DataType::Float, &[(X, &[1, 1, 4]), (Y, &[1, 1, 4])], op);
    let error = values_of(&graph, &[(X, DataType::Float, &[1, 1, 4], &[1.; 4])]).unwrap_err();
    assert_eq!(error.to_string(), "node 0 \"the node\" (resample_fwd): the reference has no implementation of this operation");
    let graph = build(DataType::Float, &[(X, &[4]), (Y, &[4])], Pointwise::unary(PointwiseMode::Abs, X, Y));
    assert!(matches!(values_of(&graph, &[]), Err(ReferenceError::Missing { .. })));
    assert!(matches!(values_of(&graph, &[(X, DataType::Half, &[4], &[1.; 4])]), Err(ReferenceError::Mismatch { .. })));
    let graph = build(DataType::Fp4E2M1, &[(X, &[4]), (Y, &[4])], Pointwise::unary(PointwiseMode::Abs, X, Y));
    let error = Inputs::generate(&graph.view(), 0).unwrap_err();
    assert!(error.to_string().contains("\"t10\"") && error.to_string().contains("fp4_e2m1"), "{error}");
}
