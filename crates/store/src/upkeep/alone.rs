//! One upkeep at a time, where that is to be had. It saves double work and nothing else.

use super::wait::Wait;
use crate::layer::Directory;
use crate::layout::LOCKS;
use crate::{StoreError, fs, turn};
use std::time::Duration;

/// Name of the lock file, in the folder of all lock files.
const UPKEEP: &str = "upkeep";

/// The lock of upkeep, held until it is dropped, or the process dies. A child that is forked meanwhile may hold it for longer, which costs
/// others their wait.
#[derive(Debug)]
pub(super) struct Alone {
    lock: Option<fs::Shared>,
    domain: String,
}

impl Alone {
    /// Waits for other upkeep to end, this long at most. Where locks are refused it goes on without.
    pub(super) fn wait(directory: &Directory, wait: Duration) -> Result<Self, StoreError> {
        let folder = match directory.uses_folder(LOCKS) {
            Ok(folder) => folder,
            // Something else has its name, which is as if locks were refused.
            Err(error) if error.is_not_a_folder() => return Ok(Self::without()),
            Err(error) => return Err(error),
        };
        let Ok(file) = fs::open_shared(&folder.join(UPKEEP), true) else { return Ok(Self::without()) };
        let mut wait = Wait::new(directory.root(), wait);
        let who = || turn::describe(&turn::text(&file));
        loop {
            match file.try_lock() {
                Ok(true) => {
                    turn::sign(&file, None);
                    return Ok(Self { domain: file.lock_domain(), lock: Some(file) });
                }
                Ok(false) if !wait.is_over() => wait.nap(who, "this goes on beside it, or gives up if both would remove things"),
                Ok(false) => {
                    wait.warn_late(who);
                    return Ok(Self::without());
                }
                Err(_) => return Ok(Self::without()),
            }
        }
    }

    /// Whether the lock is held: nobody else is at work where locks hold.
    pub(super) fn is_sure(&self) -> bool {
        self.lock.is_some()
    }

    fn without() -> Self {
        Self { lock: None, domain: String::new() }
    }

    /// Where the lock that is held is certain to hold; empty where there is none. A claim that says the same is of somebody who had this
    /// lock before, and has ended.
    pub(super) fn domain(&self) -> &str {
        &self.domain
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        if let Some(file) = &self.lock {
            turn::unsign(file);
            // A copy of the descriptor in a child would keep it.
            let _ = file.unlock();
        }
    }
}
