//! A JSON node: finds the keys of its operation, wherever the dialect puts them.

use super::{JsonError, JsonField, field, object, present, style};
use crate::ops::{FieldRole, OpKind};
use bumpalo::Bump;
use serde_json::{Map, Value};

/// The objects inside a node that may hold keys, and the node itself.
const GROUPS: [&str; 4] = ["inputs", "outputs", "parameters", "attributes"];
const NODE_KEYS: [&str; 3] = ["name", "type", "compute_data_type"];

/// A node whose operation is being read.
pub(crate) struct JsonNode<'j, 'a> {
    kind: OpKind,
    place: String,
    /// The node's own keys, then those of each group that is there.
    places: Vec<(&'static str, &'j Map<String, Value>)>,
    arena: &'a Bump,
}

impl<'j, 'a> JsonNode<'j, 'a> {
    pub(super) fn new(map: &'j Map<String, Value>, kind: OpKind, place: String, arena: &'a Bump) -> Result<Self, JsonError> {
        let mut places = Vec::with_capacity(GROUPS.len().saturating_add(1));
        for group in GROUPS {
            if let Some(value) = present(map, group) {
                places.push((group, object(value, &place, group)?));
            }
        }
        places.push(("the node", map));
        Ok(Self { kind, place, places, arena })
    }

    /// The field of this name. A key that must be there and is not, or is null, is an error.
    pub(crate) fn field(&mut self, key: &'static str, required: bool) -> Result<JsonField<'_, 'a>, JsonError> {
        let role = self.kind.fields().iter().find(|f| f.wire_name == key).map(|f| f.role);
        let home = match role {
            Some(FieldRole::Input) => "inputs",
            Some(FieldRole::Output) => "outputs",
            _ => "",
        };
        let mut found: Option<(&'static str, &Value)> = None;
        let ordered = self.places.iter().filter(|(g, _)| *g == home).chain(self.places.iter().filter(|(g, _)| *g != home));
        for &(group, map) in ordered {
            match (found, present(map, key)) {
                (None, Some(value)) => found = Some((group, value)),
                (Some((first, a)), Some(b)) if a != b => {
                    return Err(JsonError::Ambiguous { place: self.place.clone(), key: key.to_owned(), first, second: group });
                }
                _ => {}
            }
        }
        if required && found.is_none() {
            return Err(JsonError::Missing { place: format!("{} ({})", self.place, self.kind.wire_name()), key: key.to_owned() });
        }
        Ok(JsonField::new(&self.place, key, found.map(|(_, value)| value), self.arena))
    }

    /// Reports an operation of which hipDNN wants every attribute stated, and none is: its defaults may not be what was meant.
    pub(super) fn warn_defaults(&self, warn: &mut impl FnMut(String)) {
        let attributes: Vec<&str> =
            self.kind.fields().iter().filter(|f| f.role == FieldRole::Attribute && !f.required).map(|f| f.wire_name).collect();
        let is_stated = |key: &&str| self.places.iter().any(|(_, map)| map.contains_key(*key));
        let home = style::of(self.kind).attributes.key().filter(|key| !matches!(*key, "inputs" | "outputs"));
        if let Some(home) = home
            && !attributes.is_empty()
            && !attributes.iter().any(is_stated)
        {
            let (place, name, count) = (&self.place, self.kind.wire_name(), attributes.len());
            warn(format!("{place}: {home:?} of {name} states nothing; its {count} attributes take their defaults, and hipDNN refuses it"));
        }
    }

    /// Reports keys that the operation does not have.
    pub(super) fn warn_unknown(&self, warn: &mut impl FnMut(String)) {
        for &(group, map) in &self.places {
            for (key, value) in map {
                let known = self.kind.fields().iter().any(|f| f.wire_name == key)
                    || (group == "the node" && (GROUPS.contains(&key.as_str()) || NODE_KEYS.contains(&key.as_str())));
                if !known && !key.starts_with('_') {
                    let (key, shown) = (field::shorten(key), field::describe(value));
                    warn(format!("{}: {key:?} = {shown} in {group} is not a field of {}; ignored", self.place, self.kind.wire_name()));
                }
            }
        }
    }
}
