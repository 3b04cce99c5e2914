//! Opening, binding and executing a plan.

use crate::agreement;
use crate::arguments::ArgumentTable;
use crate::device::WORKSPACE_ALIGN;
use crate::{Device, ExecError, Executable, Loaders, Stream, VariantPack};
use hipplan_serialize::plan::{PayloadView, PlanView};
use hipplan_serialize::{GraphKey, PlanKey, VerifiedGraph};

/// A checked plan over borrowed bytes.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    view: PlanView<'a>,
}

impl<'a> Plan<'a> {
    /// Checks a plan file: header, section table and metadata. The payload is checked when the plan is bound.
    ///
    /// # Errors
    /// The first thing that is wrong with the file.
    pub fn open(file: &'a [u8]) -> Result<Self, ExecError> {
        Ok(Self { view: PlanView::open(file)? })
    }

    /// A plan that has been opened already.
    pub fn new(view: PlanView<'a>) -> Self {
        Self { view }
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
    /// The payload is refused: damaged, of a kind or version that no loader accepts, or in disagreement with the bindings.
    pub fn bind_by_key(&self, device: &Device, loaders: &Loaders) -> Result<BoundPlan, ExecError> {
        self.bind(device, loaders, |_| Ok(()), |_| None)
    }

    /// Loads the plan on a device; packs will name tensors by the uids of `graph`, and messages by its names.
    ///
    /// # Errors
    /// As [`bind_by_key`](Self::bind_by_key), and when the plan executes another graph. The canonical encodings are compared in
    /// full: keys alone are not trusted.
    pub fn bind_by_graph(&self, device: &Device, loaders: &Loaders, graph: &VerifiedGraph<'_>) -> Result<BoundPlan, ExecError> {
        let canonical = graph.canonical()?;
        if canonical.key != self.graph_key() {
            return Err(ExecError::OtherGraph { plan: self.graph_key().to_string(), graph: canonical.key.to_string() });
        }
        if canonical.encoding != self.view.canonical()? {
            return Err(ExecError::KeyCollision(canonical.key.to_string()));
        }
        let agrees = |payload: &PayloadView<'_>| agreement::check(self.view.meta(), payload, graph, &canonical.uids);
        self.bind(device, loaders, agrees, |ordinal| {
            let uid = *canonical.uids.get(ordinal as usize)?;
            let tensor = graph.tensor(graph.find(uid)?);
            Some((uid.0, tensor.name.to_owned()))
        })
    }

    /// `agrees` looks at the payload once a loader has accepted its kind and version; `name` gives the caller's uid and name of a
    /// tensor by its canonical ordinal.
    fn bind(
        &self,
        device: &Device,
        loaders: &Loaders,
        agrees: impl FnOnce(&PayloadView<'_>) -> Result<(), ExecError>,
        name: impl FnMut(u32) -> Option<(i64, String)>,
    ) -> Result<BoundPlan, ExecError> {
        let meta = self.view.meta();
        let target = meta.target.as_str();
        if !device.targets().iter().any(|t| t.to_string() == target) {
            let device = device.targets().iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ");
            return Err(ExecError::Target { plan: target.to_owned(), device });
        }
        let (loader, payload) = loaders.loader_of(&self.view)?;
        self.view.check_runtime_set(&payload)?;
        agrees(&payload)?;
        let table = ArgumentTable::new(meta, &payload, name)?;
        let executable = loader.load(&self.view, &payload, device)?;
        Ok(BoundPlan { table, executable, workspace_size: meta.workspace_size.to_native(), key: self.key() })
    }
}

/// A plan that is ready to execute. It owns all that it needs; the file may go.
///
/// Executing takes `&mut self`: the arguments are filled in place and scratch memory is reused. Bind once per thread.
pub struct BoundPlan {
    table: ArgumentTable,
    executable: Box<dyn Executable>,
    workspace_size: u64,
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

    /// Bytes from the first element of a tensor to its last, for a uid that packs may name.
    pub fn span_bytes(&self, uid: i64) -> Option<u64> {
        self.table.span_bytes(uid)
    }

    /// Executes once. On the CPU device it has finished when this returns; it allocates nothing.
    ///
    /// `workspace` holds at least [`workspace_size`](Self::workspace_size) bytes and starts at a multiple of [`WORKSPACE_ALIGN`].
    ///
    /// # Errors
    /// [`ExecError::InvalidValue`] for a missing or unusable entry of the pack, before anything is computed; a workspace that is
    /// too small or badly aligned.
    pub fn execute(&mut self, pack: &VariantPack<'_>, workspace: &mut [u8], stream: Stream) -> Result<(), ExecError> {
        if (workspace.len() as u64) < self.workspace_size {
            return Err(ExecError::WorkspaceSize { found: workspace.len() as u64, expected: self.workspace_size });
        }
        if self.workspace_size > 0 && !(workspace.as_ptr() as usize).is_multiple_of(WORKSPACE_ALIGN) {
            return Err(ExecError::WorkspaceAlignment { expected: WORKSPACE_ALIGN as u64 });
        }
        let result = self.table.fill(pack).and_then(|()| self.executable.execute(&self.table.arguments(), workspace, stream));
        self.table.clear();
        result
    }
}
