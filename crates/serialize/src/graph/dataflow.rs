//! The rules between tensors and nodes: who writes, who reads, in which order, and that all hangs together.

use super::view::{NodeIx, TensorIx, VerifiedGraph};
use crate::GraphError;
use crate::ops::FieldRole;

/// Checks the flow of data through the graph.
pub(super) fn check(graph: &VerifiedGraph<'_>) -> Result<(), GraphError> {
    if graph.node_count() == 0 {
        return Err(GraphError::Empty);
    }
    let writers = Writers::find(graph)?;
    check_order(graph, &writers)?;
    check_connected(graph)
}

/// The node that writes each tensor.
struct Writers(Vec<Option<NodeIx>>);

impl Writers {
    /// Each tensor is written at most once, and only where writing makes sense.
    fn find(graph: &VerifiedGraph<'_>) -> Result<Self, GraphError> {
        let mut writers = Self(vec![None; graph.tensors().len()]);
        for node in graph.nodes() {
            for operand in graph.operands(node).iter().filter(|o| o.role == FieldRole::Output) {
                let ix = operand.tensor;
                let tensor = graph.tensor(ix);
                if tensor.is_by_value() {
                    let slot = graph.slot_name(node, operand);
                    return Err(GraphError::ScalarWritten { tensor: graph.tensor_label(ix), node: graph.node_label(node), slot });
                }
                let pairs = tensor.dims.iter().copied().zip(tensor.strides.iter().copied());
                if let Some((axis, (dim, _))) = pairs.enumerate().find(|&(_, (dim, stride))| dim > 1 && stride == 0) {
                    return Err(GraphError::OutputOverlaps { tensor: graph.tensor_label(ix), node: graph.node_label(node), axis, dim });
                }
                // More elements than places: some share one. (Where there are places enough, elements may still meet; engines look closer.)
                if tensor.ragged_offset.is_none() && tensor.elements() > tensor.span() {
                    let (elements, places) = (tensor.elements(), tensor.span());
                    let (tensor, node) = (graph.tensor_label(ix), graph.node_label(node));
                    return Err(GraphError::OutputTooDense { tensor, node, elements, places });
                }
                if let Some(first) = writers.0.get_mut(ix.index()).and_then(|w| w.replace(node)) {
                    return Err(GraphError::WrittenTwice {
                        tensor: graph.tensor_label(ix),
                        first: graph.node_label(first),
                        second: graph.node_label(node),
                    });
                }
            }
        }
        Ok(writers)
    }

    fn of(&self, ix: TensorIx) -> Option<NodeIx> {
        self.0.get(ix.index()).copied().flatten()
    }
}

/// The tensors that a node reads: its inputs, and the offsets of whatever ragged tensor it reads or writes.
fn reads<'g>(graph: &'g VerifiedGraph<'_>, node: NodeIx) -> impl Iterator<Item = TensorIx> + 'g {
    let operands = graph.operands(node).iter();
    operands.flat_map(|o| [(o.role == FieldRole::Input).then_some(o.tensor), graph.tensor(o.tensor).ragged_offset]).flatten()
}

/// Every tensor is written before it is read, and every virtual tensor is written at all.
fn check_order(graph: &VerifiedGraph<'_>, writers: &Writers) -> Result<(), GraphError> {
    for node in graph.nodes() {
        for ix in reads(graph, node) {
            match writers.of(ix) {
                Some(w) if w >= node => return Err(order_error(graph, writers, node, w, ix)),
                None if graph.tensor(ix).is_virtual => {
                    return Err(GraphError::VirtualUnwritten { tensor: graph.tensor_label(ix), node: graph.node_label(node) });
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// Tells a cycle from nodes that merely stand in the wrong order: can `later` be reached from `reader`?
fn order_error(graph: &VerifiedGraph<'_>, writers: &Writers, reader: NodeIx, later: NodeIx, tensor: TensorIx) -> GraphError {
    let mut seen = vec![false; graph.node_count()];
    let mut stack = vec![later];
    while let Some(node) = stack.pop() {
        if node == reader {
            return GraphError::Cycle { node: graph.node_label(reader), tensor: graph.tensor_label(tensor) };
        }
        let first_time = seen.get_mut(node.index()).is_some_and(|seen| !std::mem::replace(seen, true));
        if first_time {
            stack.extend(reads(graph, node).filter_map(|ix| writers.of(ix)));
        }
    }
    GraphError::Order { reader: graph.node_label(reader), writer: graph.node_label(later), tensor: graph.tensor_label(tensor) }
}

/// Groups of nodes, joined one by one: a forest in which each node points towards the first node of its group.
struct Groups(Vec<u32>);

impl Groups {
    fn parent(&self, i: u32) -> u32 {
        self.0.get(i as usize).copied().unwrap_or(i)
    }

    fn set(&mut self, i: u32, parent: u32) {
        if let Some(p) = self.0.get_mut(i as usize) {
            *p = parent;
        }
    }

    fn first_of(&mut self, mut i: u32) -> u32 {
        while self.parent(i) != i {
            let grandparent = self.parent(self.parent(i));
            self.set(i, grandparent);
            i = grandparent;
        }
        i
    }

    fn join(&mut self, a: u32, b: u32) {
        let (a, b) = (self.first_of(a), self.first_of(b));
        self.set(a.max(b), a.min(b));
    }
}

/// All nodes hang together through the tensors that they share.
fn check_connected(graph: &VerifiedGraph<'_>) -> Result<(), GraphError> {
    if graph.node_count() == 1 {
        return Ok(());
    }
    let mut groups = Groups(graph.nodes().map(|node| node.0).collect());
    let mut first_user: Vec<Option<u32>> = vec![None; graph.tensors().len()];
    for node in graph.nodes() {
        let written = graph.operands(node).iter().filter(|o| o.role == FieldRole::Output).map(|o| o.tensor);
        for ix in reads(graph, node).chain(written) {
            match first_user.get_mut(ix.index()) {
                Some(Some(other)) => groups.join(*other, node.0),
                Some(unused) => *unused = Some(node.0),
                None => {}
            }
        }
    }
    let orphan = graph.nodes().find(|node| groups.first_of(node.0) != 0);
    orphan.map_or(Ok(()), |node| Err(GraphError::Orphan { node: graph.node_label(node) }))
}
