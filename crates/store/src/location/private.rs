//! A folder of this user's own among the temporary files of all users.
//!
//! Who may put files into a store decides what its readers execute. Where everybody may make a folder of any name, it is used only if
//! nobody else can have made it, nor can change it or put another in its place.

use super::verdict::{self, Verdict};
use crate::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Whoever is in the group or in none may write.
const WRITE_BY_OTHERS: u32 = 0o022;
/// Only its owner, and that of the folder, may remove or rename a name in it.
const STICKY: u32 = 0o1000;

/// The folder of this user in a folder for temporary files.
pub(super) fn folder(tmp: &Path) -> PathBuf {
    tmp.join(format!("hipplan-{}", fs::user()))
}

/// Looks at the place for a store in the folder of this user.
pub(super) fn look(tmp: &Path) -> Verdict {
    if let Some(verdict) = verdict::folder_is_there(tmp).or_else(|| replaceable(tmp)) {
        return verdict;
    }
    let folder = folder(tmp);
    match fs::status(&folder) {
        Ok(status) => refused(&folder, &status).unwrap_or_else(|| verdict::look(&folder.join("store"))),
        Err(e) if e.kind() == ErrorKind::NotFound => verdict::look(&folder.join("store")),
        Err(e) => Verdict::unusable("io", format!("cannot look at {}: {e}", folder.display())),
    }
}

/// Makes the folder of this user where it is not there.
pub(super) fn make(tmp: &Path) -> Result<(), Verdict> {
    let folder = folder(tmp);
    let failed = |e| Verdict::unusable("io", format!("cannot make the folder {}: {e}", folder.display()));
    fs::make_private_folder(&folder).map_err(failed)?;
    // Somebody else may have been faster.
    let status = fs::status(&folder).map_err(failed)?;
    refused(&folder, &status).map_or(Ok(()), Err)
}

/// Why a folder for temporary files does not keep what is made in it.
fn replaceable(tmp: &Path) -> Option<Verdict> {
    let status = fs::status_followed(tmp).ok()?;
    let no_others = status.mode & WRITE_BY_OTHERS == 0 || status.mode & STICKY != 0;
    if !no_others {
        let cause = format!("{}: others may replace what is in it (mode {:o}), expected a sticky folder", tmp.display(), status.mode);
        return Some(Verdict::unusable("not-private", cause));
    }
    (status.owner != 0 && status.owner != fs::user()).then(|| {
        let cause = format!("{}: it belongs to user {}, expected root or user {}", tmp.display(), status.owner, fs::user());
        Verdict::unusable("not-private", cause)
    })
}

/// Why what stands in place of this user's folder is not it.
fn refused(folder: &Path, status: &fs::Status) -> Option<Verdict> {
    let found = if status.kind != fs::Kind::Folder {
        status.kind.name().to_owned()
    } else if status.owner != fs::user() {
        format!("a folder of user {}", status.owner)
    } else if status.mode & WRITE_BY_OTHERS != 0 {
        format!("a folder that others may write (mode {:o})", status.mode)
    } else {
        return None;
    };
    let cause = format!("{}: found {found}, expected a folder of user {} that nobody else may write", folder.display(), fs::user());
    Some(Verdict::unusable("not-private", cause))
}
