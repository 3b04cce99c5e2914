//! Executions through a plugin with shapes of their own (RFC 0008).

use crate::graphs::{ALPHA, X, Y, device, scalar};
use crate::support::{build, context, load, prepared, restore, search, stored};
use hipplan::plugin::{PluginError, PluginSource};
use hipplan::{DataType, ExecError, GraphBuf, GraphBuilder, PointwiseMode, ShapeError, Stream, VariantPack, ops};
use hipplan_engine_testing::{Counters, Entry};

/// `y = x * alpha` of at most 3 x 4 elements.
fn graph() -> GraphBuf {
    let mut g = GraphBuilder::new();
    let x = g.tensor(device(X, "x", &[3, 4]));
    let alpha = g.tensor(scalar(ALPHA, "alpha", crate::graphs::State::Supplied, 0.0_f32));
    let y = g.tensor(device(Y, "y", &[3, 4]));
    g.node("scale", DataType::Float, ops::Pointwise::binary(PointwiseMode::Mul, x, alpha, y));
    g.set_override_shape_enabled(true);
    g.build().expect("a graph")
}

const IN: [f32; 6] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];

fn pack<'b>(y: &'b mut [f32], dims: &[i64], strides: &[i64]) -> VariantPack<'b> {
    let mut pack = VariantPack::new();
    pack.input(X, &IN).scalar(ALPHA, 10.0_f32).output(Y, y);
    pack.override_shape(X, dims, strides).override_shape(Y, dims, strides);
    pack
}

#[test]
fn a_plugin_gets_the_shapes_of_an_execution() {
    let path = build("overrides", &[]);
    let mut plan = prepared(&load(&path), &graph());
    let mut y = [0.0_f32; 6];
    plan.execute(&pack(&mut y, &[2, 3], &[3, 1]), &mut [], Stream::Default).expect("executed");
    assert_eq!(y, [10.0, 20.0, 30.0, 40.0, 50.0, 60.0]);
    // Smaller still, and not packed.
    let mut y = [0.0_f32; 6];
    plan.execute(&pack(&mut y, &[2, 1], &[4, 1]), &mut [], Stream::Default).expect("executed");
    assert_eq!(y, [10.0, 0.0, 0.0, 0.0, 50.0, 0.0]);
    // And as it was compiled.
    let (x, mut y) = ([1.0_f32; 12], [0.0_f32; 12]);
    plan.execute(VariantPack::new().input(X, &x).scalar(ALPHA, 2.0_f32).output(Y, &mut y), &mut [], Stream::Default).expect("executed");
    assert_eq!(y, [2.0; 12]);
    let counters = Counters::read(&path).expect("counters");
    assert_eq!((counters.calls(Entry::ExecuteWithOverrides), counters.calls(Entry::Execute)), (2, 1));
}

#[test]
fn shapes_that_the_graph_does_not_allow_do_not_reach_the_plugin() {
    let path = build("overrides-refused", &[]);
    let mut plan = prepared(&load(&path), &graph());
    let mut y = [0.0_f32; 6];
    let error = plan.execute(&pack(&mut y, &[4, 1], &[1, 1]), &mut [], Stream::Default).expect_err("too large");
    assert!(matches!(&error, ExecError::Shape(e) if matches!(**e, ShapeError::Reshape(_))), "{error}");
    let counters = Counters::read(&path).expect("counters");
    assert_eq!((counters.calls(Entry::ExecuteWithOverrides), counters.calls(Entry::Execute)), (0, 0));
}

#[test]
fn a_plugin_that_takes_no_shapes_is_not_given_any() {
    for switch in ["hipdnnEnginePluginExecuteOpGraphWithOverrides=omitted", "API_VERSION=\"1.0.0\""] {
        let error = context(&load(&build("overrides-none", &[switch])), &graph()).expect_err("no shapes");
        assert!(matches!(error, PluginError::GraphOverrides { .. } | PluginError::GraphFloor { .. }), "{error}");
    }
}

#[test]
fn a_restored_plan_takes_shapes_if_its_plugin_still_does() {
    let path = build("overrides-restored", &[]);
    let (plugin, graph) = (load(&path), graph());
    let file = stored(&plugin, &graph);
    let mut plan = restore(&file, &search(&[PluginSource::host(&path)]), &graph).expect("restored");
    let mut y = [0.0_f32; 6];
    plan.execute(&pack(&mut y, &[2, 3], &[3, 1]), &mut [], Stream::Default).expect("executed");
    assert_eq!(y, [10.0, 20.0, 30.0, 40.0, 50.0, 60.0]);

    let other = build("overrides-without", &["hipdnnEnginePluginExecuteOpGraphWithOverrides=omitted"]);
    let error = restore(&file, &search(&[PluginSource::host(&other)]), &graph).expect_err("no shapes").to_string();
    assert!(error.starts_with("the plan's graph takes execute-time shapes, and plugin hipplan test plugin 1.0.0"), "{error}");
    assert_eq!(Counters::read(&other).expect("counters").payload_bytes, 0);
}
