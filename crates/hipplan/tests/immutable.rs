//! A handle that is set after `build` changes no plan (R16 §4.8).

mod common;

use hipplan::{DataType, GraphBuilder, Mode, PointwiseMode, Store, TensorAttributes, ops};

#[test]
fn plan_bytes_and_key_stay_when_a_tensor_is_set_after_build() {
    let mut g = GraphBuilder::new();
    let x = g.tensor(TensorAttributes::packed(DataType::Float, &[4]));
    let alpha = g.tensor_handle(TensorAttributes::scalar(2.0_f32));
    let y = g.tensor(TensorAttributes::packed(DataType::Float, &[4]));
    g.node("scale", DataType::Float, ops::Pointwise::binary(PointwiseMode::Mul, x, alpha.uid(), y));
    let graph = g.build().expect("valid");
    let compile = || {
        let (folder, runtime) = common::runtime();
        runtime.compile(&graph.view()).expect("compiles");
        let store = Store::open(folder.path().join("store"), Mode::ReadOnly).expect("a store");
        let plan = store.iter_plans().next().expect("a plan").expect("readable");
        store.get_plan(&plan).hit().expect("there").bytes().to_vec()
    };
    let before = (graph.view().canonical().expect("known").key, compile());
    alpha.set_value(3.0_f32).set_as_runtime_parameter().set_alignment(64);
    assert_eq!((graph.view().canonical().expect("known").key, compile()), before);
    assert!(alpha.attributes().get_is_runtime_pass_by_value());
}
