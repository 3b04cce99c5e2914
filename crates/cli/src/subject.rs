//! What a person names to look at: a graph in any form, a plan file, or a key in the store.

use crate::{Global, inputs, keys, location};
use anyhow::Context;
use hipplan::{AlignedBytes, Device, GraphBuf, GraphForm, ImportError, Limits, PlanView, canon, plan};
use std::io::Read;
use std::path::Path;

/// Something that was named, read and found whole.
#[derive(Debug)]
pub(crate) enum Subject {
    Graph(Graph),
    Plan(AlignedBytes),
}

#[derive(Debug)]
pub(crate) struct Graph {
    pub(crate) graph: GraphBuf,
    pub(crate) form: GraphForm,
    pub(crate) warnings: Vec<String>,
}

/// Reads what `text` names. The inner error is that of something that could be read and is refused as a graph.
pub(crate) fn read(global: &Global, text: &str) -> anyhow::Result<Result<Subject, ImportError>> {
    if keys::may_be_key(text) {
        let store = location::readable(global)?;
        return Ok(Ok(Subject::Plan(keys::find(&store, text, &Device::Cpu)?.into_bytes())));
    }
    let bytes = if text == "-" {
        let mut bytes = Vec::new();
        // One byte over the limit is enough for the importer to name it.
        std::io::stdin().lock().take(Limits::DEFAULT.max_bytes.saturating_add(1)).read_to_end(&mut bytes).context("standard input")?;
        hipplan::aligned::aligned_copy(&bytes)
    } else {
        inputs::read_file(Path::new(text)).with_context(|| keys::neither(text))?
    };
    if plan::is_plan(&bytes) {
        PlanView::open(&bytes).with_context(|| text.to_owned())?.verify().with_context(|| text.to_owned())?;
        return Ok(Ok(Subject::Plan(bytes)));
    }
    Ok(hipplan::import(&bytes, &Limits::DEFAULT)
        .map(|imported| Subject::Graph(Graph { graph: imported.graph, form: imported.form, warnings: imported.warnings })))
}

/// [`read`], where a graph that is refused is an error.
pub(crate) fn read_valid(global: &Global, text: &str) -> anyhow::Result<Subject> {
    read(global, text)?.with_context(|| if text == "-" { "standard input".to_owned() } else { text.to_owned() })
}

/// The graph that a plan carries: canonical, its uids are ordinals.
pub(crate) fn graph_of_plan(plan: &PlanView<'_>) -> anyhow::Result<GraphBuf> {
    Ok(canon::decode(plan.canonical()?, &Limits::DEFAULT)?)
}
