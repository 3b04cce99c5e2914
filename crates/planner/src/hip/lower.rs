//! Graph to program: groups of nodes to work, work to launches, tensors to places.

use super::emit::{self, KernelLaunch};
use super::epilogue::{Addressed, Epilogue, Spread, Value};
use super::shape::{self, ConvAttributes, Shape};
use super::work::{Element, Number, Operand, Sum, Work};
use crate::Refusal;
use crate::fuse::{self, Group};
use crate::hip::compiler::KernelSource;
use crate::workspace::{self, Interval};
use hipplan_exec::hip::{HIP_WORKSPACE_ALIGN, HipProgram, HipTensor, KernelEntry, Launch, ScalarType, TensorPlace};
use hipplan_serialize::{
    ConvMode, DataType, NodeIx, Op, PointwiseMode, Target, TensorIx, TensorValue, TensorView, Uid, VerifiedGraph, ops,
};
use std::collections::HashMap;

/// A program without its code objects: kernel `i` of the program is compiled from source `i`.
#[derive(Clone, Debug)]
pub(super) struct Lowered {
    pub(super) program: HipProgram,
    pub(super) sources: Vec<KernelSource>,
}

/// Tensors that one epilogue reads; each takes registers in every thread.
const MOST_EPILOGUE_TENSORS: usize = 4;
/// Launches that a strided data gradient may take.
const MOST_PARTS: i64 = 1024;
/// Extents, strides in elements, and attributes of convolutions are below these, so that products of an attribute and a stride stay
/// within 64 bits.
const EXTENT_LIMIT: i64 = 1 << 31;
const STRIDE_LIMIT: i64 = 1 << 40;
const ATTRIBUTE_LIMIT: i64 = 1 << 20;
/// Elements from a tensor's first to its last: more than any memory holds, and few enough that bytes of whole graphs are counted in 64 bits.
const SPAN_LIMIT: u64 = 1 << 40;

/// Lowers a canonical graph, whose uids are ordinals.
///
/// # Errors
/// What the provider does not have, for a person to act on.
pub(super) fn lower(graph: &VerifiedGraph<'_>, target: &Target) -> Result<Lowered, Refusal> {
    check_tensors(graph)?;
    let mut lowering = Lowering::new(graph, target);
    for group in fuse::fuse(graph) {
        lowering.group(&group)?;
    }
    Ok(lowering.finish())
}

fn declined(reason: impl Into<String>) -> Refusal {
    Refusal::Declined(reason.into())
}

fn check_tensors(graph: &VerifiedGraph<'_>) -> Result<(), Refusal> {
    // Extents and strides are numbers in the kernels' texts, so that nothing is left to override at execute (C3, C10).
    if graph.is_override_shape_enabled() {
        return Err(declined(
            "it compiles shapes into its kernels, and the graph leaves them to each execution (is_override_shape_enabled)",
        ));
    }
    for ix in graph.tensor_ixs() {
        let tensor = graph.tensor(ix);
        let label = || format!("{} in canonical order", graph.tensor_label(ix));
        if tensor.ragged_offset.is_some() {
            return Err(declined(format!("ragged tensors are not implemented ({})", label())));
        }
        if Element::of(tensor.dtype).is_none() && !tensor.is_by_value() {
            return Err(declined(format!("kernels do not have type {} ({})", tensor.dtype, label())));
        }
        if tensor.span() > SPAN_LIMIT {
            let span = tensor.span();
            return Err(declined(format!(
                "tensors of up to {SPAN_LIMIT} elements, gaps included, are implemented, not of {span} ({})",
                label()
            )));
        }
        for (what, numbers, limit) in [("extents", tensor.dims, EXTENT_LIMIT), ("strides", tensor.strides, STRIDE_LIMIT)] {
            if let Some(n) = numbers.iter().find(|n| !(0..limit).contains(*n)) {
                return Err(declined(format!("{what} from 0 to {} are implemented, not {n} ({})", limit - 1, label())));
            }
        }
    }
    Ok(())
}

/// A program in the making; its workspace tensors have no places yet.
struct Lowering<'g, 'v> {
    graph: &'g VerifiedGraph<'v>,
    target: &'g Target,
    tensors: Vec<HipTensor>,
    /// The graph tensor that each is; none for scratch memory.
    origins: Vec<Option<TensorIx>>,
    /// Program tensor of each graph tensor that is used.
    known: Vec<Option<u32>>,
    /// When each workspace tensor is made and last used, in groups: by program tensor.
    lives: Vec<Option<(usize, usize)>>,
    groups: usize,
    kernels: HashMap<String, u32>,
    sources: Vec<KernelSource>,
    program: HipProgram,
}

impl<'g, 'v> Lowering<'g, 'v> {
    fn new(graph: &'g VerifiedGraph<'v>, target: &'g Target) -> Self {
        Self {
            graph,
            target,
            tensors: Vec::new(),
            origins: Vec::new(),
            known: vec![None; graph.tensors().len()],
            lives: Vec::new(),
            groups: 0,
            kernels: HashMap::new(),
            sources: Vec::new(),
            program: HipProgram::default(),
        }
    }

    /// Lowers a group fused, or, where a kernel cannot do it at once, node by node.
    fn group(&mut self, group: &Group) -> Result<(), Refusal> {
        let works = match self.works(group) {
            Err(_) if group.len() > 1 => {
                for &node in group {
                    self.group(&vec![node])?;
                }
                return Ok(());
            }
            other => other?,
        };
        for work in works {
            self.launch(&work)?;
        }
        self.groups += 1;
        Ok(())
    }

    /// Adds the launches of a piece of work.
    fn launch(&mut self, work: &Work) -> Result<(), Refusal> {
        let now = self.groups;
        let (tensors, lives, origins) = (&mut self.tensors, &mut self.lives, &mut self.origins);
        let mut scratch = |bytes: u64| {
            origins.push(None);
            tensors.push(HipTensor { place: TensorPlace::Workspace { offset: 0 }, bytes, written: true });
            lives.push(Some((now, now)));
            (tensors.len() - 1) as u32
        };
        let launches = emit::launches(work, self.target, &mut scratch).map_err(|e| declined(e.to_string()))?;
        self.tensors[work.out.tensor as usize].written = true;
        for KernelLaunch { kernel, grid } in launches {
            let next = self.kernels.len() as u32;
            let number = *self.kernels.entry(kernel.source.name.clone()).or_insert(next);
            if number == next {
                let KernelSource { name, kernarg_size, block, .. } = &kernel.source;
                self.program.kernels.push(KernelEntry {
                    code_object: number,
                    name: name.clone(),
                    kernarg_size: *kernarg_size,
                    block: *block,
                });
                self.sources.push(kernel.source);
            }
            let position = |n: usize| u32::try_from(n).map_err(|_| declined("the graph takes more launches than a plan can hold"));
            self.program.launches.push(Launch {
                kernel: number,
                grid,
                kernarg_at: position(self.program.kernargs.len())?,
                patches_at: position(self.program.patches.len())?,
                patches: position(kernel.patches.len())?,
            });
            self.program.kernargs.extend(kernel.kernarg);
            self.program.patches.extend(kernel.patches);
        }
        Ok(())
    }

    fn finish(self) -> Lowered {
        let Self { mut tensors, lives, mut program, sources, .. } = self;
        let mut intervals = Vec::new();
        for (tensor, life) in lives.iter().enumerate() {
            if let Some((start, end)) = *life {
                let size = tensors[tensor].bytes.next_multiple_of(HIP_WORKSPACE_ALIGN as u64);
                intervals.push(Interval { tensor, start, end, size });
            }
        }
        let layout = workspace::assign(&intervals);
        for (interval, &offset) in intervals.iter().zip(&layout.offsets) {
            tensors[interval.tensor].place = TensorPlace::Workspace { offset };
        }
        program.tensors = tensors;
        program.workspace_size = layout.size;
        Lowered { program, sources }
    }

    /// The graph tensor with a canonical uid.
    fn ix(&self, uid: Uid) -> Result<TensorIx, Refusal> {
        self.graph.find(uid).ok_or_else(|| declined(format!("tensor {} is not in the graph", uid.0)))
    }

    fn view(&self, uid: Uid) -> Result<&'g TensorView<'v>, Refusal> {
        Ok(self.graph.tensor(self.ix(uid)?))
    }

    /// Position of a tensor among the program's.
    fn tensor(&mut self, ix: TensorIx) -> u32 {
        let tensor = self.graph.tensor(ix);
        let now = self.groups;
        if let Some(known) = self.known[ix.index()] {
            if let Some(life) = &mut self.lives[known as usize] {
                life.1 = now;
            }
            return known;
        }
        let ordinal = ix.index() as u32;
        let (place, life) = if tensor.is_virtual {
            (TensorPlace::Workspace { offset: 0 }, Some((now, now)))
        } else if tensor.is_by_value() {
            (TensorPlace::Scalar { ordinal }, None)
        } else {
            (TensorPlace::External { ordinal }, None)
        };
        let position = self.tensors.len() as u32;
        self.tensors.push(HipTensor { place, bytes: tensor.span_bytes(), written: false });
        self.lives.push(life);
        self.origins.push(Some(ix));
        self.known[ix.index()] = Some(position);
        position
    }

    /// A tensor in device memory.
    fn operand(&mut self, uid: Uid) -> Result<Operand, Refusal> {
        let ix = self.ix(uid)?;
        let tensor = self.graph.tensor(ix);
        if tensor.is_by_value() {
            return Err(declined(format!(
                "{} in canonical order is a host scalar where a tensor in memory is needed",
                self.graph.tensor_label(ix)
            )));
        }
        let element = Element::of(tensor.dtype).ok_or_else(|| declined(format!("kernels do not have type {}", tensor.dtype)))?;
        Ok(Operand { tensor: self.tensor(ix), element })
    }

    /// An operand of an elementwise operation, and whether `float` cannot hold it.
    fn value(&mut self, uid: Uid) -> Result<(Value, bool), Refusal> {
        let ix = self.ix(uid)?;
        let tensor = self.graph.tensor(ix);
        if !tensor.is_by_value() {
            let operand = self.operand(uid)?;
            return Ok((Value::Tensor(operand, Spread::Broadcast), operand.element.is_wide()));
        }
        let is_wide = is_wide(tensor.dtype);
        match tensor.value.filter(|_| !tensor.is_runtime) {
            Some(value) => {
                let value = number_of(value, tensor.dtype).ok_or_else(|| {
                    declined(format!("{} in canonical order has a value that kernels do not take", self.graph.tensor_label(ix)))
                })?;
                Ok((Value::Constant(value), is_wide))
            }
            None if !ScalarType::takes(tensor.dtype) => Err(declined(format!(
                "kernels do not take runtime scalars of type {} ({} in canonical order)",
                tensor.dtype,
                self.graph.tensor_label(ix)
            ))),
            None => Ok((Value::Scalar { tensor: self.tensor(ix), is_wide }, is_wide)),
        }
    }

    /// The work of a group: the head, and its chain as an epilogue.
    fn works(&mut self, group: &[NodeIx]) -> Result<Vec<Work>, Refusal> {
        let graph = self.graph;
        let (Some(&head), Some(&last)) = (group.first(), group.last()) else { return Ok(Vec::new()) };
        let unsupported = |node: NodeIx| Refusal::Operation { op: graph.kind(node).name(), node: graph.node_label(node).to_string() };
        let out_ix = fuse::output(graph, last).ok_or_else(|| unsupported(last))?;
        let mut carried = fuse::output(graph, head).ok_or_else(|| unsupported(head))?;
        let mut epilogue = Epilogue::default();
        let (shapes, sum, number) = self.head(head, carried, &mut epilogue, group.len() > 1)?;
        for (at, &node) in group.iter().enumerate().skip(1) {
            if at == 1 && !matches!(sum, Sum::Nothing) {
                self.round_sum(&mut epilogue, carried, number)?;
            }
            let Op::Pointwise(op) = graph.op(node) else { return Err(unsupported(node)) };
            let is_last = at + 1 == group.len();
            self.pointwise(node, &op, Some(carried), &mut epilogue, is_last)?;
            carried = fuse::output(graph, node).ok_or_else(|| unsupported(node))?;
        }
        if epilogue.addressed().len() > MOST_EPILOGUE_TENSORS && group.len() > 1 {
            return Err(declined("the chain reads too many tensors"));
        }
        let out_view = graph.tensor(out_ix);
        let rank = out_view.dims.len();
        if !shape::is_injective(out_view) {
            return Err(declined(format!(
                "{} in canonical order is written, and elements of it may share memory",
                graph.tensor_label(out_ix)
            )));
        }
        let element = Element::of(out_view.dtype).ok_or_else(|| declined(format!("kernels do not have type {}", out_view.dtype)))?;
        let out = Operand { tensor: self.tensor(out_ix), element };
        let mut strides = vec![out_view.strides.to_vec()];
        for addressed in epilogue.addressed() {
            strides.push(match *addressed {
                Addressed::Index(dim) => (0..rank).map(|d| i64::from(d == dim)).collect(),
                Addressed::Tensor(operand, spread) => {
                    let ix = self.origins[operand.tensor as usize].ok_or_else(|| declined("an operand is not in the graph"))?;
                    match spread {
                        Spread::Broadcast => shape::broadcast(graph.tensor(ix), rank),
                        Spread::Channel => shape::channels(graph.tensor(ix), rank),
                    }
                }
            });
        }
        Ok(shapes.iter().map(|shape| Work { nest: shape.nest(&strides), sum, number, out, epilogue: epilogue.clone() }).collect())
    }

    /// What a head sums over which nests; an elementwise head goes into the epilogue.
    fn head(
        &mut self,
        node: NodeIx,
        out: TensorIx,
        epilogue: &mut Epilogue,
        has_chain: bool,
    ) -> Result<(Vec<Shape>, Sum, Number), Refusal> {
        let graph = self.graph;
        let compute = graph.compute_type(node);
        let out_view = graph.tensor(out);
        match graph.op(node) {
            Op::ConvolutionFwd(op) => {
                let conv = attributes(op.conv_mode, [op.pre_padding, op.stride, op.dilation], op.post_padding)?;
                let (x, w) = (self.view(op.x)?, self.view(op.w)?);
                let (sum, number) = self.products(op.x, op.w, count(&w.dims[1..]), compute, out_view)?;
                Ok((vec![shape::forward(x, w, out_view, conv)], sum, number))
            }
            Op::ConvolutionBwd(op) => {
                let conv = attributes(op.conv_mode, [op.pre_padding, op.stride, op.dilation], op.post_padding)?;
                let (dy, w) = (self.view(op.dy)?, self.view(op.w)?);
                let parts = shape::data_gradient_parts(out_view, conv);
                if parts > MOST_PARTS {
                    return Err(declined(format!(
                        "the data gradient falls into {parts} residue classes of its strides, at most {MOST_PARTS} are implemented"
                    )));
                }
                let (sum, number) = self.products(op.dy, op.w, count(w.dims), compute, out_view)?;
                Ok((shape::data_gradient(dy, w, out_view, conv), sum, number))
            }
            Op::ConvolutionWrw(op) => {
                let conv = attributes(op.conv_mode, [op.pre_padding, op.stride, op.dilation], op.post_padding)?;
                let (x, dy) = (self.view(op.x)?, self.view(op.dy)?);
                let (sum, number) = self.products(op.x, op.dy, count(dy.dims), compute, out_view)?;
                Ok((vec![shape::weight_gradient(x, dy, out_view, conv)], sum, number))
            }
            Op::Matmul(op) => {
                let (a, b) = (self.view(op.a)?, self.view(op.b)?);
                if [a, b].iter().any(|side| !shape::broadcasts(side, out_view)) {
                    return Err(declined(
                        "products whose batch dimensions are repeated in groups are not implemented, only equal ones and 1",
                    ));
                }
                let (sum, number) = self.products(op.a, op.b, count(&a.dims[a.dims.len() - 1..]), compute, out_view)?;
                Ok((vec![shape::product(a, b, out_view)], sum, number))
            }
            Op::Reduction(op) => {
                let x = self.view(op.input)?;
                let operand = self.operand(op.input)?;
                let shape = shape::reduction(x, out_view);
                let count = x.dims.iter().zip(out_view.dims).filter(|&(_, &out)| out == 1).fold(1_i64, |n, (&d, _)| n.saturating_mul(d));
                let wide = is_wide(compute) || operand.element.is_wide() || is_wide(out_view.dtype);
                let number = if wide { Number::F64 } else { Number::F32 };
                Ok((vec![shape], Sum::Elements { x: operand, mode: op.mode, count }, number))
            }
            Op::Pointwise(op) => {
                self.pointwise(node, &op, None, epilogue, !has_chain)?;
                Ok((vec![shape::elements(out_view)], Sum::Nothing, Number::F32))
            }
            Op::BatchnormInference(op) => {
                let uids = [op.x, op.mean, op.inv_variance, op.scale, op.bias];
                self.batchnorm(uids, None, out, epilogue, !has_chain)?;
                Ok((vec![shape::elements(out_view)], Sum::Nothing, Number::F32))
            }
            Op::BatchnormInferenceVariance(op) => {
                let uids = [op.x, op.mean, op.variance, op.scale, op.bias];
                self.batchnorm(uids, Some(op.epsilon), out, epilogue, !has_chain)?;
                Ok((vec![shape::elements(out_view)], Sum::Nothing, Number::F32))
            }
            _ => Err(Refusal::Operation { op: graph.kind(node).name(), node: graph.node_label(node).to_string() }),
        }
    }

    fn products(&mut self, x: Uid, y: Uid, depth: i64, compute: DataType, out: &TensorView<'_>) -> Result<(Sum, Number), Refusal> {
        let (x, y) = (self.operand(x)?, self.operand(y)?);
        if [x, y].iter().any(|o| matches!(o.element, Element::I32 | Element::Bool)) {
            return Err(declined("products of int32 or boolean operands are not implemented"));
        }
        let result = Element::of(out.dtype).ok_or_else(|| declined(format!("kernels do not have type {}", out.dtype)))?;
        let number = emit::number_of_product(x.element, y.element, result, depth, is_wide(compute) || result == Element::F64);
        Ok((Sum::Products { x, y }, number))
    }

    /// Rounds a sum to the type of the virtual tensor that a chain reads it from.
    fn round_sum(&mut self, epilogue: &mut Epilogue, carried: TensorIx, number: Number) -> Result<(), Refusal> {
        let dtype = self.graph.tensor(carried).dtype;
        let element = Element::of(dtype).ok_or_else(|| declined(format!("kernels do not have type {dtype}")))?;
        // A 32-bit integer sum is exact in double only.
        let number = if number == Number::F32 { Number::F32 } else { Number::F64 };
        epilogue.push_text("@".to_owned(), number, Some(element));
        Ok(())
    }

    fn pointwise(
        &mut self,
        node: NodeIx,
        op: &ops::Pointwise,
        carried: Option<TensorIx>,
        epilogue: &mut Epilogue,
        is_last: bool,
    ) -> Result<(), Refusal> {
        let graph = self.graph;
        let out = fuse::output(graph, node).map(|ix| graph.tensor(ix).dtype);
        let unsupported = || Refusal::Operation { op: op.mode.name(), node: graph.node_label(node).to_string() };
        if op.mode == PointwiseMode::GenIndex {
            let rank = fuse::output(graph, node).map_or(0, |ix| graph.tensor(ix).dims.len());
            let axis = op.axis.and_then(|axis| usize::try_from(axis).ok()).filter(|&axis| axis < rank).ok_or_else(unsupported)?;
            let index = epilogue.operand(&Value::Index(axis), Number::F64);
            epilogue.push_text(index, Number::F64, out.and_then(Element::of).filter(|_| !is_last));
            return Ok(());
        }
        let mut wide = is_wide(graph.compute_type(node));
        let mut values = Vec::with_capacity(3);
        for uid in [Some(op.in_0), op.in_1, op.in_2].into_iter().flatten() {
            let ix = self.ix(uid)?;
            if Some(ix) == carried {
                wide |= is_wide(graph.tensor(ix).dtype);
                values.push(Value::Carried);
            } else {
                let (value, is_wide) = self.value(uid)?;
                wide |= is_wide;
                values.push(value);
            }
        }
        let number = if wide { Number::F64 } else { Number::F32 };
        let rounded = out.and_then(Element::of).filter(|_| !is_last);
        if epilogue.push(op, &values, number, rounded) { Ok(()) } else { Err(unsupported()) }
    }

    /// `y = (x - mean) * inv_variance * scale + bias`, from left to right.
    fn batchnorm(
        &mut self,
        uids: [Uid; 5],
        epsilon: Option<Uid>,
        out: TensorIx,
        epilogue: &mut Epilogue,
        is_last: bool,
    ) -> Result<(), Refusal> {
        let out = self.graph.tensor(out).dtype;
        let mut wide = is_wide(out);
        let mut values = Vec::with_capacity(6);
        for (at, uid) in uids.into_iter().chain(epsilon).enumerate() {
            let is_parameter = (1..5).contains(&at);
            let (value, is_wide) = self.value(uid)?;
            wide |= is_wide;
            values.push(match value {
                Value::Tensor(operand, _) if is_parameter => Value::Tensor(operand, Spread::Channel),
                other => other,
            });
        }
        let number = if wide { Number::F64 } else { Number::F32 };
        let texts: Vec<String> = values.iter().map(|v| epilogue.operand(v, number)).collect();
        let inverse = match texts.get(5) {
            Some(epsilon) => format!("1 / hp_sqrt({} + {epsilon})", texts[2]),
            None => texts[2].clone(),
        };
        let expression = format!("({} - {}) * ({inverse}) * {} + {}", texts[0], texts[1], texts[3], texts[4]);
        epilogue.push_text(expression, number, Element::of(out).filter(|_| !is_last));
        Ok(())
    }
}

/// Elements of some dimensions; saturating.
fn count(dims: &[i64]) -> i64 {
    dims.iter().fold(1, |n, &d| n.saturating_mul(d))
}

/// Whether `float` cannot hold every value of a type.
const fn is_wide(dtype: DataType) -> bool {
    matches!(dtype, DataType::Double | DataType::Int32 | DataType::Int64)
}

/// The value of a constant as an element of its type.
fn number_of(value: TensorValue, dtype: DataType) -> Option<f64> {
    let element = Element::of(dtype)?;
    // What the element rounds or saturates to is read back from its bytes.
    let bytes = value.to_element(dtype)?;
    let [b0, b1, b2, b3, ..] = bytes;
    Some(match element {
        Element::F64 => f64::from_le_bytes(bytes),
        Element::F32 => f64::from(f32::from_le_bytes([b0, b1, b2, b3])),
        Element::F16 => half::f16::from_le_bytes([b0, b1]).to_f64(),
        Element::Bf16 => half::bf16::from_le_bytes([b0, b1]).to_f64(),
        Element::I32 => f64::from(i32::from_le_bytes([b0, b1, b2, b3])),
        Element::I8 => f64::from(b0 as i8),
        Element::U8 => f64::from(b0),
        Element::Bool => f64::from(u8::from(b0 != 0)),
    })
}

fn attributes<'g>(mode: ConvMode, [padding, stride, dilation]: [&'g [i64]; 3], post: &[i64]) -> Result<ConvAttributes<'g>, Refusal> {
    if padding.iter().chain(stride).chain(dilation).chain(post).any(|n| n.saturating_abs() >= ATTRIBUTE_LIMIT) {
        return Err(declined(format!("paddings, strides and dilations below {ATTRIBUTE_LIMIT} are implemented")));
    }
    Ok(ConvAttributes { padding, stride, dilation, flip: mode == ConvMode::Convolution })
}
