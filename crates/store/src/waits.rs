//! How long others are waited for, at most.

#[cfg(any(test, feature = "testing"))]
pub use shortened::with_longest_wait;

#[cfg(any(test, feature = "testing"))]
pub(crate) use shortened::at_most;

/// A wait of this length.
#[cfg(not(any(test, feature = "testing")))]
pub(crate) fn at_most(wait: std::time::Duration) -> std::time::Duration {
    wait
}

#[cfg(any(test, feature = "testing"))]
mod shortened {
    use std::cell::Cell;
    use std::time::Duration;

    thread_local! {
        static LONGEST: Cell<Duration> = const { Cell::new(Duration::MAX) };
    }

    /// A wait of this length, or of that of the test.
    pub(crate) fn at_most(wait: Duration) -> Duration {
        LONGEST.get().min(wait)
    }

    /// Runs `body` with the puts of this thread waiting so long, at most, for what upkeep has taken away, and for others who write: where a
    /// test stops them.
    pub fn with_longest_wait<T>(wait: Duration, body: impl FnOnce() -> T) -> T {
        struct Restore(Duration);
        impl Drop for Restore {
            fn drop(&mut self) {
                LONGEST.set(self.0);
            }
        }
        let _restore = Restore(LONGEST.replace(wait));
        body()
    }
}
