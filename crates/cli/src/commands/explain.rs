//! `hipplan explain`

use super::show::kind_of;
use crate::keys::Pick;
use crate::subject::{self, Subject};
use crate::{Exit, Global, output};
use hipplan::explain::{self, Explanation};
use hipplan::graph::Stamp;
use hipplan::{GraphForm, ImportError, PlanView, VerifiedGraph};
use serde_json::{Value, json};

/// Tell why a graph has its key and its engine API floor, or why it is refused
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hipplan explain graph.json
  hipplan explain 5d0c1f22a9b3 --store plans     the graph in a plan
  hipplan explain graph.bin --json

Exit codes:
  0  the graph is valid and has a key
  1  the graph is refused, or has no key
  2  what was named is not there, cannot be read, or is a damaged plan")]
pub(crate) struct Explain {
    /// A graph in any form, a plan file, or the first digits of a key in the store; `-` is standard input
    what: String,
}

impl Explain {
    pub(crate) fn run(self, global: &Global) -> anyhow::Result<Exit> {
        let (graph, form, warnings) = match subject::read(global, &self.what, Pick::Graph)? {
            Err(error) => return refused(global, &error),
            Ok(Subject::Graph(graph)) => (graph.graph, Some(graph.form), graph.warnings),
            Ok(Subject::Plan(bytes)) => (subject::graph_of_plan(&PlanView::open(&bytes)?)?, None, Vec::new()),
            Ok(Subject::Envelope(_)) => return Err(subject::no_graph(&self.what)),
        };
        let view = graph.view();
        let found = explain::explain(&view);
        if global.json {
            output::json(&to_json(&view, &found, form, &warnings))?;
        } else {
            print(&view, &found, form, &warnings)?;
        }
        Ok(if found.key.is_some() { Exit::Good } else { Exit::Findings })
    }
}

/// Words for where a graph comes from.
fn form_name(form: Option<GraphForm>) -> &'static str {
    form.map_or("graph of a plan", GraphForm::name)
}

/// The stamp of these forms was written by hipplan when it read them, so it proves nothing about the file.
fn stamp_is_ours(form: Option<GraphForm>) -> bool {
    !matches!(form, Some(GraphForm::Artifact | GraphForm::HipdnnBuffer))
}

fn refused(global: &Global, error: &ImportError) -> anyhow::Result<Exit> {
    let hint = explain::hint(error);
    if global.json {
        output::json(&json!({ "valid": false, "error": error.to_string(), "hint": hint, "key": null }))?;
    } else {
        output::line(format_args!("{}refused:{} {}", output::BAD, output::RESET, output::name(&error.to_string())))?;
        output::line(format_args!("hint: {hint}"))?;
    }
    Ok(Exit::Findings)
}

fn stamp(stamp: Stamp) -> (&'static str, String) {
    match stamp {
        Stamp::Absent => ("absent", "absent: any reader".to_owned()),
        Stamp::Reader(n) => ("uint", format!("the older form, min_reader_version = {n}")),
        Stamp::Api(v) => ("struct", format!("min_required_engine_api_version = {v}")),
    }
}

fn print(view: &VerifiedGraph<'_>, found: &Explanation, form: Option<GraphForm>, warnings: &[String]) -> anyhow::Result<()> {
    let Explanation { key, unknown, floor, causes, stamp: slot, stamp_agreement, left_out, by_value } = found;
    let name = if view.name().is_empty() { "(no name)".to_owned() } else { output::name(view.name()) };
    output::line(format_args!("{}{name}{}  {}, valid", output::STRONG, output::RESET, form_name(form)))?;
    heading("key")?;
    match key {
        Some(key) => output::line(format_args!("  {key}"))?,
        None => {
            output::line(format_args!(
                "  {}none:{} these tables hold fields that this hipplan does not know, so it cannot tell what the graph computes",
                output::BAD,
                output::RESET
            ))?;
            for table in unknown {
                output::line(format_args!("    {}", output::name(&table.to_string())))?;
            }
            output::line("  hint: use a newer hipplan, or write the graph without what is new")?;
        }
    }
    heading("engine API floor")?;
    output::line(format_args!("  {floor} or later"))?;
    if causes.is_empty() {
        output::line("  nothing in the graph asks for more than the baseline")?;
    }
    let mut rest = causes.as_slice();
    while let Some(first) = rest.first() {
        // Causes of one feature stand together; of many, the first are named.
        const SHOWN: usize = 8;
        let (same, others) = rest.split_at(rest.iter().take_while(|c| c.feature == first.feature).count());
        let tensors: Vec<String> =
            same.iter().filter_map(|c| c.tensor).take(SHOWN).map(|ix| output::name(&view.tensor_label(ix).to_string())).collect();
        let more = if same.len() > SHOWN { format!(" and {} more", same.len() - SHOWN) } else { String::new() };
        let place = if tensors.is_empty() { "the graph's flag is_override_shape_enabled".to_owned() } else { tensors.join(", ") };
        output::line(format_args!("  {}  {}: {place}{more}", first.feature.floor(), first.feature.name()))?;
        rest = others;
    }
    heading("stamp (slot 8)")?;
    let ours = if stamp_is_ours(form) { " (written by hipplan when it read the graph)" } else { "" };
    output::line(format_args!("  {}; {}{ours}", stamp(*slot).1, stamp_agreement.name()))?;
    if !by_value.is_empty() {
        heading("by-value tensors")?;
        for scalar in by_value {
            let t = view.tensor(scalar.tensor);
            let value = t.value.map(|v| format!(", {}", v.to_f64())).unwrap_or_default();
            output::line(format_args!("  {}: {}{value}", output::name(&view.tensor_label(scalar.tensor).to_string()), kind_of(t)))?;
        }
    }
    heading("not part of the key")?;
    for part in left_out {
        output::line(format_args!("  {}: {} ({})", part.what, output::name(&part.found), part.why))?;
    }
    for warning in warnings {
        output::line(format_args!("{}warning:{} {}", output::WARN, output::RESET, output::name(warning)))?;
    }
    Ok(())
}

fn heading(text: &str) -> anyhow::Result<()> {
    output::line(format_args!("\n{}{text}{}", output::STRONG, output::RESET))
}

fn to_json(view: &VerifiedGraph<'_>, found: &Explanation, form: Option<GraphForm>, warnings: &[String]) -> Value {
    let Explanation { key, unknown, floor, causes, stamp: slot, stamp_agreement, left_out, by_value } = found;
    let tensor = |ix| {
        let label = view.tensor_label(ix);
        json!({ "index": label.index, "uid": label.uid, "name": label.name })
    };
    let unknown: Vec<_> = unknown.iter().map(|u| json!({ "where": u.place, "slots": u.slots, "known_slots": u.known })).collect();
    let causes: Vec<_> = causes
        .iter()
        .map(|c| json!({ "feature": c.feature.name(), "floor": c.feature.floor().to_string(), "tensor": c.tensor.map(tensor) }))
        .collect();
    let left_out: Vec<_> = left_out.iter().map(|l| json!({ "what": l.what, "found": l.found, "why": l.why })).collect();
    let by_value: Vec<_> = by_value
        .iter()
        .map(|b| {
            let t = view.tensor(b.tensor);
            json!({ "tensor": tensor(b.tensor), "state": b.state.name(), "data_type": t.dtype.name(), "value": t.value.map(|v| v.to_f64()) })
        })
        .collect();
    let (slot_form, text) = stamp(*slot);
    json!({
        "valid": true, "name": view.name(), "form": form_name(form),
        "key": key.map(|k| k.to_string()), "unknown_fields": unknown,
        "api_floor": floor.to_string(), "floor_causes": causes,
        "stamp": {
            "form": slot_form, "text": text, "agreement": stamp_agreement.name(),
            "agrees": *stamp_agreement == explain::StampAgreement::Agrees, "written_on_import": stamp_is_ours(form),
        },
        "by_value": by_value, "left_out_of_key": left_out, "warnings": warnings,
    })
}
