//! Problems compiled, restored, executed and checked, one after the other.

use crate::problems::{Kind, Problem};
use hipplan_exec::hip::{DeviceMemory, HipDevice};
use hipplan_exec::reference::{Inputs, Outputs, check};
use hipplan_exec::{BoundPlan, Device, ExecError, Plan, Restore, Stream, VariantPack, Workspace, describe_misses, find_by_graph_key};
use hipplan_planner::{CompileError, Ensured, Providers, Request, Site, ensure_plan};
use hipplan_serialize::{Digest, Policy, VerifiedGraph};
use hipplan_store::Store;
use std::collections::BTreeSet;
use std::ffi::c_void;
use std::fmt;

/// What came of a problem.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Right: the worst error of an element by its tolerance.
    Passed(f64),
    /// Executed, and wrong: the report.
    Wrong(String),
    /// No provider takes the graph, and why.
    Refused(String),
    /// Something failed on the way.
    Failed(String),
}

/// One problem's row.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The problem's name.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
    /// Its multiply-adds.
    pub macs: u64,
    /// Code objects of its plan, each of one kernel.
    pub code_objects: Vec<Digest>,
    /// What came of it.
    pub outcome: Outcome,
}

impl Row {
    /// Right.
    pub fn passed(&self) -> bool {
        matches!(self.outcome, Outcome::Passed(_))
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.name)?;
        match &self.outcome {
            Outcome::Passed(ratio) => write!(f, "right, {ratio:.3} of the tolerance"),
            Outcome::Wrong(report) => write!(f, "WRONG: {report}"),
            Outcome::Refused(reason) => write!(f, "refused: {reason}"),
            Outcome::Failed(reason) => write!(f, "FAILED: {reason}"),
        }
    }
}

/// Rows of a kind, counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Count {
    /// All of them.
    pub problems: usize,
    /// Those that are right.
    pub passed: usize,
    /// Those that no provider takes.
    pub refused: usize,
    /// Different kernels.
    pub kernels: usize,
}

/// Counts the rows of a kind.
pub fn count(rows: &[Row], kind: Kind) -> Count {
    let of_kind = || rows.iter().filter(|row| row.kind == kind);
    let kernels: BTreeSet<_> = of_kind().flat_map(|row| row.code_objects.iter().map(|d| d.hash.to_string())).collect();
    Count {
        problems: of_kind().count(),
        passed: of_kind().filter(|row| row.passed()).count(),
        refused: of_kind().filter(|row| matches!(row.outcome, Outcome::Refused(_))).count(),
        kernels: kernels.len(),
    }
}

/// Where problems are executed.
#[derive(Clone, Copy, Debug)]
pub struct Sweep<'a> {
    /// The device.
    pub device: &'a Device,
    /// Compilers and loaders.
    pub providers: &'a Providers,
    /// Keeps the plans.
    pub store: &'a Store,
}

impl Sweep<'_> {
    /// Compiles a problem into the store, unless it is there, restores it by its graph, executes it with inputs that its name decides, and
    /// checks what it wrote.
    ///
    /// On a HIP device, outputs and workspace are full of poison before, and runtime scalars are overwritten right after `execute` has
    /// returned, before the stream is waited for.
    pub fn run(&self, problem: &Problem) -> Row {
        let graph = problem.graph.view();
        let mut code_objects = Vec::new();
        let outcome = self.outcome(problem, &graph, &mut code_objects);
        Row { name: problem.name.clone(), kind: problem.kind, macs: problem.macs, code_objects, outcome }
    }

    /// Makes sure that the store holds a problem's plan.
    ///
    /// # Errors
    /// As of [`ensure_plan`].
    pub fn compile(&self, problem: &Problem) -> Result<Ensured, CompileError> {
        let request = Request { site: &Site::present(self.device), policy: &Policy::DEFAULT };
        ensure_plan(self.store, &problem.graph.view().canonical()?, &request, self.providers)
    }

    fn outcome(&self, problem: &Problem, graph: &VerifiedGraph<'_>, code_objects: &mut Vec<Digest>) -> Outcome {
        match self.compile(problem) {
            Ok(Ensured::NotStored { reason, .. }) => return Outcome::Failed(format!("not stored: {reason}")),
            Ok(_) => {}
            Err(e @ CompileError::NoApplicableEngines { .. }) => return Outcome::Refused(e.to_string()),
            Err(e) => return Outcome::Failed(e.to_string()),
        }
        let mut plan = match self.restore(graph, code_objects) {
            Ok(plan) => plan,
            Err(reason) => return Outcome::Failed(reason),
        };
        // The same numbers on every machine and in every run.
        let seed = blake3::hash(problem.name.as_bytes()).as_bytes().iter().take(8).fold(0, |seed, &b| seed << 8 | u64::from(b));
        let checked = match self.device {
            Device::Hip(device) => check(graph, seed, &mut |inputs, outputs| execute_on(device, &mut plan, inputs, outputs)),
            _ => check(graph, seed, &mut |inputs, outputs| execute_here(&mut plan, inputs, outputs)),
        };
        match checked {
            Ok(report) if report.passed() => Outcome::Passed(report.worst_bound_ratio()),
            Ok(report) => Outcome::Wrong(report.to_string()),
            Err(e) => Outcome::Failed(e.to_string()),
        }
    }

    fn restore(&self, graph: &VerifiedGraph<'_>, code_objects: &mut Vec<Digest>) -> Result<BoundPlan, String> {
        let key = graph.canonical().map_err(|e| e.to_string())?.key;
        let found = find_by_graph_key(self.store, &key, self.device, self.providers.loaders(), &Policy::DEFAULT);
        let bytes = match found {
            Restore::Found(bytes) => bytes,
            Restore::Missed(misses) => return Err(format!("not restored: {}", describe_misses(&misses))),
        };
        code_objects.extend(bytes.code_objects());
        let plan = Plan::new(bytes.view()).with_code_objects(self.store);
        plan.bind_by_graph(self.device, self.providers.loaders(), graph).map_err(|e| format!("not bound: {e}"))
    }
}

fn execute_here(plan: &mut BoundPlan, inputs: &Inputs, outputs: &mut Outputs) -> Result<(), ExecError> {
    let mut workspace = Workspace::new(plan.workspace_size())?;
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

/// Executes on a HIP device: copies inputs and poisoned outputs there, and outputs back.
///
/// # Errors
/// What the device or the plan reports.
pub fn execute_on(device: &HipDevice, plan: &mut BoundPlan, inputs: &Inputs, outputs: &mut Outputs) -> Result<(), ExecError> {
    let upload = |bytes: &[u8]| DeviceMemory::from_slice(device, bytes);
    let given = inputs.tensors().iter().map(|t| upload(t.tensor.bytes())).collect::<Result<Vec<_>, _>>()?;
    let mut written = outputs.tensors().iter().map(|t| upload(t.tensor.bytes())).collect::<Result<Vec<_>, _>>()?;
    let mut workspace = DeviceMemory::new(device, plan.workspace_size())?;
    workspace.fill(0xff)?;
    // As C callers pass them: addresses of memory that is theirs again when the call has returned.
    let mut scalars: Vec<[u8; 8]> = inputs.scalars().iter().map(|s| s.value.to_element(s.value.data_type()).unwrap_or_default()).collect();
    let mut pack = VariantPack::new();
    for (input, memory) in inputs.tensors().iter().zip(&given) {
        pack.device_input(input.uid.0, memory);
    }
    for (scalar, bytes) in inputs.scalars().iter().zip(&mut scalars).filter(|(s, _)| !s.is_default) {
        // SAFETY: the runtime set holds the uid, and the bytes are an element of its type that outlives the call.
        unsafe { pack.raw(scalar.uid.0, bytes.as_mut_ptr().cast::<c_void>()) };
    }
    for (output, memory) in outputs.tensors().iter().zip(&mut written) {
        pack.device_output(output.uid.0, memory);
    }
    plan.execute(&pack, &mut workspace, Stream::Default)?;
    drop(pack);
    for bytes in &mut scalars {
        // Nobody reads this any more, which the optimiser must not know.
        *std::hint::black_box(bytes) = [0xff; 8];
    }
    device.synchronize()?;
    for (output, memory) in outputs.tensors_mut().iter_mut().zip(&written) {
        memory.copy_to_host(0, output.tensor.bytes_mut())?;
    }
    Ok(())
}
