//! One piece of upkeep at a time, where the file system has locks.

use crate::fs;
use crate::layer::Directory;
use crate::layout::LOCKS;
use std::thread;
use std::time::{Duration, Instant};

/// The lock file of upkeep.
const NAME: &str = "upkeep";
/// How long upkeep waits for other upkeep before it goes on beside it.
const LONGEST: Duration = Duration::from_secs(30);
const NAP: Duration = Duration::from_millis(20);

/// Keeps other upkeep of a folder waiting, until it is dropped. It saves double work; nothing relies on it.
#[derive(Debug)]
pub(super) struct Alone {
    /// Dropping it releases the lock. A child that is forked meanwhile may hold it for longer, which costs others their wait.
    lock: Option<fs::Shared>,
}

impl Alone {
    /// Waits until nobody else looks after the folder. Where locks are refused, or the wait is over, work goes on.
    pub(super) fn in_(directory: &Directory) -> Self {
        Self::within(directory, LONGEST)
    }

    /// As [`in_`](Self::in_), with a wait of this length at most.
    pub(super) fn within(directory: &Directory, longest: Duration) -> Self {
        let Ok(folder) = directory.uses_folder(LOCKS) else { return Self { lock: None } };
        let Ok(lock) = fs::open_shared(&folder.join(NAME), true) else { return Self { lock: None } };
        let from = Instant::now();
        loop {
            match lock.try_lock() {
                Ok(true) => return Self { lock: Some(lock) },
                Ok(false) if from.elapsed() < longest => thread::sleep(NAP),
                Ok(false) | Err(_) => return Self { lock: None },
            }
        }
    }

    /// Whether nobody else who takes the lock is at work.
    pub(super) fn is_certain(&self) -> bool {
        self.lock.is_some()
    }
}
