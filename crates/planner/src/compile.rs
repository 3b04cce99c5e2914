//! One graph to one plan file.

use crate::provider::{Compiler, Offer, Persistence, ProviderRefusal, Providers, Refusal, Site};
use hipplan_serialize::canon::{self, DecodeError, NoKey};
use hipplan_serialize::plan::{
    BakedScalar, BindingKind, BindingRole, BindingV1, CodeObjectV1, PayloadError, PayloadWriter, PlanError, PlanMetaV1, PlanView,
    PlanWriter,
};
use hipplan_serialize::{
    AlignedBytes, Canonical, Digest, FieldRole, GraphKey, PlanIdentity, PlanRef, Policy, SelectionKey, Target, VerifiedGraph,
};

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
    #[error("engine {engine} of provider {provider} cannot persist what it compiles; it can only be used in the process that compiled it")]
    CannotPersist {
        /// The provider.
        provider: String,
        /// The engine.
        engine: String,
    },
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

fn join(refusals: &[ProviderRefusal]) -> String {
    match refusals {
        [] => "there are no providers".to_owned(),
        some => some.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
    }
}

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Request<'r> {
    /// The target.
    pub target: &'r Target,
    /// Which engine.
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

/// Compiles a graph with the first provider that takes it.
///
/// The same graph, target, policy and providers give the same bytes, whatever the machine, folder, user or order of jobs (P6).
///
/// # Errors
/// [`CompileError::NoApplicableEngines`] with the reason of every provider, or what went wrong.
pub fn compile_graph(graph: &VerifiedGraph<'_>, request: &Request<'_>, providers: &Providers) -> Result<CompiledPlan, CompileError> {
    compile_canonical(&graph.canonical()?, request, providers)
}

pub(crate) fn compile_canonical(canonical: &Canonical, request: &Request<'_>, providers: &Providers) -> Result<CompiledPlan, CompileError> {
    // Providers see the decoded encoding: what is not in it cannot influence a plan.
    let owned = canon::decode(&canonical.encoding, &canonical.limits)?;
    let graph = owned.view();
    let site = Site::Offline(request.target.clone());
    let (provider, offer) = choose(&graph, &site, request.policy, providers)?;
    let name = provider.identity().name;
    if offer.persistence == Persistence::ProcessOnly {
        return Err(CompileError::CannotPersist { provider: name, engine: offer.engine });
    }
    let compiled = provider.compile(&graph, &offer, &site)?;

    let identity = PlanIdentity {
        graph: canonical.key,
        target: request.target.to_string(),
        provider: name,
        engine: offer.engine,
        engine_revision: offer.engine_revision,
        knobs: offer.knobs,
    };
    let (runtime_uids, baked) = scalars(&graph);
    let payload = PayloadWriter { kind: compiled.kind, version: compiled.version, runtime_uids, baked, body: &compiled.body }.finish()?;
    let meta = metadata(&graph, &identity, compiled.workspace_size, &compiled.code_objects);
    let bytes = PlanWriter { meta: &meta, canonical: &canonical.encoding, payload: &payload }.finish()?;
    let plan_ref = PlanView::open(&bytes)?.plan_ref();
    Ok(CompiledPlan {
        selection: SelectionKey::new(&canonical.key, &identity.target, request.policy),
        graph: canonical.key,
        plan_ref,
        bytes,
        code_objects: compiled.code_objects,
    })
}

/// Asks the providers in order; the version floor comes before any of them sees the graph.
fn choose<'p>(
    graph: &VerifiedGraph<'_>,
    site: &Site,
    policy: &Policy,
    providers: &'p Providers,
) -> Result<(&'p dyn Compiler, Offer), CompileError> {
    let floor = graph.api_floor();
    let mut refusals = Vec::new();
    for provider in providers.iter() {
        let identity = provider.identity();
        let reason = if identity.api_version < floor {
            Refusal::ApiVersion { floor, reported: identity.api_version }
        } else {
            match provider.offers(graph, site) {
                Ok(mut offers) => match (offers.iter().position(|o| allows(policy, o)), policy) {
                    (Some(at), _) => return Ok((provider, offers.swap_remove(at))),
                    (None, Policy::Engine(name)) => {
                        let known: Vec<&str> = offers.iter().map(|o| o.engine.as_str()).collect();
                        Refusal::Policy(format!("engine {name} was asked for; it has {}", known.join(", ")))
                    }
                    (None, Policy::Default) => Refusal::Declined("it offers no engine".to_owned()),
                },
                Err(reason) => reason,
            }
        };
        refusals.push(ProviderRefusal { provider: identity.name, reason });
    }
    Err(CompileError::NoApplicableEngines { target: site.target().to_string(), refusals })
}

fn allows(policy: &Policy, offer: &Offer) -> bool {
    match policy {
        Policy::Default => true,
        Policy::Engine(name) => offer.engine == *name,
    }
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
