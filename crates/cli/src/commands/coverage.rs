//! `hipplan coverage`

use crate::execute::DeviceOption;
use crate::inputs::Contents;
use crate::plugins::{EngineOptions, PluginOptions};
use crate::{Exit, Global, counts, inputs, location, logs, output};
use hipplan::{Answer, BatchItem, Counts, Coverage as Covered, CoverageRow, LackReason, Limits, LoggedItem, Store, Target, cover};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Tell which problems of a run are precompiled
///
/// Inputs are those of `hipplan compile`: the log of a run, recorded graphs, folders of them. Every different graph is looked up as a
/// process on the device would, or as one would on a device that reports the target, and every byte of its plan is read. A line of a log
/// counts as often as it stands there, another input once. What is not covered is listed, most calls first. Nothing is compiled or
/// written.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hipplan coverage training.log --store plans
  hipplan coverage training.log --store plans --target gfx942:sramecc+:xnack-
  hipplan coverage recorded/ --store plans --json

Exit codes:
  0  every problem is precompiled
  1  some are not, or some of the inputs are no graphs
  2  what was named is not there, cannot be read, or is no store")]
pub(crate) struct Coverage {
    /// Logs, graph files, folders of them, or - for standard input
    #[arg(required_unless_present = "line", value_name = "LOG")]
    inputs: Vec<PathBuf>,
    /// A MIOpenDriver line
    #[arg(long, value_name = "LINE", allow_hyphen_values = true)]
    line: Vec<String>,
    #[command(flatten)]
    device: DeviceOption,
    #[command(flatten)]
    engine: EngineOptions,
    #[command(flatten)]
    plugins: PluginOptions,
}

impl Coverage {
    pub(crate) fn run(self, global: &Global) -> anyhow::Result<Exit> {
        let sources = inputs::expand(&self.inputs, &self.line)?;
        let (policy, providers) = (self.engine.policy()?, self.plugins.providers()?);
        let (site, targets) = self.device.looked_up()?;
        let store = location::readable(global)?;
        let mut items = Vec::new();
        let mut all = Vec::new();
        for source in &sources {
            let mut contents = inputs::read(source, &Limits::DEFAULT);
            items.append(&mut logged(&mut contents));
            all.push(contents);
        }
        let covered = cover(&store, &items, site.device(), &targets, &policy, &providers);
        let counts = providers.counters().get();
        if global.json {
            output::json(&to_json(&covered, &store, &targets, &all, &counts))?;
        } else {
            print(&covered)?;
            logs::print(&all)?;
            output::line(summary(&covered, &targets))?;
        }
        Ok(if covered.is_complete() && !logs::any_lost(&all) { Exit::Good } else { Exit::Findings })
    }
}

/// The inputs of a source, with how often each was asked for.
fn logged(contents: &mut Contents) -> Vec<LoggedItem> {
    let inputs = std::mem::take(&mut contents.inputs);
    let log = contents.log.as_ref();
    let calls = |problem: Option<usize>| log.zip(problem).and_then(|(log, i)| Some(log.problems.get(i)?.count)).unwrap_or(1);
    let one = |input: inputs::Input| LoggedItem {
        calls: calls(input.problem),
        item: match input.graph {
            Ok(imported) => BatchItem::of_graph(input.source, &imported.graph.view()),
            Err(reason) => BatchItem::invalid(input.source, reason),
        },
    };
    inputs.into_iter().map(one).collect()
}

fn detail(row: &CoverageRow) -> &str {
    match &row.answer {
        Answer::Covered { .. } => "",
        Answer::Lacking(lack) => &lack.detail,
        Answer::Invalid { reason } => reason,
    }
}

/// What is not covered, most calls first.
fn uncovered(covered: &Covered) -> Vec<&CoverageRow> {
    let mut rows: Vec<&CoverageRow> = covered.rows.iter().filter(|row| !matches!(row.answer, Answer::Covered { .. })).collect();
    // Those with as many calls stay in the order of the run.
    rows.sort_by_key(|row| std::cmp::Reverse(row.calls));
    rows
}

fn print(covered: &Covered) -> anyhow::Result<()> {
    let rows = uncovered(covered);
    if rows.is_empty() {
        return Ok(());
    }
    let mut table = output::table(&[">calls", "graph", "outcome", "key", "detail"]);
    for row in &rows {
        table.add_row([
            row.calls.to_string(),
            output::name(&row.source),
            row.answer.word().to_owned(),
            row.graph.map(|key| key.short()).unwrap_or_default(),
            output::name(detail(row)),
        ]);
    }
    output::print_table(&table, |i| rows.get(i).map(|row| if row.graph.is_none() { output::BAD } else { output::WARN }))
}

/// Words of the answers.
fn words() -> impl Iterator<Item = &'static str> {
    ["covered"].into_iter().chain(LackReason::ALL.map(LackReason::word)).chain(["invalid"])
}

fn calls(covered: &Covered) -> u64 {
    words().map(|word| covered.count(word).1).fold(0, u64::saturating_add)
}

fn share_of_graphs(covered: &Covered) -> f64 {
    if covered.rows.is_empty() { 1.0 } else { covered.count("covered").0 as f64 / covered.rows.len() as f64 }
}

fn summary(covered: &Covered, targets: &[Target]) -> String {
    let (graphs, answered) = covered.count("covered");
    let others: Vec<String> =
        words().skip(1).map(|word| (word, covered.count(word).0)).filter(|(_, n)| *n > 0).map(|(word, n)| format!("{n} {word}")).collect();
    let others = if others.is_empty() { String::new() } else { format!("; {}", others.join(", ")) };
    let targets = targets.iter().map(Target::to_string).collect::<Vec<_>>().join(" or ");
    format!(
        "target {targets}: {graphs} of {} precompiled ({:.1} %), {answered} of {} calls ({:.1} %){others}",
        output::count(covered.rows.len(), "graph"),
        share_of_graphs(covered) * 100.0,
        calls(covered),
        covered.share_of_calls() * 100.0
    )
}

fn to_json(covered: &Covered, store: &Store, targets: &[Target], logs: &[Contents], counts: &Counts) -> Value {
    let row = |row: &CoverageRow| {
        let (plan, target) = match &row.answer {
            Answer::Covered { plan, target } => (Some(plan.to_string()), Some(target)),
            _ => (None, None),
        };
        json!({
            "source": row.source, "graph_key": row.graph.map(|key| key.to_string()), "calls": row.calls, "outcome": row.answer.word(),
            "plan_key": plan, "target": target, "detail": detail(row),
        })
    };
    let summary: serde_json::Map<String, Value> = words()
        .map(|word| {
            let (graphs, calls) = covered.count(word);
            (word.to_owned(), json!({ "graphs": graphs, "calls": calls }))
        })
        .collect();
    json!({
        "store": location::place_json(store),
        "targets": targets.iter().map(Target::to_string).collect::<Vec<_>>(),
        "graphs": covered.rows.len(), "calls": calls(covered),
        "share_of_graphs": share_of_graphs(covered), "share_of_calls": covered.share_of_calls(),
        "summary": summary,
        "rows": covered.rows.iter().map(row).collect::<Vec<_>>(),
        "uncovered": uncovered(covered).into_iter().map(row).collect::<Vec<_>>(),
        "logs": logs::to_json(logs),
        "counters": counts::to_json(counts),
    })
}
