//! `hipplan bundle merge`

use super::{OutputOptions, UnpackOption};
use crate::progress::Steps;
use crate::{Exit, Global, output};
use hipplan::ContentHash;
use serde_json::json;
use std::path::PathBuf;

/// Make one bundle of several
///
/// The order of the inputs makes no difference, nor does merging some of them first. Two sets of plans are united. Of other records with
/// one key and different plans, the one whose bytes compare least is taken, which is told. A damaged entry counts for nothing. The result
/// is not signed.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hipplan bundle merge -o all.hpbundle shard-*.hpbundle

Exit codes:
  0  everything in the inputs is in it
  1  written, but records were in conflict, or something is damaged and was left out
  2  not written: an input is no bundle")]
pub(crate) struct Merge {
    /// Bundles, wrapped or not
    #[arg(required = true, value_name = "BUNDLE")]
    bundles: Vec<PathBuf>,
    #[command(flatten)]
    output: OutputOptions,
    #[command(flatten)]
    unpack: UnpackOption,
}

impl Merge {
    pub(crate) fn run(self, global: &Global) -> anyhow::Result<Exit> {
        let limits = self.unpack.limits();
        let steps = Steps::new(global);
        let report = self.output.write(|path| hipplan::merge_bundles_with(&self.bundles, path, &limits, &steps), |_| true)?;
        drop(steps);
        let conflicts: Vec<String> =
            report.conflicts.iter().map(|(kind, name)| format!("{} {}", kind.word(), ContentHash(*name))).collect();
        let cut: Vec<String> = report.cut.iter().map(|name| ContentHash(*name).to_string()).collect();
        if global.json {
            output::json(&json!({
                "bundle": self.output.output.display().to_string(),
                "root": report.root.to_string(),
                "bytes": report.bytes,
                "entries": super::entries_json(report.entries),
                "conflicts": conflicts,
                "cut": cut,
                "problems": super::texts(&report.problems),
            }))?;
        } else {
            super::print_problems(&report.problems)?;
            for name in &conflicts {
                output::line(format_args!("{}conflict, one of several taken:{} {name}", output::WARN, output::RESET))?;
            }
            for name in &cut {
                output::line(format_args!("{}set of too many plans, cut:{} {name}", output::WARN, output::RESET))?;
            }
            output::line(format_args!(
                "{}: {}, {} in all, root {}",
                output::path(&self.output.output),
                super::entries_text(report.entries),
                output::bytes(report.bytes),
                report.root
            ))?;
        }
        let is_good = report.problems.is_empty() && conflicts.is_empty() && cut.is_empty();
        Ok(if is_good { Exit::Good } else { Exit::Findings })
    }
}
