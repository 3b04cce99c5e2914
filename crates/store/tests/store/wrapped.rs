//! Bundles inside zstd.

use super::bundles::{export_all, fill, store_in};
use super::common::tree;
use hipplan_store::{
    LayerOptions, Limits, PackError, Store, StoreError, bundle_facts, check_pack, is_wrapped, merge_bundles, unwrap_bundle, wrap_bundle,
};
use std::path::{Path, PathBuf};

fn refused(path: &Path, limits: &Limits) -> StoreError {
    let folder = path.with_extension("out");
    std::fs::create_dir_all(&folder).unwrap();
    let error = unwrap_bundle(path, &folder.join("b.hpbundle"), limits).unwrap_err();
    assert!(tree(&folder).is_empty(), "nothing is left");
    error
}

/// A bundle with something to compress, and the same wrapped.
fn wrapped(dir: &Path) -> (PathBuf, PathBuf) {
    let (file, packed) = (dir.join("b.hpbundle"), dir.join("b.hpbundle.zst"));
    let origin = store_in(dir, "origin");
    for graph in 0..40_u8 {
        fill(&origin, &[graph, 1, 2, 3]);
    }
    export_all(&origin, &file);
    wrap_bundle(&file, &packed, 3, &Limits::default()).unwrap();
    (file, packed)
}

#[test]
fn what_is_wrapped_comes_out_as_it_went_in() {
    let dir = tempfile::tempdir().unwrap();
    let (file, packed) = wrapped(dir.path());
    let size = |path: &Path| std::fs::metadata(path).unwrap().len();
    assert!(size(&packed) * 4 < size(&file));
    assert!(is_wrapped(&packed).unwrap() && !is_wrapped(&file).unwrap());
    let again = dir.path().join("again");
    wrap_bundle(&file, &again, 3, &Limits::default()).unwrap();
    assert_eq!(std::fs::read(&again).unwrap(), std::fs::read(&packed).unwrap(), "reproducible");
    assert_eq!(unwrap_bundle(&packed, &again, &Limits::default()).unwrap(), size(&file));
    assert_eq!(std::fs::read(&again).unwrap(), std::fs::read(&file).unwrap());

    // Never served; taken in, merged and looked at as any other.
    let error = Store::open_layer(&packed).unwrap_err();
    assert!(error.code() == "not-that" && error.advice().contains("bundle import") && !error.is_damage(), "{error}");
    let target = store_in(dir.path(), "target");
    let report = target.import(&packed, &LayerOptions::default()).unwrap();
    assert_eq!(report.new, [40; 4]);
    assert!(tree(&target.root().join("tmp")).is_empty());
    merge_bundles(std::slice::from_ref(&packed), &again, &Limits::default()).unwrap();
    assert_eq!(std::fs::read(&again).unwrap(), std::fs::read(&file).unwrap());
    let facts = bundle_facts(&packed, dir.path(), true, &Limits::default()).unwrap();
    assert!(facts.is_wrapped && facts.report.unwrap().is_clean());
    assert_eq!(facts.bytes, size(&file));
}

#[test]
fn bombs_and_broken_frames_are_refused_before_they_cost_anything() {
    let dir = tempfile::tempdir().unwrap();
    let (file, packed) = wrapped(dir.path());
    let frame = std::fs::read(&packed).unwrap();
    let at = dir.path().join("x.zst");
    let code = |bytes: &[u8]| {
        std::fs::write(&at, bytes).unwrap();
        let error = refused(&at, &Limits::default());
        let StoreError::Pack { cause, .. } = error else { return error.to_string() };
        match *cause {
            PackError::Wrapping { found, expected } => format!("{found}; {expected}"),
            other => other.to_string(),
        }
    };
    let mut low = Limits::default();
    low.max_unwrapped_bytes = std::fs::metadata(&file).unwrap().len() - 1;
    let error = refused(&packed, &low);
    assert!(error.code() == "limit" && error.to_string().contains("max_unwrapped_bytes"), "{error}");

    // What is no bundle is not written out; how much it would be, it says itself.
    let mut huge = zstd::bulk::compress(&vec![0; 1 << 20], 1).unwrap();
    assert!(code(&huge).contains("magic"), "{}", code(&huge));
    let stated = zstd::zstd_safe::get_frame_content_size(&huge).unwrap();
    assert_eq!(stated, Some(1 << 20));
    let at_size = huge.windows(4).position(|w| w == (1_u32 << 20).to_le_bytes()).unwrap();
    huge[at_size..at_size + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    low.max_unwrapped_bytes = 1 << 30;
    std::fs::write(&at, &huge).unwrap();
    assert_eq!(refused(&at, &low).code(), "limit");
    // One that says less than it holds.
    let honest = std::fs::metadata(&file).unwrap().len();
    let at_size = frame.windows(4).position(|w| w == u32::try_from(honest).unwrap().to_le_bytes()).unwrap();
    let mut liar = frame.clone();
    liar[at_size..at_size + 4].copy_from_slice(&u32::try_from(honest - 64).unwrap().to_le_bytes());
    assert!(code(&liar).contains("zstd says") || code(&liar).contains("truncated"), "{}", code(&liar));
    // One that says more: as much as a signature, so that the header of the bundle is right.
    liar[at_size..at_size + 4].copy_from_slice(&u32::try_from(honest + 128).unwrap().to_le_bytes());
    assert!(code(&liar).contains("a frame that is whole") || code(&liar).contains("cut short"), "{}", code(&liar));

    assert!(code(&frame[..frame.len() / 2]).contains("cut short"), "{}", code(&frame[..frame.len() / 2]));
    assert!(code(&frame[..5]).contains("cut short"), "{}", code(&frame[..5]));
    assert!(code(b"").contains("zstd frame"));
    assert!(code(&[&frame[..], b"more"].concat()).contains("behind"));
    assert!(code(&[&frame[..], &frame[..]].concat()).contains("behind"));
    let mut bent = frame.clone();
    let middle = bent.len() / 2;
    bent[middle..middle + 8].fill(0xff);
    std::fs::write(&at, &bent).unwrap();
    match unwrap_bundle(&at, &dir.path().join("bent"), &Limits::default()) {
        Err(error) => assert_eq!(error.code(), "damaged"),
        // zstd has no digest here; what comes out does.
        Ok(_) => assert!(check_pack(&dir.path().join("bent"), &Limits::default()).is_err()),
    }
    // A stream of unknown length, as `zstd < file` writes.
    let unknown = zstd::stream::encode_all(&std::fs::read(&file).unwrap()[..], 1).unwrap();
    assert!(code(&unknown).contains("does not say how large"), "{}", code(&unknown));
}
