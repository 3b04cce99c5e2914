//! The pack among the golden files: entries of every kind, provenance, and a block with a signature that is none.

use crate::decoder::Facts;
use hipplan::{ContentHash, aligned, plan::PlanView};
use hipplan_store::{EntryKind, Limits, check_pack, record, testing::write_pack};
use std::fmt::Write;
use std::path::PathBuf;

/// A file in a folder of its own, for what reads and writes paths.
fn file() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("golden.pack");
    (folder, path)
}

/// The pack, with this plan in it.
pub(crate) fn written(plan: &[u8]) -> Vec<u8> {
    let named = |kind, bytes: Vec<u8>| (kind, *blake3::hash(&bytes).as_bytes(), bytes);
    // So many that the fan-out has several buckets.
    let mut entries: Vec<_> = (0..40).map(|n| named(EntryKind::Blob, vec![n; usize::from(n) * 4])).collect();
    let root = PlanView::open(&aligned::aligned_copy(plan)).expect("valid").root();
    entries.push((EntryKind::Plan, root.0, plan.to_vec()));
    entries.push((EntryKind::PlanRecord, [1; 32], record::encode(record::RecordKind::Plan, &[1; 32], &super::rows()[..1])));
    entries.push((EntryKind::Selection, [9; 32], record::encode(record::RecordKind::Selection, &[9; 32], &super::rows())));
    let sizes: Vec<_> = entries.iter().map(|(kind, name, bytes)| (*kind, *name, bytes.len() as u64)).collect();
    let (_folder, path) = file();
    let provenance = ["golden 2", "golden 1"].map(String::from);
    write_pack(&path, &sizes, &provenance, |number| entries[number].2.clone()).expect("written");
    let signature = [&b"\x89HPSG\r\n\x1a"[..], &[0x5e; 32], &[0x51; 64], &[0; 24]].concat();
    [std::fs::read(&path).expect("readable"), signature].concat()
}

/// What hipplan finds in it, in the words of the decoder.
pub(crate) fn facts(bytes: &[u8]) -> Facts {
    let (_folder, path) = file();
    std::fs::write(&path, bytes).expect("written");
    let facts = check_pack(&path, &Limits::default()).expect("valid");
    assert_eq!(facts.bytes, bytes.len() as u64);
    let mut out = format!("root {}\n", facts.root);
    for (kind, name, size) in facts.entries {
        _ = writeln!(out, "{} {} {size} bytes", kind.word().replace('-', " "), ContentHash(name));
    }
    for line in facts.provenance {
        _ = writeln!(out, "provenance {line}");
    }
    for key in facts.signed_by {
        _ = writeln!(out, "signed by {}", ContentHash(key));
    }
    out
}
