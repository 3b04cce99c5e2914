//! What a child does whose own limits make its calls fail: it goes on as without a store, and finds everything afterwards.

use super::child::{STORE_OF_LIMITS, say};
use super::values::Values;
use crate::{Mode, Store};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::path::Path;

/// Puts fail that have no room, and that have no descriptor; lookups go on, and puts afterwards.
pub(super) fn limits(folder: &Path) -> Result<(), String> {
    let root = folder.join(STORE_OF_LIMITS);
    let (there, new) = (Values::of(0)?, Values::of(1)?);
    let text = |error: crate::StoreError| error.to_string();
    if !there.put(&Store::open(&root, Mode::ReadWrite).map_err(text)?).map_err(text)? {
        return Err("a put was not kept".into());
    }
    ignore_file_size_signal();
    for (limit, what, is_found) in [(Resource::Fsize, "no file may grow", true), (Resource::Nofile, "no file can be opened", false)] {
        let store = Store::open_or_degrade(&root);
        let before = getrlimit(limit);
        if setrlimit(limit, Rlimit { current: Some(0), maximum: before.maximum }).is_err() {
            return say("untried");
        }
        let put = new.put(&store);
        let found = there.get_past_faults(&store);
        setrlimit(limit, before).map_err(|e| format!("a limit of a process cannot be set back: {e}"))?;
        match put {
            Ok(false) => {}
            Ok(true) => return Err(format!("a put says that it was kept while {what}")),
            Err(error) => return Err(format!("a put fails its caller while {what}: {error}")),
        }
        if !found? && is_found {
            return Err(format!("what is there is not found while {what}"));
        }
        let fresh = Store::open(&root, Mode::ReadWrite).map_err(text)?;
        if !there.get(&fresh)? {
            return Err(format!("what was there is not found after {what}"));
        }
        let report = fresh.verify();
        if let Some(problem) = report.problems.first() {
            return Err(format!("the store is damaged after {what}: {problem}"));
        }
    }
    if !new.put(&Store::open(&root, Mode::ReadWrite).map_err(text)?).map_err(text)? {
        return Err("nothing can be put after puts have failed".into());
    }
    say("tried")
}

/// Makes a write beyond the limit on the size of files fail, which is a signal otherwise.
#[expect(unsafe_code, reason = "what becomes of a signal is set by an unsafe call; the block below argues")]
fn ignore_file_size_signal() {
    // SAFETY: no handler is installed, so that none of this program's code runs in place of another; a process that does nothing but this
    // test has nobody else who counts on the signal.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}
