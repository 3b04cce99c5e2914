//! Words of C: enough of a lexer to tell declarations from comments, strings and preprocessor lines.
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable,
        reason = "the header is somebody else's"
    )
)]

use std::ops::Range;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An identifier or keyword.
    Word,
    /// A number, string or character.
    Literal,
    /// One punctuation character.
    Mark(u8),
    /// A preprocessor line, with its continuations.
    Directive,
}

/// A token and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) at: Range<usize>,
}

/// The tokens of a text. Whatever is not C becomes marks; an unfinished comment or string ends with the text or the line.
pub(super) fn tokens(text: &[u8]) -> Vec<Token> {
    let mut lexer = Lexer { text, at: 0 };
    let mut tokens = Vec::new();
    let mut at_line_start = true;
    while let Some(byte) = lexer.peek(0) {
        let start = lexer.at;
        let kind = match byte {
            b'\n' => {
                at_line_start = true;
                lexer.skip(1);
                continue;
            }
            _ if byte.is_ascii_whitespace() || byte == 0x0b => {
                lexer.skip(1);
                continue;
            }
            b'\\' if lexer.continuation().is_some() => {
                lexer.skip(lexer.continuation().unwrap_or(1));
                continue;
            }
            b'/' if matches!(lexer.peek(1), Some(b'/' | b'*')) => {
                lexer.comment();
                continue;
            }
            b'#' if at_line_start => {
                lexer.directive();
                Kind::Directive
            }
            b'"' | b'\'' => {
                lexer.quoted(byte);
                Kind::Literal
            }
            _ if is_word(byte) && !byte.is_ascii_digit() => {
                lexer.while_(is_word);
                Kind::Word
            }
            _ if byte.is_ascii_digit() => {
                lexer.while_(|b| is_word(b) || b == b'.' || b == b'\'');
                Kind::Literal
            }
            _ => {
                lexer.skip(1);
                Kind::Mark(byte)
            }
        };
        at_line_start = false;
        tokens.push(Token { kind, at: start..lexer.at });
    }
    tokens
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

struct Lexer<'t> {
    text: &'t [u8],
    at: usize,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> Option<u8> {
        self.text.get(self.at.checked_add(ahead)?).copied()
    }

    /// Moves on, at most to the end.
    fn skip(&mut self, bytes: usize) {
        self.at = self.at.saturating_add(bytes).min(self.text.len());
    }

    fn while_(&mut self, goes_on: impl Fn(u8) -> bool) {
        while self.peek(0).is_some_and(&goes_on) {
            self.skip(1);
        }
    }

    /// Bytes of a backslash that joins this line with the next.
    fn continuation(&self) -> Option<usize> {
        match (self.peek(0), self.peek(1), self.peek(2)) {
            (Some(b'\\'), Some(b'\n'), _) => Some(2),
            (Some(b'\\'), Some(b'\r'), Some(b'\n')) => Some(3),
            _ => None,
        }
    }

    fn comment(&mut self) {
        let is_block = self.peek(1) == Some(b'*');
        self.skip(2);
        while let Some(byte) = self.peek(0) {
            if is_block && byte == b'*' && self.peek(1) == Some(b'/') {
                self.skip(2);
                return;
            }
            if !is_block && byte == b'\n' {
                return;
            }
            self.skip(if is_block { 1 } else { self.continuation().unwrap_or(1) });
        }
    }

    /// A string or character, which does not go beyond its line.
    fn quoted(&mut self, quote: u8) {
        self.skip(1);
        while let Some(byte) = self.peek(0) {
            match byte {
                b'\n' => return,
                b'\\' => self.skip(self.continuation().unwrap_or(2)),
                _ => {
                    self.skip(1);
                    if byte == quote {
                        return;
                    }
                }
            }
        }
    }

    /// Up to the end of the line, comments and continued lines included.
    fn directive(&mut self) {
        while let Some(byte) = self.peek(0) {
            match byte {
                b'\n' => return,
                b'/' if self.peek(1) == Some(b'*') => self.comment(),
                b'/' if self.peek(1) == Some(b'/') => return,
                b'"' => self.quoted(byte),
                _ => self.skip(self.continuation().unwrap_or(1)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(Kind, &str)> {
        tokens(text.as_bytes()).into_iter().map(|token| (token.kind, &text[token.at])).collect()
    }

    #[test]
    fn comments_strings_and_directives_are_told_apart() {
        use Kind::*;
        assert_eq!(read("a/*b;*/c//d;\\\ne\nf"), [(Word, "a"), (Word, "c"), (Word, "f")]);
        assert_eq!(read("\"/*\\\"x\" 'a' 1.5e3f"), [(Literal, "\"/*\\\"x\""), (Literal, "'a'"), (Literal, "1.5e3f")]);
        assert_eq!(read(" # if A \\\n && B /* x\ny */ // z\nq"), [(Directive, "# if A \\\n && B /* x\ny */ "), (Word, "q")]);
        assert_eq!(read("a # b"), [(Word, "a"), (Mark(b'#'), "#"), (Word, "b")]);
        assert_eq!(read("\"open\n;"), [(Literal, "\"open"), (Mark(b';'), ";")]);
        assert_eq!(read("/* open"), []);
        assert_eq!(read("#define X \\"), [(Directive, "#define X \\")]);
    }
}
