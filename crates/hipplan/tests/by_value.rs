//! The by-value table (R16 §4.2, §4.6, §4.9), end to end: constant, runtime, runtime with default, override, missing.

mod common;

use hipplan::{
    BoundPlan, DataType, Ensured, ExecError, GraphBuf, GraphBuilder, InvalidValue, PointwiseMode, ScalarType, Stream, TensorAttributes,
    Uid, VariantPack, ops,
};

const X: i64 = 10;
const SCALAR: i64 = 20;
const Y: i64 = 30;

/// `y = x * scalar`, the scalar made by `make`.
fn graph(make: impl FnOnce(&mut TensorAttributes)) -> GraphBuf {
    let mut builder = GraphBuilder::new();
    let device = |uid, name: &str| {
        let mut tensor = TensorAttributes::packed(DataType::Float, &[4]);
        tensor.set_uid(Uid(uid)).set_name(name);
        tensor
    };
    let x = builder.tensor(device(X, "x"));
    let mut scalar = TensorAttributes::packed(DataType::Float, &[1]);
    make(&mut scalar);
    scalar.set_uid(Uid(SCALAR)).set_name("alpha");
    let scalar = builder.tensor(scalar);
    let y = builder.tensor(device(Y, "y"));
    builder.node("scale", DataType::Float, ops::Pointwise::binary(PointwiseMode::Mul, x, scalar, y));
    builder.build().expect("a graph")
}

fn bound(graph: &GraphBuf) -> BoundPlan {
    let (_folder, runtime) = common::runtime();
    common::restored(&runtime, &graph.view())
}

/// The factor that an execution applied.
fn factor(plan: &mut BoundPlan, fill: impl FnOnce(&mut VariantPack<'_>)) -> Result<f32, ExecError> {
    let x = [1.0_f32, 2.0, 3.0, 4.0];
    let mut y = [f32::NAN; 4];
    let mut pack = VariantPack::new();
    pack.input(X, &x).output(Y, &mut y);
    fill(&mut pack);
    plan.execute(&pack, &mut [], Stream::Default)?;
    drop(pack);
    let first = y[0];
    assert_eq!(y, x.map(|x| x * first), "x starts with 1, so the first element is the factor");
    Ok(y[0])
}

#[test]
fn a_constant_is_baked_and_its_entry_is_inert() {
    let graph = graph(|t| {
        t.set_value(0.5_f32);
    });
    let mut plan = bound(&graph);
    assert_eq!(factor(&mut plan, |_| ()).ok(), Some(0.5));
    assert_eq!(factor(&mut plan, |p| _ = p.scalar(SCALAR, 9.0_f32)).ok(), Some(0.5));
    assert_eq!(factor(&mut plan, |p| _ = p.override_scalar(SCALAR, 9.0_f32)).ok(), Some(0.5));
    // Not even the type of an inert entry matters.
    assert_eq!(factor(&mut plan, |p| _ = p.scalar(SCALAR, 9.0_f64)).ok(), Some(0.5));
}

#[test]
fn a_default_is_kept_unless_it_is_overridden() {
    let graph = graph(|t| *t = TensorAttributes::scalar_of(0.25_f32, ScalarType::RuntimeParam));
    let mut plan = bound(&graph);
    assert_eq!(factor(&mut plan, |_| ()).ok(), Some(0.25));
    assert_eq!(factor(&mut plan, |p| _ = p.scalar(SCALAR, 9.0_f32)).ok(), Some(0.25), "an entry is inert");
    assert_eq!(factor(&mut plan, |p| _ = p.override_scalar(SCALAR, 9.0_f32)).ok(), Some(9.0), "an override is not");
    assert_eq!(factor(&mut plan, |_| ()).ok(), Some(0.25), "and it is forgotten after the call");
}

#[test]
fn a_runtime_scalar_is_read_anew_by_each_call() {
    let graph = graph(|t| {
        t.set_as_runtime_parameter();
    });
    let mut plan = bound(&graph);
    for value in [2.0_f32, -3.0, 0.125] {
        assert_eq!(factor(&mut plan, |p| _ = p.scalar(SCALAR, value)).ok(), Some(value));
    }
    // As a C caller passes it: a host pointer under the uid.
    let host = 7.0_f32;
    // SAFETY: the plan's runtime set holds the uid, and `host` is a readable float that outlives the call.
    let by_pointer = factor(&mut plan, |p| _ = unsafe { p.raw(SCALAR, (&raw const host).cast_mut().cast()) });
    assert_eq!(by_pointer.ok(), Some(7.0));
}

#[test]
fn what_is_missing_or_of_the_wrong_kind_is_named() {
    let graph = graph(|t| {
        t.set_as_runtime_parameter();
    });
    let mut plan = bound(&graph);
    let error = factor(&mut plan, |_| ()).expect_err("the scalar is missing");
    assert!(matches!(error, ExecError::InvalidValue { uid: SCALAR, reason: InvalidValue::Missing { uid: SCALAR }, .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("uid 20") && text.contains("\"alpha\"") && text.contains("pointwise.in_1"), "{text}");

    let error = factor(&mut plan, |p| _ = p.scalar(SCALAR, 1.0_f64)).expect_err("a double for a float");
    assert!(matches!(error, ExecError::InvalidValue { reason: InvalidValue::ScalarType { .. }, .. }), "{error}");
    let buffer = [1.0_f32];
    let error = factor(&mut plan, |p| {
        let buffer: &[f32] = Box::leak(Box::new(buffer));
        p.input(SCALAR, buffer);
    })
    .expect_err("a device buffer for a host scalar");
    assert!(matches!(error, ExecError::InvalidValue { reason: InvalidValue::TensorForScalar, .. }), "{error}");

    // Ordinary tensors are named the same way.
    let mut y = [0.0_f32; 4];
    let mut pack = VariantPack::new();
    pack.output(Y, &mut y).scalar(SCALAR, 1.0_f32);
    let error = plan.execute(&pack, &mut [], Stream::Default).expect_err("x is missing");
    assert!(error.to_string().contains("\"x\" uid 10"), "{error}");
    pack.clear().scalar(X, 1.0_f32).scalar(SCALAR, 1.0_f32);
    let error = plan.execute(&pack, &mut [], Stream::Default).expect_err("a scalar for a tensor");
    assert!(matches!(error, ExecError::InvalidValue { uid: X, reason: InvalidValue::ScalarForTensor, .. }), "{error}");
    let (short, x) = ([0.0_f32; 3], [0.0_f32; 4]);
    let mut pack = VariantPack::new();
    pack.input(X, &short).scalar(SCALAR, 1.0_f32);
    let error = plan.execute(&pack, &mut [], Stream::Default).expect_err("x is too short");
    assert!(matches!(error, ExecError::InvalidValue { reason: InvalidValue::BufferSize { found: 12, expected: 16 }, .. }), "{error}");
    pack.clear().input(X, &x).input(X, &x);
    let error = plan.execute(&pack, &mut [], Stream::Default).expect_err("x twice");
    assert!(matches!(error, ExecError::InvalidValue { reason: InvalidValue::Twice { uid: X }, .. }), "{error}");
    pack.clear().input(X, &x).input(Y, &x).scalar(SCALAR, 1.0_f32);
    let error = plan.execute(&pack, &mut [], Stream::Default).expect_err("y may only be read");
    assert!(matches!(error, ExecError::InvalidValue { uid: Y, reason: InvalidValue::ReadOnly, .. }), "{error}");
}

#[test]
fn two_values_need_one_plan() {
    let (_folder, runtime) = common::runtime();
    let graph = graph(|t| {
        t.set_as_runtime_parameter();
    });
    assert!(matches!(runtime.compile(&graph.view()), Ok(Ensured::Compiled(_))));
    assert!(matches!(runtime.compile(&graph.view()), Ok(Ensured::Present(_))), "the second request compiles nothing");
    let mut plan = runtime.restore(&graph.view()).expect("restored");
    assert_eq!(factor(&mut plan, |p| _ = p.scalar(SCALAR, 2.0_f32)).ok(), Some(2.0));
    assert_eq!(factor(&mut plan, |p| _ = p.scalar(SCALAR, 3.0_f32)).ok(), Some(3.0));
    assert_eq!(runtime.store().iter_plans().count(), 1);
}

#[test]
fn several_scalars_in_different_states_keep_apart() {
    // y = x * constant + runtime
    let mut builder = GraphBuilder::new();
    let mut x = TensorAttributes::packed(DataType::Float, &[4]);
    x.set_uid(Uid(X));
    let x = builder.tensor(x);
    let alpha = builder.scalar(2.0_f32, ScalarType::CompileTimeConst);
    let mut beta = TensorAttributes::packed(DataType::Float, &[1]);
    beta.set_uid(Uid(SCALAR)).set_as_runtime_parameter();
    let beta = builder.tensor(beta);
    let mut scaled = TensorAttributes::packed(DataType::Float, &[4]);
    scaled.set_virtual(true);
    let scaled = builder.tensor(scaled);
    let mut y = TensorAttributes::packed(DataType::Float, &[4]);
    y.set_uid(Uid(Y));
    let y = builder.tensor(y);
    builder.node("scale", DataType::Float, ops::Pointwise::binary(PointwiseMode::Mul, x, alpha, scaled));
    builder.node("shift", DataType::Float, ops::Pointwise::binary(PointwiseMode::Add, scaled, beta, y));
    let mut plan = bound(&builder.build().expect("a graph"));
    let x = [1.0_f32, 2.0, 3.0, 4.0];
    let mut out = [0.0_f32; 4];
    let mut pack = VariantPack::new();
    pack.input(X, &x).output(Y, &mut out).scalar(SCALAR, 10.0_f32).scalar(alpha.0, 99.0_f32);
    let mut workspace = hipplan::Workspace::new(plan.workspace_size()).expect("memory");
    plan.execute(&pack, workspace.as_mut_slice(), Stream::Default).expect("executed");
    assert_eq!(out, [12.0, 14.0, 16.0, 18.0]);
}
