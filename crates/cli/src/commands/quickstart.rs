//! `hipplan quickstart`

use super::compile::{default_jobs, detail, summary};
use crate::{Exit, Global, inputs, output, progress::Bar};
use anyhow::{Context, bail};
use hipplan::{BatchItem, BatchOptions, GraphBuf, GraphKey, Limits, Mode, Outcome, Policy, Providers, Site, Store, Target, compile_batch};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// See it all: compile the shipped corpus, run every plan in a new process, check the results
///
/// Each plan is restored and executed by a process that is given only the store and the graph's key, and its results are compared with
/// a naive implementation in double precision.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hipplan quickstart
  hipplan quickstart --corpus graphs --store plans --json

Exit codes:
  0  every result is right
  1  a result is wrong, or an input is no graph
  2  not done: the folder is not there, or the store cannot be made")]
pub(crate) struct Quickstart {
    /// Folder of graphs
    #[arg(long, value_name = "DIR", default_value = "corpus/graphs")]
    corpus: PathBuf,
    /// Seed of the random inputs
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Quickstart {
    pub(crate) fn run(self, global: &Global) -> anyhow::Result<Exit> {
        if !self.corpus.is_dir() {
            bail!("{}: no such folder; start in the project's folder, or give --corpus", output::path(&self.corpus));
        }
        // A store of its own, unless one is named: nothing is left in the user's cache.
        let scratch;
        let folder = match &global.store {
            Some(path) => path.clone(),
            None => {
                scratch = tempfile::tempdir().context("a temporary folder for the store")?;
                scratch.path().join("store")
            }
        };
        let store = Store::open(&folder, Mode::ReadWrite).context("store")?;

        let sources = inputs::expand(std::slice::from_ref(&self.corpus), &[])?;
        let mut graphs: Vec<Option<GraphBuf>> = Vec::new();
        let mut items: Vec<BatchItem> = Vec::new();
        for source in &sources {
            for input in inputs::read(source, &Limits::DEFAULT).inputs {
                let name = if input.problem.is_some() { input.source } else { source.stem().to_string_lossy().into_owned() };
                let (item, graph) = match input.graph {
                    Ok(imported) => (BatchItem::of_graph(name, &imported.graph.view()), Some(imported.graph)),
                    Err(reason) => (BatchItem::invalid(name, reason), None),
                };
                graphs.push(graph);
                items.push(item);
            }
        }
        let options = BatchOptions { sites: vec![Site::of(&Target::Cpu)], policy: Policy::DEFAULT, jobs: default_jobs(), shard: None };
        let bar = Bar::new(global, "compiling", items.len());
        let start = Instant::now();
        let report = compile_batch(&store, &items, &options, &Providers::default(), &bar);
        let compile_ms = start.elapsed().as_secs_f64() * 1e3;
        drop(bar);

        let bar = Bar::new(global, "running", report.rows.len());
        let mut ran: Vec<Option<Value>> = Vec::new();
        for row in &report.rows {
            bar.advance(&row.source);
            ran.push(match (&row.outcome, row.graph) {
                (Outcome::Compiled { .. } | Outcome::Present { .. }, Some(key)) => Some(run_in_new_process(&folder, &key, self.seed)?),
                _ => None,
            });
        }
        drop(bar);

        let mut good = 0;
        let mut bad = report.count("invalid") + report.count("failed");
        let mut table = output::table(&["graph", "operations", "key", ">restore", ">run", ">error/bound", "result"]);
        let mut marks = Vec::new();
        for ((row, graph), result) in report.rows.iter().zip(&graphs).zip(&ran) {
            let operations = graph.as_ref().map(|graph| super::ls::operations(&graph.view())).unwrap_or_default();
            let key = row.graph.map(|k| k.short()).unwrap_or_default();
            let cell =
                |value: &Value, unit: &str, scale: f64| value.as_f64().map_or_else(String::new, |v| format!("{:.0} {unit}", v * scale));
            let (cells, style) = match result {
                Some(value) => {
                    let passed = value["check"]["passed"].as_bool() == Some(true);
                    if passed {
                        good += 1;
                    } else {
                        bad += 1;
                    }
                    let why = value["error"].as_str().unwrap_or("the result is wrong");
                    (
                        [
                            cell(&value["restore_us"], "us", 1.0),
                            cell(&value["run_us"], "us", 1.0),
                            value["check"]["worst_bound_ratio"].as_f64().map_or_else(String::new, |v| format!("{v:.2}")),
                            if passed { "ok".to_owned() } else { why.to_owned() },
                        ],
                        if passed { output::GOOD } else { output::BAD },
                    )
                }
                None => {
                    let (text, style) = match &row.outcome {
                        Outcome::Refused { missing_ops, .. } if !missing_ops.is_empty() => {
                            (format!("no engine has {} yet", missing_ops.join(", ")), output::DIM)
                        }
                        Outcome::Refused { .. } => (detail(row, &report.rows), output::DIM),
                        Outcome::Duplicate { .. } => (detail(row, &report.rows), output::DIM),
                        _ => (detail(row, &report.rows), output::BAD),
                    };
                    ([String::new(), String::new(), String::new(), text], style)
                }
            };
            let [restore, run, ratio, text] = cells;
            table.add_row([output::name(&row.source), operations, key, restore, run, ratio, text]);
            marks.push(style);
        }
        if global.json {
            let rows: Vec<Value> = report
                .rows
                .iter()
                .zip(&ran)
                .map(|(row, run)| {
                    serde_json::json!({
                        "source": row.source, "outcome": row.outcome.word(), "graph_key": row.graph.map(|k| k.to_string()),
                        "detail": detail(row, &report.rows), "run": run,
                    })
                })
                .collect();
            output::json(&serde_json::json!({ "rows": rows, "checked": good, "bad": bad }))?;
        } else {
            output::print_table(&table, |i| marks.get(i).copied())?;
            output::line("")?;
            output::line(format_args!("compiled    {} in {compile_ms:.0} ms", summary(&report)))?;
            let verdict = match bad {
                0 => format!("{}all right{}", output::GOOD, output::RESET),
                n => format!("{}{n} wrong{}", output::BAD, output::RESET),
            };
            output::line(format_args!(
                "executed    {}, each in a new process with nothing but the store and a key: {verdict}",
                output::count(good, "plan")
            ))?;
            if global.store.is_some() {
                output::line(format_args!("store       {}", output::path(&folder)))?;
            }
        }
        Ok(if bad == 0 { Exit::Good } else { Exit::Findings })
    }
}

/// Runs `hipplan run KEY --check` and gives back its JSON. The folder it runs in is empty: it cannot read the graph.
fn run_in_new_process(store: &Path, key: &GraphKey, seed: u64) -> anyhow::Result<Value> {
    let program = std::env::current_exe().context("the path of this program")?;
    let folder = tempfile::tempdir().context("an empty folder to run in")?;
    let store = std::path::absolute(store)?;
    let output = std::process::Command::new(program)
        .args(["run", &key.to_string(), "--check", "--json", "--seed", &seed.to_string(), "--store"])
        .arg(store)
        .current_dir(folder.path())
        .output()
        .context("starting a new process")?;
    match serde_json::from_slice(&output.stdout) {
        Ok(value) => Ok(value),
        Err(_) => Ok(serde_json::json!({ "error": String::from_utf8_lossy(&output.stderr).trim() })),
    }
}
