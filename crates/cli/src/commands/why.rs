//! `hipplan why`

use crate::execute::DeviceOption;
use crate::keys::Pick;
use crate::plugins::{EngineOptions, PluginOptions};
use crate::subject::{self, Subject};
use crate::{Exit, Global, counts, location, output};
use hipplan::{
    Entry, Lack, Nearest, Offer, Persistence, PlanBytes, PlanIdentity, PlanView, Policy, ProviderAnswer, Sought, Store, Target,
    engine_id_of_text, find_precompiled, nearest, survey,
};
use serde_json::{Value, json};

/// Tell whether the store answers a graph, and if not, why, which entry is nearest, and what differs
///
/// The store is looked into as a process on the device would, or as one would on a device that reports the target. Every byte of a plan is
/// read before it counts. Where there is none, the plan is shown that differs in the fewest fields: all plans of the graph itself are
/// compared, and then up to --most plans of other graphs. Nothing is compiled or written.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hipplan why graph.json --store plans
  hipplan why graph.json --store plans --target gfx942
  echo 'MIOpenDriver conv -n 32 -c 64 -H 56 -W 56 -k 64 -y 3 -x 3 -p 1 -q 1 -F 1' | hipplan why - --store plans --json

Exit codes:
  0  hit: the store has a plan
  2  what was named is not there, cannot be read, or is no graph or store
  4  missing: it has none
  5  wrong-target: it has one for other targets only
  6  stale: it has one, and nothing here loads what wrote it
  7  unreadable: it has one that is damaged, or that the system refuses to read")]
pub(crate) struct Why {
    /// A graph in any form, a plan file, or the first digits of a key in the store; `-` is standard input
    what: String,
    #[command(flatten)]
    device: DeviceOption,
    /// Compare with at most so many plans of other graphs
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    most: usize,
    #[command(flatten)]
    engine: EngineOptions,
    #[command(flatten)]
    plugins: PluginOptions,
}

impl Why {
    pub(crate) fn run(self, global: &Global) -> anyhow::Result<Exit> {
        let graph = match subject::read_valid(global, &self.what, Pick::Graph)? {
            Subject::Graph(graph) => graph.graph,
            Subject::Plan(bytes) => subject::graph_of_plan(&PlanView::open(&bytes)?)?,
            Subject::Envelope(_) => return Err(subject::no_graph(&self.what)),
        };
        let (view, providers) = (graph.view(), self.plugins.providers()?);
        let key = view.canonical()?.key;
        let policy = self.engine.policy()?.preferring(view.preferred_engine_id());
        let (site, targets) = self.device.looked_up()?;
        let store = location::readable(global)?;
        let sought = Sought { graph: &key, device: site.device(), targets: &targets, policy: &policy };
        let found = find_precompiled(&store, &sought, &providers);
        let near = found.is_err().then(|| nearest(&store, &view, &sought, &providers, self.most));
        let answers = survey(&view, &site, &providers)?;
        let here = would_compile(&answers, &policy);
        let exit = match &found {
            Ok(_) => Exit::Good,
            Err(lack) => Exit::Lacking(lack.reason),
        };
        let told = Told { what: &self.what, store: &store, sought: &sought, found, near, answers: &answers, here };
        if global.json {
            let mut value = told.json();
            value["counters"] = counts::to_json(&providers.counters().get());
            output::json(&value)?;
        } else {
            told.print()?;
        }
        Ok(exit)
    }
}

/// Provider and engine that would compile the graph here: the preferred one, or the first that the policy admits and whose plans can be
/// kept.
fn would_compile<'a>(answers: &'a [ProviderAnswer], policy: &Policy) -> Option<(&'a str, &'a Offer)> {
    let id = |text: &str| engine_id_of_text(text);
    let offers = answers.iter().flat_map(|a| a.offers.iter().flatten().map(|offer| (a.provider.name.as_str(), offer)));
    let admitted = offers.filter(|(provider, offer)| {
        policy.engine.as_deref().is_none_or(|engine| id(engine) == id(&offer.engine))
            && policy.provider.as_deref().is_none_or(|asked| asked == *provider)
            && offer.persistence == Persistence::Payload
    });
    let admitted: Vec<_> = admitted.collect();
    let preferred = admitted.iter().find(|(_, offer)| Some(id(&offer.engine)) == policy.preferred);
    preferred.or(admitted.first()).copied()
}

struct Told<'t> {
    what: &'t str,
    store: &'t Store,
    sought: &'t Sought<'t>,
    found: Result<PlanBytes, Lack>,
    near: Option<Nearest>,
    answers: &'t [ProviderAnswer],
    here: Option<(&'t str, &'t Offer)>,
}

impl Told<'_> {
    /// What an engine of another revision than the one here compiled.
    fn other_revision(&self, plan: &PlanIdentity) -> Option<&str> {
        let (_, offer) = self.here.filter(|(_, offer)| offer.engine == plan.engine)?;
        (offer.engine_revision != plan.engine_revision).then_some(offer.engine_revision.as_str())
    }

    fn print(&self) -> anyhow::Result<()> {
        let targets = self.sought.targets.iter().map(Target::to_string).collect::<Vec<_>>().join(" or ");
        match &self.found {
            Ok(plan) => {
                let identity = plan.view().meta().identity();
                output::line(format_args!("{}hit:{} {}", output::GOOD, output::RESET, describe(&identity)))?;
                self.print_subject(&targets)?;
                if let Some(revision) = self.other_revision(&identity) {
                    let revision = output::name(revision);
                    output::line(format_args!("the engine here is at revision {revision}; the plan is of use all the same, and is kept"))?;
                }
                return Ok(());
            }
            Err(Lack { reason, detail }) => {
                output::line(format_args!("{}{reason}:{} {}", output::BAD, output::RESET, output::name(detail)))?;
                self.print_subject(&targets)?;
            }
        }
        if let Some(near) = &self.near {
            self.print_nearest(near)?;
        }
        match self.here {
            Some((provider, offer)) => output::line(format_args!(
                "compiling it here: engine {} of provider {}, revision {}",
                output::name(&offer.engine),
                output::name(provider),
                output::name(&offer.engine_revision)
            )),
            None => {
                output::line("compiling it here: no engine takes it as asked")?;
                for answer in self.answers {
                    if let Err(reason) = &answer.offers {
                        let (provider, reason) = (output::name(&answer.provider.name), output::name(&reason.to_string()));
                        output::line(format_args!("  {provider}: {reason}"))?;
                    }
                }
                Ok(())
            }
        }
    }

    fn print_subject(&self, targets: &str) -> anyhow::Result<()> {
        output::line(format_args!(
            "{}: graph {}, for target {targets}, in the {}",
            subject::name(self.what),
            self.sought.graph,
            location::place(self.store)
        ))
    }

    fn print_nearest(&self, near: &Nearest) -> anyhow::Result<()> {
        output::line("")?;
        let Some(Entry { plan: _, identity, differing }) = &near.entry else {
            return output::line(match near.looked_at {
                0 if near.is_exact => "nearest entry: none, the store has no plan that can be read".to_owned(),
                n => format!("nearest entry: none among the {} looked at", output::count(n, "plan")),
            });
        };
        let fields = output::count(differing.len(), "field");
        let differ = if differing.len() == 1 { "differs" } else { "differ" };
        output::line(format_args!("{}nearest entry:{} {}", output::STRONG, output::RESET, describe(identity)))?;
        output::line(format_args!("  of graph {}; {fields} {differ}", identity.graph))?;
        if !near.is_exact {
            let looked_at = output::count(near.looked_at, "plan");
            output::line(format_args!("  the nearest of {looked_at} that were looked at; the store has more (--most)"))?;
        }
        if !differing.is_empty() {
            let mut table = output::table(&["  where", "field", "here", "in the store"]);
            for d in differing {
                let side = |text: &Option<String>| text.as_deref().map_or_else(|| "-".to_owned(), output::name);
                table.add_row([format!("  {}", output::name(&d.place)), output::name(&d.field), side(&d.here), side(&d.in_store)]);
            }
            output::print_table(&table, |_| None)?;
        }
        output::line("")
    }

    fn json(&self) -> Value {
        let plan = self.found.as_ref().ok().map(|plan| {
            let identity = plan.view().meta().identity();
            let mut value = identity_json(&identity);
            value["engine_revision_here"] = json!(self.other_revision(&identity));
            value
        });
        let entry = self.near.as_ref().and_then(|near| near.entry.as_ref()).map(|entry| {
            let mut value = identity_json(&entry.identity);
            value["differences"] = entry
                .differing
                .iter()
                .map(|d| json!({ "where": d.place, "field": d.field, "here": d.here, "in_store": d.in_store }))
                .collect();
            value
        });
        let refusals = self.answers.iter().filter_map(|a| Some((a, a.offers.as_ref().err()?)));
        let refusals: Vec<Value> =
            refusals.map(|(a, reason)| json!({ "provider": a.provider.name, "reason": reason.to_string() })).collect();
        let lack = self.found.as_ref().err();
        json!({
            "outcome": lack.map_or("hit", |lack| lack.reason.word()),
            "detail": lack.map(|lack| &lack.detail),
            "graph_key": self.sought.graph.to_string(),
            "targets": self.sought.targets.iter().map(Target::to_string).collect::<Vec<_>>(),
            "store": location::place_json(self.store),
            "plan": plan,
            "nearest": entry,
            "looked_at": self.near.as_ref().map(|near| near.looked_at),
            "nearest_is_exact": self.near.as_ref().map(|near| near.is_exact),
            "compiling_here": self.here.map(|(provider, offer)| {
                json!({ "provider": provider, "engine": offer.engine, "engine_revision": offer.engine_revision })
            }),
            "refusals": refusals,
        })
    }
}

/// A plan on one line.
fn describe(plan: &PlanIdentity) -> String {
    let knobs: String = plan.knobs.iter().map(|k| format!(" {}={}", output::name(&k.id), output::name(&k.value))).collect();
    format!(
        "plan {}, target {}, engine {}{knobs} of provider {}, revision {}",
        plan.key().short(),
        output::name(&plan.target),
        output::name(&plan.engine),
        output::name(&plan.provider),
        output::name(&plan.engine_revision)
    )
}

fn identity_json(plan: &PlanIdentity) -> Value {
    let knobs: serde_json::Map<String, Value> = plan.knobs.iter().map(|k| (k.id.clone(), k.value.clone().into())).collect();
    json!({
        "plan_key": plan.key().to_string(), "graph_key": plan.graph.to_string(), "target": plan.target, "provider": plan.provider,
        "engine": plan.engine, "engine_revision": plan.engine_revision, "knobs": knobs,
    })
}
