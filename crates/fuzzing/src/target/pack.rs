//! Packs of the store.

use super::Stage;
use crate::shell::{Shell, patch};
use hipplan_store::{EntryKind, Limits, PackError, StoreError, check_pack, find_in_pack};
use std::cell::RefCell;
use std::io::{Seek, SeekFrom, Write};
use tempfile::NamedTempFile;

const GOLDEN: &[u8] = include_bytes!("../../../../corpus/golden/v1.pack");
const HEADER: usize = 512;

thread_local! {
    /// Packs are read from files: each thread has one that it fills again and again.
    static FILE: RefCell<NamedTempFile> = RefCell::new(NamedTempFile::new().expect("a temporary file"));
}

/// A pack. Kind 0: as it stands; 1: as the tables of a pack whose header fits; 2: a valid one, changed and made right; 3: a valid one,
/// changed.
pub(super) fn pack(input: &[u8]) -> Stage {
    let Some(shell) = Shell::of(input) else { return Stage::Form };
    let bytes = match shell.kind % 4 {
        0 => shell.rest.to_vec(),
        1 => arranged(shell.rest),
        kind => {
            let mut bytes = GOLDEN.to_vec();
            patch(&mut bytes, shell.rest);
            if kind == 2 {
                seal(&mut bytes);
            }
            bytes
        }
    };
    FILE.with_borrow_mut(|file| {
        let out = file.as_file_mut();
        out.set_len(0).and_then(|()| out.seek(SeekFrom::Start(0))).and_then(|_| out.write_all(&bytes)).expect("a file of this size");
        let limits = Limits::default();
        let checked = check_pack(file.path(), &limits);
        // Looked into whether it is whole or not: what is given out is what was asked for.
        for name in bytes.get(HEADER..).unwrap_or_default().chunks_exact(32).take(64) {
            let name: &[u8; 32] = name.try_into().expect("32 bytes");
            if let Ok(Some(found)) = find_in_pack(file.path(), EntryKind::Blob, name, &limits) {
                assert_eq!(blake3::hash(&found).as_bytes(), name, "a blob of another name");
            }
            let _ = find_in_pack(file.path(), EntryKind::Plan, name, &limits);
        }
        match checked {
            Ok(facts) => {
                for (kind, name, size) in facts.entries {
                    let found = find_in_pack(file.path(), kind, &name, &limits).expect("a pack that was checked");
                    assert_eq!(found.expect("an entry that is listed").len() as u64, size);
                }
                assert!(facts.provenance.is_sorted());
                Stage::Accepted
            }
            Err(error) => stage(&error),
        }
    })
}

fn stage(error: &StoreError) -> Stage {
    let StoreError::Pack { cause, .. } = error else { panic!("{error}") };
    match **cause {
        PackError::Field { .. } | PackError::FanOut { .. } | PackError::Row { .. } | PackError::Entry { .. } => Stage::Meaning,
        _ => Stage::Form,
    }
}

/// A pack with a few rows of each kind and everything in its place; what stands in the tables is given.
fn arranged(given: &[u8]) -> Vec<u8> {
    let (&[blobs, plans, bits, provenance], tables) = given.split_first_chunk().unwrap_or((&[1, 0, 0, 0], &[]));
    let kinds = [(blobs % 8, bits % 4), (plans % 4, 0), (0, 0), (0, 0)].map(|(rows, bits)| (usize::from(rows), u32::from(bits)));
    let provenance = usize::from(provenance % 16);
    let mut next = HEADER;
    let mut take = |len: usize| {
        let at = next;
        next = (next + len).next_multiple_of(64);
        at as u64
    };
    let fan_outs = kinds.map(|(_, bits)| take(((1 << bits) + 1) * 4));
    let rows = kinds.map(|(rows, _)| take(rows * 80));
    let provenance_at = take(provenance);
    let mut bytes = vec![0; HEADER];
    bytes.extend_from_slice(&tables[..tables.len().min(next - HEADER)]);
    let values = tables.len().saturating_sub(next - HEADER).next_multiple_of(64);
    bytes.resize(next + values, 0);
    bytes[12..16].fill(0);
    let numbers = [(16, (next + values) as u64), (64, provenance_at), (72, provenance as u64), (80, next as u64)];
    let places = (0..4).flat_map(|kind| [(96 + 32 * kind, fan_outs[kind]), (104 + 32 * kind, rows[kind])]);
    let sizes = (0..4).map(|kind| (112 + 32 * kind, kinds[kind].0 as u64 | u64::from(kinds[kind].1) << 32));
    for (at, number) in numbers.into_iter().chain(places).chain(sizes) {
        bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
    }
    seal(&mut bytes);
    bytes
}

/// The magic, version and digests that the format asks for.
fn seal(bytes: &mut [u8]) {
    bytes[..8].copy_from_slice(b"\x89HPPK\r\n\x1a");
    bytes[8..10].copy_from_slice(&[1, 0]);
    let values = usize::from_le_bytes(bytes[80..88].try_into().expect("eight bytes")).clamp(HEADER, bytes.len());
    let mut root = blake3::Hasher::new_derive_key("hipplan pack root 1");
    root.update(&bytes[..32]).update(&[0; 32]).update(&bytes[64..480]).update(&[0; 32]).update(&bytes[HEADER..values]);
    bytes[32..64].copy_from_slice(root.finalize().as_bytes());
    let mut digest = blake3::Hasher::new_derive_key("hipplan pack header 1");
    digest.update(&bytes[..480]);
    bytes[480..HEADER].copy_from_slice(digest.finalize().as_bytes());
}
