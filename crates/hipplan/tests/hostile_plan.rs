//! Plans whose every hash is right and whose contents contradict each other: refused when they are bound, whatever they ask for.

mod common;

use hipplan::plan::{BindingKind, BindingRole, PayloadWriter, PlanMetaV1, PlanWriter};
use hipplan::{
    AlignedBytes, DataType, Device, ExecError, GraphBuf, GraphBuilder, Loaders, Plan, PlanView, PointwiseMode, ScalarType,
    TensorAttributes, ops,
};

/// `y = x * constant`.
fn graph() -> GraphBuf {
    let mut builder = GraphBuilder::new();
    let x = builder.tensor(TensorAttributes::packed(DataType::Float, &[4]));
    let alpha = builder.scalar(2.0_f32, ScalarType::CompileTimeConst);
    let y = builder.tensor(TensorAttributes::packed(DataType::Float, &[4]));
    builder.node("mul", DataType::Float, ops::Pointwise::binary(PointwiseMode::Mul, x, alpha, y));
    builder.build().expect("a graph")
}

/// The same plan with other metadata and other baked values, all hashes made right.
fn rebuilt(plan: &PlanView<'_>, edit: impl FnOnce(&mut PlanMetaV1), bake: impl FnOnce(&mut PayloadWriter<'_>)) -> Option<AlignedBytes> {
    let mut meta = rkyv::deserialize::<PlanMetaV1, rkyv::rancor::Error>(plan.meta()).expect("metadata");
    let payload = plan.payload().and_then(|head| Ok(head.read_tables()?)).expect("a payload");
    edit(&mut meta);
    let mut writer = PayloadWriter {
        kind: payload.kind(),
        version: payload.version(),
        runtime_uids: payload.runtime_uids().collect(),
        baked: payload.baked().collect(),
        body: payload.body(),
    };
    bake(&mut writer);
    let payload = writer.finish().ok()?;
    PlanWriter { meta: &meta, canonical: plan.canonical().expect("canonical"), payload: &payload }.finish().ok()
}

#[test]
fn a_plan_that_contradicts_itself_or_its_graph_is_never_bound() {
    let (_folder, runtime) = common::runtime();
    let graph = graph();
    let view = graph.view();
    runtime.compile(&view).expect("compiled");
    let key = view.canonical().expect("a key").key;
    let good = runtime.find(&key).expect("found");
    let plan = good.view();
    let by_key = |bytes: &[u8]| Plan::open(bytes).and_then(|p| p.bind_by_key(&Device::Cpu, &Loaders::default())).map(|_| ());
    let by_graph = |bytes: &[u8]| Plan::open(bytes).and_then(|p| p.bind_by_graph(&Device::Cpu, &Loaders::default(), &view)).map(|_| ());
    let same = rebuilt(&plan, |_| (), |_| ()).expect("the same plan");
    assert!(same[..] == *good.bytes() && by_key(&same).is_ok() && by_graph(&same).is_ok());

    // Ordinals: 0 is x, 1 the constant, 2 is y.
    type Edit = fn(&mut PlanMetaV1);
    let edits: [(&str, Edit); 6] = [
        ("an output that pretends to be an input", |m| m.bindings[2].role = BindingRole::Input as u8),
        ("a constant that pretends to be a device tensor", |m| m.bindings[1].kind = BindingKind::Device as u8),
        ("a device tensor that pretends to be a constant", |m| {
            m.bindings[0].kind = BindingKind::Constant as u8;
            m.bindings[0].dims = vec![1];
        }),
        ("a smaller tensor than the program writes", |m| m.bindings[2].dims = vec![2]),
        ("another type", |m| m.bindings[0].dtype = DataType::Half.to_wire()),
        ("a binding that is missing", |m| drop(m.bindings.pop())),
    ];
    for (what, edit) in edits {
        // Some are refused as soon as they are written.
        let Some(bytes) = rebuilt(&plan, edit, |_| ()) else { continue };
        assert!(by_key(&bytes).is_err(), "{what}, by key");
        assert!(matches!(by_graph(&bytes), Err(ExecError::BindingDisagrees { .. })), "{what}, by graph: {:?}", by_graph(&bytes));
    }
    // Another constant than the graph's: only the graph can tell.
    let other = rebuilt(&plan, |_| (), |p| p.baked[0].value = hipplan::TensorValue::Float32(3.0)).expect("a plan");
    assert!(matches!(by_graph(&other), Err(ExecError::BindingDisagrees { field: "baked value", .. })));
    // A workspace that nobody has is an error of whoever asks for it, not the end of the process.
    let huge = rebuilt(&plan, |m| m.workspace_size = 1 << 60, |_| ()).expect("a plan");
    assert!(by_key(&huge).is_err(), "the program says another size");
    assert!(matches!(hipplan::Workspace::new(1 << 60), Err(ExecError::OutOfMemory { .. })));
}
