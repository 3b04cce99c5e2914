//! hipDNN's plan envelope and its container of a graph and a plan.

use super::{Stage, graph};
use crate::Rng;
use crate::shell::{Shell, patch};
use hipplan_serialize::aligned::aligned_copy;
use hipplan_serialize::hipdnn::container::{self, Container, ContainerError};
use hipplan_serialize::hipdnn::envelope::{EngineConfig, EnvelopeError, EnvelopeParts, PlanEnvelope};
use hipplan_serialize::{Limits, Uid, VerifiedGraph};

/// A container or an envelope. Kind 0: as it stands; 1: a valid envelope, changed; 2: a container of a valid graph and a changed
/// envelope, changed; 3: a container around any bytes.
pub(super) fn container(input: &[u8]) -> Stage {
    let Some(shell) = Shell::of(input) else { return Stage::Form };
    let (valid, changes) = shell.valid();
    let mut bytes = match shell.kind % 4 {
        0 => shell.rest.to_vec(),
        1 => envelope(&valid.buffer, changes),
        2 => {
            let buffer = aligned_copy(&valid.buffer);
            let view = VerifiedGraph::verify(&buffer, &Limits::DEFAULT).expect("a valid graph");
            let plan = envelope(&valid.buffer, &[]);
            container::write(&view, Some(&plan), &Limits::DEFAULT).expect("a container").to_vec()
        }
        _ => around(changes),
    };
    if shell.kind % 4 == 1 || shell.kind % 4 == 2 {
        patch(&mut bytes, changes);
    }
    if container::is_container(&bytes) { read_container(&bytes) } else { read_envelope(&bytes) }
}

/// An envelope over the first tensors of a graph.
fn envelope(graph: &[u8], bytes: &[u8]) -> Vec<u8> {
    let buffer = aligned_copy(graph);
    let view = VerifiedGraph::verify(&buffer, &Limits::DEFAULT).expect("a valid graph");
    let uids: Vec<Uid> = view.tensors().iter().filter(|t| !t.is_virtual).map(|t| t.uid).take(4).collect();
    let mut rng = Rng::from_bytes(bytes);
    let parts = EnvelopeParts {
        engine_id: rng.any() as i64,
        workspace_size: rng.any() >> 1,
        alignments: &vec![16; uids.len()],
        tensor_uids: &uids,
        payload: &[7; 9],
        override_shapes: rng.one_in(2),
    };
    parts.to_bytes(&Limits::DEFAULT).expect("an envelope").to_vec()
}

/// The smallest container around these bytes as graph.
fn around(graph: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    // Root offset, identifier, vtable (8 bytes: one slot), table (distance to the vtable, offset of the blob), the blob's length.
    for word in [16_u32, u32::from_le_bytes(*b"HDGP"), 8 << 16 | 6, 4, 8, 4, graph.len() as u32] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.extend_from_slice(graph);
    out
}

fn read_container(bytes: &[u8]) -> Stage {
    let opened = match Container::open(bytes, &Limits::DEFAULT) {
        Ok(opened) => opened,
        Err(_) => return Stage::Form,
    };
    let view = match opened.graph() {
        Ok(view) => view,
        Err(ContainerError::Graph(error)) => return graph::stage(&error),
        Err(_) => return Stage::Form,
    };
    graph::accepted(&view);
    match opened.plan() {
        Ok(None) => Stage::Accepted,
        Ok(Some(plan)) => {
            accepted_envelope(&plan);
            _ = container::compare(&view, &plan);
            match container::write(&view, opened.plan_bytes(), &Limits::DEFAULT) {
                Ok(again) => {
                    let again = Container::open(&again, &Limits::DEFAULT).expect("was just written");
                    assert_eq!(again.graph_bytes(), opened.graph_bytes());
                    assert_eq!(again.plan_bytes(), opened.plan_bytes());
                    Stage::Accepted
                }
                Err(ContainerError::OtherGraph { .. }) => Stage::Meaning,
                Err(error) => panic!("a container that was read is not written: {error}"),
            }
        }
        Err(_) => Stage::Meaning,
    }
}

fn read_envelope(bytes: &[u8]) -> Stage {
    let aligned = aligned_copy(bytes);
    match PlanEnvelope::read(&aligned, &Limits::DEFAULT) {
        Ok(plan) => {
            accepted_envelope(&plan);
            Stage::Accepted
        }
        Err(EnvelopeError::Damaged(_) | EnvelopeError::Limit { .. } | EnvelopeError::Misaligned) => Stage::Form,
        Err(_) => Stage::Meaning,
    }
}

fn accepted_envelope(plan: &PlanEnvelope<'_>) {
    assert!(!plan.payload.is_empty() && !plan.tensor_uids.is_empty());
    assert!(plan.alignments.is_none_or(|a| a.len() == plan.tensor_uids.len()));
    _ = EngineConfig::read(plan.engine_config, &Limits::DEFAULT);
}
