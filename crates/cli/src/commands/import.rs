//! `hipplan import`

use crate::inputs::{Contents, Source};
use crate::{Exit, Global, files, inputs, logs, output, progress::Bar};
use anyhow::{Context, bail};
use hipplan::Limits;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::PathBuf;

/// What there is to tell of an input.
struct Row {
    /// All but the problem.
    value: Value,
    /// Which source, and which problem of its log.
    problem: Option<(usize, usize)>,
}

impl Row {
    /// The row with its problem, which is several times as large and made for one row at a time.
    fn to_json(&self, all: &[Contents], explain: bool) -> Value {
        let mut value = self.value.clone();
        if value.get("error").is_none() {
            let logged = self.problem.and_then(|(source, i)| {
                let log = all.get(source)?.log.as_ref()?;
                Some(logs::problem_json(log, log.problems.get(i)?, explain))
            });
            value["problem"] = logged.unwrap_or_default();
        }
        value
    }
}

/// Read graphs in any form and write native graph artifacts
///
/// Reads hipDNN JSON (all dialects), hipDNN graph buffers, native artifacts, and MIOpenDriver lines, alone or in logs full of other
/// things: each different convolution becomes one graph per direction. Each graph is checked in full; its key is printed. What was
/// skipped is listed with its reason.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hipplan import graph.json                       check a graph and print its key
  hipplan import graph.json -o graph.hpgraph
  hipplan import corpus/graphs -o imported/       a folder of graphs into a folder
  hipplan import training.log --explain           every convolution of a log, and how its flags were read
  hipplan import --line 'MIOpenDriver conv -n 1 -c 64 -H 56 -W 56 -k 64 -F 1'

Exit codes:
  0  every input is a graph, or a log all of whose convolutions were read
  1  some inputs are no graphs, or a convolution of a log could not be read; the rest was done
  2  not done: what was named is not there, or cannot be written")]
pub(crate) struct Import {
    /// Graph files, logs, folders of them, or - for standard input
    #[arg(required_unless_present = "line", value_name = "INPUT")]
    inputs: Vec<PathBuf>,
    /// A MIOpenDriver line
    #[arg(long, value_name = "LINE", allow_hyphen_values = true)]
    line: Vec<String>,
    /// File to write, or a folder if there are several graphs; nothing is written without it
    #[arg(short, long, value_name = "PATH")]
    out: Option<PathBuf>,
    /// Show how each flag of a driver line was read, and what a log does not tell
    #[arg(long)]
    explain: bool,
}

impl Import {
    pub(crate) fn run(self, global: &Global) -> anyhow::Result<Exit> {
        let sources = inputs::expand(&self.inputs, &self.line)?;
        let into_folder =
            sources.len() > 1 || self.out.as_ref().is_some_and(|out| out.is_dir() || out.as_os_str().to_string_lossy().ends_with('/'));
        if into_folder && let Some(out) = &self.out {
            std::fs::create_dir_all(out).with_context(|| output::path(out))?;
        }
        let targets = self.targets(&sources, into_folder)?;
        let bar = Bar::new(global, "importing", sources.len());
        let mut rows = Vec::new();
        let mut all = Vec::new();
        let mut bad = 0;
        for (source, target) in sources.iter().zip(&targets) {
            let mut contents = inputs::read(source, &Limits::DEFAULT);
            bar.advance(&contents.name);
            let graphs = contents.inputs.len();
            if graphs > 1
                && !into_folder
                && let Some(out) = target
            {
                bail!(
                    "{} holds {graphs} graphs; name a folder to write them to, such as {}/",
                    output::name(&contents.name),
                    output::path(out)
                );
            }
            for input in std::mem::take(&mut contents.inputs) {
                let logged = contents.log.as_ref().zip(input.problem).and_then(|(log, i)| log.problems.get(i));
                match input.graph {
                    Err(reason) => {
                        bad += 1;
                        rows.push(Row { value: json!({ "source": input.source, "error": reason }), problem: None });
                    }
                    Ok(imported) => {
                        let graph = imported.graph.view();
                        let key = graph.canonical().map(|c| c.key.to_string());
                        let written = target.as_ref().map(|path| match logged {
                            Some(it) if into_folder => {
                                path.with_file_name(format!("{}_L{}_{}.hpgraph", source.stem().display(), it.line, it.problem.direction))
                            }
                            _ => path.clone(),
                        });
                        if let Some(path) = &written {
                            files::write(path, &graph.to_artifact())?;
                        }
                        let value = json!({
                            "source": input.source,
                            "form": imported.form.name(),
                            "key": key.as_ref().ok(),
                            "no_key": key.as_ref().err().map(ToString::to_string),
                            "nodes": graph.node_count(),
                            "tensors": graph.tensors().len(),
                            "api_floor": graph.api_floor().to_string(),
                            "warnings": imported.warnings,
                            "written": written.map(|path| path.display().to_string()),
                        });
                        rows.push(Row { value, problem: input.problem.map(|i| (all.len(), i)) });
                    }
                }
            }
            all.push(contents);
        }
        drop(bar);
        if global.json {
            let graphs = rows.iter().map(|row| row.to_json(&all, self.explain));
            output::json_list("graphs", graphs, || [("logs", logs::to_json(&all))])?;
        } else {
            print(global, &rows)?;
            if self.explain {
                logs::explain(&all)?;
            }
            logs::print(&all)?;
        }
        Ok(if bad > 0 || logs::any_lost(&all) { Exit::Findings } else { Exit::Good })
    }
}

impl Import {
    /// Where each input's artifact goes. Two inputs never share a file, and no input is written over.
    fn targets(&self, sources: &[Source], into_folder: bool) -> anyhow::Result<Vec<Option<PathBuf>>> {
        let Some(out) = &self.out else { return Ok(vec![None; sources.len()]) };
        let mut taken: HashMap<PathBuf, &Source> = HashMap::new();
        let mut targets = Vec::with_capacity(sources.len());
        for source in sources {
            let target = if into_folder { out.join(source.stem().with_extension("hpgraph")) } else { out.clone() };
            if let Some(other) = taken.insert(target.clone(), source) {
                bail!(
                    "{} and {} would both be written to {}; import them into different folders",
                    output::name(&other.name()),
                    output::name(&source.name()),
                    output::path(&target)
                );
            }
            if source.path().is_some_and(|path| files::are_same(&target, path)) {
                bail!("{} would be written over itself; name another output", output::name(&source.name()));
            }
            targets.push(Some(target));
        }
        Ok(targets)
    }
}

fn print(global: &Global, rows: &[Row]) -> anyhow::Result<()> {
    let text = |row: &Value, key: &str| output::name(row[key].as_str().unwrap_or_default());
    let mut table = output::table(&["graph", "form", ">nodes", ">tensors", "API", "key"]);
    for row in rows.iter().map(|row| &row.value) {
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
    output::print_table(&table, |i| rows.get(i).filter(|r| !r.value["error"].is_null()).map(|_| output::BAD))?;
    for row in rows.iter().map(|row| &row.value) {
        for warning in row["warnings"].as_array().into_iter().flatten() {
            global.remark(format_args!(
                "{}warning:{} {}: {}",
                output::WARN,
                output::RESET,
                text(row, "source"),
                output::name(warning.as_str().unwrap_or_default())
            ))?;
        }
    }
    Ok(())
}
