//! `hipplan convert`

use crate::keys::Pick;
use crate::subject::{self, Envelope, Subject};
use crate::{Exit, Global, files, output};
use anyhow::{Context, bail, ensure};
use hipplan::hipdnn::container;
use hipplan::{GraphBuf, Limits, PlanView, driver, json};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

/// Convert a graph into another form
///
/// A graph in any form, the graph of a plan file or of a key in the store, or a MIOpenDriver line, becomes a native artifact, a hipDNN
/// buffer, hipDNN JSON, hipDNN's container of graph and plan (HDGP), or, where it is one convolution, a MIOpenDriver line. What the new
/// form cannot hold is an error; what it changes is a warning.
///
/// hipDNN's plan envelopes name neither a graph nor a target, so hipplan never keeps them in a store; they can be put into a container
/// beside the graph that they were made for, and taken along from one container into another.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hipplan convert graph.bin -o graph.json
  hipplan convert graph.json -o graph.hpgraph
  hipplan convert conv.json --to line                     the MIOpenDriver line of one convolution
  hipplan convert --line 'conv -n 1 -c 8 -k 8 -F 1' -o conv.json
  hipplan convert graph.json --plan plan.bin -o both.hdgp
  hipplan convert 5d0c1f22 --store plans -o graph.json    the graph of a plan, in canonical form

Exit codes:
  0  converted
  2  not converted: what was named is not there or is no graph, the form cannot say what is in it, or the output cannot be written")]
pub(crate) struct Convert {
    /// A graph in any form, a plan file, or the first digits of a key in the store; `-` is standard input
    #[arg(required_unless_present = "line")]
    what: Option<String>,
    /// A MIOpenDriver line that means one graph
    #[arg(long, value_name = "LINE", allow_hyphen_values = true, conflicts_with = "what")]
    line: Option<String>,
    /// File to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// The form to write [default: by the ending of the output]
    #[arg(long, value_name = "FORM")]
    to: Option<To>,
    /// hipDNN's plan envelope to put beside the graph
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// JSON on one line
    #[arg(long)]
    compact: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum To {
    /// Native artifact (.hpgraph)
    Artifact,
    /// hipDNN graph buffer (.bin, .fb)
    Hipdnn,
    /// hipDNN JSON (.json)
    Json,
    /// hipDNN container of graph and plan (.hdgp)
    Hdgp,
    /// MIOpenDriver line (.txt)
    Line,
}

impl To {
    fn of_ending(path: &Path) -> anyhow::Result<Self> {
        let ending = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        Ok(match ending.as_str() {
            "hpgraph" => Self::Artifact,
            "bin" | "fb" => Self::Hipdnn,
            "json" => Self::Json,
            "hdgp" => Self::Hdgp,
            "txt" => Self::Line,
            _ => bail!("{}: the ending tells no form; use .hpgraph, .bin, .json, .hdgp or .txt, or say --to", output::path(path)),
        })
    }

    const fn is_text(self) -> bool {
        matches!(self, Self::Json | Self::Line)
    }
}

/// What is converted.
struct Input {
    name: String,
    graph: GraphBuf,
    /// An envelope beside the graph.
    plan: Option<Envelope>,
    warnings: Vec<String>,
}

impl Convert {
    pub(crate) fn run(self, global: &Global) -> anyhow::Result<Exit> {
        let to = match (self.to, &self.out) {
            (Some(to), _) => to,
            (None, Some(out)) => To::of_ending(out)?,
            (None, None) => bail!("say what to write: --to artifact, hipdnn, json, hdgp or line, or -o with an ending"),
        };
        ensure!(!self.compact || to == To::Json, "--compact is for JSON");
        ensure!(self.plan.is_none() || to == To::Hdgp, "--plan needs an HDGP container to go into: --to hdgp");
        let mut input = self.read(global)?;
        if let Some(path) = &self.plan {
            ensure!(input.plan.is_none(), "{} holds a plan already; --plan would replace it", output::name(&input.name));
            let Subject::Envelope(envelope) = subject::read_valid(global, &path.to_string_lossy(), Pick::Graph)? else {
                bail!("{}: this is no hipDNN plan envelope", output::path(path));
            };
            input.plan = Some(envelope);
        }
        let bytes = self.write(to, &mut input).with_context(|| output::name(&input.name))?;
        for warning in input.warnings.iter().filter(|_| !global.quiet) {
            anstream::eprintln!("{}warning:{} {}", output::WARN, output::RESET, output::name(warning));
        }
        let Some(out) = &self.out else {
            ensure!(to.is_text() || !std::io::stdout().is_terminal(), "binary forms are not for a terminal; name a file with -o");
            output::raw(&bytes)?;
            return Ok(Exit::Good);
        };
        if let Some(what) = &self.what
            && files::are_same(out, Path::new(what))
        {
            bail!("{} would be written over itself; name another output", output::path(out));
        }
        files::write(out, &bytes)?;
        if global.json {
            output::json(&serde_json::json!({ "written": out.display().to_string(), "bytes": bytes.len(), "warnings": input.warnings }))?;
        } else if !global.quiet {
            output::line(format_args!("{}: {}", output::name(&out.display().to_string()), output::bytes(bytes.len() as u64)))?;
        }
        Ok(Exit::Good)
    }

    fn read(&self, global: &Global) -> anyhow::Result<Input> {
        if let Some(line) = &self.line {
            let imported = hipplan::import(line_with_program(line).as_bytes(), &Limits::DEFAULT).context("--line")?;
            return Ok(Input { name: "--line".into(), graph: imported.graph, plan: None, warnings: imported.warnings });
        }
        let name = self.what.clone().unwrap_or_default();
        Ok(match subject::read_valid(global, &name, Pick::Graph)? {
            Subject::Graph(it) => Input { name, graph: it.graph, plan: it.plan, warnings: it.warnings },
            Subject::Plan(bytes) => {
                let plan = PlanView::open(&bytes)?;
                let warnings = vec!["the graph of a plan is in canonical form: uids are ordinals, and there are no names".to_owned()];
                Input { name, graph: subject::graph_of_plan(&plan)?, plan: None, warnings }
            }
            Subject::Envelope(_) => return Err(subject::no_graph(&name)),
        })
    }

    fn write(&self, to: To, input: &mut Input) -> anyhow::Result<Vec<u8>> {
        let Input { graph, plan, warnings, .. } = input;
        let view = graph.view();
        if plan.is_some() && to != To::Hdgp {
            warnings.push("the plan in the container is left out: only --to hdgp keeps it".to_owned());
        }
        Ok(match to {
            To::Artifact => view.to_artifact().to_vec(),
            To::Hipdnn => graph.buffer().to_vec(),
            To::Hdgp => {
                if let Some(envelope) = &*plan {
                    warnings.extend(container::compare(&view, &envelope.view()?).iter().map(ToString::to_string));
                }
                container::write(&view, plan.as_ref().map(Envelope::bytes), &Limits::DEFAULT)?.to_vec()
            }
            To::Json => {
                let exported = json::export(&view, &Limits::DEFAULT)?;
                warnings.extend(exported.warnings.iter().cloned());
                if self.compact { format!("{}\n", exported.compact()).into_bytes() } else { exported.pretty().into_bytes() }
            }
            To::Line => {
                if !view.name().is_empty() || view.preferred_engine_id().is_some() {
                    warnings.push("a driver line holds no names, uids and engine preference".to_owned());
                }
                format!("{}\n", driver::command(&view, &Limits::DEFAULT)?).into_bytes()
            }
        })
    }
}

/// A line may begin with the program or with what follows it.
fn line_with_program(line: &str) -> String {
    if driver::mentions_driver(line.as_bytes()) { line.to_owned() } else { format!("MIOpenDriver {line}") }
}
