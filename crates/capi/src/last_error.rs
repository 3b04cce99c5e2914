//! The calling thread's last failure, for C to read.

use crate::failure::Failure;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};

const NONE: &CStr = c"";

thread_local! {
    /// Freed when the thread ends.
    static LAST: RefCell<Option<CString>> = const { RefCell::new(None) };
}

/// Keeps a failure's text until this thread's next one. In a thread that is ending, nothing is kept.
pub(crate) fn keep(failure: Failure) {
    let mut text = failure.text.into_bytes();
    text.iter_mut().filter(|b| **b == 0).for_each(|b| *b = b' ');
    let text = CString::new(text).ok();
    let _ = LAST.try_with(|last| last.try_borrow_mut().map(|mut last| *last = text));
}

/// The text of this thread's last failure; it stays where it is until [`keep`].
pub(crate) fn text() -> *const c_char {
    let kept = LAST.try_with(|last| last.try_borrow().ok().and_then(|last| last.as_deref().map(CStr::as_ptr)));
    kept.ok().flatten().unwrap_or(NONE.as_ptr())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What C would read.
    fn read() -> String {
        // SAFETY: the text ends in zero and is not replaced meanwhile.
        unsafe { CStr::from_ptr(text()) }.to_string_lossy().into_owned()
    }

    #[test]
    fn every_thread_has_its_own() {
        assert_eq!(read(), "");
        keep(Failure::argument("a\0b"));
        assert_eq!(read(), "a b");
        std::thread::spawn(|| {
            assert_eq!(read(), "");
            keep(Failure::argument("other"));
            assert_eq!(read(), "other");
        })
        .join()
        .expect("the thread ends well");
        assert_eq!(read(), "a b");
    }
}
