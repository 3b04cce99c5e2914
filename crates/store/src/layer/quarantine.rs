//! Setting damaged entries aside, so that they are rebuilt and can be looked at.

use super::Directory;
use crate::layout::QUARANTINE;
use crate::upkeep::trash::condemn;
use crate::{EntryKind, Limits, StoreError, entry, fs};
use std::path::Path;
use std::time::SystemTime;

impl Directory {
    /// Moves a damaged file out of the way, if it still is the one that was found damaged; tells whether it did. That this fails is no news
    /// for a lookup: the entry is a miss either way.
    ///
    /// It goes by way of `trash`. A good file may come between the last look and the moving, and is moved in its place: from there it goes
    /// back, and if a kill falls in between, the next upkeep puts it back.
    pub(crate) fn set_aside(
        &self,
        kind: EntryKind,
        name: &[u8; 32],
        path: &Path,
        file: &fs::OpenFile,
        error: &StoreError,
        limits: &Limits,
    ) -> Result<bool, StoreError> {
        // A request may be wrong about a good file.
        if !self.access().is_writable() || !error.is_damage() || is_sound(kind, name, path, file, limits)? {
            return Ok(false);
        }
        // Several copies of one entry may be set aside in the course of time.
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let to = self.uses_folder(QUARANTINE)?.join(kind.set_aside_name(name, now.subsec_nanos()));
        // Where the second step fails, it goes back.
        condemn(self, kind, name, file.status().inode)?.map_or(Ok(false), |condemned| condemned.set_aside(&to))
    }
}

/// Whether a file is what its name says. One that cannot be read now, or was written by another version, may be. One above the limits is
/// taken to be none without looking at it: no size that somebody gave a file is worth the memory or the hour.
fn is_sound(kind: EntryKind, name: &[u8; 32], path: &Path, file: &fs::OpenFile, limits: &Limits) -> Result<bool, StoreError> {
    match entry::check_loose(kind, name, path, file, limits) {
        Ok(_) => Ok(true),
        Err(StoreError::Limit { .. }) => Ok(false),
        Err(error) if error.is_damage() => Ok(false),
        Err(error) => Err(error),
    }
}
