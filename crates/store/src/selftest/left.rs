//! Folders of self-tests that were killed: the next one in the same place removes them.
//!
//! Who tries a folder holds the kernel's lock on a file in the folder of its own as long as it lives. So what is locked is somebody's, on
//! whatever machine, and where locks are refused nothing is removed.

use crate::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// What the names of such folders begin with.
const PREFIX: &str = "hipplan-selftest-";
/// The file that is locked.
const OWNER: &str = "owner";
/// A folder that is younger than this may not have its lock yet.
const YOUNG: Duration = Duration::from_secs(60);

/// Name of a new folder.
pub(super) fn new_name() -> String {
    name_of(since_1970())
}

fn name_of(made: Duration) -> String {
    format!("{PREFIX}{}-{}", std::process::id(), made.as_nanos())
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// Says that a folder is somebody's until this is dropped; `None` where there are no locks.
pub(super) fn own(folder: &Path) -> Option<fs::Shared> {
    let file = fs::open_shared(&folder.join(OWNER), true).ok()?;
    file.try_lock().is_ok_and(|is_ours| is_ours).then_some(file)
}

/// Removes what self-tests have left that are dead. What cannot be removed, or is not certain to be theirs, stays.
pub(super) fn remove(place: &Path) {
    for name in fs::list(place).unwrap_or_default() {
        if !name.to_str().is_some_and(is_old) {
            continue;
        }
        let folder = place.join(name);
        if fs::kind(&folder).is_ok_and(|kind| kind == fs::Kind::Folder) && is_nobodys(&folder) {
            drop(fs::remove_tree(&folder));
        }
    }
}

/// Whether a name is that of such a folder, and says that it was made a while ago.
fn is_old(name: &str) -> bool {
    let Some((process, made)) = name.strip_prefix(PREFIX).and_then(|rest| rest.split_once('-')) else { return false };
    let made = made.parse().ok().map(Duration::from_nanos);
    process.parse::<u32>().is_ok() && made.and_then(|made| since_1970().checked_sub(made)).is_some_and(|age| age >= YOUNG)
}

fn is_nobodys(folder: &Path) -> bool {
    fs::open_shared(&folder.join(OWNER), false).is_ok_and(|file| file.try_lock().is_ok_and(|is_free| is_free))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_dead_left_is_removed_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let make = |name: &str, has_owner: bool| {
            let folder = dir.path().join(name);
            std::fs::create_dir(&folder).unwrap();
            std::fs::write(folder.join("store"), "x").unwrap();
            if has_owner {
                std::fs::write(folder.join(OWNER), "").unwrap();
            }
            folder
        };
        let dead = make("hipplan-selftest-4711-1000", true);
        let alive = make("hipplan-selftest-4712-1000", true);
        let _lock = own(&alive).unwrap();
        let kept = [
            alive,
            make("hipplan-selftest-4713-1000", false),
            // Not old, however slow this is.
            make(&name_of(since_1970() + YOUNG), true),
            make("hipplan-selftest-4711-x", true),
            make("hipplan-selftest-mine-1000", true),
            make("store", true),
        ];
        std::os::unix::fs::symlink(&kept[5], dir.path().join("hipplan-selftest-4714-1000")).unwrap();
        remove(dir.path());
        assert!(!dead.exists());
        assert!(kept.iter().all(|folder| folder.join("store").exists()), "{kept:?}");
        remove(&dir.path().join("none"));
    }
}
