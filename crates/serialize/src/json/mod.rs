//! hipDNN's JSON form of graphs: out in the form that hipDNN's own reader takes ([`export`]), in from all three dialects
//! ([`import`]).
//!
//! * *grouped*: operands in `inputs` and `outputs`, scalars in `parameters` or `attributes` (hipDNN's own writer);
//! * *flat*: everything in the node (hipDNN's writer, for some operations);
//! * *benchmark*: scalars in `attributes` and enums in upper case; and the older spelling of the graph-level types.
//!
//! A key is looked for where hipDNN puts it, then in the other places; a key that stands twice with different values is an error,
//! and so is an enum spelling that nobody defined. Unknown keys are reported as warnings.

mod export;
mod field;
mod node;
mod style;
mod warnings;

pub use export::{ExportError, Exported, export};
pub(crate) use export::{NodeWriter, NotFinite, number};
pub(crate) use field::JsonField;
pub(crate) use node::JsonNode;

use crate::artifact::READER_VERSION;
use crate::builder::{GraphBuilder, TensorAttributes};
use crate::graph::GraphBuf;
use crate::hex;
use crate::ops::{Op, OpKind, Uid};
use crate::wire::tensor_value::TensorValue;
use crate::{ApiVersion, DataType, GraphError, Limits};
use bumpalo::Bump;
use serde_json::{Map, Value};
use warnings::Warnings;

/// JSON that is not a graph. Every message names the place, what was found and what was expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the message of each variant says what its fields are")]
pub enum JsonError {
    /// Not JSON.
    #[error("JSON: {0}")]
    Syntax(String),
    /// Longer than the limit.
    #[error("JSON: {found} bytes, over the limit max_json_bytes = {limit}")]
    TooLarge { found: u64, limit: u64 },
    /// A key that must be there.
    #[error("JSON: {place}: {key:?} is missing")]
    Missing { place: String, key: String },
    /// A value of another type or range.
    #[error("JSON: {place}: {key:?} is {found}, expected {expected}")]
    Type { place: String, key: String, found: String, expected: String },
    /// A spelling that nobody defined.
    #[error("JSON: {place}: {key:?} is {found:?}, which is no {kind}; expected one of {expected}")]
    UnknownSpelling { place: String, key: String, found: String, kind: &'static str, expected: String },
    /// A key that stands twice and says two things.
    #[error("JSON: {place}: {key:?} stands in {first} and in {second} with different values")]
    Ambiguous { place: String, key: String, first: &'static str, second: &'static str },
    /// The graph that the JSON spells is refused.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

/// A graph read from JSON.
#[derive(Debug)]
pub struct Imported {
    /// The graph.
    pub graph: GraphBuf,
    /// What was read leniently or not at all, for a person to see.
    pub warnings: Vec<String>,
}

/// Reads a graph from hipDNN JSON.
///
/// # Errors
/// The first thing that is wrong, in the JSON or with the graph that it spells.
pub fn import(text: &[u8], limits: &Limits) -> Result<Imported, JsonError> {
    if text.len() as u64 > limits.max_json_bytes {
        return Err(JsonError::TooLarge { found: text.len() as u64, limit: limits.max_json_bytes });
    }
    let value: Value = serde_json::from_slice(text).map_err(|e| JsonError::Syntax(e.to_string()))?;
    let arena = Bump::new();
    let mut reader = Reader { arena: &arena, warnings: Warnings::default(), graph: GraphBuilder::new() };
    reader.graph(&value, limits)?;
    let Reader { warnings, graph, .. } = reader;
    Ok(Imported { graph: graph.build_with(limits)?, warnings: warnings.into_list() })
}

struct Reader<'a> {
    arena: &'a Bump,
    warnings: Warnings,
    graph: GraphBuilder,
}

const TOP_KEYS: [&str; 14] = [
    "name",
    "nodes",
    "tensors",
    "compute_data_type",
    "intermediate_data_type",
    "io_data_type",
    "compute_type",
    "intermediate_type",
    "io_type",
    "is_override_shape_enabled",
    "preferred_engine_id",
    "id",
    "min_required_engine_api_version",
    "min_reader_version",
];

const TENSOR_KEYS: [&str; 12] = [
    "uid",
    "name",
    "data_type",
    "dims",
    "strides",
    "virtual",
    "value_type",
    "value",
    "is_runtime_pass_by_value",
    "alignment",
    "ragged_offset_tensor_uid",
    "ragged_offset_multiplier",
];

impl<'a> Reader<'a> {
    fn graph(&mut self, value: &Value, limits: &Limits) -> Result<(), JsonError> {
        let place = "the graph";
        let top = object(value, place, "the whole text")?;
        self.warn_unknown(place, top, &TOP_KEYS);
        if let Some(version) = present(top, "min_required_engine_api_version") {
            self.check_version(version)?;
        }
        if let Some(version) = present(top, "min_reader_version") {
            let found = self.field(place, "min_reader_version", Some(version)).i64()?;
            if found > i64::from(READER_VERSION) {
                let known = READER_VERSION.to_string();
                return Err(GraphError::TooNew { field: "min_reader_version", found: found.to_string(), known }.into());
            }
        }

        let name = self.field(place, "name", present(top, "name")).text()?;
        let mut ty = |key: &'static str, old: &'static str| {
            let (key, value) = match (present(top, key), present(top, old)) {
                (Some(a), Some(b)) if a != b => {
                    return Err(JsonError::Ambiguous { place: place.into(), key: key.into(), first: key, second: old });
                }
                (None, Some(value)) => (old, Some(value)),
                (value, _) => (key, value),
            };
            let (ty, warning) = self.data_type(place, key, value)?;
            warning.into_iter().for_each(|w| self.warn(w));
            Ok(ty)
        };
        let compute = ty("compute_data_type", "compute_type")?;
        let intermediate = ty("intermediate_data_type", "intermediate_type")?;
        let io = ty("io_data_type", "io_type")?;
        let override_shapes = self.field(place, "is_override_shape_enabled", present(top, "is_override_shape_enabled")).bool()?;
        let preferred = match present(top, "preferred_engine_id") {
            Some(value) => Some(self.field(place, "preferred_engine_id", Some(value)).i64()?),
            None => None,
        };
        let id = match present(top, "id") {
            Some(value) => Some(uuid(&self.field(place, "id", Some(value)))?),
            None => None,
        };
        self.graph.set_name(name).set_types(compute, intermediate, io).set_override_shape_enabled(override_shapes);
        self.graph.set_preferred_engine_id(preferred).set_id(id);

        let tensors = array(top, place, "tensors", limits.max_tensors, "max_tensors")?;
        for (index, value) in tensors.iter().enumerate() {
            let tensor = self.tensor(index, value)?;
            self.graph.tensor(tensor);
        }
        let nodes = array(top, place, "nodes", limits.max_nodes, "max_nodes")?;
        for (index, value) in nodes.iter().enumerate() {
            self.node(index, value)?;
        }
        Ok(())
    }

    fn check_version(&self, value: &Value) -> Result<(), JsonError> {
        let place = "min_required_engine_api_version";
        let parts = object(value, "the graph", place)?;
        let part = |key| {
            let value = present(parts, key).ok_or_else(|| JsonError::Missing { place: place.into(), key: key.into() })?;
            let field = self.field(place, key, Some(value));
            u32::try_from(field.i64()?).map_err(|_| field.wrong("a version number"))
        };
        let found = ApiVersion::new(part("major")?, part("minor")?, part("patch")?);
        if found > ApiVersion::NEWEST_KNOWN {
            let known = ApiVersion::NEWEST_KNOWN.to_string();
            return Err(GraphError::TooNew { field: place, found: found.to_string(), known }.into());
        }
        Ok(())
    }

    fn tensor(&mut self, index: usize, value: &Value) -> Result<TensorAttributes, JsonError> {
        let map = object(value, "the graph", &format!("tensors[{index}]"))?;
        let place = place_of("tensor", index, present(map, "name").and_then(Value::as_str).unwrap_or_default());
        let place = place.as_str();
        self.warn_unknown(place, map, &TENSOR_KEYS);
        let optional = |key: &'static str| self.field(place, key, present(map, key));
        let required = |key: &'static str| match present(map, key) {
            Some(value) => Ok(self.field(place, key, Some(value))),
            None => Err(JsonError::Missing { place: place.to_owned(), key: key.to_owned() }),
        };

        let mut tensor = TensorAttributes::new();
        tensor.set_uid(Uid(required("uid")?.i64()?)).set_name(optional("name").text()?);
        tensor.set_dims(required("dims")?.i64s()?).set_strides(required("strides")?.i64s()?);
        tensor.set_virtual(optional("virtual").bool()?);
        tensor.set_is_pass_by_value(optional("is_runtime_pass_by_value").bool()?);
        if let Some(value) = present(map, "alignment") {
            tensor.set_alignment(self.field(place, "alignment", Some(value)).i64()?);
        }
        if let Some(value) = present(map, "ragged_offset_tensor_uid") {
            tensor.set_ragged_offset(Some(Uid(self.field(place, "ragged_offset_tensor_uid", Some(value)).i64()?)));
        }
        if let Some(value) = present(map, "ragged_offset_multiplier") {
            tensor.set_ragged_multiplier(self.field(place, "ragged_offset_multiplier", Some(value)).i64()?);
        }
        tensor.set_raw_value(self.value(place, map)?);
        let (dtype, warning) = self.data_type(place, "data_type", Some(required("data_type")?.present()?))?;
        tensor.set_data_type(dtype);
        warning.into_iter().for_each(|w| self.warn(w));
        Ok(tensor)
    }

    fn value(&self, place: &str, map: &Map<String, Value>) -> Result<Option<TensorValue>, JsonError> {
        let kind = self.field(place, "value_type", present(map, "value_type"));
        let number = self.field(place, "value", present(map, "value"));
        let text = kind.text()?;
        if text.is_empty() || text == "NONE" {
            // hipDNN writes the kind of a BoolValue as "NONE": the number alone does not say what it is.
            return if number.is_absent() { Ok(None) } else { Err(kind.wrong("the kind of the value, such as Float32Value")) };
        }
        Ok(Some(match text {
            "Float32Value" => TensorValue::Float32(number.f32()?),
            "Float16Value" => TensorValue::Float16(number.f32()?),
            "BFloat16Value" => TensorValue::BFloat16(number.f32()?),
            "Float64Value" => TensorValue::Float64(number.f64()?),
            "Float8Value" => TensorValue::Float8(number.u8()?),
            "Int32Value" => TensorValue::Int32(number.required_i32()?),
            "Int64Value" => TensorValue::Int64(number.required_i64()?),
            "BoolValue" => TensorValue::Bool(number.truth()?),
            _ => {
                return Err(JsonError::UnknownSpelling {
                    place: place.to_owned(),
                    key: "value_type".into(),
                    found: field::shorten(text).into_owned(),
                    kind: "TensorValue",
                    expected: "Float32Value, Float16Value, BFloat16Value, Float8Value, Int32Value, Float64Value, Int64Value, BoolValue"
                        .into(),
                });
            }
        }))
    }

    fn node(&mut self, index: usize, value: &Value) -> Result<(), JsonError> {
        let map = object(value, "the graph", &format!("nodes[{index}]"))?;
        let name = self.field(&format!("node {index}"), "name", present(map, "name")).text()?;
        let place = place_of("node", index, name);
        let ty = self.field(&place, "type", present(map, "type"));
        if ty.is_absent() {
            return Err(JsonError::Missing { place, key: "type".into() });
        }
        let text = ty.text()?;
        let kind = OpKind::from_wire_name(text).ok_or_else(|| JsonError::UnknownSpelling {
            place: place.clone(),
            key: "type".into(),
            found: field::shorten(text).into_owned(),
            kind: "operation",
            expected: OpKind::ALL.iter().map(|k| k.wire_name()).collect::<Vec<_>>().join(", "),
        })?;
        let (compute, warning) = self.data_type(&place, "compute_data_type", present(map, "compute_data_type"))?;
        warning.into_iter().for_each(|w| self.warn(w));
        let mut node = JsonNode::new(map, kind, place, self.arena)?;
        let op = Op::from_json(kind, &mut node)?;
        node.warn_unknown(&mut |warning| self.warn(warning));
        node.warn_defaults(&mut |warning| self.warn(warning));
        self.graph.node(name, compute, op);
        Ok(())
    }

    /// A data type, and a warning where its spelling is one that hipDNN misreads. Absent means unset.
    fn data_type(&self, place: &str, key: &'static str, value: Option<&Value>) -> Result<(DataType, Option<String>), JsonError> {
        let field = self.field(place, key, value);
        if field.is_absent() {
            return Ok((DataType::Unset, None));
        }
        if field.text()? == "float16" {
            let warning = format!("{place}: {key:?} is \"float16\", read as \"half\"; hipDNN reads it as unset");
            return Ok((DataType::Half, Some(warning)));
        }
        let ty = field.enumerated("DataType", DataType::ALL, DataType::from_name, DataType::from_wire, DataType::name)?;
        Ok((ty, None))
    }

    fn field<'j>(&self, place: &'j str, key: &'j str, value: Option<&'j Value>) -> JsonField<'j, 'a> {
        JsonField::new(place, key, value, self.arena)
    }

    fn warn_unknown(&mut self, place: &str, map: &Map<String, Value>, known: &[&str]) {
        for key in map.keys().filter(|k| !k.starts_with('_') && !known.contains(&k.as_str())) {
            self.warn(format!("{place}: {:?} is not known here and was ignored", field::shorten(key)));
        }
    }

    fn warn(&mut self, warning: String) {
        self.warnings.push(warning);
    }
}

/// A tensor or a node as messages name it. A name of any length may stand in the text, and the place in any number of messages.
fn place_of(what: &str, index: usize, name: &str) -> String {
    if name.is_empty() { format!("{what} {index}") } else { format!("{what} {index} {:?}", field::shorten(name)) }
}

/// A key's value; `null` is the same as no key.
fn present<'j>(map: &'j Map<String, Value>, key: &str) -> Option<&'j Value> {
    map.get(key).filter(|v| !v.is_null())
}

fn object<'j>(value: &'j Value, place: &str, key: &str) -> Result<&'j Map<String, Value>, JsonError> {
    value.as_object().ok_or_else(|| JsonError::Type {
        place: place.to_owned(),
        key: key.to_owned(),
        found: field::describe(value),
        expected: "an object".into(),
    })
}

fn array<'j>(
    map: &'j Map<String, Value>,
    place: &str,
    key: &str,
    limit: usize,
    limit_name: &'static str,
) -> Result<&'j [Value], JsonError> {
    let value = present(map, key).ok_or_else(|| JsonError::Missing { place: place.to_owned(), key: key.to_owned() })?;
    let list = value.as_array().ok_or_else(|| JsonError::Type {
        place: place.to_owned(),
        key: key.to_owned(),
        found: field::describe(value),
        expected: "an array".into(),
    })?;
    if list.len() > limit {
        let what = format!("the number of {key}");
        return Err(GraphError::Limit { what, found: list.len() as u64, limit_name, limit: limit as u64 }.into());
    }
    Ok(list)
}

/// A version-4 UUID in its canonical text form, as bytes in network order.
fn uuid(field: &JsonField<'_, '_>) -> Result<[u8; 16], JsonError> {
    let text = field.text()?;
    let fail = || field.wrong("a version-4 UUID such as 3f2b8c1e-5d4a-4e6f-9a7b-0c1d2e3f4a5b");
    let dashes = text.len() == 36 && text.bytes().enumerate().all(|(i, b)| (b == b'-') == matches!(i, 8 | 13 | 18 | 23));
    if !dashes {
        return Err(fail());
    }
    let bytes = hex::decode(text.bytes().filter(|&b| b != b'-'));
    bytes.filter(export::is_version_4).ok_or_else(fail)
}
