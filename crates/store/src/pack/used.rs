//! When the entries of a pack were last used: stamps in a file beside it.
//!
//! They are hints. A file that is missing, short, foreign or unwritable makes entries look older than they are and nothing else.

use crate::fs;
use std::path::Path;

/// Bytes of a stamp: hours since 1970; 0 is none.
const STAMP: u64 = 4;

/// The stamps of one pack.
#[derive(Debug)]
pub(crate) struct Used {
    file: fs::Shared,
    rows: u32,
}

impl Used {
    /// Opens the stamps of a pack, and creates them if `create` says so. `None` where there are none to be had.
    pub(crate) fn open(pack: &Path, rows: u32, create: bool) -> Option<Self> {
        let file = fs::open_shared(&pack.with_extension("used"), create).ok()?;
        Some(Self { file, rows })
    }

    /// Hours since 1970 at which a row was last used, if anything says so.
    pub(crate) fn get(&self, ordinal: u32) -> Option<u32> {
        let mut stamp = [0; STAMP as usize];
        let read = self.file.read_some(self.place(ordinal)?, &mut stamp).ok()?;
        (read == stamp.len()).then(|| u32::from_le_bytes(stamp)).filter(|&hours| hours != 0)
    }

    /// Notes that a row was used, and tells whether that stands there now. Written only where it says something else.
    pub(crate) fn stamp(&self, ordinal: u32, hours: u32) -> bool {
        let Some(place) = self.place(ordinal) else { return false };
        let stamp = hours.to_le_bytes();
        self.get(ordinal) == Some(hours) || self.file.write_some(place, &stamp).is_ok_and(|written| written == stamp.len())
    }

    /// Notes when the first rows were used, as far as nothing says that they were used later: in one piece where there are no stamps yet.
    pub(crate) fn raise(&self, hours: &[u32]) {
        let bytes: Vec<u8> = hours.iter().flat_map(|hours| hours.to_le_bytes()).collect();
        let mut there = vec![0; bytes.len()];
        match self.file.read_some(0, &mut there) {
            Ok(0) => _ = self.file.write_some(0, &bytes),
            Ok(_) => {
                for (row, (&hours, &there)) in (0..).zip(hours.iter().zip(there.as_chunks().0)) {
                    if u32::from_le_bytes(there) < hours {
                        self.stamp(row, hours);
                    }
                }
            }
            // They are hints.
            Err(_) => {}
        }
    }

    fn place(&self, ordinal: u32) -> Option<u64> {
        (ordinal < self.rows).then(|| u64::from(ordinal).saturating_mul(STAMP))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::{Op, Verdict, with_hook};
    use std::cell::Cell;
    use std::rc::Rc;

    #[test]
    fn stamps_are_kept_and_written_only_when_they_differ() {
        let dir = tempfile::tempdir().unwrap();
        let pack = dir.path().join("00000001-ab.pack");
        assert!(Used::open(&pack, 3, false).is_none());
        let used = Used::open(&pack, 3, true).unwrap();
        assert_eq!((0..4).map(|row| used.get(row)).collect::<Vec<_>>(), [None; 4]);
        assert!(used.stamp(1, 495_000));
        assert!(!used.stamp(3, 495_000), "no such row");
        assert_eq!([used.get(0), used.get(1), used.get(2)], [None, Some(495_000), None]);
        assert_eq!(std::fs::metadata(dir.path().join("00000001-ab.used")).unwrap().len(), 8, "no row 3, no stamp");

        let writes = Rc::new(Cell::new(0));
        let count = Rc::clone(&writes);
        let hook = move |op: Op<'_>| {
            count.set(count.get() + u32::from(op.name() == "write"));
            Verdict::Go
        };
        with_hook(hook, || [495_000, 495_000, 495_001].map(|hours| used.stamp(1, hours)));
        assert_eq!(writes.get(), 1);
        assert_eq!(Used::open(&pack, 3, false).unwrap().get(1), Some(495_001));
    }

    #[test]
    fn stamps_are_raised_and_never_lowered() {
        let dir = tempfile::tempdir().unwrap();
        let used = Used::open(&dir.path().join("p.pack"), 4, true).unwrap();
        let all = || [0, 1, 2, 3].map(|row| used.get(row));
        used.raise(&[5, 0, 7]);
        assert_eq!(all(), [Some(5), None, Some(7), None]);
        assert!(used.stamp(0, 9));
        used.raise(&[6, 3, 8, 2]);
        assert_eq!(all(), [Some(9), Some(3), Some(8), Some(2)]);
    }

    #[test]
    fn stamps_that_cannot_be_kept_are_none() {
        let dir = tempfile::tempdir().unwrap();
        let pack = dir.path().join("p.pack");
        let used = Used::open(&pack, 2, true).unwrap();
        assert!(!with_hook(|_: Op<'_>| Verdict::Fail(libc::EIO), || used.stamp(0, 9)));
        assert_eq!(used.get(0), None);
        assert!(!with_hook(|_: Op<'_>| Verdict::Short(2), || used.stamp(0, 0x0102_0304)));
        assert_eq!(used.get(0), None, "half a stamp");
        std::fs::remove_file(dir.path().join("p.used")).unwrap();
        std::fs::create_dir(dir.path().join("p.used")).unwrap();
        assert!(Used::open(&pack, 2, true).is_none(), "a folder");
    }
}
