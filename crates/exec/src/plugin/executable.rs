//! A context that a bound plan executes.

use super::call::RawOverrides;
use super::context::PluginContext;
use super::handle::PluginStream;
use crate::arguments::Arguments;
use crate::{ExecError, Executable, Requirement, ShapeOverrides, Stream, WorkspaceRef};
use hipplan_engine_abi::types::DeviceBuffer;

/// A context, and room for the arguments of an execution.
///
/// A plugin on a HIP device puts its work on the stream and may return before it is done; that a scalar has been read by then is its duty
/// (R16 §4.6), because the pointer is good for the call only. The pack is forwarded whole (R16 §4.9): what is missing, and what is inert, is for
/// the plugin to find.
pub(super) struct PluginExecutable {
    context: PluginContext,
    /// Empty between executions.
    buffers: Vec<DeviceBuffer>,
    overrides: Overrides,
}

// SAFETY: what a pointer in `buffers` or `overrides` leads to is used during the execution alone that put it there, which takes the executable
// exclusively; one that is left by a panic is forgotten by the next. The context may be sent by itself.
unsafe impl Send for PluginExecutable {}

/// Execute-time shapes as the ABI takes them; empty between executions.
#[derive(Default)]
struct Overrides {
    uids: Vec<i64>,
    lengths: Vec<u32>,
    shapes: Vec<*const i64>,
    strides: Vec<*const i64>,
}

impl Overrides {
    fn clear(&mut self) {
        self.uids.clear();
        self.lengths.clear();
        self.shapes.clear();
        self.strides.clear();
    }

    /// The arrays, whose pointers are into `shapes`.
    fn fill<'o>(&'o mut self, shapes: &'o ShapeOverrides) -> RawOverrides<'o> {
        self.clear();
        for shape in shapes.iter() {
            self.uids.push(i64::from(shape.ordinal));
            // The shape has been held against the graph's: it has the declared rank, of at most 255, and as many strides.
            self.lengths.push(shape.dims.len() as u32);
            self.shapes.push(shape.dims.as_ptr());
            self.strides.push(shape.strides.as_ptr());
        }
        RawOverrides { uids: &self.uids, lengths: &self.lengths, shapes: &self.shapes, strides: &self.strides }
    }
}

impl PluginExecutable {
    pub(super) fn new(context: PluginContext, tensors: usize) -> Self {
        Self { context, buffers: Vec::with_capacity(tensors), overrides: Overrides::default() }
    }

    fn clear(&mut self) {
        self.buffers.clear();
        self.overrides.clear();
    }

    fn run(&mut self, arguments: &Arguments<'_>, workspace: WorkspaceRef<'_>, stream: Stream<'_>) -> Result<(), ExecError> {
        // Something is left where an execution has panicked.
        self.clear();
        for forwarded in arguments.forwarded() {
            let (ordinal, ptr) = forwarded?;
            self.buffers.push(DeviceBuffer { uid: i64::from(ordinal), ptr });
        }
        // Where none is needed, what the caller gave need not be the device's.
        let workspace = if self.context.workspace_size() == 0 { std::ptr::null_mut() } else { workspace.as_ptr().cast() };
        let (buffers, shapes) = (self.buffers.as_slice(), arguments.shapes());
        let overrides = (!shapes.is_empty()).then(|| self.overrides.fill(shapes));
        self.context.with_handle(PluginStream::of(stream), |library, handle, context| {
            // SAFETY (both): handle and context are of one plugin. `Arguments` has seen to it that buffers of device tensors are the device's,
            // as large and aligned as their bindings, or shapes in this execution, ask for, and writable where they are outputs, and that
            // pointers to scalars which the plugin reads lead to an element of their type (or the caller of `VariantPack::raw` promised all
            // that). The bindings are those of the graph that the plugin has compiled, on the device that it has compiled it for: binding has
            // held `requires` against the plan. Of a restored plan that is believed, as that it computes what its graph says.
            // `BoundPlan::execute` has checked the workspace against the plan's size, which the context's does not exceed, by `requires`.
            match overrides {
                // SAFETY: as said above.
                None => unsafe { library.execute(handle, context, workspace, buffers) },
                // SAFETY: as said above; `fill` makes arrays of one length, whose pointers lead to as many numbers as the ranks say.
                Some(overrides) => unsafe { library.execute_with_overrides(handle, context, workspace, buffers, overrides) },
            }
        })?;
        Ok(())
    }
}

impl Executable for PluginExecutable {
    fn execute(&mut self, arguments: &Arguments<'_>, workspace: WorkspaceRef<'_>, stream: Stream<'_>) -> Result<(), ExecError> {
        let result = self.run(arguments, workspace, stream);
        self.clear();
        result
    }

    fn takes_shapes(&self) -> bool {
        self.context.plugin().executes_overrides()
    }

    fn requires(&self) -> Option<Requirement> {
        Some(self.context.requirement())
    }
}
