//! hipDNN JSON out: the form that hipDNN's own reader takes, of exactly what the buffer states.

use super::place_of;
use super::style::{self, Group, NodeStyle};
use super::warnings::Warnings;
use crate::floors::DEFAULT_ALIGNMENT;
use crate::graph::{NodeIx, Stamp, TensorIx};
use crate::ops::{Field, FieldRole};
use crate::wire::generated as wire;
use crate::wire::tensor_value::TensorValue;
use crate::{ApiVersion, DataType, Limits, VerifiedGraph};
use serde_json::{Map, Value};

/// A graph that JSON cannot hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the message of each variant says what its fields are")]
pub enum ExportError {
    /// The buffer says something that this version does not know, which would be lost.
    #[error(
        "JSON: {table} holds fields that this hipplan does not know, and JSON would lose them; convert to a hipDNN buffer, or use a newer hipplan"
    )]
    UnknownFields { table: String },
    /// JSON has no infinities and no NaN: hipDNN's writer prints null, which reads as "absent".
    #[error("JSON: {place}: {key:?} is {found}, which JSON cannot hold; convert to a hipDNN buffer instead")]
    NotFinite { place: String, key: String, found: String },
    /// The text would be longer than an importer takes.
    #[error("JSON: the text would be longer than the limit max_json_bytes = {limit}; convert to a hipDNN buffer, or raise the limit")]
    TooLarge { limit: u64 },
}

/// A number that JSON cannot hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NotFinite(f64);

/// A float as hipDNN prints it: an `f32` as the double that equals it, so that reading gives back every bit.
pub(crate) fn number(value: impl Into<f64>) -> Result<Value, NotFinite> {
    let value = value.into();
    serde_json::Number::from_f64(value).map(Value::Number).ok_or(NotFinite(value))
}

/// A graph as hipDNN JSON.
#[derive(Debug, Clone, PartialEq)]
pub struct Exported {
    /// The graph. Keys are sorted when it is printed, as hipDNN's writer sorts them.
    pub json: Value,
    /// What hipDNN's reader will not take as it is meant, for a person to see.
    pub warnings: Vec<String>,
}

impl Exported {
    /// One line, without spaces.
    pub fn compact(&self) -> String {
        self.json.to_string()
    }

    /// Indented, with a newline at the end.
    pub fn pretty(&self) -> String {
        format!("{:#}\n", self.json)
    }
}

/// Writes a graph as hipDNN JSON. [`import`](super::import) gives the same graph back, byte for byte when
/// [`GraphBuilder`](crate::GraphBuilder) wrote it.
///
/// Everything is written as the buffer states it: types that are unset stay unset, tensors that nothing uses are kept. Slot 8
/// becomes `min_required_engine_api_version` in either of its forms, never below what the tensors imply.
///
/// # Errors
/// [`ExportError`], when JSON would lose something.
pub fn export(graph: &VerifiedGraph<'_>, limits: &Limits) -> Result<Exported, ExportError> {
    if let Some(table) = graph.unknown_fields() {
        return Err(ExportError::UnknownFields { table });
    }
    let mut writer = Writer { graph, warnings: Warnings::default(), limit: limits.max_json_bytes, spent: 0 };
    let json = writer.graph()?;
    Ok(Exported { json, warnings: writer.warnings.into_list() })
}

struct Writer<'g, 'a> {
    graph: &'g VerifiedGraph<'a>,
    warnings: Warnings,
    limit: u64,
    /// Bytes of text that what has been written so far takes at least.
    spent: u64,
}

impl Writer<'_, '_> {
    /// Counts text before memory is taken for it: a buffer may use one list any number of times.
    fn spend(&mut self, bytes: usize) -> Result<(), ExportError> {
        self.spent = self.spent.saturating_add(bytes as u64);
        if self.spent > self.limit { Err(ExportError::TooLarge { limit: self.limit }) } else { Ok(()) }
    }

    fn text(&mut self, text: &str) -> Result<Value, ExportError> {
        self.spend(text.len())?;
        Ok(text.into())
    }

    fn graph(&mut self) -> Result<Value, ExportError> {
        let (graph, root) = (self.graph, self.graph.root());
        let mut top = Map::new();
        top.insert("name".into(), self.text(graph.name())?);
        for (key, ty) in ["compute_data_type", "intermediate_data_type", "io_data_type"].into_iter().zip(graph.default_types()) {
            top.insert(key.into(), ty.name().into());
        }
        top.insert("is_override_shape_enabled".into(), graph.is_override_shape_enabled().into());
        if let Some(engine) = graph.preferred_engine_id() {
            top.insert("preferred_engine_id".into(), engine.into());
        }
        if let Some(id) = graph.id() {
            let text = uuid_text(&id);
            if is_version_4(&id) {
                top.insert("id".into(), text.into());
            } else {
                self.warnings.push(format!("the graph: its id {text} is no version-4 UUID, which hipDNN's reader refuses; left out"));
            }
        }
        top.insert("min_required_engine_api_version".into(), self.version());

        let mut tensors = Vec::new();
        for (ix, wire) in graph.tensor_ixs().zip(root.tensors().unwrap_or_default()) {
            tensors.push(self.tensor(ix, wire)?);
        }
        top.insert("tensors".into(), tensors.into());
        let mut nodes = Vec::new();
        for (ix, wire) in graph.nodes().zip(root.nodes().unwrap_or_default()) {
            nodes.push(self.node(ix, wire)?);
        }
        top.insert("nodes".into(), nodes.into());
        Ok(top.into())
    }

    /// The stamp: the higher one of what the buffer states and what its tensors imply.
    fn version(&mut self) -> Value {
        let floor = self.graph.api_floor();
        let version = match self.graph.stamp() {
            Stamp::Api(stated) if stated >= floor => stated,
            Stamp::Api(stated) => {
                self.warnings.push(format!(
                    "the graph: min_required_engine_api_version is {stated}, below the {floor} that its tensors need; written as {floor}"
                ));
                floor
            }
            Stamp::Reader(stated) => {
                self.warnings.push(format!(
                    "the graph: min_reader_version {stated} has no place in JSON; written as min_required_engine_api_version {floor}"
                ));
                floor
            }
            Stamp::Absent => floor,
        };
        let ApiVersion { major, minor, patch } = version;
        Map::from_iter([("major", major), ("minor", minor), ("patch", patch)].map(|(k, v)| (k.to_owned(), v.into()))).into()
    }

    fn tensor(&mut self, ix: TensorIx, wire: wire::TensorAttributes<'_>) -> Result<Value, ExportError> {
        let graph = self.graph;
        let t = graph.tensor(ix);
        let place = || place_of("tensor", ix.index(), t.name);
        self.spend(t.dims.len().saturating_add(t.strides.len()).saturating_mul(2))?;
        let mut map = Map::new();
        map.insert("uid".into(), t.uid.0.into());
        map.insert("name".into(), self.text(t.name)?);
        map.insert("data_type".into(), stated(wire.data_type()).into());
        map.insert("dims".into(), t.dims.into());
        map.insert("strides".into(), t.strides.into());
        map.insert("virtual".into(), t.is_virtual.into());
        map.insert("is_runtime_pass_by_value".into(), t.is_runtime.into());
        if t.alignment != DEFAULT_ALIGNMENT {
            map.insert("alignment".into(), t.alignment.into());
        }
        if let Some(uid) = wire.ragged_offset_tensor_uid() {
            map.insert("ragged_offset_tensor_uid".into(), uid.into());
        }
        if t.ragged_multiplier != 1 {
            map.insert("ragged_offset_multiplier".into(), t.ragged_multiplier.into());
        }
        if let Some(value) = t.value {
            let (kind, value) = match value {
                TensorValue::Float32(v) => ("Float32Value", number(v)),
                TensorValue::Float16(v) => ("Float16Value", number(v)),
                TensorValue::BFloat16(v) => ("BFloat16Value", number(v)),
                TensorValue::Float64(v) => ("Float64Value", number(v)),
                TensorValue::Float8(v) => ("Float8Value", Ok(v.into())),
                TensorValue::Int32(v) => ("Int32Value", Ok(v.into())),
                TensorValue::Int64(v) => ("Int64Value", Ok(v.into())),
                TensorValue::Bool(v) => ("BoolValue", Ok(v.into())),
            };
            if matches!(t.value, Some(TensorValue::Bool(_))) {
                self.warnings
                    .push(format!("{}: its value is a BoolValue, which hipDNN's JSON reader does not know; hipplan reads it", place()));
            }
            let value = value.map_err(|e| not_finite(place(), "value", e))?;
            map.insert("value_type".into(), kind.into());
            map.insert("value".into(), value);
        }
        Ok(map.into())
    }

    fn node(&mut self, ix: NodeIx, wire: wire::Node<'_>) -> Result<Value, ExportError> {
        let graph = self.graph;
        let (name, kind) = (graph.node_name(ix), graph.kind(ix));
        let mut keys = Map::new();
        keys.insert("name".into(), self.text(name)?);
        keys.insert("type".into(), kind.wire_name().into());
        keys.insert("compute_data_type".into(), stated(wire.compute_data_type()).into());
        let mut node = NodeWriter {
            style: style::of(kind),
            node: keys,
            inputs: Map::new(),
            outputs: Map::new(),
            scalars: Map::new(),
            place: &|| place_of("node", ix.index(), name),
            spend: &mut |bytes| self.spend(bytes),
        };
        graph.op(ix).to_json(&mut node)?;
        Ok(node.finish())
    }
}

/// A JSON node that is being written: puts the keys of its operation where hipDNN's reader looks for them.
pub(crate) struct NodeWriter<'w, 's> {
    style: NodeStyle,
    node: Map<String, Value>,
    inputs: Map<String, Value>,
    outputs: Map<String, Value>,
    scalars: Map<String, Value>,
    place: &'w dyn Fn() -> String,
    spend: &'w mut (dyn FnMut(usize) -> Result<(), ExportError> + 's),
}

impl NodeWriter<'_, '_> {
    /// Writes one field.
    pub(crate) fn put<'a>(
        &mut self,
        key: &'static str,
        role: FieldRole,
        is_required: bool,
        field: &impl Field<'a>,
    ) -> Result<(), ExportError> {
        let NodeStyle { grouped, attributes, all_keys, numbers } = self.style;
        if !is_required && !all_keys && field.is_unstated() {
            return Ok(());
        }
        (self.spend)(field.least_text())?;
        let value = field.to_json(numbers).map_err(|e| not_finite((self.place)(), key, e))?;
        let group = match role {
            FieldRole::Attribute => attributes,
            FieldRole::Input if grouped => Group::Inputs,
            FieldRole::Output if grouped => Group::Outputs,
            FieldRole::Input | FieldRole::Output => Group::Node,
        };
        let home = match group {
            Group::Node => &mut self.node,
            Group::Inputs => &mut self.inputs,
            Group::Outputs => &mut self.outputs,
            Group::Parameters | Group::Attributes => &mut self.scalars,
        };
        home.insert(key.into(), value);
        Ok(())
    }

    /// The node with its groups.
    fn finish(mut self) -> Value {
        let groups = [(Group::Inputs, self.inputs), (Group::Outputs, self.outputs), (self.style.attributes, self.scalars)];
        for (group, keys) in groups {
            if let Some(key) = group.key()
                && !keys.is_empty()
            {
                self.node.insert(key.into(), keys.into());
            }
        }
        self.node.into()
    }
}

fn not_finite(place: String, key: &str, NotFinite(found): NotFinite) -> ExportError {
    ExportError::NotFinite { place, key: key.to_owned(), found: found.to_string() }
}

/// A type as the buffer states it; the verifier has refused unknown numbers.
fn stated(ty: wire::DataType) -> &'static str {
    DataType::from_wire(ty.0).unwrap_or(DataType::Unset).name()
}

/// Version 4 with the RFC variant: what hipDNN's JSON reader takes.
pub(super) fn is_version_4(id: &[u8; 16]) -> bool {
    let [_, _, _, _, _, _, version, _, variant, ..] = *id;
    version >> 4 == 4 && variant >> 6 == 0b10
}

/// The canonical text of a UUID in network byte order.
fn uuid_text(id: &[u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (i, byte) in id.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}
