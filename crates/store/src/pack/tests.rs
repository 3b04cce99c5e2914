//! What packs promise, on packs that are whole, damaged, and made to do harm.

mod damage;
mod hostile;
mod roundtrip;

use super::testing::maps_in;
use super::*;
use crate::{Blob, EntryKind, Limits, StoreError, fs};
use hipplan_serialize::AlignedBytes;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Entries with their bytes.
type Entries = Vec<(EntryKind, [u8; 32], Vec<u8>)>;

/// An entry of these bytes, named as its kind asks.
fn entry(kind: EntryKind, bytes: &[u8]) -> (EntryKind, [u8; 32], Vec<u8>) {
    let mut name = *blake3::hash(bytes).as_bytes();
    if kind != EntryKind::Blob {
        name[31] ^= kind as u8;
    }
    (kind, name, bytes.to_vec())
}

/// A few entries of every kind, among them an empty one.
fn few() -> Entries {
    let sizes = [0, 1, 63, 64, 65, 300];
    let of = |kind: EntryKind| sizes.iter().map(move |&size| entry(kind, &vec![kind as u8 + 1; size]));
    EntryKind::ALL.into_iter().flat_map(of).collect()
}

/// Many blobs of a few bytes.
fn many(count: u32) -> Entries {
    (0..count).map(|n| entry(EntryKind::Blob, &n.to_le_bytes())).collect()
}

fn written(folder: &Path, entries: &Entries, provenance: &[&str]) -> Result<Written, StoreError> {
    let new: Vec<NewEntry> =
        entries.iter().map(|(kind, name, bytes)| NewEntry { kind: *kind, name: *name, size: bytes.len() as u64 }).collect();
    let provenance: Vec<String> = provenance.iter().map(|line| line.to_string()).collect();
    write(folder, &new, &provenance, &mut |number, sink| entries[number].2.chunks(100).try_for_each(&mut *sink))
}

/// A pack in a folder of its own.
struct Case {
    path: PathBuf,
    entries: Entries,
    _folder: tempfile::TempDir,
}

impl Case {
    fn new(entries: Entries, provenance: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("00000001-aa.pack");
        let written = written(folder.path(), &entries, provenance).unwrap();
        fs::rename(written.temp, &path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), written.bytes);
        Self { path, entries, _folder: folder }
    }

    fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.path).unwrap()
    }

    fn open(&self) -> Arc<Pack> {
        Arc::new(Pack::open(&self.path, &Limits::default()).unwrap().unwrap())
    }

    /// Puts other bytes in the place of the pack, as a new file, and opens that.
    fn with(&self, bytes: &[u8]) -> Result<Arc<Pack>, StoreError> {
        let other = self.path.with_extension("other");
        std::fs::write(&other, bytes).unwrap();
        std::fs::rename(&other, &self.path).unwrap();
        Pack::open(&self.path, &Limits::default()).map(|pack| Arc::new(pack.unwrap()))
    }
}

/// The entry of a name, in either form.
fn get(pack: &Arc<Pack>, kind: EntryKind, name: &[u8; 32]) -> Result<Option<AlignedBytes>, StoreError> {
    let Some(row) = pack.find(kind, name)? else { return Ok(None) };
    let bytes = pack.read(&row, u64::MAX)?;
    assert_eq!(pack.blob(&row, u64::MAX).unwrap()[..], bytes[..]);
    Ok(Some(bytes))
}

/// Makes root and header digest right, so that what lies behind their checks is reached.
fn reseal(bytes: &mut [u8]) {
    let values = u64::from_le_bytes(bytes[80..88].try_into().unwrap()) as usize;
    let mut root = blake3::Hasher::new_derive_key("hipplan pack root 1");
    root.update(&bytes[..32]).update(&[0; 32]).update(&bytes[64..480]).update(&[0; 32]);
    root.update(&bytes[512..values.clamp(512, bytes.len())]);
    bytes[32..64].copy_from_slice(root.finalize().as_bytes());
    reseal_header(bytes);
}

fn reseal_header(bytes: &mut [u8]) {
    let mut digest = blake3::Hasher::new_derive_key("hipplan pack header 1");
    digest.update(&bytes[..480]);
    bytes[480..512].copy_from_slice(digest.finalize().as_bytes());
}

/// The fault of a pack, if it is one.
fn cause(error: StoreError) -> PackError {
    assert!(error.path().is_some() && !error.advice().is_empty());
    match error {
        StoreError::Pack { cause, .. } => *cause,
        other => panic!("{other:?}"),
    }
}
