//! One upkeep at a time, where that is to be had. It saves double work and nothing else.

use super::wait::Wait;
use crate::StoreError;
use crate::layer::Directory;
use crate::layout::LOCKS;
use crate::turn::{LockFile, describe};
use std::time::Duration;

/// Name of the lock file, in the folder of all lock files.
const UPKEEP: &str = "upkeep";

/// The lock of upkeep, held until it is dropped, or the process dies. A child that is forked meanwhile has no part in it.
#[derive(Debug)]
pub(super) struct Alone {
    lock: Option<LockFile>,
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
        let Ok(file) = LockFile::at(&folder.join(UPKEEP)) else { return Ok(Self::without()) };
        let mut wait = Wait::new(directory.root(), wait);
        let who = || describe(&file.text());
        loop {
            match file.try_lock() {
                Ok(true) => {
                    file.sign(None);
                    return Ok(Self { domain: file.domain(), lock: Some(file) });
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
        self.lock.as_ref().is_some_and(LockFile::is_ours)
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
