//! `hipplan bundle keygen`

use crate::{Exit, Global, output};
use hipplan::SecretKey;
use serde_json::json;
use std::path::PathBuf;

/// Make a key to sign bundles with
///
/// The secret half is written into FILE, for its owner alone; the public half into FILE.pub, one line, for all who are to trust it.
/// Neither is overwritten.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hipplan bundle keygen ~/.config/hipplan/signing-key

Exit codes:
  0  both files are written
  2  neither is: one is there already, or cannot be written")]
pub(crate) struct Keygen {
    /// File of the secret key
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl Keygen {
    pub(crate) fn run(self, global: &Global) -> anyhow::Result<Exit> {
        let mut public = self.file.clone().into_os_string();
        public.push(".pub");
        let public = PathBuf::from(public);
        let key = SecretKey::generate()?;
        key.write_new(&self.file, &public)?;
        if global.json {
            let path = |path: &PathBuf| path.display().to_string();
            output::json(&json!({ "secret": path(&self.file), "public": path(&public), "key": key.public().to_string() }))?;
        } else {
            output::line(key.public())?;
        }
        Ok(Exit::Good)
    }
}
