//! The executing half of a provider: payload in, executable out.

use crate::arguments::Arguments;
use crate::{Device, ExecError, Stream};
use hipplan_serialize::plan::{PayloadError, PayloadView, PlanView};
use std::ops::RangeInclusive;

/// The executing half of a provider. It needs neither a graph nor a compiler (X4).
pub trait Loader: Send + Sync {
    /// The payload kind that it loads.
    fn kind(&self) -> &'static str;

    /// The payload versions that it accepts. Staleness is this range, not a build version.
    fn versions(&self) -> RangeInclusive<u32>;

    /// Makes a payload executable on a device. Kind and version have been accepted, and the runtime set agrees with the bindings.
    ///
    /// # Errors
    /// The payload is damaged or asks for what the device cannot do.
    fn load(&self, plan: &PlanView<'_>, payload: &PayloadView<'_>, device: &Device) -> Result<Box<dyn Executable>, ExecError>;
}

/// A loaded plan.
pub trait Executable: Send {
    /// Executes once. Called with a workspace that is large enough and aligned.
    ///
    /// # Errors
    /// [`ExecError::InvalidValue`] for an argument that [`Arguments::find_device_buffer`] refuses.
    fn execute(&mut self, arguments: &Arguments<'_>, workspace: &mut [u8], stream: Stream) -> Result<(), ExecError>;
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
        Self(vec![Box::new(crate::CpuLoader)])
    }
}

impl Loaders {
    /// Adds a loader; it is asked before those that were there.
    pub fn add(&mut self, loader: Box<dyn Loader>) {
        self.0.insert(0, loader);
    }

    /// Whether some loader accepts the plan's payload, by its kind and version.
    ///
    /// # Errors
    /// No loader does, or the payload's head is damaged.
    pub fn accept(&self, plan: &PlanView<'_>) -> Result<(), ExecError> {
        self.loader_of(plan).map(|_| ())
    }

    /// The loader of a plan's payload, and the payload behind its version check.
    pub(crate) fn loader_of<'p>(&self, plan: &PlanView<'p>) -> Result<(&dyn Loader, PayloadView<'p>), ExecError> {
        let head = plan.payload()?;
        let Some(loader) = self.find(head.kind()) else {
            return Err(PayloadError::UnknownKind { found: head.kind().to_owned(), expected: self.kinds() }.into());
        };
        let versions = loader.versions();
        Ok((loader, head.accept(loader.kind(), *versions.start(), *versions.end())?))
    }

    fn find(&self, kind: &str) -> Option<&dyn Loader> {
        self.0.iter().find(|l| l.kind() == kind).map(|l| &**l)
    }

    fn kinds(&self) -> String {
        self.0.iter().map(|l| l.kind()).collect::<Vec<_>>().join(", ")
    }
}
