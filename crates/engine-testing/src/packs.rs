//! Random variant packs: what an execution makes of entries that are missing, repeated, null, too short, of the wrong kind, of unknown
//! tensors, and of tensors whose value is baked.
//!
//! The graph is `y = (x * constant + supplied) * defaulted`, a scalar in each of the states of R16 §4.2. What must come out follows from
//! the by-value table, which is written down here once more, independently of the executor.

use crate::HostScalar;
use hipplan::plugin::{PluginSearch, PluginSource, Plugins};
use hipplan::{
    BoundPlan, DataType, Device, ExecError, GraphBuf, GraphBuilder, Plan, PointwiseMode, Policy, Providers, Request, ScalarType, Site,
    Stream, Target, TensorAttributes, Uid, VariantPack, Workspace, compile_graph, ops,
};
use std::error::Error;
use std::ffi::c_void;
use std::io;
use std::path::Path;

const N: usize = 5;
const POISON: f32 = -77.0;
const X: i64 = 11;
const CONSTANT: i64 = -7;
const SUPPLIED: i64 = 400;
const DEFAULTED: i64 = i64::MAX;
const Y: i64 = 5;
const UNKNOWN: [i64; 4] = [0, 12, i64::MIN, -1];
const CONSTANT_VALUE: f32 = 3.0;
const DEFAULT_VALUE: f32 = 0.5;

/// Numbers that look random and are the same everywhere (xorshift).
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 11) % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// What an entry of a scalar with a default means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DefaultEntries {
    /// Nothing, unless it is an explicit override.
    Inert,
    /// It wins: the pack is forwarded to a plugin, and that is the contract of API 1.2.0 (R16 §4.6). One that is null, of another type, or
    /// the second is refused before.
    Win,
}

/// A plan of the graph, bound, and what it is called.
#[derive(Debug)]
pub struct Subject {
    name: String,
    bound: BoundPlan,
    workspace: Workspace,
    default_entries: DefaultEntries,
}

impl Subject {
    /// A plan of the `cpu` provider, by way of a plan file.
    ///
    /// # Errors
    /// It cannot be compiled or bound.
    pub fn cpu() -> Result<Self, Box<dyn Error>> {
        Self::new(
            "cpu".to_owned(),
            &Policy { provider: Some("cpu".to_owned()), ..Policy::DEFAULT },
            &Providers::default(),
            DefaultEntries::Inert,
        )
    }

    /// A plan through a plugin that computes in host memory and keeps the contract of API 1.2.0, by way of a plan file.
    ///
    /// # Errors
    /// The plugin cannot be loaded, or the plan cannot be compiled or bound.
    pub fn plugin(path: &Path) -> Result<Self, Box<dyn Error>> {
        let mut search = PluginSearch::new();
        search.add(format!("host:{}", path.display()).parse::<PluginSource>()?);
        let plugins: Plugins = search.load();
        let Some(plugin) = plugins.iter().next() else { return Err(format!("{}: {:?}", path.display(), plugins.failures()).into()) };
        let policy = Policy { provider: Some(plugin.name().to_owned()), ..Policy::DEFAULT };
        let mut providers = Providers::default();
        providers.add_plugins(&plugins);
        Self::new(format!("plugin {}", plugin.name()), &policy, &providers, DefaultEntries::Win)
    }

    fn new(name: String, policy: &Policy, providers: &Providers, default_entries: DefaultEntries) -> Result<Self, Box<dyn Error>> {
        let graph = graph()?;
        let request = Request { site: &Site::of(&Target::Cpu), policy };
        let plan = compile_graph(&graph.view(), &request, providers)?;
        let bound = Plan::open(&plan.bytes)?.bind_by_graph(&Device::Cpu, providers.loaders(), &graph.view())?;
        let workspace = Workspace::new(bound.workspace_size())?;
        Ok(Self { name, bound, workspace, default_entries })
    }
}

fn graph() -> Result<GraphBuf, Box<dyn Error>> {
    let mut g = GraphBuilder::new();
    let with = |mut tensor: TensorAttributes, uid| tensor.set_uid(Uid(uid)).clone();
    let packed = || TensorAttributes::packed(DataType::Float, &[N as i64]);
    let x = g.tensor(with(packed(), X));
    let constant = g.tensor(with(TensorAttributes::scalar(CONSTANT_VALUE), CONSTANT));
    let supplied = g.tensor(with(TensorAttributes::scalar(0.0_f32).set_as_runtime_parameter().clone(), SUPPLIED));
    let defaulted = g.tensor(with(TensorAttributes::scalar_of(DEFAULT_VALUE, ScalarType::RuntimeParam), DEFAULTED));
    let y = g.tensor(with(packed(), Y));
    let [product, sum] = [1001, 1002].map(|uid| with(packed().set_virtual(true).clone(), uid));
    let (product, sum) = (g.tensor(product), g.tensor(sum));
    g.node("scale", DataType::Float, ops::Pointwise::binary(PointwiseMode::Mul, x, constant, product));
    g.node("shift", DataType::Float, ops::Pointwise::binary(PointwiseMode::Add, product, supplied, sum));
    g.node("scale again", DataType::Float, ops::Pointwise::binary(PointwiseMode::Mul, sum, defaulted, y));
    Ok(g.build()?)
}

/// How often what happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Executions with the right result.
    pub executed: u64,
    /// Executions that were refused, as they had to be.
    pub refused: u64,
}

/// An address that faults when it is read.
struct Forbidden {
    page: *mut c_void,
    bytes: usize,
}

impl Forbidden {
    fn new() -> io::Result<Self> {
        let bytes = 1 << 16;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping at a place of the system's choice touches no other memory.
        let page = unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
        if page == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(Self { page, bytes }) }
    }
}

impl Drop for Forbidden {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`, of this size; what named it is gone.
        unsafe { libc::munmap(self.page, self.bytes) };
    }
}

/// One entry of a pack, and what it means to whoever executes.
#[derive(Clone, Copy, Debug)]
enum Entry {
    /// A typed buffer or scalar, as it should be.
    Typed,
    /// A pointer, as a C caller gives it.
    Raw,
    /// A null pointer.
    Null,
    /// A typed buffer with an element less, or a typed scalar of another type.
    Misfit,
    /// A typed scalar for a tensor, or a typed buffer for a scalar.
    OtherKind,
    /// A pointer that must not be read.
    Forbidden,
    /// A value that replaces a default too.
    Override,
    /// The same, as a pointer.
    RawOverride,
}

/// Executes so many times, with each subject in turn.
///
/// # Errors
/// Memory cannot be had.
///
/// # Panics
/// If an execution gives another result than the table of the module's documentation says.
pub fn execute_random_packs(subjects: &mut [Subject], executions: u64, seed: u64) -> io::Result<Summary> {
    let mut random = Random(seed | 1);
    let mut summary = Summary::default();
    let forbidden = Forbidden::new()?;
    let (mut supplied, mut defaulted) = (HostScalar::new(0.0_f32)?, HostScalar::new(0.0_f32)?);
    let turns = subjects.len().max(1) as u64;
    for execution in 0..executions {
        let Some(subject) = subjects.get_mut((execution % turns) as usize) else { break };
        let values = [random.below(100) as f32, random.below(64) as f32 - 32.0];
        supplied.set(values[0]);
        defaulted.set(values[1]);
        let chosen = choose(&mut random, subject.default_entries);
        let expected = expected(&chosen, values, subject.default_entries);
        let found = execute(subject, &chosen, [&supplied, &defaulted], values, &forbidden);
        match (expected, &found) {
            (Some(expected), (Ok(()), y)) => {
                assert_eq!(*y, expected, "execution {execution} of seed {seed}, {}: {chosen:?}", subject.name);
                summary.executed += 1;
            }
            (None, (Err(error), y)) => {
                let text = error.to_string();
                assert!(!text.is_empty());
                assert_eq!(*y, [POISON; N], "execution {execution} of seed {seed}, {}: {text}: {chosen:?}", subject.name);
                summary.refused += 1;
            }
            (expected, found) => {
                panic!("execution {execution} of seed {seed}, {}: expected {expected:?}, found {found:?}: {chosen:?}", subject.name)
            }
        }
    }
    Ok(summary)
}

/// Entries by uid, in a random order.
fn choose(random: &mut Random, default_entries: DefaultEntries) -> Vec<(i64, Entry)> {
    let mut chosen = Vec::new();
    // Half of all packs are good but for what is inert, so that both happen often.
    let is_good = random.one_in(2);
    for uid in [X, Y, SUPPLIED] {
        let good = if random.one_in(2) { Entry::Typed } else { Entry::Raw };
        if is_good {
            chosen.push((uid, good));
            continue;
        }
        match random.below(9) {
            0 => {}
            1 => chosen.push((uid, Entry::Null)),
            2 => chosen.push((uid, Entry::Misfit)),
            3 => chosen.push((uid, Entry::OtherKind)),
            4 => chosen.extend([(uid, good), (uid, Entry::Typed)]),
            5 => chosen.extend([(uid, Entry::Null), (uid, good)]),
            _ => chosen.push((uid, good)),
        }
    }
    for _ in 0..random.below(3) {
        let any = [Entry::Typed, Entry::Raw, Entry::Null, Entry::Misfit, Entry::OtherKind, Entry::Forbidden, Entry::RawOverride];
        chosen.push((CONSTANT, any[random.below(any.len() as u64) as usize]));
    }
    match (default_entries, random.below(6)) {
        (_, 0..=1) => {}
        (_, 2) => chosen.push((DEFAULTED, Entry::Override)),
        (_, 3) => chosen.push((DEFAULTED, Entry::RawOverride)),
        (DefaultEntries::Win, 4) => chosen.push((DEFAULTED, if random.one_in(2) { Entry::Raw } else { Entry::Typed })),
        (DefaultEntries::Win, _) => match random.below(4) {
            0 => chosen.push((DEFAULTED, Entry::Null)),
            1 => chosen.push((DEFAULTED, Entry::Misfit)),
            2 => chosen.push((DEFAULTED, Entry::OtherKind)),
            _ => chosen.extend([(DEFAULTED, Entry::Raw), (DEFAULTED, Entry::Typed)]),
        },
        (DefaultEntries::Inert, n) => {
            let inert = [Entry::Typed, Entry::Raw, Entry::Null, Entry::Misfit, Entry::Forbidden];
            for _ in 0..n - 3 {
                chosen.push((DEFAULTED, inert[random.below(inert.len() as u64) as usize]));
            }
        }
    }
    for _ in 0..random.below(3) {
        let any = [Entry::Typed, Entry::Null, Entry::Forbidden, Entry::Override];
        let uid = UNKNOWN[random.below(UNKNOWN.len() as u64) as usize];
        chosen.push((uid, any[random.below(any.len() as u64) as usize]));
    }
    for i in (1..chosen.len()).rev() {
        chosen.swap(i, random.below(i as u64 + 1) as usize);
    }
    chosen
}

fn x(i: usize) -> f32 {
    i as f32 - 2.0
}

/// The by-value table: the result, or nothing where the execution must be refused.
fn expected(chosen: &[(i64, Entry)], [supplied, defaulted]: [f32; 2], default_entries: DefaultEntries) -> Option<[f32; N]> {
    for uid in [X, Y, SUPPLIED] {
        let mut own = chosen.iter().filter(|(of, _)| *of == uid).map(|(_, entry)| entry);
        if !matches!((own.next(), own.next()), (Some(Entry::Typed | Entry::Raw), None)) {
            return None;
        }
    }
    if default_entries == DefaultEntries::Win {
        // Such an entry is the plugin's scalar: one at most, and as the plugin may read it.
        let mut own = chosen.iter().filter(|(of, _)| *of == DEFAULTED).map(|(_, entry)| entry);
        let refused = |entry| matches!(entry, &Entry::Null | &Entry::Misfit | &Entry::OtherKind | &Entry::Forbidden);
        if own.next().is_some_and(refused) || own.next().is_some() {
            return None;
        }
    }
    let wins = |entry: &Entry| match entry {
        Entry::Override | Entry::RawOverride => true,
        Entry::Typed | Entry::Raw => default_entries == DefaultEntries::Win,
        _ => false,
    };
    let factor = if chosen.iter().any(|(of, entry)| *of == DEFAULTED && wins(entry)) { defaulted } else { DEFAULT_VALUE };
    Some(std::array::from_fn(|i| (x(i) * CONSTANT_VALUE + supplied) * factor))
}

fn execute(
    subject: &mut Subject,
    chosen: &[(i64, Entry)],
    [supplied_at, defaulted_at]: [&HostScalar<f32>; 2],
    [supplied, defaulted]: [f32; 2],
    forbidden: &Forbidden,
) -> (Result<(), ExecError>, [f32; N]) {
    let input: [f32; N] = std::array::from_fn(x);
    // Each entry of an output has memory of its own: two in one pack must not be one.
    let mut outputs = vec![[POISON; N]; chosen.len()];
    let mut pack = VariantPack::with_capacity(chosen.len());
    for ((uid, entry), output) in chosen.iter().zip(&mut outputs) {
        let uid = *uid;
        let (value, at) = if uid == DEFAULTED { (defaulted, defaulted_at) } else { (supplied, supplied_at) };
        match (entry, uid) {
            (Entry::Typed, X) => pack.input(uid, &input),
            (Entry::Typed, Y) => pack.output(uid, output.as_mut_slice()),
            (Entry::Typed, _) => pack.scalar(uid, value),
            (Entry::Misfit, X) => pack.input(uid, &input[1..]),
            (Entry::Misfit, Y) => pack.output(uid, &mut output[1..]),
            (Entry::Misfit, _) => pack.scalar(uid, f64::from(value)),
            (Entry::OtherKind, X | Y) => pack.scalar(uid, value),
            (Entry::OtherKind, _) => pack.input(uid, &input[..1]),
            (Entry::Override, _) => pack.override_scalar(uid, value),
            (entry, _) => {
                let pointer = match (entry, uid) {
                    (Entry::Null, _) => std::ptr::null_mut(),
                    (Entry::Forbidden, _) => forbidden.page,
                    (_, X) => input.as_ptr().cast_mut().cast(),
                    (_, Y) => output.as_mut_ptr().cast(),
                    _ => at.pointer(),
                };
                match entry {
                    // SAFETY: as of `raw`.
                    Entry::RawOverride => unsafe { pack.raw_override(uid, pointer) },
                    // SAFETY: pointers of x and y are to memory of their whole span, which outlives the pack, and of which nothing but
                    // the execution accesses y's; that of the supplied scalar is to one element. Those of baked and of unknown tensors
                    // are not read, or, where a plugin reads the defaulted one's, are to one element.
                    _ => unsafe { pack.raw(uid, pointer) },
                }
            }
        };
    }
    let result = subject.bound.execute(&pack, subject.workspace.as_mut_slice(), Stream::Default);
    drop(pack);
    // Where nothing was executed, no output was written; else the one that there is.
    let written = outputs.iter().zip(chosen).find(|(_, (uid, _))| *uid == Y).map_or([POISON; N], |(output, _)| *output);
    let any = outputs.iter().find(|output| **output != [POISON; N]).copied();
    (result, any.unwrap_or(written))
}
