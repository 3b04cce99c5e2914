//! What writers and upkeep left behind that were killed: unfinished files, and what was about to be removed.

use super::gc::GcOptions;
use super::generation::is_left_alone;
use super::stamps::{is_fresh, nanos};
use crate::layer::{Directory, walk};
use crate::layout::{PACKS, QUARANTINE, TMP};
use crate::{StoreError, fs};
use std::io::ErrorKind;
use std::path::Path;
use std::time::SystemTime;

/// What was cleared away, or would be.
#[derive(Debug, Default)]
pub(super) struct Leftovers {
    pub(super) files: u64,
    pub(super) quarantined: u64,
    pub(super) bytes: u64,
}

/// Clears away what is older than the grace age in `tmp` and `quarantine`, and stamps of packs that are not there.
pub(super) fn clear(directory: &Directory, options: &GcOptions) -> Result<Leftovers, StoreError> {
    let root = directory.root();
    let mut cleared = Leftovers::default();
    for folder in [TMP, QUARANTINE] {
        walk::own_folders(root, folder)?;
        for name in walk::names(&root.join(folder)) {
            let path = root.join(folder).join(name?);
            let time = if folder == QUARANTINE { moved } else { changed };
            let Some(size) = unlink_if_old(&path, options, time)? else { continue };
            let count = if folder == QUARANTINE { &mut cleared.quarantined } else { &mut cleared.files };
            *count = count.saturating_add(1);
            cleared.bytes = cleared.bytes.saturating_add(size);
        }
    }
    walk::own_folders(root, PACKS)?;
    for name in walk::names(&root.join(PACKS)) {
        let Some(name) = name.ok().filter(|name| is_left_alone(directory, Path::new(name))) else { continue };
        let Some(size) = unlink_if_old(&root.join(PACKS).join(name), options, changed)? else { continue };
        cleared.files = cleared.files.saturating_add(1);
        cleared.bytes = cleared.bytes.saturating_add(size);
    }
    Ok(cleared)
}

/// When a file was written last.
fn changed(status: &fs::Status) -> SystemTime {
    status.changed
}

/// When a file was written or moved last: a damaged file keeps the time at which it was written, and is set aside much later.
fn moved(status: &fs::Status) -> SystemTime {
    status.changed.max(status.moved)
}

/// Length of a file that is older than the grace age and is gone now, or would be.
fn unlink_if_old(path: &Path, options: &GcOptions, time: fn(&fs::Status) -> SystemTime) -> Result<Option<u64>, StoreError> {
    let status = match fs::status(path) {
        Ok(status) => status,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(StoreError::io("look at", path)(e)),
    };
    let fs::Kind::File { size } = status.kind else { return Ok(None) };
    if is_fresh(nanos(time(&status)), options.now, options.grace) {
        return Ok(None);
    }
    if !options.dry_run {
        fs::unlink(path).map_err(StoreError::io("remove", path))?;
    }
    Ok(Some(size))
}
