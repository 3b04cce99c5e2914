//! The numerical check itself: definitions against numbers worked out by hand, tolerances against honest and dishonest executions.
#![expect(clippy::unwrap_used, reason = "a test may panic, also in its helper functions")]

mod comparison;
mod convolutions;
mod definitions;
mod evaluation;
mod pointwise;
mod reductions;
mod tensors;

use hipplan_serialize::{DataType, TensorAttributes, Uid};

const X: Uid = Uid(10);
const W: Uid = Uid(20);
const Y: Uid = Uid(30);

fn packed(uid: Uid, dtype: DataType, dims: &[i64]) -> TensorAttributes {
    let mut t = TensorAttributes::packed(dtype, dims);
    t.set_uid(uid).set_name(format!("t{uid}"));
    t
}
