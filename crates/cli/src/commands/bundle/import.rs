//! `hipplan bundle import`

use super::UnpackOption;
use crate::progress::Steps;
use crate::{Exit, Global, location, output};
use anyhow::Context;
use hipplan::Store;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Take the good entries of bundles into the store
///
/// What is new is written into one file of the store. What is there stays first: plans of the bundle come behind it, as those of a layer
/// below would. A damaged entry is left out and told of. Where HIPPLAN_SIGNATURES is `require`, only bundles that a key of
/// HIPPLAN_TRUSTED_KEYS has signed are taken.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hipplan bundle import all.hpbundle --store plans
  hipplan bundle import one.hpbundle.zst two.hpbundle

Exit codes:
  0  everything in them is in the store
  1  something in them is damaged and was left out
  2  not done: a file is no bundle, is not signed as it must be, or the store cannot be written; what is good in those before it is in
     the store")]
pub(crate) struct Import {
    /// Bundles, wrapped or not
    #[arg(required = true, value_name = "BUNDLE")]
    bundles: Vec<PathBuf>,
    #[command(flatten)]
    unpack: UnpackOption,
}

impl Import {
    pub(crate) fn run(self, global: &Global) -> anyhow::Result<Exit> {
        let options = location::layer_options()?;
        let store = location::writable(global)?.with_limits(self.unpack.limits());
        let mut rows = Vec::new();
        let mut is_good = true;
        for bundle in &self.bundles {
            let name = output::path(bundle);
            let steps = Steps::new(global);
            let report = store.import_with(bundle, &options, &steps).context("not imported");
            drop(steps);
            let report = match report {
                Ok(report) => report,
                Err(error) => {
                    // Those before it are in the store.
                    if !rows.is_empty() {
                        print_json(&store, &rows)?;
                    }
                    return Err(error);
                }
            };
            is_good &= report.problems.is_empty();
            if global.json {
                rows.push(json!({
                    "bundle": bundle.display().to_string(),
                    "root": report.root.to_string(),
                    "new": super::entries_json(report.new),
                    "present": report.present,
                    "pack": report.pack.map(|path| path.display().to_string()),
                    "problems": super::texts(&report.problems),
                }));
            } else {
                super::print_problems(&report.problems)?;
                let new = super::entries_text(report.new);
                output::line(format_args!("{name}: {new} new, {} in the store before, in {}", report.present, output::path(store.root())))?;
            }
        }
        if global.json {
            print_json(&store, &rows)?;
        }
        Ok(if is_good { Exit::Good } else { Exit::Findings })
    }
}

fn print_json(store: &Store, rows: &[Value]) -> anyhow::Result<()> {
    output::json(&json!({ "store": store.root().display().to_string(), "bundles": rows }))
}
