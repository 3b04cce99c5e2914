//! The boundary: no panic crosses it, and a failure becomes a status and a text.

use crate::failure::Failure;
use crate::{last_error, log};
use hipplan_engine_abi::status::{self, Status};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the body of a function of the ABI.
#[inline]
pub(crate) fn call(body: impl FnOnce() -> Result<(), Failure>) -> Status {
    // A context that panics loses the copy of its plan that it was executing; nothing else is left half done.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => status::SUCCESS,
        other => failed(other),
    }
}

#[cold]
fn failed(outcome: std::thread::Result<Result<(), Failure>>) -> Status {
    let failure = match outcome {
        Ok(Ok(())) => return status::SUCCESS,
        Ok(Err(failure)) => failure,
        Err(payload) => {
            let said = payload.downcast_ref::<&str>().map(|s| (*s).to_owned()).or_else(|| payload.downcast_ref::<String>().cloned());
            // Whatever it is, dropping it might panic again.
            std::mem::forget(payload);
            let said = said.unwrap_or_else(|| "without a text".to_owned());
            Failure::internal(format!("a defect of hipplan, please report it: panic: {said}"))
        }
    };
    last_error::keep(&failure.text);
    log::error(&failure.text);
    failure.status
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Loud;

    impl Drop for Loud {
        fn drop(&mut self) {
            panic!("again");
        }
    }

    #[test]
    fn a_panic_is_a_status() {
        let panicked = call(|| panic!("number {}", 7));
        let loud = call(|| std::panic::panic_any(Loud));
        assert_eq!((panicked, loud), (status::INTERNAL_ERROR, status::INTERNAL_ERROR));
        assert_eq!(call(|| Ok(())), status::SUCCESS);
        assert_eq!(call(|| Err(Failure::bad_param("no"))), status::BAD_PARAM);
    }
}
