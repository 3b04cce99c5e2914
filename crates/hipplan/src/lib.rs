//! hipplan compiles neural-network op graphs into plans **once**, keeps them in a content-addressed store, and brings them back in
//! any later process in microseconds.
//!
//! ```
//! use hipplan::{DataType, GraphBuilder, Runtime, TensorAttributes, VariantPack, Workspace, ops};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("store");
//! // A graph: y = relu(x).
//! let mut builder = GraphBuilder::new();
//! let x = builder.tensor(TensorAttributes::packed(DataType::Float, &[2, 3]));
//! let y = builder.tensor(TensorAttributes::packed(DataType::Float, &[2, 3]));
//! builder.node("relu", DataType::Float, ops::Pointwise::unary(hipplan::PointwiseMode::ReluFwd, x, y));
//! let graph = builder.build()?;
//!
//! // Once, on any machine: compile it into a store.
//! let runtime = Runtime::open(&path)?;
//! runtime.compile(&graph.view())?;
//!
//! // In any later process: restore and execute. No compiler is involved.
//! let runtime = Runtime::open(&path)?;
//! let mut plan = runtime.restore(&graph.view())?;
//! let input = [-1.0_f32, 2.0, -3.0, 4.0, -5.0, 6.0];
//! let mut output = [0.0_f32; 6];
//! let mut workspace = Workspace::new(plan.workspace_size())?;
//! let mut pack = VariantPack::new();
//! pack.input(x.0, &input).output(y.0, &mut output);
//! plan.execute(&pack, workspace.as_mut_slice(), Default::default())?;
//! assert_eq!(output, [0.0, 2.0, 0.0, 4.0, 0.0, 6.0]);
//! # Ok(())
//! # }
//! ```
//!
//! This crate is the one promise of compatibility; the crates behind it are internals pinned to it. The formats on disk are written
//! down in `docs/format.md` and are marked pre-release.

mod runtime;

pub use hipplan_exec::{
    Arguments, BindingIx, BoundPlan, CodeObjects, Device, ExecError, Executable, InvalidValue, Loader, Loaders, MemorySpace, Plan,
    RawHipStream, Requirement, Restore, RestoreMiss, ShapeError, ShapeOverrides, Stream, TensorShape, VariantPack, WORKSPACE_ALIGN,
    Workspace, WorkspaceRef, cpu, describe_misses, find_by_graph_key, find_for_targets, hip, plugin, reference,
};
pub use hipplan_planner::hip::compiler;
pub use hipplan_planner::{
    Answer, BatchItem, BatchOptions, BatchReport, CompileError, Compiled, CompiledPlan, Compiler, Counters, Counts, Coverage, CoverageRow,
    Ensured, Entry, FieldDifference, InProcess, InProcessPlan, Lack, LackReason, LoggedItem, Nearest, Offer, Outcome, ParseShardError,
    Persistence, PluginCompiler, Progress, ProviderAnswer, ProviderIdentity, ProviderRefusal, Providers, Refusal, ReportRow, Request,
    Shard, Site, Sought, ToolUse, check_precompiled, compile_batch, compile_graph, compile_in_process, cover, ensure_plan,
    find_precompiled, nearest, survey,
};
/// A bucket behind a store, shared by many machines.
#[cfg(feature = "remote")]
pub use hipplan_remote as remote;
pub use hipplan_serialize::code_object::{self, CodeObject};
pub use hipplan_serialize::conv_problem::{self, ConvDirection, ConvProblem, ConvProblemError, ProblemMode, ProblemTensor};
pub use hipplan_serialize::driver;
pub use hipplan_serialize::error::{NodeLabel, TensorLabel};
pub use hipplan_serialize::import::{self, GraphForm, ImportError, ImportedGraph, import};
pub use hipplan_serialize::plan::{self, PlanError, PlanView};
pub use hipplan_serialize::target::ParseTargetError;
pub use hipplan_serialize::{
    AlignedBytes, ApiVersion, AttentionImplementation, AttributeError, AttributeValue, Canonical, ContentHash, ConvMode, DataType,
    DiagonalAlignment, Digest, Feature, Features, FieldRole, GraphBuf, GraphBuilder, GraphError, GraphKey, Knob, Limits,
    MoeGroupedMatmulMode, NodeIx, NormFwdPhase, Op, OpKind, PaddingMode, PlanIdentity, PlanKey, PlanRef, PointwiseMode, Policy,
    ReductionMode, ResampleMode, ReshapeError, RootHash, Scalar, ScalarType, SelectionKey, ShapeOverride, Target, TensorAttribute,
    TensorAttributes, TensorHandle, TensorIx, TensorValue, TensorView, Uid, VerifiedGraph, aligned, artifact, canon, diff, engine_id,
    engine_id_of_text, engine_id_text, explain, floors, form, graph, hipdnn, json, ops,
};
pub use hipplan_store::{
    BundleFacts, ExportReport, ExportedPlan, ImportReport, LayerOptions, LayerOptionsError, MergeReport, NamedLayer, PublicKey, SecretKey,
    SignaturePolicy, SignatureStanding, bundle_facts, bundle_facts_with, is_wrapped, merge_bundles, merge_bundles_with, read_trusted_keys,
    sign_bundle, unwrap_bundle, wrap_bundle,
};
pub use hipplan_store::{Candidate, Location, LocationSource, Verdict as LocationVerdict, locate, look_at_layer};
pub use hipplan_store::{
    CompactOptions, CompactReport, EntryInfo, EntryKind, GcOptions, GcReport, Group, KindStat, Limits as StoreLimits, Pin, PinSet,
    PushReport, RemoveReport, RepairOptions, RepairReport, StoreStat, UpkeepProgress, Usage,
};
pub use hipplan_store::{Lookup, Miss, Mode, Persisted, PlanBytes, Put, Selection, Store, StoreError, VerifyReport};
pub use hipplan_store::{RemoteError, RemoteErrorKind, RemoteOptions, RemoteTier};
pub use hipplan_store::{SelftestCheck, SelftestOptions, SelftestOutcome, SelftestReport, selftest, selftest_child, selftest_probes};
pub use runtime::{RestoreError, Runtime};
