//! The meaning of a graph (G6): rules between tensors and nodes, and the rules of the operations.
//!
//! Rules of one tensor alone are checked while it is read. The operations whose shapes are not checked here yet are carried
//! as they are; no engine of ours executes them.

use super::view::{NodeIx, TensorIx, TensorView, VerifiedGraph};
use crate::ops::{BatchnormInference, BatchnormInferenceVariance, FieldRole, Matmul, Op, Pointwise, Uid};
use crate::{ConvMode, GraphError, PointwiseMode};

/// Checks everything that the rest of the program takes for granted.
pub(super) fn check(graph: &VerifiedGraph<'_>) -> Result<(), GraphError> {
    if graph.node_count() == 0 {
        return Err(GraphError::Empty);
    }
    let writer = find_writers(graph)?;
    check_order(graph, &writer)?;
    check_connected(graph)?;
    for node in graph.nodes() {
        check_op(graph, node)?;
    }
    Ok(())
}

/// The node that writes each tensor; each is written at most once, and only where writing makes sense.
fn find_writers(graph: &VerifiedGraph<'_>) -> Result<Vec<Option<NodeIx>>, GraphError> {
    let mut writer: Vec<Option<NodeIx>> = vec![None; graph.tensors().len()];
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
            if let Some(first) = writer[ix.index()].replace(node) {
                return Err(GraphError::WrittenTwice {
                    tensor: graph.tensor_label(ix),
                    first: graph.node_label(first),
                    second: graph.node_label(node),
                });
            }
        }
    }
    Ok(writer)
}

/// The tensors that a node reads: its inputs, and the offsets of whatever ragged tensor it reads or writes.
fn reads<'g>(graph: &'g VerifiedGraph<'_>, node: NodeIx) -> impl Iterator<Item = TensorIx> + 'g {
    let operands = graph.operands(node).iter();
    operands.flat_map(|o| [(o.role == FieldRole::Input).then_some(o.tensor), graph.tensor(o.tensor).ragged_offset]).flatten()
}

/// Every tensor is written before it is read, and every virtual tensor is written at all.
fn check_order(graph: &VerifiedGraph<'_>, writer: &[Option<NodeIx>]) -> Result<(), GraphError> {
    for node in graph.nodes() {
        for ix in reads(graph, node) {
            match writer[ix.index()] {
                Some(w) if w >= node => return Err(order_error(graph, writer, node, w, ix)),
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
fn order_error(graph: &VerifiedGraph<'_>, writer: &[Option<NodeIx>], reader: NodeIx, later: NodeIx, tensor: TensorIx) -> GraphError {
    let mut seen = vec![false; graph.node_count()];
    let mut stack = vec![later];
    while let Some(node) = stack.pop() {
        if node == reader {
            return GraphError::Cycle { node: graph.node_label(reader), tensor: graph.tensor_label(tensor) };
        }
        if std::mem::replace(&mut seen[node.index()], true) {
            continue;
        }
        stack.extend(reads(graph, node).filter_map(|ix| writer[ix.index()]));
    }
    GraphError::Order { reader: graph.node_label(reader), writer: graph.node_label(later), tensor: graph.tensor_label(tensor) }
}

/// All nodes hang together through the tensors that they share.
fn check_connected(graph: &VerifiedGraph<'_>) -> Result<(), GraphError> {
    if graph.node_count() == 1 {
        return Ok(());
    }
    // Union-find over nodes, joined by the first user of each tensor.
    fn find(parent: &mut [u32], mut i: u32) -> u32 {
        while parent[i as usize] != i {
            parent[i as usize] = parent[parent[i as usize] as usize];
            i = parent[i as usize];
        }
        i
    }
    let mut parent: Vec<u32> = (0..graph.node_count() as u32).collect();
    let mut first_user: Vec<Option<u32>> = vec![None; graph.tensors().len()];
    for node in graph.nodes() {
        let written = graph.operands(node).iter().filter(|o| o.role == FieldRole::Output).map(|o| o.tensor);
        for ix in reads(graph, node).chain(written) {
            match first_user[ix.index()] {
                None => first_user[ix.index()] = Some(node.0),
                Some(other) => {
                    let (a, b) = (find(&mut parent, other), find(&mut parent, node.0));
                    parent[a.max(b) as usize] = a.min(b);
                }
            }
        }
    }
    let orphan = graph.nodes().find(|node| find(&mut parent, node.0) != 0);
    orphan.map_or(Ok(()), |node| Err(GraphError::Orphan { node: graph.node_label(node) }))
}

/// A node whose rules are being checked.
struct Rules<'g, 'a> {
    graph: &'g VerifiedGraph<'a>,
    node: NodeIx,
}

impl<'g, 'a> Rules<'g, 'a> {
    fn fail<T>(&self, field: impl Into<String>, found: impl ToString, expected: impl Into<String>) -> Result<T, GraphError> {
        Err(GraphError::Rule {
            node: self.graph.node_label(self.node),
            field: field.into(),
            found: found.to_string(),
            expected: expected.into(),
        })
    }

    fn tensor(&self, uid: Uid) -> &'g TensorView<'a> {
        match self.graph.find(uid) {
            Some(ix) => self.graph.tensor(ix),
            None => unreachable!("every operand was resolved when its node was read"),
        }
    }

    fn scalar(&self, slot: &'static str, uid: Uid) -> Result<(), GraphError> {
        if self.tensor(uid).is_by_value() {
            return Ok(());
        }
        let ix = self.graph.find(uid).unwrap_or(TensorIx(0));
        Err(GraphError::OperandNotScalar { node: self.graph.node_label(self.node), slot, tensor: self.graph.tensor_label(ix) })
    }

    fn same_dims(&self, a_name: &str, a: &[i64], b_name: &str, b: &[i64]) -> Result<(), GraphError> {
        if a == b { Ok(()) } else { self.fail(format!("{a_name}.dims"), format!("{a:?}"), format!("{b:?}, the dims of {b_name}")) }
    }
}

fn check_op(graph: &VerifiedGraph<'_>, node: NodeIx) -> Result<(), GraphError> {
    let r = Rules { graph, node };
    match &graph.op(node) {
        Op::ConvolutionFwd(op) => {
            let names = ["x", "w", "y"];
            convolution(&r, names, op.x, op.w, op.y, [op.pre_padding, op.post_padding, op.stride, op.dilation], op.conv_mode)
        }
        Op::ConvolutionBwd(op) => {
            let names = ["dx", "w", "dy"];
            convolution(&r, names, op.dx, op.w, op.dy, [op.pre_padding, op.post_padding, op.stride, op.dilation], op.conv_mode)
        }
        Op::ConvolutionWrw(op) => {
            let names = ["x", "dw", "dy"];
            convolution(&r, names, op.x, op.dw, op.dy, [op.pre_padding, op.post_padding, op.stride, op.dilation], op.conv_mode)
        }
        Op::Pointwise(op) => pointwise(&r, op),
        Op::Matmul(op) => matmul(&r, op),
        Op::BatchnormInference(BatchnormInference { x, mean, inv_variance, scale, bias, y }) => {
            batchnorm(&r, *x, *y, &[("mean", *mean), ("inv_variance", *inv_variance), ("scale", *scale), ("bias", *bias)])
        }
        Op::BatchnormInferenceVariance(BatchnormInferenceVariance { x, mean, variance, scale, bias, y, epsilon }) => {
            r.scalar("epsilon", *epsilon)?;
            batchnorm(&r, *x, *y, &[("mean", *mean), ("variance", *variance), ("scale", *scale), ("bias", *bias)])
        }
        Op::Batchnorm(op) => {
            r.scalar("epsilon", op.epsilon)?;
            op.momentum.map_or(Ok(()), |uid| r.scalar("momentum", uid))
        }
        Op::Layernorm(op) => r.scalar("epsilon", op.epsilon),
        Op::RmsNorm(op) => r.scalar("epsilon", op.epsilon),
        Op::LayernormBackward(op) => op.epsilon.map_or(Ok(()), |uid| r.scalar("epsilon", uid)),
        Op::Sdpa(op) => op.scale.map_or(Ok(()), |uid| r.scalar("scale", uid)),
        Op::SdpaBackward(op) => op.scale.map_or(Ok(()), |uid| r.scalar("scale", uid)),
        _ => Ok(()),
    }
}

/// The three convolutions obey one rule between the image side (`x` or `dx`), the filter and the other side (`y` or `dy`).
fn convolution(
    r: &Rules<'_, '_>,
    [x_name, w_name, y_name]: [&str; 3],
    x: Uid,
    w: Uid,
    y: Uid,
    [pre, post, stride, dilation]: [&[i64]; 4],
    mode: ConvMode,
) -> Result<(), GraphError> {
    let (x, w, y) = (r.tensor(x).dims, r.tensor(w).dims, r.tensor(y).dims);
    if !(3..=5).contains(&x.len()) {
        return r.fail(format!("rank of {x_name}"), x.len(), "3, 4 or 5: batch, channels and 1 to 3 spatial dimensions");
    }
    for (name, dims) in [(w_name, w), (y_name, y)] {
        if dims.len() != x.len() {
            return r.fail(format!("rank of {name}"), dims.len(), format!("{}, the rank of {x_name}", x.len()));
        }
    }
    let spatial = x.len() - 2;
    for (name, list, least) in [("pre_padding", pre, 0), ("post_padding", post, 0), ("stride", stride, 1), ("dilation", dilation, 1)] {
        if list.len() != spatial {
            return r.fail(format!("length of {name}"), list.len(), format!("{spatial}, one per spatial dimension"));
        }
        if let Some(v) = list.iter().find(|&&v| v < least) {
            return r.fail(name, v, format!("at least {least}"));
        }
    }
    if mode == ConvMode::Unset {
        return r.fail("conv_mode", mode, "CONVOLUTION or CROSS_CORRELATION");
    }
    if y[0] != x[0] {
        return r.fail(format!("{y_name}.dims[0]"), y[0], format!("{}, the batch of {x_name}", x[0]));
    }
    if y[1] != w[0] {
        return r.fail(format!("{y_name}.dims[1]"), y[1], format!("{}, the filters of {w_name}", w[0]));
    }
    if x[1] % w[1] != 0 {
        return r.fail(format!("{x_name}.dims[1]"), x[1], format!("a multiple of {}, the channels of {w_name}", w[1]));
    }
    let groups = x[1] / w[1];
    if w[0] % groups != 0 {
        return r.fail(format!("{w_name}.dims[0]"), w[0], format!("a multiple of {groups}, the number of groups"));
    }
    for i in 0..spatial {
        // 128 bits hold any combination of these numbers.
        let [size, filter, pre, post, stride, dilation] = [x[i + 2], w[i + 2], pre[i], post[i], stride[i], dilation[i]].map(i128::from);
        let room = size + pre + post - ((filter - 1) * dilation + 1);
        if room < 0 {
            let field = format!("{x_name}.dims[{}] with padding", i + 2);
            return r.fail(field, size + pre + post, format!("at least {}, the extent of the filter", (filter - 1) * dilation + 1));
        }
        let expected = room / stride + 1;
        if i128::from(y[i + 2]) != expected {
            let from = format!("{expected} = ({size} + {pre} + {post} - (({filter} - 1) * {dilation} + 1)) / {stride} + 1");
            return r.fail(format!("{y_name}.dims[{}]", i + 2), y[i + 2], from);
        }
    }
    Ok(())
}

/// Aligns dims at the right, as numpy broadcasts.
fn dim_from_right(dims: &[i64], from_right: usize) -> i64 {
    dims.len().checked_sub(from_right + 1).map_or(1, |i| dims[i])
}

fn pointwise(r: &Rules<'_, '_>, op: &Pointwise) -> Result<(), GraphError> {
    let arity = match op.mode {
        PointwiseMode::Unset => return r.fail("operation", op.mode, "a function"),
        mode => mode.arity(),
    };
    for (slot, operand, wanted) in [("in_1", op.in_1, arity >= 2), ("in_2", op.in_2, arity >= 3)] {
        if operand.is_some() != wanted {
            let found = if wanted { "absent" } else { "present" };
            return r.fail(slot, found, format!("{} inputs for {}", arity, op.mode));
        }
    }
    let out = r.tensor(op.out_0).dims;
    if op.mode == PointwiseMode::GenIndex {
        let rank = out.len() as i64;
        match op.axis {
            Some(axis) if (0..rank).contains(&axis) => {}
            Some(axis) => return r.fail("axis", axis, format!("0..{rank}, a dimension of out_0")),
            None => return r.fail("axis", "absent", "a dimension of out_0, because gen_index needs one"),
        }
    }
    let inputs = [("in_0", Some(op.in_0)), ("in_1", op.in_1), ("in_2", op.in_2)];
    let inputs = inputs.into_iter().filter_map(|(slot, uid)| uid.map(|uid| (slot, r.tensor(uid).dims)));
    for (slot, dims) in inputs.clone() {
        if dims.len() > out.len() {
            return r.fail(format!("rank of {slot}"), dims.len(), format!("at most {}, the rank of out_0", out.len()));
        }
        for i in 0..dims.len() {
            let (found, wanted) = (dim_from_right(dims, i), dim_from_right(out, i));
            if found != 1 && found != wanted {
                return r.fail(format!("{slot}.dims"), format!("{dims:?}"), format!("dims that broadcast to {out:?}, the dims of out_0"));
            }
        }
    }
    for i in 0..out.len() {
        let widest = inputs.clone().map(|(_, dims)| dim_from_right(dims, i)).max().unwrap_or(1);
        if widest != dim_from_right(out, i) {
            return r.fail(
                "out_0.dims",
                format!("{out:?}"),
                format!("{widest} at position {}, as the inputs broadcast", out.len() - 1 - i),
            );
        }
    }
    Ok(())
}

fn matmul(r: &Rules<'_, '_>, op: &Matmul) -> Result<(), GraphError> {
    let (a, b, c) = (r.tensor(op.a).dims, r.tensor(op.b).dims, r.tensor(op.c).dims);
    for (name, dims) in [("a", a), ("b", b), ("c", c)] {
        if dims.len() < 2 {
            return r.fail(format!("rank of {name}"), dims.len(), "at least 2");
        }
    }
    let (m, k, n) = (a[a.len() - 2], a[a.len() - 1], b[b.len() - 1]);
    if b[b.len() - 2] != k {
        return r.fail("b.dims[-2]", b[b.len() - 2], format!("{k}, the last dim of a"));
    }
    if c[c.len() - 2..] != [m, n] {
        return r.fail("c.dims", format!("{c:?}"), format!("[.., {m}, {n}]"));
    }
    let batch = |dims: &[i64], i| dim_from_right(&dims[..dims.len() - 2], i);
    for i in 0..a.len().max(b.len()).max(c.len()) - 2 {
        let (from_a, from_b, found) = (batch(a, i), batch(b, i), batch(c, i));
        if from_a != from_b && from_a != 1 && from_b != 1 {
            return r.fail("b.dims", format!("{b:?}"), format!("batch dims that broadcast with {a:?}, the dims of a"));
        }
        if found != from_a.max(from_b) {
            return r.fail("c.dims", format!("{c:?}"), format!("batch dims as {a:?} and {b:?} broadcast"));
        }
    }
    Ok(())
}

fn batchnorm(r: &Rules<'_, '_>, x: Uid, y: Uid, parameters: &[(&str, Uid)]) -> Result<(), GraphError> {
    let (x, y) = (r.tensor(x).dims, r.tensor(y).dims);
    if x.len() < 2 {
        return r.fail("rank of x", x.len(), "at least 2: batch and channels");
    }
    r.same_dims("y", y, "x", x)?;
    let channels = x[1];
    for &(name, uid) in parameters {
        let dims = r.tensor(uid).dims;
        let per_channel = dims.len() == x.len() && dims.iter().enumerate().all(|(i, &d)| d == if i == 1 { channels } else { 1 });
        if !per_channel && dims != [channels] {
            return r.fail(
                format!("{name}.dims"),
                format!("{dims:?}"),
                format!("[1, {channels}, 1...] or [{channels}]: one value per channel"),
            );
        }
    }
    Ok(())
}
