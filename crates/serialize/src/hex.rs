//! Hexadecimal digits of byte arrays.

use std::fmt;

/// Shows two lower-case digits for each byte.
pub(crate) struct Hex<'b>(pub(crate) &'b [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The bytes that exactly `2 * N` digits of either case spell.
pub(crate) fn decode<const N: usize>(mut digits: impl Iterator<Item = u8>) -> Option<[u8; N]> {
    let mut digit = || char::from(digits.next()?).to_digit(16);
    let mut bytes = [0; N];
    for byte in &mut bytes {
        *byte = (digit()? << 4 | digit()?) as u8;
    }
    digits.next().is_none().then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_bytes_and_back() {
        assert_eq!(Hex(&[0x00, 0x9a, 0xff]).to_string(), "009aff");
        assert_eq!(decode("009aFF".bytes()), Some([0x00, 0x9a, 0xff]));
        for bad in ["", "009af", "009aff0", "009aff00", "009afg", "+09aff", "009af\u{e9}"] {
            assert_eq!(decode::<3>(bad.bytes()), None, "{bad}");
        }
    }
}
