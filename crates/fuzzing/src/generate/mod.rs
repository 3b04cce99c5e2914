//! Random valid graphs over all operations.
//!
//! A graph grows node by node. The first operand of a node is a tensor that the graph has already, so that all hangs together;
//! where none has the shape that the node needs, a custom operation makes one, as a reshape would.

mod ops;

use crate::model::{FieldValue, Model, Node, Tensor};
use crate::rng::Rng;
use hipplan_serialize::{DataType, OpKind};
use serde_json::{Value, json};
use std::ops::RangeInclusive;

/// Grows a graph node by node; every tensor of the graph may be used again.
#[derive(Debug)]
pub struct Generator {
    /// Where its decisions come from.
    pub rng: Rng,
    /// The graph so far.
    pub model: Model,
    /// Every optional field is present.
    is_full: bool,
}

const DTYPES: [DataType; 5] = [DataType::Float, DataType::Half, DataType::BFloat16, DataType::Double, DataType::Int8];
const INDEX_TYPES: [DataType; 2] = [DataType::Int32, DataType::Int64];

impl Generator {
    /// An empty graph; everything follows from the seed.
    pub fn new(seed: u64) -> Self {
        Self::from_rng(Rng::new(seed))
    }

    /// An empty graph; everything follows from the source of numbers.
    pub fn from_rng(mut rng: Rng) -> Self {
        let override_shapes = rng.one_in(4);
        Self { rng, model: Model { tensors: Vec::new(), nodes: Vec::new(), override_shapes }, is_full: false }
    }

    /// A random valid graph of at least this many nodes.
    pub fn random(seed: u64, nodes: usize) -> Model {
        let mut g = Self::new(seed);
        for _ in 0..nodes {
            let kind = g.rng.pick(OpKind::ALL);
            g.node(kind);
        }
        g.model
    }

    /// A random valid graph of one node.
    pub fn single(seed: u64, kind: OpKind) -> Model {
        let mut g = Self::new(seed);
        g.node(kind);
        g.model
    }

    /// A valid graph of one node with every optional field that can be present at once: an attention's scale is an operand and
    /// then no attribute. Its numbers leave room: every attribute has another value that is valid too.
    pub fn full(kind: OpKind) -> Model {
        let mut g = Self::new(7);
        g.is_full = true;
        g.node(kind);
        g.model
    }

    /// Whether an optional field is present.
    fn maybe(&mut self) -> bool {
        self.is_full || self.rng.one_in(2)
    }

    /// A number from this range, both ends included.
    fn within(&mut self, range: RangeInclusive<i64>) -> i64 {
        range.start() + self.rng.below((range.end() - range.start() + 1) as usize) as i64
    }

    /// One of the divisors of a number.
    fn divisor(&mut self, of: i64) -> i64 {
        let divisors: Vec<i64> = (1..=of).filter(|d| of % d == 0).collect();
        self.rng.pick(&divisors)
    }

    /// The tensors that nodes use already, host scalars left out.
    fn used(&self) -> Vec<usize> {
        let mut used: Vec<usize> = self.model.nodes.iter().flat_map(Node::operands).collect();
        used.sort_unstable();
        used.dedup();
        used.retain(|&t| !self.model.tensors[t].is_by_value());
        used
    }

    /// Dims of a rank in this range: those of a tensor in use, or new ones.
    fn shape(&mut self, ranks: RangeInclusive<usize>) -> Vec<i64> {
        let used = self.used().into_iter().map(|t| &self.model.tensors[t].dims);
        let used: Vec<Vec<i64>> = used.filter(|dims| ranks.contains(&dims.len())).cloned().collect();
        if !used.is_empty() && !self.rng.one_in(5) {
            return self.rng.pick(&used);
        }
        let rank = if self.is_full || self.rng.one_in(2) { 4 } else { self.rng.below(5) + 1 };
        let rank = rank.clamp(*ranks.start(), *ranks.end());
        (0..rank).map(|axis| if axis < 2 { self.within(1..=4) } else { self.within(1..=5) }).collect()
    }

    /// A new tensor.
    fn plain(&mut self, dims: &[i64], is_output: bool) -> usize {
        let dtype = self.rng.pick(&DTYPES);
        self.typed(dtype, dims, is_output)
    }

    /// A new tensor of this type, in one of many layouts.
    fn typed(&mut self, dtype: DataType, dims: &[i64], is_output: bool) -> usize {
        let rng = &mut self.rng;
        let mut t = Tensor::packed(dtype, dims);
        match rng.below(4) {
            // Padded rows.
            0 => t.strides.iter_mut().rev().skip(1).for_each(|s| *s *= 3),
            // The last dimension outermost, as in NHWC for channels.
            1 if dims.len() > 1 => {
                let mut permuted = dims.to_vec();
                permuted.rotate_right(1);
                t.strides = Tensor::packed(t.dtype, &permuted).strides;
                t.strides.rotate_left(1);
            }
            2 if !is_output && dims.len() > 1 => t.strides[0] = 0,
            _ => {}
        }
        t.alignment = if rng.one_in(4) { 64 } else { 16 };
        t.multiplier = if rng.one_in(8) { 3 } else { 1 };
        let is_ragged = rng.one_in(8);
        t.is_virtual = is_output && rng.one_in(3);
        if is_ragged && !t.is_virtual && !self.is_full {
            t.ragged = Some(self.offsets(dims[0] + 1));
        }
        self.model.push(t)
    }

    /// Ragged offsets: those of another tensor, or new ones.
    fn offsets(&mut self, count: i64) -> usize {
        let others = self.model.tensors.iter().filter_map(|t| t.ragged);
        let others: Vec<usize> = others.filter(|&o| self.model.tensors[o].dims.iter().product::<i64>() == count).collect();
        if !others.is_empty() && self.rng.one_in(2) {
            return self.rng.pick(&others);
        }
        let dtype = self.rng.pick(&INDEX_TYPES);
        let dims: &[i64] = if self.rng.one_in(2) { &[count] } else { &[count, 1, 1, 1] };
        self.model.push(Tensor::packed(dtype, dims))
    }

    /// A new tensor of integers.
    fn integers(&mut self, dims: &[i64], is_output: bool) -> usize {
        let dtype = self.rng.pick(&INDEX_TYPES);
        self.typed(dtype, dims, is_output)
    }

    /// A new host scalar, in any of its states.
    fn scalar(&mut self) -> usize {
        let rng = &mut self.rng;
        let mut t = Tensor::packed(DataType::Float, if rng.one_in(4) { &[1, 1, 1, 1] } else { &[1] });
        t.is_runtime = rng.one_in(2);
        if !t.is_runtime || rng.one_in(2) {
            let values = [
                ("Float32Value", json!(0.001)),
                ("Float16Value", json!(0.5)),
                ("BFloat16Value", json!(2.0)),
                ("Float8Value", json!(56)),
                ("Int32Value", json!(-2)),
                ("Float64Value", json!(1e-5)),
                ("Int64Value", json!(i64::MIN)),
                ("BoolValue", json!(true)),
            ];
            t.value = Some(rng.pick(&values));
        }
        self.model.push(t)
    }

    /// A tensor of these dims for the operand that ties the node to the graph.
    fn source(&mut self, dims: &[i64]) -> usize {
        if self.model.nodes.is_empty() {
            return self.plain(dims, false);
        }
        let used = self.used();
        let same: Vec<usize> = used.iter().copied().filter(|&t| self.model.tensors[t].dims == dims).collect();
        if !same.is_empty() {
            return self.rng.pick(&same);
        }
        let from = self.rng.pick(&used);
        let made = self.plain(dims, true);
        let mut node = self.draft(OpKind::CustomOp);
        node.set("custom_op_id", FieldValue::Attribute(json!("frame.reshape")));
        node.set("inputs", FieldValue::Tensors(vec![from]));
        node.set("outputs", FieldValue::Tensors(vec![made]));
        node.set("data", FieldValue::Attribute(json!([])));
        self.model.nodes.push(node);
        made
    }

    /// A tensor of these dims for any other operand: one of the graph, or a new one.
    fn input(&mut self, dims: &[i64]) -> usize {
        let mut used = self.used();
        used.retain(|&t| self.model.tensors[t].dims == dims);
        if !used.is_empty() && self.rng.one_in(2) { self.rng.pick(&used) } else { self.plain(dims, false) }
    }

    fn output(&mut self, dims: &[i64]) -> usize {
        self.plain(dims, true)
    }

    /// A node without any field.
    fn draft(&mut self, kind: OpKind) -> Node {
        Node { kind, compute: self.rng.pick(&DTYPES), fields: vec![FieldValue::Absent; kind.fields().len()] }
    }

    /// Adds a node that hangs together with the nodes before it.
    pub fn node(&mut self, kind: OpKind) {
        let mut node = self.draft(kind);
        ops::fill(self, &mut node);
        self.model.nodes.push(node);
    }

    fn number(&mut self) -> Value {
        json!(self.rng.pick(&[0.0, -0.0, 0.5, -1.25, 9.999_999_747_378_752e-6]))
    }
}
