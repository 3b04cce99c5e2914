//! Plan files and provider payloads.

use super::Stage;
use crate::Rng;
use crate::shell::{Shell, Valid, patch};
use hipplan_serialize::aligned::aligned_copy;
use hipplan_serialize::plan::{
    BakedScalar, BindingV1, PayloadError, PayloadHead, PayloadWriter, PlanError, PlanMetaV1, PlanView, PlanWriter,
};
use hipplan_serialize::{GraphKey, Knob, Limits, PlanIdentity, TensorValue, canon};

/// A plan file. Kind 0: as it stands; 1: with its length, digests and root hash made right; 2: a valid plan, changed and made right.
pub(super) fn file(input: &[u8]) -> Stage {
    let Some(shell) = Shell::of(input) else { return Stage::Form };
    let mut bytes = match shell.kind % 3 {
        2 => {
            let (graph, changes) = shell.valid();
            let mut bytes = valid(graph, changes);
            patch(&mut bytes, changes);
            bytes
        }
        _ => shell.rest.to_vec(),
    };
    if shell.kind % 3 != 0 {
        seal(&mut bytes);
    }
    let bytes = aligned_copy(&bytes);
    let checked = PlanView::open(&bytes).and_then(|plan| plan.verify().map(|()| plan));
    match checked {
        Ok(plan) => {
            let encoding = plan.canonical().expect("verified");
            if let Ok(graph) = canon::decode(encoding, &Limits::DEFAULT) {
                assert_eq!(graph.view().canonical().expect("known fields only").key, plan.meta().graph_key());
            }
            let tables = plan.payload().expect("verified").read_tables().expect("verified");
            assert!(tables.runtime_uids().all(|uid| tables.is_runtime(uid)));
            Stage::Accepted
        }
        Err(error) => {
            use PlanError as E;
            match error {
                // Behind the root hash.
                E::Section { .. } | E::SectionCount { .. } | E::SectionDigest { .. } => Stage::Meaning,
                E::Metadata(_) | E::MetadataField { .. } | E::Payload(_) => Stage::Meaning,
                _ => Stage::Form,
            }
        }
    }
}

/// Lengths, digests and root hash as the format asks for, as far as the table can be found at all.
fn seal(file: &mut Vec<u8>) {
    file.resize(file.len().next_multiple_of(64).max(64), 0);
    let len = file.len();
    file[16..24].copy_from_slice(&(len as u64).to_le_bytes());
    let word = |file: &[u8], at: usize| u64::from_le_bytes(file[at..at + 8].try_into().expect("eight bytes"));
    let counts = word(file, 24);
    let (count, meta) = ((counts & 0xffff_ffff) as usize, (counts >> 32) as usize);
    let Some(body) = count.checked_mul(64).and_then(|t| t.checked_add(64 + meta.next_multiple_of(64))).filter(|&b| b <= len) else {
        return;
    };
    for row in 0..count {
        let at = 64 + row * 64;
        let offset = usize::try_from(word(file, at + 8)).unwrap_or(usize::MAX);
        let length = usize::try_from(word(file, at + 16)).unwrap_or(usize::MAX);
        let end = length.checked_next_multiple_of(64).and_then(|l| l.checked_add(offset));
        if let Some(section) = end.and_then(|end| file.get(offset..end)) {
            let digest = blake3::hash(section);
            file[at + 32..at + 64].copy_from_slice(digest.as_bytes());
        }
    }
    let mut hasher = blake3::Hasher::new_derive_key("hipplan plan root 1");
    hasher.update(&file[..32]).update(&file[64..body]);
    let root = hasher.finalize();
    file[32..64].copy_from_slice(root.as_bytes());
}

/// A valid plan of a graph.
fn valid(graph: &Valid, bytes: &[u8]) -> Vec<u8> {
    let encoding = &graph.encoding;
    let scalars = [(0, false), (1, true), (3, true)];
    let bindings = scalars.map(|(ordinal, is_runtime)| BindingV1 {
        ordinal,
        role: 0,
        kind: u8::from(is_runtime) + u8::from(ordinal == 3),
        dtype: 1,
        dims: vec![1],
        strides: vec![1],
        first_use: format!("node 0 x{ordinal}"),
    });
    let baked = vec![BakedScalar { uid: 3, is_default: true, value: TensorValue::Float32(0.5) }];
    let payload = PayloadWriter { kind: "cpu", version: 1, runtime_uids: vec![1, 3], baked, body: &bytes[..bytes.len().min(40)] };
    let identity = PlanIdentity {
        graph: GraphKey::of_encoding(encoding),
        target: "cpu".into(),
        provider: "cpu".into(),
        engine: "E".into(),
        engine_revision: "1".into(),
        knobs: vec![Knob { id: "k".into(), value: bytes.len().to_string() }],
    };
    let meta = PlanMetaV1 { workspace_size: 64, bindings: bindings.into(), ..PlanMetaV1::of(&identity) };
    let payload = payload.finish().expect("a payload");
    PlanWriter { meta: &meta, canonical: encoding, payload: &payload }.finish().expect("a plan").to_vec()
}

/// A payload. Kind 0: as it stands; 1: its magic and the length of its body made right; 2: a valid one, changed.
pub(super) fn payload(input: &[u8]) -> Stage {
    let Some(shell) = Shell::of(input) else { return Stage::Form };
    let mut bytes = shell.rest.to_vec();
    match shell.kind % 3 {
        0 => {}
        1 => {
            bytes.resize(bytes.len().next_multiple_of(64).max(64), 0);
            bytes[..8].copy_from_slice(b"\x89HPPY\r\n\x1a");
            bytes.resize(bytes.len() + 128, 0);
            bytes[28] %= 8;
            bytes[32] %= 4;
            bytes[36..40].fill(0);
            let tables = (bytes[28] as usize * 8 + bytes[32] as usize * 24).next_multiple_of(64);
            bytes[29..32].fill(0);
            bytes[33..40].fill(0);
            let body = (bytes.len() - 64).saturating_sub(tables) as u64;
            bytes[40..48].copy_from_slice(&body.to_le_bytes());
            bytes[48..64].fill(0);
        }
        _ => {
            let mut rng = Rng::from_bytes(shell.rest);
            let baked = (0..rng.below(4) as i64).map(|i| BakedScalar {
                uid: i * 3,
                is_default: i % 2 == 1,
                value: TensorValue::Float64(rng.any() as f64),
            });
            let baked: Vec<_> = baked.collect();
            let runtime_uids = baked.iter().filter(|b| b.is_default).map(|b| b.uid).chain([100]).collect();
            let writer = PayloadWriter { kind: "k", version: 1, runtime_uids, baked, body: &[1; 5] };
            bytes = writer.finish().expect("a payload");
            // The tables more often than the header before them.
            let from = if shell.kind < 192 { 64 } else { 0 };
            patch(&mut bytes[from..], shell.rest.get(shell.rest.len().min(16)..).unwrap_or_default());
        }
    }
    let head = match PayloadHead::parse(&bytes) {
        Ok(head) => head,
        Err(_) => return Stage::Form,
    };
    match head.read_tables() {
        Ok(view) => {
            let baked: Vec<_> = view.baked().collect();
            assert!(view.runtime_uids().is_sorted());
            assert!(baked.iter().all(|b| b.is_default == view.is_runtime(b.uid)));
            // Written again from its parts, it is the same bytes: the container has one spelling.
            let writer = PayloadWriter {
                kind: view.kind(),
                version: view.version(),
                runtime_uids: view.runtime_uids().collect(),
                baked,
                body: view.body(),
            };
            assert_eq!(writer.finish().expect("was read"), bytes);
            Stage::Accepted
        }
        Err(PayloadError::Field { field, .. }) if field != "body length" && !field.starts_with("reserved") => Stage::Meaning,
        Err(_) => Stage::Form,
    }
}
