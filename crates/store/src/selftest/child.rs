//! What the children of a self-test do.

use super::damage::damage;
use super::limits::limits;
use super::values::Values;
use crate::{Mode, Store, fs};
use std::io::Write;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Plans that a publishing child puts at most.
const MOST: u32 = 100_000;
/// Names in the folder of a test.
pub(super) const STORE: &str = "store";
pub(super) const LOCK: &str = "lock";
pub(super) const MAPPED: &str = "mapped";
pub(super) const STORE_OF_LIMITS: &str = "limits";
/// Keys that working children share.
pub(super) const KEYS: u32 = 24;
/// Bytes of the file that is mapped, and the two that it is made of in turn.
pub(super) const MAPPED_BYTES: usize = 1 << 20;
pub(super) const FILLS: [u8; 2] = [0x5a, 0xa5];

/// What a child of [`selftest`](crate::selftest) does with the folder and the word that it was given. Behind a hyphen stand the
/// milliseconds after which it ends by itself, if its parent has not ended it.
///
/// # Errors
/// What went wrong, for people.
pub fn selftest_child(folder: &Path, word: &str) -> Result<(), String> {
    let (word, number) = word.split_once('-').unwrap_or((word, "0"));
    let number: u64 = number.parse().map_err(|_| format!("found the task {word}-{number}, expected a number behind the hyphen"))?;
    let time = Duration::from_millis(number);
    match word {
        "publish" => publish(folder, time),
        "work" => work(folder, time),
        "lock" => lock(folder, time),
        "map" => map(folder),
        "damage" => damage(folder),
        "limits" => limits(folder),
        _ => Err(format!("found the task {word}, expected `publish`, `work`, `lock`, `map`, `damage` or `limits`")),
    }
}

/// Says something, at once.
pub(super) fn say(word: &str) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{word}").and_then(|()| out.flush()).map_err(|e| format!("nobody listens: {e}"))
}

/// Puts one plan after the other and says which are kept, until it is killed.
fn publish(folder: &Path, time: Duration) -> Result<(), String> {
    let store = Store::open(folder.join(STORE), Mode::ReadWrite).map_err(|e| e.to_string())?;
    let start = Instant::now();
    for number in (0..MOST).take_while(|_| start.elapsed() < time) {
        // What is there from the round before is put again, which is another way through the store.
        if Values::of(number)?.put(&store).map_err(|e| e.to_string())? {
            say(&number.to_string())?;
        }
    }
    Ok(())
}

/// Gets and puts for some time; what is found must be right.
fn work(folder: &Path, time: Duration) -> Result<(), String> {
    let values = (0..KEYS).map(Values::of).collect::<Result<Vec<_>, _>>()?;
    let store = Store::open_or_degrade(folder.join(STORE));
    let start = Instant::now();
    // Each begins elsewhere.
    let offset = usize::try_from(std::process::id() % KEYS).unwrap_or(0);
    let mut round = 0_u32;
    for (number, values) in values.iter().cycle().skip(offset).enumerate() {
        if start.elapsed() >= time {
            break;
        }
        if number % 3 == 0 || !values.get(&store)? {
            values.put(&store).map_err(|e| e.to_string())?;
        }
        round = round.saturating_add(1);
    }
    say(&round.to_string())
}

/// Takes the lock and says whether it has it; keeps it for some time.
fn lock(folder: &Path, time: Duration) -> Result<(), String> {
    let file = fs::open_shared(&folder.join(LOCK), true).map_err(|e| e.to_string())?;
    let has_it = file.try_lock().map_err(|e| e.to_string())?;
    say(if has_it { "free" } else { "held" })?;
    thread::sleep(time);
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
