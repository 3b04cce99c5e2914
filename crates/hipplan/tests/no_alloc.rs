//! After bind, executing allocates nothing: neither the executor nor the provider, on any thread.

mod common;
#[path = "common/counting.rs"]
mod counting;

use counting::allocations;
use hipplan::reference::Inputs;
use hipplan::{GraphBuf, Stream, VariantPack, Workspace};

/// One test, so that no other thread of the test program allocates meanwhile.
#[test]
fn execute_allocates_nothing() {
    let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/graphs");
    let (_folder, runtime) = common::runtime();
    let mut counted = 0;
    let mut files: Vec<_> = std::fs::read_dir(corpus).expect("the corpus").map(|e| e.expect("an entry").path()).collect();
    files.sort();
    for file in files.iter().filter(|f| f.extension().is_some_and(|e| e == "json")) {
        let text = std::fs::read(file).expect("readable");
        let graph: GraphBuf = hipplan::import(&text, &Default::default()).expect("a graph").graph;
        let view = graph.view();
        if runtime.compile(&view).is_err() {
            continue;
        }
        let mut plan = runtime.restore(&view).expect("restored");
        let inputs = Inputs::generate(&view, 1).expect("inputs");
        let mut outputs: Vec<(i64, Vec<u64>)> = view
            .all_operands()
            .iter()
            .filter(|o| o.role == hipplan::FieldRole::Output)
            .map(|o| view.tensor(o.tensor))
            .filter(|t| !t.is_virtual)
            .map(|t| (t.uid.0, vec![0; t.span_bytes().div_ceil(8) as usize]))
            .collect();
        let mut workspace = Workspace::new(plan.workspace_size()).expect("memory");
        let mut pack = VariantPack::with_capacity(16);
        for input in inputs.tensors() {
            pack.input(input.uid.0, input.tensor.bytes());
        }
        for (uid, memory) in &mut outputs {
            pack.output(*uid, memory);
        }
        let before = allocations();
        for _ in 0..3 {
            plan.execute(&pack, workspace.as_mut_slice(), Stream::Default).expect("executed");
        }
        assert_eq!(allocations() - before, 0, "{}", file.display());
        counted += 1;
    }
    assert!(counted >= 14, "{counted} graphs of the corpus were executed");
}
