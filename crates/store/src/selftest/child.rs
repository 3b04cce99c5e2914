//! The children of a self-test: how they are started, and what they do.

use super::values::Values;
use crate::{Mode, Store, fs};
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A child that takes longer than this hangs.
const LONGEST: Duration = Duration::from_secs(60);
const NAP: Duration = Duration::from_millis(5);
/// Plans that a publishing child puts at most, for one whose parent has gone.
const MOST: u32 = 100_000;
/// Names in the folder of a test.
pub(super) const STORE: &str = "store";
pub(super) const LOCK: &str = "lock";
pub(super) const MAPPED: &str = "mapped";
/// Keys that working children share.
pub(super) const KEYS: u32 = 24;
/// Bytes of the file that is mapped, and the two that it is made of in turn.
pub(super) const MAPPED_BYTES: usize = 1 << 20;
pub(super) const FILLS: [u8; 2] = [0x5a, 0xa5];

/// Starts children.
pub(super) struct Children<'c> {
    pub(super) start: &'c dyn Fn(&Path, &str) -> Command,
    pub(super) folder: &'c Path,
}

impl Children<'_> {
    /// Starts one, whose output is kept.
    pub(super) fn spawn(&self, word: &str) -> Result<Child, String> {
        let mut command = (self.start)(self.folder, word);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().map_err(|e| format!("a process cannot be started: {e}"))
    }

    /// Starts one and waits for its end; gives the word that it said.
    pub(super) fn ask(&self, word: &str) -> Result<String, String> {
        let output = wait(self.spawn(word)?)?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("a process ended with {}: {}", output.status, said.trim()));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}

/// Waits for the end of a child, for a bounded time. It says little, so its pipes hold what it says.
pub(super) fn wait(mut child: Child) -> Result<Output, String> {
    let start = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(_)) => return child.wait_with_output().map_err(|e| format!("the output of a process cannot be read: {e}")),
            Ok(None) if start.elapsed() > LONGEST => {
                drop(child.kill());
                drop(child.wait());
                return Err(format!("a process has not ended in {} s", LONGEST.as_secs()));
            }
            Ok(None) => thread::sleep(NAP),
            Err(e) => return Err(format!("a process cannot be waited for: {e}")),
        }
    }
}

/// What a child of [`selftest`](crate::selftest) does with the folder and the word that it was given.
///
/// # Errors
/// What went wrong, for people.
pub fn selftest_child(folder: &Path, word: &str) -> Result<(), String> {
    let (word, number) = word.split_once('-').unwrap_or((word, "0"));
    let number: u32 = number.parse().map_err(|_| format!("found the task {word}-{number}, expected a number behind the hyphen"))?;
    match word {
        "publish" => publish(folder),
        "work" => work(folder, number),
        "lock" => lock(folder, number),
        "map" => map(folder),
        _ => Err(format!("found the task {word}, expected `publish`, `work`, `lock` or `map`")),
    }
}

/// Says something, at once.
fn say(word: &str) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{word}").and_then(|()| out.flush()).map_err(|e| format!("nobody listens: {e}"))
}

/// Puts one plan after the other and says which are kept, until it is killed.
fn publish(folder: &Path) -> Result<(), String> {
    let store = Store::open(folder.join(STORE), Mode::ReadWrite).map_err(|e| e.to_string())?;
    for number in 0..MOST {
        // What is there from the round before is put again, which is another way through the store.
        if Values::of(number)?.put(&store).map_err(|e| e.to_string())? {
            say(&number.to_string())?;
        }
    }
    Ok(())
}

/// Gets and puts for some milliseconds; what is found must be right.
fn work(folder: &Path, milliseconds: u32) -> Result<(), String> {
    let values = (0..KEYS).map(Values::of).collect::<Result<Vec<_>, _>>()?;
    let store = Store::open_or_degrade(folder.join(STORE));
    let end = Duration::from_millis(milliseconds.into());
    let start = Instant::now();
    // Each begins elsewhere.
    let offset = usize::try_from(std::process::id() % KEYS).unwrap_or(0);
    let mut round = 0_u32;
    for (number, values) in values.iter().cycle().skip(offset).enumerate() {
        if start.elapsed() >= end {
            break;
        }
        if number % 3 == 0 || !values.get(&store)? {
            values.put(&store).map_err(|e| e.to_string())?;
        }
        round = round.saturating_add(1);
    }
    say(&round.to_string())
}

/// Takes the lock and says whether it has it; keeps it for so many seconds.
fn lock(folder: &Path, seconds: u32) -> Result<(), String> {
    let file = fs::open_shared(&folder.join(LOCK), true).map_err(|e| e.to_string())?;
    let has_it = file.try_lock().map_err(|e| e.to_string())?;
    say(if has_it { "free" } else { "held" })?;
    thread::sleep(Duration::from_secs(seconds.into()));
    Ok(())
}

/// Maps a file, and looks at it while it is replaced and removed. A signal ends it.
fn map(folder: &Path) -> Result<(), String> {
    let path = folder.join(MAPPED);
    let text = |e: std::io::Error| e.to_string();
    let publish = |fill: u8| {
        let temp = fs::write_temp(folder, &vec![fill; MAPPED_BYTES]).map_err(text)?;
        fs::rename(temp, &path).map_err(text)
    };
    let [first, second] = FILLS;
    publish(first)?;
    let file = fs::open(&path).map_err(text)?.map_err(|kind| format!("found {}, expected a file", kind.name()))?;
    if !fs::is_local(&file, &path).map_err(text)? {
        return say("network");
    }
    let map = fs::Map::of(&file, &path).map_err(text)?;
    let holds = |fill: u8| map.get(0, MAPPED_BYTES).is_some_and(|bytes| bytes.iter().all(|&byte| byte == fill));
    if !holds(first) {
        return say("differs");
    }
    publish(second)?;
    if !holds(first) {
        return say("replaced");
    }
    fs::unlink(&path).map_err(text)?;
    say(if holds(first) { "mapped" } else { "removed" })
}
