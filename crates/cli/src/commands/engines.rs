//! `hipplan engines`

use crate::execute::DeviceOption;
use crate::plugins::PluginOptions;
use crate::{Exit, Global, inputs, output};
use hipplan::hipdnn::engine::{KnobConstraint, KnobInfo};
use hipplan::{Persistence, ProviderAnswer, Target, engine_id_of_text, engine_id_text, survey};
use serde_json::{Value, json};
use std::path::PathBuf;

/// List what each provider offers for a graph, and why not
///
/// Providers are asked in order of preference: the first engine is the one that `hipplan compile` takes, unless the graph prefers another.
/// Without a graph, the providers and plugins are listed. Nothing is compiled.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hipplan engines                                     providers, plugins, and what could not be loaded
  hipplan engines graph.json                          for the CPU
  hipplan engines graph.json --target gfx942          for a GPU that is not there
  hipplan engines graph.json --device hip             for the GPU that is
  hipplan engines graph.json --plugin host:./libmine.so

Exit codes:
  0  some engine takes the graph, or no graph was named
  2  what was named is not there or cannot be read, or is no graph
  3  no engine takes the graph")]
pub(crate) struct Engines {
    /// A graph in any form
    graph: Option<PathBuf>,
    #[command(flatten)]
    device: DeviceOption,
    #[command(flatten)]
    plugins: PluginOptions,
}

impl Engines {
    pub(crate) fn run(self, global: &Global) -> anyhow::Result<Exit> {
        let providers = self.plugins.providers()?;
        let Some(path) = &self.graph else {
            let known: Vec<_> = providers.list().collect();
            if global.json {
                let known: Vec<Value> = known
                    .iter()
                    .map(|(p, about)| json!({ "provider": p.name, "api_version": p.api_version.to_string(), "about": about }))
                    .collect();
                output::json(&json!({ "providers": known, "unusable": unusable(&providers) }))?;
            } else {
                let mut table = output::table(&["provider", "engine API", "what it is"]);
                for (provider, about) in &known {
                    table.add_row([output::name(&provider.name), provider.api_version.to_string(), output::name(about)]);
                }
                for refusal in providers.unusable() {
                    let reason = format!("not in use: {}", refusal.reason);
                    table.add_row([output::name(&refusal.provider), String::new(), output::name(&reason)]);
                }
                output::print_table(&table, |i| (i >= known.len()).then_some(output::BAD))?;
            }
            return Ok(Exit::Good);
        };
        let (_, imported) = inputs::read_graph(path)?;
        let graph = imported.graph.view();
        let site = self.device.site()?;
        let answers = survey(&graph, &site, &providers)?;
        let preferred = graph.preferred_engine_id();
        if global.json {
            let preferred = preferred.map(engine_id_text);
            output::json(&json!({
                "target": site.target().to_string(),
                "api_floor": graph.api_floor().to_string(),
                "preferred_engine_id": preferred,
                "providers": answers.iter().map(answer_json).collect::<Vec<_>>(),
                "unusable": unusable(&providers),
            }))?;
        } else {
            print(&answers, &providers, site.target(), &graph)?;
        }
        let is_taken = answers.iter().any(|answer| answer.offers.as_ref().is_ok_and(|offers| !offers.is_empty()));
        Ok(if is_taken { Exit::Good } else { Exit::Refused })
    }
}

fn unusable(providers: &hipplan::Providers) -> Vec<Value> {
    providers.unusable().iter().map(|r| json!({ "provider": r.provider, "reason": r.reason.to_string() })).collect()
}

fn answer_json(answer: &ProviderAnswer) -> Value {
    let engines: Vec<Value> = answer.offers.iter().flatten().map(offer_json).collect();
    let reason = answer.offers.as_ref().err().map(ToString::to_string);
    json!({
        "provider": answer.provider.name,
        "api_version": answer.provider.api_version.to_string(),
        "engines": engines,
        "reason": reason,
    })
}

fn offer_json(offer: &hipplan::Offer) -> Value {
    let why = match &offer.persistence {
        Persistence::Payload => None,
        Persistence::ProcessOnly(why) => Some(why),
    };
    let knob = |k: &KnobInfo| {
        let constraint = match &k.constraint {
            None => Value::Null,
            Some(KnobConstraint::Int { min, max, step, valid }) => json!({ "min": min, "max": max, "step": step, "values": valid }),
            Some(KnobConstraint::Float { min, max }) => json!({ "min": min, "max": max }),
            Some(KnobConstraint::Text { max_length, valid }) => json!({ "max_length": max_length, "values": valid }),
        };
        json!({
            "id": k.id, "description": k.description, "type": k.default.kind(), "default": k.default.to_string(),
            "constraint": constraint, "deprecated": k.deprecated,
        })
    };
    json!({
        "engine": offer.engine,
        "engine_id": engine_id_text(engine_id_of_text(&offer.engine)),
        "revision": offer.engine_revision,
        "persists": why.is_none(),
        "why_not": why,
        "knobs": offer.knobs.iter().map(knob).collect::<Vec<_>>(),
    })
}

fn print(
    answers: &[ProviderAnswer],
    providers: &hipplan::Providers,
    target: &Target,
    graph: &hipplan::VerifiedGraph<'_>,
) -> anyhow::Result<()> {
    output::line(format_args!("for target {target}; the graph needs engine API {}", graph.api_floor()))?;
    let preferred = graph.preferred_engine_id();
    let mut table = output::table(&["provider", "engine", "plans", "detail"]);
    let mut is_bad = Vec::new();
    for answer in answers {
        let provider = format!("{} ({})", output::name(&answer.provider.name), answer.provider.api_version);
        match &answer.offers {
            Err(reason) => {
                is_bad.push(true);
                table.add_row([provider, String::new(), String::new(), output::name(&reason.to_string())]);
            }
            Ok(offers) => {
                for offer in offers {
                    is_bad.push(false);
                    let (plans, why) = match &offer.persistence {
                        Persistence::Payload => ("kept", None),
                        Persistence::ProcessOnly(why) => ("this process only", Some(format!("cannot persist: {why}"))),
                    };
                    let wish = (preferred == Some(engine_id_of_text(&offer.engine))).then(|| "the graph prefers it".to_owned());
                    let knobs = offer.knobs.iter().map(|k| format!("{}={} ({})", k.id, k.default, k.expected()));
                    let detail = why.into_iter().chain(wish).chain(knobs).collect::<Vec<_>>().join("; ");
                    table.add_row([provider.clone(), output::name(&offer.engine), plans.to_owned(), output::name(&detail)]);
                }
            }
        }
    }
    for refusal in providers.unusable() {
        is_bad.push(true);
        table.add_row([output::name(&refusal.provider), String::new(), String::new(), output::name(&refusal.reason.to_string())]);
    }
    output::print_table(&table, |i| is_bad.get(i).filter(|bad| **bad).map(|_| output::WARN))
}
