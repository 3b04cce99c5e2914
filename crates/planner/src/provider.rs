//! The compiling half of a provider.

use crate::compile::CompileError;
use crate::counters::Counters;
use crate::plugin::PluginCompiler;
use hipplan_exec::plugin::{PluginLoader, Plugins};
use hipplan_exec::{Device, Executable, Loaders};
use hipplan_serialize::hipdnn::engine::KnobInfo;
use hipplan_serialize::{ApiVersion, Knob, Target, VerifiedGraph};
use std::fmt;

/// Who a provider is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderIdentity {
    /// Its name.
    pub name: String,
    /// The engine API that it speaks. A graph whose floor is above it is never shown to the provider (R16 §4.7).
    pub api_version: ApiVersion,
}

/// Where a compilation takes place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Site {
    /// For a named target, with no such device at hand.
    Offline(Target),
    /// On a device that is present.
    Present(Device, Target),
}

impl Site {
    /// The site of a target that is only named. A CPU is always present; a GPU is taken for absent.
    pub fn of(target: &Target) -> Self {
        match target {
            Target::Cpu => Self::Present(Device::Cpu, Target::Cpu),
            target => Self::Offline(target.clone()),
        }
    }

    /// A device that is present, for its best target.
    pub fn present(device: &Device) -> Self {
        Self::Present(device.clone(), device.targets().first().unwrap_or(device.target()).clone())
    }

    /// The device, where one is present.
    pub fn device(&self) -> Option<&Device> {
        match self {
            Self::Offline(_) => None,
            Self::Present(device, _) => Some(device),
        }
    }

    /// The target that is compiled for.
    pub fn target(&self) -> &Target {
        match self {
            Self::Offline(target) | Self::Present(_, target) => target,
        }
    }
}

/// Whether what an engine compiles can be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Persistence {
    /// As a payload, in a store.
    Payload,
    /// Only in the process that compiled it, and why.
    ProcessOnly(String),
}

/// An engine that would execute a graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    /// Name of the engine, or the text of its id where it has none.
    pub engine: String,
    /// Changes whenever the engine might compile the same graph into something else.
    pub engine_revision: String,
    /// Settings that the engine has for this graph.
    pub knobs: Vec<KnobInfo>,
    /// Those that it is given, in the order of their ids: part of the plan's key.
    pub settings: Vec<Knob>,
    /// Whether the result can be kept.
    pub persistence: Persistence,
}

impl Offer {
    /// An engine without settings whose plans can be kept.
    pub fn new(engine: impl Into<String>, engine_revision: impl Into<String>) -> Self {
        Self {
            engine: engine.into(),
            engine_revision: engine_revision.into(),
            knobs: Vec::new(),
            settings: Vec::new(),
            persistence: Persistence::Payload,
        }
    }
}

/// Why a provider does not execute a graph, for a person to act on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The graph needs a newer engine API.
    ApiVersion {
        /// What the graph needs.
        floor: ApiVersion,
        /// What the provider speaks.
        reported: ApiVersion,
    },
    /// The provider does not compile for the target.
    Target(String),
    /// An operation that the provider does not have.
    Operation {
        /// hipDNN's name of the operation.
        op: &'static str,
        /// The node, as messages name it.
        node: String,
    },
    /// The provider has the operation, but not like this.
    Declined(String),
    /// The policy names another provider or engine.
    Policy(String),
    /// The engine does not know a setting that was asked for, or not that value of it.
    Knob(String),
    /// What the engine compiles can only be used in the process that compiled it.
    CannotPersist {
        /// The engine.
        engine: String,
        /// Why.
        reason: String,
    },
    /// The provider was asked, and failed.
    Failed(String),
    /// A plugin that could not be loaded, or an engine of one.
    Unusable(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ApiVersion { floor, reported } => {
                write!(f, "the graph needs engine API {floor}, the provider speaks {reported}")
            }
            Self::Target(reason)
            | Self::Declined(reason)
            | Self::Policy(reason)
            | Self::Knob(reason)
            | Self::Failed(reason)
            | Self::Unusable(reason) => f.write_str(reason),
            Self::CannotPersist { engine, reason } => write!(f, "engine {engine} cannot persist: {reason}"),
            Self::Operation { op, node } => write!(f, "operation {op} is not implemented ({node})"),
        }
    }
}

/// A refusal and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderRefusal {
    /// Name of the provider.
    pub provider: String,
    /// Its reason.
    pub reason: Refusal,
}

impl fmt::Display for ProviderRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.provider, self.reason)
    }
}

/// What an engine made of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiled {
    /// Payload kind, for the loader.
    pub kind: &'static str,
    /// Payload version, for the loader.
    pub version: u32,
    /// The payload's body.
    pub body: Vec<u8>,
    /// Bytes of workspace that executing needs.
    pub workspace_size: u64,
    /// Code objects that lie outside the plan.
    pub code_objects: Vec<Vec<u8>>,
}

/// What an engine made of a graph that only this process can use.
pub struct InProcess {
    /// Executes it.
    pub executable: Box<dyn Executable>,
    /// Bytes of workspace that executing needs.
    pub workspace_size: u64,
}

impl fmt::Debug for InProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InProcess").field("workspace_size", &self.workspace_size).finish_non_exhaustive()
    }
}

/// A compiler of kernels that a provider has used, for a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolUse {
    /// Name and version, such as `clang 19.1.7`.
    pub name: String,
    /// How often it was run.
    pub runs: u64,
    /// How often it was not, because another plan had the same kernel.
    pub reused: u64,
}

/// The compiling half of a provider.
///
/// It is shown the canonical form of a graph and nothing else: names are empty and uids are ordinals, so a compiled plan serves
/// every graph with the same key.
pub trait Compiler: Send + Sync {
    /// Who this is.
    fn identity(&self) -> ProviderIdentity;

    /// The engines that would execute the graph at the site, best first.
    ///
    /// # Errors
    /// Why none would.
    fn offers(&self, graph: &VerifiedGraph<'_>, site: &Site) -> Result<Vec<Offer>, Refusal>;

    /// Compiles the graph with an engine that was offered for it.
    ///
    /// # Errors
    /// The compilation failed.
    fn compile(&self, graph: &VerifiedGraph<'_>, offer: &Offer, site: &Site) -> Result<Compiled, CompileError>;

    /// Compiles the graph with an engine whose plans are [`Persistence::ProcessOnly`], for a device that is present. Asked of nobody who
    /// offers none.
    ///
    /// # Errors
    /// The compilation failed.
    fn compile_in_process(&self, _: &VerifiedGraph<'_>, offer: &Offer, _: &Site) -> Result<InProcess, CompileError> {
        let reason = "it compiles payloads only; please report this".to_owned();
        Err(CompileError::Provider { provider: self.identity().name, engine: offer.engine.clone(), reason })
    }

    /// What it is and where it comes from, for a list.
    fn about(&self) -> String {
        "built in".to_owned()
    }

    /// The compilers of kernels that it has used so far.
    fn tools(&self) -> Vec<ToolUse> {
        Vec::new()
    }
}

/// The providers that a process has, in order of preference: their compilers, and the loaders that tell which stored plans are of use.
pub struct Providers {
    compilers: Vec<Box<dyn Compiler>>,
    /// Those that are not in use, and why.
    unusable: Vec<ProviderRefusal>,
    loaders: Loaders,
    requires_precompiled: bool,
    counters: Counters,
}

impl Default for Providers {
    /// The providers that are built in.
    fn default() -> Self {
        Self { compilers: vec![Box::new(crate::cpu::CpuCompiler), Box::new(crate::hip::HipCompiler::default())], ..Self::none() }
    }
}

impl fmt::Debug for Providers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.compilers.iter().map(|p| p.identity())).finish()
    }
}

impl Providers {
    /// No compiler, and the loaders that are built in.
    pub fn none() -> Self {
        Self {
            compilers: Vec::new(),
            unusable: Vec::new(),
            loaders: Loaders::default(),
            requires_precompiled: false,
            counters: Counters::default(),
        }
    }

    /// Whether plans must have been compiled before. Then no compiler is asked for anything, in whatever way a plan is wanted, and
    /// [`ensure_plan`](crate::ensure_plan) writes nothing: what is not there is [`CompileError::NotPrecompiled`], which says which of four
    /// things is the matter.
    pub fn require_precompiled(&mut self, required: bool) -> &mut Self {
        self.requires_precompiled = required;
        self
    }

    /// Whether plans must have been compiled before.
    pub fn requires_precompiled(&self) -> bool {
        self.requires_precompiled
    }

    /// What was asked of stores with these providers, and what was compiled.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The executing halves.
    pub fn loaders(&self) -> &Loaders {
        &self.loaders
    }

    /// The executing halves, to add to.
    pub fn loaders_mut(&mut self) -> &mut Loaders {
        &mut self.loaders
    }

    /// The compilers of kernels that the providers have used so far.
    pub fn tools(&self) -> Vec<ToolUse> {
        self.iter().flat_map(Compiler::tools).collect()
    }

    /// Adds a provider behind those that were there.
    pub fn add(&mut self, provider: Box<dyn Compiler>) -> &mut Self {
        self.compilers.push(provider);
        self
    }

    /// Adds hipDNN engine plugins behind the providers that were there: their compilers in the order in which they were loaded, and the
    /// loader of their plans. Those that could not be loaded are remembered with the reason, for whoever asks why no engine applies.
    pub fn add_plugins(&mut self, plugins: &Plugins) -> &mut Self {
        for failure in plugins.failures() {
            let provider = failure.plugin.clone().unwrap_or_else(|| failure.path.display().to_string());
            self.unusable.push(ProviderRefusal { provider, reason: Refusal::Unusable(failure.to_string()) });
        }
        for plugin in plugins.iter() {
            self.add(Box::new(PluginCompiler::new(plugin.clone())));
        }
        self.loaders.add(Box::new(PluginLoader::new(plugins)));
        self
    }

    /// Providers that are not in use, each with the reason.
    pub fn unusable(&self) -> &[ProviderRefusal] {
        &self.unusable
    }

    /// Who the providers are and what, in order of preference.
    pub fn list(&self) -> impl Iterator<Item = (ProviderIdentity, String)> {
        self.iter().map(|provider| (provider.identity(), provider.about()))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &dyn Compiler> {
        self.compilers.iter().map(|p| &**p)
    }
}
