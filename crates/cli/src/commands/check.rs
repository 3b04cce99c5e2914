//! `hipplan check`

use crate::execute::{DeviceOption, Session};
use crate::plugins::{EngineOptions, PluginOptions};
use crate::{Exit, Global, inputs, location, logs, output, progress::Bar};
use anyhow::{Context, bail};
use hipplan::reference::{CheckReport, Inputs, check_with};
use hipplan::{
    BoundPlan, Device, FieldRole, GraphKey, ImportedGraph, Limits, Op, Plan, Policy, Providers, Restore, Store, Target, VerifiedGraph,
    describe_misses, find_for_targets,
};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Instant;

/// Execute the stored plans of many graphs and check the results
///
/// Each plan is restored from the store and executed with random inputs; every element of its outputs is compared with a naive
/// implementation in double precision. Nothing is compiled. Graphs over the bounds are listed as such and not executed.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hipplan check graphs/ --store plans
  hipplan check training.log --store plans --max-gmac 2 --max-bytes 1G
  hipplan check graphs/ --store plans --device hip    on the first AMD GPU

Exit codes:
  0  every plan that was executed gives the right result
  1  a result is wrong, a plan is missing, an input is no graph, or a convolution of a log could not be read
  2  not done: what was named is not there, or is no store or device")]
pub(crate) struct Check {
    /// Graph files, logs, folders of them, or - for standard input
    #[arg(required_unless_present = "line", value_name = "INPUT")]
    inputs: Vec<PathBuf>,
    /// A MIOpenDriver line
    #[arg(long, value_name = "LINE", allow_hyphen_values = true)]
    line: Vec<String>,
    #[command(flatten)]
    device: DeviceOption,
    /// Execute graphs of at most so many multiply-adds, in units of 10^9
    #[arg(long, value_name = "N", default_value_t = 2.0, value_parser = gmac, allow_negative_numbers = true)]
    max_gmac: f64,
    /// Execute graphs whose tensors have at most so many bytes; K, M and G are powers of 1024
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = size)]
    max_bytes: u64,
    /// Seed of the random inputs
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    engine: EngineOptions,
    #[command(flatten)]
    plugins: PluginOptions,
}

/// What plans are looked for with, and where they execute.
struct Place {
    store: Store,
    device: Device,
    targets: Vec<Target>,
    providers: Providers,
    policy: Policy,
}

/// What became of one graph.
enum Outcome {
    Passed {
        worst: f64,
    },
    Failed(String),
    /// The graph of an earlier row.
    Duplicate(String),
    TooLarge,
    NoPlan(String),
    Error(String),
}

impl Outcome {
    const fn word(&self) -> &'static str {
        match self {
            Self::Passed { .. } => "ok",
            Self::Failed(_) => "FAILED",
            Self::Duplicate(_) => "duplicate",
            Self::TooLarge => "too large",
            Self::NoPlan(_) => "no plan",
            Self::Error(_) => "error",
        }
    }

    fn detail(&self) -> String {
        match self {
            Self::Passed { worst } => format!("{worst:.2} of the tolerance"),
            Self::Duplicate(of) => format!("same graph as {of}"),
            Self::Failed(text) | Self::NoPlan(text) | Self::Error(text) => text.clone(),
            Self::TooLarge => String::new(),
        }
    }

    const fn is_finding(&self) -> bool {
        matches!(self, Self::Failed(_) | Self::NoPlan(_) | Self::Error(_))
    }
}

struct Row {
    source: String,
    cost: Option<Cost>,
    seconds: f64,
    outcome: Outcome,
}

const WORDS: [&str; 6] = ["ok", "FAILED", "duplicate", "too large", "no plan", "error"];

impl Check {
    pub(crate) fn run(self, global: &Global) -> anyhow::Result<Exit> {
        let sources = inputs::expand(&self.inputs, &self.line)?;
        let (device, targets) = self.device.open()?;
        let (policy, providers) = (self.engine.policy()?, self.plugins.providers()?);
        let place = Place { store: location::readable(global)?, device, targets, providers, policy };
        let mut all = Vec::new();
        let mut inputs = Vec::new();
        for source in &sources {
            let mut contents = inputs::read(source, &Limits::DEFAULT);
            inputs.append(&mut contents.inputs);
            all.push(contents);
        }
        let bar = Bar::new(global, "checking", inputs.len());
        let mut seen = HashMap::new();
        let mut rows = Vec::with_capacity(inputs.len());
        for input in inputs {
            bar.advance(&input.source);
            let start = Instant::now();
            let (cost, outcome) = match input.graph {
                Err(reason) => (None, Outcome::Error(reason)),
                Ok(graph) => (Some(Cost::of(&graph.graph.view())), self.outcome(&place, &input.source, &graph, &mut seen)),
            };
            rows.push(Row { source: input.source, cost, seconds: start.elapsed().as_secs_f64(), outcome });
        }
        drop(bar);
        let count = |word: &str| rows.iter().filter(|r| r.outcome.word() == word).count();
        if global.json {
            let summary: serde_json::Map<String, Value> = WORDS.iter().map(|w| ((*w).to_owned(), count(w).into())).collect();
            output::json(
                &json!({ "device": place.device.to_string(), "rows": rows.iter().map(to_json).collect::<Vec<_>>(), "summary": summary, "logs": logs::to_json(&all) }),
            )?;
        } else {
            print(&rows)?;
            logs::print(&all)?;
            let counts: Vec<String> = WORDS.iter().filter(|w| count(w) > 0).map(|w| format!("{} {w}", count(w))).collect();
            output::line(format_args!("{}: {}", output::count(rows.len(), "graph"), counts.join(", ")))?;
        }
        let good = !rows.iter().any(|r| r.outcome.is_finding()) && !logs::any_lost(&all);
        Ok(if good { Exit::Good } else { Exit::Findings })
    }

    fn outcome(
        &self,
        place: &Place,
        source: &str,
        imported: &ImportedGraph,
        seen: &mut HashMap<(GraphKey, Option<i64>), String>,
    ) -> Outcome {
        let graph = imported.graph.view();
        let key = match graph.canonical() {
            Ok(canonical) => canonical.key,
            Err(error) => return Outcome::Error(error.to_string()),
        };
        // As they are compiled: a preference may lead to another plan.
        let one = (key, graph.preferred_engine_id());
        if let Some(first) = seen.get(&one) {
            return Outcome::Duplicate(first.clone());
        }
        seen.insert(one, source.to_owned());
        let Place { store, device, targets, providers, policy } = place;
        let policy = policy.preferring(graph.preferred_engine_id());
        let plan = match find_for_targets(store, &key, Some(device), targets, providers.loaders(), &policy) {
            Restore::Found(plan) => plan,
            Restore::Missed(misses) => return Outcome::NoPlan(describe_misses(&misses).to_string()),
        };
        let cost = Cost::of(&graph);
        if cost.macs as f64 > self.max_gmac * 1e9 || cost.bytes > self.max_bytes {
            return Outcome::TooLarge;
        }
        let plan = Plan::new(plan.view()).with_code_objects(store);
        let bound = plan.bind_by_graph(device, providers.loaders(), &graph).map_err(Into::into);
        match bound.and_then(|bound| execute_and_check(bound, device, &graph, self.seed)) {
            Ok(report) if report.passed() => Outcome::Passed { worst: report.worst_bound_ratio() },
            Ok(report) => Outcome::Failed(report.to_string()),
            Err(error) => Outcome::Error(format!("{error:#}")),
        }
    }
}

fn execute_and_check(bound: BoundPlan, device: &Device, graph: &VerifiedGraph<'_>, seed: u64) -> anyhow::Result<CheckReport> {
    let inputs = Inputs::generate(graph, seed)?;
    let mut session = Session::new(device, bound, &inputs)?;
    let checked = check_with(graph, &inputs, &mut |inputs, outputs| {
        let tensors = outputs.tensors_mut().iter_mut().map(|t| (t.uid.0, &mut t.tensor));
        session.execute(inputs, &[], tensors).map(|_| ())
    });
    checked.map_err(|e| anyhow::anyhow!("{e}"))
}

/// What it takes to execute a graph.
#[derive(Clone, Copy)]
struct Cost {
    /// Multiply-adds of its convolutions and products, and one for each element that another node writes.
    macs: u64,
    /// Bytes of its tensors.
    bytes: u64,
}

impl Cost {
    fn of(graph: &VerifiedGraph<'_>) -> Self {
        let dims = |uid| graph.find(uid).map_or(&[][..], |ix| graph.tensor(ix).dims);
        let product = |dims: &[i64]| dims.iter().fold(1_u64, |n, &d| n.saturating_mul(d.unsigned_abs()));
        let mut macs = 0_u64;
        for node in graph.nodes() {
            let conv = |positions, filter| product(dims(positions)).saturating_mul(product(dims(filter).get(1..).unwrap_or_default()));
            let cost = match graph.op(node) {
                Op::ConvolutionFwd(op) => conv(op.y, op.w),
                Op::ConvolutionBwd(op) => conv(op.dy, op.w),
                Op::ConvolutionWrw(op) => conv(op.dy, op.dw),
                Op::Matmul(op) => product(dims(op.c)).saturating_mul(dims(op.a).last().map_or(1, |d| d.unsigned_abs())),
                _ => {
                    let written = graph.operands(node).iter().filter(|o| o.role == FieldRole::Output);
                    written.map(|o| graph.tensor(o.tensor).elements()).fold(0, u64::saturating_add)
                }
            };
            macs = macs.saturating_add(cost);
        }
        let bytes = graph.tensors().iter().map(|t| t.span_bytes()).fold(0, u64::saturating_add);
        Self { macs, bytes }
    }
}

fn to_json(row: &Row) -> Value {
    json!({
        "source": row.source,
        "outcome": row.outcome.word(),
        "detail": row.outcome.detail(),
        "macs": row.cost.map(|c| c.macs),
        "bytes": row.cost.map(|c| c.bytes),
        "seconds": row.seconds,
    })
}

fn print(rows: &[Row]) -> anyhow::Result<()> {
    let mut table = output::table(&["graph", ">GMAC", ">tensors", "check", "detail"]);
    for row in rows {
        table.add_row([
            output::name(&row.source),
            row.cost.map_or_else(String::new, |c| format!("{:.3}", c.macs as f64 / 1e9)),
            row.cost.map_or_else(String::new, |c| output::bytes(c.bytes)),
            row.outcome.word().to_owned(),
            output::name(&row.outcome.detail()),
        ]);
    }
    output::print_table(&table, |i| match &rows.get(i)?.outcome {
        Outcome::TooLarge | Outcome::Duplicate(_) => Some(output::DIM),
        outcome if outcome.is_finding() => Some(output::BAD),
        _ => None,
    })
}

/// A number of multiply-adds in units of 10^9.
fn gmac(text: &str) -> anyhow::Result<f64> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
        _ => bail!("expected a number from 0 up, such as 2 or 0.5"),
    }
}

/// A number of bytes: 512M.
fn size(text: &str) -> anyhow::Result<u64> {
    let (digits, shift) = match text.chars().last() {
        Some('K' | 'k') => (&text[..text.len() - 1], 10),
        Some('M' | 'm') => (&text[..text.len() - 1], 20),
        Some('G' | 'g') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let number: u64 = digits.parse().with_context(|| format!("{text:?} is not a size such as 512M"))?;
    match number.checked_mul(1 << shift) {
        Some(bytes) => Ok(bytes),
        None => bail!("{text:?} is too large"),
    }
}
