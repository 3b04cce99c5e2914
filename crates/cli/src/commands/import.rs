//! `hipplan import`

use crate::{Exit, Global, inputs, output, progress::Bar};
use anyhow::{Context, bail};
use hipplan::Limits;
use serde_json::json;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Read graphs in any form and write native graph artifacts
///
/// Reads hipDNN JSON (all dialects), hipDNN graph buffers and native artifacts. Each graph is checked in full; its key is printed.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hipplan import graph.json                       check a graph and print its key
  hipplan import graph.json -o graph.hpgraph
  hipplan import corpus/graphs -o imported/       a folder of graphs into a folder")]
pub(crate) struct Import {
    /// Graph files, folders of them, or - for standard input
    #[arg(required = true, value_name = "INPUT")]
    inputs: Vec<PathBuf>,
    /// File to write, or a folder if there are several inputs; nothing is written without it
    #[arg(short, long, value_name = "PATH")]
    out: Option<PathBuf>,
}

impl Import {
    pub(crate) fn run(self, global: &Global) -> anyhow::Result<Exit> {
        let files = inputs::expand(&self.inputs)?;
        let into_folder =
            files.len() > 1 || self.out.as_ref().is_some_and(|out| out.is_dir() || out.as_os_str().to_string_lossy().ends_with('/'));
        if into_folder && let Some(out) = &self.out {
            std::fs::create_dir_all(out).with_context(|| out.display().to_string())?;
        }
        let targets = self.targets(&files, into_folder)?;
        let bar = Bar::new(global, "importing", files.len());
        let mut rows = Vec::new();
        let mut bad = 0;
        for (file, target) in files.iter().zip(&targets) {
            let input = inputs::read(file, &Limits::DEFAULT);
            bar.advance(&input.source);
            match input.graph {
                Err(reason) => {
                    bad += 1;
                    rows.push(json!({ "source": input.source, "error": reason }));
                }
                Ok(imported) => {
                    let graph = imported.graph.view();
                    let key = graph.canonical().map(|c| c.key.to_string());
                    if let Some(path) = target {
                        write_atomically(path, &graph.to_artifact())?;
                    }
                    let written = target.as_ref().map(|path| path.display().to_string());
                    rows.push(json!({
                        "source": input.source,
                        "form": imported.form.name(),
                        "key": key.as_ref().ok(),
                        "no_key": key.as_ref().err().map(ToString::to_string),
                        "nodes": graph.node_count(),
                        "tensors": graph.tensors().len(),
                        "api_floor": graph.api_floor().to_string(),
                        "warnings": imported.warnings,
                        "written": written,
                    }));
                }
            }
        }
        drop(bar);
        if global.json {
            output::json(&json!({ "graphs": rows }))?;
        } else {
            print(&rows)?;
        }
        Ok(if bad > 0 { Exit::Findings } else { Exit::Good })
    }
}

impl Import {
    /// Where each input's artifact goes. Two inputs never share a file, and no input is written over.
    fn targets(&self, files: &[PathBuf], into_folder: bool) -> anyhow::Result<Vec<Option<PathBuf>>> {
        let Some(out) = &self.out else { return Ok(vec![None; files.len()]) };
        let mut taken: HashMap<PathBuf, &PathBuf> = HashMap::new();
        let mut targets = Vec::with_capacity(files.len());
        for file in files {
            let target = if into_folder { out.join(artifact_name(file)) } else { out.clone() };
            if let Some(other) = taken.insert(target.clone(), file) {
                bail!(
                    "{} and {} would both be written to {}; import them into different folders",
                    other.display(),
                    file.display(),
                    target.display()
                );
            }
            if let (Ok(a), Ok(b)) = (target.canonicalize(), file.canonicalize())
                && a == b
            {
                bail!("{} would be written over itself; name another output", file.display());
            }
            targets.push(Some(target));
        }
        Ok(targets)
    }
}

fn artifact_name(file: &Path) -> PathBuf {
    let stem = if file == Path::new("-") { "stdin".into() } else { file.file_stem().unwrap_or_default().to_owned() };
    PathBuf::from(stem).with_extension("hpgraph")
}

/// Never leaves a half-written file under the name.
fn write_atomically(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    use std::io::Write;
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Some(name) = path.file_name() else { bail!("{}: not a file name", path.display()) };
    let temporary = folder.join(format!(".{}.{}", name.to_string_lossy(), std::process::id()));
    let write = || -> std::io::Result<()> {
        let mut file = std::fs::File::create_new(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&temporary, path)
    };
    write().inspect_err(|_| drop(std::fs::remove_file(&temporary))).with_context(|| path.display().to_string())
}

fn print(rows: &[serde_json::Value]) -> anyhow::Result<()> {
    let text = |row: &serde_json::Value, key: &str| output::name(row[key].as_str().unwrap_or_default());
    let mut table = output::table(&["graph", "form", ">nodes", ">tensors", "API", "key"]);
    for row in rows {
        match row["error"].as_str() {
            Some(error) => table.add_row([text(row, "source"), format!("invalid: {}", output::name(error))]),
            None => table.add_row([
                text(row, "source"),
                text(row, "form"),
                row["nodes"].to_string(),
                row["tensors"].to_string(),
                text(row, "api_floor"),
                if row["key"].is_null() { text(row, "no_key") } else { text(row, "key") },
            ]),
        };
    }
    output::print_table(&table, |i| rows.get(i).filter(|r| !r["error"].is_null()).map(|_| output::BAD))?;
    for row in rows {
        for warning in row["warnings"].as_array().into_iter().flatten() {
            output::line(format_args!(
                "{}warning:{} {}: {}",
                output::WARN,
                output::RESET,
                text(row, "source"),
                warning.as_str().unwrap_or_default()
            ))?;
        }
    }
    Ok(())
}
