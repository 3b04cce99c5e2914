//! A context that a bound plan executes.

use super::context::PluginContext;
use super::handle::raw_stream;
use crate::arguments::Arguments;
use crate::{ExecError, Executable, Stream, WorkspaceRef};
use hipplan_engine_abi::types::DeviceBuffer;

/// A context, and room for the buffers of an execution.
///
/// A plugin on a HIP device puts its work on the stream and may return before it is done; that a scalar has been read by then is its duty
/// (R16 §4.6), because the pointer is good for the call only. The pack is forwarded whole (R16 §4.9): what is missing, and what is inert, is for
/// the plugin to find.
pub(super) struct PluginExecutable {
    context: PluginContext,
    /// Empty between executions.
    buffers: Vec<DeviceBuffer>,
}

// SAFETY: there is no pointer in `buffers` between executions, and those take the executable exclusively.
unsafe impl Send for PluginExecutable {}

impl PluginExecutable {
    pub(super) fn new(context: PluginContext, tensors: usize) -> Self {
        Self { context, buffers: Vec::with_capacity(tensors) }
    }

    fn run(&mut self, arguments: &Arguments<'_>, workspace: WorkspaceRef<'_>, stream: Stream<'_>) -> Result<(), ExecError> {
        for forwarded in arguments.forwarded() {
            let (ordinal, ptr) = forwarded?;
            self.buffers.push(DeviceBuffer { uid: i64::from(ordinal), ptr });
        }
        // Where none is needed, what the caller gave need not be the device's.
        let workspace = if self.context.workspace_size() == 0 { std::ptr::null_mut() } else { workspace.as_ptr().cast() };
        let buffers = self.buffers.as_slice();
        self.context.with_handle(raw_stream(stream), |library, handle, context| {
            // SAFETY: handle and context are of one plugin. `Arguments` has seen to it that buffers of device tensors are the device's, as
            // large and aligned as their bindings ask for, and writable where they are outputs, and that pointers to scalars which the plugin
            // reads lead to an element of their type (or the caller of `VariantPack::raw` promised all that). The bindings are those of the
            // graph that the plugin has compiled; of a restored plan that is believed, as that it computes what its graph says.
            // `BoundPlan::execute` has checked the workspace against the plan's size, which the context's does not exceed.
            unsafe { library.execute(handle, context, workspace, buffers) }
        })?;
        Ok(())
    }
}

impl Executable for PluginExecutable {
    fn execute(&mut self, arguments: &Arguments<'_>, workspace: WorkspaceRef<'_>, stream: Stream<'_>) -> Result<(), ExecError> {
        let result = self.run(arguments, workspace, stream);
        self.buffers.clear();
        result
    }
}
