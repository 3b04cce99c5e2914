//! `hipplan bundle export`

use super::{NOT_WRITTEN, OutputOptions};
use crate::files::are_same;
use crate::progress::Steps;
use crate::{Exit, Global, inputs, keys, location, logs, output};
use anyhow::bail;
use hipplan::{BatchItem, ExportedPlan, GraphKey, Limits, Store, Target};
use serde_json::json;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

/// Write plans of the store into a bundle
///
/// Without inputs, all plans that something leads to; with inputs, those of these graphs. A bundle holds the plans, their code objects and
/// what leads to them, and nothing of where the store is, who exports it or when: equal contents give equal bytes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hipplan bundle export -o all.hpbundle --store plans
  hipplan bundle export -o mi300.hpbundle --target gfx942
  hipplan bundle export -o run.hpbundle training.log --note \"model 7\"
  hipplan bundle export -o one.hpbundle.zst 5d0c1f22a9b3 --compress

Exit codes:
  0  written, and every input has a plan in it
  1  written, but an input has none, is no graph, or something of the store is damaged and was left out; or there is no plan at all of
     what was asked for: then nothing is written, and what the store has is told
  2  not written")]
pub(crate) struct Export {
    /// Graph keys or plan keys or their first digits, graph files, logs, folders of them, or - for standard input
    #[arg(value_name = "INPUT")]
    inputs: Vec<String>,
    /// A MIOpenDriver line
    #[arg(long, value_name = "LINE", allow_hyphen_values = true)]
    line: Vec<String>,
    /// Only plans for these targets; one without features, such as gfx942, stands for all of its settings
    #[arg(long, value_name = "TARGET", value_delimiter = ',')]
    target: Vec<Target>,
    /// A line about where the plans are from, to be kept in the bundle; may be given several times
    #[arg(long, value_name = "TEXT")]
    note: Vec<String>,
    #[command(flatten)]
    output: OutputOptions,
}

/// What was named, and whether a plan was found for it.
#[derive(Default)]
struct Wanted {
    prefixes: Vec<(String, bool)>,
    /// Names of the inputs of a graph.
    graphs: HashMap<GraphKey, (Vec<String>, bool)>,
    /// Inputs that are no graphs.
    invalid: Vec<String>,
    all: bool,
}

impl Wanted {
    /// Whether a plan was asked for.
    fn takes(&mut self, plan: &ExportedPlan) -> bool {
        let mut is_wanted = self.all;
        let (graph, key) = (plan.graph.to_string(), plan.plan.key.to_string());
        for (prefix, found) in &mut self.prefixes {
            if graph.starts_with(&**prefix) || key.starts_with(&**prefix) {
                *found = true;
                is_wanted = true;
            }
        }
        if let Some((_, found)) = self.graphs.get_mut(&plan.graph) {
            *found = true;
            is_wanted = true;
        }
        is_wanted
    }

    /// Inputs for which there is no plan.
    fn lacking(&self) -> Vec<String> {
        let prefixes = self.prefixes.iter().filter(|(_, found)| !found).map(|(prefix, _)| prefix.clone());
        let graphs = self.graphs.values().filter(|(_, found)| !found).flat_map(|(names, _)| names.iter().cloned());
        let mut lacking: Vec<String> = prefixes.chain(graphs).collect();
        lacking.sort();
        lacking
    }
}

impl Export {
    pub(crate) fn run(self, global: &Global) -> anyhow::Result<Exit> {
        let mut wanted = Wanted { all: self.inputs.is_empty() && self.line.is_empty(), ..Wanted::default() };
        let (named, files): (Vec<&String>, Vec<&String>) = self.inputs.iter().partition(|text| keys::may_be_key(text));
        wanted.prefixes = named.into_iter().map(|text| (text.to_ascii_lowercase(), false)).collect();
        let files: Vec<PathBuf> = files.into_iter().map(PathBuf::from).collect();
        let mut all = Vec::new();
        let sources = inputs::expand(&files, &self.line)?;
        // Where the name behind -o was forgotten, that of an input has its place.
        if let Some(input) = sources.iter().filter_map(inputs::Source::path).find(|input| are_same(input, &self.output.output)) {
            let (to, from) = (output::path(&self.output.output), output::path(input));
            bail!("{NOT_WRITTEN}: the output {to} is the same file as the input {from}; name another file to write");
        }
        for source in sources {
            let mut contents = inputs::read(&source, &Limits::DEFAULT);
            for input in std::mem::take(&mut contents.inputs) {
                let item = match input.graph {
                    Ok(imported) => BatchItem::of_graph(input.source, &imported.graph.view()),
                    Err(reason) => BatchItem::invalid(input.source, reason),
                };
                match item.graph {
                    Ok(canonical) => wanted.graphs.entry(canonical.key).or_default().0.push(item.source),
                    Err(reason) => wanted.invalid.push(format!("{}: {reason}", item.source)),
                }
            }
            all.push(contents);
        }
        let store = location::listed(global)?;
        let targets: Vec<String> = self.target.iter().map(ToString::to_string).collect();
        // What the store has, by target.
        let mut offered: BTreeMap<String, usize> = BTreeMap::new();
        let mut choose = |plan: &ExportedPlan| {
            *offered.entry(plan.target.clone()).or_default() += 1;
            let is_for = |target: &String| plan.target == *target || plan.target.split(':').next() == Some(target);
            (targets.is_empty() || targets.iter().any(is_for)) && wanted.takes(plan)
        };
        let steps = Steps::new(global);
        let export = |path: &Path| store.export_with(path, &self.note, &mut choose, &steps);
        let report = self.output.write(export, |report| report.root.is_some())?;
        drop(steps);
        let lacking = wanted.lacking();
        let nothing = report.root.is_none().then(|| self.nothing(&store, &offered));
        if global.json {
            output::json(&json!({
                "bundle": report.root.map(|_| self.output.output.display().to_string()),
                "root": report.root.map(|root| root.to_string()),
                "nothing": nothing,
                "store_targets": offered,
                "bytes": report.bytes,
                "entries": super::entries_json([report.blobs, report.plans.len() as u64, report.plan_records, report.selections]),
                "plans": report.plans.iter().map(|p| json!({ "plan_key": p.plan.key.to_string(), "graph_key": p.graph.to_string(), "target": p.target })).collect::<Vec<_>>(),
                "without_plan": lacking,
                "invalid": wanted.invalid,
                "problems": super::texts(&report.problems),
                "logs": logs::to_json(&all),
            }))?;
        } else {
            logs::print(&all)?;
            for (what, names) in [("no graph", &wanted.invalid), ("no plan", &lacking)] {
                for name in names {
                    output::line(format_args!("{}{what}:{} {}", output::WARN, output::RESET, output::name(name)))?;
                }
            }
            super::print_problems(&report.problems)?;
            match (report.root, &nothing) {
                (Some(root), _) => output::line(format_args!(
                    "{}: {}, {} in all, root {root}",
                    output::path(&self.output.output),
                    super::entries_text([report.blobs, report.plans.len() as u64, report.plan_records, report.selections]),
                    output::bytes(report.bytes),
                ))?,
                (None, text) => {
                    output::line(format_args!("{}nothing written:{} {}", output::BAD, output::RESET, text.as_deref().unwrap_or_default()))?
                }
            }
        }
        let is_good =
            nothing.is_none() && lacking.is_empty() && wanted.invalid.is_empty() && report.problems.is_empty() && !logs::any_lost(&all);
        Ok(if is_good { Exit::Good } else { Exit::Findings })
    }

    /// What was asked for and what there is, where none of it is the other.
    fn nothing(&self, store: &Store, offered: &BTreeMap<String, usize>) -> String {
        let mut asked = Vec::new();
        if !self.target.is_empty() {
            asked.push(format!("for {}", self.target.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ")));
        }
        match self.inputs.len() + self.line.len() {
            0 => {}
            n => asked.push(format!("of what {} named", if n == 1 { "the input has".to_owned() } else { format!("{n} inputs have") })),
        }
        let asked = asked.into_iter().map(|part| format!(" {part}")).collect::<String>();
        let place = location::place(store);
        if offered.is_empty() {
            return format!("no plan{asked} was found, for the {place} has none that something leads to");
        }
        let targets: Vec<String> =
            offered.iter().map(|(target, n)| format!("{} for {}", output::count(*n, "plan"), output::name(target))).collect();
        format!("no plan{asked} is in the {place}; it has {}", targets.join(", "))
    }
}
