//! One context from many threads, and executions that allocate nothing.

mod common;
#[path = "../../hipplan/tests/common/counting.rs"]
mod counting;

use common::{Context, Engine, two_readers};
use counting::allocations;
use hipplan_exec::reference::check;

/// A context that several threads use: the plugin allows it.
struct Shared<'c>(&'c Context<'c>);

// SAFETY: the plugin's contexts and handles may be used by several threads at once.
unsafe impl Sync for Shared<'_> {}

#[test]
fn threads_share_a_context_and_no_execution_allocates() {
    let graph = two_readers();
    let engine = Engine::new();
    let context = engine.create(graph.buffer()).expect("a context");
    let shared = &Shared(&context);
    std::thread::scope(|scope| {
        for seed in 0..8 {
            let graph = &graph;
            scope.spawn(move || {
                let context = shared;
                for round in 0..20 {
                    let report = check(&graph.view(), seed * 100 + round, &mut |i, o| context.0.execute_inputs(i, o).map_err(|e| e.1));
                    let report = report.unwrap_or_else(|e| panic!("{e}"));
                    assert!(report.passed(), "{report}");
                }
            });
        }
    });

    let mut memory = [[1.0_f32; 64]; 4];
    let [x, w, y, z] = memory.each_mut().map(|m| m.as_mut_ptr());
    let buffers =
        [(1, x), (2, w), (4, y), (5, z), (99, x)].map(|(uid, ptr)| hipplan_engine_abi::types::DeviceBuffer { uid, ptr: ptr.cast() });
    let mut workspace = vec![0_u8; context.workspace_size()];
    let mut execute = || {
        // SAFETY: the buffers are larger than the tensors.
        let status = unsafe {
            hipplan_engine::exports::hipdnnEnginePluginExecuteOpGraph(
                engine.0,
                context.raw,
                workspace.as_mut_ptr().cast(),
                buffers.as_ptr(),
                buffers.len() as u32,
            )
        };
        assert_eq!(status, 0);
    };
    execute();
    let before = allocations();
    (0..100).for_each(|_| execute());
    assert_eq!(allocations(), before);
}
