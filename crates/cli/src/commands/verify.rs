//! `hipplan verify`

use crate::{Exit, Global, inputs, location, output};
use hipplan::{Limits, PlanView, plan};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Check files, or the whole store, byte by byte
///
/// With files: each is checked as a plan file or as a graph. Without: every object, plan and record of the store is.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hipplan verify --store plans
  hipplan verify graph.hpgraph plans/plans/5d/*.plan")]
pub(crate) struct Verify {
    /// Plan files and graphs; the store if none is given
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
}

impl Verify {
    pub(crate) fn run(self, global: &Global) -> anyhow::Result<Exit> {
        if self.files.is_empty() { verify_store(global) } else { verify_files(global, &self.files) }
    }
}

fn verify_store(global: &Global) -> anyhow::Result<Exit> {
    let store = location::readable(global)?;
    let report = store.verify();
    let problems: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
    let records = report.plan_records + report.selection_records;
    if global.json {
        let leftovers: Vec<String> = report.leftovers.iter().map(|p| p.display().to_string()).collect();
        output::json(&json!({
            "store": store.root().display().to_string(),
            "plans": report.plans,
            "blobs": report.blobs,
            "records": records,
            "bytes": report.bytes,
            "problems": problems,
            "unfinished_writes": leftovers,
        }))?;
    } else {
        for problem in &report.problems {
            output::problem(problem)?;
        }
        for path in &report.leftovers {
            output::line(format_args!("{}unfinished write, may be deleted:{} {}", output::DIM, output::RESET, path.display()))?;
        }
        output::line(format_args!(
            "{} plans, {} blobs, {records} records, {} checked in {}: {}",
            report.plans,
            report.blobs,
            output::bytes(report.bytes),
            store.root().display(),
            match problems.len() {
                0 => format!("{}all good{}", output::GOOD, output::RESET),
                n => format!("{}{n} problems{}", output::BAD, output::RESET),
            }
        ))?;
    }
    Ok(if problems.is_empty() { Exit::Good } else { Exit::Findings })
}

fn verify_files(global: &Global, files: &[PathBuf]) -> anyhow::Result<Exit> {
    let results: Vec<(String, Result<&'static str, String>)> = files.iter().map(|f| (f.display().to_string(), verify_file(f))).collect();
    let bad = results.iter().any(|(_, r)| r.is_err());
    if global.json {
        let rows: Vec<_> = results.iter().map(|(f, r)| json!({ "file": f, "kind": r.as_ref().ok(), "error": r.as_ref().err() })).collect();
        output::json(&json!({ "files": rows }))?;
    } else {
        for (file, result) in &results {
            match result {
                Ok(kind) => output::line(format_args!("{}good{}    {file} ({kind})", output::GOOD, output::RESET))?,
                Err(reason) => output::line(format_args!("{}refused{} {file}: {reason}", output::BAD, output::RESET))?,
            }
        }
    }
    Ok(if bad { Exit::Findings } else { Exit::Good })
}

fn verify_file(file: &Path) -> Result<&'static str, String> {
    let bytes = inputs::read_file(file).map_err(|e| format!("{e:#}"))?;
    if plan::is_plan(&bytes) || file.extension().is_some_and(|e| e == "plan") {
        return PlanView::open(&bytes).and_then(|plan| plan.verify()).map(|()| "plan file").map_err(|e| e.to_string());
    }
    hipplan::import(&bytes, &Limits::DEFAULT).map(|g| g.form.name()).map_err(|e| e.to_string())
}
