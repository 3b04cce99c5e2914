//! The calling thread's last failure, for the host to read.

use std::cell::RefCell;
use std::ffi::c_char;

/// Bytes of the text with its zero: what the ABI recommends.
const ROOM: usize = 2048;

thread_local! {
    // Neither built lazily nor dropped: it costs no allocation, and works in a thread that is ending.
    static LAST: RefCell<[u8; ROOM]> = const { RefCell::new([0; ROOM]) };
}

/// Keeps a text until this thread's next failure. Zeros in it become spaces; what does not fit is cut at a character.
pub(crate) fn keep(text: &str) {
    LAST.with(|last| {
        let Ok(mut last) = last.try_borrow_mut() else { return };
        let cut = || (0..=ROOM - 4).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        let (end, tail) = if text.len() < ROOM { (text.len(), "") } else { (cut(), "...") };
        last.fill(0);
        let bytes = text.as_bytes()[..end].iter().map(|&byte| if byte == 0 { b' ' } else { byte });
        for (place, byte) in last.iter_mut().zip(bytes.chain(tail.bytes())) {
            *place = byte;
        }
    });
}

/// The text of this thread's last failure, "" if there was none. It stays where it is until [`keep`].
pub(crate) fn text() -> *const c_char {
    LAST.with(|last| last.as_ptr().cast_const().cast())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    /// What the host would read.
    fn read() -> String {
        // SAFETY: the text ends in zero, and nothing replaces it meanwhile.
        unsafe { CStr::from_ptr(text()) }.to_str().expect("UTF-8").to_owned()
    }

    #[test]
    fn every_thread_has_its_own() {
        assert_eq!(read(), "");
        keep("a\0b");
        assert_eq!(read(), "a b");
        std::thread::spawn(|| {
            assert_eq!(read(), "");
            keep("other");
            assert_eq!(read(), "other");
        })
        .join()
        .expect("the thread ends well");
        assert_eq!(read(), "a b");
        keep("");
        assert_eq!(read(), "");
    }

    #[test]
    fn it_is_cut_at_a_character() {
        keep(&"x".repeat(ROOM - 1));
        assert_eq!(read(), "x".repeat(ROOM - 1));
        keep(&"x".repeat(ROOM));
        assert_eq!(read(), "x".repeat(ROOM - 4) + "...");
        // Two bytes a character, the first at an odd place.
        keep(&("x".to_owned() + &"ä".repeat(ROOM)));
        assert_eq!(read(), "x".to_owned() + &"ä".repeat((ROOM - 5) / 2) + "...");
        keep("short");
        assert_eq!(read(), "short");
    }
}
