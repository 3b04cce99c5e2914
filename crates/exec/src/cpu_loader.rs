//! The executing half of the `cpu` provider.

use crate::arguments::{Arguments, BindingIx};
use crate::cpu::{self, CpuProgram, Place};
use crate::loader::{Executable, Loader};
use crate::{CodeObjects, Device, ExecError, ShapeError, ShapeOverrides, Stream, WorkspaceRef};
use hipplan_serialize::plan::{BindingKind, BindingRole, PayloadError, PayloadView, PlanView};
use std::ops::RangeInclusive;

/// Payload kind of the `cpu` provider.
pub const CPU_PAYLOAD_KIND: &str = "cpu";
/// Payload version that the `cpu` provider writes: the layout and meaning of [`CpuProgram`].
pub const CPU_PAYLOAD_VERSION: u32 = 1;

/// The executing half of the `cpu` provider: the body is a [`CpuProgram`], archived by rkyv.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuLoader;

impl Loader for CpuLoader {
    fn kind(&self) -> &'static str {
        CPU_PAYLOAD_KIND
    }

    fn versions(&self) -> RangeInclusive<u32> {
        CPU_PAYLOAD_VERSION..=CPU_PAYLOAD_VERSION
    }

    fn load(
        &self,
        plan: &PlanView<'_>,
        payload: &PayloadView<'_>,
        device: &Device,
        _: &dyn CodeObjects,
    ) -> Result<Box<dyn Executable>, ExecError> {
        let Device::Cpu = device else {
            return Err(ExecError::LoaderDevice { kind: CPU_PAYLOAD_KIND, device: device.to_string() });
        };
        let body = |reason: String| PayloadError::Body { kind: CPU_PAYLOAD_KIND.to_owned(), reason };
        let program = rkyv::from_bytes::<CpuProgram, rkyv::rancor::Error>(payload.body()).map_err(|e| body(e.to_string()))?;
        if program.workspace_size != plan.meta().workspace_size.to_native() {
            let (found, expected) = (program.workspace_size, plan.meta().workspace_size.to_native());
            return Err(body(format!("the program needs {found} bytes of workspace, the metadata says {expected}")).into());
        }
        let bound = bind_slots(plan, &program).map_err(body)?;
        let executable = cpu::Executable::prepare(&program)?;
        let bases = vec![std::ptr::null_mut(); program.tensors.len()];
        let reshaped = plan.is_override_shape_enabled().then(|| Box::new(Reshaped { program, prepared: None }));
        Ok(Box::new(CpuExecutable { executable, reshaped, bound, bases }))
    }
}

/// Which binding each external tensor and scalar of the program is, by ordinal. The caller's buffers are checked against the
/// bindings, so the program must address exactly what they describe.
fn bind_slots(plan: &PlanView<'_>, program: &CpuProgram) -> Result<Vec<(u32, BindingIx)>, String> {
    let bindings = &plan.meta().bindings;
    let mut bound = Vec::with_capacity(bindings.len());
    for (tensor, ordinal) in program.tensors.iter().zip(0_u32..) {
        if !matches!(tensor.place, Place::External | Place::Scalar) {
            continue;
        }
        let at = bindings.binary_search_by_key(&ordinal, |b| b.ordinal.to_native());
        let at = at.map_err(|_| format!("tensor {ordinal} of the program has no binding"))?;
        let b = &bindings[at];
        let same = b.dtype == tensor.dtype && b.dims.iter().eq(&tensor.dims) && b.strides.iter().eq(&tensor.strides);
        if !same {
            return Err(format!("tensor {ordinal} of the program is not the tensor that its binding describes"));
        }
        let is_device = b.kind() == BindingKind::Device;
        if is_device != matches!(tensor.place, Place::External) {
            return Err(format!("tensor {ordinal} of the program lies elsewhere than its binding says"));
        }
        bound.push((ordinal, BindingIx::new(at as u32)));
    }
    // A buffer that the caller gave to be read is never written.
    for (step, index) in program.steps.iter().zip(0..) {
        let out = bindings.binary_search_by_key(&step.out, |b| b.ordinal.to_native());
        if out.is_ok_and(|at| bindings[at].role() != BindingRole::Output) {
            return Err(format!("step {index} of the program writes tensor {}, which is an input", step.out));
        }
    }
    Ok(bound)
}

/// What a plan with execute-time shapes keeps besides.
struct Reshaped {
    /// The program with the shapes of the graph.
    program: CpuProgram,
    /// The number of the last set of overrides, and the program prepared for it.
    prepared: Option<(u64, cpu::Executable)>,
}

impl Reshaped {
    /// The program with these shapes. The last that was asked for is kept, so that asking again costs nothing.
    fn executable(&mut self, shapes: &ShapeOverrides) -> Result<&mut cpu::Executable, ShapeError> {
        let fail = |reason: String| ShapeError::Provider { provider: CPU_PAYLOAD_KIND.to_owned(), reason };
        let kept = self.prepared.take().filter(|(set, _)| *set == shapes.set());
        let (set, executable) = match kept {
            Some(kept) => kept,
            None => {
                let mut program = self.program.clone();
                let (found, expected) = (program.tensors.len(), shapes.tensors().len());
                if found != expected {
                    return Err(fail(format!("its program has {found} tensors, the graph {expected}")));
                }
                // The program's tensors are numbered as the canonical graph's.
                for (tensor, shape) in program.tensors.iter_mut().zip(shapes.tensors()) {
                    shape.dims.clone_into(&mut tensor.dims);
                    shape.strides.clone_into(&mut tensor.strides);
                }
                (shapes.set(), cpu::Executable::prepare(&program).map_err(|e| fail(e.to_string()))?)
            }
        };
        Ok(&mut self.prepared.insert((set, executable)).1)
    }
}

struct CpuExecutable {
    executable: cpu::Executable,
    /// Only of plans whose graph has opted in to execute-time shapes.
    reshaped: Option<Box<Reshaped>>,
    /// Ordinals whose base pointers come from the arguments.
    bound: Vec<(u32, BindingIx)>,
    /// Base pointers by ordinal, filled anew by each execution.
    bases: Vec<*mut u8>,
}

// SAFETY: `bases` holds no pointer between `execute` calls, and those take the executable exclusively.
unsafe impl Send for CpuExecutable {}

impl Executable for CpuExecutable {
    fn execute(&mut self, arguments: &Arguments<'_>, workspace: WorkspaceRef<'_>, _: Stream<'_>) -> Result<(), ExecError> {
        let shapes = arguments.shapes();
        let executable = match &mut self.reshaped {
            Some(reshaped) if !shapes.is_empty() => reshaped.executable(shapes)?,
            _ => &mut self.executable,
        };
        for &(ordinal, binding) in &self.bound {
            match arguments.find_device_buffer(binding) {
                Ok(base) => self.bases[ordinal as usize] = base,
                Err(error) => {
                    self.bases.fill(std::ptr::null_mut());
                    return Err(error);
                }
            }
        }
        // SAFETY: every external tensor and scalar has a base now. `bind_slots` has shown that the program addresses what the
        // bindings describe and writes only outputs; `Arguments` that buffers are as large and as aligned as their bindings ask
        // for, and writable where they are outputs, so that they are borrowed exclusively and overlap nothing (or the caller of
        // `VariantPack::raw` promised all that). With overrides, the program has been prepared, and so checked, with the shapes
        // of `Arguments::shapes`: buffers of overridden tensors were held against those, and the other tensors in memory have the
        // shapes of the graph, which `shapes::of_plan` has shown to be those of their bindings; steps, places and types are
        // the same. The workspace is as large as the program in either form asks for: preparing refuses a tensor that ends
        // beyond it. Its size and alignment were checked by `BoundPlan::execute`.
        unsafe { executable.run(&self.bases, workspace.as_ptr()) };
        self.bases.fill(std::ptr::null_mut());
        Ok(())
    }

    fn takes_shapes(&self) -> bool {
        true
    }
}
