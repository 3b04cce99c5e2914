//! `hipplan store compact`

use crate::progress::Steps;
use crate::{Exit, Global, location, output};
use hipplan::CompactOptions;
use serde_json::json;

/// Fold loose files, and small packs if there are many, into one pack
///
/// May run while the store is in use; readers miss nothing. Needs room for the new pack beside what goes into it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hipplan store compact --store plans
  hipplan store compact --all

Exit codes:
  0  done, or there was nothing to fold
  1  something is damaged, could not be read, or could not be removed, or other upkeep was in the way
  2  not done: there is no store, or it cannot be written")]
pub(crate) struct Compact {
    /// Fold all packs, and not only the small ones
    #[arg(long)]
    all: bool,
}

impl Compact {
    pub(crate) fn run(self, global: &Global) -> anyhow::Result<Exit> {
        let store = location::existing(global)?;
        let mut options = CompactOptions::default();
        options.all = self.all;
        let steps = Steps::new(global);
        let report = store.compact(&options, &steps)?;
        drop(steps);
        if global.json {
            output::json(&json!({
                "pack": report.pack.as_ref().map(|path| path.display().to_string()),
                "entries": report.entries,
                "bytes": report.bytes,
                "files_folded": report.files_folded,
                "files_kept": report.files_kept,
                "packs_folded": report.packs_folded,
                "damaged": report.damaged,
                "left": report.left,
                "gave_up": report.gave_up,
                "put_back": report.put_back.iter().map(|path| path.display().to_string()).collect::<Vec<_>>(),
                "problems": report.problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
            }))?;
        } else {
            for problem in &report.problems {
                output::problem(problem)?;
            }
            match &report.pack {
                Some(path) => output::line(format_args!(
                    "{}, {}, of {} and {}, in {}",
                    output::entries(report.entries),
                    output::bytes(report.bytes),
                    output::counted(report.files_folded, "file"),
                    output::counted(report.packs_folded, "pack"),
                    output::path(path)
                ))?,
                None if report.gave_up => output::line("nothing was folded: other upkeep was removing what was to be; try again later")?,
                None => output::line("nothing to fold")?,
            }
        }
        Ok(if report.problems.is_empty() && !report.gave_up { Exit::Good } else { Exit::Findings })
    }
}
