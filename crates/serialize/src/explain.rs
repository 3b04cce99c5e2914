//! Why a graph has the key and the API floor that it has, or none: for a person.

use crate::canon::{UsedTensors, canonical_strides};
use crate::diff::stamp_text;
use crate::error::RuleError;
use crate::floors::{self, Cause};
use crate::graph::{Stamp, TensorIx, UnknownFields, VerifiedGraph};
use crate::hex::Hex;
use crate::import::ImportError;
use crate::json::JsonError;
use crate::plan::BindingKind;
use crate::{ApiVersion, DataType, GraphError, GraphKey};

/// How the stamp in slot 8 compares with the floor that follows from the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StampAgreement {
    /// It says what the graph needs, or nothing where nothing is needed.
    Agrees,
    /// It says less: an older reader is not warned.
    TooLow,
    /// It says more: an older reader refuses what it could read.
    TooHigh,
}

impl StampAgreement {
    /// Words for a person.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Agrees => "agrees with the floor",
            Self::TooLow => "lower than the floor: an older reader is not warned",
            Self::TooHigh => "higher than the floor: an older reader refuses what it could read",
        }
    }
}

/// Something that a graph says and its key does not contain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// What.
    pub what: &'static str,
    /// What the graph says there.
    pub found: String,
    /// Why it is left out.
    pub why: &'static str,
}

/// The state of a by-value tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByValue {
    /// The tensor.
    pub tensor: TensorIx,
    /// Its state, never [`BindingKind::Device`].
    pub state: BindingKind,
}

/// All of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The key; none when [`unknown`](Self::unknown) says why.
    pub key: Option<GraphKey>,
    /// Every table with fields that this version does not know.
    pub unknown: Vec<UnknownFields>,
    /// The engine API that the graph needs.
    pub floor: ApiVersion,
    /// Every reason for the floor, ascending by what it asks for.
    pub causes: Vec<Cause>,
    /// What the buffer says of itself.
    pub stamp: Stamp,
    /// Whether that is right.
    pub stamp_agreement: StampAgreement,
    /// What the key does not contain. Empty parts of a graph are not listed.
    pub left_out: Vec<LeftOut>,
    /// Host scalars, in the order of the tensors.
    pub by_value: Vec<ByValue>,
}

/// Explains a graph.
pub fn explain(graph: &VerifiedGraph<'_>) -> Explanation {
    let floor = graph.api_floor();
    let stamp = graph.stamp();
    Explanation {
        key: graph.canonical().ok().map(|c| c.key),
        unknown: graph.unknown_tables(),
        floor,
        causes: floors::causes(graph),
        stamp,
        stamp_agreement: agreement(stamp, floor, graph.min_reader_version()),
        left_out: left_out(graph),
        by_value: graph
            .tensor_ixs()
            .zip(graph.tensors())
            .map(|(tensor, t)| ByValue { tensor, state: BindingKind::of_state(t.is_runtime, t.value.is_some()) })
            .filter(|b| b.state != BindingKind::Device)
            .collect(),
    }
}

/// The older form of the stamp knows one feature only, so it is held against that one.
fn agreement(stamp: Stamp, floor: ApiVersion, reader: u32) -> StampAgreement {
    let order = match stamp {
        Stamp::Absent => ApiVersion::BASELINE.cmp(&floor),
        Stamp::Reader(found) => found.cmp(&reader),
        // hipDNN stamps a graph that needs nothing with zeros or with the baseline.
        Stamp::Api(found) => found.max(ApiVersion::BASELINE).cmp(&floor),
    };
    match order {
        std::cmp::Ordering::Less => StampAgreement::TooLow,
        std::cmp::Ordering::Equal => StampAgreement::Agrees,
        std::cmp::Ordering::Greater => StampAgreement::TooHigh,
    }
}

/// Items of a list that are spelled out.
const SHOWN: usize = 6;

fn some_of(items: Vec<String>) -> String {
    let more = items.len().saturating_sub(SHOWN);
    let mut text = items.into_iter().take(SHOWN).collect::<Vec<_>>().join(", ");
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    text
}

fn left_out(graph: &VerifiedGraph<'_>) -> Vec<LeftOut> {
    const NAMES: &str = "names compute nothing";
    let mut all = Vec::new();
    let mut add = |what, found: String, why| all.push(LeftOut { what, found, why });
    if !graph.name().is_empty() {
        add("graph name", format!("{:?}", graph.name()), NAMES);
    }
    let named = graph.nodes().map(|n| graph.node_name(n)).filter(|n| !n.is_empty());
    let names: Vec<String> = named.map(|n| format!("{n:?}")).collect();
    if !names.is_empty() {
        add("node names", some_of(names), NAMES);
    }
    let names: Vec<String> = graph.tensors().iter().filter(|t| !t.name.is_empty()).map(|t| format!("{:?}", t.name)).collect();
    if !names.is_empty() {
        add("tensor names", some_of(names), NAMES);
    }
    let uids = graph.tensors().iter().map(|t| t.uid.to_string()).collect();
    add("tensor uids and list order", some_of(uids), "tensors are numbered by the order in which nodes name them");
    if let Some(id) = graph.id() {
        add("graph id", Hex(&id).to_string(), "it is random");
    }
    if let Some(id) = graph.preferred_engine_id() {
        add("preferred engine", id.to_string(), "it is policy, not meaning");
    }
    if let Some(text) = stamp_text(graph.stamp()) {
        add("stamp of slot 8", text, "it follows from the rest");
    }
    let stated: Vec<String> = ["compute", "intermediate", "io"]
        .into_iter()
        .zip(graph.default_types())
        .filter(|(_, t)| *t != DataType::Unset)
        .map(|(name, t)| format!("{name} {t}"))
        .collect();
    if !stated.is_empty() {
        add("graph-level types", some_of(stated), "they are resolved into tensors and nodes");
    }
    let used = UsedTensors::of(graph);
    let unused = graph.tensor_ixs().filter(|ix| !used.contains(*ix));
    let unused: Vec<String> = unused.map(|ix| graph.tensor_label(ix).to_string()).collect();
    if !unused.is_empty() {
        add("unused tensors", some_of(unused), "no node names them");
    }
    let odd = graph.tensor_ixs().zip(graph.tensors());
    let odd = odd.filter(|(ix, t)| used.contains(*ix) && !canonical_strides(t.dims, t.strides).eq(t.strides.iter().copied()));
    let odd: Vec<String> = odd.map(|(ix, _)| graph.tensor_label(ix).to_string()).collect();
    if !odd.is_empty() {
        add("strides of dims of size 1", some_of(odd), "they address nothing");
    }
    all
}

/// What to do about a graph that is refused.
pub fn hint(error: &ImportError) -> &'static str {
    match error {
        ImportError::Graph(error) | ImportError::Json(JsonError::Graph(error)) => graph_hint(error),
        ImportError::Json(JsonError::Syntax(_)) => "the text is no JSON; the message names line and column",
        ImportError::Json(JsonError::UnknownSpelling { .. }) => "the message lists the known spellings; a new one needs a newer hipplan",
        ImportError::Json(_) => "correct the JSON at the place that the message names",
        ImportError::Empty => "nothing was read; check the path, or what is piped in",
        ImportError::Utf16 => "write the text again as UTF-8",
        ImportError::Several { .. } => "`hipplan import` makes one graph file of each",
        ImportError::NoProblem { .. } => "only convolutions become graphs; `hipplan import --explain` tells how each line was read",
        _ => "name a graph: an artifact, a hipDNN graph buffer, hipDNN JSON or one MIOpenDriver line",
    }
}

fn graph_hint(error: &GraphError) -> &'static str {
    use GraphError as E;
    match error {
        e if e.is_too_new() => "the graph was written for a newer reader; use a newer hipplan, or write it for an older one",
        e if e.is_too_old() => "the graph was written by an old hipplan; write it again with this one",
        E::Artifact(_) => "the file around the graph is damaged; copy or write it again",
        E::Structure(_) => "the bytes are cut off, damaged or something else; copy the file again, or export the graph again",
        E::Limit { .. } => "the limits keep hostile files harmless; a program may raise them (`Limits`)",
        E::Misaligned => "read the bytes into `AlignedBytes`",
        E::DuplicateUid { .. } | E::DanglingUid { .. } => "check the uids: each is given once, and nodes name only uids that were given",
        E::TensorTypeUnset { .. } | E::ComputeTypeUnset { .. } => "state the type at the place itself, or once for the whole graph",
        E::VirtualRuntime { .. } | E::VirtualValue { .. } | E::ScalarElements { .. } | E::ScalarWritten { .. } => {
            "a tensor passed by value is one host number that nodes only read: not virtual, one element, no output (RFC 0016, 4.8)"
        }
        E::Rule(rule) if matches!(**rule, RuleError::OperandNotScalar(_)) => {
            "make it a constant, or mark it as runtime pass-by-value (RFC 0016, 4.2)"
        }
        E::Order { .. } => "sort the nodes, so that each stands behind those whose results it reads",
        E::Cycle { .. } => "some node needs its own result; cut the circle",
        E::Orphan { .. } => "make two graphs of it, one for each part",
        E::VirtualUnwritten { .. } => "a node must write it, or it must not be virtual",
        E::WrittenTwice { .. } => "give the second result a tensor of its own",
        E::RaggedMissing { .. } | E::RaggedVirtual { .. } | E::RaggedNested { .. } => {
            "ragged offsets are an ordinary tensor in memory that is itself not ragged"
        }
        E::Rule(_) => "the rule stands behind the semicolon; correct the node that the message names",
        _ => "correct the graph at the place that the message names",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_held_against_the_floor() {
        use StampAgreement::{Agrees, TooHigh, TooLow};
        let v = ApiVersion::new;
        for (stamp, floor, reader, expected) in [
            (Stamp::Absent, v(1, 0, 0), 0, Agrees),
            (Stamp::Absent, v(1, 2, 0), 1, TooLow),
            (Stamp::Reader(0), v(1, 3, 0), 0, Agrees),
            (Stamp::Reader(1), v(1, 2, 0), 1, Agrees),
            (Stamp::Reader(0), v(1, 2, 0), 1, TooLow),
            (Stamp::Reader(1), v(1, 0, 0), 0, TooHigh),
            (Stamp::Api(v(0, 0, 0)), v(1, 0, 0), 0, Agrees),
            (Stamp::Api(v(1, 2, 0)), v(1, 2, 0), 1, Agrees),
            (Stamp::Api(v(1, 2, 0)), v(1, 3, 0), 1, TooLow),
            (Stamp::Api(v(1, 4, 0)), v(1, 3, 0), 1, TooHigh),
        ] {
            assert_eq!(agreement(stamp, floor, reader), expected, "{stamp:?} {floor}");
        }
    }
}
