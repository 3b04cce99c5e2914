//! `hipplan verify`

use crate::progress::Steps;
use crate::{Exit, Global, inputs, location, output};
use hipplan::form::{self, Form};
use hipplan::hipdnn::container::{self, Finding};
use hipplan::hipdnn::{Container, PlanEnvelope};
use hipplan::{Limits, PlanView};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Check files, or the whole store, byte by byte
///
/// With files: each is checked as what it is, a plan file, a graph, or a plan envelope or container of hipDNN's. Without: every object, plan and record of the store is.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hipplan verify --store plans
  hipplan verify graph.hpgraph plans/plans/5d/*.plan

Exit codes:
  0  all is good
  1  something is damaged, missing, does not belong there, or could not be read in the store
  2  not done: a file is not there or cannot be read, or there is no store")]
pub(crate) struct Verify {
    /// Plan files, graphs, and hipDNN's plan envelopes and containers; the store if none is given
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
}

impl Verify {
    pub(crate) fn run(self, global: &Global) -> anyhow::Result<Exit> {
        if self.files.is_empty() { verify_store(global) } else { verify_files(global, &self.files) }
    }
}

pub(super) fn verify_store(global: &Global) -> anyhow::Result<Exit> {
    let store = location::listed(global)?;
    let steps = Steps::new(global);
    let report = store.verify_with(&steps);
    drop(steps);
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
            "packs": report.packs,
            "set_aside": report.quarantined.iter().map(|p| p.display().to_string()).collect::<Vec<_>>(),
        }))?;
    } else {
        for problem in &report.problems {
            output::problem(problem)?;
        }
        for path in &report.leftovers {
            output::line(format_args!("{}unfinished write, may be deleted:{} {}", output::DIM, output::RESET, output::path(path)))?;
        }
        for path in &report.quarantined {
            output::line(format_args!("{}damaged, set aside, may be deleted:{} {}", output::DIM, output::RESET, output::path(path)))?;
        }
        output::line(format_args!(
            "{}, {}, {}, {} checked in {}: {}",
            output::counted(report.plans, "plan"),
            output::counted(report.blobs, "blob"),
            output::counted(records, "record"),
            output::bytes(report.bytes),
            output::path(store.root()),
            match problems.len() {
                0 => format!("{}all good{}", output::GOOD, output::RESET),
                n => format!("{}{}{}", output::BAD, output::count(n, "problem"), output::RESET),
            }
        ))?;
    }
    Ok(if problems.is_empty() { Exit::Good } else { Exit::Findings })
}

/// Why a file is not good.
enum Fault {
    /// It is not there, or cannot be read.
    Unread(String),
    Refused(String),
}

fn verify_files(global: &Global, files: &[PathBuf]) -> anyhow::Result<Exit> {
    let results: Vec<(String, Result<&'static str, Fault>)> = files.iter().map(|f| (f.display().to_string(), verify_file(f))).collect();
    if global.json {
        let reason = |fault: &Fault| match fault {
            Fault::Unread(reason) | Fault::Refused(reason) => reason.clone(),
        };
        let rows: Vec<_> =
            results.iter().map(|(f, r)| json!({ "file": f, "kind": r.as_ref().ok(), "error": r.as_ref().err().map(reason) })).collect();
        output::json(&json!({ "files": rows }))?;
    } else {
        for (file, result) in &results {
            let (style, word, file) = match result {
                Ok(_) => (output::GOOD, "good   ", output::name(file)),
                Err(Fault::Refused(_)) => (output::BAD, "refused", output::name(file)),
                Err(Fault::Unread(_)) => (output::BAD, "unread ", output::name(file)),
            };
            let rest = match result {
                Ok(kind) => format!(" ({kind})"),
                Err(Fault::Refused(reason) | Fault::Unread(reason)) => format!(": {}", output::name(reason)),
            };
            output::line(format_args!("{style}{word}{} {file}{rest}", output::RESET))?;
        }
    }
    Ok(match () {
        () if results.iter().any(|(_, r)| matches!(r, Err(Fault::Unread(_)))) => Exit::Unread,
        () if results.iter().any(|(_, r)| r.is_err()) => Exit::Findings,
        () => Exit::Good,
    })
}

fn verify_file(file: &Path) -> Result<&'static str, Fault> {
    let bytes = inputs::read_file(file).map_err(|e| {
        let reason = format!("{e:#}");
        if e.is::<std::io::Error>() { Fault::Unread(reason) } else { Fault::Refused(reason) }
    })?;
    verify_bytes(&bytes, file.extension().is_some_and(|e| e == "plan")).map_err(Fault::Refused)
}

/// Checks what the bytes seem to be. Where they seem to be nothing that is known, `is_plan` says what they should be.
fn verify_bytes(bytes: &[u8], is_plan: bool) -> Result<&'static str, String> {
    let limits = &Limits::DEFAULT;
    match form::detect(bytes) {
        form @ Form::Envelope => PlanEnvelope::read(bytes, limits).map(|_| form.name()).map_err(|e| e.to_string()),
        form @ Form::Container => verify_container(bytes, limits).map(|()| form.name()),
        Form::Bundle => {
            Err("a bundle of plans, or a pack of a store: `hipplan bundle verify` checks the one, and `hipplan store verify` the other"
                .to_owned())
        }
        form if form == Form::Plan || is_plan => {
            PlanView::open(bytes).and_then(|plan| plan.verify()).map(|()| Form::Plan.name()).map_err(|e| e.to_string())
        }
        _ => hipplan::import(bytes, limits).map(|g| g.form.name()).map_err(|e| e.to_string()),
    }
}

fn verify_container(bytes: &[u8], limits: &Limits) -> Result<(), String> {
    let container = Container::open(bytes, limits).map_err(|e| e.to_string())?;
    let graph = container.graph().map_err(|e| e.to_string())?;
    let Some(plan) = container.plan().map_err(|e| e.to_string())? else { return Ok(()) };
    // The other findings prove nothing.
    match container::compare(&graph, &plan).into_iter().find(|f| matches!(f, Finding::UidNotInGraph(_))) {
        Some(finding) => Err(finding.to_string()),
        None => Ok(()),
    }
}
