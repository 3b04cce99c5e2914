//! `hipplan show`

use crate::draw::{self, Caption};
use crate::subject::{self, Subject};
use crate::{Exit, Global, output};
use anyhow::{Context, bail, ensure};
use hipplan::plan::BindingRole;
use hipplan::{FieldRole, GraphBuf, PlanView, TensorView, VerifiedGraph};
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Show a graph, a plan file, or a plan of the store: as a table or as a picture
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hipplan show graph.json
  hipplan show 5d0c1f22a9b3 --store plans         by graph key or plan key
  hipplan show some.plan --json
  hipplan show graph.json --svg -o graph.svg      a picture for a report or a browser
  hipplan show graph.json --dot | dot -Tpdf -o graph.pdf

Of a plan, the picture is of the graph in it, in canonical form: its uids are ordinals.")]
pub(crate) struct Show {
    /// A graph in any form, a plan file, or the first digits of a key in the store; `-` is standard input
    what: String,
    /// Print the graph as Graphviz text
    #[arg(long, conflicts_with = "svg")]
    dot: bool,
    /// Print the graph as an SVG picture
    #[arg(long)]
    svg: bool,
    /// Write the picture to a file, whole or not at all
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Show {
    pub(crate) fn run(self, global: &Global) -> anyhow::Result<Exit> {
        let is_picture = self.dot || self.svg;
        ensure!(is_picture || self.output.is_none(), "--output needs --svg or --dot");
        ensure!(!(is_picture && global.json), "--json and a picture exclude each other");
        let subject = subject::read_valid(global, &self.what)?;
        if is_picture {
            let text = match &subject {
                Subject::Graph(graph) => self.picture(&graph.graph, None),
                Subject::Plan(bytes) => {
                    let plan = PlanView::open(bytes)?;
                    self.picture(&subject::graph_of_plan(&plan)?, Some(&plan))
                }
            };
            return self.deliver(global, &text);
        }
        match subject {
            Subject::Graph(graph) => show_graph(global, &graph.graph, graph.form.name(), &graph.warnings),
            Subject::Plan(bytes) => show_plan(global, &PlanView::open(&bytes)?),
        }
    }

    fn picture(&self, graph: &GraphBuf, plan: Option<&PlanView<'_>>) -> String {
        let view = graph.view();
        let mut caption = Caption::default();
        let key = view.canonical().map_or_else(|e| format!("none, {} holds unknown fields", e.place), |c| c.key.to_string());
        match plan {
            Some(plan) => {
                let id = plan.meta().identity();
                caption.title = format!("plan {}", plan.meta().plan_key().short());
                let engine = format!("{} revision {}", output::name(&id.engine), output::name(&id.engine_revision));
                caption.lines.push(format!("target {} · engine {engine}", output::name(&id.target)));
            }
            None if !view.name().is_empty() => caption.title = output::name(view.name()),
            None => {
                caption.title = Path::new(&self.what).file_stem().map_or_else(|| "graph".into(), |s| output::name(&s.to_string_lossy()))
            }
        }
        caption.lines.push(format!("graph key {key}"));
        let (nodes, tensors) = (output::count(view.node_count(), "operation"), output::count(view.tensors().len(), "tensor"));
        caption.lines.push(format!("engine API {} or later · {nodes} · {tensors}", view.api_floor()));
        if self.svg { draw::svg::write(&view, &caption) } else { draw::dot::write(&view, &caption.title) }
    }

    fn deliver(&self, global: &Global, text: &str) -> anyhow::Result<Exit> {
        let Some(path) = &self.output else {
            std::io::stdout().lock().write_all(text.as_bytes())?;
            return Ok(Exit::Good);
        };
        if let (Ok(a), Ok(b)) = (path.canonicalize(), Path::new(&self.what).canonicalize())
            && a == b
        {
            bail!("{}: the picture would be written over the graph", path.display());
        }
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let write = || -> anyhow::Result<()> {
            // A device or a pipe cannot be replaced, only written.
            if path.exists() && !path.is_file() {
                std::fs::write(path, text)?;
                return Ok(());
            }
            let mut file = tempfile::Builder::new().permissions(picture_permissions()).tempfile_in(folder)?;
            file.write_all(text.as_bytes())?;
            file.persist(path)?;
            Ok(())
        };
        write().with_context(|| path.display().to_string())?;
        if !global.quiet {
            anstream::eprintln!("{}: {}", path.display(), output::bytes(text.len() as u64));
        }
        Ok(Exit::Good)
    }
}

/// A picture is for others to read too; what the user's mask takes away is taken away.
fn picture_permissions() -> std::fs::Permissions {
    use std::os::unix::fs::PermissionsExt;
    std::fs::Permissions::from_mode(0o666)
}

fn show_graph(global: &Global, graph: &GraphBuf, form: &str, warnings: &[String]) -> anyhow::Result<Exit> {
    let view = graph.view();
    let key = view.canonical();
    if global.json {
        let mut value = graph_json(&view);
        value["form"] = form.into();
        value["graph_key"] = key.as_ref().ok().map(|c| c.key.to_string()).into();
        value["no_key"] = key.as_ref().err().map(ToString::to_string).into();
        value["warnings"] = warnings.into();
        output::json(&value)?;
        return Ok(Exit::Good);
    }
    let name = if view.name().is_empty() { "(no name)".to_owned() } else { output::name(view.name()) };
    output::line(format_args!("{}{name}{}  {form}, {}", output::STRONG, output::RESET, output::bytes(graph.buffer().len() as u64)))?;
    match &key {
        Ok(canonical) => output::line(format_args!("graph key   {}", canonical.key))?,
        Err(error) => output::line(format_args!("graph key   none: {error}"))?,
    }
    output::line(format_args!("engine API  {} or later", view.api_floor()))?;
    output::line("")?;
    print_graph(&view)?;
    for warning in warnings {
        output::line(format_args!("{}warning:{} {warning}", output::WARN, output::RESET))?;
    }
    Ok(Exit::Good)
}

fn print_graph(view: &VerifiedGraph<'_>) -> anyhow::Result<()> {
    let mut table = output::table(&[">uid", "name", "type", "dims", "strides", "kind", "value"]);
    for tensor in view.tensors() {
        table.add_row([
            tensor.uid.to_string(),
            output::name(tensor.name),
            tensor.dtype.to_string(),
            output::dims(tensor.dims),
            output::dims(tensor.strides),
            kind_of(tensor).to_owned(),
            tensor.value.map(|v| v.to_f64().to_string()).unwrap_or_default(),
        ]);
    }
    output::print_table(&table, |_| None)?;
    output::line("")?;
    let mut table = output::table(&[">node", "operation", "compute", "operands"]);
    for node in view.nodes() {
        table.add_row([node.index().to_string(), draw::operation(view, node), view.compute_type(node).to_string(), operands(view, node)]);
    }
    output::print_table(&table, |_| None)
}

fn operands(view: &VerifiedGraph<'_>, node: hipplan::NodeIx) -> String {
    let side = |role| {
        let named = view.operands(node).iter().filter(|o| o.role == role);
        named.map(|o| format!("{}={}", view.slot_name(node, o), view.tensor(o.tensor).uid)).collect::<Vec<_>>().join(" ")
    };
    format!("{} -> {}", side(FieldRole::Input), side(FieldRole::Output))
}

pub(crate) fn kind_of(tensor: &TensorView<'_>) -> &'static str {
    match (tensor.is_virtual, tensor.is_runtime, tensor.value.is_some()) {
        (true, ..) => "virtual",
        (_, true, true) => "runtime scalar with default",
        (_, true, false) => "runtime scalar",
        (_, false, true) => "constant",
        _ => "device",
    }
}

fn graph_json(view: &VerifiedGraph<'_>) -> Value {
    let tensors: Vec<Value> = view
        .tensors()
        .iter()
        .map(|t| {
            json!({
                "uid": t.uid.0, "name": t.name, "data_type": t.dtype.name(), "dims": t.dims, "strides": t.strides,
                "kind": kind_of(t), "value": t.value.map(|v| v.to_f64()), "alignment": t.alignment,
            })
        })
        .collect();
    let nodes: Vec<Value> = view
        .nodes()
        .map(|node| {
            json!({
                "name": view.node_name(node), "operation": draw::operation(view, node), "compute_data_type": view.compute_type(node).name(),
                "operands": view.operands(node).iter().map(|o| json!({
                    "slot": view.slot_name(node, o),
                    "uid": view.tensor(o.tensor).uid.0,
                    "role": if o.role == FieldRole::Output { "output" } else { "input" },
                })).collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({ "name": view.name(), "api_floor": view.api_floor().to_string(), "tensors": tensors, "nodes": nodes })
}

/// Everything that a plan says of itself.
pub(crate) fn plan_json(plan: &PlanView<'_>) -> Value {
    let meta = plan.meta();
    let payload = plan.payload().and_then(|head| Ok(head.read_tables()?));
    let bindings: Vec<Value> = meta
        .bindings
        .iter()
        .map(|b| {
            json!({
                "ordinal": b.ordinal.to_native(),
                "role": if b.role() == BindingRole::Output { "output" } else { "input" },
                "kind": b.kind().name(),
                "data_type": b.dtype().name(),
                "dims": b.dims.iter().map(|d| d.to_native()).collect::<Vec<_>>(),
                "strides": b.strides.iter().map(|d| d.to_native()).collect::<Vec<_>>(),
                "first_use": b.first_use.as_str(),
            })
        })
        .collect();
    let identity = meta.identity();
    json!({
        "plan_key": meta.plan_key().to_string(),
        "graph_key": meta.graph_key().to_string(),
        "root_hash": plan.root().to_string(),
        "bytes": plan.plan_ref().size,
        "target": identity.target,
        "provider": identity.provider,
        "engine": identity.engine,
        "engine_id": meta.engine_id.to_native(),
        "engine_revision": identity.engine_revision,
        "knobs": identity.knobs.iter().map(|k| json!({ "id": k.id, "value": k.value })).collect::<Vec<_>>(),
        "api_floor": meta.api_floor().to_string(),
        "workspace_size": meta.workspace_size.to_native(),
        "payload": match &payload {
            Ok(p) => json!({
                "kind": p.kind(), "version": p.version(), "bytes": p.body().len(),
                "runtime_uids": p.runtime_uids().collect::<Vec<_>>(),
                "baked": p.baked().map(|b| json!({ "uid": b.uid, "default": b.is_default, "value": b.value.to_f64() })).collect::<Vec<_>>(),
            }),
            Err(error) => json!({ "error": error.to_string() }),
        },
        "bindings": bindings,
        "code_objects": meta.code_objects.iter().map(|c| json!({
            "hash": hipplan::ContentHash(c.hash).to_string(), "bytes": c.size.to_native(),
        })).collect::<Vec<_>>(),
    })
}

fn show_plan(global: &Global, plan: &PlanView<'_>) -> anyhow::Result<Exit> {
    plan.verify()?;
    let graph = subject::graph_of_plan(plan)?;
    if global.json {
        let mut value = plan_json(plan);
        value["graph"] = graph_json(&graph.view());
        output::json(&value)?;
        return Ok(Exit::Good);
    }
    let meta = plan.meta();
    let payload = plan.payload()?.read_tables()?;
    let id = meta.identity();
    output::line(format_args!("{}plan {}{}  {}", output::STRONG, meta.plan_key(), output::RESET, output::bytes(plan.plan_ref().size)))?;
    output::line(format_args!("graph key   {}", meta.graph_key()))?;
    output::line(format_args!("root hash   {}", plan.root()))?;
    output::line(format_args!("target      {}", id.target))?;
    output::line(format_args!(
        "engine      {} (id {}), revision {}, of provider {}",
        id.engine, meta.engine_id, id.engine_revision, id.provider
    ))?;
    output::line(format_args!("engine API  {} or later", meta.api_floor()))?;
    output::line(format_args!(
        "payload     {} version {}, {}",
        payload.kind(),
        payload.version(),
        output::bytes(payload.body().len() as u64)
    ))?;
    output::line(format_args!("workspace   {}", output::bytes(meta.workspace_size.to_native())))?;
    for knob in &id.knobs {
        output::line(format_args!("knob        {} = {}", knob.id, knob.value))?;
    }
    output::line("")?;
    let mut table = output::table(&[">ordinal", "role", "kind", "type", "dims", "strides", "first use"]);
    for b in meta.bindings.iter() {
        table.add_row([
            b.ordinal.to_string(),
            if b.role() == BindingRole::Output { "output" } else { "input" }.to_owned(),
            b.kind().name().to_owned(),
            b.dtype().to_string(),
            output::dims(&b.dims.iter().map(|d| d.to_native()).collect::<Vec<_>>()),
            output::dims(&b.strides.iter().map(|d| d.to_native()).collect::<Vec<_>>()),
            b.first_use.as_str().to_owned(),
        ]);
    }
    output::print_table(&table, |_| None)?;
    output::line("")?;
    print_graph(&graph.view())?;
    Ok(Exit::Good)
}
