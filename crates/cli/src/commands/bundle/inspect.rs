//! `hipplan bundle inspect`

use super::UnpackOption;
use crate::{Exit, Global, output};
use anyhow::Context;
use hipplan::{BundleFacts, ContentHash, PublicKey};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Tell what is in a bundle, where it is from and who signed it
///
/// Its tables are checked, its entries are not: `hipplan bundle verify` does that. `hipplan ls --layer BUNDLE` lists the plans.
///
/// One that is wrapped is unwrapped into the folder for temporary files, and gone from there afterwards. Its size there is that of the
/// whole bundle; TMPDIR names another folder.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hipplan bundle inspect all.hpbundle
  hipplan bundle inspect all.hpbundle.zst --json

Exit codes:
  0  told, and every signature in it is over this bundle
  1  told, and a signature is not
  2  the file is no bundle, or its tables are damaged")]
pub(crate) struct Inspect {
    /// Bundle, wrapped or not
    #[arg(value_name = "BUNDLE")]
    bundle: PathBuf,
    #[command(flatten)]
    unpack: UnpackOption,
}

impl Inspect {
    pub(crate) fn run(self, global: &Global) -> anyhow::Result<Exit> {
        let facts = hipplan::bundle_facts(&self.bundle, &std::env::temp_dir(), false, &self.unpack.limits());
        let facts = facts.context("bundle")?;
        if global.json {
            output::json(&to_json(&self.bundle, &facts))?;
        } else {
            let wrapped = if facts.is_wrapped { ", wrapped in zstd" } else { "" };
            let (entries, bytes) = (super::entries_text(facts.entries), output::bytes(facts.bytes));
            output::line(format_args!("{}: {entries}, {bytes}{wrapped}", output::path(&self.bundle)))?;
            output::line(format_args!("root {}", facts.root))?;
            for line in &facts.provenance {
                output::line(format_args!("from {}", output::name(line)))?;
            }
            for (key, is_valid) in signatures(&facts) {
                let (style, word) = if is_valid { (output::GOOD, "signed by") } else { (output::BAD, "wrong signature by") };
                output::line(format_args!("{style}{word}{} {key}", output::RESET))?;
            }
            if facts.signatures.is_empty() {
                output::line("not signed")?;
            }
        }
        Ok(if facts.signatures.iter().all(|signature| signature.is_valid) { Exit::Good } else { Exit::Findings })
    }
}

/// Keys that signed it, and whether the signatures are right. What is no key is shown by its digits.
pub(super) fn signatures(facts: &BundleFacts) -> impl Iterator<Item = (String, bool)> {
    facts.signatures.iter().map(|signature| {
        let key = PublicKey::from_bytes(signature.key).map_or_else(|_| ContentHash(signature.key).to_string(), |key| key.to_string());
        (key, signature.is_valid)
    })
}

pub(super) fn to_json(bundle: &std::path::Path, facts: &BundleFacts) -> Value {
    json!({
        "bundle": bundle.display().to_string(),
        "root": facts.root.to_string(),
        "bytes": facts.bytes,
        "wrapped": facts.is_wrapped,
        "entries": super::entries_json(facts.entries),
        "provenance": facts.provenance,
        "signatures": signatures(facts).map(|(key, is_valid)| json!({ "key": key, "valid": is_valid })).collect::<Vec<_>>(),
    })
}
