//! `HDGP`: hipDNN's container of a graph and perhaps a plan for it.
//!
//! The plan inside is bound to the graph beside it only by tensor uids. That is why an envelope is exported together with the
//! graph whose uids its payload means, and never alone.

use super::envelope::{EnvelopeError, PlanEnvelope};
use crate::wire::root::RawTable;
use crate::{AlignedBytes, GraphError, Limits, Uid, VerifiedGraph, aligned};
use std::fmt;

/// Bytes 4 to 8 of a container.
pub const IDENTIFIER: [u8; 4] = *b"HDGP";

/// A container that cannot be used: one variant per cause.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the message of each variant says what its fields are")]
pub enum ContainerError {
    /// Other bytes than `HDGP` where the identifier stands.
    #[error("HDGP container: no HDGP at byte 4; this is not hipDNN's container of a graph and a plan")]
    NotAContainer,
    /// Something exceeds a limit.
    #[error("HDGP container: {what} is {found}, over the limit {limit_name} = {limit}")]
    Limit { what: &'static str, found: u64, limit_name: &'static str, limit: u64 },
    /// The table around the two buffers cannot be read.
    #[error("HDGP container: damaged: {0}")]
    Damaged(String),
    /// There is no graph.
    #[error("HDGP container: graph_blob is absent or empty; a container holds a graph at least")]
    NoGraph,
    /// The graph inside is refused.
    #[error("HDGP container: the graph inside: {0}")]
    Graph(#[from] GraphError),
    /// The plan inside is refused.
    #[error("HDGP container: the plan inside: {0}")]
    Envelope(#[from] EnvelopeError),
    /// The plan is for another graph.
    #[error("HDGP container: the plan takes tensor uid {uid}, which no tensor of the graph has; the plan was made for another graph")]
    OtherGraph { uid: i64 },
}

/// Whether these bytes start like a container, as hipDNN tests it.
pub fn is_container(bytes: &[u8]) -> bool {
    bytes.get(4..8) == Some(&IDENTIFIER)
}

/// An inner buffer that starts at a multiple of 8: in place where it stands so, else a copy.
#[derive(Debug)]
enum Blob<'a> {
    InPlace(&'a [u8]),
    Copied(AlignedBytes),
}

impl<'a> Blob<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        if bytes.as_ptr().addr().is_multiple_of(8) { Self::InPlace(bytes) } else { Self::Copied(aligned::aligned_copy(bytes)) }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::InPlace(bytes) => bytes,
            Self::Copied(bytes) => bytes,
        }
    }
}

/// A container whose two buffers have been found. Each is checked when it is asked for.
#[derive(Debug)]
pub struct Container<'a> {
    graph: Blob<'a>,
    plan: Option<Blob<'a>>,
    limits: Limits,
    has_unknown_fields: bool,
}

impl<'a> Container<'a> {
    /// Finds the two buffers. Older writers did not align them: such a buffer is copied. The bytes may start anywhere.
    ///
    /// `limits` hold for container, graph and plan together: the bytes of both inner buffers count against the one `max_bytes`, and
    /// all tables but one each of container and plan are the graph's.
    ///
    /// # Errors
    /// What is wrong with the container itself.
    pub fn open(bytes: &'a [u8], limits: &Limits) -> Result<Self, ContainerError> {
        if !is_container(bytes) {
            return Err(ContainerError::NotAContainer);
        }
        check_size("its size in bytes", bytes.len(), 0, limits)?;
        let damaged = |what: &str| ContainerError::Damaged(what.to_owned());
        let root = RawTable::root(bytes).ok_or_else(|| damaged("there is no root table"))?;
        let blob = |slot: usize, name: &str| match (root.slot(slot), root.vector(slot, 1)) {
            (None, _) => Ok(None),
            (_, None) => Err(ContainerError::Damaged(format!("{name} leads to no bytes inside the buffer"))),
            (_, Some(bytes)) => Ok(Some(bytes).filter(|b| !b.is_empty())),
        };
        let graph = blob(0, "graph_blob")?.ok_or(ContainerError::NoGraph)?;
        let plan = blob(1, "plan_blob")?;
        // Two offsets may lead to the same bytes.
        check_size("the size of graph and plan in bytes", graph.len(), plan.map_or(0, <[u8]>::len), limits)?;
        Ok(Self { graph: Blob::new(graph), plan: plan.map(Blob::new), limits: *limits, has_unknown_fields: root.has_slot_from(2) })
    }

    /// The graph, checked.
    ///
    /// # Errors
    /// Why the graph is refused.
    pub fn graph(&self) -> Result<VerifiedGraph<'_>, ContainerError> {
        Ok(VerifiedGraph::verify(self.graph.bytes(), &self.limits)?)
    }

    /// The plan, checked; nothing when there is none.
    ///
    /// # Errors
    /// Why the plan is refused.
    pub fn plan(&self) -> Result<Option<PlanEnvelope<'_>>, ContainerError> {
        match &self.plan {
            None => Ok(None),
            Some(blob) => Ok(Some(PlanEnvelope::read(blob.bytes(), &self.limits)?)),
        }
    }

    /// The graph's bytes, unchecked.
    pub fn graph_bytes(&self) -> &[u8] {
        self.graph.bytes()
    }

    /// The plan's bytes, unchecked.
    pub fn plan_bytes(&self) -> Option<&[u8]> {
        self.plan.as_ref().map(Blob::bytes)
    }

    /// A newer writer put something beside graph and plan that this version does not know.
    pub fn has_unknown_fields(&self) -> bool {
        self.has_unknown_fields
    }
}

/// What a comparison of a plan with a graph shows. Only [`UidNotInGraph`](Self::UidNotInGraph) proves that they do not belong
/// together: which other uids hipDNN lists is not written down anywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The plan takes a tensor that the graph does not have.
    UidNotInGraph(Uid),
    /// The plan takes a tensor that exists only inside the graph, so that no caller can give it.
    UidVirtual(Uid),
    /// The plan lists a uid twice.
    UidRepeated(Uid),
    /// The plan does not take a tensor of the graph that is read from memory or written to it.
    TensorNotInPlan(Uid),
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UidNotInGraph(uid) => write!(f, "the plan takes tensor uid {uid}, which no tensor of the graph has"),
            Self::UidVirtual(uid) => write!(f, "the plan takes tensor uid {uid}, which is virtual in the graph"),
            Self::UidRepeated(uid) => write!(f, "the plan lists tensor uid {uid} more than once"),
            Self::TensorNotInPlan(uid) => write!(f, "the graph uses tensor uid {uid} in memory, and the plan does not take it"),
        }
    }
}

/// Compares the tensor uids of a plan with a graph: the first finding of each kind, the gravest kind first.
pub fn compare(graph: &VerifiedGraph<'_>, plan: &PlanEnvelope<'_>) -> Vec<Finding> {
    let mut uids = plan.tensor_uids.to_vec();
    uids.sort_unstable();
    let find = |uid: &Uid| graph.find(*uid).map(|ix| graph.tensor(ix));
    let foreign = plan.tensor_uids.iter().find(|uid| find(uid).is_none()).copied().map(Finding::UidNotInGraph);
    let inner = plan.tensor_uids.iter().find(|uid| find(uid).is_some_and(|t| t.is_virtual)).copied().map(Finding::UidVirtual);
    let repeated = uids.iter().zip(uids.iter().skip(1)).find(|(a, b)| a == b).map(|(uid, _)| Finding::UidRepeated(*uid));
    let used = graph.all_operands().iter().map(|o| graph.tensor(o.tensor));
    let in_memory = used.filter(|t| !t.is_virtual && !t.is_by_value());
    let untaken = in_memory.map(|t| t.uid).find(|uid| uids.binary_search(uid).is_err()).map(Finding::TensorNotInPlan);
    [foreign, inner, repeated, untaken].into_iter().flatten().collect()
}

/// Where the graph starts in a container that is written here.
const GRAPH_AT: usize = 32;

/// Writes a container: the graph's buffer untouched, and the bytes of an envelope for it, both at multiples of 8.
///
/// # Errors
/// When the envelope is refused, or was made for another graph, or the container would exceed a limit.
pub fn write(graph: &VerifiedGraph<'_>, plan: Option<&[u8]>, limits: &Limits) -> Result<AlignedBytes, ContainerError> {
    let (graph_bytes, plan_bytes) = (graph.buffer(), plan.unwrap_or_default());
    check_size("the size of graph and plan in bytes", graph_bytes.len(), plan_bytes.len(), limits)?;
    if let Some(plan) = plan {
        let blob = Blob::new(plan);
        let envelope = PlanEnvelope::read(blob.bytes(), limits)?;
        if let Some(uid) = envelope.tensor_uids.iter().find(|uid| graph.find(**uid).is_none()) {
            return Err(ContainerError::OtherGraph { uid: uid.0 });
        }
    }
    let too_large = || ContainerError::Limit {
        what: "the size of graph and plan in bytes",
        found: u64::MAX,
        limit_name: "max_bytes",
        limit: limits.bytes(),
    };
    // Sizes are far below 2^32 here: both were counted against the limit, which the format caps.
    let word = |n: usize| u32::try_from(n).map(u32::to_le_bytes).map_err(|_| too_large());
    // The plan's length stands in the last 4 bytes before a multiple of 8.
    let plan_at = GRAPH_AT.checked_add(graph_bytes.len()).and_then(|n| n.checked_add(4)).and_then(|n| n.checked_next_multiple_of(8));
    let plan_at = plan_at.ok_or_else(too_large)?;

    let mut out = AlignedBytes::with_capacity(plan_at.saturating_add(plan_bytes.len()).saturating_add(8));
    out.extend_from_slice(&word(16)?); // the root table
    out.extend_from_slice(&IDENTIFIER);
    // The vtable: its length, the table's, and the two slots.
    let plan_slot: u16 = if plan.is_some() { 8 } else { 0 };
    [8_u16, 12, 4, plan_slot].iter().for_each(|entry| out.extend_from_slice(&entry.to_le_bytes()));
    // The table: back to the vtable, then offsets from where they stand to the lengths of the two vectors.
    out.extend_from_slice(&word(8)?);
    out.extend_from_slice(&word(8)?);
    out.extend_from_slice(&if plan.is_some() { word(plan_at.saturating_sub(4).saturating_sub(24))? } else { [0; 4] });
    out.extend_from_slice(&word(graph_bytes.len())?);
    out.extend_from_slice(graph_bytes);
    if plan.is_some() {
        out.resize(plan_at.saturating_sub(4), 0);
        out.extend_from_slice(&word(plan_bytes.len())?);
        out.extend_from_slice(plan_bytes);
    }
    out.resize(out.len().next_multiple_of(8), 0);
    Ok(out)
}

fn check_size(what: &'static str, a: usize, b: usize, limits: &Limits) -> Result<(), ContainerError> {
    let (found, limit) = ((a as u64).saturating_add(b as u64), limits.bytes());
    if found > limit { Err(ContainerError::Limit { what, found, limit_name: "max_bytes", limit }) } else { Ok(()) }
}
