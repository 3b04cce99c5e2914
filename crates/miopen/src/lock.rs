//! A lock for tables that are written rarely, which a fork leaves usable.
//!
//! A child of a process that forks while another thread holds a standard lock can never take that lock. These are taken before a fork and
//! released after it, on both sides, so that the child finds the tables whole.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

/// Something that [`hold_over_forks`] takes.
pub trait Held: Sync {
    /// Waits until the lock is free and takes it.
    fn acquire(&self);
    /// Gives it back.
    ///
    /// # Safety
    /// The caller has taken it with [`acquire`](Self::acquire).
    unsafe fn release(&self);
}

/// The lock. What runs under it is short and calls nothing of other libraries.
#[derive(Debug)]
pub struct ForkLock<T> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: `value` is reached only through a guard, and `taken` lets one guard exist at a time.
unsafe impl<T: Send> Sync for ForkLock<T> {}

impl<T> ForkLock<T> {
    /// A free lock around `value`.
    pub const fn new(value: T) -> Self {
        Self { taken: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Waits for the lock.
    pub fn lock(&self) -> Guard<'_, T> {
        self.take();
        Guard { lock: self, not_shared: PhantomData }
    }

    fn take(&self) {
        while self.taken.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            std::thread::yield_now();
        }
    }
}

impl<T: Send> Held for ForkLock<T> {
    fn acquire(&self) {
        self.take();
    }

    unsafe fn release(&self) {
        self.taken.store(false, Ordering::Release);
    }
}

/// The lock, taken.
#[derive(Debug)]
pub struct Guard<'a, T> {
    lock: &'a ForkLock<T>,
    /// A lock may be shared where its value may only be sent; a guard, which gives out the value, may not.
    not_shared: PhantomData<*const ()>,
}

// SAFETY: a shared guard gives out shared references to the value, and no more.
unsafe impl<T: Sync> Sync for Guard<'_, T> {}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this guard is the only one.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard is the only one.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.lock.taken.store(false, Ordering::Release);
    }
}

/// A lock for work that takes long and may call anything. It is not held over forks: what was locked in another process is what a fork has
/// left behind, whose thread is not in this one, and is taken over. What it guards must stand whole at every moment.
#[derive(Debug)]
pub struct ProcessLock {
    /// The process that has it; 0 for none.
    holder: AtomicI32,
}

impl ProcessLock {
    /// A free lock.
    pub const fn new() -> Self {
        Self { holder: AtomicI32::new(0) }
    }

    /// A lock as a fork of the process `holder` may leave it.
    #[cfg(test)]
    pub const fn left_by(holder: i32) -> Self {
        Self { holder: AtomicI32::new(holder) }
    }

    /// Waits for the lock, unless `found` has something already or in the meantime.
    ///
    /// # Errors
    /// What was found.
    pub fn lock_unless<T>(&self, mut found: impl FnMut() -> Option<T>) -> Result<ProcessGuard<'_>, T> {
        if let Some(found) = found() {
            return Err(found);
        }
        // SAFETY: always safe.
        let this = unsafe { libc::getpid() };
        loop {
            let holder = self.holder.load(Ordering::Acquire);
            if holder != this && self.holder.compare_exchange(holder, this, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_micros(50));
            if let Some(found) = found() {
                return Err(found);
            }
        }
        let guard = ProcessGuard { lock: self };
        match found() {
            Some(found) => Err(found),
            None => Ok(guard),
        }
    }
}

impl Default for ProcessLock {
    fn default() -> Self {
        Self::new()
    }
}

/// The lock, taken.
#[derive(Debug)]
pub struct ProcessGuard<'a> {
    lock: &'a ProcessLock,
}

impl Drop for ProcessGuard<'_> {
    fn drop(&mut self) {
        self.lock.holder.store(0, Ordering::Release);
    }
}

/// The locks that are held over forks, always taken in this order.
fn held() -> [&'static dyn Held; 3] {
    [crate::handles::writer(), crate::observe::notes(), crate::plans::writer()]
}

/// From now on, forks wait for these locks and leave them free in the child. Called once.
pub fn hold_over_forks() {
    extern "C" fn before() {
        for lock in held() {
            lock.acquire();
        }
    }
    extern "C" fn after() {
        for lock in held() {
            // SAFETY: `before` ran in this thread, and in a child this thread is what is left.
            unsafe { lock.release() };
        }
    }
    // SAFETY: the handlers neither unwind nor allocate. Without memory for them there is nothing to be done.
    unsafe { libc::pthread_atfork(Some(before), Some(after), Some(after)) };
}

#[cfg(test)]
mod tests {
    use super::ProcessLock;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    #[test]
    fn a_lock_that_a_fork_left_behind_is_taken_over() {
        let lock = ProcessLock::left_by(1);
        assert!(lock.lock_unless(|| None::<()>).is_ok());
        assert!(lock.lock_unless(|| None::<()>).is_ok(), "and given back");
        assert_eq!(lock.lock_unless(|| Some(7)).err(), Some(7));
    }

    #[test]
    fn one_thread_does_it_and_the_others_find_it() {
        let (lock, done) = (ProcessLock::new(), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    if let Ok(_guard) = lock.lock_unless(|| (done.load(Relaxed) != 0).then_some(())) {
                        std::thread::sleep(std::time::Duration::from_millis(2));
                        done.fetch_add(1, Relaxed);
                    }
                });
            }
        });
        assert_eq!(done.into_inner(), 1);
    }
}
