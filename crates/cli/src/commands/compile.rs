//! `hipplan compile`

use crate::plugins::{EngineOptions, PluginOptions};
use crate::targets::{self, TargetChoice};
use crate::{Exit, Global, counts, inputs, location, logs, output, progress::Bar};
use hipplan::{BatchItem, BatchOptions, BatchReport, LackReason, Limits, Outcome, ReportRow, Shard, ToolUse, compile_batch};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Compile graphs into the store
///
/// Every input is checked and keyed; equal graphs are compiled once, and what the store holds already is not compiled again. A bad
/// input costs only itself. Of several engines that take a graph, the first of the first provider compiles it (`hipplan engines`
/// lists them), or the one that the graph prefers, or that is asked for. The store ends up byte for byte the same, whatever the number of jobs. Inputs are those of `hipplan import`,
/// logs with MIOpenDriver lines among them.
///
/// A run that was killed is resumed by running it again. With --shard, several machines compile one set of inputs: each takes the graphs
/// of its part, which follows from their keys alone.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hipplan compile graph.json
  hipplan compile corpus/graphs --store plans --jobs 8
  hipplan compile training.log --store plans          every convolution that MIOpen logged
  hipplan compile graph.json --plugin host:./libmine.so --engine MINE --knob mine.tile=64
  cat graph.json | hipplan compile - --json
  hipplan compile training.log --store plans --shard 3/16     one of sixteen machines
  hipplan compile training.log --store plans --require-precompiled   check that all is there; compile nothing

Exit codes:
  0  the store answers every graph
  1  an input is no graph, a convolution of a log could not be read, compiling failed, or a plan was not kept; the rest was done
  2  not done: what was named is not there, or the store cannot be opened
  3  no engine takes some of the graphs; the rest was done
  4  to 7, with --require-precompiled alone: missing, wrong target, stale, unreadable; the highest counts")]
pub(crate) struct Compile {
    /// Graph files, logs, folders of them, or - for standard input
    #[arg(required_unless_present = "line", value_name = "INPUT")]
    inputs: Vec<PathBuf>,
    /// A MIOpenDriver line
    #[arg(long, value_name = "LINE", allow_hyphen_values = true)]
    line: Vec<String>,
    /// Target to compile for: cpu, an AMD GPU such as gfx942, or native, the GPUs of this machine; may be given several times or as a list
    #[arg(long, value_name = "TARGET", default_value = "cpu", value_delimiter = ',')]
    target: Vec<TargetChoice>,
    #[command(flatten)]
    engine: EngineOptions,
    #[command(flatten)]
    plugins: PluginOptions,
    /// Threads [default: one per processor]
    #[arg(short, long, value_name = "N")]
    jobs: Option<std::num::NonZeroUsize>,
    /// Only the graphs of part I of N, from 1; equal graphs are in one part, and the N parts are the whole
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
    /// Compile nothing and write nothing: check that every plan is there, whole, and of use here (exit codes 4 to 7)
    #[arg(long)]
    require_precompiled: bool,
}

impl Compile {
    pub(crate) fn run(self, global: &Global) -> anyhow::Result<Exit> {
        let sites = targets::sites(&self.target)?;
        let policy = self.engine.policy()?;
        let mut providers = self.plugins.providers()?;
        providers.require_precompiled(self.require_precompiled);
        let sources = inputs::expand(&self.inputs, &self.line)?;
        let store = if self.require_precompiled { location::readable(global)? } else { location::writable(global)? };
        let mut warnings = Vec::new();
        let mut items: Vec<BatchItem> = Vec::new();
        let mut all = Vec::new();
        for source in &sources {
            let mut contents = inputs::read(source, &Limits::DEFAULT);
            for input in std::mem::take(&mut contents.inputs) {
                items.push(match input.graph {
                    Ok(imported) => {
                        warnings.extend(imported.warnings.iter().map(|w| format!("{}: {w}", input.source)));
                        BatchItem::of_graph(input.source, &imported.graph.view())
                    }
                    Err(reason) => BatchItem::invalid(input.source, reason),
                });
            }
            all.push(contents);
        }
        let options = BatchOptions { sites, policy, jobs: self.jobs.map_or_else(default_jobs, Into::into), shard: self.shard };
        let here = items.iter().filter(|item| item.is_in(self.shard)).count();
        let bar = Bar::new(global, "compiling", here * options.sites.len());
        let report = compile_batch(&store, &items, &options, &providers, &bar);
        drop(bar);
        if global.json {
            let mut value = to_json(&report, &warnings);
            value["logs"] = logs::to_json(&all);
            value["shard"] = json!(self.shard.map(|shard| shard.to_string()));
            value["in_other_shards"] = report.elsewhere.into();
            value["counters"] = counts::to_json(&providers.counters().get());
            let tool = |t: &ToolUse| json!({ "name": t.name, "runs": t.runs, "reused": t.reused });
            value["compilers"] = providers.tools().iter().map(tool).collect();
            output::json(&value)?;
        } else {
            print(&report)?;
            for warning in &warnings {
                global.remark(format_args!("{}warning:{} {}", output::WARN, output::RESET, output::name(warning)))?;
            }
            logs::print(&all)?;
            for reason in unserved(&report).values() {
                output::line(format_args!("{}error:{} {}", output::BAD, output::RESET, output::name(reason)))?;
            }
            for tool in providers.tools() {
                let (runs, reused) = (output::count(tool.runs as usize, "kernel"), tool.reused);
                global.remark(format_args!("{} compiled {runs}; {reused} more were shared", output::name(&tool.name)))?;
            }
            if let Some(text) = counts::text(&providers.counters().get()) {
                global.remark(text)?;
            }
            let elsewhere = match &self.shard {
                Some(shard) => format!("; shard {shard}: {} in other shards", output::count(report.elsewhere, "input")),
                None => String::new(),
            };
            output::line(format_args!("{}{elsewhere}", summary(&report)))?;
        }
        Ok(match exit(&report) {
            Exit::Good | Exit::Refused if logs::any_lost(&all) => Exit::Findings,
            other => other,
        })
    }
}

pub(crate) fn default_jobs() -> usize {
    std::thread::available_parallelism().map_or(1, Into::into)
}

fn exit(report: &BatchReport) -> Exit {
    if let Some(reason) = report.lacking() {
        Exit::Lacking(reason)
    } else if report.count("invalid") + report.count("failed") > 0 || not_stored(report) > 0 {
        Exit::Findings
    } else if report.count("refused") > 0 {
        Exit::Refused
    } else {
        Exit::Good
    }
}

/// Plans that were compiled and could not be kept.
fn not_stored(report: &BatchReport) -> usize {
    report.rows.iter().filter(|row| matches!(&row.outcome, Outcome::Compiled { not_stored: Some(_), .. })).count()
}

/// What to tell of a row beside its word.
pub(crate) fn detail(row: &ReportRow, rows: &[ReportRow]) -> String {
    match &row.outcome {
        Outcome::Present { .. } => String::new(),
        Outcome::Compiled { not_stored, in_place_of, .. } => {
            let not_stored = not_stored.iter().map(|reason| format!("not stored: {reason}"));
            not_stored.chain(in_place_of.iter().map(|lack| format!("in place of one that is {lack}"))).collect::<Vec<_>>().join("; ")
        }
        Outcome::Lacking(lack) => lack.detail.clone(),
        Outcome::Duplicate { of } => {
            let first = rows.iter().find(|r| r.input == *of).map_or("an earlier input", |r| r.source.as_str());
            format!("same graph as {first}")
        }
        Outcome::Refused { of_target: true, .. } => "nothing compiles for the target".to_owned(),
        Outcome::Refused { reason, .. } | Outcome::Invalid { reason } | Outcome::Failed { reason } => reason.clone(),
    }
}

fn to_json(report: &BatchReport, warnings: &[String]) -> serde_json::Value {
    let rows: Vec<_> = report
        .rows
        .iter()
        .map(|row| {
            let plan = match &row.outcome {
                Outcome::Compiled { plan, .. } | Outcome::Present { plan } => Some(plan.to_string()),
                _ => None,
            };
            let missing: &[&str] = match &row.outcome {
                Outcome::Refused { missing_ops, .. } => missing_ops,
                _ => &[],
            };
            json!({
                "source": row.source,
                "target": row.target,
                "outcome": row.outcome.word(),
                "graph_key": row.graph.map(|k| k.to_string()),
                "plan_key": plan,
                "missing_operations": missing,
                "detail": detail(row, &report.rows),
            })
        })
        .collect();
    let mut counts: serde_json::Map<String, serde_json::Value> = words().map(|w| (w.to_owned(), report.count(w).into())).collect();
    counts.insert("not_stored".to_owned(), not_stored(report).into());
    json!({ "rows": rows, "summary": counts, "warnings": warnings, "refused_targets": unserved(report) })
}

/// Targets that nothing compiles for, each with the reason of every provider.
fn unserved(report: &BatchReport) -> BTreeMap<&str, &str> {
    report
        .rows
        .iter()
        .filter_map(|row| match &row.outcome {
            Outcome::Refused { reason, of_target: true, .. } => Some((row.target.as_str(), reason.as_str())),
            _ => None,
        })
        .collect()
}

/// Words of the outcomes, in the order in which they are counted.
fn words() -> impl Iterator<Item = &'static str> {
    let words = ["compiled", "present", "duplicate", "refused", "invalid", "failed"];
    words.into_iter().chain(LackReason::ALL.map(LackReason::word))
}

fn print(report: &BatchReport) -> anyhow::Result<()> {
    let mut table = output::table(&["graph", "target", "outcome", "key", "detail"]);
    for row in &report.rows {
        table.add_row([
            output::name(&row.source),
            row.target.clone(),
            row.outcome.word().to_owned(),
            row.graph.map(|k| k.short()).unwrap_or_default(),
            output::name(&detail(row, &report.rows)),
        ]);
    }
    output::print_table(&table, |i| match report.rows.get(i)?.outcome {
        Outcome::Invalid { .. } | Outcome::Failed { .. } | Outcome::Lacking(_) => Some(output::BAD),
        Outcome::Refused { .. } => Some(output::WARN),
        _ => None,
    })
}

/// One line that counts the outcomes and names the operations that are missing.
pub(crate) fn summary(report: &BatchReport) -> String {
    let lost = match not_stored(report) {
        0 => String::new(),
        n => format!(" ({n} of them not stored)"),
    };
    let of_word = |w| format!("{} {w}{}", report.count(w), if w == "compiled" { &lost } else { "" });
    let counts: Vec<String> = words().filter(|w| report.count(w) > 0).map(of_word).collect();
    let mut missing: Vec<&str> = report
        .rows
        .iter()
        .filter_map(|r| match &r.outcome {
            Outcome::Refused { missing_ops, .. } => Some(missing_ops.as_slice()),
            _ => None,
        })
        .flatten()
        .copied()
        .collect();
    missing.sort_unstable();
    missing.dedup();
    let tail = if missing.is_empty() { String::new() } else { format!("; operations that no engine has yet: {}", missing.join(", ")) };
    let targets = report.rows.iter().map(|row| &row.target).collect::<BTreeSet<_>>().len().max(1);
    let each = if targets > 1 { format!(" for {targets} targets") } else { String::new() };
    format!("{}{each}: {}{tail}", output::count(report.rows.len() / targets, "graph"), counts.join(", "))
}
