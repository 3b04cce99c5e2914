//! The executing half of a provider: payload in, executable out.

use crate::arguments::Arguments;
use crate::code_objects::NoCodeObjects;
use crate::{CodeObjects, Device, ExecError, Requirement, Stream, WorkspaceRef};
use hipplan_serialize::plan::{PayloadError, PayloadView, PlanView};
use std::ops::RangeInclusive;

/// The executing half of a provider. It needs neither a graph nor a compiler (X4).
pub trait Loader: Send + Sync {
    /// The payload kind that it loads.
    fn kind(&self) -> &'static str;

    /// The payload versions that it accepts. Staleness is this range, not a build version.
    fn versions(&self) -> RangeInclusive<u32>;

    /// Whether the plan can be loaded here, beyond its kind and version: a lookup passes over a plan that is refused. Nothing is loaded.
    ///
    /// # Errors
    /// Why it cannot.
    fn accepts(&self, _plan: &PlanView<'_>, _payload: &PayloadView<'_>) -> Result<(), ExecError> {
        Ok(())
    }

    /// Whether only loading a payload tells if it is taken: the provider checks bytes of its own, of which the payload's version says nothing.
    fn judges_payload(&self) -> bool {
        false
    }

    /// Makes a payload executable on a device. Kind and version have been accepted, the runtime set agrees with the bindings, and the
    /// plan's target loads on the device.
    ///
    /// # Errors
    /// The payload is damaged or asks for what the device cannot do, or a code object that it names cannot be had.
    fn load(
        &self,
        plan: &PlanView<'_>,
        payload: &PayloadView<'_>,
        device: &Device,
        code_objects: &dyn CodeObjects,
    ) -> Result<Box<dyn Executable>, ExecError>;
}

/// A loaded plan.
pub trait Executable: Send {
    /// Executes once, or puts an execution on the stream. Called with a workspace that is the device's, large enough and aligned, and
    /// with a stream of the device.
    ///
    /// # Errors
    /// [`ExecError::InvalidValue`] for an argument that [`Arguments::find_device_buffer`] refuses, before anything is executed; what the
    /// device reports.
    fn execute(&mut self, arguments: &Arguments<'_>, workspace: WorkspaceRef<'_>, stream: Stream<'_>) -> Result<(), ExecError>;

    /// Whether executing looks at [`Arguments::shapes`]. Where it does not, an execution with other shapes than the graph's is refused
    /// before it begins: buffers may be smaller then than the graph says.
    fn takes_shapes(&self) -> bool {
        false
    }

    /// What it was made for, which binding holds against the plan and the device. `None` where it was made of the plan itself, as a loader
    /// does: then it is bound by its loader only, never by [`Plan::bind_prepared`](crate::Plan::bind_prepared).
    fn requires(&self) -> Option<Requirement> {
        None
    }
}

/// The loaders that a process has, by payload kind.
pub struct Loaders(Vec<Box<dyn Loader>>);

impl std::fmt::Debug for Loaders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|l| l.kind())).finish()
    }
}

impl Default for Loaders {
    /// The loaders of the providers that are built in.
    fn default() -> Self {
        // That of plugins has none yet, and says so of a plan that needs one.
        Self(vec![Box::new(crate::CpuLoader), Box::new(crate::hip::HipLoader), Box::new(crate::plugin::PluginLoader::default())])
    }
}

impl Loaders {
    /// No loader.
    pub fn none() -> Self {
        Self(Vec::new())
    }

    /// Adds a loader; it is asked before those that were there. Those of the same kind are asked for what it refuses.
    pub fn add(&mut self, loader: Box<dyn Loader>) {
        self.0.insert(0, loader);
    }

    /// Whether some loader accepts the plan's payload: by its kind and version, and by what the loader itself asks of it.
    ///
    /// # Errors
    /// No loader does, or the payload's head is damaged.
    pub fn accept(&self, plan: &PlanView<'_>) -> Result<(), ExecError> {
        self.loader_of(plan).map(|_| ())
    }

    /// [`accept`](Self::accept), and where only loading tells, whether it can be loaded on the device, if there is one.
    ///
    /// # Errors
    /// As of [`accept`](Self::accept), or what loading reports.
    pub fn accept_on(&self, plan: &PlanView<'_>, device: Option<&Device>) -> Result<(), ExecError> {
        let (loader, payload) = self.loader_of(plan)?;
        if let Some(device) = device.filter(|_| loader.judges_payload()) {
            loader.load(plan, &payload, device, &NoCodeObjects)?;
        }
        Ok(())
    }

    /// The first loader that takes a plan's payload, and the payload behind its version check. Two loaders of one kind are both asked; what
    /// the first of them says is the reason.
    pub(crate) fn loader_of<'p>(&self, plan: &PlanView<'p>) -> Result<(&dyn Loader, PayloadView<'p>), ExecError> {
        let head = plan.payload()?;
        let mut reason = None;
        for loader in self.0.iter().filter(|loader| loader.kind() == head.kind()) {
            let versions = loader.versions();
            let payload = head.accept(loader.kind(), *versions.start(), *versions.end()).map_err(ExecError::from);
            match payload.and_then(|payload| loader.accepts(plan, &payload).map(|()| payload)) {
                Ok(payload) => return Ok((&**loader, payload)),
                Err(error) => _ = reason.get_or_insert(error),
            }
        }
        Err(reason.unwrap_or_else(|| PayloadError::UnknownKind { found: head.kind().to_owned(), expected: self.kinds() }.into()))
    }

    fn kinds(&self) -> String {
        self.0.iter().map(|l| l.kind()).collect::<Vec<_>>().join(", ")
    }
}
