//! An execution through a plugin allocates nothing of ours. Alone in its program: it counts the allocations of all threads.

#[path = "../../hipplan/tests/common/counting.rs"]
mod counting;
#[path = "r16/graphs.rs"]
#[allow(dead_code, reason = "a part of it is used here")]
mod graphs;
#[path = "host/support.rs"]
#[allow(dead_code, reason = "a part of it is used here")]
mod support;

use counting::allocations;
use graphs::{ALPHA, State, X, Y, scale_in};
use hipplan::{Stream, VariantPack};

#[test]
fn a_warm_execution_allocates_nothing() {
    let plugin = support::load(&support::build("no-alloc", &[]));
    let mut plan = support::prepared(&plugin, &scale_in(State::Supplied, 0.0));
    let (x, mut y) = ([1.0_f32, 2.0, 3.0, 4.0], [0.0_f32; 4]);
    let mut pack = VariantPack::with_capacity(4);
    for number in 1..=4_u8 {
        let alpha = f32::from(number);
        pack.clear();
        let pointer = y.as_mut_ptr();
        // SAFETY: the pointer is to an array of the tensor's size, which nothing else uses during the execution. An unknown uid is passed over.
        unsafe { pack.input(X, &x).scalar(ALPHA, alpha).raw(77, pointer.cast()).raw(Y, pointer.cast()) };
        let before = allocations();
        plan.execute(&pack, &mut [], Stream::Default).expect("executed");
        let allocated = allocations() - before;
        assert_eq!(y, x.map(|x| x * alpha));
        assert_eq!(allocated, 0, "execution {number}");
    }
}
