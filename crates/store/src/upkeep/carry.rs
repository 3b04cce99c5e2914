//! Stamps of last use, from where entries were to the pack in which they are now.
//!
//! Somebody may use an entry while it is being folded, and may rely on the stamp that he leaves: what is freshly stamped is not removed.
//! So the stamps are looked at once more when the old place has no name any more, and nobody can find it there.

use crate::pack::{Pack, Used};
use crate::{EntryKind, Limits, fs};
use std::path::Path;

/// Stamps of a pack as they stand in the file beside it.
#[derive(Debug, Default)]
pub(super) struct Snapshot(Vec<[u8; 4]>);

impl Snapshot {
    /// The stamps of the rows of a pack; none where they cannot be read.
    pub(super) fn of(pack: &Pack) -> Self {
        let Ok(Ok(file)) = fs::open(&pack.path().with_extension("used")) else { return Self::default() };
        let size = file.size().min(u64::from(pack.rows_in_all()).saturating_mul(4));
        let bytes = file.read_part(0, size).unwrap_or_default();
        Self(bytes.as_chunks().0.to_vec())
    }

    /// Hours since 1970 at which a row was last used, if anything says so.
    pub(super) fn get(&self, ordinal: u32) -> Option<u32> {
        let stamp = self.0.get(usize::try_from(ordinal).ok()?)?;
        Some(u32::from_le_bytes(*stamp)).filter(|&hours| hours != 0)
    }

    fn is_as(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

/// The stamps of the pack into which entries were folded.
#[derive(Debug)]
pub(super) struct NewStamps(Option<(Pack, Used)>);

impl NewStamps {
    /// Of the pack at this place; where they cannot be written, nothing is.
    pub(super) fn open(path: &Path, limits: &Limits) -> Self {
        let pack = Pack::open(path, limits).ok().flatten();
        Self(pack.and_then(|pack| Used::open(path, pack.rows_in_all(), true).map(|used| (pack, used))))
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
    pub(super) fn renew_from(&self, old: &Pack, before: &Snapshot) {
        let now = Snapshot::of(old);
        if now.is_as(before) {
            return;
        }
        for kind in EntryKind::ALL {
            for row in old.rows(kind).map_while(Result::ok) {
                if let Some(hours) = now.get(row.ordinal).filter(|&hours| before.get(row.ordinal) != Some(hours)) {
                    self.renew(kind, &row.name, hours);
                }
            }
        }
    }
}
