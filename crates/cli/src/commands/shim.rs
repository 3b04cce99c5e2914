//! `hipplan shim`

use super::shim_headers::{CheckObjects, Headers};
use crate::{Exit, Global, inputs, output};
use anyhow::Context;
use hipplan_shim::check::{Check, Verdict};
use hipplan_shim::install::{Options, Place};
use hipplan_shim::manifest::{FileRecord, Manifest, Mode};
use hipplan_shim::status::{self, Installed, Process, State};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Put an installed MIOpen behind a wrapper that can forward its calls to stored plans, and undo that
///
/// The split makes three files out of one: a wrapper with the name and the public functions of MIOpen, MIOpen itself under a private name,
/// and the library that forwards. Programs need no rebuild. Without MIOPEN_HIPDNN_FORWARDING=enabled everything works as before.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hipplan shim split --from /opt/rocm/lib/libMIOpen.so --prefix ~/miopen-split
  LD_LIBRARY_PATH=~/miopen-split/lib MIOPEN_HIPDNN_FORWARDING=enabled python train.py
  hipplan shim check ~/miopen-split
  hipplan shim unsplit ~/miopen-split
  hipplan shim split --from venv/lib/python3.12/site-packages/torch/lib/libMIOpen.so --in-place
  hipplan shim status --pid 4711")]
pub(crate) struct Shim {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Split a MIOpen library
    Split(Split),
    /// Undo a split
    Unsplit(Unsplit),
    /// Tell what is installed, or what a running process has loaded
    Status(Status),
    /// Check that a split is whole and that it changed nothing but names
    Check(CheckSplit),
    /// Make the development files of a split: the header of the private names, and a CMake package
    Headers(Headers),
    /// Check that a provider's object files ask MIOpen for private names only
    CheckObjects(CheckObjects),
}

/// Split a MIOpen library
///
/// Either into a folder of its own, and the original stays as it is; or in place, and the original is kept beside it. Running it again
/// repairs what was interrupted and follows updates. A library that is already split, by this or another tool, gets a new wrapper only.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hipplan shim split --from /opt/rocm/lib/libMIOpen.so --prefix ~/miopen-split
  sudo hipplan shim split --from /usr/lib/x86_64-linux-gnu/libMIOpen.so.1 --in-place

Exit codes:
  0  split, now or before
  2  not done; what was there before is there still")]
struct Split {
    /// The library, or a link to it
    #[arg(long, value_name = "LIB")]
    from: PathBuf,
    /// Folder for the split; its libraries go into DIR/lib
    #[arg(long, value_name = "DIR", required_unless_present = "in_place", conflicts_with = "in_place")]
    prefix: Option<PathBuf>,
    /// Put the wrapper where the library is, and keep the library beside it
    #[arg(long)]
    in_place: bool,
    /// The file libhipplan_miopen.so.0
    #[arg(long, value_name = "FILE")]
    shim_lib: Option<PathBuf>,
    /// Folder with libhipplan_miopen.so.0 and libhipplan.so.0; may be given several times [default: beside this program, ../lib, ../lib/hipplan]
    #[arg(long, value_name = "DIR")]
    lib_dir: Vec<PathBuf>,
}

/// Undo a split
///
/// What a split in place put away comes back as it was, byte for byte; a prefix is emptied of what the split put there.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hipplan shim unsplit ~/miopen-split
  sudo hipplan shim unsplit /usr/lib/x86_64-linux-gnu

Exit codes:
  0  undone
  2  not done: no split is there, or something cannot be removed")]
struct Unsplit {
    /// The prefix, the folder with the libraries, or a file of the split
    #[arg(value_name = "DIR")]
    path: PathBuf,
}

/// Tell what is installed, or what a running process has loaded
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hipplan shim status ~/miopen-split
  hipplan shim status --pid $(pgrep -n python)

Exit codes:
  0  told, and all is as it should be
  1  told, and something is not
  2  there is no split, or no such process")]
struct Status {
    /// The prefix, the folder with the libraries, or a file of the split
    #[arg(value_name = "DIR", required_unless_present = "pid", conflicts_with = "pid")]
    path: Option<PathBuf>,
    /// A process
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
}

/// Check that a split is whole and that it changed nothing but names
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hipplan shim check ~/miopen-split
  hipplan shim check ~/miopen-split --json

Exit codes:
  0  whole
  1  something is not as it should be
  2  no split is there, or it cannot be read")]
struct CheckSplit {
    /// The prefix, the folder with the libraries, or a file of the split
    #[arg(value_name = "DIR")]
    path: PathBuf,
}

impl Shim {
    pub(crate) fn run(self, global: &Global) -> anyhow::Result<Exit> {
        match self.command {
            Command::Split(command) => command.run(global),
            Command::Unsplit(command) => command.run(global),
            Command::Status(command) => command.run(global),
            Command::Check(command) => command.run(global),
            Command::Headers(command) => command.run(global),
            Command::CheckObjects(command) => command.run(global),
        }
    }
}

impl Split {
    fn run(self, global: &Global) -> anyhow::Result<Exit> {
        inputs::check_kind(&self.from).with_context(|| output::path(&self.from))?;
        let place = match self.prefix {
            Some(prefix) => Place::Prefix(prefix),
            None => Place::InPlace,
        };
        let options = Options { from: self.from, place, shim_library: self.shim_lib, library_folders: self.lib_dir };
        let report = hipplan_shim::split(&options)?;
        if global.json {
            output::json(&json!({
                "folder": report.folder,
                "unchanged": report.is_unchanged,
                "remarks": report.remarks,
                "split": manifest(&report.manifest),
            }))?;
            return Ok(Exit::Good);
        }
        if !global.quiet {
            for remark in &report.remarks {
                anstream::eprintln!("{}note:{} {}", output::WARN, output::RESET, output::name(remark));
            }
        }
        let manifest = &report.manifest;
        let done = if report.is_unchanged { "already split" } else { "split" };
        output::line(format_args!(
            "{}{done}{} {}: {} names{}",
            output::GOOD,
            output::RESET,
            output::path(&manifest.input.path),
            manifest.names.len(),
            if manifest.nodes.is_empty() { String::new() } else { format!(", version {}", output::name(&nodes(manifest))) },
        ))?;
        table(manifest)?;
        if manifest.mode == Mode::Prefix {
            output::line(format_args!("use it with LD_LIBRARY_PATH={}", output::path(&report.folder)))?;
        }
        Ok(Exit::Good)
    }
}

impl Unsplit {
    fn run(self, global: &Global) -> anyhow::Result<Exit> {
        let report = hipplan_shim::unsplit(&self.path)?;
        if global.json {
            output::json(&json!({
                "folder": report.folder,
                "restored": report.restored,
                "removed": report.removed,
                "remarks": report.remarks,
            }))?;
            return Ok(Exit::Good);
        }
        for remark in &report.remarks {
            output::line(format_args!("{}note:{} {}", output::WARN, output::RESET, output::name(remark)))?;
        }
        if let Some(path) = &report.restored {
            output::line(format_args!("{}restored{} {}", output::GOOD, output::RESET, output::path(path)))?;
        }
        for path in &report.removed {
            output::line(format_args!("removed  {}", output::path(path)))?;
        }
        Ok(Exit::Good)
    }
}

impl Status {
    fn run(self, global: &Global) -> anyhow::Result<Exit> {
        match (self.path, self.pid) {
            (_, Some(pid)) => show_process(global, &status::process(pid)?),
            (Some(path), None) => show_installed(global, &status::installed(&path)?),
            (None, None) => anyhow::bail!("name a folder or a process"),
        }
    }
}

fn show_installed(global: &Global, installed: &Installed) -> anyhow::Result<Exit> {
    let (word, details) = match &installed.state {
        State::Split => ("split", Vec::new()),
        State::Unfinished(details) => ("unfinished", details.clone()),
        State::Replaced(detail) => ("replaced", vec![detail.clone()]),
    };
    let is_good = installed.state == State::Split;
    if global.json {
        output::json(&json!({ "folder": installed.folder, "state": word, "details": details, "split": manifest(&installed.manifest) }))?;
    } else {
        let style = if is_good { output::GOOD } else { output::BAD };
        output::line(format_args!(
            "{style}{word}{} {} ({}), {} names",
            output::RESET,
            output::path(&installed.manifest.input.path),
            mode(&installed.manifest),
            installed.manifest.names.len(),
        ))?;
        table(&installed.manifest)?;
        for detail in &details {
            output::line(format_args!("  {}", output::name(detail)))?;
        }
        if !is_good {
            output::line("run `hipplan shim split` again to finish or follow it, or `hipplan shim unsplit` to undo it")?;
        }
    }
    Ok(if is_good { Exit::Good } else { Exit::Findings })
}

fn show_process(global: &Global, process: &Process) -> anyhow::Result<Exit> {
    let forwarding = match (&process.forwarding, process.environment_is_known) {
        (Some(value), _) => value.clone(),
        (None, true) => "not set".to_owned(),
        (None, false) => "unknown (its environment cannot be read)".to_owned(),
    };
    if global.json {
        let copies: Vec<Value> = process
            .copies
            .iter()
            .map(|c| json!({ "path": c.path, "role": c.role.name(), "replaced": c.is_replaced, "split": c.unit }))
            .collect();
        output::json(&json!({
            "pid": process.pid,
            "libraries": copies,
            "forwarding": process.forwarding,
            "environment_readable": process.environment_is_known,
            "findings": process.findings,
        }))?;
    } else if process.copies.is_empty() {
        output::line(format_args!("process {} has loaded no MIOpen", process.pid))?;
    } else {
        let mut table = output::table(&["library", "what", "state"]);
        for copy in &process.copies {
            let state = if copy.is_replaced { "replaced since" } else { "as on disk" };
            table.add_row([output::path(&copy.path), copy.role.name().to_owned(), state.to_owned()]);
        }
        output::print_table(&table, |i| process.copies.get(i).filter(|c| c.is_replaced).map(|_| output::BAD))?;
        output::line(format_args!("{} at its start: {}", status::FORWARDING, output::name(&forwarding)))?;
        for finding in &process.findings {
            output::line(format_args!("{}found:{} {}", output::BAD, output::RESET, output::name(finding)))?;
        }
    }
    Ok(if process.findings.is_empty() { Exit::Good } else { Exit::Findings })
}

impl CheckSplit {
    fn run(self, global: &Global) -> anyhow::Result<Exit> {
        let report = hipplan_shim::check(&self.path)?;
        if global.json {
            let checks: Vec<Value> = report
                .checks
                .iter()
                .map(|c| json!({ "check": c.id, "about": c.about, "verdict": verdict(c.verdict), "findings": c.findings }))
                .collect();
            output::json(&json!({ "folder": report.folder, "good": report.is_good(), "checks": checks }))?;
        } else {
            show_checks(&report.checks, global.quiet)?;
        }
        Ok(if report.is_good() { Exit::Good } else { Exit::Findings })
    }
}

fn show_checks(checks: &[Check], only_bad: bool) -> anyhow::Result<()> {
    /// Findings of one check that are printed.
    const SHOWN: usize = 10;
    for check in checks.iter().filter(|c| !only_bad || c.verdict == Verdict::Failed) {
        let style = match check.verdict {
            Verdict::Good => output::GOOD,
            Verdict::Warning => output::WARN,
            Verdict::Failed => output::BAD,
            Verdict::Skipped => output::DIM,
        };
        output::line(format_args!("{style}{:<8}{} {:<12} {}", verdict(check.verdict), output::RESET, check.id, check.about))?;
        for finding in check.findings.iter().take(SHOWN) {
            output::line(format_args!("         {}", output::name(finding)))?;
        }
        if let Some(more) = check.findings.len().checked_sub(SHOWN).filter(|&n| n != 0) {
            output::line(format_args!("         and {more} more; --json prints them all"))?;
        }
    }
    Ok(())
}

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Good => "good",
        Verdict::Warning => "warning",
        Verdict::Failed => "failed",
        Verdict::Skipped => "skipped",
    }
}

fn mode(manifest: &Manifest) -> &'static str {
    match manifest.mode {
        Mode::Prefix => "prefix",
        Mode::InPlace => "in place",
    }
}

fn nodes(manifest: &Manifest) -> String {
    manifest.nodes.iter().filter_map(|n| n.first()).cloned().collect::<Vec<_>>().join(", ")
}

/// The files of a split.
fn table(manifest: &Manifest) -> anyhow::Result<()> {
    let mut table = output::table(&["file", ">size", "what"]);
    let mut row = |file: &FileRecord, what: &str| {
        table.add_row([output::name(&file.name), output::bytes(file.size), what.to_owned()]);
    };
    row(&manifest.wrapper, "the wrapper");
    row(&manifest.private.file, "MIOpen under private names");
    row(&manifest.shim, "forwards");
    if let Some(runtime) = &manifest.runtime {
        row(runtime, "finds and runs plans");
    }
    if let Some(backup) = &manifest.backup {
        table.add_row([output::name(backup), output::bytes(manifest.input.size), "the original".to_owned()]);
    }
    for link in &manifest.links {
        table.add_row([output::path(&link.path), String::new(), format!("link to {}", output::path(&link.target))]);
    }
    output::print_table(&table, |_| None)
}

/// What scripts want of a manifest; the digests of every section are in the file.
fn manifest(manifest: &Manifest) -> Value {
    let file = |f: &FileRecord| json!({ "name": f.name, "size": f.size, "blake3": f.blake3 });
    json!({
        "mode": mode(manifest),
        "input": manifest.input,
        "soname": manifest.soname,
        "wrapper": file(&manifest.wrapper),
        "private": file(&manifest.private.file),
        "private_origin": manifest.private.origin,
        "shim": file(&manifest.shim),
        "runtime": manifest.runtime.as_ref().map(file),
        "backup": manifest.backup,
        "links": manifest.links,
        "versions": manifest.nodes.iter().filter_map(|n| n.first()).collect::<Vec<_>>(),
        "names": manifest.names,
    })
}
