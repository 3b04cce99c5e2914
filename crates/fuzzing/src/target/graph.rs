//! Graphs in binary form.

use super::Stage;
use crate::shell::{Shell, patch};
use hipplan_serialize::aligned::aligned_copy;
use hipplan_serialize::canon::{self, DecodeError};
use hipplan_serialize::{GraphError, Limits, VerifiedGraph, json};

/// A bare buffer. Kind 0: as it stands; 1: a valid graph with some bytes changed.
pub(super) fn buffer(input: &[u8]) -> Stage {
    let Some(shell) = Shell::of(input) else { return Stage::Form };
    if shell.kind.is_multiple_of(2) {
        return check(shell.rest);
    }
    let (valid, changes) = shell.valid();
    let mut bytes = valid.buffer.clone();
    patch(&mut bytes, changes);
    check(&bytes)
}

/// An artifact. Kind 0: as it stands; 1: with its length and digest made right; 2: a header around any buffer; 3: around a changed one.
pub(super) fn artifact(input: &[u8]) -> Stage {
    let Some(shell) = Shell::of(input) else { return Stage::Form };
    match shell.kind % 4 {
        0 => check(shell.rest),
        1 => {
            let mut bytes = shell.rest.to_vec();
            seal_artifact(&mut bytes);
            check(&bytes)
        }
        kind => {
            let (valid, changes) = shell.valid();
            let mut bytes = vec![0; 64];
            bytes[..8].copy_from_slice(b"\x89HPGR\r\n\x1a");
            bytes[8] = 1;
            bytes[12..16].copy_from_slice(&valid.min_reader_version.to_le_bytes());
            bytes.extend_from_slice(if kind == 2 { changes } else { &valid.buffer });
            if kind == 3 {
                patch(&mut bytes, changes);
            }
            seal_artifact(&mut bytes);
            check(&bytes)
        }
    }
}

/// Writes the length and the digest that the format asks for.
fn seal_artifact(bytes: &mut [u8]) {
    let Some((header, buffer)) = bytes.split_first_chunk_mut::<64>() else { return };
    header[16..24].copy_from_slice(&(buffer.len() as u64).to_le_bytes());
    let mut hasher = blake3::Hasher::new_derive_key("hipplan graph artifact 1");
    hasher.update(&header[..32]).update(buffer);
    header[32..].copy_from_slice(hasher.finalize().as_bytes());
}

/// A canonical encoding. Kind 0: as it stands; 1: of a valid graph, with some bytes changed.
pub(super) fn encoding(input: &[u8]) -> Stage {
    let Some(shell) = Shell::of(input) else { return Stage::Form };
    let mut bytes = shell.rest.to_vec();
    if !shell.kind.is_multiple_of(2) {
        let (valid, changes) = shell.valid();
        bytes = valid.encoding.clone();
        patch(&mut bytes, changes);
    }
    match canon::decode(&bytes, &Limits::DEFAULT) {
        Ok(graph) => {
            let view = graph.view();
            let again = view.canonical().expect("what was decoded has a key");
            assert_eq!(again.encoding, bytes, "one graph has one encoding");
            accepted(&view);
            Stage::Accepted
        }
        Err(DecodeError::Graph(error)) => stage(&error),
        Err(DecodeError::NotCanonical) => Stage::Meaning,
        Err(_) => Stage::Form,
    }
}

/// How far a graph came that is refused with this error.
pub(super) fn stage(error: &GraphError) -> Stage {
    use GraphError as E;
    match error {
        E::Artifact(_) | E::Limit { .. } | E::Misaligned | E::Structure(_) | E::TooNew { .. } => Stage::Form,
        _ => Stage::Meaning,
    }
}

/// Reads a graph in either binary form.
pub(super) fn check(bytes: &[u8]) -> Stage {
    let bytes = aligned_copy(bytes);
    match VerifiedGraph::verify_any(&bytes, &Limits::DEFAULT) {
        Ok(view) => {
            accepted(&view);
            Stage::Accepted
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            stage(&error)
        }
    }
}

/// What must hold of every graph that is accepted.
pub(super) fn accepted(view: &VerifiedGraph<'_>) {
    for node in view.nodes() {
        assert_eq!(view.op(node).kind(), view.kind(node));
        for operand in view.operands(node) {
            assert!(!view.slot_name(node, operand).is_empty());
            assert_eq!(view.find(view.tensor(operand.tensor).uid), Some(operand.tensor));
        }
    }
    let artifact = view.to_artifact();
    let again = VerifiedGraph::verify_any(&artifact, &Limits::DEFAULT).expect("an artifact of a valid graph is valid");
    assert_eq!(again.buffer(), view.buffer());

    let Ok(canonical) = view.canonical() else { return };
    let decoded = canon::decode(&canonical.encoding, &Limits::DEFAULT).expect("an encoding decodes");
    let decoded = decoded.view();
    assert_eq!(decoded.canonical().expect("known fields only").key, canonical.key);
    assert_eq!(decoded.node_count(), view.node_count());

    // JSON holds all of it, but for infinities and NaN.
    match json::export(view, &Limits::DEFAULT) {
        Ok(text) => {
            let again = json::import(text.compact().as_bytes(), &Limits::DEFAULT).expect("exported JSON is read");
            assert_eq!(again.graph.view().canonical().expect("known fields only").encoding, canonical.encoding);
        }
        Err(error) => assert!(matches!(error, json::ExportError::NotFinite { .. } | json::ExportError::TooLarge { .. }), "{error}"),
    }
}

/// JSON that was accepted spells this graph.
pub(super) fn same_graph(text: &[u8], view: &VerifiedGraph<'_>) {
    let again = json::import(text, &Limits::DEFAULT).expect("the same text");
    assert_eq!(again.graph.buffer(), view.buffer(), "one text, one buffer");
}
