//! `hipplan bundle verify`

use super::{UnpackOption, inspect};
use crate::progress::Steps;
use crate::{Exit, Global, output};
use anyhow::Context;
use hipplan::{BundleFacts, PublicKey, read_trusted_keys};
use serde_json::json;
use std::path::PathBuf;

/// Check every byte of bundles, and their signatures
///
/// Every entry must be what its name says, and what is named must be there. A wrong signature is a finding; with --trusted, so is the lack
/// of one by a key of that file or folder.
///
/// One that is wrapped is unwrapped into the folder for temporary files, and gone from there afterwards. Its size there is that of the
/// whole bundle; TMPDIR names another folder.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hipplan bundle verify all.hpbundle
  hipplan bundle verify all.hpbundle.zst --trusted /etc/hipplan/keys
  TMPDIR=/scratch hipplan bundle verify large.hpbundle.zst

Exit codes:
  0  all is good
  1  an entry is damaged, something is missing, or a signature is not as it must be
  2  a file is no bundle, or a damaged one; the others are checked. Or the keys cannot be read")]
pub(crate) struct Verify {
    /// Bundles, wrapped or not
    #[arg(required = true, value_name = "BUNDLE")]
    bundles: Vec<PathBuf>,
    /// Public keys of which one must have signed: a file with one a line, or a folder of such files that end in .pub
    #[arg(long, value_name = "PATH")]
    trusted: Option<PathBuf>,
    #[command(flatten)]
    unpack: UnpackOption,
}

impl Verify {
    pub(crate) fn run(self, global: &Global) -> anyhow::Result<Exit> {
        let trusted = self.trusted.as_deref().map(read_trusted_keys).transpose().context("trusted keys")?;
        let mut rows = Vec::new();
        let (mut all_good, mut all_read) = (true, true);
        for bundle in &self.bundles {
            let name = output::path(bundle);
            let steps = Steps::new(global);
            let facts = hipplan::bundle_facts_with(bundle, &std::env::temp_dir(), true, &self.unpack.limits(), &steps);
            drop(steps);
            let facts = match facts.context("bundle") {
                Ok(facts) => facts,
                // The others may be good.
                Err(error) => {
                    all_read = false;
                    let error = output::error(&error);
                    anstream::eprintln!("{}hipplan:{} {error}", output::BAD, output::RESET);
                    if global.json {
                        rows.push(json!({ "bundle": bundle.display().to_string(), "error": error }));
                    }
                    continue;
                }
            };
            let problems = facts.report.as_ref().map(|report| &report.problems[..]).unwrap_or_default();
            let standing = standing(&facts, trusted.as_deref());
            let is_good = problems.is_empty() && standing.is_ok();
            all_good &= is_good;
            if global.json {
                let mut row = inspect::to_json(bundle, &facts);
                row["error"] = serde_json::Value::Null;
                row["problems"] = super::texts(problems).into();
                row["signature_problem"] = standing.err().into();
                rows.push(row);
                continue;
            }
            super::print_problems(problems)?;
            if let Err(reason) = &standing {
                output::line(format_args!("{}signature:{} {reason}", output::BAD, output::RESET))?;
            }
            let (style, word) = if is_good { (output::GOOD, "all good") } else { (output::BAD, "not good") };
            output::line(format_args!("{name}: {}: {style}{word}{}", super::entries_text(facts.entries), output::RESET))?;
        }
        if global.json {
            output::json(&json!({ "bundles": rows }))?;
        }
        Ok(match () {
            () if !all_read => Exit::Unread,
            () if !all_good => Exit::Findings,
            () => Exit::Good,
        })
    }
}

/// What is wrong with the signatures.
fn standing(facts: &BundleFacts, trusted: Option<&[PublicKey]>) -> Result<(), String> {
    if let Some((key, _)) = inspect::signatures(facts).find(|(_, is_valid)| !is_valid) {
        return Err(format!("the one by {key} is not over this bundle"));
    }
    let Some(trusted) = trusted else { return Ok(()) };
    let counts = |key: &[u8; 32]| trusted.iter().any(|known| known.to_bytes() == *key);
    if facts.signatures.iter().any(|signature| counts(&signature.key)) {
        return Ok(());
    }
    Err(if facts.signatures.is_empty() { "there is none" } else { "none is by a key that is trusted" }.to_owned())
}
