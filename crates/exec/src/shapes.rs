//! Execute-time shapes (C10): what a pack overrides, checked against the plan's graph, and remembered for the next execution.

use crate::ExecError;
use hipplan_serialize::canon::{self, DecodeError};
use hipplan_serialize::plan::{PayloadView, PlanView};
use hipplan_serialize::{GraphBuf, Limits, ReshapeError, ShapeOverride, TensorIx, Uid};
use std::collections::HashSet;

/// Execute-time shapes that cannot be had.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the message of each variant says what its fields are")]
pub enum ShapeError {
    /// The plan was compiled for the shapes of its graph alone.
    #[error(
        "override shapes: the pack overrides the shape of uid {uid}, and the plan's graph has fixed shapes; compile a graph with \
         is_override_shape_enabled (GraphBuilder::set_override_shape_enabled)"
    )]
    NotEnabled { uid: i64 },
    /// What the graph says of the shapes.
    #[error(transparent)]
    Reshape(#[from] ReshapeError),
    /// The graph in the plan, which says how large shapes may be, cannot be read.
    #[error("override shapes: the plan's graph: {0}")]
    Graph(#[from] DecodeError),
    /// The graph may have these shapes, and the provider does not execute it with them.
    #[error("override shapes: provider {provider} does not execute the graph with these shapes: {reason}")]
    Provider { provider: String, reason: String },
}

/// Shapes by uid or ordinal in two flat lists, which keep their memory.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ShapeList {
    heads: Vec<Head>,
    /// Dims, then strides, of each.
    numbers: Vec<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Head {
    key: i64,
    start: usize,
    dims: usize,
    strides: usize,
}

impl ShapeList {
    const fn new() -> Self {
        Self { heads: Vec::new(), numbers: Vec::new() }
    }

    pub(crate) fn clear(&mut self) {
        self.heads.clear();
        self.numbers.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    pub(crate) fn push(&mut self, key: i64, dims: &[i64], strides: &[i64]) {
        self.heads.push(Head { key, start: self.numbers.len(), dims: dims.len(), strides: strides.len() });
        self.numbers.extend_from_slice(dims);
        self.numbers.extend_from_slice(strides);
    }

    fn copy_from(&mut self, other: &Self) {
        self.heads.clone_from(&other.heads);
        self.numbers.clone_from(&other.numbers);
    }

    fn get(&self, at: usize) -> Option<(i64, &[i64], &[i64])> {
        let head = self.heads.get(at)?;
        let (dims, rest) = self.numbers.get(head.start..)?.split_at_checked(head.dims)?;
        Some((head.key, dims, rest.get(..head.strides)?))
    }

    /// Key, dims and strides of each.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (i64, &[i64], &[i64])> {
        (0..self.heads.len()).map(|at| self.get(at).unwrap_or_default())
    }
}

/// The shapes of one execution, as an [`Executable`](crate::Executable) sees them: checked, and by canonical ordinal.
#[derive(Debug)]
pub struct ShapeOverrides {
    /// The tensors that the pack overrides, in its order.
    given: ShapeList,
    /// All tensors of the graph, in order of ordinals.
    tensors: ShapeList,
    set: u64,
}

/// The shape of a tensor in one execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorShape<'s> {
    /// Canonical ordinal.
    pub ordinal: u32,
    /// Dims, each at least 1.
    pub dims: &'s [i64],
    /// Strides in elements, one per dim.
    pub strides: &'s [i64],
}

impl<'s> TensorShape<'s> {
    fn new((key, dims, strides): (i64, &'s [i64], &'s [i64])) -> Self {
        // Keys of these lists are ordinals.
        Self { ordinal: key as u32, dims, strides }
    }
}

impl ShapeOverrides {
    const fn new() -> Self {
        Self { given: ShapeList::new(), tensors: ShapeList::new(), set: 0 }
    }

    /// No override: the execution has the shapes of the graph.
    pub fn is_empty(&self) -> bool {
        self.given.is_empty()
    }

    /// Number of overridden tensors.
    pub fn len(&self) -> usize {
        self.given.heads.len()
    }

    /// The overridden tensors, in the pack's order. Each is a tensor in memory.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = TensorShape<'_>> {
        self.given.iter().map(TensorShape::new)
    }

    /// Every tensor of the graph, by ordinal: overridden ones, virtual ones with the dims that follow, and the others as the graph states
    /// them. Nothing where nothing is overridden.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = TensorShape<'_>> {
        self.tensors.iter().map(TensorShape::new)
    }

    /// A number of this set of overrides: equal in two executions of one bound plan only if they have the same shapes. What was made for a
    /// set can be kept under it.
    pub fn set(&self) -> u64 {
        self.set
    }
}

/// An execution without overrides.
pub(crate) static NO_SHAPES: ShapeOverrides = ShapeOverrides::new();

/// Whether executions of a plan may have shapes of their own.
#[derive(Debug)]
pub(crate) enum Overridable {
    /// The plan's graph has not opted in.
    Fixed,
    /// It has, and still no shapes are taken, for this reason.
    Refused(ShapeError),
    /// Shapes are taken that this accepts.
    Checked(Box<PlanShapes>),
}

impl Overridable {
    /// Takes a set of overrides, which is not empty.
    ///
    /// # Errors
    /// What is wrong with them, or why none are taken.
    pub(crate) fn accept(&mut self, given: &ShapeList) -> Result<&PlanShapes, ShapeError> {
        match self {
            Self::Fixed => Err(ShapeError::NotEnabled { uid: given.iter().next().map_or(0, |(uid, ..)| uid) }),
            Self::Refused(error) => Err(error.clone()),
            Self::Checked(shapes) => {
                shapes.accept(given)?;
                Ok(shapes)
            }
        }
    }
}

/// Reads what a plan's graph says of shapes, if it has opted in; other plans pay for nothing. `is_taken` says whether the plan's executable
/// looks at shapes; `author` gives the caller's uid and name of a tensor by its ordinal.
///
/// # Errors
/// The canonical section is damaged, or the bindings are not those of the graph in it: buffers are checked against the bindings, and their
/// shapes against the graph. A graph beyond [`Limits::DEFAULT`] is no error before a shape is overridden.
pub(crate) fn of_plan(
    plan: &PlanView<'_>,
    payload: &PayloadView<'_>,
    is_taken: bool,
    author: &dyn Fn(u32) -> Option<(i64, String)>,
) -> Result<Overridable, ExecError> {
    if !plan.is_override_shape_enabled() {
        return Ok(Overridable::Fixed);
    }
    if !is_taken {
        let provider = plan.meta().provider.as_str().to_owned();
        let reason = "it executes the shapes that were compiled".to_owned();
        return Ok(Overridable::Refused(ShapeError::Provider { provider, reason }));
    }
    let encoding = plan.canonical()?;
    let graph = match named(encoding, author) {
        Ok(graph) => graph,
        Err(error) => return Ok(Overridable::Refused(error.into())),
    };
    let view = graph.view();
    let uids: Vec<Uid> = view.tensors().iter().map(|tensor| tensor.uid).collect();
    crate::agreement::check(plan.meta(), payload, &view, &uids)?;
    let shapes = PlanShapes { graph, last: ShapeList::new(), overrides: ShapeOverrides::new(), spans: Vec::new() };
    Ok(Overridable::Checked(Box::new(shapes)))
}

/// A plan's graph with the caller's uids and names, its tensors in order of ordinals. Who names the plan's bindings only, or gives a virtual
/// tensor the uid of another, leaves the virtual ones to be numbered here.
fn named(encoding: &[u8], author: &dyn Fn(u32) -> Option<(i64, String)>) -> Result<GraphBuf, DecodeError> {
    let by_ordinal = canon::decode(encoding, &Limits::DEFAULT)?;
    let view = by_ordinal.view();
    let authors = |ordinal| author(ordinal).unwrap_or((i64::from(ordinal), String::new()));
    let tensors = || view.tensors().iter().zip(0_u32..);
    let mut taken: HashSet<i64> = tensors().filter(|(tensor, _)| !tensor.is_virtual).map(|(_, ordinal)| authors(ordinal).0).collect();
    let mut names = Vec::with_capacity(view.tensors().len());
    let mut free = i64::MIN;
    for (tensor, ordinal) in tensors() {
        let (mut uid, name) = authors(ordinal);
        while tensor.is_virtual && !taken.insert(uid) {
            (uid, free) = (free, free.saturating_add(1));
        }
        names.push((Uid(uid), name));
    }
    canon::decode_as(encoding, &Limits::DEFAULT, &|ordinal| names.get(ordinal as usize).cloned())
}

/// What a plan keeps to check overrides by.
#[derive(Debug)]
pub(crate) struct PlanShapes {
    /// The plan's graph, as [`named`].
    graph: GraphBuf,
    /// The last overrides that were accepted, as the pack gave them; empty if there are none.
    last: ShapeList,
    /// What they come to.
    overrides: ShapeOverrides,
    /// Uid and bytes of each overridden tensor.
    spans: Vec<(i64, u64)>,
}

impl PlanShapes {
    /// Takes a set of overrides, which is not empty. The last set is accepted again without looking at it twice, and without allocating.
    ///
    /// # Errors
    /// What is wrong with them.
    fn accept(&mut self, given: &ShapeList) -> Result<(), ShapeError> {
        if self.last == *given {
            return Ok(());
        }
        // Whatever is refused from here on leaves nothing to fall back to.
        self.last.clear();
        let view = self.graph.view();
        let list: Vec<_> = given.iter().map(|(uid, dims, strides)| ShapeOverride { uid: Uid(uid), dims, strides }).collect();
        let reshaped = view.reshape(&list)?;
        let reshaped = reshaped.view();
        let ShapeOverrides { given: by_ordinal, tensors, set } = &mut self.overrides;
        by_ordinal.clear();
        tensors.clear();
        self.spans.clear();
        for (tensor, ordinal) in reshaped.tensors().iter().zip(0_i64..) {
            tensors.push(ordinal, tensor.dims, tensor.strides);
        }
        for (uid, dims, strides) in given.iter() {
            let ix = reshaped.find(Uid(uid)).ok_or(ReshapeError::UnknownUid { uid })?;
            by_ordinal.push(ordinal(ix), dims, strides);
            self.spans.push((uid, reshaped.tensor(ix).span_bytes()));
        }
        *set = set.wrapping_add(1);
        self.last.copy_from(given);
        Ok(())
    }

    pub(crate) fn overrides(&self) -> &ShapeOverrides {
        &self.overrides
    }

    /// Uid and bytes, from the first element to the last, of each tensor that the accepted set overrides.
    pub(crate) fn spans(&self) -> &[(i64, u64)] {
        &self.spans
    }
}

fn ordinal(ix: TensorIx) -> i64 {
    i64::try_from(ix.index()).unwrap_or(i64::MAX)
}
