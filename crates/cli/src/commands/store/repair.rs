//! `hipplan store repair`

use crate::progress::Steps;
use crate::{Exit, Global, location, output, quantity};
use hipplan::RepairOptions;
use serde_json::json;
use std::time::Duration;

/// Put right what `verify` finds wrong
///
/// Damaged entries are set aside in the folder `quarantine`, names that lead nowhere go, records are made anew from their plans, plans that lack a code object go, and what nothing reaches goes if it is older than the grace age. What is lost is compiled again when it is wanted.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hipplan store repair --store plans
  hipplan store repair --grace 0s --json       # where nobody else uses the store

Exit codes:
  0  the store is as it should be
  1  the rest is: something could not be read, is in the way or does not belong there, and was left; each is told of
  2  not done: there is no store, it may not be written, or other upkeep is at work and goes on")]
pub(crate) struct Repair {
    /// What nothing reaches stays if it was used or written less than this ago
    #[arg(long, value_name = "TIME", value_parser = quantity::duration, default_value = "1h")]
    grace: Duration,
}

impl Repair {
    pub(crate) fn run(self, global: &Global) -> anyhow::Result<Exit> {
        let store = location::existing(global)?;
        let mut options = RepairOptions::default();
        options.grace = self.grace;
        let steps = Steps::new(global);
        let report = store.repair(&options, &steps)?;
        drop(steps);
        let collected = &report.collected;
        if global.json {
            output::json(&json!({
                "set_aside": report.set_aside,
                "packs_set_aside": report.packs_set_aside,
                "packs_rebuilt": report.packs_rebuilt,
                "lost_entries": report.lost_entries,
                "rebuilt_records": report.rebuilt,
                "incomplete_plans": report.incomplete,
                "shortened_records": report.shortened,
                "removed_records": report.records,
                "unreached_plans": collected.plans,
                "unreached_blobs": collected.blobs,
                "left": report.left.iter().map(ToString::to_string).collect::<Vec<_>>(),
            }))?;
        } else {
            for problem in &report.left {
                output::problem(problem)?;
            }
            output::line(format_args!(
                "set aside {} and {}; {} made of what is good in them, {} lost",
                output::counted(report.set_aside, "damaged file"),
                output::counted(report.packs_set_aside, "pack"),
                output::counted(report.packs_rebuilt, "pack"),
                output::entries(report.lost_entries)
            ))?;
            output::line(format_args!(
                "made {} anew, shortened {}, removed {}, {}",
                output::counted(report.rebuilt, "plan record"),
                output::counted(report.shortened, "record"),
                output::counted(report.records, "record"),
                output::counted(report.incomplete, "incomplete plan")
            ))?;
            let (plans, blobs) = (output::counted(collected.plans, "plan"), output::counted(collected.blobs, "blob"));
            output::line(format_args!("removed {plans} and {blobs} that nothing reaches"))?;
        }
        Ok(if report.left.is_empty() { Exit::Good } else { Exit::Findings })
    }
}
