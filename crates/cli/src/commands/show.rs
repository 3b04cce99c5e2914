//! `hipplan show`

use crate::draw::{self, Caption};
use crate::keys::{self, Pick};
use crate::launches::{self, Launches};
use crate::revision::{self, Revision};
use crate::subject::{self, Subject};
use crate::{Exit, Global, files, location, output};
use anyhow::{Context, bail, ensure};
use hipplan::hipdnn::envelope::EngineConfig;
use hipplan::hipdnn::{PlanEnvelope, container};
use hipplan::plan::BindingRole;
use hipplan::{AlignedBytes, FieldRole, GraphBuf, Limits, Loaders, PlanIdentity, PlanView, Policy, Target, TensorView, VerifiedGraph};
use serde_json::{Value, json};
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
  hipplan show graph.json --target gfx942 --launch                   what the GPU is given
  hipplan show 5d0c1f22a9b3 --launch --extract out/ --store plans    the same as files, to launch by other means

Of a plan, the picture is of the graph in it, in canonical form: its uids are ordinals.

Exit codes:
  0  shown
  1  with --launch: a code object is not there, is damaged, or is not what the plan says
  2  not shown: what was named is not there, cannot be read, or is no graph and no plan")]
pub(crate) struct Show {
    /// A graph in any form, a plan file, or the first digits of a key in the store; `-` is standard input
    what: String,
    /// Print the graph as Graphviz text
    #[arg(long, conflicts_with = "svg")]
    dot: bool,
    /// Print the graph as an SVG picture
    #[arg(long)]
    svg: bool,
    /// List the launches of a plan for a GPU; of a graph, those of its plan in the store
    #[arg(long, conflicts_with_all = ["dot", "svg"])]
    launch: bool,
    /// Write code objects, kernel arguments and a list of the launches into a folder
    #[arg(long, value_name = "DIR", requires = "launch")]
    extract: Option<PathBuf>,
    /// Of plans for several targets, the one for this target
    #[arg(long, value_name = "TARGET")]
    target: Option<Target>,
    /// Write the picture to a file, whole or not at all
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Show {
    pub(crate) fn run(self, global: &Global) -> anyhow::Result<Exit> {
        let is_picture = self.dot || self.svg;
        ensure!(is_picture || self.output.is_none(), "--output needs --svg or --dot");
        ensure!(!(is_picture && global.json), "--json and a picture exclude each other");
        let pick = match &self.target {
            Some(target) => Pick::For(None, std::slice::from_ref(target)),
            // A picture is of the graph, whatever the target.
            None if is_picture => Pick::Graph,
            None => Pick::Only,
        };
        let subject = subject::read_valid(global, &self.what, pick)?;
        if self.launch {
            let bytes = self.plan_of(global, subject, pick)?;
            return self.show_launches(global, &PlanView::open(&bytes)?);
        }
        if is_picture {
            let text = match &subject {
                Subject::Graph(graph) => self.picture(&graph.graph, None),
                Subject::Plan(bytes) => {
                    let plan = PlanView::open(bytes)?;
                    self.picture(&subject::graph_of_plan(&plan)?, Some(&plan))
                }
                Subject::Envelope(_) => return Err(subject::no_graph(&self.what)),
            };
            return self.deliver(global, &text);
        }
        match subject {
            Subject::Graph(graph) => show_graph(global, &graph),
            Subject::Plan(bytes) => show_plan(global, &PlanView::open(&bytes)?),
            Subject::Envelope(envelope) => show_envelope(global, &envelope.view()?),
        }
    }

    /// The plan that was named, or that the store has of the graph that was named.
    fn plan_of(&self, global: &Global, subject: Subject, pick: Pick<'_>) -> anyhow::Result<AlignedBytes> {
        match subject {
            Subject::Plan(bytes) => Ok(bytes),
            Subject::Envelope(_) => Err(subject::no_graph(&self.what)),
            Subject::Graph(subject::Graph { graph, .. }) => {
                let key = graph.view().canonical()?.key;
                let store = location::readable(global)?;
                Ok(keys::find(&store, &key.to_string(), pick, &Loaders::default(), &Policy::DEFAULT)
                    .with_context(|| subject::name(&self.what))?
                    .into_bytes())
            }
        }
    }

    fn show_launches(&self, global: &Global, plan: &PlanView<'_>) -> anyhow::Result<Exit> {
        plan.verify()?;
        let launches = Launches::read(global, plan).with_context(|| format!("plan {}", plan.meta().plan_key()))?;
        if let Some(folder) = &self.extract {
            launches.extract(folder).with_context(|| format!("plan {}", plan.meta().plan_key()))?;
        }
        if global.json {
            output::json(&launches.to_json()?)?;
        } else {
            launches.print()?;
            if let Some(folder) = &self.extract {
                output::line(format_args!("extracted to {}", output::path(folder)))?;
            }
        }
        Ok(if launches.problems().is_empty() { Exit::Good } else { Exit::Findings })
    }

    fn picture(&self, graph: &GraphBuf, plan: Option<&PlanView<'_>>) -> String {
        let view = graph.view();
        let mut caption = Caption::default();
        let key = view.canonical().map_or_else(|e| format!("none, {} holds unknown fields", e.place), |c| c.key.to_string());
        match plan {
            Some(plan) => {
                let id = plan.meta().identity();
                caption.title = format!("plan {}", plan.meta().plan_key().short());
                let engine = format!("{} revision {}", output::name(&id.engine), output::name(&revision::short(&id.engine_revision)));
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
            output::raw(text.as_bytes())?;
            return Ok(Exit::Good);
        };
        if files::are_same(path, Path::new(&self.what)) {
            bail!("{}: the picture would be written over the graph", output::path(path));
        }
        files::write(path, text.as_bytes())?;
        if !global.quiet {
            anstream::eprintln!("{}: {}", output::path(path), output::bytes(text.len() as u64));
        }
        Ok(Exit::Good)
    }
}

fn show_graph(global: &Global, subject: &subject::Graph) -> anyhow::Result<Exit> {
    let subject::Graph { graph, form, warnings, plan } = subject;
    let (view, form) = (graph.view(), form.name());
    let key = view.canonical();
    let plan = plan.as_ref().map(subject::Envelope::view).transpose()?;
    let findings = plan.as_ref().map(|plan| container::compare(&view, plan)).unwrap_or_default();
    if global.json {
        let mut value = graph_json(&view);
        value["form"] = form.into();
        value["graph_key"] = key.as_ref().ok().map(|c| c.key.to_string()).into();
        value["no_key"] = key.as_ref().err().map(ToString::to_string).into();
        value["warnings"] = warnings.iter().cloned().chain(findings.iter().map(ToString::to_string)).collect();
        value["plan"] = plan.as_ref().map(envelope_json).into();
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
    if let Some(plan) = &plan {
        output::line("")?;
        print_envelope(plan)?;
    }
    for warning in warnings.iter().cloned().chain(findings.iter().map(ToString::to_string)) {
        output::line(format_args!("{}warning:{} {}", output::WARN, output::RESET, output::name(&warning)))?;
    }
    Ok(Exit::Good)
}

fn show_envelope(global: &Global, plan: &PlanEnvelope<'_>) -> anyhow::Result<Exit> {
    if global.json {
        output::json(&envelope_json(plan))?;
    } else {
        print_envelope(plan)?;
        output::line("graph       none: an envelope names neither graph nor target, so it has no key and no store keeps it")?;
    }
    Ok(Exit::Good)
}

/// The engine's configuration of an old envelope, taken apart if it can be.
fn engine_config(plan: &PlanEnvelope<'_>) -> Option<String> {
    if plan.engine_config.is_empty() {
        return None;
    }
    let size = output::bytes(plan.engine_config.len() as u64);
    Some(match EngineConfig::read(plan.engine_config, &Limits::DEFAULT) {
        Ok(config) => {
            let knobs: Vec<String> = config.knobs.iter().map(|(id, value)| format!("{} = {value}", output::name(id))).collect();
            format!("{size}, engine id {}, knobs: {}", config.engine_id, if knobs.is_empty() { "none".into() } else { knobs.join(", ") })
        }
        Err(error) => format!("{size}, not readable: {error}"),
    })
}

fn print_envelope(plan: &PlanEnvelope<'_>) -> anyhow::Result<()> {
    let title = format!("hipDNN plan envelope, layout {:?}, version {}", plan.layout, plan.version);
    output::line(format_args!("{}{title}{}", output::STRONG, output::RESET))?;
    output::line(format_args!("engine id   {}", plan.engine_id))?;
    output::line(format_args!("workspace   {}", output::bytes(plan.workspace_size)))?;
    output::line(format_args!("payload     {}, of the engine's plugin", output::bytes(plan.payload.len() as u64)))?;
    output::line(format_args!("shapes      {}", if plan.override_shapes { "may be replaced at execution" } else { "fixed" }))?;
    if let Some(config) = engine_config(plan) {
        output::line(format_args!("config      {config}"))?;
    }
    if plan.has_unknown_fields {
        output::line("more        fields that this hipplan does not know")?;
    }
    let alignment = |i: usize| plan.alignments.and_then(|a| a.get(i)).map_or_else(|| "?".to_owned(), ToString::to_string);
    let tensors: Vec<String> =
        plan.tensor_uids.iter().enumerate().map(|(i, uid)| format!("uid {uid} (alignment {})", alignment(i))).collect();
    output::line(format_args!("tensors     {}", tensors.join(", ")))
}

fn envelope_json(plan: &PlanEnvelope<'_>) -> Value {
    json!({
        "form": "hipDNN plan envelope", "version": plan.version, "layout": format!("{:?}", plan.layout), "engine_id": plan.engine_id,
        "workspace_size": plan.workspace_size, "tensor_uids": plan.tensor_uids.iter().map(|uid| uid.0).collect::<Vec<_>>(),
        "tensor_alignments": plan.alignments, "override_shapes": plan.override_shapes, "payload_bytes": plan.payload.len(),
        "engine_config": engine_config(plan), "unknown_fields": plan.has_unknown_fields, "graph_key": null,
    })
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
        "engine_revision_parts": Revision::parse(&identity.engine_revision).map(|r| r.to_json()),
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
        value["code_objects"] = launches::objects_json(plan, &launches::objects(global, plan));
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
    print_engine(&id, meta.engine_id.to_native())?;
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
    let objects = launches::objects(global, plan);
    if !objects.is_empty() {
        output::line("")?;
        launches::print_objects(plan, &objects)?;
    }
    Ok(Exit::Good)
}

fn print_engine(id: &PlanIdentity, number: i64) -> anyhow::Result<()> {
    let (engine, provider) = (output::name(&id.engine), output::name(&id.provider));
    let Some(revision) = Revision::parse(&id.engine_revision) else {
        let revision = output::name(&id.engine_revision);
        return output::line(format_args!("engine      {engine} (id {number}), revision {revision}, of provider {provider}"));
    };
    output::line(format_args!("engine      {engine} (id {number}), revision {}, of provider {provider}", output::name(revision.engine)))?;
    for (tool, label) in revision.tools.iter().zip(std::iter::once("compiler").chain(std::iter::repeat("with"))) {
        output::line(format_args!("{label:<11} {}", output::name(tool)))?;
    }
    if !revision.flags.is_empty() {
        output::line(format_args!("flags       {}", output::name(revision.flags)))?;
    }
    output::line(format_args!("kernels     texts with hash {}", output::name(revision.texts)))
}
