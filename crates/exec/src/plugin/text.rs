//! Texts that a plugin gives: never read beyond a limit, whatever they are.

use std::ffi::c_char;

/// Most bytes of a text that are read.
pub(super) const MAX_TEXT: usize = 4096;

/// The bytes before the zero, or the first [`MAX_TEXT`]; nothing at a null pointer.
///
/// # Safety
/// `text` is null, or points to bytes that can be read as far as a zero or [`MAX_TEXT`] of them, and that do not change during the call.
pub(super) unsafe fn bytes(text: *const c_char) -> Option<Vec<u8>> {
    if text.is_null() {
        return None;
    }
    // SAFETY: each byte is read only if none before it was zero, and no more than the limit, as the caller promised.
    let byte = |at: usize| unsafe { *text.cast::<u8>().add(at) };
    Some((0..MAX_TEXT).map(byte).take_while(|&b| b != 0).collect())
}

/// [`bytes`] as text of one line: without white space at its end, with replacements for what is not UTF-8, and with control characters as
/// escapes, so that it cannot move the cursor of a terminal or pretend to be lines of another; nothing at a null pointer.
///
/// # Safety
/// As of [`bytes`].
pub(super) unsafe fn lossy(text: *const c_char) -> String {
    // SAFETY: as the caller promised.
    let bytes = unsafe { bytes(text) }.unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let mut escaped = String::with_capacity(text.len());
    for c in text.trim_end().chars() {
        if c.is_control() { escaped.extend(c.escape_default()) } else { escaped.push(c) }
    }
    escaped
}

/// Most bytes of a name or a version, which are written into plans.
pub(super) const MAX_NAME: usize = 256;

/// [`bytes`] as a name.
///
/// # Errors
/// What it is in place of one.
///
/// # Safety
/// As of [`bytes`].
pub(super) unsafe fn name(text: *const c_char) -> Result<String, String> {
    // SAFETY: as the caller promised.
    let bytes = unsafe { bytes(text) }.ok_or_else(|| "a null pointer".to_owned())?;
    match String::from_utf8(bytes) {
        Ok(text) if text.is_empty() => Err("an empty text".to_owned()),
        Ok(text) if text.len() > MAX_NAME => Err(format!("a text of more than {MAX_NAME} bytes")),
        Ok(text) if text.chars().any(char::is_control) => Err(format!("{text:?}, which has control characters")),
        Ok(text) => Ok(text),
        Err(error) => Err(format!("{:?}, which is not UTF-8", String::from_utf8_lossy(error.as_bytes()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_ends_at_its_zero_or_at_the_limit() {
        // SAFETY: all texts are null or longer than what is read of them.
        unsafe {
            assert_eq!(bytes(std::ptr::null()), None);
            assert_eq!(lossy(std::ptr::null()), "");
            assert_eq!(lossy(c"abc".as_ptr()), "abc");
            assert_eq!(lossy(c"a\xffc".as_ptr()), "a\u{fffd}c");
            assert_eq!(lossy(c"a\x1b[2J\nb \r\n".as_ptr()), "a\\u{1b}[2J\\nb");
            let endless = [b'x'; MAX_TEXT];
            assert_eq!(lossy(endless.as_ptr().cast()).len(), MAX_TEXT);
        }
    }

    #[test]
    fn a_name_is_short_plain_text() {
        // SAFETY: as above.
        unsafe {
            assert_eq!(name(c"MIOPEN_ENGINE".as_ptr()), Ok("MIOPEN_ENGINE".to_owned()));
            for bad in [c"", c"a\nb", c"\xff"] {
                assert!(name(bad.as_ptr()).is_err(), "{bad:?}");
            }
            let mut long = [b'x'; MAX_NAME + 2];
            long[MAX_NAME] = 0;
            assert!(name(long.as_ptr().cast()).is_ok());
            long[MAX_NAME..].copy_from_slice(b"x\0");
            assert!(name(long.as_ptr().cast()).is_err());
            assert!(name(std::ptr::null()).is_err());
        }
    }
}
