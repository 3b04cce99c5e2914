//! Taking a loose file away, unless somebody uses it meanwhile.
//!
//! Whoever relies on a file that is in place stamps it and *then* looks again whether it still has its name, else writes it anew. Here
//! the name goes first, and *then* the stamp is looked at again. In whatever order the four steps happen, one of the two sees what the
//! other did: either the file goes back, or it is written anew.

use super::stamps::nanos;
use super::trash::condemn;
use crate::layer::Directory;
use crate::layer::walk::twice;
use crate::{EntryKind, StoreError, fs};
use std::io::ErrorKind;

/// What became of a file that was to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Away {
    /// It is gone.
    Gone,
    /// Somebody else had taken it away.
    Absent,
    /// It was used, or written, since it was decided upon. It is in place, or something newer is.
    InUse,
}

/// Takes a loose file away if it still has the stamp that it was decided upon with.
pub(super) fn take_away(directory: &Directory, kind: EntryKind, name: &[u8; 32], stamp: u64) -> Result<Away, StoreError> {
    let path = kind.file(directory.root(), name);
    let seen = match twice(|| fs::status(&path)) {
        Ok(status) => status,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Away::Absent),
        Err(e) => return Err(StoreError::io("look at", &path)(e)),
    };
    if nanos(seen.changed) != stamp {
        return Ok(Away::InUse);
    }
    let Some(condemned) = condemn(directory, kind, name, seen.inode)? else { return Ok(Away::InUse) };
    let is_unused = condemned.status()?.is_some_and(|status| nanos(status.changed) == stamp);
    if !is_unused {
        condemned.put_back()?;
        return Ok(Away::InUse);
    }
    // Other upkeep may have put it back.
    Ok(if condemned.delete()? { Away::Gone } else { Away::InUse })
}
