//! Lines on standard error: one `write` a line, so that lines of several threads stay whole, and no allocation.

use crate::config;
use std::fmt::{Arguments, Write as _};

/// Longest line; what is longer ends in `...`.
const LINE: usize = 1024;

/// Text in place, cut where the room ends.
#[derive(Debug)]
pub struct Text<const N: usize> {
    bytes: [u8; N],
    len: usize,
    cut: bool,
}

impl<const N: usize> Text<N> {
    /// No text.
    pub const fn new() -> Self {
        Self { bytes: [0; N], len: 0, cut: false }
    }

    /// `arguments` as text; what does not fit is dropped, and `...` stands at the end.
    pub fn set(&mut self, arguments: Arguments<'_>) {
        (self.len, self.cut) = (0, false);
        // A Display that fails leaves what it has written so far.
        let _ = self.write_fmt(arguments);
        if self.cut {
            let end = self.len.min(N.saturating_sub(3));
            // Not within a character.
            let end = (0..=end).rev().find(|&at| std::str::from_utf8(&self.bytes[..at]).is_ok()).unwrap_or(0);
            for (place, dot) in self.bytes[end..].iter_mut().zip(*b"...") {
                *place = dot;
            }
            self.len = (end + 3).min(N);
        }
    }

    /// The text with a NUL behind it, for C; NULs in it become spaces. Valid as long as the text is not changed.
    pub fn as_c_str(&mut self) -> *const std::ffi::c_char {
        self.len = self.len.min(N.saturating_sub(1));
        for byte in &mut self.bytes[..self.len] {
            if *byte == 0 {
                *byte = b' ';
            }
        }
        self.bytes[self.len] = 0;
        self.bytes.as_ptr().cast()
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.len]).unwrap_or("")
    }
}

impl<const N: usize> Default for Text<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> std::fmt::Write for Text<N> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let room = &mut self.bytes[self.len..];
        let mut size = text.len().min(room.len());
        self.cut |= size < text.len();
        while !text.is_char_boundary(size) {
            size -= 1;
        }
        room[..size].copy_from_slice(&text.as_bytes()[..size]);
        self.len += size;
        Ok(())
    }
}

/// Writes `[hipplan] ` and the line, whatever the log level.
pub fn always(line: Arguments<'_>) {
    raw(format_args!("[hipplan] {line}"));
}

/// Writes a warning unless `MIOPEN_LOG_LEVEL` is 1 or 2.
pub fn warning(line: Arguments<'_>) {
    if !config::get().quiet() {
        raw(format_args!("[hipplan] warning: {line}"));
    }
}

/// Writes an error unless `MIOPEN_LOG_LEVEL` is 1 or 2.
pub fn error(line: Arguments<'_>) {
    if !config::get().quiet() {
        raw(format_args!("[hipplan] error: {line}"));
    }
}

/// Writes one line; line ends and NULs in it become spaces. A closed standard error is nobody's problem.
pub fn raw(line: Arguments<'_>) {
    let mut text = Text::<LINE>::new();
    text.set(line);
    let mut bytes = [b'\n'; LINE + 1];
    for (place, &byte) in bytes.iter_mut().zip(&text.bytes[..text.len]) {
        *place = if matches!(byte, 0 | b'\n') { b' ' } else { byte };
    }
    // Not by way of the standard library, whose lock a fork may leave taken for good.
    let mut rest = &bytes[..text.len + 1];
    while !rest.is_empty() {
        // SAFETY: the bytes are there.
        let written = unsafe { libc::write(libc::STDERR_FILENO, rest.as_ptr().cast(), rest.len()) };
        match usize::try_from(written) {
            Ok(written) if written > 0 => rest = rest.get(written..).unwrap_or_default(),
            _ if std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted => {}
            _ => return,
        }
    }
}

/// Once for each place that uses it.
#[macro_export]
macro_rules! once {
    ($($log:tt)+) => {{
        static DONE: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
        if !DONE.swap(true, std::sync::atomic::Ordering::Relaxed) {
            $($log)+
        }
    }};
}

#[cfg(test)]
mod tests {
    use super::Text;

    #[test]
    fn text_is_cut_between_characters() {
        let mut text = Text::<8>::new();
        text.set(format_args!("12345678"));
        assert_eq!(text.as_str(), "12345678");
        text.set(format_args!("123456789"));
        assert_eq!(text.as_str(), "12345...");
        text.set(format_args!("1234ääää"));
        assert_eq!(text.as_str(), "1234...");
        text.set(format_args!("{}{}", "ä", 1));
        assert_eq!(text.as_str(), "ä1");
    }
}
