//! After bind, executing on a HIP device allocates nothing.

#[path = "common/counting.rs"]
mod counting;
#[path = "hip/support.rs"]
mod support;

use counting::allocations;
use hipplan::hip::HipStream;
use hipplan::{Stream, VariantPack};
use support::{Buffers, Fake, SCALAR, Stored, X, Y, program_with_workspace, runtime_graph};

/// One test, so that no other thread of the test program allocates meanwhile. The fake runtime allocates in C, which is not counted.
#[test]
fn execute_allocates_nothing() {
    let fake = Fake::new(&["COUNT=2"]);
    let device = fake.device(1);
    let mut plan = Stored::new(&device, runtime_graph(), program_with_workspace()).bind().expect("bound");
    let mut buffers = Buffers::new(&device, &plan);
    let stream = HipStream::new(&device).expect("a stream");
    let mut pack = VariantPack::with_capacity(3);
    pack.device_input(X, &buffers.x).device_output(Y, &mut buffers.y).scalar(SCALAR, 1.0_f32);
    let before = allocations();
    for stream in [Stream::Default, Stream::Hip(&stream)] {
        for _ in 0..3 {
            plan.execute(&pack, &mut buffers.workspace, stream).expect("executed");
        }
    }
    assert_eq!(allocations() - before, 0);
}
