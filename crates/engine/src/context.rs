//! An execution context: a plan that is ready to execute, and all that it takes to make another of it.

use crate::failure::Failure;
use crate::graph;
use crate::lane::{Call, Lane};
use crate::object::Kind;
use crate::payload::Payload;
use hipplan_exec::{CPU_PAYLOAD_KIND, Device, Loaders, Plan, WORKSPACE_ALIGN};
use hipplan_serialize::GraphBuf;
use std::sync::{Mutex, PoisonError};

/// Copies of the bound plan that are kept for executions at once in several threads.
const LANES: usize = 4;

/// What `hipdnnEnginePluginExecutionContext_t` is. It belongs to no handle: any may be used with it, and several threads at once may.
#[derive(Debug)]
pub(crate) struct Context {
    payload: Payload,
    /// Those that no thread uses.
    idle: Mutex<Vec<Lane>>,
    workspace_size: usize,
}

impl Kind for Context {
    const WORD: u64 = u64::from_le_bytes(*b"HPENctxt");
    const NAME: &'static str = "execution context";
}

impl Context {
    /// Compiles a graph.
    pub(crate) fn compile(graph: &GraphBuf) -> Result<Self, Failure> {
        let (plan, uids) = graph::compile(graph)?;
        let runtime = runtime_uids(&Plan::open(&plan.bytes)?, &uids)?;
        let payload = Payload::new(&uids, &runtime, &plan.bytes).map_err(|e| Failure::internal(e.to_string()))?;
        Self::new(payload)
    }

    /// Reads what [`payload`](Self::payload) gave, in whatever process. No graph and no compiler is needed.
    pub(crate) fn restore(bytes: &[u8]) -> Result<Self, Failure> {
        let payload = Payload::parse(bytes)?;
        let plan = Plan::open(payload.plan())?;
        // In full, as nothing else vouches for what a host has stored.
        plan.view().verify()?;
        let kind = plan.view().payload()?.kind();
        if kind != CPU_PAYLOAD_KIND {
            return Err(Failure::invalid(format!(
                "serialised context: its plan holds a payload of kind {kind}, expected {CPU_PAYLOAD_KIND}"
            )));
        }
        let found = runtime_uids(&plan, payload.uids())?;
        // Which slots are host pointers is the one thing that nobody may be wrong about.
        if found != payload.runtime_uids() {
            return Err(Failure::invalid(format!(
                "serialised context: its runtime uids are {:?}, those of its plan {found:?}",
                payload.runtime_uids()
            )));
        }
        Self::new(payload)
    }

    fn new(payload: Payload) -> Result<Self, Failure> {
        let lane = bind(&payload)?;
        let workspace_size = stated_workspace(lane.workspace_size())?;
        let mut idle = Vec::with_capacity(LANES);
        idle.push(lane);
        Ok(Self { payload, idle: Mutex::new(idle), workspace_size })
    }

    /// Bytes of workspace that are asked for.
    pub(crate) fn workspace_size(&self) -> usize {
        self.workspace_size
    }

    /// What can be stored.
    pub(crate) fn payload(&self) -> &Payload {
        &self.payload
    }

    /// Executes once, and has finished when this returns.
    ///
    /// # Safety
    /// As of [`Lane::execute`].
    pub(crate) unsafe fn execute(&self, call: &Call<'_>) -> Result<(), Failure> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let free = idle().pop();
        let mut lane = match free {
            Some(lane) => lane,
            None => bind(&self.payload)?,
        };
        // SAFETY: by the caller's promise.
        let executed = unsafe { lane.execute(call) };
        let mut idle = idle();
        if idle.len() < LANES {
            idle.push(lane);
        }
        executed
    }
}

/// Bytes that the host is asked for: the plan starts its workspace at a multiple of [`WORKSPACE_ALIGN`] in what the host gives, and nothing is
/// said of the alignment of that.
pub(crate) fn stated_workspace(bytes: u64) -> Result<usize, Failure> {
    let room = if bytes == 0 { 0 } else { WORKSPACE_ALIGN as u64 - 1 };
    let stated = bytes.checked_add(room).and_then(|bytes| usize::try_from(bytes).ok());
    stated.ok_or_else(|| Failure::invalid(format!("the plan needs {bytes} bytes of workspace, which cannot be counted")))
}

fn bind(payload: &Payload) -> Result<Lane, Failure> {
    let bound = Plan::open(payload.plan())?.bind_by_uids(&Device::Cpu, &Loaders::default(), payload.uids())?;
    Ok(Lane::new(bound, payload.uids().len()))
}

/// The caller's uids of the plan's runtime scalars, ascending.
fn runtime_uids(plan: &Plan<'_>, uids: &[i64]) -> Result<Vec<i64>, Failure> {
    let tables = plan.view().payload()?.read_tables().map_err(|e| Failure::invalid(e.to_string()))?;
    let uid_of = |ordinal: i64| {
        let uid = usize::try_from(ordinal).ok().and_then(|at| uids.get(at)).copied();
        uid.ok_or_else(|| {
            Failure::invalid(format!("the plan has a runtime scalar of ordinal {ordinal}, and there are {} uids", uids.len()))
        })
    };
    let mut runtime = tables.runtime_uids().map(uid_of).collect::<Result<Vec<_>, _>>()?;
    runtime.sort_unstable();
    Ok(runtime)
}
