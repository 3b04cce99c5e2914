//! Which nodes become one step: an operation and the pointwise chain behind it.

use hipplan_serialize::{FieldRole, NodeIx, OpKind, PointwiseMode, TensorIx, VerifiedGraph};

/// The nodes of one step, in order. All but the first are pointwise, and each reads the result of the one before.
pub(crate) type Group = Vec<NodeIx>;

/// Every node a step of its own.
pub(crate) fn one_each(graph: &VerifiedGraph<'_>) -> Vec<Group> {
    graph.nodes().map(|node| vec![node]).collect()
}

/// Groups nodes greedily, in order. A pointwise node joins the step that makes one of its inputs if that input is virtual, is read by
/// nobody else, and has the dims of the node's result.
///
/// Groups are ordered by their last node, where everything that any of them reads has been made.
pub(crate) fn fuse(graph: &VerifiedGraph<'_>) -> Vec<Group> {
    let consumer = only_consumers(graph);
    let mut taken = vec![false; graph.node_count()];
    let mut groups: Vec<Group> = Vec::with_capacity(graph.node_count());
    for head in graph.nodes() {
        if taken[head.index()] {
            continue;
        }
        let mut group = vec![head];
        let mut tail = head;
        while let Some(next) = next_of(graph, tail, &consumer).filter(|next| !taken[next.index()]) {
            taken[next.index()] = true;
            group.push(next);
            tail = next;
        }
        groups.push(group);
    }
    groups.sort_by_key(|group| group.last().copied());
    groups
}

/// The one node that reads each tensor, where there is exactly one.
fn only_consumers(graph: &VerifiedGraph<'_>) -> Vec<Option<NodeIx>> {
    let mut readers: Vec<Option<NodeIx>> = vec![None; graph.tensors().len()];
    let mut shared = vec![false; graph.tensors().len()];
    for node in graph.nodes() {
        for operand in graph.operands(node).iter().filter(|o| o.role == FieldRole::Input) {
            let at = operand.tensor.index();
            match readers[at].replace(node) {
                Some(other) if other != node => shared[at] = true,
                _ => {}
            }
        }
    }
    readers.into_iter().zip(shared).map(|(reader, shared)| reader.filter(|_| !shared)).collect()
}

fn next_of(graph: &VerifiedGraph<'_>, tail: NodeIx, consumer: &[Option<NodeIx>]) -> Option<NodeIx> {
    let result = output(graph, tail)?;
    let tensor = graph.tensor(result);
    let next = consumer[result.index()].filter(|_| tensor.is_virtual)?;
    let joins = graph.kind(next) == OpKind::Pointwise
        && !matches!(graph.op(next), hipplan_serialize::Op::Pointwise(op) if op.mode == PointwiseMode::GenIndex)
        && graph.tensor(output(graph, next)?).dims == tensor.dims;
    joins.then_some(next)
}

/// The tensor that a node writes, if it writes exactly one.
pub(crate) fn output(graph: &VerifiedGraph<'_>, node: NodeIx) -> Option<TensorIx> {
    let mut outputs = graph.operands(node).iter().filter(|o| o.role == FieldRole::Output);
    let first = outputs.next()?;
    outputs.next().is_none().then_some(first.tensor)
}
