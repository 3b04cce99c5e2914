//! `hipplan store rm`

use super::named::{Meant, Named};
use crate::progress::Steps;
use crate::{Exit, Global, location, output};
use serde_json::json;

/// Remove plans, selections, or all plans of a graph
///
/// First what names them goes, then they do, then what they alone need. What a pin keeps stays, and blobs that were used in the last hour are left to the next gc.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hipplan store rm 5d0c1f22a9b3
  hipplan store rm --graph 9f3a

Exit codes:
  0  removed
  1  something was not there, is pinned, was used meanwhile and stays, or could not be read
  2  not done: there is no store, it cannot be written, or a key is too short or stands for several")]
pub(crate) struct Rm {
    #[command(flatten)]
    named: Named,
}

impl Rm {
    pub(crate) fn run(self, global: &Global) -> anyhow::Result<Exit> {
        let store = location::existing(global)?;
        let Meant { pins, unmatched, .. } = self.named.resolve(&store)?;
        let steps = Steps::new(global);
        let report = store.remove(&pins, &steps)?;
        drop(steps);
        let texts = |pins: &[hipplan::Pin]| pins.iter().map(ToString::to_string).collect::<Vec<_>>();
        let missing = [texts(&report.missing), unmatched].concat();
        if global.json {
            output::json(&json!({
                "plans": report.plans,
                "blobs": report.blobs,
                "records": report.records,
                "shortened_records": report.shortened,
                "packs_rewritten": report.packs_rewritten,
                "spared": report.spared,
                "pinned": texts(&report.pinned),
                "missing": missing,
                "unknown": report.unknown.iter().map(ToString::to_string).collect::<Vec<_>>(),
            }))?;
        } else {
            for pin in texts(&report.pinned) {
                output::line(format_args!("{}pinned, stays:{} {pin}", output::WARN, output::RESET))?;
            }
            for pin in &missing {
                output::line(format_args!("{}not in the store:{} {pin}", output::WARN, output::RESET))?;
            }
            for problem in &report.unknown {
                let text = output::name(&problem.to_string());
                output::line(format_args!("{}not known what it names:{} {text}", output::WARN, output::RESET))?;
            }
            if report.spared > 0 {
                output::line(format_args!("{}used meanwhile, stay:{} {}", output::WARN, output::RESET, output::entries(report.spared)))?;
            }
            output::line(format_args!(
                "removed {}, {}, {}; shortened {}",
                output::counted(report.plans, "plan"),
                output::counted(report.blobs, "blob"),
                output::counted(report.records, "record"),
                report.shortened
            ))?;
        }
        let is_done = report.pinned.is_empty() && missing.is_empty() && report.unknown.is_empty() && report.spared == 0;
        Ok(if is_done { Exit::Good } else { Exit::Findings })
    }
}
