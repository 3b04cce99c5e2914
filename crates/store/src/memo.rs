//! What a process remembers to spare itself work, and can do without.

use crate::fork;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::Duration;

/// Tries to get at it, a pause apart: threads have it for well under a microsecond, unless the system stops one of them in the middle.
const YIELDS: u32 = 64;
const NAPS: u32 = 32;
const NAP: Duration = Duration::from_millis(1);

/// Something that threads share and nobody waits for without end: in the child of a fork it may be in use by a thread that the child does not
/// have.
#[derive(Debug, Default)]
pub(crate) struct Memo<T: Default> {
    value: Mutex<T>,
    /// Process that is known to have it to itself, 0 for none: the one that [made it](Self::of_this_process), or that got at it since.
    had_by: AtomicU64,
    /// Process that has waited for it in vain, 0 for none: it waits no more until it gets at it.
    gave_up: AtomicU64,
}

impl<T: Default> Memo<T> {
    /// One that [`get_for_sure`](Self::get_for_sure) is asked of. The others need not know whose they are.
    pub(crate) fn of_this_process() -> Self {
        Self { value: Mutex::default(), had_by: AtomicU64::new(fork::this_process()), gave_up: AtomicU64::new(0) }
    }

    /// The value, for what must not be missed because others are slow: a thread that has it and goes on is waited for as long as that
    /// takes. `None` only in the child of a fork, where it may be a thread of the parent that has it.
    pub(crate) fn get_for_sure(&self) -> Option<MutexGuard<'_, T>> {
        let process = fork::this_process();
        if self.had_by.load(Ordering::Relaxed) == process {
            return Some(self.value.lock().unwrap_or_else(PoisonError::into_inner));
        }
        let value = self.get()?;
        self.had_by.store(process, Ordering::Relaxed);
        Some(value)
    }

    /// The value; `None` where others have it, and keep it. Whoever has it does nothing else meanwhile.
    pub(crate) fn get(&self) -> Option<MutexGuard<'_, T>> {
        let value = self.try_get().or_else(|| self.wait())?;
        if self.gave_up.load(Ordering::Relaxed) != 0 {
            self.gave_up.store(0, Ordering::Relaxed);
        }
        Some(value)
    }

    fn try_get(&self) -> Option<MutexGuard<'_, T>> {
        match self.value.try_lock() {
            Ok(value) => Some(value),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    #[cold]
    fn wait(&self) -> Option<MutexGuard<'_, T>> {
        let process = fork::this_process();
        if self.gave_up.load(Ordering::Relaxed) == process {
            return None;
        }
        for number in 0..YIELDS.saturating_add(NAPS) {
            if number < YIELDS {
                thread::yield_now()
            } else {
                thread::sleep(NAP)
            }
            if let Some(value) = self.try_get() {
                return Some(value);
            }
        }
        self.gave_up.store(process, Ordering::Relaxed);
        None
    }
}

impl<T: Default> Drop for Memo<T> {
    fn drop(&mut self) {
        let_go(&mut self.value);
    }
}

/// Gives up what threads have shared. Nobody has it any more; where it is in use all the same, that is by a thread that the child of a fork does
/// not have, which may have stopped in the middle of a change: then it is left as it is.
pub(crate) fn let_go<T: Default>(shared: &mut Mutex<T>) {
    let is_in_use = matches!(shared.try_lock(), Err(TryLockError::WouldBlock));
    if is_in_use {
        mem::forget(mem::take(shared.get_mut().unwrap_or_else(PoisonError::into_inner)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_use_for_ever_is_not_waited_for_and_what_is_free_again_is_had() {
        let memo = Memo::<u32>::of_this_process();
        let kept = memo.get().unwrap();
        for _ in 0..3 {
            assert!(memo.get().is_none());
        }
        // In the child of a fork, as this one looks to it.
        memo.had_by.store(0, Ordering::Relaxed);
        assert!(memo.get_for_sure().is_none());
        drop(kept);
        *memo.get_for_sure().unwrap() += 1;
        assert_eq!(memo.had_by.load(Ordering::Relaxed), fork::this_process());
        // Who waits gets it from a thread that goes on.
        let held = std::sync::Barrier::new(2);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut value = memo.get().unwrap();
                held.wait();
                thread::yield_now();
                *value += 1;
            });
            held.wait();
            // Where the system stops it for long, more than once.
            let value = std::iter::repeat_with(|| memo.get()).find_map(|value| value);
            assert_eq!(*value.unwrap(), 2);
        });
        let poisoned = thread::scope(|scope| {
            let panics = scope.spawn(|| {
                let _value = memo.get();
                std::panic::resume_unwind(Box::new("a panic"));
            });
            panics.join()
        });
        assert!(poisoned.is_err() && memo.get().is_some() && memo.get_for_sure().is_some());
    }
}
