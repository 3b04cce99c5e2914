//! One request, as it runs in the background thread.

use crate::breaker::{Breaker, Permit, after};
use crate::failure::Failure;
use crate::options::Options;
use crate::wrap;
use bytes::Bytes;
use futures_util::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use tokio::time::timeout_at;

/// What is taken for an answer before anything of it is there.
const FIRST_PIECES: u64 = 1 << 20;

/// What all requests share.
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) breaker: Breaker,
    pub(crate) options: Options,
    /// The service has turned out to have no put-if-absent.
    pub(crate) unconditional: AtomicBool,
}

/// Without the client: it holds credentials.
impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("breaker", &self.breaker).field("options", &self.options).finish_non_exhaustive()
    }
}

/// A request's time.
struct Clock<'a> {
    shared: &'a Shared,
    permit: Permit,
    start: Instant,
}

/// Keeps the account while a request is overdue, however it ends.
struct Overdue<'a>(&'a Breaker);

impl Drop for Overdue<'_> {
    fn drop(&mut self) {
        self.0.in_or_over(Instant::now());
    }
}

impl Clock<'_> {
    /// Waits for `work`, which belongs to a request that moves `bytes` in all: for its allowance, and then for as long as there is
    /// patience. Nobody has patience with a probe.
    async fn wait<T>(&self, bytes: u64, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        let mut work = pin!(work);
        let due = after(self.start, self.shared.options.allowance(bytes));
        if let Ok(result) = timeout_at(due.into(), &mut work).await {
            return result;
        }
        if self.permit == Permit::Wait {
            let now = Instant::now();
            let left = self.shared.breaker.overdue(now);
            let _overdue = Overdue(&self.shared.breaker);
            if let Ok(result) = timeout_at(after(now, left).into(), work).await {
                return result;
            }
        }
        Err(Failure::TimedOut { milliseconds: self.start.elapsed().as_millis() })
    }
}

/// The wrapped bytes of an entry; none where there is no such entry.
pub(crate) async fn get(shared: &Shared, permit: Permit, path: &Path, max: u64) -> Result<Option<Vec<u8>>, Failure> {
    let clock = Clock { shared, permit, start: Instant::now() };
    let asked = clock.wait(0, async {
        match shared.store.get(path).await {
            Ok(answer) => Ok(Some(answer)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(Failure::of_store(&error)),
        }
    });
    let Some(answer) = asked.await? else { return Ok(None) };
    let most = wrap::most(max);
    let size = answer.meta.size;
    if size > most {
        return Err(Failure::TooLarge { found: size, most });
    }
    let mut wrapped = Vec::with_capacity(usize::try_from(size.min(FIRST_PIECES)).unwrap_or_default());
    let mut pieces = answer.into_stream();
    loop {
        // What has come counts, not what was announced: a server that announces much and sends nothing costs no more than another.
        let so_far = wrapped.len() as u64;
        let piece = clock.wait(so_far, async { pieces.try_next().await.map_err(|error| Failure::of_store(&error)) }).await?;
        match piece {
            Some(piece) if so_far.saturating_add(piece.len() as u64) > size => {
                return Err(Failure::Announced { found: so_far.saturating_add(piece.len() as u64), announced: size });
            }
            Some(piece) => wrapped.extend_from_slice(&piece),
            None if so_far < size => return Err(Failure::Announced { found: so_far, announced: size }),
            None => return Ok(Some(wrapped)),
        }
    }
}

/// Sends an entry's wrapped bytes.
pub(crate) async fn put(shared: &Shared, permit: Permit, path: &Path, wrapped: Bytes, only_if_absent: bool) -> Result<(), Failure> {
    let clock = Clock { shared, permit, start: Instant::now() };
    let size = wrapped.len() as u64;
    let send = async |mode: PutMode| {
        let options = PutOptions { mode, ..PutOptions::default() };
        match shared.store.put_opts(path, wrapped.clone().into(), options).await {
            Ok(_) => Ok(()),
            Err(object_store::Error::AlreadyExists { .. }) if only_if_absent => Ok(()),
            Err(error) => Err(Failure::of_store(&error)),
        }
    };
    let work = async {
        if only_if_absent && !shared.unconditional.load(Ordering::Relaxed) {
            match send(PutMode::Create).await {
                // Entries are named by their content: replacing one by itself does no harm.
                Err(failure) if failure.is_unconditional() => shared.unconditional.store(true, Ordering::Relaxed),
                other => return other,
            }
        }
        send(PutMode::Overwrite).await
    };
    clock.wait(size, work).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::memory::InMemory;
    use std::time::Duration;

    /// What comes of waiting for an answer that takes so long.
    fn waited(takes: Duration, in_time: Duration, patience: Duration, permit: Permit) -> Result<u32, Failure> {
        let options = Options { in_time, patience, ..Options::default() };
        let breaker = Breaker::new(&options);
        let shared = Shared { store: Arc::new(InMemory::new()), breaker, options, unconditional: AtomicBool::new(false) };
        let clock = Clock { shared: &shared, permit, start: Instant::now() };
        let answer = async {
            tokio::time::sleep(takes).await;
            Ok(5)
        };
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(clock.wait(0, answer))
    }

    #[test]
    fn what_may_take_for_ever_is_waited_for() {
        let moment = Duration::from_millis(20);
        for long in [Duration::MAX, Duration::from_secs(u64::MAX / 2)] {
            assert!(matches!(waited(moment, long, Duration::ZERO, Permit::Probe), Ok(5)), "{long:?}");
            assert!(matches!(waited(moment, Duration::ZERO, long, Permit::Wait), Ok(5)), "{long:?}");
            assert!(matches!(waited(moment, long, long, Permit::Wait), Ok(5)), "{long:?}");
        }
        // Longer than a machine that is very busy takes to look whether the time is over.
        let hour = Duration::from_secs(3600);
        assert!(matches!(waited(hour, Duration::ZERO, Duration::ZERO, Permit::Wait), Err(Failure::TimedOut { .. })));
        assert!(matches!(waited(hour, Duration::ZERO, Duration::MAX, Permit::Probe), Err(Failure::TimedOut { .. })));
    }
}
