//! `hipplan ls`

use crate::{Exit, Global, location, output};
use hipplan::{Limits, Lookup, Miss, PlanBytes, StoreError, VerifiedGraph, canon};
use serde_json::json;

/// List the plans of the store
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hipplan ls --store plans
  hipplan ls --layer /opt/plans/all.hpbundle --json

Exit codes:
  0  listed
  1  listed, but for plans that are damaged or cannot be read; each is told of
  2  there is no store")]
pub(crate) struct Ls {}

impl Ls {
    pub(crate) fn run(self, global: &Global) -> anyhow::Result<Exit> {
        let store = location::listed(global)?;
        let mut plans: Vec<PlanBytes> = Vec::new();
        let mut problems: Vec<StoreError> = Vec::new();
        for entry in store.iter_plans() {
            match entry.map(|plan| store.get_plan(&plan)) {
                Ok(Lookup::Hit(plan)) => plans.push(plan),
                Ok(Lookup::Miss(Miss::Fault(error))) | Err(error) => problems.push(error),
                // Removed since it was listed.
                Ok(Lookup::Miss(_)) => {}
            }
        }
        plans.sort_by_cached_key(|p| (summary(p), p.view().plan_ref()));
        // One that stands in several places is one.
        plans.dedup_by_key(|p| p.view().plan_ref());
        let total: u64 = plans.iter().map(|p| p.bytes().len() as u64).sum();
        if global.json {
            let texts: Vec<String> = problems.iter().map(ToString::to_string).collect();
            let rows: Vec<_> = plans.iter().map(|p| super::show::plan_json(&p.view())).collect();
            output::json(&json!({ "store": store.root().display().to_string(), "plans": rows, "problems": texts, "bytes": total }))?;
        } else {
            let mut table = output::table(&["plan", "graph", "target", "engine", ">size", ">workspace", "operations"]);
            for plan in &plans {
                let view = plan.view();
                let meta = view.meta();
                table.add_row([
                    meta.plan_key().short(),
                    meta.graph_key().short(),
                    output::name(meta.target.as_str()),
                    output::name(meta.engine.as_str()),
                    output::bytes(plan.bytes().len() as u64),
                    output::bytes(meta.workspace_size.to_native()),
                    summary(plan),
                ]);
            }
            output::print_table(&table, |_| None)?;
            for problem in &problems {
                output::problem(problem)?;
            }
            output::line(format_args!(
                "{}, {}, in {}",
                output::count(plans.len(), "plan"),
                output::bytes(total),
                output::path(store.root())
            ))?;
        }
        Ok(if problems.is_empty() { Exit::Good } else { Exit::Findings })
    }
}

fn summary(plan: &PlanBytes) -> String {
    match plan.view().canonical().map_err(|e| e.to_string()).and_then(|c| canon::decode(c, &Limits::DEFAULT).map_err(|e| e.to_string())) {
        Ok(graph) => operations(&graph.view()),
        Err(error) => error,
    }
}

/// The operations of a graph in order, runs of one counted, and the dims of the largest tensor.
pub(crate) fn operations(view: &VerifiedGraph<'_>) -> String {
    let mut runs: Vec<(String, usize)> = Vec::new();
    for node in view.nodes() {
        let name = match view.op(node) {
            hipplan::Op::Pointwise(op) => op.mode.name().to_owned(),
            op => op.kind().name().to_owned(),
        };
        match runs.last_mut() {
            Some((last, n)) if *last == name => *n += 1,
            _ => runs.push((name, 1)),
        }
    }
    let ops: Vec<String> = runs.into_iter().map(|(name, n)| if n == 1 { name } else { format!("{n} x {name}") }).collect();
    let largest = view.tensors().iter().max_by_key(|t| t.elements());
    let shape = largest.map(|t| format!(" {} {}", output::dims(t.dims), t.dtype)).unwrap_or_default();
    format!("{}{shape}", ops.join(" + "))
}
