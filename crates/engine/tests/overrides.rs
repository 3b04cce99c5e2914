//! Execute-time shapes through the exported function: what is computed, and what is refused.

mod common;

use common::{Context, Engine, Failed, done};
use hipplan_engine::exports::hipdnnEnginePluginExecuteOpGraphWithOverrides;
use hipplan_engine_abi::status::{BAD_PARAM, INVALID_VALUE};
use hipplan_engine_abi::types::DeviceBuffer;
use hipplan_serialize::{DataType, GraphBuf, GraphBuilder, PointwiseMode, TensorAttributes, Uid, ops};
use std::ptr::null_mut;

/// `y = |x|` of at most 4 x 8.
fn graph(enabled: bool) -> GraphBuf {
    let mut builder = GraphBuilder::new();
    builder.set_override_shape_enabled(enabled);
    let tensor = |uid| {
        let mut tensor = TensorAttributes::packed(DataType::Float, &[4, 8]);
        tensor.set_uid(Uid(uid));
        tensor
    };
    let (x, y) = (builder.tensor(tensor(-1)), builder.tensor(tensor(1)));
    builder.node("abs", DataType::Float, ops::Pointwise::unary(PointwiseMode::Abs, x, y));
    builder.build().expect("a graph")
}

/// A uid, its shape, its strides.
type Shape<'s> = (i64, &'s [i64], &'s [i64]);

/// Executes with shapes and strides of some uids; `y`, poisoned, and how it went.
fn execute(engine: &Engine, context: &Context<'_>, shapes: &[Shape<'_>]) -> Result<[f32; 32], Failed> {
    let mut x: [f32; 32] = std::array::from_fn(|i| -(i as f32) - 1.0);
    let mut y = [f32::NAN; 32];
    let buffers = [(-1, x.as_mut_ptr()), (1, y.as_mut_ptr())].map(|(uid, ptr)| DeviceBuffer { uid, ptr: ptr.cast() });
    let uids: Vec<i64> = shapes.iter().map(|s| s.0).collect();
    let lengths: Vec<u32> = shapes.iter().map(|s| s.1.len() as u32).collect();
    let dims: Vec<_> = shapes.iter().map(|s| s.1.as_ptr()).collect();
    let strides: Vec<_> = shapes.iter().map(|s| s.2.as_ptr()).collect();
    // SAFETY: every list has as many elements as it is said to have, and the buffers hold the largest shape.
    done(unsafe {
        hipdnnEnginePluginExecuteOpGraphWithOverrides(
            engine.0,
            context.raw,
            null_mut(),
            buffers.as_ptr(),
            2,
            shapes.len() as u32,
            uids.as_ptr(),
            lengths.as_ptr(),
            dims.as_ptr(),
            strides.as_ptr(),
        )
    })
    .map(|()| y)
}

#[test]
fn a_smaller_shape_is_computed_and_the_rest_is_left_alone() {
    let engine = Engine::new();
    let fresh = engine.create(graph(true).buffer()).expect("a context");
    let restored = engine.restore(&fresh.serialize()).expect("a context");
    for context in [&fresh, &restored] {
        // Two rows of three; x has rows of eight still, y is packed.
        let y = execute(&engine, context, &[(-1, &[2, 3], &[8, 1]), (1, &[2, 3], &[3, 1])]).expect("executed");
        assert_eq!(y[..6], [1.0, 2.0, 3.0, 9.0, 10.0, 11.0]);
        assert!(y[6..].iter().all(|y| y.is_nan()), "{y:?}");
        let whole = execute(&engine, context, &[]).expect("executed");
        assert_eq!(whole, std::array::from_fn::<_, 32, _>(|i| i as f32 + 1.0));
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let engine = Engine::new();
    let context = engine.create(graph(true).buffer()).expect("a context");
    let refused: [&[Shape<'_>]; 6] = [
        &[(-1, &[5, 8], &[8, 1]), (1, &[5, 8], &[8, 1])],
        &[(-1, &[0, 8], &[8, 1]), (1, &[0, 8], &[8, 1])],
        &[(-1, &[2, 8], &[8, 1])],
        &[(77, &[2, 8], &[8, 1])],
        &[(-1, &[2, 8], &[8, 0]), (1, &[2, 8], &[8, 1])],
        &[(-1, &[1; 9], &[1; 9]), (1, &[1; 9], &[1; 9])],
    ];
    for shapes in refused {
        let failed = execute(&engine, &context, shapes).expect_err("refused");
        assert_eq!(failed.0, INVALID_VALUE, "{shapes:?}: {}", failed.1);
    }
    let fixed = engine.create(graph(false).buffer()).expect("a context");
    let failed = execute(&engine, &fixed, &[(-1, &[2, 8], &[8, 1]), (1, &[2, 8], &[8, 1])]).expect_err("the graph has not opted in");
    assert_eq!(failed.0, INVALID_VALUE, "{}", failed.1);
    // A shape that is not there.
    let mut x = [0.0_f32; 32];
    let buffer = DeviceBuffer { uid: -1, ptr: x.as_mut_ptr().cast() };
    // SAFETY: the list of shapes has one element, which is null.
    let status = unsafe {
        let (shape, stride) = (std::ptr::null(), [8, 1].as_ptr());
        hipdnnEnginePluginExecuteOpGraphWithOverrides(engine.0, context.raw, null_mut(), &buffer, 1, 1, &-1, &2, &shape, &stride)
    };
    assert_eq!(status, BAD_PARAM);
}
