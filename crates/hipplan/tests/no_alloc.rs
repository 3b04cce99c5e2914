//! After bind, executing allocates nothing: neither the executor nor the provider, on any thread. With shapes of its own, the first
//! execution of each set may.

mod common;
#[path = "common/counting.rs"]
mod counting;

use counting::allocations;
use hipplan::reference::Inputs;
use hipplan::{DataType, GraphBuf, GraphBuilder, PointwiseMode, Stream, TensorAttributes, VariantPack, Workspace, ops};

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
    repeated_shapes(&runtime);
}

/// The shapes of the execution before are known: a pack that is filled again with them costs nothing, nor does one without in between.
fn repeated_shapes(runtime: &hipplan::Runtime) {
    let mut builder = GraphBuilder::new();
    builder.set_override_shape_enabled(true);
    let dims = [[3, 40, 60], [3, 60, 30], [3, 40, 30]];
    let [a, b, y] = dims.map(|dims| builder.tensor(TensorAttributes::packed(DataType::Float, &dims)));
    let mut product = TensorAttributes::packed(DataType::Float, &dims[2]);
    product.set_virtual(true);
    let product = builder.tensor(product);
    builder.node("", DataType::Float, ops::Matmul { a, b, c: product });
    builder.node("", DataType::Float, ops::Pointwise::unary(PointwiseMode::ReluFwd, product, y));
    let graph = builder.build().expect("a graph");
    let mut plan = common::restored(runtime, &graph.view());
    let (left, right, mut result) = (vec![1.0_f32; 7200], vec![1.0_f32; 5400], vec![0.0_f32; 3600]);
    let mut workspace = Workspace::new(plan.workspace_size()).expect("memory");
    let mut pack = VariantPack::with_capacity(3);
    let mut execute = |rows: Option<i64>| {
        let before = allocations();
        pack.clear().input(a.0, &left).input(b.0, &right);
        // SAFETY: `result` has the tensor's declared span, outlives the call, and nothing else accesses it meanwhile.
        unsafe { pack.raw(y.0, result.as_mut_ptr().cast()) };
        if let Some(rows) = rows {
            pack.override_shape(a.0, &[2, rows, 60], &[2400, 60, 1]).override_shape(b.0, &[2, 60, 30], &[1800, 30, 1]);
            pack.override_shape(y.0, &[2, rows, 30], &[1200, 30, 1]);
        }
        plan.execute(&pack, workspace.as_mut_slice(), Stream::Default).expect("executed");
        allocations() - before
    };
    execute(None);
    assert!(execute(Some(20)) > 0, "a new set of shapes is prepared");
    for rows in [Some(20), Some(20), None, Some(20), None] {
        assert_eq!(execute(rows), 0, "{rows:?}");
    }
    assert!(execute(Some(21)) > 0, "another set");
    assert_eq!(execute(Some(21)), 0);
    assert_eq!((result[29], result[630 - 1], result[1200 + 29]), (60.0, 60.0, 60.0));
}
