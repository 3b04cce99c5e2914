//! Serialised contexts that were damaged: every byte flipped, every length, and with a digest that was made right again. Each is an error.

mod common;

use common::{Context, Engine, Failed};
use hipplan_engine::payload::Payload;
use hipplan_engine_abi::status::INVALID_VALUE;
use hipplan_serialize::{DataType, GraphBuf, GraphBuilder, PointwiseMode, TensorAttributes, Uid, ops};

/// `y = x + scalar`, a user-supplied one.
fn graph() -> GraphBuf {
    let mut builder = GraphBuilder::new();
    let tensor = |uid, dims: &[i64]| {
        let mut tensor = TensorAttributes::packed(DataType::Float, dims);
        tensor.set_uid(Uid(uid));
        tensor
    };
    let x = builder.tensor(tensor(5, &[4]));
    let mut scalar = tensor(6, &[1]);
    scalar.set_as_runtime_parameter();
    let scalar = builder.tensor(scalar);
    let y = builder.tensor(tensor(7, &[4]));
    builder.node("add", DataType::Float, ops::Pointwise::binary(PointwiseMode::Add, x, scalar, y));
    builder.build().expect("a graph")
}

fn executes_rightly(context: &Context<'_>) -> bool {
    let (mut x, mut scalar, mut y) = ([1.0_f32, 2.0, 3.0, 4.0], 0.5_f32, [0.0_f32; 4]);
    let executed = context.execute(&[(5, x.as_mut_ptr().cast()), (6, (&raw mut scalar).cast()), (7, y.as_mut_ptr().cast())]);
    executed.is_ok() && y == [1.5, 2.5, 3.5, 4.5]
}

#[test]
fn every_flipped_byte_and_every_length_is_refused() {
    let engine = Engine::new();
    let whole = engine.create(graph().buffer()).expect("a context").serialize();
    assert!(executes_rightly(&engine.restore(&whole).expect("whole")));
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0xff;
        assert_eq!(engine.restore(&bytes).err().map(|e| e.0), Some(INVALID_VALUE), "byte {at}");
    }
    for len in 1..whole.len() {
        assert_eq!(engine.restore(&whole[..len]).err().map(|e| e.0), Some(INVALID_VALUE), "cut to {len}");
    }
}

#[test]
fn uids_that_are_not_those_of_the_plan_are_refused() {
    let engine = Engine::new();
    let whole = Payload::parse(&engine.create(graph().buffer()).expect("a context").serialize()).expect("a payload");
    let uids = whole.uids();
    let repeated: Vec<i64> = uids.iter().map(|&uid| if uid == 7 { 5 } else { uid }).collect();
    let kept = |uid: &&i64| whole.runtime_uids().contains(uid) || **uid == 5;
    let few: Vec<i64> = uids.iter().filter(kept).copied().collect();
    for uids in [&repeated, &few, &vec![]] {
        let forged = Payload::new(uids, whole.runtime_uids(), whole.plan()).expect("a payload");
        let Err(Failed(status, text)) = engine.restore(forged.bytes()) else { panic!("{uids:?}") };
        assert_eq!(status, INVALID_VALUE, "{uids:?}: {text}");
    }
}

#[test]
fn a_plan_that_was_changed_under_a_right_digest_is_refused() {
    let engine = Engine::new();
    let whole = Payload::parse(&engine.create(graph().buffer()).expect("a context").serialize()).expect("a payload");
    for at in 0..whole.plan().len() {
        for mask in [1, 0x80] {
            let mut plan = whole.plan().to_vec();
            plan[at] ^= mask;
            let forged = Payload::new(whole.uids(), whole.runtime_uids(), &plan).expect("a payload");
            let refused = engine.restore(forged.bytes()).err().map(|e| e.0);
            assert_eq!(refused, Some(INVALID_VALUE), "byte {at} of the plan, bits {mask:#x}");
        }
    }
}
