//! Stamps of last use, from where entries were to the pack in which they are now.
//!
//! Somebody may use an entry while it is being folded, and may rely on the stamp that he leaves: what is freshly stamped is not removed.
//! So the stamps are looked at once more when the old place has no name any more, and nobody can find it there.

use super::stamps::RowStamps;
use crate::EntryKind;
use crate::pack::{Pack, Used};
use std::sync::Arc;

/// The stamps of the pack into which entries were folded.
#[derive(Debug)]
pub(super) struct NewStamps(Option<(Arc<Pack>, Used)>);

impl NewStamps {
    /// Of this pack; where they cannot be written, nothing is.
    pub(super) fn of(pack: &Arc<Pack>) -> Self {
        Self(Used::open(pack.path(), pack.rows_in_all(), true).map(|used| (Arc::clone(pack), used)))
    }

    /// An entry was used, perhaps later than its stamp here says.
    pub(super) fn renew(&self, kind: EntryKind, name: &[u8; 32], hours: u32) {
        let Some((pack, used)) = &self.0 else { return };
        if let Ok(Some(row)) = pack.find(kind, name)
            && used.get(row.ordinal).is_none_or(|stamp| stamp < hours)
        {
            used.stamp(row.ordinal, hours);
        }
    }

    /// Takes over what was stamped in an old pack since it was looked at.
    pub(super) fn renew_from(&self, old: &Pack, before: &RowStamps) {
        let now = RowStamps::of(old);
        if now == *before {
            return;
        }
        for kind in EntryKind::ALL {
            for row in old.rows(kind).map_while(Result::ok) {
                if let Some(hours) = now.hours(row.ordinal).filter(|&hours| before.hours(row.ordinal) != Some(hours)) {
                    self.renew(kind, &row.name, hours);
                }
            }
        }
    }
}
