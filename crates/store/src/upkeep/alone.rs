//! One upkeep at a time, where that is to be had. It saves double work and nothing else.

use crate::layer::Directory;
use crate::layout::LOCKS;
use crate::{StoreError, fs};
use std::time::{Duration, Instant};

/// Name of the lock file, in the folder of all lock files.
const UPKEEP: &str = "upkeep";
/// Time between two looks.
const NAP: Duration = Duration::from_millis(20);

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
        let start = Instant::now();
        let Ok(file) = fs::open_shared(&folder.join(UPKEEP), true) else { return Ok(Self::without()) };
        loop {
            match file.try_lock() {
                Ok(true) => return Ok(Self { domain: file.lock_domain(), lock: Some(file) }),
                Ok(false) if start.elapsed() < wait => std::thread::sleep(NAP),
                Ok(false) => {
                    tracing::info!(
                        store = %directory.root().display(),
                        waited_s = start.elapsed().as_secs(),
                        "other upkeep of this store is still at work; both go on"
                    );
                    return Ok(Self::without());
                }
                Err(_) => return Ok(Self::without()),
            }
        }
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
            // A copy of the descriptor in a child would keep it.
            let _ = file.unlock();
        }
    }
}
