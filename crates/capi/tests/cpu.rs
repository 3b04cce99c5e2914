//! The library as C programs use it, on the device `cpu`.

mod common;

use common::{ordinals, program, scale_and_shift, succeed};
use hipplan_planner::Providers;
use hipplan_serialize::{DataType, GraphBuilder, PointwiseMode, Target, TensorAttributes, Uid, ops};
use std::process::Command;

/// Everything that `tests/c/cpu.c` checks, in one process.
#[test]
fn a_c_program_opens_binds_and_executes() {
    let folder = tempfile::tempdir().expect("a folder");
    let graph = scale_and_shift();
    let view = graph.view();
    let file = folder.path().join("graph.hpgraph");
    std::fs::write(&file, view.to_artifact()).expect("written");
    let store = folder.path().join("store");
    common::compile(&store, &view, &Target::Cpu, &Providers::default());
    let key = view.canonical().expect("a key").key.to_string();
    let mut run = Command::new(program("tests/c/cpu.c", folder.path()));
    run.arg(&store).arg(folder.path().join("other")).arg(&file).args([key, ordinals(&view)]);
    succeed(run.env("HIPPLAN_HIP_LIBRARY", "/nonexistent/libamdhip64.so"));
}

/// Execute-time shapes: `tests/c/shapes.c`, with a graph that has opted in to them and one that has not.
#[test]
fn a_c_program_overrides_shapes() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("store");
    let mut run = Command::new(program("tests/c/shapes.c", folder.path()));
    run.arg(&store);
    for is_enabled in [true, false] {
        let mut builder = GraphBuilder::new();
        builder.set_override_shape_enabled(is_enabled);
        let mut tensor = |uid, is_virtual| {
            let mut tensor = TensorAttributes::packed(DataType::Float, &[3, 4]);
            tensor.set_uid(Uid(uid)).set_virtual(is_virtual);
            builder.tensor(tensor)
        };
        let (x, y, between) = (tensor(10, false), tensor(30, false), tensor(40, true));
        builder.node("abs", DataType::Float, ops::Pointwise::unary(PointwiseMode::Abs, x, between));
        builder.node("neg", DataType::Float, ops::Pointwise::unary(PointwiseMode::Neg, between, y));
        let graph = builder.build().expect("a graph");
        common::compile(&store, &graph.view(), &Target::Cpu, &Providers::default());
        let file = folder.path().join(format!("{is_enabled}.hpgraph"));
        std::fs::write(&file, graph.view().to_artifact()).expect("written");
        run.arg(file);
    }
    succeed(&mut run);
}

/// The example in C++: handles that give themselves back.
#[test]
fn the_cpp_example_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut builder = GraphBuilder::new();
    let mut tensor = |uid| {
        let mut tensor = TensorAttributes::packed(DataType::Float, &[6]);
        tensor.set_uid(Uid(uid));
        builder.tensor(tensor)
    };
    let (x, y) = (tensor(0), tensor(1));
    builder.node("relu", DataType::Float, ops::Pointwise::unary(PointwiseMode::ReluFwd, x, y));
    let (file, store) = (folder.path().join("relu.hpgraph"), folder.path().join("store"));
    std::fs::write(&file, builder.build().expect("a graph").view().to_artifact()).expect("written");
    let example = program("examples/relu.cpp", folder.path());
    let run = succeed(Command::new(&example).arg(&store).arg(&file));
    assert_eq!(String::from_utf8_lossy(&run.stdout), "0\n2\n0\n4\n0\n6\n");
    let failed = Command::new(&example).arg(&store).arg(&example).output().expect("started");
    let said = String::from_utf8_lossy(&failed.stderr);
    assert!(failed.status.code() == Some(1) && said.contains("HIPPLAN_INVALID_ARGUMENT"), "{said}");
}
