//! Bundles, wrapped in zstd.

use super::Stage;
use crate::shell::{Shell, patch};
use hipplan_store::{Limits, PackError, StoreError, bundle_facts, merge_bundles, unwrap_bundle};
use std::path::Path;
use tempfile::TempDir;

const GOLDEN: &[u8] = include_bytes!("../../../../corpus/golden/v1.pack");
/// What may come out of a wrapping here.
const MOST: u64 = 1 << 20;

thread_local! {
    static FOLDER: TempDir = tempfile::tempdir().expect("a temporary folder");
}

/// A wrapped bundle. Kind 0: as it stands; 1: a valid one, changed; 2: anything, wrapped; 3: a bundle that was changed, wrapped.
pub(super) fn bundle(input: &[u8]) -> Stage {
    let Some(shell) = Shell::of(input) else { return Stage::Form };
    let frame = |bytes: &[u8]| zstd::bulk::compress(bytes, 1).expect("memory for a frame");
    let bytes = match shell.kind % 4 {
        0 => shell.rest.to_vec(),
        1 => {
            let mut bytes = frame(GOLDEN);
            patch(&mut bytes, shell.rest);
            bytes
        }
        2 => frame(shell.rest),
        _ => {
            let mut bytes = GOLDEN.to_vec();
            patch(&mut bytes, shell.rest);
            frame(&bytes)
        }
    };
    FOLDER.with(|folder| {
        let at = |name: &str| folder.path().join(name);
        let mut limits = Limits::default();
        limits.max_unwrapped_bytes = MOST;
        std::fs::write(at("wrapped"), &bytes).expect("a file of this size");
        // What came of the input before may be no bundle, and such a file is not replaced.
        let _ = std::fs::remove_file(at("bundle"));
        let unwrapped = unwrap_bundle(&at("wrapped"), &at("bundle"), &limits);
        let stage = match &unwrapped {
            Ok(size) => {
                assert_eq!(std::fs::metadata(at("bundle")).expect("what was written").len(), *size);
                assert!(*size <= MOST);
                look_into(folder.path(), &limits)
            }
            Err(error) => stage(error),
        };
        let left = std::fs::read_dir(folder.path()).expect("a folder").map(|e| e.expect("an entry").file_name());
        let known = ["wrapped", "bundle", "merged", "again"];
        assert!(left.into_iter().all(|name| known.iter().any(|known| name == *known)), "something is left behind");
        stage
    })
}

/// What holds of every bundle whose tables are right: a merge of it holds what is good, and merged again it is the same.
fn look_into(folder: &Path, limits: &Limits) -> Stage {
    let at = |name: &str| folder.join(name);
    let facts = match bundle_facts(&at("wrapped"), folder, true, limits) {
        Ok(facts) => facts,
        Err(error) => return stage(&error),
    };
    let merged = merge_bundles(&[at("wrapped"), at("bundle")], &at("merged"), limits).expect("tables that are right");
    assert!(merged.entries.iter().zip(facts.entries).all(|(good, all)| *good <= all));
    merge_bundles(&[at("merged"), at("wrapped"), at("merged")], &at("again"), limits).expect("tables that are right");
    assert_eq!(std::fs::read(at("again")).expect("written"), std::fs::read(at("merged")).expect("written"));
    if merged.problems.is_empty() { Stage::Accepted } else { Stage::Meaning }
}

fn stage(error: &StoreError) -> Stage {
    match error {
        StoreError::Pack { cause, .. } => match **cause {
            PackError::Wrapping { .. } | PackError::Magic { .. } | PackError::TooShort { .. } => Stage::Form,
            _ => Stage::Meaning,
        },
        StoreError::Limit { .. } => Stage::Form,
        other => panic!("{other}"),
    }
}
