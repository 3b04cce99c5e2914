//! Opening, binding and executing a plan.

use crate::agreement;
use crate::argument_table::ArgumentTable;
use crate::arguments::Arguments;
use crate::code_objects::NoCodeObjects;
use crate::memory_space::SpaceKey;
use crate::shapes;
use crate::{CodeObjects, Device, ExecError, Executable, Loaders, MemorySpace, Stream, VariantPack, WorkspaceRef};
use hipplan_serialize::plan::{PayloadView, PlanView};
use hipplan_serialize::{Canonical, GraphKey, PlanKey, Target, VerifiedGraph};

/// A checked plan over borrowed bytes.
#[derive(Clone, Copy)]
pub struct Plan<'a> {
    view: PlanView<'a>,
    code_objects: &'a dyn CodeObjects,
}

impl std::fmt::Debug for Plan<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plan").field("view", &self.view).finish_non_exhaustive()
    }
}

impl<'a> Plan<'a> {
    /// Checks a plan file: header, section table and metadata. The payload is checked when the plan is bound.
    ///
    /// # Errors
    /// The first thing that is wrong with the file.
    pub fn open(file: &'a [u8]) -> Result<Self, ExecError> {
        Ok(Self::new(PlanView::open(file)?))
    }

    /// A plan that has been opened already.
    pub fn new(view: PlanView<'a>) -> Self {
        Self { view, code_objects: &NoCodeObjects }
    }

    /// The same plan, and where the code objects are that it names: the store that it comes from. Plans of the CPU name none.
    #[must_use]
    pub fn with_code_objects(self, code_objects: &'a dyn CodeObjects) -> Self {
        Self { code_objects, ..self }
    }

    /// The file.
    pub fn view(&self) -> PlanView<'a> {
        self.view
    }

    /// The plan's key.
    pub fn key(&self) -> PlanKey {
        self.view.meta().plan_key()
    }

    /// The key of the graph that it executes.
    pub fn graph_key(&self) -> GraphKey {
        self.view.meta().graph_key()
    }

    /// Loads the plan on a device; packs will name tensors by canonical ordinal.
    ///
    /// # Errors
    /// The payload is refused: damaged, of a kind or version that no loader accepts, or in disagreement with the bindings; a code object
    /// cannot be had or loaded.
    pub fn bind_by_key(&self, device: &Device, loaders: &Loaders) -> Result<BoundPlan, ExecError> {
        self.bind(device, loaders, |_| Ok(()), |_| None)
    }

    /// Loads the plan on a device; packs will name tensors by the uids of `graph`, and messages by its names.
    ///
    /// # Errors
    /// As [`bind_by_key`](Self::bind_by_key), and when the plan executes another graph. The canonical encodings are compared in
    /// full: keys alone are not trusted.
    pub fn bind_by_graph(&self, device: &Device, loaders: &Loaders, graph: &VerifiedGraph<'_>) -> Result<BoundPlan, ExecError> {
        let canonical = self.canonical_of(graph)?;
        let agrees = |payload: &PayloadView<'_>| agreement::check(self.view.meta(), payload, graph, &canonical.uids);
        self.bind(device, loaders, agrees, |ordinal| named(graph, &canonical, ordinal))
    }

    /// Loads the plan on a device; packs will name tensors by the caller's uids, which are given by canonical ordinal. They are what a caller
    /// kept of the graph ([`Canonical::uids`](hipplan_serialize::Canonical::uids)) when it is gone.
    ///
    /// # Errors
    /// As [`bind_by_key`](Self::bind_by_key), and when a tensor that packs may name has no uid, or two have the same.
    pub fn bind_by_uids(&self, device: &Device, loaders: &Loaders, uids: &[i64]) -> Result<BoundPlan, ExecError> {
        self.check_uids(uids)?;
        self.bind(device, loaders, |_| Ok(()), |ordinal| Some((*uids.get(ordinal as usize)?, String::new())))
    }

    /// A plan that cannot be loaded, because its provider cannot persist it, and what it was compiled into in this process. Packs will name
    /// tensors by the uids of `graph`, and messages by its names.
    ///
    /// # Errors
    /// As [`bind_by_graph`](Self::bind_by_graph), but that no loader is asked; and when the executable was compiled for another graph or
    /// device, for more workspace than the plan has, or [does not say](Executable::requires) for what.
    pub fn bind_prepared(
        &self,
        device: &Device,
        graph: &VerifiedGraph<'_>,
        executable: Box<dyn Executable>,
    ) -> Result<BoundPlan, ExecError> {
        if executable.requires().is_none() {
            return Err(ExecError::MadeForUnknown);
        }
        let canonical = self.canonical_of(graph)?;
        check_target(self.view.meta().target.as_str(), device)?;
        let payload = self.view.payload()?.read_tables()?;
        self.view.check_runtime_set(&payload)?;
        agreement::check(self.view.meta(), &payload, graph, &canonical.uids)?;
        let name = |ordinal| named(graph, &canonical, ordinal);
        let table = ArgumentTable::new(self.view.meta(), &payload, device.memory_space(), name)?;
        self.bound(device, &payload, table, executable, &name)
    }

    /// The canonical form of a graph that is the plan's.
    fn canonical_of(&self, graph: &VerifiedGraph<'_>) -> Result<Canonical, ExecError> {
        let canonical = graph.canonical()?;
        if canonical.key != self.graph_key() {
            return Err(ExecError::OtherGraph { plan: self.graph_key().to_string(), graph: canonical.key.to_string() });
        }
        if canonical.encoding != self.view.canonical()? {
            return Err(ExecError::KeyCollision(canonical.key.to_string()));
        }
        Ok(canonical)
    }

    /// Every tensor that packs may name has a uid, and one of its own.
    fn check_uids(&self, uids: &[i64]) -> Result<(), ExecError> {
        let bindings = &self.view.meta().bindings;
        let mut given = Vec::with_capacity(bindings.len());
        for binding in bindings.iter() {
            let ordinal = binding.ordinal.to_native();
            let Some(&uid) = uids.get(ordinal as usize) else { return Err(ExecError::UidsMissing { found: uids.len(), ordinal }) };
            given.push((uid, ordinal));
        }
        given.sort_unstable();
        match given.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            Some(pair) => Err(ExecError::UidTwice { uid: pair[0].0, first: pair[0].1, second: pair[1].1 }),
            None => Ok(()),
        }
    }

    /// `agrees` looks at the payload once a loader has accepted its kind and version; `name` gives the caller's uid and name of a
    /// tensor by its canonical ordinal.
    fn bind(
        &self,
        device: &Device,
        loaders: &Loaders,
        agrees: impl FnOnce(&PayloadView<'_>) -> Result<(), ExecError>,
        name: impl Fn(u32) -> Option<(i64, String)>,
    ) -> Result<BoundPlan, ExecError> {
        let meta = self.view.meta();
        check_target(meta.target.as_str(), device)?;
        let (loader, payload) = loaders.loader_of(&self.view)?;
        self.view.check_runtime_set(&payload)?;
        agrees(&payload)?;
        let table = ArgumentTable::new(meta, &payload, device.memory_space(), &name)?;
        let executable = loader.load(&self.view, &payload, device, self.code_objects)?;
        self.bound(device, &payload, table, executable, &name)
    }

    fn bound(
        &self,
        device: &Device,
        payload: &PayloadView<'_>,
        mut table: ArgumentTable,
        executable: Box<dyn Executable>,
        name: &dyn Fn(u32) -> Option<(i64, String)>,
    ) -> Result<BoundPlan, ExecError> {
        let workspace_size = self.view.meta().workspace_size.to_native();
        if let Some(requirement) = executable.requires() {
            requirement.check(self.graph_key(), device.memory_space(), workspace_size)?;
        }
        table.set_shapes(shapes::of_plan(&self.view, payload, executable.takes_shapes(), name)?);
        Ok(BoundPlan { table, executable, workspace_size, space: SpaceKey::of(device.memory_space()), key: self.key() })
    }
}

/// The caller's uid and name of the tensor with this canonical ordinal.
fn named(graph: &VerifiedGraph<'_>, canonical: &Canonical, ordinal: u32) -> Option<(i64, String)> {
    let uid = *canonical.uids.get(ordinal as usize)?;
    let tensor = graph.tensor(graph.find(uid)?);
    Some((uid.0, tensor.name.to_owned()))
}

/// Whether code for a plan's target runs on the device. That may be a target that no lookup by graph tries, such as one that states one of
/// two features.
fn check_target(plan: &str, device: &Device) -> Result<(), ExecError> {
    let refuse = |reason| ExecError::Target { plan: plan.to_owned(), device: device.target().to_string(), reason };
    let target = plan.parse::<Target>().map_err(|e| refuse(e.reason))?;
    target.loads_on(device.target()).map_err(|e| refuse(e.to_string()))
}

/// A plan that is ready to execute. It owns all that it needs; the file may go.
///
/// Executing takes `&mut self`: the arguments are filled in place and scratch memory is reused. Bind once per thread.
pub struct BoundPlan {
    table: ArgumentTable,
    executable: Box<dyn Executable>,
    workspace_size: u64,
    space: SpaceKey,
    key: PlanKey,
}

impl std::fmt::Debug for BoundPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BoundPlan").field("key", &self.key).field("workspace_size", &self.workspace_size).finish_non_exhaustive()
    }
}

impl BoundPlan {
    /// The plan's key.
    pub fn key(&self) -> PlanKey {
        self.key
    }

    /// Bytes of workspace that [`execute`](Self::execute) needs.
    pub fn workspace_size(&self) -> u64 {
        self.workspace_size
    }

    /// Whose memory buffers and workspace must be.
    pub fn memory_space(&self) -> MemorySpace {
        self.space.space()
    }

    /// Bytes from the first element of a tensor to its last, for a uid that packs may name.
    pub fn span_bytes(&self, uid: i64) -> Option<u64> {
        self.table.span_bytes(uid)
    }

    /// Executes once, and allocates nothing. On the CPU device it has finished when this returns. On a HIP device it is put on the stream:
    /// scalars have been read when this returns, but the buffers of the pack and the workspace are in use until the stream has come so far.
    /// Results are there then, and not before.
    ///
    /// Borrows end when this returns, so nothing but the order of the streams keeps apart what uses the same memory. On one stream
    /// executions follow one another and may share a workspace. Two streams need a workspace each, or an event that one waits for
    /// ([`HipStream::wait`](crate::hip::HipStream::wait)): in one workspace at once they overwrite each other's tensors, and both give wrong
    /// results without an error. The same holds of an output of one that the other reads. On the CPU device there is none of that.
    ///
    /// `workspace` is memory of the plan's device: a [`Workspace`](crate::Workspace) or a slice on the CPU, a
    /// [`DeviceMemory`](crate::hip::DeviceMemory) on a HIP device. It holds at least [`workspace_size`](Self::workspace_size) bytes and
    /// starts at a multiple of [`WorkspaceRef::align`]; a plan that needs none takes `&mut []` on every device.
    ///
    /// # Errors
    /// [`ExecError::InvalidValue`] for a missing or unusable entry of the pack, and [`ExecError::Shape`] for shapes that the plan's graph
    /// does not take, before anything is computed; a workspace or stream that
    /// is another device's, or a workspace that is too small or badly aligned; what the device reports.
    pub fn execute<'w>(
        &mut self,
        pack: &VariantPack<'_>,
        workspace: impl Into<WorkspaceRef<'w>>,
        stream: Stream<'_>,
    ) -> Result<(), ExecError> {
        self.execute_in(pack, workspace.into(), stream)
    }

    fn execute_in(&mut self, pack: &VariantPack<'_>, workspace: WorkspaceRef<'_>, stream: Stream<'_>) -> Result<(), ExecError> {
        if self.workspace_size > 0 {
            workspace.check(self.workspace_size, self.space.space())?;
        }
        stream.check(self.space)?;
        self.table.fill(pack)?;
        self.executable.execute(&Arguments::new(&self.table, pack), workspace, stream)
    }
}
