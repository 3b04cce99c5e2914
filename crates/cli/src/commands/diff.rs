//! `hipplan diff`

use crate::keys::Pick;
use crate::subject::{self, Subject};
use crate::{Exit, Global, output};
use anyhow::Context;
use hipplan::diff::{self, Difference, Verdict};
use hipplan::{AlignedBytes, GraphBuf, Limits, PlanView, Target};
use serde_json::json;

/// List what differs between two graphs or two plans, and whether it changes the key
///
/// Tensors are matched by the places in which operations name them, not by uid: graphs that differ only in how their author numbered
/// and named things have the same key.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hipplan diff old.json new.json
  hipplan diff 5d0c1f22 9ab03e71 --store plans     two plans by key
  hipplan diff graph.json 5d0c1f22 --store plans   a graph and the graph in a plan

Exit codes:
  0  same key: whatever is listed does not count
  1  different keys, or one of the graphs has no key
  2  not compared: wrong usage, or what was named is not there, cannot be read, or is no graph and no plan")]
pub(crate) struct Diff {
    /// A graph in any form, a plan file, or the first digits of a key in the store; `-` is standard input
    a: String,
    /// The same
    b: String,
    /// Of plans for several targets, those for this target
    #[arg(long, value_name = "TARGET")]
    target: Option<Target>,
}

/// What is compared.
enum Pair {
    Plans(AlignedBytes, AlignedBytes),
    Graphs(GraphBuf, GraphBuf),
}

impl Diff {
    pub(crate) fn run(self, global: &Global) -> anyhow::Result<Exit> {
        anyhow::ensure!(!(self.a == "-" && self.b == "-"), "standard input can be read once only");
        let pick = self.target.as_ref().map_or(Pick::Only, |target| Pick::For(None, std::slice::from_ref(target)));
        let pair = match (subject::read_valid(global, &self.a, pick)?, subject::read_valid(global, &self.b, pick)?) {
            (Subject::Plan(a), Subject::Plan(b)) => Pair::Plans(a, b),
            (a, b) => Pair::Graphs(graph_of(a, &self.a)?, graph_of(b, &self.b)?),
        };
        let (what, verdict, differences, keys) = match &pair {
            Pair::Plans(a, b) => {
                let (a, b) = (PlanView::open(a)?, PlanView::open(b)?);
                let keys = [a.meta().plan_key(), b.meta().plan_key()];
                let verdict = if keys[0] == keys[1] { Verdict::SameKey } else { Verdict::DifferentKeys };
                let differences = diff::plans(&a, &b, &Limits::DEFAULT).context("a plan")?;
                ("plan", verdict, differences, keys.map(|key| Some(key.to_string())))
            }
            Pair::Graphs(a, b) => {
                let (a, b) = (a.view(), b.view());
                let key = |graph: &hipplan::VerifiedGraph<'_>| graph.canonical().ok().map(|c| c.key.to_string());
                ("graph", diff::verdict(&a, &b), diff::graphs(&a, &b), [key(&a), key(&b)])
            }
        };
        if global.json {
            let list: Vec<_> = differences.iter().map(to_json).collect();
            output::json(&json!({
                "compared": what,
                "a": { "source": self.a, "key": keys[0] },
                "b": { "source": self.b, "key": keys[1] },
                "same_key": verdict == Verdict::SameKey,
                "verdict": verdict.name(),
                "differences": list,
            }))?;
        } else {
            self.print(what, verdict, &differences, &keys)?;
        }
        Ok(if verdict == Verdict::SameKey { Exit::Good } else { Exit::Findings })
    }

    fn print(&self, what: &str, verdict: Verdict, differences: &[Difference], keys: &[Option<String>; 2]) -> anyhow::Result<()> {
        for ((letter, source), key) in [("A", &self.a), ("B", &self.b)].into_iter().zip(keys) {
            let source = if source == "-" { "standard input".to_owned() } else { output::name(source) };
            output::line(format_args!("{letter}  {source}  {}", key.as_deref().unwrap_or("no key")))?;
        }
        output::line("")?;
        if !differences.is_empty() {
            let mut table = output::table(&["where", "field", "A", "B", "changes the key"]);
            for d in differences {
                let side = |text: &Option<String>| text.as_deref().map_or_else(|| "-".to_owned(), short);
                table.add_row([
                    output::name(&d.place.to_string()),
                    d.field.clone(),
                    side(&d.a),
                    side(&d.b),
                    if d.changes_key { "yes" } else { "no" }.to_owned(),
                ]);
            }
            output::print_table(&table, |i| differences.get(i).map(|d| if d.changes_key { output::STRONG } else { output::DIM }))?;
            output::line("")?;
        }
        let counting = differences.iter().filter(|d| d.changes_key).count();
        let style = if verdict == Verdict::SameKey { output::GOOD } else { output::WARN };
        let count = match (differences.len(), counting) {
            (0, _) => "no difference".to_owned(),
            (n, 0) => format!("{}, none of which changes the key", output::count(n, "difference")),
            (n, k) => format!("{}, {k} of which {} the key", output::count(n, "difference"), if k == 1 { "changes" } else { "change" }),
        };
        output::line(format_args!("{count}"))?;
        if verdict == Verdict::SameKey && what == "plan" && differences.iter().any(|d| d.field == "root hash") {
            output::line(format_args!(
                "{}warning:{} two plans of one key have different bytes; the same engine revision must compile the same bytes",
                output::WARN,
                output::RESET
            ))?;
        }
        output::line(format_args!("{style}{}{}", verdict.name(), output::RESET))
    }
}

fn graph_of(subject: Subject, text: &str) -> anyhow::Result<GraphBuf> {
    match subject {
        Subject::Graph(graph) => Ok(graph.graph),
        Subject::Plan(bytes) => {
            PlanView::open(&bytes).map_err(Into::into).and_then(|plan| subject::graph_of_plan(&plan)).with_context(|| subject::name(text))
        }
        Subject::Envelope(_) => Err(subject::no_graph(text)),
    }
}

/// A value on one line of a table.
fn short(text: &str) -> String {
    const MOST: usize = 60;
    let text = output::name(text);
    if text.chars().count() <= MOST { text } else { text.chars().take(MOST - 1).chain(['…']).collect() }
}

fn to_json(d: &Difference) -> serde_json::Value {
    let side = |place: &diff::Place| match place {
        diff::Place::Plan => json!({ "kind": "plan" }),
        diff::Place::Graph => json!({ "kind": "graph" }),
        diff::Place::Tensor(a, b) => {
            let one =
                |label: &Option<hipplan::TensorLabel>| label.as_ref().map(|l| json!({ "index": l.index, "uid": l.uid, "name": l.name }));
            json!({ "kind": "tensor", "a": one(a), "b": one(b) })
        }
        diff::Place::Node(a, b) => {
            let one =
                |label: &Option<hipplan::NodeLabel>| label.as_ref().map(|l| json!({ "index": l.index, "operation": l.op, "name": l.name }));
            json!({ "kind": "node", "a": one(a), "b": one(b) })
        }
    };
    json!({ "place": side(&d.place), "where": d.place.to_string(), "field": d.field, "a": d.a, "b": d.b, "changes_key": d.changes_key })
}
