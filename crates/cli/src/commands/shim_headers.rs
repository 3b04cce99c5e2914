//! `hipplan shim headers` and `hipplan shim check-objects`

use crate::{Exit, Global, inputs, output};
use anyhow::Context;
use hipplan_shim::headers::{self, objects};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Make the development files of a split: the header of the private names, and a CMake package
///
/// Made from your own miopen.h, for the split in DIR. Programs find MIOpen as before; a provider that must not call through the wrapper
/// links MIOpen_private and includes <miopen/miopen_impl.h>, which no other program finds.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hipplan shim headers --from /opt/rocm/include/miopen/miopen.h --prefix ~/miopen-split
  cmake -DCMAKE_PREFIX_PATH=~/miopen-split ..      with find_package(miopen) and the target MIOpen or MIOpen_private

Exit codes:
  0  written
  2  not written: there is no split, or the header is none of MIOpen's")]
pub(crate) struct Headers {
    /// The installed miopen/miopen.h
    #[arg(long, value_name = "MIOPEN_H")]
    from: PathBuf,
    /// The prefix of the split, or its folder with the libraries
    #[arg(long, value_name = "DIR")]
    prefix: PathBuf,
}

/// Check that a provider's object files ask MIOpen for private names only
///
/// A public name would go through the wrapper, which may forward it to the provider again; names of C++ internals change from version to
/// version. Reads object files, libraries and archives.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hipplan shim check-objects build/provider/*.o
  hipplan shim check-objects libmiopen_provider.so

Exit codes:
  0  they ask for private names only
  1  some ask for public names, or for names of C++ internals
  2  a file cannot be read")]
pub(crate) struct CheckObjects {
    /// Object files, shared libraries, programs, archives
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

impl Headers {
    pub(crate) fn run(self, global: &Global) -> anyhow::Result<Exit> {
        inputs::check_kind(&self.from).with_context(|| output::path(&self.from))?;
        let report = headers::generate(&self.from, &self.prefix)?;
        if global.json {
            output::json(&json!({
                "files": report.files,
                "declared": report.declared,
                "version": report.version,
                "declared_not_exported": report.not_exported,
                "exported_not_declared": report.not_declared,
            }))?;
            return Ok(Exit::Good);
        }
        for file in &report.files {
            output::line(output::path(file))?;
        }
        let version = report.version.as_deref().map_or(String::new(), |version| format!(" of MIOpen {version}"));
        output::line(format_args!("{}declared{} {} functions{version}", output::GOOD, output::RESET, report.declared))?;
        if !global.quiet {
            remark(
                "declared by the header, not exported by the library (of another version, or for a macro to enable)",
                &report.not_exported,
            );
            remark("exported by the library, not declared by the header", &report.not_declared);
        }
        Ok(Exit::Good)
    }
}

fn remark(what: &str, names: &[String]) {
    /// Names that are printed.
    const SHOWN: usize = 8;
    if !names.is_empty() {
        let more = if names.len() > SHOWN { ", ..; --json prints them all" } else { "" };
        let shown: Vec<String> = names.iter().take(SHOWN).map(|name| output::name(name)).collect();
        anstream::eprintln!("{}note:{} {} {what}: {}{more}", output::WARN, output::RESET, names.len(), shown.join(", "));
    }
}

impl CheckObjects {
    pub(crate) fn run(self, global: &Global) -> anyhow::Result<Exit> {
        let mut all = Vec::new();
        for file in &self.files {
            all.extend(objects::read(file)?);
        }
        let is_good = all.iter().all(objects::References::is_good);
        if global.json {
            let files: Vec<Value> = all
                .iter()
                .map(|f| json!({ "file": f.name, "good": f.is_good(), "private": f.private, "public": f.public, "internal": f.internal }))
                .collect();
            output::json(&json!({ "good": is_good, "files": files }))?;
        } else {
            let mut table = output::table(&["file", ">private", "public names", "C++ internals"]);
            for file in all.iter().filter(|file| !global.quiet || !file.is_good()) {
                let names =
                    |names: &std::collections::BTreeSet<String>| names.iter().map(|n| output::name(n)).collect::<Vec<_>>().join(", ");
                table.add_row([output::name(&file.name), file.private.len().to_string(), names(&file.public), names(&file.internal)]);
            }
            let rows: Vec<bool> = all.iter().filter(|file| !global.quiet || !file.is_good()).map(objects::References::is_good).collect();
            output::print_table(&table, |i| rows.get(i).filter(|good| !**good).map(|_| output::BAD))?;
            if !is_good {
                output::line("include <miopen/miopen_impl.h> and link MIOpen_private to call private names")?;
            }
        }
        Ok(if is_good { Exit::Good } else { Exit::Findings })
    }
}
