//! Index records of the store.

use super::Stage;
use crate::Rng;
use crate::shell::{Shell, patch};
use hipplan_serialize::{PlanKey, PlanRef, RootHash};
use hipplan_store::EntryKind;
use hipplan_store::record::{Record, RecordError, RecordKind, decode, encode};

/// A record. Kind 0: as it stands; 1: with lengths and digest made right; 2: a valid one, changed and made right.
pub(super) fn record(input: &[u8]) -> Stage {
    let Some(shell) = Shell::of(input) else { return Stage::Form };
    let mut bytes = shell.rest.to_vec();
    if shell.kind % 3 == 2 {
        let mut rng = Rng::from_bytes(shell.rest);
        let mut hash = || std::array::from_fn(|_| rng.below(256) as u8);
        let key: [u8; 32] = hash();
        let first = PlanRef { key: PlanKey(key), root: RootHash(hash()), size: 1 };
        let rows = [first, PlanRef { key: PlanKey(hash()), ..first }];
        let (kind, rows) = if shell.kind < 128 { (RecordKind::Plan, &rows[..1]) } else { (RecordKind::Selection, &rows[..]) };
        bytes = encode(kind, &key, rows);
        patch(&mut bytes, shell.rest.get(shell.rest.len().min(64)..).unwrap_or_default());
    }
    if shell.kind % 3 != 0 {
        seal(&mut bytes);
    }
    let key = bytes.get(64..96).and_then(|key| key.try_into().ok()).unwrap_or([0; 32]);
    let mut stage = Stage::Form;
    for entries in [EntryKind::PlanRecord, EntryKind::Selection] {
        let reached = match decode(entries, &key, &bytes) {
            Ok(Record { kind, rows }) => {
                assert_eq!(encode(kind, &key, &rows), bytes, "one record has one spelling");
                Stage::Accepted
            }
            Err(RecordError::Field { .. }) => Stage::Meaning,
            Err(_) => Stage::Form,
        };
        stage = stage.max(reached);
    }
    stage
}

/// The lengths and the digest that the format asks for.
fn seal(bytes: &mut Vec<u8>) {
    let rows = bytes.len().saturating_sub(96) / 80;
    bytes.resize(96 + rows * 80, 0);
    bytes[..8].copy_from_slice(b"\x89HPRC\r\n\x1a");
    bytes[8..10].copy_from_slice(&[1, 0]);
    bytes[12..16].copy_from_slice(&(rows as u32).to_le_bytes());
    let len = bytes.len() as u64;
    bytes[16..24].copy_from_slice(&len.to_le_bytes());
    let mut hasher = blake3::Hasher::new_derive_key("hipplan index record 1");
    hasher.update(&bytes[..32]).update(&bytes[64..]);
    let digest = hasher.finalize();
    bytes[32..64].copy_from_slice(digest.as_bytes());
}
