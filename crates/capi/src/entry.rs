//! The boundary: no panic crosses it, and a failure becomes a status and a text.

use crate::failure::Failure;
use crate::last_error;
use crate::types::{HIPPLAN_INTERNAL, HIPPLAN_OK, hipplan_status_t};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the body of a function that answers a status.
#[inline]
pub(crate) fn status(body: impl FnOnce() -> Result<(), Failure>) -> hipplan_status_t {
    // What a body leaves half done on a panic is the arguments of one lane, which the next execution fills anew; every lock is taken
    // whether it is poisoned or not.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => HIPPLAN_OK,
        other => failed(other),
    }
}

/// Runs the body of a function that answers a value: `otherwise` where there is none.
pub(crate) fn value<T>(otherwise: T, body: impl FnOnce() -> Result<T, Failure>) -> T {
    let mut out = otherwise;
    status(|| {
        out = body()?;
        Ok(())
    });
    out
}

#[cold]
fn failed(outcome: std::thread::Result<Result<(), Failure>>) -> hipplan_status_t {
    let failure = match outcome {
        Ok(Ok(())) => return HIPPLAN_OK,
        Ok(Err(failure)) => failure,
        Err(payload) => {
            let said = payload.downcast_ref::<&str>().map(|s| (*s).to_owned()).or_else(|| payload.downcast_ref::<String>().cloned());
            // Whatever it is, dropping it might panic again.
            std::mem::forget(payload);
            let said = said.unwrap_or_else(|| "without a text".to_owned());
            Failure::new(HIPPLAN_INTERNAL, format!("a defect of hipplan, please report it: panic: {said}"))
        }
    };
    let status = failure.status;
    last_error::keep(failure);
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_status() {
        let panicked = status(|| panic!("number {}", 7));
        let dropped = value(3, || std::panic::panic_any(Loud));
        assert_eq!((panicked, dropped), (HIPPLAN_INTERNAL, 3));
    }

    struct Loud;

    impl Drop for Loud {
        fn drop(&mut self) {
            panic!("again");
        }
    }
}
