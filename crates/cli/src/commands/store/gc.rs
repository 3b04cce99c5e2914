//! `hipplan store gc`

use crate::progress::Steps;
use crate::{Exit, Global, location, output, quantity};
use hipplan::{GcOptions, GcReport};
use serde_json::json;
use std::time::Duration;

/// Remove what nothing reaches, and what limits leave no room for
///
/// Without limits: plans and blobs that nothing names, unfinished writes, and damaged entries that were set aside, if they are older than the grace age. With limits, in addition: the plans that were used longest ago, with what they alone need, until the limits hold. Pinned plans stay. May run while the store is in use.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hipplan store gc --max-bytes 10GiB
  hipplan store gc --max-age 90d --dry-run

Exit codes:
  0  done; the limits hold
  1  a limit is exceeded still (all the rest is pinned or in use), or something could not be read
  2  not done: there is no store, it cannot be written, pins are damaged, or other upkeep is at work and goes on")]
pub(crate) struct Gc {
    /// Most bytes that all files of the store may have: 500MB, 10GiB
    #[arg(long, value_name = "BYTES", value_parser = quantity::bytes)]
    max_bytes: Option<u64>,
    /// Most files that the store may have
    #[arg(long, value_name = "NUMBER")]
    max_files: Option<u64>,
    /// Plans that were not used for longer than this go: 12h, 90d
    #[arg(long, value_name = "TIME", value_parser = quantity::duration)]
    max_age: Option<Duration>,
    /// What was used or written less than this ago stays. Must be longer than any compile takes
    #[arg(long, value_name = "TIME", value_parser = quantity::duration, default_value = "1h")]
    grace: Duration,
    /// Change nothing; tell what would be removed
    #[arg(long)]
    dry_run: bool,
}

impl Gc {
    pub(crate) fn run(self, global: &Global) -> anyhow::Result<Exit> {
        let store = location::existing(global)?;
        let mut options = GcOptions::default();
        (options.max_bytes, options.max_files, options.max_age) = (self.max_bytes, self.max_files, self.max_age);
        (options.grace, options.dry_run) = (self.grace, self.dry_run);
        let steps = Steps::new(global);
        let report = store.gc(&options, &steps)?;
        drop(steps);
        print(global, &report, self.dry_run)?;
        Ok(if report.is_over || !report.unknown.is_empty() { Exit::Findings } else { Exit::Good })
    }
}

fn print(global: &Global, report: &GcReport, is_dry: bool) -> anyhow::Result<()> {
    if global.json {
        let unknown: Vec<String> = report.unknown.iter().map(ToString::to_string).collect();
        return output::json(&json!({
            "dry_run": is_dry,
            "bytes_before": report.before.bytes,
            "bytes_after": report.after.bytes,
            "files_before": report.before.files,
            "files_after": report.after.files,
            "evicted": report.evicted,
            "plans": report.plans,
            "blobs": report.blobs,
            "records": report.records,
            "shortened_records": report.shortened,
            "packs_rewritten": report.packs_rewritten,
            "unfinished_writes": report.leftovers,
            "set_aside": report.quarantined,
            "spared": report.spared,
            "kept_pinned": report.kept_pinned,
            "kept_in_use": report.kept_in_use,
            "over_limit": report.is_over,
            "unknown": unknown,
        }));
    }
    let what = if is_dry { "would remove" } else { "removed" };
    output::line(format_args!(
        "{what} {} ({} of them named and used longest ago), {}, {}, {}, {} set aside",
        output::counted(report.plans, "plan"),
        report.evicted,
        output::counted(report.blobs, "blob"),
        output::counted(report.records, "record"),
        output::counted(report.leftovers, "unfinished write"),
        report.quarantined
    ))?;
    let (before, after) = (report.before, report.after);
    output::line(format_args!(
        "{} in {} before, {} in {} after",
        output::bytes(before.bytes),
        output::counted(before.files, "file"),
        output::bytes(after.bytes),
        output::counted(after.files, "file")
    ))?;
    for problem in &report.unknown {
        output::line(format_args!("{}not known what it names:{} {}", output::WARN, output::RESET, output::name(&problem.to_string())))?;
    }
    if report.is_over {
        output::line(format_args!(
            "{}still over the limit:{} {} pinned, {} in use or inside the grace age",
            output::WARN,
            output::RESET,
            output::counted(report.kept_pinned, "plan"),
            report.kept_in_use
        ))?;
    }
    Ok(())
}
