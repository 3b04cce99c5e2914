//! `hipplan store push`

use crate::progress::Steps;
use crate::{Exit, Global, location, output, remote};
use hipplan::EntryKind;
use serde_json::json;

/// Put all that the store and its layers have into the remote store
///
/// For a remote that was away while plans were compiled, or a bucket that is new. What plans name goes first, so machines may read meanwhile.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hipplan store push --store plans --remote s3://bucket/plans
  HIPPLAN_REMOTE=gs://plans/resnet hipplan store push --json

Exit codes:
  0  the remote store has all of it
  1  something could not be read here, or not be put there
  2  nothing was done: no remote store is named, it cannot be opened, or there is no store")]
pub(crate) struct Push {}

impl Push {
    pub(crate) fn run(self, global: &Global) -> anyhow::Result<Exit> {
        anyhow::ensure!(remote::is_named(&global.remote)?, "no remote store is named: give --remote URL, or set HIPPLAN_REMOTE");
        let store = remote::behind(&global.remote, location::listed(global)?, true)?;
        let steps = Steps::new(global);
        let report = store.push(&steps)?;
        drop(steps);
        let of = |kind: EntryKind| EntryKind::ALL.iter().zip(report.put).find(|(of, _)| **of == kind).map_or(0, |(_, put)| put);
        let [blobs, plans] = [of(EntryKind::Blob), of(EntryKind::Plan)];
        let [plan_records, selections] = [of(EntryKind::PlanRecord), of(EntryKind::Selection)];
        if global.json {
            output::json(&json!({
                "blobs": blobs,
                "plans": plans,
                "plan_records": plan_records,
                "selections": selections,
                "bytes": report.bytes,
                "left": report.left,
                "problems": report.problems,
            }))?;
        } else {
            for problem in &report.problems {
                output::line(format_args!("not put: {}", output::name(problem)))?;
            }
            let bytes = output::bytes(report.bytes);
            let (blobs, plans, records) =
                (output::counted(blobs, "blob"), output::counted(plans, "plan"), output::counted(plan_records + selections, "record"));
            output::line(format_args!("{blobs}, {plans} and {records}, {bytes}, are there"))?;
            if report.left > 0 {
                let is_or_are = if report.left == 1 { "is" } else { "are" };
                output::line(format_args!("{} {is_or_are} not", output::entries(report.left)))?;
            }
        }
        Ok(if report.left == 0 { Exit::Good } else { Exit::Findings })
    }
}
