//! Single properties of a file system.

use super::answer::{Answer, Found};
use super::child::LOCK;
use super::running::Children;
use crate::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// How far the clock of a file system may be from that of this machine, which stamps are compared with.
const MOST_SKEW: Duration = Duration::from_secs(60);
/// How soon the lock of a killed process must be free.
const FREED: Duration = Duration::from_secs(30);

/// Whether names can be made durable.
pub(super) fn sync(folder: &Path) -> Answer {
    match fs::syncs_folders(folder) {
        Ok(true) => Ok(Found::Good("content and names of files can be made durable".into())),
        Ok(false) => Ok(Found::Limited(
            "folders cannot be synced: it is up to the file system whether the last puts survive a power cut; what is there stays whole"
                .into(),
        )),
        Err(error) => Err(format!("folders cannot be synced: {error}; no put would succeed")),
    }
}

/// Whether times of change can be set, which tell what was used last.
pub(super) fn stamps(folder: &Path) -> Answer {
    let limited = |what: String| Ok(Found::Limited(format!("{what}: what was used longest ago is not known, so caps remove any plans")));
    let path = folder.join("stamped");
    let temp = fs::write_temp(folder, b"stamped").map_err(|e| format!("a file cannot be written: {e}"))?;
    fs::rename(temp, &path).map_err(|e| format!("a file cannot be renamed: {e}"))?;
    let file = match fs::open(&path) {
        Ok(Ok(file)) => file,
        Ok(Err(kind)) => return Err(format!("found {} where a file was put", kind.name())),
        Err(error) => return Err(format!("a file cannot be opened: {error}")),
    };
    if let Err(error) = fs::set_changed(&file, SystemTime::UNIX_EPOCH).and_then(|()| file.touch()) {
        return limited(format!("the time of a file cannot be set: {error}"));
    }
    let changed = fs::status(&path).map_err(|e| format!("a file cannot be looked at: {e}"))?.changed;
    let now = SystemTime::now();
    let skew = now.duration_since(changed).unwrap_or_else(|ahead| ahead.duration());
    if skew > MOST_SKEW {
        return limited(format!("the time of a file that is set to now is {} s off", skew.as_secs()));
    }
    Ok(Found::Good("times of last use can be kept".into()))
}

/// Whether locks hold among processes, and are freed when a holder dies.
pub(super) fn locks(folder: &Path, children: &Children<'_>) -> Answer {
    let limited = |what: &str| Ok(Found::Limited(format!("{what}: what several processes need at once is built by each of them")));
    let open = || fs::open_shared(&folder.join(LOCK), true).map_err(|e| format!("a file cannot be created: {e}"));
    let own = open()?;
    match own.try_lock() {
        Err(error) => return limited(&format!("locks are refused ({error})")),
        Ok(false) => return limited("a lock that nobody has is refused"),
        Ok(true) => {}
    }
    if children.ask("lock")? != "held" {
        return limited("two processes have one lock at once");
    }
    // Not by closing alone: a child that another thread starts may have the file open a moment longer.
    own.unlock().map_err(|e| format!("a lock cannot be given back: {e}"))?;
    if children.ask("lock")? != "free" {
        return limited("a lock that was given back is refused");
    }
    // A holder that is killed.
    let mut holder = children.spawn("lock", children.longest)?;
    let has_it = holder.first_line().is_some_and(|word| word == "free");
    let is_kept_out = open()?.try_lock().is_ok_and(|free| !free);
    drop(holder);
    if !has_it || !is_kept_out {
        return limited("the lock of another process does not keep this one out");
    }
    let killed = Instant::now();
    while killed.elapsed() < FREED {
        if open()?.try_lock().is_ok_and(|free| free) {
            return Ok(Found::Good("what is expensive is built by one process at a time; a killed one is in nobody's way".into()));
        }
        thread::sleep(Duration::from_millis(10));
    }
    limited("the lock of a killed process is not freed")
}

/// Whether mapped files stay as they were when they are replaced and removed.
pub(super) fn mapping(_: &Path, children: &Children<'_>) -> Answer {
    match children.ask("map")?.as_str() {
        "mapped" => Ok(Found::Good("packs are mapped, and stay whole for those who have them open".into())),
        "network" => Ok(Found::Good("packs are read rather than mapped, for this is a file system of a network".into())),
        "differs" => Err("a mapped file has other bytes than were written".into()),
        "replaced" => Err("a mapped file changes when another takes its name".into()),
        "removed" => Err("a mapped file changes when it is removed".into()),
        other => Err(format!("a process said {other:?}")),
    }
}
