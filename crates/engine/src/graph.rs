//! What the host hands over to be compiled: a graph and a configuration.

use crate::engine::{ENGINE_ID, ENGINE_NAME_TEXT};
use crate::failure::Failure;
use hipplan_planner::cpu::CpuCompiler;
use hipplan_planner::{CompiledPlan, Compiler, Providers, Request, Site, compile_graph};
use hipplan_serialize::hipdnn::engine::EngineConfig;
use hipplan_serialize::plan::PlanView;
use hipplan_serialize::{GraphBuf, Limits, Policy, Target, canon};

/// What a graph may be. Those of the wire form; a host has its own idea of them, so that what exceeds them is not applicable, no error.
const LIMITS: &Limits = &Limits::DEFAULT;

/// Checks a graph in full.
pub(crate) fn read(bytes: &[u8]) -> Result<GraphBuf, Failure> {
    Ok(GraphBuf::new(bytes, LIMITS)?)
}

/// Whether the engine executes the graph: nothing, or a failure with the status NOT_APPLICABLE. Runtime scalars are read at each execution and
/// never folded, so that none is a reason to decline (R16 §4.6).
pub(crate) fn check_applicable(graph: &GraphBuf) -> Result<(), Failure> {
    let canonical = graph.view().canonical()?;
    // As for a plan: what is not in the canonical form has no say.
    let owned = canon::decode(&canonical.encoding, &canonical.limits)?;
    match CpuCompiler.offers(&owned.view(), &Site::Offline(Target::Cpu)) {
        Ok(_) => Ok(()),
        Err(reason) => Err(Failure::not_applicable(format!("engine {ENGINE_NAME_TEXT}: {reason}"))),
    }
}

/// Compiles a graph: the plan, and the graph's uids by canonical ordinal.
pub(crate) fn compile(graph: &GraphBuf) -> Result<(CompiledPlan, Vec<i64>), Failure> {
    let view = graph.view();
    let mut providers = Providers::none();
    providers.add(Box::new(CpuCompiler));
    let plan = compile_graph(&view, &Request { site: &Site::of(&Target::Cpu), policy: &Policy::DEFAULT }, &providers)?;
    let uids = view.canonical()?.uids.iter().map(|uid| uid.0).collect();
    Ok((plan, uids))
}

/// Bytes of workspace that the plan of a graph needs.
pub(crate) fn workspace_size(graph: &GraphBuf) -> Result<u64, Failure> {
    let (plan, _) = compile(graph)?;
    Ok(PlanView::open(&plan.bytes)?.meta().workspace_size.to_native())
}

/// Checks a configuration: it is for this engine, which has no settings.
pub(crate) fn check_config(bytes: &[u8]) -> Result<(), Failure> {
    let config = EngineConfig::parse(bytes, LIMITS).map_err(|e| Failure::invalid(e.to_string()))?;
    check_engine(config.engine_id)?;
    match config.knobs.first() {
        None => Ok(()),
        Some((id, value)) => {
            Err(Failure::invalid(format!("engine {ENGINE_NAME_TEXT} has no knobs, and the configuration sets {id:?} to {value}")))
        }
    }
}

/// An id that is this engine's.
pub(crate) fn check_engine(id: i64) -> Result<(), Failure> {
    if id == ENGINE_ID {
        return Ok(());
    }
    Err(Failure::invalid(format!("engine id {id} is none of this plugin's; it has {ENGINE_NAME_TEXT}, {ENGINE_ID}")))
}
