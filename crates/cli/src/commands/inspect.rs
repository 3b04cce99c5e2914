//! `hipplan inspect`

use crate::{Exit, Global, inputs, keys, location, output};
use anyhow::Context;
use hipplan::plan::{self, BindingRole};
use hipplan::{Device, FieldRole, GraphBuf, Limits, PlanView, TensorView, VerifiedGraph, canon};
use serde_json::{Value, json};
use std::path::Path;

/// Show what is in a graph, a plan file, or a plan of the store
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hipplan inspect graph.json
  hipplan inspect 5d0c1f22a9b3 --store plans      by graph key or plan key
  hipplan inspect some.plan --json")]
pub(crate) struct Inspect {
    /// A graph in any form, a plan file, or the first digits of a key in the store
    what: String,
}

impl Inspect {
    pub(crate) fn run(self, global: &Global) -> anyhow::Result<Exit> {
        if keys::may_be_key(&self.what) {
            let store = location::readable(global)?;
            let plan = keys::find(&store, &self.what, &Device::Cpu)?;
            return show_plan(global, &plan.view());
        }
        let path = Path::new(&self.what);
        if path != Path::new("-") {
            let bytes = inputs::read_file(path).with_context(|| keys::neither(&self.what))?;
            if plan::is_plan(&bytes) {
                return show_plan(global, &PlanView::open(&bytes).with_context(|| self.what.clone())?);
            }
        }
        let (_, imported) = inputs::read_graph(path)?;
        show_graph(global, &imported.graph, imported.form.name(), &imported.warnings)
    }
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
        table.add_row([node.index().to_string(), operation(view, node), view.compute_type(node).to_string(), operands(view, node)]);
    }
    output::print_table(&table, |_| None)
}

fn operation(view: &VerifiedGraph<'_>, node: hipplan::NodeIx) -> String {
    match view.op(node) {
        hipplan::Op::Pointwise(op) => format!("pointwise {}", op.mode),
        op => op.kind().name().to_owned(),
    }
}

fn operands(view: &VerifiedGraph<'_>, node: hipplan::NodeIx) -> String {
    let side = |role| {
        let named = view.operands(node).iter().filter(|o| o.role == role);
        named.map(|o| format!("{}={}", view.slot_name(node, o), view.tensor(o.tensor).uid)).collect::<Vec<_>>().join(" ")
    };
    format!("{} -> {}", side(FieldRole::Input), side(FieldRole::Output))
}

fn kind_of(tensor: &TensorView<'_>) -> &'static str {
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
                "name": view.node_name(node), "operation": operation(view, node), "compute_data_type": view.compute_type(node).name(),
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
    let graph = canon::decode(plan.canonical()?, &Limits::DEFAULT)?;
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
