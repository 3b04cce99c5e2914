//! The last column of the by-value table (R16 §4.2, §4.6, §4.9): what an entry of the pack does to a scalar in each state, in a context that was
//! compiled and in one that was restored. Host scalars stand at the end of a page: reading on faults.

mod common;

use common::{Context, Engine, Failed};
use hipplan_engine::payload::Payload;
use hipplan_engine_abi::status::INVALID_VALUE;
use hipplan_engine_testing::HostScalar;
use hipplan_serialize::{DataType, GraphBuf, GraphBuilder, PointwiseMode, ScalarType, TensorAttributes, Uid, ops};
use std::ffi::c_void;

const X: i64 = -10;
const SCALAR: i64 = 1 << 40;
const Y: i64 = 30;

/// `y = x * scalar`, the scalar made by `make`.
fn graph(make: impl FnOnce(&mut TensorAttributes)) -> GraphBuf {
    let mut builder = GraphBuilder::new();
    let device = |uid| {
        let mut tensor = TensorAttributes::packed(DataType::Float, &[4]);
        tensor.set_uid(Uid(uid));
        tensor
    };
    let x = builder.tensor(device(X));
    let mut scalar = TensorAttributes::packed(DataType::Float, &[1]);
    make(&mut scalar);
    scalar.set_uid(Uid(SCALAR));
    let scalar = builder.tensor(scalar);
    let y = builder.tensor(device(Y));
    builder.node("scale", DataType::Float, ops::Pointwise::binary(PointwiseMode::Mul, x, scalar, y));
    builder.build().expect("a graph")
}

/// The factor that an execution applied.
fn factor(context: &Context<'_>, scalars: &[*mut c_void]) -> Result<f32, Failed> {
    let mut x = [1.0_f32, 2.0, 3.0, 4.0];
    let mut y = [f32::NAN; 4];
    // A uid that the graph does not have is inert, whatever it points to.
    let mut buffers = vec![(X, x.as_mut_ptr().cast()), (77, std::ptr::dangling_mut()), (Y, y.as_mut_ptr().cast())];
    buffers.extend(scalars.iter().map(|&pointer| (SCALAR, pointer)));
    let executed = context.execute(&buffers);
    if executed.is_err() {
        assert!(y.iter().all(|y| y.is_nan()), "a refused execution has written {y:?}");
    }
    executed?;
    assert_eq!(y, x.map(|x| x * y[0]));
    Ok(y[0])
}

/// Runs a test with a context of the graph that was compiled, and with one that was restored.
fn both(graph: &GraphBuf, test: impl Fn(&Context<'_>)) {
    let engine = Engine::new();
    let fresh = engine.create(graph.buffer()).expect("a context");
    test(&fresh);
    let restored = engine.restore(&fresh.serialize()).expect("a context");
    drop(fresh);
    test(&restored);
}

#[test]
fn a_constant_is_baked_and_its_entry_is_inert() {
    let graph = graph(|t| {
        t.set_value(0.5_f32);
    });
    both(&graph, |context| {
        let other = HostScalar::new(9.0_f32).expect("memory");
        assert_eq!(factor(context, &[]), Ok(0.5));
        assert_eq!(factor(context, &[other.pointer()]), Ok(0.5));
        // It is not looked at: neither null nor twice is an error.
        assert_eq!(factor(context, &[std::ptr::null_mut(), other.pointer()]), Ok(0.5));
    });
}

#[test]
fn a_default_holds_until_an_entry_overrides_it() {
    let graph = graph(|t| *t = TensorAttributes::scalar_of(0.25_f32, ScalarType::RuntimeParam));
    both(&graph, |context| {
        let mut other = HostScalar::new(9.0_f32).expect("memory");
        assert_eq!(factor(context, &[]), Ok(0.25));
        assert_eq!(factor(context, &[other.pointer()]), Ok(9.0));
        other.set(-3.0);
        assert_eq!(factor(context, &[other.pointer()]), Ok(-3.0));
        assert_eq!(factor(context, &[]), Ok(0.25), "an override is forgotten after the call");
        let failed = factor(context, &[std::ptr::null_mut()]).expect_err("null is no override");
        assert!(failed.0 == INVALID_VALUE && failed.1.contains(&format!("uid {SCALAR}")) && failed.1.contains("null"), "{failed:?}");
        let failed = factor(context, &[other.pointer(), other.pointer()]).expect_err("twice");
        assert!(failed.0 == INVALID_VALUE && failed.1.contains("twice"), "{failed:?}");
    });
}

#[test]
fn a_user_supplied_scalar_is_read_anew_and_missed_by_its_uid() {
    let graph = graph(|t| {
        t.set_as_runtime_parameter();
    });
    both(&graph, |context| {
        let mut value = HostScalar::new(2.0_f32).expect("memory");
        assert_eq!(factor(context, &[value.pointer()]), Ok(2.0));
        value.set(0.125);
        assert_eq!(factor(context, &[value.pointer()]), Ok(0.125));
        let failed = factor(context, &[]).expect_err("missing");
        assert!(failed.0 == INVALID_VALUE && failed.1.contains(&format!("uid {SCALAR}")), "{failed:?}");
        assert_eq!(factor(context, &[std::ptr::null_mut()]).expect_err("null").0, INVALID_VALUE);
        assert_eq!(factor(context, &[value.pointer()]), Ok(0.125), "a refused execution leaves nothing behind");
    });
}

#[test]
fn the_payload_states_the_runtime_uid_set() {
    let engine = Engine::new();
    let stored = |graph: GraphBuf| Payload::parse(&engine.create(graph.buffer()).expect("a context").serialize()).expect("a payload");
    let constant = stored(graph(|t| _ = t.set_value(0.5_f32)));
    assert!(constant.runtime_uids().is_empty());
    let default = stored(graph(|t| *t = TensorAttributes::scalar_of(0.25_f32, ScalarType::RuntimeParam)));
    assert_eq!(default.runtime_uids(), [SCALAR]);
    let user = stored(graph(|t| _ = t.set_as_runtime_parameter()));
    assert_eq!(user.runtime_uids(), [SCALAR]);
    let mut uids = user.uids().to_vec();
    uids.sort_unstable();
    assert_eq!(uids, [X, Y, SCALAR]);
    // What the set says must be what the plan says.
    let forged = Payload::new(user.uids(), &[X], user.plan()).expect("a payload");
    let failed = engine.restore(forged.bytes()).err().expect("refused");
    assert!(failed.0 == INVALID_VALUE && failed.1.contains("runtime uids"), "{failed:?}");
    let short = Payload::new(&user.uids()[..1], &[], user.plan()).expect("a payload");
    assert_eq!(engine.restore(short.bytes()).err().expect("refused").0, INVALID_VALUE);
}
