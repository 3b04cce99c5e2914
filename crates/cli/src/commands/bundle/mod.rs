//! `hipplan bundle`: one file per subcommand.

mod export;
mod import;
mod inspect;
mod keygen;
mod merge;
mod sign;
mod verify;

use crate::{Exit, Global, files, output, quantity};
use anyhow::Context;
use hipplan::StoreLimits;
use std::path::Path;

/// Make, check, sign and take in bundles: files of many plans that travel
///
/// A bundle is served where it lies: `--layer FILE`, or `HIPPLAN_LAYERS`.
#[derive(Debug, clap::Args)]
pub(crate) struct Bundle {
    #[command(subcommand)]
    command: BundleCommand,
}

#[derive(Debug, clap::Subcommand)]
enum BundleCommand {
    /// Write plans of the store into a bundle
    Export(export::Export),
    /// Take the good entries of bundles into the store
    Import(import::Import),
    /// Make one bundle of several
    Merge(merge::Merge),
    /// Make a key to sign bundles with
    Keygen(keygen::Keygen),
    /// Sign bundles
    Sign(sign::Sign),
    /// Tell what is in a bundle, where it is from and who signed it
    Inspect(inspect::Inspect),
    /// Check every byte of bundles, and their signatures
    Verify(verify::Verify),
}

impl Bundle {
    pub(crate) fn run(self, global: &Global) -> anyhow::Result<Exit> {
        match self.command {
            BundleCommand::Export(command) => command.run(global),
            BundleCommand::Import(command) => command.run(global),
            BundleCommand::Merge(command) => command.run(global),
            BundleCommand::Keygen(command) => command.run(global),
            BundleCommand::Sign(command) => command.run(global),
            BundleCommand::Inspect(command) => command.run(global),
            BundleCommand::Verify(command) => command.run(global),
        }
    }
}

/// How much may come out of a wrapped bundle.
#[derive(Debug, clap::Args)]
struct UnpackOption {
    /// Largest bundle that a .zst may unwrap to: 500MB, 10GiB [default: 16GiB]
    #[arg(long, value_name = "BYTES", value_parser = quantity::bytes)]
    unpack_limit: Option<u64>,
}

impl UnpackOption {
    fn limits(&self) -> StoreLimits {
        let mut limits = StoreLimits::default();
        if let Some(max) = self.unpack_limit {
            limits.max_unwrapped_bytes = max;
        }
        limits
    }
}

/// How the file of a bundle is written.
#[derive(Debug, clap::Args)]
struct OutputOptions {
    /// File to write; a bundle that stands there is replaced, any other file is not
    #[arg(short, long, value_name = "FILE")]
    output: std::path::PathBuf,
    /// Wrap the file in zstd, for the way: whoever gets it imports or unwraps it, for it cannot be served
    #[arg(long)]
    compress: bool,
}

/// What comes before the reason.
const NOT_WRITTEN: &str = "no bundle written";

/// zstd's own choice: the reference figures are of it.
const LEVEL: i32 = 3;

impl OutputOptions {
    /// Lets `write` make a bundle, and wraps it if that was asked for and it has written one.
    fn write<T>(
        &self,
        write: impl FnOnce(&Path) -> Result<T, hipplan::StoreError>,
        is_written: impl FnOnce(&T) -> bool,
    ) -> anyhow::Result<T> {
        // What is wrong may be an input: the error says of which file it is.
        if !self.compress {
            return write(&self.output).context(NOT_WRITTEN);
        }
        let what = || format!("{NOT_WRITTEN}: {}", output::path(&self.output));
        let folder = self.output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let plain =
            tempfile::Builder::new().prefix(".").suffix(".hpbundle").tempfile_in(folder).map_err(files::plain).with_context(what)?;
        let written = write(plain.path()).context(NOT_WRITTEN)?;
        if is_written(&written) {
            hipplan::wrap_bundle(plain.path(), &self.output, LEVEL, &StoreLimits::default()).context(NOT_WRITTEN)?;
        }
        Ok(written)
    }
}

/// What was left out, a line each.
fn print_problems(problems: &[hipplan::StoreError]) -> anyhow::Result<()> {
    problems.iter().try_for_each(output::problem)
}

fn texts(problems: &[hipplan::StoreError]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}

/// Number of entries by kind, as JSON.
fn entries_json(entries: [u64; 4]) -> serde_json::Value {
    let [blobs, plans, plan_records, selections] = entries;
    serde_json::json!({ "blobs": blobs, "plans": plans, "plan_records": plan_records, "selections": selections })
}

/// Number of entries by kind, in words.
fn entries_text(entries: [u64; 4]) -> String {
    let [blobs, plans, plan_records, selections] = entries;
    format!(
        "{}, {}, {}, {}",
        output::counted(plans, "plan"),
        output::counted(blobs, "blob"),
        output::counted(plan_records, "plan record"),
        output::counted(selections, "selection")
    )
}
