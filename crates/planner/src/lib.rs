//! The planner: graphs in, stored plans out.
//!
//! * [`Compiler`]: the compiling half of a provider; [`cpu`]: the embedded default.
//! * [`compile_graph`]: floors, providers in order, one plan file.
//! * [`ensure_plan`]: the same, into a store that may hold it already.
//! * [`compile_batch`]: many graphs, in parallel, each compiled once, into a store.
//! * [`Shard`]: a part of a batch, for one of several machines.
//! * [`find_precompiled`]: a plan that must be there already, or which of four things is the matter; [`nearest()`]: what is nearly it.
//! * [`cover`]: which of the graphs of a run are precompiled.
//! * [`compile_in_process`]: one graph, bound at once, also by engines that cannot persist.
//! * [`survey`]: what every provider would do with a graph, and why not.
//! * [`PluginCompiler`]: hipDNN engine plugins as providers.

mod batch;
mod compile;
mod counters;
mod coverage;
pub mod cpu;
mod ensure;
mod fuse;
pub mod hip;
mod keeper;
mod lack;
mod nearest;
mod plugin;
mod precompiled;
mod provider;
mod select;
mod shard;
mod workspace;

pub use batch::{BatchItem, BatchOptions, BatchReport, Outcome, Progress, ReportRow, compile_batch};
pub use compile::{CompileError, CompiledPlan, InProcessPlan, Request, compile_graph, compile_in_process};
pub use counters::{Counters, Counts};
pub use coverage::{Answer, Coverage, CoverageRow, LoggedItem, cover};
pub use ensure::{Ensured, ensure_plan};
pub use lack::{Lack, LackReason};
pub use nearest::{Entry, FieldDifference, Nearest, nearest};
pub use plugin::PluginCompiler;
pub use precompiled::{Sought, check_precompiled, find_precompiled};
pub use provider::{
    Compiled, Compiler, InProcess, Offer, Persistence, ProviderIdentity, ProviderRefusal, Providers, Refusal, Site, ToolUse,
};
pub use select::{ProviderAnswer, survey};
pub use shard::{ParseShardError, Shard};
