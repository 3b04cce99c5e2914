//! A graph as an author might think of it, and the many ways to write it down.

use crate::rng::Rng;
use hipplan_serialize::{DataType, GraphBuf, Limits, OpKind, json};
use serde_json::{Map, Value, json};

/// A tensor of a model.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the fields are named as on the wire")]
pub struct Tensor {
    pub dtype: DataType,
    pub dims: Vec<i64>,
    pub strides: Vec<i64>,
    pub is_virtual: bool,
    /// `value_type` and `value`.
    pub value: Option<(&'static str, Value)>,
    pub is_runtime: bool,
    /// Position of the tensor with its offsets.
    pub ragged: Option<usize>,
    pub alignment: i64,
    pub multiplier: i64,
}

impl Tensor {
    /// Other dims, packed.
    pub fn reshape(&mut self, dims: &[i64]) {
        let Self { dims, strides, .. } = Self::packed(self.dtype, dims);
        (self.dims, self.strides) = (dims, strides);
    }

    /// Passed by value, in any of the three states.
    pub fn is_by_value(&self) -> bool {
        self.is_runtime || self.value.is_some()
    }

    /// An ordinary tensor, packed in row-major order.
    pub fn packed(dtype: DataType, dims: &[i64]) -> Self {
        let mut strides = vec![1; dims.len()];
        for i in (1..dims.len()).rev() {
            strides[i - 1] = strides[i] * dims[i];
        }
        Self {
            dtype,
            dims: dims.to_vec(),
            strides,
            is_virtual: false,
            value: None,
            is_runtime: false,
            ragged: None,
            alignment: 16,
            multiplier: 1,
        }
    }
}

/// What a field of an operation holds.
#[derive(Clone, Debug)]
pub enum FieldValue {
    /// Nothing.
    Absent,
    /// An operand, as a position in [`Model::tensors`].
    Tensor(usize),
    /// A list of operands.
    Tensors(Vec<usize>),
    /// Anything else, as JSON spells it.
    Attribute(Value),
}

/// A node of a model.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its operation.
    pub kind: OpKind,
    /// The type that it computes in.
    pub compute: DataType,
    /// One per field of the operation.
    pub fields: Vec<FieldValue>,
}

impl Node {
    /// Positions of its operands, in slot order.
    pub fn operands(&self) -> Vec<usize> {
        let mut all = Vec::new();
        for field in &self.fields {
            match field {
                FieldValue::Tensor(t) => all.push(*t),
                FieldValue::Tensors(list) => all.extend(list),
                FieldValue::Absent | FieldValue::Attribute(_) => {}
            }
        }
        all
    }

    /// Sets the field of this name.
    pub fn set(&mut self, name: &str, value: FieldValue) {
        let at = self.kind.fields().iter().position(|f| f.name == name).unwrap_or_else(|| panic!("{name}"));
        self.fields[at] = value;
    }
}

/// How a graph is written down: all that its key must not depend on.
#[derive(Clone, Debug, Default)]
pub struct Style {
    /// Everything follows from it.
    pub seed: u64,
}

/// A graph of positions.
#[derive(Clone, Debug)]
pub struct Model {
    /// Its tensors.
    pub tensors: Vec<Tensor>,
    /// Its nodes, in topological order.
    pub nodes: Vec<Node>,
    /// Opted in to execute-time shapes.
    pub override_shapes: bool,
}

impl Model {
    /// Adds a tensor; tells its position.
    pub fn push(&mut self, tensor: Tensor) -> usize {
        self.tensors.push(tensor);
        self.tensors.len() - 1
    }

    /// The graph as hipDNN JSON: uids, names, ids, list order, the place of types, strides of dims of size 1, engine preference
    /// and unused tensors are drawn from the style.
    pub fn json(&self, style: &Style) -> Value {
        let mut rng = Rng::new(style.seed);
        const TYPES: [DataType; 4] = [DataType::Unset, DataType::Float, DataType::Half, DataType::BFloat16];
        let [compute, intermediate, io] = std::array::from_fn(|_| rng.pick(&TYPES));
        // Distinct uids of any sign, 0 too.
        let base = rng.any() as i64 >> 20;
        let mut uids: Vec<i64> = (0..self.tensors.len() as i64 + 3).map(|i| if i == 0 { 0 } else { base + i * 7 }).collect();
        if uids[1..].contains(&0) {
            uids[0] = base - 1;
        }
        rng.shuffle(&mut uids);
        let spare = uids.split_off(self.tensors.len());
        let stated = |rng: &mut Rng, t: DataType, default: DataType| {
            let unset = t == default && rng.one_in(2);
            if unset { "unset" } else { t.name() }
        };

        let mut tensors = Vec::new();
        for (t, &uid) in self.tensors.iter().zip(&uids) {
            let dtype = stated(&mut rng, t.dtype, if t.is_virtual { intermediate } else { io });
            let strides: Vec<i64> = t.dims.iter().zip(&t.strides).map(|(&d, &s)| if d == 1 { rng.below(1000) as i64 } else { s }).collect();
            let mut v = json!({
                "uid": uid, "name": format!("t{}", rng.below(1000)), "data_type": dtype, "dims": t.dims, "strides": strides,
                "virtual": t.is_virtual, "is_runtime_pass_by_value": t.is_runtime, "alignment": t.alignment,
                "ragged_offset_multiplier": t.multiplier,
            });
            if let Some((ty, number)) = &t.value {
                v["value_type"] = json!(ty);
                v["value"] = number.clone();
            }
            if let Some(offsets) = t.ragged {
                v["ragged_offset_tensor_uid"] = json!(uids[offsets]);
            }
            tensors.push(v);
        }
        for uid in spare {
            if rng.one_in(2) {
                // An unused tensor of the plainest kind: whatever stands in it is not part of the graph.
                tensors.push(json!({"uid": uid, "name": "unused", "data_type": "int8", "dims": [rng.below(5) + 1], "strides": [1]}));
            }
        }
        rng.shuffle(&mut tensors);

        let mut nodes = Vec::new();
        for node in &self.nodes {
            let mut v = Map::new();
            v.insert("type".into(), json!(node.kind.wire_name()));
            v.insert("name".into(), json!(format!("n{}", rng.below(1000))));
            v.insert("compute_data_type".into(), json!(stated(&mut rng, node.compute, compute)));
            for (spec, field) in node.kind.fields().iter().zip(&node.fields) {
                let value = match field {
                    FieldValue::Absent => continue,
                    FieldValue::Tensor(t) => json!(uids[*t]),
                    FieldValue::Tensors(list) => json!(list.iter().map(|&t| uids[t]).collect::<Vec<_>>()),
                    FieldValue::Attribute(value) => value.clone(),
                };
                v.insert(spec.wire_name.into(), value);
            }
            nodes.push(Value::Object(v));
        }
        let mut top = json!({
            "name": format!("g{}", rng.below(1000)), "compute_data_type": compute.name(), "intermediate_data_type": intermediate.name(),
            "io_data_type": io.name(), "is_override_shape_enabled": self.override_shapes, "tensors": tensors, "nodes": nodes,
        });
        if rng.one_in(2) {
            top["preferred_engine_id"] = json!(rng.any() as i64);
        }
        if rng.one_in(2) {
            let mut hex = format!("{:016x}{:016x}", rng.any(), rng.any());
            hex.replace_range(12..13, "4");
            hex.replace_range(16..17, "9");
            top["id"] = json!(format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]));
        }
        top
    }

    /// The graph, read from its JSON. It must be valid.
    pub fn graph(&self, style: &Style) -> GraphBuf {
        let text = self.json(style);
        let imported = json::import(text.to_string().as_bytes(), &Limits::DEFAULT);
        imported.unwrap_or_else(|e| panic!("{e}\n{text:#}")).graph
    }
}
