//! `hipplan store compact`

use crate::progress::Steps;
use crate::{Exit, Global, location, output};
use hipplan::{CompactOptions, CompactReport};
use serde_json::json;

/// Fold the files of the store into few
///
/// Every entry that has a file of its own goes into one new pack, and so do packs below 64 MiB when there are more than eight of them. Nothing is lost or found anew by it: there are fewer files. May run while the store is in use.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hipplan store compact
  hipplan store compact --all --json

Exit code: 0, or 1 if something is damaged, could not be read or could not be removed.")]
pub(crate) struct Compact {
    /// Fold all packs into one, whatever their number and size; their signatures are lost
    #[arg(long)]
    all: bool,
}

impl Compact {
    pub(crate) fn run(self, global: &Global) -> anyhow::Result<Exit> {
        let store = location::existing(global)?;
        let mut options = CompactOptions::default();
        options.all = self.all;
        let steps = Steps::new(global);
        let report = store.compact(&options, |step| steps.show(step))?;
        drop(steps);
        print(global, &report)?;
        Ok(if report.problems.is_empty() { Exit::Good } else { Exit::Findings })
    }
}

fn print(global: &Global, report: &CompactReport) -> anyhow::Result<()> {
    if global.json {
        let problems: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
        return output::json(&json!({
            "pack": report.pack.as_ref().map(|path| path.display().to_string()),
            "entries": report.entries,
            "bytes": report.bytes,
            "files_folded": report.files_folded,
            "files_kept": report.files_kept,
            "packs_folded": report.packs_folded,
            "damaged": report.damaged,
            "left": report.left,
            "put_back": report.put_back.len(),
            "problems": problems,
        }));
    }
    match &report.pack {
        Some(_) => output::line(format_args!(
            "folded {} files and {} packs into one of {} entries and {}",
            report.files_folded,
            report.packs_folded,
            report.entries,
            output::bytes(report.bytes)
        ))?,
        None => output::line(format_args!("nothing to fold"))?,
    }
    if report.files_kept > 0 {
        output::line(format_args!("{} files stay: somebody has just replaced them, or may need them", report.files_kept))?;
    }
    for problem in &report.problems {
        output::line(format_args!("{}problem:{} {}", output::WARN, output::RESET, output::name(&problem.to_string())))?;
    }
    Ok(())
}
