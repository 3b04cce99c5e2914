//! A fork-join thread pool that allocates nothing per call.
//!
//! Why not rayon: a parallel call from outside rayon's pool goes through an injector queue that allocates, and the
//! executor promises that an execute allocates nothing. A call here publishes one job in place and wakes the workers;
//! tasks are taken from one atomic counter. What a task computes never depends on the worker that runs it.

use crate::lock::lock;
use std::any::Any;
use std::cell::UnsafeCell;
use std::num::IntErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;

/// Spins of an idle worker, or of a caller that waits for the last task, before it sleeps.
const SPINS: u32 = 4_000;
/// Most threads that a pool starts.
const MAX_THREADS: usize = 256;
/// Bit of the state word: the job may be joined.
const OPEN: u64 = 1 << 31;
/// Low bits of the state word: workers inside the job.
const ACTIVE: u64 = OPEN - 1;
/// Step of the job number in the high half of the state word.
const EPOCH: u64 = 1 << 32;

type Task<'a> = dyn Fn(usize, usize) + Sync + 'a;

/// The published job. Written only by the caller that holds `busy`, while the state word is closed and no worker is inside.
struct Job {
    task: *const Task<'static>,
    tasks: usize,
}

struct Shared {
    job: UnsafeCell<Job>,
    state: AtomicU64,
    next: AtomicUsize,
    busy: AtomicBool,
    panicked: AtomicBool,
    stop: AtomicBool,
    sleep: Mutex<()>,
    work: Condvar,
    done: Condvar,
}

// SAFETY: `job` is written only while `busy` is held, the state word is closed and its active count is zero; workers
// read it only between a successful join (acquire) and their leave (release). Everything else is atomic or locked.
unsafe impl Sync for Shared {}
// SAFETY: the raw task pointer is only followed by a worker inside a job, during which its owner waits in `parallel_for`;
// the task itself is `Sync`.
unsafe impl Send for Shared {}

/// A pool of worker threads; the calling thread is worker 0.
pub struct ThreadPool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    pid: u32,
}

impl std::fmt::Debug for ThreadPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ThreadPool").field("threads", &self.threads()).finish()
    }
}

impl ThreadPool {
    /// The process-wide pool: as many threads as `HIPPLAN_CPU_THREADS` says (a larger number than 256 is 256), or if it
    /// says nothing, 0 or no number: as the machine offers, at most 256.
    pub fn global() -> &'static Arc<Self> {
        static GLOBAL: OnceLock<Arc<ThreadPool>> = OnceLock::new();
        GLOBAL.get_or_init(|| {
            let wanted = std::env::var("HIPPLAN_CPU_THREADS").ok().and_then(|text| wanted_threads(&text));
            let offered = || std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
            Arc::new(Self::new(wanted.unwrap_or_else(offered)))
        })
    }

    /// A pool that has no thread but the caller's, and starts none.
    pub(crate) fn caller_only() -> &'static Arc<Self> {
        static ALONE: OnceLock<Arc<ThreadPool>> = OnceLock::new();
        ALONE.get_or_init(|| Arc::new(Self::new(1)))
    }

    /// A pool of `threads` threads, the caller included; fewer if the system refuses some.
    pub fn new(threads: usize) -> Self {
        let idle: &Task<'static> = &|_, _| {};
        let shared = Arc::new(Shared {
            job: UnsafeCell::new(Job { task: idle, tasks: 0 }),
            state: AtomicU64::new(0),
            next: AtomicUsize::new(0),
            busy: AtomicBool::new(false),
            panicked: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            sleep: Mutex::new(()),
            work: Condvar::new(),
            done: Condvar::new(),
        });
        let mut workers = Vec::new();
        for worker in 1..threads.clamp(1, MAX_THREADS) {
            let shared = Arc::clone(&shared);
            let spawned = std::thread::Builder::new().name(format!("hipplan-cpu-{worker}")).spawn(move || shared.serve(worker));
            match spawned {
                Ok(handle) => workers.push(handle),
                Err(_) => break,
            }
        }
        Self { shared, workers, pid: std::process::id() }
    }

    /// Number of threads, the caller included: worker numbers are below it.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Calls `task(worker, index)` once for every `index` below `tasks` and returns when all have returned.
    ///
    /// No two tasks that run at the same time within one call get the same worker number. The caller runs the tasks
    /// alone (as worker 0) when the pool is busy with another call, or in a child made by `fork`, where the pool's
    /// threads do not exist.
    ///
    /// # Panics
    /// If a task panics, once every worker has left the job.
    pub fn parallel_for(&self, tasks: usize, task: &Task<'_>) {
        let alone = tasks <= 1
            || self.workers.is_empty()
            || self.pid != std::process::id()
            || self.shared.busy.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_err();
        if alone {
            for index in 0..tasks {
                task(0, index);
            }
            return;
        }
        let shared = &*self.shared;
        // SAFETY: only the lifetime changes. The pointer is followed only by workers inside this job, and this function
        // does not return before the job is closed and no worker is inside.
        let erased = unsafe { std::mem::transmute::<*const Task<'_>, *const Task<'static>>(std::ptr::from_ref(task)) };
        // SAFETY: `busy` is held, and the previous holder left the state word closed with no worker inside, so nobody
        // else reads or writes the job.
        unsafe { *shared.job.get() = Job { task: erased, tasks } };
        shared.next.store(0, Ordering::Relaxed);
        shared.panicked.store(false, Ordering::Relaxed);
        shared.state.fetch_add(EPOCH | OPEN, Ordering::Release);
        // The lock orders this wake-up behind a worker's last look at the state word.
        drop(shared.lock());
        shared.work.notify_all();
        let outcome = catch_unwind(AssertUnwindSafe(|| shared.drain(task, tasks, 0)));
        if outcome.is_err() {
            shared.next.store(tasks, Ordering::Relaxed);
        }
        shared.close();
        let panicked = shared.panicked.load(Ordering::Relaxed);
        shared.busy.store(false, Ordering::Release);
        match outcome {
            Err(payload) => resume_unwind(payload),
            Ok(()) => assert!(!panicked, "a task panicked on another worker"),
        }
    }
}

/// The number of threads that a text asks for: none if it is 0 or no number, the most there are if it is beyond any count.
fn wanted_threads(text: &str) -> Option<usize> {
    match text.trim().parse::<usize>() {
        Ok(0) => None,
        Ok(threads) => Some(threads.min(MAX_THREADS)),
        Err(error) => (*error.kind() == IntErrorKind::PosOverflow).then_some(MAX_THREADS),
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        if self.pid != std::process::id() {
            // In a forked child there is nothing to join.
            self.workers.drain(..).for_each(std::mem::forget);
            return;
        }
        self.shared.stop.store(true, Ordering::Release);
        drop(self.shared.lock());
        self.shared.work.notify_all();
        for worker in self.workers.drain(..) {
            let _: Result<(), Box<dyn Any + Send>> = worker.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, ()> {
        lock(&self.sleep)
    }

    /// Runs tasks until none is left.
    fn drain(&self, task: &Task<'_>, tasks: usize, worker: usize) {
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            if index >= tasks {
                return;
            }
            task(worker, index);
        }
    }

    /// Closes the job and waits until no worker is inside.
    fn close(&self) {
        let mut state = self.state.fetch_and(!OPEN, Ordering::AcqRel) & !OPEN;
        let mut spins = 0;
        while state & ACTIVE != 0 {
            if spins < SPINS {
                spins += 1;
                std::hint::spin_loop();
            } else {
                let guard = self.lock();
                if self.state.load(Ordering::Acquire) & ACTIVE != 0 {
                    drop(self.done.wait(guard).unwrap_or_else(PoisonError::into_inner));
                }
            }
            state = self.state.load(Ordering::Acquire);
        }
    }

    /// Enters the job if it is open and is not the one numbered `seen`; gives its number.
    fn join(&self, seen: u64) -> Option<u64> {
        let mut state = self.state.load(Ordering::Acquire);
        while state & OPEN != 0 && state / EPOCH != seen {
            match self.state.compare_exchange_weak(state, state + 1, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(state / EPOCH),
                Err(now) => state = now,
            }
        }
        None
    }

    /// The life of one worker.
    fn serve(&self, worker: usize) {
        let mut seen = u64::MAX;
        let mut spins = 0;
        while !self.stop.load(Ordering::Acquire) {
            let Some(epoch) = self.join(seen) else {
                if spins < SPINS {
                    spins += 1;
                    std::hint::spin_loop();
                    continue;
                }
                let guard = self.lock();
                let state = self.state.load(Ordering::Acquire);
                let idle = state & OPEN == 0 || state / EPOCH == seen;
                if idle && !self.stop.load(Ordering::Acquire) {
                    drop(self.work.wait(guard).unwrap_or_else(PoisonError::into_inner));
                }
                continue;
            };
            seen = epoch;
            spins = 0;
            // SAFETY: between `join` and the decrement below the active count is not zero, so the caller that published
            // the job has not returned from `parallel_for`: the job is not written and the task lives.
            let (task, tasks) = unsafe { (&*(*self.job.get()).task, (*self.job.get()).tasks) };
            if catch_unwind(AssertUnwindSafe(|| self.drain(task, tasks, worker))).is_err() {
                self.panicked.store(true, Ordering::Relaxed);
                self.next.store(tasks, Ordering::Relaxed);
            }
            let before = self.state.fetch_sub(1, Ordering::AcqRel);
            if before & (OPEN | ACTIVE) == 1 {
                drop(self.lock());
                self.done.notify_all();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_runs_once_for_any_number_of_threads() {
        for threads in [1, 2, 3, 8] {
            let pool = ThreadPool::new(threads);
            for tasks in [0, 1, 2, 7, 1000] {
                let counts: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
                pool.parallel_for(tasks, &|worker, index| {
                    assert!(worker < threads);
                    counts[index].fetch_add(1, Ordering::Relaxed);
                });
                assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1));
            }
        }
    }

    #[test]
    fn the_number_of_threads_is_read_with_care() {
        for (text, wanted) in
            [("1", Some(1)), (" 3\n", Some(3)), ("256", Some(256)), ("257", Some(256)), ("99999999999999999999999", Some(256))]
        {
            assert_eq!(wanted_threads(text), wanted);
        }
        for text in ["", "0", "-1", "two", "1.5", "0x2", "4 4"] {
            assert_eq!(wanted_threads(text), None);
        }
    }

    #[test]
    fn workers_wake_again_after_sleeping() {
        let pool = ThreadPool::new(2);
        for _ in 0..3 {
            std::thread::sleep(std::time::Duration::from_millis(20));
            let sum = AtomicUsize::new(0);
            pool.parallel_for(64, &|_, index| {
                sum.fetch_add(index, Ordering::Relaxed);
            });
            assert_eq!(sum.into_inner(), 64 * 63 / 2);
        }
    }

    #[test]
    fn many_callers_at_once() {
        let pool = ThreadPool::new(3);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..200 {
                        let sum = AtomicUsize::new(0);
                        pool.parallel_for(round, &|_, index| {
                            sum.fetch_add(index + 1, Ordering::Relaxed);
                        });
                        assert_eq!(sum.into_inner(), round * (round + 1) / 2);
                    }
                });
            }
        });
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_lives_on() {
        let pool = ThreadPool::new(2);
        for bad in [0, 5, 99] {
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                pool.parallel_for(100, &|_, index| assert_ne!(index, bad));
            }));
            assert!(outcome.is_err());
            let ran = AtomicUsize::new(0);
            pool.parallel_for(50, &|_, _| {
                ran.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(ran.into_inner(), 50);
        }
    }

    #[test]
    fn in_another_process_the_caller_runs_alone() {
        // What a forked child sees: a pool whose threads belong to another process.
        let mut pool = ThreadPool::new(3);
        pool.pid = 0;
        let ran = AtomicUsize::new(0);
        pool.parallel_for(9, &|worker, _| {
            assert_eq!(worker, 0);
            ran.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(ran.into_inner(), 9);
        drop(pool);
    }

    #[test]
    fn a_nested_call_runs_alone() {
        let pool = ThreadPool::new(2);
        let ran = AtomicUsize::new(0);
        pool.parallel_for(4, &|_, _| {
            pool.parallel_for(4, &|worker, _| {
                assert_eq!(worker, 0);
                ran.fetch_add(1, Ordering::Relaxed);
            });
        });
        assert_eq!(ran.into_inner(), 16);
    }
}
