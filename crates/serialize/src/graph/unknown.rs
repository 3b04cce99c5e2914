//! What a graph says beyond what this version knows: for a person who asks why it has no key.

use super::verify::{GRAPH_SLOTS, NODE_SLOTS, TENSOR_SLOTS};
use super::view::VerifiedGraph;
use crate::wire::unknown_slots;
use flatbuffers::Table;
use std::fmt;

/// A table with fields that this version does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownFields {
    /// The table, as messages name it.
    pub place: String,
    /// Slots of the table that hold something; the first unknown slot is the number of known ones.
    pub slots: Vec<u16>,
    /// Number of slots that are known.
    pub known: u16,
}

impl fmt::Display for UnknownFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slots: Vec<String> = self.slots.iter().map(ToString::to_string).collect();
        let word = if slots.len() == 1 { "slot" } else { "slots" };
        write!(f, "{}: {word} {} (known are the first {})", self.place, slots.join(", "), self.known)
    }
}

impl VerifiedGraph<'_> {
    /// Every table that holds fields which this version does not know: the graph, then tensors, then nodes and their operations.
    /// Empty exactly when the graph has a key.
    pub fn unknown_tables(&self) -> Vec<UnknownFields> {
        let mut found = Vec::new();
        let mut look = |table: &Table<'_>, known: u16, place: &dyn Fn() -> String| {
            let slots: Vec<u16> = unknown_slots(table, known).collect();
            if !slots.is_empty() {
                found.push(UnknownFields { place: place(), slots, known });
            }
        };
        look(&self.root._tab, GRAPH_SLOTS, &|| "the graph table".into());
        for (tensor, ix) in self.root.tensors().iter().flatten().zip(self.tensor_ixs()) {
            look(&tensor._tab, TENSOR_SLOTS, &|| self.tensor_label(ix).to_string());
        }
        for (node, ix) in self.root.nodes().iter().flatten().zip(self.nodes()) {
            look(&node._tab, NODE_SLOTS, &|| self.node_label(ix).to_string());
            if let Some(op) = node.attributes() {
                // The tables of operations have a few dozen fields.
                let known = self.kind(ix).fields().len() as u16;
                look(&op, known, &|| format!("the operation of {}", self.node_label(ix)));
            }
        }
        found
    }
}
