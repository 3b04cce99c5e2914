//! What a person names to look at: a graph in any form, a plan file, or a key in the store.

use crate::keys::{self, Pick};
use crate::{Global, inputs, location, output};
use anyhow::Context;
use hipplan::form::{self, Form};
use hipplan::hipdnn::container::ContainerError;
use hipplan::hipdnn::envelope::EnvelopeError;
use hipplan::hipdnn::{Container, PlanEnvelope};
use hipplan::{AlignedBytes, GraphBuf, GraphForm, ImportError, Limits, Loaders, PlanView, Policy, aligned, canon, plan};
use std::io::Read;
use std::path::Path;

/// Something that was named, read and found whole.
#[derive(Debug)]
pub(crate) enum Subject {
    Graph(Graph),
    Plan(AlignedBytes),
    /// hipDNN's envelope around a plugin's bytes, without its graph.
    Envelope(Envelope),
}

#[derive(Debug)]
pub(crate) struct Graph {
    pub(crate) graph: GraphBuf,
    pub(crate) form: GraphForm,
    pub(crate) warnings: Vec<String>,
    /// The plan beside it in hipDNN's container.
    pub(crate) plan: Option<Envelope>,
}

/// The bytes of a hipDNN plan envelope that has been checked.
#[derive(Debug)]
pub(crate) struct Envelope(AlignedBytes);

impl Envelope {
    fn new(bytes: &[u8]) -> Result<Self, EnvelopeError> {
        let envelope = Self(aligned::aligned_copy(bytes));
        envelope.view()?;
        Ok(envelope)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn view(&self) -> Result<PlanEnvelope<'_>, EnvelopeError> {
        PlanEnvelope::read(&self.0, &Limits::DEFAULT)
    }
}

/// Reads what `text` names; of the plans that a key names, the one that `pick` says. The inner error is that of something that could be
/// read and is refused as a graph.
pub(crate) fn read(global: &Global, text: &str, pick: Pick<'_>) -> anyhow::Result<Result<Subject, ImportError>> {
    if keys::may_be_key(text) {
        let store = location::readable(global)?;
        return Ok(Ok(Subject::Plan(keys::find(&store, text, pick, &Loaders::default(), &Policy::DEFAULT)?.into_bytes())));
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
        PlanView::open(&bytes).with_context(|| name(text))?.verify().with_context(|| name(text))?;
        return Ok(Ok(Subject::Plan(bytes)));
    }
    match form::detect(&bytes) {
        Form::Envelope => return Ok(Ok(Subject::Envelope(Envelope::new(&bytes).with_context(|| name(text))?))),
        Form::Container => {
            let container = Container::open(&bytes, &Limits::DEFAULT).with_context(|| name(text))?;
            let plan = container.plan_bytes().map(Envelope::new).transpose().with_context(|| name(text))?;
            // Not through the importer, which warns that it leaves the plan behind.
            return Ok(GraphBuf::new(container.graph_bytes(), &Limits::DEFAULT)
                .map(|graph| Subject::Graph(Graph { graph, form: GraphForm::HipdnnContainer, warnings: Vec::new(), plan }))
                .map_err(|e| ContainerError::from(e).into()));
        }
        _ => {}
    }
    Ok(hipplan::import(&bytes, &Limits::DEFAULT)
        .map(|imported| Subject::Graph(Graph { graph: imported.graph, form: imported.form, warnings: imported.warnings, plan: None })))
}

/// [`read`], where a graph that is refused is an error.
pub(crate) fn read_valid(global: &Global, text: &str, pick: Pick<'_>) -> anyhow::Result<Subject> {
    read(global, text, pick)?.with_context(|| name(text))
}

/// What `text` names, for messages.
pub(crate) fn name(text: &str) -> String {
    if text == "-" { "standard input".to_owned() } else { output::name(text) }
}

/// Why the envelope that `text` names is not enough.
pub(crate) fn no_graph(text: &str) -> anyhow::Error {
    anyhow::anyhow!(
        "this is a hipDNN plan envelope, which holds no graph; name the graph that it was made for (`hipplan convert GRAPH --plan ENVELOPE` \
         puts both into one container)"
    )
    .context(name(text))
}

/// The graph that a plan carries: canonical, its uids are ordinals.
pub(crate) fn graph_of_plan(plan: &PlanView<'_>) -> anyhow::Result<GraphBuf> {
    Ok(canon::decode(plan.canonical()?, &Limits::DEFAULT)?)
}
