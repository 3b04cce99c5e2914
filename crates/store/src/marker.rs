//! The file that says that a folder is a store, and of which layout.

use crate::fs;
use crate::layout::TMP;
use crate::{StoreError, limits::MAX_MARKER_BYTES};
use std::io::ErrorKind;
use std::ops::RangeInclusive;
use std::path::Path;

/// Name of the marker in a store's folder.
pub(crate) const MARKER: &str = "hipplan-store";
/// Number of the layout that this crate writes.
const LAYOUT: u64 = 2;
/// The oldest that it reads: one without packs, locks, pins and whatever else has a folder of its own now.
const OLDEST: u64 = 1;
const LINE: &str = "hipplan store 2\n";
/// What mkfs leaves in the root of a file system, which is where people mount a volume for a store.
pub(crate) const LOST_AND_FOUND: &str = "lost+found";

/// Checks that a folder is a store of our layout. Writes nothing.
pub(crate) fn require(root: &Path) -> Result<(), StoreError> {
    if read(root)?.is_some() {
        return Ok(());
    }
    match foreign_name(root) {
        Ok(Some(found)) => Err(StoreError::NotAStore { path: root.to_owned(), found }),
        Ok(None) => Err(StoreError::NoSuchStore { path: root.to_owned() }),
        Err(e) if e.is_not_found() => Err(StoreError::NoSuchStore { path: root.to_owned() }),
        Err(e) => Err(e),
    }
}

/// Makes a folder into a store, unless it is one. Any number of processes may do so at once.
pub(crate) fn ensure(root: &Path) -> Result<(), StoreError> {
    if read(root)?.is_some() {
        return Ok(());
    }
    fs::make_folders(root).map_err(StoreError::io("create the folder", root))?;
    if let Some(found) = foreign_name(root)? {
        // Another process may have made it a store since we looked.
        return if read(root)?.is_some() { Ok(()) } else { Err(StoreError::NotAStore { path: root.to_owned(), found }) };
    }
    // Until the marker stands, `tmp` is all that we put beside it: a kill here leaves what `foreign_name` passes over.
    let (tmp, marker) = (root.join(TMP), root.join(MARKER));
    fs::make_folder(&tmp).map_err(StoreError::io("create the folder", &tmp))?;
    let temp = fs::write_temp(&tmp, LINE.as_bytes()).map_err(StoreError::io("create a file in", &tmp))?;
    match fs::rename_new(temp, &marker) {
        Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(StoreError::io("create the file", &marker)(e)),
        _ => {}
    }
    fs::sync_folder(root).map_err(StoreError::io("sync the folder", root))?;
    // The winner of a race may have been another layout.
    if read(root)?.is_some() { Ok(()) } else { Err(StoreError::NoSuchStore { path: root.to_owned() }) }
}

/// Makes a store of an older layout one of ours, before anything is put there that the older one does not know.
pub(crate) fn upgrade(root: &Path) -> Result<(), StoreError> {
    match read(root)? {
        Some(LAYOUT) => return Ok(()),
        Some(_) => {}
        None => return ensure(root),
    }
    let (tmp, marker) = (root.join(TMP), root.join(MARKER));
    fs::make_folder(&tmp).map_err(StoreError::io("create the folder", &tmp))?;
    let temp = fs::write_temp(&tmp, LINE.as_bytes()).map_err(StoreError::io("create a file in", &tmp))?;
    fs::rename(temp, &marker).map_err(StoreError::io("create the file", &marker))?;
    fs::sync_folder(root).map_err(StoreError::io("sync the folder", root))
}

/// Something in the folder that neither we nor mkfs put there before there was a marker.
fn foreign_name(root: &Path) -> Result<Option<String>, StoreError> {
    let names = fs::list(root).map_err(StoreError::io("list the folder", root))?;
    let foreign = names.into_iter().find(|name| name != TMP && name != LOST_AND_FOUND);
    Ok(foreign.map(|name| name.to_string_lossy().into_owned()))
}

/// The layout that the marker says, if there is one; a marker that is not ours is an error.
fn read(root: &Path) -> Result<Option<u64>, StoreError> {
    let path = root.join(MARKER);
    // Nearly every marker is this one.
    if fs::is_just(&path, LINE.as_bytes()) {
        return Ok(Some(LAYOUT));
    }
    let file = match fs::open(&path) {
        Ok(Ok(file)) => file,
        Ok(Err(kind)) => return Err(StoreError::FileType { path, found: kind.name(), expected: "the marker file of a store" }),
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(StoreError::io("open", &path)(e)),
    };
    if file.size() > MAX_MARKER_BYTES {
        let found = format!("{} bytes", file.size());
        return Err(StoreError::Marker { path, found, expected: LINE });
    }
    let bytes = file.read().map_err(StoreError::io("read", &path))?;
    check(&path, &bytes, OLDEST..=LAYOUT).map(Some)
}

/// The first line names the layout; what a newer layout writes behind it is its own affair.
fn check(path: &Path, bytes: &[u8], layouts: RangeInclusive<u64>) -> Result<u64, StoreError> {
    let text = String::from_utf8_lossy(bytes);
    let line = text.strip_prefix("hipplan store ").and_then(|rest| rest.split_once('\n'));
    let is_number = |digits: &str| digits.bytes().all(|b| b.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
    let number = line.filter(|(digits, _)| is_number(digits)).and_then(|(digits, rest)| Some((digits.parse::<u64>().ok()?, rest)));
    let path = path.to_owned();
    match number {
        Some((found, _)) if found < *layouts.start() => Err(StoreError::TooOld { path, found, expected: *layouts.start() }),
        Some((found, _)) if found > *layouts.end() => Err(StoreError::TooNew { path, found, expected: *layouts.end() }),
        Some((found, "")) => Ok(found),
        _ => Err(StoreError::Marker { path, found: text.chars().take(64).collect(), expected: LINE }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The next layout, which reads this one as this one reads the last.
    #[test]
    fn the_next_layout_reads_this_one_and_not_the_last() {
        let check = |text: &str| check(Path::new("m"), text.as_bytes(), LAYOUT..=LAYOUT + 1).map_err(|e| e.code());
        assert_eq!(check(LINE), Ok(LAYOUT));
        assert_eq!(check("hipplan store 1\n"), Err("too-old"));
        assert_eq!(check("hipplan store 4\n"), Err("too-new"));
    }

    #[test]
    fn only_our_lines_are_markers() {
        let check = |text: &str| check(Path::new("m"), text.as_bytes(), OLDEST..=LAYOUT).map_err(|e| e.code());
        assert_eq!(LINE, format!("hipplan store {LAYOUT}\n"));
        assert_eq!(check(LINE), Ok(LAYOUT));
        assert_eq!(check("hipplan store 1\n"), Ok(1));
        assert_eq!(check("hipplan store 0\n"), Err("too-old"));
        assert_eq!(check("hipplan store 3\n"), Err("too-new"));
        assert_eq!(check("hipplan store 3\nmore\n"), Err("too-new"));
        let huge = "hipplan store 99999999999999999999\n";
        for bad in ["", "hipplan store 1", "hipplan store 1\n\n", "hipplan store +1\n", "hipplan store 01\n", "hipplan store \n", huge] {
            assert_eq!(check(bad), Err("marker"), "{bad:?}");
        }
    }
}
