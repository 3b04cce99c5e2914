//! What writers and upkeep left behind that were killed: unfinished files, and what was about to be removed.

use super::gc::GcOptions;
use super::stamps::{is_fresh, nanos};
use super::trash;
use super::usage::size_of;
use crate::layer::{Directory, walk};
use crate::layout::{PACKS, QUARANTINE, TMP, TRASH};
use crate::{StoreError, fs};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::Path;

/// What was cleared away, or would be.
#[derive(Debug, Default)]
pub(super) struct Leftovers {
    pub(super) files: u64,
    pub(super) quarantined: u64,
    pub(super) bytes: u64,
}

/// Clears away what is older than the grace age in `tmp` and `quarantine`, and stamps of packs that are not there.
///
/// What upkeep that was killed left in `trash` gets its name back, and is decided about as all else is.
pub(super) fn clear(directory: &Directory, options: &GcOptions) -> Result<Leftovers, StoreError> {
    let root = directory.root();
    let mut cleared = Leftovers::default();
    for folder in [TMP, QUARANTINE] {
        walk::own_folders(root, folder)?;
        for name in walk::names(&root.join(folder)) {
            let path = root.join(folder).join(name?);
            let Some(size) = unlink_if_old(&path, options)? else { continue };
            let count = if folder == QUARANTINE { &mut cleared.quarantined } else { &mut cleared.files };
            *count = count.saturating_add(1);
            cleared.bytes = cleared.bytes.saturating_add(size);
        }
    }
    walk::own_folders(root, PACKS)?;
    let names: HashSet<_> = walk::names(&root.join(PACKS)).into_iter().flatten().collect();
    for name in &names {
        let is_left =
            Path::new(name).extension() == Some(OsStr::new("used")) && !names.contains(Path::new(name).with_extension("pack").as_os_str());
        let Some(size) = is_left.then(|| unlink_if_old(&root.join(PACKS).join(name), options)).transpose()?.flatten() else { continue };
        cleared.files = cleared.files.saturating_add(1);
        cleared.bytes = cleared.bytes.saturating_add(size);
    }
    if options.dry_run {
        return Ok(cleared);
    }
    walk::own_folders(root, TRASH)?;
    trash::recover(directory)?;
    Ok(cleared)
}

/// Length of a file that is older than the grace age and is gone now, or would be.
fn unlink_if_old(path: &Path, options: &GcOptions) -> Result<Option<u64>, StoreError> {
    let Some((size, changed)) = size_of(path)? else { return Ok(None) };
    if is_fresh(nanos(changed), options.now, options.grace) {
        return Ok(None);
    }
    if !options.dry_run {
        fs::unlink(path).map_err(StoreError::io("remove", path))?;
    }
    Ok(Some(size))
}
