//! A lock for tables that are written rarely, which a fork leaves usable.
//!
//! A child of a process that forks while another thread holds a standard lock can never take that lock. These are taken before a fork and
//! released after it, on both sides, so that the child finds the tables whole.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};

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
        Guard { lock: self }
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
}

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
