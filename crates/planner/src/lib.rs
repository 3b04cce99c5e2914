//! The planner: graphs in, stored plans out.
//!
//! * [`Compiler`]: the compiling half of a provider; [`cpu`]: the embedded default.
//! * [`compile_graph`]: floors, providers in order, one plan file.
//! * [`ensure_plan`]: the same, into a store that may hold it already.
//! * [`compile_batch`]: many graphs, in parallel, each compiled once, into a store.
//! * [`compile_in_process`]: one graph, bound at once, also by engines that cannot persist.
//! * [`survey`]: what every provider would do with a graph, and why not.
//! * [`PluginCompiler`]: hipDNN engine plugins as providers.

mod batch;
mod compile;
pub mod cpu;
mod ensure;
mod fuse;
pub mod hip;
mod plugin;
mod provider;
mod select;
mod workspace;

pub use batch::{BatchItem, BatchOptions, BatchReport, Outcome, Progress, ReportRow, compile_batch};
pub use compile::{CompileError, CompiledPlan, InProcessPlan, Request, compile_graph, compile_in_process};
pub use ensure::{Ensured, ensure_plan};
pub use plugin::PluginCompiler;
pub use provider::{
    Compiled, Compiler, InProcess, Offer, Persistence, ProviderIdentity, ProviderRefusal, Providers, Refusal, Site, ToolUse,
};
pub use select::{ProviderAnswer, survey};
