//! hipDNN JSON.

use super::{Stage, graph};
use crate::shell::{Shell, patch, patch_json};
use hipplan_serialize::Limits;
use hipplan_serialize::json::{self, JsonError};

/// JSON. Kind 0: text as it stands; 1: a valid graph with values changed; 2: its text with bytes changed.
pub(super) fn graph(input: &[u8]) -> Stage {
    let Some(shell) = Shell::of(input) else { return Stage::Form };
    let text = match shell.kind % 3 {
        0 => shell.rest.to_vec(),
        kind => {
            let (valid, changes) = shell.valid();
            let mut value = valid.json.clone();
            if kind == 1 {
                patch_json(&mut value, changes);
            }
            let mut text = value.to_string().into_bytes();
            if kind == 2 {
                patch(&mut text, changes);
            }
            text
        }
    };
    match json::import(&text, &Limits::DEFAULT) {
        Ok(imported) => {
            let view = imported.graph.view();
            graph::accepted(&view);
            graph::same_graph(&text, &view);
            Stage::Accepted
        }
        Err(JsonError::Graph(error)) => graph::stage(&error),
        Err(JsonError::Syntax(_) | JsonError::TooLarge { .. }) => Stage::Form,
        // Where a value of the wrong type stands is known only once the text has been understood as a graph.
        Err(JsonError::UnknownSpelling { .. } | JsonError::Ambiguous { .. }) => Stage::Meaning,
        Err(_) => Stage::Form,
    }
}
