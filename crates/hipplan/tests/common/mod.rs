//! What the tests of the facade share.
#![allow(dead_code, reason = "each test binary uses a part")]

use hipplan::reference::{CheckReport, Inputs, Outputs, check};
use hipplan::{BoundPlan, GraphBuf, Runtime, Stream, VariantPack, VerifiedGraph, Workspace};

/// A runtime over a store of its own. The folder goes when the guard does.
pub(crate) fn runtime() -> (tempfile::TempDir, Runtime) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let runtime = Runtime::open(folder.path().join("store")).expect("a store");
    (folder, runtime)
}

/// Compiles a graph, restores it, and gives back the bound plan.
pub(crate) fn restored(runtime: &Runtime, graph: &VerifiedGraph<'_>) -> BoundPlan {
    runtime.compile(graph).unwrap_or_else(|e| panic!("{e}"));
    runtime.restore(graph).unwrap_or_else(|e| panic!("{e}"))
}

/// Executes a bound plan with the harness's inputs and outputs.
pub(crate) fn execute(plan: &mut BoundPlan, inputs: &Inputs, outputs: &mut Outputs) -> Result<(), hipplan::ExecError> {
    let mut workspace = Workspace::new(plan.workspace_size()).expect("memory");
    let mut pack = VariantPack::new();
    for input in inputs.tensors() {
        pack.input(input.uid.0, input.tensor.bytes());
    }
    for scalar in inputs.scalars().iter().filter(|s| !s.is_default) {
        pack.scalar_value(scalar.uid.0, scalar.value);
    }
    for output in outputs.tensors_mut() {
        pack.output(output.uid.0, output.tensor.bytes_mut());
    }
    plan.execute(&pack, workspace.as_mut_slice(), Stream::Default)
}

/// Compiles, restores, executes and checks a graph.
pub(crate) fn check_graph(runtime: &Runtime, graph: &GraphBuf, seed: u64) -> CheckReport {
    let view = graph.view();
    let mut plan = restored(runtime, &view);
    check(&view, seed, &mut |inputs, outputs| execute(&mut plan, inputs, outputs)).unwrap_or_else(|e| panic!("{e}"))
}
