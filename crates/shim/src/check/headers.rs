//! Private names in public headers.

use super::Outcome::{self, Found, Skip};
use super::libraries::read_file;
use super::unit::{Unit, text};
use crate::error::{At, ShimError};
use crate::manifest::Mode;
use crate::names;
use std::path::PathBuf;

/// Headers larger than this are not MIOpen's.
const MAX_SIZE: u64 = 16 << 20;

/// `include` beside the split's folder: all of it in a prefix, MIOpen's part where others share it.
pub(super) fn leak(unit: &Unit) -> Result<Outcome, ShimError> {
    let shared = unit.manifest.mode == Mode::InPlace;
    let roots = ["include", "../include"].map(|name| unit.folder.join(name));
    let roots = roots.into_iter().map(|r| if shared { r.join("miopen") } else { r }).filter(|r| r.is_dir());
    let mut stack: Vec<PathBuf> = roots.collect();
    if stack.is_empty() {
        return Ok(Skip("there are no headers beside the split".to_owned()));
    }
    let mut found = Vec::new();
    while let Some(folder) = stack.pop() {
        for entry in std::fs::read_dir(&folder).at(&folder, "cannot be read")? {
            let entry = entry.at(&folder, "cannot be read")?;
            let kind = entry.file_type().at(&entry.path(), "cannot be read")?;
            if kind.is_dir() {
                stack.push(entry.path());
            } else if kind.is_file() && entry.metadata().is_ok_and(|m| m.len() <= MAX_SIZE) {
                let header = read_file(&entry.path())?;
                let words = header.split(|b| !b.is_ascii_alphanumeric() && *b != b'_');
                if let Some(word) = words.into_iter().find(|w| names::public_of(w).is_some()) {
                    found.push(format!("{} has {}", entry.path().display(), text(word)));
                }
            }
        }
    }
    found.sort();
    Ok(Found(found))
}
