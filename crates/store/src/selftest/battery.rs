//! A store at work: alone, damaged, refused, among many, and killed.

use super::SelftestOptions;
use super::answer::{Answer, Found};
use super::child::{KEYS, STORE};
use super::running::{Children, Running};
use super::values::{Values, found};
use crate::{CompactOptions, GcOptions, Mode, Store};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// What was used less than this ago is not collected while others work.
const GRACE: Duration = Duration::from_secs(60);

/// A fault in words.
fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn open(folder: &Path) -> Result<Store, String> {
    Store::open(folder.join(STORE), Mode::ReadWrite).map_err(text)
}

/// Nothing is damaged, as somebody sees who opens the store anew.
fn verify(folder: &Path) -> Result<(), String> {
    let report = Store::open(folder.join(STORE), Mode::ReadOnly).map_err(text)?.verify();
    match report.problems.first() {
        Some(problem) => Err(format!("{} entries are damaged, the first: {problem}", report.problems.len())),
        None => Ok(()),
    }
}

/// What is put is found.
pub(super) fn publish(folder: &Path) -> Answer {
    let store = open(folder)?;
    for number in 0..KEYS {
        let values = Values::of(number)?;
        if !values.put(&store).map_err(text)? {
            return Err("a put was not kept".into());
        }
        let fresh = Store::open(folder.join(STORE), Mode::ReadOnly).map_err(text)?;
        if !values.get(&fresh)? {
            return Err("what was put is not found".into());
        }
    }
    let report = store.compact(&CompactOptions::default(), &()).map_err(text)?;
    for number in 0..KEYS {
        if !Values::of(number)?.get(&open(folder)?)? {
            return Err("what was folded into a pack is not found".into());
        }
    }
    verify(folder)?;
    Ok(Found::Good(format!("{KEYS} plans put, found, folded into a pack of {} entries and found again", report.entries)))
}

/// A record that is replaced all the time is always found, and always whole.
pub(super) fn replace(folder: &Path, time: Duration) -> Answer {
    let store = open(folder)?;
    let (first, second) = (Values::of(0)?, Values::of(1)?);
    let key = Values::of(u32::MAX)?.key;
    first.put(&store).map_err(text)?;
    second.put(&store).map_err(text)?;
    let _ = store.put_selection(&key, &[first.id]).map_err(text)?;
    let is_over = AtomicBool::new(false);
    let read = || {
        let reader = Store::open(folder.join(STORE), Mode::ReadOnly).map_err(text)?;
        let mut reads = 0_u64;
        while !is_over.load(Ordering::Relaxed) {
            let selection = found(reader.find_selection(&key))?.ok_or("a record is not found while it is replaced")?;
            if selection.plans != [first.id] && selection.plans != [second.id] {
                return Err("a record is neither the old nor the new one while it is replaced".to_owned());
            }
            reads = reads.saturating_add(1);
        }
        Ok(reads)
    };
    let write = || {
        let start = Instant::now();
        let mut writes = 0_u64;
        for values in [&second, &first].into_iter().cycle() {
            if start.elapsed() >= time {
                break;
            }
            let _ = store.put_selection(&key, &[values.id]).map_err(text)?;
            writes = writes.saturating_add(1);
        }
        Ok::<_, String>(writes)
    };
    let (written, read) = thread::scope(|scope| {
        let readers = [scope.spawn(read), scope.spawn(read)];
        let written = write();
        is_over.store(true, Ordering::Relaxed);
        let read = readers.into_iter().map(|reader| reader.join().unwrap_or_else(|_| Err("a reader has panicked".into())));
        (written, read.sum::<Result<u64, String>>())
    });
    let (written, read) = (written?, read?);
    verify(folder)?;
    Ok(Found::Good(format!("a record was replaced {written} times and read {read} times meanwhile, whole each time")))
}

/// Files are damaged, and one is cut short under its reader.
pub(super) fn damage(children: &Children<'_>) -> Answer {
    let how = match children.ask("damage")?.as_str() {
        "mapped" => "mapped",
        "read" => "open",
        other => return Err(format!("a process said {other:?}")),
    };
    Ok(Found::Good(format!(
        "entries whose bytes were changed, which were cut short, or whose pack was, while it was {how}, were missed and put again; what has a file of its own was set aside"
    )))
}

/// Writing and opening files is refused.
pub(super) fn limits(children: &Children<'_>) -> Answer {
    match children.ask("limits")?.as_str() {
        "tried" => {
            let text =
                "where files cannot grow, or cannot be opened, puts answer that nothing is kept, lookups go on, and all is well afterwards";
            Ok(Found::Good(text.into()))
        }
        "untried" => Ok(Found::Good("not tried: this process may not limit itself".into())),
        other => Err(format!("a process said {other:?}")),
    }
}

/// Processes get and put while the store is looked after.
pub(super) fn processes(folder: &Path, options: &SelftestOptions, children: &Children<'_>) -> Answer {
    // Whatever goes wrong below, those who were started are ended.
    let mut working = (0..options.processes).map(|_| children.spawn("work", options.time)).collect::<Result<Vec<_>, _>>()?;
    let store = open(folder)?;
    let collect = GcOptions { grace: GRACE, ..GcOptions::default() };
    let mut rounds = 0_u32;
    let mut looked_after = Ok(());
    let start = Instant::now();
    while looked_after.is_ok() && start.elapsed() < children.longest && working.iter_mut().any(Running::is_at_work) {
        looked_after = store.compact(&CompactOptions::default(), &()).map(drop).and_then(|()| store.gc(&collect, &()).map(drop));
        rounds = rounds.saturating_add(1);
        thread::sleep(Duration::from_millis(20));
    }
    let mut works = 0_u64;
    for child in working {
        let ended = child.end()?;
        if !ended.status.success() {
            return Err(format!("a process found something wrong: {}", ended.err.trim()));
        }
        works = works.saturating_add(ended.out.trim().parse().unwrap_or(0));
    }
    looked_after.map_err(text)?;
    verify(folder)?;
    Ok(Found::Good(format!(
        "{} processes got and put {works} times, the store was compacted and collected {rounds} times",
        options.processes
    )))
}

/// Writers are killed; what they were told to be kept is found. Those that do not fit into the time are left out, which is said.
pub(super) fn kills(folder: &Path, options: &SelftestOptions, children: &Children<'_>) -> Answer {
    let mut kept = 0_u32;
    let mut killed = 0_u32;
    let start = Instant::now();
    for round in 0..options.kills {
        if start.elapsed() >= children.longest {
            break;
        }
        let child = children.spawn("publish", children.longest)?;
        // Later and later, so that different things are under way.
        thread::sleep(Duration::from_millis(u64::from(20_u32.saturating_add(round.saturating_mul(13) % 150))));
        let ended = child.kill()?;
        if ended.status.code().is_some() {
            return Err(format!("a writer ended before it was killed: {}", ended.err.trim()));
        }
        verify(folder).map_err(|e| format!("after a writer was killed, {e}"))?;
        let store = Store::open(folder.join(STORE), Mode::ReadOnly).map_err(text)?;
        // A last line without its end is half a number.
        let whole = ended.out.rsplit_once('\n').map_or("", |(whole, _)| whole);
        for number in whole.lines().filter_map(|line| line.parse().ok()) {
            if !Values::of(number)?.get(&store)? {
                return Err("a plan is not found that a killed writer was told to be kept".into());
            }
            kept = kept.saturating_add(1);
        }
        killed = killed.saturating_add(1);
    }
    // Whoever comes next can write.
    if !Values::of(KEYS)?.put(&open(folder)?).map_err(text)? {
        return Err("nothing can be put after writers were killed".into());
    }
    let of = if killed < options.kills { format!(" of {}, for which there was no time,", options.kills) } else { String::new() };
    Ok(Found::Good(format!("{killed}{of} writers killed, all {kept} plans found that they were told to be kept")))
}
