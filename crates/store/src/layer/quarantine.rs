//! Setting damaged entries aside, so that they are rebuilt and can be looked at.

use super::Directory;
use crate::layout::QUARANTINE;
use crate::plans::check_root;
use crate::{EntryKind, RecordError, StoreError, fs, record};
use hipplan_serialize::plan::PlanView;
use std::path::Path;
use std::time::SystemTime;

impl Directory {
    /// Moves a damaged file out of the way, if it still is the one that was found damaged. That this fails is no news: the entry is a
    /// miss either way.
    pub(crate) fn set_aside(&self, kind: EntryKind, name: &[u8; 32], path: &Path, file: &fs::OpenFile, error: &StoreError) {
        // A request may be wrong about a good file.
        if !self.access().is_writable() || !error.is_damage() || is_sound(kind, name, path, file).unwrap_or(true) {
            return;
        }
        // Several copies of one entry may be set aside in the course of time.
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let to = self.root().join(QUARANTINE).join(kind.set_aside_name(name, now.subsec_nanos()));
        if self.uses_folder(QUARANTINE).is_err() || fs::rename_away(path, &to).is_err() {
            return;
        }
        // A good file may have come between the reading and the moving: it goes back, unless there is a newer one yet.
        let is_the_same = fs::status(&to).is_ok_and(|moved| moved.inode == file.status().inode);
        if !is_the_same && fs::rename_back(&to, path).is_ok_and(|back| !back) {
            drop(fs::unlink(&to));
        }
        self.durable().forget_file(kind, name);
    }
}

/// Whether a file is what its name says, or was written by another version, which may find it good.
fn is_sound(kind: EntryKind, name: &[u8; 32], path: &Path, file: &fs::OpenFile) -> std::io::Result<bool> {
    Ok(match kind {
        EntryKind::Blob => file.hash()? == *name,
        EntryKind::Plan => match PlanView::open(&file.read()?) {
            Ok(view) => check_root(path, &view, name).is_ok() && view.verify().is_ok(),
            Err(error) => error.is_too_old() || error.is_too_new(),
        },
        EntryKind::PlanRecord | EntryKind::Selection => {
            matches!(record::decode(kind, name, &file.read()?), Ok(_) | Err(RecordError::TooOld { .. } | RecordError::TooNew { .. }))
        }
    })
}
