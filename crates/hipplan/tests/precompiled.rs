//! A runtime where plans must have been compiled before, and what a runtime counts.

use hipplan::{
    CompileError, DataType, Ensured, GraphBuf, GraphBuilder, LackReason, Mode, PointwiseMode, RestoreError, Runtime, Store,
    TensorAttributes, ops,
};

fn negation(length: i64) -> GraphBuf {
    let mut builder = GraphBuilder::new();
    let [x, y] = [(); 2].map(|()| builder.tensor(TensorAttributes::packed(DataType::Float, &[length])));
    builder.node("", DataType::Float, ops::Pointwise::unary(PointwiseMode::Neg, x, y));
    builder.build().expect("a graph")
}

#[test]
fn nothing_is_compiled_and_the_reason_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store");
    let (known, unknown) = (negation(4), negation(5));
    assert!(matches!(Runtime::open(&path).expect("a store").compile(&known.view()), Ok(Ensured::Compiled(_))));

    // A store that is open to read only is enough.
    let mut runtime = Runtime::new(Store::open(&path, Mode::ReadOnly).expect("a store"));
    runtime.require_precompiled(true);
    assert!(matches!(runtime.compile(&known.view()), Ok(Ensured::Present(_))));
    runtime.restore(&known.view()).expect("restored");
    runtime.restore_by_key(&known.view().canonical().expect("a key").key).expect("restored");
    match runtime.compile(&unknown.view()) {
        Err(CompileError::NotPrecompiled(lack)) => assert_eq!(lack.reason, LackReason::Missing),
        other => panic!("{other:?}"),
    }
    let error = runtime.restore(&unknown.view()).expect_err("not there");
    assert!(matches!(&error, RestoreError::NotPrecompiled { lack, .. } if lack.reason == LackReason::Missing));
    assert!(error.to_string().starts_with("not precompiled, missing: no plan for target cpu, nor for any other (graph "), "{error}");
    assert!(matches!(runtime.compile_in_process(&unknown.view()), Err(CompileError::NotPrecompiled(_))));
    let counts = runtime.counts();
    assert_eq!((counts.hits, counts.missed(LackReason::Missing), counts.all_missed(), counts.compiled), (3, 2, 2, 0));

    // Damage is told from absence.
    let plans = path.join("plans");
    let shard = std::fs::read_dir(plans).expect("listed").next().expect("one").expect("listed").path();
    let file = std::fs::read_dir(shard).expect("listed").next().expect("one").expect("listed").path();
    std::fs::write(file, "garbage").expect("written");
    let error = runtime.restore(&known.view()).expect_err("damaged");
    assert!(matches!(&error, RestoreError::NotPrecompiled { lack, .. } if lack.reason == LackReason::Unreadable), "{error}");
    assert_eq!(runtime.counts().missed(LackReason::Unreadable), 1);
}

#[test]
fn a_runtime_counts_what_it_asks_and_compiles() {
    let folder = tempfile::tempdir().expect("a folder");
    let runtime = Runtime::open(folder.path().join("store")).expect("a store");
    let graph = negation(4);
    assert!(matches!(runtime.restore(&graph.view()), Err(RestoreError::Missed { .. })));
    assert!(matches!(runtime.compile(&graph.view()), Ok(Ensured::Compiled(_))));
    assert!(matches!(runtime.compile(&graph.view()), Ok(Ensured::Present(_))));
    runtime.restore(&graph.view()).expect("restored");
    runtime.compile_in_process(&graph.view()).expect("compiled");
    let counts = runtime.counts();
    assert_eq!((counts.hits, counts.missed(LackReason::Missing), counts.all_missed(), counts.compiled), (2, 2, 2, 2));
    assert!(!counts.compile_time.is_zero() && counts.time_not_needed().is_some());
}
