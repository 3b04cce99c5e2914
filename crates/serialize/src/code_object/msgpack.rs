//! The part of MessagePack that metadata notes use, read in place. Takes no memory.

use super::error::CodeObjectError;

/// Deepest nesting that is skipped over. Notes of compilers go four deep.
const DEPTH: usize = 16;

/// A reader of one value after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// A value; of a map and a list: how many entries follow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'a> {
    Nil,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float,
    Text(&'a str),
    Bytes,
    List(u32),
    Map(u32),
}

impl Value<'_> {
    fn name(self) -> String {
        match self {
            Self::Nil => "nil".into(),
            Self::Bool(b) => b.to_string(),
            Self::Unsigned(n) => n.to_string(),
            Self::Signed(n) => n.to_string(),
            Self::Float => "a float".into(),
            // What is not ours to trust is not repeated at length.
            Self::Text(text) => format!("text {:?}", text.chars().take(64).collect::<String>()),
            Self::Bytes => "bytes".into(),
            Self::List(n) => format!("a list of {n}"),
            Self::Map(n) => format!("a map of {n}"),
        }
    }
}

/// 1, 2, 4, 8.
const fn width(power: u8) -> u64 {
    1 << (power & 3)
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Whether all was read.
    pub(super) fn is_done(&self) -> bool {
        self.at >= self.bytes.len()
    }

    fn fail(&self, found: impl Into<String>, expected: &'static str) -> CodeObjectError {
        CodeObjectError::Note { at: self.at, found: found.into(), expected }
    }

    fn take(&mut self, len: u64) -> Result<&'a [u8], CodeObjectError> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let taken = usize::try_from(len).ok().and_then(|len| rest.get(..len));
        let taken = taken.ok_or_else(|| self.fail(format!("{} bytes to the end", rest.len()), "the rest of a value"))?;
        self.at = self.at.saturating_add(taken.len());
        Ok(taken)
    }

    /// A big-endian number of `len` bytes, at most eight.
    fn number(&mut self, len: u64) -> Result<u64, CodeObjectError> {
        Ok(self.take(len)?.iter().fold(0, |n, &b| n << 8 | u64::from(b)))
    }

    fn length(&mut self, len: u64) -> Result<u32, CodeObjectError> {
        Ok(u32::try_from(self.number(len)?).unwrap_or(u32::MAX))
    }

    fn text(&mut self, len: u64) -> Result<Value<'a>, CodeObjectError> {
        let before = *self;
        let text = std::str::from_utf8(self.take(len)?);
        text.map(Value::Text).map_err(|_| before.fail("bytes that are not UTF-8", "a text"))
    }

    /// The next value; the entries of a list or a map are values that follow.
    pub(super) fn value(&mut self) -> Result<Value<'a>, CodeObjectError> {
        let before = *self;
        let first = self.take(1)?.first().copied().unwrap_or_default();
        let low = |mask: u8| u32::from(first & mask);
        Ok(match first {
            0x00..=0x7f => Value::Unsigned(first.into()),
            0x80..=0x8f => Value::Map(low(0x0f)),
            0x90..=0x9f => Value::List(low(0x0f)),
            0xa0..=0xbf => self.text(low(0x1f).into())?,
            0xc0 => Value::Nil,
            0xc2 => Value::Bool(false),
            0xc3 => Value::Bool(true),
            0xc4..=0xc6 => {
                let len = self.number(width(first & 3))?;
                self.take(len)?;
                Value::Bytes
            }
            0xca | 0xcb => {
                self.take(if first == 0xca { 4 } else { 8 })?;
                Value::Float
            }
            0xcc..=0xcf => Value::Unsigned(self.number(width(first & 3))?),
            0xd0 => Value::Signed(i8::from_be_bytes(self.array()?).into()),
            0xd1 => Value::Signed(i16::from_be_bytes(self.array()?).into()),
            0xd2 => Value::Signed(i32::from_be_bytes(self.array()?).into()),
            0xd3 => Value::Signed(i64::from_be_bytes(self.array()?)),
            0xd9..=0xdb => {
                let len = self.number(width((first & 3).wrapping_sub(1)))?;
                self.text(len)?
            }
            0xdc => Value::List(self.length(2)?),
            0xdd => Value::List(self.length(4)?),
            0xde => Value::Map(self.length(2)?),
            0xdf => Value::Map(self.length(4)?),
            0xe0..=0xff => Value::Signed(i8::from_be_bytes([first]).into()),
            0xc1 | 0xc7..=0xc9 | 0xd4..=0xd8 => return Err(before.fail(format!("type {first:#04x}"), "a value of a note")),
        })
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], CodeObjectError> {
        let before = *self;
        let bytes = self.take(N.try_into().unwrap_or(u64::MAX))?;
        bytes.try_into().map_err(|_| before.fail("too few bytes", "a number"))
    }

    /// Reads over the next value with all that is in it.
    pub(super) fn skip(&mut self) -> Result<(), CodeObjectError> {
        // How many values are left at each depth.
        let mut left = [0_u64; 1 + DEPTH];
        let mut depth = 0_usize;
        if let Some(slot) = left.first_mut() {
            *slot = 1;
        }
        loop {
            let Some(slot) = left.get_mut(depth) else { return Err(self.fail("values inside each other", "at most 16 levels")) };
            match slot.checked_sub(1) {
                Some(rest) => *slot = rest,
                None if depth == 0 => return Ok(()),
                None => {
                    depth = depth.saturating_sub(1);
                    continue;
                }
            }
            let inner = match self.value()? {
                Value::List(n) => n.into(),
                Value::Map(n) => u64::from(n).saturating_mul(2),
                _ => continue,
            };
            depth = depth.saturating_add(1);
            if let Some(slot) = left.get_mut(depth) {
                *slot = inner;
            }
        }
    }

    fn expect<T>(&mut self, expected: &'static str, read: impl FnOnce(Value<'a>) -> Option<T>) -> Result<T, CodeObjectError> {
        let before = *self;
        let value = self.value()?;
        read(value).ok_or_else(|| before.fail(value.name(), expected))
    }

    pub(super) fn map(&mut self) -> Result<u32, CodeObjectError> {
        self.expect("a map", |v| if let Value::Map(n) = v { Some(n) } else { None })
    }

    pub(super) fn list(&mut self) -> Result<u32, CodeObjectError> {
        self.expect("a list", |v| if let Value::List(n) = v { Some(n) } else { None })
    }

    pub(super) fn string(&mut self) -> Result<&'a str, CodeObjectError> {
        self.expect("a text", |v| if let Value::Text(text) = v { Some(text) } else { None })
    }

    pub(super) fn bool(&mut self) -> Result<bool, CodeObjectError> {
        self.expect("true or false", |v| if let Value::Bool(b) = v { Some(b) } else { None })
    }

    pub(super) fn u32(&mut self) -> Result<u32, CodeObjectError> {
        self.expect("a number from 0 to 4294967295", |v| match v {
            Value::Unsigned(n) => u32::try_from(n).ok(),
            Value::Signed(n) => u32::try_from(n).ok(),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(bytes: &[u8]) -> Result<Value<'_>, CodeObjectError> {
        let mut reader = Reader::new(bytes);
        let value = reader.value();
        assert!(value.is_err() || reader.is_done());
        value
    }

    #[test]
    fn values_of_every_form() {
        let cases: [(&[u8], Value<'_>); 24] = [
            (&[0x00], Value::Unsigned(0)),
            (&[0x7f], Value::Unsigned(127)),
            (&[0x82], Value::Map(2)),
            (&[0x93], Value::List(3)),
            (&[0xa2, b'h', b'i'], Value::Text("hi")),
            (&[0xc0], Value::Nil),
            (&[0xc2], Value::Bool(false)),
            (&[0xc3], Value::Bool(true)),
            (&[0xc4, 1, 9], Value::Bytes),
            (&[0xca, 0, 0, 0, 0], Value::Float),
            (&[0xcb, 0, 0, 0, 0, 0, 0, 0, 0], Value::Float),
            (&[0xcc, 200], Value::Unsigned(200)),
            (&[0xcd, 1, 0], Value::Unsigned(256)),
            (&[0xce, 1, 0, 0, 0], Value::Unsigned(1 << 24)),
            (&[0xcf, 255, 255, 255, 255, 255, 255, 255, 255], Value::Unsigned(u64::MAX)),
            (&[0xd0, 0xff], Value::Signed(-1)),
            (&[0xd1, 0xff, 0xfe], Value::Signed(-2)),
            (&[0xd2, 0xff, 0xff, 0xff, 0xfd], Value::Signed(-3)),
            (&[0xd3, 0x80, 0, 0, 0, 0, 0, 0, 0], Value::Signed(i64::MIN)),
            (&[0xd9, 1, b'x'], Value::Text("x")),
            (&[0xdc, 0, 1], Value::List(1)),
            (&[0xdf, 0, 0, 1, 0], Value::Map(256)),
            (&[0xe0], Value::Signed(-32)),
            (&[0xff], Value::Signed(-1)),
        ];
        for (bytes, value) in cases {
            assert_eq!(one(bytes), Ok(value), "{bytes:02x?}");
            for len in 0..bytes.len() {
                assert!(one(&bytes[..len]).is_err(), "{bytes:02x?}");
            }
        }
        for bytes in [&[0xc1][..], &[0xd4, 0, 0], &[0xc7, 0, 0], &[0xa1, 0xff], &[0xdb, 255, 255, 255, 255]] {
            assert!(one(bytes).is_err(), "{bytes:02x?}");
        }
    }

    #[test]
    fn skipping_is_bounded() {
        let skip = |bytes: &[u8]| {
            let mut reader = Reader::new(bytes);
            reader.skip().map(|()| reader.at)
        };
        assert_eq!(skip(&[0x82, 1, 0x92, 2, 3, 4, 0x80, 9]), Ok(7));
        assert_eq!(skip(&[[0x91; 16].as_slice(), &[0]].concat()), Ok(17));
        assert!(skip(&[[0x91; 17].as_slice(), &[0]].concat()).is_err());
        // Four thousand million values are promised, and none is there.
        assert!(skip(&[0xdd, 255, 255, 255, 255]).is_err());
        assert!(skip(&[0xdf, 255, 255, 255, 255, 0]).is_err());
    }
}
