//! What differs between two graphs or two plans, and which differences change a key (G7).
//!
//! Nodes are aligned in order; tensors are matched by the places in which aligned nodes name them, never by uid, so two graphs that
//! differ only in how their author numbered things have no difference that counts. The list is exact: two graphs have equal keys
//! if and only if no difference says that it changes the key. (If every node has a partner, all its fields are equal, and tensors
//! correspond one to one with equal contents, then both canonical encodings are written by the same steps; and equal encodings
//! make the alignment below the identity.)

use crate::canon::{self, UsedTensors, canonical_strides};
use crate::error::{NodeLabel, TensorLabel};
use crate::graph::{NodeIx, Stamp, TensorIx, TensorView, VerifiedGraph};
use crate::hex::Hex;
use crate::ops::{FieldRole, FieldSpec, FieldValue, OpKind, Uid};
use crate::plan::{ArchivedPlanMetaV1, PlanError, PlanView};
use crate::wire::tensor_value::TensorValue;
use crate::{ContentHash, DataType, Limits, PlanIdentity};
use std::fmt;

/// Where a difference is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The plan around the graph.
    Plan,
    /// The graph as a whole.
    Graph,
    /// A tensor, as each side names it; none on the side that has no such tensor.
    Tensor(Option<TensorLabel>, Option<TensorLabel>),
    /// A node, as each side names it; none on the side that has no such node.
    Node(Option<NodeLabel>, Option<NodeLabel>),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn pair<T: fmt::Display + PartialEq>(f: &mut fmt::Formatter<'_>, a: &Option<T>, b: &Option<T>) -> fmt::Result {
            match (a, b) {
                (Some(a), Some(b)) if a != b => write!(f, "{a} / {b}"),
                (Some(one), _) | (None, Some(one)) => one.fmt(f),
                (None, None) => Ok(()),
            }
        }
        match self {
            Self::Plan => f.write_str("plan"),
            Self::Graph => f.write_str("graph"),
            Self::Tensor(a, b) => pair(f, a, b),
            Self::Node(a, b) => pair(f, a, b),
        }
    }
}

/// One thing that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Where.
    pub place: Place,
    /// Which field, such as `dims`.
    pub field: String,
    /// What the first side has; none when it has no such thing.
    pub a: Option<String>,
    /// What the second side has.
    pub b: Option<String>,
    /// Whether this difference alone makes two keys of it: graph keys for what is in a graph, plan keys for what is in a plan.
    pub changes_key: bool,
}

/// What two keys say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Both have one, the same.
    SameKey,
    /// Both have one, not the same.
    DifferentKeys,
    /// One of them has no key, so nobody can tell.
    NoKey,
}

impl Verdict {
    /// Words for a person.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SameKey => "same key",
            Self::DifferentKeys => "different keys",
            Self::NoKey => "no key to compare",
        }
    }
}

/// What the keys of two graphs say, from the keys themselves.
pub fn verdict(a: &VerifiedGraph<'_>, b: &VerifiedGraph<'_>) -> Verdict {
    match (a.canonical(), b.canonical()) {
        (Ok(a), Ok(b)) if a.encoding == b.encoding => Verdict::SameKey,
        (Ok(_), Ok(_)) => Verdict::DifferentKeys,
        _ => Verdict::NoKey,
    }
}

/// Everything that differs between two graphs: the graph, then tensors, then nodes.
pub fn graphs(a: &VerifiedGraph<'_>, b: &VerifiedGraph<'_>) -> Vec<Difference> {
    let (shapes_a, shapes_b) = (shapes(a), shapes(b));
    let nodes = align(&shapes_a, &shapes_b);
    let mut diff = GraphDiff {
        a,
        b,
        a_to_b: vec![None; a.tensors().len()],
        b_to_a: vec![None; b.tensors().len()],
        used_a: UsedTensors::of(a),
        used_b: UsedTensors::of(b),
        out: Vec::new(),
    };
    diff.match_tensors(&nodes);
    diff.graph_level();
    diff.tensors();
    diff.nodes(&nodes);
    diff.out
}

/// A node without its operands: what alignment goes by.
#[derive(PartialEq)]
struct Shape<'a> {
    kind: OpKind,
    compute: DataType,
    attributes: Vec<FieldValue<'a>>,
}

fn shapes<'a>(graph: &VerifiedGraph<'a>) -> Vec<Shape<'a>> {
    let shape = |node| {
        let mut attributes = Vec::new();
        graph.op(node).values(|spec, value| {
            if spec.role == FieldRole::Attribute {
                attributes.push(value);
            }
        });
        Shape { kind: graph.kind(node), compute: graph.compute_type(node), attributes }
    };
    graph.nodes().map(shape).collect()
}

/// Most cells of the table that aligns what differs; above it, nodes are paired by position.
const MAX_CELLS: usize = 1 << 20;

/// Pairs of nodes of one kind, ascending on both sides: equal ends first, then as many equals between them as can be.
fn align(a: &[Shape<'_>], b: &[Shape<'_>]) -> Vec<(usize, usize)> {
    let head = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let (rest_a, rest_b) = (a.get(head..).unwrap_or_default(), b.get(head..).unwrap_or_default());
    let tail = rest_a.iter().rev().zip(rest_b.iter().rev()).take_while(|(a, b)| a == b).count();
    let (end_a, end_b) = (a.len().saturating_sub(tail), b.len().saturating_sub(tail));
    let (mid_a, mid_b) = (a.get(head..end_a).unwrap_or_default(), b.get(head..end_b).unwrap_or_default());
    let mut pairs: Vec<(usize, usize)> = (0..head).map(|i| (i, i)).collect();
    let same_kinds = mid_a.len() == mid_b.len() && mid_a.iter().zip(mid_b).all(|(a, b)| a.kind == b.kind);
    if same_kinds || mid_a.len().saturating_mul(mid_b.len()) > MAX_CELLS {
        let by_position = (head..end_a).zip(mid_a.iter().zip(mid_b)).filter(|(_, (a, b))| a.kind == b.kind);
        pairs.extend(by_position.map(|(i, _)| (i, i)));
    } else {
        // They come as numbers of nodes from there to the end.
        let from_ends = align_middle(mid_a, mid_b).into_iter();
        pairs.extend(from_ends.map(|(i, j)| (end_a.saturating_sub(i), end_b.saturating_sub(j))));
    }
    pairs.extend((end_a..a.len()).zip(end_b..b.len()));
    pairs
}

/// The best alignment by a table of all pairs of suffixes: 2 for a pair of one kind, 1 more when it is equal. Pairs are given by the
/// lengths of the suffixes that they begin.
fn align_middle(a: &[Shape<'_>], b: &[Shape<'_>]) -> Vec<(usize, usize)> {
    let worth = |a: &Shape<'_>, b: &Shape<'_>| match a.kind == b.kind {
        false => None,
        true => Some(if a == b { 3_u32 } else { 2 }),
    };
    // A row for each length of a suffix of `a`, with a cell for each length of one of `b`.
    let mut best = vec![vec![0_u32; b.len().saturating_add(1)]];
    for x in a.iter().rev() {
        let mut row = Vec::with_capacity(b.len().saturating_add(1));
        let mut here = 0;
        row.push(here);
        let last = best.last().map_or(&[][..], |row| row);
        for (y, (&without_both, &without_x)) in b.iter().rev().zip(last.iter().zip(last.iter().skip(1))) {
            let pair = worth(x, y).map_or(0, |w| w.saturating_add(without_both));
            here = here.max(without_x).max(pair);
            row.push(here);
        }
        best.push(row);
    }
    let cell = |a: &[Shape<'_>], b: &[Shape<'_>]| best.get(a.len()).and_then(|row| row.get(b.len())).copied().unwrap_or(0);
    let (mut a, mut b) = (a, b);
    let mut pairs = Vec::new();
    while let ([x, next_a @ ..], [y, next_b @ ..]) = (a, b) {
        let here = cell(a, b);
        if worth(x, y).is_some_and(|w| here == w.saturating_add(cell(next_a, next_b))) {
            pairs.push((a.len(), b.len()));
            (a, b) = (next_a, next_b);
        } else if here == cell(next_a, b) {
            a = next_a;
        } else {
            b = next_b;
        }
    }
    pairs
}

/// The partner of a tensor.
fn partner(partners: &[Option<TensorIx>], ix: TensorIx) -> Option<TensorIx> {
    partners.get(ix.index()).copied().flatten()
}

struct GraphDiff<'g, 'a, 'b> {
    a: &'g VerifiedGraph<'a>,
    b: &'g VerifiedGraph<'b>,
    /// Partner of each tensor: one to one.
    a_to_b: Vec<Option<TensorIx>>,
    b_to_a: Vec<Option<TensorIx>>,
    used_a: UsedTensors,
    used_b: UsedTensors,
    out: Vec<Difference>,
}

impl GraphDiff<'_, '_, '_> {
    fn push(&mut self, place: Place, field: impl Into<String>, a: Option<String>, b: Option<String>, changes_key: bool) {
        self.out.push(Difference { place, field: field.into(), a, b, changes_key });
    }

    fn are_partners(&self, a: Option<TensorIx>, b: Option<TensorIx>) -> bool {
        match (a, b) {
            (None, None) => true,
            (Some(a), Some(b)) => partner(&self.a_to_b, a) == Some(b),
            _ => false,
        }
    }

    fn pair(&mut self, a: TensorIx, b: TensorIx) {
        if let (Some(of_a @ None), Some(of_b @ None)) = (self.a_to_b.get_mut(a.index()), self.b_to_a.get_mut(b.index())) {
            (*of_a, *of_b) = (Some(b), Some(a));
            if let (Some(a), Some(b)) = (self.a.tensor(a).ragged_offset, self.b.tensor(b).ragged_offset) {
                self.pair(a, b);
            }
        }
    }

    fn match_tensors(&mut self, nodes: &[(usize, usize)]) {
        let (nodes_a, nodes_b): (Vec<_>, Vec<_>) = (self.a.nodes().collect(), self.b.nodes().collect());
        for &(i, j) in nodes {
            let (Some(&a), Some(&b)) = (nodes_a.get(i), nodes_b.get(j)) else { continue };
            let (a, b) = (self.a.operands(a), self.b.operands(b));
            // Both ascend by slot; a slot may hold several, which are paired in order.
            let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
            while let (Some(&&x), Some(&&y)) = (a.peek(), b.peek()) {
                match x.slot.cmp(&y.slot) {
                    std::cmp::Ordering::Less => _ = a.next(),
                    std::cmp::Ordering::Greater => _ = b.next(),
                    std::cmp::Ordering::Equal => {
                        self.pair(x.tensor, y.tensor);
                        a.next();
                        b.next();
                    }
                }
            }
        }
        // Tensors that no node names have nothing but their uid to go by, and do not count.
        for (ix, t) in self.a.tensor_ixs().zip(self.a.tensors()) {
            if let Some(other) = self.b.find(t.uid).filter(|other| !self.used_a.contains(ix) && !self.used_b.contains(*other)) {
                self.pair(ix, other);
            }
        }
    }

    fn graph_level(&mut self) {
        let (a, b) = (self.a, self.b);
        let unknown = |graph: &VerifiedGraph<'_>| {
            let all: Vec<String> = graph.unknown_tables().iter().map(ToString::to_string).collect();
            (!all.is_empty()).then(|| all.join("; "))
        };
        let (unknown_a, unknown_b) = (unknown(a), unknown(b));
        if unknown_a.is_some() || unknown_b.is_some() {
            // Also when both name the same slots: nobody knows what stands in them.
            self.push(Place::Graph, "unknown fields", unknown_a, unknown_b, true);
        }
        let mut field = |name: &str, a: Option<String>, b: Option<String>, changes_key: bool| {
            if a != b {
                self.out.push(Difference { place: Place::Graph, field: name.into(), a, b, changes_key });
            }
        };
        let flag = |graph: &VerifiedGraph<'_>| Some(graph.is_override_shape_enabled().to_string());
        field("is_override_shape_enabled", flag(a), flag(b), true);
        let name = |graph: &VerifiedGraph<'_>| Some(format!("{:?}", graph.name()));
        field("name", name(a), name(b), false);
        let id = |graph: &VerifiedGraph<'_>| graph.id().map(|id| Hex(&id).to_string());
        field("id", id(a), id(b), false);
        let engine = |graph: &VerifiedGraph<'_>| graph.preferred_engine_id().map(|id| id.to_string());
        field("preferred_engine_id", engine(a), engine(b), false);
        let types = ["compute_data_type", "intermediate_data_type", "io_data_type"];
        for ((name, a), b) in types.into_iter().zip(a.default_types()).zip(b.default_types()) {
            // Resolved into tensors and nodes, where a difference that matters shows.
            field(name, Some(a.to_string()), Some(b.to_string()), false);
        }
        field("stamp", stamp_text(a.stamp()), stamp_text(b.stamp()), false);
        // Where partners stand, in the order of the first list; it is shown from where the second list first goes back.
        let places: Vec<(usize, usize)> = self.a_to_b.iter().enumerate().filter_map(|(i, ix)| Some((i, (*ix)?.index()))).collect();
        if let Some(at) = places.iter().zip(places.iter().skip(1)).position(|(first, next)| first.1 > next.1) {
            const SHOWN: usize = 6;
            let text = |place: fn(&(usize, usize)) -> usize| {
                let mut from = places.iter().skip(at);
                let shown: Vec<String> = from.by_ref().take(SHOWN).map(|p| place(p).to_string()).collect();
                Some(format!("{}{}", shown.join(", "), if from.next().is_some() { ", ..." } else { "" }))
            };
            let (a, b) = (text(|p| p.0), text(|p| p.1));
            self.push(Place::Graph, "order of the tensor list", a, b, false);
        }
    }

    fn tensors(&mut self) {
        for ix in self.a.tensor_ixs() {
            match partner(&self.a_to_b, ix) {
                Some(other) => self.tensor(ix, other),
                None => {
                    let place = Place::Tensor(Some(self.a.tensor_label(ix)), None);
                    let used = self.used_a.contains(ix);
                    let text = tensor_text(self.a.tensor(ix), used);
                    self.push(place, "tensor", Some(text), None, used);
                }
            }
        }
        for ix in self.b.tensor_ixs().filter(|ix| partner(&self.b_to_a, *ix).is_none()).collect::<Vec<_>>() {
            let place = Place::Tensor(None, Some(self.b.tensor_label(ix)));
            let used = self.used_b.contains(ix);
            let text = tensor_text(self.b.tensor(ix), used);
            self.push(place, "tensor", None, Some(text), used);
        }
    }

    fn tensor(&mut self, ix: TensorIx, other: TensorIx) {
        let (a, b) = (self.a.tensor(ix), self.b.tensor(other));
        let (label_a, label_b) = (self.a.tensor_label(ix), self.b.tensor_label(other));
        // Partners are both used or both unused.
        let used = self.used_a.contains(ix);
        // Every field by name: whoever adds one decides here whether it changes the key, as in the encoding.
        let TensorView {
            uid,
            name,
            dtype,
            dims,
            strides,
            is_virtual,
            value,
            is_runtime,
            ragged_offset,
            alignment,
            ragged_multiplier,
            has_unknown_fields: _,
        } = a;
        let mut found: Vec<(&str, Option<String>, Option<String>, bool)> = Vec::new();
        fn text(v: &impl ToString) -> Option<String> {
            Some(v.to_string())
        }
        let list = |v: &[i64]| Some(FieldValue::Ints(v).to_string());
        if *dtype != b.dtype {
            found.push(("data_type", text(dtype), text(&b.dtype), true));
        }
        if *dims != b.dims {
            found.push(("dims", list(dims), list(b.dims), true));
        }
        if *strides != b.strides {
            // The stride of a dim of size 1 addresses nothing.
            found.push((
                "strides",
                list(strides),
                list(b.strides),
                !canonical_strides(dims, strides).eq(canonical_strides(b.dims, b.strides)),
            ));
        }
        if *is_virtual != b.is_virtual {
            found.push(("virtual", text(is_virtual), text(&b.is_virtual), true));
        }
        if *is_runtime != b.is_runtime {
            found.push(("is_runtime_pass_by_value", text(is_runtime), text(&b.is_runtime), true));
        }
        if *value != b.value {
            found.push(("value", value.map(value_text), b.value.map(value_text), true));
        }
        if *alignment != b.alignment {
            found.push(("alignment", text(alignment), text(&b.alignment), true));
        }
        if *ragged_multiplier != b.ragged_multiplier {
            found.push(("ragged_offset_multiplier", text(ragged_multiplier), text(&b.ragged_multiplier), true));
        }
        if !self.are_partners(*ragged_offset, b.ragged_offset) {
            let of = |graph: &VerifiedGraph<'_>, ix: Option<TensorIx>| ix.map(|ix| graph.tensor_label(ix).to_string());
            found.push(("ragged_offset_tensor_uid", of(self.a, *ragged_offset), of(self.b, b.ragged_offset), true));
        }
        if *uid != b.uid {
            found.push(("uid", text(uid), text(&b.uid), false));
        }
        if *name != b.name {
            found.push(("name", Some(format!("{name:?}")), Some(format!("{:?}", b.name)), false));
        }
        for (field, a, b, changes_key) in found {
            self.push(Place::Tensor(Some(label_a.clone()), Some(label_b.clone())), field, a, b, changes_key && used);
        }
    }

    fn nodes(&mut self, pairs: &[(usize, usize)]) {
        let (nodes_a, nodes_b): (Vec<NodeIx>, Vec<NodeIx>) = (self.a.nodes().collect(), self.b.nodes().collect());
        let (mut i, mut j) = (0, 0);
        let ends = [(nodes_a.len(), nodes_b.len())];
        for &(end_a, end_b) in pairs.iter().chain(&ends) {
            for &node in nodes_a.get(i..end_a).unwrap_or_default() {
                let text = Some(self.a.kind(node).name().to_owned());
                self.push(Place::Node(Some(self.a.node_label(node)), None), "operation", text, None, true);
            }
            for &node in nodes_b.get(j..end_b).unwrap_or_default() {
                let text = Some(self.b.kind(node).name().to_owned());
                self.push(Place::Node(None, Some(self.b.node_label(node))), "operation", None, text, true);
            }
            if let (Some(&a), Some(&b)) = (nodes_a.get(end_a), nodes_b.get(end_b)) {
                self.node(a, b);
            }
            (i, j) = (end_a.saturating_add(1), end_b.saturating_add(1));
        }
    }

    fn node(&mut self, a: NodeIx, b: NodeIx) {
        let place = Place::Node(Some(self.a.node_label(a)), Some(self.b.node_label(b)));
        let (name_a, name_b) = (self.a.node_name(a), self.b.node_name(b));
        let (compute_a, compute_b) = (self.a.compute_type(a), self.b.compute_type(b));
        if compute_a != compute_b {
            self.push(place.clone(), "compute_data_type", Some(compute_a.to_string()), Some(compute_b.to_string()), true);
        }
        let fields = |graph: &VerifiedGraph<'_>, node| -> Vec<(&'static FieldSpec, Shown)> {
            let mut all = Vec::new();
            graph.op(node).values(|spec, value| all.push((spec, Shown::of(graph, value))));
            all
        };
        for ((spec, x), (_, y)) in fields(self.a, a).into_iter().zip(fields(self.b, b)) {
            if !self.is_same(&x, &y) {
                self.push(place.clone(), spec.wire_name, x.text, y.text, true);
            }
        }
        if name_a != name_b {
            self.push(place, "name", Some(format!("{name_a:?}")), Some(format!("{name_b:?}")), false);
        }
    }

    /// Operands are the same when they are partners, everything else when it is equal.
    fn is_same(&self, a: &Shown, b: &Shown) -> bool {
        match (&a.tensors, &b.tensors) {
            (Some(a), Some(b)) => a.len() == b.len() && a.iter().zip(b).all(|(&a, &b)| self.are_partners(a, b)),
            // An absent operand is one that the other side has.
            (Some(_), None) | (None, Some(_)) => false,
            (None, None) => a.text == b.text,
        }
    }
}

/// The value of a field, with its operands resolved. The text tells equal values from others: floats that differ in any bit differ
/// in their text, and long bytes are shown by their hash.
struct Shown {
    text: Option<String>,
    tensors: Option<Vec<Option<TensorIx>>>,
}

impl Shown {
    fn of(graph: &VerifiedGraph<'_>, value: FieldValue<'_>) -> Self {
        let label = |uid: Uid| graph.find(uid).map_or_else(|| format!("uid {uid}"), |ix| graph.tensor_label(ix).to_string());
        match value {
            FieldValue::Absent => Self { text: None, tensors: None },
            FieldValue::Tensor(uid) => Self { text: Some(label(uid)), tensors: Some(vec![graph.find(uid)]) },
            FieldValue::Tensors(uids) => {
                let labels: Vec<String> = uids.iter().map(|&uid| label(uid)).collect();
                Self { text: Some(format!("[{}]", labels.join(", "))), tensors: Some(uids.iter().map(|&uid| graph.find(uid)).collect()) }
            }
            value => Self { text: Some(value.to_string()), tensors: None },
        }
    }
}

fn tensor_text(t: &TensorView<'_>, used: bool) -> String {
    let dims: Vec<String> = t.dims.iter().map(ToString::to_string).collect();
    format!("{} {}{}", t.dtype, dims.join("x"), if used { "" } else { ", not used by any node" })
}

/// A scalar with its kind, and bits where a number has several.
pub(crate) fn value_text(value: TensorValue) -> String {
    let (kind, number) = match value {
        TensorValue::Float32(v) => ("float", v.to_string()),
        TensorValue::Float16(v) => ("half", v.to_string()),
        TensorValue::BFloat16(v) => ("bfloat16", v.to_string()),
        TensorValue::Float8(v) => ("8-bit float, bits", format!("{v:#04x}")),
        TensorValue::Int32(v) => ("int32", v.to_string()),
        TensorValue::Float64(v) => ("double", v.to_string()),
        TensorValue::Int64(v) => ("int64", v.to_string()),
        TensorValue::Bool(v) => ("boolean", v.to_string()),
    };
    if number == "NaN" { format!("{kind} NaN (bits {:#x})", value.bits()) } else { format!("{kind} {number}") }
}

/// The stamp in words; none when there is none.
pub(crate) fn stamp_text(stamp: Stamp) -> Option<String> {
    match stamp {
        Stamp::Absent => None,
        Stamp::Reader(n) => Some(format!("min_reader_version {n}")),
        Stamp::Api(v) => Some(format!("min_required_engine_api_version {v}")),
    }
}

/// Everything that differs between two plans: what their keys are made of, what else their metadata says, their payloads, then their
/// graphs.
///
/// # Errors
/// A section of one of the plans is damaged, or holds no graph.
pub fn plans(a: &PlanView<'_>, b: &PlanView<'_>, limits: &Limits) -> Result<Vec<Difference>, PlanDiffError> {
    let mut out = Vec::new();
    let mut field = |name: &str, a: Option<String>, b: Option<String>, changes_key: bool| {
        if a != b {
            out.push(Difference { place: Place::Plan, field: name.into(), a, b, changes_key });
        }
    };
    let (id_a, id_b) = (a.meta().identity(), b.meta().identity());
    // Every part of the key by name.
    let PlanIdentity { graph, target, provider, engine, engine_revision, knobs } = id_a;
    field("graph key", Some(graph.to_string()), Some(id_b.graph.to_string()), true);
    field("target", Some(target), Some(id_b.target), true);
    field("provider", Some(provider), Some(id_b.provider), true);
    field("engine", Some(engine), Some(id_b.engine), true);
    field("engine revision", Some(engine_revision), Some(id_b.engine_revision), true);
    let mut ids: Vec<&str> = knobs.iter().chain(&id_b.knobs).map(|k| k.id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    for id in ids {
        let value = |knobs: &[crate::Knob]| knobs.iter().find(|k| k.id == id).map(|k| k.value.clone());
        field(&format!("knob {id}"), value(&knobs), value(&id_b.knobs), true);
    }
    for ((name, x), (_, y)) in metadata(a.meta()).into_iter().zip(metadata(b.meta())) {
        field(name, Some(x), Some(y), false);
    }
    let (bindings_a, bindings_b) = (bindings(a.meta()), bindings(b.meta()));
    let mut ordinals: Vec<u32> = bindings_a.iter().chain(&bindings_b).map(|b| b.0).collect();
    ordinals.sort_unstable();
    ordinals.dedup();
    for ordinal in ordinals {
        let text = |all: &[(u32, String)]| all.iter().find(|b| b.0 == ordinal).map(|b| b.1.clone());
        field(&format!("binding {ordinal}"), text(&bindings_a), text(&bindings_b), false);
    }
    for ((name, x), (_, y)) in payload(a)?.into_iter().zip(payload(b)?) {
        field(name, Some(x), Some(y), false);
    }
    field("root hash", Some(a.root().to_string()), Some(b.root().to_string()), false);
    let graph = |plan: &PlanView<'_>| Ok::<_, PlanDiffError>(canon::decode(plan.canonical()?, limits)?);
    let (graph_a, graph_b) = (graph(a)?, graph(b)?);
    out.extend(graphs(&graph_a.view(), &graph_b.view()));
    Ok(out)
}

/// Why two plans cannot be compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanDiffError {
    /// A plan is damaged.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The graph in a plan cannot be read.
    #[error(transparent)]
    Graph(#[from] canon::DecodeError),
}

/// Metadata that is not part of the key.
fn metadata(meta: &ArchivedPlanMetaV1) -> Vec<(&'static str, String)> {
    // Every field by name: whoever adds one decides here whether it is shown.
    let ArchivedPlanMetaV1 {
        plan_key: _,
        graph_key: _,
        target: _,
        provider: _,
        engine: _,
        engine_id: _,
        engine_revision: _,
        api_floor: _,
        knobs: _,
        workspace_size,
        bindings: _,
        code_objects,
    } = meta;
    let objects: Vec<String> = code_objects.iter().map(|c| format!("{} ({} bytes)", ContentHash(c.hash), c.size)).collect();
    vec![
        ("API floor", meta.api_floor().to_string()),
        ("workspace size", workspace_size.to_string()),
        ("code objects", format!("[{}]", objects.join(", "))),
    ]
}

fn bindings(meta: &ArchivedPlanMetaV1) -> Vec<(u32, String)> {
    let text = |b: &crate::plan::ArchivedBindingV1| {
        let list = |v: &[rkyv::rend::i64_le]| v.iter().map(|d| d.to_native().to_string()).collect::<Vec<_>>().join(", ");
        let (dims, strides) = (list(&b.dims), list(&b.strides));
        format!("{:?} {} {} [{dims}] strides [{strides}], {}", b.role(), b.kind().name(), b.dtype(), b.first_use.as_str())
    };
    meta.bindings.iter().map(|b| (b.ordinal.to_native(), text(b))).collect()
}

fn payload(plan: &PlanView<'_>) -> Result<Vec<(&'static str, String)>, PlanDiffError> {
    let view = plan.payload()?.read_tables().map_err(PlanError::from)?;
    let baked: Vec<String> =
        view.baked().map(|b| format!("{} = {}{}", b.uid, value_text(b.value), if b.is_default { " (default)" } else { "" })).collect();
    Ok(vec![
        ("payload kind", view.kind().to_owned()),
        ("payload version", view.version().to_string()),
        ("payload runtime set", format!("{:?}", view.runtime_uids().collect::<Vec<_>>())),
        ("payload baked scalars", format!("[{}]", baked.join(", "))),
        ("payload body", format!("{} bytes, BLAKE3 {}", view.body().len(), blake3::hash(view.body()).to_hex())),
    ])
}
