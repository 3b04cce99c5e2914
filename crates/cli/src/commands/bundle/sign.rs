//! `hipplan bundle sign`

use crate::{Exit, Global, output};
use anyhow::Context;
use hipplan::{SecretKey, StoreLimits};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Sign bundles
///
/// A signature is put behind the bundle, which is replaced by the longer file. Several keys may sign one bundle. A wrapped one is
/// unwrapped first: sign, then wrap.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hipplan bundle sign all.hpbundle --key ~/.config/hipplan/signing-key

Exit codes:
  0  signed, now or before
  2  not signed: a file is no bundle, or a wrapped one, or the key cannot be read; those before it are signed")]
pub(crate) struct Sign {
    /// Bundles
    #[arg(required = true, value_name = "BUNDLE")]
    bundles: Vec<PathBuf>,
    /// File of the secret key
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
}

impl Sign {
    pub(crate) fn run(self, global: &Global) -> anyhow::Result<Exit> {
        let key = SecretKey::read(&self.key).context("key")?;
        let mut rows = Vec::new();
        for bundle in &self.bundles {
            let name = output::path(bundle);
            let is_new = hipplan::sign_bundle(bundle, &key, &StoreLimits::default());
            let is_new = match is_new.context("not signed") {
                Ok(is_new) => is_new,
                Err(error) => {
                    // Those before it are signed.
                    if !rows.is_empty() {
                        print_json(&key, &rows)?;
                    }
                    return Err(error);
                }
            };
            if global.json {
                rows.push(json!({ "bundle": bundle.display().to_string(), "new": is_new }));
            } else {
                output::line(format_args!("{name}: {} by {}", if is_new { "signed" } else { "was signed before" }, key.public()))?;
            }
        }
        if global.json {
            print_json(&key, &rows)?;
        }
        Ok(Exit::Good)
    }
}

fn print_json(key: &SecretKey, rows: &[Value]) -> anyhow::Result<()> {
    output::json(&json!({ "key": key.public().to_string(), "bundles": rows }))
}
