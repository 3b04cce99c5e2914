//! A test of the store on somebody's own file system: what holds there, what does not, and what that means.
//!
//! It works in a new folder, which it removes at its end. Some of it takes processes that are killed; who runs the test says how a child is
//! started, and the child calls [`selftest_child`].

mod answer;
mod battery;
mod child;
mod damage;
mod left;
mod limits;
mod probes;
mod running;
mod values;

pub use answer::{SelftestCheck, SelftestOutcome, SelftestReport};
pub use child::selftest_child;

use crate::{StoreError, fs};
use answer::Answer;
use running::Children;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Bytes for which there must be space, or else that may be why a check has failed.
const SPACE: usize = 8 << 20;

/// How long and how hard a file system is tried.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SelftestOptions {
    /// Writers that are killed.
    pub kills: u32,
    /// Processes that work at once.
    pub processes: u32,
    /// How long they and others work, each time.
    pub time: Duration,
}

impl Default for SelftestOptions {
    /// Ten kills, four processes, two seconds: about ten seconds in all.
    fn default() -> Self {
        Self { kills: 10, processes: 4, time: Duration::from_secs(2) }
    }
}

/// Tries what a store needs in a new folder inside of `folder`, which must exist.
///
/// What self-tests have left in `folder` that were killed is removed before.
///
/// `child` starts this program again, so that it calls [`selftest_child`] with the folder and the word that it is given. No child is left
/// when this returns, but for one that the system does not let end.
///
/// # Errors
/// No folder can be made there, or what was made cannot be removed.
pub fn selftest(
    folder: &Path,
    options: &SelftestOptions,
    child: &dyn Fn(&Path, &str) -> Command,
    mut progress: impl FnMut(&SelftestCheck),
) -> Result<SelftestReport, StoreError> {
    in_new_folder(folder, &mut progress, |own, check| {
        let children = Children::new(child, own, options.time);
        check("publish", battery::publish(own));
        check("replace", battery::replace(own, options.time));
        probe(own, &children, check);
        check("damage", battery::damage(&children));
        check("limits", battery::limits(&children));
        check("processes", battery::processes(own, options, &children));
        check("kills", battery::kills(own, options, &children));
    })
}

/// As [`selftest`], single properties of the file system alone: whether names can be made durable, times set, locks had among processes,
/// and files mapped. Takes a moment.
///
/// # Errors
/// As there.
pub fn selftest_probes(folder: &Path, child: &dyn Fn(&Path, &str) -> Command) -> Result<SelftestReport, StoreError> {
    in_new_folder(folder, &mut |_| {}, |own, check| probe(own, &Children::new(child, own, Duration::ZERO), check))
}

/// Takes note of how a check went.
type Note<'n> = &'n mut dyn FnMut(&'static str, Answer);

fn probe(own: &Path, children: &Children<'_>, check: Note<'_>) {
    check("sync", probes::sync(own));
    check("stamps", probes::stamps(own));
    check("locks", probes::locks(own, children));
    check("mapping", probes::mapping(own, children));
}

fn in_new_folder(
    folder: &Path,
    progress: &mut dyn FnMut(&SelftestCheck),
    run: impl FnOnce(&Path, Note<'_>),
) -> Result<SelftestReport, StoreError> {
    let folder = fs::absolute(folder).map_err(StoreError::io("use the path", folder))?;
    left::remove(&folder);
    let own = folder.join(left::new_name());
    if !fs::make_folder(&own).map_err(StoreError::io("create the folder", &own))? {
        return Err(StoreError::io("create the folder", &own)(ErrorKind::AlreadyExists.into()));
    }
    let owner = left::own(&own);
    let mut report = SelftestReport { folder, file_system: fs::file_system(&own).ok(), checks: Vec::new() };
    run(&own, &mut |name, answer| {
        let check = SelftestCheck::of(name, answer);
        progress(&check);
        report.checks.push(check);
    });
    if report.outcome() == SelftestOutcome::Bad && is_full(&own) {
        let text = "a file of a few MiB finds no space, which may be all that is wrong: make some, and try again";
        let check = SelftestCheck::of("space", Err(text.into()));
        progress(&check);
        report.checks.push(check);
    }
    drop(owner);
    match fs::remove_tree(&own) {
        // Another self-test has taken it to be what a dead one left.
        Err(e) if e.kind() != ErrorKind::NotFound => Err(StoreError::io("remove", &own)(e)),
        _ => Ok(report),
    }
}

/// Whether there is no space for as much as a self-test may have failed to write.
fn is_full(own: &Path) -> bool {
    let error = fs::write_temp(own, &vec![0_u8; SPACE]).err();
    error.is_some_and(|e| matches!(e.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::{Op, Verdict, with_hook};

    #[test]
    fn that_there_is_no_space_is_told_apart_from_other_faults() {
        let dir = tempfile::tempdir().unwrap();
        let checks = |errno: i32| {
            let hook = move |op: Op<'_>| if op.name() == "write" { Verdict::Fail(errno) } else { Verdict::Go };
            let publish = || in_new_folder(dir.path(), &mut |_| {}, |own, check| check("publish", battery::publish(own)));
            let report = with_hook(hook, publish).unwrap();
            assert_eq!(report.outcome(), SelftestOutcome::Bad);
            report.checks.iter().map(|check| check.name).collect::<Vec<_>>()
        };
        assert_eq!(checks(libc::ENOSPC), ["publish", "space"]);
        assert_eq!(checks(libc::EDQUOT), ["publish", "space"]);
        assert_eq!(checks(libc::EIO), ["publish"]);
    }
}
