//! `hipplan store selftest`

use crate::{Exit, Global, output};
use hipplan::{SelftestCheck, SelftestOptions, SelftestOutcome, SelftestReport, selftest, selftest_child};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Try whether a folder is a good place for a store
///
/// In a new folder inside of DIR, plans are put, found, replaced and folded by several processes at once, some of which are killed; locks, syncing, times and mapped files are tried; files are damaged and cut short, and writes refused. Then the new folder is removed. Takes about ten seconds.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hipplan store selftest /mnt/share
  hipplan store selftest . --kills 200 --seconds 30 --json

Exit codes:
  0  a store works there, with or without limits
  1  it is not usable
  2  the test cannot be made")]
pub(crate) struct Selftest {
    /// Folder to try; it must exist
    dir: PathBuf,
    /// Writers that are killed
    #[arg(long, value_name = "NUMBER", default_value_t = 10)]
    kills: u32,
    /// Processes that work at once
    #[arg(long, value_name = "NUMBER", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=256))]
    processes: u32,
    /// How long they work
    #[arg(long, value_name = "NUMBER", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// What a child of this command does
    #[arg(long, hide = true, value_name = "WORD")]
    child: Option<String>,
}

impl Selftest {
    pub(crate) fn run(self, global: &Global) -> anyhow::Result<Exit> {
        if let Some(word) = &self.child {
            return selftest_child(&self.dir, word).map(|()| Exit::Good).map_err(anyhow::Error::msg);
        }
        let mut options = SelftestOptions::default();
        (options.kills, options.processes) = (self.kills, self.processes);
        options.time = Duration::from_secs(self.seconds);
        let child = child(std::env::current_exe()?);
        let mut printed = Ok(());
        let report = selftest(&self.dir, &options, &child, |check| {
            if !global.json && printed.is_ok() {
                printed = print_check(check);
            }
        })?;
        printed?;
        print(global, &report)?;
        Ok(if report.outcome() == SelftestOutcome::Bad { Exit::Findings } else { Exit::Good })
    }
}

/// Starts this program, which is `own`, again, so that it does what a child of the test does.
pub(crate) fn child(own: PathBuf) -> impl Fn(&Path, &str) -> Command {
    move |folder, word| {
        let mut command = Command::new(&own);
        command.args(["store", "selftest"]).arg(folder).args(["--child", word]);
        command
    }
}

fn print_check(check: &SelftestCheck) -> anyhow::Result<()> {
    let style = style(check.outcome);
    let (outcome, text) = (check.outcome.word(), output::name(&check.text));
    output::line(format_args!("{style}{outcome:<8}{}{:<10} {text}", output::RESET, check.name))
}

fn print(global: &Global, report: &SelftestReport) -> anyhow::Result<()> {
    let outcome = report.outcome();
    let verdict = SelftestReport::verdict(outcome);
    let folder = report.folder.display().to_string();
    if global.json {
        let check = |check: &SelftestCheck| json!({ "check": check.name, "outcome": check.outcome.word(), "text": check.text });
        return output::json(&json!({
            "folder": folder,
            "file_system": report.file_system,
            "outcome": outcome.word(),
            "verdict": verdict,
            "checks": report.checks.iter().map(check).collect::<Vec<_>>(),
        }));
    }
    let file_system = report.file_system.as_deref().unwrap_or("unknown");
    let folder = output::path(&report.folder);
    output::line(format_args!("{folder}, file system {file_system}: {}{verdict}{}", style(outcome), output::RESET))
}

fn style(outcome: SelftestOutcome) -> anstyle::Style {
    match outcome {
        SelftestOutcome::Good => output::GOOD,
        SelftestOutcome::Limited => output::WARN,
        SelftestOutcome::Bad => output::BAD,
    }
}
