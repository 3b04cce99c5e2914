//! Private names in public headers.

use super::Outcome::{self, Found, Skip};
use super::libraries::read_file;
use super::unit::{Unit, text};
use crate::error::{At, ShimError};
use crate::headers::public_includes;
use crate::manifest::Mode;
use crate::names;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Headers larger than this are not MIOpen's.
const MAX_SIZE: u64 = 16 << 20;

/// `include` beside the split's folder: all of it in a prefix, MIOpen's part where others share it.
pub(super) fn leak(unit: &Unit) -> Result<Outcome, ShimError> {
    let mode = unit.manifest.mode;
    let mut roots = public_includes(&unit.folder, mode);
    roots.push(unit.folder.join("include"));
    let roots = roots.into_iter().map(|r| if mode == Mode::InPlace { r.join("miopen") } else { r }).filter(|r| r.is_dir());
    let mut stack: Vec<PathBuf> = roots.collect();
    if stack.is_empty() {
        return Ok(Skip("there are no headers beside the split".to_owned()));
    }
    let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
    while let Some(folder) = stack.pop() {
        // Links are followed, and may lead in circles.
        if !seen.insert(folder.canonicalize().at(&folder, "cannot be found")?) {
            continue;
        }
        for entry in std::fs::read_dir(&folder).at(&folder, "cannot be read")? {
            let entry = entry.at(&folder, "cannot be read")?;
            // A link that leads nowhere includes nothing.
            let Ok(metadata) = std::fs::metadata(entry.path()) else { continue };
            if metadata.is_dir() {
                stack.push(entry.path());
            } else if metadata.is_file() && metadata.len() > MAX_SIZE {
                found.push(format!("{} has {} bytes, a header has at most {MAX_SIZE}", entry.path().display(), metadata.len()));
            } else if metadata.is_file() {
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
