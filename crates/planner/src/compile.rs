//! One graph to one plan file.

use crate::lack::{Lack, LackReason};
use crate::provider::{Compiled, InProcess, Offer, Persistence, ProviderRefusal, Providers, Site};
use crate::select::{Choice, Use, choose};
use hipplan_exec::{BoundPlan, Plan};
use hipplan_serialize::canon::{self, DecodeError, NoKey};
use hipplan_serialize::plan::{
    BakedScalar, BindingKind, BindingRole, BindingV1, CodeObjectV1, PayloadError, PayloadWriter, PlanError, PlanMetaV1, PlanView,
    PlanWriter,
};
use hipplan_serialize::{AlignedBytes, Canonical, Digest, FieldRole, GraphKey, PlanIdentity, PlanRef, Policy, SelectionKey, VerifiedGraph};
use std::time::Instant;

/// Why a graph was not compiled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// The graph has no key.
    #[error(transparent)]
    NoKey(#[from] NoKey),
    /// No provider executes the graph.
    #[error("no applicable engines for target {target}: {}", join(.refusals))]
    NoApplicableEngines {
        /// The target.
        target: String,
        /// Every provider with its reason.
        refusals: Vec<ProviderRefusal>,
    },
    /// The engine's result cannot be kept.
    #[error(
        "provider cannot persist: the engines that take the graph for target {target} compile for the process that executes it alone \
         (compile_in_process, run --in-process): {}", join(.refusals)
    )]
    CannotPersist {
        /// The target.
        target: String,
        /// Every provider with its reason.
        refusals: Vec<ProviderRefusal>,
    },
    /// What was to be executed in this process was compiled for a device that is not there.
    #[error("compiling for this process needs a device that is present; target {target} was only named")]
    NotPresent {
        /// The target.
        target: String,
    },
    /// What was compiled for this process cannot be bound.
    #[error(transparent)]
    Bind(Box<hipplan_exec::ExecError>),
    /// The canonical encoding does not decode: a defect of hipplan.
    #[error(transparent)]
    Canonical(#[from] DecodeError),
    /// The plan file cannot be written: a defect of the provider or of hipplan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The payload container cannot be written: a defect of the provider.
    #[error(transparent)]
    Payload(#[from] PayloadError),
    /// The store failed; only a store that does not degrade does.
    #[error(transparent)]
    Store(#[from] hipplan_store::StoreError),
    /// Nothing may be compiled ([`Providers::require_precompiled`]), and the store has no plan to use.
    #[error("not precompiled, {0}")]
    NotPrecompiled(Lack),
    /// The provider failed.
    #[error("provider {provider}, engine {engine}: {reason}")]
    Provider {
        /// The provider.
        provider: String,
        /// The engine.
        engine: String,
        /// What went wrong.
        reason: String,
    },
}

impl From<hipplan_exec::ExecError> for CompileError {
    fn from(error: hipplan_exec::ExecError) -> Self {
        Self::Bind(Box::new(error))
    }
}

fn join(refusals: &[ProviderRefusal]) -> String {
    match refusals {
        [] => "there are no providers".to_owned(),
        some => some.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
    }
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Request<'r> {
    /// Where it is compiled, and for what.
    pub site: &'r Site,
    /// Which engine. Without a preference, that of the graph counts, where a function has the graph.
    pub policy: &'r Policy,
}

/// A plan file, ready to be put into a store.
#[derive(Debug)]
pub struct CompiledPlan {
    /// The request that it answers.
    pub selection: SelectionKey,
    /// The graph.
    pub graph: GraphKey,
    /// Key and content address.
    pub plan_ref: PlanRef,
    /// The file.
    pub bytes: AlignedBytes,
    /// Code objects that lie outside the file.
    pub code_objects: Vec<Vec<u8>>,
}

/// A plan that was compiled for this process.
#[derive(Debug)]
pub struct InProcessPlan {
    /// Its file. That of an engine that cannot persist has a payload which no loader takes.
    pub plan: CompiledPlan,
    /// Ready to execute.
    pub bound: BoundPlan,
}

/// Compiles a graph with the engine that the policy prefers, or else with the first that takes it, of those whose plans can be kept.
///
/// The same graph, target, policy and built-in providers give the same bytes, whatever the machine, folder, user or order of jobs (P6).
/// Of a plugin, its own bytes are what it makes them. The engine that the graph prefers counts where the policy states no preference.
///
/// # Errors
/// [`CompileError::NoApplicableEngines`] with the reason of every provider, or what went wrong.
pub fn compile_graph(graph: &VerifiedGraph<'_>, request: &Request<'_>, providers: &Providers) -> Result<CompiledPlan, CompileError> {
    let policy = request.policy.preferring(graph.preferred_engine_id());
    compile_canonical(&graph.canonical()?, &Request { policy: &policy, ..*request }, providers)
}

/// The one way to a compiler is closed where plans must have been compiled before.
fn may_compile(providers: &Providers) -> Result<(), CompileError> {
    if !providers.requires_precompiled() {
        return Ok(());
    }
    let detail = "no store was asked, and compiling is not allowed here".to_owned();
    Err(CompileError::NotPrecompiled(Lack { reason: LackReason::Missing, detail }))
}

pub(crate) fn compile_canonical(canonical: &Canonical, request: &Request<'_>, providers: &Providers) -> Result<CompiledPlan, CompileError> {
    may_compile(providers)?;
    let start = Instant::now();
    // Providers see the decoded encoding: what is not in it cannot influence a plan.
    let owned = canon::decode(&canonical.encoding, &canonical.limits)?;
    let graph = owned.view();
    let Choice { provider, offer, policy } = choose(&graph, request.site, request.policy, providers, Use::Store)?;
    let compiled = provider.compile(&graph, &offer, request.site)?;
    let identity = identity(canonical, request.site, provider.identity().name, offer);
    let plan = assemble(canonical, &graph, &identity, &policy, compiled)?;
    providers.counters().compiled(start.elapsed());
    Ok(plan)
}

/// The policy that the plan of a request is filed under, if it differs from the request's: nothing meets the preference.
pub(crate) fn effective_policy(canonical: &Canonical, request: &Request<'_>, providers: &Providers) -> Result<Policy, CompileError> {
    let owned = canon::decode(&canonical.encoding, &canonical.limits)?;
    Ok(choose(&owned.view(), request.site, request.policy, providers, Use::Store)?.policy)
}

/// Compiles a graph and binds it to the device that is present, without a store: also with an engine that cannot persist. Packs name
/// tensors by the graph's own uids.
///
/// # Errors
/// As [`compile_graph`]; the site has no device, or the plan cannot be bound to it.
pub fn compile_in_process(graph: &VerifiedGraph<'_>, request: &Request<'_>, providers: &Providers) -> Result<InProcessPlan, CompileError> {
    let Some(device) = request.site.device() else {
        return Err(CompileError::NotPresent { target: request.site.target().to_string() });
    };
    may_compile(providers)?;
    let start = Instant::now();
    let canonical = graph.canonical()?;
    let owned = canon::decode(&canonical.encoding, &canonical.limits)?;
    let policy = request.policy.preferring(graph.preferred_engine_id());
    let Choice { provider, offer, policy } = choose(&owned.view(), request.site, &policy, providers, Use::ThisProcess)?;
    if offer.persistence == Persistence::Payload {
        let compiled = provider.compile(&owned.view(), &offer, request.site)?;
        let identity = identity(&canonical, request.site, provider.identity().name, offer);
        let plan = assemble(&canonical, &owned.view(), &identity, &policy, compiled)?;
        let open = Plan::open(&plan.bytes)?.with_code_objects(&plan.code_objects);
        let bound = open.bind_by_graph(device, providers.loaders(), graph)?;
        providers.counters().compiled(start.elapsed());
        return Ok(InProcessPlan { plan, bound });
    }
    let InProcess { executable, workspace_size } = provider.compile_in_process(&owned.view(), &offer, request.site)?;
    let identity = identity(&canonical, request.site, provider.identity().name, offer);
    // A file that nobody keeps: what executing checks against is written in one way only. No loader has its payload.
    let (kind, version) = ("process-only", 1);
    let compiled = Compiled { kind, version, body: Vec::new(), workspace_size, code_objects: Vec::new() };
    let plan = assemble(&canonical, &owned.view(), &identity, &policy, compiled)?;
    let bound = Plan::open(&plan.bytes)?.bind_prepared(device, graph, executable)?;
    providers.counters().compiled(start.elapsed());
    Ok(InProcessPlan { plan, bound })
}

fn identity(canonical: &Canonical, site: &Site, provider: String, offer: Offer) -> PlanIdentity {
    let Offer { engine, engine_revision, settings, knobs: _, persistence: _ } = offer;
    PlanIdentity { graph: canonical.key, target: site.target().to_string(), provider, engine, engine_revision, knobs: settings }
}

/// The plan file around what an engine made of a canonical graph.
fn assemble(
    canonical: &Canonical,
    graph: &VerifiedGraph<'_>,
    identity: &PlanIdentity,
    policy: &Policy,
    compiled: Compiled,
) -> Result<CompiledPlan, CompileError> {
    let (runtime_uids, baked) = scalars(graph);
    let payload = PayloadWriter { kind: compiled.kind, version: compiled.version, runtime_uids, baked, body: &compiled.body }.finish()?;
    let meta = metadata(graph, identity, compiled.workspace_size, &compiled.code_objects);
    let bytes = PlanWriter { meta: &meta, canonical: &canonical.encoding, payload: &payload }.finish()?;
    let plan_ref = PlanView::open(&bytes)?.plan_ref();
    Ok(CompiledPlan {
        selection: SelectionKey::new(&canonical.key, &identity.target, policy),
        graph: canonical.key,
        plan_ref,
        bytes,
        code_objects: compiled.code_objects,
    })
}

/// The runtime set and the baked values of a canonical graph (R16 §4.6).
fn scalars(graph: &VerifiedGraph<'_>) -> (Vec<i64>, Vec<BakedScalar>) {
    let runtime = graph.tensors().iter().filter(|t| t.is_runtime).map(|t| t.uid.0).collect();
    let baked = graph.tensors().iter().filter_map(|t| Some(BakedScalar { uid: t.uid.0, is_default: t.is_runtime, value: t.value? }));
    (runtime, baked.collect())
}

fn metadata(graph: &VerifiedGraph<'_>, identity: &PlanIdentity, workspace_size: u64, code_objects: &[Vec<u8>]) -> PlanMetaV1 {
    let floor = graph.api_floor();
    PlanMetaV1 {
        api_floor: [floor.major, floor.minor, floor.patch],
        workspace_size,
        bindings: bindings(graph),
        code_objects: code_objects.iter().map(|blob| Digest::of(blob)).map(|d| CodeObjectV1 { hash: d.hash.0, size: d.size }).collect(),
        ..PlanMetaV1::of(identity)
    }
}

/// The tensors that a pack may name: all that are not virtual. In a canonical graph, positions are ordinals and uids alike.
fn bindings(graph: &VerifiedGraph<'_>) -> Vec<BindingV1> {
    let mut first_use = vec![String::new(); graph.tensors().len()];
    let mut written = vec![false; graph.tensors().len()];
    for node in graph.nodes() {
        for operand in graph.operands(node) {
            let text = &mut first_use[operand.tensor.index()];
            if text.is_empty() {
                *text = format!("node {} {}.{}", node.index(), graph.kind(node).name(), graph.slot_name(node, operand));
            }
            written[operand.tensor.index()] |= operand.role == FieldRole::Output;
        }
    }
    let tensors = graph.tensors().iter().zip(first_use).zip(written).zip(0..).filter(|(((t, _), _), _)| !t.is_virtual);
    tensors
        .map(|(((t, first_use), written), ordinal)| {
            let kind = BindingKind::of_state(t.is_runtime, t.value.is_some());
            BindingV1 {
                ordinal,
                role: if written { BindingRole::Output } else { BindingRole::Input } as u8,
                kind: kind as u8,
                dtype: t.dtype.to_wire(),
                dims: t.dims.to_vec(),
                strides: t.strides.to_vec(),
                first_use: if first_use.is_empty() { "ragged offsets".to_owned() } else { first_use },
            }
        })
        .collect()
}
