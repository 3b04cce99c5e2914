//! The one thread that talks to the remote, and who may ask it.
//!
//! Nothing is started before the first request. The thread drives a tokio runtime of its own, so that callers need none and may be in
//! one: they wait on a plain channel.
//!
//! A forked child has the memory of its parent and none of its threads: locks may be held for ever and connections are shared. So the
//! process that starts the thread owns it, and every other is sent away before it touches any lock. A child whose parent had not made a
//! request yet owns a thread of its own.

use std::future::Future;
use std::io;
use std::mem::ManuallyDrop;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// No process has this id.
const NOBODY: u32 = 0;

#[derive(Debug)]
pub(crate) struct Worker {
    owner: AtomicU32,
    thread: ManuallyDrop<OnceLock<Result<Thread, String>>>,
}

#[derive(Debug)]
struct Thread {
    handle: Handle,
    /// Dropping it ends the thread.
    _alive: oneshot::Sender<()>,
}

/// The thread belongs to another process.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Forked;

impl Worker {
    pub(crate) fn new() -> Self {
        Self { owner: AtomicU32::new(NOBODY), thread: ManuallyDrop::new(OnceLock::new()) }
    }

    /// Whether this process may use the worker, and whatever is locked beside it.
    pub(crate) fn claim(&self) -> Result<(), Forked> {
        let own = std::process::id();
        match self.owner.compare_exchange(NOBODY, own, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok(()),
            Err(owner) if owner == own => Ok(()),
            Err(_) => Err(Forked),
        }
    }

    /// Starts `work` in the background. To be called after [`claim`](Self::claim).
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) -> Result<(), String> {
        match self.thread.get_or_init(|| Thread::start().map_err(|error| error.to_string())) {
            Ok(thread) => {
                thread.handle.spawn(work);
                Ok(())
            }
            Err(error) => Err(error.clone()),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // A forked child leaves its copy as it is: ending the thread means waking it, and it is not there.
        let own = std::process::id();
        if *self.owner.get_mut() == own
            && let Some(thread) = self.thread.take()
        {
            drop(thread);
        }
    }
}

impl Thread {
    fn start() -> io::Result<Self> {
        // Host names are looked up in threads that cannot be given up, and entries are unpacked in them.
        let runtime = Builder::new_current_thread().enable_io().enable_time().max_blocking_threads(8).build()?;
        let handle = runtime.handle().clone();
        let (alive, ended) = oneshot::channel();
        std::thread::Builder::new().name("hipplan-remote".into()).spawn(move || {
            // It is never sent to: this returns when the other side is dropped.
            let _ = runtime.block_on(ended);
            // A host name that is still being looked up would hold this thread up.
            runtime.shutdown_background();
        })?;
        Ok(Self { handle, _alive: alive })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn answer(worker: &Worker) -> u32 {
        worker.claim().unwrap();
        let (send, receive) = mpsc::channel();
        worker.spawn(async move { send.send(7).unwrap() }).unwrap();
        receive.recv().unwrap()
    }

    #[test]
    fn it_works_from_any_thread_and_inside_another_runtime() {
        let worker = Worker::new();
        assert_eq!(answer(&worker), 7);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| assert_eq!(answer(&worker), 7));
            }
        });
        Builder::new_current_thread().build().unwrap().block_on(async { assert_eq!(answer(&worker), 7) });
    }

    #[test]
    fn another_process_is_sent_away() {
        let worker = Worker::new();
        worker.owner.store(std::process::id() + 1, Ordering::Release);
        assert_eq!(worker.claim(), Err(Forked));
        drop(worker);
    }

    #[test]
    fn dropping_it_ends_the_work() {
        let worker = Worker::new();
        worker.claim().unwrap();
        let (send, receive) = mpsc::channel::<()>();
        worker
            .spawn(async move {
                std::future::pending::<()>().await;
                drop(send);
            })
            .unwrap();
        drop(worker);
        assert_eq!(receive.recv(), Err(mpsc::RecvError), "the request is dropped with the runtime");
    }
}
