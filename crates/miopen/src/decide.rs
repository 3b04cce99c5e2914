//! Which side a problem is on: decided once for each problem and device, by its first query call, and pinned for the process.
//!
//! | found out | the problem's calls |
//! |---|---|
//! | an object is null, or a getter fails | return that status |
//! | what no graph says: ranks, vectorised layouts, cast types, unknown modes, the fp16 alternative | go to MIOpen, every time |
//! | the result is int8, where MIOpen's sums wrap around and ours saturate | are pinned to MIOpen |
//! | `MIOPEN_DISABLE_HIPDNN_FOR` names its type or key | are pinned to MIOpen |
//! | a plan is stored, or was compiled because the miss policy says so | are pinned to the plan |
//! | no plan, or none that is small enough, or a damaged one, or a store that cannot be read | as the miss policy says: pinned to MIOpen or refused |
//! | `libhipplan.so.0` is missing or of another version; the device or memory fails | return an error, and the next call tries again |
//!
//! Execute calls only look up. A problem that nobody asked about is MIOpen's, and not pinned: it has no invoker there either unless the
//! caller found one. The exceptions are calls that no query need go before, in this process at least: fused ones, biases, and immediate runs
//! with an id of ours. Their first call decides and loads, unless its stream is being captured. No execute call ever compiles.
//!
//! Plans with other scalars than (1, 0) are loaded with the problem's own where they are stored; the miss policy `compile` makes them only
//! with `HIPPLAN_MIOPEN_SCALED=1`, since hardly any program needs them and each is a compiler's run. For volumes it makes them unless that is
//! 0: some of MIOpen's own solutions take such scalars there.

use crate::command_log::{Call, Command};
use crate::config::{self, Miss};
use crate::counters::{self, Decline};
use crate::entry::native;
use crate::hipplan::{self, Api, BindOptions, Context, Key, status as code};
use crate::plans::{self, Bound, Entry, Forwarded, Side};
use crate::problem::{Descriptors, Kind, NoKey, ProblemKey};
use crate::routing::{EntryPoint, Role, Route};
use crate::{handles, last_error, log, recorder, solution_id, stream, trace};
use bytemuck::Zeroable;
use hipplan_miopen_abi::status::{self, Status};
use hipplan_miopen_abi::types::{AcceleratorQueue, Handle, data_type};
use hipplan_serialize::conv_problem::bias;
use hipplan_serialize::{ConvDirection, ConvEpilogue, GraphBuf, GraphKey, Limits};
use std::fmt::Arguments;

/// Who answers a call.
#[derive(Debug, Clone, Copy)]
pub enum Answer {
    /// We do.
    Plan(&'static Entry, &'static Forwarded),
    /// The private library does.
    Private,
    /// Nobody: the status of the call, which is on record.
    Failed(Status),
}

/// Decides the side of a problem, if this is the first query for it.
///
/// # Safety
/// The objects are null or alive.
pub unsafe fn query(point: EntryPoint, direction: ConvDirection, objects: &Descriptors) -> Answer {
    let mut key = ProblemKey::zeroed();
    // SAFETY: the caller vouches for the objects.
    match unsafe { objects.read_into(direction, &mut key) } {
        Ok(()) => decided(point, &key, u64::MAX),
        Err(no_key) => without_key(point, no_key),
    }
}

/// Looks the problem up and decides nothing.
///
/// # Safety
/// The objects are null or alive.
#[inline]
pub unsafe fn look_up(point: EntryPoint, direction: ConvDirection, objects: &Descriptors) -> Answer {
    let mut key = ProblemKey::zeroed();
    // SAFETY: the caller vouches for the objects.
    match unsafe { objects.read_into(direction, &mut key) } {
        Ok(()) => looked_up(point, &key),
        Err(no_key) => without_key(point, no_key),
    }
}

/// The answer to a call whose problem has no key.
#[cold]
pub fn without_key(point: EntryPoint, no_key: NoKey) -> Answer {
    match no_key {
        NoKey::Null(what) => {
            Answer::Failed(failed(point, status::BAD_PARM, code::INVALID_ARGUMENT, format_args!("{}: the {what} is null", point.name())))
        }
        NoKey::Status(found) => {
            let text = format_args!("{}: MIOpen's getters answer {} for a descriptor", point.name(), status::name(found));
            Answer::Failed(failed(point, found, code::INVALID_ARGUMENT, text))
        }
        NoKey::Declined(why) => declined(point, why),
    }
}

/// MIOpen answers, though nothing is pinned.
#[cold]
pub fn declined(point: EntryPoint, why: Decline) -> Answer {
    counters::decline(point.family(), why);
    private(point, why)
}

fn private(point: EntryPoint, why: Decline) -> Answer {
    counters::private_call(point.family());
    trace::decision(point, Route::Private, why.text());
    last_error::clear();
    Answer::Private
}

/// Puts a failure on record.
#[cold]
pub fn failed(point: EntryPoint, status: Status, code: i32, text: Arguments<'_>) -> Status {
    counters::failure(point.family());
    trace::decision(point, Route::Forwarded, "failed");
    last_error::fail(status, code, text)
}

#[inline]
fn of_side(point: EntryPoint, entry: &'static Entry, side: &'static Side) -> Answer {
    match side {
        Side::Forwarded(forwarded) => {
            trace::decision(point, Route::Forwarded, "plan");
            Answer::Plan(entry, forwarded)
        }
        Side::Private(why) => private(point, *why),
        Side::Refused { status, code, text } => Answer::Failed(failed(point, *status, *code, format_args!("{}: {text}", point.name()))),
    }
}

/// The answer for a problem, if it was decided before.
#[inline]
pub fn looked_up(point: EntryPoint, key: &ProblemKey) -> Answer {
    match plans::table().find(key).and_then(|entry| Some((entry, entry.side()?))) {
        Some((entry, side)) => of_side(point, entry, side),
        None => unknown(point, key),
    }
}

/// As [`look_up`] for a call that may be the first of its problem in this process, since its caller keeps ids from one run to the next.
///
/// # Safety
/// The objects are null or alive.
#[inline]
pub unsafe fn first_run(point: EntryPoint, direction: ConvDirection, objects: &Descriptors) -> Answer {
    let mut key = ProblemKey::zeroed();
    // SAFETY: the caller vouches for the objects.
    match unsafe { objects.read_into(direction, &mut key) } {
        // SAFETY: the handle was read.
        Ok(()) => unsafe { first_call(point, objects.handle, &key, u64::MAX) },
        Err(no_key) => without_key(point, no_key),
    }
}

/// The answer for a problem of a function that no query goes before: its first call decides, unless the stream is being captured. A plan may
/// need `most` bytes of workspace.
///
/// # Safety
/// The handle is alive.
pub unsafe fn first_call(point: EntryPoint, handle: Handle, key: &ProblemKey, most: u64) -> Answer {
    if let Some((entry, side)) = plans::table().find(key).and_then(|entry| Some((entry, entry.side()?))) {
        return of_side(point, entry, side);
    }
    // SAFETY: the caller's promise.
    unsafe { first_decision(point, handle, key, most) }
}

/// # Safety
/// The handle is alive.
#[cold]
unsafe fn first_decision(point: EntryPoint, handle: Handle, key: &ProblemKey, most: u64) -> Answer {
    let mut stream: AcceleratorQueue = std::ptr::null_mut();
    if native!(miopenGetStream(handle, &raw mut stream)) == status::SUCCESS && stream::is_capturing(stream) {
        return declined(point, Decline::Capturing);
    }
    decided(point, key, most)
}

#[cold]
fn unknown(point: EntryPoint, key: &ProblemKey) -> Answer {
    match hipplan::api() {
        Ok(_) if key.device == handles::UNKNOWN => declined(point, Decline::NoDevice),
        Ok(_) => declined(point, Decline::NotQueried),
        Err(why) => Answer::Failed(failed(point, status::INTERNAL_ERROR, last_error::UNAVAILABLE, format_args!("{}: {why}", point.name()))),
    }
}

/// The answer for a problem, decided now if it was not before. A plan may need `most` bytes of workspace.
pub fn decided(point: EntryPoint, key: &ProblemKey, most: u64) -> Answer {
    if key.device == handles::UNKNOWN {
        return unknown(point, key);
    }
    let entry = plans::table().find_or_insert(key);
    match entry.decide(|| build(point, entry, most)) {
        Ok(side) => of_side(point, entry, side),
        Err(status) => Answer::Failed(status),
    }
}

/// The graph of a problem, with something else behind the sums than its kind says.
pub fn graph(key: &ProblemKey, epilogue: Option<ConvEpilogue>) -> Option<(GraphBuf, GraphKey)> {
    let problem = key.problem()?;
    let limits = &Limits::DEFAULT;
    let graph = match key.kind() {
        Kind::ForwardBias => bias::forward_graph(&problem.y, problem.spatial, limits),
        Kind::BackwardBias => bias::backward_graph(&problem.y, problem.spatial, limits),
        Kind::Plain | Kind::Fused { .. } => problem.to_graph_with(&epilogue.unwrap_or_else(|| key.epilogue()), limits),
    };
    let graph = graph.ok()?;
    let key = graph.view().canonical().ok()?.key;
    Some((graph, key))
}

/// What `libhipplan.so.0` is asked for a problem.
struct Runtime<'a> {
    api: &'static Api,
    context: *mut Context,
    problem: &'a ProblemKey,
    /// A compiler may be started: an execute call never does.
    may_compile: bool,
}

/// Finds out the side of a problem. An error is on record already, and the status of the call.
fn build(point: EntryPoint, entry: &Entry, most: u64) -> Result<Side, Status> {
    let (key, family) = (&entry.key, point.family());
    let declined = |why| {
        counters::decline(family, why);
        Ok(Side::Private(why))
    };
    let [x, w, y] = key.dtypes;
    if matches!(key.kind(), Kind::Plain | Kind::Fused { .. }) && (x != w || (x != y && x != data_type::INT8)) {
        return declined(Decline::Types);
    }
    let Some((graph, graph_key)) = graph(key, None) else { return declined(Decline::NoGraph) };
    recorder::record(&graph, &graph_key);
    let config = config::get();
    let bias_alone = matches!(key.kind(), Kind::ForwardBias | Kind::BackwardBias);
    let input_type = key.dtypes[if bias_alone { 2 } else { 0 }];
    if config.denials.data_type(input_type) || config.denials.key(graph_key.as_bytes()) {
        return declined(Decline::DisabledByEnv);
    }
    if key.result_type() == data_type::INT8 {
        return declined(Decline::Int8Result);
    }
    let context = hipplan::context(key.device).map_err(|why| {
        let text = format_args!("{}: {}", point.name(), why.text);
        failed(point, last_error::translate(why.code), why.code, text)
    })?;
    let api = hipplan::api()
        .map_err(|why| failed(point, status::INTERNAL_ERROR, last_error::UNAVAILABLE, format_args!("{}: {why}", point.name())))?;
    let may_compile = config.miss == Miss::Compile && point.entry().role == Role::Query;
    let runtime = Runtime { api, context, problem: key, may_compile };
    let plan = match runtime.bind(&graph, most) {
        Ok(plan) => plan,
        Err(found) if !is_miss(found) => {
            let text = format_args!("{}: {}: {}", point.name(), command(key), api.last_error_text());
            return Err(failed(point, last_error::translate(found), found, text));
        }
        Err(found) => {
            counters::miss(family);
            if matches!(found, code::PLAN | code::STORE) {
                log::warning(format_args!("{}: {}; taken as if no plan was stored", command(key), api.last_error_text()));
            }
            match config.miss {
                Miss::Private => return declined(Decline::NoPlan),
                // Left open: a query may still compile it.
                Miss::Compile if !may_compile && key.kind() == Kind::Plain => {
                    let text = format_args!("{}: no plan is stored for {}, and only a query compiles one", point.name(), command(key));
                    return Err(failed(point, status::BAD_PARM, found, text));
                }
                // What is compiled would need as much workspace as what is stored.
                Miss::Compile if !may_compile || found == code::WORKSPACE => return declined(Decline::NoPlan),
                Miss::Error => {
                    let what = if found == code::WORKSPACE { "no plan that needs so little workspace" } else { "no plan" };
                    let text = format!("{what} is stored for {} (graph key {graph_key})", command(key));
                    return Ok(Side::Refused { status: last_error::translate(code::MISS), code: code::MISS, text });
                }
                Miss::Compile => match runtime.compile(&graph).and_then(|()| runtime.bind(&graph, most)) {
                    Ok(plan) => plan,
                    Err(_) => {
                        log::warning(format_args!("{}: not compiled: {}; MIOpen answers", command(key), api.last_error_text()));
                        return declined(Decline::NotCompiled);
                    }
                },
            }
        }
    };
    let small = if plan.workspace > 0 { runtime.smaller(&graph, plan.workspace) } else { None };
    let variant = |epilogue| if key.kind() == Kind::Plain { runtime.variant(epilogue, plan.workspace) } else { None };
    let mut plan_key = Key::default();
    // SAFETY: a bound plan, and room for its key.
    if unsafe { (api.plan_key)(plan.plan, &raw mut plan_key) } != code::OK {
        plan_key.bytes = *graph_key.as_bytes();
    }
    Ok(Side::Forwarded(Forwarded {
        plan,
        small,
        scaled: variant(ConvEpilogue::SCALE),
        bilinear: variant(ConvEpilogue::bilinear(key.result().strides)),
        solution: solution_id::of_plan(&plan_key.bytes),
    }))
}

/// Codes that mean "there is no plan that can be used".
const fn is_miss(found: i32) -> bool {
    matches!(found, code::MISS | code::UNSUPPORTED | code::PLAN | code::STORE | code::WORKSPACE)
}

/// How a problem is told to a person.
pub fn command(key: &ProblemKey) -> Command<'_> {
    Command { call: Call::Run, key }
}

impl Runtime<'_> {
    fn bind(&self, graph: &GraphBuf, most: u64) -> Result<Bound, i32> {
        let options = BindOptions { struct_size: size_of::<BindOptions>(), max_workspace: most };
        let mut plan = std::ptr::null_mut();
        let buffer = graph.buffer();
        // SAFETY: an open context, a graph with its size, options and a place for the plan that outlive the call.
        let found =
            unsafe { (self.api.bind_by_graph)(self.context, buffer.as_ptr().cast(), buffer.len(), &raw const options, &raw mut plan) };
        if found != code::OK {
            return Err(found);
        }
        if plan.is_null() {
            return Err(code::INTERNAL);
        }
        // SAFETY: a bound plan.
        Ok(Bound { plan, workspace: unsafe { (self.api.plan_workspace_size)(plan) } })
    }

    fn compile(&self, graph: &GraphBuf) -> Result<(), i32> {
        let buffer = graph.buffer();
        // SAFETY: an open context and a graph with its size.
        match unsafe { (self.api.compile)(self.context, buffer.as_ptr().cast(), buffer.len()) } {
            code::OK => Ok(()),
            found => Err(found),
        }
    }

    /// A plan of the same graph with less workspace: none at all if there is such a plan.
    fn smaller(&self, graph: &GraphBuf, workspace: u64) -> Option<Bound> {
        self.bind(graph, 0).or_else(|_| self.bind(graph, workspace.saturating_sub(1))).ok().filter(|small| small.workspace < workspace)
    }

    /// The plan with something behind the sums, where it is stored or to be compiled.
    fn variant(&self, epilogue: ConvEpilogue, workspace: u64) -> Option<Bound> {
        let (graph, key) = graph(self.problem, Some(epilogue))?;
        let key = Key { bytes: *key.as_bytes() };
        // SAFETY: an open context and a key.
        let is_stored = unsafe { (self.api.find)(self.context, &raw const key) } == code::OK;
        let is_wanted = config::get().scaled.unwrap_or(self.problem.spatial == 3);
        let is_there = is_stored || (self.may_compile && is_wanted && self.compile(&graph).is_ok());
        if is_there { self.bind(&graph, workspace).ok() } else { None }
    }
}
