//! Providers, plans and packs for the matrix.

use hipplan::plugin::{PluginSearch, PluginSource, Plugins};
use hipplan::reference::{CheckReport, Inputs, Outputs, check_with};
use hipplan::{
    BoundPlan, CompileError, CompiledPlan, Device, ExecError, GraphBuf, Plan, Policy, Providers, Request, Site, Stream, TensorValue,
    VariantPack, Workspace, compile_graph,
};
use hipplan_engine_testing::{HostElement, HostScalar};
use std::ffi::c_void;
use std::path::{Path, PathBuf};

/// The test plugin in a variant. Tests that look at its counters give it a name of their own.
pub(crate) fn build(name: &str, switches: &[&str]) -> PathBuf {
    hipplan_engine_testing::Plugins::build(name, switches).unwrap_or_else(|e| panic!("{e}"))
}

/// A library loaded as one that computes in host memory.
pub(crate) fn load(paths: &[&Path]) -> Plugins {
    let mut search = PluginSearch::new();
    for path in paths {
        search.add(PluginSource::host(*path));
    }
    search.load()
}

/// The plugins at these paths, and nothing else.
pub(crate) fn only(paths: &[&Path]) -> Providers {
    let plugins = load(paths);
    assert!(plugins.failures().is_empty(), "{:?}", plugins.failures());
    let mut providers = Providers::none();
    providers.add_plugins(&plugins);
    providers
}

/// Who executes: our cpu provider, or the test plugin as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Via {
    Cpu,
    Plugin,
}

impl Via {
    pub(crate) const BOTH: [Self; 2] = [Self::Cpu, Self::Plugin];

    pub(crate) fn providers(self) -> Providers {
        match self {
            Self::Cpu => Providers::default(),
            Self::Plugin => only(&[&build("plugin", &[])]),
        }
    }

    /// A plan of a graph, bound to the graph's own uids.
    pub(crate) fn bound(self, graph: &GraphBuf) -> BoundPlan {
        let providers = self.providers();
        let plan = compile(graph, &providers).unwrap_or_else(|e| panic!("{self:?}: {e}"));
        bind(&plan, graph, &providers).unwrap_or_else(|e| panic!("{self:?}: {e}"))
    }
}

pub(crate) fn compile(graph: &GraphBuf, providers: &Providers) -> Result<CompiledPlan, CompileError> {
    compile_graph(&graph.view(), &Request { site: &Site::present(&Device::Cpu), policy: &Policy::DEFAULT }, providers)
}

pub(crate) fn bind(plan: &CompiledPlan, graph: &GraphBuf, providers: &Providers) -> Result<BoundPlan, ExecError> {
    Plan::open(&plan.bytes)?.bind_by_graph(&Device::Cpu, providers.loaders(), &graph.view())
}

/// What comes with the tensors of one execution. It borrows the scalars, so that they live as long as the call.
#[derive(Clone, Copy)]
pub(crate) enum Given<'s> {
    /// As a C caller gives it: a pointer under the uid.
    Raw(i64, &'s dyn Guarded),
    /// The same, said to replace a default.
    Override(i64, &'s dyn Guarded),
    /// A value, from Rust.
    Typed(i64, TensorValue),
    /// A value that replaces a default, from Rust.
    TypedOverride(i64, TensorValue),
}

/// A scalar beside a guard page, of whatever type.
pub(crate) trait Guarded {
    fn at(&self) -> *mut c_void;
}

impl<T: HostElement> Guarded for HostScalar<T> {
    fn at(&self) -> *mut c_void {
        self.pointer()
    }
}

/// A guarded scalar that holds a value of a graph.
pub(crate) fn guarded(value: TensorValue) -> Box<dyn Guarded> {
    fn put<T: HostElement + 'static>(value: T) -> Box<dyn Guarded> {
        Box::new(HostScalar::new(value).expect("two pages"))
    }
    match value {
        TensorValue::Float32(v) => put(v),
        TensorValue::Float64(v) => put(v),
        TensorValue::Int32(v) => put(v),
        TensorValue::Int64(v) => put(v),
        TensorValue::Bool(v) => put(v),
        other => {
            let dtype = other.data_type();
            let element = other.to_element(dtype).expect("an element of its own type");
            if dtype.bits() == 16 { put(u16::from_le_bytes([element[0], element[1]])) } else { put(element[0]) }
        }
    }
}

pub(crate) fn float(value: f32) -> HostScalar<f32> {
    HostScalar::new(value).expect("two pages")
}

pub(crate) fn put<'b>(pack: &mut VariantPack<'b>, given: &'b [Given<'_>]) {
    for given in given {
        match *given {
            // SAFETY: the entry's element lives as long as `given`, which the pack borrows from. It is of the type that the graph's scalar
            // has; where the uid is not a runtime scalar's, the plan does not follow the pointer.
            Given::Raw(uid, scalar) => _ = unsafe { pack.raw(uid, scalar.at()) },
            // SAFETY: as above.
            Given::Override(uid, scalar) => _ = unsafe { pack.raw_override(uid, scalar.at()) },
            Given::Typed(uid, value) => _ = pack.scalar_value(uid, value),
            Given::TypedOverride(uid, value) => _ = pack.override_value(uid, value),
        }
    }
}

/// The factor that an execution of [`graphs::scale`](crate::graphs::scale) applied.
pub(crate) fn factor(plan: &mut BoundPlan, given: &[Given<'_>]) -> Result<f32, ExecError> {
    factor_by_uids(plan, [crate::graphs::X, crate::graphs::Y], given)
}

/// [`factor`] of a plan whose packs name x and y by these uids.
pub(crate) fn factor_by_uids(plan: &mut BoundPlan, [x, y]: [i64; 2], given: &[Given<'_>]) -> Result<f32, ExecError> {
    let input = [1.0_f32, 2.0, 3.0, 4.0];
    let mut output = [f32::NAN; 4];
    let mut pack = VariantPack::new();
    pack.input(x, &input).output(y, &mut output);
    put(&mut pack, given);
    plan.execute(&pack, &mut [], Stream::Default)?;
    drop(pack);
    let first = output[0];
    assert_eq!(output, input.map(|x| x * first), "x starts with 1, so the first element is the factor");
    Ok(first)
}

/// Whether this is hipDNN's INVALID_VALUE: of our own executor, or passed on from a plugin.
pub(crate) fn is_invalid_value(error: &ExecError) -> bool {
    matches!(error, ExecError::InvalidValue { .. }) || matches!(error, ExecError::Plugin(plugin) if plugin.is_invalid_value())
}

/// Executes with the harness's inputs, host scalars as raw entries in guarded pages; defaults are not passed.
pub(crate) fn execute(plan: &mut BoundPlan, inputs: &Inputs, outputs: &mut Outputs) -> Result<(), ExecError> {
    execute_with(plan, inputs, outputs, &[])
}

/// [`execute`], with more entries.
fn execute_with(plan: &mut BoundPlan, inputs: &Inputs, outputs: &mut Outputs, more: &[Given<'_>]) -> Result<(), ExecError> {
    let scalars: Vec<_> = inputs.scalars().iter().filter(|s| !s.is_default).map(|s| (s.uid.0, guarded(s.value))).collect();
    let mut given: Vec<_> = scalars.iter().map(|(uid, scalar)| Given::Raw(*uid, &**scalar)).collect();
    given.extend(more);
    let mut workspace = Workspace::new(plan.workspace_size()).expect("memory");
    let mut pack = VariantPack::new();
    for input in inputs.tensors() {
        pack.input(input.uid.0, input.tensor.bytes());
    }
    for output in outputs.tensors_mut() {
        pack.output(output.uid.0, output.tensor.bytes_mut());
    }
    put(&mut pack, &given);
    plan.execute(&pack, workspace.as_mut_slice(), Stream::Default)
}

/// Judges an execution by the reference, and returns the bytes of the outputs too.
pub(crate) fn checked(plan: &mut BoundPlan, graph: &GraphBuf, inputs: &Inputs) -> (CheckReport, Vec<Vec<u8>>) {
    let mut bytes = Vec::new();
    let report = check_with(&graph.view(), inputs, &mut |inputs, outputs| {
        execute(plan, inputs, outputs)?;
        bytes = outputs.tensors().iter().map(|o| o.tensor.bytes().to_vec()).collect();
        Ok::<(), ExecError>(())
    });
    (report.unwrap_or_else(|e| panic!("{e}")), bytes)
}

/// The bytes of the outputs of an execution with more entries than the harness has.
pub(crate) fn outputs_with(plan: &mut BoundPlan, graph: &GraphBuf, inputs: &Inputs, more: &[Given<'_>]) -> Vec<Vec<u8>> {
    let mut bytes = Vec::new();
    let report = check_with(&graph.view(), inputs, &mut |inputs, outputs| {
        execute_with(plan, inputs, outputs, more)?;
        bytes = outputs.tensors().iter().map(|o| o.tensor.bytes().to_vec()).collect();
        Ok::<(), ExecError>(())
    });
    // What the reference expects is the harness's own values.
    report.unwrap_or_else(|e| panic!("{e}"));
    bytes
}

/// Inputs whose numbers are small integers, so that sums of products are exact in every order.
pub(crate) fn integers(graph: &GraphBuf) -> Inputs {
    let mut inputs = Inputs::generate(&graph.view(), 3).expect("inputs");
    for (k, input) in inputs.tensors_mut().iter_mut().enumerate() {
        let values: Vec<f64> = (0..input.tensor.elements()).map(|i| ((i * 5 + k * 3) % 7) as f64 - 3.0).collect();
        input.tensor.fill(&values).expect("as many values as elements");
    }
    inputs
}
